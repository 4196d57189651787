// SPDX-License-Identifier: MIT OR Apache-2.0
//! State spaces (the manual, 5.1).

use std::fmt;

/// A state space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Space {
    /// Any of the others, depending on the address.
    Generic,
    /// `.global`: buffers and variables.
    Global,
    /// `.const`.
    Const,
    /// `.shared`, of a block.
    Shared,
    /// `.local`, of a thread.
    Local,
    /// `.param`, of a kernel.
    Param,
}

impl Space {
    /// Returns the first generic address of the space's window. Global memory's is 0.
    pub(crate) const fn window(self) -> u64 {
        let number = match self {
            Self::Generic | Self::Global => 0,
            Self::Const => 1,
            Self::Shared => 2,
            Self::Local => 3,
            Self::Param => 4,
        };
        number << 60
    }

    /// Splits a generic address into the space and the address in it.
    pub(crate) const fn of_generic(address: u64) -> (Self, u64) {
        let space = match address >> 60 {
            1 => Self::Const,
            2 => Self::Shared,
            3 => Self::Local,
            4 => Self::Param,
            _ => Self::Global,
        };
        (space, address - space.window())
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Generic => "generic",
            Self::Global => "global",
            Self::Const => "const",
            Self::Shared => "shared",
            Self::Local => "local",
            Self::Param => "param",
        })
    }
}
