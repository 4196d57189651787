// SPDX-License-Identifier: MIT OR Apache-2.0
//! Volumes for the tests, and ways to change them.

use std::{fs, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use luxor_luks::{
    Luks2Header, Luks2Options, NewLuks2Volume, PbkdfKind, PbkdfOptions, UnlockError, UnlockOptions,
    Unlocked,
};
use luxor_sector::{MemoryStorage, Storage};
use serde_json::Value;

use crate::{backend, seal};

pub const SECRET: &[u8] = b"secret";
/// The length of a copy of the header.
pub const SIZE: usize = 16 << 10;
/// The end of keyslot 0's split key.
pub const AREA_END: usize = 32768 + 256_000;

/// Paths of members, such as `keyslots/0/area/offset`, and their new values.
pub type Changes<'a> = Vec<(&'a str, Option<Value>)>;

/// Returns a volume up to the end of its only keyslot.
pub fn volume(kind: PbkdfKind) -> Vec<u8> {
    let argon2 = kind != PbkdfKind::Pbkdf2;
    let options = Luks2Options {
        pbkdf: PbkdfOptions {
            kind,
            memory_kib: argon2.then_some(32),
            parallel: argon2.then_some(1),
            force_iterations: Some(if argon2 { 4 } else { 1000 }),
            ..PbkdfOptions::default()
        },
        file_length: Some(5),
        ..Luks2Options::default()
    };
    let mut bytes = Vec::new();
    let volume = NewLuks2Volume::create(&options, SECRET, &*backend()).unwrap();
    volume.write_stream(&mut bytes).unwrap();
    bytes.truncate(AREA_END);
    bytes
}

pub fn unlock(header: &Luks2Header, storage: &dyn Storage) -> Result<Unlocked, UnlockError> {
    header.unlock(storage, SECRET, &*backend(), &UnlockOptions::default())
}

pub fn json_text(volume: &[u8]) -> &str {
    let area = &volume[4096..SIZE];
    let end = area.iter().position(|&b| b == 0).unwrap();
    std::str::from_utf8(&area[..end]).unwrap()
}

/// Returns some bytes in base64.
pub fn base64(len: usize) -> Value {
    BASE64_STANDARD.encode(vec![7; len]).into()
}

/// Returns both headers with this JSON area and correct checksums, and `volume`'s keyslots area
/// after them.
pub fn with_json(volume: &[u8], json: &[u8]) -> Vec<u8> {
    let size = [SIZE, 64 << 10, 256 << 10, 4 << 20]
        .into_iter()
        .find(|size| json.len() + 4096 <= *size)
        .unwrap();
    let mut bytes = Vec::new();
    for copy in [&volume[..SIZE], &volume[SIZE..2 * SIZE]] {
        let begin = bytes.len();
        bytes.extend(&copy[..4096]);
        bytes[begin + 8..begin + 16].copy_from_slice(&(size as u64).to_be_bytes());
        bytes[begin + 256..begin + 264].copy_from_slice(&(begin as u64).to_be_bytes());
        bytes.extend(json);
        bytes.resize(begin + size, 0);
        seal(&mut bytes[begin..]);
    }
    bytes.extend(&volume[2 * SIZE..]);
    bytes
}

/// Returns the CPU time of this thread. Tests share CPUs with others, so wall-clock time says
/// little.
pub fn cpu_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
}

/// Reads the metadata and, if that succeeds, unlocks the volume. Both must be fast, and neither may
/// write.
pub fn attempt(bytes: Vec<u8>) -> Result<Unlocked, String> {
    let before = bytes.clone();
    let begin = cpu_time();
    let storage = MemoryStorage::new(bytes);
    let result = match Luks2Header::read(&storage) {
        Ok(header) => {
            // These must not panic either.
            let _ = (
                header.metadata_json(),
                header.describe(),
                header.plaintext_len(1 << 30),
            );
            unlock(&header, &storage).map_err(|error| error.to_string())
        }
        Err(error) => Err(error.to_string()),
    };
    let took = cpu_time() - begin;
    assert!(took < Duration::from_secs(10), "took {took:?}: {result:?}");
    if let Err(words) = &result {
        assert!(words.len() > 15 && words.len() < 2000, "{words}");
    }
    assert!(storage.into_bytes() == before, "reading wrote");
    result
}

/// Sets the member at a path such as `keyslots/0/area/offset`, or removes it.
pub fn changed(volume: &[u8], changes: &[(&str, Option<Value>)]) -> Vec<u8> {
    let mut json: Value = serde_json::from_str(json_text(volume)).unwrap();
    for (path, value) in changes {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = if parent.is_empty() {
            String::new()
        } else {
            format!("/{parent}")
        };
        let parent = json.pointer_mut(&parent).unwrap().as_object_mut().unwrap();
        match value {
            Some(value) => parent.insert(name.into(), value.clone()),
            None => parent.shift_remove(name),
        };
    }
    with_json(volume, json.to_string().as_bytes())
}
