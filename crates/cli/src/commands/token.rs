// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor token`: objects that the metadata keep for other programs.

mod add;
mod list;
mod remove;

use clap::Args;
use luxor::{LuksMetadata, luks::Luks2Header};

use crate::{
    commands::{Subcommand, Taken},
    context::Context,
    error::{Error, Result},
};

/// List, add and remove the tokens of a LUKS2 volume
///
/// A token is a JSON object in the metadata that tells a program how to obtain a passphrase.
/// Luxor preserves tokens. It uses only its own, of the type luxor-file, which holds the
/// length of a file.
#[derive(Args, Debug)]
pub(crate) struct TokenArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: TokenCommand,
}

commands! {
    /// `token`'s commands.
    TokenCommand {
        List(list::TokenListArgs),
        Add(add::TokenAddArgs),
        Remove(remove::TokenRemoveArgs),
    }
}

impl Subcommand for TokenArgs {
    const NAME: &str = "token";
    const TAKES: Taken = Taken::Each(TokenCommand::TAKES);

    fn run(&self, context: &Context) -> Result<()> {
        self.command.run(context)
    }

    fn output_is_stdout(&self) -> bool {
        self.command.output_is_stdout()
    }
}

fn luks2(volume: &LuksMetadata) -> Result<&Luks2Header> {
    volume.header.luks2().ok_or_else(|| {
        let name = volume.name();
        Error::failure(format!(
            "{name} is a LUKS1 volume, and only LUKS2 has tokens"
        ))
    })
}
