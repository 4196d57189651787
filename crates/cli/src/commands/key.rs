// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor key`: keyslots added, changed, removed, converted, tested.
//!
//! Secrets are asked for and keys derived without a lock on the metadata, which would
//! keep everybody else waiting for seconds. The change that follows is quick, and is
//! refused when somebody else has changed the metadata meanwhile.

use std::{fmt::Display, path::Path};

use luxor::{Engine, Volume};
use luxor_engine::{Mode, SecretBytes};
use luxor_files::Role;
use luxor_luks::{NewKeyslot, PbkdfOptions, Unlocked};

use crate::{
    args::{
        KeyAddArgs, KeyArgs, KeyChangeArgs, KeyCommand, KeyConvertArgs, KeyRemoveArgs, KeyTestArgs,
        LimitArgs, NewSecretArgs, PbkdfArgs, UnlockArgs,
    },
    commands::inputs,
    console,
    context::Context,
    error::{Error, ErrorClass, Result},
    secrets::SecretSource,
    volume::{Asking, limited, open_metadata, test_unlock, unlock},
};

/// Runs one of `key`'s commands.
///
/// # Errors
/// When the volume or a secret is not usable, and when the volume has no room for what
/// is asked. Nothing is changed then.
pub(crate) fn run(args: &KeyArgs, context: &Context) -> Result<()> {
    let open = |volume, role| Session::open(volume, role, context);
    match &args.command {
        KeyCommand::Add(args) => add(args, open(&args.volume, Role::Change)?),
        KeyCommand::Change(args) => change(args, open(&args.volume, Role::Change)?),
        KeyCommand::Remove(args) => remove(args, open(&args.volume, Role::Change)?),
        KeyCommand::Convert(args) => convert(args, open(&args.volume, Role::Change)?),
        KeyCommand::Test(args) => test(args, &open(&args.volume, Role::Metadata)?),
    }
}

fn add(args: &KeyAddArgs, mut session: Session<'_>) -> Result<()> {
    let pbkdf = session.pbkdf(&args.pbkdf)?;
    // Told before a secret is asked for and keys are derived.
    let count = session.volume.header.version().max_keyslots();
    if let Some(number) = args.new_key_slot
        && number >= count
    {
        return Err(session.failure(format!(
            "there is no keyslot {number}: the last one is {}",
            count - 1
        )));
    }
    if let Some(number) = args.new_key_slot
        && session.keyslots().contains(&number)
    {
        return Err(session
            .failure(format!("keyslot {number} is in use"))
            .hint("Name another one with --new-key-slot, or take `luxor key change`."));
    }
    let (unlocked, secret) = session.both_secrets(&args.unlock, &args.new)?;
    let new = session.new_keyslot(&unlocked, &secret, &pbkdf)?;
    let number = session
        .volume
        .change(|header, storage| header.add_keyslot(storage, &new, args.new_key_slot))?;
    session
        .context
        .console
        .note(format!("keyslot {number} added"));
    Ok(())
}

fn change(args: &KeyChangeArgs, mut session: Session<'_>) -> Result<()> {
    let pbkdf = session.pbkdf(&args.pbkdf)?;
    let (unlocked, secret) = session.both_secrets(&args.unlock, &args.new)?;
    session.replace(&unlocked, &secret, &pbkdf)
}

fn convert(args: &KeyConvertArgs, mut session: Session<'_>) -> Result<()> {
    let pbkdf = session.pbkdf(&args.pbkdf)?;
    let secrets = session.secrets()?;
    let (unlocked, secret) = session.unlock(&secrets, &args.unlock)?;
    session.replace(&unlocked, &secret, &pbkdf)
}

fn remove(args: &KeyRemoveArgs, mut session: Session<'_>) -> Result<()> {
    let number = match args.key_slot {
        Some(number) => {
            if !session.keyslots().contains(&number) {
                return Err(session.failure(format!("there is no keyslot {number}")));
            }
            session.check_not_last(number, args.last)?;
            let secrets = match (args.force, args.if_given) {
                (true, _) => None,
                (false, true) => session.secrets()?.if_given()?,
                (false, false) => Some(session.secrets()?),
            };
            if let Some(secrets) = secrets {
                session.open_another(number, &secrets, &args.limits)?;
            }
            number
        }
        None => {
            let unlock = UnlockArgs {
                key_slot: None,
                limits: args.limits.clone(),
            };
            let secrets = session.secrets()?;
            let (unlocked, _) = session.unlock(&secrets, &unlock)?;
            session.check_not_last(unlocked.keyslot, args.last)?;
            unlocked.keyslot
        }
    };
    session
        .volume
        .change(|header, storage| header.remove_keyslot(storage, number))?;
    session
        .context
        .console
        .note(format!("keyslot {number} removed"));
    Ok(())
}

fn test(args: &KeyTestArgs, session: &Session<'_>) -> Result<()> {
    let secrets = session.secrets()?;
    let unlocked = test_unlock(
        &session.volume,
        &secrets,
        &*session.engine.backend,
        &args.unlock,
        session.context,
    )?;
    if session.context.console.is_quiet() {
        return Ok(());
    }
    console::print(&format!("keyslot {} opens\n", unlocked.keyslot))
}

/// A volume, and what its keys are asked for and computed with.
struct Session<'a> {
    volume: Volume,
    path: &'a Path,
    engine: Engine,
    context: &'a Context,
}

impl<'a> Session<'a> {
    fn open(path: &'a Path, role: Role, context: &'a Context) -> Result<Self> {
        let engine = Engine::select(&context.library, Mode::Xts)?;
        let volume = open_metadata(path, role, context)?;
        Ok(Self {
            volume,
            path,
            engine,
            context,
        })
    }

    /// The numbers of all keyslots.
    fn keyslots(&self) -> Vec<u32> {
        self.volume.header.keyslots().keys().copied().collect()
    }

    fn check_not_last(&self, number: u32, allowed: bool) -> Result<()> {
        if allowed || self.volume.header.data_keyslots() != [number] {
            return Ok(());
        }
        Err(self
            .failure(format!(
                "keyslot {number} is the last one: without it nobody can open the volume"
            ))
            .hint("If that is what you want, add --last."))
    }

    /// What a new keyslot is to cost; without `--pbkdf` as the version has it.
    fn pbkdf(&self, args: &PbkdfArgs) -> Result<PbkdfOptions> {
        args.options(self.volume.header.version().default_pbkdf())
    }

    fn secrets(&self) -> Result<SecretSource> {
        let inputs = inputs("VOLUME", self.path, self.context);
        SecretSource::new(self.context, &inputs)
    }

    fn unlock(&self, secrets: &SecretSource, args: &UnlockArgs) -> Result<(Unlocked, SecretBytes)> {
        let backend = &*self.engine.backend;
        unlock(&self.volume, secrets, backend, args, self.context)
    }

    /// Opens the volume, and asks for the new secret.
    fn both_secrets(
        &self,
        unlock: &UnlockArgs,
        new: &NewSecretArgs,
    ) -> Result<(Unlocked, SecretBytes)> {
        let inputs = inputs("VOLUME", self.path, self.context);
        let (existing, new) = SecretSource::pair(self.context, new.key_file(), &inputs)?;
        // A key file that cannot be read is told before somebody types and waits.
        let from_file = if new.is_key_file() {
            Some(new.new_one(self.path)?)
        } else {
            None
        };
        let (unlocked, _) = self.unlock(&existing, unlock)?;
        let secret = match from_file {
            Some(secret) => secret,
            None => new.new_one(self.path)?,
        };
        Ok((unlocked, secret))
    }

    /// Wants a secret that opens a keyslot other than `number`; the secret of that one
    /// when there is no other.
    fn open_another(&self, number: u32, secrets: &SecretSource, limits: &LimitArgs) -> Result<()> {
        let others = self
            .volume
            .header
            .data_keyslots()
            .into_iter()
            .filter(|&n| n != number);
        let mut others: Vec<_> = others.collect();
        if others.is_empty() {
            others.push(number);
        }
        let options = limited(others, limits);
        let (secrets, backend) = (Asking::new(secrets, limits), &*self.engine.backend);
        let context = &self.context.library;
        self.volume.unlock(&secrets, backend, &options, context)?;
        Ok(())
    }

    fn new_keyslot(
        &self,
        unlocked: &Unlocked,
        secret: &SecretBytes,
        pbkdf: &PbkdfOptions,
    ) -> Result<NewKeyslot> {
        let step = self.context.progress.step("Making the keyslot");
        let backend = &*self.engine.backend;
        let new = self
            .volume
            .header
            .new_keyslot(unlocked, secret.expose(), pbkdf, backend);
        drop(step);
        new.map_err(|error| {
            let class = if error.is_out_of_memory() {
                ErrorClass::OutOfMemory
            } else {
                ErrorClass::Failure
            };
            Error::new(class, error.to_string())
        })
    }

    /// Puts the volume key under `secret`, in the keyslot that was opened.
    fn replace(
        &mut self,
        unlocked: &Unlocked,
        secret: &SecretBytes,
        pbkdf: &PbkdfOptions,
    ) -> Result<()> {
        let new = self.new_keyslot(unlocked, secret, pbkdf)?;
        let number = unlocked.keyslot;
        self.volume
            .change(|header, storage| header.replace_keyslot(storage, number, &new))?;
        self.context
            .console
            .note(format!("keyslot {number} changed"));
        Ok(())
    }

    fn failure(&self, message: impl Display) -> Error {
        Error::failure(format!("{}: {message}", self.volume.name()))
    }
}
