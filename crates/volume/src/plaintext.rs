// SPDX-License-Identifier: MIT OR Apache-2.0
//! The result of every format: a plaintext in parts. Each part has its own offset in a storage,
//! geometry and key, or is not encrypted. During a re-encryption the parts can lie in any order.

use std::collections::BTreeMap;

use luxor_sector::Geometry;

use crate::{cipher::Encryption, data_key::DataKey};

/// A range of a volume's plaintext, and the location of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The offset of the first byte in the storage that holds the data.
    pub offset: u64,
    /// The length in bytes; `u64::MAX` for a pipe of unknown length.
    pub len: u64,
    /// The encryption; `None` if the bytes are stored in plaintext.
    pub cipher: Option<ExtentCipher>,
}

impl Extent {
    /// Returns the extents of which a storage of `storage_len` bytes has the beginning, up to the
    /// last whole sector.
    #[must_use]
    pub fn within(extents: Vec<Self>, storage_len: u64) -> Vec<Self> {
        let mut is_whole = true;
        let extents = extents.into_iter().map_while(|mut extent| {
            let unit = match extent.cipher {
                Some(cipher) => cipher.geometry.sector_size.bytes() as u64,
                None => 1,
            };
            let there = storage_len.saturating_sub(extent.offset);
            let cut_off = extent.len.min(there - there % unit);
            let is_there = is_whole && cut_off > 0;
            is_whole = cut_off == extent.len;
            extent.len = cut_off;
            is_there.then_some(extent)
        });
        extents.collect()
    }
}

/// The encryption of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentCipher {
    /// The number of its key in [`Plaintext::keys`]. Each format numbers keys in its own way.
    pub key: u32,
    /// The encryption. `None` for a cipher that is not the engine's: the key is
    /// [`DataKey::Loaded`] then.
    pub encryption: Option<Encryption>,
    /// The division of its bytes into data units. The extent's first byte is byte 0.
    pub geometry: Geometry,
}

/// The plaintext of an unlocked volume: where its bytes are, and the keys to decrypt them.
#[derive(Clone, Debug)]
pub struct Plaintext {
    /// The parts, in the order of the plaintext.
    pub extents: Vec<Extent>,
    /// The length in bytes of the contents, without the padding at the end of a file. `None` if
    /// there is no padding.
    pub len: Option<u64>,
    /// The keys by number: one for each [`ExtentCipher::key`].
    pub keys: BTreeMap<u32, DataKey>,
}

impl Plaintext {
    /// Returns the extents that hold contents, and the number of bytes in each, without the padding
    /// at the end of a file. There is always at least one.
    #[must_use]
    pub fn parts(&self) -> Vec<(&Extent, u64)> {
        let mut left = self.len.unwrap_or(u64::MAX);
        let mut parts = Vec::new();
        for extent in &self.extents {
            let len = extent.len.min(left);
            if len > 0 || parts.is_empty() {
                parts.push((extent, len));
            }
            left -= len;
        }
        parts
    }

    /// Returns the number of bytes that are stored unencrypted, as during a re-encryption that
    /// encrypts or decrypts a volume.
    #[must_use]
    pub fn linear_len(&self) -> u64 {
        let parts = self.parts().into_iter();
        let linear = parts.filter(|(extent, _)| extent.cipher.is_none());
        linear.map(|(_, len)| len).sum()
    }
}

#[cfg(test)]
mod tests {
    use luxor_sector::{IvMode, SectorSize};

    use super::*;

    /// Returns three extents of 4096 bytes. The second one is not encrypted.
    fn plaintext(len: Option<u64>) -> Plaintext {
        let cipher = ExtentCipher {
            key: 0,
            encryption: Some(Encryption::AesXtsPlain64),
            geometry: Geometry {
                sector_size: SectorSize::B4096,
                iv_mode: IvMode::Plain64,
                iv_offset: 0,
                iv_large_sectors: false,
            },
        };
        let extent = |i: u64| Extent {
            offset: 4096 * i,
            len: 4096,
            cipher: (i != 1).then_some(cipher),
        };
        Plaintext {
            extents: (0..3).map(extent).collect(),
            len,
            keys: BTreeMap::new(),
        }
    }

    #[test]
    fn a_storage_that_is_cut_off_has_the_sectors_before_its_end() {
        for (storage_len, lens) in [
            (20_000, vec![4096, 4096, 4096]),
            (12_288, vec![4096, 4096, 4096]),
            (12_287, vec![4096, 4096]),
            (8191, vec![4096, 4095]),
            (4096, vec![4096]),
            (4095, vec![]),
            (0, vec![]),
        ] {
            let extents = Extent::within(plaintext(None).extents, storage_len);
            let found: Vec<u64> = extents.iter().map(|extent| extent.len).collect();
            assert_eq!(found, lens, "{storage_len}");
        }
    }

    #[test]
    fn padding_may_be_whole_extents() {
        for (len, lens, linear) in [
            (None, vec![4096, 4096, 4096], 4096),
            (Some(12288), vec![4096, 4096, 4096], 4096),
            (Some(8193), vec![4096, 4096, 1], 4096),
            (Some(8192), vec![4096, 4096], 4096),
            (Some(4099), vec![4096, 3], 3),
            (Some(5), vec![5], 0),
            (Some(0), vec![0], 0),
        ] {
            let plaintext = plaintext(len);
            let parts = plaintext.parts().into_iter();
            assert_eq!(parts.map(|(_, len)| len).collect::<Vec<u64>>(), lens);
            assert_eq!(plaintext.linear_len(), linear, "{len:?}");
        }
    }
}
