// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chooses the costs of a new keyslot's key derivation. They are measured on this machine, so that
//! unlocking takes the requested time, 2 seconds by default.
//!
//! The kinds, defaults and bounds are cryptsetup's: Argon2id with at least 4 passes over at most 1
//! GiB and at most half of the memory, in as many lanes as there are CPUs, at most 4.
//!
//! The first measurement of Argon2 has 4 passes over 64 MiB. The time is nearly proportional to
//! memory times passes, but not quite, because of caches and page faults. So larger costs are
//! measured, at most 8 times as much in a step, until a measurement takes two fifths to twice the
//! target time. That one is scaled to the target: memory up to its maximum, then passes. All
//! measurements together take about the target time; they end in any case after three times the
//! target.
//!
//! The time of PBKDF2 is proportional to its iterations. They are doubled until a measurement takes
//! an eighth of the target time, which is then scaled.

use std::{
    num::NonZeroUsize,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use crate::{
    hash::HashAlgorithm,
    key_cache::KeyCache,
    memory,
    pbkdf::{Argon2Kind, DEFAULT_MEMORY_LIMIT_KIB, DeriveError, Kdf, PbkdfKind},
};

/// The length in bytes of new salts.
pub const SALT_BYTES: usize = 32;

/// The least iterations of PBKDF2 for keyslots and digests (SP 800-132, 5.2).
const MIN_ITERATIONS: u32 = 1000;
const MIN_PASSES: u32 = 4;
const MIN_MEMORY_KIB: u32 = 32;
const MAX_PARALLEL: u32 = 4;
const DEFAULT_MAX_MEMORY_KIB: u32 = 1 << 20;
/// The memory of the first measurement. A measurement with less memory predicts little about more.
const FIRST_MEMORY_KIB: u32 = 64 << 10;
/// The target time for checking a volume key against its digest.
const DIGEST_TIME: Duration = Duration::from_millis(125);

/// The costs of a new keyslot's key derivation.
#[derive(Clone, Debug)]
pub struct PbkdfOptions {
    /// The kind of key derivation.
    pub kind: PbkdfKind,
    /// The memory of Argon2 in KiB: 32 to 4194304. It is an upper bound if the costs are measured,
    /// and exact with `force_iterations`. `None`: 1 GiB, but at most half of the memory that
    /// is available now. Must be `None` for PBKDF2.
    pub memory_kib: Option<u32>,
    /// The lanes of Argon2: 1 to 4. `None`: one for each CPU, at most 4. Must be `None` for PBKDF2.
    pub parallel: Option<u32>,
    /// The iterations of PBKDF2 (at least 1000) or the passes of Argon2 (at least 4). Nothing is
    /// measured then. `None`: measured, so that unlocking takes `iter_time`.
    pub force_iterations: Option<u32>,
    /// The time that unlocking should take on this machine. Not 0.
    pub iter_time: Duration,
    /// The derivation of a keyslot of another volume, in place of a new salt and the costs above. If
    /// the secret is the same too, a [`KeyCache`] opens both volumes with one derivation. The shared
    /// salt reveals that the secrets are likely the same, and an attacker guesses them together.
    pub kdf: Option<Kdf>,
    /// The keys that are known already.
    pub cache: Option<Arc<KeyCache>>,
}

impl Default for PbkdfOptions {
    /// Argon2id, measured for 2 seconds.
    fn default() -> Self {
        Self {
            kind: PbkdfKind::default(),
            memory_kib: None,
            parallel: None,
            force_iterations: None,
            iter_time: Duration::from_secs(2),
            kdf: None,
            cache: None,
        }
    }
}

impl PbkdfOptions {
    /// Returns options for a keyslot with this derivation.
    #[must_use]
    pub fn like(kdf: Kdf) -> Self {
        Self {
            kind: kdf.kind(),
            kdf: Some(kdf),
            ..Self::default()
        }
    }

    /// Checks the options before anything is measured.
    ///
    /// # Errors
    /// [`PbkdfOptionsError`]: a value is out of bounds, or the kind does not have an option.
    pub fn check(&self) -> Result<(), PbkdfOptionsError> {
        let (name, min_iterations) = match self.kind {
            PbkdfKind::Pbkdf2 => ("pbkdf2", MIN_ITERATIONS),
            kind => (kind.name(), MIN_PASSES),
        };
        if let Some(found) = self.force_iterations
            && found < min_iterations
        {
            return Err(PbkdfOptionsError::Iterations {
                name,
                found,
                min: min_iterations,
            });
        }
        if self.kind == PbkdfKind::Pbkdf2 && (self.memory_kib.is_some() || self.parallel.is_some())
        {
            return Err(PbkdfOptionsError::NotForPbkdf2);
        }
        if let Some(found) = self.memory_kib
            && !(u64::from(MIN_MEMORY_KIB)..=DEFAULT_MEMORY_LIMIT_KIB).contains(&found.into())
        {
            return Err(PbkdfOptionsError::Memory { found });
        }
        if let Some(found) = self.parallel
            && !(1..=MAX_PARALLEL).contains(&found)
        {
            return Err(PbkdfOptionsError::Parallel { found });
        }
        if self.iter_time.is_zero() {
            return Err(PbkdfOptionsError::IterTime);
        }
        Ok(())
    }

    /// As [`PbkdfOptions::check`], for a keyslot of LUKS1.
    ///
    /// # Errors
    /// Those of [`PbkdfOptions::check`], [`PbkdfOptionsError::NotForLuks1`] and
    /// [`PbkdfOptionsError::KdfForLuks1`].
    pub fn check_luks1(&self) -> Result<(), PbkdfOptionsError> {
        self.check()?;
        if self.kind != PbkdfKind::Pbkdf2 {
            let name = self.kind.name();
            return Err(PbkdfOptionsError::NotForLuks1 { name });
        }
        if self.kdf.is_some() {
            return Err(PbkdfOptionsError::KdfForLuks1);
        }
        Ok(())
    }

    /// Returns the derivation with this salt and with costs according to these options, for a key
    /// of `key_len` bytes. `hash` is for PBKDF2; Argon2 has its own. Without
    /// [`PbkdfOptions::force_iterations`] this measures, which takes about
    /// [`PbkdfOptions::iter_time`]. Call [`PbkdfOptions::check`] first.
    ///
    /// # Errors
    /// [`DeriveError`]: Argon2 could not be measured, because memory is short.
    pub fn choose(
        &self,
        hash: HashAlgorithm,
        salt: Vec<u8>,
        key_len: usize,
    ) -> Result<Kdf, DeriveError> {
        if let Some(kdf) = &self.kdf {
            return Ok(kdf.clone());
        }
        let kind = match self.kind {
            PbkdfKind::Pbkdf2 => {
                let iterations = self
                    .force_iterations
                    .unwrap_or_else(|| pbkdf2_iterations(hash, key_len, self.iter_time));
                let hash = hash.name().into();
                return Ok(Kdf::Pbkdf2 {
                    hash,
                    iterations,
                    salt,
                });
            }
            PbkdfKind::Argon2i => Argon2Kind::I,
            PbkdfKind::Argon2id => Argon2Kind::Id,
        };
        let parallel = self.parallel.unwrap_or_else(cpus);
        let max_memory_kib = self.memory_kib.unwrap_or_else(default_memory_kib);
        let argon2 = |costs: Argon2Costs| Kdf::Argon2 {
            kind,
            time: costs.time,
            memory_kib: costs.memory_kib,
            parallel,
            salt: salt.clone(),
        };
        if let Some(time) = self.force_iterations {
            return Ok(argon2(Argon2Costs {
                time,
                memory_kib: max_memory_kib,
            }));
        }
        let costs = argon2_costs(max_memory_kib, self.iter_time, |costs| {
            let mut key = vec![0; key_len];
            let begin = Instant::now();
            argon2(costs).derive(b"benchmark", &mut key)?;
            Ok(begin.elapsed())
        })?;
        Ok(argon2(costs))
    }

    /// Derives a key as [`Kdf::derive`] does, unless the cache has it.
    ///
    /// # Errors
    /// Those of [`Kdf::derive`].
    pub fn derive(&self, kdf: &Kdf, secret: &[u8], out: &mut [u8]) -> Result<(), DeriveError> {
        match &self.cache {
            Some(cache) => cache.derive(kdf, secret, out),
            None => kdf.derive(secret, out),
        }
    }

    /// Returns the iterations of PBKDF2 with `hash` for the digest that verifies a volume key: as
    /// many as take 125 ms on this machine, or 1000 with [`PbkdfOptions::force_iterations`] or
    /// [`PbkdfOptions::kdf`]. A random volume key needs no more.
    pub fn digest_iterations(&self, hash: HashAlgorithm) -> u32 {
        match (self.force_iterations, &self.kdf) {
            (Some(_), _) | (_, Some(_)) => MIN_ITERATIONS,
            (None, None) => pbkdf2_iterations(hash, hash.output_len(), DIGEST_TIME),
        }
    }
}

/// The costs of Argon2 that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Argon2Costs {
    time: u32,
    memory_kib: u32,
}

fn argon2_costs(
    max_memory_kib: u32,
    target: Duration,
    mut measure: impl FnMut(Argon2Costs) -> Result<Duration, DeriveError>,
) -> Result<Argon2Costs, DeriveError> {
    let mut costs = Argon2Costs {
        time: MIN_PASSES,
        memory_kib: FIRST_MEMORY_KIB.min(max_memory_kib),
    };
    let mut spent = Duration::ZERO;
    loop {
        let measured = measure(costs)?;
        spent += measured;
        let factor = target.as_secs_f64() / measured.as_secs_f64().max(1e-6);
        let near = (0.5..=2.5).contains(&factor);
        let step = if near || factor < 0.5 {
            factor
        } else {
            // Half of the target is near enough to scale from, and takes less time to measure.
            (factor / 2.0).min(8.0)
        };
        let next = scaled(costs, step, max_memory_kib);
        if near || next == costs || spent >= 3 * target {
            return Ok(scaled(costs, factor, max_memory_kib));
        }
        costs = next;
    }
}

/// Scales the work by `factor`: memory first, then passes.
fn scaled(costs: Argon2Costs, factor: f64, max_memory_kib: u32) -> Argon2Costs {
    let work = f64::from(costs.time) * f64::from(costs.memory_kib) * factor;
    let least = f64::from(MIN_MEMORY_KIB);
    let memory = (work / f64::from(MIN_PASSES)).clamp(least, f64::from(max_memory_kib));
    let time = (work / memory)
        .round()
        .clamp(f64::from(MIN_PASSES), f64::from(u32::MAX));
    Argon2Costs {
        time: to_u32(time),
        memory_kib: to_u32(memory),
    }
}

fn pbkdf2_iterations(hash: HashAlgorithm, out_len: usize, target: Duration) -> u32 {
    let mut out = vec![0; out_len];
    let mut iterations = MIN_ITERATIONS;
    loop {
        let begin = Instant::now();
        hash.pbkdf2(b"benchmark", &[0; SALT_BYTES], iterations, &mut out);
        let measured = begin.elapsed();
        if measured >= target / 8 || iterations > u32::MAX / 2 {
            let factor = target.as_secs_f64() / measured.as_secs_f64().max(1e-6);
            return to_u32(f64::from(iterations) * factor).max(MIN_ITERATIONS);
        }
        iterations *= 2;
    }
}

/// Converts to `u32`, and saturates.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the conversion saturates, as intended"
)]
fn to_u32(value: f64) -> u32 {
    value as u32
}

fn cpus() -> u32 {
    let cpus = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    u32::try_from(cpus)
        .unwrap_or(MAX_PARALLEL)
        .min(MAX_PARALLEL)
}

/// Returns the least of 1 GiB, half of the physical memory and half of the available memory.
fn default_memory_kib() -> u32 {
    default_memory_of(
        memory::physical_kib(),
        memory::available().map(|available| available.kib),
    )
}

/// Returns half of the memory, not all: the rest of the program needs some too, and a later unlock
/// must not fail because a few KiB are missing.
fn default_memory_of(physical_kib: Option<u64>, available_kib: Option<u64>) -> u32 {
    let least = [physical_kib, available_kib].into_iter().flatten().min();
    let half = least.map_or(u64::MAX, |kib| kib / 2);
    u32::try_from(half)
        .unwrap_or(u32::MAX)
        .clamp(MIN_MEMORY_KIB, DEFAULT_MAX_MEMORY_KIB)
}

/// An invalid option for a key derivation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PbkdfOptionsError {
    /// The iterations are too few.
    #[error("{found} iterations are too few for {name}: it needs {min} at least")]
    Iterations {
        /// The kind's name.
        name: &'static str,
        /// The requested iterations.
        found: u32,
        /// The least allowed.
        min: u32,
    },
    /// The memory of Argon2 is out of bounds.
    #[error("Argon2 cannot use {found} KiB of memory: it must be 32 to 4194304 (4 GiB)")]
    Memory {
        /// The requested memory in KiB.
        found: u32,
    },
    /// The lanes of Argon2 are out of bounds.
    #[error("Argon2 cannot use {found} parallel lanes: it must be 1 to 4")]
    Parallel {
        /// The requested lanes.
        found: u32,
    },
    /// PBKDF2 has neither memory nor lanes.
    #[error("pbkdf2 has neither memory nor parallel costs: leave them out, or use argon2id")]
    NotForPbkdf2,
    /// LUKS1 supports PBKDF2 only.
    #[error("LUKS1 supports only pbkdf2, not {name}: use pbkdf2, or LUKS2")]
    NotForLuks1 {
        /// The kind's name.
        name: &'static str,
    },
    /// A keyslot of LUKS1 has the hash of its header.
    #[error("only a volume of LUKS2 can have the key derivation of another volume")]
    KdfForLuks1,
    /// The iteration time is zero.
    #[error("the iteration time must be more than 0")]
    IterTime,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a machine that takes `nanos` per KiB and pass, and `fixed_us` in addition.
    fn simulate(
        max_memory_kib: u32,
        target_ms: u64,
        nanos: u64,
        fixed_us: u64,
    ) -> (Argon2Costs, u64) {
        let mut spent = Duration::ZERO;
        let time_of = |costs: Argon2Costs| {
            Duration::from_nanos(u64::from(costs.time) * u64::from(costs.memory_kib) * nanos)
                + Duration::from_micros(fixed_us)
        };
        let target = Duration::from_millis(target_ms);
        let costs = argon2_costs(max_memory_kib, target, |costs| {
            spent += time_of(costs);
            Ok(time_of(costs))
        })
        .unwrap();
        assert!(
            costs.time >= 4 && (32..=max_memory_kib).contains(&costs.memory_kib),
            "{costs:?}"
        );
        assert!(
            spent
                <= target * 5
                    + time_of(Argon2Costs {
                        time: 4,
                        memory_kib: 64 << 10
                    })
        );
        (costs, u64::try_from(time_of(costs).as_millis()).unwrap())
    }

    #[test]
    fn argon2_costs_meet_the_target_memory_first() {
        // Fast enough for 1 GiB: more passes.
        let (costs, ms) = simulate(1 << 20, 2000, 100, 300);
        assert_eq!(costs.memory_kib, 1 << 20);
        assert!(
            costs.time > 4 && (1800..=2200).contains(&ms),
            "{costs:?} {ms} ms"
        );
        // Too slow for 1 GiB: less memory, and 4 passes.
        let (costs, ms) = simulate(1 << 20, 2000, 1500, 300);
        assert_eq!(costs.time, 4);
        assert!((1900..=2100).contains(&ms), "{costs:?} {ms} ms");
        // Little memory is allowed: many passes.
        let (costs, ms) = simulate(32, 500, 500, 5);
        assert_eq!(costs.memory_kib, 32);
        assert!((475..=525).contains(&ms), "{costs:?} {ms} ms");
        // The first measurement already takes longer than the target.
        let (costs, ms) = simulate(1 << 20, 100, 5000, 300);
        assert_eq!(costs.time, 4);
        assert!((90..=110).contains(&ms), "{costs:?} {ms} ms");
        // Even the least costs take longer than the target.
        assert_eq!(
            simulate(1 << 20, 1, 1_000_000, 0).0,
            Argon2Costs {
                time: 4,
                memory_kib: 32
            }
        );
    }

    #[test]
    fn the_default_memory_leaves_half_of_the_available() {
        const GIB: u64 = 1 << 20;
        for (physical, available, expected) in [
            (Some(24 * GIB), Some(23 * GIB), 1 << 20),
            (Some(24 * GIB), Some(400_000), 200_000),
            (Some(GIB), Some(GIB), 1 << 19),
            (Some(GIB), None, 1 << 19),
            (None, Some(10), MIN_MEMORY_KIB),
            (None, None, 1 << 20),
        ] {
            assert_eq!(default_memory_of(physical, available), expected);
        }
    }

    #[test]
    fn pbkdf2_is_measured() {
        let target = Duration::from_millis(80);
        let iterations = pbkdf2_iterations(HashAlgorithm::Sha256, 32, target);
        assert!(iterations > MIN_ITERATIONS);
        assert!(pbkdf2_iterations(HashAlgorithm::Sha256, 32, Duration::from_nanos(1)) >= 1000);
    }

    #[test]
    fn forced_costs_are_used_unchanged() {
        let options = PbkdfOptions {
            memory_kib: Some(32),
            parallel: Some(1),
            force_iterations: Some(4),
            ..PbkdfOptions::default()
        };
        options.check().unwrap();
        let kdf = options
            .choose(HashAlgorithm::Sha256, vec![1; 32], 64)
            .unwrap();
        let expected = Kdf::Argon2 {
            kind: Argon2Kind::Id,
            time: 4,
            memory_kib: 32,
            parallel: 1,
            salt: vec![1; 32],
        };
        assert_eq!(kdf, expected);
        assert_eq!(options.digest_iterations(HashAlgorithm::Sha256), 1000);
    }

    #[test]
    fn a_given_derivation_is_taken_over() {
        let kdfs = [
            Kdf::Pbkdf2 {
                hash: "sha512".into(),
                iterations: 1234,
                salt: vec![1; 20],
            },
            Kdf::Argon2 {
                kind: Argon2Kind::I,
                time: 5,
                memory_kib: 64,
                parallel: 2,
                salt: vec![2; 32],
            },
        ];
        for kdf in kdfs {
            let options = PbkdfOptions::like(kdf.clone());
            assert_eq!(options.kind, kdf.kind());
            options.check().unwrap();
            // Not the new salt, the other hash or a measurement.
            let chosen = options.choose(HashAlgorithm::Sha256, vec![3; 32], 64);
            assert_eq!(chosen.unwrap(), kdf);
            assert_eq!(options.digest_iterations(HashAlgorithm::Sha256), 1000);
        }
    }

    #[test]
    fn luks1_refuses_what_it_cannot_have() {
        let pbkdf2 = PbkdfOptions {
            kind: PbkdfKind::Pbkdf2,
            ..PbkdfOptions::default()
        };
        assert_eq!(pbkdf2.check_luks1(), Ok(()));
        let argon2 = PbkdfOptions::default().check_luks1();
        assert_eq!(
            argon2,
            Err(PbkdfOptionsError::NotForLuks1 { name: "argon2id" })
        );
        // Its keyslots have no hash of their own.
        let kdf = Kdf::Pbkdf2 {
            hash: "sha256".into(),
            iterations: 1000,
            salt: vec![1; 32],
        };
        assert_eq!(
            PbkdfOptions::like(kdf).check_luks1(),
            Err(PbkdfOptionsError::KdfForLuks1)
        );
        let weak = PbkdfOptions {
            force_iterations: Some(999),
            ..pbkdf2
        };
        assert!(matches!(
            weak.check_luks1(),
            Err(PbkdfOptionsError::Iterations { .. })
        ));
    }

    #[test]
    fn options_out_of_bounds_are_refused() {
        let argon2 = PbkdfOptions::default();
        let pbkdf2 = PbkdfOptions {
            kind: PbkdfKind::Pbkdf2,
            ..argon2.clone()
        };
        for options in [
            PbkdfOptions {
                force_iterations: Some(3),
                ..argon2.clone()
            },
            PbkdfOptions {
                memory_kib: Some(31),
                ..argon2.clone()
            },
            PbkdfOptions {
                memory_kib: Some((4 << 20) + 1),
                ..argon2.clone()
            },
            PbkdfOptions {
                parallel: Some(0),
                ..argon2.clone()
            },
            PbkdfOptions {
                parallel: Some(5),
                ..argon2.clone()
            },
            PbkdfOptions {
                iter_time: Duration::ZERO,
                ..argon2.clone()
            },
            PbkdfOptions {
                force_iterations: Some(999),
                ..pbkdf2.clone()
            },
            PbkdfOptions {
                memory_kib: Some(64),
                ..pbkdf2.clone()
            },
            PbkdfOptions {
                parallel: Some(1),
                ..pbkdf2.clone()
            },
        ] {
            assert!(options.check().is_err(), "{options:?}");
        }
        assert!(argon2.check().is_ok() && pbkdf2.check().is_ok());
    }
}
