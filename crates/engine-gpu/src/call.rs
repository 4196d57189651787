// SPDX-License-Identifier: MIT OR Apache-2.0
//! One call on its way: batches go out to as many queues as are to be had, and come back
//! in order.

use std::{collections::VecDeque, ops::Range};

use luxor_engine::{CryptError, CryptErrorKind, Direction, InOut, LoadedKey, Run, check_runs};

use crate::{
    device::{Device, Queue},
    error::DeviceError,
    layout::{Piece, UnitLayout},
    loaded_key::GpuKey,
    plan::{Batch, BatchPart, Plan},
    pool::Lease,
    span::Span,
};

impl<D: Device> LoadedKey for GpuKey<D> {
    fn crypt(&self, direction: Direction, runs: &mut [Run<'_>]) -> Result<(), CryptError> {
        check_runs(self.mode, runs)?;
        let call = Call::new(self, direction, runs);
        call.run().map_err(|(done, error)| {
            let (backend, message) = (self.backend, error.to_string());
            CryptError::new(done, CryptErrorKind::Device { backend, message })
        })
    }

    fn whole_from(&self) -> usize {
        0
    }
}

struct Call<'c, 'r, D: Device> {
    key: &'c GpuKey<D>,
    direction: Direction,
    plan: Plan<'c, 'r>,
    /// Bytes of a batch.
    target: usize,
}

impl<'c, 'r, D: Device> Call<'c, 'r, D> {
    fn new(key: &'c GpuKey<D>, direction: Direction, runs: &'c mut [Run<'r>]) -> Self {
        let total: usize = runs.iter().map(Run::len).sum();
        let share = total.div_ceil(key.pool().limit().max(1));
        Self {
            key,
            direction,
            plan: Plan::new(runs, key.has_tweaks()),
            target: share.max(key.pool().tuning().least_batch),
        }
    }

    /// All of it, or so many units in order and why no more.
    fn run(mut self) -> Result<(), (usize, DeviceError)> {
        let (mut done, mut failure) = (0, None);
        let mut flights = VecDeque::new();
        let mut spare = None;
        loop {
            while failure.is_none()
                && let Some(unit) = self.plan.next_unit()
            {
                match self.lease(unit, spare.take(), flights.is_empty()) {
                    Ok(Some(lease)) => match self.depart(lease) {
                        Ok(flight) => flights.push_back(flight),
                        Err(error) => failure = Some(error),
                    },
                    Ok(None) => break,
                    Err(error) => failure = Some(error),
                }
            }
            let Some(flight) = flights.pop_front() else {
                break;
            };
            let Flight { lease, batch } = flight;
            match land(lease, batch) {
                Ok((lease, units)) => {
                    done += units;
                    let is_needed = self.plan.next_unit().is_some();
                    if self.key.pool().is_wanted() || !is_needed {
                        lease.give_back();
                    } else {
                        spare = Some(lease);
                    }
                }
                Err(error) => {
                    // What is behind it is waited for and forgotten.
                    flights.clear();
                    return Err((done, error));
                }
            }
        }
        if let Some(lease) = spare {
            lease.give_back();
        }
        failure.map_or(Ok(()), |error| Err((done, error)))
    }

    /// A queue for the next unit; `None` when it is better to wait for one's own.
    fn lease(
        &self,
        unit: UnitLayout,
        spare: Option<Lease<'c, D>>,
        must: bool,
    ) -> Result<Option<Lease<'c, D>>, DeviceError> {
        if let Some(lease) = spare {
            if lease.sizes().data >= unit.padded() {
                return Ok(Some(lease));
            }
            lease.give_back();
        }
        let pool = self.key.pool();
        if must {
            pool.take(unit.padded(), None).map(Some)
        } else {
            Ok(pool.try_take(unit.padded()))
        }
    }

    /// Begins the next batch.
    fn depart(&mut self, lease: Lease<'c, D>) -> Result<Flight<'c, D>, DeviceError> {
        let batch = self.plan.next_batch(lease.sizes(), self.target);
        let mut flight = Flight { lease, batch };
        match flight.begin(self.key, self.direction) {
            Ok(()) => Ok(flight),
            Err(error) => {
                flight.lease.fail(&error);
                Err(error)
            }
        }
    }
}

/// A batch that is under way.
///
/// Copies may go from and to the runs' own memory. Dropping the lease waits for them, and it
/// is dropped first: before the runs, which are borrowed for longer than a call takes.
struct Flight<'c, D: Device> {
    lease: Lease<'c, D>,
    batch: Batch<'c>,
}

impl<D: Device> Flight<'_, D> {
    fn begin(&mut self, key: &GpuKey<D>, direction: Direction) -> Result<(), DeviceError> {
        let device = self.lease.device();
        let Batch {
            parts, spans, uses, ..
        } = &mut self.batch;
        find_ways(key, parts);
        let queue = self.lease.queue(*uses);
        stage(queue.staging(), parts);
        number(queue.pieces(), spans, parts);
        queue.upload_pieces(parts.len())?;
        for range in staged(parts, |part| !part.goes) {
            queue.upload_staging(range)?;
        }
        for part in parts.iter().filter(|part| part.goes) {
            let from = part.run.buf().input();
            // SAFETY: the run is borrowed, by the batch, for longer than the lease lives,
            // and dropping the lease waits for the queue; so does `land` before
            // anything is written to the run.
            #[expect(unsafe_code, reason = "an asynchronous copy")]
            unsafe {
                queue.upload(from.as_ptr(), from.len(), part.at)?;
            }
        }
        for span in &*spans {
            for launch in span.launches(key.has_tweaks(), direction) {
                queue.launch(key.on(device), &launch)?;
            }
        }
        for part in parts.iter_mut().filter(|part| part.comes) {
            let to = part.run.output();
            // SAFETY: as above; nothing reads or writes the output until `land` has
            // waited, and it is not the memory that any input is copied from.
            #[expect(unsafe_code, reason = "an asynchronous copy")]
            unsafe {
                queue.download(part.at, to.as_mut_ptr(), to.len())?;
            }
        }
        for range in staged(parts, |part| !part.comes) {
            queue.download_staging(range)?;
        }
        Ok(())
    }
}

/// Waits for a batch and commits it: its units are done.
fn land<'p, D: Device>(
    mut lease: Lease<'p, D>,
    mut batch: Batch<'_>,
) -> Result<(Lease<'p, D>, usize), DeviceError> {
    let queue = lease.queue(batch.uses);
    if let Err(error) = queue.wait() {
        lease.fail(&error);
        return Err(error);
    }
    let staging = queue.staging();
    for part in batch.parts.iter_mut().filter(|part| !part.comes) {
        let unit = UnitLayout::new(part.run.unit_len());
        let (from, output) = (&staging[part.range()], part.run.output());
        if unit.is_whole() {
            output.copy_from_slice(from);
            continue;
        }
        let padded = from.chunks_exact(unit.padded());
        for (unit, padded) in output.chunks_exact_mut(unit.len).zip(padded) {
            unit.copy_from_slice(&padded[..unit.len()]);
        }
    }
    Ok((lease, batch.units))
}

/// Which parts need no staging memory: long ones in pinned memory. What comes back in place
/// is always staged, so that the input is there until the batch is done.
fn find_ways<D: Device>(key: &GpuKey<D>, parts: &mut [BatchPart<'_>]) {
    let least = key.pool().tuning().direct;
    let devices = key.pool().devices();
    let is_pinned = |bytes| devices.iter().any(|device| device.is_pinned(bytes));
    for part in parts {
        let unit = UnitLayout::new(part.run.unit_len());
        if part.run.len() >= least && unit.is_whole() {
            part.goes = is_pinned(part.run.buf().input());
            part.comes = match part.run.buf() {
                InOut::InPlace(_) => false,
                InOut::Separate { output, .. } => is_pinned(output),
            };
        }
    }
}

/// The places of some parts, adjacent ones together.
fn staged(parts: &[BatchPart<'_>], which: impl Fn(&BatchPart<'_>) -> bool) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for part in parts.iter().filter(|part| which(part)) {
        let range = part.range();
        match ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => ranges.push(range),
        }
    }
    ranges
}

/// Input that does not go directly.
fn stage(staging: &mut [u8], parts: &[BatchPart<'_>]) {
    for part in parts.iter().filter(|part| !part.goes) {
        let unit = UnitLayout::new(part.run.unit_len());
        let (to, input) = (&mut staging[part.range()], part.run.buf().input());
        if unit.is_whole() {
            to.copy_from_slice(input);
            continue;
        }
        let padded = to.chunks_exact_mut(unit.padded());
        for (padded, unit) in padded.zip(input.chunks_exact(unit.len)) {
            let (bytes, rest) = padded.split_at_mut(unit.len());
            bytes.copy_from_slice(unit);
            rest.fill(0);
        }
    }
}

/// The parts' numbers.
fn number(pieces: &mut [Piece], spans: &[Span], parts: &[BatchPart<'_>]) {
    // Parts and spans are in the same order, so a span's pieces are consecutive.
    debug_assert!(parts.is_sorted_by_key(|part| spans[part.span].pieces_at));
    for (slot, part) in pieces.iter_mut().zip(parts) {
        let start = u32::try_from(part.start).expect("fewer units than a queue has bytes");
        *slot = Piece::new(part.run.first(), part.run.stride(), start);
    }
}
