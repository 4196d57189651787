// SPDX-License-Identifier: MIT OR Apache-2.0
//! An in-order queue with its own memory.

#![allow(unsafe_code, reason = "copies continue after their call returns")]

use std::{collections::HashMap, ops::Range, sync::Arc};

use luxor_engine_gpu::{
    BLOCK, Bounds, DeviceError, DeviceMemory, Launch, Piece, Queue, QueueSizes, Resident,
};
use zeroize::Zeroize;

use crate::{
    cl::{Argument, Buffer, CommandQueue, Event, Kernel, Kind},
    error::Failure,
    memory::{OpenClMemory, Pinned},
    shared::{OpenClKey, Shared},
};

/// A queue of a device.
pub struct OpenClQueue {
    device: Arc<Shared>,
    pub(crate) queue: CommandQueue,
    kernels: HashMap<&'static str, Kernel>,
    data: OpenClMemory,
    tweaks: OpenClMemory,
    pieces: OpenClMemory,
    staging: Pinned,
    pieces_staging: Pinned,
    /// The commands enqueued since the last wait.
    events: Vec<Event>,
    under_way: bool,
    /// The first error since the last wait.
    failed: Option<DeviceError>,
}

impl OpenClQueue {
    pub(crate) fn new(device: &Arc<Shared>, sizes: QueueSizes) -> Result<Self, Failure> {
        let service = &device.service;
        let memory = |len| OpenClMemory::zeroed(service, Kind::Device, len);
        Ok(Self {
            queue: CommandQueue::new(&service.context)?,
            kernels: HashMap::new(),
            data: memory(sizes.data)?,
            tweaks: memory(sizes.tweaks)?,
            pieces: memory(sizes.pieces)?,
            staging: service.pinned(sizes.data)?,
            pieces_staging: service.pinned(sizes.pieces)?,
            device: Arc::clone(device),
            events: Vec::new(),
            under_way: false,
            failed: None,
        })
    }

    /// Keeps the event of a command, or the first error, for the next wait.
    pub(crate) fn note(&mut self, begun: Result<Event, DeviceError>) -> Result<(), DeviceError> {
        // Also after an error, since the failed call may have started something.
        self.under_way = true;
        match begun {
            Ok(event) => {
                self.events.push(event);
                Ok(())
            }
            Err(error) => {
                self.failed.get_or_insert_with(|| error.clone());
                Err(error)
            }
        }
    }

    /// Checks a copy between `range` of the data and as many bytes of `memory` from byte `at` on.
    fn check_copy(
        &self,
        range: &Range<usize>,
        memory: &OpenClMemory,
        at: usize,
    ) -> Result<(), DeviceError> {
        of_this_device(&self.device, memory)?;
        self.data.check(range.start, range.len())?;
        memory.check(at, range.len())
    }

    /// Waits if any command is under way.
    fn settle(&mut self) {
        if !self.under_way {
            return;
        }
        let mut outcome = self.queue.finish();
        for event in self.events.drain(..) {
            outcome = outcome.and_then(|()| event.outcome());
        }
        self.under_way = false;
        if let Err(failure) = outcome {
            self.failed.get_or_insert_with(|| failure.into());
        }
    }
}

/// The memories of a launch: the queue's or a caller's.
struct Memories<'a> {
    input: &'a OpenClMemory,
    output: &'a OpenClMemory,
    tweaks: &'a OpenClMemory,
    pieces: &'a OpenClMemory,
}

impl Memories<'_> {
    fn bounds(&self) -> Bounds {
        Bounds {
            input: self.input.len(),
            output: self.output.len(),
            tweaks: self.tweaks.len(),
            pieces: self.pieces.len(),
        }
    }

    /// Returns a kernel's arguments in order. Each buffer is followed by an offset into it, counted
    /// in the buffer's elements.
    fn arguments<'a>(
        &'a self,
        key: &'a Buffer,
        launch: &Launch,
        local: usize,
    ) -> Result<Vec<Argument<'a>>, DeviceError> {
        use luxor_engine_gpu::Argument as Of;

        let mut arguments = vec![Argument::Buffer(key)];
        for of in launch.arguments() {
            let (memory, at, element) = match of {
                Of::Input(at) => (self.input, at, BLOCK),
                Of::Output(at) => (self.output, at, BLOCK),
                Of::Tweaks(at) => (self.tweaks, at, BLOCK),
                Of::Pieces(at) => (self.pieces, at, size_of::<Piece>()),
                Of::Number(number) => {
                    arguments.push(Argument::U32(number));
                    continue;
                }
            };
            arguments.push(Argument::Buffer(&memory.buffer));
            arguments.push(Argument::U32(index(at, element)?));
        }
        arguments.push(Argument::Local(local));
        Ok(arguments)
    }
}

/// Converts a byte offset to an index of elements, which the kernels use.
fn index(at: usize, element: usize) -> Result<u32, DeviceError> {
    u32::try_from(at / element).map_err(|_| DeviceError::Launch {
        message: format!("a kernel cannot address byte {at} of a buffer"),
    })
}

/// Enqueues a launch.
fn begin(
    queue: &CommandQueue,
    kernels: &mut HashMap<&'static str, Kernel>,
    memories: &Memories<'_>,
    key: &OpenClKey,
    launch: &Launch,
) -> Result<Event, DeviceError> {
    for memory in [memories.input, memories.output] {
        of_this_device(&key.device, memory)?;
    }
    launch.check(memories.bounds())?;
    let name = launch.kernel(key.size);
    if !kernels.contains_key(name) {
        let kernel = key.device.programs.get_or_build(key.size)?.kernel(name)?;
        kernels.insert(name, kernel);
    }
    let kernel = kernels.get_mut(name).expect("it was inserted above");
    let layout = key.device.programs.layout();
    let arguments = memories.arguments(&key.memory.buffer, launch, layout.local_memory())?;
    let groups = launch.groups(key.device.most_groups);
    // SAFETY: the arguments match the kernel's parameters, whose number and lengths the library
    // checks, and `check` bounded all offsets by the buffers' lengths.
    let event = unsafe { queue.launch(kernel, &arguments, groups as usize, layout.threads) }?;
    // The kernel is a batch's first command that takes long. The copies before it are flushed with
    // it.
    queue.flush()?;
    Ok(event)
}

fn of_this_device(device: &Shared, memory: &OpenClMemory) -> Result<(), DeviceError> {
    if memory.is_of(&device.service) {
        return Ok(());
    }
    let message = "the memory is another device's".into();
    Err(DeviceError::Launch { message })
}

fn same_device(a: &Arc<Shared>, b: &Arc<Shared>) -> Result<(), DeviceError> {
    if Arc::ptr_eq(a, b) {
        return Ok(());
    }
    let message = "the key is another device's".into();
    Err(DeviceError::Launch { message })
}

/// # Panics
/// If a range is not within the staging memory.
impl Queue for OpenClQueue {
    type Key = OpenClKey;
    type Memory = OpenClMemory;

    fn resize_tweaks(&mut self, len: usize) -> Result<(), DeviceError> {
        self.tweaks = OpenClMemory::zeroed(&self.device.service, Kind::Device, len)?;
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
        // SAFETY: as in `upload_staging`.
        let begun = unsafe {
            self.queue
                .write(&self.pieces.buffer, 0, bytes.as_ptr(), bytes.len())
        };
        self.note(begun.map_err(DeviceError::from))
    }

    unsafe fn upload(&mut self, from: *const u8, len: usize, at: usize) -> Result<(), DeviceError> {
        let begun = self.data.check(at, len).and_then(|()| {
            // SAFETY: `check` bounds the device range; the caller promises that `from` is valid.
            Ok(unsafe { self.queue.write(&self.data.buffer, at, from, len) }?)
        });
        self.note(begun)
    }

    fn launch(&mut self, key: &OpenClKey, launch: &Launch) -> Result<(), DeviceError> {
        let memories = Memories {
            input: &self.data,
            output: &self.data,
            tweaks: &self.tweaks,
            pieces: &self.pieces,
        };
        let begun = same_device(&self.device, &key.device)
            .and_then(|()| begin(&self.queue, &mut self.kernels, &memories, key, launch));
        self.note(begun)
    }

    fn launch_on(
        &mut self,
        data: &mut Resident<'_, OpenClMemory>,
        key: &OpenClKey,
        launch: &Launch,
    ) -> Result<(), DeviceError> {
        let memories = Memories {
            input: data.input(),
            output: data.output(),
            tweaks: &self.tweaks,
            pieces: &self.pieces,
        };
        let begun = same_device(&self.device, &key.device)
            .and_then(|()| begin(&self.queue, &mut self.kernels, &memories, key, launch));
        self.note(begun)
    }

    fn copy_to(
        &mut self,
        range: Range<usize>,
        to: &mut OpenClMemory,
        at: usize,
    ) -> Result<(), DeviceError> {
        let len = range.len();
        let begun = self.check_copy(&range, to, at).and_then(|()| {
            let (from, to) = ((&self.data.buffer, range.start), (&to.buffer, at));
            Ok(self.queue.copy(from, to, len)?)
        });
        self.note(begun)
    }

    fn copy_from(
        &mut self,
        range: Range<usize>,
        from: &OpenClMemory,
        at: usize,
    ) -> Result<(), DeviceError> {
        let len = range.len();
        let begun = self.check_copy(&range, from, at).and_then(|()| {
            let (from, to) = ((&from.buffer, at), (&self.data.buffer, range.start));
            Ok(self.queue.copy(from, to, len)?)
        });
        self.note(begun)
    }

    fn download_staging(&mut self, range: Range<usize>) -> Result<(), DeviceError> {
        let (at, len) = (range.start, range.len());
        let to = self.staging[range].as_mut_ptr();
        // SAFETY: `staging` hands out the memory only after a wait, so nothing else uses it before
        // then.
        unsafe { self.download(at, to, len) }
    }

    unsafe fn download(&mut self, at: usize, to: *mut u8, len: usize) -> Result<(), DeviceError> {
        let begun = self.data.check(at, len).and_then(|()| {
            // SAFETY: as in `upload`, for `to`.
            let event = unsafe { self.queue.read(&self.data.buffer, at, to, len) }?;
            self.queue.flush()?;
            Ok(event)
        });
        self.note(begun)
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
            (&self.data, used.data),
            (&self.tweaks, used.tweaks),
            (&self.pieces, used.pieces),
        ];
        let begun: Vec<_> = memories
            .into_iter()
            .map(|(memory, len)| (&memory.buffer, len.min(memory.len())))
            .filter(|(_, len)| *len > 0)
            .map(|(buffer, len)| self.queue.fill_with_zeros(buffer, len))
            .collect();
        for begun in begun {
            let _ = self.note(begun.map_err(DeviceError::from));
        }
        self.wait()
    }
}

impl Drop for OpenClQueue {
    fn drop(&mut self) {
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn a_place_that_kernels_cannot_count_to_is_refused() {
        let beyond = BLOCK << 32;
        assert_eq!(index(beyond - BLOCK, BLOCK), Ok(u32::MAX));
        let error = index(beyond, BLOCK).unwrap_err();
        assert!(matches!(error, DeviceError::Launch { .. }), "{error}");
    }
}
