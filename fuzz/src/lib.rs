// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the targets that read a header share.

use std::{
    fmt::Display,
    sync::{Arc, LazyLock},
};

use luxor_engine::{Backend, Mode, Registry};
use luxor_sector::MemoryStorage;

/// Iterations that a fuzzer can wait for.
pub const CHEAP_ITERATIONS: u32 = 1000;

/// Reads a header from a storage, and has it checked if there is one; otherwise there is
/// an error in words. Nothing is written.
///
/// The first byte of the input says what the others are: a whole storage, or what `make`
/// puts into a header that is right in everything else, since few random ones keep the
/// rules.
pub fn header<T, E: Display>(
    input: &[u8],
    make: impl Fn(u8, &[u8]) -> Vec<u8>,
    read: impl Fn(&MemoryStorage) -> Result<T, E>,
    check: impl Fn(&T, &MemoryStorage),
) {
    let Some((&layout, bytes)) = input.split_first() else {
        return;
    };
    let storage = MemoryStorage::new(if layout & 1 == 0 {
        bytes.to_vec()
    } else {
        make(layout, bytes)
    });
    let before = storage.to_bytes();
    match read(&storage) {
        Ok(header) => check(&header, &storage),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    assert!(storage.to_bytes() == before, "reading wrote");
}

/// What keyslots are opened with.
pub fn backend() -> &'static dyn Backend {
    static BACKEND: LazyLock<Arc<dyn Backend>> = LazyLock::new(|| {
        Registry::cpu()
            .best(Mode::Xts)
            .expect("portable is always there")
    });
    &**BACKEND
}
