// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--background` of `luxor serve` and `luxor mount`, and `luxor umount`.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    os::unix::{fs::PermissionsExt, net::UnixStream},
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    serve::FOR_EVER,
    support::{FAST, Folder, bytes, luxor, shell_without_terminal, tool, typed},
};

/// A folder with a key, a volume, and an empty folder `dir`.
fn prepared() -> Folder {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("wrong", b"wrong");
    folder.write("plain", bytes(100_000, 1));
    luxor("encrypt --key-file key plain volume.luks")
        .args(FAST)
        .current_dir(folder.path())
        .ok();
    fs::create_dir(folder.join("dir")).unwrap();
    folder
}

/// Waits until `is_so`.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < FOR_EVER, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// `run` returns when no process has the pipes of standard output and error any more.
#[test]
fn a_mount_in_the_background_can_be_used_at_once() {
    let folder = prepared();
    let mount = || {
        let line = luxor("mount --background --key-file key volume.luks dir");
        line.current_dir(folder.path()).ok()
    };
    let outcome = mount();
    let line = "luxor: the plaintext is dir/volume until dir is unmounted\n";
    assert_eq!(outcome.stderr, line);
    let file = folder.join("dir/volume");
    assert!(fs::read(&file).unwrap() == bytes(100_000, 1));

    // While a file is open, nothing changes.
    let open = File::open(&file).unwrap();
    let umount = || luxor("umount dir").current_dir(folder.path());
    // It would wait for the end of the process.
    let line = "timeout 20 $luxor umount dir";
    let refused = shell_without_terminal(line, folder.path());
    refused.assert_code(5);
    assert!(refused.stderr.contains("dir is in use"), "{refused:?}");
    assert!(file.exists());
    drop(open);
    assert_eq!(umount().ok().stderr, "");
    // The process has ended, and the volume is free.
    luxor("decrypt --key-file key volume.luks back")
        .current_dir(folder.path())
        .ok();
    umount().fails(1, "nothing is mounted on dir");
}

#[test]
fn a_server_in_the_background_listens_when_the_command_returns() {
    let folder = prepared();
    let log = File::create(folder.join("log")).unwrap();
    let line = "serve --background -v --socket s --pid-file pid --key-file key volume.luks";
    luxor(line)
        .current_dir(folder.path())
        .stderr_to(log)
        .run()
        .assert_code(0);
    let connection = UnixStream::connect(folder.join("s")).unwrap();
    drop(connection);
    let log = || fs::read_to_string(folder.join("log")).unwrap();
    wait_until("the log goes on in the file", || log().contains("client"));
    assert!(log().contains("serving volume.luks"), "{}", log());

    let id = fs::read_to_string(folder.join("pid")).unwrap();
    let id: i32 = id.trim().parse().unwrap();
    // It has no terminal and no folder that a shell waits for.
    let stdin = fs::read_link(format!("/proc/{id}/fd/0")).unwrap();
    assert_eq!(stdin.to_str(), Some("/dev/null"));
    kill(Pid::from_raw(id), Signal::SIGTERM).unwrap();
    wait_until("the server ends", || !folder.join("pid").exists());
    assert!(!folder.join("s").exists());
}

#[test]
fn errors_before_the_background_have_the_usual_exit_codes() {
    let folder = prepared();
    let fails = |arguments: &str, code, words: &str| {
        luxor(arguments)
            .current_dir(folder.path())
            .fails(code, words)
    };
    let wrong = "--background --key-file wrong";
    fails(&format!("mount {wrong} volume.luks dir"), 2, "no keyslot");
    fails(
        &format!("serve {wrong} --socket s volume.luks"),
        2,
        "no keyslot",
    );
    fails(
        "mount --background --key-file key missing dir",
        4,
        "missing",
    );
    fails(
        "mount --background --key-file key volume.luks key",
        1,
        "not a folder",
    );
    fails(
        "serve --background --key-file key volume.luks",
        1,
        "no address",
    );
    assert!(!folder.join("s").exists());
    assert_eq!(fs::read_dir(folder.join("dir")).unwrap().count(), 0);
}

#[test]
fn the_passphrase_is_asked_for_before_the_background() {
    let folder = prepared();
    let mount = "$luxor mount --background volume.luks dir";
    let answer = |_: &str| Some("correct horse\n".to_owned());
    let line = format!("{mount}; echo code $?; cmp plain dir/volume; $luxor umount dir; echo $?");
    let (code, screen) = typed(&line, answer, folder.path());
    assert_eq!(code, 0, "{screen}");
    assert!(
        screen.contains("code 0") && screen.trim_end().ends_with('0'),
        "{screen}"
    );

    // Ctrl-C at the prompt.
    let (code, screen) = typed(mount, |_| Some("\x03".to_owned()), folder.path());
    assert_eq!(code, 130, "{screen}");
    assert_eq!(screen.matches("interrupted").count(), 1, "{screen}");
    assert_eq!(fs::read_dir(folder.join("dir")).unwrap().count(), 0);
}

/// A signal to the process that waits reaches the one that asks for the secret.
#[test]
fn a_signal_ends_both_processes_before_the_background() {
    let folder = prepared();
    tool("mkfifo", [folder.join("never")]);
    let mount = luxor("mount --background --key-file never volume.luks dir");
    let mut child = mount.current_dir(folder.path()).spawn();
    let list = format!("/proc/{0}/task/{0}/children", child.id());
    let children = || fs::read_to_string(&list).unwrap_or_default();
    wait_until("there is a child", || !children().is_empty());
    let other: i32 = children().trim().parse().unwrap();
    // The child has its handlers once it is no copy of the first process.
    let line = || fs::read(format!("/proc/{other}/cmdline")).unwrap_or_default();
    wait_until("it has started", || {
        line().starts_with(b"/") && line().len() > 50
    });
    thread::sleep(Duration::from_millis(300));
    kill(
        Pid::from_raw(child.id().try_into().unwrap()),
        Signal::SIGTERM,
    )
    .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!fs::exists(format!("/proc/{other}/fd/0")).unwrap_or(false));
}

#[test]
fn umount_works_for_mounts_in_the_foreground_and_for_dead_ones() {
    let folder = prepared();
    let umount = || luxor("umount dir").current_dir(folder.path());
    for kills in [false, true] {
        let mount = luxor("mount --key-file key volume.luks dir");
        let mut child = mount.current_dir(folder.path()).spawn();
        let mut line = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        stderr.read_line(&mut line).unwrap();
        assert!(line.contains("the plaintext is"), "{line}");
        if kills {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        umount().ok();
        assert_eq!(child.wait().unwrap().success(), !kills);
        assert_eq!(fs::read_dir(folder.join("dir")).unwrap().count(), 0);
    }
    luxor("umount missing")
        .current_dir(folder.path())
        .fails(4, "missing does not exist");
}

#[test]
fn a_mount_of_another_program_is_not_unmounted() {
    let folder = prepared();
    let dir = folder.join("dir");
    tool(
        "mount",
        ["-ttmpfs".as_ref(), "tmpfs".as_ref(), dir.as_os_str()],
    );
    let refused = luxor("umount dir").current_dir(folder.path()).run();
    tool("umount", [&dir]);
    refused.assert_code(1);
    assert!(
        refused.stderr.contains("another program (tmpfs)"),
        "{refused:?}"
    );
    // A folder within a mount is none.
    luxor("umount /proc/self").fails(1, "nothing is mounted");
}

#[test]
fn an_unknown_command_that_resembles_umount_is_explained() {
    for (word, meant) in [("unmount", "'umount'"), ("umont", "'umount'")] {
        let refused = luxor(word).arg("dir").run();
        refused.assert_code(1);
        assert!(refused.stderr.contains(meant), "{refused:?}");
    }
}

/// The folder does not list the link that names the process.
#[test]
fn the_link_to_the_server_is_not_listed() {
    let folder = prepared();
    luxor("mount --background --key-file key volume.luks dir")
        .current_dir(folder.path())
        .stderr_to(Stdio::null())
        .run()
        .assert_code(0);
    let link = fs::read_link(folder.join("dir/.luxor-server"));
    let count = fs::read_dir(folder.join("dir")).unwrap().count();
    let mode = fs::metadata(folder.join("dir/volume"))
        .unwrap()
        .permissions();
    luxor("umount dir").current_dir(folder.path()).ok();
    assert_eq!(count, 1);
    assert_eq!(mode.mode() & 0o777, 0o600);
    let link = link.unwrap();
    let (id, _) = link.to_str().unwrap().split_once(' ').unwrap();
    assert!(id.parse::<u32>().is_ok(), "{link:?}");
}

/// Advice repeats what was typed, and so do lists of processes.
#[test]
fn no_internal_word_is_in_messages_and_lists_of_processes() {
    let folder = prepared();
    let script = "truncate -s 12M disk; echo 'label: gpt\nsize=1M\n-' | sfdisk -q disk
                  dd if=volume.luks of=disk bs=1M seek=2 conv=notrunc status=none";
    tool(
        "sh",
        ["-c", &format!("cd {}; {script}", folder.path().display())],
    );
    for line in [
        "mount --background --key-file key disk dir",
        "serve --background --key-file key --socket s disk",
    ] {
        let (command, rest) = line.split_once(' ').unwrap();
        let advised = format!("To open it: `luxor {command} --volume-partition 2 {rest}`");
        luxor(line).current_dir(folder.path()).fails(1, &advised);
    }
    let line = "serve --background --key-file key --socket s volume.luks";
    let said = luxor(line).current_dir(folder.path()).ok().stderr;
    let (_, id) = said
        .split_once("luxor: to stop the server: `kill ")
        .unwrap();
    let id = id.trim_end_matches("`\n");
    let name = fs::read_to_string(format!("/proc/{id}/comm")).unwrap();
    let shown = fs::read(format!("/proc/{id}/cmdline")).unwrap();
    kill(Pid::from_raw(id.parse().unwrap()), Signal::SIGTERM).unwrap();
    wait_until("the server ends", || !folder.join("s").exists());
    assert_eq!(name, "luxor\n");
    let mut shown = shown.split(|&byte| byte == 0);
    assert_eq!(shown.next(), Some(env!("CARGO_BIN_EXE_luxor").as_bytes()));
    let words: Vec<_> = shown.map(String::from_utf8_lossy).collect();
    assert_eq!(words.join(" ").trim_end(), line);
}
