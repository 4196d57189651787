// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor raw`.

use std::path::Path;

use luxor::{Engine, create_output};
use luxor_engine::{
    AesKey, Construction, DataUnitLen, DataUnitNumber, Direction, KeyError, KeySpec, Mode,
    ParallelOfbKey, SecretBytes, TweakSchedule, XtsKey,
};
use luxor_files::{Input, OutputOptions, Role, path_name};
use luxor_sector::{RawCipher, RawError};

use crate::{
    args::{RawArgs, RawDirection, RawMode, RawTweaks},
    context::Context,
    error::{Error, ErrorClass, Result},
    secrets::SecretSource,
};

/// Encrypts or decrypts with a bare mode.
///
/// # Errors
/// When the options do not fit together, and when a file, the key or the
/// length is not usable.
pub(crate) fn run(args: &RawArgs, context: &Context) -> Result<()> {
    let parameters = Parameters::of(args, context)?;
    let engine = Engine::select(&context.library, parameters.mode)?;
    let mut input = Input::open(&args.input, Role::Data)?;
    let secret = SecretSource::new(context, &[("INPUT", &args.input)])?;
    let options = OutputOptions {
        force: args.force,
        known_input: Some(&input),
        needed: &[("the key file", context.options.key_file.as_deref())],
        ..Default::default()
    };
    let mut output = create_output(&args.output, &options, &context.library)?;
    let key = parameters.key(
        &secret.existing(&args.input)?,
        context.options.key_file.as_deref(),
    )?;
    let key = engine.load(&key)?;

    let cipher = RawCipher {
        mode: parameters.mode,
        key: &*key,
        backend: engine.device(),
        threads: engine.threads,
        direction: parameters.direction,
        data_unit: parameters.data_unit,
        first: parameters.first,
        stride: parameters.stride,
    };
    cipher
        .check(input.len())
        .map_err(|error| Error::failure(error.to_string()))?;
    output.begin(0, input.len())?;
    let what = match parameters.direction {
        Direction::Encrypt => "Encrypting",
        Direction::Decrypt => "Decrypting",
    };
    let progress = context
        .library
        .events
        .bytes(what, path_name(&args.input), input.len());
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

/// The modes that have an IV or a first counter.
const WITH_IV: &[Mode] = &[Mode::Ctr, Mode::Ofb, Mode::OfbXex, Mode::OfbXe];

/// What the options mean together.
struct Parameters {
    mode: Mode,
    direction: Direction,
    data_unit: Option<DataUnitLen>,
    first: DataUnitNumber,
    stride: u64,
    tweaks: TweakSchedule,
}

impl Parameters {
    fn of(args: &RawArgs, context: &Context) -> Result<Self> {
        let mode = match args.mode {
            RawMode::Xts => Mode::Xts,
            RawMode::Ctr => Mode::Ctr,
            RawMode::Ofb => Mode::Ofb,
            RawMode::OfbXex => Mode::OfbXex,
            RawMode::OfbXe => Mode::OfbXe,
            RawMode::Ecb => Mode::Ecb,
        };
        let options: [(_, _, &[Mode]); 5] = [
            ("--data-unit", args.data_unit.is_some(), &[Mode::Xts]),
            ("--number", args.number.is_some(), &[Mode::Xts]),
            ("--stride", args.stride.is_some(), &[Mode::Xts]),
            ("--iv", args.iv.is_some(), WITH_IV),
            (
                "--tweaks",
                args.tweaks.is_some(),
                &[Mode::OfbXex, Mode::OfbXe],
            ),
        ];
        for (option, given, modes) in options {
            if given && !modes.contains(&mode) {
                return Err(Error::failure(format!(
                    "{option} has no meaning for {mode}"
                )));
            }
        }
        if WITH_IV.contains(&mode) && args.iv.is_none() {
            return Err(Error::failure(format!(
                "{mode} needs --iv with 32 hexadecimal digits"
            )));
        }
        if context.options.key_file.is_none() {
            return Err(Error::failure(
                "raw needs --key-file: the key itself, not a passphrase",
            ));
        }
        Ok(Self {
            mode,
            direction: match args.direction {
                RawDirection::Encrypt => Direction::Encrypt,
                RawDirection::Decrypt => Direction::Decrypt,
            },
            data_unit: args.data_unit.map(data_unit).transpose()?,
            first: DataUnitNumber::new(args.number.or(args.iv).unwrap_or(0)),
            stride: u64::try_from(args.stride.unwrap_or(1))
                .map_err(|_| Error::failure("--stride must be below 2^64"))?,
            tweaks: match args.tweaks {
                None | Some(RawTweaks::Alpha) => TweakSchedule::Alpha,
                Some(RawTweaks::Printed) => TweakSchedule::Printed,
            },
        })
    }

    fn key(&self, bytes: &SecretBytes, path: Option<&Path>) -> Result<KeySpec> {
        let bytes = bytes.expose();
        let parallel = |construction| {
            ParallelOfbKey::new(bytes, construction, self.tweaks).map(KeySpec::ParallelOfb)
        };
        let key = match self.mode {
            Mode::Xts => XtsKey::new(bytes).map(KeySpec::Xts),
            Mode::Ctr => AesKey::new(bytes).map(KeySpec::Ctr),
            Mode::Ofb => AesKey::new(bytes).map(KeySpec::Ofb),
            Mode::OfbXex => parallel(Construction::Xex),
            Mode::OfbXe => parallel(Construction::Xe),
            _ => AesKey::new(bytes).map(KeySpec::Ecb),
        };
        let path = path.map(path_name).unwrap_or_default();
        key.map_err(|error| match error {
            KeyError::Length { found, expected } => {
                let error = Error::failure(format!(
                    "the key file {path} gives {found} bytes, and {} needs {expected}",
                    self.mode
                ));
                match self.mode {
                    Mode::OfbXex | Mode::OfbXe => {
                        error.hint("That is the key of each of the two chains, 16 bytes each.")
                    }
                    _ => error,
                }
            }
            error => Error::failure(format!("the key file {path}: {error}")),
        })
    }
}

fn data_unit(bytes: u128) -> Result<DataUnitLen> {
    let len = usize::try_from(bytes)
        .ok()
        .filter(|len| *len >= 16)
        .map(DataUnitLen::new);
    match len {
        Some(Ok(len)) => Ok(len),
        Some(Err(_)) => Err(Error::failure(
            "--data-unit is above 16777216 bytes (2^20 blocks, the limit of IEEE 1619 and SP 800-38E)",
        )),
        None => Err(Error::failure(
            "--data-unit must be at least 16 and at most 16777216 bytes",
        )),
    }
}
