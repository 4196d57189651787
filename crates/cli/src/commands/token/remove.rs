// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor token remove`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::{
    commands::{Subcommand, Taken},
    context::Context,
    error::Result,
    volume::open_to_change,
};

/// Remove a token
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  luxor token remove --token-id 1 backup.luks")]
pub(crate) struct TokenRemoveArgs {
    /// The volume (or its detached header)
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// The token's number
    #[arg(long, value_name = "N")]
    pub token_id: u32,

    /// Remove the token even if it says where the file in the volume ends
    #[arg(long)]
    pub force: bool,
}

impl Subcommand for TokenRemoveArgs {
    const NAME: &str = "remove";
    const TAKES: Taken = Taken::METADATA;

    fn run(&self, context: &Context) -> Result<()> {
        let mut volume = open_to_change(&self.volume, context)?;
        let number = self.token_id;
        volume.remove_token(number, self.force, &context.library)?;
        context.console.note(format!("token {number} removed"));
        Ok(())
    }
}
