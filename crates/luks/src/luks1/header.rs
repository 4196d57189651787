// SPDX-License-Identifier: MIT OR Apache-2.0
//! The header as typed values: the keyslots, digest and segment of LUKS2, so that there is one path
//! from a secret to a volume key.

use std::collections::BTreeMap;

use base64::{Engine, prelude::BASE64_STANDARD};
use luxor_engine::Backend;
use luxor_sector::{Geometry, SectorSize, Storage};
use luxor_volume::{Encryption, Extent, HashAlgorithm, Kdf, is_cipher_null};
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
        digest::Digest,
        keyslot::{Keyslot, KeyslotArea, Priority},
        segment::{Segment, SegmentError, SegmentSize},
        unlock::{self, UnlockError, UnlockOptions, Unlocked},
    },
};

/// The metadata of a LUKS1 volume, read once and validated.
#[derive(Clone, Debug)]
pub struct Luks1Header {
    /// As they were read: whoever changes them keeps the others.
    pub(super) bytes: Box<phdr::Bytes>,
    pub(super) uuid: String,
    pub(super) hash: HashAlgorithm,
    pub(super) key_len: u32,
    pub(super) segment: Segment,
    /// The used ones.
    pub(super) keyslots: BTreeMap<u32, Keyslot>,
    pub(super) digest: Digest,
    pub(super) metadata_len: u64,
    header_digest: HeaderDigest,
}

impl Luks1Header {
    /// Reads the header at the beginning of `storage`, 592 bytes.
    ///
    /// # Errors
    /// [`Luks1Error`]: no LUKS1 volume, a rule that is broken, or nothing that this
    /// version opens.
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
            // The rules hold for empty keyslots too: a key may be put there.
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
            },
            keyslots,
            metadata_len,
            header_digest: HeaderDigest::of(bytes),
            uuid: phdr.uuid,
        })
    }

    /// Finds a keyslot that `secret` opens, in the order of their numbers, and the
    /// volume key in it: as [`Luks2Header::unlock`](crate::Luks2Header::unlock).
    ///
    /// `storage` is the one that the header was read from.
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

    /// The data.
    #[must_use]
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// All of the plaintext, in a storage of `storage_len` bytes that has the data. Its
    /// key's digest is number 0.
    pub(crate) fn extent(&self, storage_len: u64) -> Result<Extent, SegmentError> {
        Ok(Extent {
            offset: self.segment.offset,
            len: self.segment.payload_len(storage_len)?,
            cipher: Some(self.segment.cipher(0)),
        })
    }

    /// The length of the plaintext in bytes, in a volume whose data are in a storage
    /// of `storage_len` bytes.
    ///
    /// # Errors
    /// [`SegmentError`] when the storage has too few bytes or a part of a sector.
    pub fn plaintext_len(&self, storage_len: u64) -> Result<u64, SegmentError> {
        self.segment.payload_len(storage_len)
    }

    /// The bytes from the storage's beginning to the end of the last keyslot area:
    /// what [`Luks1Header::unlock`] reads at most.
    #[must_use]
    pub fn metadata_len(&self) -> u64 {
        self.metadata_len
    }

    /// What tells this header from all others.
    #[must_use]
    pub fn digest(&self) -> HeaderDigest {
        self.header_digest
    }

    /// All that the header says, as typed values.
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

    /// All that the header says, as JSON: lengths, offsets and key sizes in bytes,
    /// salts and digest in base64, as LUKS2 has them. `schema` grows when a field
    /// changes its meaning (no line break at the end).
    #[must_use]
    pub fn metadata_json(&self) -> String {
        let keyslot = |(number, keyslot): (&u32, &Keyslot)| {
            let Kdf::Pbkdf2 {
                iterations, salt, ..
            } = &keyslot.kdf
            else {
                unreachable!("LUKS1 has no other")
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

/// All that a LUKS1 header says.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Luks1Description<'a> {
    /// The UUID as text.
    pub uuid: &'a str,
    /// The encryption of data and keyslot areas.
    pub encryption: Encryption,
    /// The hash of PBKDF2 and between the stripes.
    pub hash: HashAlgorithm,
    /// The volume key's length in bytes.
    pub key_len: u32,
    /// Where the data are.
    pub segment: &'a Segment,
    /// The used keyslots by number; there is room for 8.
    pub keyslots: &'a BTreeMap<u32, Keyslot>,
    /// The volume key's digest.
    pub digest: &'a Digest,
}

/// The encryption of data and areas and the hash, when this version has them and the lengths
/// of key and digest suit them.
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

/// A keyslot's area, used or empty, which lies between header and data.
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
    // No product or sum of these reaches 2⁴².
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

/// The keyslot in `area`; `None` when it is empty.
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

/// Where the last area ends, when no two of them share bytes. `areas` are beginnings, ends
/// and numbers.
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
