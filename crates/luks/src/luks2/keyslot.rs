// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keyslots: the volume key, encrypted under a passphrase (LUKS2 specification, section 3.2).

use luxor_volume::{Kdf, brief, is_cipher_null};

use super::{field::Object, kdf, metadata_error::MetadataError};
use crate::af::{MAX_KEY_LEN, MAX_STORED_KEY_LEN, STRIPES};

/// A keyslot of type `luks2`. A key that is derived from the secret decrypts the area; its stripes
/// are merged into the volume key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Keyslot {
    /// The length in bytes of the key that the keyslot holds.
    pub key_len: u32,
    /// The priority, which determines when the keyslot is tried.
    pub priority: Priority,
    /// The location of the area and its encryption.
    pub area: KeyslotArea,
    /// The derivation of the area's key from a secret.
    pub kdf: Kdf,
    /// The number of stripes into which the key is split: 4000.
    pub stripes: u32,
    /// The hash of the anti-forensic splitter, by its name in the metadata.
    pub af_hash: String,
}

/// The priority of a keyslot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Tried only if it is requested by number, like a keyslot with a priority that does not exist.
    Ignore,
    /// Tried after the preferred keyslots, in the order of numbers.
    #[default]
    Normal,
    /// Tried before the others.
    Prefer,
}

/// The area of a keyslot: its bytes in the keyslots area.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyslotArea {
    /// The offset of its first byte from the beginning of the storage.
    pub offset: u64,
    /// The length in bytes.
    pub size: u64,
    /// The name of the encryption in the metadata, such as `aes-xts-plain64`.
    pub encryption: String,
    /// The length of the area's key in bytes.
    pub key_len: u32,
}

impl Keyslot {
    pub(crate) fn parse(object: &Object<'_>) -> Result<Self, MetadataError> {
        let kind = object.required("type")?.name()?;
        if kind != "luks2" {
            return Err(MetadataError::Unsupported {
                place: object.place.to_string(),
                what: format!("it is of type {}", brief(kind)),
            });
        }
        let priority = Priority::parse(object);
        // Checked first, so that this rule applies even if a later field is unknown.
        let key_len = object
            .required("key_size")?
            .number(1..=MAX_STORED_KEY_LEN)?;
        let area = KeyslotArea::parse(&object.required("area")?.object()?)?;
        let af = af_object(object)?;
        let keyslot = Self {
            key_len,
            priority,
            area,
            kdf: kdf::parse(&object.required("kdf")?.object()?)?,
            stripes: af.required("stripes")?.number(STRIPES..=STRIPES)?,
            af_hash: af.required("hash")?.name()?.into(),
        };
        if keyslot.split_len() > keyslot.area.size {
            return Err(MetadataError::AreaSize {
                place: object.place.to_string(),
                size: keyslot.area.size,
                needed: keyslot.split_len(),
            });
        }
        Ok(keyslot)
    }

    /// The length of the split key in bytes, rounded up to whole 512-byte data units.
    pub(crate) fn split_len(&self) -> u64 {
        (u64::from(self.key_len) * u64::from(self.stripes)).next_multiple_of(512)
    }
}

impl Priority {
    fn parse(keyslot: &Object<'_>) -> Self {
        let Some(field) = keyslot.optional("priority") else {
            return Self::Normal;
        };
        // cryptsetup ignores a keyslot with another priority, too.
        match field.c_integer() {
            1 => Self::Normal,
            2 => Self::Prefer,
            _ => Self::Ignore,
        }
    }
}

/// The unit in which an area begins, in bytes.
const AREA_UNIT: u64 = 512;

impl KeyslotArea {
    fn parse(area: &Object<'_>) -> Result<Self, MetadataError> {
        let kind = area.required("type")?;
        let place = kind.place;
        let kind = kind.name()?;
        if kind != "raw" {
            return Err(MetadataError::Unsupported {
                place: place.to_string(),
                what: format!("it is {}", brief(kind)),
            });
        }
        let encryption = area.required("encryption")?;
        if is_cipher_null(encryption.clone().name()?) {
            return Err(MetadataError::CipherNull {
                place: encryption.place.to_string(),
            });
        }
        let offset_field = area.required("offset")?;
        let place = offset_field.place;
        let offset = offset_field.decimal()?;
        // cryptsetup reads the whole sector in which such an area begins.
        if !offset.is_multiple_of(AREA_UNIT) {
            return Err(MetadataError::Unaligned {
                place: place.to_string(),
                found: offset,
                unit: AREA_UNIT,
            });
        }
        Ok(Self {
            offset,
            size: area.required("size")?.decimal()?,
            encryption: encryption.text()?.into(),
            key_len: area.required("key_size")?.number(1..=MAX_KEY_LEN)?,
        })
    }
}

/// Returns the `af` object. Its type must be `luks1`, the only one that exists.
fn af_object<'a>(keyslot: &Object<'a>) -> Result<Object<'a>, MetadataError> {
    let af = keyslot.required("af")?.object()?;
    let kind = af.required("type")?;
    let place = kind.place;
    let kind = kind.name()?;
    if kind != "luks1" {
        return Err(MetadataError::Unsupported {
            place: place.to_string(),
            what: format!("it is {}", brief(kind)),
        });
    }
    Ok(af)
}
