// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes where a LUKS2 header should be: a volume or an error in words.
//!
//! What is put into headers that are right is their JSON area; checksums included, since
//! nothing beyond a checksum would ever be reached without it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use luxor_fuzz::{
    header,
    luks2::{check, volume},
};
use luxor_luks::Luks2Header;

fuzz_target!(|input: &[u8]| header(input, volume, |storage| Luks2Header::read(storage), check));
