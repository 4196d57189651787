// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor convert`.

use luxor_files::Role;
use luxor_luks::{ConvertError, VolumeHeader};

use crate::{
    args::{ConvertArgs, GlobalArgs, VolumeType},
    confirm::confirm,
    console::Console,
    error::{Error, Result},
    volume::{Volume, exclusive},
};

/// Makes a volume one of the other LUKS version, in place.
///
/// # Errors
/// When it is of that version, or has what the other version has not, is in use or
/// cannot be written, and without a yes.
pub fn run(args: &ConvertArgs, global: &GlobalArgs, console: Console) -> Result<()> {
    let volume = Volume::open_metadata(&args.volume, Role::Change, global, console)?;
    let shown = volume.name();
    let already = match (&volume.header, args.volume_type) {
        (VolumeHeader::Luks1(_), VolumeType::Luks1) => Some("LUKS1"),
        (VolumeHeader::Luks2(_), VolumeType::Luks2) => Some("LUKS2"),
        _ => None,
    };
    if let Some(version) = already {
        return Err(Error::failure(format!(
            "{shown} is a {version} volume already"
        )));
    }
    if !args.batch_mode {
        let warning = format!(
            "The header of {shown} will be written anew in the other format. A backup of it \
             (luxor header backup) is wise."
        );
        confirm(&warning, "--batch-mode")?;
    }
    let change = volume.begin_change()?;
    let _exclusive = exclusive(&change)?;
    let converted = match volume.header.clone() {
        VolumeHeader::Luks1(header) => header.convert_to_luks2(change.storage()).map(drop),
        VolumeHeader::Luks2(header) => header
            .convert_to_luks1(change.storage(), args.force)
            .map(drop),
    };
    converted.map_err(|error| {
        let failure = Error::failure(format!("{shown}: {error}"));
        match error {
            ConvertError::Loses { .. } => failure.hint("With --force it is lost."),
            ConvertError::Damaged => failure.hint("luxor header repair does it."),
            _ => failure,
        }
    })
}
