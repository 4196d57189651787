// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor key list`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use luxor::{
    files::Escaped,
    luks::{Luks2Header, Priority},
};

use crate::{
    commands::{Subcommand, Taken, dump::kdf_text},
    console,
    context::Context,
    error::Result,
    volume::open_metadata,
};

/// List the keyslots: their key derivation and its cost, their priority, and their tokens
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor key list backup.luks")]
pub(crate) struct KeyListArgs {
    /// The volume (or its detached header)
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,
}

impl Subcommand for KeyListArgs {
    const NAME: &str = "list";
    const TAKES: Taken = Taken::KEYS;

    /// Prints the keyslots, one line each.
    fn run(&self, context: &Context) -> Result<()> {
        let volume = open_metadata(&self.volume, context)?;
        let luks2 = volume.header.luks2().map(Luks2Header::describe);
        let mut rows = vec![["keyslot", "key derivation", "priority", "tokens"].map(String::from)];
        let of_data = volume.header.data_keyslots();
        let keys = volume
            .header
            .luks2()
            .and_then(Luks2Header::keyslots_of_keys);
        for (number, keyslot) in volume.header.keyslots() {
            let tokens = luks2.iter().flat_map(|header| header.tokens);
            let tokens = tokens.filter(|(_, token)| token.keyslots.contains(number));
            let tokens: Vec<_> = tokens
                .map(|(token, found)| format!("{token} ({})", Escaped(&found.kind)))
                .collect();
            let mut kdf = kdf_text(&keyslot.kdf);
            kdf += match &keys {
                _ if !of_data.contains(number) => ", unbound",
                Some((old, _)) if old.contains(number) => ", old key",
                Some((_, new)) if new.contains(number) => ", new key",
                _ => "",
            };
            rows.push([
                number.to_string(),
                kdf,
                priority_name(keyslot.priority).to_owned(),
                tokens.join(", "),
            ]);
        }
        for (number, keyslot) in luks2.iter().flat_map(|header| header.foreign_keyslots) {
            let kind = if keyslot.breaks_rule {
                format!("damaged: {}", Escaped(&keyslot.what))
            } else {
                format!("{}, unknown to this version", Escaped(&keyslot.kind))
            };
            rows.push([number.to_string(), kind, String::new(), String::new()]);
        }
        for (number, damage) in volume.header.damaged_keyslots() {
            let kind = format!("damaged: {damage}");
            rows.push([number.to_string(), kind, String::new(), String::new()]);
        }
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
        let widths = [0, 1, 2].map(|column| width(column).unwrap_or(0));
        let mut text = String::new();
        for [number, kdf, priority, tokens] in &rows {
            let [a, b, c] = widths;
            let line = format!("{number:<a$}  {kdf:<b$}  {priority:<c$}  {tokens}");
            text += line.trim_end();
            text += "\n";
        }
        console::print(&text)
    }
}

/// Returns the name in `config --priority`.
fn priority_name(priority: Priority) -> &'static str {
    match priority {
        Priority::Ignore => "ignore",
        Priority::Normal => "normal",
        Priority::Prefer => "prefer",
    }
}
