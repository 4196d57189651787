// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repeatable test data.

use std::{env, sync::OnceLock};

/// The seed if `LUXOR_TEST_SEED` is not set.
const DEFAULT_SEED: u64 = 0x1619_2007_0197_2001;

/// A generator of repeatable bytes: `SplitMix64` (Steele, Lea and Flood, "Fast Splittable
/// Pseudorandom Number Generators", OOPSLA 2014). Never use it for secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator for a test called `name`. All tests share one seed, which is printed. The
    /// environment variable `LUXOR_TEST_SEED` (decimal, or hexadecimal after `0x`) replaces it.
    ///
    /// # Panics
    /// If the variable is not such a number.
    #[must_use]
    pub fn for_test(name: &str) -> Self {
        static SEED: OnceLock<u64> = OnceLock::new();
        let seed = *SEED.get_or_init(|| match env::var("LUXOR_TEST_SEED") {
            Err(_) => DEFAULT_SEED,
            Ok(text) => parse_seed(&text)
                .unwrap_or_else(|| panic!("LUXOR_TEST_SEED is {text:?}, not a number")),
        });
        println!("{name}: LUXOR_TEST_SEED={seed:#x}");
        // FNV-1a of the name, so that each test has different data.
        let own = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(seed ^ own)
    }

    /// Makes a generator that starts at `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 bits.
    pub fn u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns the next 128 bits.
    pub fn u128(&mut self) -> u128 {
        u128::from(self.u64()) << 64 | u128::from(self.u64())
    }

    /// Returns a number below `bound`, uniform enough for tests.
    ///
    /// # Panics
    /// If `bound` is 0.
    #[expect(clippy::cast_possible_truncation, reason = "less than `bound`")]
    pub fn below(&mut self, bound: usize) -> usize {
        (self.u64() % bound as u64) as usize
    }

    /// Returns the next `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend(self.u64().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}

fn parse_seed(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_that_of_splitmix64() {
        // The published sequence for the seed 1234567.
        let mut random = Random::new(1_234_567);
        assert_eq!(random.u64(), 6_457_827_717_110_365_317);
        assert_eq!(random.u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn seeds_are_decimal_or_hexadecimal() {
        assert_eq!(parse_seed("0x10"), Some(16));
        assert_eq!(parse_seed("10"), Some(10));
        assert_eq!(parse_seed("ten"), None);
    }
}
