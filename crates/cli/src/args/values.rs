// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the values of options are parsed.

use std::ffi::OsStr;

use clap::{
    Arg,
    builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser},
};
use luxor::luks::{Encryption, HashAlgorithm};

/// A number of bytes, with K, M, G or T (or KiB and so on) for powers of 1024.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => Some(0),
        "k" | "kib" => Some(10),
        "m" | "mib" => Some(20),
        "g" | "gib" => Some(30),
        "t" | "tib" => Some(40),
        _ => None,
    };
    // `parse` would accept a sign.
    let number = Some(digits).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let number = number.and_then(|digits| digits.parse::<u64>().ok());
    let (Some(number), Some(shift)) = (number, shift) else {
        return Err("a size is a number of bytes, or a number followed by K, M, G or T".into());
    };
    number
        .checked_mul(1 << shift)
        .filter(|&bytes| i64::try_from(bytes).is_ok())
        .ok_or_else(|| "a size must be below 8 EiB".into())
}

/// `--hash`.
pub(crate) fn hash_name() -> impl TypedValueParser<Value = HashAlgorithm> {
    PossibleValuesParser::new(HashAlgorithm::ALL.map(HashAlgorithm::name))
        .map(|name| HashAlgorithm::by_name(&name).expect("the parser accepts only these names"))
}

/// The name of a cipher.
pub(crate) fn encryption(name: &str) -> Result<Encryption, String> {
    Encryption::by_name(name).ok_or_else(|| {
        format!(
            "this version supports {}",
            Encryption::ALL.map(Encryption::name).join(", ")
        )
    })
}

/// The number of a file descriptor.
pub(crate) fn descriptor() -> impl TypedValueParser<Value = i32> {
    clap::value_parser!(i32).range(0..)
}

/// Accepts any name, because the code that uses it has the better error message. The list of names
/// is for completions.
#[derive(Clone)]
pub(crate) struct AnyName(pub fn() -> Vec<&'static str>);

impl TypedValueParser for AnyName {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter().map(PossibleValue::new)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_of_1024() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("3k", 3 << 10),
            ("64KiB", 64 << 10),
            ("1M", 1 << 20),
            ("100g", 100 << 30),
            ("2TiB", 2 << 40),
            ("9223372036854775807", i64::MAX as u64),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for bad in [
            "",
            "K",
            "-1",
            "+1",
            "1.5G",
            "1 K",
            "1KB",
            "1P",
            "0x10",
            "8388608T",
            "9223372036854775808",
            "18446744073709551616",
        ] {
            assert!(size(bad).is_err(), "{bad:?}");
        }
    }
}
