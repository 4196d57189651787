// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes where a LUKS1 header should be: a volume or an error in words.
//!
//! A change of a header that is right has four bytes: its place, and the value.

#![no_main]

use libfuzzer_sys::fuzz_target;
use luxor_fuzz::{CHEAP_ITERATIONS, backend, header};
use luxor_luks::{Kdf, Luks1Header, UnlockOptions};
use luxor_sector::{SectorSize, Storage};

const LEN: usize = 592;
/// The header, and the first keyslot with a key of 32 bytes.
const STORAGE: usize = 4096 + 128_000;

fuzz_target!(|input: &[u8]| {
    header(
        input,
        |_, changes| changed(changes),
        |storage| Luks1Header::read(storage),
        check,
    );
});

fn changed(changes: &[u8]) -> Vec<u8> {
    let mut volume = vec![0x5a; STORAGE];
    volume[..LEN].fill(0);
    let mut put = |offset: usize, bytes: &[u8]| {
        volume[offset..][..bytes.len()].copy_from_slice(bytes);
    };
    put(0, b"LUKS\xba\xbe\x00\x01aes");
    put(40, b"xts-plain64");
    put(72, b"sha256");
    put(104, &4096_u32.to_be_bytes());
    put(108, &32_u32.to_be_bytes());
    put(164, &1_u32.to_be_bytes());
    put(168, b"01234567-89ab-4def-8123-456789abcdef");
    for slot in 0..8_u32 {
        let at = 208 + 48 * slot as usize;
        let state = if slot == 0 { 0x00ac_71f3 } else { 0xdead_u32 };
        put(at, &state.to_be_bytes());
        put(at + 4, &1_u32.to_be_bytes());
        put(at + 40, &(8 + 256 * slot).to_be_bytes());
        put(at + 44, &4000_u32.to_be_bytes());
    }
    for change in changes.chunks_exact(4) {
        let place = usize::from(u16::from_be_bytes([change[0], change[1]])) % (LEN - 1);
        put(place, &change[2..]);
    }
    volume
}

fn check(header: &Luks1Header, storage: &dyn Storage) {
    let description = header.describe();
    // Lengths that the data do not open with are read too.
    assert!(matches!(description.key_len, 1..=512));
    // 4000 stripes of the key, rounded up to whole sectors.
    let area = (u64::from(description.key_len) * 4000).next_multiple_of(512);
    let segment = header.segment();
    if let Some(segment) = segment {
        assert!(matches!(description.key_len, 16 | 32 | 64));
        assert_eq!(segment.geometry.sector_size, SectorSize::B512);
        assert!(segment.offset == 0 || segment.offset >= header.metadata_len());
    }
    assert!(description.keyslots.len() <= 8);
    let mut areas: Vec<u64> = Vec::new();
    for keyslot in description.keyslots.values() {
        assert_eq!(keyslot.area.size, area);
        assert!(keyslot.area.offset >= LEN as u64);
        assert!(keyslot.area.offset + area <= header.metadata_len());
        areas.push(keyslot.area.offset);
    }
    areas.sort_unstable();
    assert!(areas.windows(2).all(|pair| pair[0] + area <= pair[1]));
    for len in [0, storage.len().expect("memory has a length"), u64::MAX] {
        if let Ok(payload) = header.plaintext_len(len) {
            let offset = header.entry().offset();
            assert!(payload > 0 && payload % 512 == 0 && offset + payload <= len);
        }
    }
    let json = header.metadata_json();
    serde_json::from_str::<serde_json::Value>(&json).expect("what is shown is JSON");

    // Costs that a fuzzer can wait for; a digest's have no lower limit.
    let cheap = |iterations: u32| iterations <= CHEAP_ITERATIONS;
    let all_cheap = description
        .keyslots
        .values()
        .all(|keyslot| matches!(keyslot.kdf, Kdf::Pbkdf2 { iterations, .. } if cheap(iterations)));
    if all_cheap && cheap(description.digest.iterations) {
        let options = UnlockOptions::default();
        let error = header
            .unlock(storage, b"secret", backend(), &options)
            .expect_err("nobody has that key");
        assert!(!error.to_string().is_empty());
    }
}
