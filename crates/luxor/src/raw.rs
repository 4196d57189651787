// SPDX-License-Identifier: MIT OR Apache-2.0
//! A bare mode over a file or a stream.

use luxor_engine::{DataUnitLen, DataUnitNumber, Direction, KeySpec};
use luxor_files::{Input, Output, path_name};
use luxor_sector::{RawCipher, RawError};

use crate::{Context, Engine, Error, ErrorClass, Result};

/// What to do with the bytes.
#[derive(Clone, Copy, Debug)]
pub struct RawOptions {
    /// Which way.
    pub direction: Direction,
    /// XTS: the length of a data unit; `None` for one unit of all bytes, up to 16 MiB.
    pub data_unit: Option<DataUnitLen>,
    /// XTS: the number of the first data unit. CTR: the first counter. In output feedback: the IV.
    pub first: DataUnitNumber,
    /// XTS: the step of the number from one data unit to the next.
    pub stride: u64,
}

/// Encrypts or decrypts `input` with the mode that `key` is for.
///
/// # Errors
/// When the length does not fit the mode, and when a file or the engine is not usable. Nothing is
/// left of the output then.
pub fn crypt_raw(
    input: &mut Input,
    mut output: Output,
    key: &KeySpec,
    options: &RawOptions,
    context: &Context,
) -> Result<()> {
    let engine = Engine::select(context, key.mode())?;
    let loaded = engine.load(key)?;
    let cipher = RawCipher {
        mode: key.mode(),
        key: &*loaded,
        backend: engine.device(),
        threads: engine.threads,
        direction: options.direction,
        data_unit: options.data_unit,
        first: options.first,
        stride: options.stride,
    };
    cipher
        .check(input.len())
        .map_err(|error| Error::failure(error.to_string()))?;
    output.begin(0, input.len())?;
    let what = match options.direction {
        Direction::Encrypt => "Encrypting",
        Direction::Decrypt => "Decrypting",
    };
    let path = path_name(input.path());
    let progress = context.events.bytes(what, path, input.len());
    let (input_name, output_name) = (input.name(), output.name());
    cipher
        .run(input.source(), &mut output, &|done| progress.at(done))
        .map_err(|error| match &error {
            RawError::Read { source, .. } => Error::io(format!("cannot read {input_name}"), source),
            RawError::Write { source, .. } => {
                Error::io(format!("cannot write {output_name}"), source)
            }
            RawError::Memory { .. } => Error::new(ErrorClass::OutOfMemory, error.to_string()),
            _ => Error::failure(error.to_string()),
        })?;
    drop(progress);
    output.finish()?;
    Ok(())
}
