// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor convert`.

use luxor::exclusive;
use luxor_files::Role;
use luxor_luks::ConvertError;

use crate::{
    args::ConvertArgs,
    confirm::confirm,
    context::Context,
    error::{Error, Result},
    volume::open_metadata,
};

/// Makes a volume one of the other LUKS version, in place.
///
/// # Errors
/// When it is of that version, or has what the other version has not, is in use or
/// cannot be written, and without a yes.
pub(crate) fn run(args: &ConvertArgs, context: &Context) -> Result<()> {
    let volume = open_metadata(&args.volume, Role::Change, context)?;
    let shown = volume.name();
    let version = volume.header.version();
    if version == args.volume_type.version() {
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
    let converted = volume.header.clone();
    let converted = converted.convert(change.storage(), args.force);
    converted.map_err(|error| {
        let failure = Error::failure(format!("{shown}: {error}"));
        match error {
            ConvertError::Loses { .. } => failure.hint("With --force it is lost."),
            ConvertError::Damaged => failure.hint("luxor header repair does it."),
            _ => failure,
        }
    })
}
