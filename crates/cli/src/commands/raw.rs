// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor raw`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum, ValueHint};
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
    args::General,
    commands::{Subcommand, Taken, is_stdout},
    context::Context,
    error::{Error, Result},
    secrets::{SecretSource, Wanted},
};

/// Encrypt or decrypt bytes with a bare AES mode: no header, no passphrase
///
/// For test vectors, other formats and measurements. To protect a file, use `luxor
/// encrypt`.
///
/// The key file contains the key itself: 16, 24 or 32 bytes; for xts the data key and then the
/// tweak key (32 or 64 bytes); for ofb-xex and ofb-xe the keys of both chains (32 bytes).
///
/// ofb-xex and ofb-xe are research: parallel tweakable OFB (Damjanović and Simić, 2015),
/// with no security analysis beyond its authors'. None of these modes authenticates.
///
/// A length that the mode cannot process is refused before any output. The length of a pipe
/// is known only at its end: then an output file does not appear, and an output pipe may have
/// received all but the last 4 MiB.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor raw encrypt --mode xts --key-file k64 --data-unit 4096 --stride 8 disk.img disk.xts
  luxor raw decrypt --mode ctr --key-file k32 --iv 000102030405060708090a0b0c0d0e0f in out
  luxor raw encrypt --mode ofb-xex --key-file k32 --iv 101112131415161718191a1b1c1d1e1f in out")]
pub(crate) struct RawArgs {
    /// The direction
    #[arg(value_enum)]
    pub direction: RawDirection,

    /// The file to read; `-` is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub input: PathBuf,

    /// The file to create; `-` is standard output
    #[arg(value_hint = ValueHint::FilePath)]
    pub output: PathBuf,

    /// The mode of operation
    #[arg(long, value_enum)]
    pub mode: RawMode,

    /// xts: the length of a data unit (default: all of INPUT, up to 16777216)
    #[arg(long, value_name = "BYTES", value_parser = number)]
    pub data_unit: Option<u128>,

    /// xts: the number of the first data unit, decimal or 0x…, below 2^128 (default: 0)
    #[arg(long, value_name = "N", value_parser = number)]
    pub number: Option<u128>,

    /// xts: the step of the number per data unit, decimal or 0x…, below 2^64 (default: 1)
    #[arg(long, value_name = "N", value_parser = number)]
    pub stride: Option<u128>,

    /// ctr, ofb, ofb-xex, ofb-xe: the first counter block or the IV, 32 hexadecimal digits;
    /// never use one twice with the same key
    #[arg(long, value_name = "HEX32", value_parser = iv)]
    pub iv: Option<u128>,

    /// ofb-xex, ofb-xe: how each tweak follows from the previous one (default: alpha)
    #[arg(long, value_enum)]
    pub tweaks: Option<RawTweaks>,

    /// Replace OUTPUT if it exists; required to write to a block device
    #[arg(long)]
    pub force: bool,
}

/// The way of `raw`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RawDirection {
    /// Plaintext to ciphertext
    Encrypt,
    /// Ciphertext to plaintext
    Decrypt,
}

/// `raw --mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RawMode {
    /// IEEE 1619, with ciphertext stealing
    Xts,
    /// SP 800-38A, a 128-bit big-endian counter
    Ctr,
    /// SP 800-38A, output feedback
    Ofb,
    /// Research: two chains of tweakable OFB, merged; XEX (Damjanović and Simić, 2015)
    OfbXex,
    /// The same with XE
    OfbXe,
    /// SP 800-38A, electronic codebook: each block by itself
    Ecb,
}

/// `raw --tweaks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RawTweaks {
    /// α times the previous tweak, as in the paper's text and in XTS
    Alpha,
    /// α^i times the previous tweak, as in the paper's listings
    Printed,
}

/// Parses a number below 2¹²⁸, decimal or hexadecimal with `0x`.
fn number(text: &str) -> Result<u128, String> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        // `from_str_radix` would accept a sign.
        Some(hex) if hex.starts_with('+') => None,
        Some(hex) => u128::from_str_radix(hex, 16).ok(),
        None if text.starts_with('+') => None,
        None => text.parse().ok(),
    };
    parsed.ok_or_else(|| "neither a decimal nor a 0x… number below 2^128".into())
}

/// Parses 16 bytes in hexadecimal as a big-endian number.
fn iv(text: &str) -> Result<u128, String> {
    if text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return u128::from_str_radix(text, 16).map_err(|e| e.to_string());
    }
    Err("an IV has exactly 32 hexadecimal digits".into())
}

impl Subcommand for RawArgs {
    const NAME: &str = "raw";
    const TAKES: Taken = Taken::Options(&[
        General::Key,
        General::Engine,
        General::Threads,
        General::Locks,
        General::Progress,
        General::Talk,
    ]);

    /// Encrypts or decrypts with a bare mode.
    ///
    /// # Errors
    /// Fails when the options contradict each other, and when a file, the key or the length cannot be
    /// used.
    fn run(&self, context: &Context) -> Result<()> {
        let parameters = Parameters::from_args(self, context)?;
        let mut input = Input::open(&self.input, Role::Data)?;
        let secret = SecretSource::new(context, &[("INPUT", &self.input)])?;
        let options = OutputOptions {
            force: self.force,
            known_input: Some(&input),
            needed: &[("the key file", context.options.key_file.as_deref())],
            ..Default::default()
        };
        let output = create_output(&self.output, &options, &context.library)?;
        let key = || {
            let secret = secret.existing(&self.input, Wanted::Any)?;
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

    fn output_is_stdout(&self) -> bool {
        is_stdout(&self.output)
    }
}

/// The modes with an IV or a first counter.
const WITH_IV: &[Mode] = &[Mode::Ctr, Mode::Ofb, Mode::OfbXex, Mode::OfbXe];

/// The combined meaning of the options.
struct Parameters {
    tweaks: TweakSchedule,
    options: RawOptions,
}

impl Parameters {
    fn from_args(args: &RawArgs, context: &Context) -> Result<Self> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_to_2_to_the_128_minus_1() {
        assert_eq!(
            number("340282366920938463463374607431768211455"),
            Ok(u128::MAX)
        );
        assert_eq!(number("0xffffffffffffffffffffffffffffffff"), Ok(u128::MAX));
        assert_eq!(number("0X10"), Ok(16));
        for bad in [
            "340282366920938463463374607431768211456",
            "0x100000000000000000000000000000000",
            "-1",
            "+1",
            "0x+1",
            "0x",
            "",
            "1e3",
            " 1",
        ] {
            assert!(number(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_iv_is_16_bytes_big_endian() {
        assert_eq!(iv("000000000000000000000000000000ff"), Ok(255));
        for bad in [
            "",
            "ff",
            "+0000000000000000000000000000000f",
            "0x0000000000000000000000000000ff",
        ] {
            assert!(iv(bad).is_err(), "{bad:?}");
        }
    }
}
