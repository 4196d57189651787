// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor mount`. Mounting needs root, or a `/dev/fuse` that all users may open.

mod confined;

use std::{
    fs::{self, File, Permissions},
    io::{self, BufRead, BufReader, Read},
    mem,
    net::TcpListener,
    os::unix::{
        fs::{FileExt, PermissionsExt, chown},
        net::UnixDatagram,
        process::CommandExt,
    },
    path::PathBuf,
    process::{Child, ChildStderr, Command, Stdio},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    serve::FOR_EVER,
    support::{FAST, Folder, Luxor, Outcome, as_nobody, bytes, copy_program, luxor, tool},
};

/// Not a multiple of a sector size.
const LEN: usize = 1_000_001;

fn plain() -> Vec<u8> {
    bytes(LEN, 1)
}

/// A folder with a key, a volume that contains [`plain`], and an empty folder `dir`.
fn prepared() -> Folder {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("plain", plain());
    luxor("encrypt --key-file key plain photos.tar.luks")
        .args(FAST)
        .current_dir(folder.path())
        .ok();
    fs::remove_file(folder.join("plain")).unwrap();
    fs::create_dir(folder.join("dir")).unwrap();
    folder
}

/// Returns `luxor mount --key-file key …`.
fn mount(folder: &Folder, arguments: &str) -> Luxor {
    luxor("mount --key-file key")
        .args(arguments.split_whitespace())
        .current_dir(folder.path())
}

/// A running mount.
struct Mounted {
    child: Child,
    stderr: BufReader<ChildStderr>,
    /// The lines that it printed before `line`.
    notes: String,
    /// The line that it printed when the file appeared.
    line: String,
    folder: PathBuf,
}

impl Mounted {
    fn new(folder: &Folder, arguments: &str) -> Self {
        let dir = arguments.split_whitespace().last().unwrap();
        Self::spawn(mount(folder, arguments), folder.join(dir))
    }

    fn spawn(luxor: Luxor, folder: PathBuf) -> Self {
        let mounted = Self::spawn_with_notes(luxor, folder);
        assert_eq!(mounted.notes, "");
        mounted
    }

    fn spawn_with_notes(luxor: Luxor, folder: PathBuf) -> Self {
        let mut child = luxor.spawn();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let (mut notes, mut line) = (String::new(), String::new());
        while !line.starts_with("luxor: the plaintext is ") {
            notes += &mem::take(&mut line);
            let len = stderr.read_line(&mut line).unwrap();
            assert!(len > 0, "{notes}");
        }
        Self {
            child,
            stderr,
            notes,
            line,
            folder,
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.join("photos.tar")
    }

    fn send(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    /// The process that unmounts for a confined one.
    fn unmounting(&self) -> Pid {
        let id = self.child.id();
        let list = format!("/proc/{id}/task/{id}/children");
        let children = fs::read_to_string(list).unwrap();
        Pid::from_raw(children.trim().parse().unwrap())
    }

    /// Waits for the end. Returns the exit code, and what was printed after `line`.
    fn end(mut self) -> (Option<i32>, String) {
        let mut words = String::new();
        self.stderr.read_to_string(&mut words).unwrap();
        (self.child.wait().unwrap().code(), words)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = Command::new("umount")
            .args(["--lazy", "--quiet"])
            .arg(&self.folder)
            .status();
    }
}

#[test]
fn the_service_manager_hears_of_a_mount() {
    let folder = prepared();
    let manager = UnixDatagram::bind(folder.join("notify")).unwrap();
    manager.set_read_timeout(Some(FOR_EVER)).unwrap();
    let heard = || {
        let mut message = [0; 4096];
        let len = manager.recv(&mut message).unwrap();
        String::from_utf8(message[..len].to_vec()).unwrap()
    };
    let luxor = mount(&folder, "photos.tar.luks dir").env("NOTIFY_SOCKET", folder.join("notify"));
    let mounted = Mounted::spawn(luxor, folder.join("dir"));
    let ready = "READY=1\nSTATUS=photos.tar.luks is shown as dir/photos.tar\n";
    assert_eq!(heard(), ready);
    assert!(mounted.file().exists());
    mounted.send(Signal::SIGTERM);
    assert!(heard().starts_with("STOPPING=1\n"));
    assert_eq!(mounted.end(), (Some(0), String::new()));
}

#[test]
fn the_plaintext_is_a_file_until_it_is_unmounted() {
    let folder = prepared();
    for (unmount, options, name) in [
        ("umount", "photos.tar.luks dir", "photos.tar"),
        (
            "fusermount3 -u",
            "--name=other photos.tar.luks dir",
            "other",
        ),
    ] {
        let mounted = Mounted::new(&folder, options);
        let line = format!("luxor: the plaintext is dir/{name} until dir is unmounted\n");
        assert_eq!(mounted.line, line);
        let file = mounted.folder.join(name);
        assert!(fs::read(&file).unwrap() == plain());
        assert_eq!(
            file.metadata().unwrap().permissions().mode() & 0o7777,
            0o600
        );
        let begun = Instant::now();
        let unmount = || {
            let mut words = unmount.split(' ');
            let mut unmount = Command::new(words.next().unwrap());
            unmount.args(words).arg(&mounted.folder).output().unwrap()
        };
        // A process that another test is starting may still have the descriptors of this one.
        while let output = unmount()
            && !output.status.success()
        {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains("busy"), "{said}");
            assert!(begun.elapsed() < FOR_EVER, "{said}");
        }
        assert_eq!(mounted.end(), (Some(0), String::new()));
        assert_eq!(fs::read_dir(folder.join("dir")).unwrap().count(), 0);
    }
}

#[test]
fn the_file_has_the_time_of_the_volume() {
    let folder = prepared();
    let volume = File::open(folder.join("photos.tar.luks")).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    volume.set_modified(time).unwrap();
    let mounted = Mounted::new(&folder, "photos.tar.luks dir");
    let shown = mounted.file().metadata().unwrap().modified().unwrap();
    assert_eq!(shown, time);
    mounted.send(Signal::SIGTERM);
    assert_eq!(mounted.end().0, Some(0));
}

#[test]
fn mounts_below_or_above_ours_stay_mounted() {
    let folder = prepared();
    let dir = folder.join("dir");
    let mount_memory = || {
        tool(
            "mount",
            ["-ttmpfs".as_ref(), "tmpfs".as_ref(), dir.as_os_str()],
        )
    };
    let is_mounted = || {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        mounts.contains(&format!("tmpfs {} tmpfs", dir.display()))
    };
    // Another program unmounts it. A process that another test is starting may have it open.
    mount_memory();
    let mut mounted = Mounted::new(&folder, "photos.tar.luks dir");
    tool("umount", ["--lazy".as_ref(), dir.as_os_str()]);
    assert_eq!(mounted.child.wait().unwrap().code(), Some(0));
    assert!(is_mounted(), "the mount below is gone");
    drop(mounted);

    let mut mounted = Mounted::new(&folder, "photos.tar.luks dir");
    mount_memory();
    mounted.send(Signal::SIGTERM);
    let mut line = String::new();
    mounted.stderr.read_line(&mut line).unwrap();
    assert!(line.contains("cannot unmount"), "{line}");
    assert!(is_mounted(), "what is above");
    tool("umount", [&dir]);
    mounted.send(Signal::SIGTERM);
    assert_eq!(mounted.end(), (Some(0), String::new()));
}

#[test]
fn writes_to_the_mounted_file_reach_the_volume() {
    let folder = prepared();
    let mounted = Mounted::new(&folder, "photos.tar.luks dir");
    let file = File::options().write(true).open(mounted.file()).unwrap();
    file.write_all_at(b"not what it was", 4090).unwrap();
    drop(file);
    mounted.send(Signal::SIGTERM);
    assert_eq!(mounted.end(), (Some(0), String::new()));
    luxor("decrypt --key-file key photos.tar.luks back")
        .current_dir(folder.path())
        .ok();
    let mut changed = plain();
    changed[4090..4105].copy_from_slice(b"not what it was");
    assert!(fs::read(folder.join("back")).unwrap() == changed);
}

#[test]
fn a_quiet_mount_prints_nothing() {
    let folder = prepared();
    let mut child = mount(&folder, "-q photos.tar.luks dir").spawn();
    // No other program uses this folder, so the file is what appears first.
    let file = folder.join("dir/photos.tar");
    while !file.exists() {
        assert_eq!(child.try_wait().unwrap(), None);
        std::thread::yield_now();
    }
    tool("umount", [folder.join("dir")]);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!((output.stdout, output.stderr), (vec![], vec![]));
}

#[test]
fn signals_unmount() {
    let folder = prepared();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let mounted = Mounted::new(&folder, "photos.tar.luks dir");
        mounted.send(signal);
        assert_eq!(mounted.end(), (Some(0), String::new()), "{signal}");
        assert_eq!(fs::read_dir(folder.join("dir")).unwrap().count(), 0);
    }
}

#[test]
fn an_unmount_waits_for_open_files_until_a_second_signal() {
    let folder = prepared();
    for twice in [false, true] {
        let mut mounted = Mounted::new(&folder, "photos.tar.luks dir");
        let file = File::options()
            .read(true)
            .write(true)
            .open(mounted.file())
            .unwrap();
        mounted.send(Signal::SIGTERM);
        let mut line = String::new();
        mounted.stderr.read_line(&mut line).unwrap();
        assert!(line.contains("dir/photos.tar is still in use"), "{line}");
        assert!(!mounted.file().exists());
        file.write_all_at(b"late", 0).unwrap();
        if twice {
            mounted.send(Signal::SIGTERM);
            let (code, words) = mounted.end();
            assert_eq!((code, words.trim_end()), (Some(130), "luxor: interrupted"));
            let error = file.write_at(b"too late", 0).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotConnected);
        } else {
            drop(file);
            assert_eq!(mounted.end(), (Some(0), String::new()));
            luxor("decrypt --key-file key photos.tar.luks back")
                .current_dir(folder.path())
                .ok();
            assert_eq!(fs::read(folder.join("back")).unwrap()[..4], *b"late");
        }
    }
}

#[test]
fn a_second_signal_ends_it_while_a_bind_mount_elsewhere_shows_it() {
    let folder = prepared();
    let [dir, other] = ["dir", "other"].map(|name| folder.join(name));
    fs::create_dir(&other).unwrap();
    let mut mounted = Mounted::new(&folder, "photos.tar.luks dir");
    tool(
        "mount",
        ["--bind".as_ref(), dir.as_os_str(), other.as_os_str()],
    );
    tool("umount", [&dir]);
    mounted.send(Signal::SIGTERM);
    let mut line = String::new();
    mounted.stderr.read_line(&mut line).unwrap();
    mounted.send(Signal::SIGTERM);
    // While the folder is in use, the signal alone ends it.
    let (code, _) = mounted.end();
    // Before the assertions, so that the folder is free even if one fails.
    tool("umount", ["--lazy".as_ref(), other.as_os_str()]);
    assert!(line.contains("dir/photos.tar is still in use"), "{line}");
    assert_eq!(code, Some(130));
}

#[test]
fn an_aborted_mount_is_removed_or_reported() {
    let folder = prepared();
    let [dir, other] = ["dir", "other"].map(|name| folder.join(name));
    let mut mounted = Mounted::new(&folder, "photos.tar.luks dir");
    let file = File::open(mounted.file()).unwrap();
    let mut umount = Command::new("umount");
    let forced = umount.arg("--force").arg(&dir).output().unwrap();
    assert!(!forced.status.success(), "the file is open: {forced:?}");
    assert_eq!(mounted.child.wait().unwrap().code(), Some(0));
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    assert_eq!(mounted.end(), (Some(0), String::new()));
    drop(file);

    fs::create_dir(&other).unwrap();
    let mounted = Mounted::new(&folder, "photos.tar.luks dir");
    tool(
        "mount",
        ["--bind".as_ref(), dir.as_os_str(), other.as_os_str()],
    );
    tool(
        "mount",
        ["-ttmpfs".as_ref(), "tmpfs".as_ref(), dir.as_os_str()],
    );
    tool("umount", ["--force".as_ref(), other.as_os_str()]);
    let (code, words) = mounted.end();
    // When `mounted` ended, the upper mount was unmounted.
    tool("umount", [&dir]);
    assert_eq!(code, Some(1), "{words}");
    assert!(
        words.contains("dir stays mounted; to unmount it: `luxor umount dir`"),
        "{words}"
    );
}

#[test]
fn without_file_descriptors_no_mount_is_left() {
    let folder = prepared();
    let dir = folder.join("dir");
    let is_mounted = |number: u32| {
        let mut prlimit = Command::new("prlimit");
        prlimit
            .arg(format!("--nofile={number}"))
            .args([env!("CARGO_BIN_EXE_luxor"), "mount", "--key-file", "key"])
            .args(["photos.tar.luks", "dir"])
            .current_dir(folder.path())
            .stderr(Stdio::piped());
        let mut child = prlimit.spawn().expect("prlimit is needed");
        let mut words = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        words.read_line(&mut line).unwrap();
        let is_mounted = line.contains("the plaintext is");
        if is_mounted {
            tool("umount", ["--lazy".as_ref(), dir.as_os_str()]);
        }
        assert_eq!(child.wait().unwrap().success(), is_mounted, "{line}");
        is_mounted
    };
    // With too few descriptors it fails at one place after another, until the number is enough.
    for number in 3.. {
        let was_mounted = is_mounted(number);
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(dir.to_str().unwrap()), "{number}");
        if was_mounted {
            break;
        }
    }
}

#[test]
fn without_proc_nothing_is_mounted() {
    let folder = prepared();
    let mut unshare = Command::new("unshare");
    // The key file is missing, so a command that gets as far as reading it fails differently.
    let line = "umount --lazy /proc && exec timeout --kill-after=1 60 $luxor mount \
                --key-file missing photos.tar.luks dir";
    unshare
        .args(["--mount", "sh", "-c", line])
        .env("luxor", env!("CARGO_BIN_EXE_luxor"))
        .current_dir(folder.path());
    let outcome = Outcome::new(line.into(), unshare.output().unwrap());
    outcome.assert_code(1);
    assert!(outcome.stderr.contains("/proc"), "{outcome:?}");
}

#[test]
fn impossible_mounts_are_refused_before_a_secret_is_read() {
    let folder = prepared();
    folder.write("full", b"");
    fs::create_dir_all(folder.join("full-dir/x")).unwrap();
    let fails = |arguments: &str, code, words: &str| {
        // The key file is missing, so a command that gets as far as reading it fails differently.
        luxor("mount --key-file missing")
            .args(arguments.split_whitespace())
            .current_dir(folder.path())
            .fails(code, words)
    };
    fails("photos.tar.luks missing", 4, "missing does not exist");
    fails("photos.tar.luks full", 1, "full is not a folder");
    fails("photos.tar.luks full-dir", 5, "full-dir is not empty");
    let hint = fails("--allow-discards photos.tar.luks dir", 1, "discards");
    assert!(hint.stderr.contains("luxor serve"), "{hint:?}");
    for name in ["a/b", ".."] {
        let refused = mount(&folder, &format!("--name={name} photos.tar.luks dir")).run();
        refused.assert_code(1);
        assert!(
            refused.stderr.contains("not a valid file name"),
            "{refused:?}"
        );
    }
    fails("missing dir", 4, "missing does not exist");

    folder.write("wrong", b"wrong");
    luxor("mount --key-file wrong photos.tar.luks dir")
        .current_dir(folder.path())
        .fails(2, "");
    assert_eq!(fs::read_dir(folder.join("dir")).unwrap().count(), 0);
}

#[test]
fn a_writing_mount_is_exclusive_and_read_only_mounts_are_not() {
    let folder = prepared();
    fs::create_dir(folder.join("other")).unwrap();
    let writer = Mounted::new(&folder, "photos.tar.luks dir");
    for options in ["", "--read-only"] {
        let line = format!("{options} photos.tar.luks other");
        mount(&folder, &line).fails(5, "photos.tar.luks");
    }
    writer.send(Signal::SIGTERM);
    writer.end();

    let reader = Mounted::new(&folder, "--read-only photos.tar.luks dir");
    let other = Mounted::new(&folder, "--read-only photos.tar.luks other");
    for mounted in [&reader, &other] {
        assert!(fs::read(mounted.file()).unwrap() == plain());
        let error = File::options()
            .write(true)
            .open(mounted.file())
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem);
    }
}

#[test]
fn a_mount_left_by_a_killed_process_is_recognised() {
    let folder = prepared();
    let mut mounted = Mounted::new(&folder, "photos.tar.luks dir");
    mounted.child.kill().unwrap();
    mounted.child.wait().unwrap();
    let refused = mount(&folder, "photos.tar.luks dir").fails(5, "was killed");
    assert!(refused.stderr.contains("`luxor umount dir`"), "{refused:?}");
    luxor("umount dir").current_dir(folder.path()).ok();
    let again = Mounted::new(&folder, "photos.tar.luks dir");
    assert!(fs::read(again.file()).unwrap() == plain());
}

#[test]
fn a_missing_folder_is_made_as_advised() {
    let folder = prepared();
    let failed = mount(&folder, "photos.tar.luks").arg("my dir").run();
    failed.assert_code(4);
    let (_, advice) = failed.stderr.split_once("To make it: `").unwrap();
    tool(
        "sh",
        [
            "-c",
            &format!(
                "cd {}; {}",
                folder.path().display(),
                advice.trim_end_matches("`\n")
            ),
        ],
    );
    assert_eq!(fs::read_dir(folder.join("my dir")).unwrap().count(), 0);
}

/// `/dev/fuse` with another mode, until this is dropped or the process ends in any way.
pub struct Fuse {
    /// A program that waits for the end of its standard input, and then restores the mode.
    guard: Child,
}

const FUSE: &str = "/dev/fuse";

impl Fuse {
    pub fn with_mode(mode: u32) -> Self {
        let before = fs::metadata(FUSE).unwrap().permissions().mode() & 0o7777;
        let mut guard = Command::new("sh");
        let line = format!("trap '' HUP INT TERM; cat; chmod {before:o} {FUSE}");
        guard.args(["-c", &line]).stdin(Stdio::piped());
        // Signals to the tests' process group must not end it.
        let guard = guard.process_group(0).spawn().unwrap();
        let set = fs::set_permissions(FUSE, Permissions::from_mode(mode));
        set.expect("it takes root to change the mode of /dev/fuse");
        Self { guard }
    }
}

/// Only one test at a time may change the mode.
pub static FUSE_MODE: Mutex<()> = Mutex::new(());

impl Drop for Fuse {
    fn drop(&mut self) {
        // Waiting closes its standard input first.
        let _ = self.guard.wait();
    }
}

/// Makes [`prepared`] for a user without privileges.
fn prepared_for_nobody() -> Folder {
    let folder = prepared();
    folder.open_to_everybody();
    // The files belong to that user, because fusermount3 mounts only on the user's own folders.
    for name in ["key", "photos.tar.luks", "dir"] {
        chown(folder.join(name), Some(65534), Some(65534)).unwrap();
    }
    folder
}

#[test]
fn fusermount3_unmounts_once_and_may_fail() {
    let _alone = FUSE_MODE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = prepared_for_nobody();
    // Records which signals are blocked when it unmounts. dash would unblock all of them.
    let program = r#"#!/bin/bash
        if [ "$1" = -u ]; then
            grep SigBlk /proc/self/status >>log
            [ ! -e deny ] || { echo 'not now' >&2; exit 1; }
        fi
        exec fusermount3 "$@""#;
    folder.write("program", program);
    fs::set_permissions(folder.join("program"), Permissions::from_mode(0o755)).unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let line = r#"
        export FUSERMOUNT_PATH=./program
        mkfifo line
        start() {
            $luxor mount --key-file key photos.tar.luks dir 2>line &
            exec 3<line
            read -r words <&3
        }
        start
        fusermount3 -u dir
        wait $!
        [ ! -e log ] || echo 'again'

        start
        touch deny
        kill -TERM $!
        read -r words <&3
        echo "$words"
        rm deny
        ls dir
        kill -TERM $!
        wait $!

        $luxor mount --metrics-listen ADDRESS --key-file key photos.tar.luks dir 2>&1
        ls dir
        cat log
        grep SigBlk /proc/self/status"#;
    let line = line.replace("ADDRESS", &taken.local_addr().unwrap().to_string());
    let _fuse = Fuse::with_mode(0o666);
    let outcome = as_nobody(&line, folder.path());
    let lines: Vec<_> = outcome.text().lines().collect();
    assert_eq!(lines.len(), 7, "{outcome:?}");
    assert_eq!(lines[0], "luxor: warning: cannot unmount: not now");
    assert_eq!(lines[1], "photos.tar");
    assert!(lines[2].contains("cannot listen on"), "{outcome:?}");
    assert!(
        lines[3..].iter().all(|mask| *mask == lines[6]),
        "{outcome:?}"
    );
}

/// A parent that ignores SIGCHLD hides the exit status of fusermount3, and a service may have a PATH
/// without it.
#[test]
fn a_user_mounts_whatever_the_parent_process_has_set() {
    let _alone = FUSE_MODE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = prepared_for_nobody();
    let _fuse = Fuse::with_mode(0o666);
    for setting in ["--ignore-signal=CHLD", "PATH=/nonexistent"] {
        let line = format!(
            "mkfifo line
             /usr/bin/env {setting} $luxor mount --key-file key photos.tar.luks dir 2>line &
             exec 3<line
             read -r words <&3
             ls dir
             kill -TERM $!
             wait $! && echo ended
             rm line
             ls dir"
        );
        let outcome = as_nobody(&line, folder.path());
        assert_eq!(
            outcome.text(),
            "photos.tar\nended\n",
            "{setting}: {outcome:?}"
        );
    }
}

#[test]
fn an_ordinary_user_mounts_where_the_device_allows() {
    let _alone = FUSE_MODE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = prepared_for_nobody();
    let before = fs::metadata(FUSE).unwrap().permissions().mode();
    {
        let _fuse = Fuse::with_mode(0o600);
        let refused = as_nobody(
            "$luxor mount --key-file key photos.tar.luks dir",
            folder.path(),
        );
        refused.assert_code(1);
        assert!(
            refused.stderr.contains("/dev/fuse: permission denied"),
            "{refused:?}"
        );
        assert!(refused.stderr.contains("0666"), "{refused:?}");
    }
    let fuse = Fuse::with_mode(0o666);
    let refused = as_nobody(
        "FUSERMOUNT_PATH=/missing $luxor mount --key-file key photos.tar.luks dir",
        folder.path(),
    );
    refused.assert_code(1);
    assert!(refused.stderr.contains("fuse3"), "{refused:?}");

    // The mount outlives the shell's reading of the line, and root has no access.
    let line = r#"
        mkfifo line
        $luxor mount --key-file key photos.tar.luks dir 2>line &
        read -r words <line
        stat -c '%U %a' dir/photos.tar
        id -un
        cat dir/photos.tar >copy
        printf changed | dd of=dir/photos.tar bs=1 seek=500000 conv=notrunc,fsync status=none
        echo now
        read -r checked <checked
        fusermount3 -u dir
        wait $!"#;
    tool("mkfifo", [folder.join("checked")]);
    fs::set_permissions(folder.join("checked"), Permissions::from_mode(0o666)).unwrap();
    let path = folder.path().to_owned();
    let root = std::thread::spawn(move || {
        // The shell opens this when it has done its part.
        let mut checked = File::options()
            .write(true)
            .open(path.join("checked"))
            .unwrap();
        let found = File::open(path.join("dir/photos.tar"));
        io::Write::write_all(&mut checked, b"done\n").unwrap();
        found.map(drop)
    });
    let outcome = as_nobody(line, folder.path());
    outcome.assert_code(0);
    let lines: Vec<_> = outcome.text().lines().collect();
    assert_eq!(lines[0], format!("{} 600", lines[1]));
    let error = root.join().unwrap().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    assert!(fs::read(folder.join("copy")).unwrap() == plain());
    luxor("decrypt --key-file key photos.tar.luks back")
        .current_dir(folder.path())
        .ok();
    let back = fs::read(folder.join("back")).unwrap();
    assert_eq!(&back[500_000..500_007], b"changed");

    // Without this machine's /etc/fuse.conf.
    copy_program(&folder.join("luxor-copy"));
    let mut unshare = Command::new("unshare");
    let line = "mount --bind /dev/null /etc/fuse.conf && exec setpriv --reuid=65534 \
                --regid=65534 --clear-groups timeout 60 ./luxor-copy mount --allow-other \
                --key-file key photos.tar.luks dir";
    unshare
        .args(["--mount", "sh", "-c", line])
        .current_dir(folder.path());
    let outcome = Outcome::new(line.into(), unshare.output().unwrap());
    outcome.assert_code(1);
    assert!(outcome.stderr.contains("user_allow_other"), "{outcome:?}");
    drop(fuse);
    assert_eq!(fs::metadata(FUSE).unwrap().permissions().mode(), before);
}

#[test]
fn others_are_let_in_when_asked_for_and_kept_out_by_the_mode() {
    let folder = prepared();
    folder.open_to_everybody();
    for (options, word) in [("", false), ("--allow-other", true)] {
        let mounted = Mounted::new(&folder, &format!("{options} photos.tar.luks dir"));
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let dir = mounted.folder.to_str().unwrap();
        let line = mounts.lines().find(|line| line.contains(dir)).unwrap();
        assert_eq!(line.contains("allow_other"), word, "{line}");
        let outcome = as_nobody("cat dir/photos.tar", folder.path());
        outcome.assert_code(1);
        mounted.send(Signal::SIGTERM);
        mounted.end();
    }
}
