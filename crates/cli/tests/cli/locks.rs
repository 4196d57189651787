// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metadata are changed under the locks of cryptsetup, or not at all.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Command,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::support::{FAST, Folder, Loop, Outcome, as_nobody, luxor, tool};

/// A folder with keys, and a volume on a loop device that every user may write.
fn prepared(version: &str) -> (Folder, Device) {
    let folder = Folder::new();
    for name in ["key", "other"] {
        folder.write(name, name);
    }
    let image = folder.join("image");
    luxor("format --size 1M --key-file key image --type")
        .arg(version)
        .args(FAST)
        .current_dir(folder.path())
        .ok();
    folder.open_to_everybody();
    let device = Device(Loop::of(&image));
    fs::set_permissions(device.name(), fs::Permissions::from_mode(0o666)).unwrap();
    (folder, device)
}

struct Device(Loop);

impl Device {
    fn name(&self) -> &str {
        &self.0.0
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = fs::set_permissions(self.name(), fs::Permissions::from_mode(0o660));
    }
}

fn opens(device: &Device, folder: &Folder, key: &str) -> bool {
    let outcome = luxor("key test --key-file")
        .args([key, device.name()])
        .current_dir(folder.path())
        .run();
    outcome.code == Some(0)
}

/// All commands that change metadata. None of them gets as far as a secret.
const CHANGES: [&str; 9] = [
    "key add --key-file key --new-key-file other",
    "key change --key-file key --new-key-file other",
    "key convert --key-file key --pbkdf pbkdf2",
    "key remove --key-file key --last",
    "token add --key-description words",
    "config --label new",
    "convert --type luks1",
    "erase --batch-mode",
    "header repair",
];

#[test]
fn a_change_without_cryptsetups_lock_is_refused() {
    let (folder, device) = prepared("luks2");
    let name = device.name();
    luxor("header backup")
        .args([name, "backup"])
        .current_dir(folder.path())
        .ok();
    fs::set_permissions(folder.join("backup"), fs::Permissions::from_mode(0o444)).unwrap();
    let before = fs::read(folder.join("image")).unwrap();
    let restore = format!("header restore --batch-mode {name} backup");
    let lines = CHANGES.map(|line| format!("{line} {name}"));
    for line in lines.iter().chain([&restore]) {
        let outcome = as_nobody(&format!("\"$luxor\" {line} < /dev/null"), folder.path());
        outcome.assert_code(5);
        for words in ["cannot lock", "/run/cryptsetup/L_", "--disable-locks"] {
            assert!(outcome.stderr.contains(words), "{line}: {}", outcome.stderr);
        }
    }
    // Root cannot have the lock either where /run is read-only.
    let outcome = tool(
        "unshare",
        [
            "--mount",
            "sh",
            "-c",
            "mount -t tmpfs -o ro none /run && \"$0\" config --label new \"$1\"; echo $?",
            env!("CARGO_BIN_EXE_luxor"),
            name,
        ],
    );
    assert_eq!(outcome.text(), "5\n", "{}", outcome.stderr);
    assert!(
        fs::read(folder.join("image")).unwrap() == before,
        "nothing is written"
    );

    let allowed = |line: &str| {
        let line = format!("\"$luxor\" {line} --disable-locks {name} < /dev/null");
        as_nobody(&line, folder.path()).assert_code(0);
    };
    allowed("config --label new");
    allowed(&format!("{} {}", CHANGES[0], FAST.join(" ")));
    assert!(opens(&device, &folder, "other"));
}

/// cryptsetup has no lock for it.
#[test]
fn luks1_is_changed_without_cryptsetups_lock() {
    let (folder, device) = prepared("luks1");
    let line = format!(
        "\"$luxor\" {} {} {}",
        CHANGES[0],
        FAST.join(" "),
        device.name()
    );
    as_nobody(&line, folder.path()).assert_code(0);
    assert!(opens(&device, &folder, "other"));
}

/// Numbers below a bound, from a seed that is printed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// Of two changes at the same time each is made whole or refused, whoever makes them and
/// wherever one of them is stopped for a while.
#[test]
fn changes_at_the_same_time_lose_no_key() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let mut dice = Dice(now.subsec_nanos().into());
    println!("seed {}", dice.0);
    for version in ["luks1", "luks2"] {
        let (folder, device) = prepared(version);
        let (mut key, mut made) = ("key".to_owned(), 0);
        for round in 0..6 {
            let [ours, theirs] = ["root", "nobody"].map(|user| format!("{user}{round}"));
            for name in [&ours, &theirs] {
                folder.write(name, name);
            }
            folder.open_to_everybody();
            let what = if round % 2 == 0 { "add" } else { "change" };
            let words = |new: &str| {
                format!(
                    "key {what} --disable-locks --key-file {key} --new-key-file {new} {} {}",
                    FAST.join(" "),
                    device.name()
                )
            };
            let line = format!("\"$luxor\" {}", words(&theirs));
            let child = luxor(&words(&ours)).current_dir(folder.path()).spawn();
            let pid = Pid::from_raw(child.id() as i32);
            let [our, their] = thread::scope(|scope| {
                let their = scope.spawn(|| as_nobody(&line, folder.path()));
                for _ in 0..5 {
                    thread::sleep(Duration::from_micros(dice.below(8000)));
                    kill(pid, Signal::SIGSTOP).unwrap();
                    thread::sleep(Duration::from_micros(dice.below(20_000)));
                    kill(pid, Signal::SIGCONT).unwrap();
                }
                let output = child.wait_with_output().unwrap();
                [Outcome::new(words(&ours), output), their.join().unwrap()]
            });
            for (outcome, name) in [(our, &ours), (their, &theirs)] {
                if outcome.code == Some(0) {
                    assert!(opens(&device, &folder, name), "{version}: {name}");
                    made += 1;
                    if what == "change" {
                        key.clone_from(name);
                    }
                } else if outcome.code == Some(2) {
                    // The key was changed before this one opened the volume.
                    assert_eq!(what, "change", "{}", outcome.stderr);
                } else {
                    outcome.assert_code(1);
                    let is_told = outcome.stderr.contains("changed meanwhile");
                    assert!(is_told, "{}", outcome.stderr);
                }
            }
            assert!(opens(&device, &folder, &key), "{version}: {key}");
        }
        assert!(made >= 6, "{version}: {made} changes");
    }
}

/// A lock that another program has is waited for, and not for ever.
#[test]
fn a_lock_that_is_held_is_waited_for() {
    let (folder, device) = prepared("luks2");
    let held = |seconds: &str| {
        Command::new("flock")
            .args(["--exclusive", device.name(), "sleep", seconds])
            .spawn()
            .unwrap()
    };
    let wait_until_held = || {
        while flock(device.name()) {
            thread::sleep(Duration::from_millis(5));
        }
    };
    let mut holder = held("2");
    wait_until_held();
    luxor("config --label new").arg(device.name()).ok();
    assert!(holder.wait().unwrap().success());
    drop(folder);
}

fn flock(path: &str) -> bool {
    let mut flock = Command::new("flock");
    flock
        .args(["--exclusive", "--nonblock"])
        .arg(Path::new(path));
    flock.arg("true").status().unwrap().success()
}
