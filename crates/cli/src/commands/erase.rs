// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor erase`.

use luxor_luks::VolumeHeader;

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
    let erased = match volume.header {
        VolumeHeader::Luks2(mut header) => header.erase(change.storage()),
        VolumeHeader::Luks1(_) => {
            return Err(Error::failure(format!(
                "{} is a LUKS1 volume, whose keyslots this version does not change",
                name(path)
            )));
        }
    };
    erased.map_err(|error| Error::failure(format!("{}: {error}", name(path))))
}
