// SPDX-License-Identifier: MIT OR Apache-2.0
//! The header as typed values. They are LUKS2's keyslots, digest and segment, so that one code path
//! leads from a secret to a volume key.

use std::collections::BTreeMap;

use base64::{Engine, prelude::BASE64_STANDARD};
use luxor_engine::Backend;
use luxor_secret::SecretBytes;
use luxor_sector::{Geometry, SectorSize, Storage};
use luxor_volume::{Encryption, Extent, Kdf, VolumeKey, brief, is_cipher_null};
use serde_json::{Map, Value, json};

use super::{
    layout,
    phdr::{self, MAGIC, Phdr, RawKeyslot, UNIT},
};
use crate::{
    af::{MAX_KEY_LEN, STRIPES},
    header_digest::HeaderDigest,
    luks1_error::Luks1Error,
    luks2::{
        digest::{Digest, KeyLen},
        foreign::Foreign,
        keyslot::{Keyslot, KeyslotArea, Priority},
        segment::{Segment, SegmentEntry, SegmentError, SegmentKind, SegmentRole, SegmentSize},
        unlock::{self, NeededKey, UnlockError, UnlockOptions, Unlocked},
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

    pub(super) fn parse(bytes: &phdr::Bytes) -> Result<Self, Luks1Error> {
        let phdr = Phdr::parse(bytes)?;
        check(&phdr)?;
        // Old programs wrote capital letters. cryptsetup reads them as lowercase too.
        let hash = phdr.hash_spec.to_ascii_lowercase();
        let encryption = encryption_name(&phdr);
        let entry = segment_entry(&phdr, &encryption);
        let mut keyslots = BTreeMap::new();
        let mut areas = Vec::with_capacity(phdr::KEYSLOTS);
        for (number, raw) in (0..).zip(&phdr.keyslots) {
            // The rules apply to empty keyslots too, because a key may be added there later.
            let area = area(number, raw, phdr.key_bytes, entry.offset(), &encryption)?;
            areas.push((area.offset, area.offset + area.size, number));
            if let Some(keyslot) = used_keyslot(number, raw, area, &hash)? {
                keyslots.insert(number, keyslot);
            }
        }
        let metadata_len = end_of_areas(areas)?;
        Ok(Self {
            bytes: Box::new(*bytes),
            encryption,
            key_len: phdr.key_bytes,
            entry,
            digest: Digest {
                keyslots: keyslots.keys().copied().collect(),
                segments: vec![0],
                hash: hash.clone(),
                iterations: phdr.mk_digest_iter,
                salt: phdr.mk_digest_salt.into(),
                value: phdr.mk_digest.into(),
                key_len: KeyLen::Stated(phdr.key_bytes),
            },
            keyslots,
            metadata_len,
            header_digest: HeaderDigest::of(bytes),
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
        unlock::unlock(&self.keyslots, needed, storage, secret, backend, options)
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
            digest: &self.digest,
        }
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
        let json = json!({
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
    /// The digest of the volume key.
    pub digest: &'a Digest,
}

/// Checks the rules that concern no keyslot.
fn check(phdr: &Phdr) -> Result<(), Luks1Error> {
    if is_cipher_null(&encryption_name(phdr)) {
        return Err(Luks1Error::CipherNull);
    }
    if !(1..=MAX_KEY_LEN).contains(&phdr.key_bytes) {
        let found = phdr.key_bytes;
        return Err(Luks1Error::KeyLen { found });
    }
    if phdr.mk_digest_iter == 0 {
        return Err(Luks1Error::DigestIterations);
    }
    Ok(())
}

/// The name of the encryption in dm-crypt's form.
pub(super) fn encryption_name(phdr: &Phdr) -> String {
    format!("{}-{}", phdr.cipher_name, phdr.cipher_mode)
}

/// Returns the segment of the data. Its encryption, or the length of its key, may be unknown to this
/// version.
fn segment_entry(phdr: &Phdr, encryption_name: &str) -> SegmentEntry {
    let offset = u64::from(phdr.payload_offset) * UNIT;
    let size = SegmentSize::Dynamic;
    let foreign = |what| SegmentKind::Foreign {
        offset,
        size,
        what: Foreign {
            kind: "crypt".into(),
            what,
        },
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
                "the volume key has {key_len} bytes, not {short} or {long} as {} needs{}",
                encryption.name(),
                if_aes_192(key_len, encryption)
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

/// Returns the end of the message for an AES-192 key, which LUKS allows and this version does not
/// support.
fn if_aes_192(key_len: u32, encryption: Encryption) -> String {
    let [aes_128, _] = encryption.key_lens();
    if key_len == aes_128 * 3 / 2 {
        format!(": that is AES-192. {}", unlock::HINT_AES_192)
    } else {
        String::new()
    }
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

/// Returns the keyslot in `area`; `None` if it is empty.
fn used_keyslot(
    number: u32,
    raw: &RawKeyslot,
    area: KeyslotArea,
    hash: &str,
) -> Result<Option<Keyslot>, Luks1Error> {
    match raw.active {
        phdr::ACTIVE => {}
        phdr::DISABLED => return Ok(None),
        found => {
            return Err(Luks1Error::KeyslotState {
                keyslot: number,
                found,
            });
        }
    }
    if raw.iterations == 0 {
        return Err(Luks1Error::KeyslotIterations { keyslot: number });
    }
    Ok(Some(Keyslot {
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
    }))
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
