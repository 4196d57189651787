// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a caller permits an attempt to unlock a volume.

use std::sync::Arc;

use crate::{budget::CostLimits, key_cache::KeyCache};

/// Options for unlocking a volume.
#[derive(Clone, Debug, Default)]
pub struct UnlockOptions {
    /// The keyslots to try, whatever their priority. Empty: all except those of priority "ignore".
    pub keyslots: Vec<u32>,
    /// The most memory in KiB that a keyslot may ask for. `None`:
    /// [`DEFAULT_MEMORY_LIMIT_KIB`](crate::DEFAULT_MEMORY_LIMIT_KIB).
    pub memory_limit_kib: Option<u64>,
    /// The most iterations that a keyslot or digest may ask for. For digests, a value below the
    /// default has no effect.
    ///
    /// `None`: for PBKDF2 as many as cost the same as
    /// [`DEFAULT_ITERATIONS_LIMIT`](crate::DEFAULT_ITERATIONS_LIMIT) iterations of SHA-256 for 64
    /// bytes; for Argon2 as many passes as amount to
    /// [`DEFAULT_ARGON2_WORK_KIB`](crate::DEFAULT_ARGON2_WORK_KIB) with the keyslot's memory, and
    /// at least 4.
    ///
    /// All keyslots that are tried and all digests that are computed may together cost one and a
    /// half times as much as one keyslot at the limits.
    pub iterations_limit: Option<u64>,
    /// Whether an XTS volume key with equal halves is accepted (FIPS 140-3 IG C.I forbids them).
    pub allow_weak_key: bool,
    /// The keys that are known already.
    pub cache: Option<Arc<KeyCache>>,
}

impl UnlockOptions {
    /// The limits for each key derivation.
    #[must_use]
    pub fn limits(&self) -> CostLimits {
        CostLimits {
            memory_kib: self.memory_limit_kib,
            iterations: self.iterations_limit,
        }
    }
}
