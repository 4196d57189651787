// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an attempt to open a volume may cost in all: 32 keyslots, each at the limit for
//! one, would take a quarter of an hour.

use crate::{
    pbkdf::{
        CostError, DEFAULT_ARGON2_WORK_KIB, DEFAULT_ITERATIONS_LIMIT, DEFAULT_MEMORY_LIMIT_KIB,
        Kdf, MIN_ARGON2_PASSES,
    },
    unlock::UnlockOptions,
};

/// What is left of what an attempt may cost: as much as one keyslot at the limits, so
/// that each one alone can be tried.
pub(crate) struct Budget<'a> {
    options: &'a UnlockOptions,
    /// PBKDF2's iterations in keyslots.
    iterations: Purse,
    /// Argon2's memory in KiB times its passes.
    argon2: Purse,
    /// Iterations of digests, one after each keyslot.
    digests: Purse,
}

struct Purse {
    all: u64,
    left: u64,
}

impl<'a> Budget<'a> {
    pub(crate) fn new(options: &'a UnlockOptions) -> Self {
        let iterations = options.iterations_limit.unwrap_or_default();
        let memory_kib = options.memory_limit_kib.unwrap_or(DEFAULT_MEMORY_LIMIT_KIB);
        let passes = iterations.max(MIN_ARGON2_PASSES);
        Self {
            options,
            iterations: Purse::new(iterations.max(DEFAULT_ITERATIONS_LIMIT)),
            argon2: Purse::new(
                memory_kib
                    .saturating_mul(passes)
                    .max(DEFAULT_ARGON2_WORK_KIB),
            ),
            digests: Purse::new(digest_limit(options)),
        }
    }

    /// Pays for a keyslot, and for the digest that tells whether it was the right one.
    ///
    /// # Errors
    /// [`CostError`]: it alone is above the limits, or too much has been spent.
    pub(crate) fn take(&mut self, kdf: &Kdf, digest_iterations: u32) -> Result<(), CostError> {
        let UnlockOptions {
            memory_limit_kib,
            iterations_limit,
            ..
        } = *self.options;
        kdf.check_limits(memory_limit_kib, iterations_limit)?;
        let (purse, cost) = match *kdf {
            Kdf::Pbkdf2 { iterations, .. } => (&mut self.iterations, iterations.into()),
            Kdf::Argon2 {
                time, memory_kib, ..
            } => (&mut self.argon2, u64::from(time) * u64::from(memory_kib)),
        };
        // Both before either, so that nothing is paid for what is not done.
        let left = purse.after(cost)?;
        self.digests.left = self.digests.after(digest_iterations.into())?;
        purse.left = left;
        Ok(())
    }
}

impl Purse {
    fn new(all: u64) -> Self {
        Self { all, left: all }
    }

    fn after(&self, cost: u64) -> Result<u64, CostError> {
        self.left.checked_sub(cost).ok_or(CostError::Total {
            spent: self.all - self.left,
            limit: self.all,
        })
    }
}

/// The most iterations of a digest: what is allowed for a keyslot's Argon2 is far less
/// than a digest needs.
pub(crate) fn digest_limit(options: &UnlockOptions) -> u64 {
    options
        .iterations_limit
        .unwrap_or_default()
        .max(DEFAULT_ITERATIONS_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pbkdf::Argon2Kind;

    fn pbkdf2(iterations: u32) -> Kdf {
        Kdf::Pbkdf2 {
            hash: "sha256".into(),
            iterations,
            salt: vec![],
        }
    }

    fn argon2(time: u32, memory_kib: u32) -> Kdf {
        Kdf::Argon2 {
            kind: Argon2Kind::Id,
            time,
            memory_kib,
            parallel: 1,
            salt: vec![],
        }
    }

    /// How many of 32 such keyslots are tried.
    fn tried(options: &UnlockOptions, kdf: &Kdf, digest: u32) -> usize {
        let mut budget = Budget::new(options);
        (0..32).filter(|_| budget.take(kdf, digest).is_ok()).count()
    }

    #[test]
    fn all_keyslots_together_cost_as_much_as_one_may() {
        let limit = u32::try_from(DEFAULT_ITERATIONS_LIMIT).unwrap();
        let default = UnlockOptions::default();
        assert_eq!(tried(&default, &pbkdf2(limit), 1000), 1);
        assert_eq!(tried(&default, &pbkdf2(limit / 5), 1000), 5);
        assert_eq!(tried(&default, &pbkdf2(1000), limit / 3), 3);
        assert_eq!(tried(&default, &pbkdf2(limit + 1), 1000), 0);
        // What cryptsetup makes, 16 times.
        assert_eq!(tried(&default, &argon2(4, 1 << 20), 1000), 16);
        assert_eq!(tried(&default, &argon2(16, 4 << 20), 1000), 1);
        assert_eq!(tried(&default, &argon2(4, 65536), 100_000), 32);
    }

    #[test]
    fn limits_that_were_lifted_leave_room_for_one() {
        let memory = UnlockOptions {
            memory_limit_kib: Some(100 << 20),
            ..UnlockOptions::default()
        };
        assert_eq!(tried(&memory, &argon2(4, 100 << 20), 1000), 1);
        let iterations = UnlockOptions {
            iterations_limit: Some(4_000_000_000),
            ..UnlockOptions::default()
        };
        assert_eq!(tried(&iterations, &pbkdf2(2_000_000_000), 1000), 2);
        // Limits that were lowered are those of each keyslot.
        let low = UnlockOptions {
            iterations_limit: Some(1000),
            ..UnlockOptions::default()
        };
        assert_eq!(tried(&low, &pbkdf2(1000), 1000), 32);
    }

    #[test]
    fn one_kind_does_not_pay_for_another_nor_for_what_is_refused() {
        let options = UnlockOptions::default();
        let mut budget = Budget::new(&options);
        let limit = u32::try_from(DEFAULT_ITERATIONS_LIMIT).unwrap();
        budget.take(&pbkdf2(limit - 1), 0).unwrap();
        let error = budget.take(&pbkdf2(2), limit).unwrap_err();
        assert!(matches!(error, CostError::Total { spent, .. } if spent == u64::from(limit - 1)));
        assert!(error.to_string().contains("--key-slot"), "{error}");
        budget.take(&argon2(16, 4 << 20), limit).unwrap();
        assert!(budget.take(&pbkdf2(1), 1).is_err());
        budget.take(&pbkdf2(1), 0).unwrap();
    }
}
