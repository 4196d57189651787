// SPDX-License-Identifier: MIT OR Apache-2.0
//! A volume of either version: the one place that looks which it is.

mod change;
pub(crate) mod create;
pub(crate) mod repair;

use std::collections::BTreeMap;

use luxor_engine::{Backend, with_key_stack};
use luxor_sector::{SectorSize, Storage};
use luxor_volume::{Encryption, Extent};

use crate::{
    header_digest::HeaderDigest,
    luks1::{self, ConvertError, Luks1Header},
    luks1_error::Luks1Error,
    luks2::{
        config::ActivationFlag,
        digest::Digest,
        foreign::Foreign,
        header::{Luks2Header, ReadError, Warning},
        keyslot::Keyslot,
        metadata::Metadata,
        segment::{Segment, SegmentError, SegmentSize},
        unlock::{UnlockError, UnlockOptions, Unlocked},
    },
    volume::create::LuksVersion,
};

/// The metadata of a volume of either version.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one of them, and it stays where it is"
)]
pub enum VolumeHeader {
    /// LUKS1.
    Luks1(Luks1Header),
    /// LUKS2.
    Luks2(Luks2Header),
}

impl VolumeHeader {
    /// Reads the metadata at the beginning of `storage`: those of LUKS1 if it begins
    /// like that, else those of LUKS2, which has a second copy elsewhere.
    ///
    /// # Errors
    /// [`VolumeReadError`]: no LUKS volume, nothing valid, or nothing that this
    /// version opens.
    pub fn read(storage: &dyn Storage) -> Result<Self, VolumeReadError> {
        let mut magic = [0; luks1::MAGIC.len()];
        // Who cannot read says so below.
        let begins_as_luks1 =
            storage.read_exact_at(&mut magic, 0).is_ok() && magic == *luks1::MAGIC;
        if begins_as_luks1 {
            Ok(Self::Luks1(Luks1Header::read(storage)?))
        } else {
            Ok(Self::Luks2(Luks2Header::read(storage)?))
        }
    }

    /// Finds a keyslot that `secret` opens, and the volume key in it. `storage` is the
    /// one that the metadata were read from.
    ///
    /// # Errors
    /// [`UnlockError`]: no keyslot opens with `secret`, none can be tried, or the data
    /// cannot be read whatever the secret.
    pub fn unlock(
        &self,
        storage: &dyn Storage,
        secret: &[u8],
        backend: &dyn Backend,
        options: &UnlockOptions,
    ) -> Result<Unlocked, UnlockError> {
        with_key_stack(|| match self {
            Self::Luks1(header) => header.unlock(storage, secret, backend, options),
            Self::Luks2(header) => header.unlock(storage, secret, backend, options),
        })
    }

    /// Tells whether `secret` opens a keyslot, also when the data cannot be read:
    /// [`Luks2Header::test`].
    ///
    /// # Errors
    /// [`UnlockError`]: no keyslot opens with `secret`, or none can be tried.
    pub fn test(
        &self,
        storage: &dyn Storage,
        secret: &[u8],
        backend: &dyn Backend,
        options: &UnlockOptions,
    ) -> Result<Unlocked, UnlockError> {
        with_key_stack(|| match self {
            Self::Luks1(header) => header.unlock(storage, secret, backend, options),
            Self::Luks2(header) => header.test(storage, secret, backend, options),
        })
    }

    /// Whether both say the same of the data: where they are, how they are encrypted and
    /// with which keys, what is being done with them, and how long a file in them is.
    /// Keyslots, tokens and labels may differ.
    #[must_use]
    pub fn has_same_data(&self, other: &Self) -> bool {
        let (ours, theirs) = match (self, other) {
            (Self::Luks1(ours), Self::Luks1(theirs)) => {
                let key = |header: &Luks1Header| header.describe().digest.value.clone();
                return ours.segment() == theirs.segment() && key(ours) == key(theirs);
            }
            (Self::Luks2(ours), Self::Luks2(theirs)) => (ours.metadata(), theirs.metadata()),
            _ => return false,
        };
        let keys = |metadata: &Metadata| -> Vec<_> {
            let digests = metadata.digests.iter();
            let of_data = digests.filter(|(_, digest)| !digest.segments.is_empty());
            of_data
                .map(|(&number, digest)| (number, digest.segments.clone(), digest.value.clone()))
                .collect()
        };
        ours.segments == theirs.segments
            && keys(ours) == keys(theirs)
            && ours.reencrypt == theirs.reencrypt
            && ours.config.requirements == theirs.config.requirements
            && ours.file_length() == theirs.file_length()
    }

    /// Whether the data are in the same places and encrypted alike, whatever the keys and
    /// the versions of LUKS.
    pub(crate) fn has_same_segments(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Luks2(ours), Self::Luks2(theirs)) => {
                ours.metadata().segments == theirs.metadata().segments
            }
            _ => self.segment() == other.segment(),
        }
    }

    /// Whether each key of the data is in a keyslot, also in one that this version does
    /// not open.
    pub(crate) fn has_data_keyslots(&self) -> bool {
        match self {
            Self::Luks1(header) => !header.describe().keyslots.is_empty(),
            Self::Luks2(header) => header.metadata().has_data_keyslots(),
        }
    }

    /// The metadata, if they are LUKS2's.
    #[must_use]
    pub fn luks2(&self) -> Option<&Luks2Header> {
        match self {
            Self::Luks1(_) => None,
            Self::Luks2(header) => Some(header),
        }
    }

    /// The version of its format.
    #[must_use]
    pub fn version(&self) -> LuksVersion {
        match self {
            Self::Luks1(_) => LuksVersion::Luks1,
            Self::Luks2(_) => LuksVersion::Luks2,
        }
    }

    /// The volume's name for its users; empty where it has none, as in LUKS1.
    #[must_use]
    pub fn label(&self) -> &str {
        match self {
            Self::Luks1(_) => "",
            Self::Luks2(header) => header.describe().label,
        }
    }

    /// The numbers of the keyslots that have a key of the data, and not some other key.
    #[must_use]
    pub fn data_keyslots(&self) -> Vec<u32> {
        match self {
            Self::Luks1(header) => header.describe().keyslots.keys().copied().collect(),
            Self::Luks2(header) => {
                let digests = header.metadata().digests.values();
                let of_data = digests.filter(|digest| !digest.segments.is_empty());
                let keyslots = of_data.flat_map(|digest| &digest.keyslots);
                keyslots.copied().collect()
            }
        }
    }

    /// Makes a volume of the other version of it, in place and with no key. `force`: what LUKS1
    /// does not have is lost.
    ///
    /// # Errors
    /// [`ConvertError`].
    pub fn convert(self, storage: &dyn Storage, force: bool) -> Result<(), ConvertError> {
        match self {
            Self::Luks1(header) => header.convert_to_luks2(storage).map(drop),
            Self::Luks2(header) => header.convert_to_luks1(storage, force).map(drop),
        }
    }

    /// Whether the data are being re-encrypted: some parts are done and others are not.
    #[must_use]
    pub fn is_reencrypting(&self) -> bool {
        match self {
            Self::Luks1(_) => false,
            Self::Luks2(header) => header.metadata().config.reencrypt_version().is_some(),
        }
    }

    /// Whether the volume itself says that discards may reach the storage.
    #[must_use]
    pub fn allows_discards(&self) -> bool {
        match self {
            Self::Luks1(_) => false,
            Self::Luks2(header) => {
                let mut flags = header.metadata().config.flags.iter();
                flags.any(|flag| flag == ActivationFlag::AllowDiscards.name())
            }
        }
    }

    /// The one segment of a volume whose data are all encrypted alike:
    /// [`Luks2Header::segment`].
    #[must_use]
    pub fn segment(&self) -> Option<&Segment> {
        match self {
            Self::Luks1(header) => Some(header.segment()),
            Self::Luks2(header) => header.segment(),
        }
    }

    /// How the data are encrypted, part by part; `None` for a part that is not, or in a
    /// way that this version does not know.
    #[must_use]
    pub fn encryptions(&self) -> Vec<Option<Encryption>> {
        match self {
            Self::Luks1(header) => vec![Some(header.segment().encryption)],
            Self::Luks2(header) => header
                .segments()
                .values()
                .filter(|entry| entry.role.is_data())
                .map(|entry| entry.crypt().map(|segment| segment.encryption))
                .collect(),
        }
    }

    /// Where the first byte of the data is: [`Luks2Header::data_offset`].
    #[must_use]
    pub fn data_offset(&self) -> u64 {
        match self {
            Self::Luks1(header) => header.segment().offset,
            Self::Luks2(header) => header.data_offset(),
        }
    }

    /// The plaintext, part by part, in a storage of `storage_len` bytes that has the
    /// data: [`Luks2Header::extents`].
    ///
    /// # Errors
    /// [`SegmentError`]: the storage has too few bytes or a part of a sector, or a part
    /// of the data cannot be read.
    pub fn extents(&self, storage_len: u64) -> Result<Vec<Extent>, SegmentError> {
        match self {
            Self::Luks1(header) => Ok(vec![header.extent(storage_len)?]),
            Self::Luks2(header) => header.extents(storage_len),
        }
    }

    /// All of the plaintext as one extent, for a volume that comes through a pipe. Its length is
    /// `u64::MAX` where the metadata do not say it. `None` when the data lie in several parts.
    #[must_use]
    pub fn stream_extent(&self) -> Option<Extent> {
        let (digest, segment) = match self {
            Self::Luks1(header) => (0, header.segment()),
            Self::Luks2(header) => {
                let metadata = header.metadata();
                let (number, segment) = metadata.segments.single()?;
                (metadata.digest_of_segment(number), segment)
            }
        };
        let len = match segment.size {
            SegmentSize::Fixed(len) => len,
            SegmentSize::Dynamic => u64::MAX,
        };
        Some(Extent {
            offset: segment.offset,
            len,
            cipher: Some(segment.cipher(digest)),
        })
    }

    /// Whether somebody who has the secret can open the volume:
    /// [`Luks2Header::check_openable`].
    ///
    /// # Errors
    /// [`UnlockError`]; no secret helps against it.
    pub fn check_openable(&self) -> Result<(), UnlockError> {
        match self {
            Self::Luks1(_) => Ok(()),
            Self::Luks2(header) => header.check_openable(),
        }
    }

    /// The exact length in bytes of the file in the volume, where the metadata keep
    /// it: [`Luks2Header::file_length`]. LUKS1 has no place for it.
    #[must_use]
    pub fn file_length(&self) -> Option<u64> {
        match self {
            Self::Luks1(_) => None,
            Self::Luks2(header) => header.file_length(),
        }
    }

    /// The UUID as text.
    #[must_use]
    pub fn uuid(&self) -> &str {
        match self {
            Self::Luks1(header) => header.describe().uuid,
            Self::Luks2(header) => header.describe().uuid,
        }
    }

    /// The used keyslots by number.
    #[must_use]
    pub fn keyslots(&self) -> &BTreeMap<u32, Keyslot> {
        match self {
            Self::Luks1(header) => header.describe().keyslots,
            Self::Luks2(header) => header.describe().keyslots,
        }
    }

    /// The keyslots that this version does not open, by number, and why.
    pub(crate) fn foreign_keyslots(&self) -> Option<&BTreeMap<u32, Foreign>> {
        match self {
            Self::Luks1(_) => None,
            Self::Luks2(header) => Some(&header.metadata().foreign_keyslots),
        }
    }

    /// What a program must be able to do before it opens or changes the volume. LUKS1
    /// has no such thing.
    #[must_use]
    pub fn requirements(&self) -> &[String] {
        match self {
            Self::Luks1(_) => &[],
            Self::Luks2(header) => &header.describe().config.requirements,
        }
    }

    /// The length of the volume key in bytes; `None` when LUKS2 has no keyslot for it.
    #[must_use]
    pub fn key_len(&self) -> Option<u32> {
        match self {
            Self::Luks1(header) => Some(header.describe().key_len),
            Self::Luks2(header) => {
                let metadata = header.metadata();
                let (_, digest) = metadata.data_digest()?;
                let mut keyslots = digest.keyslots.iter();
                keyslots.find_map(|number| Some(metadata.keyslots.get(number)?.key_len))
            }
        }
    }

    /// What tells the key of the data from all others: in the midst of a re-encryption
    /// the key that they will have. `None` when nothing is encrypted, or the digest of a
    /// type that this version does not have.
    #[must_use]
    pub fn volume_key_digest(&self) -> Option<&Digest> {
        match self {
            Self::Luks1(header) => Some(header.describe().digest),
            Self::Luks2(header) => Some(header.metadata().data_digest()?.1),
        }
    }

    /// What tells these metadata from all others.
    #[must_use]
    pub fn digest(&self) -> HeaderDigest {
        match self {
            Self::Luks1(header) => header.digest(),
            Self::Luks2(header) => header.digest(),
        }
    }

    /// What a file's length was padded to: [`Luks2Header::file_sector_size`].
    #[must_use]
    pub fn file_sector_size(&self) -> SectorSize {
        match self {
            Self::Luks1(header) => header.segment().geometry.sector_size,
            Self::Luks2(header) => header.file_sector_size(),
        }
    }

    /// The bytes from the storage's beginning to the end of the last keyslot.
    #[must_use]
    pub fn metadata_len(&self) -> u64 {
        match self {
            Self::Luks1(header) => header.metadata_len(),
            Self::Luks2(header) => header.metadata_len(),
        }
    }

    /// What is wrong with the metadata's copies, although the volume can be opened.
    /// LUKS1 has one copy.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        match self {
            Self::Luks1(_) => &[],
            Self::Luks2(header) => header.warnings(),
        }
    }
}

/// Why a volume's metadata cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeReadError {
    /// It begins as LUKS1.
    #[error("the LUKS1 header is not accepted: {0}")]
    Luks1(#[from] Luks1Error),
    /// It does not.
    #[error(transparent)]
    Luks2(#[from] ReadError),
}

impl VolumeReadError {
    /// The version of its format, when it is a whole volume all the same, with something that
    /// this program does not have or refuses.
    #[must_use]
    pub fn version(&self) -> Option<LuksVersion> {
        match self {
            Self::Luks1(
                Luks1Error::CipherNull
                | Luks1Error::Cipher { .. }
                | Luks1Error::Hash { .. }
                | Luks1Error::KeyLen { .. },
            ) => Some(LuksVersion::Luks1),
            Self::Luks2(ReadError::Unsupported { .. }) => Some(LuksVersion::Luks2),
            _ => None,
        }
    }

    /// Whether nothing there begins as a volume does.
    #[must_use]
    pub fn is_not_luks(&self) -> bool {
        matches!(self, Self::Luks2(ReadError::NotLuks))
    }
}
