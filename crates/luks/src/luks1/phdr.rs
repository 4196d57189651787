// SPDX-License-Identifier: MIT OR Apache-2.0
//! The partition header: the first 592 bytes of a LUKS1 volume (LUKS1 On-Disk Format
//! Specification 1.2.3, section 2.3). There is one copy, and no checksum.
//!
//! ```text
//! offset length
//!      0      6  magic: "LUKS\xba\xbe"
//!      6      2  version: 1                                  (integers are big-endian)
//!      8     32  cipher-name, ended by a zero byte like all text here: "aes"
//!     40     32  cipher-mode: "xts-plain64"
//!     72     32  hash-spec: the hash of PBKDF2 and between the stripes
//!    104      4  payload-offset: where the data begin, in 512-byte units; 0 when they
//!                are elsewhere
//!    108      4  key-bytes: the volume key's length
//!    112     20  mk-digest: PBKDF2 of the volume key
//!    132     32  mk-digest-salt
//!    164      4  mk-digest-iter
//!    168     40  uuid, text
//!    208  8 × 48 keyslots:
//!             4  active: 0x00AC71F3, or 0x0000DEAD when it is empty
//!             4  iterations of PBKDF2
//!            32  salt
//!             4  key-material-offset: where its area begins, in 512-byte units
//!             4  stripes: 4000
//! ```

use super::Luks1Error;

/// The length of the header in bytes.
pub(super) const LEN: usize = 592;
/// The number of keyslots, used and empty ones.
pub(super) const KEYSLOTS: usize = 8;

const KEYSLOTS_AT: usize = 208;
const KEYSLOT_LEN: usize = 48;
const ACTIVE: u32 = 0x00ac_71f3;
const DISABLED: u32 = 0x0000_dead;

/// The fields of the header; what they say is not looked at.
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

pub(super) struct RawKeyslot {
    pub is_active: bool,
    pub iterations: u32,
    pub salt: [u8; 32],
    /// In 512-byte units.
    pub key_material_offset: u32,
    pub stripes: u32,
}

impl Phdr {
    pub(super) fn parse(bytes: &[u8; LEN]) -> Result<Self, Luks1Error> {
        if !bytes.starts_with(super::MAGIC) {
            return Err(Luks1Error::Magic);
        }
        let number = |offset| u32::from_be_bytes(field(bytes, offset));
        let keyslot = |number_of_slot: u32, begin: usize| {
            Ok(RawKeyslot {
                is_active: match number(begin) {
                    ACTIVE => true,
                    DISABLED => false,
                    found => {
                        return Err(Luks1Error::KeyslotState {
                            keyslot: number_of_slot,
                            found,
                        });
                    }
                },
                iterations: number(begin + 4),
                salt: field(bytes, begin + 8),
                key_material_offset: number(begin + 40),
                stripes: number(begin + 44),
            })
        };
        let mut keyslots = Vec::with_capacity(KEYSLOTS);
        for (slot, begin) in (0..).zip((KEYSLOTS_AT..LEN).step_by(KEYSLOT_LEN)) {
            keyslots.push(keyslot(slot, begin)?);
        }
        Ok(Self {
            cipher_name: text(&field::<32>(bytes, 8), "cipher-name")?,
            cipher_mode: text(&field::<32>(bytes, 40), "cipher-mode")?,
            hash_spec: text(&field::<32>(bytes, 72), "hash-spec")?,
            payload_offset: number(104),
            key_bytes: number(108),
            mk_digest: field(bytes, 112),
            mk_digest_salt: field(bytes, 132),
            mk_digest_iter: number(164),
            uuid: text(&field::<40>(bytes, 168), "uuid")?,
            keyslots: keyslots.try_into().map_err(drop).expect("there are eight"),
        })
    }
}

fn field<const N: usize>(bytes: &[u8; LEN], offset: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[offset + i])
}

/// The text before the first zero byte, which there must be. Bytes that are no UTF-8
/// are replaced: no name that is known has them.
fn text(bytes: &[u8], field: &'static str) -> Result<String, Luks1Error> {
    let end = bytes
        .iter()
        .position(|&byte| byte == 0)
        .ok_or(Luks1Error::Unterminated { field })?;
    Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
}
