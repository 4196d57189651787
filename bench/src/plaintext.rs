// SPDX-License-Identifier: MIT OR Apache-2.0
//! Known bytes, for checking that they come back.

use std::{
    fs::File,
    io::{self, BufWriter, Read, Write},
    path::Path,
};

/// A byte pattern without runs of zeros, which would become holes.
pub(crate) struct Pattern(u64);

impl Pattern {
    /// Begins at the first byte.
    pub(crate) fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    /// Fills `bytes` with the next ones. The length must be a multiple of 8, except in the last
    /// call.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.chunks_mut(8) {
            // Marsaglia's xorshift.
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            word.copy_from_slice(&self.0.to_le_bytes()[..word.len()]);
        }
    }
}

/// The bytes that are generated and compared at a time.
pub(crate) const PIECE: usize = 1 << 20;

/// Creates a file of `len` pattern bytes.
pub(crate) fn make(path: &Path, len: usize) -> Result<(), String> {
    let write = || {
        let mut file = BufWriter::with_capacity(PIECE, File::create_new(path)?);
        let (mut pattern, mut piece) = (Pattern::new(), vec![0; PIECE]);
        for at in (0..len).step_by(PIECE) {
            let piece = &mut piece[..PIECE.min(len - at)];
            pattern.fill(piece);
            file.write_all(piece)?;
        }
        file.flush()
    };
    write().map_err(|e: io::Error| format!("cannot write {}: {e}", path.display()))
}

/// Reads to the end, and compares with the first `len` pattern bytes.
pub(crate) fn compare(mut from: impl Read, len: usize) -> Result<(), String> {
    let failed = |e: io::Error| format!("reading failed: {e}");
    let (mut pattern, mut wanted, mut found) = (Pattern::new(), vec![0; PIECE], vec![0; PIECE]);
    for at in (0..len).step_by(PIECE) {
        let piece = PIECE.min(len - at);
        pattern.fill(&mut wanted[..piece]);
        match from.read_exact(&mut found[..piece]) {
            Ok(()) if wanted[..piece] == found[..piece] => {}
            Ok(()) => return Err(format!("wrong bytes in the MiB from byte {at} on")),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(format!("fewer than {len} bytes"));
            }
            Err(e) => return Err(failed(e)),
        }
    }
    match from.read(&mut found).map_err(failed)? {
        0 => Ok(()),
        _ => Err(format!("more than {len} bytes")),
    }
}

#[cfg(test)]
mod tests {
    use std::{env, fs};

    use super::*;
    use crate::program::Folder;

    #[test]
    fn other_bytes_are_noticed() {
        let folder = Folder::new(&env::temp_dir()).unwrap();
        let file = folder.path().join("file");
        let len = PIECE + 13;
        make(&file, len).unwrap();
        let mut bytes = fs::read(&file).unwrap();
        assert_eq!(compare(bytes.as_slice(), len), Ok(()));
        assert!(compare(bytes.as_slice(), len - 1).is_err());
        assert!(compare(bytes.as_slice(), len + 1).is_err());
        bytes[PIECE + 3] ^= 1;
        assert!(compare(bytes.as_slice(), len).is_err());
    }
}
