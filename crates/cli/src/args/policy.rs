// SPDX-License-Identifier: MIT OR Apache-2.0
//! The requirements on headers.

use clap::Args;
use luxor::{
    VolumePolicy,
    luks::{Encryption, HeaderDigest, HeaderPolicy},
};

use super::{luks_version::AnyLuks, pbkdf::PbkdfName, values::encryption};

/// What the header of a volume that is read must be.
#[derive(Args, Clone, Debug)]
pub(crate) struct PolicyArgs {
    /// Refuse volumes of another format: luks1, luks2
    #[arg(long, global = true, value_name = "TYPE", help_heading = "Policy")]
    #[arg(value_enum, hide_possible_values = true)]
    pub require_type: Option<AnyLuks>,

    /// Refuse volumes whose data or keyslots use another cipher: aes-xts-plain64
    ///
    /// For several ciphers, separate the names by commas or repeat the option.
    #[arg(long, global = true, value_name = "NAMES", help_heading = "Policy")]
    #[arg(value_delimiter = ',', value_parser = encryption)]
    pub require_cipher: Vec<Encryption>,

    /// Refuse volumes whose keyslots use another key derivation: argon2id, argon2i, pbkdf2
    ///
    /// Also refuses keyslots that cost less than OWASP recommends: Argon2 with less than
    /// 7 MiB of memory or 35 MiB of memory times passes, PBKDF2 with fewer than 600000
    /// iterations of SHA-256, 210000 of SHA-512 or Whirlpool, 1300000 of SHA-1 or
    /// RIPEMD-160; and keyslots of types that this version does not support.
    #[arg(long, global = true, value_name = "KINDS", help_heading = "Policy")]
    #[arg(value_delimiter = ',', value_enum, hide_possible_values = true)]
    pub require_pbkdf: Vec<PbkdfName>,

    /// Refuse volumes with any other header digest: see `luxor header digest`
    ///
    /// Anyone who can write to a volume can replace its header, for example by one with a
    /// weaker cipher or a known key. This option detects that before it asks for a secret.
    /// Every change of a key, a token or a label changes the digest.
    #[arg(long, global = true, value_name = "SHA256", help_heading = "Policy")]
    pub header_digest: Option<HeaderDigest>,
}

impl PolicyArgs {
    /// Returns the policy for the library.
    #[must_use]
    pub(crate) fn policy(&self) -> VolumePolicy {
        VolumePolicy {
            version: self.require_type.and_then(AnyLuks::version),
            header: HeaderPolicy {
                encryptions: self.require_cipher.clone(),
                pbkdfs: self.require_pbkdf.iter().map(|kind| kind.kind()).collect(),
                digest: self.header_digest,
            },
        }
    }
}
