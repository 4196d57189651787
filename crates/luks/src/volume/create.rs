// SPDX-License-Identifier: MIT OR Apache-2.0
//! A new volume of either version.

use std::{fmt, io};

use luxor_engine::{Backend, KeySize};
use luxor_sector::{SectorSize, Storage};
use luxor_volume::{HashAlgorithm, PbkdfKind, PbkdfOptions, VolumeKey};
use uuid::Uuid;

use crate::{
    luks1::{Luks1Options, NewLuks1Volume},
    luks2::{
        create::{CreateError, Luks2Options, NewLuks2Volume},
        label::Label,
        segment::{Segment, SegmentSize},
    },
};

/// A version of LUKS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LuksVersion {
    /// For programs that know no other.
    Luks1,
    /// The one to take.
    #[default]
    Luks2,
}

impl fmt::Display for LuksVersion {
    /// `LUKS2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Luks1 => "LUKS1",
            Self::Luks2 => "LUKS2",
        })
    }
}

impl LuksVersion {
    /// The data of LUKS1 go to a device's end.
    fn check_end(self, end: u64, capacity: Option<u64>) -> Result<(), NotInLuks1> {
        match (self, capacity) {
            (Self::Luks1, Some(capacity)) if end < capacity => {
                Err(NotInLuks1::End { end, capacity })
            }
            _ => Ok(()),
        }
    }

    /// How many keyslots a volume has at most.
    #[must_use]
    pub fn max_keyslots(self) -> u32 {
        match self {
            Self::Luks1 => 8,
            Self::Luks2 => 32,
        }
    }

    /// How cryptsetup derives keys for it unless it is told otherwise.
    #[must_use]
    pub fn default_pbkdf(self) -> PbkdfKind {
        match self {
            Self::Luks1 => PbkdfKind::Pbkdf2,
            Self::Luks2 => PbkdfKind::Argon2id,
        }
    }
}

/// What a new volume shall be.
#[derive(Clone, Debug)]
pub struct NewVolumeOptions {
    /// The version of its format.
    pub version: LuksVersion,
    /// The length of its data units; 512 bytes in LUKS1 and 4096 in LUKS2 if `None`.
    pub sector_size: Option<SectorSize>,
    /// AES-128 or AES-256: a volume key of 32 or 64 bytes.
    pub key_size: KeySize,
    /// The hash of PBKDF2, between the stripes and of the digest.
    pub hash: HashAlgorithm,
    /// The costs of its keyslot.
    pub pbkdf: PbkdfOptions,
    /// Its label.
    pub label: Option<Label>,
    /// Its UUID; a random one (RFC 9562, version 4) when there is none.
    pub uuid: Option<Uuid>,
    /// Whether the header is kept apart from the data, which then begin at byte 0.
    pub detached: bool,
    /// The exact length in bytes of the file that it will hold, where that is known already.
    pub file_length: Option<u64>,
}

impl NewVolumeOptions {
    /// Whether the data may end at byte `end` of a device of `capacity` bytes; `None` is a file,
    /// which ends with them.
    ///
    /// # Errors
    /// [`NotInLuks1::End`].
    pub fn check_end(&self, end: u64, capacity: Option<u64>) -> Result<(), NotInLuks1> {
        self.version.check_end(end, capacity)
    }

    /// Those of cryptsetup for a file: AES-256 and SHA-256.
    #[must_use]
    pub fn new(version: LuksVersion) -> Self {
        Self {
            version,
            sector_size: None,
            key_size: KeySize::Aes256,
            hash: HashAlgorithm::Sha256,
            pbkdf: PbkdfOptions {
                kind: version.default_pbkdf(),
                ..PbkdfOptions::default()
            },
            label: None,
            uuid: None,
            detached: false,
            file_length: None,
        }
    }

    /// Whether the version has all this.
    ///
    /// # Errors
    /// [`NotInLuks1`].
    pub fn check(&self) -> Result<(), NotInLuks1> {
        if self.version == LuksVersion::Luks2 {
            return Ok(());
        }
        match self.sector_size {
            Some(size) if size != SectorSize::B512 => {
                return Err(NotInLuks1::SectorSize {
                    bytes: size.bytes(),
                });
            }
            _ => {}
        }
        if self.label.is_some() {
            return Err(NotInLuks1::Label);
        }
        self.file_length.map_or(Ok(()), check_luks1_length)
    }

    /// The length of its data units.
    #[must_use]
    pub fn sector_size(&self) -> SectorSize {
        match self.version {
            LuksVersion::Luks1 => SectorSize::B512,
            LuksVersion::Luks2 => self.sector_size.unwrap_or(SectorSize::B4096),
        }
    }

    /// Where the data will begin, in bytes: behind the header, or at byte 0 of another storage.
    #[must_use]
    pub fn data_offset(&self) -> u64 {
        match self.version {
            LuksVersion::Luks1 => self.luks1().data_offset(),
            LuksVersion::Luks2 => self.luks2().data_offset(),
        }
    }

    /// Where the data of a file of `len` bytes will end: they are whole sectors, and one at least.
    /// `None` if that is beyond 2⁶⁴ bytes.
    #[must_use]
    pub fn data_end(&self, len: u64) -> Option<u64> {
        let payload = self.sector_size().payload_len(len)?;
        payload.checked_add(self.data_offset())
    }

    /// Draws the volume's key, and makes a keyslot: as slow as the costs say.
    ///
    /// # Errors
    /// [`NewVolumeError`].
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
            hash: self.hash,
            pbkdf: self.pbkdf.clone(),
            uuid: self.uuid,
            detached: self.detached,
        }
    }

    fn luks2(&self) -> Luks2Options {
        Luks2Options {
            sector_size: self.sector_size(),
            key_size: self.key_size,
            hash: self.hash,
            pbkdf: self.pbkdf.clone(),
            label: self.label.clone(),
            uuid: self.uuid,
            detached: self.detached,
            file_length: self.file_length,
        }
    }
}

/// A new volume's metadata and key; nothing is written yet.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one of them, and it stays where it is"
)]
pub enum NewVolume {
    /// A LUKS1 volume.
    Luks1(NewLuks1Volume),
    /// A LUKS2 volume.
    Luks2(NewLuks2Volume),
}

impl NewVolume {
    /// Where the data are, and how they are encrypted.
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

    /// The bytes that the metadata take.
    #[must_use]
    pub fn header_len(&self) -> u64 {
        match self {
            Self::Luks1(volume) => volume.header_len(),
            Self::Luks2(volume) => volume.header_len(),
        }
    }

    /// The data are written: a file of `read` bytes has become `written` bytes, in a file or on a
    /// device of `capacity` bytes.
    ///
    /// # Errors
    /// [`NotInLuks1`]: it cannot keep that length.
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
                // What follows on a device is not the volume's.
                if capacity.is_some() {
                    self.set_size(written);
                }
                Ok(())
            }
        }
    }

    /// The data have `size` bytes, and the device is longer. LUKS1's go to its end.
    pub fn set_size(&mut self, size: u64) {
        if let Self::Luks2(volume) = self {
            volume.set_segment_size(SegmentSize::Fixed(size));
        }
    }

    /// Writes the metadata to a storage: what begins like a volume comes last, when all else is
    /// durable.
    ///
    /// # Errors
    /// The storage's errors, and when the system gives no random bytes.
    pub fn write_to(&self, storage: &dyn Storage) -> io::Result<()> {
        match self {
            Self::Luks1(volume) => volume.write_to(storage),
            Self::Luks2(volume) => volume.write_to(storage),
        }
    }

    /// Writes the metadata in order, for outputs that cannot seek.
    ///
    /// # Errors
    /// The output's errors, and when the system gives no random bytes.
    pub fn write_stream(&self, out: &mut dyn io::Write) -> io::Result<()> {
        match self {
            Self::Luks1(volume) => volume.write_stream(out),
            Self::Luks2(volume) => volume.write_stream(out),
        }
    }
}

/// LUKS1's data are whole sectors to the end, and no field says how many bytes of the last one are
/// the file's.
fn check_luks1_length(len: u64) -> Result<(), NotInLuks1> {
    if len > 0 && len.is_multiple_of(512) {
        Ok(())
    } else {
        Err(NotInLuks1::Length { len })
    }
}

/// Why no volume was made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NewVolumeError {
    /// Options that the version does not have.
    #[error(transparent)]
    NotInLuks1(#[from] NotInLuks1),
    /// Options out of bounds, too little memory for the key derivation, or no random bytes from
    /// the system.
    #[error(transparent)]
    Create(#[from] CreateError),
}

impl NewVolumeError {
    /// Whether more memory would help.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::Create(error) if error.is_out_of_memory())
    }
}

/// What LUKS2 has and LUKS1 does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotInLuks1 {
    /// Sectors of another length.
    #[error("the sector size is {bytes} bytes, and LUKS1's is 512")]
    SectorSize {
        /// In bytes.
        bytes: usize,
    },
    /// A label.
    #[error("the volume has a label, which LUKS1 does not have")]
    Label,
    /// A file of any length.
    #[error("LUKS1 stores only whole sectors of 512 bytes, and at least one")]
    Length {
        /// Of the file, in bytes.
        len: u64,
    },
    /// Data that end before the device does.
    #[error("LUKS1 data always extend to the end")]
    End {
        /// Where they would end, in bytes.
        end: u64,
        /// Of the device, in bytes.
        capacity: u64,
    },
}
