// SPDX-License-Identifier: MIT OR Apache-2.0
//! LUKS1 volumes that `cryptsetup` and `qemu-img` make, and those that Luxor makes for
//! them.

use std::{
    io::{self, Write as _},
    path::Path,
};

use crate::{
    PASSPHRASE, SECRETS, SecretKind, headers,
    programs::{
        Bench, Outcome, Secret, Sectors, cryptsetup, cryptsetup_tries, engines, luks1_data_offset,
        must_equal, pattern, qemu_img, text,
    },
};

const HASHES: [&str; 5] = ["sha1", "sha256", "sha512", "ripemd160", "whirlpool"];
const KEY_SIZES: [usize; 2] = [256, 512];
const XTS: &str = "aes-xts-plain64";
/// With the sizes of their keys: CBC takes one AES key, XTS two.
const ENCRYPTIONS: [(&str, [usize; 2]); 5] = [
    (XTS, KEY_SIZES),
    ("aes-xts-plain", KEY_SIZES),
    ("aes-cbc-plain", [128, 256]),
    ("aes-cbc-plain64", [128, 256]),
    ("aes-cbc-essiv:sha256", [128, 256]),
];

/// What a LUKS1 volume is made with.
#[derive(Clone, Copy, Debug)]
struct Luks1 {
    hash: &'static str,
    key_size: usize,
    encryption: &'static str,
    detached: bool,
    secret: SecretKind,
}

#[test]
fn cryptsetup_makes_and_luxor_opens() {
    let mut bench = Bench::new();
    let (mut cells, mut failures) = (0, Vec::new());
    for hash in HASHES {
        for (encryption, key_sizes) in ENCRYPTIONS {
            for key_size in key_sizes {
                for detached in [false, true] {
                    let cell = Luks1 {
                        hash,
                        key_size,
                        encryption,
                        detached,
                        // Each kind meets every other value.
                        secret: SECRETS[(cells + cells / 2 + cells / 4 + cells / 20) % 2],
                    };
                    let outcome = bench.clear().and_then(|()| cell.run(&mut bench, cells));
                    failures.extend(outcome.err().map(|error| format!("{cell:?}: {error}")));
                    cells += 1;
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert_eq!(cells, 100, "every cell of the product must be run");
    said(&format!(
        "cryptsetup makes LUKS1, Luxor decrypts: {cells} cells passed"
    ));
}

#[test]
fn every_engine_opens() -> Outcome<()> {
    let mut bench = Bench::new();
    for engine in engines()? {
        engine.clone_into(&mut bench.engine);
        for (encryption, key_sizes) in ENCRYPTIONS {
            for key_size in key_sizes {
                let cell = Luks1 {
                    hash: "sha256",
                    key_size,
                    encryption,
                    detached: false,
                    secret: SecretKind::Passphrase,
                };
                cell.run(&mut bench, 39)
                    .map_err(|error| format!("{engine}, {encryption}, {key_size}: {error}"))?;
            }
        }
        bench.clear()?;
    }
    Ok(())
}

impl Luks1 {
    fn run(self, bench: &mut Bench, index: usize) -> Outcome<()> {
        let secret = bench.secret(self.secret.bytes(), self.secret);
        let payload = pattern(index, (1 + 7 * (index % 40)) * 512);
        let volume = bench.file(&vec![0; 3 << 20]);
        let (header, with_header) = match self.detached {
            true => {
                let header = bench.new_path();
                let option = ["--header".to_owned(), text(&header)];
                (header, option.to_vec())
            }
            false => (volume.clone(), Vec::new()),
        };
        let options = [self.options(), with_header.clone()].concat();
        cryptsetup("luksFormat", &options, &volume, Some(&secret))?.must_exit(0)?;
        let key = bench.volume_key(&header, &secret)?;
        let offset = luks1_data_offset(&header)?;
        bench.fill(self.sectors(), &key, &payload, &volume, offset)?;

        bench.luxor_decrypts(&volume, &with_header, &secret, &payload)?;
        bench.luxor_finds_no_key(&volume, &with_header, &secret.wrong()?)?;
        check(bench, &volume, &with_header, &secret)?;
        headers::come_back(bench, &header)
    }

    fn sectors(self) -> Sectors {
        Sectors {
            encryption: self.encryption,
            size: 512,
        }
    }

    fn options(self) -> Vec<String> {
        let words = format!(
            "--type luks1 --pbkdf-force-iterations 1000 --hash {} --cipher {} --key-size {}",
            self.hash, self.encryption, self.key_size
        );
        words.split(' ').map(str::to_owned).collect()
    }
}

fn check(bench: &Bench, volume: &Path, options: &[String], secret: &Secret) -> Outcome<()> {
    let mut options = options.to_vec();
    if secret.key_file.is_none() {
        options.push("--passphrase".to_owned());
    }
    bench
        .luxor("check", &[volume], &options, secret)?
        .must_exit(0)
}

/// What Luxor makes, for the three others: `cryptsetup` tries the secret and gives out
/// the key, Python and `qemu-img` read the data.
#[test]
fn luxor_makes_and_cryptsetup_and_qemu_open() {
    let mut bench = Bench::new();
    let (mut cells, mut failures) = (0, Vec::new());
    for hash in HASHES {
        for key_size in KEY_SIZES {
            for detached in [false, true] {
                let cell = Luks1 {
                    hash,
                    key_size,
                    encryption: XTS,
                    detached,
                    // qemu takes UTF-8 only, and no detached headers.
                    secret: SECRETS[usize::from(detached)],
                };
                let outcome = bench.clear().and_then(|()| cell.make(&mut bench, cells));
                failures.extend(outcome.err().map(|error| format!("{cell:?}: {error}")));
                cells += 1;
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert_eq!(cells, 20, "every cell of the product must be run");
    said(&format!(
        "Luxor makes LUKS1, cryptsetup and qemu-img open: {cells} cells passed"
    ));
}

impl Luks1 {
    fn make(self, bench: &mut Bench, index: usize) -> Outcome<()> {
        let secret = bench.secret(self.secret.bytes(), self.secret);
        let payload = pattern(index, (1 + 7 * index) * 512);
        let (plain, volume) = (bench.file(&payload), bench.new_path());
        let (header, with_header) = match self.detached {
            true => {
                let header = bench.new_path();
                let option = ["--header".to_owned(), text(&header)];
                (header, option.to_vec())
            }
            false => (volume.clone(), Vec::new()),
        };
        let options = format!(
            "--type luks1 --pbkdf-force-iterations 1000 --hash {} --key-size {}",
            self.hash, self.key_size
        );
        let options = options.split(' ').map(str::to_owned);
        let options: Vec<String> = options.chain(with_header.clone()).collect();
        bench
            .luxor("encrypt", &[&plain, &volume], &options, &secret)?
            .must_exit(0)?;

        cryptsetup_tries(&volume, &with_header, &secret)?.must_exit(0)?;
        cryptsetup_tries(&volume, &with_header, &secret.wrong()?)?.must_exit(2)?;
        let (key, found) = (bench.volume_key(&header, &secret)?, bench.new_path());
        let offset = luks1_data_offset(&header)?;
        let (sectors, len) = (self.sectors(), payload.len());
        bench
            .python
            .crypt("decrypt", sectors, &key, &volume, offset, len, &found)?;
        let found = std::fs::read(&found).map_err(|e| e.to_string())?;
        must_equal("what Python decrypts", &found, &payload)?;
        if !self.detached && self.hash != "whirlpool" {
            let found = qemu_reads(bench, &volume, self.secret.bytes())?;
            must_equal("what qemu-img reads", &found, &payload)?;
        }
        bench.luxor_decrypts(&volume, &with_header, &secret, &payload)?;
        check(bench, &volume, &with_header, &secret)
    }
}

fn qemu_reads(bench: &mut Bench, volume: &Path, secret: &[u8]) -> Outcome<Vec<u8>> {
    let (key_file, plain) = (bench.file(secret), bench.new_path());
    let arguments = [
        "convert",
        "-O",
        "raw",
        "--object",
        &format!("secret,id=key,file={}", text(&key_file)),
        "--image-opts",
        &format!("driver=luks,key-secret=key,file.filename={}", text(volume)),
        &text(&plain),
    ]
    .map(str::to_owned);
    qemu_img(&arguments)?;
    std::fs::read(&plain).map_err(|e| e.to_string())
}

/// All that it makes with AES. Its keyslot and its data are its own code's.
#[test]
fn qemu_makes_and_luxor_opens() -> Outcome<()> {
    let mut bench = Bench::new();
    let mut cells = 0;
    for hash in &HASHES[..4] {
        for cipher in ["aes-128", "aes-256"] {
            for (mode, ivs) in [
                ("xts", "plain64"),
                ("xts", "plain"),
                ("cbc", "plain64"),
                ("cbc", "plain"),
                ("cbc", "essiv,ivgen-hash-alg=sha256"),
            ] {
                // qemu measures for seconds; the hashes have met the modes above.
                if mode == "cbc" && *hash != "sha256" {
                    continue;
                }
                bench.clear()?;
                let secret = bench.secret(PASSPHRASE, SecretKind::KeyFile);
                let key_file = secret.key_file.clone().ok_or("no key file")?;
                let payload = pattern(cells, (5 + cells) * 512);
                let (plain, volume) = (bench.file(&payload), bench.new_path());
                let arguments = [
                    "convert",
                    "-f",
                    "raw",
                    "-O",
                    "luks",
                    "--object",
                    &format!("secret,id=key,file={}", text(&key_file)),
                    "-o",
                    &format!(
                        "key-secret=key,iter-time=10,hash-alg={hash},cipher-alg={cipher},\
                         cipher-mode={mode},ivgen-alg={ivs}"
                    ),
                    &text(&plain),
                    &text(&volume),
                ]
                .map(str::to_owned);
                let words = format!("{hash}, {cipher}, {mode}, {ivs}");
                qemu_img(&arguments)
                    .and_then(|()| bench.luxor_decrypts(&volume, &[], &secret, &payload))
                    .and_then(|()| bench.luxor_finds_no_key(&volume, &[], &secret.wrong()?))
                    .and_then(|()| check(&bench, &volume, &[], &secret))
                    .map_err(|error| format!("{words}: {error}"))?;
                cells += 1;
            }
        }
    }
    assert_eq!(cells, 22);
    said(&format!(
        "qemu-img makes LUKS1, Luxor decrypts: {cells} cells passed"
    ));
    Ok(())
}

/// Not every key is in keyslot 0: `cryptsetup` fills all eight, and takes one away.
#[test]
fn all_eight_keyslots_open() -> Outcome<()> {
    let mut bench = Bench::new();
    let cell = Luks1 {
        hash: "sha256",
        key_size: 512,
        encryption: XTS,
        detached: false,
        secret: SecretKind::KeyFile,
    };
    let payload = pattern(8, 3 * 512);
    let secrets: Vec<Secret> = (0..8)
        .map(|slot| bench.secret(format!("secret {slot}").as_bytes(), SecretKind::KeyFile))
        .collect();
    let volume = bench.file(&vec![0; 3 << 20]);
    cryptsetup("luksFormat", &cell.options(), &volume, Some(&secrets[0]))?.must_exit(0)?;
    for secret in &secrets[1..] {
        let new = secret.key_file.as_deref().ok_or("no key file")?;
        let options = [
            "--pbkdf-force-iterations".to_owned(),
            "1000".to_owned(),
            "--new-keyfile".to_owned(),
            text(new),
        ];
        cryptsetup("luksAddKey", &options, &volume, Some(&secrets[0]))?.must_exit(0)?;
    }
    let key = bench.volume_key(&volume, &secrets[0])?;
    let offset = luks1_data_offset(&volume)?;
    bench.fill(cell.sectors(), &key, &payload, &volume, offset)?;
    for (slot, secret) in secrets.iter().enumerate() {
        bench.luxor_decrypts(&volume, &[], secret, &payload)?;
        let only = |slot: usize| ["--key-slot".to_owned(), slot.to_string()];
        bench.luxor_decrypts(&volume, &only(slot), secret, &payload)?;
        bench.luxor_finds_no_key(&volume, &only((slot + 1) % 8), secret)?;
    }
    cryptsetup("luksRemoveKey", &[], &volume, Some(&secrets[3]))?.must_exit(0)?;
    bench.luxor_finds_no_key(&volume, &[], &secrets[3])?;
    bench.luxor_decrypts(&volume, &[], &secrets[7], &payload)
}

/// Past the test harness, which swallows what a passing test prints.
fn said(words: &str) {
    let _ = writeln!(io::stderr().lock(), "\n{words}\n");
}
