// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where plaintext comes from that is to be written.

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
