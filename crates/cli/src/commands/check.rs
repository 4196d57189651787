// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor check`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use luxor::{
    KeyScope, LuksMetadata, VolumeMetadata,
    files::{Input, Role},
    luks::{LuksVersion, ReencryptionProgress},
    volume::{SecretKind, Unlocked},
};
use serde::Serialize;

use crate::{
    advice,
    args::{General, TypeArgs, UnlockArgs},
    commands::{Subcommand, Taken, inputs},
    confinement, console,
    context::Context,
    error::{Error, Result},
    secrets::SecretSource,
    subject,
    volume::{check_no_header, header, test_keys},
};

/// Check a volume's metadata, and a key if one is given
///
/// Checks the header (of LUKS2 both copies and their checksums) against all rules for the
/// metadata, and the length of the data. With --key-file, --passphrase, --passphrase-fd or
/// --volume-key-file it also compares the key with its digest; a plain volume has none. The exit code
/// is 1 if something is damaged, even if the volume still opens from its other copy. Data that this
/// version cannot read are reported and do not count as damage. Nothing is changed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor check backup.luks
  luxor check --passphrase backup.luks
  luxor check --key-file key.bin --key-slot 0 backup.luks")]
pub(crate) struct CheckArgs {
    /// The volume (or its detached header)
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// Ask for a passphrase, and check that it opens a keyslot
    #[arg(long, conflicts_with_all = ["key_file", "passphrase_fd"])]
    pub passphrase: bool,

    /// Print the findings as JSON
    #[arg(long)]
    pub json: bool,

    /// How to open the volume.
    #[command(flatten)]
    pub unlock: UnlockArgs,

    /// The format. Last, since its heading goes on.
    #[command(flatten)]
    pub format: TypeArgs,
}

impl Subcommand for CheckArgs {
    const NAME: &str = "check";
    const TAKES: Taken = Taken::Options(&[
        General::Key,
        General::Passphrase,
        General::VolumeKey,
        General::Header,
        General::Part,
        General::Policy,
        General::Engine,
        General::Confine,
        General::Talk,
    ]);

    /// Checks every copy of the metadata, the length of the data, and, with a key, a keyslot.
    ///
    /// # Errors
    /// Fails when something is damaged, and when the key opens no keyslot.
    fn run(&self, context: &Context) -> Result<()> {
        let format = self.format.format()?;
        check_no_header(&*format, &self.unlock, context)?;
        let input = Input::open(context.place(&self.volume), Role::Metadata)?;
        // Read without printing warnings: they are part of the result.
        let (header, library) = (header(context)?, &context.library);
        confinement::begin(&confinement::needs_of_reader(context), context)?;
        let volume = VolumeMetadata::read(input, header, format.clone(), library)?;
        let inputs = inputs("VOLUME", &self.volume, context);
        let general = &context.options;
        let is_given = general.key_file.is_some()
            || general.passphrase_fd.is_some()
            || general.volume_key_file.is_some();
        let secrets = (self.passphrase || is_given)
            .then(|| SecretSource::for_format(context, &*format, &inputs))
            .transpose()?;
        let found = volume.check();
        let name = volume.name();
        if !self.json {
            print(&found.good)?;
        }
        let opened = secrets.map(|secrets| {
            let unlocked = test_keys(&volume, &secrets, &self.unlock, context)?;
            // Nothing confirms the key of a format without passphrases.
            Ok::<_, Error>(match format.secret_kind() {
                SecretKind::Passphrase => opened_keys(&unlocked),
                SecretKind::Key { .. } => Vec::new(),
            })
        });
        let keys: &[OpenedKey] = match &opened {
            Some(Ok(keys)) => keys,
            _ => &[],
        };
        // The findings already say why the data cannot be read.
        let scopes = volume.key_scopes().unwrap_or_default();
        let of_keyslots = volume.check_keyslots().err();
        let luks = volume.into_luks();
        if self.json {
            let report = Report {
                schema: 1,
                good: &found.good,
                damage: &found.damage,
                key_scopes: scopes.into_iter().map(KeyScopeOfDigest::from).collect(),
                reencryption: luks.as_ref().and_then(reencryption),
                keys,
            };
            let json = serde_json::to_string_pretty(&report).expect("texts and numbers are JSON");
            console::print(&(json + "\n"))?;
        } else {
            let lines = keys
                .iter()
                .map(|OpenedKey { keyslot, digest }| match keyslot {
                    Some(keyslot) => {
                        format!("keyslot {keyslot}: good (the key agrees with digest {digest})")
                    }
                    None => format!("volume key: good (it agrees with digest {digest})"),
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
        let error = Error::failure(format!("{name} is damaged: {damage}"));
        if subject::is_stream() {
            return Err(error);
        }
        let hint = of_keyslots.as_ref().and_then(advice::of);
        let hint = hint.or_else(|| {
            let volume = luks?;
            let is_luks1 = volume.header.version() == LuksVersion::Luks1;
            advice::for_defect(volume.repair_outlook()?, is_luks1)
        });
        Err(match hint {
            Some(hint) => error.hint(hint),
            None => error,
        })
    }
}

/// The output of `--json`. `docs/examples/check.json` is an example.
#[derive(Debug, Serialize)]
struct Report<'a> {
    schema: u32,
    good: &'a [String],
    damage: &'a [String],
    /// How much each key encrypts.
    key_scopes: Vec<KeyScopeOfDigest>,
    /// What is being done to the data, if anything is.
    reencryption: Option<UnderWay>,
    /// The volume keys that the secret opened.
    keys: &'a [OpenedKey],
}

#[derive(Debug, Serialize)]
struct KeyScopeOfDigest {
    /// The digest of the key.
    digest: u32,
    /// The number of blocks of 16 bytes that the key encrypts.
    blocks: u64,
    /// The number of blocks that it should encrypt at most.
    recommended_blocks: u64,
    /// The number of blocks that it may encrypt at most.
    maximum_blocks: u64,
}

impl From<(u32, KeyScope)> for KeyScopeOfDigest {
    fn from((digest, scope): (u32, KeyScope)) -> Self {
        Self {
            digest,
            blocks: scope.blocks,
            recommended_blocks: KeyScope::RECOMMENDED.blocks,
            maximum_blocks: KeyScope::MAXIMUM.blocks,
        }
    }
}

/// A re-encryption that is under way.
#[derive(Debug, Serialize)]
struct UnderWay {
    /// The keyslot with its state.
    keyslot: u32,
    mode: &'static str,
    direction: &'static str,
    resilience: &'static str,
    /// The number of bytes that are done. `None` if the length of the data is not known.
    done: Option<u64>,
    /// The length of the data in bytes.
    length: Option<u64>,
}

fn reencryption(volume: &LuksMetadata) -> Option<UnderWay> {
    let (number, keyslot) = volume.header.luks2()?.describe().reencrypt?;
    let progress = volume.reencryption_progress();
    Some(UnderWay {
        keyslot: *number,
        mode: keyslot.mode.name(),
        direction: keyslot.direction.name(),
        resilience: keyslot.resilience.name(),
        done: progress.as_ref().map(ReencryptionProgress::done),
        length: progress.as_ref().map(ReencryptionProgress::len),
    })
}

#[derive(Debug, Serialize)]
struct OpenedKey {
    /// The keyslot with the key. `None` if the volume key itself was given.
    keyslot: Option<u32>,
    /// The digest with which its key agrees.
    digest: u32,
}

/// Returns the keys that the secret opened.
fn opened_keys(unlocked: &Unlocked) -> Vec<OpenedKey> {
    if unlocked.keyslots.is_empty() {
        let digests = unlocked.keys.keys();
        return digests
            .map(|&digest| OpenedKey {
                keyslot: None,
                digest,
            })
            .collect();
    }
    let opened = unlocked.keyslots.iter();
    opened
        .map(|opened| OpenedKey {
            keyslot: Some(opened.keyslot),
            digest: opened.key,
        })
        .collect()
}

fn print(lines: &[String]) -> Result<()> {
    let lines = lines.iter().map(|line| format!("{line}\n"));
    console::print(&lines.collect::<String>())
}
