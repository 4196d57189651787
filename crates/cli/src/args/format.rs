// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--type`, and the options that a format brings.

use std::{ffi::OsStr, sync::Arc};

use clap::{
    Arg, Args,
    builder::{PossibleValue, StringValueParser, TypedValueParser},
    error::ErrorKind,
};
use luxor::{
    AUTO, FORMATS, PlainVolume, format_by_name, luks::Encryption, sector::SectorSize,
    volume::Format,
};

use super::values::encryption;
use crate::error::{Error, Result};

/// The format of a volume.
#[derive(Args, Clone, Debug)]
pub(crate) struct TypeArgs {
    /// Format of the volume: auto (what the file has), luks, luks1, luks2 or plain (no header)
    #[arg(long = "type", value_name = "TYPE", value_parser = FormatName, default_value = AUTO)]
    #[arg(hide_possible_values = true, hide_default_value = true)]
    pub kind: &'static str,

    /// What the header of a plain volume would say. Last, since its heading goes on.
    #[command(flatten)]
    pub plain: PlainArgs,
}

impl TypeArgs {
    /// Returns the format with the values of its options.
    ///
    /// # Errors
    /// Fails when an option is not for this format.
    pub(crate) fn format(&self) -> Result<Arc<dyn Format>> {
        if self.kind == PlainVolume::DEFAULT.name() {
            return Ok(Arc::new(self.plain.volume()?));
        }
        if let Some(option) = self.plain.given() {
            return Err(Error::failure(format!(
                "{option} is only for --type plain: a LUKS volume has this value in its header"
            )));
        }
        let unknown = || Error::failure(format!("there is no format {}", self.kind));
        format_by_name(self.kind).ok_or_else(unknown)
    }
}

/// The name of a format of the library's table.
#[derive(Clone)]
struct FormatName;

impl TypedValueParser for FormatName {
    type Value = &'static str;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<&'static str, clap::Error> {
        let name = StringValueParser::new().parse_ref(command, argument, value)?;
        let mut names = names().map(|(name, _)| name);
        names.find(|known| *known == name).ok_or_else(|| {
            let known: Vec<_> = self::names().map(|(name, _)| name).collect();
            let message = format!("--type {name}: the formats are {}\n", known.join(", "));
            clap::Error::raw(ErrorKind::InvalidValue, message)
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let values = names().map(|(name, summary)| PossibleValue::new(name).help(summary));
        Some(Box::new(values))
    }
}

/// The names of the formats, with what they are.
fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    let formats = FORMATS.iter();
    [(AUTO, "The format whose signature the file has")]
        .into_iter()
        .chain(formats.map(|format| (format.name(), format.summary())))
}

/// What nothing but the command line says of a plain volume.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Plain volumes (--type plain)")]
pub(crate) struct PlainArgs {
    /// The cipher of the data (default: aes-xts-plain64)
    ///
    /// One of aes-xts-plain64, aes-xts-plain, aes-cbc-essiv:sha256, aes-cbc-plain64,
    /// aes-cbc-plain, or another name that means the same to dm-crypt, such as
    /// capi:xts(aes)-plain64.
    #[arg(long, value_name = "NAME", value_parser = encryption)]
    pub cipher: Option<Encryption>,

    /// The length of the key in bits (default: 256, as in cryptsetup)
    ///
    /// The first bits of the key file are the key, the rest is ignored. 256 bits are AES-128
    /// in XTS, which needs two keys, and AES-256 in CBC.
    #[arg(long, value_name = "BITS")]
    pub key_size: Option<u32>,

    /// Where the data begin in VOLUME, in units of 512 bytes (default: 0)
    #[arg(long, value_name = "UNITS")]
    pub offset: Option<u64>,

    /// The IV of the first sector, in units of 512 bytes (default: 0)
    #[arg(long, value_name = "UNITS")]
    pub skip: Option<u64>,

    /// The length of the data, in units of 512 bytes (default: to the end of VOLUME)
    #[arg(long, value_name = "UNITS")]
    pub size: Option<u64>,

    /// The sector size in bytes: 512, 1024, 2048 or 4096 (default: 512)
    #[arg(long, value_name = "BYTES")]
    pub sector_size: Option<u32>,

    /// Count IVs in sectors of --sector-size, not in units of 512 bytes
    #[arg(long)]
    pub iv_large_sectors: bool,
}

impl PlainArgs {
    /// Takes the values from the options, or the defaults.
    fn volume(&self) -> Result<PlainVolume> {
        let default = PlainVolume::DEFAULT;
        let sector_size = match self.sector_size {
            None => default.sector_size,
            Some(bytes) => SectorSize::try_from(bytes)
                .map_err(|error| Error::failure(format!("--sector-size: {error}")))?,
        };
        Ok(PlainVolume {
            encryption: self.cipher.unwrap_or(default.encryption),
            key_bits: self.key_size.unwrap_or(default.key_bits),
            offset: self.offset.unwrap_or(default.offset),
            size: self.size,
            skip: self.skip.unwrap_or(default.skip),
            sector_size,
            iv_large_sectors: self.iv_large_sectors,
        })
    }

    /// Returns the name of an option that was given, or `None`.
    fn given(&self) -> Option<&'static str> {
        [
            ("--cipher", self.cipher.is_some()),
            ("--key-size", self.key_size.is_some()),
            ("--offset", self.offset.is_some()),
            ("--skip", self.skip.is_some()),
            ("--size", self.size.is_some()),
            ("--sector-size", self.sector_size.is_some()),
            ("--iv-large-sectors", self.iv_large_sectors),
        ]
        .into_iter()
        .find_map(|(name, given)| given.then_some(name))
    }
}
