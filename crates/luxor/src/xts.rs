// SPDX-License-Identifier: MIT OR Apache-2.0
//! XTS over data units in memory.

use luxor_engine::{
    CryptError, CryptErrorKind, DataUnitLen, DataUnitNumber, Direction, Executor, InOut, KeySpec,
    LoadedKey, Mode, Run, XtsKey,
};
use luxor_secret::with_key_stack;

use crate::{Context, Engine, Result};

/// An XTS key, loaded into the engine that a [`Context`] asks for. Long calls use all of its
/// threads, which start at the first such call.
///
/// ```
/// use luxor::{Context, Xts};
/// use luxor_engine::Direction;
///
/// # let random_bytes: [u8; 64] = core::array::from_fn(|i| i as u8);
/// let xts = Xts::new(&random_bytes, &Context::default())?;
///
/// // Eight sectors of 512 bytes, numbered from 40.
/// let mut sectors = vec![7; 4096];
/// xts.crypt(Direction::Encrypt, 512, 40_u64.into(), 1, sectors.as_mut_slice())?;
/// assert_ne!(sectors, vec![7; 4096]);
/// # Ok::<(), luxor::Error>(())
/// ```
pub struct Xts {
    key: Box<dyn LoadedKey>,
    executor: Executor,
    engine: Engine,
}

impl Xts {
    /// Loads a key of 32 bytes (XTS-AES-128) or 64 bytes (XTS-AES-256): the data key, then the
    /// tweak key. The caller wipes `key`.
    ///
    /// # Errors
    /// Fails with [`KeyError`](luxor_engine::KeyError) for another length and for equal halves, and
    /// when the engine that `context` names cannot be used.
    pub fn new(key: &[u8], context: &Context) -> Result<Self> {
        let key = KeySpec::Xts(XtsKey::new(key)?);
        let engine = Engine::select(context, Mode::Xts)?;
        Ok(Self {
            key: engine.load(&key)?,
            executor: Executor::new(engine.threads),
            engine,
        })
    }

    /// The name of the engine.
    #[must_use]
    pub fn engine(&self) -> &'static str {
        self.engine.backend.info().name
    }

    /// Whether calls may use a device. Unlike the CPU's engines, a device does not notice that this
    /// process is a fork of the one that loaded the key.
    #[must_use]
    pub fn uses_device(&self) -> bool {
        self.engine.device().is_some()
    }

    /// Encrypts or decrypts `data`, whole data units of `unit` bytes. The first one has the number
    /// `first`, and each following one a number higher by `stride` (modulo 2¹²⁸). `unit` is 16 to
    /// 2²⁴; if it is not a multiple of 16, ciphertext stealing is used. Several threads may call
    /// this at once.
    ///
    /// # Errors
    /// [`CryptErrorKind::UnitLen`] or [`RunError`](luxor_engine::RunError) if `unit` is out of range
    /// or the length of the data is not a multiple of it, before any work. Otherwise
    /// [`CryptError`], which tells how many data units are finished. In place, the others then hold
    /// their original input.
    pub fn crypt<'a>(
        &self,
        direction: Direction,
        unit: usize,
        first: DataUnitNumber,
        stride: u64,
        data: impl Into<InOut<'a>>,
    ) -> Result<()> {
        let mode = Mode::Xts;
        if !mode.accepts_unit_len(unit) {
            let unit_len = unit;
            return Err(CryptError::new(0, CryptErrorKind::UnitLen { mode, unit_len }).into());
        }
        let run = Run::new(first, stride, DataUnitLen::new(unit)?, data)?;
        let mut runs = [run];
        let crypt = || self.executor.crypt(&*self.key, direction, &mut runs);
        Ok(with_key_stack(crypt)?)
    }
}
