// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the targets that read a header share.

pub mod luks2;
pub mod volumes;

use std::{
    fmt::Display,
    io,
    sync::{Arc, LazyLock},
};

use luxor_engine::{Backend, Mode, Registry};
use luxor_sector::{MemoryStorage, Storage};

/// Iterations that a fuzzer can wait for, thousands of times a second.
pub const CHEAP_ITERATIONS: u32 = 10;

/// Reads a header from a storage, and has it checked if there is one; otherwise there is
/// an error in words. Nothing is written.
///
/// The first byte of the input says what the others are: a whole storage, or what `make`
/// puts into a header that is right in everything else, since few random ones keep the
/// rules.
pub fn header<T, E: Display>(
    input: &[u8],
    make: impl Fn(u8, &[u8]) -> Vec<u8>,
    read: impl Fn(&dyn Storage) -> Result<T, E>,
    check: impl Fn(&T, &dyn Storage),
) {
    let Some((&layout, bytes)) = input.split_first() else {
        return;
    };
    let storage = ReadOnly(MemoryStorage::new(if layout & 1 == 0 {
        bytes.to_vec()
    } else {
        make(layout, bytes)
    }));
    match read(&storage) {
        Ok(header) => check(&header, &storage),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

struct ReadOnly(MemoryStorage);

impl Storage for ReadOnly {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        panic!("reading writes");
    }

    fn sync(&self) -> io::Result<()> {
        panic!("reading syncs");
    }
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
