// SPDX-License-Identifier: MIT OR Apache-2.0
//! The header as typed values. They are LUKS2's keyslots, digest and segment, so that one code path
//! leads from a secret to a volume key.

use std::collections::BTreeMap;

use base64::{Engine, prelude::BASE64_STANDARD};
use luxor_engine::{Backend, SecretBytes};
use luxor_sector::{Geometry, SectorSize, Storage};
use luxor_volume::{Encryption, Extent, HashAlgorithm, Kdf, VolumeKey, is_cipher_null};
use serde_json::{Map, Value, json};

use super::{
    layout,
    phdr::{self, MAGIC, Phdr, RawKeyslot, UNIT},
};
use crate::{
    af::STRIPES,
    header_digest::HeaderDigest,
    luks1_error::Luks1Error,
    luks2::{
        digest::{Digest, KeyLen},
        keyslot::{Keyslot, KeyslotArea, Priority},
        segment::{Segment, SegmentError, SegmentSize},
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
    pub(super) hash: HashAlgorithm,
    pub(super) key_len: u32,
    pub(super) segment: Segment,
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
    /// [`Luks1Error`]: `storage` holds no LUKS1 volume, the header breaks a rule, or it uses
    /// something that this version does not support.
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
        let (encryption, hash) = algorithms(&phdr)?;
        let segment = segment(&phdr, encryption);
        let mut keyslots = BTreeMap::new();
        let mut areas = Vec::with_capacity(phdr::KEYSLOTS);
        for (number, raw) in (0..).zip(&phdr.keyslots) {
            // The rules apply to empty keyslots too, because a key may be added there later.
            let area = area(number, raw, phdr.key_bytes, &segment)?;
            areas.push((area.offset, area.offset + area.size, number));
            if let Some(keyslot) = used_keyslot(number, raw, area, hash)? {
                keyslots.insert(number, keyslot);
            }
        }
        let metadata_len = end_of_areas(areas)?;
        Ok(Self {
            bytes: Box::new(*bytes),
            hash,
            key_len: phdr.key_bytes,
            segment,
            digest: Digest {
                keyslots: keyslots.keys().copied().collect(),
                segments: vec![0],
                hash: hash.name().into(),
                iterations: phdr.mk_digest_iter,
                salt: phdr.mk_digest_salt.into(),
                value: phdr.mk_digest.into(),
                key_len: KeyLen::Stated(phdr.key_bytes),
            },
            keyslots,
            metadata_len,
            header_digest: HeaderDigest::of(bytes),
            uuid: phdr.uuid,
        })
    }

    /// Finds a keyslot that `secret` opens, in the order of their numbers, and returns its volume
    /// key, like [`Luks2Header::unlock`](crate::Luks2Header::unlock).
    ///
    /// `storage` must be the one that the header was read from.
    ///
    /// # Errors
    /// [`UnlockError`]: no keyslot opens with `secret`, or none can be tried.
    pub fn unlock(
        &self,
        storage: &dyn Storage,
        secret: &[u8],
        backend: &dyn Backend,
        options: &UnlockOptions,
    ) -> Result<Unlocked, UnlockError> {
        unlock::unlock(
            &self.keyslots,
            (0, &self.digest),
            self.segment.encryption,
            storage,
            secret,
            backend,
            options,
        )
    }

    /// Compares `key` with the digest of the volume key. Returns it under the number of that digest,
    /// as [`Unlocked::into_keys`] does. No keyslot is opened.
    ///
    /// # Errors
    /// [`UnlockError::WrongVolumeKey`] or [`UnlockError::VolumeKeyLen`] if it is another key, and
    /// other errors if the digest costs too much or has an unknown hash.
    pub fn confirm_volume_key(
        &self,
        key: &SecretBytes,
        options: &UnlockOptions,
    ) -> Result<BTreeMap<u32, VolumeKey>, UnlockError> {
        let needed = NeededKey {
            number: 0,
            digest: &self.digest,
            encryption: self.segment.encryption,
        };
        unlock::confirm_volume_key(&needed, key, options)
    }

    /// The segment of the data.
    #[must_use]
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// The whole plaintext, in a storage of `storage_len` bytes that holds the data. The digest of
    /// its key has number 0.
    pub(crate) fn extent(&self, storage_len: u64) -> Result<Extent, SegmentError> {
        Ok(Extent {
            offset: self.segment.offset,
            len: self.segment.payload_len(storage_len)?,
            cipher: Some(self.segment.cipher(0)),
        })
    }

    /// The length of the plaintext in bytes, if the storage that holds the data has `storage_len`
    /// bytes.
    ///
    /// # Errors
    /// [`SegmentError`]: the storage is too short, or ends within a sector.
    pub fn plaintext_len(&self, storage_len: u64) -> Result<u64, SegmentError> {
        self.segment.payload_len(storage_len)
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
            encryption: self.segment.encryption,
            hash: self.hash,
            key_len: self.key_len,
            segment: &self.segment,
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
            "encryption": self.segment.encryption.name(),
            "key_size": self.key_len,
            "hash": self.hash.name(),
            "data_offset": self.segment.offset,
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
    /// The encryption of data and keyslot areas.
    pub encryption: Encryption,
    /// The hash for PBKDF2 and the anti-forensic splitter.
    pub hash: HashAlgorithm,
    /// The length of the volume key in bytes.
    pub key_len: u32,
    /// The segment of the data.
    pub segment: &'a Segment,
    /// The used keyslots by number, at most 8.
    pub keyslots: &'a BTreeMap<u32, Keyslot>,
    /// The digest of the volume key.
    pub digest: &'a Digest,
}

/// Returns the encryption of data and areas, and the hash. Fails if this version does not support
/// one of them, or if the key length or the digest's iterations do not suit them.
fn algorithms(phdr: &Phdr) -> Result<(Encryption, HashAlgorithm), Luks1Error> {
    let name = format!("{}-{}", phdr.cipher_name, phdr.cipher_mode);
    if is_cipher_null(&name) {
        return Err(Luks1Error::CipherNull);
    }
    let Some(encryption) = Encryption::by_name(&name) else {
        return Err(Luks1Error::Cipher { found: name });
    };
    let Some(hash) = HashAlgorithm::by_name(&phdr.hash_spec) else {
        return Err(Luks1Error::Hash {
            found: phdr.hash_spec.clone(),
        });
    };
    if !encryption.key_lens().contains(&phdr.key_bytes) {
        return Err(Luks1Error::KeyLen {
            found: phdr.key_bytes,
            encryption,
        });
    }
    if phdr.mk_digest_iter == 0 {
        return Err(Luks1Error::DigestIterations);
    }
    Ok((encryption, hash))
}

fn segment(phdr: &Phdr, encryption: Encryption) -> Segment {
    Segment {
        offset: u64::from(phdr.payload_offset) * UNIT,
        size: SegmentSize::Dynamic,
        encryption,
        geometry: Geometry {
            sector_size: SectorSize::B512,
            iv_mode: encryption.iv_mode(),
            iv_offset: 0,
            iv_large_sectors: false,
        },
    }
}

/// Returns the area of a keyslot, used or empty. It must lie between header and data.
fn area(
    number: u32,
    raw: &RawKeyslot,
    key_len: u32,
    segment: &Segment,
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
    let (end, data) = (offset + size, segment.offset);
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
        encryption: segment.encryption.name().into(),
        key_len,
    })
}

/// Returns the keyslot in `area`; `None` if it is empty.
fn used_keyslot(
    number: u32,
    raw: &RawKeyslot,
    area: KeyslotArea,
    hash: HashAlgorithm,
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
            hash: hash.name().into(),
            iterations: raw.iterations,
            salt: raw.salt.into(),
        },
        stripes: raw.stripes,
        af_hash: hash.name().into(),
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
