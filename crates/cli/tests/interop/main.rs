// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interoperation with the real `cryptsetup`, both ways.
//!
//! What is encrypted is checked by a third party, Python's `cryptography`, with
//! the volume key that `cryptsetup` gives out (`sectors.py`). All work is on plain
//! files, so that neither root nor the kernel's dm-crypt is needed. The key
//! derivations are the cheapest that `cryptsetup` permits.

mod headers;
mod keys;
mod luks1;
mod programs;
mod reencryption;
mod scripts;

use std::{
    env,
    fmt::{self, Write as _},
    fs,
    io::{self, Write as _},
    path::Path,
};

use programs::{
    Bench, Outcome, Secret, cryptsetup, cryptsetup_tries, engines, metadata, must_be, must_equal,
    pattern, text,
};

const SECTOR_SIZES: [usize; 4] = [512, 1024, 2048, 4096];
const KEY_SIZES: [usize; 2] = [256, 512];
const PBKDFS: [Pbkdf; 3] = [Pbkdf::Argon2id, Pbkdf::Argon2i, Pbkdf::Pbkdf2];
const SECRETS: [SecretKind; 2] = [SecretKind::Passphrase, SecretKind::KeyFile];

/// Of the passphrase cells: not ASCII, so that nobody may normalise or re-encode.
const PASSPHRASE: &[u8] = "correct höRse 鍵 🔑".as_bytes();
/// Of the key file cells: neither a newline nor a NUL ends it.
const KEY_FILE: &[u8] = b"\nline\0 one\nline two\xff\0\n";

#[test]
fn cryptsetup_makes_and_luxor_opens() {
    run_product("cryptsetup makes, Luxor decrypts", cryptsetup_to_luxor);
}

#[test]
fn luxor_makes_and_cryptsetup_opens() {
    run_product("Luxor encrypts, cryptsetup opens", luxor_to_cryptsetup);
}

/// A volume that `cryptsetup` formats and Python fills.
fn cryptsetup_to_luxor(bench: &mut Bench, cell: Cell, index: usize) -> Outcome<()> {
    let secret = bench.secret(cell.secret.bytes(), cell.secret);
    let payload = pattern(index, (1 + index % 40) * cell.sector_size);
    let volume = bench.made_by_cryptsetup(cell, &secret, &payload)?;
    bench.luxor_decrypts(&volume, &[], &secret, &payload)?;
    bench.luxor_finds_no_key(&volume, &[], &secret.wrong()?)?;
    headers::come_back(bench, &volume)
}

/// A volume that Luxor makes of a file whose length is no whole number of sectors.
fn luxor_to_cryptsetup(bench: &mut Bench, cell: Cell, index: usize) -> Outcome<()> {
    let payload = pattern(index, (2 + index % 40) * cell.sector_size + index * 7 + 1);
    let secret = bench.secret(cell.secret.bytes(), cell.secret);
    let volume = bench.made_by_luxor(cell, &secret, &payload)?;

    let metadata = metadata(&volume)?;
    let (segment, keyslot) = (&metadata["segments"]["0"], &metadata["keyslots"]["0"]);
    must_be(&segment["sector_size"], cell.sector_size)?;
    must_be(&segment["encryption"], "aes-xts-plain64")?;
    must_be(&keyslot["key_size"], cell.key_size / 8)?;
    must_be(&keyslot["kdf"]["type"], cell.pbkdf.name())?;

    cryptsetup("luksDump", &[], &volume, None)?.must_exit(0)?;
    cryptsetup_tries(&volume, &[], &secret)?.must_exit(0)?;
    cryptsetup_tries(&volume, &[], &secret.wrong()?)?.must_exit(2)?;
    holds(bench, cell, &volume, &secret, &payload)?;
    headers::come_back(bench, &volume)
}

/// Each engine in turn, by force: no kernel may differ from the others.
#[test]
fn every_engine_is_the_same_to_cryptsetup() -> Outcome<()> {
    let engines = engines()?;
    must_include_required(&engines)?;
    let mut bench = Bench::new();
    for (i, engine) in engines.iter().enumerate() {
        engine.clone_into(&mut bench.engine);
        for (j, sector_size) in SECTOR_SIZES.into_iter().enumerate() {
            for key_size in KEY_SIZES {
                let cell = Cell {
                    sector_size,
                    key_size,
                    ..Cell::example()
                };
                let index = SECTOR_SIZES.len() * i + j;
                cryptsetup_to_luxor(&mut bench, cell, index)
                    .and_then(|()| luxor_to_cryptsetup(&mut bench, cell, index))
                    .map_err(|e| format!("{engine}, {cell:?}: {e}"))?;
            }
            bench.clear()?;
        }
    }
    Ok(())
}

/// The engines that `LUXOR_REQUIRE_ENGINES` names, with commas between, must be
/// there: CI sees to it that no CPU path is left out in silence.
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

/// Lengths about a sector's: the padding, and the token with the exact length.
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
            holds(&mut bench, cell, &volume, &secret, &payload)
                .map_err(|e| format!("{len} bytes in sectors of {sector_size}: {e}"))?;
        }
        bench.clear()?;
    }
    Ok(())
}

/// Luxor's volume must hold the payload for Python and for Luxor itself.
fn holds(
    bench: &mut Bench,
    cell: Cell,
    volume: &Path,
    secret: &Secret,
    payload: &[u8],
) -> Outcome<()> {
    let metadata = metadata(volume)?;
    let tokens = metadata["tokens"].as_object().ok_or("no tokens")?;
    let token = tokens.values().find(|token| token["type"] == "luxor-file");
    must_be(
        &token.ok_or("no luxor-file token")?["length"],
        payload.len().to_string(),
    )?;
    let plain = bench.python_decrypts(cell, volume, volume, secret)?;
    must_equal(
        "what Python decrypts",
        &plain,
        &padded(payload, cell.sector_size),
    )?;
    bench.luxor_decrypts(volume, &[], secret, payload)
}

/// The payload and zeros up to whole sectors, at least one.
fn padded(payload: &[u8], sector: usize) -> Vec<u8> {
    let mut padded = payload.to_vec();
    padded.resize(payload.len().max(1).next_multiple_of(sector), 0);
    padded
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
            .open(&volume)
            .map_err(|e| e.to_string())?;
        // The binary header and the JSON area of the default size.
        file.write_all(&[0xa5; 16384]).map_err(|e| e.to_string())?;
        drop(file);
        bench.luxor_decrypts(&volume, &[], &secret, &payload)?;
        // Last, since it may mend the first copy.
        cryptsetup_tries(&volume, &[], &secret)?.must_exit(0)?;
    }
    Ok(())
}

#[test]
fn detached_headers_of_cryptsetup_open() -> Outcome<()> {
    let mut bench = Bench::new();
    let cell = Cell::example();
    let secret = bench.secret(PASSPHRASE, SecretKind::Passphrase);
    let payload = pattern(2, 9 * cell.sector_size);
    let plain = bench.file(&payload);
    let data = bench.file(&payload);
    let header = bench.new_path();
    let with_header = ["--header".to_owned(), text(&header)];
    let options = [cell.cryptsetup_options(), with_header.to_vec()].concat();
    cryptsetup("luksFormat", &options, &data, Some(&secret))?.must_exit(0)?;
    let key = bench.volume_key(&header, &secret)?;
    bench
        .python
        .crypt("encrypt", cell, &key, &plain, 0, payload.len(), &data)?;
    bench.luxor_decrypts(&data, &with_header, &secret, &payload)
}

#[test]
fn detached_headers_of_luxor_open() -> Outcome<()> {
    let mut bench = Bench::new();
    let cell = Cell::example();
    let secret = bench.secret(PASSPHRASE, SecretKind::Passphrase);
    let payload = pattern(2, 9 * cell.sector_size - 100);
    let (plain, header, data) = (bench.file(&payload), bench.new_path(), bench.new_path());
    let with_header = ["--header".to_owned(), text(&header)];
    let options = [cell.luxor_options(), with_header.to_vec()].concat();
    bench
        .luxor("encrypt", &[&plain, &data], &options, &secret)?
        .must_exit(0)?;
    must_be(&metadata(&header)?["segments"]["0"]["offset"], "0")?;
    cryptsetup_tries(&data, &with_header, &secret)?.must_exit(0)?;
    let found = bench.python_decrypts(cell, &header, &data, &secret)?;
    must_equal(
        "what Python decrypts",
        &found,
        &padded(&payload, cell.sector_size),
    )?;
    bench.luxor_decrypts(&data, &with_header, &secret, &payload)
}

#[test]
fn every_kind_of_secret_is_the_same_to_both() -> Outcome<()> {
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
fn a_part_of_a_key_file_is_the_same_to_both() -> Outcome<()> {
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
    cryptsetup("config", &label, &volume, None)?.must_exit(0)?;
    let new = second.key_file.as_deref().ok_or("no key file")?;
    let options = [
        cell.pbkdf_options(),
        vec!["--new-keyfile".to_owned(), text(new)],
    ]
    .concat();
    cryptsetup("luksAddKey", &options, &volume, Some(&first))?.must_exit(0)?;
    bench.luxor_decrypts(&volume, &[], &first, &payload)?;
    bench.luxor_decrypts(&volume, &[], &second, &payload)
}

/// Runs every cell of the product, prints the table, and fails if one failed or
/// was not run.
fn run_product(name: &str, run: fn(&mut Bench, Cell, usize) -> Outcome<()>) {
    let mut bench = Bench::new();
    let mut results: Vec<(Cell, Outcome<()>)> = Vec::new();
    for sector_size in SECTOR_SIZES {
        for key_size in KEY_SIZES {
            for pbkdf in PBKDFS {
                for secret in SECRETS {
                    let cell = Cell {
                        sector_size,
                        key_size,
                        pbkdf,
                        secret,
                    };
                    let outcome = bench
                        .clear()
                        .and_then(|()| run(&mut bench, cell, results.len()));
                    results.push((cell, outcome));
                }
            }
        }
    }

    let mut table = format!("\n{name}\n{:24}", "");
    for (pbkdf, secret) in columns() {
        write!(table, "{:>22}", format!("{} {secret}", pbkdf.name())).unwrap();
    }
    let (mut missing, mut failures) = (0, Vec::new());
    for sector_size in SECTOR_SIZES {
        for key_size in KEY_SIZES {
            write!(
                table,
                "\n{:24}",
                format!("sector {sector_size}, key {key_size}")
            )
            .unwrap();
            for (pbkdf, secret) in columns() {
                let cell = Cell {
                    sector_size,
                    key_size,
                    pbkdf,
                    secret,
                };
                let word = match results.iter().find(|(ran, _)| *ran == cell) {
                    Some((_, Ok(()))) => "passed",
                    Some((_, Err(message))) => {
                        failures.push(format!("{cell:?}: {message}"));
                        "FAILED"
                    }
                    None => {
                        missing += 1;
                        "-"
                    }
                };
                write!(table, "{word:>22}").unwrap();
            }
        }
    }
    // Past the test harness, which swallows what a passing test prints.
    writeln!(
        io::stderr().lock(),
        "{table}\n{} cells were run\n",
        results.len()
    )
    .unwrap();
    assert_eq!(
        (results.len(), missing),
        (48, 0),
        "every cell of the product must be run"
    );
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn columns() -> impl Iterator<Item = (Pbkdf, SecretKind)> {
    PBKDFS
        .into_iter()
        .flat_map(|pbkdf| SECRETS.map(|secret| (pbkdf, secret)))
}

/// One combination of what a volume is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    sector_size: usize,
    key_size: usize,
    pbkdf: Pbkdf,
    secret: SecretKind,
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
    /// For the tests of something else.
    fn example() -> Self {
        Self {
            sector_size: 4096,
            key_size: 512,
            pbkdf: Pbkdf::Pbkdf2,
            secret: SecretKind::Passphrase,
        }
    }

    /// The cheapest key derivation: Luxor and `cryptsetup` name it alike.
    fn pbkdf_options(self) -> Vec<String> {
        let name = self.pbkdf.name();
        let words = match self.pbkdf {
            Pbkdf::Pbkdf2 => format!("--pbkdf {name} --pbkdf-force-iterations 1000"),
            Pbkdf::Argon2id | Pbkdf::Argon2i => format!(
                "--pbkdf {name} --pbkdf-force-iterations 4 --pbkdf-memory 32 --pbkdf-parallel 1"
            ),
        };
        words.split(' ').map(str::to_owned).collect()
    }

    fn luxor_options(self) -> Vec<String> {
        let size = [
            "--sector-size".to_owned(),
            self.sector_size.to_string(),
            "--key-size".to_owned(),
            self.key_size.to_string(),
        ];
        [self.pbkdf_options(), size.to_vec()].concat()
    }

    fn cryptsetup_options(self) -> Vec<String> {
        let kind = ["--type", "luks2", "--cipher", "aes-xts-plain64"].map(str::to_owned);
        [self.luxor_options(), kind.to_vec()].concat()
    }
}

impl Pbkdf {
    fn name(self) -> &'static str {
        match self {
            Self::Argon2id => "argon2id",
            Self::Argon2i => "argon2i",
            Self::Pbkdf2 => "pbkdf2",
        }
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

impl fmt::Display for SecretKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passphrase => "passphrase",
            Self::KeyFile => "key file",
        })
    }
}
