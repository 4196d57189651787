// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interoperation with the real `cryptsetup`, in both directions.
//!
//! A third implementation, Python's `cryptography`, checks the encrypted data with the volume key
//! that `cryptsetup` prints (`sectors.py`). All tests work on regular files, so they need neither
//! root (except `mounting`) nor the kernel's dm-crypt. The key derivations are the cheapest that
//! `cryptsetup` permits.

mod header_sizes;
mod headers;
mod keys;
mod luks1;
mod making;
mod mounting;
mod product;
mod programs;
mod reencryption;
mod scripts;
mod serving;

use std::{env, fmt, fs, io::Write as _};

use product::{KEY_SIZES, SECTOR_SIZES};
use programs::{Bench, Outcome, cryptsetup, cryptsetup_tries, engines, pattern, text};

/// The encryption that Luxor makes. It is also cryptsetup's default.
const XTS: &str = "aes-xts-plain64";
const PBKDFS: [Pbkdf; 3] = [Pbkdf::Argon2id, Pbkdf::Argon2i, Pbkdf::Pbkdf2];
const SECRETS: [SecretKind; 2] = [SecretKind::Passphrase, SecretKind::KeyFile];

/// The passphrase of the tests. It is not ASCII, so that any normalisation or re-encoding is
/// noticed.
const PASSPHRASE: &[u8] = "correct höRse 鍵 🔑".as_bytes();
/// The key file of the tests. Neither a newline nor a NUL byte may end it.
const KEY_FILE: &[u8] = b"\nline\0 one\nline two\xff\0\n";

/// Forces each engine in turn: they must not differ. Each engine meets all sector sizes and both key
/// sizes, in the long form in all combinations.
#[test]
fn cryptsetup_accepts_volumes_of_every_engine() -> Outcome<()> {
    let engines = engines("xts")?;
    must_include_required(&engines)?;
    let mut bench = Bench::new();
    for (i, engine) in engines.iter().enumerate() {
        engine.clone_into(&mut bench.engine);
        for (j, sector_size) in SECTOR_SIZES.into_iter().enumerate() {
            for &key_size in product::key_sizes(&KEY_SIZES, i + j) {
                let cell = Cell {
                    sector_size,
                    key_size,
                    ..Cell::example()
                };
                let index = SECTOR_SIZES.len() * i + j;
                making::by_cryptsetup(&mut bench, cell, index)
                    .and_then(|_| making::by_luxor(&mut bench, cell, index))
                    .map_err(|e| format!("{engine}, {cell}: {e}"))?;
            }
            bench.clear()?;
        }
    }
    Ok(())
}

/// Fails if an engine of `LUXOR_REQUIRE_ENGINES` (separated by commas) is missing, so that CI
/// notices when a CPU path is not tested.
fn must_include_required(engines: &[String]) -> Outcome<()> {
    let required = env::var("LUXOR_REQUIRE_ENGINES").unwrap_or_default();
    let mut required = required.split(',').filter(|name| !name.is_empty());
    match required.find(|name| !engines.iter().any(|engine| engine == name)) {
        None => Ok(()),
        Some(absent) => Err(format!(
            "the engine {absent} is required, and there are {engines:?}"
        )),
    }
}

/// Tests lengths around a sector: the padding, and the token with the exact length.
#[test]
fn every_length_is_kept_and_padded() -> Outcome<()> {
    let mut bench = Bench::new();
    for sector_size in SECTOR_SIZES {
        let cell = Cell {
            sector_size,
            ..Cell::example()
        };
        let secret = bench.secret(PASSPHRASE, SecretKind::Passphrase);
        for len in [0, 1, sector_size - 1, sector_size, sector_size + 1] {
            let payload = pattern(len, len);
            let volume = bench.made_by_luxor(cell, &secret, &payload)?;
            making::holds(&mut bench, cell, &volume, &secret, &payload)
                .map_err(|e| format!("{len} bytes in sectors of {sector_size}: {e}"))?;
        }
        bench.clear()?;
    }
    Ok(())
}

#[test]
fn the_second_header_copy_is_enough() -> Outcome<()> {
    let mut bench = Bench::new();
    let cell = Cell::example();
    let secret = bench.secret(PASSPHRASE, SecretKind::Passphrase);
    let payload = pattern(1, 7 * cell.sector_size);
    for make in [Bench::made_by_cryptsetup, Bench::made_by_luxor] {
        let volume = make(&mut bench, cell, &secret, &payload)?;
        let mut file = fs::OpenOptions::new()
            .write(true)
            .open(&volume.data)
            .map_err(|e| e.to_string())?;
        // Overwrite the binary header and the JSON area of the default size.
        file.write_all(&[0xa5; 16384]).map_err(|e| e.to_string())?;
        drop(file);
        bench.luxor_decrypts(&volume, &[], &secret, &payload)?;
        // cryptsetup comes last, because it may repair the first copy.
        cryptsetup_tries(&volume, &[], &secret)?.must_exit(0)?;
    }
    Ok(())
}

#[test]
fn both_programs_read_every_kind_of_secret_alike() -> Outcome<()> {
    let mut bench = Bench::new();
    let cell = Cell::example();
    let long: Vec<u8> = pattern(3, 512).iter().map(|b| b'a' + b % 26).collect();
    let secrets: &[(SecretKind, &[u8])] = &[
        (SecretKind::Passphrase, b"plain"),
        (SecretKind::Passphrase, b" blanks around "),
        (SecretKind::Passphrase, "пароль – naïve 🔑".as_bytes()),
        (SecretKind::Passphrase, b"caf\xe9 in Latin-1"),
        (SecretKind::Passphrase, &long),
        (SecretKind::KeyFile, b"\n"),
        (SecretKind::KeyFile, b"\0"),
        (SecretKind::KeyFile, b"ends with a newline\n"),
        (SecretKind::KeyFile, b"\r\n\0\n\0"),
        (SecretKind::KeyFile, &pattern(4, 65536)),
    ];
    let payload = pattern(5, 3 * cell.sector_size);
    for (kind, bytes) in secrets {
        let secret = bench.secret(bytes, *kind);
        let volume = bench.made_by_cryptsetup(cell, &secret, &payload)?;
        bench.luxor_decrypts(&volume, &[], &secret, &payload)?;
        let volume = bench.made_by_luxor(cell, &secret, &payload)?;
        cryptsetup_tries(&volume, &[], &secret)?.must_exit(0)?;
    }
    Ok(())
}

#[test]
fn both_programs_read_a_part_of_a_key_file_alike() -> Outcome<()> {
    let mut bench = Bench::new();
    let cell = Cell::example();
    let payload = pattern(6, cell.sector_size);
    let whole = bench.secret(&pattern(7, 300), SecretKind::KeyFile);
    let part = ["--keyfile-offset", "100", "--keyfile-size", "64"].map(str::to_owned);
    let alone = bench.secret(&pattern(7, 300)[100..164], SecretKind::KeyFile);
    let volume = bench.made_by_cryptsetup(cell, &alone, &payload)?;
    cryptsetup_tries(&volume, &part, &whole)?.must_exit(0)?;
    bench.luxor_decrypts(&volume, &part, &whole, &payload)?;
    bench.luxor_finds_no_key(&volume, &[], &whole)
}

#[test]
fn a_volume_that_cryptsetup_has_changed_keeps_its_length() -> Outcome<()> {
    let mut bench = Bench::new();
    let cell = Cell::example();
    let payload = pattern(8, 2 * cell.sector_size + 77);
    let first = bench.secret(PASSPHRASE, SecretKind::KeyFile);
    let second = bench.secret(b"another", SecretKind::KeyFile);
    let volume = bench.made_by_luxor(cell, &first, &payload)?;

    let label = ["--label", "renamed"].map(str::to_owned);
    cryptsetup("config", &label, volume.header(), None)?.must_exit(0)?;
    let new = second.key_file.as_deref().ok_or("no key file")?;
    let options = [
        cell.pbkdf_options(),
        vec!["--new-keyfile".to_owned(), text(new)],
    ]
    .concat();
    cryptsetup("luksAddKey", &options, volume.header(), Some(&first))?.must_exit(0)?;
    bench.luxor_decrypts(&volume, &[], &first, &payload)?;
    bench.luxor_decrypts(&volume, &[], &second, &payload)
}

/// The options of a volume: one row of the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    format: Format,
    encryption: &'static str,
    /// In bits.
    key_size: usize,
    /// In bytes.
    sector_size: usize,
    detached: bool,
    /// The metadata size and the keyslots size in KiB. `None`: the defaults.
    header_sizes: Option<(u64, u64)>,
    secret: SecretKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Luks1 { hash: &'static str },
    Luks2 { pbkdf: Pbkdf },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pbkdf {
    Argon2id,
    Argon2i,
    Pbkdf2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SecretKind {
    Passphrase,
    KeyFile,
}

impl Cell {
    /// A volume for tests of other things.
    fn example() -> Self {
        Self::of_version(false)
    }

    fn of_version(luks1: bool) -> Self {
        Self {
            format: if luks1 {
                Format::Luks1 { hash: "sha256" }
            } else {
                Format::Luks2 {
                    pbkdf: Pbkdf::Pbkdf2,
                }
            },
            encryption: XTS,
            key_size: 512,
            sector_size: if luks1 { 512 } else { 4096 },
            detached: false,
            header_sizes: None,
            secret: SecretKind::Passphrase,
        }
    }

    fn is_luks1(self) -> bool {
        matches!(self.format, Format::Luks1 { .. })
    }

    /// The cheapest key derivation. Luxor and `cryptsetup` use the same option names.
    fn pbkdf_options(self) -> Vec<String> {
        match self.format {
            Format::Luks1 { .. } => words("--pbkdf-force-iterations 1000"),
            Format::Luks2 { pbkdf } => pbkdf.options(),
        }
    }

    fn luxor_options(self) -> Vec<String> {
        let (key, sector) = (self.key_size, self.sector_size);
        let more = match self.format {
            Format::Luks1 { hash } => format!("--type luks1 --hash {hash} --key-size {key}"),
            Format::Luks2 { .. } => {
                format!("--type luks2 --sector-size {sector} --key-size {key}")
            }
        };
        let sizes = self.header_sizes.map(|(metadata, keyslots)| {
            format!("--luks2-metadata-size {metadata}k --luks2-keyslots-size {keyslots}k")
        });
        let sizes = words(&sizes.unwrap_or_default());
        [self.pbkdf_options(), words(&more), sizes].concat()
    }

    /// The length of the header that Luxor makes for LUKS2, in bytes.
    fn header_len(self) -> u64 {
        match self.header_sizes {
            None => 16 << 20,
            Some((metadata, keyslots)) => (2 * metadata + keyslots) << 10,
        }
    }

    fn cryptsetup_options(self) -> Vec<String> {
        let cipher = ["--cipher".to_owned(), self.encryption.to_owned()];
        [self.luxor_options(), cipher.to_vec()].concat()
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.format {
            Format::Luks1 { hash } => write!(f, "LUKS1 {hash}")?,
            Format::Luks2 { pbkdf } => write!(f, "LUKS2 {}", pbkdf.name())?,
        }
        if self.encryption != XTS {
            write!(f, " {}", self.encryption)?;
        }
        let header = if self.detached {
            "detached"
        } else {
            "attached"
        };
        write!(
            f,
            " key {} sector {} {header}",
            self.key_size, self.sector_size
        )?;
        match self.header_sizes {
            Some((metadata, keyslots)) => write!(f, " {metadata}+{keyslots} KiB"),
            None => Ok(()),
        }
    }
}

impl Format {
    fn sector_sizes(self) -> &'static [usize] {
        match self {
            Self::Luks1 { .. } => &[512],
            Self::Luks2 { .. } => &SECTOR_SIZES,
        }
    }
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

impl Pbkdf {
    fn name(self) -> &'static str {
        match self {
            Self::Argon2id => "argon2id",
            Self::Argon2i => "argon2i",
            Self::Pbkdf2 => "pbkdf2",
        }
    }

    /// Returns the next kind, cyclically.
    fn another(self) -> Self {
        match self {
            Self::Argon2id => Self::Argon2i,
            Self::Argon2i => Self::Pbkdf2,
            Self::Pbkdf2 => Self::Argon2id,
        }
    }

    fn options(self) -> Vec<String> {
        let name = self.name();
        words(&match self {
            Self::Pbkdf2 => format!("--pbkdf {name} --pbkdf-force-iterations 1000"),
            Self::Argon2id | Self::Argon2i => format!(
                "--pbkdf {name} --pbkdf-force-iterations 4 --pbkdf-memory 32 --pbkdf-parallel 1"
            ),
        })
    }
}

impl SecretKind {
    fn bytes(self) -> &'static [u8] {
        match self {
            Self::Passphrase => PASSPHRASE,
            Self::KeyFile => KEY_FILE,
        }
    }
}
