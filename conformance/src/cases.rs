// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much of each axis runs.

use std::env;

/// How many cases of an axis run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cases {
    /// All cases.
    All,
    /// A selection for slow backends such as an emulator: some values of each axis, with its edges,
    /// and no call of more than 256 KiB.
    Few,
}

/// Whether the tests run in their long form, as with `cargo xtask test --long`.
pub(crate) fn is_long() -> bool {
    env::var_os("LUXOR_TEST_LONG").is_some()
}

impl Cases {
    /// All cases if `LUXOR_TEST_LONG` is set, otherwise a few. For a backend that needs a minute for
    /// all of them.
    #[must_use]
    pub fn few_unless_long() -> Self {
        if is_long() { Self::All } else { Self::Few }
    }

    pub(crate) fn pick<T>(self, all: T, few: T) -> T {
        match self {
            Self::All => all,
            Self::Few => few,
        }
    }

    /// All values, or with [`Cases::Few`] the first of each group of `every`.
    pub(crate) fn of<T>(
        self,
        all: impl IntoIterator<Item = T>,
        every: usize,
    ) -> impl Iterator<Item = T> {
        all.into_iter().step_by(self.pick(1, every))
    }
}
