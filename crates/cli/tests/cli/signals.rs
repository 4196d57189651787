// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupted commands leave nothing behind.

use std::{
    fs::{self, Permissions},
    io::{Read, Write},
    os::unix::{fs::PermissionsExt, process::ExitStatusExt},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::support::{FAST, Folder, answered_when, as_nobody, bytes, luxor, terminal_shell};

/// Sends `signal`, and returns the exit code and standard error.
fn interrupt(mut child: Child, signal: Signal) -> (Option<i32>, String) {
    kill(Pid::from_raw(child.id().try_into().unwrap()), signal).unwrap();
    let sent = Instant::now();
    let status = child.wait().unwrap();
    // Without the signal these commands would run for minutes.
    assert!(
        sent.elapsed() < Duration::from_secs(30),
        "it took {:?}",
        sent.elapsed()
    );
    assert_eq!(status.signal(), None);
    let mut stderr = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    (status.code(), stderr)
}

/// Waits until a file in /proc/<pid> meets the condition.
fn wait_for(child: &Child, file: &str, condition: impl Fn(&str) -> bool) {
    let path = format!("/proc/{}/{file}", child.id());
    let start = Instant::now();
    while !fs::read_to_string(&path).is_ok_and(|text| condition(&text)) {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "{path}: {:?}",
            fs::read_to_string(&path)
        );
        thread::sleep(Duration::from_millis(5));
    }
}

fn assert_interrupted(child: Child, signal: Signal, folder: &Folder, left: &[&str]) {
    let (code, stderr) = interrupt(child, signal);
    assert_eq!(code, Some(130), "{signal}: {stderr}");
    assert!(
        stderr.ends_with("luxor: interrupted\n"),
        "{signal}: {stderr}"
    );
    assert_eq!(folder.names(), left, "{signal}");
}

/// Starts `encrypt` in a folder with a key. It has received some data, and waits for more.
fn waiting_for_input(folder: &Folder) -> (Child, ChildStdin) {
    let mut child = luxor("encrypt --key-file key")
        .args(FAST)
        .args(["-", "volume"])
        .current_dir(folder.path())
        .stdin_from(Stdio::piped())
        .spawn();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(&bytes(20 << 20, 1)).unwrap();
    (child, pipe)
}

#[test]
fn every_signal_ends_a_wait_for_input_with_130() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    for signal in [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGQUIT,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
        Signal::SIGALRM,
        Signal::SIGXCPU,
        Signal::SIGIO,
        Signal::SIGPROF,
        Signal::SIGVTALRM,
        Signal::SIGPWR,
        Signal::SIGSTKFLT,
    ] {
        let (child, _pipe) = waiting_for_input(&folder);
        assert_interrupted(child, signal, &folder, &["key"]);
    }
}

#[test]
fn argon2_is_interrupted() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("plain", b"x");
    let child = luxor(
        "encrypt --key-file key --pbkdf-memory 131072 --pbkdf-force-iterations 10000 plain volume",
    )
    .current_dir(folder.path())
    .spawn();
    // Wait until its memory is allocated.
    wait_for(&child, "status", |status| {
        let rss = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .unwrap_or("0");
        rss.trim()
            .trim_end_matches(" kB")
            .parse::<u64>()
            .unwrap_or(0)
            > 100_000
    });
    assert_interrupted(child, Signal::SIGINT, &folder, &["key", "plain"]);
}

#[test]
fn writing_is_interrupted() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("old", b"old");
    // A sparse file, which takes a while to encrypt.
    fs::File::create(folder.join("plain"))
        .unwrap()
        .set_len(64 << 30)
        .unwrap();
    for (output, force) in [("volume", false), ("old", true)] {
        let mut child = luxor("encrypt --key-file key --progress-json")
            .args(FAST)
            .args(force.then_some("--force"))
            .args(["plain", output])
            .current_dir(folder.path())
            .spawn();
        // The first line of progress appears when it has written for half a second.
        let mut progress = child.stdout.take().unwrap();
        progress.read_exact(&mut [0; 40]).unwrap();
        assert_interrupted(child, Signal::SIGTERM, &folder, &["key", "old", "plain"]);
        assert_eq!(fs::read(folder.join("old")).unwrap(), b"old");
    }
}

/// For example a pipe to a pager that does not read on.
#[test]
fn a_full_standard_error_does_not_delay_a_command() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    let (reader, mut writer) = std::io::pipe().unwrap();
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    while writer.write(&[b'x'; 4096]).is_ok() {}
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
    let mut child = luxor("encrypt --key-file key")
        .args(FAST)
        .args(["-", "volume"])
        .current_dir(folder.path())
        .stdin_from(Stdio::piped())
        .stderr_to(writer)
        .spawn();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(&bytes(20 << 20, 1)).unwrap();
    kill(
        Pid::from_raw(child.id().try_into().unwrap()),
        Signal::SIGTERM,
    )
    .unwrap();
    let sent = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if sent.elapsed() > Duration::from_secs(10) {
            child.kill().unwrap();
            panic!("the program waits for its standard error");
        }
        thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(status.code(), Some(130));
    assert_eq!(folder.names(), ["key"]);
    drop(reader);
}

/// Signals are ignored in a script's background jobs and under `nohup`.
#[test]
fn signals_that_were_ignored_stay_ignored() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    let mut child = Command::new("sh")
        .args([
            "-c",
            "trap '' HUP; exec \"$@\"",
            "sh",
            env!("CARGO_BIN_EXE_luxor"),
            "encrypt",
        ])
        .args(["--key-file", "key", "-", "volume"])
        .args(FAST)
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(&bytes(20 << 20, 1)).unwrap();
    kill(
        Pid::from_raw(child.id().try_into().unwrap()),
        Signal::SIGHUP,
    )
    .unwrap();
    pipe.write_all(b"the end").unwrap();
    drop(pipe);
    assert!(child.wait().unwrap().success());
    assert!(Path::exists(&folder.join("volume")));
}

/// Prints how many typed bytes are still unread.
const LEFT: &str =
    "stty -icanon min 0 time 1; echo left $(dd bs=4096 count=1 2> /dev/null | wc -c)";

/// The shell would show the rest, run it, and keep it in its history.
#[test]
fn no_part_of_a_passphrase_is_left_for_the_shell() {
    let folder = Folder::new();
    folder.write("plain", b"attack at dawn");
    let too_long = format!("{}\n", "x".repeat(1000));
    // `noflsh` keeps the terminal from discarding input at Ctrl-C by itself.
    for (answer, code) in [(too_long.as_str(), 1), ("half\u{3}", 130)] {
        let shell = format!(
            "trap : INT; stty noflsh; \"$luxor\" encrypt plain volume; echo code $?; {LEFT}"
        );
        let (_, screen) = terminal_shell(&shell, &[answer], folder.path());
        assert!(screen.contains(&format!("code {code}")), "{screen}");
        assert!(screen.contains("left 0"), "{screen}");
    }
}

/// The shell switches the echo on when it takes the terminal back.
#[test]
fn after_a_stop_a_passphrase_is_not_shown_either() {
    let folder = Folder::new();
    folder.write("plain", b"attack at dawn");
    let shell = format!(
        "until_echo_is() {{ for i in $(seq 100); do
            stty -a < /dev/tty | grep -q -- \" $1 \" && return; sleep 0.1
        done; }}
        (
            until_echo_is -echo; stty echo < /dev/tty
            kill -CONT $$; until_echo_is -echo; printf 'now: '
        ) &
        exec \"$luxor\" encrypt {} plain volume",
        FAST.join(" ")
    );
    // The prompt is written again.
    let is_continued =
        |screen: &str| screen.contains("now: ") && screen.matches("assphrase").count() >= 2;
    let answers = ["secret\n", "secret\n"].into_iter();
    let (code, screen) = answered_when(is_continued, &shell, answers, folder.path());
    assert_eq!(code, 0, "{screen}");
    assert!(!screen.contains("secret"), "{screen}");
}

/// Ctrl-Z at a prompt gives the terminal to a shell, which may not switch the echo on itself.
#[test]
fn ctrl_z_at_a_prompt_restores_the_echo() {
    let folder = Folder::new();
    folder.write("plain", b"attack at dawn");
    folder.write("key", b"secret");
    let line = "encrypt --key-file key plain volume";
    luxor(line).args(FAST).current_dir(folder.path()).ok();
    let shell = "set -m; \"$luxor\" key test volume; echo stopped $?
        stty -a | grep -q -- ' echo ' && echo the echo is on
        fg; echo code $?
        stty -a | grep -q -- ' echo ' && echo the echo is on";
    let (_, screen) = terminal_shell(shell, &["\x1a", "secret\n"], folder.path());
    assert_eq!(screen.matches("the echo is on").count(), 2, "{screen}");
    assert!(screen.contains("code 0"), "{screen}");
    assert!(!screen.contains("secret"), "{screen}");
    let before = screen.find("the echo is on").unwrap();
    assert!(
        screen[before..].contains("assphrase"),
        "not asked again: {screen}"
    );
}

/// To call a handler, the kernel saves all registers on the stack, and they may contain keys.
#[test]
fn handlers_run_on_one_thread_only() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    let (child, _pipe) = waiting_for_input(&folder);
    let mut threads = Vec::new();
    for task in fs::read_dir(format!("/proc/{}/task", child.id())).unwrap() {
        let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let field = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name));
            value.unwrap().trim().to_owned()
        };
        let mask = |name| u64::from_str_radix(&field(name), 16).unwrap();
        // The C library uses two real-time signals, which programs cannot block.
        let handled = mask("SigCgt:") & !(0b11 << 31);
        assert!(handled.count_ones() > 40, "{handled:x}");
        if handled & !mask("SigBlk:") != 0 {
            threads.push(field("Name:"));
        }
    }
    assert_eq!(threads, ["signals"]);
    assert_interrupted(child, Signal::SIGTERM, &folder, &["key"]);
}

/// A program inherits the mask of blocked signals, in which those that `luxor` handles are set.
#[test]
fn a_program_that_is_started_has_no_signals_blocked() {
    let folder = Folder::new();
    // The shell itself reads the mask. A program that it starts would have no signals blocked in
    // any case.
    let script = "#!/bin/sh\nwhile read -r name mask; do \
        [ \"$name\" != SigBlk: ] || echo \"$name $mask\"; done < /proc/$$/status\n";
    let program = folder.write("luxor-bench", script);
    fs::set_permissions(program, Permissions::from_mode(0o755)).unwrap();
    folder.open_to_everybody();
    let outcome = as_nobody("\"$luxor\" bench", folder.path());
    outcome.assert_code(0);
    let mask = outcome.text().trim_start_matches("SigBlk:").trim();
    assert_eq!(u64::from_str_radix(mask, 16), Ok(0), "{outcome:#?}");
}
