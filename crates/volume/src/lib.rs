// SPDX-License-Identifier: MIT OR Apache-2.0
//! The values that all formats of encrypted volumes have in common. Each format reads and writes
//! metadata of its own, and uses the types of this crate for what it reads from them and passes on.
//!
//! | to … | use |
//! |---|---|
//! | name an encryption, and make the engine's key | [`Encryption`], [`VolumeKey`] |
//! | derive a key from a secret | [`Kdf`], [`HashAlgorithm`] |
//! | choose the costs of a derivation | [`PbkdfOptions`] |
//! | limit the costs of opening an untrusted volume | [`Budget`], [`CostLimits`] |
//! | recognise, describe and unlock a volume of any format | [`Format`], [`Header`] |
//! | describe the plaintext: location, encryption and keys | [`Plaintext`], [`Extent`], [`DataKey`] |
//! | recognise the trailer of a file of unknown length | [`TrailerKey`] |
//! | draw salts, UUIDs and random filling | [`rng`] |
//! | show a text from metadata in a message | [`brief`](fn@brief) |
//!
//! The traits [`Format`] and [`Header`] are the seam of all formats. The result of every format is a
//! [`Plaintext`]: from there on all volumes are alike.
//!
//! ```
//! use luxor_secret::SecretBytes;
//! use luxor_volume::{Encryption, HashAlgorithm, Kdf, VolumeKey};
//!
//! let kdf = Kdf::Pbkdf2 {
//!     hash: HashAlgorithm::Sha256.name().into(),
//!     iterations: 1000,
//!     salt: b"four random words".to_vec(),
//! };
//! let mut bytes = SecretBytes::zeroed(64);
//! kdf.derive(b"correct horse", bytes.expose_mut())?;
//! let key = VolumeKey::new(bytes, Encryption::AesXtsPlain64, false)?;
//! assert_eq!(key.expose().len(), 64);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod brief;
mod budget;
mod cipher;
mod cipher_name;
mod data_key;
mod format;
mod hash;
mod key_cache;
mod memory;
mod pbkdf;
mod pbkdf_options;
mod plaintext;
pub mod rng;
mod trailer;
mod unlock_options;
mod volume_key;

pub use brief::{brief, brief_list};
pub use budget::{Budget, CostLimits, DigestWork};
pub use cipher::{Encryption, is_cipher_null};
pub use data_key::DataKey;
pub use format::{
    Description, ExtentError, FileLength, Findings, Format, Header, HeaderError, HeaderErrorKind,
    HeaderWarning, NotUnlocked, NotUnlockedKind, OpenedKeyslot, Reencryption, Remedy,
    RepairOutlook, Secret, SecretKind, Unlocked,
};
pub use hash::HashAlgorithm;
pub use key_cache::KeyCache;
pub use memory::MemoryBound;
pub use pbkdf::{
    Argon2Kind, CostError, DEFAULT_ARGON2_WORK_KIB, DEFAULT_ITERATIONS_LIMIT,
    DEFAULT_MEMORY_LIMIT_KIB, DeriveError, Kdf, MAX_LANES, PbkdfKind, check_iterations,
};
pub use pbkdf_options::{PbkdfOptions, PbkdfOptionsError, SALT_BYTES};
pub use plaintext::{Extent, ExtentCipher, Plaintext};
pub use trailer::TrailerKey;
pub use unlock_options::UnlockOptions;
pub use uuid::Uuid;
pub use volume_key::{DrawError, VolumeKey};
