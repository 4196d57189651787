// SPDX-License-Identifier: MIT OR Apache-2.0
//! A volume in the making, of either version.

use luxor::Engine;
use luxor_engine::{Backend, KeySize, LoadedKey};
use luxor_files::Output;
use luxor_luks::{
    CreateError, Luks1Options, Luks2Options, NewLuks1Volume, NewVolume as NewLuks2, PbkdfKind,
    Segment, SegmentSize, Uuid, VolumeKey,
};
use luxor_sector::SectorSize;

use crate::{
    args::{NewVolumeArgs, VolumeType},
    error::{Error, ErrorClass, Result},
};

/// What a new volume shall be.
pub enum VolumeOptions {
    /// A LUKS1 volume.
    Luks1(Luks1Options),
    /// A LUKS2 volume.
    Luks2(Luks2Options),
}

impl VolumeOptions {
    /// The volume that `args` ask for; `detached` tells that its header is a file of its
    /// own.
    ///
    /// # Errors
    /// Values that cannot be, and what the version does not have.
    pub fn new(args: &NewVolumeArgs, detached: bool) -> Result<Self> {
        match args.volume_type {
            VolumeType::Luks1 => luks1(args, detached).map(Self::Luks1),
            VolumeType::Luks2 => luks2(args, detached).map(Self::Luks2),
        }
    }

    /// The volume will hold a file of `len` bytes, called `input`.
    ///
    /// # Errors
    /// When it cannot.
    pub fn set_file_length(&mut self, len: u64, input: &str) -> Result<()> {
        match self {
            Self::Luks1(_) => check_luks1_length(len, input)?,
            Self::Luks2(options) => options.file_length = Some(len),
        }
        Ok(())
    }

    /// Whether its metadata have cryptsetup's lock.
    #[must_use]
    pub fn is_luks2(&self) -> bool {
        matches!(self, Self::Luks2(_))
    }

    /// The unit of encryption in bytes.
    #[must_use]
    pub fn sector_size(&self) -> u64 {
        match self {
            Self::Luks1(_) => 512,
            Self::Luks2(options) => options.sector_size.bytes() as u64,
        }
    }

    /// Where the data will begin, in bytes.
    #[must_use]
    pub fn data_offset(&self) -> u64 {
        match self {
            Self::Luks1(options) => options.data_offset(),
            Self::Luks2(options) => options.data_offset(),
        }
    }

    /// Draws the volume's key, and makes a keyslot: slow.
    ///
    /// # Errors
    /// Too little memory above all.
    pub fn create(&self, secret: &[u8], backend: &dyn Backend) -> Result<NewVolume> {
        let volume = match self {
            Self::Luks1(options) => {
                NewLuks1Volume::create(options, secret, backend).map(NewVolume::Luks1)
            }
            Self::Luks2(options) => {
                NewLuks2::create(options, secret, backend).map(NewVolume::Luks2)
            }
        };
        volume.map_err(|error: CreateError| {
            let class = if error.is_out_of_memory() {
                ErrorClass::OutOfMemory
            } else {
                ErrorClass::Failure
            };
            Error::new(class, error.to_string())
        })
    }
}

fn luks1(args: &NewVolumeArgs, detached: bool) -> Result<Luks1Options> {
    let refused = |what: &str| {
        Err(Error::failure(format!("{what}, which LUKS1 does not have")).hint("Use --type luks2."))
    };
    if let Some(bytes) = args.sector_size
        && bytes != 512
    {
        return refused(&format!("--sector-size is {bytes}: LUKS1's is 512"));
    }
    if args.label.is_some() {
        return refused("--label gives the volume a name");
    }
    Ok(Luks1Options {
        key_size: key_size(args)?,
        hash: args.hash,
        pbkdf: args.pbkdf.options(PbkdfKind::Pbkdf2)?,
        uuid: uuid(args)?,
        detached,
    })
}

fn luks2(args: &NewVolumeArgs, detached: bool) -> Result<Luks2Options> {
    let label = match &args.label {
        Some(label) => Some(
            label
                .parse()
                .map_err(|error| Error::failure(format!("--label: {error}")))?,
        ),
        None => None,
    };
    Ok(Luks2Options {
        sector_size: SectorSize::try_from(args.sector_size.unwrap_or(4096))
            .map_err(|error| Error::failure(format!("--sector-size: {error}")))?,
        key_size: key_size(args)?,
        hash: args.hash,
        pbkdf: args.pbkdf.options(PbkdfKind::Argon2id)?,
        label,
        uuid: uuid(args)?,
        detached,
        file_length: None,
    })
}

fn key_size(args: &NewVolumeArgs) -> Result<KeySize> {
    match args.key_size {
        256 => Ok(KeySize::Aes128),
        512 => Ok(KeySize::Aes256),
        bits => Err(Error::failure(format!(
            "--key-size is {bits} bits: it must be 256 (AES-128) or 512 (AES-256)"
        ))),
    }
}

fn uuid(args: &NewVolumeArgs) -> Result<Option<Uuid>> {
    let Some(text) = &args.uuid else {
        return Ok(None);
    };
    // The parser's own words are about its insides.
    text.parse().map(Some).map_err(|_| {
        Error::failure(format!(
            "--uuid: {text:?} is no UUID (32 hexadecimal digits: 8-4-4-4-12)"
        ))
    })
}

/// LUKS1's data are whole sectors to the end: what the file's last bytes are, nobody
/// could tell.
fn check_luks1_length(len: u64, input: &str) -> Result<()> {
    if len > 0 && len.is_multiple_of(512) {
        return Ok(());
    }
    Err(Error::failure(format!(
        "{input} has {len} bytes: LUKS1 keeps no lengths but multiples of 512, and none of 0"
    ))
    .hint("Use --type luks2, which keeps every length."))
}

/// A new volume's metadata and key; nothing is written yet.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one of them, and it stays where it is"
)]
pub enum NewVolume {
    /// A LUKS1 volume.
    Luks1(NewLuks1Volume),
    /// A LUKS2 volume.
    Luks2(NewLuks2),
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

    fn volume_key(&self) -> &VolumeKey {
        match self {
            Self::Luks1(volume) => volume.volume_key(),
            Self::Luks2(volume) => volume.volume_key(),
        }
    }

    /// The key in the engine's hands.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn load_key(&self, engine: &Engine) -> Result<Box<dyn LoadedKey>> {
        let key = self
            .volume_key()
            .key_spec(self.segment().encryption)
            .map_err(|error| Error::failure(error.to_string()))?;
        engine.load(&key)
    }

    /// The bytes that the metadata take.
    #[must_use]
    pub fn header_len(&self) -> u64 {
        match self {
            Self::Luks1(volume) => volume.header_len(),
            Self::Luks2(volume) => volume.header_len(),
        }
    }

    /// Whether the data may end at byte `end` of `output`, where `input` ends.
    ///
    /// # Errors
    /// When LUKS1 could not tell that they do.
    pub fn check_end(&self, end: u64, output: &Output) -> Result<()> {
        match (self, output.capacity()) {
            (Self::Luks1(_), Some(capacity)) if end < capacity => Err(Error::failure(format!(
                "the data would end at byte {end} of {}, which has {capacity} bytes: those of \
                 LUKS1 go to the end",
                output.name()
            ))
            .hint("Use --type luks2, which keeps every length.")),
            _ => Ok(()),
        }
    }

    /// The data are written: a file of `read` bytes, called `input`, has become
    /// `written` bytes of `output`.
    ///
    /// # Errors
    /// When LUKS1 cannot keep that length.
    pub fn set_data(
        &mut self,
        read: u64,
        input: &str,
        written: u64,
        output: &Output,
    ) -> Result<()> {
        match self {
            Self::Luks1(volume) => {
                check_luks1_length(read, input)?;
                let end = volume.segment().offset + written;
                self.check_end(end, output)?;
            }
            Self::Luks2(volume) => {
                volume.set_file_length(read);
                // What follows on a device is nobody's.
                if output.capacity().is_some() {
                    volume.set_segment_size(SegmentSize::Fixed(written));
                }
            }
        }
        Ok(())
    }

    /// The data have `size` bytes, and the device is longer.
    pub fn set_size(&mut self, size: u64) {
        if let Self::Luks2(volume) = self {
            volume.set_segment_size(SegmentSize::Fixed(size));
        }
    }

    /// Writes the metadata where they may be written in any order, or as a stream; on a
    /// block device under their locks.
    ///
    /// # Errors
    /// Those of the locks and of the system.
    pub fn write_header(&self, output: &mut Output) -> Result<()> {
        let _lock = output.lock_metadata()?;
        let name = output.name();
        let written = match (self, output.as_storage()) {
            (Self::Luks1(volume), Some(storage)) => volume.write_to(storage),
            (Self::Luks2(volume), Some(storage)) => volume.write_to(storage),
            (Self::Luks1(volume), None) => volume.write_stream(output),
            (Self::Luks2(volume), None) => volume.write_stream(output),
        };
        written.map_err(|error| Error::io(format!("cannot write {name}"), &error))
    }
}
