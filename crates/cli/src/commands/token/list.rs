// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor token list`.

use std::{io::Write as _, path::PathBuf};

use clap::{Args, ValueHint};
use luxor::files::{Escaped, Output, OutputOptions};

use super::luks2;
use crate::{
    commands::{Subcommand, Taken, dump::list as listed},
    console,
    context::Context,
    error::{Error, Result},
    volume::open_metadata,
};

/// List the tokens
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor token list backup.luks
  luxor token list --json --token-id 0 backup.luks > token.json")]
pub(crate) struct TokenListArgs {
    /// The volume (or its detached header)
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// List only this token
    #[arg(long, value_name = "N")]
    pub token_id: Option<u32>,

    /// Print JSON: one token with --token-id, otherwise an object with all tokens by number
    #[arg(long)]
    pub json: bool,

    /// Write the JSON to FILE, which must not exist
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "json")]
    pub json_file: Option<PathBuf>,
}

impl Subcommand for TokenListArgs {
    const NAME: &str = "list";
    const TAKES: Taken = Taken::METADATA;

    fn run(&self, context: &Context) -> Result<()> {
        let volume = &open_metadata(&self.volume, context)?;
        let header = luks2(volume)?;
        let tokens = header.describe().tokens;
        let json = |number: u32| {
            let missing =
                || Error::failure(format!("{}: there is no token {number}", volume.name()));
            header.token_json(number).ok_or_else(missing)
        };
        // A missing token is an error in both output formats.
        let one = self.token_id.map(json).transpose()?;
        // What other programs keep in tokens need not be UTF-8.
        let mut text = Vec::new();
        match (self.json, one) {
            (true, Some(one)) => text.extend([&*one, b"\n"].concat()),
            (true, None) => {
                let members = tokens.keys().map(|&number| {
                    let name = format!("\"{number}\":");
                    Ok([name.as_bytes(), &json(number)?].concat())
                });
                let members: Vec<_> = members.collect::<Result<_>>()?;
                text = [b"{", &*members.join(&b','), b"}\n"].concat();
            }
            (false, _) => {
                let wanted = tokens
                    .iter()
                    .filter(|(number, _)| self.token_id.is_none_or(|wanted| wanted == **number));
                for (number, token) in wanted {
                    // Writing to a string cannot fail.
                    let _ = writeln!(
                        text,
                        "token {number}: {}, keyslots {}",
                        Escaped(&token.kind),
                        listed(&token.keyslots)
                    );
                }
            }
        }
        let Some(path) = &self.json_file else {
            return console::print_with(|stdout| stdout.write_all(&text));
        };
        let mut output = Output::create(path, &OutputOptions::default())?;
        output.begin(0, None)?;
        output
            .write_all(&text)
            .map_err(|error| Error::io(format!("cannot write {}", output.name()), &error))?;
        output.finish()?;
        Ok(())
    }
}
