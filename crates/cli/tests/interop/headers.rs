// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole headers: each program restores the backups of the other, repairs damaged headers, and
//! converts back what the other has converted.

use std::{fs, path::Path};

use crate::{
    Cell, Format, Pbkdf,
    keys::{Program, Subject, say_the_same, say_the_same_but},
    product::Word,
    programs::{Bench, Outcome, cryptsetup, luxor_header, must, must_equal, text},
};

fn read(path: &Path) -> Outcome<Vec<u8>> {
    fs::read(path).map_err(|e| e.to_string())
}

/// Both programs back up the header. The header is then destroyed and restored exactly.
pub fn backup_and_restore(bench: &mut Bench, cell: Cell, _: usize) -> Outcome<Word> {
    let secret = bench.secret(cell.secret.bytes(), cell.secret);
    let theirs = bench.made_by_cryptsetup(cell, &secret, &[0; 4096])?;
    let ours = bench.made_by_luxor(cell, &secret, &[0; 4096])?;
    for volume in [theirs, ours] {
        comes_back(bench, volume.header())?;
        bench.luxor_decrypts(&volume, &[], &secret, &[0; 4096])?;
    }
    Ok(Word::Passed)
}

fn comes_back(bench: &mut Bench, volume: &Path) -> Outcome<()> {
    let before = read(volume)?;
    let (ours, theirs) = (bench.new_path(), bench.new_path());
    let file = |path: &Path| ["--header-backup-file".to_owned(), text(path)];
    luxor_header("backup", volume, &ours)?.must_exit(0)?;
    cryptsetup("luksHeaderBackup", &file(&theirs), volume, None)?.must_exit(0)?;
    let backup = read(&theirs)?;
    must_equal("Luxor's backup", &read(&ours)?, &backup)?;

    for by_luxor in [true, false] {
        // A backup is padded to a whole page. The keyslots of LUKS1 end before that, so the last
        // page is not damaged here.
        let mut lost = before.clone();
        lost[..backup.len() - 4096].fill(0x5a);
        fs::write(volume, lost).map_err(|e| e.to_string())?;
        if by_luxor {
            luxor_header("restore", volume, &theirs)?
        } else {
            cryptsetup("luksHeaderRestore", &file(&ours), volume, None)?
        }
        .must_exit(0)?;
        must_equal("what is restored", &read(volume)?, &before)?;
    }
    Ok(())
}

/// Bytes that can be damaged without losing what a repair needs. LUKS1 has only one copy of its
/// header, but the number of stripes of an empty keyslot is known.
const DAMAGES: [(bool, &[usize]); 2] = [
    (true, &[208 + 48 * 3 + 44 + 2, 208 + 48 * 5 + 44]),
    (false, &[0, 4096, 16384 + 300]),
];

/// Either program repairs a damaged header. The metadata are then the same as before.
pub fn repair(bench: &mut Bench, cell: Cell, _: usize) -> Outcome<Word> {
    let subject = Subject::new(bench, cell)?;
    let whole = read(subject.header())?;
    let damages = DAMAGES.iter().find(|(luks1, _)| *luks1 == cell.is_luks1());
    let (_, places) = damages.ok_or("there are two versions")?;
    for &place in *places {
        for (program, line) in [
            (Program::Cryptsetup, "repair HEADER"),
            (Program::Luxor, "header repair HEADER"),
        ] {
            let damaged = subject.copy(bench)?;
            let mut bytes = whole.clone();
            bytes[place] ^= 0x81;
            fs::write(damaged.header(), bytes).map_err(|e| e.to_string())?;
            let mended = || {
                damaged.run(Program::Luxor, "check HEADER")?.must_exit(1)?;
                damaged.run(program, line)?.must_exit(0)?;
                say_the_same(&subject, &damaged)?;
                opens(&damaged)
            };
            mended().map_err(|error| format!("{program:?}, byte {place}: {error}"))?;
        }
    }
    Ok(Word::Passed)
}

/// Each program converts, and the other converts back. LUKS1 has only sectors of 512 bytes and only
/// PBKDF2.
pub fn convert(bench: &mut Bench, cell: Cell, _: usize) -> Outcome<Word> {
    let subject = Subject::new(bench, cell)?;
    let (a, b) = (subject.copy(bench)?, subject.copy(bench)?);
    let (to, back, is_possible) = match cell.format {
        Format::Luks1 { .. } => ("luks2", "luks1", true),
        Format::Luks2 { pbkdf } => {
            let is_possible = pbkdf == Pbkdf::Pbkdf2 && cell.sector_size == 512;
            ("luks1", "luks2", is_possible)
        }
    };
    let ours = |to| format!("convert --batch-mode --type {to} HEADER");
    let theirs = |to| format!("convert --type {to} HEADER");
    if !is_possible {
        a.run(Program::Luxor, &ours(to))?.must_exit(1)?;
        b.run(Program::Cryptsetup, &theirs(to))?.must_exit(1)?;
        let before = read(subject.header())?;
        must_equal("what Luxor refuses", &read(a.header())?, &before)?;
        must_equal("what cryptsetup refuses", &read(b.header())?, &before)?;
        return Ok(Word::Refused);
    }
    a.run(Program::Luxor, &ours(to))?.must_exit(0)?;
    b.run(Program::Cryptsetup, &theirs(to))?.must_exit(0)?;
    must(a.is_luks1()? != cell.is_luks1(), "it is what it was")?;
    alike(&a, &b)?;
    opens(&a).and_then(|()| opens(&b))?;
    a.run(Program::Cryptsetup, &theirs(back))?.must_exit(0)?;
    b.run(Program::Luxor, &ours(back))?.must_exit(0)?;
    must(a.is_luks1()? == cell.is_luks1(), "it does not come back")?;
    alike(&a, &b)?;
    opens(&a).and_then(|()| opens(&b))?;
    Ok(Word::Passed)
}

/// Compares two subjects except for the offsets of keyslots, which each program chooses
/// differently.
fn alike(a: &Subject, b: &Subject) -> Outcome<()> {
    let places = |line: &str| line.contains("/area/offset") || line.contains("material offset");
    say_the_same_but(a, b, places)
}

/// The first key opens the volume in both programs, and the volume is intact.
fn opens(subject: &Subject) -> Outcome<()> {
    let line = "open --test-passphrase --key-file FIRST VOLUME";
    subject.run(Program::Cryptsetup, line)?.must_exit(0)?;
    let line = "check --key-file FIRST VOLUME";
    subject.run(Program::Luxor, line)?.must_exit(0)
}
