// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operations that are timed: a cipher with its key, for one direction.

use std::sync::Arc;

use luxor_engine::{DataUnitLen, DataUnitNumber, Direction, Executor, InOut, LoadedKey, Run};

/// A cipher that is ready for calls.
pub(crate) trait Cipher {
    /// Processes data units of `unit` bytes, numbered from `first`, in one call.
    ///
    /// XTS uses the number as in IEEE 1619, CTR uses it as the first counter block, and ECB ignores
    /// it. `bytes` must consist of whole data units.
    fn crypt(&mut self, first: u64, unit: usize, bytes: InOut<'_>) -> Result<(), String>;
}

/// A message that is processed piece by piece.
pub(crate) trait Stream {
    /// Processes the next bytes of the message.
    fn crypt(&mut self, bytes: InOut<'_>) -> Result<(), String>;
}

/// A kernel, through the interface that programs use.
pub(crate) struct Luxor {
    pub(crate) key: Box<dyn LoadedKey>,
    pub(crate) direction: Direction,
    pub(crate) executor: Arc<Executor>,
}

impl Cipher for Luxor {
    fn crypt(&mut self, first: u64, unit: usize, bytes: InOut<'_>) -> Result<(), String> {
        let unit = DataUnitLen::new(unit).map_err(|e| e.to_string())?;
        let run =
            Run::new(DataUnitNumber::from(first), 1, unit, bytes).map_err(|e| e.to_string())?;
        self.executor
            .crypt(&*self.key, self.direction, &mut [run])
            .map_err(|e| e.to_string())
    }
}

/// Processes one run of data units of `unit` bytes, numbered from `first`.
pub(crate) fn crypt(
    key: &dyn LoadedKey,
    direction: Direction,
    first: impl Into<DataUnitNumber>,
    unit: usize,
    bytes: InOut<'_>,
) -> Result<(), String> {
    let unit = DataUnitLen::new(unit).map_err(|e| e.to_string())?;
    let run = Run::new(first.into(), 1, unit, bytes).map_err(|e| e.to_string())?;
    key.crypt(direction, &mut [run]).map_err(|e| e.to_string())
}

/// Returns the direction's name in the JSON.
pub(crate) fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Encrypt => "encrypt",
        Direction::Decrypt => "decrypt",
    }
}
