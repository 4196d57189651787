// SPDX-License-Identifier: MIT OR Apache-2.0
//! The source of plaintext that is to be written.

/// The plaintext of a write.
pub enum Plaintext<'a> {
    /// Bytes that must stay unchanged.
    Bytes(&'a [u8]),
    /// Bytes that the ciphertext may overwrite.
    Lent(&'a mut [u8]),
    /// Any number of zeros.
    Zeros,
}

impl Plaintext<'_> {
    /// Fills `buf` with the next bytes.
    pub fn fill(&mut self, buf: &mut [u8]) {
        match self {
            Self::Bytes(bytes) => {
                let (now, later) = bytes.split_at(buf.len());
                buf.copy_from_slice(now);
                *bytes = later;
            }
            Self::Lent(bytes) => {
                let now = bytes.split_off_mut(..buf.len()).expect("enough left");
                buf.copy_from_slice(now);
            }
            Self::Zeros => buf.fill(0),
        }
    }
}
