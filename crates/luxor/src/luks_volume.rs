// SPDX-License-Identifier: MIT OR Apache-2.0
//! A LUKS volume that is open for changes of its metadata.

use std::{
    collections::BTreeMap,
    ops::Deref,
    path::{Path, PathBuf},
    sync::Arc,
};

use luxor_files::{
    Input, MetadataChange, Role, Unusable, VolumePlace, begins_with_luks1, lock_to_read,
    locks::{Access, DataLock, Lock, ReencryptionLock},
    path_name,
};
use luxor_luks::{ChangeError, Luks, Luks2Header, VolumeHeader};
use luxor_sector::Storage;
use luxor_volume::{DataKey, Plaintext, VolumeKey};

use crate::{
    Context, EditError, Error, ErrorClass, LuksMetadata, ReencryptError, Result,
    error::Cause,
    metadata::{Source, shown, unreadable},
};

/// A LUKS volume that is open for changes of its metadata. It reads as [`LuksMetadata`] does.
pub struct LuksVolume {
    metadata: LuksMetadata,
    /// The file, device or storage with the metadata.
    input: Arc<Input>,
}

impl Deref for LuksVolume {
    type Target = LuksMetadata;

    fn deref(&self) -> &LuksMetadata {
        &self.metadata
    }
}

impl LuksVolume {
    /// Opens the volume or detached header at a path, or in a part of a file.
    ///
    /// # Errors
    /// Those of [`VolumeMetadata::open`](crate::VolumeMetadata::open). Also fails when the file cannot
    /// be opened for writing or its metadata cannot be locked.
    pub fn open<'a>(place: impl Into<VolumePlace<'a>>, context: &Context) -> Result<Self> {
        let input = Input::open(place, Role::Change)?;
        // Take the locks once for a test, so that a missing lock is reported before a secret is
        // asked for.
        begin_change(&input, context)?;
        Self::of_input(input, context)
    }

    /// Opens the volume or detached header in `input`, which was opened with [`Role::Change`].
    ///
    /// # Errors
    /// Those of [`VolumeMetadata::open`](crate::VolumeMetadata::open). Also fails when `input` is a
    /// stream.
    pub fn of_input(input: Input, context: &Context) -> Result<Self> {
        let metadata = LuksMetadata::open_input(input, None, context)?;
        let Source::Seekable(input) = metadata.source() else {
            return Err(EditError::Stream.about(&metadata.name()));
        };
        Ok(Self {
            input: Arc::clone(input),
            metadata,
        })
    }

    /// Adds the file with the data to a volume whose metadata are a detached header.
    #[must_use]
    pub fn with_data(self, data: Input) -> Self {
        Self {
            metadata: self.metadata.with_data(data),
            ..self
        }
    }

    /// Accepts data whose end was cut off, as [`LuksMetadata::accept_cut_off`](crate::VolumeMetadata::accept_cut_off)
    /// does.
    pub(crate) fn accept_cut_off(&mut self) {
        self.metadata.accept_cut_off();
    }

    /// Returns the metadata, for reading only.
    #[must_use]
    pub fn into_metadata(self) -> LuksMetadata {
        self.metadata
    }

    /// Changes the metadata under their write lock. Other processes wait meanwhile, so `change`
    /// must be quick. It receives the header and the storage that contains it, which every method
    /// of [`VolumeHeader`] that changes the metadata needs.
    ///
    /// # Errors
    /// Those of `change`. Also fails when another program holds the lock for 30 seconds, when
    /// [`Context::cancel`] is set before the lock is acquired, and when a required lock cannot be
    /// acquired.
    pub fn change<T>(
        &mut self,
        context: &Context,
        change: impl FnOnce(&mut VolumeHeader, &dyn Storage) -> Result<T, ChangeError>,
    ) -> Result<T> {
        self.lock_to_change(context)?.change(change)
    }

    /// As [`LuksVolume::change`], for a change of a re-encryption, which only LUKS2 has.
    ///
    /// # Errors
    /// Those of [`LuksVolume::change`], and [`ChangeError::NotInLuks1`].
    pub(crate) fn change_luks2<T>(
        &mut self,
        context: &Context,
        change: impl FnOnce(&mut Luks2Header, &dyn Storage) -> Result<T, ChangeError>,
    ) -> Result<T> {
        self.lock_to_change(context)?.change_luks2(change)
    }

    /// As [`LuksVolume::change`], for a change that other changes do not disturb, such as one more
    /// keyslot. If another program has changed the metadata since they were read, but not what they
    /// say about the data, the change is made to the present metadata. `still_fits` may refuse that;
    /// it gets the metadata that were read before, and the present ones.
    ///
    /// # Errors
    /// Those of [`LuksVolume::change`] and of `still_fits`.
    pub fn change_present<T>(
        &mut self,
        context: &Context,
        still_fits: impl FnOnce(&VolumeHeader, &VolumeHeader) -> Result<()>,
        change: impl FnOnce(&mut VolumeHeader, &dyn Storage) -> Result<T, ChangeError>,
    ) -> Result<T> {
        let part = self.input.part_begin();
        let mut locked = self.lock_to_change(context)?;
        let now = read_header(locked.lock.storage(), part, &locked.path)?;
        if now.uuid() == locked.header.uuid() && now.has_same_data(locked.header) {
            context.policy.check(&now, &shown(&locked.path))?;
            still_fits(locked.header, &now)?;
            *locked.header = now;
        }
        locked.change(change)
    }

    /// Checks that the metadata require nothing that forbids changes. Every change does this too, but
    /// only after the user was asked for secrets.
    ///
    /// # Errors
    /// Fails during a re-encryption (the source is [`ChangeError::Reencrypting`]), and when the metadata
    /// have a requirement that this version does not know.
    pub fn check_changeable(&self) -> Result<()> {
        let changeable = self
            .header
            .luks2()
            .map_or(Ok(()), Luks2Header::check_changeable);
        changeable.map_err(|error| error.about(&self.name()))
    }

    /// Locks the metadata for one or more changes.
    pub(crate) fn lock_to_change(&mut self, context: &Context) -> Result<LockedMetadata<'_>> {
        Ok(LockedMetadata {
            lock: begin_change(&self.input, context)?,
            path: self.metadata.path().to_owned(),
            header: &mut self.metadata.header,
        })
    }

    /// Converts the volume to the other version of LUKS, in place and without a secret. With
    /// `force`, LUKS2 metadata that LUKS1 cannot represent are dropped. No other process may use
    /// the volume meanwhile.
    ///
    /// # Errors
    /// Fails when the other version cannot represent the volume (the source is a
    /// [`ConvertError`](luxor_luks::ConvertError)), when the volume is in use
    /// ([`ErrorClass::Busy`]), and when it cannot be locked or written.
    pub fn convert(self, force: bool, context: &Context) -> Result<()> {
        let change = begin_change(&self.input, context)?;
        let _exclusive = exclusive(&change)?;
        let path = self.metadata.path().to_owned();
        let converted = self.metadata.header.convert(change.storage(), force);
        converted.map_err(|error| error.about(&shown(&path)))
    }

    /// Keeps every other program from re-encrypting or reading the volume, until the returned lock is
    /// dropped. `is_file` is whether the data are in a regular file.
    ///
    /// # Errors
    /// [`ErrorClass::Busy`] if another program holds the lock. Also fails when the lock cannot be
    /// acquired; for a regular file that is only a warning, because its data are locked too.
    pub(crate) fn lock_for_reencryption(
        &self,
        is_file: bool,
        context: &Context,
    ) -> Result<ReencryptionLock> {
        let lock = ReencryptionLock::acquire(self.header.uuid(), Access::Write);
        let lock = lock.map_err(|error| self.no_reencryption_lock(error))?;
        if !lock.is_held() {
            let error = ReencryptError::LockIsRoots.about(&self.name());
            if !is_file {
                return Err(error);
            }
            let text = format!("{error}: do not run cryptsetup on this volume meanwhile");
            context.events.warning(&text);
        }
        Ok(lock)
    }

    /// Reads the metadata again.
    ///
    /// # Errors
    /// Those of [`VolumeMetadata::open`](crate::VolumeMetadata::open). Also fails when it has another
    /// UUID.
    pub(crate) fn read_again(&mut self, context: &Context) -> Result<()> {
        let _lock = lock_to_read(&self.input, &context.cancel)?;
        let header = read_header(&*self.input, self.input.part_begin(), self.path())?;
        if header.uuid() != self.header.uuid() {
            return Err(EditError::Replaced.about(&self.name()));
        }
        *self.metadata.header = header;
        Ok(())
    }

    /// Returns the plaintext with these keys.
    ///
    /// # Errors
    /// Those of [`VolumeMetadata::extents`](crate::VolumeMetadata::extents).
    pub(crate) fn plaintext_of(&self, keys: BTreeMap<u32, VolumeKey>) -> Result<Plaintext> {
        let keys = keys.into_iter();
        Ok(Plaintext {
            extents: self.extents()?.unwrap_or_default(),
            len: None,
            keys: keys
                .map(|(number, key)| (number, DataKey::Engine(key)))
                .collect(),
        })
    }
}

/// Waits for the locks on `input`, which was opened with [`Role::Change`]. With
/// [`Context::disable_locks`] a lock that cannot be acquired is skipped. cryptsetup's lock is always
/// optional for LUKS1, because cryptsetup does not take it there.
///
/// # Errors
/// Fails when a required lock cannot be acquired, when another program holds it for too long, and
/// when [`Context::cancel`] is set.
pub(crate) fn begin_change<'a>(input: &'a Input, context: &Context) -> Result<MetadataChange<'a>> {
    let is_needed = |lock| match lock {
        Lock::Node => !context.disable_locks,
        Lock::Named => !context.disable_locks && !begins_with_luks1(input),
    };
    let change = MetadataChange::begin(input, is_needed, &context.cancel)?;
    // The caller may have cancelled while there was no lock to wait for.
    context.check_cancelled()?;
    Ok(change)
}

/// The metadata of a volume, which no other program reads or changes until this is dropped.
pub(crate) struct LockedMetadata<'a> {
    lock: MetadataChange<'a>,
    header: &'a mut VolumeHeader,
    path: PathBuf,
}

impl LockedMetadata<'_> {
    /// Makes one change.
    pub(crate) fn change<T>(
        &mut self,
        change: impl FnOnce(&mut VolumeHeader, &dyn Storage) -> Result<T, ChangeError>,
    ) -> Result<T> {
        // A re-encryption says itself how it continues.
        let is_reencrypting = self.header.is_reencrypting();
        let changed = change(self.header, self.lock.storage());
        changed.map_err(|error| {
            let error = if is_reencrypting {
                error
            } else {
                error.with_state()
            };
            error.about(&shown(&self.path))
        })
    }

    /// Makes one change of a re-encryption, which only LUKS2 has.
    pub(crate) fn change_luks2<T>(
        &mut self,
        change: impl FnOnce(&mut Luks2Header, &dyn Storage) -> Result<T, ChangeError>,
    ) -> Result<T> {
        self.change(|header, storage| match header.luks2_mut() {
            Some(header) => change(header, storage),
            None => Err(ChangeError::NotInLuks1 {
                what: "re-encryptions",
            }),
        })
    }
}

/// Keeps other processes from using a file or device until the returned value is dropped
/// ([`MetadataChange::exclusive`]).
///
/// # Errors
/// Fails when it is in use.
pub(crate) fn exclusive(change: &MetadataChange<'_>) -> Result<Option<DataLock>> {
    let name = path_name(change.path());
    change.exclusive().map_err(|error| match error {
        Unusable::InUse(user) => EditError::InUse { name, user }.into(),
        Unusable::Io(error) => Error::io(format!("cannot open {name}"), &error),
    })
}

fn read_header(storage: &dyn Storage, part: Option<u64>, path: &Path) -> Result<VolumeHeader> {
    let header = Luks { version: None }.read_header(storage);
    header.map_err(|error| unreadable(error, storage, part, &shown(path)))
}

/// Whether a change failed because another program holds the lock on the metadata, and may succeed later.
pub(crate) fn is_locked(error: &Error) -> bool {
    error.class() == ErrorClass::Busy && error.find::<ChangeError>().is_none()
}

/// The error for metadata that another program has changed in a way that forbids this change.
pub(crate) fn changed_meanwhile(name: &str) -> Error {
    ChangeError::ChangedMeanwhile.about(name)
}
