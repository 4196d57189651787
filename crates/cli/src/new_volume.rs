// SPDX-License-Identifier: MIT OR Apache-2.0
//! A volume in the making: from the command line, and into an output.

use luxor::Engine;
use luxor_engine::{KeySize, LoadedKey};
use luxor_files::Output;
use luxor_luks::{NewVolume, NewVolumeError, NewVolumeOptions, NotInLuks1, Uuid};
use luxor_sector::SectorSize;

use crate::{
    args::NewVolumeArgs,
    error::{Error, ErrorClass, Result},
};

/// The volume that `args` ask for; `detached` tells that its header is a file of its own.
///
/// # Errors
/// Values that cannot be, and what the version does not have.
pub fn options(args: &NewVolumeArgs, detached: bool) -> Result<NewVolumeOptions> {
    let version = args.volume_type.version();
    let label = args.label.as_ref().map(|label| label.parse());
    let sector_size = args.sector_size.map(SectorSize::try_from);
    let options = NewVolumeOptions {
        sector_size: sector_size
            .transpose()
            .map_err(|error| Error::failure(format!("--sector-size: {error}")))?,
        key_size: key_size(args)?,
        hash: args.hash,
        pbkdf: args.pbkdf.options(version.default_pbkdf())?,
        label: label
            .transpose()
            .map_err(|error| Error::failure(format!("--label: {error}")))?,
        uuid: uuid(args)?,
        detached,
        ..NewVolumeOptions::new(version)
    };
    options
        .check()
        .map_err(|error| Error::failure(error.to_string()).hint("Use --type luks2."))?;
    Ok(options)
}

fn key_size(args: &NewVolumeArgs) -> Result<KeySize> {
    match args.key_size {
        256 => Ok(KeySize::Aes128),
        512 => Ok(KeySize::Aes256),
        bits => Err(Error::failure(format!(
            "--key-size is {bits} bits: it must be 256 (AES-128) or 512 (AES-256)"
        ))),
    }
}

fn uuid(args: &NewVolumeArgs) -> Result<Option<Uuid>> {
    let Some(text) = &args.uuid else {
        return Ok(None);
    };
    // The parser's own words are about its insides.
    text.parse().map(Some).map_err(|_| {
        Error::failure(format!(
            "--uuid: {text:?} is no UUID (32 hexadecimal digits: 8-4-4-4-12)"
        ))
    })
}

/// A volume that could not be made.
pub fn not_made(error: &NewVolumeError) -> Error {
    let class = match error.is_out_of_memory() {
        true => ErrorClass::OutOfMemory,
        false => ErrorClass::Failure,
    };
    Error::new(class, error.to_string())
}

/// A file called `input` that does not fit a LUKS1 volume called `output`.
pub fn does_not_fit(error: NotInLuks1, input: &str, output: &str) -> Error {
    let message = match error {
        NotInLuks1::Length { len } => format!("{input} has {len} bytes: {error}"),
        NotInLuks1::End { end, capacity } => format!(
            "the data would end at byte {end} of {output}, which has {capacity} bytes: {error}"
        ),
        _ => error.to_string(),
    };
    Error::failure(message).hint("Use --type luks2, which keeps every length.")
}

/// The key of the new volume in the engine's hands.
///
/// # Errors
/// Those of the engine.
pub fn load_key(volume: &NewVolume, engine: &Engine) -> Result<Box<dyn LoadedKey>> {
    let key = volume.volume_key();
    let key = key
        .key_spec(volume.segment().encryption)
        .map_err(|error| Error::failure(error.to_string()))?;
    engine.load(&key)
}

/// Writes the metadata where they may be written in any order, or as a stream; on a block device
/// under their locks.
///
/// # Errors
/// Those of the locks and of the system.
pub fn write_header(volume: &NewVolume, output: &mut Output) -> Result<()> {
    let _lock = output.lock_metadata()?;
    let name = output.name();
    let written = match output.as_storage() {
        Some(storage) => volume.write_to(storage),
        None => volume.write_stream(output),
    };
    written.map_err(|error| Error::io(format!("cannot write {name}"), &error))
}
