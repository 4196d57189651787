// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor check`.

use luxor::Engine;
use luxor_engine::Mode;
use luxor_files::{Input, Role};
use luxor_luks::Unlocked;
use serde::Serialize;

use crate::{
    args::CheckArgs,
    commands::inputs,
    console,
    context::Context,
    error::{Error, Result},
    secrets::SecretSource,
    volume::{read, test_unlock},
};

/// Checks every copy of the metadata, the length of the data, and, with a key, a keyslot.
///
/// # Errors
/// Fails when something is damaged, and when the key opens no keyslot.
pub(crate) fn run(args: &CheckArgs, context: &Context) -> Result<()> {
    let input = Input::open(&args.volume, Role::Metadata)?;
    // Read without printing warnings: they are part of the result.
    let volume = read(input, context)?;
    let inputs = inputs("VOLUME", &args.volume, context);
    let general = &context.options;
    let is_given = general.key_file.is_some() || general.passphrase_fd.is_some();
    let secrets = (args.passphrase || is_given)
        .then(|| SecretSource::new(context, &inputs))
        .transpose()?;
    let found = volume.check();
    if !args.json {
        print(&found.good)?;
    }
    let opened = secrets.map(|secrets| {
        let engine = Engine::select(&context.library, Mode::Xts)?;
        test_unlock(&volume, &secrets, &*engine.backend, &args.unlock, context)
    });
    let keyslots = match &opened {
        Some(Ok(unlocked)) => opened_keyslots(unlocked),
        _ => Vec::new(),
    };
    if args.json {
        let report = Report {
            schema: 1,
            good: &found.good,
            damage: &found.damage,
            keyslots,
        };
        let json = serde_json::to_string_pretty(&report).expect("texts and numbers are JSON");
        console::print(&(json + "\n"))?;
    } else {
        let lines = keyslots.iter().map(|OpenedKeyslot { keyslot, digest }| {
            format!("keyslot {keyslot}: good (the key agrees with digest {digest})")
        });
        print(&lines.collect::<Vec<_>>())?;
    }

    // A key that opens no keyslot is the more important error, so it is reported first.
    if let Some(Err(error)) = opened {
        for damage in found.damage {
            context.console.warn(damage);
        }
        return Err(error);
    }
    if found.damage.is_empty() {
        return Ok(());
    }
    let damage = found.damage.join("; ");
    let name = volume.name();
    Err(Error::failure(format!("{name} is damaged: {damage}")))
}

/// The output of `--json`. `docs/examples/check.json` is an example.
#[derive(Debug, Serialize)]
struct Report<'a> {
    schema: u32,
    good: &'a [String],
    damage: &'a [String],
    /// What the key opened.
    keyslots: Vec<OpenedKeyslot>,
}

#[derive(Debug, Serialize)]
struct OpenedKeyslot {
    keyslot: u32,
    /// The digest with which its key agrees.
    digest: u32,
}

/// Returns the keyslots that the secret opened.
fn opened_keyslots(unlocked: &Unlocked) -> Vec<OpenedKeyslot> {
    let others = unlocked.others.iter().map(|key| (key.keyslot, key.digest));
    let first = [(unlocked.keyslot, unlocked.digest)];
    let opened = first.into_iter().chain(others);
    opened
        .map(|(keyslot, digest)| OpenedKeyslot { keyslot, digest })
        .collect()
}

fn print(lines: &[String]) -> Result<()> {
    let lines = lines.iter().map(|line| format!("{line}\n"));
    console::print(&lines.collect::<String>())
}
