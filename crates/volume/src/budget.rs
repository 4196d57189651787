// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an attempt to open a volume may cost in all: 32 keyslots, each at the limit for
//! one, would take a quarter of an hour.
//!
//! Keyslots by PBKDF2 and by Argon2, their digests and the digest of a re-encryption are
//! paid for from one purse. Its coin is a share of the most that one keyslot may cost:
//! PBKDF2's iterations count by the hash and by the blocks of output, Argon2's passes by
//! the memory.

use crate::pbkdf::{
    CostError, DEFAULT_ARGON2_WORK_KIB, DEFAULT_MEMORY_LIMIT_KIB, Kdf, MIN_ARGON2_PASSES,
    default_iterations_limit,
};

/// What the dearest keyslot costs that is computed unasked.
const KEYSLOT: u64 = 1 << 40;

/// What all may cost: such a keyslot, and for its digest as many iterations of SHA-256
/// as for the keyslot's 64 bytes, which are two blocks.
const ALL: u64 = KEYSLOT / 2 * 3;

/// What each key derivation is held to; the default where there is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostLimits {
    /// Argon2's memory in KiB.
    pub memory_kib: Option<u64>,
    /// PBKDF2's iterations, Argon2's passes.
    pub iterations: Option<u64>,
}

impl CostLimits {
    /// The most iterations of PBKDF2 for `len` bytes: the default, or more where these
    /// limits allow them. What lower limits allow is for Argon2, whose passes are far
    /// fewer.
    #[must_use]
    pub fn pbkdf2_iterations(self, hash: &str, len: usize) -> u64 {
        let default = default_iterations_limit(hash, len);
        self.iterations.unwrap_or_default().max(default)
    }
}

/// What it takes to compare a key with a digest: PBKDF2 of the key.
#[derive(Clone, Copy, Debug)]
pub struct DigestWork<'a> {
    /// The hash by its name in the metadata.
    pub hash: &'a str,
    /// Of PBKDF2.
    pub iterations: u32,
    /// The bytes that are compared.
    pub len: usize,
}

/// What is left of what an attempt may cost.
pub struct Budget {
    limits: CostLimits,
    left: u64,
}

impl Budget {
    /// A full purse. Each derivation is held to `limits`, too.
    #[must_use]
    pub fn new(limits: CostLimits) -> Self {
        Self { limits, left: ALL }
    }

    /// Pays for deriving a key of `len` bytes, and for the digest that tells whether it
    /// was the right one.
    ///
    /// # Errors
    /// [`CostError`]: the derivation alone is above the limits, or too much has been spent.
    pub fn take(&mut self, kdf: &Kdf, len: usize, digest: DigestWork<'_>) -> Result<(), CostError> {
        kdf.check_limits(len, self.limits.memory_kib, self.limits.iterations)?;
        let cost = self.cost_of_kdf(kdf, len);
        self.spend(cost.saturating_add(self.cost_of_digest(digest)))
    }

    /// Pays for a digest alone.
    ///
    /// # Errors
    /// [`CostError::Total`]: too much has been spent.
    pub fn take_digest(&mut self, digest: DigestWork<'_>) -> Result<(), CostError> {
        self.spend(self.cost_of_digest(digest))
    }

    fn spend(&mut self, cost: u64) -> Result<(), CostError> {
        // In hundredths of a keyslot's cost; all that is dear is more than nothing.
        let percent = |cost: u64| cost.div_ceil(KEYSLOT / 100);
        self.left = self.left.checked_sub(cost).ok_or(CostError::Total {
            cost: percent(cost),
            spent: percent(ALL - self.left),
            limit: ALL * 100 / KEYSLOT,
        })?;
        Ok(())
    }

    fn cost_of_kdf(&self, kdf: &Kdf, len: usize) -> u64 {
        match kdf {
            Kdf::Pbkdf2 {
                hash, iterations, ..
            } => share(
                u64::from(*iterations),
                self.limits.pbkdf2_iterations(hash, len),
            ),
            &Kdf::Argon2 {
                time, memory_kib, ..
            } => {
                let limits = self.limits;
                let memory_limit = limits.memory_kib.unwrap_or(DEFAULT_MEMORY_LIMIT_KIB);
                let passes = limits.iterations.unwrap_or_default();
                let limit = memory_limit.saturating_mul(passes.max(MIN_ARGON2_PASSES));
                share(
                    u64::from(time) * u64::from(memory_kib),
                    limit.max(DEFAULT_ARGON2_WORK_KIB),
                )
            }
        }
    }

    fn cost_of_digest(&self, digest: DigestWork<'_>) -> u64 {
        let limit = self.limits.pbkdf2_iterations(digest.hash, digest.len);
        share(digest.iterations.into(), limit)
    }
}

/// What `work` costs where `limit` is what one keyslot may do.
fn share(work: u64, limit: u64) -> u64 {
    let share = u128::from(work) * u128::from(KEYSLOT) / u128::from(limit.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        hash::HashAlgorithm,
        pbkdf::{Argon2Kind, DEFAULT_ITERATIONS_LIMIT},
    };

    /// A key derivation, and the length of the key.
    type Derivation = (Kdf, usize);

    fn hashed(hash: HashAlgorithm, iterations: u64, len: usize) -> Derivation {
        let kdf = Kdf::Pbkdf2 {
            hash: hash.name().into(),
            iterations: iterations.try_into().unwrap(),
            salt: vec![],
        };
        (kdf, len)
    }

    fn pbkdf2(iterations: u64) -> Derivation {
        hashed(HashAlgorithm::Sha256, iterations, 64)
    }

    fn argon2(time: u32, memory_kib: u32) -> Derivation {
        let kdf = Kdf::Argon2 {
            kind: Argon2Kind::Id,
            time,
            memory_kib,
            parallel: 1,
            salt: vec![],
        };
        (kdf, 64)
    }

    fn digest(hash: HashAlgorithm, iterations: u64, len: usize) -> DigestWork<'static> {
        DigestWork {
            hash: hash.name(),
            iterations: iterations.try_into().unwrap(),
            len,
        }
    }

    fn cheap() -> DigestWork<'static> {
        digest(HashAlgorithm::Sha256, 1000, 32)
    }

    fn take(
        budget: &mut Budget,
        (kdf, len): &Derivation,
        digest: DigestWork<'_>,
    ) -> Result<(), CostError> {
        budget.take(kdf, *len, digest)
    }

    /// How many of 32 such keyslots are tried.
    fn tried(limits: CostLimits, derivation: &Derivation, digest: DigestWork<'_>) -> usize {
        let mut budget = Budget::new(limits);
        (0..32)
            .filter(|_| take(&mut budget, derivation, digest).is_ok())
            .count()
    }

    const LIMIT: u64 = DEFAULT_ITERATIONS_LIMIT;

    /// What `luxor` measures is what counts: one keyslot at the limit of its hash and
    /// length costs as much as another.
    #[test]
    fn each_hash_at_its_limit_costs_the_same() {
        let limits = CostLimits::default();
        for hash in HashAlgorithm::ALL {
            for len in [16_usize, 20, 32, 48, 64] {
                let limit = default_iterations_limit(hash.name(), len);
                let blocks = len.div_ceil(hash.output_len()) as u64;
                let work = limit * blocks * hash.iteration_cost();
                let expected = LIMIT * 2 * 100;
                assert!(
                    work <= expected && work > expected / 100 * 99,
                    "{hash} {len}"
                );

                let at_limit = hashed(hash, limit, len);
                let mut budget = Budget::new(limits);
                take(&mut budget, &at_limit, cheap()).unwrap();
                let spent = ALL - budget.left;
                assert!(spent.abs_diff(KEYSLOT) < KEYSLOT / 100, "{hash} {len}");
                let above = hashed(hash, limit + 1, len);
                let error = take(&mut Budget::new(limits), &above, cheap()).unwrap_err();
                assert!(
                    matches!(&error, CostError::Iterations { limit: found, .. } if *found == limit)
                );
                let option = format!("--pbkdf-iterations-limit {}", limit + 1);
                assert!(error.to_string().contains(&option), "{error}");
                let lifted = CostLimits {
                    iterations: Some(limit + 1),
                    ..CostLimits::default()
                };
                take(&mut Budget::new(lifted), &above, cheap()).unwrap();
            }
        }
        assert_eq!(default_iterations_limit("sha256", 64), LIMIT);
    }

    #[test]
    fn all_keyslots_together_cost_little_more_than_one_may() {
        let default = CostLimits::default();
        let dear = |iterations| digest(HashAlgorithm::Sha256, iterations, 32);
        assert_eq!(tried(default, &pbkdf2(LIMIT), cheap()), 1);
        // The dearest keyslot, and a digest of as many iterations.
        assert_eq!(tried(default, &pbkdf2(LIMIT), dear(LIMIT)), 1);
        assert_eq!(tried(default, &pbkdf2(LIMIT), dear(LIMIT * 11 / 10)), 0);
        assert_eq!(tried(default, &pbkdf2(LIMIT / 5), cheap()), 7);
        assert_eq!(tried(default, &pbkdf2(1000), dear(LIMIT)), 2);
        assert_eq!(tried(default, &pbkdf2(LIMIT + 1), cheap()), 0);
        // What cryptsetup makes, on a fast machine and 23 times.
        assert_eq!(tried(default, &argon2(4, 1 << 20), cheap()), 23);
        assert_eq!(tried(default, &argon2(16, 4 << 20), cheap()), 1);
        assert_eq!(tried(default, &argon2(4, 65536), dear(100_000)), 32);
    }

    #[test]
    fn limits_that_were_lifted_leave_room_for_one() {
        let memory = CostLimits {
            memory_kib: Some(100 << 20),
            ..CostLimits::default()
        };
        assert_eq!(tried(memory, &argon2(4, 100 << 20), cheap()), 1);
        let iterations = CostLimits {
            iterations: Some(4_000_000_000),
            ..CostLimits::default()
        };
        assert_eq!(tried(iterations, &pbkdf2(2_000_000_000), cheap()), 2);
        let whirlpool = hashed(HashAlgorithm::Whirlpool, 4_000_000_000, 64);
        assert_eq!(tried(iterations, &whirlpool, cheap()), 1);
        // Limits that were lowered are those of each keyslot.
        let low = CostLimits {
            iterations: Some(1000),
            ..CostLimits::default()
        };
        assert_eq!(tried(low, &pbkdf2(1000), cheap()), 32);
    }

    #[test]
    fn one_purse_pays_for_all_kinds_and_for_digests_alone() {
        let limits = CostLimits::default();
        let mut budget = Budget::new(limits);
        let half = default_iterations_limit("whirlpool", 64) / 2;
        let half = digest(HashAlgorithm::Whirlpool, half, 64);
        budget.take_digest(half).unwrap();
        take(&mut budget, &argon2(8, 4 << 20), cheap()).unwrap();
        let error = take(&mut budget, &pbkdf2(LIMIT / 2), cheap()).unwrap_err();
        assert_eq!(
            error,
            CostError::Total {
                cost: 51,
                spent: 101,
                limit: 150
            }
        );
        let words = error.to_string();
        for word in [
            "51%",
            "101%",
            "150%",
            "--key-slot",
            "--pbkdf-iterations-limit",
        ] {
            assert!(words.contains(word), "{words}");
        }
        // What was refused is not paid for.
        take(&mut budget, &pbkdf2(LIMIT / 10), cheap()).unwrap();
        assert!(budget.take_digest(half).is_err());
    }
}
