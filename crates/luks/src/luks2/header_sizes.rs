// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lengths of the parts of a new header: what cryptsetup's options `--luks2-metadata-size` and
//! `--luks2-keyslots-size` set.

use luxor_engine::KeySize;

use super::{binary_header, config::MAX_KEYSLOTS_SIZE, new_keyslot};

/// The length in bytes of a header whose keyslots area has no given length.
const DEFAULT_HEADER_LEN: u64 = 16 << 20;

/// The lengths of the parts of a LUKS2 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Luks2HeaderSizes {
    metadata: u64,
    keyslots: u64,
}

impl Luks2HeaderSizes {
    /// Returns the header with a copy of the metadata of `metadata` bytes, by default 16 KiB, and a
    /// keyslots area of `keyslots` bytes, by default up to byte `end`, or 16 MiB. The area must have
    /// room for a keyslot with a key of `key_size`.
    ///
    /// The data begin right after the area. cryptsetup aligns them to 1 MiB, unless its option
    /// `--offset` or `--align-payload` says otherwise, which would make the header of a small file
    /// many times longer than the file.
    ///
    /// # Errors
    /// [`Luks2HeaderSizesError`] names the size that is out of bounds.
    pub fn new(
        metadata: Option<u64>,
        keyslots: Option<u64>,
        end: Option<u64>,
        key_size: KeySize,
    ) -> Result<Self, Luks2HeaderSizesError> {
        let metadata = metadata.unwrap_or(binary_header::SIZES[0]);
        if !binary_header::SIZES.contains(&metadata) {
            return Err(Luks2HeaderSizesError::Metadata { found: metadata });
        }
        let keyslots = keyslots.unwrap_or_else(|| {
            let end = end.unwrap_or(DEFAULT_HEADER_LEN) / 4096 * 4096;
            end.saturating_sub(2 * metadata).min(MAX_KEYSLOTS_SIZE)
        });
        if !keyslots.is_multiple_of(4096) || keyslots > MAX_KEYSLOTS_SIZE {
            return Err(Luks2HeaderSizesError::Keyslots { found: keyslots });
        }
        let sizes = Self { metadata, keyslots };
        sizes.check_room(new_keyslot::area_size(2 * key_size.bytes()))?;
        Ok(sizes)
    }

    /// Checks that the area of a keyslot, `needed` bytes, fits into the keyslots area.
    pub(super) fn check_room(self, needed: u64) -> Result<(), Luks2HeaderSizesError> {
        let room = self.keyslots;
        if needed <= room {
            Ok(())
        } else {
            Err(Luks2HeaderSizesError::NoRoom { needed, room })
        }
    }

    /// The length of one copy of the metadata in bytes, including its binary header.
    #[must_use]
    pub fn metadata(self) -> u64 {
        self.metadata
    }

    /// The length of the keyslots area in bytes.
    #[must_use]
    pub fn keyslots(self) -> u64 {
        self.keyslots
    }

    /// The offset of the keyslots area in bytes: after both copies of the metadata.
    pub(super) fn keyslots_offset(self) -> u64 {
        2 * self.metadata
    }

    /// The length in bytes of both copies of the metadata and of the keyslots area.
    #[must_use]
    pub fn header_len(self) -> u64 {
        self.keyslots_offset() + self.keyslots
    }
}

impl Default for Luks2HeaderSizes {
    /// Returns cryptsetup's defaults: 16 KiB for each copy of the metadata, 16 MiB in all.
    fn default() -> Self {
        Self::new(None, None, None, KeySize::Aes256).expect("the defaults are within bounds")
    }
}

/// A size of a header that is out of bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Luks2HeaderSizesError {
    /// The format does not have this length of a copy of the metadata.
    #[error(
        "the LUKS2 metadata size is {found} bytes: it must be 16, 32, 64, 128, 256, 512, 1024, \
         2048 or 4096 KiB"
    )]
    Metadata {
        /// In bytes.
        found: u64,
    },
    /// The length of the keyslots area is not a multiple of 4096, or too great.
    #[error(
        "the LUKS2 keyslots size is {found} bytes: it must be a multiple of 4096, and at most \
         128 MiB"
    )]
    Keyslots {
        /// In bytes.
        found: u64,
    },
    /// The keyslots area cannot hold a keyslot.
    #[error("the LUKS2 keyslots size is {room} bytes: a keyslot of this volume needs {needed}")]
    NoRoom {
        /// The length of a keyslot's area in bytes.
        needed: u64,
        /// The length of the keyslots area in bytes.
        room: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    #[test]
    fn the_data_begin_after_the_keyslots_area() {
        let (aes128, aes256) = (KeySize::Aes128, KeySize::Aes256);
        for (metadata, keyslots, end, key_size, expected) in [
            (None, None, None, aes256, (16, 16352, 16384)),
            (Some(64), None, None, aes256, (64, 16256, 16384)),
            (Some(4096), None, None, aes256, (4096, 8192, 16384)),
            (None, Some(252), None, aes256, (16, 252, 284)),
            (Some(16), Some(512), Some(4096), aes256, (16, 512, 544)),
            (Some(32), Some(128), None, aes128, (32, 128, 192)),
            // As cryptsetup with --offset.
            (None, None, Some(4096), aes256, (16, 4064, 4096)),
            (Some(64), None, Some(8192), aes256, (64, 8064, 8192)),
            (None, None, Some(300_000), aes256, (16, 131_072, 131_104)),
            (
                Some(4096),
                Some(128 << 10),
                None,
                aes128,
                (4096, 131_072, 139_264),
            ),
        ] {
            let bytes = |kib: Option<u64>| kib.map(|kib| kib * KIB);
            let sizes =
                Luks2HeaderSizes::new(bytes(metadata), bytes(keyslots), bytes(end), key_size);
            let sizes = sizes.unwrap();
            let found = (sizes.metadata(), sizes.keyslots(), sizes.header_len());
            let (metadata, keyslots, header) = expected;
            assert_eq!(found, (metadata * KIB, keyslots * KIB, header * KIB));
        }
        assert_eq!(Luks2HeaderSizes::default().header_len(), 16 << 20);
    }

    #[test]
    fn sizes_out_of_bounds_are_refused() {
        use Luks2HeaderSizesError::{Keyslots, Metadata, NoRoom};
        let refused = |metadata, keyslots, key_size| {
            Luks2HeaderSizes::new(metadata, keyslots, None, key_size).unwrap_err()
        };
        for found in [0, 16, 8 * KIB, 16 * KIB + 1, 20 * KIB, 8192 * KIB, u64::MAX] {
            let error = refused(Some(found), None, KeySize::Aes256);
            assert_eq!(error, Metadata { found });
        }
        for found in [1, 256 * KIB + 512, (128 << 20) + 4096, u64::MAX] {
            let error = refused(None, Some(found), KeySize::Aes256);
            assert_eq!(error, Keyslots { found });
        }
        for (room, key_size, needed) in [
            (0, KeySize::Aes256, 252),
            (248, KeySize::Aes256, 252),
            (0, KeySize::Aes128, 128),
            (124, KeySize::Aes128, 128),
        ] {
            let (room, needed) = (room * KIB, needed * KIB);
            let error = refused(None, Some(room), key_size);
            assert_eq!(error, NoRoom { needed, room });
        }
    }
}
