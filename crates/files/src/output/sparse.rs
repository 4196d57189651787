// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes bytes in order into a regular file, with holes for long runs of zeros.

use std::{fs::File, io};

use luxor_sector::Storage;

/// The shortest run of zeros that becomes a hole.
const HOLE: usize = 64 << 10;

/// The length of the pieces that are checked for zeros. It is so much shorter than a hole that
/// every run of `HOLE` zeros contains a whole piece.
const PROBE: usize = 4 << 10;

static ZEROS: [u8; HOLE] = [0; HOLE];

/// Writes to a file that has no bytes yet from the start position on.
#[derive(Debug)]
pub struct SparseWriter {
    sparse: bool,
    /// The file contains all bytes before this offset.
    position: u64,
    /// The number of zeros that follow, which become a hole if there are enough.
    zeros: u64,
}

impl SparseWriter {
    pub fn new(sparse: bool) -> Self {
        Self {
            sparse,
            position: 0,
            zeros: 0,
        }
    }

    /// Sets the offset of the first byte.
    pub fn start_at(&mut self, offset: u64) {
        self.position = offset;
    }

    /// Takes all of `bytes`.
    pub fn write(&mut self, file: &File, bytes: &[u8]) -> io::Result<usize> {
        if !self.sparse {
            self.put(file, bytes)?;
            return Ok(bytes.len());
        }
        let mut rest = bytes;
        loop {
            let zeros = leading_zeros(rest);
            self.zeros += zeros as u64;
            rest = &rest[zeros..];
            if rest.is_empty() {
                return Ok(bytes.len());
            }
            self.settle(file)?;
            let data = data_len(rest);
            self.put(file, &rest[..data])?;
            rest = &rest[data..];
        }
    }

    /// Extends the file to the end of all bytes.
    pub fn finish(&mut self, file: &File) -> io::Result<()> {
        if self.zeros < HOLE as u64 {
            self.settle(file)?;
        }
        let end = self.position + self.zeros;
        if Storage::len(file)? < end {
            file.set_len(end)
        } else {
            Ok(())
        }
    }

    /// Ends a run of zeros: leaves a hole for it or writes it.
    fn settle(&mut self, file: &File) -> io::Result<()> {
        let zeros = std::mem::take(&mut self.zeros);
        if zeros >= HOLE as u64 {
            self.position += zeros;
            return Ok(());
        }
        let zeros = usize::try_from(zeros).expect("`zeros` is less than `HOLE`");
        self.put(file, &ZEROS[..zeros])
    }

    fn put(&mut self, file: &File, bytes: &[u8]) -> io::Result<()> {
        Storage::write_all_at(file, bytes, self.position)?;
        self.position += bytes.len() as u64;
        Ok(())
    }
}

/// Returns how many bytes precede the first run of zeros that is or may become a hole: a run of at
/// least `HOLE`, or a run at the end, which the next bytes may continue.
fn data_len(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(probe) = bytes.get(at..at + PROBE) {
        if leading_zeros(probe) < PROBE {
            at += PROBE;
            continue;
        }
        let start = at - trailing_zeros(&bytes[..at]);
        let end = at + leading_zeros(&bytes[at..]);
        if end - start >= HOLE {
            return start;
        }
        at = end;
    }
    bytes.len() - trailing_zeros(bytes)
}

fn leading_zeros(bytes: &[u8]) -> usize {
    // For most data the first few bytes show that they are not zeros.
    let (words, _) = bytes.as_chunks::<64>();
    let whole = words
        .iter()
        .take_while(|word| word.iter().fold(0, |a, b| a | b) == 0)
        .count()
        * 64;
    whole + bytes[whole..].iter().take_while(|&&b| b == 0).count()
}

fn trailing_zeros(bytes: &[u8]) -> usize {
    bytes.iter().rev().take_while(|&&b| b == 0).count()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    /// The byte that marks places where nothing was written.
    const UNTOUCHED: u8 = 0xAA;

    /// Writes `bytes` in pieces of the lengths `pieces`, and compares the result with the rule,
    /// applied to all bytes at once.
    fn check(bytes: &[u8], pieces: &[usize], start: u64) {
        let file = tempfile::tempfile().unwrap();
        let whole = usize::try_from(start).unwrap() + bytes.len();
        Storage::write_all_at(&file, &vec![UNTOUCHED; whole], 0).unwrap();
        let mut writer = SparseWriter::new(true);
        writer.start_at(start);
        let (mut rest, mut pieces) = (bytes, pieces.iter().cycle());
        while !rest.is_empty() {
            let len = (*pieces.next().unwrap()).min(rest.len());
            assert_eq!(writer.write(&file, &rest[..len]).unwrap(), len);
            rest = &rest[len..];
        }
        writer.finish(&file).unwrap();

        let mut expected = bytes.to_vec();
        let mut at = 0;
        while at < bytes.len() {
            let run = bytes[at..].iter().take_while(|&&b| b == 0).count();
            if run >= HOLE {
                expected[at..at + run].fill(UNTOUCHED);
            }
            at += run.max(1);
        }
        let mut found = vec![0; bytes.len()];
        Storage::read_exact_at(&file, &mut found, start).unwrap();
        let differs = found.iter().zip(&expected).position(|(a, b)| a != b);
        assert_eq!(differs, None, "a start at {start}");
        assert_eq!(Storage::len(&file).unwrap(), whole as u64);
    }

    #[test]
    fn exactly_the_long_runs_of_zeros_are_left_out() {
        for run in [
            1,
            PROBE,
            HOLE - 1,
            HOLE,
            HOLE + 1,
            HOLE + PROBE - 1,
            3 * HOLE,
        ] {
            for before in [0, 1, PROBE - 1, PROBE, 70_000] {
                for after in [0, 1, PROBE, 70_000] {
                    let mut bytes = vec![1; before];
                    bytes.resize(before + run, 0);
                    bytes.resize(before + run + after, 2);
                    for pieces in [&[1 << 22][..], &[4096], &[4095, 1, 70_001], &[100_000]] {
                        check(&bytes, pieces, 0);
                    }
                }
            }
        }
    }

    #[test]
    fn any_mixture_is_written_as_the_rule_says() {
        // xorshift64, so that a failure can be reproduced.
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut random = move |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % below as u64).unwrap()
        };
        for _ in 0..60 {
            let mut bytes = Vec::new();
            for _ in 0..random(8) {
                bytes.resize(bytes.len() + random(150_000), 0);
                bytes.resize(bytes.len() + 1 + random(3) * random(10_000), 3);
            }
            let pieces: Vec<usize> = (0..5).map(|_| 1 + random(200_000)).collect();
            check(&bytes, &pieces, random(10_000) as u64);
        }
    }

    #[test]
    fn holes_take_no_room() {
        for (sparse, most) in [(true, 300), (false, u64::MAX)] {
            let file = tempfile::tempfile().unwrap();
            let mut writer = SparseWriter::new(sparse);
            for _ in 0..16 {
                writer.write(&file, &[0; 1 << 20]).unwrap();
                writer.write(&file, &[1; 4096]).unwrap();
            }
            writer.write(&file, &[0; 1 << 20]).unwrap();
            writer.finish(&file).unwrap();
            let metadata = file.metadata().unwrap();
            assert_eq!(metadata.len(), 16 * 4096 + (17 << 20));
            let blocks = metadata.blocks();
            assert!(
                blocks <= most && (sparse || blocks >= metadata.len() / 512),
                "{blocks}"
            );
        }
    }
}
