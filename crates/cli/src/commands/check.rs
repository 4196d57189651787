// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor check`.

use luxor::Engine;
use luxor_engine::Mode;
use luxor_files::{Input, Role};
use luxor_luks::Unlocked;

use crate::{
    args::CheckArgs,
    commands::inputs,
    console,
    context::Context,
    error::{Error, Result},
    secrets::SecretSource,
    volume::{read, test_unlock},
};

/// Checks the metadata in all their copies, the data's length, and with a key a
/// keyslot too.
///
/// # Errors
/// When something is damaged, or the key opens nothing.
pub(crate) fn run(args: &CheckArgs, context: &Context) -> Result<()> {
    let input = Input::open(&args.volume, Role::Metadata)?;
    // Warnings are the result here.
    let volume = read(input, context)?;
    let inputs = inputs("VOLUME", &args.volume, context);
    let secrets = (args.passphrase || context.options.key_file.is_some())
        .then(|| SecretSource::new(context, &inputs))
        .transpose()?;
    let found = volume.check();
    print(found.good)?;

    // A key that opens nothing counts more than a damaged copy: it comes first.
    if let Some(secrets) = secrets {
        let engine = Engine::select(&context.library, Mode::Xts)?;
        match test_unlock(&volume, &secrets, &*engine.backend, &args.unlock, context) {
            Ok(unlocked) => print(opened(&unlocked))?,
            Err(error) => {
                for damage in found.damage {
                    context.console.warn(damage);
                }
                return Err(error);
            }
        }
    }
    if found.damage.is_empty() {
        return Ok(());
    }
    let damage = found.damage.join("; ");
    let name = volume.name();
    Err(Error::failure(format!("{name} is damaged: {damage}")))
}

/// The keyslots that the secret has opened, a line each.
fn opened(unlocked: &Unlocked) -> Vec<String> {
    let others = unlocked.others.iter().map(|key| (key.keyslot, key.digest));
    let first = [(unlocked.keyslot, unlocked.digest)];
    let lines = first.into_iter().chain(others).map(|(keyslot, digest)| {
        format!("keyslot {keyslot}: good (the key agrees with digest {digest})")
    });
    lines.collect()
}

fn print(lines: Vec<String>) -> Result<()> {
    let lines = lines.into_iter().map(|line| line + "\n");
    console::print(&lines.collect::<String>())
}
