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

/// Checks every copy of the metadata, the length of the data, and, with a key, a keyslot.
///
/// # Errors
/// Fails when something is damaged, and when the key opens no keyslot.
pub(crate) fn run(args: &CheckArgs, context: &Context) -> Result<()> {
    let input = Input::open(&args.volume, Role::Metadata)?;
    // Read without printing warnings: they are part of the result.
    let volume = read(input, context)?;
    let inputs = inputs("VOLUME", &args.volume, context);
    let secrets = (args.passphrase || context.options.key_file.is_some())
        .then(|| SecretSource::new(context, &inputs))
        .transpose()?;
    let found = volume.check();
    print(found.good)?;

    // A key that opens no keyslot is the more important error, so it is reported first.
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

/// Describes the keyslots that the secret opened, one line each.
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
