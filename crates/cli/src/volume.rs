// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens a volume with the options of the command line.

use std::{cell::Cell, error::Error as _, path::Path};

use luxor::{Secrets, Volume};
use luxor_engine::{Backend, SecretBytes};
use luxor_files::{Input, Role};
use luxor_luks::{UnlockOptions, Unlocked};

use crate::{
    args::{LimitArgs, UnlockArgs},
    console::complain,
    context::Context,
    error::{Error, Result},
    secrets::SecretSource,
};

/// Returns the file with the metadata: the detached header if the options name one, otherwise
/// `volume`.
pub(crate) fn metadata_path<'a>(volume: &'a Path, context: &'a Context) -> &'a Path {
    context.options.header.as_deref().unwrap_or(volume)
}

/// Opens the volume or detached header at [`metadata_path`].
///
/// # Errors
/// Those of [`Volume::open_metadata`].
pub(crate) fn open_metadata(volume: &Path, role: Role, context: &Context) -> Result<Volume> {
    Volume::open_metadata(metadata_path(volume, context), role, &context.library)
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

/// Opens a keyslot. A prompt is repeated when the passphrase is wrong.
///
/// # Errors
/// Those of [`Volume::unlock`].
pub(crate) fn unlock(
    volume: &Volume,
    secrets: &SecretSource,
    backend: &dyn Backend,
    args: &UnlockArgs,
    context: &Context,
) -> Result<(Unlocked, SecretBytes)> {
    let options = unlock_options(args);
    let secrets = Asking::new(secrets, &args.limits);
    volume.unlock(&secrets, backend, &options, &context.library)
}

/// As [`unlock`], but also works if the data cannot be read because a re-encryption was
/// interrupted.
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
    let secrets = Asking::new(secrets, &args.limits);
    volume.test(&secrets, backend, &options, &context.library)
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
    attempts: Cell<u32>,
}

impl<'a> Asking<'a> {
    /// Takes secrets from `source`.
    #[must_use]
    pub(crate) fn new(source: &'a SecretSource, limits: &LimitArgs) -> Self {
        Self {
            source,
            attempts: Cell::new(source.attempts(limits.tries)),
        }
    }
}

impl Secrets for Asking<'_> {
    fn secret(&self, volume: &Path) -> Result<SecretBytes> {
        self.attempts.update(|attempts| attempts - 1);
        self.source.existing(volume)
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
