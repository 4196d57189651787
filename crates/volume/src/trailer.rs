// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trailer of a file whose length was not known when the header was written: the sector after
//! its data, encrypted like them.
//!
//! ```text
//! byte  0 … 15   "luxor-trailer-v1"
//!      16 … 23   the length of the file in bytes, big-endian
//!      24 … 55   HMAC-SHA-256 of bytes 0 … 23
//!      56 …      zeros
//! ```
//!
//! The key of the HMAC is itself the HMAC-SHA-256, under the volume key, of "luxor-trailer-v1" and the
//! text of the volume's UUID. So a trailer that was taken from another volume is not believed, and
//! one that was moved within its volume does not stand where its length says.

use hmac::{Hmac, KeyInit, Mac};
use luxor_secret::SecretBytes;
use luxor_sector::SectorSize;
use sha2::Sha256;
use zeroize::Zeroize;

use crate::volume_key::VolumeKey;

/// The first bytes of a trailer.
const MAGIC: &[u8; 16] = b"luxor-trailer-v1";
const LENGTH_END: usize = MAGIC.len() + size_of::<u64>();
const MAC_END: usize = LENGTH_END + MAC_LEN;
const MAC_LEN: usize = 32;

/// Makes and recognises the trailer of one volume.
#[derive(Clone, Debug)]
pub struct TrailerKey {
    key: SecretBytes,
    sector_size: SectorSize,
}

impl TrailerKey {
    /// Derives it from the volume key and the volume's UUID, as text.
    #[must_use]
    pub fn new(volume_key: &VolumeKey, uuid: &str, sector_size: SectorSize) -> Self {
        let mac = mac(volume_key.expose()).chain_update(MAGIC);
        let mut mac = mac.chain_update(uuid).finalize().into_bytes();
        let key = SecretBytes::copy_of(&mac);
        mac.zeroize();
        Self { key, sector_size }
    }

    /// The sector size of the data. A trailer is one sector.
    #[must_use]
    pub fn sector_size(&self) -> SectorSize {
        self.sector_size
    }

    /// Returns the trailer of a file of `length` bytes.
    #[must_use]
    pub fn trailer(&self, length: u64) -> Vec<u8> {
        let mut sector = vec![0; self.sector_size.bytes()];
        sector[..MAGIC.len()].copy_from_slice(MAGIC);
        sector[MAGIC.len()..LENGTH_END].copy_from_slice(&length.to_be_bytes());
        let mac = mac(self.key.expose()).chain_update(&sector[..LENGTH_END]);
        sector[LENGTH_END..MAC_END].copy_from_slice(&mac.finalize().into_bytes());
        sector
    }

    /// Returns the length of the file if `sector`, the decrypted sector at byte `offset` of the
    /// data, is its trailer.
    #[must_use]
    pub fn length(&self, sector: &[u8], offset: u64) -> Option<u64> {
        if sector.len() != self.sector_size.bytes() {
            return None;
        }
        let (length, _) = sector.strip_prefix(MAGIC)?.split_first_chunk()?;
        let length = u64::from_be_bytes(*length);
        let mac = mac(self.key.expose()).chain_update(&sector[..LENGTH_END]);
        mac.verify_slice(&sector[LENGTH_END..MAC_END]).ok()?;
        (self.sector_size.payload_len(length) == Some(offset)).then_some(length)
    }
}

fn mac(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("keys may have any length")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Encryption;

    const UUID: &str = "3c4e1a2b-0000-4000-8000-00000000beef";

    fn volume_key(first: u8) -> VolumeKey {
        let bytes: Vec<u8> = (first..).take(64).collect();
        VolumeKey::new(
            SecretBytes::copy_of(&bytes),
            Encryption::AesXtsPlain64,
            false,
        )
        .unwrap()
    }

    /// Computed by Python's `hmac`.
    #[test]
    fn a_trailer_is_as_documented() {
        let key = TrailerKey::new(&volume_key(0), UUID, SectorSize::B512);
        let trailer = key.trailer(12_345);
        assert_eq!(&trailer[..16], b"luxor-trailer-v1");
        assert_eq!(trailer[16..24], [0, 0, 0, 0, 0, 0, 0x30, 0x39]);
        let mac: String = trailer[24..56]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(
            mac,
            "43ecf34f581fb6586bec18bf857805f7698e92e8fb48b179a41a7d5f5b272529"
        );
        assert!(trailer[56..] == [0; 512 - 56]);
    }

    #[test]
    fn only_the_own_trailer_in_its_own_place_is_believed() {
        for sector_size in [SectorSize::B512, SectorSize::B4096] {
            let key = TrailerKey::new(&volume_key(0), UUID, sector_size);
            let sector = sector_size.bytes() as u64;
            for (length, offset) in [
                (0, sector),
                (1, sector),
                (sector, sector),
                (sector + 1, 2 * sector),
                (10 * sector, 10 * sector),
            ] {
                let trailer = key.trailer(length);
                assert_eq!(key.length(&trailer, offset), Some(length));
                for moved in [0, offset - sector, offset + sector, offset + 1] {
                    assert_eq!(key.length(&trailer, moved), None, "{length} at {moved}");
                }
                for others in [
                    TrailerKey::new(&volume_key(1), UUID, sector_size),
                    TrailerKey::new(&volume_key(0), &UUID.replace('3', "4"), sector_size),
                ] {
                    assert_eq!(others.length(&trailer, offset), None);
                }
                for byte in 0..MAC_END {
                    let mut forged = trailer.clone();
                    forged[byte] ^= 1;
                    assert_eq!(key.length(&forged, offset), None, "{byte}");
                }
                assert_eq!(key.length(&trailer[1..], offset), None);
            }
            let huge = key.trailer(u64::MAX);
            assert_eq!(key.length(&huge, u64::MAX), None);
        }
    }
}
