// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plaintext of a volume as a disk, with the locks that protect it while it is in use.

use std::{
    collections::HashMap,
    fmt,
    io::{self, Read, Seek, SeekFrom, Write},
    num::NonZeroUsize,
    os::fd::RawFd,
    sync::Arc,
};

use luxor_engine::LoadedKey;
use luxor_files::{
    DataFile, OfProcess,
    locks::{Access, ReencryptionLock},
    path_name, recognised,
};
use luxor_sector::{Disk, DiskOptions, DiskStream, Layout, Part};
use luxor_volume::{Extent, Header, Plaintext, Reencryption, Unlocked};

use crate::{Context, Engine, Error, OpenError, Result, VolumeMetadata};

/// How the plaintext of a volume is used as a disk. The default permits writes.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskUse {
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether discards are passed on to the file or device. They reveal which sectors are unused.
    /// A LUKS2 volume can also allow them with a flag in its metadata.
    pub allow_discards: bool,
    /// Whether to bypass the system's page cache (`O_DIRECT`).
    pub direct: bool,
}

impl DiskUse {
    /// Returns the access with which the caller must open the [`DataFile`].
    #[must_use]
    pub fn access(&self) -> Access {
        if self.read_only {
            Access::Read
        } else {
            Access::Write
        }
    }
}

/// The plaintext of a volume, locked against changes that would damage the data while it is in use.
///
/// It reads, writes and seeks like a file whose length is fixed: see [`DiskStream`]. The methods
/// [`VolumeDisk::read_at`] and [`VolumeDisk::write_at`] need no position, and may be called from
/// several threads. What was written is durable after [`Write::flush`] or [`VolumeDisk::sync`].
///
/// Reads and writes fail with [`io::Error`], as those of a file do. [`Error::io`] makes an [`Error`] of one.
#[derive(Debug)]
pub struct VolumeDisk {
    stream: DiskStream,
    name: String,
    has_exact_len: bool,
    /// Keeps cryptsetup from re-encrypting the data.
    reencryption: Option<Arc<ReencryptionLock>>,
    /// Those that the disk holds.
    descriptors: Vec<RawFd>,
}

impl VolumeDisk {
    /// The volume's name for messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The disk, for programs that use it from several threads. The file or device stays locked until
    /// the last user drops it.
    #[must_use]
    pub fn shared(&self) -> &Arc<Disk> {
        self.stream.disk()
    }

    /// The length of the plaintext in bytes. It never changes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.shared().len()
    }

    /// Whether [`VolumeDisk::len`] is that of the file in the volume: the volume says where the file ends.
    /// Otherwise other bytes can follow the file, up to the end of its last sector or of the device.
    #[must_use]
    pub fn has_exact_len(&self) -> bool {
        self.has_exact_len
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shared().is_empty()
    }

    /// Reads all of `buf` at byte `offset`.
    ///
    /// # Errors
    /// Fails when the range is not within the disk, and when the file or device cannot be read.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.shared().read(buf, offset)
    }

    /// Writes all of `buf` at byte `offset`.
    ///
    /// # Errors
    /// Fails when the range is not within the disk, when the disk is read-only, and when the file or
    /// device cannot be written.
    pub fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.shared().write(buf, offset)
    }

    /// Makes all that was written durable.
    ///
    /// # Errors
    /// Fails when the system reports an error, and then always.
    pub fn sync(&self) -> io::Result<()> {
        self.shared().flush()
    }

    /// Makes it one of this process. A forked child has none of its keys. To drop it there closes the
    /// child's descriptors, and neither writes anything nor releases a lock of the parent.
    #[must_use]
    pub fn of_process(self) -> OfProcess<Self> {
        OfProcess::holding(self, Self::descriptors)
    }

    /// The descriptors that it holds, for [`OfProcess::holding`].
    #[must_use]
    pub fn descriptors(&self) -> Vec<RawFd> {
        let lock = self.reencryption.as_ref();
        let lock = lock.and_then(|lock| lock.descriptor());
        self.descriptors.iter().copied().chain(lock).collect()
    }

    /// Makes the checks of [`VolumeDisk::of_unlocked`] that need no secret. A caller that opens a volume
    /// now and unlocks it later learns of a failure at once.
    ///
    /// # Errors
    /// [`OpenError::Reencrypting`], and those of [`VolumeMetadata::payload_len`]. Also fails when
    /// `data` has another path than the data of `volume`.
    pub fn check<H: Header + ?Sized>(
        volume: &VolumeMetadata<H>,
        data: &DataFile,
        options: &DiskUse,
    ) -> Result<()> {
        if data.path() != volume.data_path() {
            let (name, other) = (volume.data_name(), path_name(data.path()));
            return Err(OpenError::OtherData { name, other }.into());
        }
        volume.payload_len()?;
        let is_changing = volume.describe().reencryption == Reencryption::UnderWay;
        if is_changing && !options.read_only {
            let name = volume.data_name();
            return Err(OpenError::Reencrypting { name }.into());
        }
        if !options.read_only {
            volume.check_data_are_no_volume(&*data.storage()?)?;
        }
        Ok(())
    }

    /// Makes a disk of a volume with the keys from [`VolumeMetadata::unlock_data`]. `data` is its file or
    /// device with the data, and was opened with [`DiskUse::access`].
    /// `volume` reads the same file, through [`DataFile::input`]: as its metadata, or, if the header is
    /// detached, in [`VolumeMetadata::with_data`].
    ///
    /// # Errors
    /// Those of [`VolumeDisk::check`]. Also fails when the volume has changed since it was read, when
    /// another program is re-encrypting it, and when the engine or the system reports an error.
    pub fn of_unlocked<H: Header + ?Sized>(
        volume: VolumeMetadata<H>,
        data: DataFile,
        unlocked: Unlocked,
        engine: &Engine,
        options: &DiskUse,
        context: &Context,
    ) -> Result<Self> {
        let made =
            Self::of_unlocked_with(volume, data, unlocked, engine, (options, context), |_| {
                Ok(())
            });
        made.map(|(disk, ())| disk)
    }

    /// As [`VolumeDisk::of_unlocked`], with what `also` makes of the plaintext.
    pub(crate) fn of_unlocked_with<H: Header + ?Sized, T>(
        volume: VolumeMetadata<H>,
        data: DataFile,
        unlocked: Unlocked,
        engine: &Engine,
        (options, context): (&DiskUse, &Context),
        also: impl FnOnce(&Plaintext) -> Result<T>,
    ) -> Result<(Self, T)> {
        Self::check(&volume, &data, options)?;
        let found = volume.describe();
        // Without a header no key is wrong, and the file may be something else.
        if !options.read_only && found.metadata_len == 0 && found.data_offset == 0 {
            let name = volume.data_name();
            for what in recognised(&*data.storage()?) {
                let text = format!("{name} has {what}, which writes to it can destroy");
                context.events.warning(&text);
            }
        }
        let options = DiskUse {
            allow_discards: options.allow_discards || volume.describe().allows_discards,
            ..*options
        };
        let reencryption = volume.keep_reencryptions_out()?;
        let payload = volume.into_payload()?;
        // The volume may have changed while the user typed the passphrase.
        payload.check_unchanged(context)?;
        let mut plaintext = payload.plaintext(unlocked.keys);
        let name = path_name(data.path());
        warn_of_linear(&name, &plaintext, context);
        let has_end = payload.find_end(&mut plaintext, engine)?;
        if !has_end {
            context.events.warning(&format!(
                "{name}: the trailer that ends the file is not the last sector: all sectors are shown, \
                 read-only"
            ));
        }
        let options = DiskUse {
            read_only: options.read_only || !has_end,
            ..options
        };
        let (parts, lock) = (parts(&plaintext, engine)?, reencryption.map(Arc::new));
        let mut disk = Self::of_parts(data, parts, lock, engine.threads, &options)?;
        disk.has_exact_len = has_end && found.file_length.is_some();
        Ok((disk, also(&plaintext)?))
    }

    /// Makes a disk of a file that is not encrypted: its bytes are the plaintext. For callers whose
    /// user says so: nothing here looks whether it is a volume.
    ///
    /// [`DiskUse::direct`] counts only where direct I/O is possible, which needs a length that is a multiple
    /// of the system's alignment.
    ///
    /// # Errors
    /// Fails when the system does.
    pub fn of_unencrypted(data: DataFile, options: &DiskUse, context: &Context) -> Result<Self> {
        let part = Part {
            offset: 0,
            len: data.len()?,
            crypt: None,
        };
        let options = DiskUse {
            direct: options.direct && can_be_direct(&data, vec![part.clone()]).is_ok(),
            ..*options
        };
        let is_file = data.is_regular() || data.file().is_none();
        let mut disk = Self::of_parts(data, vec![part], None, context.thread_count(), &options)?;
        disk.has_exact_len = is_file;
        Ok(disk)
    }

    /// Checks whether the volume as it is could be exported with direct I/O, if that is wanted.
    pub(crate) fn check_direct<H: Header + ?Sized>(
        volume: &VolumeMetadata<H>,
        data: &DataFile,
        options: &DiskUse,
    ) -> Result<()> {
        let Some(extents) = volume.extents()?.filter(|_| options.direct) else {
            return Ok(());
        };
        let part = |extent: Extent| Part {
            offset: extent.offset,
            len: extent.len,
            crypt: None,
        };
        let parts = extents.into_iter().map(part).collect();
        can_be_direct(data, parts).map_err(|error| no_disk(&volume.data_name(), &*error, options))
    }

    /// Makes a disk of these parts of `data`. `lock` keeps cryptsetup from re-encrypting them.
    ///
    /// # Errors
    /// [`OpenError::Disk`] if the parts do not fit `data` or direct I/O is not possible.
    pub(crate) fn of_parts(
        data: DataFile,
        parts: Vec<Part>,
        lock: Option<Arc<ReencryptionLock>>,
        threads: NonZeroUsize,
        options: &DiskUse,
    ) -> Result<Self> {
        let (name, descriptors) = (path_name(data.path()), data.descriptors());
        let failed = |error: &dyn fmt::Display| no_disk(&name, error, options);
        let storage = data.into_storage(options.direct);
        let storage = storage.map_err(|error| failed(&error))?;
        let options = DiskOptions {
            read_only: options.read_only,
            allow_discards: options.allow_discards,
            threads: Some(threads),
            ..DiskOptions::default()
        };
        let disk = Disk::new(storage, parts, options).map_err(|error| failed(&error))?;
        Ok(Self {
            stream: DiskStream::new(Arc::new(disk)),
            name,
            has_exact_len: false,
            reencryption: lock,
            descriptors,
        })
    }
}

impl Read for VolumeDisk {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buf)
    }
}

impl Write for VolumeDisk {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.stream.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Seek for VolumeDisk {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.stream.seek(to)
    }
}

/// Checks whether direct I/O is possible for these parts of `data`.
fn can_be_direct(data: &DataFile, parts: Vec<Part>) -> Result<(), Box<dyn std::error::Error>> {
    // The file that is open must not be switched to direct I/O: its metadata are still read.
    let file = data.direct_again()?;
    Layout::new(parts, file.alignment())?;
    Ok(())
}

fn no_disk(name: &str, error: &dyn fmt::Display, options: &DiskUse) -> Error {
    OpenError::Disk {
        name: name.to_owned(),
        reason: error.to_string(),
        direct: options.direct,
    }
    .into()
}

/// Returns the parts of a disk. Each key is loaded once.
pub(crate) fn parts(plaintext: &Plaintext, engine: &Engine) -> Result<Vec<Part>> {
    let mut keys: HashMap<_, Arc<dyn LoadedKey>> = HashMap::new();
    let mut parts = Vec::new();
    for (extent, len) in plaintext.parts() {
        let crypt = match extent.cipher {
            None => None,
            Some(cipher) => {
                let which = (cipher.key, cipher.encryption);
                let key = match keys.get(&which) {
                    Some(key) => Arc::clone(key),
                    None => {
                        let key = engine.load_part_key(plaintext, cipher)?;
                        keys.insert(which, Arc::clone(&key));
                        key
                    }
                };
                Some((key, cipher.geometry))
            }
        };
        parts.push(Part {
            offset: extent.offset,
            len,
            crypt,
        });
    }
    Ok(parts)
}

/// Warns that bytes of the plaintext of the volume called `name` are not encrypted.
pub(crate) fn warn_of_linear(name: &str, plaintext: &Plaintext, context: &Context) {
    let linear = plaintext.linear_len();
    if linear > 0 {
        context.events.warning(&format!(
            "{name}: {linear} bytes of the data are not encrypted, because a re-encryption is \
             under way: anyone with write access could have changed them"
        ));
    }
}
