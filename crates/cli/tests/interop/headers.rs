// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one program has backed up, the other one restores.

use std::{fs, path::Path};

use crate::programs::{Bench, Outcome, cryptsetup, luxor_header, must_equal, text};

/// Both back up the header of `volume`, which is then lost and restored, to the byte.
pub fn come_back(bench: &mut Bench, volume: &Path) -> Outcome<()> {
    let read = |path: &Path| fs::read(path).map_err(|e| e.to_string());
    let before = read(volume)?;
    let (ours, theirs) = (bench.new_path(), bench.new_path());
    let file = |path: &Path| ["--header-backup-file".to_owned(), text(path)];
    luxor_header("backup", volume, &ours)?.must_exit(0)?;
    cryptsetup("luksHeaderBackup", &file(&theirs), volume, None)?.must_exit(0)?;
    let backup = read(&theirs)?;
    must_equal("Luxor's backup", &read(&ours)?, &backup)?;

    for by_luxor in [true, false] {
        // A backup ends with a whole page, and LUKS1's keyslots before.
        let mut lost = before.clone();
        lost[..backup.len() - 4096].fill(0x5a);
        fs::write(volume, lost).map_err(|e| e.to_string())?;
        match by_luxor {
            true => luxor_header("restore", volume, &theirs)?,
            false => cryptsetup("luksHeaderRestore", &file(&ours), volume, None)?,
        }
        .must_exit(0)?;
        must_equal("what is restored", &read(volume)?, &before)?;
    }
    Ok(())
}
