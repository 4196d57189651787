// SPDX-License-Identifier: MIT OR Apache-2.0
//! LUKS2 headers of any JSON text, and what holds of those that are accepted.

use luxor_luks::{ChangeError, Luks2Header, UnlockOptions, readable_token, usual_numbers};
use luxor_sector::{MemoryStorage, Storage};
use sha2::{Digest, Sha256};

use crate::{CHEAP_ITERATIONS, backend};

/// The least of the nine, and two more.
const SIZES: [usize; 3] = [16 << 10, 32 << 10, 64 << 10];
/// Bytes after the headers: one keyslot with a key of 32 bytes.
const AREA: usize = 128_000;

/// Two headers with this JSON area, or with one of them damaged or older: as the bits of
/// `layout` say, but for the first.
pub fn volume(layout: u8, json: &[u8]) -> Vec<u8> {
    let size = SIZES[usize::from(layout >> 1) % SIZES.len()];
    let json = &json[..json.len().min(size - 4096)];
    let mut volume = Vec::with_capacity(2 * size + AREA);
    for magic in [b"LUKS\xba\xbe", b"SKUL\xba\xbe"] {
        let begin = volume.len();
        volume.resize(begin + size, 0);
        let copy = &mut volume[begin..];
        copy[..6].copy_from_slice(magic);
        copy[7] = 2;
        copy[8..16].copy_from_slice(&(size as u64).to_be_bytes());
        // Which of the copies is newer.
        copy[23] = if begin == 0 { layout >> 6 } else { 1 };
        copy[72..78].copy_from_slice(b"sha256");
        copy[256..264].copy_from_slice(&(begin as u64).to_be_bytes());
        copy[4096..][..json.len()].copy_from_slice(json);
        let sum = Sha256::digest(&*copy);
        copy[448..480].copy_from_slice(&sum);
    }
    match layout >> 4 & 3 {
        1 => volume[0] ^= 1,
        2 => volume[size] ^= 1,
        _ => {}
    }
    volume.resize(2 * size + AREA, 0x5a);
    volume
}

/// What holds of every header that is accepted.
pub fn check(header: &Luks2Header, storage: &dyn Storage) {
    let description = header.describe();
    let areas = 2 * description.header_size..=header.metadata_len();
    for keyslot in description.keyslots.values() {
        let end = keyslot
            .area
            .offset
            .checked_add(keyslot.area.size)
            .expect("no wrap");
        assert!(areas.contains(&keyslot.area.offset) && areas.contains(&end));
    }
    let mut data: Vec<_> = description.segments.values().collect();
    data.retain(|entry| entry.role.is_data());
    assert!(!data.is_empty());
    let offset = header.data_offset();
    assert!(offset == 0 || offset >= header.metadata_len());
    for len in [0, storage.len().expect("memory has a length"), u64::MAX] {
        let Ok(extents) = header.extents(len) else {
            continue;
        };
        assert_eq!(extents.len(), data.len());
        let mut places = Vec::new();
        for extent in &extents {
            let unit = extent
                .cipher
                .map_or(512, |cipher| cipher.geometry.sector_size.bytes());
            assert!(extent.len > 0 && extent.len % unit as u64 == 0);
            assert!(extent.offset + extent.len <= len);
            places.push((extent.offset, extent.len));
        }
        places.sort_unstable();
        assert!(
            places
                .windows(2)
                .all(|pair| pair[0].0 + pair[0].1 <= pair[1].0)
        );
        let _ = header.plaintext_len(len);
    }
    check_text(header, storage);

    // Costs that a fuzzer can wait for; a digest's have no lower limit.
    if description
        .digests
        .values()
        .all(|digest| digest.iterations <= CHEAP_ITERATIONS)
    {
        let options = UnlockOptions {
            memory_limit_kib: Some(64),
            iterations_limit: Some(10),
            ..UnlockOptions::default()
        };
        if let Err(error) = header.unlock(storage, b"secret", backend(), &options) {
            assert!(!error.to_string().is_empty());
        }
    }
}

/// Checks that metadata which were read are shown, and written, as JSON that reads the same.
fn check_text(header: &Luks2Header, storage: &dyn Storage) {
    let shown = shown(header);
    let readable = readable_token(&shown).expect("json-c reads what it writes");
    serde_json::from_str::<serde_json::Value>(&readable).expect("it is JSON");
    let usual = usual_numbers(&shown).expect("json-c reads what it writes");
    assert!(usual_numbers(&usual).as_ref() == Some(&usual));

    let mut bytes =
        vec![0; usize::try_from(storage.len().expect("memory has a length")).expect("small")];
    storage
        .read_exact_at(&mut bytes, 0)
        .expect("memory is read");
    let storage = MemoryStorage::new(bytes);
    match header
        .clone()
        .set_label(&storage, &"label".parse().expect("short"))
    {
        Ok(()) => {
            let now = Luks2Header::read(&storage).expect("what was written can be read");
            assert!(now.warnings().is_empty() && self::shown(&now) == shown);
        }
        Err(error) => assert!(
            !matches!(error, ChangeError::NotReadBack | ChangeError::Invalid(_)),
            "{error}"
        ),
    }
}

fn shown(header: &Luks2Header) -> Vec<u8> {
    let mut shown = Vec::new();
    header
        .write_metadata_json(&mut shown)
        .expect("memory is written");
    shown
}
