// SPDX-License-Identifier: MIT OR Apache-2.0
//! A signal or SIGKILL at any moment, and what it leaves behind.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::PermissionsExt,
    process::Command,
};

use luxor::files::testing::Loop;

use super::{PREPARED, encrypt, prepared};
use crate::support::{FAST, Folder, Outcome, bytes, luxor, shell_without_terminal, tool};

#[test]
fn a_volume_and_its_header_are_not_replaced_together() {
    let folder = prepared();
    let encrypt = |line: &str| {
        encrypt(&folder)
            .args(["--force", "plain"])
            .args(line.split(' '))
    };
    for (line, exists) in [
        ("volume --header new", "volume"),
        ("new --header volume", "volume"),
    ] {
        let before = fs::read(folder.join(exists)).unwrap();
        encrypt(line).fails(5, "a volume and its --header together");
        assert!(fs::read(folder.join(exists)).unwrap() == before);
        assert!(!folder.join("new").exists());
    }
    encrypt("new --header header").ok();
}

/// A file that appears after the outputs were checked, while the program waits for its key.
#[test]
fn a_volume_and_its_header_both_appear_or_neither() {
    for (line, size) in [("encrypt plain", ""), ("format", "--size 1M")] {
        for late in ["new", "header"] {
            let folder = prepared();
            tool("mkfifo", [folder.join("fifo")]);
            let child = luxor(line)
                .args(size.split_whitespace())
                .args(["new", "--force", "--key-file", "fifo", "--header", "header"])
                .args(FAST)
                .current_dir(folder.path())
                .spawn();
            let mut key = File::options()
                .write(true)
                .open(folder.join("fifo"))
                .unwrap();
            folder.write(late, "theirs");
            key.write_all(b"key").unwrap();
            drop(key);
            let outcome = Outcome::new(line.to_owned(), child.wait_with_output().unwrap());
            outcome.assert_code(5);
            let words = "a volume and its --header together";
            assert!(outcome.stderr.contains(words), "{outcome:#?}");
            assert_eq!(fs::read(folder.join(late)).unwrap(), b"theirs");
            assert_eq!(
                folder.names(),
                sorted(&["fifo", late, "key", "plain", "volume"])
            );
        }
    }
    // Even with --force, neither file may exist.
    let folder = prepared();
    folder.write("header", "theirs");
    luxor("format --force --size 1M --key-file key --header header new")
        .args(FAST)
        .current_dir(folder.path())
        .fails(5, "a volume and its --header together");
    assert_eq!(fs::read(folder.join("header")).unwrap(), b"theirs");
}

fn sorted<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let mut names = names.to_vec();
    names.sort_unstable();
    names
}

/// They are removed whether or not the next run writes anything.
#[test]
fn left_overs_are_removed_before_anything_else() {
    let folder = prepared();
    for name in ["", "-0123456789abcdef"].map(|end| format!(".volume.luxor-new{end}")) {
        let path = folder.write(name, "plaintext");
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    encrypt(&folder)
        .args(["plain", "volume"])
        .fails(5, "exists already");
    assert_eq!(folder.names(), PREPARED);
}

/// Files with such names are not left-overs if the command reads them.
#[test]
fn files_that_a_command_reads_are_not_left_overs() {
    let folder = prepared();
    let key = fs::read(folder.join("key")).unwrap();
    let private = |name: &str, bytes: &[u8]| {
        let path = folder.write(name, bytes);
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    };
    let volume = fs::read(folder.join("volume")).unwrap();
    private(".a.luxor-new", &volume);
    private(".b.luxor-new-0123456789abcdef", &key);
    private(".c.luxor-new-notes.txt", b"notes");
    private(".d.luxor-new", &volume);
    private(".e.luxor-new", &[0; 8192]);
    private(".f.luxor-new", &key);
    private(".g.luxor-new", &volume);
    // This file could contain the file system with the input.
    private(".h.luxor-new", &volume);
    let _mounted = Loop::over(&folder.join(".h.luxor-new"));
    luxor("decrypt --key-file - volume f")
        .current_dir(folder.path())
        .stdin_from(File::open(folder.join(".f.luxor-new")).unwrap())
        .ok();
    let device = Loop::over(&folder.join(".g.luxor-new"));
    let of_device = format!("decrypt --key-file key {} g", device.name());
    let format = format!(
        "format --key-file key {} --header e .e.luxor-new",
        FAST.join(" ")
    );
    for line in [
        "token list --json --json-file d .d.luxor-new",
        &format,
        &of_device,
        "header backup .a.luxor-new a",
        "decrypt --key-file .b.luxor-new-0123456789abcdef volume b",
        "decrypt --key-file key volume c",
        "decrypt --key-file key volume h",
    ] {
        luxor(line).current_dir(folder.path()).ok();
    }
    assert!(fs::read(folder.join(".a.luxor-new")).unwrap() == volume);
    assert!(fs::read(folder.join(".b.luxor-new-0123456789abcdef")).unwrap() == key);
    assert_eq!(
        fs::read(folder.join(".c.luxor-new-notes.txt")).unwrap(),
        b"notes"
    );
    assert!(fs::read(folder.join(".d.luxor-new")).unwrap() == volume);
    assert!(fs::read(folder.join(".e.luxor-new")).unwrap() == [0; 8192]);
    assert!(fs::read(folder.join(".f.luxor-new")).unwrap() == key);
    assert!(fs::read(folder.join(".g.luxor-new")).unwrap() == volume);
    assert!(fs::read(folder.join(".h.luxor-new")).unwrap() == volume);
}

/// /proc shows a name for such a file that may belong to another file.
#[test]
fn an_open_file_without_a_name_is_not_replaced() {
    let folder = prepared();
    let before = folder.names();
    let script = format!(
        "exec 3<> gone && rm gone && \"{}\" decrypt --force --key-file key volume /proc/self/fd/3",
        env!("CARGO_BIN_EXE_luxor")
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(folder.path());
    let outcome = Outcome::new(script, shell.output().unwrap());
    outcome.assert_code(1);
    assert!(outcome.stderr.contains("without a name"), "{outcome:#?}");
    assert_eq!(folder.names(), before);
}

/// Kills the program at each system call of publishing, and checks what is left.
#[test]
fn publishing_is_killed_at_every_system_call() {
    const CALLS: [&str; 6] = [
        "fsync",
        "linkat",
        "renameat",
        "renameat2",
        "unlinkat",
        "rename",
    ];
    let folder = prepared();
    let (old, new) = (bytes(10, 3), bytes(100_000, 1));
    let target = folder.join("out");
    let left_over = folder.join(".out.luxor-new");
    let clean = folder.names();
    let mut left = 0;
    for signal in ["SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1"] {
        for force in [false, true] {
            let (mut killed, mut calls) = (0, 0);
            for (call, number) in CALLS.iter().flat_map(|call| (1..4).map(move |n| (call, n))) {
                if force {
                    drop(folder.write("out", &old));
                } else {
                    drop(fs::remove_file(&target));
                }
                let mut strace = Command::new("strace");
                strace
                    .args(["-f", "-o", "/dev/null", "-e"])
                    .arg(format!("trace={}", CALLS.join(",")))
                    .arg("-e")
                    .arg(format!("inject={call}:signal={signal}:when={number}"));
                if *call == "linkat" {
                    // Gives the thread that waits for signals time to act.
                    strace.args(["-e", "inject=renameat:delay_enter=200000"]);
                }
                strace
                    .arg(env!("CARGO_BIN_EXE_luxor"))
                    .args(["decrypt", "--key-file", "key"])
                    .args(force.then_some("--force"))
                    .args(["volume", "out"])
                    .current_dir(folder.path());
                let output = strace.output().expect("strace is needed");
                let case = format!("{signal}, {call} {number}, force {force}");
                let is_done = output.status.success();
                killed += usize::from(!is_done);
                calls += 1;
                match fs::read(&target) {
                    Ok(bytes) if bytes == new => {}
                    Ok(bytes) => assert!(!is_done && force && bytes == old, "{case}"),
                    Err(_) => assert!(!is_done && !force, "{case}"),
                }
                if left_over.exists() {
                    assert_eq!((signal, *call, force), ("SIGKILL", "renameat", true));
                    assert!(fs::read(&left_over).unwrap() == new, "{case}");
                    let mode = fs::metadata(&left_over).unwrap().permissions().mode();
                    assert_eq!(mode & 0o7777, 0o600);
                    left += 1;
                    // The next run removes the file, whether or not it replaces another one.
                    fs::remove_file(&target).unwrap();
                    luxor("decrypt --key-file key volume out")
                        .current_dir(folder.path())
                        .ok();
                }
                let mut names = folder.names();
                names.retain(|name| name != "out");
                assert_eq!(names, clean, "{case}");
            }
            // SIGKILL ends the program at every call that is made.
            println!("{signal}, force {force}: ended {killed} of {calls} times");
            let least = if force { 4 } else { 3 };
            assert!(killed >= least || signal != "SIGKILL", "{killed} times");
        }
    }
    assert_eq!(left, 1);
}

/// A file of another program in the place where new files are named for a moment.
#[test]
fn a_file_of_another_program_under_our_name_is_left_alone() {
    let folder = prepared();
    folder.write(".out.luxor-new", "theirs");
    fs::set_permissions(
        folder.join(".out.luxor-new"),
        fs::Permissions::from_mode(0o644),
    )
    .unwrap();
    // Also for the longest possible name.
    for name in ["out".to_owned(), "x".repeat(255)] {
        folder.write(&name, "old");
        luxor("decrypt --force --key-file key volume")
            .arg(&name)
            .current_dir(folder.path())
            .ok();
        assert!(fs::read(folder.join(&name)).unwrap() == bytes(100_000, 1));
        fs::remove_file(folder.join(&name)).unwrap();
    }
    assert_eq!(fs::read(folder.join(".out.luxor-new")).unwrap(), b"theirs");
    assert_eq!(folder.names().len(), 4);
}

#[test]
fn a_umask_does_not_change_the_mode_of_outputs() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("plain", b"attack at dawn");
    for umask in ["000", "777"] {
        let line = format!(
            "umask {umask} && \"$luxor\" encrypt --force --key-file key {} plain volume
             \"$luxor\" decrypt --force --key-file key volume back
             \"$luxor\" header backup --force volume backup
             stat --format=%a volume back backup",
            FAST.join(" ")
        );
        let outcome = shell_without_terminal(&line, folder.path());
        assert_eq!(outcome.text(), "600\n600\n400\n", "{umask}: {outcome:?}");
    }
}
