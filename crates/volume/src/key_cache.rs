// SPDX-License-Identifier: MIT OR Apache-2.0
//! Derived keys that are kept in memory, for programs that open many volumes with one secret.

use std::sync::{Mutex, MutexGuard, PoisonError};

use luxor_engine::SecretBytes;
use subtle::ConstantTimeEq;

use crate::pbkdf::{DeriveError, Kdf};

/// As many keys are kept. Each takes two pages of locked memory.
const KEPT: usize = 64;

/// Keeps the keys that were derived, so that volumes whose keyslots share secret, salt and costs
/// ([`PbkdfOptions::kdf`](crate::PbkdfOptions::kdf)) need one derivation together.
///
/// The secrets and keys are wiped when the cache is dropped, and in forked processes.
#[derive(Debug, Default)]
pub struct KeyCache(Mutex<Vec<Derived>>);

#[derive(Debug)]
struct Derived {
    kdf: Kdf,
    secret: SecretBytes,
    key: SecretBytes,
}

impl KeyCache {
    /// As [`Kdf::derive`], unless the key is known. Other threads wait meanwhile: a second derivation
    /// at the same time would take as much memory again.
    ///
    /// # Errors
    /// Those of [`Kdf::derive`].
    pub fn derive(&self, kdf: &Kdf, secret: &[u8], out: &mut [u8]) -> Result<(), DeriveError> {
        let mut known = self.known();
        let found = known
            .iter()
            .find(|known| known.kdf == *kdf && known.key.len() == out.len() && known.is_of(secret));
        if let Some(found) = found {
            out.copy_from_slice(found.key.expose());
            return Ok(());
        }
        kdf.derive(secret, out)?;
        if known.len() == KEPT {
            known.remove(0);
        }
        known.push(Derived {
            kdf: kdf.clone(),
            secret: SecretBytes::copy_of(secret),
            key: SecretBytes::copy_of(out),
        });
        Ok(())
    }

    /// Locks the keys, without those that a fork has wiped.
    fn known(&self) -> MutexGuard<'_, Vec<Derived>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|known| !known.secret.is_lost() && !known.key.is_lost());
        known
    }
}

impl Derived {
    fn is_of(&self, secret: &[u8]) -> bool {
        self.secret.expose().ct_eq(secret).into()
    }
}
