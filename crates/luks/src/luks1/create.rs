// SPDX-License-Identifier: MIT OR Apache-2.0
//! Creates a LUKS1 volume with one keyslot: field for field what
//! `cryptsetup luksFormat --type luks1` creates with the same options.

use std::io;

use luxor_engine::{Backend, KeySize};
use luxor_secret::with_key_stack;
use luxor_sector::{Geometry, SectorSize, Storage};
use luxor_volume::{Encryption, HashAlgorithm, Kdf, PbkdfKind, PbkdfOptions, VolumeKey, rng};
use uuid::Uuid;

use super::{
    layout,
    phdr::{self, KEYSLOTS, Phdr, RawKeyslot},
};
use crate::luks2::{
    create::{CreateError, volume_key},
    new_keyslot::NewKeyslot,
    segment::{Segment, SegmentSize},
};
use crate::zeros::write_zeros;

/// The encryption of the data and of the keyslot areas.
const ENCRYPTION: Encryption = Encryption::AesXtsPlain64;

/// The options of a new LUKS1 volume. Its sectors have 512 bytes.
#[derive(Clone, Debug)]
pub struct Luks1Options {
    /// AES-128 or AES-256: a volume key of 32 or 64 bytes.
    pub key_size: KeySize,
    /// Its volume key, of twice that length. `None`: a random one.
    pub volume_key: Option<VolumeKey>,
    /// The hash for PBKDF2, the anti-forensic splitter and the digest.
    pub hash: HashAlgorithm,
    /// The key derivation of its keyslot and its costs. Its kind must be [`PbkdfKind::Pbkdf2`].
    pub pbkdf: PbkdfOptions,
    /// The number of its keyslot, at most 7.
    pub keyslot: u32,
    /// Its UUID. `None`: a random one (RFC 9562, version 4).
    pub uuid: Option<Uuid>,
    /// Whether the header is stored apart from the data.
    pub detached: bool,
    /// The byte at which the data begin. `None`: right after the header, or at byte 0 if it is
    /// detached.
    pub data_offset: Option<u64>,
}

impl Luks1Options {
    /// The offset in bytes at which the data will begin.
    #[must_use]
    pub fn data_offset(&self) -> u64 {
        match (self.data_offset, self.detached) {
            (Some(offset), _) => offset,
            (None, true) => 0,
            (None, false) => layout::data_offset(self.key_bytes()),
        }
    }

    /// The offset in bytes at which the last keyslot area will end.
    pub(crate) fn areas_end(&self) -> u64 {
        layout::areas_end(self.key_bytes())
    }

    /// The length of the volume key in bytes.
    fn key_bytes(&self) -> u32 {
        match self.key_size {
            KeySize::Aes128 => 32,
            KeySize::Aes256 => 64,
        }
    }
}

impl Default for Luks1Options {
    /// Returns cryptsetup's defaults: AES-256 and SHA-256.
    fn default() -> Self {
        Self {
            key_size: KeySize::Aes256,
            volume_key: None,
            hash: HashAlgorithm::Sha256,
            pbkdf: PbkdfOptions {
                kind: PbkdfKind::Pbkdf2,
                ..PbkdfOptions::default()
            },
            keyslot: 0,
            uuid: None,
            detached: false,
            data_offset: None,
        }
    }
}

/// The header, keyslot and key of a new LUKS1 volume. Nothing has been written yet.
#[derive(Debug)]
pub struct NewLuks1Volume {
    bytes: Box<phdr::Bytes>,
    segment: Segment,
    volume_key: VolumeKey,
    keyslot: NewKeyslot,
    number: usize,
    uuid: Uuid,
    detached: bool,
}

impl NewLuks1Volume {
    /// Draws a volume key and encrypts it into a keyslot under `secret`. The time that this takes
    /// is set by the costs of the key derivation; measuring them takes a little longer.
    ///
    /// # Errors
    /// [`CreateError`]: LUKS1 does not support the options, or the system returned no random bytes.
    pub fn create(
        options: &Luks1Options,
        secret: &[u8],
        backend: &dyn Backend,
    ) -> Result<Self, CreateError> {
        with_key_stack(|| Self::create_here(options, secret, backend))
    }

    fn create_here(
        options: &Luks1Options,
        secret: &[u8],
        backend: &dyn Backend,
    ) -> Result<Self, CreateError> {
        let Luks1Options { hash, pbkdf, .. } = options;
        pbkdf.check_luks1()?;
        let volume_key = volume_key(options.volume_key.as_ref(), 2 * options.key_size.bytes())?;
        let area = (ENCRYPTION, options.key_bytes());
        let keyslot = NewKeyslot::make(&volume_key, secret, pbkdf, *hash, area, backend)?;

        let uuid = match options.uuid {
            Some(uuid) => uuid,
            None => rng::uuid()?,
        };
        let offset = options.data_offset();
        let mut phdr = empty_header(options, &volume_key, uuid)?;
        let number = options.keyslot as usize;
        phdr.keyslots[number].fill(&keyslot.kdf);
        Ok(Self {
            bytes: Box::new(phdr.serialise()),
            segment: Segment {
                offset,
                size: SegmentSize::Dynamic,
                encryption: ENCRYPTION,
                encryption_name: ENCRYPTION.name().into(),
                geometry: Geometry {
                    sector_size: SectorSize::B512,
                    iv_mode: ENCRYPTION.iv_mode(),
                    iv_offset: 0,
                    iv_large_sectors: false,
                },
            },
            volume_key,
            keyslot,
            number,
            uuid,
            detached: options.detached,
        })
    }

    /// The segment of the data. It extends to the end of the storage.
    #[must_use]
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// The key that encrypts the data.
    #[must_use]
    pub fn volume_key(&self) -> &VolumeKey {
        &self.volume_key
    }

    /// The volume's UUID.
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// The length in bytes of the header and the keyslot areas. It is 2 MiB, or up to the data if
    /// they begin earlier. If the header is detached, it is a little less with AES-256, and about
    /// 1 MiB with AES-128.
    #[must_use]
    pub fn header_len(&self) -> u64 {
        let key_len = self.keyslot.key_len;
        if self.detached {
            layout::areas_end(key_len)
        } else {
            layout::data_offset(key_len).min(self.segment.offset)
        }
    }

    /// Whether the header is stored apart from the data.
    pub(crate) fn is_detached(&self) -> bool {
        self.detached
    }

    /// Writes the first [`NewLuks1Volume::header_len`] bytes. The header's first sector is written
    /// after all else is durable: until then the storage does not begin like a LUKS volume. Returns
    /// when the first sector is durable too.
    ///
    /// The caller must wipe the header of an older volume first.
    ///
    /// # Errors
    /// An I/O error of the storage, or of the system's random number generator.
    pub fn write_to(&self, storage: &dyn Storage) -> io::Result<()> {
        let (first, rest) = self.bytes.split_at(phdr::FIRST_SECTOR);
        storage.write_all_at(rest, phdr::FIRST_SECTOR as u64)?;
        self.write_rest(|bytes, offset| storage.write_all_at(bytes, offset))?;
        storage.sync()?;
        storage.write_all_at(first, 0)?;
        storage.sync()
    }

    /// Writes the first [`NewLuks1Volume::header_len`] bytes in order, for outputs that
    /// cannot seek.
    ///
    /// # Errors
    /// An I/O error of the output, or of the system's random number generator.
    pub fn write_stream(&self, out: &mut dyn io::Write) -> io::Result<()> {
        out.write_all(&*self.bytes)?;
        self.write_rest(|bytes, _| out.write_all(bytes))
    }

    /// Writes everything after the header, in order: the keyslot, random bytes in the areas of the
    /// empty keyslots, so that used and empty ones look alike, and zeros in between.
    fn write_rest(&self, mut write: impl FnMut(&[u8], u64) -> io::Result<()>) -> io::Result<()> {
        let key_len = self.keyslot.key_len;
        let mut at = phdr::LEN as u64;
        for slot in 0..KEYSLOTS {
            let begin = layout::area_offset(key_len, slot);
            let end = begin + layout::area_len(key_len);
            write_zeros(at..begin, &mut write)?;
            if slot == self.number {
                write(&self.keyslot.encrypted, begin)?;
            } else {
                rng::write(begin..end, &mut write)?;
            }
            at = end;
        }
        write_zeros(at..self.header_len(), write)
    }
}

/// Returns the header of a volume with this key and no used keyslot.
fn empty_header(
    options: &Luks1Options,
    volume_key: &VolumeKey,
    uuid: Uuid,
) -> Result<Phdr, getrandom::Error> {
    let hash = options.hash;
    let mut mk_digest_salt = [0; 32];
    getrandom::fill(&mut mk_digest_salt)?;
    let mk_digest_iter = options.pbkdf.digest_iterations(hash);
    let mut mk_digest = [0; 20];
    hash.pbkdf2(
        volume_key.expose(),
        &mk_digest_salt,
        mk_digest_iter,
        &mut mk_digest,
    );
    let key_bytes = options.key_bytes();
    let (cipher_name, cipher_mode) = ENCRYPTION.cipher_and_mode();
    Ok(Phdr {
        cipher_name: cipher_name.into(),
        cipher_mode: cipher_mode.into(),
        hash_spec: hash.name().into(),
        payload_offset: layout::units(options.data_offset()),
        key_bytes,
        mk_digest,
        mk_digest_salt,
        mk_digest_iter,
        uuid: uuid.to_string(),
        keyslots: std::array::from_fn(|slot| {
            RawKeyslot::empty(layout::units(layout::area_offset(key_bytes, slot)))
        }),
    })
}

impl RawKeyslot {
    /// Makes this a used keyslot with the derivation `kdf`, which must be PBKDF2.
    pub(super) fn fill(&mut self, kdf: &Kdf) {
        let Kdf::Pbkdf2 {
            iterations, salt, ..
        } = kdf
        else {
            unreachable!("callers check that the key derivation is PBKDF2")
        };
        self.active = phdr::ACTIVE;
        self.iterations = *iterations;
        self.salt = salt.as_slice().try_into().expect("salts have 32 bytes");
    }
}
