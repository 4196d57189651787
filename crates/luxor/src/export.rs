// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plaintext of a volume as a disk, with the locks that protect it while it is in use.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    os::fd::RawFd,
    sync::Arc,
};

use luxor_engine::{LoadedKey, Mode};
use luxor_files::{
    DataFile, OfProcess, VolumePlace,
    locks::{Access, ReencryptionLock},
    path_name,
};
use luxor_luks::UnlockOptions;
use luxor_secret::SecretBytes;
use luxor_sector::{Disk, DiskOptions, Layout, Part};
use luxor_volume::{Extent, Plaintext, VolumeKey};

use crate::{Context, Engine, Error, PlainVolume, Result, Secrets, Volume, VolumeError};

/// How the plaintext is exported.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExportOptions {
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether discards are passed on to the file or device. They reveal which sectors are unused.
    /// A LUKS2 volume can also allow them with a flag in its metadata.
    pub allow_discards: bool,
    /// Whether to bypass the system's page cache (`O_DIRECT`).
    pub direct: bool,
}

impl ExportOptions {
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

/// An open volume, locked against changes that would damage its data while it is in use.
///
/// ```
/// use std::io::Write;
///
/// use luxor::{Context, Export, ExportOptions, Volume};
/// use luxor_secret::SecretBytes;
/// use luxor_files::DataFile;
/// use luxor_luks::UnlockOptions;
/// use luxor_sector::DiskStream;
///
/// # use luxor::NewFiles;
/// # use luxor_luks::{LuksVersion, NewVolumeOptions, PbkdfKind, PbkdfOptions};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("volume");
/// # let pbkdf = PbkdfOptions {
/// #     kind: PbkdfKind::Pbkdf2,
/// #     force_iterations: Some(1000),
/// #     ..PbkdfOptions::default()
/// # };
/// # let new = NewVolumeOptions { pbkdf, ..NewVolumeOptions::new(LuksVersion::Luks2) };
/// # let files = NewFiles { volume: &path, header: None, force: false, needed: &[] };
/// let context = Context::default();
/// let secret = SecretBytes::copy_of(b"correct horse");
/// # luxor::format(&files, Some(1 << 20), &new, || Ok(secret.clone()), &context)?;
/// let options = ExportOptions::default();
/// let data = DataFile::open(&path, options.access())?;
/// let volume = Volume::open(data.input()?, &context)?;
/// let unlock = UnlockOptions::default();
/// let export = Export::open(volume, data, &secret, &unlock, &options, &context)?;
///
/// let mut stream = DiskStream::new(export.disk.clone());
/// stream.write_all(b"the first bytes of the plaintext")?;
/// stream.flush()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Export {
    /// The plaintext. The file or device stays locked until the last user drops the disk.
    pub disk: Arc<Disk>,
    /// The volume's name for messages.
    pub name: String,
    /// Keeps cryptsetup from re-encrypting the data.
    pub(crate) reencryption: Option<Arc<ReencryptionLock>>,
    /// Those that the disk holds.
    pub(crate) descriptors: Vec<RawFd>,
}

impl Export {
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

    /// Makes the checks that need no secret. [`Export::open`] and [`Export::of_unlocked`] make them
    /// too. A caller that opens a volume now and unlocks it later learns of a failure at once.
    ///
    /// # Errors
    /// Those of [`Export::open`] that do not depend on the secret.
    pub fn check(volume: &Volume, data: &DataFile, options: &ExportOptions) -> Result<()> {
        if data.path() != volume.data_path() {
            let (name, other) = (volume.data_name(), path_name(data.path()));
            let message = format!("{name} has the data of the volume, not {other}");
            return Err(Error::failure(message));
        }
        volume.payload_len()?;
        if volume.header.is_reencrypting() && !options.read_only {
            let name = volume.data_name();
            return Err(VolumeError::Reencrypting { name }.into());
        }
        Ok(())
    }

    /// Unlocks `volume` and makes a disk of it. `data` is its file or device with the data
    /// ([`Volume::data_path`]), and was opened with [`ExportOptions::access`]. `volume` reads the
    /// same file, through [`DataFile::input`]: as its metadata, or, if the header is detached, in
    /// [`Volume::with_data`].
    ///
    /// # Errors
    /// [`VolumeError::Reencrypting`], and those of [`Volume::payload_len`] and [`Volume::unlock`].
    /// Also fails when `data` has another path, when the volume has changed since it was read, when
    /// another program is re-encrypting it, and when the engine or the system reports an error.
    pub fn open(
        volume: Volume,
        data: DataFile,
        secrets: &dyn Secrets,
        unlock: &UnlockOptions,
        options: &ExportOptions,
        context: &Context,
    ) -> Result<Self> {
        Self::check(&volume, &data, options)?;
        let engine = Engine::select(context, Mode::Xts)?;
        let keys = volume.unlock_data(secrets, &*engine.backend, unlock, context)?;
        Self::of_unlocked(volume, data, keys, &engine, options, context)
    }

    /// Makes a disk of a volume with the keys from [`Volume::unlock_data`]. A wrong secret
    /// then leaves the volume open for another attempt. The rest is as in [`Export::open`].
    ///
    /// # Errors
    /// Those of [`Export::open`], except those of [`Volume::unlock`].
    pub fn of_unlocked(
        volume: Volume,
        data: DataFile,
        keys: BTreeMap<u32, VolumeKey>,
        engine: &Engine,
        options: &ExportOptions,
        context: &Context,
    ) -> Result<Self> {
        Self::check(&volume, &data, options)?;
        let options = ExportOptions {
            allow_discards: options.allow_discards || volume.header.allows_discards(),
            ..*options
        };
        let reencryption = volume.keep_reencryptions_out()?;
        let payload = volume.into_payload()?;
        // The volume may have changed while the user typed the passphrase.
        payload.check_unchanged(context)?;
        let mut plaintext = payload.plaintext(keys);
        let name = path_name(data.path());
        warn_of_linear(&name, &plaintext, context);
        let has_end = payload.find_end(&mut plaintext, engine)?;
        if !has_end {
            context.events.warning(&format!(
                "{name}: the trailer that ends the file is not the last sector: all sectors are shown, \
                 read-only"
            ));
        }
        let options = ExportOptions {
            read_only: options.read_only || !has_end,
            ..options
        };
        let export = Self::of_plaintext(data, &plaintext, engine, &options)?;
        Ok(Self {
            reencryption: reencryption.map(Arc::new),
            ..export
        })
    }

    /// Opens the file or device at a path, or a part of it, which has no header, and makes a disk of it. Calls
    /// `secret` for the key, of [`PlainVolume::key_len`] bytes, after all other checks. Whether it
    /// is the right key cannot be checked. `allow_weak_key` permits an XTS key with equal halves.
    ///
    /// # Errors
    /// Those of [`PlainVolume::check`]. Also fails when the policy of `context` requires anything of
    /// a header, when the file is too short for the volume or in use, when the key cannot be used,
    /// and when the engine or the system reports an error.
    pub fn open_plain<'a>(
        place: impl Into<VolumePlace<'a>>,
        volume: &PlainVolume,
        secret: impl FnOnce() -> Result<SecretBytes>,
        allow_weak_key: bool,
        options: &ExportOptions,
        context: &Context,
    ) -> Result<Self> {
        let place = place.into();
        let name = path_name(place.path);
        context.policy.check_no_header(&name)?;
        volume.check()?;
        let engine = Engine::select(context, volume.encryption.mode())?;
        let data = DataFile::open(place, options.access())?;
        let extent = volume.extent(data.len()?, &name)?;
        let plaintext = volume.plaintext(extent, secret()?, allow_weak_key)?;
        Self::of_plaintext(data, &plaintext, &engine, options)
    }

    /// Makes a disk of an unlocked volume of any format. `data` contains its data, and was opened
    /// with [`ExportOptions::access`].
    ///
    /// # Errors
    /// [`VolumeError::Disk`] if the extents do not fit `data` or direct I/O is not possible. Also
    /// fails when a key cannot be loaded.
    pub fn of_plaintext(
        data: DataFile,
        plaintext: &Plaintext,
        engine: &Engine,
        options: &ExportOptions,
    ) -> Result<Self> {
        Self::of_parts(data, parts(plaintext, engine)?, engine, options)
    }

    /// Checks whether the volume as it is could be exported with direct I/O, if that is wanted.
    pub(crate) fn check_direct(
        volume: &Volume,
        data: &DataFile,
        options: &ExportOptions,
    ) -> Result<()> {
        let name = volume.data_name();
        let failed = |error: &dyn fmt::Display| no_disk(&name, error, options);
        let Some(extents) = volume.extents()?.filter(|_| options.direct) else {
            return Ok(());
        };
        let part = |extent: Extent| Part {
            offset: extent.offset,
            len: extent.len,
            crypt: None,
        };
        // The file that is open must not be switched to direct I/O: its metadata are still read.
        let file = data.direct_again().map_err(|error| failed(&error))?;
        let parts = extents.into_iter().map(part).collect();
        Layout::new(parts, file.alignment()).map_err(|error| failed(&error))?;
        Ok(())
    }

    pub(crate) fn of_parts(
        data: DataFile,
        parts: Vec<Part>,
        engine: &Engine,
        options: &ExportOptions,
    ) -> Result<Self> {
        let (name, descriptors) = (path_name(data.path()), data.descriptors());
        let failed = |error: &dyn fmt::Display| no_disk(&name, error, options);
        let storage = data.into_storage(options.direct);
        let storage = storage.map_err(|error| failed(&error))?;
        let options = DiskOptions {
            read_only: options.read_only,
            allow_discards: options.allow_discards,
            threads: Some(engine.threads),
            ..DiskOptions::default()
        };
        let disk = Disk::new(storage, parts, options).map_err(|error| failed(&error))?;
        Ok(Self {
            disk: Arc::new(disk),
            name,
            reencryption: None,
            descriptors,
        })
    }
}

fn no_disk(name: &str, error: &dyn fmt::Display, options: &ExportOptions) -> Error {
    VolumeError::Disk {
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
                        let key: Arc<dyn LoadedKey> = Arc::from(key);
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
