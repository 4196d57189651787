// SPDX-License-Identifier: MIT OR Apache-2.0
//! What opening a new keyslot is to cost.

use std::time::Duration;

use clap::{Args, ValueEnum};
use luxor::luks::{PbkdfKind, PbkdfOptions};

use crate::error::{Error, Result};

/// What opening a new keyslot is to cost.
#[derive(Args, Clone, Debug)]
pub(crate) struct PbkdfArgs {
    /// The key derivation function (default: argon2id; pbkdf2 in LUKS1)
    #[arg(long = "pbkdf", value_enum, value_name = "KIND")]
    pub kind: Option<PbkdfName>,

    /// Argon2: the most memory, in KiB (default: 1048576, at most half of the machine's)
    #[arg(long = "pbkdf-memory", value_name = "KiB")]
    pub memory_kib: Option<u32>,

    /// Argon2: lanes computed in parallel (default: 4, at most one per processor)
    #[arg(long = "pbkdf-parallel", value_name = "N")]
    pub parallel: Option<u32>,

    /// Use exactly this many iterations; measure nothing
    #[arg(
        long = "pbkdf-force-iterations",
        value_name = "N",
        conflicts_with = "iter_time"
    )]
    pub force_iterations: Option<u32>,

    /// How long opening the volume should take on this machine, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2000)]
    pub iter_time: u64,
}

impl PbkdfArgs {
    /// Returns the checked options. `default` is the kind that the version of the volume uses.
    ///
    /// # Errors
    /// Fails for values out of bounds, and for options that the kind does not support.
    pub(crate) fn options(&self, default: PbkdfKind) -> Result<PbkdfOptions> {
        let options = PbkdfOptions {
            kind: self.kind.map_or(default, PbkdfName::kind),
            memory_kib: self.memory_kib,
            parallel: self.parallel,
            force_iterations: self.force_iterations,
            iter_time: Duration::from_millis(self.iter_time),
            ..PbkdfOptions::default()
        };
        options
            .check()
            .map_err(|error| Error::failure(error.to_string()))?;
        Ok(options)
    }
}

/// `--pbkdf`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PbkdfName {
    /// Memory-hard: resists GPUs, and partly side channels
    Argon2id,
    /// Memory-hard, without memory accesses that depend on the passphrase
    Argon2i,
    /// PBKDF2: needs almost no memory, so guessing a passphrase costs less
    Pbkdf2,
}

impl PbkdfName {
    /// Returns the library's name for it.
    #[must_use]
    pub(crate) fn kind(self) -> PbkdfKind {
        match self {
            Self::Argon2id => PbkdfKind::Argon2id,
            Self::Argon2i => PbkdfKind::Argon2i,
            Self::Pbkdf2 => PbkdfKind::Pbkdf2,
        }
    }
}
