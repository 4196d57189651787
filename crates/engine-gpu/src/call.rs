// SPDX-License-Identifier: MIT OR Apache-2.0
//! One call: its batches go out to as many queues as are available and come back in order.

use std::{collections::VecDeque, ops::Range};

use luxor_engine::{CryptError, CryptErrorKind, Direction, InOut, LoadedKey, Run, check_runs};

use crate::{
    device::{Device, Queue},
    error::DeviceError,
    layout::{Piece, UnitLayout},
    loaded_key::GpuKey,
    plan::{Batch, BatchPart, Plan},
    pool::LentQueue,
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
    /// The most bytes of a batch.
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

    /// Runs the whole call. An error comes with the number of units done, in order, before it.
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
                    // Dropping the later flights waits for them; their results are discarded.
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

    /// Returns a queue for the next unit, or `None` when the call should wait for one of its own
    /// batches instead.
    fn lease(
        &self,
        unit: UnitLayout,
        spare: Option<LentQueue<'c, D>>,
        must: bool,
    ) -> Result<Option<LentQueue<'c, D>>, DeviceError> {
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

    /// Starts the next batch.
    fn depart(&mut self, lease: LentQueue<'c, D>) -> Result<Flight<'c, D>, DeviceError> {
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

/// A batch under way.
///
/// Its copies may read and write the runs' own memory. Dropping the lease waits for them. `lease`
/// is declared first, so it is dropped before `batch`, which borrows the runs.
struct Flight<'c, D: Device> {
    lease: LentQueue<'c, D>,
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
            // SAFETY: `part.run` borrows `from` through the batch for longer than `self.lease`
            // lives, and dropping the lease waits for the queue. `land` also waits for the queue
            // before anything writes to the run.
            #[expect(unsafe_code, reason = "the copy is asynchronous")]
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
            // SAFETY: `to` is borrowed as `from` is above. Nothing reads or writes the output until
            // `land` has waited for the queue, and no input is copied from this memory.
            #[expect(unsafe_code, reason = "the copy is asynchronous")]
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

/// Waits for a batch and copies staged results into its runs. Returns the lease and the number of
/// units that are now done.
fn land<'p, D: Device>(
    mut lease: LentQueue<'p, D>,
    mut batch: Batch<'_>,
) -> Result<(LentQueue<'p, D>, usize), DeviceError> {
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

/// Marks the parts that need no staging memory: long ones in pinned memory. In-place results are
/// always staged, so that the input stays intact until the batch is done.
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

/// Returns the ranges in the queue's data of the parts that `which` selects, adjacent ranges
/// merged.
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

/// Copies the input of all staged parts into the staging memory, each unit padded to whole blocks.
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

/// Writes the pieces, from which the kernels compute the data unit numbers of the parts.
fn number(pieces: &mut [Piece], spans: &[Span], parts: &[BatchPart<'_>]) {
    // Parts and spans are in the same order, so the pieces of a span are consecutive.
    debug_assert!(parts.is_sorted_by_key(|part| spans[part.span].pieces_at));
    for (slot, part) in pieces.iter_mut().zip(parts) {
        let start = u32::try_from(part.start).expect("a queue has fewer units than bytes");
        *slot = Piece::new(part.run.first(), part.run.stride(), start);
    }
}
