// SPDX-License-Identifier: MIT OR Apache-2.0
//! Key derivation: PBKDF2 (RFC 8018) and Argon2 (RFC 9106), and the limits that a keyslot's costs
//! must meet before anything is computed or allocated.
//!
//! Argon2 runs on threads of its own, not on the global pool of its crate. That pool panics if the
//! system cannot start threads, which is the first thing to fail when memory is short.

use std::{fmt, num::NonZeroUsize, thread};

use argon2::{Algorithm, Argon2, Block, Params, Version};
use luxor_secret::with_key_stack;
use rayon::{ThreadPool, ThreadPoolBuilder};
use zeroize::Zeroize;

use crate::{
    brief::brief,
    hash::HashAlgorithm,
    memory::{self, AvailableMemory, MemoryBound},
};

/// The default limit on the memory of Argon2 in KiB: 4 GiB, the most that cryptsetup creates.
pub const DEFAULT_MEMORY_LIMIT_KIB: u64 = 4 << 20;

/// The default limit on the iterations of PBKDF2, with SHA-256 and for 64 bytes of output. With
/// another hash or length the limit is as many iterations as cost the same. They take about 20
/// seconds on a core with SHA extensions and a minute on one without: ten times what cryptsetup
/// creates for two seconds.
pub const DEFAULT_ITERATIONS_LIMIT: u64 = 50_000_000;

/// The default limit on the work of Argon2 (memory times passes) in KiB: 64 GiB, about half a
/// minute on two cores.
pub const DEFAULT_ARGON2_WORK_KIB: u64 = 64 << 20;

/// The number of passes that every Argon2 keyslot may ask for, whatever its memory.
pub const MIN_ARGON2_PASSES: u64 = 4;

/// The greatest number of lanes that Argon2 supports.
pub const MAX_LANES: u32 = Params::MAX_P_COST;

/// A kind of key derivation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PbkdfKind {
    /// Argon2id, cryptsetup's default.
    #[default]
    Argon2id,
    /// Argon2i.
    Argon2i,
    /// PBKDF2 with HMAC. It needs no memory, and is weak against special hardware.
    Pbkdf2,
}

impl PbkdfKind {
    /// All kinds, for tests and tables.
    pub const ALL: [Self; 3] = [Self::Argon2id, Self::Argon2i, Self::Pbkdf2];

    /// Returns the kind with this name, if there is one.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The name in LUKS2 metadata and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Argon2id => "argon2id",
            Self::Argon2i => "argon2i",
            Self::Pbkdf2 => "pbkdf2",
        }
    }
}

impl fmt::Display for PbkdfKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A variant of Argon2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Argon2Kind {
    /// Argon2i: its memory accesses do not depend on the secret.
    I,
    /// Argon2id: like Argon2i for half of the first pass, then dependent on the secret.
    Id,
}

impl Argon2Kind {
    fn algorithm(self) -> Algorithm {
        match self {
            Self::I => Algorithm::Argon2i,
            Self::Id => Algorithm::Argon2id,
        }
    }
}

/// The derivation of the key of a keyslot's area from a secret, with all its parameters as the
/// metadata record them. They may come from an untrusted volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kdf {
    /// PBKDF2 with HMAC.
    Pbkdf2 {
        /// The name of the hash in the metadata. It may be one that [`HashAlgorithm::by_name`] does
        /// not know.
        hash: String,
        /// The number of iterations, at least 1.
        iterations: u32,
        /// The salt.
        salt: Vec<u8>,
    },
    /// Argon2, version 1.3.
    Argon2 {
        /// The variant.
        kind: Argon2Kind,
        /// The number of passes over the memory, at least 1.
        time: u32,
        /// The memory in KiB, at least 8 times `parallel`.
        memory_kib: u32,
        /// The number of lanes, at least 1.
        parallel: u32,
        /// The salt.
        salt: Vec<u8>,
    },
}

impl Kdf {
    /// The kind of key derivation.
    #[must_use]
    pub fn kind(&self) -> PbkdfKind {
        match self {
            Self::Pbkdf2 { .. } => PbkdfKind::Pbkdf2,
            Self::Argon2 {
                kind: Argon2Kind::I,
                ..
            } => PbkdfKind::Argon2i,
            Self::Argon2 {
                kind: Argon2Kind::Id,
                ..
            } => PbkdfKind::Argon2id,
        }
    }

    /// Checks the costs of deriving `len` bytes against the limits. `memory_limit_kib` is for
    /// Argon2, `iterations_limit` for the iterations of PBKDF2 and the passes of Argon2.
    ///
    /// `None` is the default: [`DEFAULT_MEMORY_LIMIT_KIB`]; for PBKDF2 as many iterations as cost
    /// the same as [`DEFAULT_ITERATIONS_LIMIT`] of SHA-256; for Argon2 as many passes as amount to
    /// [`DEFAULT_ARGON2_WORK_KIB`], and at least 4.
    ///
    /// # Errors
    /// [`CostError`]: a cost exceeds its limit.
    pub fn check_limits(
        &self,
        len: usize,
        memory_limit_kib: Option<u64>,
        iterations_limit: Option<u64>,
    ) -> Result<(), CostError> {
        match self {
            Self::Pbkdf2 {
                hash, iterations, ..
            } => check_iterations(hash, len, *iterations, iterations_limit),
            &Self::Argon2 {
                time, memory_kib, ..
            } => {
                let limit_kib = memory_limit_kib.unwrap_or(DEFAULT_MEMORY_LIMIT_KIB);
                if u64::from(memory_kib) > limit_kib {
                    return Err(CostError::Memory {
                        kib: memory_kib.into(),
                        limit_kib,
                    });
                }
                // Every keyslot may have `MIN_ARGON2_PASSES`, so raising the memory limit alone is
                // enough.
                let passes = DEFAULT_ARGON2_WORK_KIB / u64::from(memory_kib).max(1);
                let passes = passes.max(MIN_ARGON2_PASSES);
                let limit = iterations_limit.unwrap_or(passes);
                if u64::from(time) > limit {
                    return Err(CostError::Passes {
                        time,
                        memory_kib,
                        limit,
                    });
                }
                Ok(())
            }
        }
    }

    /// Derives a key of `out.len()` bytes from the secret, and fills `out` with it. Slow on
    /// purpose. It checks no limits: for an untrusted volume call [`Kdf::check_limits`] or
    /// [`Budget::take`](crate::Budget::take) first.
    ///
    /// # Errors
    /// [`DeriveError`]: the hash is not supported; Argon2 does not accept the costs, the length of
    /// the salt (at least 8 bytes) or that of `out` (at least 4); or memory is short. `out` is then
    /// unspecified.
    pub fn derive(&self, secret: &[u8], out: &mut [u8]) -> Result<(), DeriveError> {
        match self {
            Self::Pbkdf2 {
                hash,
                iterations,
                salt,
            } => {
                HashAlgorithm::by_name(hash)
                    .ok_or_else(|| DeriveError::Hash { name: hash.clone() })?
                    .pbkdf2(secret, salt, *iterations, out);
                Ok(())
            }
            Self::Argon2 {
                kind,
                time,
                memory_kib,
                parallel,
                salt,
            } => {
                require_memory(u64::from(*memory_kib), memory::available())?;
                let parameters = Params::new(*memory_kib, *time, *parallel, Some(out.len()))
                    .map_err(|error| DeriveError::Argon2 {
                        message: error.to_string(),
                    })?;
                let threads = threads(*parallel)?;
                let mut memory = WorkMemory::new(parameters.block_count(), *memory_kib)?;
                let argon2 = Argon2::new(kind.algorithm(), Version::V0x13, parameters);
                threads
                    .install(|| {
                        argon2.hash_password_into_with_memory(secret, salt, out, &mut memory.0)
                    })
                    .map_err(|error| DeriveError::Argon2 {
                        message: error.to_string(),
                    })
            }
        }
    }
}

/// Checks the iterations of PBKDF2 for `len` bytes against `limit`; `None` is the default limit.
///
/// # Errors
/// [`CostError::Iterations`]: they exceed the limit.
pub fn check_iterations(
    hash: &str,
    len: usize,
    iterations: u32,
    limit: Option<u64>,
) -> Result<(), CostError> {
    let limit = limit.unwrap_or_else(|| default_iterations_limit(hash, len));
    if u64::from(iterations) > limit {
        return Err(CostError::Iterations {
            iterations,
            hash: hash.into(),
            len,
            limit,
        });
    }
    Ok(())
}

/// Returns the iterations with `hash` for `len` bytes that cost as much as
/// [`DEFAULT_ITERATIONS_LIMIT`] with SHA-256 for 64 bytes. PBKDF2 runs all iterations once for each
/// block of output. A hash that is not supported gets the limit of SHA-256; nothing can be derived
/// with it.
pub fn default_iterations_limit(hash: &str, len: usize) -> u64 {
    let cost = |hash: HashAlgorithm, len: usize| {
        hash.iteration_cost() * len.div_ceil(hash.output_len()).max(1) as u64
    };
    let all = DEFAULT_ITERATIONS_LIMIT * cost(HashAlgorithm::Sha256, 64);
    let hash = HashAlgorithm::by_name(hash).unwrap_or(HashAlgorithm::Sha256);
    all / cost(hash, len)
}

fn require_memory(needed_kib: u64, available: Option<AvailableMemory>) -> Result<(), DeriveError> {
    match available {
        Some(AvailableMemory { kib, bound }) if needed_kib > kib => Err(DeriveError::Memory {
            needed_kib,
            available_kib: kib,
            bound,
        }),
        _ => Ok(()),
    }
}

/// Makes threads for Argon2's lanes, at most one per CPU. Rayon's global pool, which Argon2 would
/// use otherwise, panics if the system cannot start its threads.
fn threads(lanes: u32) -> Result<ThreadPool, DeriveError> {
    let cpus = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    ThreadPoolBuilder::new()
        .num_threads(usize::try_from(lanes).map_or(cpus, |lanes| lanes.min(cpus)))
        // The stack of each thread is locked when it starts and wiped when it ends.
        .start_handler(|_| with_key_stack(|| ()))
        .exit_handler(|_| with_key_stack(|| ()))
        .build()
        .map_err(|error| DeriveError::Threads {
            message: error.to_string(),
        })
}

/// The memory of Argon2. It is wiped on drop, because it is derived from the secret.
struct WorkMemory(Vec<Block>);

impl WorkMemory {
    fn new(blocks: usize, kib: u32) -> Result<Self, DeriveError> {
        let mut memory = Vec::new();
        memory
            .try_reserve_exact(blocks)
            .map_err(|_| DeriveError::Allocation {
                needed_kib: kib.into(),
            })?;
        memory.resize(blocks, Block::new());
        Ok(Self(memory))
    }
}

impl Drop for WorkMemory {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// A cost exceeds the limit for untrusted volumes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CostError {
    /// The memory of Argon2.
    #[error("it asks for {kib} KiB of memory, more than the limit of {limit_kib} KiB")]
    Memory {
        /// The memory of the keyslot in KiB.
        kib: u64,
        /// The limit in KiB.
        limit_kib: u64,
    },
    /// The passes of Argon2.
    #[error(
        "it asks for {time} passes over {memory_kib} KiB of memory, but the limit for that much \
         is {limit}"
    )]
    Passes {
        /// The passes of the keyslot.
        time: u32,
        /// The memory of the keyslot in KiB.
        memory_kib: u32,
        /// The limit.
        limit: u64,
    },
    /// The iterations of PBKDF2.
    #[error(
        "it asks for {iterations} iterations of {} for {len} bytes, more than the limit of {limit} \
         for these",
        brief(hash)
    )]
    Iterations {
        /// The iterations of the keyslot or digest.
        iterations: u32,
        /// The name of the hash in the metadata.
        hash: String,
        /// The number of bytes that are derived.
        len: usize,
        /// The limit.
        limit: u64,
    },
    /// The total of all keyslots and digests.
    #[error(
        "it costs {cost}% of the limit for one keyslot, and of the {limit}% for all keyslots and \
         digests together {spent}% are used already"
    )]
    Total {
        /// The cost of this keyslot with its digest, or of this digest, in percent of the most that
        /// one keyslot may cost.
        cost: u64,
        /// The costs before, in the same unit.
        spent: u64,
        /// The limit, in the same unit.
        limit: u64,
    },
}

/// Why no key could be derived.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeriveError {
    /// Argon2 needs more memory than is available.
    #[error(
        "Argon2 needs {needed_kib} KiB of memory, but only {available_kib} KiB are available, \
         limited by {bound}. Free memory, raise that limit, or use a machine with more memory"
    )]
    Memory {
        /// The needed memory in KiB.
        needed_kib: u64,
        /// The available memory in KiB.
        available_kib: u64,
        /// The bound that limits it.
        bound: MemoryBound,
    },
    /// The system refused the memory, although enough seemed available.
    #[error(
        "Argon2 needs {needed_kib} KiB of memory, but the system refused it. Free memory, or use a \
         machine with more"
    )]
    Allocation {
        /// The needed memory in KiB.
        needed_kib: u64,
    },
    /// The system cannot start threads. Their stacks need memory too.
    #[error(
        "Argon2 needs threads, but the system cannot start any: {message}. Raise the limit on \
         memory"
    )]
    Threads {
        /// The system's message.
        message: String,
    },
    /// The hash is not supported by this version.
    #[error(
        "its hash is {}; this version supports {}",
        brief(name),
        HashAlgorithm::NAMES
    )]
    Hash {
        /// The name of the hash.
        name: String,
    },
    /// Argon2 does not accept the costs.
    #[error("Argon2 cannot work with its parameters: {message}")]
    Argon2 {
        /// The library's message.
        message: String,
    },
}

impl DeriveError {
    /// Returns whether more memory would help.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        matches!(
            self,
            Self::Memory { .. } | Self::Allocation { .. } | Self::Threads { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argon2(time: u32, memory_kib: u32) -> Kdf {
        Kdf::Argon2 {
            kind: Argon2Kind::Id,
            time,
            memory_kib,
            parallel: 1,
            salt: vec![2; 16],
        }
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    /// RFC 7914, section 11: PBKDF2-HMAC-SHA-256 of "passwd" and "salt".
    #[test]
    fn pbkdf2_agrees_with_rfc_7914() {
        let kdf = Kdf::Pbkdf2 {
            hash: "sha256".into(),
            iterations: 1,
            salt: b"salt".to_vec(),
        };
        let mut out = [0; 64];
        kdf.derive(b"passwd", &mut out).unwrap();
        assert_eq!(
            hex(&out),
            "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc\
             49ca9cccf179b645991664b39d77ef317c71b845b1e30bd509112041d3a19783"
        );
    }

    #[test]
    fn too_much_memory_is_an_error_with_no_allocation() {
        let bound = MemoryBound::ControlGroup;
        let available = Some(AvailableMemory { kib: 1000, bound });
        assert_eq!(require_memory(1000, available), Ok(()));
        let error = require_memory(1001, available).unwrap_err();
        assert!(error.is_out_of_memory());
        let words = error.to_string();
        for word in ["1001 KiB", "1000 KiB", "control group"] {
            assert!(words.contains(word), "{words}");
        }
        let mut out = [0; 32];
        let error = argon2(1, u32::MAX).derive(b"x", &mut out).unwrap_err();
        // The check comes before the allocation, which the system might permit and then fail to
        // back.
        assert!(matches!(error, DeriveError::Memory { .. }), "{error}");
    }

    #[test]
    fn hostile_costs_are_held_to_the_limits() {
        let ok = |kdf: &Kdf| kdf.check_limits(64, None, None).is_ok();
        assert!(ok(&argon2(4, 1 << 20)) && ok(&argon2(16, 4 << 20)));
        let error = argon2(4, 100 << 20)
            .check_limits(64, None, None)
            .unwrap_err();
        assert_eq!(
            error,
            CostError::Memory {
                kib: 100 << 20,
                limit_kib: 4 << 20
            }
        );
        let error = argon2(17, 4 << 20)
            .check_limits(64, None, None)
            .unwrap_err();
        assert!(
            matches!(error, CostError::Passes { time: 17, .. }),
            "{error}"
        );
        assert!(argon2(17, 4 << 20).check_limits(64, None, Some(17)).is_ok());
        assert!(
            argon2(4, 100 << 20)
                .check_limits(64, Some(100 << 20), Some(4))
                .is_ok()
        );

        let pbkdf2 = |iterations| Kdf::Pbkdf2 {
            hash: "sha256".into(),
            iterations,
            salt: vec![],
        };
        assert!(ok(&pbkdf2(50_000_000)));
        let error = pbkdf2(1_000_000_000)
            .check_limits(64, None, None)
            .unwrap_err();
        assert!(
            matches!(
                error,
                CostError::Iterations {
                    iterations: 1_000_000_000,
                    ..
                }
            ),
            "{error}"
        );
        assert!(
            pbkdf2(1_000_000_000)
                .check_limits(64, None, Some(1_000_000_000))
                .is_ok()
        );
    }
}
