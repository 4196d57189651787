// SPDX-License-Identifier: MIT OR Apache-2.0
//! `file`: `luxor encrypt`, `luxor decrypt` and `luxor dump` of a file in memory, in turn with `cp`
//! of the same file.
//!
//! Only one input and one output exist at a time: the output of `decrypt` is the input of the next
//! round. In the untimed first round it is compared byte by byte.

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
    program::{self, Folder, Program},
    stats::{self, Summary},
};

/// The options of the bench.
pub(crate) struct Plan {
    pub(crate) luxor: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) bytes: usize,
    pub(crate) quick: bool,
    /// `--engine` and `--threads`, as given.
    pub(crate) options: Vec<String>,
}

impl Bench for Plan {
    const HELP: &'static str =
        "luxor encrypt, decrypt and dump of a file in memory, compared with cp";
    const SIZE: Option<&'static str> = Some("size of the file [default: 4G, quick: 128M]");
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

/// The result of the bench.
#[derive(Debug, Deserialize, Serialize)]
#[serde(bound(deserialize = "'de: 'static"))]
pub(crate) struct Report {
    file_bytes: usize,
    /// Whether the folder is on `tmpfs`. Everything else is slower.
    in_memory: bool,
    /// The version of `qemu-img`, or why it was left out; `None` if it is not installed.
    qemu: Option<String>,
    rows: Vec<FileTimes>,
}

#[derive(Debug, Deserialize, Serialize)]
struct FileTimes {
    what: &'static str,
    seconds: Summary,
    /// The seconds of each round, in order.
    each_seconds: Vec<f64>,
    /// 10⁹ bytes of the file per second; null for `dump`.
    gb_per_s: Option<f64>,
    /// The ratio of the time to that of `cp` in the same round.
    times_cp: Option<Summary>,
    /// The most memory that the process used at a time.
    peak_bytes: u64,
}

/// Dumps per round: 56 in all 7 rounds.
const DUMPS: usize = 8;

/// Runs the bench.
pub(crate) fn measure(plan: &Plan) -> Result<Report, String> {
    let in_memory = check(plan)?;
    let folder = Folder::new(&plan.folder)?;
    let mut session = Session::new(plan, &folder)?;
    let rounds = if plan.quick { 3 } else { 7 };
    for round in 0..=rounds {
        session.round(round)?;
    }
    Ok(Report {
        file_bytes: plan.bytes,
        in_memory,
        rows: session.rows(),
        qemu: session.qemu,
    })
}

/// The files, and the programs that process them.
struct Session {
    bytes: usize,
    plain: PathBuf,
    copy: PathBuf,
    volume: PathBuf,
    qemu: Option<String>,
    cp: Program,
    encrypt: Program,
    decrypt: Program,
    dump: Program,
    /// `None` if it is not installed or has failed.
    qemu_img: Option<Program>,
}

impl Session {
    fn new(plan: &Plan, folder: &Folder) -> Result<Self, String> {
        let [plain, copy, volume, key] =
            ["plain", "copy", "volume", "key"].map(|name| folder.path().join(name));
        fs::write(&key, [0x4b; 32]).map_err(|e| format!("{}: {e}", key.display()))?;
        plaintext::make(&plain, plan.bytes)?;
        let program =
            |words: &[&dyn AsRef<OsStr>]| Program::new(words.iter().map(OsString::from).collect());
        let luxor = |command: &str, more: &[&str], [from, to]: [&Path; 2]| {
            let mut luxor = program(&[&plan.luxor, &command]);
            luxor.words.extend(plan.options.iter().map(OsString::from));
            let key_file: [&dyn AsRef<OsStr>; 3] = [&"-q", &"--key-file", &key];
            luxor.words.extend(key_file.map(OsString::from));
            luxor.words.extend(more.iter().map(OsString::from));
            luxor.words.extend([from, to].map(OsString::from));
            luxor
        };
        let cheap = ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"];
        let qemu = qemu_version();
        Ok(Self {
            bytes: plan.bytes,
            cp: program(&[&"cp", &plain, &copy]),
            encrypt: luxor("encrypt", &cheap, [&plain, &volume]),
            decrypt: luxor("decrypt", &[], [&volume, &plain]),
            dump: program(&[&plan.luxor, &"dump", &volume]),
            qemu_img: qemu
                .is_some()
                .then(|| Program::new(qemu_convert(&plain, &copy, &key))),
            qemu,
            plain,
            copy,
            volume,
        })
    }

    /// The first round warms up, and checks that the bytes come back.
    fn round(&mut self, round: usize) -> Result<(), String> {
        let timed = round > 0;
        if round.is_multiple_of(2) {
            self.copy(timed)?;
        }
        self.convert(timed);
        self.encrypt.run(timed)?;
        remove(&self.plain)?;
        for _ in 0..DUMPS {
            self.dump.run(timed)?;
        }
        self.decrypt.run(timed)?;
        remove(&self.volume)?;
        if !timed {
            compare(&self.plain, self.bytes)?;
        }
        if !round.is_multiple_of(2) {
            self.copy(timed)?;
        }
        Ok(())
    }

    fn copy(&mut self, timed: bool) -> Result<(), String> {
        self.cp.run(timed)?;
        remove(&self.copy)
    }

    /// Errors only leave `qemu-img` out: its timing of the key derivation sometimes fails on
    /// virtual machines.
    fn convert(&mut self, timed: bool) {
        let Some(qemu_img) = &mut self.qemu_img else {
            return;
        };
        if let Err(message) = qemu_img.run(timed).and_then(|()| remove(&self.copy)) {
            let _ = fs::remove_file(&self.copy);
            self.qemu_img = None;
            self.qemu = Some(format!("qemu-img is left out: {message}"));
        }
    }

    fn rows(&self) -> Vec<FileTimes> {
        let all = [
            ("cp", Some(&self.cp)),
            ("luxor encrypt", Some(&self.encrypt)),
            ("luxor decrypt", Some(&self.decrypt)),
            ("qemu-img convert to LUKS1", self.qemu_img.as_ref()),
            ("luxor dump", Some(&self.dump)),
        ];
        let row = |(what, program): (&'static str, Option<&Program>)| {
            let lane = &program?.lane;
            let each_seconds: Vec<f64> = lane.seconds.iter().flatten().copied().collect();
            let seconds = Summary::from_samples(each_seconds.clone())?;
            let whole = what != "luxor dump";
            let times_cp = stats::ratios(&lane.seconds, &self.cp.lane.seconds);
            Some(FileTimes {
                what,
                seconds,
                each_seconds,
                gb_per_s: whole.then(|| self.bytes as f64 / seconds.median / 1e9),
                times_cp: times_cp.filter(|_| whole && what != "cp"),
                peak_bytes: lane.peak,
            })
        };
        all.into_iter().filter_map(row).collect()
    }
}

/// Checks that the bench can run, and returns whether the folder is in memory.
pub(crate) fn check(plan: &Plan) -> Result<bool, String> {
    program::first_line("cp", &["--version"])?;
    check_room(plan)
}

/// Checks that there is room, and returns whether the folder is in memory.
fn check_room(plan: &Plan) -> Result<bool, String> {
    let needed = (plan.bytes as u64)
        .saturating_mul(2)
        .saturating_add(64 << 20);
    program::check_room(&plan.folder, needed, "two copies of the file")
}

fn compare(path: &Path, len: usize) -> Result<(), String> {
    let file = File::open(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    plaintext::compare(file, len).map_err(|e| {
        format!("the output of `luxor decrypt` differs from the input of `luxor encrypt`: {e}")
    })
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

/// Returns the command for the same cipher, with the cheapest key derivation that qemu-img accepts.
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
        // Also with the greatest size, twice which exceeds 64 bits.
        for bytes in [1 << 60, isize::MAX.unsigned_abs()] {
            let plan = Plan {
                luxor: "luxor".into(),
                folder: env::temp_dir(),
                bytes,
                quick: true,
                options: Vec::new(),
            };
            // Not `measure`: if the check were broken, it would fill the disk.
            let message = check_room(&plan).unwrap_err();
            assert!(message.contains("--size"), "{message}");
        }
    }
}
