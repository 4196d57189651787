// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens a volume with the options of the command line.

use std::{cell::Cell, error::Error as _, path::Path};

use luxor::{Secrets, Volume};
use luxor_engine::Backend;
use luxor_files::{Escaped, Input, Role, VolumePlace, path_name, shell_word};
use luxor_luks::{UnlockOptions, Unlocked};
use luxor_secret::SecretBytes;

use crate::{
    args::{LimitArgs, UnlockArgs},
    console::complain,
    context::Context,
    error::{Error, Result},
    process::terminal,
    secrets::SecretSource,
};

/// Returns where the metadata are: in the detached header if the options name one, otherwise in
/// `volume`.
pub(crate) fn metadata_place<'a>(volume: &'a Path, context: &'a Context) -> VolumePlace<'a> {
    match context.options.header.as_deref() {
        Some(header) => header.into(),
        None => context.place(volume),
    }
}

/// Opens the volume or detached header at [`metadata_place`].
///
/// # Errors
/// Those of [`Volume::open_metadata`].
pub(crate) fn open_metadata(volume: &Path, role: Role, context: &Context) -> Result<Volume> {
    Volume::open_metadata(metadata_place(volume, context), role, &context.library)
}

/// Opens the volume with its data in `input`. The metadata are there too, or in the detached header
/// that the options name.
///
/// # Errors
/// Those of [`Volume::open`].
pub(crate) fn open(input: Input, context: &Context) -> Result<Volume> {
    Volume::open_with_header(input, header(context)?, &context.library)
}

/// As [`open`], without the warnings.
///
/// # Errors
/// Those of [`open`].
pub(crate) fn read(input: Input, context: &Context) -> Result<Volume> {
    Volume::read_with_header(input, header(context)?, &context.library)
}

/// Opens the detached header, if the options name one.
fn header(context: &Context) -> Result<Option<Input>> {
    let header = context.options.header.as_deref();
    let header = header.map(|path| Input::open(path, Role::Metadata));
    Ok(header.transpose()?)
}

/// Opens a keyslot, also if this version cannot read the data. A prompt is repeated when the
/// passphrase is wrong.
///
/// # Errors
/// Those of [`Volume::test`].
pub(crate) fn test_unlock(
    volume: &Volume,
    secrets: &SecretSource,
    backend: &dyn Backend,
    args: &UnlockArgs,
    context: &Context,
) -> Result<Unlocked> {
    let options = unlock_options(args);
    let secrets = Asking::new(secrets, &args.limits).beside_tokens(volume, args.key_slot);
    let (unlocked, _) = volume.test(&secrets, backend, &options, &context.library)?;
    Ok(unlocked)
}

/// The keyslot and the limits from the command line.
#[must_use]
pub(crate) fn unlock_options(args: &UnlockArgs) -> UnlockOptions {
    limited(args.key_slot.into_iter().collect(), &args.limits)
}

/// The limits from the command line, for these keyslots. An empty list means all keyslots.
#[must_use]
pub(crate) fn limited(keyslots: Vec<u32>, limits: &LimitArgs) -> UnlockOptions {
    UnlockOptions {
        keyslots,
        memory_limit_kib: limits.pbkdf_memory_limit,
        iterations_limit: limits.pbkdf_iterations_limit,
        allow_weak_key: limits.allow_weak_key,
        ..UnlockOptions::default()
    }
}

/// Asks for a secret up to `--tries` times if it is typed, otherwise once.
pub(crate) struct Asking<'a> {
    source: &'a SecretSource,
    tries: u32,
    attempts: Cell<u32>,
    /// The keyslot whose secret was asked for last.
    keyslot: Cell<Option<u32>>,
    /// Where other programs get the secrets of all keyslots. Shown before the first prompt.
    tokens: Cell<Option<String>>,
    /// Why the last secret may be another one than the user means.
    doubt: Cell<Option<String>>,
}

impl<'a> Asking<'a> {
    /// Takes secrets from `source`.
    #[must_use]
    pub(crate) fn new(source: &'a SecretSource, limits: &LimitArgs) -> Self {
        Self {
            source,
            tries: limits.tries,
            attempts: Cell::new(source.attempts(limits.tries)),
            keyslot: Cell::default(),
            tokens: Cell::default(),
            doubt: Cell::default(),
        }
    }

    /// Names the tokens of `volume` before it asks for a secret, if no keyslot has a secret that a
    /// user would know. Only `key_slot` counts if it is given.
    #[must_use]
    pub(crate) fn beside_tokens(self, volume: &Volume, key_slot: Option<u32>) -> Self {
        if self.source.is_prompt() {
            self.tokens.set(token_commands(volume, key_slot));
        }
        self
    }
}

impl Secrets for Asking<'_> {
    fn secret(&self, volume: &Path) -> Result<SecretBytes> {
        self.attempts.update(|attempts| attempts - 1);
        if let Some(commands) = self.tokens.take() {
            let name = path_name(volume);
            let message = format!("{name}: its secrets are kept by tokens, and none was given");
            if terminal().is_err() {
                return Err(Error::failure(message).hint(commands));
            }
            complain(&format!("{message}\n  {commands}"));
        }
        let secret = self.source.existing(volume, self.keyslot.get())?;
        self.doubt.set(self.source.doubt(&secret));
        Ok(secret)
    }

    fn keyslot_secret(&self, volume: &Path, keyslot: u32) -> Result<SecretBytes> {
        if self.keyslot.replace(Some(keyslot)) != Some(keyslot) {
            self.attempts.set(self.source.attempts(self.tries));
        }
        self.secret(volume)
    }

    fn explain(&self, wrong: Error) -> Error {
        match self.doubt.take() {
            Some(hint) => wrong.hint(hint),
            None => wrong,
        }
    }

    fn are_volume_keys(&self) -> bool {
        self.source.is_volume_key()
    }

    fn ask_again(&self, wrong: &Error) -> bool {
        if self.attempts.get() == 0 {
            return false;
        }
        // The prompt has already named the volume, so the message need not.
        let wrong = wrong.source().unwrap_or(wrong);
        complain(&wrong.to_string());
        true
    }
}

/// Returns how to get the secret of each keyslot, a line each, if a token has the secrets of all.
fn token_commands(volume: &Volume, key_slot: Option<u32>) -> Option<String> {
    let numbers: Vec<u32> = key_slot.into_iter().collect();
    let device = shell_word(volume.path());
    let lines = volume.header.token_keyslots(&numbers).into_iter();
    let lines = lines.map(|found| {
        let (keyslot, token) = (found.keyslot, found.token);
        let how = match found.kind {
            "clevis" => format!(
                "clevis luks pass -d {device} -s {keyslot} | luxor … --passphrase-fd 0"
            ),
            "systemd-recovery" => "type the recovery key".to_owned(),
            _ => format!(
                "cryptsetup luksAddKey --token-id {token} {device} NEW-KEY-FILE adds a key file, for \
                 luxor … --key-file NEW-KEY-FILE"
            ),
        };
        let kind = Escaped(found.kind);
        format!("keyslot {keyslot}, token {token} ({kind}): {how}")
    });
    let lines: Vec<_> = lines.collect();
    (!lines.is_empty()).then(|| lines.join("\n  "))
}
