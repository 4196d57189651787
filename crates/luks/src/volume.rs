// SPDX-License-Identifier: MIT OR Apache-2.0
//! A volume of either version. This is the only module that looks at the version.

mod change;
mod check;
pub(crate) mod create;
pub(crate) mod format;
pub(crate) mod repair;

use std::{collections::BTreeMap, sync::Arc};

use luxor_engine::Backend;
use luxor_secret::{SecretBytes, with_key_stack};
use luxor_sector::{SectorSize, Storage};
use luxor_volume::{Encryption, Extent, UnlockOptions, VolumeKey};

use crate::{
    header_digest::HeaderDigest,
    luks1::{self, ConvertError, Luks1Header},
    luks1_error::{KeyslotDamage, Luks1Error},
    luks2::{
        config::ActivationFlag,
        digest::{Digest, KeyLen},
        foreign::Foreign,
        header::{Luks2Header, ReadError, Warning},
        keyslot::Keyslot,
        metadata::Metadata,
        segment::{Segment, SegmentError, SegmentSize},
        token::{FileEnd, TokenKeyslot, token_keyslots},
        unlock::{UnlockError, Unlocked},
    },
    version::LuksVersion,
};

/// The metadata of a volume of either version, read once. They are a copy in memory: only the
/// methods that change the metadata write to a storage.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "only one value exists, and it is not moved around"
)]
pub enum VolumeHeader {
    /// LUKS1.
    Luks1(Luks1Header),
    /// LUKS2.
    Luks2(Luks2Header),
}

impl VolumeHeader {
    /// Reads the metadata at the beginning of `storage`. If `storage` begins with LUKS1's magic,
    /// they are LUKS1's, otherwise LUKS2's, which have a second copy at a higher offset.
    ///
    /// # Errors
    /// [`VolumeReadError`]: `storage` holds no LUKS volume, no valid metadata, or a volume that
    /// this version cannot open.
    pub fn read(storage: &dyn Storage) -> Result<Self, VolumeReadError> {
        let mut magic = [0; luks1::MAGIC.len()];
        let begins = storage.read_exact_at(&mut magic, 0);
        if begins.is_ok() && magic == *luks1::MAGIC {
            return Ok(Self::Luks1(Luks1Header::read(storage)?));
        }
        let error = match Luks2Header::read(storage) {
            Ok(header) => return Ok(Self::Luks2(header)),
            Err(error) => error,
        };
        Err(match (error, begins) {
            // Only the second attempt could read the beginning.
            (ReadError::Luks1, Err(source)) => ReadError::Io {
                source: Arc::new(source),
            }
            .into(),
            (error @ ReadError::Damaged { .. }, Ok(())) => {
                match Luks1Header::other_version(storage) {
                    Some(found) => Luks1Error::Version { found }.into(),
                    None => error.into(),
                }
            }
            (error, _) => error.into(),
        })
    }

    /// Finds a keyslot that `secret` opens, and returns its volume key. `storage` must be the one
    /// that the metadata were read from. `backend` decrypts the keyslots: it must support XTS, and
    /// CBC for old volumes.
    ///
    /// This is slow, as the costs of the keyslots require. A digest in the metadata confirms the
    /// key, so the data are not read.
    ///
    /// # Errors
    /// [`UnlockError`]: no keyslot opens with `secret`, none can be tried, or this version cannot
    /// read the data with any key.
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

    /// Compares `key` with the digest of the volume key. Returns it under the number of that digest,
    /// as [`Unlocked::into_keys`] does. No keyslot is opened.
    ///
    /// # Errors
    /// [`UnlockError::WrongVolumeKey`], [`UnlockError::VolumeKeyLen`] or
    /// [`UnlockError::AmbiguousVolumeKey`] if it is another key, [`UnlockError::SeveralKeys`] during
    /// a re-encryption, and other errors if this version cannot read the data with any key.
    pub fn confirm_volume_key(
        &self,
        key: &SecretBytes,
        options: &UnlockOptions,
    ) -> Result<BTreeMap<u32, VolumeKey>, UnlockError> {
        with_key_stack(|| match self {
            Self::Luks1(header) => header.confirm_volume_key(key, options),
            Self::Luks2(header) => header.confirm_volume_key(key, options),
        })
    }

    /// Compares `key` with the digest of the volume key, like [`VolumeHeader::confirm_volume_key`],
    /// even if this version cannot read the data.
    ///
    /// # Errors
    /// [`UnlockError::WrongVolumeKey`] if it is another key, and [`UnlockError::SeveralKeys`] during a
    /// re-encryption.
    pub fn test_volume_key(
        &self,
        key: &SecretBytes,
        options: &UnlockOptions,
    ) -> Result<BTreeMap<u32, VolumeKey>, UnlockError> {
        with_key_stack(|| match self {
            Self::Luks1(header) => header.test_volume_key(key, options),
            Self::Luks2(header) => header.test_volume_key(key, options),
        })
    }

    /// Tests whether `secret` opens a keyslot, even if this version cannot read the data:
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
            Self::Luks1(header) => header.test(storage, secret, backend, options),
            Self::Luks2(header) => header.test(storage, secret, backend, options),
        })
    }

    /// Returns whether both headers agree on the data: their location, encryption and keys, a
    /// re-encryption underway, and the length of the file in them. Keyslots, tokens and labels may
    /// differ.
    #[must_use]
    pub fn has_same_data(&self, other: &Self) -> bool {
        let (ours, theirs) = match (self, other) {
            (Self::Luks1(ours), Self::Luks1(theirs)) => {
                let (a, b) = (ours.describe(), theirs.describe());
                return a.segment == b.segment
                    && a.key_len == b.key_len
                    && a.digest.is_of_same_key(b.digest);
            }
            (Self::Luks2(ours), Self::Luks2(theirs)) => (ours.metadata(), theirs.metadata()),
            _ => return false,
        };
        let of_data = |metadata: &'_ Metadata| -> Vec<_> {
            let digests = metadata.digests.clone().into_iter();
            digests
                .filter(|(_, digest)| !digest.segments.is_empty())
                .collect()
        };
        let (our_keys, their_keys) = (of_data(ours), of_data(theirs));
        let are_keys_same = our_keys.len() == their_keys.len()
            && our_keys.iter().zip(&their_keys).all(|(ours, theirs)| {
                ours.0 == theirs.0
                    && ours.1.segments == theirs.1.segments
                    && ours.1.is_of_same_key(&theirs.1)
            });
        ours.segments == theirs.segments
            && are_keys_same
            && ours.reencrypt == theirs.reencrypt
            && ours.config.requirements == theirs.config.requirements
            && ours.file_end() == theirs.file_end()
    }

    /// Returns whether both headers have the same keyslot `number`: the same area, secret and costs.
    /// Also `false` if neither has it.
    #[must_use]
    pub fn has_same_keyslot(&self, other: &Self, number: u32) -> bool {
        match (self.keyslots().get(&number), other.keyslots().get(&number)) {
            (Some(ours), Some(theirs)) => ours == theirs,
            (None, None) => {
                let foreign = |header: &Self| header.foreign_keyslots()?.get(&number).cloned();
                match (self, other) {
                    (Self::Luks1(ours), Self::Luks1(theirs)) => {
                        ours.has_same_damaged_keyslot(theirs, number)
                    }
                    _ => foreign(self).is_some() && foreign(self) == foreign(other),
                }
            }
            _ => false,
        }
    }

    /// Returns whether the data have the same location and encryption, whatever the keys and the
    /// versions of LUKS.
    pub(crate) fn has_same_segments(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Luks2(ours), Self::Luks2(theirs)) => {
                ours.metadata().segments == theirs.metadata().segments
            }
            (Self::Luks1(ours), Self::Luks1(theirs)) => ours.entry() == theirs.entry(),
            // Segments that this version does not support cannot be compared across versions.
            _ => self.segment().is_some() && self.segment() == other.segment(),
        }
    }

    /// Returns whether a keyslot exists for each key of the data. A keyslot that this version
    /// cannot open counts.
    pub(crate) fn has_data_keyslots(&self) -> bool {
        match self {
            Self::Luks1(header) => !header.describe().keyslots.is_empty(),
            Self::Luks2(header) => header.metadata().has_data_keyslots(),
        }
    }

    /// The LUKS2 header, or `None` for LUKS1.
    #[must_use]
    pub fn luks2(&self) -> Option<&Luks2Header> {
        match self {
            Self::Luks1(_) => None,
            Self::Luks2(header) => Some(header),
        }
    }

    /// The header of a LUKS2 volume, for a change.
    pub fn luks2_mut(&mut self) -> Option<&mut Luks2Header> {
        match self {
            Self::Luks1(_) => None,
            Self::Luks2(header) => Some(header),
        }
    }

    /// The version of LUKS.
    #[must_use]
    pub fn version(&self) -> LuksVersion {
        match self {
            Self::Luks1(_) => LuksVersion::Luks1,
            Self::Luks2(_) => LuksVersion::Luks2,
        }
    }

    /// The volume's label. Empty if it has none; LUKS1 never has one.
    #[must_use]
    pub fn label(&self) -> &str {
        match self {
            Self::Luks1(_) => "",
            Self::Luks2(header) => header.describe().label,
        }
    }

    /// The numbers of the keyslots that hold a key of the data, not some other key.
    #[must_use]
    pub fn data_keyslots(&self) -> Vec<u32> {
        match self {
            Self::Luks1(header) => header.keyslot_numbers(),
            Self::Luks2(header) => header.metadata().data_keyslots(),
        }
    }

    /// The numbers of those of [`VolumeHeader::data_keyslots`] that this version can open with the right
    /// secret, and with limits that permit their costs. Of LUKS1 these are all that are not damaged.
    #[must_use]
    pub fn openable_keyslots(&self) -> Vec<u32> {
        let mut keyslots = self.data_keyslots();
        keyslots.retain(|&number| match self {
            Self::Luks1(header) => header.describe().keyslots.contains_key(&number),
            Self::Luks2(header) => header.metadata().can_open(number),
        });
        keyslots
    }

    /// Converts the volume to the other version in place, without a key. `force` permits the loss
    /// of what LUKS1 cannot store.
    ///
    /// # Errors
    /// [`ConvertError`]: the other version cannot store the volume, or the storage failed:
    /// [`ConvertError::Unfinished`] says which version the volume has then.
    pub fn convert(self, storage: &dyn Storage, force: bool) -> Result<(), ConvertError> {
        let from = self.version();
        let converted = match self {
            Self::Luks1(header) => header.convert_to_luks2(storage).map(drop),
            Self::Luks2(header) => header.convert_to_luks1(storage, force).map(drop),
        };
        converted.map_err(|error| {
            if !error.may_have_written() {
                return error;
            }
            let now = Self::read(storage).ok();
            ConvertError::Unfinished {
                from,
                now: now.as_ref().map(Self::version),
                is_damaged: now.is_some_and(|now| !now.warnings().is_empty()),
                error: Box::new(error),
            }
        })
    }

    /// Returns whether the data are being re-encrypted: some parts are done and others are not.
    #[must_use]
    pub fn is_reencrypting(&self) -> bool {
        match self {
            Self::Luks1(_) => false,
            Self::Luks2(header) => header.metadata().config.reencrypt_version().is_some(),
        }
    }

    /// Returns whether the volume's own flags permit that discards reach the storage.
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

    /// The only segment of a volume with uniformly encrypted data: [`Luks2Header::segment`].
    #[must_use]
    pub fn segment(&self) -> Option<&Segment> {
        match self {
            Self::Luks1(header) => header.segment(),
            Self::Luks2(header) => header.segment(),
        }
    }

    /// The encryption of each part of the data. `None` for a part that is not encrypted or has an
    /// encryption that this version does not know.
    #[must_use]
    pub fn encryptions(&self) -> Vec<Option<Encryption>> {
        match self {
            Self::Luks1(header) => vec![header.segment().map(|segment| segment.encryption)],
            Self::Luks2(header) => header
                .segments()
                .values()
                .filter(|entry| entry.role.is_data())
                .map(|entry| entry.crypt().map(|segment| segment.encryption))
                .collect(),
        }
    }

    /// The offset of the first byte of the data in the storage that holds them; usually 0 if the
    /// header is detached. See [`Luks2Header::data_offset`] for a volume that is being re-encrypted.
    #[must_use]
    pub fn data_offset(&self) -> u64 {
        match self {
            Self::Luks1(header) => header.entry().offset(),
            Self::Luks2(header) => header.data_offset(),
        }
    }

    /// The plaintext, part by part, for a storage of `storage_len` bytes that holds the data:
    /// [`Luks2Header::extents`].
    ///
    /// # Errors
    /// [`SegmentError`]: the storage is too short or ends within a sector, or this version cannot
    /// read a part of the data.
    pub fn extents(&self, storage_len: u64) -> Result<Vec<Extent>, SegmentError> {
        match self {
            Self::Luks1(header) => Ok(vec![header.extent(storage_len)?]),
            Self::Luks2(header) => header.extents(storage_len),
        }
    }

    /// As [`VolumeHeader::extents`], as if the storage were not cut off: its end may be missing.
    ///
    /// # Errors
    /// [`SegmentError`]: this version cannot read a part of the data.
    pub fn whole_extents(&self, storage_len: u64) -> Result<Vec<Extent>, SegmentError> {
        match self {
            Self::Luks1(header) => {
                let sector = self.file_sector_size().bytes() as u64;
                let offset = header.entry().offset();
                let there = storage_len.saturating_sub(offset).max(1);
                let end = offset.saturating_add(there.next_multiple_of(sector));
                Ok(vec![header.extent(end)?])
            }
            Self::Luks2(header) => header.whole_extents(storage_len),
        }
    }

    /// The whole plaintext as one extent, for a volume that is read from a pipe. The extent's
    /// length is `u64::MAX` if the metadata do not fix it. Returns `None` if the data consist of
    /// several parts.
    #[must_use]
    pub fn stream_extent(&self) -> Option<Extent> {
        let (digest, segment, file) = match self {
            Self::Luks1(header) => (0, header.segment()?, None),
            Self::Luks2(header) => {
                let metadata = header.metadata();
                let (number, segment) = metadata.segments.single()?;
                let digest = metadata.digest_of_segment(number);
                (digest, segment, header.file_payload_len())
            }
        };
        let len = match segment.size {
            SegmentSize::Fixed(len) => len.min(file.unwrap_or(len)),
            SegmentSize::Dynamic => file.unwrap_or(u64::MAX),
        };
        Some(Extent {
            offset: segment.offset,
            len,
            cipher: Some(segment.cipher(digest)),
        })
    }

    /// Checks that the volume can be opened, given a correct secret:
    /// [`Luks2Header::check_openable`].
    ///
    /// # Errors
    /// [`UnlockError`]: the volume cannot be opened with any secret.
    pub fn check_openable(&self) -> Result<(), UnlockError> {
        match self {
            Self::Luks1(header) => header.check_openable(),
            Self::Luks2(header) => header.check_openable(),
        }
    }

    /// The exact length in bytes of the file in the volume, if the metadata record it:
    /// [`Luks2Header::file_length`]. LUKS1 cannot record it.
    #[must_use]
    pub fn file_length(&self) -> Option<u64> {
        match self {
            Self::Luks1(_) => None,
            Self::Luks2(header) => header.file_length(),
        }
    }

    /// Where a file in the volume ends, if the metadata say it. LUKS1 cannot record it.
    pub(crate) fn file_end(&self) -> Option<&FileEnd> {
        self.luks2()?.metadata().file_end()
    }

    /// Whether the length of a file in the volume is in a trailer: [`Luks2Header::has_trailer`].
    #[must_use]
    pub fn has_trailer(&self) -> bool {
        self.luks2().is_some_and(Luks2Header::has_trailer)
    }

    /// The UUID as text, as the metadata contain it. It need not be a valid UUID.
    #[must_use]
    pub fn uuid(&self) -> &str {
        match self {
            Self::Luks1(header) => header.describe().uuid,
            Self::Luks2(header) => header.describe().uuid,
        }
    }

    /// The used keyslots by number: from 0 to 7 in LUKS1, to 31 in LUKS2. Keyslots that this
    /// version does not support, and damaged ones, are missing.
    #[must_use]
    pub fn keyslots(&self) -> &BTreeMap<u32, Keyslot> {
        match self {
            Self::Luks1(header) => header.describe().keyslots,
            Self::Luks2(header) => header.describe().keyslots,
        }
    }

    /// The numbers of all keyslots that hold a key, in ascending order, also of those that this
    /// version does not support, or that are damaged.
    #[must_use]
    pub fn keyslot_numbers(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = match self {
            Self::Luks1(header) => header.keyslot_numbers(),
            Self::Luks2(header) => header.metadata().keyslots_with_keys().collect(),
        };
        numbers.sort_unstable();
        numbers
    }

    /// The keyslots of `numbers`, or all if it is empty, if other programs get the secrets of all of
    /// them through tokens. Otherwise none: a keyslot without a token has a passphrase or a key
    /// file.
    #[must_use]
    pub fn token_keyslots(&self, numbers: &[u32]) -> Vec<TokenKeyslot<'_>> {
        let Self::Luks2(header) = self else {
            return Vec::new();
        };
        let header = header.describe();
        let used = header.keyslots.keys().copied();
        let of_data = used.filter(|&number| !header.is_unbound(number));
        let wanted = of_data.filter(|number| numbers.is_empty() || numbers.contains(number));
        token_keyslots(header.tokens, wanted)
    }

    /// The keyslots of LUKS1 by number that may hold a key, and that no secret opens because a field is
    /// damaged.
    #[must_use]
    pub fn damaged_keyslots(&self) -> BTreeMap<u32, KeyslotDamage> {
        match self {
            Self::Luks1(header) => header.describe().damaged_keyslots.clone(),
            Self::Luks2(_) => BTreeMap::new(),
        }
    }

    /// The keyslots that this version cannot open, by number, with the reason.
    pub(crate) fn foreign_keyslots(&self) -> Option<&BTreeMap<u32, Foreign>> {
        match self {
            Self::Luks1(_) => None,
            Self::Luks2(header) => Some(&header.metadata().foreign_keyslots),
        }
    }

    /// The features that a program must support before it opens or changes the volume. LUKS1 has no
    /// requirements.
    #[must_use]
    pub fn requirements(&self) -> &[String] {
        match self {
            Self::Luks1(_) => &[],
            Self::Luks2(header) => &header.describe().config.requirements,
        }
    }

    /// The length of the volume key in bytes. `None` if a LUKS2 volume has no keyslot for it, or
    /// if its keyslots state different lengths.
    #[must_use]
    pub fn key_len(&self) -> Option<u32> {
        match self {
            Self::Luks1(header) => Some(header.describe().key_len),
            Self::Luks2(header) => match header.metadata().data_digest()?.1.key_len {
                KeyLen::Stated(len) => Some(len),
                KeyLen::Unstated | KeyLen::Contradictory { .. } => None,
            },
        }
    }

    /// The digest of the data's key. During a re-encryption it is that of the new key. `None` if
    /// the data are not encrypted, or if this version does not support the digest's type.
    #[must_use]
    pub fn volume_key_digest(&self) -> Option<&Digest> {
        match self {
            Self::Luks1(header) => Some(header.describe().digest),
            Self::Luks2(header) => Some(header.metadata().data_digest()?.1),
        }
    }

    /// The digest of these metadata.
    #[must_use]
    pub fn digest(&self) -> HeaderDigest {
        match self {
            Self::Luks1(header) => header.digest(),
            Self::Luks2(header) => header.digest(),
        }
    }

    /// The sector size to which the length of a file in the volume is padded:
    /// [`Luks2Header::file_sector_size`].
    #[must_use]
    pub fn file_sector_size(&self) -> SectorSize {
        match self {
            Self::Luks1(_) => SectorSize::B512,
            Self::Luks2(header) => header.file_sector_size(),
        }
    }

    /// The number of bytes from the beginning of the storage to the end of the last keyslot.
    #[must_use]
    pub fn metadata_len(&self) -> u64 {
        match self {
            Self::Luks1(header) => header.metadata_len(),
            Self::Luks2(header) => header.metadata_len(),
        }
    }

    /// Defects that do not prevent opening the volume: of a copy of LUKS2's metadata, or of a keyslot
    /// of LUKS1.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        match self {
            Self::Luks1(header) => header.warnings(),
            Self::Luks2(header) => header.warnings(),
        }
    }
}

/// Why a volume's metadata cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeReadError {
    /// The storage begins with LUKS1's magic, and the header is not accepted.
    #[error("the LUKS1 header is not accepted: {0}")]
    Luks1(#[from] Luks1Error),
    /// The storage does not begin with LUKS1's magic, and holds no LUKS2 header that is accepted.
    #[error(transparent)]
    Luks2(#[from] ReadError),
}

impl VolumeReadError {
    /// The version of LUKS, if the header is intact but uses something that this version of Luxor
    /// does not support or refuses.
    #[must_use]
    pub fn version(&self) -> Option<LuksVersion> {
        match self {
            Self::Luks1(Luks1Error::CipherNull) => Some(LuksVersion::Luks1),
            Self::Luks2(ReadError::Unsupported { .. }) => Some(LuksVersion::Luks2),
            _ => None,
        }
    }

    /// Returns whether the storage holds nothing that looks like a LUKS volume.
    #[must_use]
    pub fn is_not_luks(&self) -> bool {
        matches!(self, Self::Luks2(ReadError::NotLuks))
    }

    /// Returns whether the storage ends within the metadata.
    #[must_use]
    pub fn is_cut_off(&self) -> bool {
        match self {
            Self::Luks1(error) => matches!(error, Luks1Error::Truncated { .. }),
            Self::Luks2(ReadError::Damaged { primary, secondary }) => {
                primary.is_cut_off() || secondary.is_cut_off()
            }
            Self::Luks2(_) => false,
        }
    }

    /// Returns whether a part of the storage could not be read, so that the metadata in it may be intact.
    #[must_use]
    pub fn is_unread(&self) -> bool {
        match self {
            Self::Luks1(error) => matches!(error, Luks1Error::Io { .. }),
            Self::Luks2(ReadError::Damaged { primary, secondary }) => {
                primary.is_unread() || secondary.is_unread()
            }
            Self::Luks2(error) => matches!(error, ReadError::Io { .. }),
        }
    }
}
