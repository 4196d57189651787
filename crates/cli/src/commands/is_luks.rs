// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor is-luks`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use luxor::{
    LuksMetadata,
    files::{Input, Role},
};

use crate::{
    args::AnyLuks,
    commands::{Subcommand, Taken},
    context::Context,
    error::{Result, silent},
    volume::metadata_place,
};

/// Exit with 0 if a file is a LUKS volume, else with 1
#[derive(Args, Debug)]
#[command(hide = true)]
pub(crate) struct IsLuksArgs {
    /// The file or device
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// Accept only a volume of this type
    #[arg(long = "type", value_name = "TYPE", value_enum, default_value_t)]
    pub volume_type: AnyLuks,
}

impl Subcommand for IsLuksArgs {
    const NAME: &str = "is-luks";
    const TAKES: Taken = Taken::IDENTIFYING;

    /// Succeeds for a volume of the requested type, even if Luxor does not open it: a script may format
    /// a file for which this fails.
    ///
    /// # Errors
    /// Fails silently when the file is not a volume or has another type, and with a message for other
    /// errors.
    fn run(&self, context: &Context) -> Result<()> {
        let input = Input::open(metadata_place(&self.volume, context), Role::Metadata)?;
        let Some(version) = LuksMetadata::version(input, &context.library)? else {
            return Err(silent());
        };
        let wanted = self.volume_type.version();
        if wanted.is_none_or(|wanted| wanted == version) {
            Ok(())
        } else {
            Err(silent())
        }
    }
}
