// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests that are made together.

use std::{io, ops::Range};

/// One of many requests: [`Disk::transfer`](super::Disk::transfer).
#[derive(Debug)]
pub struct Transfer<'a> {
    /// The first byte.
    pub offset: u64,
    /// What is read or written.
    pub data: TransferData<'a>,
    /// How it went.
    pub result: io::Result<()>,
}

/// The bytes of a [`Transfer`].
#[derive(Debug)]
pub enum TransferData<'a> {
    /// Where plaintext goes. After an error its content is unspecified.
    Read(&'a mut [u8]),
    /// The plaintext, whose place the ciphertext may take: afterwards the content is
    /// unspecified.
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

/// Whether two of the claims overlap and one of them writes.
pub(super) fn exclude_each_other(claims: &[(Range<u64>, bool)]) -> bool {
    if claims.len() < 2 || !claims.iter().any(|(_, write)| *write) {
        return false;
    }
    let mut sorted: Vec<_> = claims.iter().collect();
    sorted.sort_unstable_by_key(|(range, _)| range.start);
    // The farthest ends so far, of all and of those that write.
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
