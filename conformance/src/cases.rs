// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much of each axis runs.

use std::env;

/// How many cases of an axis run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cases {
    /// All cases.
    All,
    /// As [`Cases::All`], but with fewer places and less data in the axes about them. For a backend
    /// to which the place of the data does not matter, and which has no special way for large runs.
    Plain,
    /// A selection for slow backends such as an emulator: some values of each axis, with its edges,
    /// and no call of more than 256 KiB, or 1 MiB for keys that take parts of units.
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

    /// A few cases if `LUXOR_TEST_FEW` is set, otherwise all.
    #[must_use]
    pub fn all_unless_few() -> Self {
        if env::var_os("LUXOR_TEST_FEW").is_some() {
            Self::Few
        } else {
            Self::All
        }
    }

    /// All cases if `LUXOR_TEST_LONG` is set, otherwise [`Cases::Plain`].
    #[must_use]
    pub fn plain_unless_long() -> Self {
        if is_long() { Self::All } else { Self::Plain }
    }

    pub(crate) fn pick<T>(self, all: T, few: T) -> T {
        match self {
            Self::All | Self::Plain => all,
            Self::Few => few,
        }
    }

    /// As [`Cases::pick`], with a value of its own for [`Cases::Plain`].
    pub(crate) fn pick_of_three<T>(self, all: T, plain: T, few: T) -> T {
        match self {
            Self::All => all,
            Self::Plain => plain,
            Self::Few => few,
        }
    }

    /// All values, or with [`Cases::Few`] the first of each group of `every`.
    pub(crate) fn sample<T>(
        self,
        all: impl IntoIterator<Item = T>,
        every: usize,
    ) -> impl Iterator<Item = T> {
        all.into_iter().step_by(self.pick(1, every))
    }
}
