// SPDX-License-Identifier: MIT OR Apache-2.0
//! `file`: `luxor encrypt`, `luxor decrypt` and `luxor dump` of a file in memory,
//! beside `cp` of the same file, in alternation.
//!
//! Input and output are there at a time and nothing else: what `decrypt` wrote is
//! the next round's input. In the round before the first it is compared, byte by byte.

mod section;

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use serde::{Deserialize, Serialize};

use crate::{
    bench::{Bench, Context, NoOptions},
    plaintext,
    program::{self, Folder, Lane},
    stats::{self, Summary},
};

/// What is to be measured.
pub(crate) struct Plan {
    pub(crate) luxor: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) bytes: usize,
    pub(crate) quick: bool,
    /// `--engine` and `--threads`, as they were given.
    pub(crate) options: Vec<String>,
}

impl Bench for Plan {
    const NAME: &'static str = "file";
    const HELP: &'static str = "luxor encrypt, decrypt and dump of a file in memory, beside cp";
    const SIZE: Option<&'static str> = Some("of the file [4G, quick: 512M]");
    type Options = NoOptions;
    type Report = Report;

    fn new(context: &Context, _: NoOptions) -> Result<Self, String> {
        let settings = &context.settings;
        Ok(Self {
            luxor: settings.luxor()?,
            folder: settings.dir.clone(),
            bytes: settings.bytes(4 << 30, 512 << 20),
            quick: settings.quick,
            options: settings.options_of_luxor(),
        })
    }

    fn check(&self) -> Result<(), String> {
        check(self).map(drop)
    }

    fn measure(&self) -> Result<Report, String> {
        measure(self)
    }

    fn section(report: &Report) -> crate::section::Section {
        report.section()
    }
}

/// What came out.
#[derive(Debug, Deserialize, Serialize)]
#[serde(bound(deserialize = "'de: 'static"))]
pub(crate) struct Report {
    file_bytes: usize,
    /// `tmpfs`, or something slower.
    in_memory: bool,
    /// `qemu-img`'s version if it is there, or why it was left out.
    qemu: Option<String>,
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Row {
    what: &'static str,
    seconds: Summary,
    /// Those of each round, in their order.
    each_seconds: Vec<f64>,
    /// 10⁹ bytes of the file a second; null for `dump`.
    gb_per_s: Option<f64>,
    /// The ratio of the time to that of `cp` in the same round.
    times_cp: Option<Summary>,
    /// The most memory that the process had at a time.
    peak_bytes: u64,
}

/// Dumps in a round: 56 in all of 7.
const DUMPS: usize = 8;

/// Measures.
///
/// # Errors
/// When a program fails or is missing, there is no room, or the file that comes back
/// is another one.
pub(crate) fn measure(plan: &Plan) -> Result<Report, String> {
    let in_memory = check(plan)?;
    let folder = Folder::new(&plan.folder)?;
    let [plain, copy, volume, key] =
        ["plain", "copy", "volume", "key"].map(|f| folder.path().join(f));
    fs::write(&key, [0x4b; 32]).map_err(|e| format!("{}: {e}", key.display()))?;
    plaintext::make(&plain, plan.bytes)?;

    let luxor = |command: &str| {
        let mut words: Vec<OsString> = vec![plan.luxor.clone().into(), command.into()];
        words.extend(plan.options.iter().map(OsString::from));
        words
    };
    let with = |mut words: Vec<OsString>, more: &[&OsStr]| {
        words.extend(more.iter().map(OsString::from));
        words
    };
    let (plain_, copy_, volume_, key_) = (
        plain.as_os_str(),
        copy.as_os_str(),
        volume.as_os_str(),
        key.as_os_str(),
    );
    let key_file = [OsStr::new("-q"), OsStr::new("--key-file"), key_];
    let cheap = ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"].map(OsStr::new);
    let encrypt = with(with(luxor("encrypt"), &key_file), &cheap);
    let encrypt = with(encrypt, &[plain_, volume_]);
    let decrypt = with(with(luxor("decrypt"), &key_file), &[volume_, plain_]);
    let dump = vec![
        plan.luxor.clone().into(),
        "dump".into(),
        volume.clone().into(),
    ];
    let cp = with(vec!["cp".into()], &[plain_, copy_]);
    let mut qemu = qemu_version();
    let mut with_qemu = qemu.is_some();
    let qemu_img = qemu_convert(&plain, &copy, &key);

    let [
        mut of_cp,
        mut of_encrypt,
        mut of_decrypt,
        mut of_dump,
        mut of_qemu,
    ] = [(); 5].map(|()| Lane::default());
    let rounds = if plan.quick { 3 } else { 7 };
    for round in 0..=rounds {
        // The first is to warm up, and to see that the bytes come back.
        let timed = round > 0;
        let turns = |lane: &mut Lane| {
            lane.run(&cp, timed)?;
            remove(&copy)
        };
        if round % 2 == 0 {
            turns(&mut of_cp)?;
        }
        if with_qemu {
            let done = of_qemu.run(&qemu_img, timed).and_then(|()| remove(&copy));
            match done {
                Ok(()) => {}
                // Its timing of the key derivation fails now and then on virtual machines.
                Err(message) => {
                    let _ = fs::remove_file(&copy);
                    with_qemu = false;
                    of_qemu = Lane::default();
                    qemu = Some(format!("qemu-img is left out: {message}"));
                }
            }
        }
        of_encrypt.run(&encrypt, timed)?;
        remove(&plain)?;
        for _ in 0..DUMPS {
            of_dump.run(&dump, timed)?;
        }
        of_decrypt.run(&decrypt, timed)?;
        remove(&volume)?;
        if !timed {
            compare(&plain, plan.bytes)?;
        }
        if round % 2 == 1 {
            turns(&mut of_cp)?;
        }
    }

    let mut rows = Vec::new();
    for (what, lane) in [
        ("cp", &of_cp),
        ("luxor encrypt", &of_encrypt),
        ("luxor decrypt", &of_decrypt),
        ("qemu-img convert to LUKS1", &of_qemu),
        ("luxor dump", &of_dump),
    ] {
        let each_seconds: Vec<f64> = lane.seconds.iter().flatten().copied().collect();
        let Some(seconds) = Summary::of(each_seconds.clone()) else {
            continue;
        };
        let whole = what != "luxor dump";
        rows.push(Row {
            what,
            seconds,
            each_seconds,
            gb_per_s: whole.then(|| plan.bytes as f64 / seconds.median / 1e9),
            times_cp: stats::ratios(&lane.seconds, &of_cp.seconds)
                .filter(|_| whole && what != "cp"),
            peak_bytes: lane.peak,
        });
    }
    Ok(Report {
        file_bytes: plan.bytes,
        in_memory,
        qemu,
        rows,
    })
}

/// Whether the folder is in memory.
///
/// # Errors
/// When what copies is not here, or [`check_room`]'s.
pub(crate) fn check(plan: &Plan) -> Result<bool, String> {
    program::first_line("cp", &["--version"])?;
    check_room(plan)
}

/// Whether the folder is in memory.
///
/// # Errors
/// When there is no such folder, or in it no room for the file twice.
fn check_room(plan: &Plan) -> Result<bool, String> {
    let needed = (plan.bytes as u64)
        .saturating_mul(2)
        .saturating_add(64 << 20);
    program::check_room(&plan.folder, needed, "the file twice")
}

fn compare(path: &Path, len: usize) -> Result<(), String> {
    let file = File::open(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    plaintext::compare(file, len)
        .map_err(|e| format!("what `luxor decrypt` wrote is not what was encrypted: {e}"))
}

fn remove(path: &Path) -> Result<(), String> {
    fs::remove_file(path).map_err(|e| format!("cannot remove {}: {e}", path.display()))
}

fn qemu_version() -> Option<String> {
    let output = Command::new("qemu-img").arg("--version").output().ok()?;
    Some(
        String::from_utf8(output.stdout)
            .ok()?
            .lines()
            .next()?
            .to_owned(),
    )
}

/// The same cipher, and the least of key derivation that it takes.
fn qemu_convert(plain: &Path, volume: &Path, key: &Path) -> Vec<OsString> {
    let mut secret = OsString::from("secret,id=key,file=");
    secret.push(key);
    let options =
        "key-secret=key,cipher-alg=aes-256,cipher-mode=xts,ivgen-alg=plain64,iter-time=200";
    let words = ["qemu-img", "convert", "-f", "raw", "-O", "luks", "--object"];
    let mut words: Vec<OsString> = words.iter().map(OsString::from).collect();
    words.extend([
        secret,
        "-o".into(),
        options.into(),
        plain.into(),
        volume.into(),
    ]);
    words
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    #[test]
    fn too_little_room_is_an_error() {
        // The most that can be asked for, too: twice as much is no number of 64 bits.
        for bytes in [1 << 60, isize::MAX.unsigned_abs()] {
            let plan = Plan {
                luxor: "luxor".into(),
                folder: env::temp_dir(),
                bytes,
                quick: true,
                options: Vec::new(),
            };
            // Not `measure`: if this is broken, that fills the disk.
            let message = check_room(&plan).unwrap_err();
            assert!(message.contains("--size"), "{message}");
        }
    }
}
