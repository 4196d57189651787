// SPDX-License-Identifier: MIT OR Apache-2.0
//! Creates a volume with one keyslot: field for field what `cryptsetup luksFormat` creates with the
//! same options.
//!
//! ```text
//!        0  primary header   (16 KiB: 4 KiB binary, 12 KiB JSON)
//!   16 KiB  secondary header (16 KiB)
//!   32 KiB  keyslots area    (to 16 MiB; the keyslot first; the rest is random bytes)
//!   16 MiB  data             (at byte 0 of another storage when the header is detached)
//! ```
//!
//! [`Luks2HeaderSizes`] can make the headers and the keyslots area longer or shorter.

use std::io;

use luxor_engine::{Backend, KeyError, KeySize};
use luxor_secret::with_key_stack;
use luxor_sector::{Geometry, SectorSize, Storage};
use luxor_volume::{
    DrawError, Encryption, HashAlgorithm, PbkdfOptions, PbkdfOptionsError, VolumeKey, rng,
};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{
    binary_header::{BinaryHeader, CopyKind, TextField, json_size},
    digest::NewDigest,
    header_sizes::{Luks2HeaderSizes, Luks2HeaderSizesError},
    label::Label,
    new_keyslot::{NewKeyslot, NewKeyslotError, area_size},
    segment::{Segment, SegmentSize},
    token::{LUXOR_FILE, TRAILER},
};

/// The encryption of the data and of the keyslot area.
const ENCRYPTION: Encryption = Encryption::AesXtsPlain64;

/// The options of a new LUKS2 volume.
#[derive(Clone, Debug)]
pub struct Luks2Options {
    /// The length of a data unit.
    pub sector_size: SectorSize,
    /// AES-128 or AES-256: a volume key of 32 or 64 bytes.
    pub key_size: KeySize,
    /// Its volume key, of twice that length. `None`: a random one.
    pub volume_key: Option<VolumeKey>,
    /// The hash for PBKDF2, the anti-forensic splitter and the digest.
    pub hash: HashAlgorithm,
    /// The key derivation of its keyslot and its costs.
    pub pbkdf: PbkdfOptions,
    /// The number of its keyslot, at most 31.
    pub keyslot: u32,
    /// Its label.
    pub label: Option<Label>,
    /// Its second label.
    pub subsystem: Option<Label>,
    /// Its UUID. `None`: a random one (RFC 9562, version 4).
    pub uuid: Option<Uuid>,
    /// Whether the header is stored apart from the data.
    pub detached: bool,
    /// The byte at which the data begin. `None`: right after the header, or at byte 0 if it is
    /// detached.
    pub data_offset: Option<u64>,
    /// The lengths of the parts of its header.
    pub header_sizes: Luks2HeaderSizes,
    /// The exact length in bytes of the file that the volume will hold, which a `luxor-file` token
    /// records. `None`: the volume has no such token.
    pub file_length: Option<u64>,
    /// Whether a `luxor-file` token says that the data end with a trailer
    /// ([`TrailerKey`](crate::TrailerKey)).
    pub trailer: bool,
}

impl Luks2Options {
    /// The offset in bytes at which the data will begin.
    #[must_use]
    pub fn data_offset(&self) -> u64 {
        match (self.data_offset, self.detached) {
            (Some(offset), _) => offset,
            (None, true) => 0,
            (None, false) => self.header_sizes.header_len(),
        }
    }
}

impl Default for Luks2Options {
    /// Returns cryptsetup's defaults for a file: 4096-byte sectors, AES-256, SHA-256, Argon2id.
    fn default() -> Self {
        Self {
            sector_size: SectorSize::B4096,
            key_size: KeySize::Aes256,
            volume_key: None,
            hash: HashAlgorithm::Sha256,
            pbkdf: PbkdfOptions::default(),
            keyslot: 0,
            label: None,
            subsystem: None,
            uuid: None,
            detached: false,
            data_offset: None,
            header_sizes: Luks2HeaderSizes::default(),
            file_length: None,
            trailer: false,
        }
    }
}

/// The metadata, keyslot and key of a new volume. Nothing has been written yet.
#[derive(Debug)]
pub struct NewLuks2Volume {
    uuid: Uuid,
    number: u32,
    label: Label,
    subsystem: Label,
    detached: bool,
    salts: [[u8; 64]; 2],
    sizes: Luks2HeaderSizes,
    segment: Segment,
    volume_key: VolumeKey,
    keyslot: NewKeyslot,
    digest: NewDigest,
    file_length: Option<u64>,
    trailer: bool,
}

impl NewLuks2Volume {
    /// Draws a volume key and encrypts it into a keyslot under `secret`. The time that this takes
    /// is set by the costs of the key derivation; measuring them takes several times as long.
    ///
    /// # Errors
    /// [`CreateError`]: the options are out of bounds, memory for the key derivation is short, or
    /// the system returned no random bytes.
    pub fn create(
        options: &Luks2Options,
        secret: &[u8],
        backend: &dyn Backend,
    ) -> Result<Self, CreateError> {
        with_key_stack(|| Self::create_here(options, secret, backend))
    }

    fn create_here(
        options: &Luks2Options,
        secret: &[u8],
        backend: &dyn Backend,
    ) -> Result<Self, CreateError> {
        options.pbkdf.check()?;
        let hash = options.hash;
        let key_len = 2 * options.key_size.bytes();
        // The sizes may have been made for keys of another length.
        options.header_sizes.check_room(area_size(key_len))?;
        let volume_key = volume_key(options.volume_key.as_ref(), key_len)?;
        let area = (
            ENCRYPTION,
            match options.key_size {
                KeySize::Aes128 => 32,
                KeySize::Aes256 => 64,
            },
        );
        let keyslot = NewKeyslot::make(&volume_key, secret, &options.pbkdf, hash, area, backend)?;

        let digest = NewDigest::make(volume_key.expose(), hash, &options.pbkdf)?;
        let mut salts = [[0; 64]; 2];
        for salt in &mut salts {
            getrandom::fill(salt)?;
        }
        let uuid = match options.uuid {
            Some(uuid) => uuid,
            None => rng::uuid()?,
        };
        Ok(Self {
            uuid,
            number: options.keyslot,
            label: options.label.clone().unwrap_or_default(),
            subsystem: options.subsystem.clone().unwrap_or_default(),
            detached: options.detached,
            salts,
            sizes: options.header_sizes,
            segment: Segment {
                offset: options.data_offset(),
                size: SegmentSize::Dynamic,
                encryption: ENCRYPTION,
                encryption_name: ENCRYPTION.name().into(),
                geometry: Geometry {
                    sector_size: options.sector_size,
                    iv_mode: ENCRYPTION.iv_mode(),
                    iv_offset: 0,
                    iv_large_sectors: false,
                },
            },
            volume_key,
            keyslot,
            digest,
            file_length: options.file_length,
            trailer: options.trailer,
        })
    }

    /// The segment of the data.
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

    /// Sets the exact length in bytes of the file in the volume, which a `luxor-file` token
    /// records, for a length that is known only after the data were written.
    pub fn set_file_length(&mut self, length: u64) {
        self.file_length = Some(length);
    }

    /// Sets the length of the data, in whole sectors. By default they extend to the end of the
    /// storage. A block device that is longer than the data needs a fixed length.
    pub fn set_segment_size(&mut self, size: SegmentSize) {
        self.segment.size = size;
    }

    /// Whether the header is stored apart from the data.
    pub(crate) fn is_detached(&self) -> bool {
        self.detached
    }

    /// The length in bytes of the headers and the keyslots area.
    #[must_use]
    pub fn header_len(&self) -> u64 {
        self.sizes.header_len()
    }

    /// Writes the first [`NewLuks2Volume::header_len`] bytes. The primary header is written after
    /// the keyslots area and the secondary header are durable: until then the storage does not
    /// begin like a LUKS volume. Returns when the primary header is durable too.
    ///
    /// The caller must wipe the primary header of an older volume first.
    ///
    /// # Errors
    /// An I/O error of the storage, or of the system's random number generator.
    pub fn write_to(&self, storage: &dyn Storage) -> io::Result<()> {
        let [primary, secondary] = self.headers();
        self.write_keyslots(|bytes, offset| storage.write_all_at(bytes, offset))?;
        storage.write_all_at(&secondary, self.sizes.metadata())?;
        storage.sync()?;
        storage.write_all_at(&primary, 0)?;
        storage.sync()
    }

    /// Writes the first [`NewLuks2Volume::header_len`] bytes in order, for outputs that
    /// cannot seek.
    ///
    /// # Errors
    /// An I/O error of the output, or of the system's random number generator.
    pub fn write_stream(&self, out: &mut dyn io::Write) -> io::Result<()> {
        for header in self.headers() {
            out.write_all(&header)?;
        }
        self.write_keyslots(|bytes, _| out.write_all(bytes))
    }

    /// Writes the keyslots area in order: the keyslot, then random bytes, so that used and unused
    /// places look alike.
    fn write_keyslots(
        &self,
        mut write: impl FnMut(&[u8], u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let offset = self.sizes.keyslots_offset();
        write(&self.keyslot.encrypted, offset)?;
        rng::write(
            offset + self.keyslot.encrypted.len() as u64..self.header_len(),
            write,
        )
    }

    fn headers(&self) -> [Vec<u8>; 2] {
        let json = self.metadata().to_string();
        let size = self.sizes.metadata();
        [
            (CopyKind::Primary, 0, self.salts[0]),
            (CopyKind::Secondary, size, self.salts[1]),
        ]
        .map(|(kind, offset, salt)| {
            BinaryHeader {
                size,
                seqid: 1,
                label: TextField::new(self.label.as_str()),
                checksum: HashAlgorithm::Sha256,
                salt,
                uuid: TextField::new(&self.uuid.to_string()),
                subsystem: TextField::new(self.subsystem.as_str()),
                offset,
            }
            .serialise(kind, &json)
        })
    }

    /// Returns the JSON metadata, with keys in cryptsetup's order. 64-bit numbers are strings.
    fn metadata(&self) -> Value {
        let mut tokens = Map::new();
        if let Some(length) = self.file_length {
            let token = json!({ "type": LUXOR_FILE, "keyslots": [], "length": length.to_string() });
            tokens.insert("0".into(), token);
        }
        if self.trailer {
            let token = json!({ "type": LUXOR_FILE, "keyslots": [], "padding": TRAILER });
            tokens.insert("0".into(), token);
        }
        let number = self.number.to_string();
        json!({
            "keyslots": { &number: self.keyslot.json(self.sizes.keyslots_offset()) },
            "tokens": tokens,
            "segments": { "0": {
                "type": "crypt",
                "offset": self.segment.offset.to_string(),
                "size": self.segment.size.to_string(),
                "iv_tweak": self.segment.geometry.iv_offset.to_string(),
                "encryption": self.segment.encryption.name(),
                "sector_size": self.segment.geometry.sector_size.bytes(),
            }},
            "digests": { "0": self.digest.json(&[&number], &["0"]) },
            "config": {
                "json_size": json_size(self.sizes.metadata()).to_string(),
                "keyslots_size": self.sizes.keyslots().to_string(),
            },
        })
    }
}

/// Returns the volume key that was given, or a random one of `len` bytes.
pub(crate) fn volume_key(given: Option<&VolumeKey>, len: usize) -> Result<VolumeKey, CreateError> {
    let Some(key) = given else {
        return Ok(VolumeKey::random(len, ENCRYPTION)?);
    };
    match key.expose().len() {
        found if found == len => Ok(key.clone()),
        found => Err(CreateError::VolumeKey { found, len }),
    }
}

/// Why a volume could not be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The options of the key derivation are not valid.
    #[error(transparent)]
    Options(#[from] PbkdfOptionsError),
    /// The keyslots area has no room for the keyslot.
    #[error(transparent)]
    HeaderSizes(#[from] Luks2HeaderSizesError),
    /// The volume key that was given has another length.
    #[error("the volume key has {found} bytes, and a volume of this key size needs {len}")]
    VolumeKey {
        /// The length of the key in bytes.
        found: usize,
        /// The required length in bytes.
        len: usize,
    },
    /// The keyslot could not be made, most likely because memory is short.
    #[error(transparent)]
    Keyslot(#[from] NewKeyslotError),
    /// The system returned no random bytes.
    #[error("the system provides no random bytes: {0}")]
    Random(#[from] getrandom::Error),
    /// The engine does not accept the key.
    #[error(transparent)]
    Key(#[from] KeyError),
}

impl From<DrawError> for CreateError {
    fn from(error: DrawError) -> Self {
        match error {
            DrawError::Random(error) => error.into(),
            DrawError::Key(error) => error.into(),
        }
    }
}

impl CreateError {
    /// Returns whether more memory would help.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::Keyslot(error) if error.is_out_of_memory())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use luxor_engine::{Mode, Registry};
    use luxor_sector::MemoryStorage;

    use super::*;
    use luxor_volume::PbkdfKind;

    /// Records the calls: the offset of a write, or `None` for a sync.
    #[derive(Default)]
    struct Recorder {
        bytes: MemoryStorage,
        calls: Mutex<Vec<Option<u64>>>,
    }

    impl Storage for Recorder {
        fn len(&self) -> io::Result<u64> {
            self.bytes.len()
        }

        fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
            self.bytes.read_exact_at(buf, offset)
        }

        fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
            self.calls.lock().unwrap().push(Some(offset));
            self.bytes.write_all_at(buf, offset)
        }

        fn sync(&self) -> io::Result<()> {
            self.calls.lock().unwrap().push(None);
            Ok(())
        }
    }

    fn written() -> (Vec<Option<u64>>, Vec<u8>) {
        let options = Luks2Options {
            pbkdf: PbkdfOptions {
                kind: PbkdfKind::Pbkdf2,
                force_iterations: Some(1000),
                ..PbkdfOptions::default()
            },
            ..Luks2Options::default()
        };
        let backend = Registry::cpu().best(Mode::Xts).unwrap();
        let volume = NewLuks2Volume::create(&options, b"secret", &*backend).unwrap();
        let storage = Recorder::default();
        volume.write_to(&storage).unwrap();
        let calls = storage.calls.into_inner().unwrap();
        (calls, storage.bytes.into_bytes())
    }

    #[test]
    fn the_primary_header_is_written_when_all_else_is_durable() {
        let (calls, _) = written();
        let [rest @ .., before, primary, after] = &calls[..] else {
            panic!("{calls:?}")
        };
        assert_eq!((before, primary, after), (&None, &Some(0), &None));
        assert!(rest.contains(&Some(16 << 10)), "{rest:?}");
        assert!(!rest.contains(&Some(0)), "{rest:?}");
    }

    #[test]
    fn a_keyslot_that_does_not_fit_is_refused() {
        let sizes = Luks2HeaderSizes::new(None, Some(128 << 10), None, KeySize::Aes128).unwrap();
        let options = Luks2Options {
            header_sizes: sizes,
            ..Luks2Options::default()
        };
        let backend = Registry::cpu().best(Mode::Xts).unwrap();
        let error = NewLuks2Volume::create(&options, b"secret", &*backend).unwrap_err();
        assert!(matches!(error, CreateError::HeaderSizes(_)), "{error}");
    }

    #[test]
    fn nothing_repeats_and_nothing_of_the_keyslots_area_is_left_out() {
        let (_, bytes) = written();
        assert_eq!(bytes.len(), 16 << 20);
        let header = 16 << 10;
        // The salts of the two copies differ.
        assert_ne!(bytes[104..168], bytes[header + 104..][..64]);
        let mut seen = std::collections::HashSet::new();
        for (i, piece) in bytes[2 * header..].chunks(64).enumerate() {
            assert!(seen.insert(piece), "64-byte piece {i} occurred before");
        }
    }
}
