// SPDX-License-Identifier: MIT OR Apache-2.0
//! `reencrypt`: what Luxor begins cryptsetup finishes, and the reverse, also after a kill; what is
//! kept. `crates/luxor/tests/reencrypt.rs` cuts the power.

use std::{
    fs::{self, File},
    io::Read,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use luxor::files::testing::Loop;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};

use crate::support::{
    FAST, Folder, Luxor, bytes, is_long, luxor, shell_without_terminal, terminal_shell,
    with_metadata,
};

pub(crate) const LEN: usize = 12 << 20;

pub(crate) fn at(folder: &Folder, line: &str) -> Luxor {
    luxor(line).current_dir(folder.path())
}

/// A folder with the files `key` and `plain`, and the volume `v` of it.
pub(crate) fn with(options: &str) -> Folder {
    with_data(options, LEN)
}

pub(crate) fn with_data(options: &str, len: usize) -> Folder {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("plain", bytes(len, 3));
    at(
        &folder,
        &format!("encrypt --key-file key {options} plain v"),
    )
    .args(FAST)
    .ok();
    folder
}

pub(crate) fn reencrypt(folder: &Folder, options: &str) -> Luxor {
    at(folder, &format!("reencrypt --key-file key {options} v"))
}

fn cryptsetup_line(options: &str) -> String {
    let fast = FAST.join(" ");
    format!("cryptsetup reencrypt -q --force-offline-reencrypt --key-file key {fast} {options} v")
}

pub(crate) fn cryptsetup(folder: &Folder, options: &str) {
    shell_without_terminal(&cryptsetup_line(options), folder.path()).assert_code(0);
}

pub(crate) fn json(folder: &Folder, volume: &str) -> Value {
    let dump = at(folder, &format!("dump --json {volume}")).ok();
    serde_json::from_str(dump.text()).unwrap()
}

pub(crate) fn is_under_way(folder: &Folder) -> bool {
    json(folder, "v").pointer("/config/requirements").is_some()
}

/// The volume has the same plaintext and no trace of the re-encryption, and cryptsetup opens it.
#[track_caller]
pub(crate) fn is_done(folder: &Folder) {
    let metadata = json(folder, "v");
    assert!(metadata.pointer("/config/requirements").is_none());
    let names = ["segments", "digests", "keyslots"];
    let counts = names.map(|name| metadata[name].as_object().unwrap().len());
    assert_eq!(counts, [1, 1, 1], "{metadata:#}");
    is_same(folder);
    let line = "cryptsetup open --test-passphrase --key-file key v";
    shell_without_terminal(line, folder.path()).assert_code(0);
}

#[track_caller]
pub(crate) fn is_same(folder: &Folder) {
    at(folder, "decrypt --force --key-file key v out").ok();
    assert!(fs::read(folder.join("out")).unwrap() == fs::read(folder.join("plain")).unwrap());
}

#[test]
fn the_key_changes_and_the_data_stay() {
    for (options, sector, bits) in [
        ("", 4096, 512),
        ("--resilience journal --hotzone-size 1M", 4096, 512),
        ("--resilience none --threads 1", 4096, 512),
        (
            "--sector-size 512 --key-size 256 --resilience-hash sha512",
            512,
            256,
        ),
    ] {
        let folder = with("");
        let before = fs::read(folder.join("v")).unwrap();
        let told = reencrypt(&folder, options).args(FAST).ok().stderr;
        assert_eq!(told, "luxor: the re-encryption of v is done\n");
        is_done(&folder);
        let after = fs::read(folder.join("v")).unwrap();
        assert_eq!(after.len(), before.len());
        let data = 16 << 20;
        let same = after[data..].chunks(16).zip(before[data..].chunks(16));
        assert_eq!(same.filter(|(a, b)| a == b).count(), 0, "{options}");
        let metadata = json(&folder, "v");
        assert_eq!(metadata["segments"]["0"]["sector_size"], sector);
        let mut keyslots = metadata["keyslots"].as_object().unwrap().values();
        assert_eq!(keyslots.next().unwrap()["key_size"], bits / 8);
        // The old keyslot is overwritten, and the area of the state too.
        assert!(before[0x8000..0x8100] != after[0x8000..0x8100]);
        at(&folder, "check --key-file key v").ok();
    }
}

#[test]
fn what_one_program_begins_the_other_finishes() {
    for resilience in ["checksum", "journal", "none"] {
        let resilience = &format!("--resilience {resilience}");
        let begin = format!("--init-only {resilience}");
        for theirs_begins in [true, false] {
            let folder = with("");
            if theirs_begins {
                cryptsetup(&folder, &begin);
            } else {
                reencrypt(&folder, &begin).args(FAST).ok();
            }
            assert!(is_under_way(&folder));
            is_same(&folder);
            if theirs_begins {
                reencrypt(&folder, "--resume-only").ok();
            } else {
                cryptsetup(&folder, "--resume-only");
            }
            is_done(&folder);
        }
    }
}

#[test]
fn what_protects_the_zones_may_change_on_the_way() {
    let folder = with("--sector-size 512");
    reencrypt(&folder, "--init-only").args(FAST).ok();
    let area = || {
        let metadata = json(&folder, "v");
        let mut keyslots = metadata["keyslots"].as_object().unwrap().values();
        let state = keyslots.find(|keyslot| keyslot["type"] == "reencrypt");
        let area = &state.expect("it is under way")["area"];
        format!("{} {}", area["type"], area["hash"])
    };
    let ours = |options: &str| {
        let program = reencrypt(&folder, &format!("--hotzone-size 64K {options}"));
        interrupt_within_zones(program, &folder.join("v"));
    };
    let theirs = |options: &str| {
        let line = format!(
            "strace -f -qq -o /dev/null -e trace=fsync,fdatasync \
             -e inject=fsync,fdatasync:signal=INT:when=14 {}",
            cryptsetup_line(&format!("--hotzone-size 64K {options}"))
        );
        shell_without_terminal(&line, folder.path()).assert_code(1);
    };
    for (options, expected) in [
        ("--resilience journal", "\"journal\" null"),
        ("", "\"journal\" null"),
        ("--resilience none", "\"none\" null"),
        ("--resilience-hash sha512", "\"checksum\" \"sha512\""),
        ("--resilience checksum", "\"checksum\" \"sha256\""),
    ] {
        ours(options);
        assert_eq!(area(), expected, "{options}");
        is_same(&folder);
        // cryptsetup does all at once then.
        if options == "--resilience none" {
            continue;
        }
        theirs(&options.replace("-hash sha512", " checksum --resilience-hash sha1"));
        let expected = expected.replace("sha512", "sha1");
        assert_eq!(area(), expected, "{options}");
        is_same(&folder);
    }
    ours("--resilience journal");
    cryptsetup(&folder, "");
    is_done(&folder);
}

/// Interrupts a re-encryption by Ctrl-C when a zone is recorded in `metadata`. The program stops each time
/// that it makes something durable, until this has looked, so that it cannot end before, however slow
/// the machine is.
pub(crate) fn interrupt_within_zones(program: Luxor, metadata: &Path) {
    let stopping = "strace -f -qq -o /dev/null -e trace=fdatasync -e inject=fdatasync:signal=STOP";
    let mut tracer = program.under(stopping).spawn();
    let has_zone = || {
        let file = File::open(metadata).ok();
        let mut text = Vec::new();
        let read = file.map(|file| file.take(32 << 10).read_to_end(&mut text));
        let zone = b"in-reencryption";
        read.is_some() && text.windows(zone.len()).any(|bytes| bytes == zone)
    };
    let tracer_pid = tracer.id();
    let program = || {
        let children = fs::read_to_string(format!("/proc/{tracer_pid}/task/{tracer_pid}/children"));
        let program = children.ok()?.trim().parse().ok()?;
        Some(Pid::from_raw(program))
    };
    let mut is_interrupted = false;
    while tracer.try_wait().unwrap().is_none() {
        if let Some(program) = program() {
            if !is_interrupted && has_zone() {
                kill(program, Signal::SIGINT).unwrap();
                is_interrupted = true;
            }
            // A zone stays in the metadata for more than one of these steps. The program may have ended.
            let _ = kill(program, Signal::SIGCONT);
        }
        thread::sleep(Duration::from_millis(1));
    }
    // The tracer's exit code is its own if the program ends while it is to stop.
    let mut told = String::new();
    let mut stderr = tracer.stderr.take().expect("`under` pipes it");
    stderr.read_to_string(&mut told).unwrap();
    assert!(
        is_interrupted && told.contains("luxor: interrupted"),
        "{told}"
    );
}

/// Kills the program after a while. Returns whether it was still running.
pub(crate) fn killed(mut program: Child, signal: Signal, after: Duration) -> bool {
    thread::sleep(after);
    let _ = kill(Pid::from_raw(program.id().cast_signed()), signal);
    let status = program.wait().unwrap();
    status.signal().is_some() || status.code() == Some(130)
}

/// Each turn begins after another part of a second, so that kills come at any moment.
#[test]
fn a_killed_program_is_continued_by_the_other() {
    let wanted = if is_long() { 200 } else { 12 };
    for resilience in ["checksum", "journal"] {
        let (mut kills, mut within) = (0, 0);
        let mut folder = with("");
        for turn in 0_u64.. {
            if kills >= wanted && within > 0 {
                break;
            }
            if !is_under_way(&folder) {
                if turn > 0 {
                    is_done(&folder);
                    folder = with("");
                }
                let begin = format!("--init-only --resilience {resilience}");
                reencrypt(&folder, &begin).args(FAST).ok();
            }
            let options = "--hotzone-size 64K";
            let program = if turn.is_multiple_of(2) {
                let quiet = |luxor: Luxor| luxor.stderr_to(Stdio::null());
                quiet(reencrypt(&folder, options)).spawn()
            } else {
                let line = format!("exec {}", cryptsetup_line(options));
                let mut shell = Command::new("sh");
                shell.args(["-c", &line]).current_dir(folder.path());
                shell.stdout(Stdio::null()).stderr(Stdio::null());
                shell.spawn().unwrap()
            };
            let after = Duration::from_millis(40 + turn * 37 % 90);
            if killed(program, Signal::SIGKILL, after) {
                kills += 1;
                let segments = json(&folder, "v")["segments"].clone();
                within += usize::from(segments.to_string().contains("in-reencryption"));
            }
        }
        eprintln!("{resilience}: {kills} kills, {within} of them within a zone");
        // Only Luxor is left.
        folder = with("");
        let begin = format!("--init-only --resilience {resilience}");
        reencrypt(&folder, &begin).args(FAST).ok();
        for turn in 0..100 {
            let program = reencrypt(&folder, "--hotzone-size 64K").stderr_to(Stdio::null());
            let after = Duration::from_millis(30 + turn * 7);
            killed(program.spawn(), Signal::SIGKILL, after);
            if !is_under_way(&folder) {
                break;
            }
        }
        is_done(&folder);
    }
}

/// cryptsetup destroys the old keyslots, and then makes its last change. Between them it does not go on
/// itself.
#[test]
fn an_end_that_cryptsetup_has_left_half_done_is_finished() {
    pub(crate) const LEN: usize = 1 << 20;

    for (begin, volume, go_on, counts) in [
        ("--key-slot 0", "", "", [3, 2]),
        ("--decrypt --header h", "--header h", "--header h", [2, 1]),
    ] {
        let folder = with_data(volume, LEN);
        let fast = FAST.join(" ");
        let header = if volume.is_empty() { "v" } else { "h" };
        let add = format!("key add --key-file key --new-key-file key {fast} {header}");
        at(&folder, &add).ok();
        let files = ["v", "h"].map(|name| (name, fs::read(folder.join(name)).ok()));
        let (mut keyslots, mut is_over) = (Vec::new(), false);
        let runs = |options: &str| {
            for (name, bytes) in &files {
                let _ = bytes.as_ref().map(|bytes| folder.write(name, bytes));
            }
            let line = cryptsetup_line(begin);
            let line = format!("strace -f -qq -o trace -e trace=fsync {options} {line}");
            shell_without_terminal(&line, folder.path()).code == Some(0)
        };
        assert!(runs(""));
        let trace = fs::read_to_string(folder.join("trace")).unwrap();
        let syncs = trace.matches("fsync(").count();
        for kill in syncs.saturating_sub(10).max(1)..=syncs {
            assert!(!runs(&format!("-e inject=fsync:signal=KILL:when={kill}")));
            let metadata = json(&folder, header);
            let is_under_way = metadata.pointer("/config/requirements").is_some();
            is_over |= !keyslots.is_empty() && !is_under_way;
            let count = metadata["keyslots"].as_object().unwrap().len();
            if !is_under_way || !counts.contains(&count) {
                continue;
            }
            keyslots.push(count);
            if go_on.is_empty() {
                is_same(&folder);
            }
            reencrypt(&folder, go_on).ok();
            if go_on.is_empty() {
                is_done(&folder);
            } else {
                assert!(fs::read(folder.join("v")).unwrap() == bytes(LEN, 3));
            }
        }
        eprintln!("{begin}: the keyslots when it was killed: {keyslots:?}");
        assert!(
            is_over && counts.iter().all(|count| keyslots.contains(count)),
            "{begin}: {keyslots:?}"
        );
    }
}

#[test]
fn an_interrupted_command_says_how_to_go_on() {
    for resilience in ["checksum", "none"] {
        let folder = with("");
        let begin = format!("--init-only --resilience {resilience}");
        reencrypt(&folder, &begin).args(FAST).ok();
        for after in (20..).step_by(15) {
            let program = reencrypt(&folder, "--hotzone-size 16K").spawn();
            thread::sleep(Duration::from_millis(after));
            // The others wait for the end of the zone.
            for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGQUIT] {
                let _ = kill(Pid::from_raw(program.id().cast_signed()), signal);
                if resilience != "none" {
                    break;
                }
            }
            let output = program.wait_with_output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            match output.status.code() {
                Some(130) => assert!(said.contains("interrupted"), "{said}"),
                // The signal came before the handler, or the program had ended.
                Some(0) | None => {}
                other => panic!("{other:?}: {said}"),
            }
            if !is_under_way(&folder) {
                break;
            }
            is_same(&folder);
            if said.contains("this continues it: `luxor reencrypt --resume-only v`") {
                reencrypt(&folder, "").ok();
                break;
            }
        }
        is_done(&folder);
    }
}

#[test]
fn all_keyslots_are_kept_or_the_named_ones() {
    let folder = with("");
    folder.write("second", b"battery staple");
    let fast = FAST.join(" ");
    for line in [
        "key add --key-file key --new-key-file second",
        "key add --key-file key --new-key-file key",
        "token add --key-description words --key-slot 1",
        "config --priority prefer --key-slot 2",
    ] {
        let costs = if line.starts_with("key") { &fast } else { "" };
        at(&folder, &format!("{line} {costs} v")).ok();
    }
    let before = fs::read(folder.join("v")).unwrap();
    let outcome = reencrypt(&folder, "").args(FAST).fails(2, "keyslot 1");
    assert!(outcome.stderr.contains("--key-slot"), "{outcome:#?}");
    assert!(fs::read(folder.join("v")).unwrap() == before);

    let kept = folder.path();
    fs::copy(kept.join("v"), kept.join("w")).unwrap();
    let outcome = reencrypt(&folder, "--key-slot 0 --key-slot 2 --key-slot 0")
        .args(FAST)
        .ok();
    assert!(
        outcome.stderr.contains("keyslot 1 will be removed"),
        "{outcome:#?}"
    );
    is_same(&folder);
    let metadata = json(&folder, "v");
    assert_eq!(metadata["keyslots"].as_object().unwrap().len(), 2);
    assert_eq!(
        metadata["tokens"]["1"]["keyslots"],
        Value::Array(Vec::new())
    );

    // At a terminal each keyslot has its own prompt.
    let line = format!("\"$luxor\" reencrypt {fast} w");
    let typed = ["correct horse\n", "wrong\n", "battery staple\n"];
    let (code, screen) = terminal_shell(&line, &typed, folder.path());
    assert_eq!(code, 0, "{screen}");
    for words in [
        "Passphrase for keyslot 0 of w: ",
        "Passphrase for keyslot 1 of w: ",
    ] {
        assert!(screen.contains(words), "{screen}");
    }
    let metadata = json(&folder, "w");
    let keyslots = metadata["keyslots"].as_object().unwrap();
    assert_eq!(keyslots.len(), 3, "{metadata:#}");
    let preferred = keyslots.values().filter(|keyslot| keyslot["priority"] == 2);
    assert_eq!(preferred.count(), 1);
    let of_token = metadata["tokens"]["1"]["keyslots"].as_array().unwrap();
    let of_token = of_token[0].as_str().unwrap();
    let line = format!("key test --key-file second --key-slot {of_token} w");
    at(&folder, &line).ok();
}

#[test]
fn the_other_commands_know_that_it_is_under_way() {
    let folder = with("");
    folder.write("other", b"battery staple");
    folder.write("token", r#"{"type":"mine","keyslots":["0"]}"#);
    let fast = FAST.join(" ");
    let line = |line: &str| at(&folder, line);
    line(&format!(
        "key add --key-file key --new-key-file other {fast} v"
    ))
    .ok();
    reencrypt(&folder, "--init-only --key-slot 0")
        .args(FAST)
        .ok();
    let program = reencrypt(&folder, "--hotzone-size 64K");
    interrupt_within_zones(program, &folder.join("v"));

    let report = line("check --json v").ok();
    let report: Value = serde_json::from_str(report.text()).unwrap();
    let done = report["reencryption"]["done"].as_u64().unwrap();
    assert!(done < LEN as u64);
    let share = 100.0 * done as f64 / LEN as f64;
    let words = format!("{done} of {LEN} bytes ({share:.1} %)");
    let expected = serde_json::json!({
        "keyslot": 3, "mode": "reencrypt", "direction": "forward", "resilience": "checksum",
        "done": done, "length": LEN,
    });
    assert_eq!(report["reencryption"], expected);
    for command in ["check", "dump"] {
        let shown = line(&format!("{command} v")).ok();
        assert!(shown.text().contains(&words), "{shown:?}");
    }
    let list = line("key list v").ok();
    let kinds: Vec<_> = list.text().lines().skip(1).collect();
    for (number, (line, key)) in kinds.iter().zip(["old", "old", "new"]).enumerate() {
        let begin = format!("{number}        pbkdf2, sha256, 1000 iterations, {key} key");
        assert!(line.starts_with(&begin), "{line}");
    }

    let before = fs::read(folder.join("v")).unwrap();
    for command in [
        "key add --key-file key --new-key-file other",
        "key change --key-file key --new-key-file other",
        "key convert --key-file key",
        "key remove --key-file key",
        "key remove --key-slot 1 --key-file key",
        "config --label new",
        "config --priority prefer --key-slot 0",
        "config --uuid 11111111-2222-3333-4444-555555555555",
        "token add --json-file token",
        "token remove --token-id 0",
        "convert --type luks1",
        "resize --size 4M",
    ] {
        let refused = line(&format!("{command} v")).fails(
            1,
            "a re-encryption is under way, and until it ends the volume's header cannot be changed\n  \
             Finish it first: `luxor reencrypt v`.\n",
        );
        assert_eq!(refused.stderr.lines().count(), 2, "{refused:?}");
    }
    assert!(fs::read(folder.join("v")).unwrap() == before);
    let mut damaged = before.clone();
    damaged[0x4100] ^= 1;
    folder.write("v", &damaged);
    let repaired = line("header repair v").ok();
    assert_eq!(repaired.text(), "the secondary header is rewritten\n");
    line("check v").ok();

    // As by cryptsetup, only the state is left, and a backup brings all back.
    line("header backup v backup").ok();
    folder.write("theirs", &before);
    line("erase --batch-mode v").ok();
    shell_without_terminal("cryptsetup luksErase -q theirs", folder.path()).assert_code(0);
    let (ours, theirs) = (json(&folder, "v"), json(&folder, "theirs"));
    assert_eq!(ours["keyslots"].as_object().unwrap().len(), 1);
    for name in ["keyslots", "digests", "segments", "config"] {
        assert_eq!(ours[name], theirs[name], "{name}");
    }
    let areas = |bytes: &[u8]| bytes[32 << 10..][..3 * 256_000].to_vec();
    let (old, new) = (areas(&before), areas(&fs::read(folder.join("v")).unwrap()));
    let same = old
        .chunks(16)
        .zip(new.chunks(16))
        .filter(|(old, new)| old == new);
    assert_eq!(same.count(), 0);
    let restore = line("header restore v backup");
    restore.fails(
        1,
        "the backup is in the midst of a re-encryption, and only the present header",
    );
    line("header restore --force --batch-mode v backup").ok();
    reencrypt(&folder, "").ok();
    is_done(&folder);
}

#[test]
fn lengths_and_trailers_survive() {
    let folder = with("");
    for (line, len) in [("cat plain |", 100_001), ("cat plain |", 4096), ("", 7777)] {
        folder.write("plain", bytes(len, 5));
        let from = if line.is_empty() { "plain" } else { "-" };
        let fast = FAST.join(" ");
        let line = format!("rm v; {line} \"$luxor\" encrypt --key-file key {fast} {from} - > v");
        shell_without_terminal(&line, folder.path()).assert_code(0);
        reencrypt(&folder, "--hotzone-size 8K").args(FAST).ok();
        is_done(&folder);
        assert_eq!(json(&folder, "v")["tokens"]["0"]["length"], len.to_string());
    }
}

#[test]
fn a_detached_header_and_a_device_work_too() {
    let folder = with("--header h --sector-size 512");
    reencrypt(&folder, "--header h --hotzone-size 1M")
        .args(FAST)
        .ok();
    at(&folder, "decrypt --key-file key --header h v out").ok();
    assert!(fs::read(folder.join("out")).unwrap() == bytes(LEN, 3));

    let folder = with("");
    let device = Loop::over(&folder.join("v"));
    let name = device.name();
    let line = format!("reencrypt --key-file key {name}");
    at(&folder, &line).args(FAST).ok();
    drop(device);
    is_done(&folder);
}

/// The same, from plain data and with a detached header.
#[test]
fn plain_data_become_a_volume() {
    for theirs_begins in [true, false] {
        for theirs_finishes in [true, false] {
            let folder = Folder::new();
            folder.write("key", b"correct horse");
            folder.write("v", bytes(LEN, 3));
            let line = "--encrypt --header h --sector-size 512";
            if theirs_begins {
                cryptsetup(&folder, &format!("{line} --init-only"));
            } else {
                let begin = if theirs_finishes { "--init-only" } else { "" };
                reencrypt(&folder, &format!("{line} {begin}"))
                    .args(FAST)
                    .ok();
            }
            if theirs_finishes {
                cryptsetup(&folder, "--header h --resume-only");
            } else if theirs_begins {
                reencrypt(&folder, "--header h --hotzone-size 1M").ok();
            }
            assert!(fs::read(folder.join("v")).unwrap() != bytes(LEN, 3));
            at(&folder, "decrypt --key-file key --header h v out").ok();
            assert!(fs::read(folder.join("out")).unwrap() == bytes(LEN, 3));
            let metadata = json(&folder, "h");
            assert!(metadata.pointer("/config/requirements").is_none());
            assert_eq!(metadata["segments"].as_object().unwrap().len(), 1);
            let line = "cryptsetup open --test-passphrase --key-file key --header h v";
            shell_without_terminal(line, folder.path()).assert_code(0);
        }
    }
    let folder = with("");
    folder.write("odd", bytes(LEN + 1, 3));
    let refused = |options: &str, words: &str| {
        let line = format!("reencrypt --encrypt --key-file key {options}");
        at(&folder, &line).args(FAST).fails(1, words);
        assert!(!folder.join("h").exists());
    };
    refused("plain", "--encrypt needs either");
    refused("--header h v", "it is a LUKS volume already");
    refused("--header h odd", "must be a multiple of the sector size");
    let line = "reencrypt --encrypt --key-file key --header v plain";
    at(&folder, line).args(FAST).fails(5, "v exists already");
    is_done(&folder);
}

/// What another program requires beside a re-encryption stays, whichever of both programs does it.
#[test]
fn other_members_of_the_requirements_stay() {
    let others = json!({ "optional": ["future"], "mandatory": [], "x": [] });
    let folder = with_data("", 1 << 20);
    let volume = with_metadata(&fs::read(folder.join("v")).unwrap(), |text| {
        let mut metadata: Value = serde_json::from_str(text).unwrap();
        metadata["config"]["requirements"] = others.clone();
        metadata.to_string()
    });
    for by_luxor in [true, false] {
        folder.write("v", &volume);
        if by_luxor {
            reencrypt(&folder, "--init-only").args(FAST).ok();
            let begun = json(&folder, "v")["config"]["requirements"].clone();
            assert_eq!(begun["optional"], others["optional"], "{begun}");
            assert_eq!(
                begun["mandatory"],
                json!(["online-reencrypt-v2"]),
                "{begun}"
            );
            reencrypt(&folder, "").ok();
        } else {
            cryptsetup(&folder, "");
        }
        let ended = json(&folder, "v")["config"]["requirements"].clone();
        assert_eq!(ended["optional"], others["optional"], "{by_luxor}: {ended}");
        assert_eq!(ended["x"], others["x"], "{by_luxor}: {ended}");
    }
}
