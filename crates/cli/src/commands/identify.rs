// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands with which scripts identify a volume.

use luxor::{
    LuksMetadata,
    files::{Input, Role},
};

use crate::{
    args::{IsLuksArgs, UuidArgs},
    console,
    context::Context,
    error::{Result, silent},
    volume::{metadata_place, open_metadata},
};

/// Prints the UUID.
///
/// # Errors
/// Fails when there are no valid metadata.
pub(crate) fn uuid(args: &UuidArgs, context: &Context) -> Result<()> {
    let volume = open_metadata(&args.volume, context)?;
    let uuid = luxor::files::Escaped(volume.header.uuid());
    console::print(&format!("{uuid}\n"))
}

/// Succeeds for a volume of the requested type, even if Luxor does not open it: a script may format
/// a file for which this fails.
///
/// # Errors
/// Fails silently when the file is not a volume or has another type, and with a message for other
/// errors.
pub(crate) fn is_luks(args: &IsLuksArgs, context: &Context) -> Result<()> {
    let input = Input::open(metadata_place(&args.volume, context), Role::Metadata)?;
    let Some(version) = LuksMetadata::version(input, &context.library)? else {
        return Err(silent());
    };
    let wanted = args.volume_type.version();
    if wanted.is_none_or(|wanted| wanted == version) {
        Ok(())
    } else {
        Err(silent())
    }
}
