// SPDX-License-Identifier: MIT OR Apache-2.0
//! The errors of reading a LUKS1 header. They are outside of `luks1` to avoid a circle: `luks1`
//! uses `luks2`, and `ChangeError` of `luks2` contains these errors.

use std::{io, sync::Arc};

use luxor_volume::{Encryption, HashAlgorithm, brief};

use crate::af::{MAX_KEY_LEN, STRIPES};

/// Why a LUKS1 header is not accepted.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Luks1Error {
    /// The storage cannot be read.
    #[error("the header cannot be read: {source}")]
    Io {
        /// The system's reason.
        source: Arc<io::Error>,
    },
    /// The bytes do not begin with LUKS1's magic and version.
    #[error("this is not a LUKS1 volume: it has no LUKS1 header")]
    Magic,
    /// The storage ends before the header does.
    #[error("it is cut off: the header has 592 bytes, and only {len} are present")]
    Truncated {
        /// The storage's length in bytes.
        len: u64,
    },
    /// The cipher is `cipher_null`: the data are not encrypted.
    #[error("its cipher is null: the data are not encrypted, which is refused")]
    CipherNull,
    /// The key length is out of bounds.
    #[error("its volume key has {found} bytes, and must have 1 to {MAX_KEY_LEN}")]
    KeyLen {
        /// The length in bytes.
        found: u32,
    },
    /// The cipher has no keys of this length.
    #[error(
        "its volume key has {found} bytes, and {} has keys of {} bytes",
        encryption.name(),
        any_of(&encryption.aes_key_lens())
    )]
    KeyLenOfCipher {
        /// The length in bytes.
        found: u32,
        /// The encryption of data and areas.
        encryption: Encryption,
    },
    /// The version is not LUKS1's, and everything else is a LUKS1 header.
    #[error("its version is {found}, and must be 1")]
    Version {
        /// The version.
        found: u16,
    },
    /// The digest has no iterations, so it cannot verify a key.
    #[error("mk-digest-iter is 0, and must be at least 1")]
    DigestIterations,
    /// A keyslot does not have 4000 stripes.
    #[error("keyslot {keyslot}: it has {found} stripes, not {STRIPES}")]
    Stripes {
        /// The keyslot.
        keyslot: u32,
        /// The stripes.
        found: u32,
    },
    /// A keyslot's area begins within the header.
    #[error("keyslot {keyslot}: its area begins at byte {offset}, within the header")]
    AreaOverHeader {
        /// The keyslot.
        keyslot: u32,
        /// Where the area begins, in bytes.
        offset: u64,
    },
    /// A keyslot's area reaches into the data.
    #[error("keyslot {keyslot}: its area ends at byte {end}, and the data begin at byte {data}")]
    AreaOverData {
        /// The keyslot.
        keyslot: u32,
        /// Where the area ends, in bytes.
        end: u64,
        /// Where the data begin, in bytes.
        data: u64,
    },
    /// The areas of two keyslots overlap.
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

/// Why no secret opens a keyslot of LUKS1 that may hold a key. Other keyslots still open the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyslotDamage {
    /// It is marked neither as used nor as empty.
    #[error("it is marked neither as used nor as empty (0x{found:08x})")]
    State {
        /// The field `active`.
        found: u32,
    },
    /// Its key derivation has no iterations.
    #[error("it has 0 iterations, and must have at least 1")]
    Iterations,
}

/// A field of a LUKS1 header that is damaged, although the header can be read. A repair restores it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldDamage {
    /// The UUID lacks its terminating zero bytes.
    #[error("its UUID has no end after 36 characters")]
    Uuid,
    /// The name of the hash has capital letters.
    #[error("its hash is called {}, and should be called {hash}", brief(from))]
    Hash {
        /// The damaged name.
        from: String,
        /// The hash.
        hash: HashAlgorithm,
    },
    /// The names of cipher and mode have capital letters, with which no data can be read.
    #[error("its encryption is called {}, and must be called {to}", brief(from))]
    Encryption {
        /// The damaged name.
        from: String,
        /// The name in lowercase.
        to: String,
    },
    /// The length of the volume key contradicts the offsets of the areas.
    #[error(
        "its volume key has {from} bytes, and the places of the keyslot areas are those for {to}"
    )]
    KeyLen {
        /// The damaged length.
        from: u32,
        /// The length that the offsets of the areas imply.
        to: u32,
    },
}

/// Lists lengths: `32, 48 or 64`.
pub(crate) fn any_of(lens: &[u32]) -> String {
    let Some((last, others)) = lens.split_last() else {
        return String::new();
    };
    let others: Vec<_> = others.iter().map(u32::to_string).collect();
    match others.as_slice() {
        [] => last.to_string(),
        others => format!("{} or {last}", others.join(", ")),
    }
}

impl From<io::Error> for Luks1Error {
    fn from(source: io::Error) -> Self {
        Self::Io {
            source: Arc::new(source),
        }
    }
}
