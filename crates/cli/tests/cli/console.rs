// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is printed, how much, and where.

use std::fs;

use serde_json::Value;

use crate::support::{FAST, Folder, as_nobody, bytes, luxor, terminal, typed};

const FIELDS: [&str; 6] = [
    "device",
    "device_bytes",
    "device_size",
    "speed",
    "eta_ms",
    "time_ms",
];

fn prepared() -> Folder {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("plain", bytes(3_000_000, 1));
    folder
}

#[test]
fn success_is_silent_and_verbose_is_not() {
    let folder = prepared();
    let run = |line: &str| luxor(line).args(FAST).current_dir(folder.path()).ok();
    for quiet in ["", "-q "] {
        let outcome = run(&format!(
            "{quiet}encrypt --force --key-file key plain volume"
        ));
        assert!(
            outcome.stdout.is_empty() && outcome.stderr.is_empty(),
            "{outcome:#?}"
        );
    }
    let outcome = run("encrypt -v --engine portable --threads 1 --key-file key plain talkative");
    assert!(
        outcome.stderr.contains("note: engine portable") && outcome.stderr.contains("1 thread"),
        "{outcome:#?}"
    );
    let outcome = luxor("decrypt -v --key-file key volume back")
        .current_dir(folder.path())
        .ok();
    assert!(
        outcome.stderr.contains("note: keyslot 0 opened"),
        "{outcome:#?}"
    );
}

#[test]
fn warnings_are_silenced_by_q() {
    let folder = prepared();
    luxor("encrypt --key-file key plain volume")
        .args(FAST)
        .current_dir(folder.path())
        .ok();
    let mut volume = fs::read(folder.join("volume")).unwrap();
    volume[5000] ^= 1;
    folder.write("volume", volume);
    for (option, warned) in [("-v", true), ("--force", true), ("-q", false)] {
        let outcome = luxor("decrypt --force --key-file key volume back")
            .args((option != "--force").then_some(option))
            .current_dir(folder.path())
            .ok();
        assert_eq!(
            outcome
                .stderr
                .contains("luxor: warning: volume: the primary copy"),
            warned,
            "{outcome:#?}"
        );
    }
}

#[test]
fn progress_json_has_cryptsetups_fields_and_stays_out_of_the_data() {
    let folder = prepared();
    let check = |text: &str, device: &str| {
        let last = text
            .lines()
            .last()
            .expect("the final state is always printed");
        let line: Value = serde_json::from_str(last).unwrap();
        assert_eq!(line.as_object().unwrap().keys().collect::<Vec<_>>(), FIELDS);
        assert_eq!(line["device"], device);
        assert_eq!(line["device_size"], "3000000", "{line}");
        assert_eq!(line["device_bytes"], "3000000", "{line}");
        assert!(
            line.as_object().unwrap().values().all(Value::is_string),
            "{line}"
        );
    };
    let encrypt = luxor("encrypt --progress-json --key-file key plain volume")
        .args(FAST)
        .current_dir(folder.path())
        .ok();
    check(encrypt.text(), "volume");
    assert_eq!(encrypt.stderr, "");
    let decrypt = luxor("decrypt --progress-json --key-file key volume -")
        .current_dir(folder.path())
        .ok();
    assert!(decrypt.stdout == fs::read(folder.join("plain")).unwrap());
    check(&decrypt.stderr, "volume");
}

#[test]
fn a_terminal_shows_a_bar_and_a_pipe_does_not() {
    let folder = prepared();
    let line = format!("encrypt --key-file key {} plain volume", FAST.join(" "));
    let (code, screen) = terminal(&line, &[], folder.path());
    assert_eq!(code, 0, "{screen}");
    assert!(
        screen.contains("Encrypting") && screen.contains("MiB"),
        "{screen}"
    );
    let (code, screen) = terminal(
        &line.replace("encrypt", "encrypt -q --force"),
        &[],
        folder.path(),
    );
    assert_eq!(
        (code, screen.contains("Encrypting")),
        (0, false),
        "{screen}"
    );
}

/// On a terminal; `success_is_silent_and_verbose_is_not` is about scripts.
#[test]
fn encrypt_ends_with_what_it_made_and_how_not_to_lose_it() {
    let folder = prepared();
    let run = |options: &str| {
        let costs = FAST.join(" ");
        let line = format!("encrypt --force --key-file key {costs} {options}");
        let (code, screen) = terminal(&line, &[], folder.path());
        assert_eq!(code, 0, "{screen}");
        screen
    };
    let lost = "Without its header the data are lost";
    let small = "--luks2-keyslots-size 512K makes one of 544 KiB";
    let length = |name: &str| fs::metadata(folder.join(name)).unwrap().len();
    let screen = run("plain volume");
    assert!(
        screen.contains("luxor: volume is a LUKS2 volume, most of it its header"),
        "{screen}"
    );
    assert!(screen.contains(lost) && screen.contains(small), "{screen}");
    let backup = "`luxor header backup volume volume.header`";
    assert!(screen.contains(backup), "{screen}");

    folder.write("long", vec![1; 17 << 20]);
    for options in [
        "--luks2-keyslots-size 512K plain volume",
        "--type luks1 long volume",
        "long volume",
    ] {
        let screen = run(options);
        assert!(screen.contains(lost) && !screen.contains(small), "{screen}");
        if options.starts_with("--luks2") {
            assert!(length("volume") - length("plain") < 560 << 10);
        }
    }
    let screen = run("--header head plain data");
    let words = "data has the encrypted data, and head the LUKS2 header. Keep a copy of head";
    assert!(screen.contains(words), "{screen}");
    for options in ["-q plain volume", "plain - > volume"] {
        let screen = run(options);
        assert!(!screen.contains("header"), "{screen}");
    }
}

/// The warning comes before the user repeats it. A key file, and an old passphrase, are not typed anew.
#[test]
fn a_short_new_passphrase_is_warned_of() {
    let folder = prepared();
    let costs = FAST.join(" ");
    for (passphrase, words) in [
        ("x\n", "has only 1 character:"),
        ("1234567\n", "has only 7 characters:"),
        ("\u{fc}\u{fc}\u{fc}\u{fc}\n", "has only 4 characters:"),
    ] {
        let line = format!("encrypt --force {costs} plain volume");
        let (code, screen) = terminal(&line, &[passphrase; 2], folder.path());
        assert_eq!(code, 0, "{screen}");
        let (before, after) = screen.split_once("Repeat it: ").unwrap();
        assert!(
            before.contains("luxor: warning: the passphrase") && before.contains(words),
            "{screen}"
        );
        assert!(!after.contains("warning"), "{screen}");
    }
    let warns = |line: &str, answers: &[&str]| {
        let (code, screen) = terminal(line, answers, folder.path());
        assert_eq!(code, 0, "{screen}");
        screen.contains("warning")
    };
    assert!(!warns("key test volume", &["\u{fc}\u{fc}\u{fc}\u{fc}\n"]));
    assert!(!warns(
        &format!("encrypt -q --force {costs} plain volume"),
        &["x\n"; 2]
    ));
    assert!(warns(
        &format!("key add {costs} volume"),
        &["x\n", "y\n", "y\n"]
    ));
    assert!(!warns(
        &format!("encrypt --force {costs} plain volume"),
        &["12345678\n"; 2]
    ));
    folder.write("short", "x");
    assert!(!warns(
        &format!("encrypt --force --key-file short {costs} plain volume"),
        &[]
    ));
}

#[test]
fn ciphertext_is_kept_off_terminals() {
    let folder = prepared();
    let (code, screen) = terminal("encrypt --key-file key plain -", &[], folder.path());
    assert_eq!(code, 1, "{screen}");
    assert!(screen.contains("luxor: OUTPUT is a terminal"), "{screen}");
    // Printing plaintext on a terminal is allowed.
    folder.write("plain", b"attack at dawn");
    luxor("encrypt --force --key-file key plain volume")
        .args(FAST)
        .current_dir(folder.path())
        .ok();
    let (code, screen) = terminal("decrypt --key-file key volume -", &[], folder.path());
    assert_eq!(code, 0, "{screen}");
    assert!(screen.starts_with("attack at dawn"), "{screen}");
}

#[test]
fn memory_that_cannot_be_locked_is_noted() {
    let folder = prepared();
    folder.open_to_everybody();
    // Limits in KiB: nothing, one page, two pages, and enough.
    for (limit, is_noted) in [("0", true), ("4", true), ("8", true), ("8192", false)] {
        let costs = FAST.join(" ");
        for command in [
            &format!("encrypt --force {costs} --key-file key plain volume"),
            "key test --key-file key volume",
            "dump --volume-key --batch-mode --key-file key volume",
        ] {
            let line = format!("ulimit -l {limit} && \"$luxor\" {command} -v");
            let outcome = as_nobody(&line, folder.path());
            outcome.assert_code(0);
            // There is one note, however many locks were refused.
            let note = "luxor: note: memory for secrets could not be locked";
            let count = outcome.stderr.matches(note).count();
            assert_eq!(count, usize::from(is_noted), "{outcome:#?}");
        }
    }
}

/// As `encrypt` does. Scripts see nothing.
#[test]
fn success_is_told_on_a_terminal() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    let fast = FAST.join(" ");
    let line = format!("$luxor format {fast} --size 1M --key-file key 'a volume'");
    let (code, screen) = typed(&line, |_| None, folder.path());
    assert_eq!(code, 0, "{screen}");
    let words = "a volume is a LUKS2 volume";
    let backup = "`luxor header backup 'a volume' 'a volume.header'`";
    assert!(
        screen.contains(words) && screen.contains(backup),
        "{screen}"
    );
    let line = "$luxor header backup 'a volume' 'a volume.header'";
    let (code, screen) = typed(line, |_| None, folder.path());
    assert_eq!(code, 0, "{screen}");
    let restore = "`luxor header restore 'a volume' 'a volume.header'`";
    assert!(screen.contains(restore), "{screen}");
    let line = "$luxor header backup 'a volume' - >other";
    assert_eq!(typed(line, |_| None, folder.path()), (0, String::new()));

    // The answer of a user who is asked.
    let restore = restore.trim_matches('`').replace("luxor", "$luxor");
    for (answer, code, is_told) in [
        ("yes", 1, true),
        ("y", 1, true),
        ("no", 1, false),
        ("YES", 0, false),
    ] {
        let answer = format!("{answer}\n");
        let (found, screen) = typed(&restore, |_| Some(answer.clone()), folder.path());
        assert_eq!(found, code, "{screen}");
        assert_eq!(
            screen.contains("must be YES, in capitals"),
            is_told,
            "{screen}"
        );
    }
}
