// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor convert`.

use crate::{
    args::ConvertArgs,
    confirm::confirm,
    context::Context,
    error::{Error, Result},
    volume::open_to_change,
};

/// Converts a volume to the other version of LUKS, in place.
///
/// # Errors
/// Fails when the volume has that version already, when the other version cannot represent it, when
/// it is in use or cannot be written, and when the user does not confirm.
pub(crate) fn run(args: &ConvertArgs, context: &Context) -> Result<()> {
    let volume = open_to_change(&args.volume, context)?;
    let shown = volume.name();
    let version = volume.header.version();
    if version == args.volume_type.version() {
        return Err(Error::failure(format!(
            "{shown} is already a {version} volume"
        )));
    }
    volume.check_changeable()?;
    if !args.batch_mode {
        let warning = format!(
            "The header of {shown} will be rewritten in the other format. Make a backup of it \
             first (`luxor header backup VOLUME NEW-FILE`)."
        );
        confirm(&warning, "--batch-mode")?;
    }
    volume.convert(args.force, &context.library)
}
