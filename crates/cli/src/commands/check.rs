// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor check`.

use std::fmt::Write;

use luxor::Engine;
use luxor_engine::Mode;
use luxor_files::{Input, Role};
use luxor_luks::{UnlockError, VolumeHeader};

use crate::{
    args::CheckArgs,
    commands::{dump::Escaped, inputs},
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
pub fn run(args: &CheckArgs, context: &Context) -> Result<()> {
    let input = Input::open(&args.volume, Role::Metadata)?;
    // Warnings are the result here.
    let volume = read(input, context)?;
    let secrets = match args.passphrase || context.options.key_file.is_some() {
        true => Some(SecretSource::new(
            context,
            &inputs("VOLUME", &args.volume, context),
        )?),
        false => None,
    };

    let mut damage = Vec::new();
    let mut good = String::new();
    match &volume.header {
        VolumeHeader::Luks1(_) => good.push_str("header: good (LUKS1: one copy, no checksum)\n"),
        VolumeHeader::Luks2(header) => {
            for copy in header.describe().copies {
                let name = copy.kind.name();
                match &copy.found {
                    Ok(facts) => {
                        let _ = writeln!(
                            good,
                            "{name} header: good (at byte {}, sequence number {}, {} checksum)",
                            facts.offset, facts.seqid, facts.checksum
                        );
                    }
                    Err(error) => damage.push(format!("{name} header: {error}")),
                }
            }
        }
    }
    if let VolumeHeader::Luks2(header) = &volume.header {
        let description = header.describe();
        for name in description.config.unknown_requirements() {
            let _ = writeln!(
                good,
                "requirement {}: unknown to this version, which shows the metadata and no more",
                Escaped(name)
            );
        }
        if let Some((number, keyslot)) = description.reencrypt {
            let _ = writeln!(
                good,
                "re-encryption: under way (keyslot {number}, mode {}, {}, resilience {})",
                keyslot.mode.name(),
                keyslot.direction.name(),
                keyslot.resilience.name()
            );
        }
    }
    if damage.is_empty() {
        damage.extend(volume.header.warnings().iter().map(ToString::to_string));
    }
    match state(&volume.header) {
        State::Good => match volume.payload_len() {
            _ if volume.is_without_data() => {
                good.push_str("data: in another file (the header is detached); not checked\n");
            }
            Ok(Some(len)) => {
                let _ = write!(good, "data: {len} bytes in whole sectors");
                let extents = volume.extents()?.unwrap_or_default();
                let linear = extents.iter().filter(|extent| extent.cipher.is_none());
                match linear.map(|extent| extent.len).sum() {
                    0_u64 => good.push('\n'),
                    linear => drop(writeln!(good, ", {linear} of them not encrypted")),
                }
            }
            // From a pipe nobody knows before the end.
            Ok(None) => {}
            Err(error) => damage.push(error.message().to_owned()),
        },
        State::Unreadable(error) => drop(writeln!(good, "data: {error}")),
        State::Damaged(error) => damage.push(error.to_string()),
    }
    console::print(&good)?;

    // A key that opens nothing counts more than a damaged copy: it comes first.
    if let Some(secrets) = secrets {
        let engine = Engine::select(&context.library, Mode::Xts)?;
        let unlocked = test_unlock(&volume, &secrets, &*engine.backend, &args.unlock, context);
        match unlocked {
            Ok(unlocked) => {
                let others = unlocked.others.iter().map(|key| (key.keyslot, key.digest));
                let all = [(unlocked.keyslot, unlocked.digest)]
                    .into_iter()
                    .chain(others);
                let lines = all.map(|(keyslot, digest)| {
                    format!("keyslot {keyslot}: good (the key agrees with digest {digest})\n")
                });
                console::print(&lines.collect::<String>())?;
            }
            Err(error) => {
                for damage in damage {
                    context.console.warn(damage);
                }
                return Err(error);
            }
        }
    }
    match damage.is_empty() {
        true => Ok(()),
        false => Err(Error::failure(format!(
            "{} is damaged: {}",
            volume.name(),
            damage.join("; ")
        ))),
    }
}

/// What there is to say of the data, before anybody looks at them.
enum State {
    Good,
    /// Nothing is wrong with the metadata, and the data cannot be read all the same.
    Unreadable(UnlockError),
    Damaged(UnlockError),
}

fn state(header: &VolumeHeader) -> State {
    match header.check_openable() {
        // The requirement has been told.
        Ok(()) | Err(UnlockError::Requirements { .. }) => State::Good,
        Err(UnlockError::Reencryption(error)) if !error.is_unsupported() => {
            State::Damaged(error.into())
        }
        Err(error) => State::Unreadable(error),
    }
}
