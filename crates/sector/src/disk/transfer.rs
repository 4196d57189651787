// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests that are served together.

use std::{io, ops::Range};

/// One request of a batch, see [`Disk::transfer`](super::Disk::transfer).
#[derive(Debug)]
pub struct Transfer<'a> {
    /// The first byte on the disk.
    pub offset: u64,
    /// The bytes to read or write.
    pub data: TransferData<'a>,
    /// The outcome, set by [`Disk::transfer`](super::Disk::transfer).
    pub result: io::Result<()>,
}

/// The bytes of a [`Transfer`].
#[derive(Debug)]
pub enum TransferData<'a> {
    /// The buffer for the plaintext. After an error its content is unspecified.
    Read(&'a mut [u8]),
    /// The plaintext to write. The ciphertext may overwrite it, so its content is unspecified
    /// afterwards.
    Write(&'a mut [u8]),
}

impl TransferData<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Read(buf) | Self::Write(buf) => buf.len(),
        }
    }

    pub(super) fn is_write(&self) -> bool {
        matches!(self, Self::Write(_))
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        match self {
            Self::Read(buf) | Self::Write(buf) => buf,
        }
    }
}

/// Whether two of the claims overlap and at least one of them writes.
pub(super) fn exclude_each_other(claims: &[(Range<u64>, bool)]) -> bool {
    if claims.len() < 2 || !claims.iter().any(|(_, write)| *write) {
        return false;
    }
    let mut sorted: Vec<_> = claims.iter().collect();
    sorted.sort_unstable_by_key(|(range, _)| range.start);
    // The greatest end so far, of all claims and of those that write.
    let (mut end, mut written) = (0, 0);
    for (range, write) in sorted {
        if range.start < written || (*write && range.start < end) {
            return true;
        }
        end = end.max(range.end);
        if *write {
            written = written.max(range.end);
        }
    }
    false
}
