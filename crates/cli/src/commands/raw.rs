// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor raw`.

use std::path::Path;

use luxor::{
    RawOptions, create_output, crypt_raw,
    engine::{
        AesKey, Construction, DataUnitLen, DataUnitNumber, Direction, KeyError, KeySpec, Mode,
        ParallelOfbKey, TweakSchedule, XtsKey,
    },
    files::{Input, OutputOptions, Role, path_name},
    secret::SecretBytes,
};

use crate::{
    args::{RawArgs, RawDirection, RawMode, RawTweaks},
    context::Context,
    error::{Error, Result},
    secrets::SecretSource,
};

/// Encrypts or decrypts with a bare mode.
///
/// # Errors
/// Fails when the options contradict each other, and when a file, the key or the length cannot be
/// used.
pub(crate) fn run(args: &RawArgs, context: &Context) -> Result<()> {
    let parameters = Parameters::of(args, context)?;
    let mut input = Input::open(&args.input, Role::Data)?;
    let secret = SecretSource::new(context, &[("INPUT", &args.input)])?;
    let options = OutputOptions {
        force: args.force,
        known_input: Some(&input),
        needed: &[("the key file", context.options.key_file.as_deref())],
        ..Default::default()
    };
    let output = create_output(&args.output, &options, &context.library)?;
    let key = || {
        let secret = secret.existing(&args.input, None)?;
        parameters.key(&secret, context.options.key_file.as_deref())
    };
    crypt_raw(
        &mut input,
        output,
        key,
        &parameters.options,
        &context.library,
    )
}

/// The modes with an IV or a first counter.
const WITH_IV: &[Mode] = &[Mode::Ctr, Mode::Ofb, Mode::OfbXex, Mode::OfbXe];

/// The combined meaning of the options.
struct Parameters {
    tweaks: TweakSchedule,
    options: RawOptions,
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
                    "{option} cannot be used with {mode}"
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
        let options = RawOptions {
            mode,
            direction: match args.direction {
                RawDirection::Encrypt => Direction::Encrypt,
                RawDirection::Decrypt => Direction::Decrypt,
            },
            data_unit: args.data_unit.map(data_unit).transpose()?,
            first: DataUnitNumber::new(args.number.or(args.iv).unwrap_or(0)),
            stride: u64::try_from(args.stride.unwrap_or(1))
                .map_err(|_| Error::failure("--stride must be below 2^64"))?,
        };
        Ok(Self {
            tweaks: match args.tweaks {
                None | Some(RawTweaks::Alpha) => TweakSchedule::Alpha,
                Some(RawTweaks::Printed) => TweakSchedule::Printed,
            },
            options,
        })
    }

    fn key(&self, bytes: &SecretBytes, path: Option<&Path>) -> Result<KeySpec> {
        let bytes = bytes.expose();
        let parallel = |construction| {
            ParallelOfbKey::new(bytes, construction, self.tweaks).map(KeySpec::ParallelOfb)
        };
        let key = match self.options.mode {
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
                    "the key file {path} provides {found} bytes, but {} needs {expected}",
                    self.options.mode
                ));
                match self.options.mode {
                    Mode::OfbXex | Mode::OfbXe => {
                        error.hint("These are the keys of the two chains, 16 bytes each.")
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
