// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stream with its own memory.

#![allow(unsafe_code, reason = "copies continue after their call returns")]

use std::{ops::Range, sync::Arc};

use luxor_engine_gpu::{
    AesSize, Bounds, DeviceError, DeviceMemory, Launch, Piece, Queue, QueueSizes, Resident,
};
use zeroize::Zeroize;

use crate::{
    driver::{Address, Driver, Failure, Stream},
    error::device_error,
    memory::{CudaMemory, Pinned},
    shared::{CudaKey, Places, Shared},
    slots::KeyId,
};

/// A stream of a GPU.
pub struct CudaQueue {
    device: Arc<Shared>,
    stream: Stream,
    data: CudaMemory,
    tweaks: CudaMemory,
    pieces: CudaMemory,
    staging: Pinned,
    pieces_staging: Pinned,
    /// The key used since the last wait, and its slot.
    key: Option<KeyInUse>,
    under_way: bool,
    /// The first error since the last wait.
    failed: Option<DeviceError>,
}

#[derive(Clone, Copy)]
struct KeyInUse {
    id: KeyId,
    size: AesSize,
    slot: usize,
}

impl KeyInUse {
    /// Releases the slot. Nothing may read it any more.
    fn end(self, device: &Shared) {
        if let Ok(program) = device.program(self.size) {
            program.slots.release(self.slot);
        }
    }
}

impl CudaQueue {
    pub(crate) fn new(device: &Arc<Shared>, sizes: QueueSizes) -> Result<Self, Failure> {
        let (gpu, service) = (&device.gpu, &device.service);
        let data = CudaMemory::zeroed(service, sizes.data)?;
        let tweaks = CudaMemory::zeroed(service, sizes.tweaks)?;
        let pieces = CudaMemory::zeroed(service, sizes.pieces)?;
        let staging = gpu.pinned(sizes.data)?;
        let pieces_staging = gpu.pinned(sizes.pieces)?;
        Ok(Self {
            // Created after everything that can fail, so that no error leaks it.
            stream: gpu.driver.create_stream()?,
            device: Arc::clone(device),
            data,
            tweaks,
            pieces,
            staging,
            pieces_staging,
            key: None,
            under_way: false,
            failed: None,
        })
    }

    /// Enqueues a command on the stream.
    pub(crate) fn begin(
        &mut self,
        work: impl FnOnce(&dyn Driver, Stream) -> Result<(), Failure>,
    ) -> Result<(), DeviceError> {
        // Also after an error, since the failed call may have started something.
        self.under_way = true;
        let gpu = &self.device.gpu;
        let begun = gpu.enter().and_then(|()| work(&*gpu.driver, self.stream));
        let begun = begun.map_err(|failure| device_error(&failure));
        self.note(begun)
    }

    /// Keeps the first error for the next wait.
    fn note<T>(&mut self, result: Result<T, DeviceError>) -> Result<T, DeviceError> {
        if let Err(error) = &result {
            self.failed.get_or_insert_with(|| error.clone());
        }
        result
    }

    /// Waits if any command is under way.
    fn settle(&mut self) {
        if !self.under_way {
            return;
        }
        let gpu = &self.device.gpu;
        let entered = gpu.enter();
        // SAFETY: the stream belongs to this queue until `drop`.
        let waited = unsafe { gpu.driver.wait(self.stream) };
        let done = entered
            .and(waited)
            .map_err(|failure| device_error(&failure));
        let _ = self.note(done);
        self.under_way = false;
        if let Some(use_of) = self.key.take() {
            use_of.end(&self.device);
        }
    }

    /// Returns the key's slot, which the queue holds until the next wait.
    fn place(&mut self, key: &CudaKey) -> Result<usize, DeviceError> {
        if !Arc::ptr_eq(&self.device, &key.device) {
            let message = "the key is another device's".into();
            return Err(DeviceError::Launch { message });
        }
        match self.key {
            Some(KeyInUse { id, slot, .. }) if id == key.id => Ok(slot),
            Some(_) => Err(DeviceError::Launch {
                message: "another key is in use since the last wait".into(),
            }),
            None => {
                let (id, size) = (key.id, key.words.size());
                let slot = self.device.program(size)?.slots.acquire(id, &key.words)?;
                self.key = Some(KeyInUse { id, size, slot });
                // Makes the next wait release the slot, whatever happens.
                self.under_way = true;
                Ok(slot)
            }
        }
    }

    fn begin_launch(
        &mut self,
        key: &CudaKey,
        launch: &Launch,
        bounds: Bounds,
        places: &Places,
    ) -> Result<(), DeviceError> {
        let begun = launch.check(bounds).and_then(|()| {
            let slot = self.place(key)?;
            self.under_way = true;
            let device = &self.device;
            device
                .gpu
                .enter()
                .map_err(|failure| device_error(&failure))?;
            // SAFETY: `check` bounded the launch by the lengths of the memories at these addresses,
            // and the slot holds the key until the next wait.
            unsafe { device.launch(self.stream, key.words.size(), slot, places, launch) }
        });
        self.note(begun)
    }

    /// Enqueues a copy between `range` of the data and as many bytes of `memory` from byte `at` on.
    /// `order` gets the beginning of the range and the address in `memory`, and returns the addresses of
    /// the target and the source.
    fn copy(
        &mut self,
        range: Range<usize>,
        memory: &CudaMemory,
        at: usize,
        order: impl FnOnce(usize, Address) -> (Address, Address),
    ) -> Result<(), DeviceError> {
        let len = range.len();
        let is_here = self.of_this_device(memory);
        let data = self.data.check(range.start, len);
        let checked = is_here.and(data).and(memory.check(at, len));
        self.note(checked)?;
        let (to, from) = order(range.start, memory.address().after(at));
        self.begin(|driver, stream| {
            // SAFETY: the checks bound both ranges. The caller keeps the memory alive until the next
            // wait, and it is not the queue's own, so the ranges do not overlap.
            unsafe { driver.copy(to, from, len, stream) }
        })
    }

    /// Refuses memory of another device: its address may be valid on this device, for other memory.
    fn of_this_device(&self, memory: &CudaMemory) -> Result<(), DeviceError> {
        if memory.is_of(&self.device.service) {
            return Ok(());
        }
        let message = "the memory is another device's".into();
        Err(DeviceError::Launch { message })
    }

    fn places(&self) -> (Bounds, Places) {
        let data = self.data.len();
        let bounds = Bounds {
            input: data,
            output: data,
            tweaks: self.tweaks.len(),
            pieces: self.pieces.len(),
        };
        let places = Places {
            input: self.data.address(),
            output: self.data.address(),
            tweaks: self.tweaks.address(),
            pieces: self.pieces.address(),
        };
        (bounds, places)
    }
}

/// # Panics
/// If a range is not within the staging memory.
impl Queue for CudaQueue {
    type Key = CudaKey;
    type Memory = CudaMemory;

    fn resize_tweaks(&mut self, len: usize) -> Result<(), DeviceError> {
        let memory = CudaMemory::zeroed(&self.device.service, len);
        self.tweaks = memory.map_err(|failure| device_error(&failure))?;
        Ok(())
    }

    fn staging(&mut self) -> &mut [u8] {
        self.settle();
        &mut self.staging
    }

    fn pieces(&mut self) -> &mut [Piece] {
        self.settle();
        // SAFETY: `Piece` consists of integers, so any bytes are a valid `Piece`.
        unsafe { self.pieces_staging.slice_of() }
    }

    fn upload_staging(&mut self, range: Range<usize>) -> Result<(), DeviceError> {
        let (from, at) = (self.staging[range.clone()].as_ptr(), range.start);
        // SAFETY: `staging` hands out the memory only after a wait, so nothing writes to it before
        // then.
        unsafe { self.upload(from, range.len(), at) }
    }

    fn upload_pieces(&mut self, count: usize) -> Result<(), DeviceError> {
        let bytes = &self.pieces_staging[..count * size_of::<Piece>()];
        let (from, len, to) = (bytes.as_ptr(), bytes.len(), self.pieces.address());
        self.begin(|driver, stream| {
            // SAFETY: `pieces` and `pieces_staging` have the same length, which is at least `len`.
            // `pieces()` hands out the staging memory only after a wait.
            unsafe { driver.upload(to, from, len, stream) }
        })
    }

    unsafe fn upload(&mut self, from: *const u8, len: usize, at: usize) -> Result<(), DeviceError> {
        let checked = self.data.check(at, len);
        self.note(checked)?;
        let to = self.data.address().after(at);
        self.begin(|driver, stream| {
            // SAFETY: `check` bounds the device range; the caller promises that `from` is valid.
            unsafe { driver.upload(to, from, len, stream) }
        })
    }

    fn launch(&mut self, key: &CudaKey, launch: &Launch) -> Result<(), DeviceError> {
        let (bounds, places) = self.places();
        self.begin_launch(key, launch, bounds, &places)
    }

    fn launch_on(
        &mut self,
        data: &mut Resident<'_, CudaMemory>,
        key: &CudaKey,
        launch: &Launch,
    ) -> Result<(), DeviceError> {
        let [input, output] =
            [data.input(), data.output()].map(|memory| self.of_this_device(memory));
        self.note(input.and(output))?;
        let (mut bounds, mut places) = self.places();
        bounds.input = data.input().len();
        places.input = data.input().address();
        bounds.output = data.output().len();
        places.output = data.output().address();
        self.begin_launch(key, launch, bounds, &places)
    }

    fn copy_to(
        &mut self,
        range: Range<usize>,
        to: &mut CudaMemory,
        at: usize,
    ) -> Result<(), DeviceError> {
        let data = self.data.address();
        self.copy(range, to, at, |range, other| (other, data.after(range)))
    }

    fn copy_from(
        &mut self,
        range: Range<usize>,
        from: &CudaMemory,
        at: usize,
    ) -> Result<(), DeviceError> {
        let data = self.data.address();
        self.copy(range, from, at, |range, other| (data.after(range), other))
    }

    fn download_staging(&mut self, range: Range<usize>) -> Result<(), DeviceError> {
        let (at, len) = (range.start, range.len());
        let to = self.staging[range].as_mut_ptr();
        // SAFETY: `staging` hands out the memory only after a wait, so nothing else uses it before
        // then.
        unsafe { self.download(at, to, len) }
    }

    unsafe fn download(&mut self, at: usize, to: *mut u8, len: usize) -> Result<(), DeviceError> {
        let checked = self.data.check(at, len);
        self.note(checked)?;
        let from = self.data.address().after(at);
        self.begin(|driver, stream| {
            // SAFETY: as in `upload`, for `to`.
            unsafe { driver.download(to, from, len, stream) }
        })
    }

    fn wait(&mut self) -> Result<(), DeviceError> {
        self.settle();
        self.failed.take().map_or(Ok(()), Err)
    }

    fn wipe(&mut self, used: QueueSizes) -> Result<(), DeviceError> {
        // Earlier errors do not concern the wiping.
        let _ = self.wait();
        let (data, pieces) = (self.staging.len(), self.pieces_staging.len());
        self.staging[..used.data.min(data)].zeroize();
        self.pieces_staging[..used.pieces.min(pieces)].zeroize();
        let memories = [
            (self.data.address(), used.data.min(self.data.len())),
            (self.tweaks.address(), used.tweaks.min(self.tweaks.len())),
            (self.pieces.address(), used.pieces.min(self.pieces.len())),
        ];
        for (memory, len) in memories.into_iter().filter(|(_, len)| *len > 0) {
            let begun = self.begin(|driver, stream| {
                // SAFETY: `len` is at most the length of the memory.
                unsafe { driver.fill_with_zeros(memory, len, stream) }
            });
            if begun.is_err() {
                break;
            }
        }
        self.wait()
    }
}

impl Drop for CudaQueue {
    fn drop(&mut self) {
        self.settle();
        if self.device.gpu.enter().is_ok() {
            // SAFETY: the stream is from `create_stream`, nothing on it is under way, and nothing
            // uses it any more.
            unsafe { self.device.gpu.driver.destroy_stream(self.stream) };
        }
    }
}
