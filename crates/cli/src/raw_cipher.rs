// SPDX-License-Identifier: MIT OR Apache-2.0
//! A bare mode over a stream of any length: cuts it into runs, and carries the
//! data unit number, the counter or the keystream from piece to piece.

use std::io::{self, Read, Write};

use luxor_engine::{
    Buffer, CryptError, DataUnitLen, DataUnitNumber, Direction, Executor, LoadedKey, Mode, Run,
};

const BLOCK: usize = 16;

/// Bytes in a piece, about: enough for every thread, little beside 64 MiB.
const PIECE: usize = 4 << 20;

/// Units into which CTR and ECB are cut, so that threads can share the work.
const SHARE: usize = 64 << 10;

/// What to do with a stream.
pub struct RawCipher<'a> {
    /// The mode of `key`.
    pub mode: Mode,
    /// The key.
    pub key: &'a dyn LoadedKey,
    /// The threads that do the work.
    pub executor: &'a Executor,
    /// Which way.
    pub direction: Direction,
    /// XTS: the length of a data unit; `None` for one unit of all bytes.
    pub data_unit: Option<DataUnitLen>,
    /// XTS: the number of the first data unit. CTR: the first counter. OFB: the
    /// IV.
    pub first: DataUnitNumber,
    /// XTS: the step of the number per data unit.
    pub stride: u64,
}

impl RawCipher<'_> {
    /// Whether `len` bytes can be processed, to be asked before any output where
    /// the length is known.
    ///
    /// # Errors
    /// [`RawError::ShortUnit`], [`RawError::PartBlock`] and
    /// [`RawError::UnitTooLong`].
    pub fn check_len(&self, len: u64) -> Result<(), RawError> {
        match (self.mode, self.data_unit) {
            (Mode::Xts, Some(unit)) => match len % unit.get() as u64 {
                0 | 16.. => Ok(()),
                found => Err(RawError::ShortUnit { found }),
            },
            (Mode::Xts, None) if len > DataUnitLen::MAX.get() as u64 => Err(RawError::UnitTooLong),
            (Mode::Xts, None) if len < BLOCK as u64 => Err(RawError::ShortUnit { found: len }),
            (Mode::Ecb, _) if !len.is_multiple_of(BLOCK as u64) => Err(RawError::PartBlock { len }),
            _ => Ok(()),
        }
    }

    /// Processes all of `source`. `progress` gets the number of bytes written.
    ///
    /// A wrong length is noticed before the last piece is written; streams of at
    /// most one piece (4 MiB and more) are refused before any output.
    ///
    /// # Errors
    /// [`RawError`]; `sink` then has a part of the output.
    pub fn run(
        mut self,
        source: &mut dyn Read,
        sink: &mut dyn Write,
        progress: &dyn Fn(u64),
    ) -> Result<u64, RawError> {
        // One byte more than a lone unit may have, to see that it is too long.
        let lone_unit = self.mode == Mode::Xts && self.data_unit.is_none();
        let piece_len = match self.data_unit {
            _ if lone_unit => DataUnitLen::MAX.get() + 1,
            Some(unit) => unit.get() * (PIECE / unit.get()).max(1),
            None => PIECE,
        };
        let buffer =
            |len: usize| Buffer::try_zeroed(len).map_err(|_| RawError::Memory { kib: len >> 10 });
        let mut current = buffer(piece_len)?;
        let mut following = buffer(if lone_unit { 0 } else { piece_len })?;
        let mut total = 0;

        let mut len = fill(source, &mut current, 0)?;
        loop {
            // A full piece may be the last, or be followed by one that is too short.
            let at_end = len < current.len();
            let ahead = if at_end {
                0
            } else {
                fill(source, &mut following, total + len as u64)?
            };
            if at_end || ahead < following.len() || lone_unit {
                self.check_len(total + len as u64 + ahead as u64)?;
            }
            self.piece(&mut current[..len])?;
            sink.write_all(&current[..len])
                .map_err(|source| RawError::Write {
                    offset: total,
                    source,
                })?;
            total += len as u64;
            progress(total);
            if ahead == 0 {
                break;
            }
            std::mem::swap(&mut current, &mut following);
            len = ahead;
        }
        sink.flush().map_err(|source| RawError::Write {
            offset: total,
            source,
        })?;
        Ok(total)
    }

    /// Processes the next bytes in place: whole units, but for the last piece.
    fn piece(&mut self, bytes: &mut [u8]) -> Result<(), RawError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let len = bytes.len();
        match self.mode {
            Mode::Xts => {
                let unit = self.data_unit.map_or(len, DataUnitLen::get);
                self.crypt(bytes, unit, self.stride)?;
                self.first = self.first.step((len / unit) as u64, self.stride);
            }
            Mode::Ctr => {
                self.crypt(bytes, SHARE, (SHARE / BLOCK) as u64)?;
                self.first = self.first.step((len / BLOCK) as u64, 1);
            }
            Mode::Ofb => {
                // The keystream's last block is the IV for what follows.
                let last = len - len % BLOCK;
                let before = last.checked_sub(BLOCK).map(|start| block(&bytes[start..]));
                self.crypt(bytes, len, 0)?;
                if let Some(before) = before {
                    self.first = DataUnitNumber::new(before ^ block(&bytes[last - BLOCK..]));
                }
            }
            _ => self.crypt(bytes, SHARE, 0)?,
        }
        Ok(())
    }

    /// Units of `unit` bytes, and a shorter last one.
    fn crypt(&self, bytes: &mut [u8], unit: usize, stride: u64) -> Result<(), RawError> {
        let (whole, rest) = bytes.split_at_mut(bytes.len() - bytes.len() % unit);
        let units = (whole.len() / unit) as u64;
        let mut runs = Vec::with_capacity(2);
        for (first, bytes, unit) in [
            (self.first, whole, unit),
            (self.first.step(units, stride), rest, unit),
        ] {
            if !bytes.is_empty() {
                let unit = DataUnitLen::new(unit.min(bytes.len()))?;
                runs.push(Run::new(first, stride, unit, bytes)?);
            }
        }
        Ok(self.executor.crypt(self.key, self.direction, &mut runs)?)
    }
}

/// The first 16 bytes as a big-endian number.
fn block(bytes: &[u8]) -> u128 {
    let (block, _) = bytes
        .split_first_chunk()
        .expect("the caller has a whole block");
    u128::from_be_bytes(*block)
}

/// Reads until `buf` is full or the source ends; the number of bytes.
fn fill(source: &mut dyn Read, buf: &mut [u8], offset: u64) -> Result<usize, RawError> {
    let mut len = 0;
    while len < buf.len() {
        match source.read(&mut buf[len..]) {
            Ok(0) => break,
            Ok(count) => len += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => {
                return Err(RawError::Read {
                    offset: offset + len as u64,
                    source,
                });
            }
        }
    }
    Ok(len)
}

/// Why a stream was not processed to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RawError {
    /// Too few bytes for ciphertext stealing.
    #[error("the last data unit has {found} bytes, and xts needs at least 16 in each")]
    ShortUnit {
        /// Bytes in it.
        found: u64,
    },
    /// A single data unit of more than 2²⁰ blocks.
    #[error(
        "the input is longer than 16777216 bytes, the limit for one data unit (SP 800-38E): give \
         --data-unit"
    )]
    UnitTooLong,
    /// ECB has whole blocks only.
    #[error("the input has {len} bytes, and ecb needs a multiple of 16")]
    PartBlock {
        /// Bytes in the input.
        len: u64,
    },
    /// The source failed.
    #[error("cannot read at byte {offset}")]
    Read {
        /// So many bytes had been read.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The sink failed.
    #[error("cannot write at byte {offset}")]
    Write {
        /// So many bytes had been written before this piece.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
    /// There is no memory for a piece.
    #[error("out of memory: {kib} KiB are needed")]
    Memory {
        /// The length of a piece in KiB.
        kib: usize,
    },
    /// The engine failed.
    #[error(transparent)]
    Crypt(#[from] CryptError),
    /// Not a run that an engine takes.
    #[error(transparent)]
    Run(#[from] luxor_engine::RunError),
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use luxor_engine::{AesKey, KeySpec, Registry, XtsKey};

    use super::*;

    /// A source that gives few bytes at a time, as pipes do.
    struct Dribble<'a>(&'a [u8], usize);

    impl Read for Dribble<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let len = self.1.min(buf.len()).min(self.0.len());
            let (head, tail) = self.0.split_at(len);
            buf[..len].copy_from_slice(head);
            self.0 = tail;
            Ok(len)
        }
    }

    fn key(mode: Mode) -> KeySpec {
        let bytes: [u8; 64] = std::array::from_fn(|i| u8::try_from(i).unwrap());
        let aes = AesKey::new(&bytes[..32]).unwrap();
        match mode {
            Mode::Xts => KeySpec::Xts(XtsKey::new(&bytes).unwrap()),
            Mode::Ctr => KeySpec::Ctr(aes),
            Mode::Ofb => KeySpec::Ofb(aes),
            _ => KeySpec::Ecb(aes),
        }
    }

    fn process(
        mode: Mode,
        data_unit: Option<usize>,
        direction: Direction,
        input: &[u8],
    ) -> (Vec<u8>, Result<u64, RawError>) {
        let key = Registry::cpu()
            .best(mode)
            .unwrap()
            .load_key(&key(mode))
            .unwrap();
        let cipher = RawCipher {
            mode,
            key: &*key,
            executor: &Executor::new(NonZeroUsize::new(2).unwrap()),
            direction,
            data_unit: data_unit.map(|unit| DataUnitLen::new(unit).unwrap()),
            first: DataUnitNumber::new(u128::MAX - 3),
            stride: 5,
        };
        let mut output = Vec::new();
        let result = cipher.run(&mut Dribble(input, 1_000_003), &mut output, &|_| {});
        (output, result)
    }

    /// What one run over all bytes gives.
    fn at_once(mode: Mode, input: &[u8]) -> Vec<u8> {
        let key = Registry::cpu()
            .best(mode)
            .unwrap()
            .load_key(&key(mode))
            .unwrap();
        let mut bytes = input.to_vec();
        let unit = DataUnitLen::new(bytes.len()).unwrap();
        let run = Run::new(DataUnitNumber::new(u128::MAX - 3), 5, unit, &mut bytes[..]).unwrap();
        key.crypt(Direction::Encrypt, &mut [run]).unwrap();
        bytes
    }

    fn input(len: usize) -> Vec<u8> {
        (0..len)
            .map(|i| (i.wrapping_mul(0x9e37_79b9) >> 7).to_le_bytes()[0])
            .collect()
    }

    #[test]
    fn pieces_join_without_a_seam() {
        for mode in [Mode::Ctr, Mode::Ofb, Mode::Ecb] {
            for len in [
                16,
                48,
                SHARE,
                SHARE + 16,
                PIECE - 16,
                PIECE,
                PIECE + 16,
                2 * PIECE,
                2 * PIECE + 4096,
            ] {
                let input = input(len);
                let (output, result) = process(mode, None, Direction::Encrypt, &input);
                assert_eq!(result.unwrap(), len as u64);
                assert!(output == at_once(mode, &input), "{mode}, {len} bytes");
            }
        }
        for mode in [Mode::Ctr, Mode::Ofb] {
            for len in [1, 15, 17, SHARE + 1, PIECE - 1, PIECE + 1, PIECE + 31] {
                let input = input(len);
                let (output, _) = process(mode, None, Direction::Encrypt, &input);
                assert!(output == at_once(mode, &input), "{mode}, {len} bytes");
            }
        }
    }

    #[test]
    fn xts_units_are_numbered_across_pieces() {
        for unit in [16, 17, 512, 4096, 100_000, PIECE - 1, PIECE + 1, 1 << 24] {
            let input = input(2 * PIECE.max(unit) + 16);
            let (output, result) = process(Mode::Xts, Some(unit), Direction::Encrypt, &input);
            match input.len() % unit {
                0 | 16.. => result.unwrap(),
                found => {
                    assert!(matches!(result, Err(RawError::ShortUnit { .. })), "{found}");
                    continue;
                }
            };
            let key = Registry::cpu()
                .best(Mode::Xts)
                .unwrap()
                .load_key(&key(Mode::Xts))
                .unwrap();
            let mut expected = input.clone();
            for (k, bytes) in expected.chunks_mut(unit).enumerate() {
                let first = DataUnitNumber::new(u128::MAX - 3).step(k as u64, 5);
                let len = DataUnitLen::new(bytes.len()).unwrap();
                key.crypt(
                    Direction::Encrypt,
                    &mut [Run::new(first, 5, len, bytes).unwrap()],
                )
                .unwrap();
            }
            assert!(output == expected, "units of {unit}");
            let (back, _) = process(Mode::Xts, Some(unit), Direction::Decrypt, &output);
            assert!(back == input, "units of {unit}");
        }
    }

    #[test]
    fn a_wrong_length_is_an_error_before_any_output() {
        for (mode, unit, len) in [
            (Mode::Xts, Some(512), 512 + 15),
            (Mode::Xts, Some(512), 1),
            (Mode::Xts, Some(4096), PIECE + 1),
            (Mode::Xts, None, 0),
            (Mode::Xts, None, 15),
            (Mode::Xts, None, (1 << 24) + 1),
            (Mode::Ecb, None, 15),
            (Mode::Ecb, None, PIECE + 17),
        ] {
            let (output, result) = process(mode, unit, Direction::Encrypt, &input(len));
            assert!(
                result.is_err() && output.is_empty(),
                "{mode} {unit:?} {len}"
            );
        }
    }

    #[test]
    fn no_bytes_are_no_units() {
        for (mode, unit) in [
            (Mode::Xts, Some(512)),
            (Mode::Ecb, None),
            (Mode::Ctr, None),
            (Mode::Ofb, None),
        ] {
            let (output, result) = process(mode, unit, Direction::Encrypt, &[]);
            assert_eq!(result.unwrap(), 0);
            assert!(output.is_empty());
        }
    }

    #[test]
    fn one_unit_may_have_16_mib() {
        let input = input(1 << 24);
        let (_, result) = process(
            Mode::Xts,
            None,
            Direction::Encrypt,
            &[&input[..], &[0]].concat(),
        );
        assert!(matches!(result, Err(RawError::UnitTooLong)), "{result:?}");
        let (output, _) = process(Mode::Xts, None, Direction::Encrypt, &input);
        assert!(output == at_once(Mode::Xts, &input));
    }
}
