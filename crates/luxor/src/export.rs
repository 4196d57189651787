// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plaintext of a volume as a disk, for as long as it is used.

use std::{collections::HashMap, sync::Arc};

use luxor_engine::LoadedKey;
use luxor_files::{DataFile, locks::ReencryptionLock, path_name};
use luxor_luks::{Extent, Unlocked};
use luxor_sector::{DirectFile, Disk, DiskOptions, Part, Storage};

use crate::{
    Context, Engine, Error, Result, Volume, VolumeError,
    volume::{Place, load, parts, warn_of_linear},
};

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
    /// Checks what can be known before a secret is asked for. [`Export::of_volume`] does it too.
    ///
    /// # Errors
    /// Those of [`Volume::payload_len`], and [`VolumeError::Reencrypting`].
    pub fn check(volume: &Volume, options: &ExportOptions) -> Result<()> {
        volume.payload_len()?;
        match volume.header.is_reencrypting() && !options.read_only {
            true => Err(VolumeError::Reencrypting {
                name: volume.data_name(),
            }
            .into()),
            false => Ok(()),
        }
    }

    /// Makes a disk of `volume`, whose keys are in `unlocked`. `data` has its data, and is open as
    /// the options say.
    ///
    /// # Errors
    /// Those of [`Export::check`]; when the volume has changed since it was read, when
    /// `cryptsetup` is re-encrypting it, and those of the engine and of the system.
    pub fn of_volume(
        volume: Volume,
        unlocked: &Unlocked,
        data: DataFile,
        engine: &Engine,
        options: &ExportOptions,
        context: &Context,
    ) -> Result<Self> {
        Self::check(&volume, options)?;
        let plaintext_len = volume.plaintext_len()?;
        let options = ExportOptions {
            allow_discards: options.allow_discards || volume.header.allows_discards(),
            ..*options
        };
        let reencryption = volume.keep_reencryptions_out()?;
        let payload = volume.into_payload()?;
        // The passphrase may have been typed for hours.
        payload.check_unchanged()?;
        let Place::At { extents, .. } = &payload.place else {
            unreachable!("a file or device is no pipe");
        };
        let parts = disk_parts(engine, unlocked, extents, plaintext_len)?;
        warn_of_linear(&path_name(data.path()), extents, plaintext_len, context);
        let export = Self::of_parts(data, parts, engine, &options)?;
        Ok(Self {
            _reencryption: reencryption,
            ..export
        })
    }

    /// Makes a disk of the `parts` of the data.
    ///
    /// # Errors
    /// When they do not fit the data, and those of the system.
    pub fn of_parts(
        data: DataFile,
        parts: Vec<Part>,
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
        let file = data.into_storage();
        let storage: Arc<dyn Storage> = match options.direct {
            true => Arc::new(DirectFile::new(file).map_err(|error| failed(&error))?),
            false => Arc::new(file),
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

/// The plaintext of a volume as a disk has it. Each key is loaded once.
fn disk_parts(
    engine: &Engine,
    unlocked: &Unlocked,
    extents: &[Extent],
    plaintext_len: Option<u64>,
) -> Result<Vec<Part>> {
    let mut keys: HashMap<_, Arc<dyn LoadedKey>> = HashMap::new();
    let mut found = Vec::new();
    for (extent, len) in parts(extents, plaintext_len) {
        let crypt = match extent.cipher {
            None => None,
            Some(cipher) => {
                let which = (cipher.digest, cipher.encryption);
                let key = match keys.get(&which) {
                    Some(key) => Arc::clone(key),
                    None => {
                        let key = unlocked.key(cipher.digest);
                        let key: Arc<dyn LoadedKey> =
                            Arc::from(load(engine, key, cipher.encryption)?);
                        keys.insert(which, Arc::clone(&key));
                        key
                    }
                };
                Some((key, cipher.geometry))
            }
        };
        found.push(Part {
            offset: extent.offset,
            len,
            crypt,
        });
    }
    Ok(found)
}
