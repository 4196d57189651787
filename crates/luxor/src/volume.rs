// SPDX-License-Identifier: MIT OR Apache-2.0
//! An open volume: where its metadata and its data are.

mod payload;

use std::{
    collections::BTreeMap,
    os::fd::RawFd,
    path::{Path, PathBuf},
};

use luxor_engine::Backend;
use luxor_files::{
    Input, MetadataChange, NotLocked, PipedHeader, Role, Unusable, VolumePlace, begins_with_luks1,
    is_same_file, lock_to_read,
    locks::{Access, DataLock, Lock, LockError, ReencryptionLock},
    path_name,
};
use luxor_luks::{
    ChangeError, ConvertError, HeaderRepair, Luks2Header, LuksVersion, RepairOutlook, UnlockError,
    UnlockOptions, Unlocked, VolumeHeader, VolumeReadError, check_file_length,
};
use luxor_secret::SecretBytes;
use luxor_sector::{MemoryStorage, Storage};
use luxor_volume::{Extent, Plaintext, VolumeKey};

use crate::{
    Contents, Context, Error, ErrorClass, Result, Secrets, VolumeError,
    secrets::{NotUnlocked, try_secrets},
};

pub(crate) use self::payload::DataSource;

/// A LUKS volume with the metadata that were read from it, but without keys, which
/// [`Volume::unlock`] returns.
pub struct Volume {
    /// The metadata as they were read, or as the last change through this value left them.
    pub header: VolumeHeader,
    path: PathBuf,
    metadata: Metadata,
    /// The data, if they are in another file.
    data: Option<Input>,
    /// Whether the end of the data may be missing.
    pub(crate) may_be_cut_off: bool,
}

enum Metadata {
    /// A file or a device.
    Seekable(Input),
    /// A pipe, and what has been read of it.
    Stream(PipedHeader),
}

impl Volume {
    /// Reads the metadata of `input`, a volume or a detached header. Damage to only one copy of the
    /// metadata is reported as a warning.
    ///
    /// Open `input` with [`Role::Data`] for [`decrypt`](fn@crate::decrypt), with [`Role::Change`]
    /// for changes of the metadata, and with [`Role::Metadata`] if only the metadata are read.
    ///
    /// # Errors
    /// [`VolumeError::Unreadable`] if `input` contains no valid metadata or cannot be read. Also
    /// fails when another program holds the lock on the metadata for 30 seconds, and when the
    /// policy of `context` refuses the volume.
    pub fn open(input: Input, context: &Context) -> Result<Self> {
        Self::open_with_header(input, None, context)
    }

    /// As [`Volume::open`]. With a `header` in another file, the metadata are read from there, and
    /// `input` has only the data.
    ///
    /// # Errors
    /// Those of [`Volume::open`].
    pub fn open_with_header(
        input: Input,
        header: Option<Input>,
        context: &Context,
    ) -> Result<Self> {
        let volume = Self::read_with_header(input, header, context)?;
        for warning in volume.header.warnings() {
            context
                .events
                .warning(&format!("{}: {warning}", volume.name()));
        }
        Ok(volume)
    }

    /// As [`Volume::open_with_header`], but without the warnings.
    ///
    /// # Errors
    /// Those of [`Volume::open`].
    pub fn read_with_header(
        input: Input,
        header: Option<Input>,
        context: &Context,
    ) -> Result<Self> {
        match header {
            Some(header) if !is_same_file(input.path(), header.path()) => {
                Ok(Self::read(header, context)?.with_data(input))
            }
            _ => Self::read(input, context),
        }
    }

    /// Opens the file at a path, or a part of it, and reads its metadata, as [`Volume::open`] does.
    ///
    /// # Errors
    /// Those of [`Volume::open`]. Also fails when the file cannot be opened, and with
    /// [`Role::Change`] when it cannot be locked.
    pub fn open_metadata<'a>(
        place: impl Into<VolumePlace<'a>>,
        role: Role,
        context: &Context,
    ) -> Result<Self> {
        let input = Input::open(place, role)?;
        // Take the locks once for a test, so that a missing lock is reported before a secret is
        // asked for.
        if role == Role::Change {
            begin_change(&input, context)?;
        }
        Self::open(input, context)
    }

    /// As [`Volume::open`], but without the warnings.
    ///
    /// # Errors
    /// Those of [`Volume::open`].
    pub fn read(input: Input, context: &Context) -> Result<Self> {
        let (path, name) = (input.path().to_owned(), input.name());
        let lock = lock_to_read(&input, &context.cancel)?;
        let metadata = Metadata::of(input);
        let header = VolumeHeader::read(metadata.storage());
        drop(lock);
        let header = header.map_err(|error| match &metadata {
            Metadata::Seekable(input) => unreadable(error, input, &name),
            // What follows stays in the pipe.
            Metadata::Stream(prefix) => {
                let beginning = MemoryStorage::new(prefix.beginning(1 << 20));
                unreadable(error, &beginning, &name)
            }
        })?;
        context.policy.check(&header, &shown(&path))?;
        Ok(Self {
            header,
            path,
            metadata,
            data: None,
            may_be_cut_off: false,
        })
    }

    /// Adds the file with the data to a volume whose metadata are a detached header.
    #[must_use]
    pub fn with_data(self, data: Input) -> Self {
        Self {
            data: Some(data),
            ..self
        }
    }

    /// Returns the version of LUKS, or `None` for a file that is not LUKS. Also returns it for a
    /// volume that [`Volume::open`] refuses, if the metadata show the version and the policy of
    /// `context` is empty; an event notes the reason for the refusal.
    ///
    /// # Errors
    /// Those of [`Volume::open`], except in these two cases.
    pub fn version(input: Input, context: &Context) -> Result<Option<LuksVersion>> {
        let path = input.path().to_owned();
        let lock = lock_to_read(&input, &context.cancel)?;
        let metadata = Metadata::of(input);
        let header = VolumeHeader::read(metadata.storage());
        drop(lock);
        match header {
            Ok(header) => {
                context.policy.check(&header, &shown(&path))?;
                Ok(Some(header.version()))
            }
            Err(error) if error.is_not_luks() => {
                context.events.note(&format!("{}: {error}", shown(&path)));
                Ok(None)
            }
            Err(error) => match error.version() {
                Some(version) if context.policy.is_empty() => {
                    context.events.note(&format!("{}: {error}", shown(&path)));
                    Ok(Some(version))
                }
                _ => Err(unreadable(error, metadata.storage(), &shown(&path))),
            },
        }
    }

    /// The volume's name for messages.
    #[must_use]
    pub fn name(&self) -> String {
        shown(&self.path)
    }

    /// The path of the file or device with the metadata.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a keyslot with a secret from `secrets`, which is asked again after a wrong secret.
    /// Returns the keys, and the secret for a caller that needs it again. `backend` decrypts the
    /// keyslot: use [`Engine::backend`](crate::Engine::backend) of an engine for `Mode::Xts`.
    ///
    /// # Errors
    /// The errors of `secrets`. Otherwise the source is an [`UnlockError`], and the class is
    /// [`ErrorClass::NoKey`] if the secret opens no keyslot or there is none to open,
    /// [`ErrorClass::OutOfMemory`] if Argon2 does not get its memory, and otherwise
    /// [`ErrorClass::Failure`].
    pub fn unlock(
        &self,
        secrets: &dyn Secrets,
        backend: &dyn Backend,
        options: &UnlockOptions,
        context: &Context,
    ) -> Result<(Unlocked, SecretBytes)> {
        let storage = self.metadata.storage();
        self.try_secrets(secrets, context, |secret| {
            self.header.unlock(storage, secret, backend, options)
        })
    }

    /// Tests a secret: as [`Volume::unlock`], but also works if the data cannot be read, because a
    /// re-encryption was interrupted or because this version does not support their encryption.
    ///
    /// # Errors
    /// Those of [`Volume::unlock`].
    pub fn test(
        &self,
        secrets: &dyn Secrets,
        backend: &dyn Backend,
        options: &UnlockOptions,
        context: &Context,
    ) -> Result<(Unlocked, SecretBytes)> {
        let storage = self.metadata.storage();
        self.try_secrets(secrets, context, |secret| {
            self.header.test(storage, secret, backend, options)
        })
    }

    /// Returns the keys of the data: those of a keyslot, as [`Volume::unlock`] opens it, or a volume
    /// key from `secrets` ([`Secrets::are_volume_keys`]).
    ///
    /// # Errors
    /// Those of [`Volume::unlock`]. Also fails with a volume key during a re-encryption, because the
    /// data then have several.
    pub fn unlock_data(
        &self,
        secrets: &dyn Secrets,
        backend: &dyn Backend,
        options: &UnlockOptions,
        context: &Context,
    ) -> Result<BTreeMap<u32, VolumeKey>> {
        if !secrets.are_volume_keys() {
            let (unlocked, _) = self.unlock(secrets, backend, options, context)?;
            return Ok(unlocked.into_keys());
        }
        self.try_volume_keys(secrets, context, |key| {
            self.header.confirm_volume_key(key, options)
        })
    }

    /// As [`Volume::unlock_data`], but also works if the data cannot be read, as [`Volume::test`] does.
    ///
    /// # Errors
    /// Those of [`Volume::unlock_data`].
    pub fn unlock_keys(
        &self,
        secrets: &dyn Secrets,
        backend: &dyn Backend,
        options: &UnlockOptions,
        context: &Context,
    ) -> Result<BTreeMap<u32, VolumeKey>> {
        if !secrets.are_volume_keys() {
            let (unlocked, _) = self.test(secrets, backend, options, context)?;
            return Ok(unlocked.into_keys());
        }
        self.try_volume_keys(secrets, context, |key| {
            self.header.test_volume_key(key, options)
        })
    }

    fn try_volume_keys(
        &self,
        secrets: &dyn Secrets,
        context: &Context,
        confirm: impl Fn(&SecretBytes) -> Result<BTreeMap<u32, VolumeKey>, UnlockError>,
    ) -> Result<BTreeMap<u32, VolumeKey>> {
        let (keys, _) = try_secrets(&self.path, secrets, context, |key| {
            confirm(key).map_err(|error| self.not_unlocked(error))
        })?;
        Ok(keys)
    }

    fn try_secrets(
        &self,
        secrets: &dyn Secrets,
        context: &Context,
        unlock: impl Fn(&[u8]) -> Result<Unlocked, UnlockError>,
    ) -> Result<(Unlocked, SecretBytes)> {
        if secrets.are_volume_keys() {
            let name = self.name();
            let message = format!("{name}: a volume key belongs to no keyslot");
            return Err(Error::failure(message));
        }
        let (unlocked, secret) = try_secrets(&self.path, secrets, context, |secret| {
            unlock(secret.expose()).map_err(|error| self.not_unlocked(error))
        })?;
        let text = format!("keyslot {} opened", unlocked.keyslot);
        context.events.note(&text);
        Ok((unlocked, secret))
    }

    fn not_unlocked(&self, error: UnlockError) -> NotUnlocked {
        let is_wrong_secret = error.is_wrong_secret();
        let class = if is_wrong_secret || matches!(error, UnlockError::NoKeyslots { .. }) {
            ErrorClass::NoKey
        } else {
            ErrorClass::of_memory(error.is_out_of_memory())
        };
        NotUnlocked {
            error: Error::new(class, format!("{}: {error}", self.name())).caused_by(error),
            is_wrong_secret,
        }
    }

    /// Changes the metadata under their write lock. Other processes wait meanwhile, so `change`
    /// must be quick. It receives the header and the storage that contains it, which every method
    /// of [`VolumeHeader`] that changes the metadata needs.
    ///
    /// # Errors
    /// Those of `change`. Also fails when another program holds the lock for 30 seconds, when
    /// [`Context::cancel`] is set before the lock is acquired, when a required lock cannot be
    /// acquired, and when writing fails because the volume was opened with another role than
    /// [`Role::Change`].
    ///
    /// # Panics
    /// Panics if the metadata came through a pipe, which [`Role::Change`] does not permit.
    pub fn change<T>(
        &mut self,
        context: &Context,
        change: impl FnOnce(&mut VolumeHeader, &dyn Storage) -> Result<T, ChangeError>,
    ) -> Result<T> {
        self.lock_to_change(context)?.change(change)
    }

    /// As [`Volume::change`], for a change that other changes do not disturb, such as one more keyslot.
    /// If another program has changed the metadata since they were read, but not what they say about the
    /// data, the change is made to the present metadata. `still_fits` may refuse that; it gets the
    /// metadata that were read before, and the present ones.
    ///
    /// # Errors
    /// Those of [`Volume::change`] and of `still_fits`.
    ///
    /// # Panics
    /// As [`Volume::change`].
    pub fn change_present<T>(
        &mut self,
        context: &Context,
        still_fits: impl FnOnce(&VolumeHeader, &VolumeHeader) -> Result<()>,
        change: impl FnOnce(&mut VolumeHeader, &dyn Storage) -> Result<T, ChangeError>,
    ) -> Result<T> {
        let mut locked = self.lock_to_change(context)?;
        let now = read_header(locked.lock.storage(), locked.path)?;
        if now.uuid() == locked.header.uuid() && now.has_same_data(locked.header) {
            context.policy.check(&now, &shown(locked.path))?;
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
        changeable.map_err(|error| failed(&self.path, error))
    }

    /// Locks the metadata for one or more changes.
    pub(crate) fn lock_to_change(&mut self, context: &Context) -> Result<LockedMetadata<'_>> {
        Ok(LockedMetadata {
            lock: begin_change(self.metadata.input(), context)?,
            header: &mut self.header,
            path: &self.path,
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
    ///
    /// # Panics
    /// Panics if the metadata came through a pipe, which [`Role::Change`] does not permit.
    pub fn convert(self, force: bool, context: &Context) -> Result<()> {
        let change = begin_change(self.metadata.input(), context)?;
        let _exclusive = exclusive(&change)?;
        let converted = self.header.convert(change.storage(), force);
        converted.map_err(|error| failed(&self.path, error))
    }

    /// Keeps cryptsetup from continuing a re-encryption, if the volume has one, until the returned
    /// lock is dropped. Returns `None` if the volume has none. Hold the lock while you read the
    /// data: watching the metadata would not be enough, because without resilience cryptsetup
    /// writes its progress there only at its end. Users other than root cannot take the lock; for
    /// them the returned lock has no effect.
    ///
    /// # Errors
    /// [`ErrorClass::Busy`] if another program is re-encrypting the volume. Also fails when the lock
    /// cannot be acquired for another reason.
    pub fn lock_reencryption(&self) -> Result<Option<ReencryptionLock>> {
        if self.header.is_reencrypting() {
            self.keep_reencryptions_out()
        } else {
            Ok(None)
        }
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
            let text = format!(
                "{}: only root can take cryptsetup's lock on a re-encryption",
                self.name()
            );
            if !is_file {
                return Err(Error::failure(text).hint("Run the command as root."));
            }
            let text = format!("{text}: do not run cryptsetup on this volume meanwhile");
            context.events.warning(&text);
        }
        Ok(lock)
    }

    fn no_reencryption_lock(&self, error: LockError) -> Error {
        match error {
            LockError::Held(_) => Error::new(
                ErrorClass::Busy,
                format!("{}: another program re-encrypts or reads it", self.name()),
            ),
            source => {
                let path = self.path.clone();
                NotLocked { path, source }.into()
            }
        }
    }

    /// Whether the data are in another file than the metadata.
    pub(crate) fn has_detached_header(&self) -> bool {
        self.data.is_some()
    }

    /// The storage of the metadata.
    /// The descriptors that it holds, for [`OfProcess::holding`](luxor_files::OfProcess::holding).
    #[must_use]
    pub fn descriptors(&self) -> Vec<RawFd> {
        let metadata = match &self.metadata {
            Metadata::Seekable(input) => input.descriptors(),
            Metadata::Stream(_) => Vec::new(),
        };
        let data = self.data.iter().flat_map(Input::descriptors);
        metadata.into_iter().chain(data).collect()
    }

    pub(crate) fn metadata_storage(&self) -> &dyn Storage {
        self.metadata.storage()
    }

    /// Reads the metadata again.
    ///
    /// # Errors
    /// Those of [`Volume::open`]. Also fails when it has another UUID.
    pub(crate) fn read_again(&mut self, context: &Context) -> Result<()> {
        let input = self.metadata.input();
        let _lock = lock_to_read(input, &context.cancel)?;
        let header = read_header(input, &self.path)?;
        if header.uuid() != self.header.uuid() {
            let message = format!("{}: another program replaced it", self.name());
            return Err(Error::failure(message));
        }
        self.header = header;
        Ok(())
    }

    /// Returns the plaintext with these keys.
    ///
    /// # Errors
    /// Those of [`Volume::extents`].
    pub(crate) fn plaintext_of(&self, keys: BTreeMap<u32, VolumeKey>) -> Result<Plaintext> {
        Ok(Plaintext {
            extents: self.extents()?.unwrap_or_default(),
            len: None,
            keys,
        })
    }

    /// As [`Volume::lock_reencryption`], but also keeps cryptsetup from starting a re-encryption.
    /// Returns `None` only for LUKS1, which has no such lock.
    ///
    /// # Errors
    /// Those of [`Volume::lock_reencryption`].
    pub fn keep_reencryptions_out(&self) -> Result<Option<ReencryptionLock>> {
        if self.header.version() == LuksVersion::Luks1 {
            return Ok(None);
        }
        let lock = ReencryptionLock::acquire(self.header.uuid(), Access::Read);
        lock.map(Some).map_err(|error| match error {
            LockError::Held(_) => Error::new(
                ErrorClass::Busy,
                format!("{}: another program is re-encrypting it", self.name()),
            ),
            error => self.no_reencryption_lock(error),
        })
    }

    /// Accepts data whose end was cut off: then the plaintext is what is left of it, in whole sectors.
    pub fn accept_cut_off(&mut self) {
        self.may_be_cut_off = true;
    }

    /// Whether this is a detached header whose data file is not known: the data would begin inside
    /// the metadata.
    #[must_use]
    pub fn is_without_data(&self) -> bool {
        self.data.is_none() && self.header.data_offset() < self.header.metadata_len()
    }

    /// Returns the number of bytes of encrypted data. `None` if they come from a pipe and the
    /// metadata do not record their length.
    ///
    /// # Errors
    /// Fails when the data are cut off, and with [`VolumeError::DetachedHeader`] when they are in
    /// another file ([`Volume::is_without_data`]).
    pub fn payload_len(&self) -> Result<Option<u64>> {
        let Some(extents) = self.extents()? else {
            return Ok(None);
        };
        let len = extents.iter().map(|extent| extent.len).sum();
        if let (Some(length), false) = (self.header.file_length(), self.may_be_cut_off) {
            check_file_length(length, len, self.header.file_sector_size())
                .map_err(|error| cut_off(format!("{}: {error}", self.data_name())))?;
        }
        Ok(Some(len))
    }

    /// Returns the number of bytes of plaintext: the exact length of an encrypted file if the
    /// metadata record it and it is not cut off, otherwise [`Volume::payload_len`].
    ///
    /// # Errors
    /// Those of [`Volume::payload_len`].
    pub fn plaintext_len(&self) -> Result<Option<u64>> {
        let (file, payload) = (self.header.file_length(), self.payload_len()?);
        Ok(file.into_iter().chain(payload).min())
    }

    /// Returns the number of bytes of plaintext if nothing is cut off, and `None` if the metadata do
    /// not record it.
    pub(crate) fn recorded_len(&self) -> Option<u64> {
        if self.header.has_trailer() {
            return None;
        }
        let fixed = || self.header.stream_extent().map(|extent| extent.len);
        let recorded = self.header.file_length().or_else(fixed);
        recorded.filter(|&len| len != u64::MAX)
    }

    /// Whether a file or device ends before the data do.
    pub(crate) fn ends_in_sector(&self) -> bool {
        let extents = self.storage_len().map(|len| self.header.extents(len));
        matches!(extents, Some(Err(error)) if error.is_cut_off())
    }

    /// The length in bytes of the file or device with the data. `None` for a pipe.
    pub(crate) fn storage_len(&self) -> Option<u64> {
        match (&self.data, &self.metadata) {
            (Some(input), _) | (None, Metadata::Seekable(input)) => input.len(),
            (None, Metadata::Stream(_)) => None,
        }
    }

    /// Returns the extents of the data, in the order of the plaintext, at offsets in the file with
    /// the data. `None` if they come from a pipe and the metadata do not record their length.
    ///
    /// # Errors
    /// Fails when the data are cut off or this version cannot read a part of them, and with
    /// [`VolumeError::DetachedHeader`] when they are in another file
    /// ([`Volume::is_without_data`]).
    pub fn extents(&self) -> Result<Option<Vec<Extent>>> {
        if self.is_without_data() {
            let name = self.name();
            return Err(VolumeError::DetachedHeader { name }.into());
        }
        let name = self.data_name();
        let storage_len = match self.storage_len() {
            Some(len) => len,
            None => match stream_extent(&self.header, &name)? {
                Extent { len: u64::MAX, .. } => return Ok(None),
                Extent { offset, len, .. } => offset.saturating_add(len),
            },
        };
        // A trailer says where the data end.
        let extents = if self.may_be_cut_off || self.header.has_trailer() {
            let whole = self.header.whole_extents(storage_len);
            whole.map(|extents| Extent::within(extents, storage_len))
        } else {
            self.header.extents(storage_len)
        };
        match extents {
            Ok(extents) if extents.is_empty() => {
                if self.is_header_only(storage_len) {
                    return Err(VolumeError::HeaderOnly { name }.into());
                }
                let message = format!("{name} ends before the data: it was cut off");
                Err(Error::failure(message))
            }
            Ok(extents) => Ok(Some(extents)),
            Err(error) if error.is_cut_off() => {
                let message = format!("{name}: {error}");
                let whole = self.header.whole_extents(storage_len);
                let left = whole.map(|extents| Extent::within(extents, storage_len));
                match left {
                    Ok(extents) if !extents.is_empty() => Err(cut_off(message)),
                    _ if self.is_header_only(storage_len) => {
                        Err(VolumeError::HeaderOnly { name }.into())
                    }
                    _ => Err(Error::failure(message)),
                }
            }
            Err(error) => Err(Error::failure(format!("{name}: {error}"))),
        }
    }

    /// Whether the metadata are there, and a file of this length has no byte of the data.
    fn is_header_only(&self, storage_len: u64) -> bool {
        let without_data = self.header.metadata_len()..=self.header.data_offset();
        self.data.is_none() && without_data.contains(&storage_len)
    }

    /// The name of the file with the data, for messages.
    pub(crate) fn data_name(&self) -> String {
        self.data.as_ref().map_or_else(|| self.name(), Input::name)
    }

    /// The path of the file or device with the data.
    #[must_use]
    pub fn data_path(&self) -> &Path {
        self.data.as_ref().map_or(&self.path, Input::path)
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
    path: &'a Path,
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
            failed(self.path, error)
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
        Unusable::InUse(user) => Error::new(ErrorClass::Busy, format!("{name} is {user}")),
        Unusable::Io(error) => Error::io(format!("cannot open {name}"), &error),
    })
}

fn read_header(storage: &dyn Storage, path: &Path) -> Result<VolumeHeader> {
    VolumeHeader::read(storage).map_err(|error| unreadable(error, storage, &shown(path)))
}

/// The error for a storage whose metadata cannot be read. If it has none, the error says what it is.
pub(crate) fn unreadable(error: VolumeReadError, storage: &dyn Storage, name: &str) -> Error {
    let name = name.to_owned();
    let repair = if error.is_unread() {
        RepairOutlook::Impossible
    } else {
        HeaderRepair::outlook(storage)
    };
    if error.is_not_luks()
        && repair == RepairOutlook::Impossible
        && let Ok(contents) = Contents::of(storage)
    {
        return VolumeError::NotAVolume { name, contents }.into();
    }
    VolumeError::Unreadable {
        name,
        source: error,
        repair,
    }
    .into()
}

/// Returns the only extent of a volume that is read from a pipe.
fn stream_extent(header: &VolumeHeader, name: &str) -> Result<Extent> {
    header.stream_extent().ok_or_else(|| {
        Error::failure(format!(
            "{name}: the data are in several parts, which cannot be read from a pipe"
        ))
        .hint("Name a file or a block device.")
    })
}

impl Metadata {
    fn of(input: Input) -> Self {
        match input.as_storage() {
            Some(_) => Self::Seekable(input),
            None => Self::Stream(PipedHeader::of(Box::new(input))),
        }
    }

    /// Returns the input, which [`Role::Change`] never opens as a stream.
    fn input(&self) -> &Input {
        match self {
            Self::Seekable(input) => input,
            Self::Stream(_) => panic!("the volume was not opened with Role::Change"),
        }
    }

    fn storage(&self) -> &dyn Storage {
        match self {
            Self::Seekable(input) => input,
            Self::Stream(prefix) => prefix,
        }
    }
}

/// What to do about data whose end is missing.
pub(crate) const SAVES: &str =
    "`luxor decrypt --truncated VOLUME NEW-FILE` saves the whole sectors that are left.";

/// The error for data whose end is missing.
pub(crate) fn cut_off(message: String) -> Error {
    Error::failure(message).hint(SAVES)
}

/// The error of a change to the metadata at `path`.
fn failed(path: &Path, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(class_of(&error), format!("{}: {error}", shown(path))).caused_by(error)
}

/// Returns the class of an error of a change: metadata that another program has changed are in use.
pub(crate) fn class_of(error: &(dyn std::error::Error + 'static)) -> ErrorClass {
    let change = match error.downcast_ref() {
        Some(ConvertError::Change(error)) => Some(error),
        _ => error.downcast_ref(),
    };
    match change {
        Some(ChangeError::ChangedMeanwhile) => ErrorClass::Busy,
        _ => ErrorClass::Failure,
    }
}

/// Whether a change failed because another program holds the lock on the metadata, and may succeed later.
pub(crate) fn is_locked(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    let is_changed = source.is_some_and(|source| class_of(source) == ErrorClass::Busy);
    error.class() == ErrorClass::Busy && !is_changed
}

/// The error for metadata that another program has changed in a way that forbids this change.
pub(crate) fn changed_meanwhile(name: &str) -> Error {
    let error = ChangeError::ChangedMeanwhile;
    Error::new(ErrorClass::Busy, format!("{name}: {error}")).caused_by(error)
}

fn shown(path: &Path) -> String {
    if path == Path::new("-") {
        "standard input".into()
    } else {
        path_name(path)
    }
}
