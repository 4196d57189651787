// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits the total cost of an attempt to open a volume. Without such a limit 32 keyslots, each at
//! the limit for one, would take a quarter of an hour.
//!
//! Keyslots with PBKDF2 or Argon2, their digests and the digest of a re-encryption are charged to
//! one budget. Its unit is a fraction of the most that one keyslot may cost. PBKDF2 is charged by
//! its iterations, relative to the limit for the hash and the number of output blocks; Argon2 is
//! charged by its passes times its memory.

use crate::pbkdf::{
    CostError, DEFAULT_ARGON2_WORK_KIB, DEFAULT_MEMORY_LIMIT_KIB, Kdf, MIN_ARGON2_PASSES,
    default_iterations_limit,
};

/// The cost of a keyslot at the limits.
const KEYSLOT: u64 = 1 << 40;

/// The most that everything together may cost: one keyslot at the limits, and half as much for its
/// digest. A digest of 32 bytes is one block of SHA-256, and the keyslot's 64 bytes are two.
const ALL: u64 = KEYSLOT / 2 * 3;

/// The limits for each key derivation of an untrusted volume. `None` is the default, which
/// [`Kdf::check_limits`] describes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostLimits {
    /// The most memory of Argon2 in KiB.
    pub memory_kib: Option<u64>,
    /// The most iterations of PBKDF2, and the most passes of Argon2.
    pub iterations: Option<u64>,
}

impl CostLimits {
    /// Returns the most iterations of PBKDF2 for `len` bytes: the default, or `iterations` if that
    /// is greater. A lower value of `iterations` is meant for Argon2, which has far fewer passes.
    #[must_use]
    pub fn pbkdf2_iterations(self, hash: &str, len: usize) -> u64 {
        let default = default_iterations_limit(hash, len);
        self.iterations.unwrap_or_default().max(default)
    }
}

/// The work of comparing a key with a digest: PBKDF2 of the key.
#[derive(Clone, Copy, Debug)]
pub struct DigestWork<'a> {
    /// The name of the hash in the metadata.
    pub hash: &'a str,
    /// The iterations of PBKDF2.
    pub iterations: u32,
    /// The number of bytes that are compared.
    pub len: usize,
}

/// What an attempt to open a volume may still cost: at first one and a half times as much as one
/// keyslot at the limits. Charge every derivation before computing it.
pub struct Budget {
    limits: CostLimits,
    left: u64,
}

impl Budget {
    /// Returns a full budget. Each derivation must also meet `limits`.
    #[must_use]
    pub fn new(limits: CostLimits) -> Self {
        Self { limits, left: ALL }
    }

    /// Charges the derivation of a key of `len` bytes, and, if the format has one, the digest that
    /// verifies it. A derivation that is refused is not charged.
    ///
    /// # Errors
    /// [`CostError`]: the derivation exceeds the limits, or the remaining budget is too small.
    pub fn take(
        &mut self,
        kdf: &Kdf,
        len: usize,
        digest: Option<DigestWork<'_>>,
    ) -> Result<(), CostError> {
        kdf.check_limits(len, self.limits.memory_kib, self.limits.iterations)?;
        let digest = digest.map_or(0, |digest| self.cost_of_digest(digest));
        self.spend(self.cost_of_kdf(kdf, len).saturating_add(digest))
    }

    /// Charges a digest alone.
    ///
    /// # Errors
    /// [`CostError::Total`]: the remaining budget is too small.
    pub fn take_digest(&mut self, digest: DigestWork<'_>) -> Result<(), CostError> {
        self.spend(self.cost_of_digest(digest))
    }

    fn spend(&mut self, cost: u64) -> Result<(), CostError> {
        // Percent of `KEYSLOT`, rounded up, so that no cost is shown as 0.
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

/// Returns the cost of `work`, if one keyslot may do `limit` of it.
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

    /// A key derivation, and the length of the derived key.
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
        budget.take(kdf, *len, Some(digest))
    }

    /// Returns how many of 32 such keyslots are tried.
    fn tried(limits: CostLimits, derivation: &Derivation, digest: DigestWork<'_>) -> usize {
        let mut budget = Budget::new(limits);
        (0..32)
            .filter(|_| take(&mut budget, derivation, digest).is_ok())
            .count()
    }

    const LIMIT: u64 = DEFAULT_ITERATIONS_LIMIT;

    /// The budget agrees with measured times: a keyslot at the limit of its hash and length costs
    /// the same for each of them.
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
                assert!(matches!(
                    error,
                    CostError::Iterations { limit: found, iterations, .. }
                        if found == limit && u64::from(iterations) == limit + 1
                ));
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
        // The most expensive keyslot, and a digest with as many iterations.
        assert_eq!(tried(default, &pbkdf2(LIMIT), dear(LIMIT)), 1);
        assert_eq!(tried(default, &pbkdf2(LIMIT), dear(LIMIT * 11 / 10)), 0);
        assert_eq!(tried(default, &pbkdf2(LIMIT / 5), cheap()), 7);
        assert_eq!(tried(default, &pbkdf2(1000), dear(LIMIT)), 2);
        assert_eq!(tried(default, &pbkdf2(LIMIT + 1), cheap()), 0);
        // What cryptsetup creates on a fast machine, up to 23 times.
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
        // Limits that were lowered apply to each keyslot, not to the total.
        let low = CostLimits {
            iterations: Some(1000),
            ..CostLimits::default()
        };
        assert_eq!(tried(low, &pbkdf2(1000), cheap()), 32);
    }

    #[test]
    fn one_budget_pays_for_all_kinds_and_for_digests_alone() {
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
        for word in ["51%", "101%", "150%"] {
            assert!(words.contains(word), "{words}");
        }
        // A refused cost is not charged.
        take(&mut budget, &pbkdf2(LIMIT / 10), cheap()).unwrap();
        assert!(budget.take_digest(half).is_err());
    }
}
