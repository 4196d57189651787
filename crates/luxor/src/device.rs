// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plaintext of a volume in the memory of a device, such as a GPU. It is decrypted and encrypted
//! there, and only stored bytes cross the bus.

mod host;
#[cfg(all(test, feature = "cuda"))]
mod tests;

use std::{
    collections::HashMap,
    io,
    num::NonZeroUsize,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use luxor_engine::{Backend, BackendError, Direction, Executor};
use luxor_engine_gpu::{Device, GpuBackend, GpuKey, Portion, ResidentRun};
use luxor_files::DataFile;
use luxor_secret::with_key_stack;
use luxor_sector::{Layout, StoredRange};
use luxor_volume::Plaintext;

use crate::{Context, DiskUse, Engine, Result, UnlockedVolume, Volume, VolumeCipher, VolumeDisk};

/// Bytes of a plaintext, and their place in the memory of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceCopy {
    /// The first byte in the plaintext.
    pub offset: u64,
    /// The number of bytes.
    pub len: usize,
    /// The first byte in the memory.
    pub at: usize,
}

impl DeviceCopy {
    fn end(&self) -> u64 {
        self.offset + self.len as u64
    }

    /// The part of it within `range` of the plaintext, relative to its start, and the place in the memory.
    fn within(&self, range: &Range<u64>) -> (Range<usize>, usize) {
        let (begin, end) = (self.offset.max(range.start), self.end().min(range.end));
        let bytes = |len: u64| usize::try_from(len).expect("less than the length of the copy");
        let from = bytes(begin - range.start);
        (
            from..from + bytes(end - begin),
            self.at + bytes(begin - self.offset),
        )
    }
}

impl UnlockedVolume {
    /// As [`UnlockedVolume::disk`], with the keys on the devices of `backend` too.
    ///
    /// # Errors
    /// Those of [`UnlockedVolume::disk`], and those of the devices.
    pub fn disk_on<D: Device>(self, backend: &Arc<GpuBackend<D>>) -> Result<DeviceDisk<D>> {
        let Volume {
            metadata,
            data,
            options,
        } = self.volume;
        let (disk, keys) = VolumeDisk::of_unlocked_with(
            metadata,
            data,
            self.unlocked,
            &self.engine,
            (&options.disk, &options.context),
            |plaintext| DeviceKeys::of(plaintext, backend, &self.engine, &options.context),
        )?;
        Ok(DeviceDisk { disk, keys })
    }

    /// As [`UnlockedVolume::cipher`], with the keys on the devices of `backend` too.
    ///
    /// # Errors
    /// Those of [`UnlockedVolume::cipher`], and those of the devices.
    pub fn cipher_on<D: Device>(self, backend: &Arc<GpuBackend<D>>) -> Result<DeviceCipher<D>> {
        let context = &self.volume.options.context;
        let (cipher, keys) = VolumeCipher::of_unlocked_with(
            self.volume.metadata,
            self.unlocked,
            &self.engine,
            context,
            |plaintext| DeviceKeys::of(plaintext, backend, &self.engine, context),
        )?;
        Ok(DeviceCipher { cipher, keys })
    }
}

/// The plaintext of a volume as a disk, and in the memory of devices. From
/// [`UnlockedVolume::disk_on`].
pub struct DeviceDisk<D: Device> {
    disk: VolumeDisk,
    keys: DeviceKeys<D>,
}

impl<D: Device> DeviceDisk<D> {
    /// Makes one of a file that is not encrypted ([`VolumeDisk::of_unencrypted`]), for which the devices of
    /// `backend` need no key.
    ///
    /// # Errors
    /// Those of [`VolumeDisk::of_unencrypted`].
    pub fn of_unencrypted(
        data: DataFile,
        options: &DiskUse,
        backend: &Arc<GpuBackend<D>>,
        context: &Context,
    ) -> Result<Self> {
        let disk = VolumeDisk::of_unencrypted(data, options, context)?;
        let keys = DeviceKeys {
            backend: Arc::clone(backend),
            keys: vec![None],
            cancel: Arc::clone(&context.cancel),
        };
        Ok(Self { disk, keys })
    }

    /// The disk.
    #[must_use]
    pub fn disk(&self) -> &VolumeDisk {
        &self.disk
    }

    /// Fills `memory` of device number `device` with bytes of the plaintext.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if a copy is not within the plaintext or two overlap,
    /// [`io::ErrorKind::Interrupted`] soon after [`Context::cancel`] is set, and the errors of the storage
    /// and the device. The contents of the memory are then undefined.
    ///
    /// # Panics
    /// If there is no device number `device`.
    pub fn read_into(
        &self,
        device: usize,
        memory: &mut D::Memory,
        copies: &[DeviceCopy],
    ) -> io::Result<()> {
        let disk = self.disk.shared();
        let read = |stored: &StoredRange, buf: &mut [u8]| disk.read_stored(buf, &stored.plaintext);
        self.keys
            .read_into(&disk.layout(), device, memory, copies, read)
    }

    /// Writes bytes of the plaintext from `memory` of device number `device`. They are durable after
    /// [`VolumeDisk::sync`]. Of sectors that are covered in part, the other bytes stay as they are.
    ///
    /// # Errors
    /// Those of [`DeviceDisk::read_into`], and [`io::ErrorKind::PermissionDenied`] on a read-only disk. Some
    /// of the bytes may have been written.
    ///
    /// # Panics
    /// If there is no device number `device`.
    pub fn write_from(
        &self,
        device: usize,
        memory: &D::Memory,
        copies: &[DeviceCopy],
    ) -> io::Result<()> {
        let disk = self.disk.shared();
        if disk.is_read_only() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let storage = Arc::clone(disk).storage();
        let read = |stored: &StoredRange, buf: &mut [u8]| storage.read_exact_at(buf, stored.offset);
        let write = |stored: &StoredRange, buf: &[u8]| storage.write_all_at(buf, stored.offset);
        // No other request may come between a read and a write of the same sector.
        let held = disk.hold(0..disk.len());
        let stored = self
            .keys
            .write_from(&disk.layout(), device, memory, copies, (read, write));
        held.release();
        stored
    }
}

/// The keys of a volume on devices, for programs that read and write its data themselves: a
/// [`VolumeCipher`] for the memory of devices. From
/// [`UnlockedVolume::cipher_on`].
pub struct DeviceCipher<D: Device> {
    cipher: VolumeCipher,
    keys: DeviceKeys<D>,
}

impl<D: Device> DeviceCipher<D> {
    /// The same for the memory of the computer.
    #[must_use]
    pub fn cipher(&self) -> &VolumeCipher {
        &self.cipher
    }

    /// Fills `memory` of device number `device` with bytes of the plaintext. `read` fills its buffer with
    /// the bytes that are stored for whole sectors. Several threads call it at a time.
    ///
    /// # Errors
    /// As [`DeviceDisk::read_into`], with the errors of `read`.
    ///
    /// # Panics
    /// If there is no device number `device`.
    pub fn read_into(
        &self,
        device: usize,
        memory: &mut D::Memory,
        copies: &[DeviceCopy],
        read: impl Fn(&StoredRange, &mut [u8]) -> io::Result<()> + Sync,
    ) -> io::Result<()> {
        self.keys
            .read_into(self.cipher.layout(), device, memory, copies, read)
    }
}

/// The keys of a plaintext on devices.
struct DeviceKeys<D: Device> {
    backend: Arc<GpuBackend<D>>,
    /// One for each part of the layout, unless the part is not encrypted, its mode is not one of the devices',
    /// or the devices are to be spared ([`Engine::spares`]). The CPU encrypts such parts, in the buffers that the
    /// devices copy.
    keys: Vec<Option<Arc<GpuKey<D>>>>,
    cancel: Arc<AtomicBool>,
}

/// Whole sectors that pass through a buffer.
struct Source {
    stored: StoredRange,
    is_crypted_here: bool,
}

impl<D: Device> DeviceKeys<D> {
    /// Loads the keys of `plaintext`, one for each of its parts.
    fn of(
        plaintext: &Plaintext,
        backend: &Arc<GpuBackend<D>>,
        engine: &Engine,
        context: &Context,
    ) -> Result<Self> {
        let is_spared = engine.spares(&backend.info());
        let mut loaded = HashMap::new();
        let mut keys = Vec::new();
        for (extent, _) in plaintext.parts() {
            let which = extent.cipher.filter(|_| !is_spared).and_then(|cipher| {
                let key = plaintext.keys.get(&cipher.key)?.volume_key()?;
                Some((cipher.key, cipher.encryption?, key))
            });
            let Some((number, encryption, key)) = which else {
                keys.push(None);
                continue;
            };
            if let Some(key) = loaded.get(&(number, encryption)) {
                keys.push(Option::clone(key));
                continue;
            }
            let spec = key.key_spec(encryption)?;
            let key = match with_key_stack(|| backend.load(&spec)) {
                Ok(key) => Some(Arc::new(key)),
                Err(BackendError::Unsupported { .. }) => None,
                Err(error) => return Err(error.into()),
            };
            loaded.insert((number, encryption), key.clone());
            keys.push(key);
        }
        Ok(Self {
            backend: Arc::clone(backend),
            keys,
            cancel: Arc::clone(&context.cancel),
        })
    }

    fn read_into(
        &self,
        layout: &Layout,
        device: usize,
        memory: &mut D::Memory,
        copies: &[DeviceCopy],
        read: impl Fn(&StoredRange, &mut [u8]) -> io::Result<()> + Sync,
    ) -> io::Result<()> {
        let portions = self.portions(layout, copies)?.into_iter();
        let read = |source: &Source, buf: &mut [u8]| {
            check_cancelled(&self.cancel)?;
            source.read(layout, &read, buf)
        };
        self.backend.read_into(device, memory, portions, read)
    }

    fn write_from(
        &self,
        layout: &Layout,
        device: usize,
        memory: &D::Memory,
        copies: &[DeviceCopy],
        (read, write): (
            impl Fn(&StoredRange, &mut [u8]) -> io::Result<()> + Sync,
            impl Fn(&StoredRange, &[u8]) -> io::Result<()> + Sync,
        ),
    ) -> io::Result<()> {
        let portions = self.portions(layout, copies)?.into_iter();
        let read = |source: &Source, buf: &mut [u8]| source.read(layout, &read, buf);
        let write = |source: &Source, buf: &mut [u8]| {
            check_cancelled(&self.cancel)?;
            source.crypt(layout, Direction::Encrypt, buf)?;
            write(&source.stored, buf)
        };
        self.backend
            .write_from(device, memory, portions, read, write)
    }

    /// Returns the stored sectors that have the bytes of `copies`, in the order of the plaintext.
    fn portions(
        &self,
        layout: &Layout,
        copies: &[DeviceCopy],
    ) -> io::Result<Vec<Portion<'_, D, Source>>> {
        let gathered = gather(layout, copies, self.backend.portion_len())?.into_iter();
        gathered
            .map(|(stored, copies)| self.portion(layout, stored, copies))
            .collect()
    }

    fn portion(
        &self,
        layout: &Layout,
        stored: StoredRange,
        copies: Vec<(Range<usize>, usize)>,
    ) -> io::Result<Portion<'_, D, Source>> {
        let len = usize::try_from(stored.plaintext.end - stored.plaintext.start);
        let key = self.keys[stored.part].as_deref();
        let numbered = layout.numbered(&stored)?;
        let crypt = key.zip(numbered).map(|(key, (geometry, numbered))| {
            let mut at = 0;
            let runs = numbered.into_iter().map(|units| {
                let run = ResidentRun {
                    first: units.first.into(),
                    stride: geometry.stride(),
                    unit_len: geometry.sector_size.into(),
                    units: units.units,
                    input_at: at,
                    output_at: at,
                };
                at += units.units * geometry.sector_size.bytes();
                run
            });
            (key, runs.collect())
        });
        Ok(Portion {
            source: Source {
                stored,
                is_crypted_here: crypt.is_none(),
            },
            len: len.expect("at most `portion_len` or a sector"),
            crypt,
            copies,
        })
    }
}

impl Source {
    fn read(
        &self,
        layout: &Layout,
        read: impl Fn(&StoredRange, &mut [u8]) -> io::Result<()>,
        buf: &mut [u8],
    ) -> io::Result<()> {
        read(&self.stored, buf)?;
        self.crypt(layout, Direction::Decrypt, buf)
    }

    /// Encrypts or decrypts on the CPU what the device does not.
    fn crypt(&self, layout: &Layout, direction: Direction, buf: &mut [u8]) -> io::Result<()> {
        if self.is_crypted_here {
            let alone = Executor::new(NonZeroUsize::MIN);
            layout.crypt(&alone, direction, buf.into(), self.stored.plaintext.start)?;
        }
        Ok(())
    }
}

/// Stored sectors, and which of their bytes are copied, each with its place in the memory.
type Gathered = (StoredRange, Vec<(Range<usize>, usize)>);

/// Returns the stored sectors that have the bytes of `copies`, in the order of the plaintext, in ranges
/// of about `most` bytes.
fn gather(layout: &Layout, copies: &[DeviceCopy], most: usize) -> io::Result<Vec<Gathered>> {
    let mut copies: Vec<DeviceCopy> = copies.to_vec();
    copies.retain(|copy| copy.len > 0);
    copies.sort_by_key(|copy| copy.offset);
    let mut all: Vec<StoredRange> = Vec::new();
    for copy in &copies {
        let end = copy.offset.saturating_add(copy.len as u64);
        for next in layout.stored(copy.offset..end)? {
            match all.last_mut() {
                Some(last)
                    if last.part == next.part && next.plaintext.start <= last.plaintext.end =>
                {
                    last.plaintext.end = last.plaintext.end.max(next.plaintext.end);
                }
                _ => all.push(next),
            }
        }
    }
    let overlap = copies
        .windows(2)
        .find(|pair| pair[1].offset < pair[0].end());
    if let Some([first, second]) = overlap {
        return Err(invalid(format!(
            "the copies of {} bytes at byte {} and of {} bytes at byte {} overlap",
            first.len, first.offset, second.len, second.offset
        )));
    }
    let sector = layout.sector_size();
    let most = (most / sector).max(1) * sector;
    let mut gathered = Vec::new();
    let mut rest = &copies[..];
    for stored in all {
        for range in cut(&stored.plaintext, most as u64) {
            let done = rest.iter().take_while(|copy| copy.end() <= range.start);
            rest = &rest[done.count()..];
            let here = rest.iter().take_while(|copy| copy.offset < range.end);
            let here = here.map(|copy| copy.within(&range)).collect();
            let stored = StoredRange {
                part: stored.part,
                offset: stored.offset + (range.start - stored.plaintext.start),
                plaintext: range,
            };
            gathered.push((stored, here));
        }
    }
    Ok(gathered)
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

fn check_cancelled(cancel: &AtomicBool) -> io::Result<()> {
    if cancel.load(Ordering::Relaxed) {
        return Err(io::ErrorKind::Interrupted.into());
    }
    Ok(())
}

/// Cuts a range into ranges of at most `most` bytes.
fn cut(range: &Range<u64>, most: u64) -> impl Iterator<Item = Range<u64>> + use<> {
    let Range { start, end } = *range;
    let mut at = start;
    std::iter::from_fn(move || {
        let begin = at;
        at = end.min(begin.saturating_add(most));
        (begin < end).then_some(begin..at)
    })
}
