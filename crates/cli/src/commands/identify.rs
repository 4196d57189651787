// SPDX-License-Identifier: MIT OR Apache-2.0
//! What scripts ask about a file: whether it is a volume, and which.

use crate::{
    args::{GlobalArgs, IsLuksArgs, UuidArgs},
    console::{self, Console},
    error::{Error, Result},
    input::{Input, Role},
    volume::Volume,
};

/// Prints the UUID.
///
/// # Errors
/// When there is no valid metadata.
pub fn uuid(args: &UuidArgs, global: &GlobalArgs, console: Console) -> Result<()> {
    let volume = Volume::open_metadata(&args.volume, Role::Metadata, global, console)?;
    let uuid = super::dump::Escaped(volume.header.uuid());
    console::print(&format!("{uuid}\n"))
}

/// Succeeds for volumes of the type asked for.
///
/// # Errors
/// For everything else: silently, but for `-v` and for files that cannot be read.
pub fn is_luks(args: &IsLuksArgs, global: &GlobalArgs, console: Console) -> Result<()> {
    let path = global.header.as_deref().unwrap_or(&args.volume);
    let input = Input::open(path, Role::Metadata)?;
    let volume = Volume::read(input, global).map_err(|error| {
        console.note(error.message());
        Error::silent()
    })?;
    match args.volume_type.is(&volume.header) {
        true => Ok(()),
        false => Err(Error::silent()),
    }
}
