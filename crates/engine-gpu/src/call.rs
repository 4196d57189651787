// SPDX-License-Identifier: MIT OR Apache-2.0
//! One call on its way: batches go out to as many queues as are to be had, and come back
//! in order.

use std::{collections::VecDeque, ops::Range};

use luxor_engine::{Direction, InOut, Run};

use crate::{
    backend::GpuKey,
    device::{BLOCK, Device, DeviceError, Piece, Queue},
    launch::Launch,
    plan::{Batch, Group, Part, Plan, UnitLayout},
    pool::Lease,
};

pub(crate) struct Call<'c, 'r, D: Device> {
    key: &'c GpuKey<D>,
    direction: Direction,
    /// Whether it is XTS.
    tweaks: bool,
    plan: Plan<'c, 'r>,
    /// Bytes of a batch.
    target: usize,
}

impl<'c, 'r, D: Device> Call<'c, 'r, D> {
    pub(crate) fn new(
        key: &'c GpuKey<D>,
        direction: Direction,
        tweaks: bool,
        runs: &'c mut [Run<'r>],
    ) -> Self {
        let total: usize = runs.iter().map(Run::len).sum();
        let share = total.div_ceil(key.pool().limit().max(1));
        Self {
            key,
            direction,
            tweaks,
            plan: Plan::new(runs, tweaks),
            target: share.max(key.pool().tuning().least_batch),
        }
    }

    /// All of it, or so many units in order and why no more.
    pub(crate) fn run(mut self) -> Result<(), (usize, DeviceError)> {
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
        match flight.begin(self.key, self.tweaks, self.direction) {
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
    fn begin(
        &mut self,
        key: &GpuKey<D>,
        tweaks: bool,
        direction: Direction,
    ) -> Result<(), DeviceError> {
        let device = self.lease.device();
        let Batch {
            parts,
            groups,
            uses,
            ..
        } = &mut self.batch;
        find_ways(key, parts);
        let queue = self.lease.queue(*uses);
        stage(queue.staging(), parts);
        number(queue.pieces(), groups, parts);
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
        for group in &*groups {
            for launch in Span::of(group).launches(tweaks, direction) {
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
fn find_ways<D: Device>(key: &GpuKey<D>, parts: &mut [Part<'_>]) {
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
fn staged(parts: &[Part<'_>], which: impl Fn(&Part<'_>) -> bool) -> Vec<Range<usize>> {
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
fn stage(staging: &mut [u8], parts: &[Part<'_>]) {
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
fn number(pieces: &mut [Piece], groups: &[Group], parts: &[Part<'_>]) {
    // Parts and groups are in the same order, so a group's pieces are consecutive.
    debug_assert!(parts.is_sorted_by_key(|part| groups[part.group].pieces_at));
    for (slot, part) in pieces.iter_mut().zip(parts) {
        let start = u32::try_from(part.start).expect("fewer units than a queue has bytes");
        *slot = Piece::new(part.run.first(), part.run.stride(), start);
    }
}

/// Units of one length, one after another in memory of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) unit: UnitLayout,
    pub(crate) units: usize,
    pub(crate) pieces: usize,
    pub(crate) input_at: usize,
    pub(crate) output_at: usize,
    pub(crate) tweaks_at: usize,
    pub(crate) pieces_at: usize,
}

impl Span {
    fn of(group: &Group) -> Self {
        Self {
            unit: group.unit,
            units: group.units,
            pieces: group.pieces,
            input_at: group.data_at,
            output_at: group.data_at,
            tweaks_at: group.tweaks_at,
            pieces_at: group.pieces_at,
        }
    }

    /// What it takes, in order.
    pub(crate) fn launches(
        self,
        tweaks: bool,
        direction: Direction,
    ) -> impl Iterator<Item = Launch> {
        let count = |n: usize| u32::try_from(n).expect("a queue's memory has fewer units");
        let Self {
            unit,
            input_at,
            output_at,
            tweaks_at,
            pieces_at,
            ..
        } = self;
        let (units, piece_count) = (count(self.units), count(self.pieces));
        let (pitch, spu) = (count(unit.blocks), count(unit.stretches));
        let tail = count(unit.len % BLOCK);
        if !tweaks {
            let ctr = Launch::Ctr {
                input_at,
                output_at,
                pieces_at,
                piece_count,
                units,
                len: count(unit.len),
                pitch,
                spu,
            };
            return [Some(ctr), None, None].into_iter().flatten();
        }
        // The last whole block goes with the part behind it.
        let blocks = if tail == 0 { pitch } else { pitch - 2 };
        let tweaks = Launch::Tweaks {
            pieces_at,
            piece_count,
            units,
            spu,
            tweaks_at,
        };
        let whole = (blocks > 0).then_some(Launch::Xts {
            direction,
            input_at,
            output_at,
            tweaks_at,
            units,
            blocks,
            pitch,
            spu,
        });
        let tails = (tail > 0).then_some(Launch::Tails {
            direction,
            input_at,
            output_at,
            tweaks_at,
            units,
            blocks,
            pitch,
            spu,
            tail,
        });
        [Some(tweaks), whole, tails].into_iter().flatten()
    }
}
