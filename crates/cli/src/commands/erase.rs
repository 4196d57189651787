// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor erase`.

use crate::{
    args::EraseArgs, confirm::confirm, context::Context, error::Result, volume::open_to_change,
};

/// Destroys all keyslots of a volume.
///
/// # Errors
/// Fails when the volume cannot be read or written, and when the user does not confirm.
pub(crate) fn run(args: &EraseArgs, context: &Context) -> Result<()> {
    let mut volume = open_to_change(&args.volume, context)?;
    if !args.batch_mode {
        let warning = format!(
            "All keyslots of {} will be destroyed (in use: {}). Without a backup of the header \
             its data can never be read again.",
            volume.name(),
            volume.header.keyslot_numbers().len()
        );
        confirm(&warning, "--batch-mode")?;
    }
    volume.change(&context.library, |header, storage| header.erase(storage))
}
