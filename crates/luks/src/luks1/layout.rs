// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where cryptsetup puts keyslot areas and data: the first area at 4 KiB, each of the
//! others at the next multiple of 4 KiB, and the data at the next multiple of 1 MiB.

use super::phdr::{self, KEYSLOTS, UNIT};
use crate::af::STRIPES;

/// What areas are aligned to, in bytes; also where the first one begins.
pub(super) const AREA_ALIGNMENT: u64 = 4096;
const DATA_ALIGNMENT: u64 = 1 << 20;

/// The length of an area that holds a key of `key_len` bytes, in whole 512-byte units.
pub(super) fn area_len(key_len: u32) -> u64 {
    (u64::from(key_len) * u64::from(STRIPES)).next_multiple_of(UNIT)
}

/// The bytes from the beginning of an area to that of the next.
pub(super) fn pitch(key_len: u32) -> u64 {
    area_len(key_len).next_multiple_of(AREA_ALIGNMENT)
}

/// Where keyslot `slot`'s area begins, in bytes.
pub(super) fn area_offset(key_len: u32, slot: usize) -> u64 {
    AREA_ALIGNMENT + pitch(key_len) * slot as u64
}

/// Where all areas have ended, in bytes.
pub(super) fn areas_end(key_len: u32) -> u64 {
    area_offset(key_len, KEYSLOTS)
}

/// Where the data begin, in bytes.
pub(super) fn data_offset(key_len: u32) -> u64 {
    areas_end(key_len).next_multiple_of(DATA_ALIGNMENT)
}

/// `bytes` in the header's unit.
///
/// # Panics
/// If they are no multiple of 512, or 2⁴¹ and more.
pub(super) fn units(bytes: u64) -> u32 {
    assert!(
        bytes.is_multiple_of(UNIT),
        "{bytes} bytes are no whole sectors"
    );
    u32::try_from(bytes / UNIT).expect("less than 2 TiB")
}

const _: () = assert!(phdr::LEN as u64 <= AREA_ALIGNMENT);
