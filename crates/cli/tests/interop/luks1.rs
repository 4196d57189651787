// SPDX-License-Identifier: MIT OR Apache-2.0
//! LUKS1 volumes made by `cryptsetup` and `qemu-img`, and those that Luxor makes for them.

use crate::{
    Cell, Format, PASSPHRASE, SECRETS, SecretKind, XTS, making,
    product::{self, Deed, HASHES, KEY_SIZES},
    programs::{Bench, Outcome, Secret, Volume, cryptsetup, engines, pattern, qemu_img, text},
};

/// The encryptions with their key sizes: CBC uses one AES key, XTS two.
const ENCRYPTIONS: [(&str, [usize; 2]); 5] = [
    (XTS, KEY_SIZES),
    ("aes-xts-plain", KEY_SIZES),
    ("aes-cbc-plain", [128, 256]),
    ("aes-cbc-plain64", [128, 256]),
    ("aes-cbc-essiv:sha256", [128, 256]),
];

/// Combinations that are not in the product of all values.
#[test]
fn old_encryptions_open() {
    let mut rows = Vec::new();
    for format in HASHES.map(|hash| Format::Luks1 { hash }) {
        for (encryption, key_sizes) in &ENCRYPTIONS[1..] {
            for &key_size in key_sizes {
                for detached in [false, true] {
                    let cells = rows.len();
                    rows.push(Cell {
                        format,
                        encryption,
                        key_size,
                        detached,
                        // Each kind of secret occurs with every other value.
                        secret: SECRETS[(cells + cells / 2 + cells / 4 + cells / 16) % 2],
                        ..Cell::of_version(true)
                    });
                }
            }
        }
    }
    assert_eq!(rows.len(), 5 * 4 * 2 * 2);
    let columns: [(&str, Deed<'_>); 1] = [("cryptsetup makes", Box::new(making::by_cryptsetup))];
    // The values recur in the rows with periods that are coprime to 3.
    let chosen = |row: usize, _| row.is_multiple_of(3);
    product::run(
        "LUKS1 volumes with other encryptions",
        &rows,
        &columns,
        &chosen,
    );
}

/// Some of these encryptions use CBC, which not every engine supports. In the short form each engine
/// meets each encryption with one key size.
#[test]
fn every_engine_opens() -> Outcome<()> {
    let mut bench = Bench::new();
    for (i, engine) in engines("cbc")?.iter().enumerate() {
        engine.clone_into(&mut bench.engine);
        for (j, &(encryption, ref key_sizes)) in ENCRYPTIONS.iter().enumerate() {
            for &key_size in product::key_sizes(key_sizes, i + j) {
                let cell = Cell {
                    key_size,
                    encryption,
                    ..Cell::of_version(true)
                };
                making::by_cryptsetup(&mut bench, cell, 39)
                    .map_err(|error| format!("{engine}, {cell}: {error}"))?;
            }
        }
        bench.clear()?;
    }
    Ok(())
}

/// All variants that qemu makes with AES. qemu has its own implementation of keyslots and data
/// encryption. In the short form each way to number sectors meets one hash and one key size, and
/// all hashes and key sizes occur.
#[test]
fn luxor_opens_volumes_made_by_qemu() -> Outcome<()> {
    let mut bench = Bench::new();
    let mut cells = 0;
    for (i, hash) in HASHES[..4].iter().enumerate() {
        for (j, (mode, ivs)) in [
            ("xts", "plain64"),
            ("xts", "plain"),
            ("cbc", "plain64"),
            ("cbc", "plain"),
            ("cbc", "essiv,ivgen-hash-alg=sha256"),
        ]
        .into_iter()
        .enumerate()
        {
            for key_size in product::key_sizes(&[128, 256], j) {
                // qemu calibrates PBKDF2 for seconds, and XTS already covers the hashes.
                let is_chosen = i == j % 4;
                let is_left_out = mode == "cbc" && *hash != "sha256" || !product::is_long();
                if is_left_out && !is_chosen {
                    continue;
                }
                bench.clear()?;
                let secret = bench.secret(PASSPHRASE, SecretKind::KeyFile);
                let key_file = secret.key_file.clone().ok_or("no key file")?;
                let payload = pattern(cells, (5 + cells) * 512);
                let (plain, volume) = (bench.file(&payload), Volume::attached(bench.new_path()));
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
                        "key-secret=key,iter-time=10,hash-alg={hash},cipher-alg=aes-{key_size},\
                         cipher-mode={mode},ivgen-alg={ivs}"
                    ),
                    &text(&plain),
                    &text(&volume.data),
                ]
                .map(str::to_owned);
                let words = format!("{hash}, {key_size}, {mode}, {ivs}");
                qemu_img(&arguments)
                    .and_then(|()| bench.luxor_decrypts(&volume, &[], &secret, &payload))
                    .and_then(|()| bench.luxor_finds_no_key(&volume, &[], &secret.wrong()?))
                    .and_then(|()| bench.luxor_checks(&volume, &secret))
                    .map_err(|error| format!("{words}: {error}"))?;
                cells += 1;
            }
        }
    }
    assert_eq!(cells, if product::is_long() { 28 } else { 5 });
    Ok(())
}

/// A key is not always in keyslot 0: `cryptsetup` fills all eight keyslots, then removes one.
#[test]
fn all_eight_keyslots_open() -> Outcome<()> {
    let mut bench = Bench::new();
    let cell = Cell::of_version(true);
    let payload = pattern(8, 3 * 512);
    let secrets: Vec<Secret> = (0..8)
        .map(|slot| bench.secret(format!("secret {slot}").as_bytes(), SecretKind::KeyFile))
        .collect();
    let volume = bench.made_by_cryptsetup(cell, &secrets[0], &payload)?;
    for secret in &secrets[1..] {
        let new = secret.key_file.as_deref().ok_or("no key file")?;
        let new = ["--new-keyfile".to_owned(), text(new)];
        let options = [cell.pbkdf_options(), new.to_vec()].concat();
        cryptsetup("luksAddKey", &options, &volume.data, Some(&secrets[0]))?.must_exit(0)?;
    }
    for (slot, secret) in secrets.iter().enumerate() {
        bench.luxor_decrypts(&volume, &[], secret, &payload)?;
        let only = |slot: usize| ["--key-slot".to_owned(), slot.to_string()];
        bench.luxor_decrypts(&volume, &only(slot), secret, &payload)?;
        bench.luxor_finds_no_key(&volume, &only((slot + 1) % 8), secret)?;
    }
    cryptsetup("luksRemoveKey", &[], &volume.data, Some(&secrets[3]))?.must_exit(0)?;
    bench.luxor_finds_no_key(&volume, &[], &secrets[3])?;
    bench.luxor_decrypts(&volume, &[], &secrets[7], &payload)
}
