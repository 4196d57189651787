// SPDX-License-Identifier: MIT OR Apache-2.0
//! The versions of LUKS.

use std::fmt;

use luxor_volume::PbkdfKind;

/// A version of LUKS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LuksVersion {
    /// LUKS1, for programs that support no other.
    Luks1,
    /// LUKS2, the default.
    #[default]
    Luks2,
}

impl fmt::Display for LuksVersion {
    /// Prints `LUKS1` or `LUKS2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl LuksVersion {
    /// Its name for messages: `LUKS1` or `LUKS2`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Luks1 => "LUKS1",
            Self::Luks2 => "LUKS2",
        }
    }

    /// The greatest number of keyslots.
    #[must_use]
    pub fn max_keyslots(self) -> u32 {
        match self {
            Self::Luks1 => 8,
            Self::Luks2 => 32,
        }
    }

    /// cryptsetup's default key derivation for this version.
    #[must_use]
    pub fn default_pbkdf(self) -> PbkdfKind {
        match self {
            Self::Luks1 => PbkdfKind::Pbkdf2,
            Self::Luks2 => PbkdfKind::Argon2id,
        }
    }
}
