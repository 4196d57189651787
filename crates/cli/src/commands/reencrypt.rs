// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor reencrypt`.

use std::sync::{Arc, atomic::Ordering};

use luxor::{ReencryptOptions, ReencryptPart, ZoneProtection};
use luxor_files::path_name;
use luxor_luks::PbkdfKind;
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
        protection: match args.resilience {
            ResilienceName::Checksum => ZoneProtection::Checksum(args.resilience_hash),
            ResilienceName::Journal => ZoneProtection::Journal,
            ResilienceName::None => ZoneProtection::None,
        },
        zone: args.hotzone_size,
        part: match (args.init_only, args.resume_only) {
            (true, _) => ReencryptPart::Begin,
            (_, true) => ReencryptPart::Continue,
            _ => ReencryptPart::All,
        },
        unlock: limited(Vec::new(), &args.limits),
    };
    let secrets = SecretSource::new(context, &inputs("VOLUME", &args.volume, context))?;
    let secrets = Asking::new(&secrets, &args.limits);
    let volume = path_name(&args.volume);
    let cancel = Arc::clone(&context.library.cancel);
    let _signals = StopOnSignal::new(move || cancel.store(true, Ordering::Relaxed));
    let header = context.options.header.as_deref();
    let done = luxor::reencrypt(&args.volume, header, &secrets, &options, &context.library);
    done.map_err(|error| match error.class() {
        ErrorClass::Cancelled => error.hint(format!(
            "If the re-encryption has begun, the same command continues it: luxor reencrypt {volume}."
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
