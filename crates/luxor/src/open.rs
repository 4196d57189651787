// SPDX-License-Identifier: MIT OR Apache-2.0
//! The front door: a volume of any format is opened, unlocked, and used as a disk.

use std::{
    os::fd::RawFd,
    path::{Path, PathBuf},
    sync::Arc,
};

use luxor_files::{DataFile, Input, Role, VolumePart, VolumePlace};
use luxor_luks::VolumeHeader;
use luxor_volume::{Description, Findings, Format, OpenedKeyslot, UnlockOptions, Unlocked};

use crate::{
    Context, DiskUse, Engine, Result, Secrets, VolumeCipher, VolumeDisk, VolumeMetadata,
    formats::any_format,
};

/// Opens the volume at a path for reading. [`OpenOptions`] has more choices.
///
/// # Errors
/// Those of [`OpenOptions::open`].
pub fn open(path: impl AsRef<Path>) -> Result<Volume> {
    OpenOptions::new().open(path)
}

/// How a volume is opened and unlocked. The default opens a volume of any format that has a
/// signature, for reading, with the best engine.
///
/// ```no_run
/// use luxor::{OpenOptions, SecretBytes};
///
/// let secret = SecretBytes::copy_of(b"correct horse");
/// let disk = OpenOptions::new()
///     .write(true)
///     .header("disk.header")
///     .open("disk.img")?
///     .unlock(&secret)?
///     .disk()?;
/// disk.write_at(b"the first bytes", 0)?;
/// disk.sync()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct OpenOptions {
    format: Arc<dyn Format>,
    pub(crate) header: Option<PathBuf>,
    part: VolumePart,
    pub(crate) disk: DiskUse,
    pub(crate) unlock: UnlockOptions,
    pub(crate) context: Context,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            format: any_format(),
            header: None,
            part: VolumePart::Whole,
            disk: DiskUse {
                read_only: true,
                ..DiskUse::default()
            },
            unlock: UnlockOptions::default(),
            context: Context::default(),
        }
    }
}

impl OpenOptions {
    /// The default.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens a volume of this format only: see [`format_by_name`](crate::format_by_name) and
    /// [`PlainVolume`](crate::PlainVolume).
    #[must_use]
    pub fn format(mut self, format: Arc<dyn Format>) -> Self {
        self.format = format;
        self
    }

    /// Takes the metadata from this file.
    #[must_use]
    pub fn header(mut self, header: impl Into<PathBuf>) -> Self {
        self.header = Some(header.into());
        self
    }

    /// Opens the volume in this part of the file or device: a partition, or from a byte on. See
    /// [`luxor::files::VolumePart`](VolumePart).
    #[must_use]
    pub fn part(mut self, part: VolumePart) -> Self {
        self.part = part;
        self
    }

    /// Whether the disk can be written. Without it, other programs may read the volume at the same
    /// time.
    #[must_use]
    pub fn write(mut self, write: bool) -> Self {
        self.disk.read_only = !write;
        self
    }

    /// How the plaintext is used as a disk, in place of [`OpenOptions::write`].
    #[must_use]
    pub fn disk_use(mut self, disk: DiskUse) -> Self {
        self.disk = disk;
        self
    }

    /// Which keyslots are tried, and what they may cost.
    #[must_use]
    pub fn unlock_options(mut self, unlock: UnlockOptions) -> Self {
        self.unlock = unlock;
        self
    }

    /// The engine, the policy and the receiver of events.
    #[must_use]
    pub fn context(mut self, context: &Context) -> Self {
        self.context = context.clone();
        self
    }

    /// Opens the volume at a path: reads its metadata, and locks its data against other programs.
    ///
    /// # Errors
    /// The class is [`ErrorClass::Missing`](crate::ErrorClass::Missing) if there is no such file, and
    /// [`ErrorClass::Busy`](crate::ErrorClass::Busy) if it is in use. The source is
    /// [`OpenError::NotAVolume`](crate::OpenError::NotAVolume) or
    /// [`OpenError::Unreadable`](crate::OpenError::Unreadable) if the file has no valid metadata. Also
    /// fails when the file cannot be opened, when it has no such part, and when the data are cut off.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Volume> {
        let place = VolumePlace {
            path: path.as_ref(),
            part: self.part,
        };
        let data = DataFile::open(place, self.disk.access())?;
        self.open_data(data, self.header_input()?)
    }

    /// Reads the metadata of the volume at a path, for decryption: it may be a pipe, and is not locked.
    ///
    /// # Errors
    /// Those of [`VolumeMetadata::open`]. Also fails when a file cannot be opened.
    pub(crate) fn read(&self, path: &Path) -> Result<VolumeMetadata> {
        let part = self.part;
        let input = Input::open(VolumePlace { path, part }, Role::Data)?;
        let (header, format) = (self.header_input()?, Arc::clone(&self.format));
        VolumeMetadata::open(input, header, format, &self.context)
    }

    fn header_input(&self) -> Result<Option<Input>> {
        let header = self.header.as_deref();
        let header = header.map(|header| Input::open(header, Role::Metadata));
        Ok(header.transpose()?)
    }

    /// As [`OpenOptions::open`], with a file that was opened with [`DiskUse::access`]. `header` is
    /// the file with the metadata, if they are not with the data.
    ///
    /// # Errors
    /// Those of [`OpenOptions::open`].
    pub fn open_data(&self, data: DataFile, header: Option<Input>) -> Result<Volume> {
        let (format, context) = (Arc::clone(&self.format), &self.context);
        let metadata = VolumeMetadata::open(data.input()?, header, format, context)?;
        VolumeDisk::check(&metadata, &data, &self.disk)?;
        Ok(Volume {
            metadata,
            data,
            options: self.clone(),
        })
    }
}

/// An open volume of any format, without keys. Its data are locked against other programs.
#[derive(Debug)]
pub struct Volume {
    pub(crate) metadata: VolumeMetadata,
    pub(crate) data: DataFile,
    pub(crate) options: OpenOptions,
}

impl Volume {
    /// The volume's name for messages.
    #[must_use]
    pub fn name(&self) -> String {
        self.metadata.name()
    }

    /// Bypasses the system's page cache, as [`DiskUse::direct`], if that is possible for this volume.
    #[must_use]
    pub fn direct_if_possible(mut self) -> Self {
        let direct = DiskUse {
            direct: true,
            ..self.options.disk
        };
        if VolumeDisk::check_direct(&self.metadata, &self.data, &direct).is_ok() {
            self.options.disk = direct;
        }
        self
    }

    /// Describes the volume.
    #[must_use]
    pub fn describe(&self) -> Description {
        self.metadata.describe()
    }

    /// Checks every copy of the metadata and the length of the data.
    #[must_use]
    pub fn check(&self) -> Findings {
        self.metadata.check()
    }

    /// The metadata of a LUKS volume, or `None` for another format.
    #[must_use]
    pub fn luks(&self) -> Option<&VolumeHeader> {
        self.metadata.luks()
    }

    /// The metadata.
    #[must_use]
    pub fn metadata(&self) -> &VolumeMetadata {
        &self.metadata
    }

    /// The descriptors that it holds, for [`OfProcess::holding`](luxor_files::OfProcess::holding).
    #[must_use]
    pub fn descriptors(&self) -> Vec<RawFd> {
        let metadata = self.metadata.descriptors().into_iter();
        metadata.chain(self.data.descriptors()).collect()
    }

    /// Finds the keys with a secret from `secrets`, which is asked again after a wrong one. A
    /// [`SecretBytes`](crate::SecretBytes) is a passphrase or the contents of a key file, and for a
    /// plain volume the key; a [`VolumeKeySecret`](crate::VolumeKeySecret) is the volume key.
    ///
    /// An error closes the volume. [`Volume::keys`] leaves it open for another attempt.
    ///
    /// # Errors
    /// The errors of `secrets`. Otherwise the class is
    /// [`ErrorClass::NoKey`](crate::ErrorClass::NoKey) if the secret is wrong or there is no key to
    /// open, and [`ErrorClass::OutOfMemory`](crate::ErrorClass::OutOfMemory) if Argon2 does not get
    /// its memory. The source is a [`luks::UnlockError`](luxor_luks::UnlockError), or a
    /// [`PlainError`](crate::PlainError) if the key of a plain volume has another length. Another key of
    /// a plain volume is not noticed.
    pub fn unlock(self, secrets: &dyn Secrets) -> Result<UnlockedVolume> {
        let (engine, unlocked) = self.keys(secrets)?;
        Ok(self.with_keys(engine, unlocked))
    }

    /// Finds the keys, as [`Volume::unlock`] does, and leaves the volume open for another attempt.
    ///
    /// # Errors
    /// Those of [`Volume::unlock`].
    pub fn keys(&self, secrets: &dyn Secrets) -> Result<(Engine, Unlocked)> {
        let (metadata, context) = (&self.metadata, &self.options.context);
        let engine = Engine::select(context, metadata.describe().mode)?;
        let backend = &*engine.backend;
        let unlocked = metadata.unlock_data(secrets, backend, &self.options.unlock, context)?;
        Ok((engine, unlocked))
    }

    /// Adds the keys that [`Volume::keys`] has found.
    #[must_use]
    pub fn with_keys(self, engine: Engine, unlocked: Unlocked) -> UnlockedVolume {
        UnlockedVolume {
            volume: self,
            engine,
            unlocked,
        }
    }
}

/// A volume with its keys, which are wiped on drop.
pub struct UnlockedVolume {
    pub(crate) volume: Volume,
    pub(crate) engine: Engine,
    pub(crate) unlocked: Unlocked,
}

impl UnlockedVolume {
    /// The keyslots that the secret opened. Empty if the format has none, or with a volume key.
    #[must_use]
    pub fn keyslots(&self) -> &[OpenedKeyslot] {
        &self.unlocked.keyslots
    }

    /// The descriptors that it holds, as [`Volume::descriptors`].
    #[must_use]
    pub fn descriptors(&self) -> Vec<RawFd> {
        self.volume.descriptors()
    }

    /// Continues with the policy and the receiver of events of another context. The engine stays.
    #[must_use]
    pub fn with_context(mut self, context: &Context) -> Self {
        self.volume.options.context = context.clone();
        self
    }

    /// Makes a disk of the plaintext. The data stay locked until it is dropped.
    ///
    /// # Errors
    /// Fails when the volume has changed since it was opened, when another program is re-encrypting
    /// it, and when the engine or the system reports an error.
    pub fn disk(self) -> Result<VolumeDisk> {
        let Volume {
            metadata,
            data,
            options,
        } = self.volume;
        VolumeDisk::of_unlocked(
            metadata,
            data,
            self.unlocked,
            &self.engine,
            &options.disk,
            &options.context,
        )
    }

    /// Takes the keys out of the volume, for a program that reads and writes the data itself. The
    /// data are no longer locked.
    ///
    /// # Errors
    /// Those of [`VolumeCipher::of_unlocked`].
    pub fn cipher(self) -> Result<VolumeCipher> {
        let context = &self.volume.options.context;
        VolumeCipher::of_unlocked(self.volume.metadata, self.unlocked, &self.engine, context)
    }
}
