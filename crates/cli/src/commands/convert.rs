// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor convert`.

use luxor_files::Role;

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
            "{shown} is already a {version} volume"
        )));
    }
    if !args.batch_mode {
        let warning = format!(
            "The header of {shown} will be rewritten in the other format. Make a backup of it \
             first (luxor header backup)."
        );
        confirm(&warning, "--batch-mode")?;
    }
    volume.convert(args.force)
}
