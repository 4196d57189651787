// SPDX-License-Identifier: MIT OR Apache-2.0
//! LUKS1 (LUKS1 On-Disk Format Specification 1.2.3), read into the same typed values
//! as LUKS2: keyslots, one digest, one segment. Opening a keyslot is then the same.
//!
//! ```text
//!   0            header (592 bytes)
//!   4 KiB        keyslot areas, each 4000 times as long as the key
//!   about 2 MiB  data in 512-byte sectors, to the storage's end (or in another storage)
//! ```

mod change;
mod convert;
mod create;
mod from_luks2;
mod layout;
mod phdr;
mod relocate;
mod repair;
mod to_luks2;

use std::{collections::BTreeMap, io, sync::Arc};

use base64::{Engine, prelude::BASE64_STANDARD};
pub use convert::ConvertError;
pub use create::{Luks1Options, NewLuks1Volume};
use luxor_engine::Backend;
use luxor_sector::{Geometry, SectorSize, Storage};
use phdr::{Phdr, RawKeyslot};
pub use repair::{Luks1Repair, Luks1RepairError, Luks1Restored};
use serde_json::{Map, Value, json};

use crate::{
    brief::brief,
    header_digest::HeaderDigest,
    keys::{
        cipher::{Encryption, is_cipher_null},
        hash::HashAlgorithm,
        pbkdf::Kdf,
    },
    luks2::{
        digest::Digest,
        keyslot::{Keyslot, KeyslotArea, Priority, STRIPES},
        segment::{Segment, SegmentError, SegmentSize},
        segments::{Extent, ExtentCipher},
        unlock::{self, UnlockError, UnlockOptions, Unlocked},
    },
};

/// Magic and version.
pub(crate) const MAGIC: &[u8; 8] = b"LUKS\xba\xbe\x00\x01";

/// The unit of all offsets in the header, in bytes.
const UNIT: u64 = 512;

/// The metadata of a LUKS1 volume, read once and validated.
#[derive(Clone, Debug)]
pub struct Luks1Header {
    /// As they were read: whoever changes them keeps the others.
    bytes: Box<phdr::Bytes>,
    uuid: String,
    hash: HashAlgorithm,
    key_len: u32,
    segment: Segment,
    /// The used ones.
    keyslots: BTreeMap<u32, Keyslot>,
    digest: Digest,
    metadata_len: u64,
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

    fn read_bytes(storage: &dyn Storage) -> Result<phdr::Bytes, Luks1Error> {
        let len = storage.len()?;
        let mut bytes = [0; phdr::LEN];
        let there = usize::try_from(len).map_or(phdr::LEN, |len| len.min(phdr::LEN));
        storage.read_exact_at(&mut bytes[..there], 0)?;
        if there < phdr::LEN && bytes.starts_with(MAGIC) {
            return Err(Luks1Error::Truncated { len });
        }
        Ok(bytes)
    }

    fn parse(bytes: &phdr::Bytes) -> Result<Self, Luks1Error> {
        let header = Phdr::parse(bytes)?;
        let header_digest = HeaderDigest::of(bytes);
        let name = format!("{}-{}", header.cipher_name, header.cipher_mode);
        if is_cipher_null(&name) {
            return Err(Luks1Error::CipherNull);
        }
        let Some(encryption) = Encryption::by_name(&name) else {
            return Err(Luks1Error::Cipher { found: name });
        };
        let hash = HashAlgorithm::by_name(&header.hash_spec).ok_or(Luks1Error::Hash {
            found: header.hash_spec,
        })?;
        if !encryption.key_lens().contains(&header.key_bytes) {
            return Err(Luks1Error::KeyLen {
                found: header.key_bytes,
                encryption,
            });
        }
        if header.mk_digest_iter == 0 {
            return Err(Luks1Error::DigestIterations);
        }

        let data = u64::from(header.payload_offset) * UNIT;
        let mut keyslots = BTreeMap::new();
        let mut areas = Vec::with_capacity(phdr::KEYSLOTS);
        for (number, raw) in (0..).zip(&header.keyslots) {
            // The rules hold for empty keyslots too: a key may be put there.
            let area = area(number, raw, header.key_bytes, encryption)?;
            let end = area.offset + area.size;
            if data != 0 && end > data {
                return Err(Luks1Error::AreaOverData {
                    keyslot: number,
                    end,
                    data,
                });
            }
            areas.push((area.offset, end, number));
            match raw.active {
                phdr::ACTIVE => {}
                phdr::DISABLED => continue,
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
            let keyslot = Keyslot {
                key_len: header.key_bytes,
                priority: Priority::Normal,
                area,
                kdf: Kdf::Pbkdf2 {
                    hash: hash.name().into(),
                    iterations: raw.iterations,
                    salt: raw.salt.into(),
                },
                stripes: raw.stripes,
                af_hash: hash.name().into(),
            };
            keyslots.insert(number, keyslot);
        }
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
        let (_, metadata_len, _) = areas[areas.len() - 1];

        Ok(Self {
            bytes: Box::new(*bytes),
            uuid: header.uuid,
            hash,
            key_len: header.key_bytes,
            segment: Segment {
                offset: data,
                size: SegmentSize::Dynamic,
                encryption,
                geometry: Geometry {
                    sector_size: SectorSize::B512,
                    iv_mode: encryption.iv_mode(),
                    iv_offset: 0,
                    iv_large_sectors: false,
                },
            },
            digest: Digest {
                keyslots: keyslots.keys().copied().collect(),
                segments: vec![0],
                hash: hash.name().into(),
                iterations: header.mk_digest_iter,
                salt: header.mk_digest_salt.into(),
                value: header.mk_digest.into(),
            },
            keyslots,
            metadata_len,
            header_digest,
        })
    }

    /// Finds a keyslot that `secret` opens, in the order of their numbers, and the
    /// volume key in it: as [`Luks2Header::unlock`](crate::Luks2Header::unlock).
    ///
    /// `storage` is the one that the header was read from.
    ///
    /// # Errors
    /// [`UnlockError`].
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
            segment: 0,
            offset: self.segment.offset,
            len: self.segment.payload_len(storage_len)?,
            cipher: Some(ExtentCipher {
                digest: 0,
                encryption: self.segment.encryption,
                geometry: self.segment.geometry,
            }),
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

fn area(
    number: u32,
    raw: &RawKeyslot,
    key_len: u32,
    encryption: Encryption,
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
    Ok(KeyslotArea {
        offset,
        size: layout::area_len(key_len),
        encryption: encryption.name().into(),
        key_len,
    })
}

/// Why a LUKS1 header is not accepted.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Luks1Error {
    /// It cannot be read.
    #[error("the header cannot be read: {source}")]
    Io {
        /// The system's reason.
        source: Arc<io::Error>,
    },
    /// Other bytes.
    #[error("this is not a LUKS1 volume: it has no LUKS1 header")]
    Magic,
    /// The storage ends first.
    #[error("it is cut off: the header has 592 bytes, and there are {len}")]
    Truncated {
        /// The storage's length in bytes.
        len: u64,
    },
    /// No zero byte ends a text.
    #[error("its {field} does not end")]
    Unterminated {
        /// The field's name in the specification.
        field: &'static str,
    },
    /// No encryption at all.
    #[error("its cipher is null: the data are not encrypted, which is refused")]
    CipherNull,
    /// A cipher that is not in this version.
    #[error(
        "it is encrypted with {}; this version opens {}",
        brief(found),
        Encryption::ALL.map(Encryption::name).join(", ")
    )]
    Cipher {
        /// Its name and mode.
        found: String,
    },
    /// A hash that is not in this version.
    #[error(
        "its hash is {}; this version has {}",
        brief(found),
        HashAlgorithm::NAMES
    )]
    Hash {
        /// The hash's name.
        found: String,
    },
    /// A key length that is not in this version.
    #[error(
        "its volume key has {found} bytes, not {} or {} as {} needs{}",
        encryption.key_lens()[0],
        encryption.key_lens()[1],
        encryption.name(),
        if_aes_192(*found, *encryption)
    )]
    KeyLen {
        /// The length in bytes.
        found: u32,
        /// The cipher.
        encryption: Encryption,
    },
    /// The digest would say nothing.
    #[error("mk-digest-iter is 0, and must be at least 1")]
    DigestIterations,
    /// Neither used nor empty.
    #[error("keyslot {keyslot}: it is neither used nor empty (0x{found:08x})")]
    KeyslotState {
        /// The keyslot.
        keyslot: u32,
        /// The field `active`.
        found: u32,
    },
    /// Another number of stripes.
    #[error("keyslot {keyslot}: it has {found} stripes, not {STRIPES}")]
    Stripes {
        /// The keyslot.
        keyslot: u32,
        /// The stripes.
        found: u32,
    },
    /// A key derivation of no rounds.
    #[error("keyslot {keyslot}: it has 0 iterations, and must have at least 1")]
    KeyslotIterations {
        /// The keyslot.
        keyslot: u32,
    },
    /// An area begins within the header.
    #[error("keyslot {keyslot}: its area begins at byte {offset}, within the header")]
    AreaOverHeader {
        /// The keyslot.
        keyslot: u32,
        /// Where the area begins, in bytes.
        offset: u64,
    },
    /// An area reaches into the data.
    #[error("keyslot {keyslot}: its area ends at byte {end}, and the data begin at byte {data}")]
    AreaOverData {
        /// The keyslot.
        keyslot: u32,
        /// Where the area ends, in bytes.
        end: u64,
        /// Where the data begin, in bytes.
        data: u64,
    },
    /// Two areas share bytes.
    #[error("the areas of keyslots {first} and {second} overlap at byte {byte}")]
    Overlap {
        /// The one that begins first.
        first: u32,
        /// The other one.
        second: u32,
        /// The first byte that both have.
        byte: u64,
    },
}

/// What helps against a cipher that is lawful, and not in this version.
fn if_aes_192(key_len: u32, encryption: Encryption) -> &'static str {
    let [aes_128, _] = encryption.key_lens();
    match key_len == aes_128 * 3 / 2 {
        true => {
            ": that is AES-192. cryptsetup opens it, and `cryptsetup reencrypt --cipher \
             aes-xts-plain64 --key-size 512` gives the volume another key"
        }
        false => "",
    }
}

impl From<io::Error> for Luks1Error {
    fn from(source: io::Error) -> Self {
        Self::Io {
            source: Arc::new(source),
        }
    }
}
