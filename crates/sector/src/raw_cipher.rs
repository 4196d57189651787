// SPDX-License-Identifier: MIT OR Apache-2.0
//! A bare mode over a stream of any length. It cuts the stream into runs with the right data unit
//! numbers or counters, or encrypts one message piece by piece.

use std::{
    io::{self, Read, Write},
    num::NonZeroUsize,
    sync::atomic::AtomicBool,
};

use crate::{
    copy::{Copied, Copier, CopyError, Piece, Region, Source},
    pipeline,
};
use luxor_engine::{
    Backend, Chains, CryptError, DataUnitLen, DataUnitNumber, Direction, Executor, InOut,
    LoadedKey, Message, Mode, Run,
};

const BLOCK: usize = 16;

/// The least number of bytes in a piece of a stream. A stream that ends within the first piece is
/// checked before any output.
const STREAM_PIECE: usize = 4 << 20;

/// A message has at most two chains, so more threads would have nothing to do.
const MAX_CHAINS: NonZeroUsize = NonZeroUsize::new(2).expect("two is not zero");

/// Encrypts or decrypts a file or a stream in a bare mode. The output is as long as the input.
///
/// XTS needs at least 16 bytes in its last data unit, and ECB a multiple of 16 bytes. The other
/// modes accept any length. In output feedback ([`Mode::is_feedback`]) the whole stream is one
/// message.
pub struct RawCipher<'a> {
    /// The mode of the key that was loaded as `key`.
    pub mode: Mode,
    /// The key.
    pub key: &'a dyn LoadedKey,
    /// The backend that loaded `key`, if it may use a device: it allocates the buffers then. `None`
    /// is always correct.
    pub backend: Option<&'a dyn Backend>,
    /// How many threads do the work. In output feedback at most two, one for each chain.
    pub threads: NonZeroUsize,
    /// Whether to encrypt or decrypt.
    pub direction: Direction,
    /// XTS: the length of a data unit, or `None` if all bytes are one unit of up to 16 MiB. Other
    /// modes ignore it.
    pub data_unit: Option<DataUnitLen>,
    /// XTS: the number of the first data unit. CTR: the first counter block, output feedback: the
    /// IV, both as a big-endian integer. ECB ignores it.
    pub first: DataUnitNumber,
    /// XTS: the step from the number of one data unit to the next. Other modes ignore it.
    pub stride: u64,
}

impl RawCipher<'_> {
    /// Checks whether `len` bytes can be processed, or with `None` only whether the engine supports
    /// the mode for streams. Call it before creating any output.
    ///
    /// # Errors
    /// [`RawError::NoMessages`], [`RawError::ShortUnit`], [`RawError::PartBlock`] and
    /// [`RawError::UnitTooLong`].
    pub fn check(&self, len: Option<u64>) -> Result<(), RawError> {
        self.message()?;
        len.map_or(Ok(()), |len| self.check_len(len))
    }

    fn check_len(&self, len: u64) -> Result<(), RawError> {
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

    /// Encrypts or decrypts all of `source` into `sink`. `progress` receives the number of bytes
    /// written so far, which grows from call to call.
    ///
    /// A wrong length is detected before any output, except in streams of more than one piece (at
    /// least 4 MiB): all pieces except the last may then have been written.
    ///
    /// # Errors
    /// The [`RawError`] that comes first in the source. The sink then contains part of the output.
    pub fn run(
        &self,
        mut source: Source<'_>,
        sink: &mut (dyn Write + Send),
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Copied, RawError> {
        let mut message = self.message()?;
        let (piece_len, backend) = pipeline::pieces(self.key, self.backend, source.known_len());
        let piece_len = match &source {
            Source::At(region) => {
                self.check_len(region.len)?;
                piece_len
            }
            // A message may have any length, so there is nothing to check first.
            Source::Stream(_) if message.is_some() => piece_len,
            Source::Stream(_) => piece_len.max(STREAM_PIECE),
        };
        let piece_len = match (self.mode, self.data_unit) {
            // One byte more than a single unit may have, to detect that it is too long.
            (Mode::Xts, None) => source
                .known_len()
                .map_or(DataUnitLen::MAX.get() + 1, |len| {
                    // At most 16 MiB, as `check_len` has checked.
                    usize::try_from(len).unwrap_or(usize::MAX)
                }),
            (Mode::Xts, Some(unit)) => unit.get() * (piece_len / unit.get()).max(1),
            _ => piece_len,
        };
        let mut feedback;
        let (source, threads) = match &mut message {
            None => (source.reborrow(), self.threads),
            Some(message) => {
                feedback = Feedback {
                    source: InOrder::new(source.reborrow()),
                    message,
                    executor: Executor::new(self.threads.min(MAX_CHAINS)),
                };
                (Source::Stream(&mut feedback), NonZeroUsize::MIN)
            }
        };
        let copier = Copier {
            piece_len: NonZeroUsize::new(piece_len).unwrap_or(NonZeroUsize::MIN),
            threads,
            backend,
            // Never set: a signal ends the process directly.
            cancel: &AtomicBool::new(false),
        };
        copier
            .run(source, sink, &|piece| self.piece(piece), progress)
            .map_err(|error| match error {
                CopyError::Read { offset, source } => RawError::Read { offset, source },
                CopyError::Write { offset, source } => RawError::Write { offset, source },
                CopyError::Work(error) => error,
                CopyError::Memory => RawError::Memory {
                    kib: piece_len >> 10,
                },
                CopyError::Cancelled => unreachable!("`cancel` is never set"),
            })
    }

    /// Processes a piece in place. All pieces except the last consist of whole units.
    fn piece(&self, piece: &mut Piece<'_>) -> Result<usize, RawError> {
        let (offset, len) = (piece.offset, piece.len);
        let lone_unit = self.mode == Mode::Xts && self.data_unit.is_none();
        if piece.at_end || lone_unit {
            self.check_len(offset + len as u64)?;
        }
        let bytes = &mut piece.buffer[..len];
        match self.mode {
            // `Feedback`, the source, has already encrypted the bytes.
            mode if mode.is_feedback() => {}
            Mode::Xts => {
                let unit = self.data_unit.map_or(len, DataUnitLen::get).max(1);
                let units = offset / unit as u64;
                let first = self.first.step(units, self.stride);
                self.crypt(bytes, unit, first)?;
            }
            _ => {
                let first = self.first.step(offset / BLOCK as u64, 1);
                self.crypt(bytes, len.max(1), first)?;
            }
        }
        Ok(len)
    }

    /// In output feedback, begins the message that is the whole stream.
    fn message(&self) -> Result<Option<Message>, RawError> {
        if !self.mode.is_feedback() {
            return Ok(None);
        }
        let messages = self.key.messages();
        let messages = messages.ok_or(RawError::NoMessages { mode: self.mode })?;
        Ok(Some(messages.begin(self.first)))
    }

    /// Processes units of `unit` bytes, and a shorter last one.
    fn crypt(&self, bytes: &mut [u8], unit: usize, first: DataUnitNumber) -> Result<(), RawError> {
        let (whole, rest) = bytes.split_at_mut(bytes.len() - bytes.len() % unit);
        let after = first.step((whole.len() / unit) as u64, self.stride);
        let mut runs = Vec::with_capacity(2);
        for (first, bytes, unit) in [(first, whole, unit), (after, rest, unit)] {
            if !bytes.is_empty() {
                let unit = DataUnitLen::new(unit.min(bytes.len()))?;
                runs.push(Run::new(first, self.stride, unit, bytes)?);
            }
        }
        Ok(self.key.crypt(self.direction, &mut runs)?)
    }
}

/// A source that encrypts in output feedback while it is read, in order, since each block needs the
/// one before. A full pipe delivers 64 KiB at a time, which is enough to use two threads.
struct Feedback<'a> {
    source: InOrder<'a>,
    message: &'a mut Message,
    executor: Executor,
}

impl Read for Feedback<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.source.read(buf)?;
        let bytes = InOut::InPlace(&mut buf[..len]);
        self.executor
            .crypt_message(self.message, bytes, Chains::Auto);
        Ok(len)
    }
}

/// A source that is read in order.
enum InOrder<'a> {
    At { region: Region<'a>, position: u64 },
    Stream(&'a mut (dyn Read + Send)),
}

impl<'a> InOrder<'a> {
    fn new(source: Source<'a>) -> Self {
        match source {
            Source::At(region) => Self::At {
                region,
                position: 0,
            },
            Source::Stream(stream) => Self::Stream(stream),
        }
    }
}

impl Read for InOrder<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Stream(stream) => stream.read(buf),
            Self::At { region, position } => {
                let left = region.len - *position;
                let len = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
                let at = region.offset.saturating_add(*position);
                region.storage.read_exact_at(&mut buf[..len], at)?;
                *position += len as u64;
                Ok(len)
            }
        }
    }
}

/// Why a stream was not completely processed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RawError {
    /// The last data unit is too short for ciphertext stealing.
    #[error("the last data unit has {found} bytes, and xts needs at least 16 in each")]
    ShortUnit {
        /// The number of bytes in it.
        found: u64,
    },
    /// The single data unit has more than 2²⁰ blocks.
    #[error("the input is longer than 16777216 bytes, the limit for one data unit (SP 800-38E)")]
    UnitTooLong,
    /// ECB accepts whole blocks only.
    #[error("the input has {len} bytes, and ecb needs a multiple of 16")]
    PartBlock {
        /// The number of bytes in the input.
        len: u64,
    },
    /// The engine supports this mode only for whole data units, not for messages.
    #[error("the engine cannot process {mode} in pieces")]
    NoMessages {
        /// The mode.
        mode: Mode,
    },
    /// The source failed.
    #[error("cannot read at byte {offset}")]
    Read {
        /// The offset from the first byte of the source.
        offset: u64,
        /// The system's error.
        source: io::Error,
    },
    /// The sink failed.
    #[error("cannot write at byte {offset}")]
    Write {
        /// The number of bytes written before.
        offset: u64,
        /// The system's error.
        source: io::Error,
    },
    /// There is not enough memory for a piece.
    #[error("out of memory: {kib} KiB are needed")]
    Memory {
        /// The length of a piece in KiB.
        kib: usize,
    },
    /// The engine failed.
    #[error(transparent)]
    Crypt(#[from] CryptError),
    /// The engine refuses the run.
    #[error(transparent)]
    Run(#[from] luxor_engine::RunError),
}

#[cfg(test)]
mod tests {
    use luxor_engine::{
        AesKey, Construction, KeySpec, ParallelOfbKey, Registry, TweakSchedule, XtsKey,
    };
    use luxor_reference::TweakableOfb;

    use super::*;
    use crate::{MemoryStorage, pipeline::PIECE_LEN};

    /// A source that delivers few bytes at a time, as pipes do.
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

    const FIRST: u128 = u128::MAX - 3;
    const FEEDBACK: [Mode; 3] = [Mode::Ofb, Mode::OfbXex, Mode::OfbXe];

    fn key_bytes() -> [u8; 64] {
        std::array::from_fn(|i| u8::try_from(i).unwrap())
    }

    fn key(mode: Mode) -> KeySpec {
        key_with(mode, TweakSchedule::Alpha)
    }

    fn key_with(mode: Mode, schedule: TweakSchedule) -> KeySpec {
        let bytes = key_bytes();
        let aes = AesKey::new(&bytes[..32]).unwrap();
        let parallel = |construction| {
            let key = ParallelOfbKey::new(&bytes[..32], construction, schedule);
            KeySpec::ParallelOfb(key.unwrap())
        };
        match mode {
            Mode::Xts => KeySpec::Xts(XtsKey::new(&bytes).unwrap()),
            Mode::Ctr => KeySpec::Ctr(aes),
            Mode::Ofb => KeySpec::Ofb(aes),
            Mode::OfbXex => parallel(Construction::Xex),
            Mode::OfbXe => parallel(Construction::Xe),
            _ => KeySpec::Ecb(aes),
        }
    }

    /// Processes `input` as a stream and as a file, and checks that the results are equal.
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
            backend: None,
            threads: NonZeroUsize::new(2).unwrap(),
            direction,
            data_unit: data_unit.map(|unit| DataUnitLen::new(unit).unwrap()),
            first: DataUnitNumber::new(FIRST),
            stride: 5,
        };
        let mut output = Vec::new();
        let mut stream = Dribble(input, 1_000_003);
        let result = cipher.run(Source::Stream(&mut stream), &mut output, &|_| {});

        let file = MemoryStorage::new([&[9; 77], input].concat());
        let mut of_file_output = Vec::new();
        let source = Source::At(Region {
            storage: &file,
            offset: 77,
            len: input.len() as u64,
        });
        let of_file = cipher.run(source, &mut of_file_output, &|_| {});
        match (&result, &of_file) {
            (Ok(_), Ok(_)) => assert!(of_file_output == output),
            // The length of a file is known beforehand.
            (Err(_), Err(_)) => assert!(of_file_output.is_empty()),
            _ => panic!("{result:?} and {of_file:?}"),
        }
        (output, result.map(|copied| copied.written))
    }

    /// The result of one run over all bytes.
    fn at_once(mode: Mode, input: &[u8]) -> Vec<u8> {
        let key = Registry::cpu()
            .best(mode)
            .unwrap()
            .load_key(&key(mode))
            .unwrap();
        let mut bytes = input.to_vec();
        let unit = DataUnitLen::new(bytes.len()).unwrap();
        let run = Run::new(DataUnitNumber::new(FIRST), 5, unit, &mut bytes[..]).unwrap();
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
        for mode in [Mode::Ctr, Mode::Ofb, Mode::OfbXex, Mode::OfbXe, Mode::Ecb] {
            for len in [
                16,
                48,
                PIECE_LEN - 16,
                PIECE_LEN,
                PIECE_LEN + 16,
                3 * PIECE_LEN,
                STREAM_PIECE,
                2 * STREAM_PIECE + 4096,
            ] {
                let input = input(len);
                let (output, result) = process(mode, None, Direction::Encrypt, &input);
                assert_eq!(result.unwrap(), len as u64);
                assert!(output == at_once(mode, &input), "{mode}, {len} bytes");
            }
        }
        for mode in [Mode::Ctr, Mode::Ofb, Mode::OfbXex, Mode::OfbXe] {
            for len in [1, 15, 17, PIECE_LEN - 1, PIECE_LEN + 1, STREAM_PIECE + 31] {
                let input = input(len);
                let (output, _) = process(mode, None, Direction::Encrypt, &input);
                assert!(output == at_once(mode, &input), "{mode}, {len} bytes");
            }
        }
    }

    /// Pieces of any length, also with each chain on its own thread.
    #[test]
    fn a_message_continues_wherever_a_piece_ends() {
        let input = input(PIECE_LEN + 4099);
        for name in ["auto", "portable"] {
            let modes = FEEDBACK
                .map(|mode| (mode, TweakSchedule::Alpha))
                .into_iter();
            let printed = [Mode::OfbXex, Mode::OfbXe].map(|mode| (mode, TweakSchedule::Printed));
            for (mode, schedule) in modes.chain(printed) {
                let registry = Registry::cpu();
                let backend = match name {
                    "auto" => registry.best(mode).unwrap(),
                    name => registry.get(name).unwrap(),
                };
                let key = backend.load_key(&key_with(mode, schedule)).unwrap();
                let expected = in_reference(mode, schedule, &input);
                for (piece, threads) in [(1000, 1), (65_537, 1), (65_537, 2), (input.len(), 2)] {
                    for direction in [Direction::Encrypt, Direction::Decrypt] {
                        let cipher = RawCipher {
                            mode,
                            key: &*key,
                            backend: None,
                            threads: NonZeroUsize::new(threads).unwrap(),
                            direction,
                            data_unit: None,
                            first: DataUnitNumber::new(FIRST),
                            stride: 1,
                        };
                        let (from, to) = match direction {
                            Direction::Encrypt => (&input, &expected),
                            Direction::Decrypt => (&expected, &input),
                        };
                        let mut output = Vec::new();
                        let mut stream = Dribble(from, piece);
                        cipher
                            .run(Source::Stream(&mut stream), &mut output, &|_| {})
                            .unwrap();
                        assert!(
                            output == *to,
                            "{name} {mode} {schedule:?} {piece} {threads}"
                        );
                    }
                }
            }
        }
    }

    fn in_reference(mode: Mode, schedule: TweakSchedule, input: &[u8]) -> Vec<u8> {
        let parallel = TweakableOfb {
            xex: mode == Mode::OfbXex,
            as_printed: schedule == TweakSchedule::Printed,
        };
        match mode {
            Mode::Ofb => luxor_reference::ofb(&key_bytes()[..32], FIRST, input),
            _ => parallel.two_chains(&key_bytes()[..32], FIRST, input),
        }
    }

    #[test]
    fn without_messages_there_is_no_output() {
        /// A key that supports whole data units only.
        struct Units;
        impl LoadedKey for Units {
            fn crypt(&self, _: Direction, _: &mut [Run<'_>]) -> Result<(), CryptError> {
                panic!("encrypted without a message")
            }
        }
        for mode in FEEDBACK {
            let cipher = RawCipher {
                mode,
                key: &Units,
                backend: None,
                threads: NonZeroUsize::MIN,
                direction: Direction::Encrypt,
                data_unit: None,
                first: DataUnitNumber::new(0),
                stride: 1,
            };
            let mut output = Vec::new();
            let run = cipher.run(Source::Stream(&mut &[7; 40][..]), &mut output, &|_| {});
            for result in [
                cipher.check(None),
                cipher.check(Some(40)),
                run.map(|_| panic!("{mode}")),
            ] {
                let error = result.unwrap_err();
                assert!(matches!(error, RawError::NoMessages { mode: of } if of == mode));
            }
            assert!(output.is_empty());
        }
    }

    #[test]
    fn xts_units_are_numbered_across_pieces() {
        for unit in [
            16,
            17,
            512,
            4096,
            100_000,
            PIECE_LEN - 1,
            STREAM_PIECE + 1,
            1 << 24,
        ] {
            let input = input(2 * STREAM_PIECE.max(unit) + 16);
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
            (Mode::Xts, Some(4096), STREAM_PIECE - 4095),
            (Mode::Xts, None, 0),
            (Mode::Xts, None, 15),
            (Mode::Xts, None, (1 << 24) + 1),
            (Mode::Ecb, None, 15),
            (Mode::Ecb, None, STREAM_PIECE - 1),
        ] {
            let (output, result) = process(mode, unit, Direction::Encrypt, &input(len));
            assert!(
                result.is_err() && output.is_empty(),
                "{mode} {unit:?} {len}"
            );
        }
    }

    #[test]
    fn no_bytes_give_no_units() {
        for (mode, unit) in [
            (Mode::Xts, Some(512)),
            (Mode::Ecb, None),
            (Mode::Ctr, None),
            (Mode::Ofb, None),
            (Mode::OfbXex, None),
            (Mode::OfbXe, None),
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
