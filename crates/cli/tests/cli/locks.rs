// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metadata are changed only under cryptsetup's locks.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use luxor::files::testing::Loop;
use nix::{
    libc,
    sys::stat::{major, minor},
};

use crate::{
    serve::Server,
    support::{FAST, Folder, Luxor, Outcome, as_nobody, bytes, copy_program, is_long, luxor, tool},
};

/// A folder with keys, and a volume on a loop device to which all users may write.
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
    let device = Device(Loop::over(&image));
    fs::set_permissions(device.name(), fs::Permissions::from_mode(0o666)).unwrap();
    (folder, device)
}

struct Device(Loop);

impl Device {
    fn name(&self) -> &str {
        self.0.name()
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

/// All commands that change metadata. In these tests none of them gets as far as asking for a
/// secret.
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
    // Root cannot take the lock either if /run is read-only.
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
        "nothing was written"
    );

    let allowed = |line: &str| {
        let line = format!("\"$luxor\" {line} --disable-locks {name} < /dev/null");
        as_nobody(&line, folder.path()).assert_code(0);
    };
    allowed("config --label new");
    allowed(&format!("{} {}", CHANGES[0], FAST.join(" ")));
    assert!(opens(&device, &folder, "other"));
}

/// cryptsetup has no lock for LUKS1.
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

/// Covers a device that begins with a LUKS2 volume, and one that will contain LUKS2.
#[test]
fn a_device_is_not_overwritten_without_cryptsetups_lock() {
    let (folder, device) = prepared("luks2");
    let name = device.name();
    folder.write("words", [7; 64]);
    fs::copy(folder.join("image"), folder.join("volume")).unwrap();
    let readable = fs::Permissions::from_mode(0o444);
    fs::set_permissions(folder.join("volume"), readable).unwrap();
    // None of these commands gets as far as asking for a secret.
    let lines = [
        format!("format --force {name}"),
        format!("format --force --type luks1 {name}"),
        format!("encrypt --force words {name}"),
        format!("decrypt --force volume {name}"),
        format!("raw encrypt --mode xts --key-file words --data-unit 64 --force words {name}"),
        format!("header backup --force volume {name}"),
        format!("format --force --size 1M --header {name} data"),
    ];
    let refused = |line: &str, outcome: &Outcome| {
        outcome.assert_code(5);
        for words in ["cannot lock", "/run/cryptsetup/L_", "--disable-locks"] {
            assert!(outcome.stderr.contains(words), "{line}: {}", outcome.stderr);
        }
    };
    let as_nobody =
        |line: &str| as_nobody(&format!("\"$luxor\" {line} < /dev/null"), folder.path());
    let before = fs::read(name).unwrap();
    for line in &lines {
        refused(line, &as_nobody(line));
        let script =
            format!("mount -t tmpfs -o ro none /run && cd \"$1\" && \"$0\" {line} < /dev/null");
        let output = Command::new("unshare")
            .args(["--mount", "sh", "-c", &script])
            .arg(env!("CARGO_BIN_EXE_luxor"))
            .arg(folder.path())
            .output()
            .unwrap();
        refused(line, &Outcome::new(script, output));
    }
    assert!(fs::read(name).unwrap() == before, "nothing was written");
    assert!(!folder.join("data").exists());

    let format = |options: &str| {
        as_nobody(&format!(
            "format --force --key-file key {options} {} {name}",
            FAST.join(" ")
        ))
    };
    format("--disable-locks").assert_code(0);
    assert!(opens(&device, &folder, "key"));
    // cryptsetup has no lock for LUKS1.
    format("--disable-locks --type luks1").assert_code(0);
    format("--type luks1").assert_code(0);
    assert!(opens(&device, &folder, "key"));
    let outcome = format("");
    refused("format", &outcome);
}

/// The `flock` of the device node, and cryptsetup's lock.
#[test]
fn a_device_is_overwritten_under_the_locks() {
    let (folder, device) = prepared("luks2");
    let name = device.name();
    let number = fs::metadata(name).unwrap().rdev();
    let (major, minor) = (major(number), minor(number));
    let named = format!("/run/cryptsetup/L_{major}:{minor}");
    let begin = || {
        let mut bytes = vec![0; 1 << 20];
        let device = File::open(name).unwrap();
        device.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    };
    let moment = || thread::sleep(Duration::from_millis(600));
    for path in [name, &named] {
        let lock = || {
            let mut options = File::options();
            // The process that releases cryptsetup's lock last removes its file.
            options.read(true).write(true).create(path != name);
            loop {
                let file = options.open(path).unwrap();
                file.lock().unwrap();
                let named = fs::metadata(path).map(|named| named.ino());
                if named.is_ok_and(|ino| ino == file.metadata().unwrap().ino()) {
                    return file;
                }
            }
        };
        for name in ["plain", "secret"] {
            let _ = fs::remove_file(folder.join(name));
            tool("mkfifo", [folder.join(name)]);
        }
        let before = begin();
        let child = luxor("encrypt --force --key-file secret plain")
            .arg(name)
            .args(FAST)
            .current_dir(folder.path())
            .spawn();
        let mut plain = writer(&folder.join("plain"));
        // The program asks for the secret after it has opened the device.
        let mut secret = writer(&folder.join("secret"));
        let held = lock();
        secret.write_all(b"key").unwrap();
        drop(secret);
        moment();
        assert!(begin() == before, "{path}: wiped without the lock");
        drop(held);

        plain.write_all(&[1; 4096]).unwrap();
        let is_wiped = || begin().iter().all(|&byte| byte == 0);
        wait_until(is_wiped);
        let held = lock();
        drop(plain);
        moment();
        assert!(is_wiped(), "{path}: a header without the lock");
        drop(held);
        let output = child.wait_with_output().unwrap();
        Outcome::new("encrypt".into(), output).assert_code(0);
        assert!(opens(&device, &folder, "key"));
    }
}

/// Opens a FIFO for writing, once a program has opened it for reading.
fn writer(path: &Path) -> File {
    let mut opened = None;
    wait_until(|| {
        let mut options = File::options();
        options.write(true).custom_flags(libc::O_NONBLOCK);
        opened = options.open(path).ok();
        opened.is_some()
    });
    opened.unwrap()
}

fn wait_until(mut is_true: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_true() {
        assert!(begun.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(5));
    }
}

/// A loop device has its own lock and its own cache.
#[test]
fn a_file_under_a_loop_device_is_changed_there() {
    let (folder, device) = prepared("luks2");
    let before = fs::read(folder.join("image")).unwrap();
    for options in ["", "--disable-locks"] {
        for line in CHANGES {
            luxor(&format!("{line} {options} image"))
                .current_dir(folder.path())
                .fails(5, &format!("Name {} instead", device.name()));
        }
    }
    assert!(fs::read(folder.join("image")).unwrap() == before);
    let change = |path: &str| {
        luxor(CHANGES[1])
            .args(FAST)
            .arg(path)
            .current_dir(folder.path())
            .ok()
    };
    change(device.name());
    drop(device);
    fs::copy(folder.join("key"), folder.join("third")).unwrap();
    fs::rename(folder.join("other"), folder.join("key")).unwrap();
    fs::rename(folder.join("third"), folder.join("other")).unwrap();
    change("image");
}

/// Each loop device has its own lock, and a cache that does not see writes through the other.
#[test]
fn one_of_two_loop_devices_over_a_file_is_not_changed() {
    let (folder, device) = prepared("luks2");
    let twin = Loop::over(&folder.join("image"));
    let before = fs::read(folder.join("image")).unwrap();
    for line in CHANGES {
        luxor(&format!("{line} {}", device.name()))
            .current_dir(folder.path())
            .fails(5, &format!("losetup --detach {}", twin.name()));
    }
    assert!(fs::read(folder.join("image")).unwrap() == before);
    drop(twin);
    luxor(CHANGES[1])
        .args(FAST)
        .arg(device.name())
        .current_dir(folder.path())
        .ok();
}

/// A loop device over the device shows the same data as the device's twin.
#[test]
fn a_loop_device_over_another_one_is_not_changed_beside_a_twin() {
    let (folder, device) = prepared("luks2");
    let above = Loop::over(Path::new(device.name()));
    let config = |path: &str| {
        luxor("config --label new")
            .arg(path)
            .current_dir(folder.path())
    };
    config(above.name()).ok();
    let twin = Loop::over(&folder.join("image"));
    config(above.name()).fails(5, &format!("losetup --detach {}", twin.name()));
    config(twin.name()).fails(5, "losetup --detach");
}

/// The cache of one loop device does not see writes through the other.
#[test]
fn the_data_of_a_loop_device_are_not_written_beside_another_one() {
    let folder = Folder::new();
    folder.write("key", bytes(64, 1));
    folder.write("plain", bytes(100, 2));
    let image = folder.write("image", vec![0; 20 << 20]);
    let device = Loop::over(&image);
    let refused = |target: &str, words: &str| {
        let run = |line: String| {
            Luxor::within(Duration::from_secs(60))
                .args(line.split_whitespace())
                .current_dir(folder.path())
                .fails(5, words);
        };
        let fast = FAST.join(" ");
        run(format!("format --force {fast} --key-file key {target}"));
        run(format!(
            "encrypt --force {fast} --key-file key plain {target}"
        ));
        run(format!(
            "raw encrypt --force --mode xts --key-file key plain {target}"
        ));
        run(format!("serve {PLAIN} --socket socket {target}"));
    };
    let twin = Loop::over(&image);
    refused(device.name(), &format!("in use by {}", twin.name()));
    tool("mkfs.ext4", ["-q", twin.name()]);
    let mount = folder.join("mount");
    fs::create_dir(&mount).unwrap();
    tool("mount", [twin.name().as_ref(), mount.as_os_str()]);
    let mounted = format!("mounted at {}", mount.display());
    let refusals = std::panic::catch_unwind(|| {
        refused(device.name(), &mounted);
        let above = Loop::over(Path::new(twin.name()));
        refused(above.name(), &mounted);
    });
    tool("umount", [&mount]);
    refusals.unwrap();
    let read_only = format!("{PLAIN} --read-only --socket socket {}", device.name());
    Server::start(&folder, &read_only).stop();
    drop(twin);
    Server::start(
        &folder,
        &format!("{PLAIN} --socket socket {}", device.name()),
    )
    .stop();
}

/// Opens the device as a plain volume, with the `key` of the server's command line.
const PLAIN: &str = "--type plain --key-size 512";

/// After a change of format, a program that uses the data would misinterpret them.
#[test]
fn the_format_does_not_change_while_the_data_are_in_use() {
    let (folder, device) = prepared("luks1");
    folder.write("key", bytes(64, 1));
    luxor("format --type luks1 --size 1M --key-file key volume")
        .args(FAST)
        .current_dir(folder.path())
        .ok();
    fs::copy(folder.join("volume"), folder.join("plain")).unwrap();
    tool(
        "cp",
        [folder.join("volume").as_os_str(), device.name().as_ref()],
    );
    folder.write("none", vec![0; 20 << 20]);
    luxor("header backup volume backup")
        .current_dir(folder.path())
        .ok();
    let refused = |target: &str| {
        let change = match target {
            "none" => "header restore --quiet --batch-mode --force none backup".to_owned(),
            _ => format!("convert --type luks2 --batch-mode {target}"),
        };
        luxor(&change)
            .current_dir(folder.path())
            .fails(5, "is locked");
    };
    for (options, target) in [
        ("", "volume"),
        ("--read-only", "volume"),
        (PLAIN, "plain"),
        (PLAIN, "none"),
        ("--read-only", device.name()),
    ] {
        let server = Server::start(&folder, &format!("{options} --socket socket {target}"));
        refused(target);
        server.stop();
    }
    for target in ["volume", "none", device.name()] {
        let mut qemu = Command::new("stdbuf")
            .args(["-oL", "qemu-io", "-f", "raw"])
            .args(["-c", "length", "-c", "sleep 60000", target])
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // When qemu-io has printed the length, it has the file open.
        let mut line = String::new();
        let mut stdout = BufReader::new(qemu.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        refused(target);
        qemu.kill().unwrap();
        qemu.wait().unwrap();
    }
    for line in [
        "convert --type luks2 --batch-mode volume",
        "header restore --quiet --batch-mode --force none backup",
    ] {
        luxor(line).current_dir(folder.path()).ok();
    }
}

/// Like `encrypt --force`, replacing a device's header needs exclusive access.
#[test]
fn a_header_is_not_restored_under_another_program() {
    let (folder, device) = prepared("luks2");
    let run = |line: &str| luxor(line).current_dir(folder.path());
    run(&format!("header backup {} backup", device.name())).ok();
    let open = || {
        let mut options = File::options();
        options.read(true).write(true).custom_flags(libc::O_EXCL);
        options.open(device.name())
    };
    let held = open().unwrap();
    held.write_all_at(&[0; 1 << 16], 0).unwrap();
    let restore = format!(
        "header restore --quiet --batch-mode --force {} backup",
        device.name()
    );
    run(&restore).fails(5, "is in use");
    drop(held);
    // A process that another test is starting may have the device open for a moment.
    let begun = Instant::now();
    while open().is_err() {
        assert!(begun.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(5));
    }
    run(&restore).ok();
    assert!(opens(&device, &folder, "key"));
}

/// What clients write would be lost.
#[test]
fn another_volumes_header_is_not_restored_under_a_server() {
    let (folder, device) = prepared("luks2");
    let run = |line: &str| luxor(line).current_dir(folder.path());
    run("format --size 1M --key-file key another")
        .args(FAST)
        .ok();
    run("header backup another backup").ok();
    let restore = format!(
        "header restore --quiet --batch-mode --force {} backup",
        device.name()
    );
    let server = Server::start(&folder, &format!("--socket socket {}", device.name()));
    run(&restore).fails(5, "is in use");
    server.stop();
    run(&restore).ok();
}

#[test]
fn a_lock_on_standard_input_stays_its_callers() {
    let (folder, device) = prepared("luks2");
    drop(device);
    for how in ["--exclusive", "--shared"] {
        let line = format!(
            "exec 0< image; flock {how} 0; \"$luxor\" dump - > dumped; echo $?; \
             flock --exclusive --nonblock image true; echo $?"
        );
        let output = Command::new("sh")
            .args(["-c", &line])
            .env("luxor", env!("CARGO_BIN_EXE_luxor"))
            .current_dir(folder.path())
            .output()
            .unwrap();
        let outcome = Outcome::new(line, output);
        assert_eq!(outcome.text(), "0\n1\n", "{outcome:#?}");
    }
}

#[test]
fn a_file_system_without_locks_counts_as_no_lock() {
    for version in ["luks1", "luks2"] {
        let (folder, device) = prepared(version);
        drop(device);
        let before = fs::read(folder.join("image")).unwrap();
        for error in ["EOPNOTSUPP", "ENOSYS", "ENOLCK"] {
            let run = |line: &str| {
                let output = Command::new("strace")
                    .args(["-f", "-o", "/dev/null", "-e", "trace=flock", "-e"])
                    .arg(format!("inject=flock:error={error}"))
                    .arg(env!("CARGO_BIN_EXE_luxor"))
                    .args(line.split_whitespace())
                    .current_dir(folder.path())
                    .stdin(Stdio::null())
                    .output()
                    .expect("strace is needed");
                Outcome::new(format!("{error}: {line}"), output)
            };
            for line in ["key remove --key-file key --last image", CHANGE_OF_IMAGE] {
                let outcome = run(line);
                outcome.assert_code(5);
                let is_told = outcome.stderr.contains("--disable-locks");
                assert!(is_told, "{version}: {outcome:#?}");
                // Being root does not help, and the message has a subject.
                assert!(!outcome.stderr.contains("root"), "{outcome:#?}");
                let words = "cannot lock image: its file system gives no locks: ";
                assert!(outcome.stderr.contains(words), "{outcome:#?}");
            }
            assert!(fs::read(folder.join("image")).unwrap() == before);
            run("dump image").assert_code(0);
            let line = format!("{CHANGE_OF_IMAGE} --disable-locks {}", FAST.join(" "));
            run(&line).assert_code(0);
            fs::write(folder.join("image"), &before).unwrap();
        }
    }
}

const CHANGE_OF_IMAGE: &str = "key add --key-file key --new-key-file other image";

/// A generator of numbers below a bound. The test prints its seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % bound
    }
}

/// Long enough for another program to make a change without waiting.
const DELAY_MICROSECONDS: u32 = 500_000;

/// Two changes at the same time, one of which is delayed in one of its writes and syncs.
struct Race<'a> {
    folder: &'a Folder,
    device: &'a Device,
    program: PathBuf,
    what: &'a str,
    /// Whether the delayed change is root's.
    delays_root: bool,
}

impl Race<'_> {
    fn trace(&self) -> PathBuf {
        self.folder.join("trace")
    }

    /// Returns the change by root or by another user, delayed in `step` if that is given.
    fn command(&self, is_root: bool, step: Option<usize>) -> Command {
        let mut words: Vec<String> = Vec::new();
        if !is_root {
            let setpriv = "setpriv --reuid=65534 --regid=65534 --clear-groups --";
            words.extend(setpriv.split(' ').map(String::from));
        }
        if let Some(step) = step {
            let calls = "pwrite64,fdatasync,fsync";
            // The file may belong to another user.
            let _ = fs::remove_file(self.trace());
            let trace = self.trace().display().to_string();
            words.extend(["strace", "-f", "-o", &trace, "-e"].map(String::from));
            words.push(format!("trace={calls}"));
            words.push("-e".into());
            words.push(format!(
                "inject={calls}:delay_enter={DELAY_MICROSECONDS}:when={step}"
            ));
        }
        words.push(self.program.display().to_string());
        let line = format!(
            "key {} --disable-locks --key-file key --new-key-file {} {} {}",
            self.what,
            if is_root { "root" } else { "nobody" },
            FAST.join(" "),
            self.device.name()
        );
        words.extend(line.split(' ').map(String::from));
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn steps_done(&self) -> usize {
        let trace = fs::read(self.trace()).unwrap_or_default();
        let lines = trace.split_inclusive(|&byte| byte == b'\n');
        lines
            .filter(|line| line.ends_with(b"\n") && line.windows(3).any(|word| word == b" = "))
            .count()
    }

    /// Returns the number of steps.
    fn steps(&self) -> usize {
        let never = 65_000;
        let output = self.command(self.delays_root, Some(never)).output();
        Outcome::new(self.what.into(), output.unwrap()).assert_code(0);
        self.steps_done()
    }

    /// Makes both changes, with one delayed in `step`.
    fn run(&self, step: usize) {
        let root = self.delays_root;
        let mut delayed = self.command(root, Some(step)).spawn().unwrap();
        wait_until(|| self.steps_done() + 1 >= step || delayed.try_wait().unwrap().is_some());
        let other = self.command(!root, None).output().unwrap();
        let delayed = delayed.wait_with_output().unwrap();

        let Self {
            what,
            device,
            folder,
            ..
        } = self;
        let case = format!("{what}, root delayed: {root}, step {step}");
        let mut made = 0;
        for (output, is_root) in [(delayed, root), (other, !root)] {
            let outcome = Outcome::new(case.clone(), output);
            if outcome.code == Some(0) {
                let name = if is_root { "root" } else { "nobody" };
                assert!(opens(device, folder, name), "{case}: {name}");
                made += 1;
            } else if outcome.code == Some(2) {
                // The other program changed the key before this one opened the volume.
                assert_eq!(*what, "change", "{}", outcome.stderr);
            } else {
                outcome.assert_code(5);
                let is_told = outcome
                    .stderr
                    .contains("another program changed the volume");
                assert!(is_told, "{case}: {}", outcome.stderr);
            }
        }
        assert!(made > 0, "{case}: none is made");
        assert!(*what == "change" || opens(device, folder, "key"), "{case}");
    }
}

/// When two programs change the metadata at the same time, each change is made completely or
/// refused, for any user and any delayed step of one of them: a random step, or each
/// step with `LUXOR_TEST_LONG`.
#[test]
fn changes_at_the_same_time_lose_no_key() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let mut dice = Dice(now.subsec_nanos().into());
    println!("seed {}", dice.0);
    for version in ["luks1", "luks2"] {
        let (folder, device) = prepared(version);
        let program = folder.join("luxor-copy");
        copy_program(&program);
        for name in ["root", "nobody"] {
            folder.write(name, name);
        }
        let image = fs::read(device.name()).unwrap();
        let reset = || {
            let disk = File::options().write(true).open(device.name()).unwrap();
            disk.write_all_at(&image[..image.len().min(4 << 20)], 0)
                .unwrap();
        };
        for what in ["add", "change"] {
            for delays_root in [true, false] {
                let race = Race {
                    folder: &folder,
                    device: &device,
                    program: program.clone(),
                    what,
                    delays_root,
                };
                let steps = race.steps();
                reset();
                assert!(steps > 4, "{version}: {what} has {steps} steps");
                let chosen = if is_long() {
                    (1..=steps).collect()
                } else {
                    vec![1 + dice.below(steps)]
                };
                for step in chosen {
                    println!("{version}: {what}, root delayed: {delays_root}, step {step}");
                    race.run(step);
                    reset();
                }
            }
        }
    }
}

/// The command waits for a lock that another program holds.
#[test]
fn a_lock_that_is_held_is_waited_for() {
    let (folder, device) = prepared("luks2");
    let held = File::open(device.name()).unwrap();
    held.lock().unwrap();
    let mut child = luxor("config --label new").arg(device.name()).spawn();
    thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "it did not wait");
    drop(held);
    assert!(child.wait().unwrap().success());
    drop(folder);
}
