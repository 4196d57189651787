// SPDX-License-Identifier: MIT OR Apache-2.0
//! The metadata of a volume, and where its data are.

mod payload;
mod source;

use std::{
    any::Any,
    fmt,
    os::fd::RawFd,
    path::{Path, PathBuf},
    sync::Arc,
};

use luxor_engine::Backend;
use luxor_files::{
    Input, NotLocked, Role, VolumePlace, is_same_file, lock_to_read,
    locks::{Access, LockError, ReencryptionLock},
    path_name,
};
use luxor_luks::{
    HeaderRepair, Luks, Luks2Header, LuksVersion, OtherVersion, UnlockError, VolumeHeader,
    VolumeReadError, check_file_length,
};
use luxor_secret::SecretBytes;
use luxor_sector::Storage;
use luxor_volume::{
    Description, Extent, Format, Header, HeaderError, HeaderErrorKind, NotUnlocked,
    NotUnlockedKind, Reencryption, RepairOutlook, Secret, UnlockOptions, Unlocked,
};

use crate::{
    Contents, Context, Error, ErrorClass, OpenError, Result, Secrets,
    error::Cause,
    header_room::{interrupted_encryption, lacks_keyslots, prepared_encryption},
    secrets::{Attempt, try_secrets},
};

pub(crate) use self::{payload::DataSource, source::Source};

/// The metadata of a volume as they were read, and where its data are; without keys.
///
/// `H` is the type of the header: [`dyn Header`](Header) for a volume of any format, or a format's
/// own type, such as [`VolumeHeader`] for LUKS.
pub struct VolumeMetadata<H: ?Sized = dyn Header> {
    /// The metadata as they were read, or as the last change through this value left them.
    pub header: Box<H>,
    format: Arc<dyn Format>,
    path: PathBuf,
    source: Source,
    /// The data, if they are in another file.
    data: Option<Input>,
    /// Whether the end of the data may be missing.
    pub(crate) may_be_cut_off: bool,
}

/// The metadata of a LUKS volume.
pub type LuksMetadata = VolumeMetadata<VolumeHeader>;

impl VolumeMetadata {
    /// Reads the metadata of `input`, a volume of this format. With a `header` in another file, the
    /// metadata are read from there, and `input` has only the data. Defects that do not prevent
    /// opening the volume are reported as warnings.
    ///
    /// # Errors
    /// [`OpenError::Unreadable`] and [`OpenError::NotAVolume`] if there are no valid metadata.
    /// Also fails when another program holds the lock on the metadata for 30 seconds, and when the
    /// policy of `context` refuses the volume.
    pub fn open(
        input: Input,
        header: Option<Input>,
        format: Arc<dyn Format>,
        context: &Context,
    ) -> Result<Self> {
        let metadata = Self::read(input, header, format, context)?;
        metadata.warn(context);
        Ok(metadata)
    }

    /// As [`VolumeMetadata::open`], but without the warnings.
    ///
    /// # Errors
    /// Those of [`VolumeMetadata::open`].
    pub fn read(
        input: Input,
        header: Option<Input>,
        format: Arc<dyn Format>,
        context: &Context,
    ) -> Result<Self> {
        match header {
            Some(header) if !is_same_file(input.path(), header.path()) => {
                Ok(Self::read_from(header, format, context)?.with_data(input))
            }
            _ => Self::read_from(input, format, context),
        }
    }

    fn read_from(input: Input, format: Arc<dyn Format>, context: &Context) -> Result<Self> {
        let (path, name, part) = (input.path().to_owned(), input.name(), input.part_begin());
        let lock = lock_to_read(&input, &context.cancel)?;
        let source = Source::from_input(input);
        let header = format.read(source.storage());
        drop(lock);
        let header = header
            .map_err(|error| source.look(|storage| unreadable(error, storage, part, &name)))?;
        context.policy.check(&*header, &shown(&path))?;
        Ok(Self {
            header,
            format,
            path,
            source,
            data: None,
            may_be_cut_off: false,
        })
    }

    /// Returns the metadata of a LUKS volume, or `None` for another format.
    #[must_use]
    pub fn into_luks(self) -> Option<LuksMetadata> {
        let header: Box<dyn Any> = self.header;
        Some(VolumeMetadata {
            header: header.downcast().ok()?,
            format: self.format,
            path: self.path,
            source: self.source,
            data: self.data,
            may_be_cut_off: self.may_be_cut_off,
        })
    }

    /// The metadata of a LUKS volume, or `None` for another format.
    #[must_use]
    pub fn luks(&self) -> Option<&VolumeHeader> {
        self.header.downcast_ref()
    }
}

impl<H: Header + ?Sized> VolumeMetadata<H> {
    pub(crate) fn warn(&self, context: &Context) {
        for warning in self.header.warnings() {
            let text = format!("{}: {}", self.name(), warning.text);
            context.events.header_warning(&text, warning.remedy);
        }
    }

    /// Adds the file with the data to a volume whose metadata are a detached header.
    #[must_use]
    pub fn with_data(mut self, data: Input) -> Self {
        self.data = Some(data);
        self
    }

    /// Describes the volume.
    #[must_use]
    pub fn describe(&self) -> Description {
        self.header.describe()
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

    /// Returns the keys of the data, which a secret or a volume key from `secrets` opens
    /// ([`Secrets::are_volume_keys`]). `secrets` are asked again after a wrong secret. `backend`
    /// decrypts keyslots: use [`Engine::backend`](crate::Engine::backend).
    ///
    /// # Errors
    /// The errors of `secrets`. Otherwise the source is the format's own error, such as
    /// [`UnlockError`], and the class is [`ErrorClass::NoKey`] if the secret
    /// is wrong or there is no key to open, [`ErrorClass::OutOfMemory`] if Argon2 does not get its
    /// memory, and otherwise [`ErrorClass::Failure`].
    pub fn unlock_data(
        &self,
        secrets: &dyn Secrets,
        backend: &dyn Backend,
        options: &UnlockOptions,
        context: &Context,
    ) -> Result<Unlocked> {
        let storage = self.source.storage();
        self.try_keys(secrets, context, |secret| {
            self.header.unlock(storage, secret, backend, options)
        })
    }

    /// As [`VolumeMetadata::unlock_data`], but also works if the data cannot be read, because a
    /// re-encryption was interrupted or because this version does not support their encryption.
    ///
    /// # Errors
    /// Those of [`VolumeMetadata::unlock_data`].
    pub fn test_keys(
        &self,
        secrets: &dyn Secrets,
        backend: &dyn Backend,
        options: &UnlockOptions,
        context: &Context,
    ) -> Result<Unlocked> {
        let storage = self.source.storage();
        self.try_keys(secrets, context, |secret| {
            self.header.test(storage, secret, backend, options)
        })
    }

    fn try_keys(
        &self,
        secrets: &dyn Secrets,
        context: &Context,
        unlock: impl Fn(Secret<'_>) -> Result<Unlocked, NotUnlocked>,
    ) -> Result<Unlocked> {
        let (unlocked, _) = self.try_secrets(secrets, context, |secret| {
            unlock(if secrets.are_volume_keys() {
                Secret::VolumeKey(secret)
            } else {
                Secret::Passphrase(secret)
            })
        })?;
        for opened in &unlocked.keyslots {
            let text = format!("keyslot {} opened", opened.keyslot);
            context.events.note(&text);
        }
        Ok(unlocked)
    }

    pub(crate) fn try_secrets<T, E: Into<NotUnlocked>>(
        &self,
        secrets: &dyn Secrets,
        context: &Context,
        unlock: impl Fn(&SecretBytes) -> Result<T, E>,
    ) -> Result<(T, SecretBytes)> {
        try_secrets(&self.path, secrets, context, |secret| {
            unlock(secret).map_err(|error| self.not_unlocked(error.into()))
        })
    }

    fn not_unlocked(&self, error: NotUnlocked) -> Attempt {
        if error.kind == NotUnlockedKind::WrongSecret
            && let Err(error) = self.check_keyslots()
        {
            return Attempt {
                is_wrong_secret: false,
                error,
            };
        }
        let class = match error.kind {
            NotUnlockedKind::WrongSecret | NotUnlockedKind::NoKeys => ErrorClass::NoKey,
            NotUnlockedKind::OutOfMemory => ErrorClass::OutOfMemory,
            _ => ErrorClass::Failure,
        };
        Attempt {
            is_wrong_secret: error.kind == NotUnlockedKind::WrongSecret,
            error: Error::new(class, format!("{}: {error}", self.name())).caused_by(error),
        }
    }

    /// Checks that the keyslots are there: the file is not cut off before their end, and no encryption was
    /// interrupted before it wrote them.
    ///
    /// # Errors
    /// [`OpenError::KeyslotsCutOff`] and [`OpenError::EncryptionInterrupted`].
    pub fn check_keyslots(&self) -> Result<()> {
        let Source::Seekable(input) = &self.source else {
            return Ok(());
        };
        let (name, found) = (self.name(), self.describe());
        let len = found.metadata_len;
        if let Some(there) = Input::len(input).filter(|there| *there < len) {
            return Err(OpenError::KeyslotsCutOff { name, len, there }.into());
        }
        if found.reencryption == Reencryption::UnderWay && lacks_keyslots(&**input) {
            let reduce_by = None;
            return Err(OpenError::EncryptionInterrupted { name, reduce_by }.into());
        }
        Ok(())
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
    pub(crate) fn lock_reencryption(&self) -> Result<Option<ReencryptionLock>> {
        match self.describe().reencryption {
            Reencryption::UnderWay => self.keep_reencryptions_out(),
            Reencryption::Possible | Reencryption::Impossible => Ok(None),
        }
    }

    /// As [`VolumeMetadata::lock_reencryption`], but also keeps cryptsetup from starting a
    /// re-encryption. Returns `None` only if the format has no such thing.
    ///
    /// # Errors
    /// Those of [`VolumeMetadata::lock_reencryption`].
    pub(crate) fn keep_reencryptions_out(&self) -> Result<Option<ReencryptionLock>> {
        let found = self.describe();
        if found.reencryption == Reencryption::Impossible {
            return Ok(None);
        }
        let lock = ReencryptionLock::acquire(&found.uuid, Access::Read);
        lock.map(Some).map_err(|error| match error {
            LockError::Held(_) => self.in_reencryption("is re-encrypting"),
            error => self.no_reencryption_lock(error),
        })
    }

    pub(crate) fn no_reencryption_lock(&self, error: LockError) -> Error {
        match error {
            LockError::Held(_) => self.in_reencryption("re-encrypts or reads"),
            source => {
                let path = self.path.clone();
                NotLocked { path, source }.into()
            }
        }
    }

    fn in_reencryption(&self, what: &'static str) -> Error {
        OpenError::InReencryption { what }.about(&self.name())
    }

    /// Whether the data are in another file than the metadata.
    pub(crate) fn has_detached_header(&self) -> bool {
        self.data.is_some()
    }

    /// The descriptors that it holds, for [`OfProcess::holding`](luxor_files::OfProcess::holding).
    #[must_use]
    pub fn descriptors(&self) -> Vec<RawFd> {
        let metadata = match &self.source {
            Source::Seekable(input) => input.descriptors(),
            Source::Stream(_) => Vec::new(),
        };
        let data = self.data.iter().flat_map(Input::descriptors);
        metadata.into_iter().chain(data).collect()
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// The storage of the metadata.
    pub(crate) fn storage(&self) -> &dyn Storage {
        self.source.storage()
    }

    /// Accepts data whose end was cut off: then the plaintext is what is left of it, in whole sectors.
    pub fn accept_cut_off(&mut self) {
        self.may_be_cut_off = true;
    }

    /// Whether this is a detached header whose data file is not known: the data would begin inside
    /// the metadata.
    pub(crate) fn is_without_data(&self) -> bool {
        let found = self.describe();
        self.data.is_none() && found.data_offset < found.metadata_len
    }

    /// Checks that `storage`, which is to have the data of a detached header and to be written to, is not
    /// another LUKS volume. One with the same UUID may be the volume of which the header is a copy.
    ///
    /// # Errors
    /// [`OpenError::OtherVolume`].
    pub(crate) fn check_data_are_no_volume(&self, storage: &dyn Storage) -> Result<()> {
        let found = self.describe();
        if self.data.is_none() || found.reencryption == Reencryption::UnderWay {
            return Ok(());
        }
        // Data that were decrypted can begin like a volume.
        let extents = self
            .header
            .whole_extents(self.storage_len().unwrap_or(u64::MAX));
        let is_encrypted =
            |extents: Vec<Extent>| extents.iter().all(|extent| extent.cipher.is_some());
        if !extents.is_ok_and(is_encrypted) {
            return Ok(());
        }
        match VolumeHeader::read(storage) {
            Ok(other) if found.data_offset == 0 || other.uuid() != found.uuid => {
                let (name, header) = (self.data_name(), self.name());
                Err(OpenError::OtherVolume { name, header }.into())
            }
            _ => Ok(()),
        }
    }

    /// Returns the number of bytes of encrypted data. `None` if they come from a pipe and the
    /// metadata do not record their length.
    ///
    /// # Errors
    /// Fails when the data are cut off, and with [`OpenError::DetachedHeader`] when they are in
    /// another file.
    pub fn payload_len(&self) -> Result<Option<u64>> {
        let Some(extents) = self.extents()? else {
            return Ok(None);
        };
        let len = extents.iter().map(|extent| extent.len).sum();
        let found = self.describe();
        if let (Some(length), false) = (found.file_bytes(), self.may_be_cut_off) {
            let checked = check_file_length(length, len, found.sector_size);
            checked.map_err(|source| OpenError::FileCutOff {
                name: self.data_name(),
                source,
            })?;
        }
        Ok(Some(len))
    }

    /// Returns the number of bytes of plaintext: the exact length of an encrypted file if the
    /// metadata record it and it is not cut off, otherwise [`VolumeMetadata::payload_len`].
    ///
    /// # Errors
    /// Those of [`VolumeMetadata::payload_len`].
    pub fn plaintext_len(&self) -> Result<Option<u64>> {
        let (file, payload) = (self.describe().file_bytes(), self.payload_len()?);
        Ok(file.into_iter().chain(payload).min())
    }

    /// Returns the number of bytes of plaintext if nothing is cut off, and `None` if the metadata do
    /// not record it.
    pub(crate) fn recorded_len(&self) -> Option<u64> {
        let found = self.describe();
        if found.has_trailer() {
            return None;
        }
        let fixed = || self.header.stream_extent().map(|extent| extent.len);
        let recorded = found.file_bytes().or_else(fixed);
        recorded.filter(|&len| len != u64::MAX)
    }

    /// Whether a file or device ends before the data do.
    pub(crate) fn ends_in_sector(&self) -> bool {
        let extents = self.storage_len().map(|len| self.header.extents(len));
        matches!(extents, Some(Err(error)) if error.is_cut_off)
    }

    /// The length in bytes of the file or device with the data. `None` for a pipe.
    pub(crate) fn storage_len(&self) -> Option<u64> {
        match (&self.data, &self.source) {
            (Some(input), _) => input.len(),
            (None, Source::Seekable(input)) => Input::len(input),
            (None, Source::Stream(_)) => None,
        }
    }

    /// Returns the extents of the data, in the order of the plaintext, at offsets in the file with
    /// the data. `None` if they come from a pipe and the metadata do not record their length.
    ///
    /// # Errors
    /// Fails when the data are cut off or this version cannot read a part of them, and with
    /// [`OpenError::DetachedHeader`] when they are in another file.
    pub fn extents(&self) -> Result<Option<Vec<Extent>>> {
        if self.is_without_data() {
            let name = self.name();
            return Err(OpenError::DetachedHeader { name }.into());
        }
        let name = self.data_name();
        let storage_len = match self.storage_len() {
            Some(len) => len,
            None => match stream_extent(&*self.header, &name)? {
                Extent { len: u64::MAX, .. } => return Ok(None),
                Extent { offset, len, .. } => offset.saturating_add(len),
            },
        };
        // A trailer says where the data end.
        let extents = if self.may_be_cut_off || self.describe().has_trailer() {
            let whole = self.header.whole_extents(storage_len);
            whole.map(|extents| Extent::within(extents, storage_len))
        } else {
            self.header.extents(storage_len)
        };
        match extents {
            Ok(extents) if extents.is_empty() => {
                if self.is_header_only(storage_len) {
                    return Err(OpenError::HeaderOnly { name }.into());
                }
                Err(OpenError::NoData { name }.into())
            }
            Ok(extents) => Ok(Some(extents)),
            Err(source) if source.is_cut_off => {
                let whole = self.header.whole_extents(storage_len);
                let left = whole.map(|extents| Extent::within(extents, storage_len));
                match left {
                    Ok(extents) if !extents.is_empty() => {
                        Err(OpenError::CutOff { name, source }.into())
                    }
                    _ if self.is_header_only(storage_len) => {
                        Err(OpenError::HeaderOnly { name }.into())
                    }
                    _ => Err(source.about(&name)),
                }
            }
            Err(error) => Err(error.about(&name)),
        }
    }

    /// Whether the metadata are there, and a file of this length has no byte of the data.
    fn is_header_only(&self, storage_len: u64) -> bool {
        let found = self.describe();
        let without_data = found.metadata_len..=found.data_offset;
        found.metadata_len > 0 && self.data.is_none() && without_data.contains(&storage_len)
    }

    /// The name of the file with the data, for messages.
    pub(crate) fn data_name(&self) -> String {
        self.data.as_ref().map_or_else(|| self.name(), Input::name)
    }

    /// The path of the file or device with the data.
    pub(crate) fn data_path(&self) -> &Path {
        self.data.as_ref().map_or(&self.path, Input::path)
    }
}

impl<H: ?Sized> fmt::Debug for VolumeMetadata<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VolumeMetadata")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl LuksMetadata {
    /// Reads the metadata of the LUKS volume or detached header at a path, or in a part of a file.
    ///
    /// # Errors
    /// Those of [`VolumeMetadata::open`]. Also fails when the file cannot be opened.
    pub fn open_path<'a>(place: impl Into<VolumePlace<'a>>, context: &Context) -> Result<Self> {
        Self::open_input(Input::open(place, Role::Metadata)?, None, context)
    }

    /// As [`VolumeMetadata::open`], for LUKS of either version. Open `input` with [`Role::Data`] or
    /// [`Role::Metadata`].
    ///
    /// # Errors
    /// Those of [`VolumeMetadata::open`].
    pub fn open_input(input: Input, header: Option<Input>, context: &Context) -> Result<Self> {
        let metadata = Self::read_input(input, header, context)?;
        metadata.warn(context);
        Ok(metadata)
    }

    /// As [`VolumeMetadata::read`], for LUKS of either version.
    ///
    /// # Errors
    /// Those of [`VolumeMetadata::read`].
    pub(crate) fn read_input(
        input: Input,
        header: Option<Input>,
        context: &Context,
    ) -> Result<Self> {
        let name = input.name();
        let format = Arc::new(Luks { version: None });
        let metadata = VolumeMetadata::read(input, header, format, context)?;
        let other = || OpenError::NotLuks.about(&name);
        metadata.into_luks().ok_or_else(other)
    }

    /// Returns the version of LUKS, or `None` for a file that is not LUKS. Also returns it for a
    /// volume that [`LuksMetadata::open_input`] refuses, if the metadata show the version and the
    /// policy of `context` is empty; an event notes the reason for the refusal.
    ///
    /// # Errors
    /// Those of [`LuksMetadata::open_input`], except in these two cases.
    pub fn version(input: Input, context: &Context) -> Result<Option<LuksVersion>> {
        let (name, part) = (input.name(), input.part_begin());
        let lock = lock_to_read(&input, &context.cancel)?;
        let source = Source::from_input(input);
        let header = VolumeHeader::read(source.storage());
        drop(lock);
        match header {
            Ok(header) => {
                context.policy.check(&header, &name)?;
                Ok(Some(header.version()))
            }
            Err(error) if error.is_not_luks() => {
                context.events.note(&format!("{name}: {error}"));
                Ok(None)
            }
            Err(error) => match error.version() {
                Some(version) if context.policy.is_empty() => {
                    context.events.note(&format!("{name}: {error}"));
                    Ok(Some(version))
                }
                _ => Err(unreadable(error.into(), source.storage(), part, &name)),
            },
        }
    }

    /// What [`repair_header`](crate::repair_header) would achieve. `None` if no keyslot and no copy of
    /// the metadata is damaged.
    #[must_use]
    pub fn repair_outlook(&self) -> Option<RepairOutlook> {
        if self.header.warnings().is_empty() {
            return None;
        }
        let luks2 = self.header.luks2();
        if luks2.is_some_and(Luks2Header::has_unread_copy) {
            return Some(RepairOutlook::Impossible);
        }
        Some(HeaderRepair::outlook(self.storage()))
    }

    /// Opens a keyslot with a secret from `secrets`, which is asked again after a wrong secret.
    /// Returns the keys, and the secret for a caller that needs it again.
    ///
    /// # Errors
    /// Those of [`VolumeMetadata::unlock_data`]. Volume keys are refused.
    pub fn unlock(
        &self,
        secrets: &dyn Secrets,
        backend: &dyn Backend,
        options: &UnlockOptions,
        context: &Context,
    ) -> Result<(luxor_luks::Unlocked, SecretBytes)> {
        let storage = self.storage();
        self.try_keyslots(secrets, context, |secret| {
            let secret = secret.expose();
            self.header.unlock(storage, secret, backend, options)
        })
    }

    /// Tests a secret: as [`LuksMetadata::unlock`], but also works if the data cannot be read.
    ///
    /// # Errors
    /// Those of [`LuksMetadata::unlock`].
    pub fn test(
        &self,
        secrets: &dyn Secrets,
        backend: &dyn Backend,
        options: &UnlockOptions,
        context: &Context,
    ) -> Result<(luxor_luks::Unlocked, SecretBytes)> {
        let storage = self.storage();
        self.try_keyslots(secrets, context, |secret| {
            let secret = secret.expose();
            self.header.test(storage, secret, backend, options)
        })
    }

    fn try_keyslots(
        &self,
        secrets: &dyn Secrets,
        context: &Context,
        unlock: impl Fn(&SecretBytes) -> Result<luxor_luks::Unlocked, UnlockError>,
    ) -> Result<(luxor_luks::Unlocked, SecretBytes)> {
        if secrets.are_volume_keys() {
            return Err(OpenError::VolumeKeyForKeyslot.about(&self.name()));
        }
        let (unlocked, secret) = self.try_secrets(secrets, context, unlock)?;
        let text = format!("keyslot {} opened", unlocked.keyslot);
        context.events.note(&text);
        Ok((unlocked, secret))
    }
}

/// The error for a storage whose metadata cannot be read. If it has none, the error says what it is.
/// `part` is the first byte of the storage in its file, if it is not all of it.
pub(crate) fn unreadable(
    error: HeaderError,
    storage: &dyn Storage,
    part: Option<u64>,
    name: &str,
) -> Error {
    let name = name.to_owned();
    if error.kind == HeaderErrorKind::Damaged
        && let Some(reduce_by) = interrupted_encryption(storage)
    {
        let reduce_by = Some(reduce_by);
        return OpenError::EncryptionInterrupted { name, reduce_by }.into();
    }
    let repair = match error.kind {
        HeaderErrorKind::Unread => RepairOutlook::Impossible,
        // Only the caller's choice is wrong.
        _ if error.source.is::<OtherVersion>() => RepairOutlook::Impossible,
        _ => HeaderRepair::outlook(storage),
    };
    if error.kind == HeaderErrorKind::OtherFormat
        && error.source.is::<VolumeReadError>()
        && repair == RepairOutlook::Impossible
        && let Ok(contents) = match part {
            Some(begin) => Contents::recognise_part(storage, begin),
            None => Contents::recognise(storage),
        }
    {
        let offset = match contents {
            Contents::VolumeAt { offset, .. } => offset.checked_sub(part.unwrap_or(0)),
            _ => None,
        };
        return match offset.and_then(|offset| prepared_encryption(storage, offset)) {
            Some(reduce_by) => OpenError::EncryptionPrepared { name, reduce_by }.into(),
            None => OpenError::NotAVolume { name, contents }.into(),
        };
    }
    OpenError::Unreadable {
        name,
        source: error,
        repair,
    }
    .into()
}

/// Returns the only extent of a volume that is read from a pipe.
fn stream_extent<H: Header + ?Sized>(header: &H, name: &str) -> Result<Extent> {
    let parts = || OpenError::SeveralPartsInStream.about(name);
    header.stream_extent().ok_or_else(parts)
}

pub(crate) fn shown(path: &Path) -> String {
    if path == Path::new("-") {
        "standard input".into()
    } else {
        path_name(path)
    }
}
