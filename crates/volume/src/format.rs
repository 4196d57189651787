// SPDX-License-Identifier: MIT OR Apache-2.0
//! The seam between formats and the rest of Luxor.
//!
//! ```text
//! Format::read      the first bytes of a storage      → a Header, or why there is none
//! Header::describe  what everything above the seam asks about the volume
//! Header::unlock    a secret, limits                  → keys by number
//! Header::extents   the length of the storage         → extents, each with its key and geometry
//! ```
//!
//! From there on all formats are alike: the extents and keys are a [`Plaintext`](crate::Plaintext).
//! No code above the seam asks which format a volume has. Operations that only one format has, such
//! as the changes of LUKS keyslots, take the format's own type, which [`Header::downcast_ref`]
//! returns.

use std::{any::Any, collections::BTreeMap, error, fmt};

use luxor_engine::{Backend, Mode};
use luxor_secret::SecretBytes;
use luxor_sector::{SectorSize, Storage};

use crate::{data_key::DataKey, plaintext::Extent, unlock_options::UnlockOptions};

/// A format of encrypted volumes.
pub trait Format: fmt::Debug + Send + Sync {
    /// Its name, such as `luks2`: lowercase letters and digits.
    fn name(&self) -> &'static str;

    /// What it is, in a few words for help texts and tables.
    fn summary(&self) -> &'static str;

    /// Whether its volumes can be recognised. A format without a signature is used only if the
    /// caller names it.
    fn has_signature(&self) -> bool {
        true
    }

    /// Whether another format of the table reads all of its volumes, as that of LUKS of either version
    /// does those of LUKS1. It is used only if the caller names it.
    fn is_narrower(&self) -> bool {
        false
    }

    /// What opens its volumes.
    fn secret_kind(&self) -> SecretKind {
        SecretKind::Passphrase
    }

    /// Reads the metadata of a volume at the beginning of `storage`, which may be hostile.
    ///
    /// # Errors
    /// [`HeaderError`]: there is no volume of this format, or one that is damaged or not supported.
    fn read(&self, storage: &dyn Storage) -> Result<Box<dyn Header>, HeaderError>;
}

impl<F: Format + ?Sized> Format for &F {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn summary(&self) -> &'static str {
        (**self).summary()
    }

    fn has_signature(&self) -> bool {
        (**self).has_signature()
    }

    fn is_narrower(&self) -> bool {
        (**self).is_narrower()
    }

    fn secret_kind(&self) -> SecretKind {
        (**self).secret_kind()
    }

    fn read(&self, storage: &dyn Storage) -> Result<Box<dyn Header>, HeaderError> {
        (**self).read(storage)
    }
}

/// The metadata of one volume, read once. The value is a copy in memory.
pub trait Header: Any + fmt::Debug + Send + Sync {
    /// Describes the volume.
    fn describe(&self) -> Description;

    /// Defects of the metadata that do not prevent opening the volume.
    fn warnings(&self) -> Vec<HeaderWarning> {
        Vec::new()
    }

    /// Checks every copy of the metadata, without a secret. `storage_len` is the length in bytes of
    /// the storage with the data, if it is known.
    fn check(&self, storage_len: Option<u64>) -> Findings;

    /// Finds the keys of the data with `secret`. `storage` is the one that the metadata were read
    /// from; `backend` decrypts keyslots.
    ///
    /// # Errors
    /// [`NotUnlocked`]: the secret is wrong, no secret can be tried, or this version cannot read the
    /// data with any key.
    fn unlock(
        &self,
        storage: &dyn Storage,
        secret: Secret<'_>,
        backend: &dyn Backend,
        options: &UnlockOptions,
    ) -> Result<Unlocked, NotUnlocked>;

    /// As [`Header::unlock`], but also tests a secret of a volume whose data this version cannot
    /// read.
    ///
    /// # Errors
    /// [`NotUnlocked`]: the secret is wrong, or no secret can be tried.
    fn test(
        &self,
        storage: &dyn Storage,
        secret: Secret<'_>,
        backend: &dyn Backend,
        options: &UnlockOptions,
    ) -> Result<Unlocked, NotUnlocked> {
        self.unlock(storage, secret, backend, options)
    }

    /// The plaintext, part by part, for a storage of `storage_len` bytes that has the data.
    ///
    /// # Errors
    /// [`ExtentError`]: the storage is too short or ends within a sector, or this version cannot read
    /// a part of the data.
    fn extents(&self, storage_len: u64) -> Result<Vec<Extent>, ExtentError>;

    /// As [`Header::extents`], as if the storage were not cut off: its end may be missing.
    ///
    /// # Errors
    /// [`ExtentError`]: this version cannot read a part of the data.
    fn whole_extents(&self, storage_len: u64) -> Result<Vec<Extent>, ExtentError>;

    /// The whole plaintext as one extent, for a volume that is read from a pipe. The extent's length
    /// is `u64::MAX` if the metadata do not fix it. `None` if the data consist of several parts.
    fn stream_extent(&self) -> Option<Extent>;

    /// Whether both headers agree on the data: their location, encryption and keys.
    fn has_same_data(&self, other: &dyn Header) -> bool;
}

impl dyn Header {
    /// The format's own type, if the header has it.
    #[must_use]
    pub fn downcast_ref<H: Header>(&self) -> Option<&H> {
        (self as &dyn Any).downcast_ref()
    }
}

/// What everything above the seam asks about a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The format, such as `LUKS2`, for messages.
    pub format: &'static str,
    /// The UUID, as text from the metadata. Empty if there is none.
    pub uuid: String,
    /// Names and values of further properties, for people.
    pub details: Vec<(&'static str, String)>,
    /// The mode of the engine that most of the data need.
    pub mode: Mode,
    /// The offset in bytes of the data in the storage that has them.
    pub data_offset: u64,
    /// The number of bytes of metadata at the beginning of the storage: 0 without a header.
    pub metadata_len: u64,
    /// The sector size to which a file in the volume is padded.
    pub sector_size: SectorSize,
    /// Where a file in the volume ends, if the metadata say it.
    pub file_length: Option<FileLength>,
    /// Whether the volume permits that discards reach the storage.
    pub allows_discards: bool,
    /// The re-encryption of the volume, if the format has such a thing.
    pub reencryption: Reencryption,
}

/// The re-encryption of a volume in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reencryption {
    /// The format has none.
    Impossible,
    /// Another program may begin one. It takes a lock that is named by the UUID.
    Possible,
    /// One has begun and not ended.
    UnderWay,
}

/// Where a file in a volume ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileLength {
    /// After this many bytes.
    Bytes(u64),
    /// Before a trailer ([`TrailerKey`](crate::TrailerKey)).
    Trailer,
}

impl Description {
    /// The exact length in bytes of the file in the volume, if the metadata record it.
    #[must_use]
    pub fn file_bytes(&self) -> Option<u64> {
        match self.file_length {
            Some(FileLength::Bytes(len)) => Some(len),
            _ => None,
        }
    }

    /// Whether a trailer ends the file in the volume.
    #[must_use]
    pub fn has_trailer(&self) -> bool {
        self.file_length == Some(FileLength::Trailer)
    }
}

/// What opens a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretKind {
    /// A passphrase or the contents of a key file, of any length.
    Passphrase,
    /// The key of the data itself, of this many bytes. No digest tells whether it is the right one.
    Key {
        /// The length in bytes.
        len: usize,
    },
}

/// A secret for [`Header::unlock`].
#[derive(Clone, Copy, Debug)]
pub enum Secret<'a> {
    /// A passphrase or the contents of a key file; the key itself for [`SecretKind::Key`].
    Passphrase(&'a SecretBytes),
    /// The key of the data, in place of a passphrase.
    VolumeKey(&'a SecretBytes),
}

/// The keys of an unlocked volume.
#[derive(Debug)]
pub struct Unlocked {
    /// The keys by number: one for each [`ExtentCipher::key`](crate::ExtentCipher::key).
    pub keys: BTreeMap<u32, DataKey>,
    /// The keyslots that the secret opened. Empty if the format has none, or with a volume key.
    pub keyslots: Vec<OpenedKeyslot>,
}

/// A keyslot that a secret opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenedKeyslot {
    /// The number of the keyslot.
    pub keyslot: u32,
    /// The number of its key in [`Unlocked::keys`].
    pub key: u32,
}

/// The findings of a check of a volume, one line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    /// What is intact, and what is worth knowing.
    pub good: Vec<String>,
    /// What is damaged.
    pub damage: Vec<String>,
    /// Whether this version can read the data, with the right secret.
    pub can_read_data: bool,
}

impl Default for Findings {
    fn default() -> Self {
        Self {
            good: Vec::new(),
            damage: Vec::new(),
            can_read_data: true,
        }
    }
}

/// Why a storage has no metadata of a format. `Display` prints the reason.
#[derive(Debug)]
pub struct HeaderError {
    /// What is the case.
    pub kind: HeaderErrorKind,
    /// The format's own error.
    pub source: Box<dyn error::Error + Send + Sync>,
}

/// What is the case with a storage from which no metadata could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderErrorKind {
    /// It has no volume of this format.
    OtherFormat,
    /// It has a volume of this format that this version does not support or refuses.
    Unsupported,
    /// The storage ends within the metadata.
    CutOff,
    /// The metadata are damaged in another way.
    Damaged,
    /// It could not be read.
    Unread,
}

/// What a repair of damaged metadata would achieve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairOutlook {
    /// All metadata are what they were.
    Restored,
    /// With permission to overwrite anything, keyslots that cannot be restored become empty, and the
    /// rest is what it was. Another keyslot is used.
    LosesKeyslots,
    /// With permission to overwrite anything, keyslots that cannot be restored stay as they are, and the
    /// rest is what it was. No other keyslot is used.
    LeavesKeyslots,
    /// With permission to overwrite anything, the copy that is not in use becomes equal to the other one,
    /// from which it differs in what a key or the data need.
    MakesEqual,
    /// Only a backup can help.
    Impossible,
}

/// A defect of metadata that does not prevent opening the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderWarning {
    /// What is wrong, as a sentence without its full stop.
    pub text: String,
    /// What helps, if anything does.
    pub remedy: Option<Remedy>,
}

/// What helps against a defect of metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// A repair, which loses nothing.
    Repair,
    /// A repair with permission to overwrite anything ([`RepairOutlook::MakesEqual`]).
    RepairByForce,
    /// A check, whose findings say more.
    Check,
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl error::Error for HeaderError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&*self.source)
    }
}

/// Why a volume was not unlocked. `Display` prints the reason.
#[derive(Debug)]
pub struct NotUnlocked {
    /// What is the case.
    pub kind: NotUnlockedKind,
    /// The format's own error.
    pub source: Box<dyn error::Error + Send + Sync>,
}

/// What a caller can do about a volume that was not unlocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotUnlockedKind {
    /// Another secret may help.
    WrongSecret,
    /// The volume has no key that a secret could open.
    NoKeys,
    /// More memory would help.
    OutOfMemory,
    /// This version cannot open the volume, or was not permitted to.
    Refused,
}

impl fmt::Display for NotUnlocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl error::Error for NotUnlocked {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&*self.source)
    }
}

/// Why the data of a volume cannot be found. `Display` prints the reason.
#[derive(Debug)]
pub struct ExtentError {
    /// Whether the end of the data is missing.
    pub is_cut_off: bool,
    /// The format's own error.
    pub source: Box<dyn error::Error + Send + Sync>,
}

impl fmt::Display for ExtentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl error::Error for ExtentError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&*self.source)
    }
}
