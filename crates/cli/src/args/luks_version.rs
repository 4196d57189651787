// SPDX-License-Identifier: MIT OR Apache-2.0
//! The versions of LUKS, by the names of `--type` and `--require-type`.

use clap::ValueEnum;
use luxor::luks::LuksVersion;

/// `--type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum VolumeType {
    /// LUKS1
    Luks1,
    /// LUKS2
    #[default]
    Luks2,
}

impl VolumeType {
    /// Returns the library's name for it.
    #[must_use]
    pub(crate) fn version(self) -> LuksVersion {
        match self {
            Self::Luks1 => LuksVersion::Luks1,
            Self::Luks2 => LuksVersion::Luks2,
        }
    }
}

/// `--require-type`, and `is-luks --type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum AnyLuks {
    /// Both
    #[default]
    Luks,
    /// LUKS1
    Luks1,
    /// LUKS2
    Luks2,
}

impl AnyLuks {
    /// Returns the version that a volume must have, or `None` if any will do.
    #[must_use]
    pub(crate) fn version(self) -> Option<LuksVersion> {
        match self {
            Self::Luks => None,
            Self::Luks1 => Some(LuksVersion::Luks1),
            Self::Luks2 => Some(LuksVersion::Luks2),
        }
    }
}
