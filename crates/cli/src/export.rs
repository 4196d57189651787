// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exports a volume as a disk, with the options of the command line.

mod background;
#[cfg(test)]
mod tests;

use luxor::{Export, ExportOptions, PlainVolume, ReencryptOptions};
use luxor_files::{DataFile, Role, is_same_file};
use luxor_luks::LuksVersion;
use luxor_sector::SectorSize;

use crate::{
    args::{ExportArgs, ExportType, PlainArgs, ReencryptWhen},
    commands::inputs,
    context::Context,
    error::{Error, Result},
    log,
    secrets::SecretSource,
    volume::{self, Asking, unlock_options},
};

pub(crate) use self::background::Background;

/// A volume that is exported, and what is left of its re-encryption with `--reencrypt`.
pub(crate) type Opened = (Export, Option<background::Work>);

/// Opens the volume that `args` name, and asks for its secret if necessary.
///
/// # Errors
/// Fails when the volume or the secret cannot be used, when another program uses the volume, and
/// when options contradict each other.
pub(crate) fn open(args: &ExportArgs, context: &Context) -> Result<Opened> {
    match args.kind {
        ExportType::Luks => open_luks(None, args, context),
        ExportType::Luks1 => open_luks(Some(LuksVersion::Luks1), args, context),
        ExportType::Luks2 => open_luks(Some(LuksVersion::Luks2), args, context),
        ExportType::Plain => Ok((open_plain(args, context)?, None)),
    }
}

fn open_luks(
    required: Option<LuksVersion>,
    args: &ExportArgs,
    context: &Context,
) -> Result<Opened> {
    if let Some(option) = args.plain.given() {
        return Err(Error::failure(format!(
            "{option} is only for --type plain: a LUKS volume has this value in its header"
        )));
    }
    let options = options(args);
    let data = DataFile::open(context.place(&args.volume), options.access())?;
    let secrets = SecretSource::new(context, &inputs("VOLUME", &args.volume, context))?;
    let mut volume = volume::open(data.input()?, context)?;
    let reencrypts = match args.reencrypt {
        Some(ReencryptWhen::Always) => true,
        Some(ReencryptWhen::Begun) => volume.header.is_reencrypting(),
        None => false,
    };
    if reencrypts {
        volume = volume::open_metadata(&args.volume, Role::Change, context)?;
        let header = context.options.header.as_deref();
        if header.is_some_and(|header| !is_same_file(header, &args.volume)) {
            volume = volume.with_data(data.input()?);
        }
    }
    let version = volume.header.version();
    if required.is_some_and(|required| required != version) {
        return Err(Error::failure(format!(
            "{} does not match --type: it is a {version} volume",
            volume.name()
        )));
    }
    let secrets = Asking::new(&secrets, &args.unlock.limits);
    let unlock = unlock_options(&args.unlock);
    if reencrypts {
        log::begin(&context.options);
        let new = ReencryptOptions {
            zone: args.hotzone_size,
            unlock,
            ..ReencryptOptions::default()
        };
        let context = background::context(&context.library);
        let (export, reencryption) =
            luxor::reencrypt_in_use(volume, data, &secrets, &new, &options, &context)?;
        let work = background::Work {
            reencryption,
            name: export.name.clone(),
            rate: args.reencrypt_rate,
            cancel: context.cancel,
        };
        return Ok((export, Some(work)));
    }
    let context = &context.library;
    let secrets = secrets.beside_tokens(&volume, args.unlock.key_slot);
    let export = Export::open(volume, data, &secrets, &unlock, &options, context)?;
    Ok((export, None))
}

fn open_plain(args: &ExportArgs, context: &Context) -> Result<Export> {
    check_no_header(args, context)?;
    let volume = plain_volume(&args.plain)?;
    let secret = || {
        let inputs = inputs("VOLUME", &args.volume, context);
        SecretSource::of_key(context, volume.key_len(), &inputs)?.existing(&args.volume, None)
    };
    let allow_weak_key = args.unlock.limits.allow_weak_key;
    Export::open_plain(
        context.place(&args.volume),
        &volume,
        secret,
        allow_weak_key,
        &options(args),
        &context.library,
    )
}

/// Refuses options about headers and keyslots.
fn check_no_header(args: &ExportArgs, context: &Context) -> Result<()> {
    let limits = &args.unlock.limits;
    let given = [
        ("--header", context.options.header.is_some()),
        (
            "--require-type",
            context.options.policy.require_type.is_some(),
        ),
        (
            "--require-cipher",
            !context.options.policy.require_cipher.is_empty(),
        ),
        (
            "--require-pbkdf",
            !context.options.policy.require_pbkdf.is_empty(),
        ),
        (
            "--header-digest",
            context.options.policy.header_digest.is_some(),
        ),
        ("--reencrypt", args.reencrypt.is_some()),
        ("--key-slot", args.unlock.key_slot.is_some()),
        ("--pbkdf-memory-limit", limits.pbkdf_memory_limit.is_some()),
        (
            "--pbkdf-iterations-limit",
            limits.pbkdf_iterations_limit.is_some(),
        ),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((option, _)) => Err(Error::failure(format!(
            "{option} cannot be used with --type plain: there is no header"
        ))),
    }
}

/// Takes the values from the options, or the defaults.
fn plain_volume(args: &PlainArgs) -> Result<PlainVolume> {
    let default = PlainVolume::default();
    let sector_size = match args.sector_size {
        None => default.sector_size,
        Some(bytes) => SectorSize::try_from(bytes)
            .map_err(|error| Error::failure(format!("--sector-size: {error}")))?,
    };
    Ok(PlainVolume {
        encryption: args.cipher.unwrap_or(default.encryption),
        key_bits: args.key_size.unwrap_or(default.key_bits),
        offset: args.offset.unwrap_or(default.offset),
        size: args.size,
        skip: args.skip.unwrap_or(default.skip),
        sector_size,
        iv_large_sectors: args.iv_large_sectors,
    })
}

fn options(args: &ExportArgs) -> ExportOptions {
    ExportOptions {
        read_only: args.read_only,
        allow_discards: args.allow_discards,
        direct: args.direct,
    }
}
