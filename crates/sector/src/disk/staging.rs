// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where plaintext becomes ciphertext on its way to the storage.

use std::{
    io,
    sync::{Mutex, PoisonError},
};

use luxor_engine::Buffer;

/// What is written.
pub enum Plaintext<'a> {
    /// Bytes that stay.
    Bytes(&'a [u8]),
    /// Bytes whose place the ciphertext may take.
    Lent(&'a mut [u8]),
    /// As many zeros as it takes.
    Zeros,
}

impl Plaintext<'_> {
    /// Fills `buf` with what comes next.
    pub fn fill(&mut self, buf: &mut [u8]) {
        match self {
            Self::Bytes(bytes) => {
                let (now, later) = bytes.split_at(buf.len());
                buf.copy_from_slice(now);
                *bytes = later;
            }
            Self::Lent(bytes) => {
                let now = bytes.split_off_mut(..buf.len()).expect("there is more");
                buf.copy_from_slice(now);
            }
            Self::Zeros => buf.fill(0),
        }
    }
}

/// Buffers that are kept: a fresh one costs a page fault for every 4 KiB.
#[derive(Debug, Default)]
pub struct Staging(Mutex<Vec<Buffer>>);

impl Staging {
    /// As many as cores are busy at a time on common machines; more are made and wiped.
    const KEPT: usize = 8;

    /// At least `len` bytes.
    pub fn take(&self, len: usize) -> io::Result<Buffer> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match kept {
            Some(buffer) if buffer.len() >= len => Ok(buffer),
            _ => Buffer::try_zeroed(len).map_err(|_| io::ErrorKind::OutOfMemory.into()),
        }
    }

    /// For whoever takes one next.
    pub fn give_back(&self, buffer: Buffer) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < Self::KEPT {
            kept.push(buffer);
        }
    }
}
