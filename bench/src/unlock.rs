// SPDX-License-Identifier: MIT OR Apache-2.0
//! `unlock`: the time of `luxor check` to open a keyslot, in turn with
//! `cryptsetup open --test-passphrase` on the same volume.
//!
//! Both programs fail if the key is wrong, so a successful run has opened the keyslot.

mod section;

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    bench::{Bench, Context, NoOptions},
    program::{self, Folder, Lane},
    size,
    stats::{self, Summary},
};

/// The options of the bench.
pub(crate) struct Plan {
    pub(crate) luxor: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) quick: bool,
}

impl Bench for Plan {
    const HELP: &'static str = "luxor and cryptsetup opening the same keyslots";
    type Options = NoOptions;
    type Report = Report;

    fn new(context: &Context, _: NoOptions) -> Result<Self, String> {
        let settings = &context.settings;
        Ok(Self {
            luxor: settings.luxor()?,
            folder: settings.dir.clone(),
            quick: settings.quick,
        })
    }

    fn check(&self) -> Result<(), String> {
        check().map(drop)
    }

    fn measure(&self) -> Result<Report, String> {
        measure(self)
    }

    fn section(report: &Report) -> crate::section::Section {
        report.section()
    }
}

/// The result of the bench.
#[derive(Debug, Deserialize, Serialize)]
#[serde(bound(deserialize = "'de: 'static"))]
pub(crate) struct Report {
    cryptsetup: String,
    rows: Vec<UnlockTimes>,
}

#[derive(Debug, Deserialize, Serialize)]
struct UnlockTimes {
    what: String,
    luxor_seconds: Summary,
    cryptsetup_seconds: Summary,
    /// Luxor's time divided by cryptsetup's in the same round.
    times_cryptsetup: Summary,
    luxor_peak_bytes: u64,
    cryptsetup_peak_bytes: u64,
}

/// The costs of a keyslot, in words and as options of `luxor encrypt`.
struct Keyslot {
    what: String,
    options: Vec<String>,
}

impl Keyslot {
    /// Returns all keyslots. A quick run uses less memory and fewer iterations.
    fn all(quick: bool) -> [Self; 4] {
        let (most, least, iterations) = if quick {
            (64, 32, 250_000)
        } else {
            (1024, 64, 2_000_000)
        };
        [
            Self::argon2("argon2id", most, 4, 4),
            Self::argon2("argon2id", most, 4, 1),
            Self::argon2("argon2i", least, 8, 2),
            Self {
                what: format!("pbkdf2-sha256, {iterations} iterations"),
                options: vec![
                    "--pbkdf=pbkdf2".to_owned(),
                    format!("--pbkdf-force-iterations={iterations}"),
                ],
            },
        ]
    }

    fn argon2(name: &str, mib: usize, passes: usize, lanes: usize) -> Self {
        let memory = size::text(mib << 20);
        let all = if lanes == 1 { "lane" } else { "lanes" };
        Self {
            what: format!("{name}, {memory}, {passes} passes, {lanes} {all}"),
            options: vec![
                format!("--pbkdf={name}"),
                format!("--pbkdf-memory={}", mib << 10),
                format!("--pbkdf-parallel={lanes}"),
                format!("--pbkdf-force-iterations={passes}"),
            ],
        }
    }
}

/// Returns the version of cryptsetup.
pub(crate) fn check() -> Result<String, String> {
    program::first_line("cryptsetup", &["--version"])
}

/// Runs the bench.
pub(crate) fn measure(plan: &Plan) -> Result<Report, String> {
    let cryptsetup = check()?;
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
    for Keyslot { what, options } in Keyslot::all(plan.quick) {
        let make = [
            luxor("encrypt"),
            options.into_iter().map(OsString::from).collect(),
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
            // The first round warms up.
            let timed = round > 0;
            if round % 2 == 0 {
                of_luxor.run(&ours, timed)?;
                of_cryptsetup.run(&theirs, timed)?;
            } else {
                of_cryptsetup.run(&theirs, timed)?;
                of_luxor.run(&ours, timed)?;
            }
        }
        let summary =
            |lane: &Lane| Summary::from_samples(lane.seconds.iter().flatten().copied().collect());
        let (Some(luxor_seconds), Some(cryptsetup_seconds), Some(times_cryptsetup)) = (
            summary(&of_luxor),
            summary(&of_cryptsetup),
            stats::ratios(&of_luxor.seconds, &of_cryptsetup.seconds),
        ) else {
            unreachable!("there is at least one timed round")
        };
        rows.push(UnlockTimes {
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
