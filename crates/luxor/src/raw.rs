// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encrypts or decrypts a file or a stream with a bare mode.

use luxor_engine::{DataUnitLen, DataUnitNumber, Direction, KeySpec, Mode};
use luxor_files::{Input, Output, path_name};
use luxor_sector::{RawCipher, RawError};

use crate::{
    Context, Engine, Error, Result,
    error::Cause,
    output::{begin, warn_of_growth, write_error},
};

/// The options of [`crypt_raw`].
#[derive(Clone, Copy, Debug)]
pub struct RawOptions {
    /// The mode of operation.
    pub mode: Mode,
    /// Whether to encrypt or decrypt.
    pub direction: Direction,
    /// XTS: the length of a data unit. With `None` all bytes are one unit of up to 16 MiB. Must be
    /// `None` in other modes.
    pub data_unit: Option<DataUnitLen>,
    /// XTS: the number of the first data unit. CTR: the first counter block, OFB and its variants:
    /// the IV, both as a big-endian integer. ECB ignores it.
    pub first: DataUnitNumber,
    /// XTS: the step from the number of one data unit to the next. Other modes ignore it.
    pub stride: u64,
}

/// Why a bare mode is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BareModeError {
    /// The key is for another mode.
    #[error("the key is for {found}, not for {wanted}")]
    OtherKey {
        /// The mode of the key.
        found: Mode,
        /// The mode that was asked for.
        wanted: Mode,
    },
    /// Only XTS has data units.
    #[error("{mode} has no data units")]
    NoDataUnits {
        /// The mode.
        mode: Mode,
    },
}

impl Cause for BareModeError {}

/// Encrypts or decrypts `input` with a bare mode. `key`, which returns a key for that mode, is
/// called after an engine has been chosen. The output is as long as the input.
///
/// XTS needs at least 16 bytes in its last data unit, and ECB a multiple of 16 bytes. The other
/// modes accept any length.
///
/// # Errors
/// Fails when the key has another mode, when a mode other than XTS gets a length of data units,
/// when the length of the input does not suit the mode, and when a file or the engine cannot be
/// used. No output file appears then, but a device or pipe may have received a part.
pub fn crypt_raw(
    input: &mut Input,
    mut output: Output,
    key: impl FnOnce() -> Result<KeySpec>,
    options: &RawOptions,
    context: &Context,
) -> Result<()> {
    let engine = Engine::select(context, options.mode)?;
    let key = key()?;
    if key.mode() != options.mode {
        let (found, wanted) = (key.mode(), options.mode);
        return Err(BareModeError::OtherKey { found, wanted }.into());
    }
    if options.data_unit.is_some() && options.mode != Mode::Xts {
        let mode = options.mode;
        return Err(BareModeError::NoDataUnits { mode }.into());
    }
    let loaded = engine.load(&key)?;
    let cipher = RawCipher {
        mode: options.mode,
        key: &*loaded,
        backend: engine.device(),
        threads: engine.threads,
        direction: options.direction,
        data_unit: options.data_unit,
        first: options.first,
        stride: options.stride,
    };
    cipher.check(input.len())?;
    begin(&mut output, 0, input.len(), context)?;
    let what = match options.direction {
        Direction::Encrypt => "Encrypting",
        Direction::Decrypt => "Decrypting",
    };
    let path = path_name(input.path());
    let progress = context.events.bytes(what, path, input.len());
    let (input_name, total) = (input.name(), input.len());
    cipher
        .run(input.source(), &mut output, &|done| progress.at(done))
        .map_err(|error| match &error {
            RawError::Read { source, .. } => Error::io(format!("cannot read {input_name}"), source),
            RawError::Write { source, .. } => write_error(source, &output, total),
            _ => error.into(),
        })?;
    drop(progress);
    warn_of_growth(input, context);
    output.finish()?;
    Ok(())
}
