// SPDX-License-Identifier: MIT OR Apache-2.0
//! A new volume that the caller fills, at any byte.

use std::{
    io,
    os::fd::RawFd,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use luxor_engine::Mode;
use luxor_files::{OfProcess, Output};
use luxor_luks::{NewVolume, NewVolumeOptions};
use luxor_secret::SecretBytes;
use luxor_sector::{Disk, DiskOptions, Part, ReadAt, SectorSize, Storage, WriteAt};

use crate::{
    Context, CreateError, Engine, Error, NewFiles, Result,
    create::{does_not_fit, make, refused, write_header},
    error::Cause,
    key_scope::warn_of_key_scope,
    output::begin,
};

/// A new volume that the caller fills, at any byte and in any order. It is as long as what is
/// written, and appears whole in [`VolumeWriter::finish`]. If it is dropped before, or after a write has
/// failed, nothing appears at a path.
///
/// ```
/// use luxor::{Context, NewFiles, VolumeWriter};
/// use luxor_secret::SecretBytes;
/// # use luxor_luks::{LuksVersion, NewVolumeOptions, PbkdfKind, PbkdfOptions};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("volume");
/// # let pbkdf = PbkdfOptions {
/// #     kind: PbkdfKind::Pbkdf2,
/// #     force_iterations: Some(1000),
/// #     ..PbkdfOptions::default()
/// # };
/// # let options = NewVolumeOptions { pbkdf, ..NewVolumeOptions::new(LuksVersion::Luks2) };
/// let context = Context::default();
/// let files = NewFiles { volume: &path, header: None, force: false, needed: &[] };
/// let secret = || Ok(SecretBytes::copy_of(b"correct horse"));
/// let writer = VolumeWriter::create(&files, &options, secret, &context)?;
/// writer.write(b"the end", 10_000)?;
/// writer.write(b"the beginning", 0)?;
/// assert!(!path.exists());
/// writer.finish(&context)?;
/// assert!(path.exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct VolumeWriter {
    volume: NewVolume,
    output: Arc<Output>,
    disk: Disk,
    sector_size: SectorSize,
    data_offset: u64,
    /// The length of the plaintext. It grows while `extent` is locked.
    len: AtomicU64,
    extent: Mutex<Extent>,
    /// Whether a write has failed, after which the plaintext is not what the caller has written.
    is_incomplete: AtomicBool,
}

/// Which bytes of the output are sectors of the volume.
#[derive(Default)]
struct Extent {
    /// The plaintext of the sectors before this has been written: what follows `len` in it is zeros.
    written: u64,
    /// The most that `written` was. A file keeps what it had before it was shortened.
    longest: u64,
}

impl VolumeWriter {
    /// Begins the new volume of `files`, without a detached header. Calls `secret` for the secret of its
    /// keyslot, after all else has been checked. `detached`, `file_length` and `trailer` of the options
    /// are ignored.
    ///
    /// # Errors
    /// Fails when the options contradict each other, when the file cannot be made, and with the error
    /// of `secret`.
    pub fn create(
        files: &NewFiles<'_>,
        options: &NewVolumeOptions,
        secret: impl FnOnce() -> Result<SecretBytes>,
        context: &Context,
    ) -> Result<Self> {
        if files.header.is_some() {
            return Err(CreateError::Detached.into());
        }
        let options = &Self::options(options, &luxor_files::path_name(files.volume))?;
        files.check()?;
        let output = files.create_data(options, None, context)?;
        Self::create_in(output, options, secret, context)
    }

    /// As [`VolumeWriter::create`], in an output that is already open: a file, or a storage that grows.
    ///
    /// # Errors
    /// Those of [`VolumeWriter::create`].
    pub fn create_in(
        mut output: Output,
        options: &NewVolumeOptions,
        secret: impl FnOnce() -> Result<SecretBytes>,
        context: &Context,
    ) -> Result<Self> {
        let name = output.name();
        let options = &Self::options(options, &name)?;
        if !output.is_seekable() || output.capacity().is_some() {
            return Err(CreateError::CannotGrow { name }.into());
        }
        let engine = Engine::select(context, Mode::Xts)?;
        let volume = make(options, secret, &engine, context)?;
        let segment = volume.segment();
        let key = engine.load_volume_key(volume.volume_key(), segment.encryption)?;
        let (data_offset, sector_size) = (options.data_offset(), options.sector_size());
        begin(&mut output, data_offset, None, context)?;
        let output = Arc::new(output);
        let room = END - data_offset;
        let part = Part {
            offset: data_offset,
            len: room - room % sector_size.bytes() as u64,
            crypt: Some((Arc::from(key), segment.geometry)),
        };
        let options = DiskOptions {
            threads: Some(engine.threads),
            ..DiskOptions::default()
        };
        let disk = Disk::new(Arc::new(Growing(Arc::clone(&output))), vec![part], options);
        let disk = disk.map_err(|error| error.about(&name))?;
        Ok(Self {
            volume,
            output,
            disk,
            sector_size,
            data_offset,
            len: AtomicU64::new(0),
            extent: Mutex::default(),
            is_incomplete: AtomicBool::new(false),
        })
    }

    fn options(options: &NewVolumeOptions, name: &str) -> Result<NewVolumeOptions> {
        let options = NewVolumeOptions {
            file_length: None,
            detached: false,
            trailer: false,
            ..options.clone()
        };
        let checked = options.check();
        checked.map_err(|error| refused(error, "the plaintext", name))?;
        Ok(options)
    }

    /// Makes it one of this process, as [`VolumeDisk::of_process`](crate::VolumeDisk::of_process).
    #[must_use]
    pub fn of_process(self) -> OfProcess<Self> {
        OfProcess::holding(self, Self::descriptors)
    }

    /// The descriptors that it holds, for [`OfProcess::holding`].
    #[must_use]
    pub fn descriptors(&self) -> Vec<RawFd> {
        self.output.descriptors()
    }

    /// The name of the volume for messages.
    #[must_use]
    pub fn name(&self) -> String {
        self.output.name()
    }

    /// The length of the plaintext in bytes, up to the last byte that was written.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "emptiness has no meaning of its own here"
    )]
    pub fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    /// The length of a sector in bytes. Whole sectors are written fastest.
    #[must_use]
    pub fn sector_size(&self) -> usize {
        self.sector_size.bytes()
    }

    /// Fills `buf` with the plaintext from byte `offset` on.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if the range ends beyond [`VolumeWriter::len`], and the errors
    /// of the output and the engine.
    pub fn read(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        if end_of(buf, offset)? > self.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.disk.read(buf, offset)
    }

    /// Writes `buf` from byte `offset` on. Zeros fill what has not been written before it: these are
    /// encrypted too, and need space. After an error the volume can only be dropped.
    ///
    /// # Errors
    /// [`io::ErrorKind::FileTooLarge`] if a volume cannot be so long, [`io::ErrorKind::StorageFull`] if
    /// the zeros alone need more space than is free, and the errors of the output and the engine.
    pub fn write(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let written = self.try_write(buf, offset);
        written.inspect_err(|_| self.mark_incomplete())
    }

    fn try_write(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let end = end_of(buf, offset)?;
        if buf.is_empty() {
            return Ok(());
        }
        let mut extent = self.extent.lock().unwrap_or_else(PoisonError::into_inner);
        if end <= extent.written {
            self.len.fetch_max(end, Ordering::AcqRel);
            drop(extent);
            return self.disk.write(buf, offset);
        }
        let sector = self.sector_size.bytes() as u64;
        let (padded, from) = (self.padded(end)?, extent.written);
        // Sectors that the bytes cover are not written twice.
        let first = offset.next_multiple_of(sector).clamp(from, padded);
        let last = (end - end % sector).clamp(first, padded);
        self.make_room(&mut extent, first)?;
        extent.longest = extent.longest.max(padded);
        for (from, to) in [(from, first), (last, padded)] {
            self.disk.write_zeroes(from, to - from)?;
        }
        self.disk.write(buf, offset)?;
        extent.written = padded;
        self.len.fetch_max(end, Ordering::AcqRel);
        Ok(())
    }

    /// Makes the plaintext shorter, or longer by zeros.
    ///
    /// # Errors
    /// As [`VolumeWriter::write`].
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        let set = self.try_set_len(len);
        set.inspect_err(|_| self.mark_incomplete())
    }

    fn try_set_len(&self, len: u64) -> io::Result<()> {
        let mut extent = self.extent.lock().unwrap_or_else(PoisonError::into_inner);
        let padded = self.padded(len)?;
        let (from, to) = if len < self.len() {
            (len, padded.min(extent.written))
        } else {
            (extent.written, padded)
        };
        self.make_room(&mut extent, padded)?;
        self.len.fetch_min(len, Ordering::AcqRel);
        self.disk.write_zeroes(from, to.saturating_sub(from))?;
        extent.written = padded;
        self.len.store(len, Ordering::Release);
        Ok(())
    }

    /// Checks that the plaintext can become `len` bytes long, as [`VolumeWriter::set_len`] does before it
    /// writes zeros up to there.
    ///
    /// # Errors
    /// As [`VolumeWriter::write`].
    pub fn check_len(&self, len: u64) -> io::Result<()> {
        let mut extent = self.extent.lock().unwrap_or_else(PoisonError::into_inner);
        let padded = self.padded(len);
        let checked = padded.and_then(|padded| self.make_room(&mut extent, padded));
        checked.inspect_err(|_| self.mark_incomplete())
    }

    /// Refuses zeros from the end of the written sectors up to `to` for which there is no room, instead
    /// of filling a file system to its end. The last sector is written: an output that cannot become so
    /// long says so before all the others are written.
    fn make_room(&self, extent: &mut Extent, to: u64) -> io::Result<()> {
        let Some(len) = to.checked_sub(extent.written).filter(|&len| len > 0) else {
            return Ok(());
        };
        if self.output.shortage(len).is_some() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        extent.longest = extent.longest.max(to);
        let sector = self.sector_size.bytes() as u64;
        self.disk.write_zeroes(to - sector, sector)
    }

    /// Lets [`VolumeWriter::finish`] fail, as after a failed write.
    pub fn mark_incomplete(&self) {
        self.is_incomplete.store(true, Ordering::Release);
    }

    /// Checks that no write has failed.
    ///
    /// # Errors
    /// [`crate::ErrorClass::Failure`] otherwise.
    pub fn check_complete(&self) -> Result<()> {
        if self.is_incomplete.load(Ordering::Acquire) {
            let name = self.name();
            return Err(CreateError::Incomplete { name }.into());
        }
        Ok(())
    }

    /// Returns the length of the sectors for `len` bytes of plaintext.
    fn padded(&self, len: u64) -> io::Result<u64> {
        let padded = self.sector_size.payload_len(len);
        let room = self.disk.len();
        padded
            .filter(|&padded| padded <= room)
            .ok_or_else(|| io::ErrorKind::FileTooLarge.into())
    }

    /// Writes the header, makes everything durable, and lets a file appear.
    ///
    /// # Errors
    /// [`CreateError::DoesNotFit`](crate::CreateError::DoesNotFit) if LUKS1 cannot represent the length. Also
    /// fails when the output cannot be written, when a write has failed before, or when another file has
    /// got its name meanwhile. No file appears then.
    ///
    /// # Panics
    /// Never: the disk, which is dropped first, is the only other owner of the output.
    pub fn finish(self, context: &Context) -> Result<()> {
        self.check_complete()?;
        let (len, name) = (self.len(), self.output.name());
        let failed =
            |error: io::Error| Error::io(format!("cannot write {name}"), &error).caused_by(error);
        // An empty volume has a sector, too.
        self.set_len(len).map_err(failed)?;
        let extent = self.extent.into_inner();
        let Extent { written, longest } = extent.unwrap_or_else(PoisonError::into_inner);
        let (mut volume, end) = (self.volume, self.data_offset + written);
        volume
            .set_data(len, written, None)
            .map_err(|error| does_not_fit(error, "the plaintext", &name))?;
        warn_of_key_scope(&name, len, context);
        drop(self.disk);
        let mut output = Arc::into_inner(self.output).expect("the disk was the other owner");
        if longest > written {
            output.shorten(end).map_err(failed)?;
        }
        write_header(&volume, &mut output, Some(end))?;
        Ok(output.finish()?)
    }
}

/// No file is longer.
const END: u64 = i64::MAX.unsigned_abs();

fn end_of(buf: &[u8], offset: u64) -> io::Result<u64> {
    let end = offset.checked_add(buf.len() as u64);
    end.ok_or_else(|| io::ErrorKind::FileTooLarge.into())
}

/// An output that can grow, as the storage of a disk.
struct Growing(Arc<Output>);

impl Growing {
    fn storage(&self) -> &dyn Storage {
        self.0.as_storage().expect("checked when it was opened")
    }
}

impl Storage for Growing {
    fn alignment(&self) -> usize {
        self.storage().alignment()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(END)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.storage().read_exact_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.storage().write_all_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.storage().sync()
    }

    fn read_batch(&self, reads: &mut [ReadAt<'_>]) {
        self.storage().read_batch(reads);
    }

    fn write_batch(&self, writes: &mut [WriteAt<'_>]) {
        self.storage().write_batch(writes);
    }
}
