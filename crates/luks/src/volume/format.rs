// SPDX-License-Identifier: MIT OR Apache-2.0
//! LUKS behind the seam of all formats.

use std::collections::BTreeMap;

use luxor_engine::{Backend, Mode};
use luxor_sector::Storage;
use luxor_volume::{
    DataKey, Description, Extent, ExtentError, FileLength, Findings, Format, Header, HeaderError,
    HeaderErrorKind, HeaderWarning, NotUnlocked, NotUnlockedKind, OpenedKeyslot, Reencryption,
    Secret, UnlockOptions, Unlocked, VolumeKey,
};

use super::{VolumeHeader, VolumeReadError, check};
use crate::{
    luks2::{
        segment::SegmentError,
        unlock::{self, UnlockError},
    },
    version::LuksVersion,
};

/// The format LUKS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Luks {
    /// The version; `None`: either.
    pub version: Option<LuksVersion>,
}

impl Luks {
    /// Reads the metadata, as [`Format::read`] does.
    ///
    /// # Errors
    /// Those of [`Format::read`]. The source is a [`VolumeReadError`] or an [`OtherVersion`].
    pub fn read_header(self, storage: &dyn Storage) -> Result<VolumeHeader, HeaderError> {
        let header = VolumeHeader::read(storage).map_err(HeaderError::from)?;
        let found = header.version();
        match self.version {
            Some(wanted) if wanted != found => Err(HeaderError {
                kind: HeaderErrorKind::OtherFormat,
                source: Box::new(OtherVersion { found, wanted }),
            }),
            _ => Ok(header),
        }
    }
}

impl Format for Luks {
    fn name(&self) -> &'static str {
        match self.version {
            None => "luks",
            Some(LuksVersion::Luks1) => "luks1",
            Some(LuksVersion::Luks2) => "luks2",
        }
    }

    fn summary(&self) -> &'static str {
        match self.version {
            None => "LUKS of either version",
            Some(LuksVersion::Luks1) => "LUKS1, with one copy of its metadata",
            Some(LuksVersion::Luks2) => "LUKS2, the usual format of new volumes",
        }
    }

    fn is_narrower(&self) -> bool {
        self.version.is_some()
    }

    fn read(&self, storage: &dyn Storage) -> Result<Box<dyn Header>, HeaderError> {
        Ok(Box::new(self.read_header(storage)?))
    }
}

impl Header for VolumeHeader {
    fn describe(&self) -> Description {
        let trailer = self.has_trailer().then_some(FileLength::Trailer);
        let bytes = self.file_length().map(FileLength::Bytes);
        let encryptions = self.encryptions();
        let mode = match encryptions.first() {
            Some(Some(encryption)) => encryption.mode(),
            _ => Mode::Xts,
        };
        Description {
            format: self.version().name(),
            uuid: self.uuid().to_owned(),
            details: Vec::new(),
            mode,
            data_offset: self.data_offset(),
            metadata_len: self.metadata_len(),
            sector_size: self.file_sector_size(),
            file_length: trailer.or(bytes),
            allows_discards: self.allows_discards(),
            reencryption: match self.version() {
                LuksVersion::Luks1 => Reencryption::Impossible,
                LuksVersion::Luks2 if self.is_reencrypting() => Reencryption::UnderWay,
                LuksVersion::Luks2 => Reencryption::Possible,
            },
        }
    }

    fn warnings(&self) -> Vec<HeaderWarning> {
        let warnings = VolumeHeader::warnings(self).iter();
        let warnings = warnings.map(|warning| HeaderWarning {
            text: warning.to_string(),
            remedy: warning.remedy(),
        });
        warnings.collect()
    }

    fn check(&self, storage_len: Option<u64>) -> Findings {
        check::check(self, storage_len)
    }

    fn unlock(
        &self,
        storage: &dyn Storage,
        secret: Secret<'_>,
        backend: &dyn Backend,
        options: &UnlockOptions,
    ) -> Result<Unlocked, NotUnlocked> {
        match secret {
            Secret::Passphrase(secret) => {
                let unlocked = self.unlock(storage, secret.expose(), backend, options)?;
                Ok(unlocked.into())
            }
            Secret::VolumeKey(key) => Ok(of_volume_keys(self.confirm_volume_key(key, options)?)),
        }
    }

    fn test(
        &self,
        storage: &dyn Storage,
        secret: Secret<'_>,
        backend: &dyn Backend,
        options: &UnlockOptions,
    ) -> Result<Unlocked, NotUnlocked> {
        match secret {
            Secret::Passphrase(secret) => {
                let unlocked = self.test(storage, secret.expose(), backend, options)?;
                Ok(unlocked.into())
            }
            Secret::VolumeKey(key) => Ok(of_volume_keys(self.test_volume_key(key, options)?)),
        }
    }

    fn extents(&self, storage_len: u64) -> Result<Vec<Extent>, ExtentError> {
        check_encrypted(self)?;
        Ok(self.extents(storage_len)?)
    }

    fn whole_extents(&self, storage_len: u64) -> Result<Vec<Extent>, ExtentError> {
        check_encrypted(self)?;
        Ok(self.whole_extents(storage_len)?)
    }

    fn stream_extent(&self) -> Option<Extent> {
        self.stream_extent()
    }

    fn has_same_data(&self, other: &dyn Header) -> bool {
        let other = other.downcast_ref::<Self>();
        other.is_some_and(|other| self.has_same_data(other))
    }
}

fn of_volume_keys(keys: BTreeMap<u32, VolumeKey>) -> Unlocked {
    let keys = keys.into_iter();
    Unlocked {
        keys: keys.map(|(number, key)| (number, key.into())).collect(),
        keyslots: Vec::new(),
    }
}

impl From<unlock::Unlocked> for Unlocked {
    fn from(unlocked: unlock::Unlocked) -> Self {
        let keyslots = [(unlocked.keyslot, unlocked.digest)].into_iter();
        let others = unlocked.others.iter().map(|key| (key.keyslot, key.digest));
        let opened = |(keyslot, key)| OpenedKeyslot { keyslot, key };
        Self {
            keyslots: keyslots.chain(others).map(opened).collect(),
            keys: unlocked
                .into_keys()
                .into_iter()
                .map(|(number, key)| (number, DataKey::Engine(key)))
                .collect(),
        }
    }
}

impl From<UnlockError> for NotUnlocked {
    fn from(error: UnlockError) -> Self {
        let kind = if error.is_wrong_secret() {
            NotUnlockedKind::WrongSecret
        } else if matches!(error, UnlockError::NoKeyslots { .. }) {
            NotUnlockedKind::NoKeys
        } else if error.is_out_of_memory() {
            NotUnlockedKind::OutOfMemory
        } else {
            NotUnlockedKind::Refused
        };
        Self {
            kind,
            source: Box::new(error),
        }
    }
}

/// Checks that the data are encrypted, or that a re-encryption explains why not. Of a file that was decrypted
/// for good, nothing is cut off.
fn check_encrypted(header: &VolumeHeader) -> Result<(), ExtentError> {
    match header.check_openable() {
        Err(error @ UnlockError::Linear { .. }) => Err(ExtentError {
            is_cut_off: false,
            source: Box::new(error),
        }),
        _ => Ok(()),
    }
}

impl From<SegmentError> for ExtentError {
    fn from(error: SegmentError) -> Self {
        Self {
            is_cut_off: error.is_cut_off(),
            source: Box::new(error),
        }
    }
}

impl From<VolumeReadError> for HeaderError {
    fn from(error: VolumeReadError) -> Self {
        let kind = if error.is_not_luks() {
            HeaderErrorKind::OtherFormat
        } else if error.version().is_some() {
            HeaderErrorKind::Unsupported
        } else if error.is_unread() {
            HeaderErrorKind::Unread
        } else if error.is_cut_off() {
            HeaderErrorKind::CutOff
        } else {
            HeaderErrorKind::Damaged
        };
        Self {
            kind,
            source: Box::new(error),
        }
    }
}

/// The volume has the other version of LUKS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is a {found} volume, not {wanted}")]
pub struct OtherVersion {
    /// The version that the volume has.
    pub found: LuksVersion,
    /// The version that was asked for.
    pub wanted: LuksVersion,
}
