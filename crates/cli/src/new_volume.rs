// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of a new volume.

use std::{fs, path::Path};

use luxor::{
    KeyFile, NewFiles,
    engine::KeySize,
    files::{Needed, path_name, quoted, shell_word},
    luks::{Encryption, Label, LuksVersion, NewVolumeError, NewVolumeOptions, Uuid, VolumeKey},
    sector::SectorSize,
};

use crate::{
    args::NewVolumeArgs,
    context::Context,
    error::{Error, Result},
    process,
    secrets::check_streams,
};

/// The unit of `--offset` in bytes, as in cryptsetup.
const UNIT: u64 = 512;

/// Returns the options that `args` describe. `inputs` are the files that the command reads, with their
/// names on the command line.
///
/// # Errors
/// Fails for invalid values, and for values that the version of LUKS does not support.
pub(crate) fn options(
    args: &NewVolumeArgs,
    inputs: &[(&str, &Path)],
    context: &Context,
) -> Result<NewVolumeOptions> {
    let keys = needed(context).into_iter();
    let keys = keys.filter_map(|(what, path)| Some((what, path?)));
    check_streams(&keys.chain(inputs.iter().copied()).collect::<Vec<_>>())?;
    let version = args.volume_type.version();
    let sector_size = args.sector_size.map(SectorSize::try_from);
    let mut options = NewVolumeOptions {
        sector_size: sector_size
            .transpose()
            .map_err(|error| Error::failure(format!("--sector-size: {error}")))?,
        key_size: key_size(args.key_size)?,
        volume_key: key_of_volume(args, context)?,
        hash: args.hash,
        pbkdf: args.pbkdf.options(version.default_pbkdf())?,
        keyslot: args.key_slot,
        label: label("--label", args.label.as_deref())?,
        subsystem: label("--subsystem", args.subsystem.as_deref())?,
        uuid: uuid(args.uuid.as_deref())?,
        detached: context.options.header.is_some(),
        ..NewVolumeOptions::new(version)
    };
    let data_offset = args.offset.map(|units| units.saturating_mul(UNIT));
    options
        .set_layout(
            args.luks2_metadata_size,
            args.luks2_keyslots_size,
            data_offset,
        )
        .map_err(|error| Error::failure(error.to_string()))?;
    options.check().map_err(|error| match error {
        NewVolumeError::NotInLuks1(error) => {
            Error::failure(error.to_string()).hint("Use --type luks2.")
        }
        error => error.into(),
    })?;
    Ok(options)
}

/// Returns the size of a volume key of `bits` bits.
///
/// # Errors
/// Fails if it is neither 256 nor 512.
pub(crate) fn key_size(bits: u32) -> Result<KeySize> {
    match bits {
        256 => Ok(KeySize::Aes128),
        512 => Ok(KeySize::Aes256),
        bits => Err(Error::failure(format!(
            "--key-size is {bits} bits: it must be 256 (AES-128) or 512 (AES-256)"
        ))),
    }
}

/// Reads the volume key of a new volume, if the options name one.
fn key_of_volume(args: &NewVolumeArgs, context: &Context) -> Result<Option<VolumeKey>> {
    let Some(path) = &context.options.volume_key_file else {
        return Ok(None);
    };
    process::harden(context.console);
    let key = volume_key(path)?;
    let (found, needed) = (8 * key.expose().len(), args.key_size as usize);
    if found == needed {
        return Ok(Some(key));
    }
    let message = format!(
        "the volume key in {} has {found} bits, and --key-size is {needed}",
        path_name(path)
    );
    Err(Error::failure(message).hint(format!("Use --key-size {found}.")))
}

/// Reads a volume key of 256 or 512 bits.
///
/// # Errors
/// Fails when the file cannot be read, and when it has no such key.
pub(crate) fn volume_key(path: &Path) -> Result<VolumeKey> {
    let file = KeyFile::whole(path);
    let key = file.read()?;
    let failed = |text: String| Error::failure(format!("the volume key in {}{text}", file.name()));
    let bits = 8 * key.len();
    if !matches!(bits, 256 | 512) {
        return Err(failed(format!(" has {bits} bits: it must have 256 or 512")));
    }
    let key = VolumeKey::new(key, Encryption::AesXtsPlain64, false);
    key.map_err(|error| failed(format!(": {error}")))
}

/// The files that the outputs must not overwrite.
pub(crate) fn needed(context: &Context) -> [(&'static str, Option<&Path>); 2] {
    let options = &context.options;
    [
        ("the key file", options.key_file.as_deref()),
        ("the volume key file", options.volume_key_file.as_deref()),
    ]
}

/// Parses the label of `option`, if it was given.
///
/// # Errors
/// Fails when it is too long.
pub(crate) fn label(option: &str, text: Option<&str>) -> Result<Option<Label>> {
    let wrong = |error| Error::failure(format!("{option}: {error}"));
    text.map(|text| text.parse().map_err(wrong)).transpose()
}

/// Parses the value of `--uuid`, if it was given.
///
/// # Errors
/// Fails when it is not a UUID.
pub(crate) fn uuid(text: Option<&str>) -> Result<Option<Uuid>> {
    let Some(text) = text else {
        return Ok(None);
    };
    // The parser's own message describes its internals.
    text.parse().map(Some).map_err(|_| {
        Error::failure(format!(
            "--uuid: {} is not a UUID (32 hexadecimal digits: 8-4-4-4-12)",
            quoted(text)
        ))
    })
}

/// Returns the files of a new volume: `volume`, and the detached header if the options name one.
pub(crate) fn files<'a>(
    volume: &'a Path,
    force: bool,
    needed: Needed<'a>,
    context: &'a Context,
) -> NewFiles<'a> {
    NewFiles {
        volume,
        header: context.options.header.as_deref(),
        force,
        needed,
    }
}

/// Returns what was made, and how not to lose it.
pub(crate) fn made(output: &Path, options: &NewVolumeOptions, context: &Context) -> String {
    let (version, volume) = (options.version, path_name(output));
    if let Some(header) = context.options.header.as_deref() {
        let header = path_name(header);
        return format!(
            "{volume} has the encrypted data, and {header} the {version} header. Keep a copy of {header}: \
             without it the data are lost"
        );
    }
    let header = options.data_offset();
    let file = fs::metadata(output);
    let file = file.ok().filter(fs::Metadata::is_file);
    let has_usual_header = version == LuksVersion::Luks2 && options.header_sizes.is_none();
    let is_small = file.as_ref().is_some_and(|file| file.len() < 2 * header);
    let smaller = if has_usual_header && is_small {
        ", most of it its header of 16 MiB: --luks2-keyslots-size 512K makes one of 544 KiB"
    } else {
        ""
    };
    let backup = match file {
        Some(_) => shell_word(&output.with_added_extension("header")),
        None => "NEW-FILE".to_owned(),
    };
    let output = shell_word(output);
    format!(
        "{volume} is a {version} volume{smaller}. Without its header the data are lost, so keep a backup of \
         that: `luxor header backup {output} {backup}`"
    )
}
