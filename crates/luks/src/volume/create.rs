// SPDX-License-Identifier: MIT OR Apache-2.0
//! Creates a volume of either version.

use std::io;

use luxor_engine::{Backend, KeySize};
use luxor_sector::{SectorSize, Storage};
use luxor_volume::{HashAlgorithm, PbkdfOptions, VolumeKey};
use uuid::Uuid;

use crate::{
    luks1::{Luks1Options, NewLuks1Volume},
    luks2::{
        create::{CreateError, Luks2Options, NewLuks2Volume},
        header_sizes::{Luks2HeaderSizes, Luks2HeaderSizesError},
        label::Label,
        segment::{Segment, SegmentSize},
    },
    version::LuksVersion,
    zeros::write_zeros,
};

impl LuksVersion {
    /// Refuses data that end before the device does: LUKS1's always extend to its end.
    fn check_end(self, end: u64, capacity: Option<u64>) -> Result<(), NotInLuks1> {
        match (self, capacity) {
            (Self::Luks1, Some(capacity)) if end < capacity => {
                Err(NotInLuks1::End { end, capacity })
            }
            _ => Ok(()),
        }
    }
}

/// The options of a new volume.
#[derive(Clone, Debug)]
pub struct NewVolumeOptions {
    /// The version of LUKS.
    pub version: LuksVersion,
    /// The length of a data unit. `None`: 512 bytes in LUKS1, 4096 in LUKS2.
    pub sector_size: Option<SectorSize>,
    /// AES-128 or AES-256: a volume key of 32 or 64 bytes.
    pub key_size: KeySize,
    /// Its volume key, of twice the length of [`NewVolumeOptions::key_size`]. `None`: a random one.
    pub volume_key: Option<VolumeKey>,
    /// The hash for PBKDF2, the anti-forensic splitter and the digest.
    pub hash: HashAlgorithm,
    /// The key derivation of its keyslot and its costs. LUKS1 supports only PBKDF2.
    pub pbkdf: PbkdfOptions,
    /// The number of its keyslot, below [`LuksVersion::max_keyslots`].
    pub keyslot: u32,
    /// Its label. `None` in LUKS1, which has no labels.
    pub label: Option<Label>,
    /// Its second label. `None` in LUKS1.
    pub subsystem: Option<Label>,
    /// Its UUID. `None`: a random one (RFC 9562, version 4).
    pub uuid: Option<Uuid>,
    /// Whether the header is stored apart from the data.
    pub detached: bool,
    /// The byte at which the data begin, a multiple of 4096. `None`: right after the header, or at
    /// byte 0 if it is detached.
    pub data_offset: Option<u64>,
    /// The lengths of the parts of its header. `None`: cryptsetup's defaults. `None` in LUKS1, whose
    /// header has one length for each key size.
    pub header_sizes: Option<Luks2HeaderSizes>,
    /// The exact length in bytes of the file that the volume will hold, if it is known already. In
    /// LUKS1 it must be a multiple of 512, and not 0.
    pub file_length: Option<u64>,
    /// Whether a trailer after the data will tell their length ([`TrailerKey`](crate::TrailerKey)),
    /// because it is not known when the header is written. Not in LUKS1.
    pub trailer: bool,
}

impl NewVolumeOptions {
    /// Checks that the data may end at byte `end` of a device of `capacity` bytes. `None` stands
    /// for a file, which ends where the data end.
    ///
    /// # Errors
    /// [`NotInLuks1::End`]: the device is longer, and the version is LUKS1.
    pub fn check_end(&self, end: u64, capacity: Option<u64>) -> Result<(), NotInLuks1> {
        self.version.check_end(end, capacity)
    }

    /// Returns cryptsetup's defaults for a file: AES-256 and SHA-256.
    #[must_use]
    pub fn new(version: LuksVersion) -> Self {
        Self {
            version,
            sector_size: None,
            key_size: KeySize::Aes256,
            volume_key: None,
            hash: HashAlgorithm::Sha256,
            pbkdf: PbkdfOptions {
                kind: version.default_pbkdf(),
                ..PbkdfOptions::default()
            },
            keyslot: 0,
            label: None,
            subsystem: None,
            uuid: None,
            detached: false,
            data_offset: None,
            header_sizes: None,
            file_length: None,
            trailer: false,
        }
    }

    /// Sets `header_sizes` for keys of `key_size`, if a size is given, and `data_offset`. The sizes
    /// are those of [`Luks2HeaderSizes::new`]; without a size of its own, the keyslots area of a
    /// LUKS2 header ends where the data begin.
    ///
    /// # Errors
    /// [`Luks2HeaderSizesError`] names the size that is out of bounds.
    pub fn set_layout(
        &mut self,
        metadata: Option<u64>,
        keyslots: Option<u64>,
        data_offset: Option<u64>,
    ) -> Result<(), Luks2HeaderSizesError> {
        let header_end = data_offset
            .filter(|&offset| self.version == LuksVersion::Luks2 && (offset > 0 || !self.detached));
        if metadata.is_some() || keyslots.is_some() || header_end.is_some() {
            let sizes = Luks2HeaderSizes::new(metadata, keyslots, header_end, self.key_size)?;
            self.header_sizes = Some(sizes);
        }
        self.data_offset = data_offset;
        Ok(())
    }

    /// Checks these options, except `pbkdf`, which [`NewVolumeOptions::create`] checks.
    ///
    /// # Errors
    /// [`NewVolumeError`] names the first option that is out of bounds, or that LUKS1 does not
    /// support.
    pub fn check(&self) -> Result<(), NewVolumeError> {
        let (number, version) = (self.keyslot, self.version);
        if number >= version.max_keyslots() {
            return Err(NewVolumeError::Keyslot { number, version });
        }
        if let Some(offset) = self.data_offset {
            let first = match (version, self.detached) {
                (LuksVersion::Luks1, _) => self.luks1().areas_end(),
                (LuksVersion::Luks2, _) => self.luks2().header_sizes.header_len(),
            };
            // LUKS1 counts units of 512 bytes in 32 bits.
            let is_too_far = match version {
                LuksVersion::Luks1 => offset >= 512 << 32,
                LuksVersion::Luks2 => i64::try_from(offset).is_err(),
            };
            let is_zero = self.detached && offset == 0;
            if !offset.is_multiple_of(4096) || (offset < first && !is_zero) || is_too_far {
                return Err(NewVolumeError::DataOffset { offset, first });
            }
        }
        match version {
            LuksVersion::Luks1 => Ok(self.check_luks1()?),
            LuksVersion::Luks2 => Ok(()),
        }
    }

    /// Checks that LUKS1 supports these options.
    fn check_luks1(&self) -> Result<(), NotInLuks1> {
        match self.sector_size {
            Some(size) if size != SectorSize::B512 => {
                return Err(NotInLuks1::SectorSize {
                    bytes: size.bytes(),
                });
            }
            _ => {}
        }
        if self.label.is_some() || self.subsystem.is_some() {
            return Err(NotInLuks1::Label);
        }
        if self.trailer {
            return Err(NotInLuks1::Trailer);
        }
        if self.header_sizes.is_some() {
            return Err(NotInLuks1::HeaderSizes);
        }
        self.file_length.map_or(Ok(()), check_luks1_length)
    }

    /// The length of a data unit.
    #[must_use]
    pub fn sector_size(&self) -> SectorSize {
        match self.version {
            LuksVersion::Luks1 => SectorSize::B512,
            LuksVersion::Luks2 => self.sector_size.unwrap_or(SectorSize::B4096),
        }
    }

    /// The offset in bytes at which the data will begin.
    #[must_use]
    pub fn data_offset(&self) -> u64 {
        match self.version {
            LuksVersion::Luks1 => self.luks1().data_offset(),
            LuksVersion::Luks2 => self.luks2().data_offset(),
        }
    }

    /// The offset at which the data of a file of `len` bytes will end. They are whole sectors, and
    /// at least one. `None` if the offset exceeds 64 bits.
    #[must_use]
    pub fn data_end(&self, len: u64) -> Option<u64> {
        let payload = self.sector_size().payload_len(len)?;
        payload.checked_add(self.data_offset())
    }

    /// Draws the volume key and encrypts it into its keyslot under `secret`. The time that this takes
    /// is set by the costs of the key derivation. `backend` must support XTS.
    ///
    /// # Errors
    /// [`NewVolumeError`]: the options are not allowed, or memory or random bytes are missing.
    pub fn create(
        &self,
        secret: &[u8],
        backend: &dyn Backend,
    ) -> Result<NewVolume, NewVolumeError> {
        self.check()?;
        Ok(match self.version {
            LuksVersion::Luks1 => {
                NewVolume::Luks1(NewLuks1Volume::create(&self.luks1(), secret, backend)?)
            }
            LuksVersion::Luks2 => {
                NewVolume::Luks2(NewLuks2Volume::create(&self.luks2(), secret, backend)?)
            }
        })
    }

    fn luks1(&self) -> Luks1Options {
        Luks1Options {
            key_size: self.key_size,
            volume_key: self.volume_key.clone(),
            hash: self.hash,
            pbkdf: self.pbkdf.clone(),
            keyslot: self.keyslot,
            uuid: self.uuid,
            detached: self.detached,
            data_offset: self.data_offset,
        }
    }

    fn luks2(&self) -> Luks2Options {
        Luks2Options {
            sector_size: self.sector_size(),
            key_size: self.key_size,
            volume_key: self.volume_key.clone(),
            hash: self.hash,
            pbkdf: self.pbkdf.clone(),
            keyslot: self.keyslot,
            label: self.label.clone(),
            subsystem: self.subsystem.clone(),
            uuid: self.uuid,
            detached: self.detached,
            data_offset: self.data_offset,
            header_sizes: self.header_sizes.unwrap_or_default(),
            file_length: self.file_length,
            trailer: self.trailer,
        }
    }
}

/// The metadata and key of a new volume. Nothing has been written yet.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "only one value exists, and it is not moved around"
)]
pub enum NewVolume {
    /// A LUKS1 volume.
    Luks1(NewLuks1Volume),
    /// A LUKS2 volume.
    Luks2(NewLuks2Volume),
}

impl NewVolume {
    /// The location and the encryption of the data.
    #[must_use]
    pub fn segment(&self) -> &Segment {
        match self {
            Self::Luks1(volume) => volume.segment(),
            Self::Luks2(volume) => volume.segment(),
        }
    }

    /// The key that encrypts the data.
    #[must_use]
    pub fn volume_key(&self) -> &VolumeKey {
        match self {
            Self::Luks1(volume) => volume.volume_key(),
            Self::Luks2(volume) => volume.volume_key(),
        }
    }

    /// The length of the metadata and the keyslots in bytes.
    #[must_use]
    pub fn header_len(&self) -> u64 {
        match self {
            Self::Luks1(volume) => volume.header_len(),
            Self::Luks2(volume) => volume.header_len(),
        }
    }

    /// Records that the data are written: a file of `read` bytes has become `written` bytes, in a
    /// file or on a device of `capacity` bytes.
    ///
    /// # Errors
    /// [`NotInLuks1`]: LUKS1 cannot record this length.
    pub fn set_data(
        &mut self,
        read: u64,
        written: u64,
        capacity: Option<u64>,
    ) -> Result<(), NotInLuks1> {
        match self {
            Self::Luks1(volume) => {
                check_luks1_length(read)?;
                let end = volume.segment().offset + written;
                LuksVersion::Luks1.check_end(end, capacity)
            }
            Self::Luks2(volume) => {
                volume.set_file_length(read);
                // The rest of the device does not belong to the volume.
                if capacity.is_some() {
                    self.set_size(written);
                }
                Ok(())
            }
        }
    }

    /// The volume's UUID.
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        match self {
            Self::Luks1(volume) => volume.uuid(),
            Self::Luks2(volume) => volume.uuid(),
        }
    }

    /// Records that the data have `size` bytes and the device is longer. Does nothing for LUKS1:
    /// its data extend to the end.
    pub fn set_size(&mut self, size: u64) {
        if let Self::Luks2(volume) = self {
            volume.set_segment_size(SegmentSize::Fixed(size));
        }
    }

    /// Writes the metadata and the keyslot to the first [`NewVolume::header_len`] bytes of a
    /// storage. The bytes that identify a volume are written last, after all others are durable.
    /// Returns when these are durable too. The caller must wipe the header of an older volume
    /// first.
    ///
    /// # Errors
    /// An I/O error of the storage, or of the system's random number generator.
    pub fn write_to(&self, storage: &dyn Storage) -> io::Result<()> {
        match self {
            Self::Luks1(volume) => volume.write_to(storage),
            Self::Luks2(volume) => volume.write_to(storage),
        }
    }

    /// Writes the same bytes as [`NewVolume::write_to`] in order, for outputs that cannot seek. If
    /// the data follow in the same output, zeros fill the place before them.
    ///
    /// # Errors
    /// An I/O error of the output, or of the system's random number generator.
    pub fn write_stream(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let is_detached = match self {
            Self::Luks1(volume) => {
                volume.write_stream(out)?;
                volume.is_detached()
            }
            Self::Luks2(volume) => {
                volume.write_stream(out)?;
                volume.is_detached()
            }
        };
        if is_detached {
            return Ok(());
        }
        write_zeros(self.header_len()..self.segment().offset, |zeros, _| {
            out.write_all(zeros)
        })
    }
}

/// Checks that a file of `len` bytes can be stored in LUKS1. Its data are whole sectors up to the
/// end, and no field records how many bytes of the last sector belong to the file.
fn check_luks1_length(len: u64) -> Result<(), NotInLuks1> {
    if len > 0 && len.is_multiple_of(512) {
        Ok(())
    } else {
        Err(NotInLuks1::Length { len })
    }
}

/// Why a volume could not be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NewVolumeError {
    /// The version has no keyslot with this number.
    #[error("there is no keyslot {number}: {version} has keyslots 0 to {}", version.max_keyslots() - 1)]
    Keyslot {
        /// The number.
        number: u32,
        /// The version.
        version: LuksVersion,
    },
    /// The data cannot begin at this byte.
    #[error(
        "the data cannot begin at byte {offset}: that must be a multiple of 4096, and at least \
         {first}, where the header ends"
    )]
    DataOffset {
        /// The byte.
        offset: u64,
        /// The first byte that is possible.
        first: u64,
    },
    /// The version does not support the options.
    #[error(transparent)]
    NotInLuks1(#[from] NotInLuks1),
    /// The options are out of bounds, memory for the key derivation is missing, or the system
    /// returned no random bytes.
    #[error(transparent)]
    Create(#[from] CreateError),
}

impl NewVolumeError {
    /// Returns whether more memory would help.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::Create(error) if error.is_out_of_memory())
    }
}

/// An option that LUKS2 supports and LUKS1 does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotInLuks1 {
    /// LUKS1 has 512-byte sectors only.
    #[error("the sector size is {bytes} bytes, and LUKS1's is 512")]
    SectorSize {
        /// In bytes.
        bytes: usize,
    },
    /// A label.
    #[error("the volume has a label, which LUKS1 does not have")]
    Label,
    /// Sizes of the header.
    #[error("the metadata size and keyslots size are given, which LUKS1 does not have")]
    HeaderSizes,
    /// LUKS1 holds whole sectors only, and at least one.
    #[error("LUKS1 stores only whole sectors of 512 bytes, and at least one")]
    Length {
        /// Of the file, in bytes.
        len: u64,
    },
    /// A trailer.
    #[error("the length of the data is not known, and LUKS1 cannot store it after them")]
    Trailer,
    /// Data that end before the device does.
    #[error("LUKS1 data always extend to the end")]
    End {
        /// Where they would end, in bytes.
        end: u64,
        /// Of the device, in bytes.
        capacity: u64,
    },
}
