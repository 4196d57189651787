// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each program opens what the others make.

use std::fs;

use crate::{
    Cell, Format,
    product::Word,
    programs::{
        Bench, Outcome, Secret, Volume, cryptsetup, cryptsetup_tries, metadata, must_be,
        must_equal, pattern, qemu_img, text,
    },
};

/// A volume that `cryptsetup` formats and Python fills.
pub fn by_cryptsetup(bench: &mut Bench, cell: Cell, index: usize) -> Outcome<Word> {
    let secret = bench.secret(cell.secret.bytes(), cell.secret);
    let payload = pattern(index, (1 + index % 40) * cell.sector_size);
    let volume = bench.made_by_cryptsetup(cell, &secret, &payload)?;
    bench.luxor_decrypts(&volume, &[], &secret, &payload)?;
    bench.luxor_finds_no_key(&volume, &[], &secret.wrong()?)?;
    bench.luxor_checks(&volume, &secret)?;
    Ok(Word::Passed)
}

/// A volume that Luxor makes. With LUKS2 the length of the file is not a whole number of sectors.
/// `cryptsetup` tests the secret and prints the key. Python and, where possible, `qemu-img` read
/// the data.
pub fn by_luxor(bench: &mut Bench, cell: Cell, index: usize) -> Outcome<Word> {
    let len = (2 + index % 40) * cell.sector_size;
    let payload = match cell.format {
        Format::Luks1 { .. } => pattern(index, len),
        Format::Luks2 { .. } => pattern(index, len + index * 7 + 1),
    };
    let secret = bench.secret(cell.secret.bytes(), cell.secret);
    let volume = bench.made_by_luxor(cell, &secret, &payload)?;
    cryptsetup("luksDump", &[], volume.header(), None)?.must_exit(0)?;
    cryptsetup_tries(&volume, &[], &secret)?.must_exit(0)?;
    cryptsetup_tries(&volume, &[], &secret.wrong()?)?.must_exit(2)?;
    holds(bench, cell, &volume, &secret, &payload)?;
    bench.luxor_checks(&volume, &secret)?;
    match cell.format {
        Format::Luks2 { pbkdf } => {
            let metadata = metadata(volume.header())?;
            let (segment, keyslot) = (&metadata["segments"]["0"], &metadata["keyslots"]["0"]);
            must_be(&segment["sector_size"], cell.sector_size)?;
            must_be(&segment["encryption"], cell.encryption)?;
            let offset = if cell.detached { 0 } else { cell.header_len() };
            must_be(&segment["offset"], offset.to_string())?;
            must_be(&keyslot["key_size"], cell.key_size / 8)?;
            must_be(&keyslot["kdf"]["type"], pbkdf.name())?;
        }
        Format::Luks1 { hash: "whirlpool" } => {}
        Format::Luks1 { .. } if cell.detached => {}
        Format::Luks1 { .. } => {
            let found = qemu_reads(bench, &volume, cell.secret.bytes())?;
            must_equal("what qemu-img reads", &found, &payload)?;
        }
    }
    Ok(Word::Passed)
}

/// Checks that Python and Luxor both read the payload from Luxor's volume.
pub fn holds(
    bench: &mut Bench,
    cell: Cell,
    volume: &Volume,
    secret: &Secret,
    payload: &[u8],
) -> Outcome<()> {
    let mut padded = payload.to_vec();
    if let Format::Luks2 { .. } = cell.format {
        let metadata = metadata(volume.header())?;
        let tokens = metadata["tokens"].as_object().ok_or("no tokens")?;
        let token = tokens.values().find(|token| token["type"] == "luxor-file");
        must_be(
            &token.ok_or("no luxor-file token")?["length"],
            payload.len().to_string(),
        )?;
        // Padding with zeros to whole sectors, at least one.
        padded.resize(payload.len().max(1).next_multiple_of(cell.sector_size), 0);
    }
    let plain = bench.python_decrypts(cell, volume, secret)?;
    must_equal("what Python decrypts", &plain, &padded)?;
    bench.luxor_decrypts(volume, &[], secret, payload)
}

fn qemu_reads(bench: &mut Bench, volume: &Volume, secret: &[u8]) -> Outcome<Vec<u8>> {
    let (key_file, plain) = (bench.file(secret), bench.new_path());
    let image = text(&volume.data);
    let arguments = [
        "convert",
        "-O",
        "raw",
        "--object",
        &format!("secret,id=key,file={}", text(&key_file)),
        "--image-opts",
        &format!("driver=luks,key-secret=key,file.filename={image}"),
        &text(&plain),
    ]
    .map(str::to_owned);
    qemu_img(&arguments)?;
    fs::read(&plain).map_err(|e| e.to_string())
}
