// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is timed: a cipher with its key, for one direction.

use std::sync::Arc;

use luxor_engine::{DataUnitLen, DataUnitNumber, Direction, Executor, InOut, LoadedKey, Run};

/// A cipher that is ready for calls.
pub(crate) trait Cipher {
    /// One call, over data units of `unit` bytes numbered from `first`.
    ///
    /// XTS takes the number as IEEE 1619 has it, CTR as the first counter block; in
    /// ECB it has no effect. `bytes` are whole data units.
    fn crypt(&mut self, first: u64, unit: usize, bytes: InOut<'_>) -> Result<(), String>;
}

/// A message that is gone on with piece by piece.
pub(crate) trait Stream {
    /// Its next bytes.
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

/// One run of data units of `unit` bytes, numbered from `first`.
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

/// As the JSON has it.
pub(crate) fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Encrypt => "encrypt",
        Direction::Decrypt => "decrypt",
    }
}
