// SPDX-License-Identifier: MIT OR Apache-2.0
//! The keys of a volume: keyslots added, changed and removed.
//!
//! Secrets are asked for and keys derived without a lock on the metadata, because others would
//! wait for seconds. The change that follows is quick, and is refused when the metadata have
//! changed meanwhile.

use luxor_engine::{Mode, SecretBytes};
use luxor_luks::{NewKeyslot, NewKeyslotError, PbkdfOptions, UnlockOptions, Unlocked};

use crate::{Context, Engine, Result, Secrets, Volume, VolumeError};

/// How a volume is opened for a new key, and what opening it with that key costs.
#[derive(Clone, Debug, Default)]
pub struct KeyOptions {
    /// Which keyslots are tried, and what they may cost.
    pub unlock: UnlockOptions,
    /// What the new keyslot costs.
    pub pbkdf: PbkdfOptions,
}

impl KeyOptions {
    /// Told before a secret is asked for.
    fn check(&self) -> Result<()> {
        Ok(self.pbkdf.check().map_err(NewKeyslotError::from)?)
    }
}

/// All of these need a volume that was opened with [`Role::Change`](luxor_files::Role::Change),
/// and panic with any other.
impl Volume {
    /// Unlocks the volume and adds a keyslot for another secret, as keyslot `number` or as the
    /// first that is free. Returns its number. `new_secret` is called after the volume has been
    /// unlocked.
    ///
    /// # Errors
    /// When there is no such keyslot or it is in use, when a secret is not usable, and when the
    /// metadata have changed or cannot be written.
    pub fn add_key(
        &mut self,
        number: Option<u32>,
        secrets: &dyn Secrets,
        new_secret: impl FnOnce() -> Result<SecretBytes>,
        options: &KeyOptions,
        context: &Context,
    ) -> Result<u32> {
        if let Some(number) = number {
            self.check_is_free(number)?;
        }
        options.check()?;
        let engine = Engine::select(context, Mode::Xts)?;
        let (unlocked, _) = self.unlock(secrets, &*engine.backend, &options.unlock, context)?;
        let new = self.new_keyslot(&unlocked, &new_secret()?, options, &engine, context)?;
        self.change(|header, storage| header.add_keyslot(storage, &new, number))
    }

    /// Unlocks the volume and puts another secret in the place of the one that opened it.
    /// `new_secret` gets that one; to give it back changes only what the keyslot costs. Returns
    /// the number of the keyslot. It can be opened with the old secret or the new one at every
    /// instant.
    ///
    /// # Errors
    /// When a secret is not usable, when there is no room for the old keyslot and the new one, and
    /// when the metadata have changed or cannot be written.
    pub fn change_key(
        &mut self,
        secrets: &dyn Secrets,
        new_secret: impl FnOnce(SecretBytes) -> Result<SecretBytes>,
        options: &KeyOptions,
        context: &Context,
    ) -> Result<u32> {
        options.check()?;
        let engine = Engine::select(context, Mode::Xts)?;
        let (unlocked, old) = self.unlock(secrets, &*engine.backend, &options.unlock, context)?;
        let new = self.new_keyslot(&unlocked, &new_secret(old)?, options, &engine, context)?;
        let number = unlocked.keyslot;
        self.change(|header, storage| header.replace_keyslot(storage, number, &new))?;
        Ok(number)
    }

    /// Removes the keyslot that a secret from `secrets` opens, and returns its number. The last
    /// keyslot is removed only if `last` allows it: then nothing opens the volume any more.
    ///
    /// # Errors
    /// When no keyslot opens, when it is the last one, and when the metadata have changed or
    /// cannot be written.
    pub fn remove_key(
        &mut self,
        secrets: &dyn Secrets,
        last: bool,
        unlock: &UnlockOptions,
        context: &Context,
    ) -> Result<u32> {
        let engine = Engine::select(context, Mode::Xts)?;
        let (unlocked, _) = self.unlock(secrets, &*engine.backend, unlock, context)?;
        let number = unlocked.keyslot;
        self.check_is_not_last(number, last)?;
        self.change(|header, storage| header.remove_keyslot(storage, number))?;
        Ok(number)
    }

    /// Removes keyslot `number`. Where there are `secrets`, one of them must open another keyslot
    /// first, or this one if there is no other; `unlock.keyslots` is not looked at. The last one
    /// is removed only if `last` allows it.
    ///
    /// # Errors
    /// When there is no such keyslot, and those of [`Volume::remove_key`].
    pub fn remove_keyslot(
        &mut self,
        number: u32,
        secrets: Option<&dyn Secrets>,
        last: bool,
        unlock: &UnlockOptions,
        context: &Context,
    ) -> Result<()> {
        if !self.header.keyslots().contains_key(&number) {
            let name = self.name();
            return Err(VolumeError::NoKeyslot { name, number }.into());
        }
        self.check_is_not_last(number, last)?;
        if let Some(secrets) = secrets {
            let mut keyslots = self.header.data_keyslots();
            keyslots.retain(|&other| other != number);
            if keyslots.is_empty() {
                keyslots.push(number);
            }
            let options = UnlockOptions {
                keyslots,
                ..unlock.clone()
            };
            let engine = Engine::select(context, Mode::Xts)?;
            self.unlock(secrets, &*engine.backend, &options, context)?;
        }
        self.change(|header, storage| header.remove_keyslot(storage, number))
    }

    fn check_is_free(&self, number: u32) -> Result<()> {
        let name = || self.name();
        let last = self.header.version().max_keyslots() - 1;
        if number > last {
            let name = name();
            return Err(VolumeError::KeyslotNumber { name, number, last }.into());
        }
        if self.header.keyslots().contains_key(&number) {
            let name = name();
            return Err(VolumeError::KeyslotInUse { name, number }.into());
        }
        Ok(())
    }

    fn check_is_not_last(&self, number: u32, allowed: bool) -> Result<()> {
        if allowed || self.header.data_keyslots() != [number] {
            return Ok(());
        }
        let name = self.name();
        Err(VolumeError::LastKeyslot { name, number }.into())
    }

    fn new_keyslot(
        &self,
        unlocked: &Unlocked,
        secret: &SecretBytes,
        options: &KeyOptions,
        engine: &Engine,
        context: &Context,
    ) -> Result<NewKeyslot> {
        let _step = context.events.step("Making the keyslot");
        let (secret, backend) = (secret.expose(), &*engine.backend);
        let new = self
            .header
            .new_keyslot(unlocked, secret, &options.pbkdf, backend)?;
        Ok(new)
    }
}
