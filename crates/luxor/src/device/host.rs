// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same copies into the memory of the computer, where no device is.

use std::{
    io,
    num::NonZeroUsize,
    ops::Range,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use luxor_engine::{Buffer, Direction, Executor};
use luxor_secret::with_key_stack;
use luxor_sector::StoredRange;

use super::{DeviceCopy, check_cancelled, gather, invalid};
use crate::{Context, VolumeDisk};

/// How many threads read, each at most about this many bytes at a time. All threads of the engine decrypt
/// a whole piece.
const THREADS: usize = 4;
const PIECE: usize = 8 << 20;

/// Sectors that are read together, and those of their bytes that are wanted.
struct Piece<'m> {
    stored: StoredRange,
    targets: Vec<(Range<usize>, &'m mut [u8])>,
}

impl VolumeDisk {
    /// As [`DeviceDisk::read_into`](crate::DeviceDisk::read_into), into the memory of the computer. Several
    /// threads read and decrypt, and end soon after [`Context::cancel`] of `context` is set.
    ///
    /// # Errors
    /// As [`DeviceDisk::read_into`](crate::DeviceDisk::read_into), and [`io::ErrorKind::InvalidInput`] also
    /// if a copy is not within the memory. The contents of the memory are then undefined.
    pub fn read_into(
        &self,
        memory: &mut [u8],
        copies: &[DeviceCopy],
        context: &Context,
    ) -> io::Result<()> {
        let pieces = Mutex::new(self.pieces(memory, copies)?.into_iter());
        let (is_over, first_error) = (AtomicBool::new(false), Mutex::new(None));
        let all = || -> io::Result<()> {
            let mut scratch = None;
            loop {
                let next = pieces.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some(piece) = next.filter(|_| !is_over.load(Ordering::Relaxed)) else {
                    return Ok(());
                };
                check_cancelled(&context.cancel)?;
                self.read_piece(piece, &mut scratch)?;
            }
        };
        let thread = || {
            if let Err(error) = all() {
                is_over.store(true, Ordering::Relaxed);
                let mut first = first_error.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert(error);
            }
        };
        thread::scope(|scope| {
            for _ in 1..THREADS {
                scope.spawn(thread);
            }
            thread();
        });
        let error = first_error.into_inner();
        error
            .unwrap_or_else(PoisonError::into_inner)
            .map_or(Ok(()), Err)
    }

    fn read_piece(&self, piece: Piece<'_>, scratch: &mut Option<Buffer>) -> io::Result<()> {
        let Piece {
            stored,
            mut targets,
        } = piece;
        let plaintext = &stored.plaintext;
        let len = usize::try_from(plaintext.end - plaintext.start);
        let len = len.expect("at most `PIECE` or a sector");
        // A disk reads in shorter pieces. A failure does not matter to the read.
        let visible = plaintext.end.min(self.len()) - plaintext.start;
        let _ = self.shared().will_need(plaintext.start, visible);
        if let [(range, target)] = &mut targets[..]
            && *range == (0..len)
        {
            return self.read_at(target, plaintext.start);
        }
        // In one request: neighbours share sectors, and a storage may be far away.
        if scratch.as_ref().is_none_or(|buffer| buffer.len() < len) {
            let new = Buffer::try_zeroed(len);
            let failed = |error| io::Error::new(io::ErrorKind::OutOfMemory, error);
            *scratch = Some(new.map_err(failed)?);
        }
        let buffer = &mut scratch.as_mut().expect("set above")[..len];
        let disk = self.shared();
        disk.read_stored(buffer, plaintext)?;
        let (layout, alone) = (disk.layout(), Executor::new(NonZeroUsize::MIN));
        let decrypt = || layout.crypt(&alone, Direction::Decrypt, buffer.into(), plaintext.start);
        with_key_stack(decrypt)?;
        for (range, target) in targets {
            target.copy_from_slice(&buffer[range]);
        }
        Ok(())
    }

    fn pieces<'m>(
        &self,
        memory: &'m mut [u8],
        copies: &[DeviceCopy],
    ) -> io::Result<Vec<Piece<'m>>> {
        let layout = self.shared().layout();
        let (mut pieces, mut places) = (Vec::new(), Vec::new());
        for (number, (stored, copies)) in gather(&layout, copies, PIECE)?.into_iter().enumerate() {
            places.extend(copies.into_iter().map(|(range, at)| (at, range, number)));
            let targets = Vec::new();
            pieces.push(Piece { stored, targets });
        }
        places.sort_by_key(|&(at, ..)| at);
        let (room, mut rest, mut begin) = (memory.len(), memory, 0);
        for (at, range, number) in places {
            let skipped = at.checked_sub(begin);
            let skipped = skipped.and_then(|skipped| rest.split_off_mut(..skipped));
            let target = skipped.and_then(|_| rest.split_off_mut(..range.len()));
            let target = target.ok_or_else(|| {
                let len = range.len();
                invalid(format!(
                    "{len} bytes at byte {at} of {room} bytes of memory overlap others or its end"
                ))
            })?;
            begin = at + range.len();
            pieces[number].targets.push((range, target));
        }
        Ok(pieces)
    }
}
