// SPDX-License-Identifier: MIT OR Apache-2.0
//! `unlock`: how long `luxor check` takes to open a keyslot, beside `cryptsetup open
//! --test-passphrase` of the same volume, in alternation.
//!
//! Both fail when the key is not the right one, so that who gets here has opened it.

mod page;

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{
    program::{self, Folder, Lane},
    stats::{self, Summary},
};

/// What is to be measured.
pub(crate) struct Plan {
    pub(crate) luxor: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) quick: bool,
}

/// What came out.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    cryptsetup: String,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    what: &'static str,
    luxor_seconds: Summary,
    cryptsetup_seconds: Summary,
    /// Luxor's time over cryptsetup's in the same round.
    times_cryptsetup: Summary,
    luxor_peak_bytes: u64,
    cryptsetup_peak_bytes: u64,
}

/// A keyslot's costs, in words and as options of `luxor encrypt`.
type Keyslot = (&'static str, &'static [&'static str]);

const KEYSLOTS: [Keyslot; 4] = [
    (
        "argon2id, 1 GiB, 4 passes, 4 lanes",
        &[
            "--pbkdf=argon2id",
            "--pbkdf-memory=1048576",
            "--pbkdf-parallel=4",
            "--pbkdf-force-iterations=4",
        ],
    ),
    (
        "argon2id, 1 GiB, 4 passes, 1 lane",
        &[
            "--pbkdf=argon2id",
            "--pbkdf-memory=1048576",
            "--pbkdf-parallel=1",
            "--pbkdf-force-iterations=4",
        ],
    ),
    (
        "argon2i, 64 MiB, 8 passes, 2 lanes",
        &[
            "--pbkdf=argon2i",
            "--pbkdf-memory=65536",
            "--pbkdf-parallel=2",
            "--pbkdf-force-iterations=8",
        ],
    ),
    (
        "pbkdf2-sha256, 2000000 iterations",
        &["--pbkdf=pbkdf2", "--pbkdf-force-iterations=2000000"],
    ),
];

/// Measures.
///
/// # Errors
/// When a program fails or is missing, or there is no room.
pub(crate) fn measure(plan: &Plan) -> Result<Report, String> {
    let cryptsetup = program::first_line("cryptsetup", &["--version"])?;
    let folder = Folder::new(&plan.folder)?;
    let [plain, volume, key] = ["plain", "volume", "key"].map(|f| folder.path().join(f));
    let cannot_write = |path: &Path, e| format!("cannot write {}: {e}", path.display());
    fs::write(&key, [0x4b; 32]).map_err(|e| cannot_write(&key, e))?;
    fs::write(&plain, [0; 4096]).map_err(|e| cannot_write(&plain, e))?;
    let words = |words: &[&str], paths: &[&Path]| -> Vec<OsString> {
        let paths = paths.iter().map(OsString::from);
        words.iter().map(OsString::from).chain(paths).collect()
    };
    let luxor = |command: &str| {
        let mut all = words(&[], &[&plan.luxor]);
        all.extend(words(&[command, "-q", "--key-file"], &[&key]));
        all
    };

    let rounds = if plan.quick { 3 } else { 7 };
    let mut rows = Vec::new();
    for (what, costs) in KEYSLOTS {
        let make = [
            luxor("encrypt"),
            words(costs, &[]),
            words(&["--force"], &[&plain, &volume]),
        ];
        Lane::default().run(&make.concat(), false)?;
        let ours = [luxor("check"), words(&[], &[&volume])].concat();
        let theirs = words(
            &["cryptsetup", "open", "--test-passphrase", "--key-file"],
            &[&key, &volume],
        );
        let [mut of_luxor, mut of_cryptsetup] = [(); 2].map(|()| Lane::default());
        for round in 0..=rounds {
            // The first is to warm up.
            let timed = round > 0;
            if round % 2 == 0 {
                of_luxor.run(&ours, timed)?;
                of_cryptsetup.run(&theirs, timed)?;
            } else {
                of_cryptsetup.run(&theirs, timed)?;
                of_luxor.run(&ours, timed)?;
            }
        }
        let summary = |lane: &Lane| Summary::of(lane.seconds.iter().flatten().copied().collect());
        let (Some(luxor_seconds), Some(cryptsetup_seconds), Some(times_cryptsetup)) = (
            summary(&of_luxor),
            summary(&of_cryptsetup),
            stats::ratios(&of_luxor.seconds, &of_cryptsetup.seconds),
        ) else {
            unreachable!("there are rounds")
        };
        rows.push(Row {
            what,
            luxor_seconds,
            cryptsetup_seconds,
            times_cryptsetup,
            luxor_peak_bytes: of_luxor.peak,
            cryptsetup_peak_bytes: of_cryptsetup.peak,
        });
    }
    Ok(Report { cryptsetup, rows })
}

impl Report {
    /// The table for a terminal.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "Opening a keyslot, beside {}. Medians, and the quartiles.\n{:<36} {:>23} {:>23} {:>19} {:>14}\n",
            self.cryptsetup,
            "",
            "luxor, seconds",
            "cryptsetup, seconds",
            "times cryptsetup",
            "peaks, MiB"
        );
        let mib = |bytes: u64| bytes >> 20;
        for row in &self.rows {
            text += &format!(
                "{:<36} {:>23} {:>23} {:>19} {:>14}\n",
                row.what,
                row.luxor_seconds.text(3),
                row.cryptsetup_seconds.text(3),
                row.times_cryptsetup.text(3),
                format!(
                    "{} / {}",
                    mib(row.luxor_peak_bytes),
                    mib(row.cryptsetup_peak_bytes)
                ),
            );
        }
        text
    }
}
