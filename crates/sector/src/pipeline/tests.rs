// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the pipeline with the same work done in one call.

use std::{
    io::Read,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Mutex, atomic::Ordering, mpsc::channel},
    thread,
    time::{Duration, Instant},
};

use luxor_engine::{
    BackendError, BackendInfo, Buffer, CryptErrorKind, KeySpec, Mode, Registry, Run, XtsKey,
};

use super::*;
use crate::{MemoryStorage, geometry::IvMode};

const _: () = assert!(PIECE_LEN.is_multiple_of(4096));

/// The length of a piece: short, so that a small test has many pieces.
const PIECE: usize = 8192;

static NEVER: AtomicBool = AtomicBool::new(false);

fn geometry(sector_size: SectorSize) -> Geometry {
    // The numbers restart at 0 within the first buffer.
    Geometry {
        sector_size,
        iv_mode: IvMode::Plain64,
        iv_offset: u64::MAX - 100,
        iv_large_sectors: false,
    }
}

fn key() -> Box<dyn LoadedKey> {
    let bytes: [u8; 64] = std::array::from_fn(|i| u8::try_from(i).unwrap());
    let spec = KeySpec::Xts(XtsKey::new(&bytes).unwrap());
    Registry::cpu()
        .best(Mode::Xts)
        .unwrap()
        .load_key(&spec)
        .unwrap()
}

/// A key that changes nothing, and fails at the sector with a given number.
struct Plain {
    fails_at: Option<u128>,
}

impl LoadedKey for Plain {
    fn crypt(&self, _: Direction, runs: &mut [Run<'_>]) -> Result<(), CryptError> {
        let mut done = 0;
        for run in runs {
            for k in 0..run.units() {
                if Some(run.first().step(k as u64, run.stride()).get()) == self.fails_at {
                    let kind = CryptErrorKind::Device {
                        backend: "test",
                        message: "on fire".into(),
                    };
                    return Err(CryptError::new(done, kind));
                }
                done += 1;
            }
        }
        Ok(())
    }
}

struct Setup {
    geometry: Geometry,
    key: Box<dyn LoadedKey>,
    threads: NonZeroUsize,
}

impl Setup {
    fn new(sector_size: SectorSize) -> Self {
        let threads = NonZeroUsize::new(2).unwrap();
        Self {
            geometry: geometry(sector_size),
            key: key(),
            threads,
        }
    }

    fn plain() -> Self {
        Self::failing(None)
    }

    fn failing(fails_at: Option<u128>) -> Self {
        let geometry = Geometry {
            iv_offset: 0,
            iv_large_sectors: false,
            ..geometry(SectorSize::B512)
        };
        let threads = NonZeroUsize::MIN;
        Self {
            geometry,
            key: Box::new(Plain { fails_at }),
            threads,
        }
    }

    fn job(&self, direction: Direction) -> Job<'_> {
        Job {
            geometry: self.geometry,
            key: &*self.key,
            threads: self.threads,
            direction,
            backend: None,
            plaintext_len: None,
            may_be_cut_off: false,
            cancel: &NEVER,
        }
    }

    /// `bytes`, padded and encrypted in one call.
    fn encrypted(&self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        bytes.resize(
            bytes
                .len()
                .max(1)
                .next_multiple_of(self.geometry.sector_size.bytes()),
            0,
        );
        let mut runs = self.geometry.runs(0, bytes.as_mut_slice()).unwrap();
        self.key.crypt(Direction::Encrypt, &mut runs).unwrap();
        bytes
    }
}

fn bytes(len: usize) -> Vec<u8> {
    // No period that divides a sector or a buffer, and no zeros.
    (0..len)
        .map(|i| u8::try_from(i % 251).unwrap() | 4)
        .collect()
}

/// Runs a job on a stream.
fn run(
    job: &Job<'_>,
    source: &mut (dyn Read + Send),
    sink: &mut (dyn Write + Send),
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Copied, PipelineError> {
    run_in_pieces(job, Source::Stream(source), sink, progress, PIECE)
}

/// The kind of source.
#[derive(Clone, Copy, Debug)]
enum From {
    Stream,
    Storage,
}

const BOTH: [From; 2] = [From::Stream, From::Storage];

/// Runs a job on `bytes`, and returns the output.
fn through(job: &Job<'_>, bytes: &[u8], from: From) -> Result<(Copied, Vec<u8>), PipelineError> {
    let storage = MemoryStorage::new([&[9; 777], bytes, &[9; 50]].concat());
    let (mut stream, mut sink) = (bytes, Vec::new());
    let source = match from {
        From::Stream => Source::Stream(&mut stream),
        From::Storage => Source::At(Region {
            storage: &storage,
            offset: 777,
            len: bytes.len() as u64,
        }),
    };
    let copied = run_in_pieces(job, source, &mut sink, &|_| (), PIECE)?;
    Ok((copied, sink))
}

/// Behaves like a slow pipe: few bytes at a time, and interruptions.
struct Dribble<T> {
    inner: T,
    calls: usize,
}

impl<T> Dribble<T> {
    fn new(inner: T) -> Self {
        Self { inner, calls: 0 }
    }

    fn next(&mut self, len: usize) -> io::Result<usize> {
        self.calls += 1;
        match self.calls % 5 {
            0 => Err(io::ErrorKind::Interrupted.into()),
            1 => Ok(len.min(1)),
            2 => Ok(len.min(511)),
            _ => Ok(len.min(70_001)),
        }
    }
}

impl<T: Read> Read for Dribble<T> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.next(buf.len())?;
        self.inner.read(&mut buf[..len])
    }
}

impl<T: Write> Write for Dribble<T> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let len = self.next(buf.len())?;
        self.inner.write(&buf[..len])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.next(0).and_then(|_| self.inner.flush())
    }
}

#[test]
fn every_length_is_restored() {
    let lengths = [
        0,
        1,
        511,
        512,
        513,
        4095,
        4096,
        4097,
        PIECE - 1,
        PIECE,
        PIECE + 1,
        // Buffers are reused here, with the bytes of earlier pieces in them.
        40 * PIECE,
        40 * PIECE + 5,
    ];
    for size in SectorSize::ALL {
        let setup = Setup::new(size);
        for len in lengths {
            let plaintext = bytes(len);
            for from in BOTH {
                let what = format!("{len} bytes, sectors of {size}, {from:?}");
                let job = setup.job(Direction::Encrypt);
                let (copied, ciphertext) = through(&job, &plaintext, from).unwrap();
                assert!(ciphertext == setup.encrypted(&plaintext), "{what}");
                let sizes = Copied {
                    read: len as u64,
                    written: ciphertext.len() as u64,
                };
                assert_eq!(copied, sizes);

                for plaintext_len in [None, Some(len as u64)] {
                    let job = Job {
                        plaintext_len,
                        ..setup.job(Direction::Decrypt)
                    };
                    let (copied, decrypted) = through(&job, &ciphertext, from).unwrap();
                    assert_eq!(copied.written, decrypted.len() as u64);
                    assert!(decrypted[..len] == plaintext, "{what}");
                    assert!(decrypted[len..].iter().all(|&b| b == 0));
                    assert!(plaintext_len.is_none() || decrypted.len() == len);
                }
            }
        }
    }
}

#[test]
fn slow_pipes_change_nothing() {
    let setup = Setup::new(SectorSize::B4096);
    let plaintext = bytes(2 * PIECE + 12_345);
    let mut sink = Dribble::new(Vec::new());
    let job = setup.job(Direction::Encrypt);
    run(
        &job,
        &mut Dribble::new(plaintext.as_slice()),
        &mut sink,
        &|_| (),
    )
    .unwrap();
    assert!(sink.inner == setup.encrypted(&plaintext));
}

#[test]
fn progress_counts_to_the_end() {
    let setup = Setup::plain();
    let plaintext = bytes(2 * PIECE + 1);
    let seen = Mutex::new(Vec::new());
    let job = setup.job(Direction::Encrypt);
    let progress = |done| seen.lock().unwrap().push(done);
    run(&job, &mut plaintext.as_slice(), &mut io::sink(), &progress).unwrap();
    let buffer = PIECE as u64;
    assert_eq!(
        seen.into_inner().unwrap(),
        [buffer, 2 * buffer, 2 * buffer + 512]
    );
}

/// Reads or writes `left` bytes, then returns the error `then` forever.
struct Until {
    left: usize,
    then: io::ErrorKind,
}

impl Until {
    fn next(&mut self, len: usize) -> io::Result<usize> {
        if self.left == 0 {
            thread::sleep(Duration::from_millis(1));
            return Err(io::Error::new(self.then, "as the test wants it"));
        }
        let len = len.min(self.left);
        self.left -= len;
        Ok(len)
    }
}

impl Read for Until {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.next(buf.len())?;
        buf[..len].fill(0);
        Ok(len)
    }
}

impl Write for Until {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.next(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn failures_say_the_kind_and_the_offset() {
    let setup = Setup::plain();
    let job = setup.job(Direction::Encrypt);
    for place in [0, 1, 512, PIECE, 10 * PIECE + 77] {
        let mut source = Until {
            left: place,
            then: io::ErrorKind::TimedOut,
        };
        match run(&job, &mut source, &mut io::sink(), &|_| ()).unwrap_err() {
            PipelineError::Read { offset, source } => {
                assert_eq!(offset, place as u64);
                assert_eq!(source.kind(), io::ErrorKind::TimedOut);
            }
            other => panic!("{other}"),
        }
        // The source would never end.
        let mut sink = Until {
            left: place,
            then: io::ErrorKind::StorageFull,
        };
        match run(&job, &mut io::repeat(1), &mut sink, &|_| ()).unwrap_err() {
            PipelineError::Write { offset, source } => {
                assert_eq!(offset, place as u64);
                assert_eq!(source.kind(), io::ErrorKind::StorageFull);
            }
            other => panic!("{other}"),
        }
        let sector = place as u64 / 512;
        let setup = Setup::failing(Some(sector.into()));
        let job = setup.job(Direction::Encrypt);
        match run(&job, &mut io::repeat(1), &mut io::sink(), &|_| ()).unwrap_err() {
            PipelineError::Crypt { offset, source } => {
                assert_eq!(offset, sector * 512);
                assert!(source.to_string().contains("on fire"), "{source}");
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn a_sink_that_takes_nothing_is_an_error() {
    struct Nothing;
    impl Write for Nothing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Ok(0)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let setup = Setup::plain();
    let error = run(
        &setup.job(Direction::Encrypt),
        &mut &[1][..],
        &mut Nothing,
        &|_| (),
    );
    let error = error.unwrap_err();
    assert!(
        matches!(&error, PipelineError::Write { source, .. } if source.kind() == io::ErrorKind::WriteZero)
    );
}

#[test]
fn ciphertext_has_whole_sectors() {
    for (size, len) in [
        (SectorSize::B512, 1),
        (SectorSize::B512, 511),
        (SectorSize::B4096, 4096 + 512),
        (SectorSize::B4096, PIECE + 1),
    ] {
        let setup = Setup::new(size);
        let job = setup.job(Direction::Decrypt);
        for from in BOTH {
            match through(&job, &bytes(len), from).unwrap_err() {
                PipelineError::PartSector {
                    len: found,
                    sector_size,
                } => {
                    assert_eq!((found, sector_size), (len as u64, size));
                }
                other => panic!("{other}"),
            }
        }
    }
}

#[test]
fn a_source_has_the_length_that_was_announced() {
    let setup = Setup::plain();
    let buffer = PIECE as u64;
    for (direction, expected, len, allowed) in [
        (Direction::Encrypt, 0, 0, true),
        (Direction::Encrypt, 0, 1, false),
        (Direction::Encrypt, 1000, 1000, true),
        (Direction::Encrypt, 1000, 999, false),
        (Direction::Encrypt, 1000, 1001, false),
        (Direction::Encrypt, buffer, PIECE - 1, false),
        (Direction::Encrypt, buffer, PIECE, true),
        (Direction::Encrypt, buffer, PIECE + 1, false),
        (Direction::Decrypt, 0, 512, true),
        (Direction::Decrypt, 0, 0, false),
        (Direction::Decrypt, 0, 1024, false),
        (Direction::Decrypt, 512, 512, true),
        (Direction::Decrypt, 512, 1024, false),
        (Direction::Decrypt, 513, 1024, true),
        (Direction::Decrypt, 513, 512, false),
        (Direction::Decrypt, buffer, PIECE, true),
        (Direction::Decrypt, buffer, PIECE + 512, false),
        (Direction::Decrypt, buffer + 1, PIECE, false),
        (Direction::Decrypt, u64::MAX, PIECE, false),
    ] {
        let job = Job {
            plaintext_len: Some(expected),
            ..setup.job(direction)
        };
        for from in BOTH {
            match through(&job, &bytes(len), from) {
                Ok(_) => assert!(allowed, "{direction:?} {len} bytes for {expected}"),
                Err(PipelineError::SourceLen { .. }) => {
                    assert!(!allowed, "{direction:?} {len} bytes for {expected}");
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
    // The pipeline stops reading once the source is known to be too long.
    let job = Job {
        plaintext_len: Some(9),
        ..setup.job(Direction::Encrypt)
    };
    let error = run(&job, &mut io::repeat(1), &mut io::sink(), &|_| ()).unwrap_err();
    assert!(
        matches!(error, PipelineError::SourceLen { at_end: false, .. }),
        "{error}"
    );
}

#[test]
fn a_source_that_is_cut_off_is_decrypted_up_to_its_last_whole_sector() {
    let setup = Setup::plain();
    let (_, volume) = through(&setup.job(Direction::Encrypt), &bytes(2 * PIECE), BOTH[0]).unwrap();
    for plaintext_len in [None, Some(2 * PIECE - 100)] {
        let job = Job {
            plaintext_len: plaintext_len.map(|len| len as u64),
            may_be_cut_off: true,
            ..setup.job(Direction::Decrypt)
        };
        for len in [
            0,
            1,
            511,
            512,
            513,
            PIECE - 1,
            PIECE,
            PIECE + 1,
            2 * PIECE - 1,
            2 * PIECE,
        ] {
            for from in BOTH {
                let (_, plaintext) = through(&job, &volume[..len], from).unwrap();
                let whole = (len - len % 512).min(plaintext_len.unwrap_or(len));
                assert!(plaintext == bytes(2 * PIECE)[..whole], "{len}");
            }
        }
    }
}

#[test]
fn the_flag_ends_everything_soon() {
    let setup = Setup::plain();
    let forever = || Until {
        left: usize::MAX,
        then: io::ErrorKind::Interrupted,
    };
    let stalled = || Until {
        left: 3 * PIECE + 5,
        then: io::ErrorKind::Interrupted,
    };
    // At full speed, with a source that has stalled, and with a sink that has stalled.
    for (mut source, mut sink) in [
        (forever(), forever()),
        (stalled(), forever()),
        (forever(), stalled()),
    ] {
        let cancel = AtomicBool::new(false);
        let job = Job {
            cancel: &cancel,
            ..setup.job(Direction::Encrypt)
        };
        let set = thread::scope(|scope| {
            let set = scope.spawn(|| {
                thread::sleep(Duration::from_millis(100));
                cancel.store(true, Ordering::Relaxed);
                Instant::now()
            });
            let error = run(&job, &mut source, &mut sink, &|_| ()).unwrap_err();
            assert!(matches!(error, PipelineError::Cancelled), "{error}");
            set.join().unwrap()
        });
        // Without the flag the job would never end.
        assert!(
            set.elapsed() < Duration::from_secs(30),
            "{:?}",
            set.elapsed()
        );
    }
    let cancel = AtomicBool::new(true);
    let job = Job {
        cancel: &cancel,
        ..setup.job(Direction::Encrypt)
    };
    let mut sink = Vec::new();
    let error = run(&job, &mut &[1][..], &mut sink, &|_| ()).unwrap_err();
    assert!(matches!(error, PipelineError::Cancelled) && sink.is_empty());
}

#[test]
fn a_failing_sink_ends_a_stalled_source() {
    let setup = Setup::plain();
    let mut source = Until {
        left: PIECE,
        then: io::ErrorKind::Interrupted,
    };
    let mut sink = Until {
        left: 0,
        then: io::ErrorKind::BrokenPipe,
    };
    let error = run(
        &setup.job(Direction::Encrypt),
        &mut source,
        &mut sink,
        &|_| (),
    )
    .unwrap_err();
    assert!(
        matches!(error, PipelineError::Write { offset: 0, .. }),
        "{error}"
    );
}

#[test]
fn reading_goes_on_while_something_is_written() {
    /// Calls a function at each read.
    struct Told<F>(usize, F);
    impl<F: FnMut()> Read for Told<F> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            (self.1)();
            let len = buf.len().min(self.0);
            self.0 -= len;
            Ok(len)
        }
    }
    struct Waits<F>(F);
    impl<F: FnMut()> Write for Waits<F> {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            (self.0)();
            Ok(buf.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let setup = Setup::plain();
    let (sender, receiver) = channel();
    let mut source = Told(3 * PIECE, move || sender.send(()).unwrap());
    let mut first = true;
    let mut sink = Waits(move || {
        // Three reads happen before the first write is finished.
        for _ in 0..if std::mem::take(&mut first) { 3 } else { 0 } {
            receiver
                .recv_timeout(Duration::from_secs(20))
                .expect("the next buffer is read");
        }
    });
    run(
        &setup.job(Direction::Encrypt),
        &mut source,
        &mut sink,
        &|_| (),
    )
    .unwrap();
}

#[test]
fn a_panic_in_any_stage_ends_all() {
    let setup = Setup::plain();
    struct Panics;
    impl Read for Panics {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            panic!("on purpose")
        }
    }
    let job = setup.job(Direction::Encrypt);
    let panics = |result: thread::Result<Result<Copied, PipelineError>>| assert!(result.is_err());
    panics(catch_unwind(AssertUnwindSafe(|| {
        run(&job, &mut Panics, &mut io::sink(), &|_| ())
    })));
    panics(catch_unwind(AssertUnwindSafe(|| {
        run(&job, &mut io::repeat(1), &mut io::sink(), &|_| {
            panic!("on purpose")
        })
    })));
}

#[test]
fn unencrypted_data_pass_unchanged() {
    let threads = NonZeroUsize::new(2).unwrap();
    for len in [0, 1, 511, PIECE_LEN - 1, PIECE_LEN, 3 * PIECE_LEN + 17] {
        let bytes: Vec<u8> = (0..len).map(|i| i.to_le_bytes()[i % 3]).collect();
        let storage = MemoryStorage::new([&[9; 5][..], &bytes, &[9; 5]].concat());
        let source = Source::At(Region {
            storage: &storage,
            offset: 5,
            len: len as u64,
        });
        let mut out = Vec::new();
        let cancel = AtomicBool::new(false);
        let copied = pass(threads, source, &mut out, &cancel, &|_| ()).unwrap();
        assert!(out == bytes, "{len}");
        assert_eq!((copied.read, copied.written), (len as u64, len as u64));
    }
}

/// A key that wants calls of at least `from` bytes whole, and records their lengths. It is its own
/// backend, and records the buffers that it allocates.
struct Whole {
    from: usize,
    calls: Mutex<Vec<usize>>,
    buffers: Mutex<Vec<usize>>,
}

impl Whole {
    fn new(from: usize) -> Self {
        Self {
            from,
            calls: Mutex::default(),
            buffers: Mutex::default(),
        }
    }
}

impl LoadedKey for Whole {
    fn crypt(&self, _: Direction, runs: &mut [Run<'_>]) -> Result<(), CryptError> {
        let len = runs.iter().map(Run::len).sum();
        self.calls.lock().unwrap().push(len);
        Ok(())
    }

    fn whole_from(&self) -> usize {
        self.from
    }
}

impl Backend for Whole {
    fn info(&self) -> BackendInfo {
        BackendInfo::new("whole", "a double", &[Mode::Xts])
    }

    fn load_key(&self, _: &KeySpec) -> Result<Box<dyn LoadedKey>, BackendError> {
        unreachable!("it is loaded")
    }

    fn alloc(&self, len: usize) -> Buffer {
        self.buffers.lock().unwrap().push(len);
        Buffer::zeroed(len)
    }
}

#[test]
fn pieces_are_as_long_as_a_device_wants_them() {
    const MIB: usize = 1 << 20;
    const GIB: Option<u64> = Some(1 << 30);
    for (from, len, expected) in [
        (usize::MAX, GIB, None),
        (usize::MAX, Some(u64::MAX), None),
        // A device that was forced.
        (0, GIB, Some(4 * MIB)),
        (0, Some(1), Some(4 * MIB)),
        (0, None, Some(4 * MIB)),
        // A device for long calls.
        (MIB, GIB, Some(4 * MIB)),
        (MIB, Some(1 << 20), Some(4 * MIB)),
        (MIB, Some((1 << 20) - 1), None),
        (MIB, None, None),
        (4 * MIB + 1, GIB, Some(8 * MIB)),
        (8 * MIB, GIB, Some(8 * MIB)),
        (8 * MIB + 1, GIB, None),
    ] {
        let whole = Whole::new(from);
        let (piece_len, backend) = pieces(&whole, Some(&whole), len);
        assert_eq!(piece_len, expected.unwrap_or(PIECE_LEN), "{from}, {len:?}");
        assert_eq!(backend.is_some(), expected.is_some(), "{from}, {len:?}");
    }
}

#[test]
fn a_device_gets_whole_pieces_in_its_own_memory() {
    const MIB: usize = 1 << 20;
    let bytes = vec![7; 49 * MIB];
    let storage = MemoryStorage::new(bytes);
    for (from, piece_len) in [(8 * MIB, 8 * MIB), (MIB, 4 * MIB), (64 * MIB, PIECE_LEN)] {
        let whole = Whole::new(from);
        let setup = Setup::plain();
        let job = Job {
            key: &whole,
            backend: Some(&whole),
            threads: NonZeroUsize::new(8).unwrap(),
            ..setup.job(Direction::Encrypt)
        };
        let source = Source::At(Region {
            storage: &storage,
            offset: 0,
            len: 49 << 20,
        });
        let copied = super::run(&job, source, &mut io::sink(), &|_| ()).unwrap();
        assert_eq!(copied.written, 49 << 20);
        let mut calls = whole.calls.into_inner().unwrap();
        calls.sort_unstable();
        let (last, full) = (49 * MIB % piece_len, 49 * MIB / piece_len);
        let last = Some(last).filter(|&len| len > 0);
        let expected: Vec<_> = last.into_iter().chain(vec![piece_len; full]).collect();
        assert_eq!(calls, expected);
        let buffers = whole.buffers.into_inner().unwrap();
        assert!(buffers.iter().all(|&len| len == piece_len), "{buffers:?}");
        assert_eq!(buffers.is_empty(), piece_len == PIECE_LEN);
        assert!(buffers.iter().sum::<usize>() <= 32 * MIB, "{buffers:?}");
    }
}
