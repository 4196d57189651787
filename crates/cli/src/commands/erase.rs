// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor erase`.

use crate::{
    args::{EraseArgs, GlobalArgs},
    change::Change,
    confirm::confirm,
    console::Console,
    error::{Error, Result, name},
    input::{Input, Role},
    volume::Volume,
};

/// Destroys all keyslots of a volume.
///
/// # Errors
/// When it is none, or cannot be written, and without a yes.
pub fn run(args: &EraseArgs, global: &GlobalArgs, console: Console) -> Result<()> {
    let path = global.header.as_ref().unwrap_or(&args.volume);
    let volume = Volume::open(Input::open(path, Role::Metadata)?, global, console)?;
    if !args.batch_mode {
        let warning = format!(
            "All keyslots of {} will be destroyed (in use: {}). Without a backup of the header \
             its data can never be read again.",
            name(path),
            volume.header.keyslots().len()
        );
        confirm(&warning, "--batch-mode")?;
    }
    let change = Change::begin(path)?;
    let mut header = volume.header;
    header
        .erase(change.storage())
        .map_err(|error| Error::failure(format!("{}: {error}", name(path))))
}
