// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor convert`.

use crate::{
    args::VolumeType,
    commands::{Subcommand, Taken},
    confirm::confirm,
    context::Context,
    error::{Error, Result},
    volume::open_to_change,
};
use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Convert a LUKS1 volume to LUKS2, or the other way round
///
/// Rewrites the header in place. Keyslots, UUID and data stay the same, and no key is
/// needed. A crash leaves a volume of either version that opens with every key.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor convert --type luks2 old.luks
  luxor convert --type luks1 --batch-mode photos.luks")]
pub(crate) struct ConvertArgs {
    /// The volume, or its detached header
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// The new format: luks2 or luks1
    #[arg(long = "type", value_name = "TYPE", value_enum)]
    #[arg(hide_possible_values = true)]
    pub volume_type: VolumeType,

    /// Do not ask for confirmation
    #[arg(long)]
    pub batch_mode: bool,

    /// Drop what LUKS1 cannot store: tokens, labels, flags, priorities
    #[arg(long)]
    pub force: bool,
}

impl Subcommand for ConvertArgs {
    const NAME: &str = "convert";
    const TAKES: Taken = Taken::METADATA;

    /// Converts a volume to the other version of LUKS, in place.
    ///
    /// # Errors
    /// Fails when the volume has that version already, when the other version cannot represent it, when
    /// it is in use or cannot be written, and when the user does not confirm.
    fn run(&self, context: &Context) -> Result<()> {
        let volume = open_to_change(&self.volume, context)?;
        let shown = volume.name();
        let version = volume.header.version();
        if version == self.volume_type.version() {
            return Err(Error::failure(format!(
                "{shown} is already a {version} volume"
            )));
        }
        volume.check_changeable()?;
        if !self.batch_mode {
            let warning = format!(
                "The header of {shown} will be rewritten in the other format. Make a backup of it \
             first (`luxor header backup VOLUME NEW-FILE`)."
            );
            confirm(&warning, "--batch-mode")?;
        }
        volume.convert(self.force, &context.library)
    }
}
