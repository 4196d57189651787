// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much data one key encrypts, and how much it should.
//!
//! An attacker can use two blocks of XTS-AES that meet the same input of AES under one key. Among q
//! blocks there are two with a probability of about q²/2¹²⁸, so IEEE 1619-2025 limits the blocks under
//! one key. `docs/reencryption.md` names the source of the numbers.

use std::{collections::BTreeMap, fmt};

use luxor_engine::Mode;

use luxor_volume::Header;

use crate::{Context, Result, VolumeMetadata};

/// The length of a block of AES in bytes.
const BLOCK_LEN: u64 = 16;

/// The data that one key of XTS-AES encrypts. Each block counts once, however often it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyScope {
    /// The number of blocks of 16 bytes.
    pub blocks: u64,
}

impl KeyScope {
    /// The number of blocks that one key should encrypt at most: 1 TiB.
    pub const RECOMMENDED: Self = Self { blocks: 1 << 36 };

    /// The number of blocks that one key may encrypt at most: 256 TiB.
    pub const MAXIMUM: Self = Self { blocks: 1 << 44 };

    /// Returns the scope of a key that encrypts `len` bytes.
    #[must_use]
    pub const fn of_bytes(len: u64) -> Self {
        Self {
            blocks: len.div_ceil(BLOCK_LEN),
        }
    }

    /// Returns why a key should encrypt less, if it should.
    #[must_use]
    pub fn excess(self) -> Option<&'static str> {
        if self > Self::MAXIMUM {
            Some("more than the 256 TiB (2^44 blocks) that IEEE 1619-2025 permits")
        } else if self > Self::RECOMMENDED {
            Some("more than the 1 TiB (2^36 blocks) that IEEE 1619-2025 recommends")
        } else {
            None
        }
    }

    fn percent_of(self, limit: Self) -> Percent {
        Percent(self.blocks as f64 / limit.blocks as f64 * 100.0)
    }
}

/// The number of blocks, and the shares of the two limits.
impl fmt::Display for KeyScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} blocks: {} of the recommended 2^36, {} of the maximum 2^44",
            self.blocks,
            self.percent_of(Self::RECOMMENDED),
            self.percent_of(Self::MAXIMUM)
        )
    }
}

struct Percent(f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 0.1 {
            f.write_str("less than 0.1 %")
        } else {
            write!(f, "{:.1} %", self.0)
        }
    }
}

impl<H: Header + ?Sized> VolumeMetadata<H> {
    /// Returns how much each key encrypts, by the number of its digest, which is 0 for LUKS1. Only
    /// keys of XTS are counted: the limits of other modes are different. Empty if the data come from
    /// a pipe and the metadata do not record their length.
    ///
    /// # Errors
    /// Those of [`VolumeMetadata::extents`].
    pub fn key_scopes(&self) -> Result<BTreeMap<u32, KeyScope>> {
        let mut scopes = BTreeMap::new();
        for extent in self.extents()?.unwrap_or_default() {
            if let Some(cipher) = extent.cipher
                && let Some(encryption) = cipher.encryption
                && encryption.mode() == Mode::Xts
            {
                let scope = scopes.entry(cipher.key).or_insert(KeyScope { blocks: 0 });
                scope.blocks += KeyScope::of_bytes(extent.len).blocks;
            }
        }
        Ok(scopes)
    }
}

/// Warns if the one key of the volume called `name` will encrypt `len` bytes, and should not.
pub(crate) fn warn_of_key_scope(name: &str, len: u64, context: &Context) {
    if let Some(excess) = KeyScope::of_bytes(len).excess() {
        context.events.warning(&format!(
            "one key encrypts the {len} bytes of {name}, {excess}: see \"How much one key should \
             encrypt\" in docs/reencryption.md"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIB: u64 = 1 << 40;

    #[test]
    fn a_limit_may_be_reached_and_not_exceeded() {
        for (len, words) in [
            (0, None),
            (TIB, None),
            (TIB + 1, Some("1 TiB")),
            (TIB + 512, Some("1 TiB")),
            (256 * TIB, Some("1 TiB")),
            (256 * TIB + 512, Some("256 TiB")),
            (u64::MAX, Some("256 TiB")),
        ] {
            let excess = KeyScope::of_bytes(len).excess();
            assert_eq!(excess.is_some(), words.is_some(), "{len}: {excess:?}");
            let has_words = |excess: &str| excess.contains(&format!("the {} (", words.unwrap()));
            assert!(excess.is_none_or(has_words), "{len}: {excess:?}");
        }
    }

    #[test]
    fn the_shares_are_those_of_the_limits() {
        for (len, text) in [
            (
                12288,
                "768 blocks: less than 0.1 % of the recommended 2^36, less than 0.1 % of the \
                 maximum 2^44",
            ),
            (
                3 * TIB / 2,
                "103079215104 blocks: 150.0 % of the recommended 2^36, 0.6 % of the maximum 2^44",
            ),
            (
                256 * TIB,
                "17592186044416 blocks: 25600.0 % of the recommended 2^36, 100.0 % of the maximum \
                 2^44",
            ),
        ] {
            assert_eq!(KeyScope::of_bytes(len).to_string(), text);
        }
    }
}
