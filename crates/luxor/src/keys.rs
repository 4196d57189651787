// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adds, changes and removes the keyslots of a volume.
//!
//! Secrets are read and keys derived without a lock on the metadata, because that takes seconds and
//! other processes would have to wait. The change that follows is quick, and made to the metadata as
//! they are then. It is refused if another program has changed the data's keys or the same keyslot
//! meanwhile.
//!
//! Keys can be changed even if this version cannot read the data.

use luxor_engine::Mode;
use luxor_luks::{
    ChangeError, ConfirmedKey, Luks2Header, LuksVersion, NewKeyslot, NewKeyslotError, PbkdfOptions,
    UnlockOptions, VolumeHeader, VolumeKey,
};
use luxor_secret::SecretBytes;
use luxor_sector::Storage;

use crate::{
    Context, EditError, Engine, LuksVolume, Result, Secrets, error::Cause,
    luks_volume::changed_meanwhile,
};

/// How to unlock the volume for a change of its keys, and how the new keyslot derives its key.
#[derive(Clone, Debug, Default)]
pub struct KeyOptions {
    /// Which keyslots to try, and what they may cost.
    pub unlock: UnlockOptions,
    /// The PBKDF and costs of the new keyslot. `None`: the defaults of the volume's version.
    pub pbkdf: Option<PbkdfOptions>,
    /// Which keyslots [`LuksVolume::change_key`] may replace in their own place.
    pub in_place: InPlace,
}

/// Which keyslots may be replaced in their own place if the header has no room for a second one. A
/// crash between the writes leaves a keyslot that no secret opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InPlace {
    /// None: the change is refused with [`ChangeError::NoRoomBeside`].
    #[default]
    Never,
    /// Each one but the only keyslot of the data.
    UnlessOnly,
    /// Also the only one. Make a backup of the header first.
    Always,
}

impl KeyOptions {
    /// Returns the PBKDF for a volume of this version, checked before a secret is asked for.
    fn pbkdf(&self, version: LuksVersion) -> Result<PbkdfOptions> {
        let default = || PbkdfOptions {
            kind: version.default_pbkdf(),
            ..PbkdfOptions::default()
        };
        let pbkdf = self.pbkdf.clone().unwrap_or_else(default);
        pbkdf.check().map_err(NewKeyslotError::from)?;
        Ok(pbkdf)
    }
}

/// Changes of keyslots.
impl LuksVolume {
    /// Unlocks the volume, also with a volume key, and adds a keyslot for another secret: keyslot
    /// `number`, or the first free one. Returns its number. Calls `new_secret` after the volume has
    /// been unlocked.
    ///
    /// # Errors
    /// [`EditError::KeyslotNumber`] and [`EditError::KeyslotInUse`], and the errors of
    /// [`LuksMetadata::test`](crate::LuksMetadata::test) and `new_secret`. Also fails when there is no free keyslot, and when the
    /// metadata have changed since they were read or cannot be locked or written.
    pub fn add_key(
        &mut self,
        number: Option<u32>,
        secrets: &dyn Secrets,
        new_secret: impl FnOnce() -> Result<SecretBytes>,
        options: &KeyOptions,
        context: &Context,
    ) -> Result<u32> {
        self.check_changeable()?;
        if let Some(number) = number {
            self.check_new_keyslot(number)?;
        }
        let pbkdf = options.pbkdf(self.header.version())?;
        let engine = Engine::select(context, Mode::Xts)?;
        let opened = self.test_keys(secrets, &*engine.backend, &options.unlock, context)?;
        let first = opened.keys.first_key_value();
        let first = first.and_then(|(digest, key)| Some((*digest, key.volume_key()?)));
        let Some((digest, volume_key)) = first else {
            return Err(EditError::NoKeyOfData.about(&self.name()));
        };
        let key = ConfirmedKey { digest, volume_key };
        let new = self.new_keyslot(key, &new_secret()?, &pbkdf, &engine, context)?;
        self.change_present(
            context,
            |_, _| Ok(()),
            |header, storage| header.add_keyslot(storage, &new, number),
        )
    }

    /// Adds a keyslot with a key that encrypts no data, in keyslot `number` or the first free one.
    /// Returns its number.
    ///
    /// # Errors
    /// [`EditError::KeyslotNumber`] and [`EditError::KeyslotInUse`], and the errors of
    /// `new_secret`. Also fails for LUKS1, when there is no free keyslot, and when the metadata have
    /// changed since they were read or cannot be locked or written.
    pub fn add_unbound_key(
        &mut self,
        number: Option<u32>,
        key: &VolumeKey,
        new_secret: impl FnOnce() -> Result<SecretBytes>,
        options: &KeyOptions,
        context: &Context,
    ) -> Result<u32> {
        if self.header.version() == LuksVersion::Luks1 {
            return Err(EditError::UnboundInLuks1.about(&self.name()));
        }
        self.check_changeable()?;
        if let Some(number) = number {
            self.check_new_keyslot(number)?;
        }
        let pbkdf = options.pbkdf(self.header.version())?;
        let engine = Engine::select(context, Mode::Xts)?;
        let secret = new_secret()?;
        let step = context.events.step("Making the keyslot");
        let (secret, backend) = (secret.expose(), &*engine.backend);
        let new = Luks2Header::new_unbound_keyslot(key, secret, &pbkdf, backend)?;
        drop(step);
        context.check_cancelled()?;
        self.change_present(
            context,
            |_, _| Ok(()),
            |header, storage| header.add_keyslot(storage, &new, number),
        )
    }

    /// Unlocks the volume and replaces the secret of the keyslot that opened. Calls `new_secret`
    /// with the old secret; if it returns the same secret, only the key derivation and its cost
    /// change. Returns the number of the keyslot. After a crash at any moment, either the old
    /// secret or the new one opens the keyslot, except where `options.in_place` permits its loss.
    ///
    /// # Errors
    /// The errors of [`LuksMetadata::test`](crate::LuksMetadata::test) and `new_secret`. Also fails when the header has no room
    /// for the old and the new keyslot at once, and when the metadata have changed since they were
    /// read or cannot be locked or written.
    pub fn change_key(
        &mut self,
        secrets: &dyn Secrets,
        new_secret: impl FnOnce(SecretBytes) -> Result<SecretBytes>,
        options: &KeyOptions,
        context: &Context,
    ) -> Result<u32> {
        self.check_changeable()?;
        let pbkdf = options.pbkdf(self.header.version())?;
        let engine = Engine::select(context, Mode::Xts)?;
        let (unlocked, old) = self.test(secrets, &*engine.backend, &options.unlock, context)?;
        let new = self.new_keyslot(
            (&unlocked).into(),
            &new_secret(old)?,
            &pbkdf,
            &engine,
            context,
        )?;
        let (name, number) = (self.name(), unlocked.keyslot);
        self.change_keyslot(number, &[number], true, context, |header, storage| {
            let replaced = header.replace_keyslot(storage, number, &new);
            let in_place = match (&replaced, options.in_place) {
                (Err(ChangeError::NoRoomBeside { .. }), InPlace::Always) => true,
                (Err(ChangeError::NoRoomBeside { is_only, .. }), InPlace::UnlessOnly) => !is_only,
                _ => false,
            };
            if in_place {
                context.events.warning(&format!(
                    "{name}: the header has no room for a second keyslot: keyslot {number} is overwritten in \
                     its own place, and a crash before that is done loses it"
                ));
                return header.replace_keyslot_in_place(storage, number, &new);
            }
            replaced
        })?;
        Ok(number)
    }

    /// Removes the keyslot that a secret from `secrets` opens, and returns its number. The last
    /// keyslot is removed only if `last` is set, because nothing opens the volume afterwards.
    ///
    /// # Errors
    /// [`EditError::LastKeyslot`] without `last`, and the errors of [`LuksMetadata::test`](crate::LuksMetadata::test) and
    /// [`Secrets::confirm_removal`]. Also fails when the metadata have changed since they were read or cannot
    /// be locked or written.
    pub fn remove_key(
        &mut self,
        secrets: &dyn Secrets,
        last: bool,
        unlock: &UnlockOptions,
        context: &Context,
    ) -> Result<u32> {
        self.check_changeable()?;
        let engine = Engine::select(context, Mode::Xts)?;
        let (unlocked, _) = self.test(secrets, &*engine.backend, unlock, context)?;
        let number = unlocked.keyslot;
        self.check_is_not_last(number, last)?;
        self.confirm_removal(secrets, number)?;
        self.change_keyslot(number, &[number], last, context, |header, storage| {
            header.remove_keyslot(storage, number)
        })?;
        Ok(number)
    }

    /// Removes keyslot `number`. If `secrets` are given, one of them must first open another
    /// keyslot, or this one if it is the only one. Without `secrets` nothing is unlocked.
    /// `unlock.keyslots` is ignored. The last keyslot is removed only if `last` is set.
    ///
    /// # Errors
    /// [`EditError::NoKeyslot`] if keyslot `number` is empty, and the errors of
    /// [`LuksVolume::remove_key`].
    pub fn remove_keyslot(
        &mut self,
        number: u32,
        secrets: Option<&dyn Secrets>,
        last: bool,
        unlock: &UnlockOptions,
        context: &Context,
    ) -> Result<()> {
        self.check_changeable()?;
        self.check_removal(number, last)?;
        let mut known = vec![number];
        if let Some(secrets) = secrets {
            let mut keyslots = self.header.openable_keyslots();
            if keyslots.is_empty() {
                // The error says what is not supported.
                keyslots = self.header.data_keyslots();
            }
            keyslots.retain(|&other| other != number);
            if keyslots.is_empty() {
                keyslots.push(number);
            }
            let options = UnlockOptions {
                keyslots,
                ..unlock.clone()
            };
            let engine = Engine::select(context, Mode::Xts)?;
            let (opened, _) = self.test(secrets, &*engine.backend, &options, context)?;
            known.push(opened.keyslot);
            self.confirm_removal(secrets, number)?;
        }
        self.change_keyslot(number, &known, last, context, |header, storage| {
            header.remove_keyslot(storage, number)
        })
    }

    /// Checks that `number` is below 8 for LUKS1 or 32 for LUKS2, and that this keyslot is empty.
    /// [`LuksVolume::add_key`] does this first.
    ///
    /// # Errors
    /// [`EditError::KeyslotNumber`] and [`EditError::KeyslotInUse`].
    pub fn check_new_keyslot(&self, number: u32) -> Result<()> {
        let last = self.header.version().max_keyslots() - 1;
        if number > last {
            let name = self.name();
            return Err(EditError::KeyslotNumber { name, number, last }.into());
        }
        if self.header.keyslot_numbers().contains(&number) {
            let name = self.name();
            return Err(EditError::KeyslotInUse { name, number }.into());
        }
        Ok(())
    }

    /// Checks that keyslot `number` can be removed: [`LuksVolume::remove_keyslot`] does this first.
    ///
    /// # Errors
    /// [`EditError::NoKeyslot`], and unless `last` allows it [`EditError::LastKeyslot`].
    pub fn check_removal(&self, number: u32, last: bool) -> Result<()> {
        if !self.header.keyslot_numbers().contains(&number) {
            let name = self.name();
            return Err(EditError::NoKeyslot { name, number }.into());
        }
        self.check_is_not_last(number, last)
    }

    fn confirm_removal(&self, secrets: &dyn Secrets, number: u32) -> Result<()> {
        let others = self.header.data_keyslots().into_iter();
        let left = others.filter(|&other| other != number).count();
        secrets.confirm_removal(self.path(), number, left)
    }

    fn check_is_not_last(&self, number: u32, allowed: bool) -> Result<()> {
        check_is_not_last(&self.header, self.name(), number, allowed)
    }

    /// Changes or removes keyslot `number`. Other programs may have changed other parts of the metadata
    /// since they were read, but not the keyslots `known`, whose secrets were checked, and they may have
    /// made it the last one, which only `last` permits.
    fn change_keyslot(
        &mut self,
        number: u32,
        known: &[u32],
        last: bool,
        context: &Context,
        change: impl FnOnce(&mut VolumeHeader, &dyn Storage) -> Result<(), ChangeError>,
    ) -> Result<()> {
        let name = self.name();
        let still_fits = |before: &VolumeHeader, now: &VolumeHeader| {
            if !known
                .iter()
                .all(|&number| now.has_same_keyslot(before, number))
            {
                return Err(changed_meanwhile(&name));
            }
            check_is_not_last(now, name, number, last)
        };
        self.change_present(context, still_fits, change)
    }

    fn new_keyslot(
        &self,
        key: ConfirmedKey<'_>,
        secret: &SecretBytes,
        pbkdf: &PbkdfOptions,
        engine: &Engine,
        context: &Context,
    ) -> Result<NewKeyslot> {
        let _step = context.events.step("Making the keyslot");
        let (secret, backend) = (secret.expose(), &*engine.backend);
        let new = self.header.new_keyslot(key, secret, pbkdf, backend)?;
        context.check_cancelled()?;
        Ok(new)
    }
}

fn check_is_not_last(
    header: &VolumeHeader,
    name: String,
    number: u32,
    allowed: bool,
) -> Result<()> {
    let (all, openable) = (header.data_keyslots(), header.openable_keyslots());
    if allowed || (all != [number] && openable != [number]) {
        return Ok(());
    }
    let others = all.into_iter().filter(|&other| other != number).collect();
    let last = EditError::LastKeyslot {
        name,
        number,
        others,
    };
    Err(last.into())
}
