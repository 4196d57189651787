// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor reencrypt`.

use std::{
    error::Error as _,
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use clap::ValueEnum;
use luxor::{
    ReencryptOptions, ReencryptPart, ZoneProtection,
    files::{DataFileError, OutputError, path_name},
    luks::{HashAlgorithm, LuksVersion, NewVolumeOptions, PbkdfKind, ReencryptMode},
    sector::SectorSize,
};

use crate::{
    args::{ReencryptArgs, ResilienceName},
    commands::inputs,
    confirm::confirm,
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
        protection: protection(args)?,
        zone: args.hotzone_size,
        device_size: args.device_size,
        most_lost: confirm_loss(args, context)?,
        mode: match (args.encrypt, args.decrypt) {
            (true, _) => Some(ReencryptMode::Encrypt),
            (_, true) => Some(ReencryptMode::Decrypt),
            _ => None,
        },
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
        encrypt(args, &options, context).map(|()| ReencryptMode::Encrypt)
    } else {
        let secrets = SecretSource::new(context, &inputs("VOLUME", &args.volume, context))?;
        let secrets = Asking::new(&secrets, &args.limits);
        let header = context.options.header.as_deref();
        luxor::reencrypt(
            context.place(&args.volume),
            header,
            &secrets,
            &options,
            &context.library,
        )
    };
    let header = context.options.header.as_deref();
    let mut option = String::new();
    if args.decrypt {
        option += " --decrypt";
    }
    if let Some(size) = args.device_size {
        option += &format!(" --device-size {size}");
    }
    let mode = done.map_err(|error| match error.class() {
        ErrorClass::Cancelled => error.hint(format!(
            "If the re-encryption has begun, this continues it: `luxor reencrypt{option} VOLUME`."
        )),
        ErrorClass::Busy => in_use(error),
        _ => error,
    })?;
    let what = match mode {
        ReencryptMode::Encrypt => "encryption",
        ReencryptMode::Decrypt => "decryption",
        ReencryptMode::Reencrypt => "re-encryption",
    };
    let end = match (args.init_only, &header) {
        (true, _) if args.device_size.is_some() => {
            "can begin. The command that continues it needs --device-size again".to_owned()
        }
        (true, _) => "can begin".to_owned(),
        (false, Some(header)) if mode == ReencryptMode::Decrypt => {
            format!(
                "is done, and its header {} is not needed any more",
                path_name(header)
            )
        }
        _ => "is done".to_owned(),
    };
    context
        .console
        .tell(format!("the {what} of {volume} {end}"));
    Ok(())
}

/// Asks before the data after those of `--device-size` are lost. Returns how many bytes these are.
fn confirm_loss(args: &ReencryptArgs, context: &Context) -> Result<Option<u64>> {
    let Some(size) = args.device_size else {
        return Ok(None);
    };
    let header = context.options.header.as_deref();
    let lost = luxor::data_beyond(context.place(&args.volume), header, size, &context.library)?;
    if lost == 0 {
        return Ok(Some(0));
    }
    let what = if args.encrypt {
        "not be encrypted, and not be in the volume"
    } else {
        "be lost"
    };
    let warning = format!(
        "{}: all data after the first {size} bytes will {what}, which are {lost} bytes",
        path_name(&args.volume)
    );
    if args.batch_mode {
        context.library.events.warning(&warning);
    } else {
        confirm(&format!("{warning}."), "--batch-mode")?;
    }
    Ok(Some(lost))
}

/// What protects a zone, if the options say so and permit it.
fn protection(args: &ReencryptArgs) -> Result<Option<ZoneProtection>> {
    use ResilienceName::{Datashift, DatashiftChecksum, DatashiftJournal, Journal};
    let is_shift = args.reduce_device_size.is_some();
    let is_possible = match args.resilience {
        None => true,
        Some(Datashift) => is_shift,
        Some(DatashiftChecksum | DatashiftJournal) => args.decrypt,
        Some(_) => !is_shift,
    };
    if let (Some(resilience), false) = (args.resilience, is_possible) {
        let name = resilience.to_possible_value();
        let name = name.as_ref().map_or("", |name| name.get_name());
        let text = format!("--resilience {name} is not possible with the other options");
        return Err(Error::failure(text).hint(
            "--encrypt --reduce-device-size takes only datashift, and only --decrypt takes \
             datashift-checksum and datashift-journal.",
        ));
    }
    Ok(match (args.resilience, args.resilience_hash) {
        (None, None) => None,
        _ if is_shift => None,
        (Some(Journal | DatashiftJournal), _) => Some(ZoneProtection::Journal),
        (Some(ResilienceName::None), _) => Some(ZoneProtection::None),
        (_, hash) => {
            let hash = hash.unwrap_or(HashAlgorithm::Sha256);
            Some(ZoneProtection::Checksum(hash))
        }
    })
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
        Ok(header) => luxor::encrypt_in_place(
            context.place(volume),
            header,
            &new,
            secret,
            options,
            library,
        )
        .map_err(|error| interrupted(error, header)),
        Err(size) => luxor::encrypt_with_header_in_front(
            context.place(volume),
            size,
            &new,
            secret,
            options,
            library,
        ),
    }
}

/// Adds what to do when the header exists, as after an interruption.
fn interrupted(error: Error, header: &Path) -> Error {
    let source = error.source().and_then(|source| source.downcast_ref());
    if !matches!(source, Some(OutputError::Exists { .. })) {
        return error;
    }
    let header = path_name(header);
    Error::new(error.class(), format!("{header} exists already")).hint(
        "If --encrypt was interrupted, it is needed, and this continues: `luxor reencrypt VOLUME`.",
    )
}

/// Adds what to do when the volume is in use. The general hints name the option `--read-only`.
fn in_use(error: Error) -> Error {
    match error.source().and_then(|source| source.downcast_ref()) {
        Some(DataFileError::InUse { .. } | DataFileError::Locked { .. }) => {
            error.hint("Run the command again when nothing else uses the volume.")
        }
        _ => error,
    }
}
