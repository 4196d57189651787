// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small headers: both programs find room for the same number of keyslots.

use crate::{
    Cell, KEY_FILE, SecretKind,
    programs::{
        Bench, Outcome, Ran, Secret, Volume, cryptsetup, cryptsetup_tries, metadata, must_be, text,
    },
};

/// The metadata size and the keyslots size in KiB, the key size in bits, and the number of keyslots
/// for which there is room.
const SIZES: [(u64, u64, usize, usize); 8] = [
    (16, 252, 512, 1),
    (16, 500, 512, 1),
    (16, 504, 512, 2),
    (16, 512, 512, 2),
    (64, 1024, 512, 4),
    (16, 128, 256, 1),
    (32, 260, 256, 2),
    (4096, 512, 256, 4),
];

#[test]
fn both_programs_fill_a_header_with_the_same_number_of_keyslots() -> Outcome<()> {
    let mut bench = Bench::new();
    for (metadata_size, keyslots_size, key_size, room) in SIZES {
        let cell = Cell {
            key_size,
            header_sizes: Some((metadata_size, keyslots_size)),
            ..Cell::example()
        };
        for by_luxor in [true, false] {
            fill(&mut bench, cell, by_luxor, room)
                .map_err(|error| format!("{cell}, by_luxor {by_luxor}: {error}"))?;
        }
        bench.clear()?;
    }
    Ok(())
}

/// One program makes a volume, and the other adds keys until the header is full. All of them open
/// the volume in both programs.
fn fill(bench: &mut Bench, cell: Cell, by_luxor: bool, room: usize) -> Outcome<()> {
    let payload = [7; 4096];
    let first = bench.secret(KEY_FILE, SecretKind::KeyFile);
    let make = if by_luxor {
        Bench::made_by_luxor
    } else {
        Bench::made_by_cryptsetup
    };
    let volume = make(bench, cell, &first, &payload)?;
    let (metadata_size, keyslots_size) = cell.header_sizes.ok_or("no sizes")?;
    let config = &metadata(&volume.data)?["config"];
    let json_size = (metadata_size << 10) - 4096;
    must_be(&config["json_size"], json_size.to_string())?;
    must_be(&config["keyslots_size"], (keyslots_size << 10).to_string())?;

    for slot in 1..=room {
        let new = bench.secret(format!("secret {slot}").as_bytes(), SecretKind::KeyFile);
        let added = add(bench, cell, &volume, &first, &new, !by_luxor)?;
        if slot == room {
            added.must_exit(1)?;
            break;
        }
        added.must_exit(0)?;
        cryptsetup_tries(&volume, &[], &new)?.must_exit(0)?;
        bench.luxor_checks(&volume, &new)?;
    }
    cryptsetup_tries(&volume, &[], &first)?.must_exit(0)?;
    bench.luxor_decrypts(&volume, &[], &first, &payload)
}

fn add(
    bench: &Bench,
    cell: Cell,
    volume: &Volume,
    first: &Secret,
    new: &Secret,
    by_luxor: bool,
) -> Outcome<Ran> {
    let option = if by_luxor {
        "--new-key-file"
    } else {
        "--new-keyfile"
    };
    let new = text(new.key_file.as_deref().ok_or("no key file")?);
    let options = [cell.pbkdf_options(), vec![option.to_owned(), new]].concat();
    if by_luxor {
        bench.luxor("key add", &[&volume.data], &options, first)
    } else {
        cryptsetup("luksAddKey", &options, &volume.data, Some(first))
    }
}
