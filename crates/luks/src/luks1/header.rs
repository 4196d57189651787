// SPDX-License-Identifier: MIT OR Apache-2.0
//! The header as typed values. They are LUKS2's keyslots, digest and segment, so that one code path
//! leads from a secret to a volume key.

use std::collections::BTreeMap;

use base64::{Engine, prelude::BASE64_STANDARD};
use luxor_engine::Backend;
use luxor_secret::SecretBytes;
use luxor_sector::{Geometry, SectorSize, Storage};
use luxor_volume::{
    Encryption, Extent, HashAlgorithm, Kdf, UnlockOptions, VolumeKey, brief, is_cipher_null,
};
use serde_json::{Map, Value, json};

use super::{
    fields, layout,
    phdr::{self, MAGIC, Phdr, RawKeyslot, UNIT},
};
use crate::{
    af::{MAX_KEY_LEN, STRIPES},
    header_digest::HeaderDigest,
    luks1_error::{KeyslotDamage, Luks1Error},
    luks2::{
        digest::{Digest, KeyLen},
        foreign::Foreign,
        header::Warning,
        keyslot::{Keyslot, KeyslotArea, Priority},
        segment::{Segment, SegmentEntry, SegmentError, SegmentKind, SegmentRole, SegmentSize},
        unlock::{self, NeededKey, UnlockError, Unlocked},
    },
};

/// The metadata of a LUKS1 volume, read once and validated.
#[derive(Clone, Debug)]
pub struct Luks1Header {
    /// The bytes as read. A change starts from them, so all fields that it does not concern keep
    /// their bytes.
    pub(super) bytes: Box<phdr::Bytes>,
    pub(super) uuid: String,
    /// The name of the encryption of data and areas, which this version may not support.
    pub(super) encryption: String,
    /// The name of the hash, which this version may not support.
    pub(super) hash: String,
    pub(super) key_len: u32,
    pub(super) entry: SegmentEntry,
    /// The used keyslots.
    pub(super) keyslots: BTreeMap<u32, Keyslot>,
    /// The keyslots that may hold a key, and that no secret opens. They count as used.
    pub(super) damaged: BTreeMap<u32, KeyslotDamage>,
    warnings: Vec<Warning>,
    pub(super) digest: Digest,
    pub(super) metadata_len: u64,
    header_digest: HeaderDigest,
}

impl Luks1Header {
    /// Reads the header at the beginning of `storage`, 592 bytes.
    ///
    /// # Errors
    /// [`Luks1Error`]: `storage` holds no LUKS1 volume, the header breaks a rule, or the cipher is
    /// null. A cipher, a hash or a key length that this version does not support is no error.
    pub fn read(storage: &dyn Storage) -> Result<Self, Luks1Error> {
        Self::parse(&Self::read_bytes(storage)?)
    }

    pub(super) fn read_bytes(storage: &dyn Storage) -> Result<phdr::Bytes, Luks1Error> {
        let len = storage.len()?;
        let mut bytes = [0; phdr::LEN];
        let there = usize::try_from(len).map_or(phdr::LEN, |len| len.min(phdr::LEN));
        storage.read_exact_at(&mut bytes[..there], 0)?;
        if there < phdr::LEN && bytes.starts_with(MAGIC) {
            return Err(Luks1Error::Truncated { len });
        }
        Ok(bytes)
    }

    /// Parses `bytes` as if they began with the magic and the version of LUKS1.
    pub(super) fn parse_with_magic(bytes: &phdr::Bytes) -> Result<Self, Luks1Error> {
        let mut whole = *bytes;
        whole[..MAGIC.len()].copy_from_slice(MAGIC);
        Self::parse(&whole)
    }

    /// Returns the version in a header that is LUKS1's in all but that: `None` if there is no such
    /// header at the beginning of `storage`.
    pub(crate) fn other_version(storage: &dyn Storage) -> Option<u16> {
        let bytes = Self::read_bytes(storage).ok()?;
        let has_magic = bytes[..phdr::VERSION.start] == MAGIC[..phdr::VERSION.start];
        let is_luks1 = has_magic && Self::parse_with_magic(&bytes).is_ok();
        is_luks1.then(|| u16::from_be_bytes([bytes[6], bytes[7]]))
    }

    pub(super) fn parse(bytes: &phdr::Bytes) -> Result<Self, Luks1Error> {
        let phdr = Phdr::parse(bytes)?;
        check(&phdr)?;
        // Old programs wrote capital letters.
        let hash = match HashAlgorithm::by_name(&phdr.hash_spec) {
            Some(hash) => hash.name().to_owned(),
            None => phdr.hash_spec.clone(),
        };
        let encryption = phdr.encryption_name();
        let entry = segment_entry(&phdr, &encryption);
        let mut keyslots = BTreeMap::new();
        let mut damaged = BTreeMap::new();
        let mut areas = Vec::with_capacity(phdr::KEYSLOTS);
        for (number, raw) in (0..).zip(&phdr.keyslots) {
            // The rules apply to empty keyslots too, because a key may be added there later.
            let area = area(number, raw, phdr.key_bytes, entry.offset(), &encryption)?;
            areas.push((area.offset, area.offset + area.size, number));
            if raw.active == phdr::DISABLED {
                continue;
            }
            // Like cryptsetup, which opens the volume by another keyslot.
            match raw.damage() {
                Some(damage) => drop(damaged.insert(number, damage)),
                None => drop(keyslots.insert(number, used_keyslot(raw, area, &hash))),
            }
        }
        let metadata_len = end_of_areas(areas)?;
        let mut numbers: Vec<u32> = keyslots.keys().chain(damaged.keys()).copied().collect();
        numbers.sort_unstable();
        Ok(Self {
            bytes: Box::new(*bytes),
            encryption,
            key_len: phdr.key_bytes,
            entry,
            digest: Digest {
                keyslots: numbers,
                segments: vec![0],
                hash: hash.clone(),
                iterations: phdr.mk_digest_iter,
                salt: phdr.mk_digest_salt.into(),
                value: phdr.mk_digest.into(),
                key_len: KeyLen::Stated(phdr.key_bytes),
            },
            keyslots,
            warnings: damaged
                .iter()
                .map(|(&keyslot, &damage)| Warning::Keyslot { keyslot, damage })
                .chain(
                    fields::damaged(bytes, &phdr)
                        .into_iter()
                        .map(Warning::Field),
                )
                .collect(),
            damaged,
            metadata_len,
            header_digest: HeaderDigest::compute(bytes),
            hash,
            uuid: phdr.uuid,
        })
    }

    /// Finds a keyslot that `secret` opens, in the order of their numbers, and returns its volume
    /// key, like [`Luks2Header::unlock`](crate::Luks2Header::unlock).
    ///
    /// `storage` must be the one that the header was read from.
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
        self.check_openable()?;
        self.test(storage, secret, backend, options)
    }

    /// Finds a keyslot that `secret` opens, like [`Luks1Header::unlock`], even if this version cannot
    /// read the data.
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
        let needed = self.needed_key();
        let keyslots = (&self.keyslots, &self.damaged);
        unlock::unlock(keyslots, needed, storage, secret, backend, options)
    }

    /// Checks that this version can read the data, given their key.
    pub(crate) fn check_openable(&self) -> Result<(), UnlockError> {
        Ok(self.known_segment().map(drop)?)
    }

    fn needed_key(&self) -> NeededKey<'_> {
        NeededKey {
            number: 0,
            digest: &self.digest,
            encryption: self.segment().map(|segment| segment.encryption),
        }
    }

    /// Compares `key` with the digest of the volume key. Returns it under the number of that digest,
    /// as [`Unlocked::into_keys`] does. No keyslot is opened.
    ///
    /// # Errors
    /// [`UnlockError::WrongVolumeKey`] or [`UnlockError::VolumeKeyLen`] if it is another key, and
    /// other errors if the digest costs too much or has an unknown hash, or if this version cannot
    /// read the data with any key.
    pub fn confirm_volume_key(
        &self,
        key: &SecretBytes,
        options: &UnlockOptions,
    ) -> Result<BTreeMap<u32, VolumeKey>, UnlockError> {
        self.check_openable()?;
        self.test_volume_key(key, options)
    }

    /// Compares `key` with the digest of the volume key, like [`Luks1Header::confirm_volume_key`],
    /// even if this version cannot read the data.
    ///
    /// # Errors
    /// [`UnlockError::WrongVolumeKey`] if it is another key, and other errors if the digest costs too
    /// much or has an unknown hash.
    pub fn test_volume_key(
        &self,
        key: &SecretBytes,
        options: &UnlockOptions,
    ) -> Result<BTreeMap<u32, VolumeKey>, UnlockError> {
        unlock::confirm_volume_key(&self.needed_key(), key, options)
    }

    /// The segment of the data. `None` if this version does not support their encryption.
    #[must_use]
    pub fn segment(&self) -> Option<&Segment> {
        self.entry.crypt()
    }

    /// The segment of the data, also if this version does not support their encryption.
    #[must_use]
    pub fn entry(&self) -> &SegmentEntry {
        &self.entry
    }

    /// The segment of the data.
    ///
    /// # Errors
    /// [`SegmentError::Unsupported`]: this version does not support their encryption.
    pub(crate) fn known_segment(&self) -> Result<&Segment, SegmentError> {
        match &self.entry.kind {
            SegmentKind::Crypt(segment) => Ok(segment),
            SegmentKind::Foreign { what, .. } => Err(SegmentError::Unsupported {
                what: what.what.clone(),
            }),
            SegmentKind::Linear { .. } => unreachable!("LUKS1 data are encrypted"),
        }
    }

    /// The whole plaintext, in a storage of `storage_len` bytes that holds the data. The digest of
    /// its key has number 0.
    pub(crate) fn extent(&self, storage_len: u64) -> Result<Extent, SegmentError> {
        let segment = self.known_segment()?;
        Ok(Extent {
            offset: segment.offset,
            len: segment.payload_len(storage_len)?,
            cipher: Some(segment.cipher(0)),
        })
    }

    /// The length of the plaintext in bytes, if the storage that holds the data has `storage_len`
    /// bytes.
    ///
    /// # Errors
    /// [`SegmentError`]: the storage is too short, or ends within a sector.
    pub fn plaintext_len(&self, storage_len: u64) -> Result<u64, SegmentError> {
        self.entry.payload_len(storage_len)
    }

    /// The number of bytes from the beginning of the storage to the end of the last keyslot area.
    /// [`Luks1Header::unlock`] reads nothing beyond.
    #[must_use]
    pub fn metadata_len(&self) -> u64 {
        self.metadata_len
    }

    /// The digest of this header.
    #[must_use]
    pub fn digest(&self) -> HeaderDigest {
        self.header_digest
    }

    /// Returns the contents of the header as typed values.
    #[must_use]
    pub fn describe(&self) -> Luks1Description<'_> {
        Luks1Description {
            uuid: &self.uuid,
            encryption: &self.encryption,
            hash: &self.hash,
            key_len: self.key_len,
            segment: &self.entry,
            keyslots: &self.keyslots,
            damaged_keyslots: &self.damaged,
            digest: &self.digest,
        }
    }

    /// The numbers of the keyslots that hold a key, or may hold one, in ascending order.
    pub(crate) fn keyslot_numbers(&self) -> Vec<u32> {
        self.digest.keyslots.clone()
    }

    /// Whether keyslot `number` holds a key, or may hold one.
    pub(super) fn holds_key(&self, number: u32) -> bool {
        self.digest.keyslots.contains(&number)
    }

    /// Whether both headers have the same damaged keyslot `number`.
    pub(crate) fn has_same_damaged_keyslot(&self, other: &Self, number: u32) -> bool {
        let is_damaged = self.damaged.contains_key(&number);
        is_damaged && self.raw(number as usize) == other.raw(number as usize)
    }

    /// The damaged keyslots and fields, which a repair may restore.
    pub(crate) fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Returns the contents of the header as JSON, without a line break at the end. Lengths,
    /// offsets and key sizes are in bytes; salts and digest are in base64, as in LUKS2. `schema` is
    /// increased when a field changes its meaning.
    #[must_use]
    pub fn metadata_json(&self) -> String {
        let keyslot = |(number, keyslot): (&u32, &Keyslot)| {
            let Kdf::Pbkdf2 {
                iterations, salt, ..
            } = &keyslot.kdf
            else {
                unreachable!("LUKS1 keyslots use PBKDF2 only")
            };
            let value = json!({
                "iterations": iterations,
                "salt": BASE64_STANDARD.encode(salt),
                "area": { "offset": keyslot.area.offset, "size": keyslot.area.size },
                "stripes": keyslot.stripes,
            });
            (number.to_string(), value)
        };
        let keyslots: Map<String, Value> = self.keyslots.iter().map(keyslot).collect();
        let mut json = json!({
            "schema": 1,
            "type": "luks1",
            "uuid": self.uuid,
            "encryption": self.encryption,
            "key_size": self.key_len,
            "hash": self.hash,
            "data_offset": self.entry.offset(),
            "keyslots": keyslots,
            "digest": {
                "iterations": self.digest.iterations,
                "salt": BASE64_STANDARD.encode(&self.digest.salt),
                "value": BASE64_STANDARD.encode(&self.digest.value),
            },
        });
        if !self.damaged.is_empty() {
            let damaged = self.damaged.iter();
            let damaged =
                damaged.map(|(number, damage)| (number.to_string(), damage.to_string().into()));
            json["damaged_keyslots"] = Value::Object(damaged.collect());
        }
        format!("{json:#}")
    }
}

/// The contents of a LUKS1 header.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Luks1Description<'a> {
    /// The UUID as text.
    pub uuid: &'a str,
    /// The name of the encryption of data and keyslot areas, which this version may not support.
    pub encryption: &'a str,
    /// The name of the hash for PBKDF2 and the anti-forensic splitter, which this version may not
    /// support.
    pub hash: &'a str,
    /// The length of the volume key in bytes.
    pub key_len: u32,
    /// The segment of the data.
    pub segment: &'a SegmentEntry,
    /// The used keyslots by number, at most 8.
    pub keyslots: &'a BTreeMap<u32, Keyslot>,
    /// The keyslots by number that may hold a key, and that no secret opens.
    pub damaged_keyslots: &'a BTreeMap<u32, KeyslotDamage>,
    /// The digest of the volume key.
    pub digest: &'a Digest,
}

/// Checks the rules that concern no keyslot.
pub(super) fn check(phdr: &Phdr) -> Result<(), Luks1Error> {
    let name = phdr.encryption_name();
    if is_cipher_null(&name) {
        return Err(Luks1Error::CipherNull);
    }
    if !(1..=MAX_KEY_LEN).contains(&phdr.key_bytes) {
        let found = phdr.key_bytes;
        return Err(Luks1Error::KeyLen { found });
    }
    if let Some(encryption) = Encryption::by_name(&name)
        && !encryption.aes_key_lens().contains(&phdr.key_bytes)
    {
        return Err(Luks1Error::KeyLenOfCipher {
            found: phdr.key_bytes,
            encryption,
        });
    }
    if phdr.mk_digest_iter == 0 {
        return Err(Luks1Error::DigestIterations);
    }
    Ok(())
}

/// Returns the segment of the data. Its encryption, or the length of its key, may be unknown to this
/// version.
fn segment_entry(phdr: &Phdr, encryption_name: &str) -> SegmentEntry {
    let offset = u64::from(phdr.payload_offset) * UNIT;
    let size = SegmentSize::Dynamic;
    let foreign = |what| SegmentKind::Foreign {
        offset,
        size,
        what: Foreign::unknown("crypt", what),
    };
    let key_len = phdr.key_bytes;
    let kind = match Encryption::by_name(encryption_name) {
        None => foreign(format!(
            "the data are encrypted with {}; this version opens {}",
            brief(encryption_name),
            Encryption::ALL.map(Encryption::name).join(", ")
        )),
        Some(encryption) if !encryption.key_lens().contains(&key_len) => {
            let [short, long] = encryption.key_lens();
            foreign(format!(
                "the volume key has {key_len} bytes, not {short} or {long} as {} needs: that is \
                 AES-192. {}",
                encryption.name(),
                unlock::HINT_AES_192
            ))
        }
        Some(encryption) => SegmentKind::Crypt(Segment {
            offset,
            size,
            encryption,
            encryption_name: encryption_name.into(),
            geometry: Geometry {
                sector_size: SectorSize::B512,
                iv_mode: encryption.iv_mode(),
                iv_offset: 0,
                iv_large_sectors: false,
            },
        }),
    };
    let role = SegmentRole::Regular;
    SegmentEntry { role, kind }
}

/// Returns the area of a keyslot, used or empty. It must lie between the header and the data, which
/// begin at byte `data`.
fn area(
    number: u32,
    raw: &RawKeyslot,
    key_len: u32,
    data: u64,
    encryption: &str,
) -> Result<KeyslotArea, Luks1Error> {
    if raw.stripes != STRIPES {
        return Err(Luks1Error::Stripes {
            keyslot: number,
            found: raw.stripes,
        });
    }
    // Cannot overflow: no product or sum of these values reaches 2⁴².
    let offset = u64::from(raw.key_material_offset) * UNIT;
    if offset < phdr::LEN as u64 {
        return Err(Luks1Error::AreaOverHeader {
            keyslot: number,
            offset,
        });
    }
    let size = layout::area_len(key_len);
    let end = offset + size;
    if data != 0 && end > data {
        return Err(Luks1Error::AreaOverData {
            keyslot: number,
            end,
            data,
        });
    }
    Ok(KeyslotArea {
        offset,
        size,
        encryption: encryption.into(),
        key_len,
    })
}

impl RawKeyslot {
    /// Returns why no secret opens this keyslot, which is not empty.
    fn damage(&self) -> Option<KeyslotDamage> {
        match (self.active, self.iterations) {
            (phdr::ACTIVE, 0) => Some(KeyslotDamage::Iterations),
            (phdr::ACTIVE, _) => None,
            (found, _) => Some(KeyslotDamage::State { found }),
        }
    }
}

/// Returns the used keyslot in `area`.
fn used_keyslot(raw: &RawKeyslot, area: KeyslotArea, hash: &str) -> Keyslot {
    Keyslot {
        key_len: area.key_len,
        priority: Priority::Normal,
        area,
        kdf: Kdf::Pbkdf2 {
            hash: hash.into(),
            iterations: raw.iterations,
            salt: raw.salt.into(),
        },
        stripes: raw.stripes,
        af_hash: hash.into(),
    }
}

/// Returns the end of the last area. Fails if two areas overlap. `areas` are triples of beginning,
/// end and keyslot number.
fn end_of_areas(mut areas: Vec<(u64, u64, u32)>) -> Result<u64, Luks1Error> {
    areas.sort_unstable();
    for pair in areas.windows(2) {
        let [(_, first_end, first), (second_begin, _, second)] = [pair[0], pair[1]];
        if second_begin < first_end {
            return Err(Luks1Error::Overlap {
                first,
                second,
                byte: second_begin,
            });
        }
    }
    let (_, end, _) = areas[areas.len() - 1];
    Ok(end)
}
