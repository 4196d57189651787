// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens a volume with the options of the command line.

use std::{cell::Cell, error::Error as _, path::Path};

use luxor::{
    AUTO, Engine, LuksMetadata, LuksVolume, SecretBytes, Secrets, VolumeMetadata,
    files::{Escaped, Input, Role, VolumePlace, path_name, shell_word},
    format_by_name,
    luks::VolumeHeader,
    volume::{Format, UnlockOptions, Unlocked},
};
use luxor_confine::Needs;

use crate::{
    args::{LimitArgs, TypeArgs, UnlockArgs},
    confinement,
    confirm::confirm,
    console::complain,
    context::Context,
    error::{Error, Result},
    process::terminal,
    secrets::{SecretSource, Wanted},
    subject,
};

/// Returns where the metadata are: in the detached header if the options name one, otherwise in
/// `volume`.
pub(crate) fn metadata_place<'a>(volume: &'a Path, context: &'a Context) -> VolumePlace<'a> {
    match context.options.header.as_deref() {
        Some(header) => header.into(),
        None => context.place(volume),
    }
}

/// Reads the LUKS volume or detached header at [`metadata_place`].
///
/// # Errors
/// Those of [`LuksMetadata::open_path`].
pub(crate) fn open_metadata(volume: &Path, context: &Context) -> Result<LuksMetadata> {
    LuksMetadata::open_path(metadata_place(volume, context), &context.library)
}

/// Reads the metadata of a volume without warnings and errors, for a message: in the detached header,
/// or in `volume` while that is still to be made.
pub(crate) fn peek_metadata(volume: &Path, context: &Context) -> Option<VolumeMetadata> {
    let format = format_by_name(AUTO)?;
    let places = [metadata_place(volume, context), context.place(volume)];
    places.into_iter().find_map(|place| {
        let input = Input::open(place, Role::Metadata).ok()?;
        VolumeMetadata::read(input, None, format.clone(), &context.library).ok()
    })
}

/// Opens the LUKS volume or detached header at [`metadata_place`] for changes.
///
/// # Errors
/// Those of [`LuksVolume::open`].
pub(crate) fn open_to_change(volume: &Path, context: &Context) -> Result<LuksVolume> {
    LuksVolume::open(metadata_place(volume, context), &context.library)
}

/// Opens the volume or detached header at [`metadata_place`], whose format is that of `args`. This process is
/// confined to `needs`, if it is to be, before anything is read.
///
/// # Errors
/// Those of [`VolumeMetadata::open`], [`check_no_header`] and [`confinement::begin`].
pub(crate) fn open_metadata_of(
    volume: &Path,
    args: &TypeArgs,
    unlock: &UnlockArgs,
    needs: Option<&Needs>,
    context: &Context,
) -> Result<VolumeMetadata> {
    let format = args.format()?;
    check_no_header(&*format, unlock, context)?;
    let input = Input::open(metadata_place(volume, context), Role::Metadata)?;
    if let Some(needs) = needs {
        confinement::begin(needs, context)?;
    }
    VolumeMetadata::open(input, None, format, &context.library)
}

/// Opens the detached header, if the options name one.
///
/// # Errors
/// Fails when it cannot be opened.
pub(crate) fn header(context: &Context) -> Result<Option<Input>> {
    let header = context.options.header.as_deref();
    let header = header.map(|path| Input::open(path, Role::Metadata));
    Ok(header.transpose()?)
}

/// Refuses options about headers and keyslots for a format that has neither.
///
/// # Errors
/// Fails when such an option is given.
pub(crate) fn check_no_header(
    format: &dyn Format,
    unlock: &UnlockArgs,
    context: &Context,
) -> Result<()> {
    if format.has_signature() {
        return Ok(());
    }
    let (options, limits) = (&context.options, &unlock.limits);
    let given = [
        ("--header", options.header.is_some()),
        ("--require-type", options.policy.require_type.is_some()),
        (
            "--require-cipher",
            !options.policy.require_cipher.is_empty(),
        ),
        ("--require-pbkdf", !options.policy.require_pbkdf.is_empty()),
        ("--header-digest", options.policy.header_digest.is_some()),
        ("--key-slot", unlock.key_slot.is_some()),
        ("--pbkdf-memory-limit", limits.pbkdf_memory_limit.is_some()),
        (
            "--pbkdf-iterations-limit",
            limits.pbkdf_iterations_limit.is_some(),
        ),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((option, _)) => Err(no_header(option, format)),
    }
}

/// The error for an option that a format without a header does not have.
pub(crate) fn no_header(option: &str, format: &dyn Format) -> Error {
    let name = format.name();
    Error::failure(format!(
        "{option} cannot be used with --type {name}: there is no header"
    ))
}

/// Tests a secret, also if this version cannot read the data. A prompt is repeated when the passphrase
/// is wrong.
///
/// # Errors
/// Those of [`VolumeMetadata::test_keys`].
pub(crate) fn test_keys(
    volume: &VolumeMetadata,
    secrets: &SecretSource,
    args: &UnlockArgs,
    context: &Context,
) -> Result<Unlocked> {
    let engine = Engine::select(&context.library, volume.describe().mode)?;
    let options = unlock_options(args);
    let secrets = Asking::new(secrets, args, volume.path(), volume.luks());
    volume.test_keys(&secrets, &*engine.backend, &options, &context.library)
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
    /// What the next prompt asks for.
    wanted: Cell<Wanted>,
    /// Whether the user must confirm the removal of a keyslot.
    confirms: bool,
    /// Where other programs get the secrets of all keyslots. Shown before the first prompt.
    tokens: Cell<Option<String>>,
    /// Why the last secret may be another one than the user means.
    doubt: Cell<Option<String>>,
}

impl<'a> Asking<'a> {
    /// Takes secrets from `source`, for the volume at `path`. If it is LUKS and no keyslot has a secret that
    /// a user would know, its tokens are named before a secret is asked for. Only the keyslot of `args`
    /// counts if one is given.
    #[must_use]
    pub(crate) fn new(
        source: &'a SecretSource,
        args: &UnlockArgs,
        path: &Path,
        luks: Option<&VolumeHeader>,
    ) -> Self {
        let keyslots = args.key_slot.as_slice();
        Self::for_keyslots(source, &args.limits, keyslots, path, luks)
    }

    /// As [`Asking::new`], for the secrets of these keyslots, or of any keyslot if there are none.
    #[must_use]
    pub(crate) fn for_keyslots(
        source: &'a SecretSource,
        limits: &LimitArgs,
        keyslots: &[u32],
        path: &Path,
        luks: Option<&VolumeHeader>,
    ) -> Self {
        let luks = luks.filter(|_| source.is_prompt());
        Self {
            source,
            tries: limits.tries,
            attempts: Cell::new(source.attempts(limits.tries)),
            wanted: Cell::new(Wanted::Any),
            confirms: false,
            tokens: Cell::new(luks.and_then(|header| token_commands(path, header, keyslots))),
            doubt: Cell::default(),
        }
    }

    /// The same, for the removal of a keyslot, with the secret `wanted`. With `confirms` a user who types
    /// the secret must also confirm the removal.
    #[must_use]
    pub(crate) fn for_removal(mut self, wanted: Wanted, confirms: bool) -> Self {
        self.wanted = Cell::new(wanted);
        self.confirms = confirms && self.source.is_prompt();
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
        let secret = self.source.existing(volume, self.wanted.get())?;
        self.doubt.set(self.source.doubt(&secret));
        Ok(secret)
    }

    fn keyslot_secret(&self, volume: &Path, keyslot: u32) -> Result<SecretBytes> {
        let wanted = Wanted::Keyslot(keyslot);
        if self.wanted.replace(wanted) != wanted {
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

    fn confirm_removal(&self, volume: &Path, keyslot: u32, left: usize) -> Result<()> {
        if !self.confirms {
            return Ok(());
        }
        let others = match left {
            0 => "No other keyslot opens the volume: its data are lost then, unless there is a backup of its \
                  header"
                .to_owned(),
            1 => "1 other keyslot opens the volume".to_owned(),
            _ => format!("{left} other keyslots open the volume"),
        };
        let warning = format!(
            "Keyslot {keyslot} of {} will be destroyed. {others}.",
            path_name(volume)
        );
        confirm(&warning, "--batch-mode")
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

/// Returns how to get the secret of each of `keyslots`, or of each keyslot if there are none, a line each,
/// if tokens have the secrets of all.
fn token_commands(path: &Path, header: &VolumeHeader, keyslots: &[u32]) -> Option<String> {
    // Other programs know no parts of a file, and read no volume from a pipe.
    let (device, note) = if subject::is_stream() {
        let note =
            "DEVICE is a file or device with this volume: these commands cannot read a pipe.";
        ("DEVICE".to_owned(), Some(note))
    } else if subject::part().is_some() {
        let note = "DEVICE is a device for this part of the file, which losetup makes.";
        ("DEVICE".to_owned(), Some(note))
    } else {
        (shell_word(path), None)
    };
    let lines = header.token_keyslots(keyslots).into_iter();
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
    if lines.is_empty() {
        return None;
    }
    let note = note.map(str::to_owned);
    let lines: Vec<_> = lines.into_iter().chain(note).collect();
    Some(lines.join("\n  "))
}
