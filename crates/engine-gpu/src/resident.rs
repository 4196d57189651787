// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encryption of data already in device memory: launches without copies.

use std::ops::Range;

use luxor_engine::{DataUnitLen, DataUnitNumber, Direction, Mode};

use crate::{
    device::{Device, DeviceMemory, Queue, QueueSizes, Resident},
    error::DeviceError,
    launch::Launch,
    layout::{BLOCK, Piece, UnitLayout},
    loaded_key::GpuKey,
    pool::LentQueue,
    span::Span,
    stream::{CallersStream, DeviceRange, StreamDevice, StreamWork},
};

/// Consecutive data units in a device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResidentRun {
    /// The first unit's number.
    pub first: DataUnitNumber,
    /// The step from one unit's number to the next.
    pub stride: u64,
    /// Bytes of each unit.
    pub unit_len: DataUnitLen,
    /// Number of units.
    pub units: usize,
    /// Byte offset of the first unit in the input, a multiple of 16.
    pub input_at: usize,
    /// Byte offset of the first unit in the output, a multiple of 16. In one memory, input and
    /// output are the same bytes or disjoint.
    pub output_at: usize,
}

impl ResidentRun {
    /// Returns the bytes of its units' tweaks.
    fn tweaks(&self) -> usize {
        self.units * UnitLayout::new(self.unit_len).stretches * BLOCK
    }
}

/// An error of [`GpuKey::crypt_resident`] and [`GpuKey::crypt_on_stream`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResidentError {
    /// The mode does not accept data units of this length. Nothing was done.
    #[error("a data unit of {mode} has {}, not {unit_len}", mode.accepted_unit_lens())]
    UnitLen {
        /// The key's mode.
        mode: Mode,
        /// The length of the run's units in bytes.
        unit_len: usize,
    },
    /// A run is not within the memory, or its offset is not a multiple of 16. Nothing was done.
    #[error("{units} data units at byte {at} exceed {len} bytes, or {at} is not a multiple of 16")]
    Bounds {
        /// Number of units.
        units: usize,
        /// Byte offset of the first unit.
        at: usize,
        /// Bytes of the memory.
        len: usize,
    },
    /// A run's input and output overlap without being the same bytes. Nothing was done.
    #[error("the input, bytes {input:?}, and the output, bytes {output:?}, overlap")]
    Overlap {
        /// The bytes that are read.
        input: Range<usize>,
        /// The bytes that are written.
        output: Range<usize>,
    },
    /// The caller's memory does not begin at a multiple of 16, or does not end below 2⁶⁴. Nothing was
    /// done.
    #[error("{} bytes at {:#x} are no memory for data units", range.len, range.address)]
    Address {
        /// The memory.
        range: DeviceRange,
    },
    /// The device refused or failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl<D: Device> GpuKey<D> {
    /// Encrypts or decrypts data in the memory of device number `device`, and returns when all runs
    /// are done. `device` is an index in [`GpuBackend::devices`](crate::GpuBackend::devices), and
    /// `data` is [memory](Device::memory) of that device. Only the runs' data unit numbers are
    /// copied to the device.
    ///
    /// Units begin a multiple of 16 bytes apart. If the unit length is not a multiple of 16, the
    /// padding in the last block keeps its value. Each run is launched separately. Runs must not
    /// overlap each other; this is not checked.
    ///
    /// # Errors
    /// [`ResidentError`]. After a device error the contents of the output are undefined.
    ///
    /// # Panics
    /// If there is no device number `device`.
    pub fn crypt_resident(
        &self,
        device: usize,
        direction: Direction,
        runs: &[ResidentRun],
        data: Resident<'_, D::Memory>,
    ) -> Result<(), ResidentError> {
        assert!(device < self.pool().devices().len(), "no device {device}");
        self.check_unit_lens(runs)?;
        crypt(self, device, direction, runs, data)
    }

    pub(crate) fn check_unit_lens(&self, runs: &[ResidentRun]) -> Result<(), ResidentError> {
        for run in runs {
            let unit_len = run.unit_len.get();
            if !self.mode.accepts_unit_len(unit_len) {
                let mode = self.mode;
                return Err(ResidentError::UnitLen { mode, unit_len });
            }
        }
        Ok(())
    }
}

impl<D: StreamDevice> GpuKey<D> {
    /// Encrypts or decrypts a caller's memory on device number `device`, on the caller's stream, and
    /// returns without waiting: the work is under way like a kernel that the caller started there.
    /// `input_at` and `output_at` of the runs count from the beginning of `input` and `output`, which
    /// may be the same memory. Otherwise as [`GpuKey::crypt_resident`].
    ///
    /// With more keys at work than the device has places for (64 with CUDA), a call waits for the
    /// oldest work first. Dropping the key waits for its work.
    ///
    /// # Errors
    /// [`ResidentError`]. After an error of the device the contents of the output are undefined. What
    /// fails on the device later is an error of the caller's stream, and of the next call here.
    ///
    /// # Safety
    /// As [`StreamDevice::enqueue`].
    ///
    /// # Panics
    /// If there is no device number `device`.
    #[expect(unsafe_code, reason = "the work continues after the call returns")]
    pub unsafe fn crypt_on_stream(
        &self,
        device: usize,
        direction: Direction,
        runs: &[ResidentRun],
        (input, output): (DeviceRange, DeviceRange),
        stream: CallersStream<'_>,
    ) -> Result<(), ResidentError> {
        let pool = self.pool();
        let of = &pool.devices()[device];
        self.check_unit_lens(runs)?;
        for run in runs {
            let from = run.address_range(run.input_at, input)?;
            let to = run.address_range(run.output_at, output)?;
            check_overlap(from, to)?;
        }
        // From here on the device has a key.
        if let Some(error) = pool.lost(device) {
            return Err(error.into());
        }
        let sizes = QueueSizes {
            data: 0,
            tweaks: pool.tuning().resident_tweaks,
            pieces: StreamWork::MOST_PIECES * size_of::<Piece>(),
        };
        let parts: Vec<_> = runs.iter().flat_map(|run| parts(run, sizes)).collect();
        for wave in parts.chunks(StreamWork::MOST_PIECES) {
            let pieces: Vec<Piece> = wave.iter().map(|part| part.piece).collect();
            let launches: Vec<Launch> = launches(wave, self.has_tweaks(), direction).collect();
            let work = StreamWork {
                input,
                output,
                pieces: &pieces,
                tweaks: if self.has_tweaks() {
                    tweaks_of(wave)
                } else {
                    0
                },
                launches: &launches,
            };
            // SAFETY: the caller promises the same.
            if let Err(error) = unsafe { of.enqueue(self.on(device), stream, &work) } {
                if error.is_lost() {
                    pool.lose(device, &error);
                }
                return Err(error.into());
            }
        }
        Ok(())
    }
}

impl ResidentRun {
    /// Checks that the run lies in a caller's memory, and returns its addresses.
    fn address_range(&self, at: usize, range: DeviceRange) -> Result<Range<usize>, ResidentError> {
        let bytes = check(self, at, range.len)?;
        let start = usize::try_from(range.address).ok();
        let start = start
            .filter(|start| start.is_multiple_of(BLOCK) && start.checked_add(range.len).is_some());
        let start = start.ok_or(ResidentError::Address { range })?;
        Ok(start + bytes.start..start + bytes.end)
    }
}

/// Units of a run that one set of launches processes, with their numbers.
pub(crate) struct NumberedSpan {
    pub(crate) piece: Piece,
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
        if matches!(data, Resident::InPlace(_)) {
            check_overlap(input, output)?;
        }
    }
    let most = runs
        .iter()
        .map(|run| UnitLayout::new(run.unit_len).padded());
    let mut lease = key.pool().take(most.max().unwrap_or(0), Some(device))?;
    if key.has_tweaks() {
        let most = runs.iter().map(ResidentRun::tweaks).max().unwrap_or(0);
        let limit = key.pool().tuning().resident_tweaks / BLOCK * BLOCK;
        if let Err(error) = lease.reserve_tweaks(most.next_power_of_two().min(limit)) {
            lease.fail(&error);
            return Err(error.into());
        }
    }
    let sizes = lease.sizes();
    let parts: Vec<_> = runs.iter().flat_map(|run| parts(run, sizes)).collect();
    for wave in parts.chunks(sizes.pieces / size_of::<Piece>()) {
        if let Err(error) = launch(key, &mut lease, direction, wave, &mut data) {
            // Launches under way use the caller's memory. `fail` drops the lease, which waits for
            // them.
            lease.fail(&error);
            return Err(error.into());
        }
    }
    lease.give_back();
    Ok(())
}

/// Refuses ranges of one memory that overlap without being equal: whatever the order of the units,
/// some would be read after they were written.
fn check_overlap(input: Range<usize>, output: Range<usize>) -> Result<(), ResidentError> {
    let overlap = input.start.max(output.start) < input.end.min(output.end);
    if input != output && overlap {
        return Err(ResidentError::Overlap { input, output });
    }
    Ok(())
}

/// Checks that the run lies in a memory of `len` bytes and returns its byte range there.
pub(crate) fn check(
    run: &ResidentRun,
    at: usize,
    len: usize,
) -> Result<Range<usize>, ResidentError> {
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

/// Splits a run into parts. Each part has at most as many tweaks as the queue has room for, and at
/// most 2³⁰ units, which the kernels can count.
pub(crate) fn parts(run: &ResidentRun, sizes: QueueSizes) -> impl Iterator<Item = NumberedSpan> {
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
    lease: &mut LentQueue<'_, D>,
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
    number(queue, wave)?;
    for launch in launches(wave, tweaks, direction) {
        queue.launch_on(data, key.on(device), &launch)?;
    }
    queue.wait()
}

/// Takes the numbers of the parts to the device. Nothing may be under way on the queue.
pub(crate) fn number(queue: &mut impl Queue, wave: &[NumberedSpan]) -> Result<(), DeviceError> {
    for (slot, part) in queue.pieces().iter_mut().zip(wave) {
        *slot = part.piece;
    }
    queue.upload_pieces(wave.len())
}

/// Returns the launches of the parts, whose pieces follow each other.
pub(crate) fn launches(
    wave: &[NumberedSpan],
    tweaks: bool,
    direction: Direction,
) -> impl Iterator<Item = Launch> {
    wave.iter().enumerate().flat_map(move |(index, part)| {
        let pieces_at = index * size_of::<Piece>();
        let span = Span {
            pieces_at,
            ..part.span
        };
        span.launches(tweaks, direction)
    })
}

/// Returns the bytes of tweaks of the part with the most tweaks. The parts run one after another
/// and share the memory for tweaks.
pub(crate) fn tweaks_of(wave: &[NumberedSpan]) -> usize {
    wave.iter()
        .map(|part| part.span.tweaks())
        .max()
        .unwrap_or(0)
}
