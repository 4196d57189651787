// SPDX-License-Identifier: MIT OR Apache-2.0
//! What scripts ask about a file: whether it is a volume, and which.

use luxor::Volume;
use luxor_files::{Input, Role};

use crate::{
    args::{IsLuksArgs, UuidArgs},
    console,
    context::Context,
    error::{Result, silent},
    volume::open_metadata,
};

/// Prints the UUID.
///
/// # Errors
/// When there is no valid metadata.
pub(crate) fn uuid(args: &UuidArgs, context: &Context) -> Result<()> {
    let volume = open_metadata(&args.volume, Role::Metadata, context)?;
    let uuid = luxor_files::Escaped(volume.header.uuid());
    console::print(&format!("{uuid}\n"))
}

/// Succeeds for volumes of the type asked for, also for those that Luxor does not open:
/// scripts format what is none.
///
/// # Errors
/// For everything else: silently when it is no volume or one of another type.
pub(crate) fn is_luks(args: &IsLuksArgs, context: &Context) -> Result<()> {
    let path = context.options.header.as_deref().unwrap_or(&args.volume);
    let input = Input::open(path, Role::Metadata)?;
    let Some(version) = Volume::version(input, &context.library)? else {
        return Err(silent());
    };
    let wanted = args.volume_type.version();
    if wanted.is_none_or(|wanted| wanted == version) {
        Ok(())
    } else {
        Err(silent())
    }
}
