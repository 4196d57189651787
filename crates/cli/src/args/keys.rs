// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keyslots: how one is opened, and what a new one costs.

use std::time::Duration;

use clap::{Args, ValueEnum};
use luxor_luks::{PbkdfKind, PbkdfOptions};

use crate::error::{Error, Result};

/// What may be said about opening a volume.
#[derive(Args, Clone, Debug)]
pub struct UnlockArgs {
    /// Try this keyslot only
    #[arg(long, value_name = "N")]
    pub key_slot: Option<u32>,

    /// Open a volume whose data key and tweak key are equal, which weakens XTS
    #[arg(long)]
    pub allow_weak_key: bool,

    /// Let a keyslot use up to so much memory (KiB), instead of the built-in limit
    #[arg(long, value_name = "KiB")]
    pub pbkdf_memory_limit: Option<u64>,

    /// Let a keyslot use up to so many iterations, instead of the built-in limit
    #[arg(long, value_name = "N")]
    pub pbkdf_iterations_limit: Option<u64>,
}

/// What opening a new keyslot is to cost.
#[derive(Args, Clone, Debug)]
pub struct PbkdfArgs {
    /// How the passphrase becomes a key (default: argon2id; in LUKS1 pbkdf2)
    #[arg(long = "pbkdf", value_enum, value_name = "KIND")]
    pub kind: Option<PbkdfName>,

    /// Argon2: memory at most, in KiB (default: 1048576, at most half of the machine's)
    #[arg(long = "pbkdf-memory", value_name = "KiB")]
    pub memory_kib: Option<u32>,

    /// Argon2: lanes that are computed in parallel (default: 4, at most one per processor)
    #[arg(long = "pbkdf-parallel", value_name = "N")]
    pub parallel: Option<u32>,

    /// Take exactly so many iterations, measure nothing
    #[arg(
        long = "pbkdf-force-iterations",
        value_name = "N",
        conflicts_with = "iter_time"
    )]
    pub force_iterations: Option<u32>,

    /// How long opening the volume shall take on this machine, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2000)]
    pub iter_time: u64,
}

impl PbkdfArgs {
    /// The options, checked by themselves; `default` is what the volume's version takes.
    ///
    /// # Errors
    /// Values out of bounds, and options that the kind does not have.
    pub fn options(&self, default: PbkdfKind) -> Result<PbkdfOptions> {
        let options = PbkdfOptions {
            kind: self.kind.map_or(default, PbkdfName::kind),
            memory_kib: self.memory_kib,
            parallel: self.parallel,
            force_iterations: self.force_iterations,
            iter_time: Duration::from_millis(self.iter_time),
        };
        options
            .check()
            .map_err(|error| Error::failure(error.to_string()))?;
        Ok(options)
    }
}

/// `--pbkdf`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PbkdfName {
    /// Memory-hard, against GPUs and against side channels
    Argon2id,
    /// Memory-hard, the variant without data-dependent memory accesses
    Argon2i,
    /// PBKDF2 with SHA-256: needs no memory, and is easier to guess
    Pbkdf2,
}

impl PbkdfName {
    /// As the library names it.
    #[must_use]
    pub fn kind(self) -> PbkdfKind {
        match self {
            Self::Argon2id => PbkdfKind::Argon2id,
            Self::Argon2i => PbkdfKind::Argon2i,
            Self::Pbkdf2 => PbkdfKind::Pbkdf2,
        }
    }
}
