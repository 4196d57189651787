// SPDX-License-Identifier: MIT OR Apache-2.0
//! A volume whose plaintext is given out as a disk, for as long as somebody uses it.

mod plain;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, fmt, num::NonZeroUsize, sync::Arc};

use luxor::{Engine, Place, Volume, load, parts};
use luxor_engine::{LoadedKey, Mode};
use luxor_files::{
    DataFile, Input, Role,
    locks::{Access, ReencryptionLock},
    path_name,
};
use luxor_luks::{Extent, Unlocked};
use luxor_sector::{DirectFile, Disk, DiskOptions, Part, Storage};

use crate::{
    args::{AnyLuks, ExportArgs},
    commands::inputs,
    context::Context,
    error::{Error, Result},
    secrets::SecretSource,
    volume::unlock,
};

/// A volume that is open, and locked against whoever would do harm meanwhile.
pub struct Export {
    /// Its plaintext. The file or device stays locked until the last user drops it.
    pub disk: Arc<Disk>,
    /// The volume's name for messages.
    pub name: String,
    /// Keeps cryptsetup from encrypting the data otherwise.
    _reencryption: Option<ReencryptionLock>,
}

impl Export {
    /// Opens what `args` name. Asks for the secret where one has to be asked for.
    ///
    /// # Errors
    /// When the volume or the secret is not usable, when somebody else uses the volume,
    /// and when options do not fit together.
    pub fn open(args: &ExportArgs, context: &Context) -> Result<Self> {
        match args.kind.luks() {
            Some(kind) => open_luks(kind, args, context),
            None => plain::open(args, context),
        }
    }
}

fn open_luks(kind: AnyLuks, args: &ExportArgs, context: &Context) -> Result<Export> {
    if let Some(option) = args.plain.given() {
        return Err(Error::failure(format!(
            "{option} is for --type plain: of a LUKS volume the header says it"
        )));
    }
    let shown = path_name(&args.volume);
    let engine = Engine::select(&context.library, Mode::Xts)?;
    let data = DataFile::open(&args.volume, access(args))?;
    let secrets = SecretSource::new(context, &inputs("VOLUME", &args.volume, context))?;
    let input = data.input()?;
    let (volume, data_input) = match &context.options.header {
        Some(header) => {
            let header = Input::open(header, Role::Metadata)?;
            (Volume::open(header, &context.library)?, Some(input))
        }
        None => (Volume::open(input, &context.library)?, None),
    };

    // What is wrong with the volume is told before the secret is asked for.
    let version = volume.header.version();
    if kind.version().is_some_and(|kind| kind.number() != version) {
        return Err(Error::failure(format!(
            "{} is not what --type says: it is a LUKS{version} volume",
            volume.name()
        )));
    }
    let payload_len = volume.payload_len(data_input.as_ref())?;
    let plaintext_len = volume.header.file_length().or(payload_len);
    if volume.header.is_reencrypting() && !args.read_only {
        return Err(Error::failure(format!(
            "{shown}: a re-encryption is under way, and until it ends nothing can be written"
        ))
        .hint("Use --read-only, or let cryptsetup finish it: cryptsetup reencrypt."));
    }
    let options = DiskOptions {
        allow_discards: args.allow_discards || volume.header.allows_discards(),
        ..options(args, engine.threads)
    };

    let (unlocked, _) = unlock(&volume, &secrets, &*engine.backend, &args.unlock, context)?;
    let reencryption = volume.keep_reencryptions_out()?;
    let payload = volume.into_payload(data_input)?;
    // Somebody may have typed for hours.
    payload.check_unchanged()?;
    let Place::At { extents, .. } = &payload.place else {
        unreachable!("a file or device is no pipe");
    };
    let parts = disk_parts(&engine, &unlocked, extents, plaintext_len)?;
    let linear = parts.iter().filter(|part| part.crypt.is_none());
    let linear: u64 = linear.map(|part| part.len).sum();
    if linear > 0 {
        context.console.warn(format!(
            "{shown}: {linear} bytes of the data are not encrypted, because a re-encryption is \
             under way: whoever can write there can have changed them"
        ));
    }
    Ok(Export {
        disk: disk(data, parts, options, args)?,
        name: shown,
        _reencryption: reencryption,
    })
}

fn access(args: &ExportArgs) -> Access {
    match args.read_only {
        true => Access::Read,
        false => Access::Write,
    }
}

fn options(args: &ExportArgs, threads: NonZeroUsize) -> DiskOptions {
    DiskOptions {
        read_only: args.read_only,
        allow_discards: args.allow_discards,
        threads: Some(threads),
        ..DiskOptions::default()
    }
}

fn disk(
    data: DataFile,
    parts: Vec<Part>,
    options: DiskOptions,
    args: &ExportArgs,
) -> Result<Arc<Disk>> {
    let failed = |error: &dyn fmt::Display| {
        let failure = Error::failure(format!("{}: {error}", path_name(&args.volume)));
        match args.direct {
            true => failure.hint("It may work without --direct."),
            false => failure,
        }
    };
    let file = data.into_storage();
    let storage: Arc<dyn Storage> = match args.direct {
        true => Arc::new(DirectFile::new(file).map_err(|error| failed(&error))?),
        false => Arc::new(file),
    };
    match Disk::new(storage, parts, options) {
        Ok(disk) => Ok(Arc::new(disk)),
        Err(error) => Err(failed(&error)),
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
