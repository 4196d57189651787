// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plaintext of a volume as a disk, for as long as it is used.

use std::{collections::HashMap, path::Path, sync::Arc};

use luxor_engine::{LoadedKey, Mode, SecretBytes};
use luxor_files::{
    DataFile,
    locks::{Access, ReencryptionLock},
    path_name,
};
use luxor_luks::UnlockOptions;
use luxor_sector::{DirectFile, Disk, DiskOptions, Part, Storage};
use luxor_volume::Plaintext;

use crate::{Context, Engine, Error, PlainVolume, Result, Secrets, Volume, VolumeError};

/// How the plaintext is given out.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExportOptions {
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether discards are passed on to the file or device.
    pub allow_discards: bool,
    /// Whether it is read and written past the system's page cache.
    pub direct: bool,
}

impl ExportOptions {
    /// How the file or device is to be opened for it.
    #[must_use]
    pub fn access(&self) -> Access {
        if self.read_only {
            Access::Read
        } else {
            Access::Write
        }
    }
}

/// A volume that is open, and locked against changes that would do harm meanwhile.
pub struct Export {
    /// Its plaintext. The file or device stays locked until the last user drops it.
    pub disk: Arc<Disk>,
    /// The volume's name for messages.
    pub name: String,
    /// Keeps cryptsetup from encrypting the data otherwise.
    _reencryption: Option<ReencryptionLock>,
}

impl Export {
    /// Checks what can be known before a secret is asked for.
    fn check(volume: &Volume, options: &ExportOptions) -> Result<()> {
        volume.payload_len()?;
        if volume.header.is_reencrypting() && !options.read_only {
            let name = volume.data_name();
            return Err(VolumeError::Reencrypting { name }.into());
        }
        Ok(())
    }

    /// Unlocks `volume` and makes a disk of it. `data` has its data, and is open as the options
    /// say.
    ///
    /// # Errors
    /// [`VolumeError::Reencrypting`], those of [`Volume::payload_len`] and [`Volume::unlock`]; when the volume has changed since it was
    /// read, when `cryptsetup` is re-encrypting it, and those of the engine and of the system.
    pub fn open(
        volume: Volume,
        data: DataFile,
        secrets: &dyn Secrets,
        unlock: &UnlockOptions,
        options: &ExportOptions,
        context: &Context,
    ) -> Result<Self> {
        Self::check(&volume, options)?;
        let engine = Engine::select(context, Mode::Xts)?;
        let (unlocked, _) = volume.unlock(secrets, &*engine.backend, unlock, context)?;
        let options = ExportOptions {
            allow_discards: options.allow_discards || volume.header.allows_discards(),
            ..*options
        };
        let reencryption = volume.keep_reencryptions_out()?;
        let payload = volume.into_payload()?;
        // The passphrase may have been typed for hours.
        payload.check_unchanged()?;
        let plaintext = payload.plaintext(unlocked);
        warn_of_linear(&path_name(data.path()), &plaintext, context);
        let export = Self::of_plaintext(data, &plaintext, &engine, &options)?;
        Ok(Self {
            _reencryption: reencryption,
            ..export
        })
    }

    /// Opens the file or device at `path`, which has no header, and makes a disk of it. `secret`
    /// is asked for the key when nothing else is wrong. There is no way to tell whether it is the
    /// right one.
    ///
    /// # Errors
    /// Those of [`PlainVolume::check`]; when file and volume do not fit, when somebody else uses
    /// the file, when the key is not usable, and those of the engine and of the system.
    pub fn open_plain(
        path: &Path,
        volume: &PlainVolume,
        secret: impl FnOnce() -> Result<SecretBytes>,
        allow_weak_key: bool,
        options: &ExportOptions,
        context: &Context,
    ) -> Result<Self> {
        volume.check()?;
        let engine = Engine::select(context, volume.encryption.mode())?;
        let data = DataFile::open(path, options.access())?;
        let extent = volume.extent(data.len()?, &path_name(path))?;
        let plaintext = volume.plaintext(extent, secret()?, allow_weak_key)?;
        Self::of_plaintext(data, &plaintext, &engine, options)
    }

    /// Makes a disk of an unlocked volume, in whatever format, whose data are in `data`.
    ///
    /// # Errors
    /// When the parts do not fit the data, and those of the engine and of the system.
    pub fn of_plaintext(
        data: DataFile,
        plaintext: &Plaintext,
        engine: &Engine,
        options: &ExportOptions,
    ) -> Result<Self> {
        let name = path_name(data.path());
        let failed = |error: &dyn std::fmt::Display| -> Error {
            VolumeError::Disk {
                name: name.clone(),
                reason: error.to_string(),
                direct: options.direct,
            }
            .into()
        };
        let parts = parts(plaintext, engine)?;
        let file = data.into_storage();
        let storage: Arc<dyn Storage> = if options.direct {
            Arc::new(DirectFile::new(file).map_err(|error| failed(&error))?)
        } else {
            Arc::new(file)
        };
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
            _reencryption: None,
        })
    }
}

/// The parts of a disk. Each key is loaded once.
fn parts(plaintext: &Plaintext, engine: &Engine) -> Result<Vec<Part>> {
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

/// Says how much of the plaintext of the volume called `name` is not encrypted.
pub(crate) fn warn_of_linear(name: &str, plaintext: &Plaintext, context: &Context) {
    let linear = plaintext.linear_len();
    if linear > 0 {
        context.events.warning(&format!(
            "{name}: {linear} bytes of the data are not encrypted, because a re-encryption is \
             under way: anyone with write access could have changed them"
        ));
    }
}
