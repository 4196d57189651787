// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workers with storage that fails, is slow or finishes out of order.

use std::{
    collections::HashSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Barrier, atomic::AtomicUsize},
    time::{Duration, Instant},
};

use super::*;
use crate::MemoryStorage;

const PIECE: usize = 4096;
const PIECES: usize = 50;
const LEN: usize = PIECES * PIECE - 1000;

fn bytes() -> Vec<u8> {
    (0..LEN).map(|i| (i % 251).to_le_bytes()[0]).collect()
}

/// Memory that calls `first` before each read.
struct Double<F> {
    memory: MemoryStorage,
    /// Called with the offset and the length.
    first: F,
}

impl<F: Fn(u64, usize) -> io::Result<()> + Send + Sync> Storage for Double<F> {
    fn len(&self) -> io::Result<u64> {
        self.memory.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        (self.first)(offset, buf.len())?;
        self.memory.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        unreachable!("a source is never written")
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A sink that calls `first` before each write.
struct Then<F> {
    bytes: Vec<u8>,
    /// Called with the offset.
    first: F,
}

impl<F: FnMut(usize) -> io::Result<()>> Write for Then<F> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (self.first)(self.bytes.len())?;
        self.bytes.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn whole(storage: &dyn Storage) -> Source<'_> {
    Source::At(Region {
        storage,
        offset: 0,
        len: LEN as u64,
    })
}

fn copier(cancel: &AtomicBool) -> Copier<'_> {
    Copier {
        piece_len: NonZeroUsize::new(PIECE).unwrap(),
        threads: NonZeroUsize::new(3).unwrap(),
        backend: None,
        cancel,
    }
}

/// Work that changes every byte.
fn invert(piece: &mut Piece<'_>) -> Result<usize, String> {
    piece.buffer[..piece.len].iter_mut().for_each(|b| *b = !*b);
    Ok(piece.len)
}

fn wait_until(done: impl Fn() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(20), "timed out");
        thread::sleep(Duration::from_micros(100));
    }
}

static NEVER: AtomicBool = AtomicBool::new(false);

#[test]
fn pieces_are_done_in_any_order_and_written_in_one() {
    // The first piece waits until the others have filled all buffers except its own.
    let done = AtomicUsize::new(0);
    let work = |piece: &mut Piece<'_>| {
        if piece.offset == 0 {
            wait_until(|| done.load(Ordering::Relaxed) == 9);
        }
        let len = invert(piece);
        done.fetch_add(1, Ordering::Relaxed);
        len
    };
    let source = MemoryStorage::new(bytes());
    let (seen, mut sink) = (Mutex::new(Vec::new()), Vec::new());
    let copied = copier(&NEVER)
        .run(whole(&source), &mut sink, &work, &|done| {
            lock(&seen).push(done);
        })
        .unwrap();
    let len = LEN as u64;
    assert_eq!((copied.read, copied.written), (len, len));
    let inverted: Vec<u8> = bytes().iter().map(|b| !b).collect();
    assert!(sink == inverted);
    let expected = (1..=PIECES as u64).map(|k| (k * PIECE as u64).min(len));
    assert!(seen.into_inner().unwrap().into_iter().eq(expected));
}

#[test]
fn work_goes_on_while_something_is_written() {
    let done = AtomicUsize::new(0);
    let work = |piece: &mut Piece<'_>| {
        done.fetch_add(1, Ordering::Relaxed);
        invert(piece)
    };
    // There are ten buffers. One is being written.
    let mut sink = Then {
        bytes: Vec::new(),
        first: |at| {
            if at == 0 {
                wait_until(|| done.load(Ordering::Relaxed) == 10);
            }
            Ok(())
        },
    };
    let source = MemoryStorage::new(bytes());
    copier(&NEVER)
        .run(whole(&source), &mut sink, &work, &|_| ())
        .unwrap();
    assert_eq!(sink.bytes.len(), LEN);
}

#[test]
fn the_first_failure_in_the_source_is_reported() {
    const BAD: u64 = 5 * PIECE as u64;
    // Later pieces fail too, and earlier in time.
    let late = |offset: u64| {
        if offset / PIECE as u64 == 5 {
            thread::sleep(Duration::from_millis(20));
        } else {
            thread::sleep(Duration::from_millis(1));
        }
    };
    let good = MemoryStorage::new(bytes());
    let bad = Double {
        memory: MemoryStorage::new(bytes()),
        first: |offset, len| {
            if len > 512 {
                late(offset);
            }
            if offset + len as u64 > BAD + 1000 {
                Err(io::Error::other(format!("bad at {offset}")))
            } else {
                Ok(())
            }
        },
    };
    let work = |piece: &mut Piece<'_>| {
        late(piece.offset);
        if piece.offset >= BAD {
            Err(piece.offset)
        } else {
            Ok(piece.len)
        }
    };
    for _ in 0..5 {
        let mut sink = Vec::new();
        match copier(&NEVER).run(whole(&bad), &mut sink, &invert, &|_| ()) {
            // The error names the right 512 bytes.
            Err(CopyError::Read { offset, source }) => {
                assert_eq!(offset, BAD + 512);
                assert_eq!(source.to_string(), format!("bad at {offset}"));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(sink.len() as u64, BAD);

        let mut sink = Vec::new();
        match copier(&NEVER).run(whole(&good), &mut sink, &work, &|_| ()) {
            Err(CopyError::Work(offset)) => assert_eq!(offset, BAD),
            other => panic!("{other:?}"),
        }
        assert!(sink == bytes()[..5 * PIECE]);

        // A failure of the sink comes before all later failures of the source.
        let mut sink = Then {
            bytes: Vec::new(),
            first: |at| {
                if at == 2 * PIECE {
                    Err(io::ErrorKind::StorageFull.into())
                } else {
                    Ok(())
                }
            },
        };
        match copier(&NEVER).run(whole(&bad), &mut sink, &invert, &|_| ()) {
            Err(CopyError::Write { offset, .. }) => assert_eq!(offset, 2 * PIECE as u64),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn work_is_limited_to_the_threads_and_reads_are_not() {
    let (working, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    // Five readers at a time: with fewer workers, none would pass the barrier.
    let barrier = Barrier::new(5);
    let source = Double {
        memory: MemoryStorage::new(bytes()),
        first: |offset, _| {
            if offset < 5 * PIECE as u64 {
                barrier.wait();
            }
            Ok(())
        },
    };
    let work = |piece: &mut Piece<'_>| {
        let now = working.fetch_add(1, Ordering::Relaxed) + 1;
        most.fetch_max(now, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(2));
        working.fetch_sub(1, Ordering::Relaxed);
        invert(piece)
    };
    copier(&NEVER)
        .run(whole(&source), &mut io::sink(), &work, &|_| ())
        .unwrap();
    assert_eq!(most.into_inner(), 3);
}

#[test]
fn memory_has_a_limit() {
    let len = 40_usize << 20;
    let source = MemoryStorage::new(vec![1; len]);
    for (piece_len, most) in [(16 << 20, 2), (20 << 20, 1), (64 << 20, 1)] {
        let buffers = Mutex::new(HashSet::new());
        let region = Source::At(Region {
            storage: &source,
            offset: 0,
            len: len as u64,
        });
        let copier = Copier {
            piece_len: NonZeroUsize::new(piece_len).unwrap(),
            threads: NonZeroUsize::new(8).unwrap(),
            backend: None,
            cancel: &NEVER,
        };
        let work = |piece: &mut Piece<'_>| {
            lock(&buffers).insert(piece.buffer.as_ptr().addr());
            thread::sleep(Duration::from_millis(5));
            Ok::<_, ()>(piece.len)
        };
        let copied = copier.run(region, &mut io::sink(), &work, &|_| ()).unwrap();
        assert_eq!(copied.written, len as u64);
        assert!(lock(&buffers).len() <= most, "pieces of {piece_len}");
    }
    let copier = Copier {
        piece_len: NonZeroUsize::new(usize::MAX / 4).unwrap(),
        ..copier(&NEVER)
    };
    for from in [whole(&source), Source::Stream(&mut io::repeat(1))] {
        let error = copier.run(from, &mut io::sink(), &invert, &|_| ());
        assert!(matches!(error, Err(CopyError::Memory)), "{error:?}");
    }
}

#[test]
fn an_empty_source_has_one_piece() {
    let nothing = MemoryStorage::default();
    for source in [
        Source::Stream(&mut io::empty()),
        Source::At(Region {
            storage: &nothing,
            offset: 0,
            len: 0,
        }),
    ] {
        let (calls, mut sink) = (AtomicUsize::new(0), Vec::new());
        let work = |piece: &mut Piece<'_>| {
            assert!(piece.at_end && piece.len == 0 && piece.offset == 0);
            calls.fetch_add(1, Ordering::Relaxed);
            piece.buffer[..3].copy_from_slice(b"end");
            Ok::<_, ()>(3)
        };
        copier(&NEVER)
            .run(source, &mut sink, &work, &|_| ())
            .unwrap();
        assert_eq!((sink, calls.into_inner()), (b"end".into(), 1));
    }
}

#[test]
fn cancelling_ends_threads_that_wait_for_a_buffer() {
    let cancel = AtomicBool::new(false);
    let source = MemoryStorage::new(bytes());
    let done = AtomicUsize::new(0);
    let work = |piece: &mut Piece<'_>| {
        done.fetch_add(1, Ordering::Relaxed);
        invert(piece)
    };
    let mut sink = Then {
        bytes: Vec::new(),
        first: |at| {
            if at == 3 * PIECE {
                // There are ten buffers. Three are free again, but waiting workers are notified
                // only when five are, so perhaps none has taken them.
                wait_until(|| done.load(Ordering::Relaxed) >= 10);
                thread::sleep(Duration::from_millis(10));
                cancel.store(true, Ordering::Relaxed);
            }
            Ok(())
        },
    };
    let error = copier(&cancel)
        .run(whole(&source), &mut sink, &work, &|_| ())
        .unwrap_err();
    assert!(matches!(error, CopyError::Cancelled), "{error:?}");
    assert_eq!(sink.bytes.len(), 4 * PIECE);
}

#[test]
fn a_panic_ends_threads_that_wait_for_a_buffer() {
    let source = MemoryStorage::new(bytes());
    let done = AtomicUsize::new(0);
    let work = |piece: &mut Piece<'_>| {
        if piece.offset == 3 * PIECE as u64 {
            // Three pieces are written, and nine fill the other buffers.
            wait_until(|| done.load(Ordering::Relaxed) == 12);
            thread::sleep(Duration::from_millis(10));
            panic!("on purpose");
        }
        done.fetch_add(1, Ordering::Relaxed);
        invert(piece)
    };
    let mut sink = Vec::new();
    let result = catch_unwind(AssertUnwindSafe(|| {
        copier(&NEVER).run(whole(&source), &mut sink, &work, &|_| ())
    }));
    assert!(result.is_err());
    assert_eq!(sink.len(), 3 * PIECE);
}

#[test]
fn debug_shows_no_bytes() {
    let piece = Piece {
        offset: 3,
        len: 2,
        buffer: &mut [171, 172, 173],
        at_end: true,
    };
    assert_eq!(
        format!("{piece:?}"),
        "Piece { offset: 3, len: 2, buffer: 3 bytes, at_end: true }"
    );
}
