// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other implementations of the same modes, at their best.

use luxor_engine::{Direction, Mode};
use serde::Serialize;

use crate::cipher::Cipher;

/// Another implementation.
pub(crate) trait Rival {
    /// What it is.
    fn about(&self) -> &About;

    /// Its cipher for a key; none if it has no such mode.
    fn cipher(
        &self,
        mode: Mode,
        direction: Direction,
        key: &[u8],
    ) -> Option<Result<Box<dyn Cipher>, String>>;
}

/// What a rival is.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct About {
    pub(crate) name: String,
    /// As the library tells it.
    pub(crate) version: String,
    /// The code that runs on this machine, and how that is known.
    pub(crate) path: String,
    /// Whether that code uses AES instructions.
    #[serde(skip)]
    pub(crate) hardware: bool,
}

/// All that this program was built with.
pub(crate) fn all() -> Vec<Box<dyn Rival>> {
    Vec::new()
}
