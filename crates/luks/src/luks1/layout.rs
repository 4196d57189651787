// SPDX-License-Identifier: MIT OR Apache-2.0
//! The layout that cryptsetup uses: the first keyslot area at 4 KiB, each of the others at the next
//! multiple of 4 KiB, and the data at the next multiple of 1 MiB.

use super::phdr::{self, KEYSLOTS, UNIT};
use crate::af::STRIPES;

/// The alignment of keyslot areas in bytes, and the offset of the first one.
pub(super) const AREA_ALIGNMENT: u64 = 4096;
const DATA_ALIGNMENT: u64 = 1 << 20;

/// The length of an area that holds a key of `key_len` bytes, in whole 512-byte units.
pub(super) fn area_len(key_len: u32) -> u64 {
    (u64::from(key_len) * u64::from(STRIPES)).next_multiple_of(UNIT)
}

/// The distance in bytes between the beginnings of two consecutive areas.
pub(super) fn pitch(key_len: u32) -> u64 {
    area_len(key_len).next_multiple_of(AREA_ALIGNMENT)
}

/// The offset in bytes of the area of keyslot `slot`.
pub(super) fn area_offset(key_len: u32, slot: usize) -> u64 {
    AREA_ALIGNMENT + pitch(key_len) * slot as u64
}

/// The offset in bytes at which the last area ends, rounded up to the alignment.
pub(super) fn areas_end(key_len: u32) -> u64 {
    area_offset(key_len, KEYSLOTS)
}

/// The offset in bytes of the data.
pub(super) fn data_offset(key_len: u32) -> u64 {
    areas_end(key_len).next_multiple_of(DATA_ALIGNMENT)
}

/// Converts `bytes` to the header's unit of 512 bytes.
///
/// # Panics
/// If `bytes` is not a multiple of 512, or is 2⁴¹ (2 TiB) or more.
pub(super) fn units(bytes: u64) -> u32 {
    assert!(
        bytes.is_multiple_of(UNIT),
        "{bytes} bytes are not a whole number of sectors"
    );
    u32::try_from(bytes / UNIT).expect("less than 2 TiB")
}

const _: () = assert!(phdr::LEN as u64 <= AREA_ALIGNMENT);
