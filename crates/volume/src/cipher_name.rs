// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names that dm-crypt accepts for a cipher, with its mode and its IVs. Many spellings have the
//! same meaning, and volumes exist with each of them.
//!
//! ```text
//! cipher[:keycount]-mode-iv[:options]     aes-xts-plain64; without mode and iv: cbc and plain
//! capi:specification-iv[:options]         capi:xts(aes)-plain64, with the kernel's own names
//! ```
//!
//! dm-crypt ignores the options of `plain` and `plain64`, so `aes-xts-plain64:sha256` is
//! `aes-xts-plain64`. A specification names algorithms, as in `xts(aes)`, or it names the drivers of all
//! its parts, as in `xts(ecb(aes-generic))`: the kernel finds nothing under a mixture of both. Names are
//! in lower case.
//!
//! Source: Linux, `drivers/md/dm-crypt.c` (`crypt_ctr_cipher_old`, `crypt_ctr_cipher_new`,
//! `crypt_ctr_ivmode`) and `crypto/xts.c`. `scripts/try-dm-crypt.sh` compares the names with a kernel.

use std::borrow::Cow;

use crate::{cipher::Encryption, hash::HashAlgorithm};

impl Encryption {
    /// Returns the encryption that dm-crypt uses under this name, in LUKS metadata or on a command
    /// line. `None` if dm-crypt has no such name, or if it means an encryption that this version does
    /// not support.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        // The name is one word of a table in which `\` quotes.
        if !name
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'\\')
        {
            return None;
        }
        match name.strip_prefix("capi:") {
            Some(specification) => parse_capi(specification),
            None => parse_old(name),
        }
    }

    /// Returns the encryption of a keyslot's area with this name in LUKS metadata. cryptsetup accepts
    /// more names for areas than dm-crypt does for data, such as `AES-xts-plain64`.
    #[must_use]
    pub fn of_area_by_name(name: &str) -> Option<Self> {
        let name = without_space(name);
        Self::by_name(&name).or_else(|| parse_of_area(&name))
    }
}

/// Returns the part of an area's name that cryptsetup reads with `sscanf` and the format `%[^-]-%s`, which
/// skips white space after the first hyphen and ends at the next.
fn without_space(name: &str) -> Cow<'_, str> {
    let Some((cipher, rest)) = name.split_once('-') else {
        return name.into();
    };
    let is_space = |c: char| matches!(c, '\t'..='\r' | ' ');
    let rest = rest.trim_start_matches(is_space);
    let end = rest.find(is_space).unwrap_or(rest.len());
    format!("{cipher}-{}", &rest[..end]).into()
}

/// The encryption of a keyslot's area under a name that dm-crypt does not have. cryptsetup decrypts
/// areas itself, where it can. It compares the cipher, `cbc` and the IV without regard to capital
/// letters, and looks up the hash of ESSIV as any other hash.
fn parse_of_area(name: &str) -> Option<Encryption> {
    let (cipher, rest) = name.split_once('-')?;
    let (mode, iv) = rest.split_once('-')?;
    let mode = match mode {
        "xts" => "xts",
        _ if mode.eq_ignore_ascii_case("cbc") => "cbc",
        _ => return None,
    };
    let iv = iv.to_ascii_lowercase();
    let iv = match iv.strip_prefix("essiv:") {
        Some(hash) => format!("essiv:{}", HashAlgorithm::by_name(hash)?),
        None if iv == "plain" || iv == "plain64" => iv,
        None => return None,
    };
    Encryption::by_name(&format!("{}-{mode}-{iv}", cipher.to_ascii_lowercase()))
}

fn parse_old(name: &str) -> Option<Encryption> {
    if name.contains('(') {
        return None;
    }
    let (cipher, rest) = split(name, '-');
    let (cipher, key_count) = split(cipher, ':');
    if key_count.is_some_and(|count| !is_one(count)) {
        return None;
    }
    let (mode, iv) = match rest {
        None | Some("plain") => ("cbc", "plain"),
        Some(rest) => rest.split_once('-')?,
    };
    let (iv, options) = split(iv, ':');
    with_iv(&format!("{mode}({cipher})"), iv, options)
}

fn parse_capi(specification: &str) -> Option<Encryption> {
    // From the end, because the names of drivers contain hyphens.
    let (rest, options) = match specification.rsplit_once(':') {
        Some((rest, options)) => (rest, Some(options)),
        None => (specification, None),
    };
    let (chain, iv) = rest.rsplit_once('-')?;
    with_iv(chain, iv, options)
}

/// Splits `text` at the first `separator`, which may be missing.
fn split(text: &str, separator: char) -> (&str, Option<&str>) {
    match text.split_once(separator) {
        Some((first, rest)) => (first, Some(rest)),
        None => (text, None),
    }
}

/// Whether a count of keys is 1, which is the same as none.
fn is_one(count: &str) -> bool {
    count.bytes().all(|byte| byte.is_ascii_digit()) && count.parse() == Ok(1_u32)
}

/// AES in a mode of operation, as the kernel's cryptography implements it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chain {
    Xts,
    Cbc,
    /// CBC that encrypts its IVs under the SHA-256 of the key.
    EssivCbc,
}

impl Chain {
    /// Returns the chain that the kernel finds under `name`.
    fn by_name(name: &str) -> Option<Self> {
        match name {
            "xts(aes)" => Some(Self::Xts),
            "cbc(aes)" => Some(Self::Cbc),
            "essiv(cbc(aes),sha256)" => Some(Self::EssivCbc),
            _ if is_driver_of_cbc(name) => Some(Self::Cbc),
            _ if is_driver_of_xts(name) => Some(Self::Xts),
            _ => {
                let (cbc, hash) = arguments(name, "essiv")?.rsplit_once(',')?;
                let is_driver = is_driver_of_cbc(cbc) && is_driver_of_sha256(hash);
                is_driver.then_some(Self::EssivCbc)
            }
        }
    }

    fn with_iv(self, iv: &str) -> Option<Encryption> {
        Some(match (self, iv) {
            (Self::Xts, "plain64") => Encryption::AesXtsPlain64,
            (Self::Xts, "plain") => Encryption::AesXtsPlain,
            (Self::Cbc, "plain64") => Encryption::AesCbcPlain64,
            (Self::Cbc, "plain") => Encryption::AesCbcPlain,
            (Self::EssivCbc, "plain64") => Encryption::AesCbcEssivSha256,
            _ => return None,
        })
    }
}

/// Returns the encryption with a chain of this name and these IVs.
fn with_iv(chain: &str, iv: &str, options: Option<&str>) -> Option<Encryption> {
    if iv == "essiv" {
        // dm-crypt makes ESSIV of a part of the chain and 64-bit numbers.
        let chain = format!("essiv({chain},{})", options?);
        return Chain::by_name(&chain)?.with_iv("plain64");
    }
    Chain::by_name(chain)?.with_iv(iv)
}

/// Returns what stands between the parentheses of `template(…)`.
fn arguments<'a>(name: &'a str, template: &str) -> Option<&'a str> {
    let rest = name.strip_prefix(template)?.strip_prefix('(')?;
    rest.strip_suffix(')')
}

/// The names of drivers after `aes-`.
const DRIVERS_OF_AES: [&str; 7] = [
    "generic",
    "fixed-time",
    "aesni",
    "arm",
    "arm64",
    "ce",
    "lib",
];
/// The names of drivers for a mode of AES, after a beginning such as `xts-aes-`.
const DRIVERS_OF_MODES: [&str; 8] = [
    "aesni",
    "aesni-avx",
    "vaes-avx2",
    "vaes-avx10_256",
    "vaes-avx512",
    "ce",
    "neon",
    "neonbs",
];
/// The names of drivers after `sha256-`.
const DRIVERS_OF_SHA256: [&str; 9] = [
    "generic", "ssse3", "avx", "avx2", "ni", "arm64", "neon", "ce", "lib",
];

fn is_driver_of_cbc(name: &str) -> bool {
    is_mode_of_driver(name, "cbc") || is_driver(name, "cbc-aes-", &DRIVERS_OF_MODES)
}

fn is_driver_of_xts(name: &str) -> bool {
    let is_ecb =
        |ecb| is_mode_of_driver(ecb, "ecb") || is_driver(ecb, "ecb-aes-", &DRIVERS_OF_MODES);
    arguments(name, "xts").is_some_and(is_ecb) || is_driver(name, "xts-aes-", &DRIVERS_OF_MODES)
}

fn is_driver_of_sha256(name: &str) -> bool {
    is_driver(name, "sha256-", &DRIVERS_OF_SHA256)
}

/// Whether `name` is the `mode` that the kernel builds of a driver of AES.
fn is_mode_of_driver(name: &str, mode: &str) -> bool {
    arguments(name, mode).is_some_and(|aes| is_driver(aes, "aes-", &DRIVERS_OF_AES))
}

fn is_driver(name: &str, beginning: &str, drivers: &[&str]) -> bool {
    let driver = name.strip_prefix(beginning);
    driver.is_some_and(|driver| drivers.contains(&driver))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names and their meanings are those that `scripts/try-dm-crypt.sh` found with a kernel.
    #[test]
    fn spellings_of_one_encryption_are_that_encryption() {
        let same: [(Encryption, &[&str]); 5] = [
            (
                Encryption::AesXtsPlain64,
                &[
                    "aes-xts-plain64",
                    "aes-xts-plain64:",
                    "aes-xts-plain64:sha256",
                    "aes-xts-plain64:a-b:c",
                    "aes:1-xts-plain64",
                    "aes:01-xts-plain64",
                    "capi:xts(aes)-plain64",
                    "capi:xts(aes)-plain64:sha256",
                    "capi:xts(aes)-plain64:a-b",
                    "capi:xts(ecb(aes-generic))-plain64",
                    "capi:xts(ecb-aes-aesni)-plain64",
                    "capi:xts-aes-aesni-plain64",
                ],
            ),
            (
                Encryption::AesXtsPlain,
                &["aes-xts-plain:x", "capi:xts(aes)-plain"],
            ),
            (
                Encryption::AesCbcPlain,
                &[
                    "aes",
                    "aes-plain",
                    "aes:1",
                    "aes:1-plain",
                    "aes-cbc-plain:x",
                    "capi:cbc(aes)-plain",
                ],
            ),
            (
                Encryption::AesCbcPlain64,
                &[
                    "aes-cbc-plain64:sha256",
                    "capi:cbc(aes)-plain64",
                    "capi:cbc(aes-generic)-plain64",
                    "capi:cbc-aes-aesni-plain64",
                ],
            ),
            (
                Encryption::AesCbcEssivSha256,
                &[
                    "capi:cbc(aes)-essiv:sha256",
                    "capi:cbc-aes-aesni-essiv:sha256-generic",
                    "capi:essiv(cbc(aes),sha256)-plain64",
                    "capi:essiv(cbc(aes),sha256)-plain64:x",
                    "capi:essiv(cbc-aes-aesni,sha256-generic)-plain64",
                ],
            ),
        ];
        for (encryption, names) in same {
            for name in names.iter().chain(&[encryption.name()]) {
                assert_eq!(Encryption::by_name(name), Some(encryption), "{name}");
            }
        }
    }

    /// cryptsetup 2.6.1 opens a keyslot under each of the names, and under none of the others.
    #[test]
    fn areas_have_more_names() {
        for name in [
            "aes-xts-plain64 junk",
            "aes-xts-plain64\n",
            "aes-xts-plain64\u{b}x",
            "AES-xts-PLAIN64\tx y",
            "aes- xts-plain64",
            "aes-\r\nxts-plain64 ",
        ] {
            assert_eq!(
                Encryption::of_area_by_name(name),
                Some(Encryption::AesXtsPlain64),
                "{name:?}"
            );
        }
        for (encryption, names) in [
            (
                Encryption::AesXtsPlain64,
                "AES-xts-plain64 Aes-xts-PLAIN64 aes-xts-Plain64 aes-xts-plain64",
            ),
            (
                Encryption::AesCbcPlain,
                "AES-cbc-plain aes-CBC-plain aes-cbc-PLAIN",
            ),
            (
                Encryption::AesCbcEssivSha256,
                "AES-cbc-essiv:sha256 aes-CBC-essiv:sha256 aes-cbc-ESSIV:sha256 aes-cbc-essiv:SHA-256",
            ),
        ] {
            for name in names.split(' ') {
                assert_eq!(
                    Encryption::of_area_by_name(name),
                    Some(encryption),
                    "{name}"
                );
            }
        }
        for name in [
            " aes-xts-plain64",
            "aes -xts-plain64",
            "aes-xts- plain64",
            "aes-xts -plain64",
            "aes-xts-plain64\u{a0}",
            "aes-XTS-plain64",
            "AES-xts-plain64:x",
            "aes256-xts-plain64",
            "rijndael-xts-plain64",
            "AES-cbc-essiv:sha1",
            "AES-cbc-essiv",
            "AES",
        ] {
            assert_eq!(Encryption::of_area_by_name(name), None, "{name}");
        }
    }

    #[test]
    fn other_names_are_not_supported() {
        for name in [
            "",
            "capi:",
            "capixts(aes)-plain64",
            "capi-xts(aes)-plain64",
            "capi-xts-plain64",
            "AES-XTS-PLAIN64",
            "aes-xts-plain64 ",
            "aes-xts-plain64\\",
            "aes-xts-plain64:(",
            "aes-xts-plain64-",
            "aes-xts-plain64be",
            "aes-xts-essiv:sha256",
            "aes-xts-benbi",
            "aes-xts-null",
            "aes-xts",
            "aes-xts-",
            "aes-",
            "aes-plain:",
            "aes-plain:x",
            "aes-plain-",
            "aes-cbc",
            "aes-cbc-essiv",
            "aes-cbc-essiv:",
            "aes-cbc-essiv:sha1",
            "aes-cbc-essiv:sha256:x",
            "aes-cbc-essiv:sha256-generic",
            "aes:2-xts-plain64",
            "aes:0-xts-plain64",
            "aes:-xts-plain64",
            "aes:1x-xts-plain64",
            "aes:+1-xts-plain64",
            "aes:4294967297-xts-plain64",
            "capi:xts(aes)",
            "capi:xts(aes)-",
            "capi:xts(aes)-plain64:a:b",
            "capi:xts(aes)-plain64be",
            "capi:XTS(AES)-plain64",
            "capi:aes-xts-plain64",
            "capi:xts(aes-generic)-plain64",
            "capi:xts(ecb(aes))-plain64",
            "capi:xts(cbc(aes))-plain64",
            "capi:cbc(aes)-essiv",
            "capi:cbc(aes)-essiv:sha256-generic",
            "capi:cbc-aes-aesni-essiv:sha256",
            "capi:essiv(cbc(aes),sha256)-plain",
            "capi:essiv(cbc(aes),sha256)-essiv:sha256",
            "capi:essiv(cbc(aes),sha1)-plain64",
            "capi:ecb(aes)-null",
            "capi:capi:xts(aes)-plain64",
            "xts(aes)-plain64",
            "serpent-xts-plain64",
        ] {
            assert_eq!(Encryption::by_name(name), None, "{name}");
        }
    }
}
