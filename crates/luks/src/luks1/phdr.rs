// SPDX-License-Identifier: MIT OR Apache-2.0
//! The partition header (phdr): the first 592 bytes of a LUKS1 volume (LUKS1 On-Disk Format
//! Specification 1.2.3, section 2.3). There is one copy and no checksum.
//!
//! ```text
//! offset length
//!      0      6  magic: "LUKS\xba\xbe"
//!      6      2  version: 1                                  (integers are big-endian)
//!      8     32  cipher-name: "aes"; all text ends before a zero byte
//!     40     32  cipher-mode: "xts-plain64"
//!     72     32  hash-spec: the hash for PBKDF2 and the anti-forensic splitter
//!    104      4  payload-offset: the offset of the data in 512-byte units; 0 when they
//!                are in another storage
//!    108      4  key-bytes: the length of the volume key
//!    112     20  mk-digest: PBKDF2 of the volume key
//!    132     32  mk-digest-salt
//!    164      4  mk-digest-iter
//!    168     40  uuid, text
//!    208  8 × 48 keyslots:
//!             4  active: 0x00AC71F3 if used, 0x0000DEAD if empty
//!             4  iterations of PBKDF2
//!            32  salt
//!             4  key-material-offset: the offset of its area in 512-byte units
//!             4  stripes: 4000
//! ```

use std::ops::Range;

use crate::{af::STRIPES, luks1_error::Luks1Error};

/// Magic and version.
pub(crate) const MAGIC: &[u8; 8] = b"LUKS\xba\xbe\x00\x01";

/// The range of the names of cipher and mode.
pub(super) const CIPHER: Range<usize> = 8..72;
/// The range of the version.
pub(super) const VERSION: Range<usize> = 6..8;

/// The unit of all offsets in the header, in bytes.
pub(super) const UNIT: u64 = 512;

/// The length of the header in bytes.
pub(super) const LEN: usize = 592;
/// The length of the first sector, which a disk writes whole or not at all. It contains the whole
/// header except keyslot 7 and the end of keyslot 6.
pub(super) const FIRST_SECTOR: usize = 512;
/// The number of keyslots, both used and empty.
pub(super) const KEYSLOTS: usize = 8;
/// The value of `active` in a used keyslot.
pub(super) const ACTIVE: u32 = 0x00ac_71f3;
/// The value of `active` in an empty keyslot.
pub(super) const DISABLED: u32 = 0x0000_dead;

const KEYSLOTS_AT: usize = 208;
const KEYSLOT_LEN: usize = 48;
/// The range of the hash's name.
pub(super) const HASH_SPEC: Range<usize> = 72..104;
/// The range of the UUID.
pub(super) const UUID: Range<usize> = 168..208;

/// The bytes of a header.
pub(super) type Bytes = [u8; LEN];

/// The fields of the header. Parsing does not check their values.
#[derive(Clone, Debug)]
pub(super) struct Phdr {
    pub cipher_name: String,
    pub cipher_mode: String,
    pub hash_spec: String,
    /// In 512-byte units.
    pub payload_offset: u32,
    pub key_bytes: u32,
    pub mk_digest: [u8; 20],
    pub mk_digest_salt: [u8; 32],
    pub mk_digest_iter: u32,
    pub uuid: String,
    pub keyslots: [RawKeyslot; KEYSLOTS],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RawKeyslot {
    /// [`ACTIVE`] or [`DISABLED`]; any other value is damage.
    pub active: u32,
    pub iterations: u32,
    pub salt: [u8; 32],
    /// In 512-byte units.
    pub key_material_offset: u32,
    pub stripes: u32,
}

impl Phdr {
    pub(super) fn parse(bytes: &Bytes) -> Result<Self, Luks1Error> {
        if !bytes.starts_with(MAGIC) {
            return Err(Luks1Error::Magic);
        }
        let number = |offset| u32::from_be_bytes(field(bytes, offset));
        Ok(Self {
            cipher_name: text(&bytes[8..40]),
            cipher_mode: text(&bytes[40..72]),
            hash_spec: text(&bytes[HASH_SPEC]),
            payload_offset: number(104),
            key_bytes: number(108),
            mk_digest: field(bytes, 112),
            mk_digest_salt: field(bytes, 132),
            mk_digest_iter: number(164),
            uuid: text(&bytes[UUID]),
            keyslots: std::array::from_fn(|slot| {
                let begin = KEYSLOTS_AT + KEYSLOT_LEN * slot;
                RawKeyslot {
                    active: number(begin),
                    iterations: number(begin + 4),
                    salt: field(bytes, begin + 8),
                    key_material_offset: number(begin + 40),
                    stripes: number(begin + 44),
                }
            }),
        })
    }

    /// Returns the header's bytes. Each text must fit its field.
    pub(super) fn serialise(&self) -> Bytes {
        let mut bytes = [0; LEN];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 8, self.cipher_name.as_bytes());
        put(&mut bytes, 40, self.cipher_mode.as_bytes());
        put(&mut bytes, 72, self.hash_spec.as_bytes());
        put(&mut bytes, 104, &self.payload_offset.to_be_bytes());
        put(&mut bytes, 112, &self.mk_digest);
        put(&mut bytes, 132, &self.mk_digest_salt);
        put(&mut bytes, 164, &self.mk_digest_iter.to_be_bytes());
        put_uuid(&mut bytes, &self.uuid);
        self.put_numbers(&mut bytes);
        bytes
    }

    /// The name of the encryption in dm-crypt's form.
    pub(super) fn encryption_name(&self) -> String {
        format!("{}-{}", self.cipher_name, self.cipher_mode)
    }

    /// Writes the key length and the keyslots into a header.
    pub(super) fn put_numbers(&self, bytes: &mut Bytes) {
        put(bytes, 108, &self.key_bytes.to_be_bytes());
        for (slot, keyslot) in self.keyslots.iter().enumerate() {
            keyslot.put(bytes, slot);
        }
    }
}

impl RawKeyslot {
    /// Returns an empty keyslot.
    pub(super) fn empty(key_material_offset: u32) -> Self {
        Self {
            active: DISABLED,
            iterations: 0,
            salt: [0; 32],
            key_material_offset,
            stripes: STRIPES,
        }
    }

    /// Writes this keyslot into a header as keyslot `slot`.
    pub(super) fn put(&self, bytes: &mut Bytes, slot: usize) {
        let begin = KEYSLOTS_AT + KEYSLOT_LEN * slot;
        put(bytes, begin, &self.active.to_be_bytes());
        put(bytes, begin + 4, &self.iterations.to_be_bytes());
        put(bytes, begin + 8, &self.salt);
        put(bytes, begin + 40, &self.key_material_offset.to_be_bytes());
        put(bytes, begin + 44, &self.stripes.to_be_bytes());
    }
}

/// Writes the UUID into a header. It must have less than 40 bytes.
pub(super) fn put_uuid(bytes: &mut Bytes, uuid: &str) {
    bytes[UUID].fill(0);
    put(bytes, UUID.start, uuid.as_bytes());
}

fn put(bytes: &mut Bytes, offset: usize, value: &[u8]) {
    bytes[offset..][..value.len()].copy_from_slice(value);
}

fn field<const N: usize>(bytes: &Bytes, offset: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[offset + i])
}

/// Returns the text before the first zero byte. As in cryptsetup, the field's last byte counts as
/// zero whatever it is. Bytes that are not UTF-8 are replaced; no supported name contains any.
fn text(field: &[u8]) -> String {
    let room = &field[..field.len() - 1];
    let end = room.iter().position(|&byte| byte == 0);
    String::from_utf8_lossy(&room[..end.unwrap_or(room.len())]).into_owned()
}
