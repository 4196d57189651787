// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much of each axis runs.

/// How many cases of an axis run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cases {
    /// All cases.
    All,
    /// A selection for slow backends such as an emulator: some values of each axis, with its edges,
    /// and no call of more than 256 KiB.
    Few,
}

impl Cases {
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
