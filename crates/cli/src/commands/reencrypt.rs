// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor reencrypt`.

use std::sync::{Arc, atomic::Ordering};

use luxor::{ReencryptOptions, ReencryptPart, ZoneProtection};
use luxor_files::path_name;
use luxor_luks::{HashAlgorithm, LuksVersion, NewVolumeOptions, PbkdfKind};
use luxor_sector::SectorSize;

use crate::{
    args::{ReencryptArgs, ResilienceName},
    commands::inputs,
    context::Context,
    error::{Error, ErrorClass, Result},
    new_volume::key_size,
    process::StopOnSignal,
    secrets::SecretSource,
    volume::{Asking, limited},
};

/// Changes the volume key of a volume.
///
/// # Errors
/// Those of [`luxor::reencrypt`].
pub(crate) fn run(args: &ReencryptArgs, context: &Context) -> Result<()> {
    let sector_size = args.sector_size.map(SectorSize::try_from).transpose();
    let options = ReencryptOptions {
        keyslots: args.key_slot.clone(),
        key_len: args
            .key_size
            .map(key_size)
            .transpose()?
            .map(|size| 2 * size.bytes()),
        sector_size: sector_size.map_err(|error| Error::failure(error.to_string()))?,
        pbkdf: Some(args.pbkdf.options(PbkdfKind::Argon2id)?),
        protection: match (args.resilience, args.resilience_hash) {
            (None, None) => None,
            (None | Some(ResilienceName::Checksum), hash) => Some(ZoneProtection::Checksum(
                hash.unwrap_or(HashAlgorithm::Sha256),
            )),
            (Some(ResilienceName::Journal), _) => Some(ZoneProtection::Journal),
            (Some(ResilienceName::None), _) => Some(ZoneProtection::None),
        },
        zone: args.hotzone_size,
        decrypt: args.decrypt,
        force: args.force,
        part: match (args.init_only, args.resume_only) {
            (true, _) => ReencryptPart::Begin,
            (_, true) => ReencryptPart::Continue,
            _ => ReencryptPart::All,
        },
        unlock: limited(Vec::new(), &args.limits),
    };
    let volume = path_name(&args.volume);
    let cancel = Arc::clone(&context.library.cancel);
    let _signals = StopOnSignal::new(move || cancel.store(true, Ordering::Relaxed));
    let done = if args.encrypt {
        encrypt(args, &options, context)
    } else {
        let secrets = SecretSource::new(context, &inputs("VOLUME", &args.volume, context))?;
        let secrets = Asking::new(&secrets, &args.limits);
        let header = context.options.header.as_deref();
        luxor::reencrypt(&args.volume, header, &secrets, &options, &context.library)
    };
    let header = context.options.header.as_deref();
    let header = header.map(|header| format!(" --header {}", path_name(header)));
    let header = header.unwrap_or_default();
    done.map_err(|error| match error.class() {
        ErrorClass::Cancelled => error.hint(format!(
            "If the re-encryption has begun, this continues it: luxor reencrypt{header} {volume}"
        )),
        _ => error,
    })?;
    let end = if args.init_only {
        "can begin"
    } else {
        "is done"
    };
    context
        .console
        .tell(format!("the re-encryption of {volume} {end}"));
    Ok(())
}

/// Encrypts a file or disk that is not encrypted.
fn encrypt(args: &ReencryptArgs, options: &ReencryptOptions, context: &Context) -> Result<()> {
    let header = context.options.header.as_deref();
    let place = match (header, args.reduce_device_size) {
        (Some(header), None) => Ok(header),
        (None, Some(size)) => Err(size),
        _ => {
            let text = "--encrypt needs either a new --header FILE or --reduce-device-size SIZE: the \
                        header needs a place";
            let error = Error::failure(text);
            return Err(error.hint("`luxor encrypt` makes a volume with its header in a new file."));
        }
    };
    let default = NewVolumeOptions::new(LuksVersion::Luks2);
    let new = NewVolumeOptions {
        sector_size: options.sector_size,
        key_size: args.key_size.map_or(Ok(default.key_size), key_size)?,
        pbkdf: options.pbkdf.clone().unwrap_or_default(),
        ..default
    };
    let secrets = SecretSource::secret_only(context, &inputs("VOLUME", &args.volume, context))?;
    let secret = || secrets.new_one(&args.volume);
    let library = &context.library;
    let volume = &args.volume;
    match place {
        Ok(header) => luxor::encrypt_in_place(volume, header, &new, secret, options, library),
        Err(size) => {
            luxor::encrypt_with_header_in_front(volume, size, &new, secret, options, library)
        }
    }
}
