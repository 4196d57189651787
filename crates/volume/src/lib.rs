// SPDX-License-Identifier: MIT OR Apache-2.0
//! What all formats of encrypted volumes have in common. A format reads and writes metadata of
//! its own kind; what it takes from them and gives to others are the values of this crate.
//!
//! | to … | use |
//! |---|---|
//! | name how data are encrypted, and make the engine's key | [`Encryption`], [`VolumeKey`] |
//! | derive a key from a secret | [`Kdf`], [`HashAlgorithm`] |
//! | choose the costs of a derivation | [`PbkdfOptions`] |
//! | bound the costs that a stranger's volume asks for | [`Budget`], [`CostLimits`] |
//! | say where the plaintext is and by which keys it is encrypted | [`Plaintext`], [`Extent`] |
//! | draw salts, UUIDs and what unused places hold | [`rng`] |
//! | show a text from metadata in a message | [`brief`](fn@brief) |
//!
//! A format ends where it has made a [`Plaintext`]: from there on all volumes are alike.
//!
//! ```
//! use luxor_engine::SecretBytes;
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
mod hash;
mod memory;
mod pbkdf;
mod pbkdf_options;
mod plaintext;
pub mod rng;
mod volume_key;

pub use brief::{brief, brief_list};
pub use budget::{Budget, CostLimits, DigestWork};
pub use cipher::{Encryption, is_cipher_null};
pub use hash::HashAlgorithm;
pub use memory::MemoryBound;
pub use pbkdf::{
    Argon2Kind, CostError, DEFAULT_ARGON2_WORK_KIB, DEFAULT_ITERATIONS_LIMIT,
    DEFAULT_MEMORY_LIMIT_KIB, DeriveError, Kdf, MAX_LANES, PbkdfKind, check_iterations,
};
pub use pbkdf_options::{PbkdfOptions, PbkdfOptionsError, SALT_BYTES};
pub use plaintext::{Extent, ExtentCipher, Plaintext};
pub use uuid::Uuid;
pub use volume_key::{DrawError, VolumeKey};
