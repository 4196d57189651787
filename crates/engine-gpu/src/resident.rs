// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data that are on a device already: launches and nothing else.

use std::ops::Range;

use luxor_engine::Direction;

use crate::{
    backend::{GpuKey, ResidentError, ResidentRun},
    call::Span,
    device::{BLOCK, Device, DeviceError, DeviceMemory, Piece, Queue, QueueSizes, Resident},
    plan::UnitLayout,
    pool::Lease,
};

/// Some units of a run: one set of launches.
struct Part {
    piece: Piece,
    span: Span,
}

pub(crate) fn crypt<D: Device>(
    key: &GpuKey<D>,
    device: usize,
    tweaks: bool,
    direction: Direction,
    runs: &[ResidentRun],
    mut data: Resident<'_, D::Memory>,
) -> Result<(), ResidentError> {
    for run in runs {
        let input = check(run, run.input_at, data.input().len())?;
        let output = check(run, run.output_at, data.output().len())?;
        // In any order of its units, some would be read after they were written.
        let overlap = input.start.max(output.start) < input.end.min(output.end);
        if matches!(data, Resident::InPlace(_)) && input != output && overlap {
            return Err(ResidentError::Overlap { input, output });
        }
    }
    let most = runs
        .iter()
        .map(|run| UnitLayout::new(run.unit_len).padded());
    let mut lease = key.pool().take(most.max().unwrap_or(0), Some(device))?;
    let sizes = lease.sizes();
    let parts: Vec<_> = runs.iter().flat_map(|run| parts(run, sizes)).collect();
    for wave in parts.chunks(sizes.pieces / size_of::<Piece>()) {
        if let Err(error) = launch(key, &mut lease, tweaks, direction, wave, &mut data) {
            // What was begun uses the caller's memory until this has waited for it.
            lease.fail(&error);
            return Err(error.into());
        }
    }
    lease.give_back();
    Ok(())
}

/// Where the run's units are in a memory of `len` bytes.
fn check(run: &ResidentRun, at: usize, len: usize) -> Result<Range<usize>, ResidentError> {
    let unit = UnitLayout::new(run.unit_len);
    let bytes = match run.units {
        0 => Some(0),
        units => (units - 1)
            .checked_mul(unit.padded())
            .and_then(|before| before.checked_add(unit.len)),
    };
    match bytes.and_then(|bytes| bytes.checked_add(at)) {
        Some(end) if at.is_multiple_of(BLOCK) && end <= len => Ok(at..end),
        _ => {
            let units = run.units;
            Err(ResidentError::Bounds { units, at, len })
        }
    }
}

/// A run in parts with as many tweaks as a queue has room for, and no more units than
/// kernels can count.
fn parts(run: &ResidentRun, sizes: QueueSizes) -> impl Iterator<Item = Part> {
    let unit = UnitLayout::new(run.unit_len);
    let most = (sizes.tweaks / BLOCK / unit.stretches).clamp(1, 1 << 30);
    let run = *run;
    (0..run.units).step_by(most).map(move |from| Part {
        piece: Piece::new(run.first.step(from as u64, run.stride), run.stride, 0),
        span: Span {
            unit,
            units: most.min(run.units - from),
            pieces: 1,
            input_at: run.input_at + from * unit.padded(),
            output_at: run.output_at + from * unit.padded(),
            tweaks_at: 0,
            pieces_at: 0,
        },
    })
}

fn launch<D: Device>(
    key: &GpuKey<D>,
    lease: &mut Lease<'_, D>,
    tweaks: bool,
    direction: Direction,
    wave: &[Part],
    data: &mut Resident<'_, D::Memory>,
) -> Result<(), DeviceError> {
    let device = lease.device();
    let queue = lease.queue(QueueSizes {
        pieces: wave.len() * size_of::<Piece>(),
        tweaks: if tweaks { tweaks_of(wave) } else { 0 },
        data: 0,
    });
    for (slot, part) in queue.pieces().iter_mut().zip(wave) {
        *slot = part.piece;
    }
    queue.upload_pieces(wave.len())?;
    for (index, part) in wave.iter().enumerate() {
        let pieces_at = index * size_of::<Piece>();
        let span = Span {
            pieces_at,
            ..part.span
        };
        for launch in span.launches(tweaks, direction) {
            queue.launch_on(data, key.on(device), &launch)?;
        }
    }
    queue.wait()
}

/// Bytes of the most tweaks that a part has.
fn tweaks_of(wave: &[Part]) -> usize {
    let tweaks = |part: &Part| part.span.units * part.span.unit.stretches * BLOCK;
    wave.iter().map(tweaks).max().unwrap_or(0)
}
