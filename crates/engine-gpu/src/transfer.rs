// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data between a caller's storage and the memory of a device. They pass through staging memory, and
//! are encrypted and decrypted on the device:
//!
//! ```text
//! read_into:   storage → staging → the queue's data, decrypted there → memory
//! write_from:  memory → the queue's data, encrypted there → staging → storage
//! ```
//!
//! Each queue has a thread, which takes one portion after another. While one thread reads, the copies
//! and kernels of the others are under way. The copy on the device takes a portion to any byte of the
//! memory, where kernels want multiples of 16.

use std::{
    mem,
    ops::Range,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use luxor_engine::Direction;

use crate::{
    backend::GpuBackend,
    device::{Device, Queue, QueueSizes},
    error::DeviceError,
    layout::Piece,
    loaded_key::GpuKey,
    pool::LentQueue,
    resident::{NumberedSpan, ResidentRun, check, launches, number, parts, tweaks_of},
};

/// Bytes that are read or written together.
pub struct Portion<'k, D: Device, S> {
    /// Where the caller has them.
    pub source: S,
    /// The number of bytes: [`GpuBackend::portion_len`] at most, unless it is one longer data unit.
    pub len: usize,
    /// The key with the data units that they consist of, whose input and output are the same bytes.
    /// `None` for bytes that the device has to leave as they are.
    pub crypt: Option<(&'k GpuKey<D>, Vec<ResidentRun>)>,
    /// Which of them are wanted, each with its first byte in the device's memory.
    pub copies: Vec<(Range<usize>, usize)>,
}

impl<D: Device> GpuBackend<D> {
    /// The most bytes of a [`Portion`].
    #[must_use]
    pub fn portion_len(&self) -> usize {
        self.pool().tuning().batch
    }

    /// Fills memory of device number `device` from a storage. `read` fills its buffer with the stored
    /// bytes of a portion, and the device decrypts them. Several threads call it at a time.
    ///
    /// When this returns, nothing is under way, and the queues are wiped.
    ///
    /// # Errors
    /// The first error of `read` or of the device, [`DeviceError::Launch`] among them if units or copies
    /// of a portion are not within it or within the memory. The contents of the memory are then
    /// undefined.
    ///
    /// # Panics
    /// If there is no device number `device`.
    pub fn read_into<'k, S, E>(
        &self,
        device: usize,
        to: &mut D::Memory,
        portions: impl Iterator<Item = Portion<'k, D, S>> + Send,
        read: impl Fn(&S, &mut [u8]) -> Result<(), E> + Sync,
    ) -> Result<(), E>
    where
        D: 'k,
        E: From<DeviceError> + Send,
    {
        let to = Mutex::new(to);
        self.each(device, portions, |queue, portion, crypt| {
            read(&portion.source, &mut queue.staging()[..portion.len]).map_err(Failure::Caller)?;
            crypt.number(queue)?;
            queue.upload_staging(0..portion.len)?;
            crypt.run(queue, Direction::Decrypt)?;
            let mut to = lock(&to);
            for (range, at) in &portion.copies {
                queue.copy_to(range.clone(), &mut to, *at)?;
            }
            Ok(())
        })
    }

    /// Writes memory of device number `device` to a storage. The device encrypts a portion, and `write`
    /// gets the bytes to store. Where the copies do not cover a portion, the other bytes keep their
    /// plaintext, and `read` fills its buffer with what is stored there now. Several threads call both
    /// at a time.
    ///
    /// When this returns, nothing is under way, and the queues are wiped.
    ///
    /// # Errors
    /// As [`GpuBackend::read_into`], and those of `write`. Some portions may have been written.
    ///
    /// # Panics
    /// If there is no device number `device`.
    pub fn write_from<'k, S, E>(
        &self,
        device: usize,
        from: &D::Memory,
        portions: impl Iterator<Item = Portion<'k, D, S>> + Send,
        read: impl Fn(&S, &mut [u8]) -> Result<(), E> + Sync,
        write: impl Fn(&S, &mut [u8]) -> Result<(), E> + Sync,
    ) -> Result<(), E>
    where
        D: 'k,
        E: From<DeviceError> + Send,
    {
        self.each(device, portions, |queue, portion, crypt| {
            let all = 0..portion.len;
            let covered: usize = portion.copies.iter().map(|(range, _)| range.len()).sum();
            let merges = covered < portion.len;
            if merges {
                let staging = &mut queue.staging()[all.clone()];
                read(&portion.source, staging).map_err(Failure::Caller)?;
            }
            crypt.number(queue)?;
            if merges {
                queue.upload_staging(all.clone())?;
                crypt.run(queue, Direction::Decrypt)?;
            }
            for (range, at) in &portion.copies {
                queue.copy_from(range.clone(), from, *at)?;
            }
            crypt.run(queue, Direction::Encrypt)?;
            queue.download_staging(all.clone())?;
            queue.wait()?;
            write(&portion.source, &mut queue.staging()[all]).map_err(Failure::Caller)
        })
    }

    /// Runs `work` for each portion, on as many threads as the device has queues, each with a queue on
    /// which nothing is under way.
    fn each<'k, S, E>(
        &self,
        device: usize,
        portions: impl Iterator<Item = Portion<'k, D, S>> + Send,
        work: impl Fn(&mut D::Queue, &Portion<'k, D, S>, &Crypt<'k, D>) -> Result<(), Failure<E>> + Sync,
    ) -> Result<(), E>
    where
        D: 'k,
        E: From<DeviceError> + Send,
    {
        assert!(device < self.devices().len(), "no device {device}");
        let pool = self.pool();
        let portions = Mutex::new(portions);
        let is_over = AtomicBool::new(false);
        let next = || {
            let mut portions = lock(&portions);
            let is_over = is_over.load(Ordering::Relaxed);
            (!is_over).then(|| portions.next()).flatten()
        };
        let all = || -> Result<(), E> {
            let end = End(&is_over);
            let mut spare: Option<LentQueue<'_, D>> = None;
            while let Some(portion) = next() {
                let mut lease = match spare.take() {
                    Some(lease) if lease.sizes().data >= portion.len => lease,
                    _ => pool.take(portion.len, Some(device))?,
                };
                let done = Crypt::new(&portion, lease.sizes(), device).and_then(|crypt| {
                    let queue = lease.queue(crypt.uses(portion.len));
                    queue.wait()?;
                    work(queue, &portion, &crypt)
                });
                match done {
                    Ok(()) if pool.is_wanted() => give_back(lease)?,
                    Ok(()) => spare = Some(lease),
                    Err(Failure::Caller(error)) => return Err(error),
                    Err(Failure::Device(error)) => {
                        lease.fail(&error);
                        return Err(error.into());
                    }
                }
            }
            spare.map_or(Ok(()), give_back)?;
            mem::forget(end);
            Ok(())
        };
        let first_error = Mutex::new(None);
        let thread = || {
            if let Err(error) = all() {
                lock(&first_error).get_or_insert(error);
            }
        };
        thread::scope(|scope| {
            for _ in 1..pool.tuning().queues {
                scope.spawn(thread);
            }
            thread();
        });
        let error = lock(&first_error).take();
        error.map_or(Ok(()), Err)
    }
}

/// Waits for the last commands of a queue, and wipes it.
fn give_back<D: Device>(mut lease: LentQueue<'_, D>) -> Result<(), DeviceError> {
    if let Err(error) = lease.queue(QueueSizes::default()).wait() {
        lease.fail(&error);
        return Err(error);
    }
    lease.give_back_wiped();
    Ok(())
}

/// Tells the other threads to end, unless it is forgotten: after an error, and in a panic.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

enum Failure<E> {
    Device(DeviceError),
    Caller(E),
}

impl<E> From<DeviceError> for Failure<E> {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

/// The data units of a portion, and their key on a device. There are none if the device has to leave
/// the bytes as they are.
struct Crypt<'k, D: Device> {
    key: Option<(&'k GpuKey<D>, usize)>,
    parts: Vec<NumberedSpan>,
}

impl<'k, D: Device> Crypt<'k, D> {
    /// Checks `portion`, and divides its units for a queue of these sizes.
    fn new<S, E>(
        portion: &Portion<'k, D, S>,
        sizes: QueueSizes,
        device: usize,
    ) -> Result<Self, Failure<E>> {
        let refused = |message: String| DeviceError::Launch { message };
        for (range, _) in &portion.copies {
            if range.is_empty() || range.end > portion.len {
                let (range, len) = (range.clone(), portion.len);
                return Err(refused(format!("bytes {range:?} of {len} are no copy")).into());
            }
        }
        let Some((key, runs)) = &portion.crypt else {
            let parts = Vec::new();
            return Ok(Self { key: None, parts });
        };
        let checked = key.check_unit_lens(runs).and_then(|()| {
            runs.iter()
                .try_for_each(|run| check(run, run.input_at, portion.len).map(drop))
        });
        checked.map_err(|error| refused(error.to_string()))?;
        Ok(Self {
            key: Some((key, device)),
            parts: runs.iter().flat_map(|run| parts(run, sizes)).collect(),
        })
    }

    fn has_tweaks(&self) -> bool {
        self.key.is_some_and(|(key, _)| key.has_tweaks())
    }

    /// What a portion of `len` bytes uses of a queue.
    fn uses(&self, len: usize) -> QueueSizes {
        QueueSizes {
            data: len,
            tweaks: if self.has_tweaks() {
                tweaks_of(&self.parts)
            } else {
                0
            },
            pieces: self.parts.len() * size_of::<Piece>(),
        }
    }

    /// Takes the numbers of the units to the device.
    fn number(&self, queue: &mut D::Queue) -> Result<(), DeviceError> {
        if self.parts.is_empty() {
            return Ok(());
        }
        number(queue, &self.parts)
    }

    /// Encrypts or decrypts the units in the queue's data.
    fn run(&self, queue: &mut D::Queue, direction: Direction) -> Result<(), DeviceError> {
        let Some((key, device)) = self.key else {
            return Ok(());
        };
        for launch in launches(&self.parts, key.has_tweaks(), direction) {
            queue.launch(key.on(device), &launch)?;
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
