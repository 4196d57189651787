// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data that are on a device already: launches and nothing else.

use std::ops::Range;

use luxor_engine::{DataUnitLen, DataUnitNumber, Direction, Mode};

use crate::{
    device::{Device, DeviceMemory, Queue, QueueSizes, Resident},
    error::DeviceError,
    layout::{BLOCK, Piece, UnitLayout},
    loaded_key::GpuKey,
    pool::Lease,
    span::Span,
};

/// Consecutive data units in a device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResidentRun {
    /// The first unit's number.
    pub first: DataUnitNumber,
    /// The step from number to number.
    pub stride: u64,
    /// Bytes of each unit.
    pub unit_len: DataUnitLen,
    /// How many units.
    pub units: usize,
    /// Where the first one is read: bytes, a multiple of 16.
    pub input_at: usize,
    /// Where it is written: bytes, a multiple of 16; the same or apart.
    pub output_at: usize,
}

/// Why data on a device were not encrypted or decrypted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResidentError {
    /// The mode has no data units of this length. Nothing was done.
    #[error("{mode} cannot process data units of {unit_len} bytes")]
    UnitLen {
        /// The key's mode.
        mode: Mode,
        /// The length of the run's units in bytes.
        unit_len: usize,
    },
    /// A run is not within the memory, or begins at no block. Nothing was done.
    #[error("{units} data units at byte {at} are not within {len} bytes, by whole blocks")]
    Bounds {
        /// How many units.
        units: usize,
        /// Where they begin.
        at: usize,
        /// Bytes of the memory.
        len: usize,
    },
    /// A run's input and output are not the same bytes, and not apart. Nothing was done.
    #[error("bytes {input:?} cannot be read, and {output:?} written, in one memory")]
    Overlap {
        /// The bytes that are read.
        input: Range<usize>,
        /// The bytes that are written.
        output: Range<usize>,
    },
    /// The device refused or failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl<D: Device> GpuKey<D> {
    /// Encrypts or decrypts data that are on the device with the index `device`, and
    /// returns when all are done. Nothing is copied but the runs' numbers.
    ///
    /// Units begin a multiple of 16 bytes apart: with lengths that are none, what fills the
    /// last block is left alone. Each run is launched by itself. Runs must not overlap one
    /// another; that is not checked.
    ///
    /// # Errors
    /// [`ResidentError`]. When the device failed, what is in the output is not known.
    ///
    /// # Panics
    /// If there is no such device.
    pub fn crypt_resident(
        &self,
        device: usize,
        direction: Direction,
        runs: &[ResidentRun],
        data: Resident<'_, D::Memory>,
    ) -> Result<(), ResidentError> {
        assert!(device < self.pool().devices().len(), "no device {device}");
        for run in runs {
            let unit_len = run.unit_len.get();
            if !self.mode.accepts_unit_len(unit_len) {
                let mode = self.mode;
                return Err(ResidentError::UnitLen { mode, unit_len });
            }
        }
        crypt(self, device, direction, runs, data)
    }
}

/// Some units of a run: one set of launches.
struct NumberedSpan {
    piece: Piece,
    span: Span,
}

fn crypt<D: Device>(
    key: &GpuKey<D>,
    device: usize,
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
        if let Err(error) = launch(key, &mut lease, direction, wave, &mut data) {
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
fn parts(run: &ResidentRun, sizes: QueueSizes) -> impl Iterator<Item = NumberedSpan> {
    let unit = UnitLayout::new(run.unit_len);
    let most = (sizes.tweaks / BLOCK / unit.stretches).clamp(1, 1 << 30);
    let run = *run;
    (0..run.units).step_by(most).map(move |from| NumberedSpan {
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
    direction: Direction,
    wave: &[NumberedSpan],
    data: &mut Resident<'_, D::Memory>,
) -> Result<(), DeviceError> {
    let (device, tweaks) = (lease.device(), key.has_tweaks());
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
fn tweaks_of(wave: &[NumberedSpan]) -> usize {
    wave.iter()
        .map(|part| part.span.tweaks())
        .max()
        .unwrap_or(0)
}
