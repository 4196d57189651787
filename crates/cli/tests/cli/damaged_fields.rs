// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each field of the headers gets values that break a rule, one at a time. Luxor opens what cryptsetup
//! opens, or says why not, and what it advises works.

use std::{fs, process::Command};

use crate::support::{Folder, Outcome, bytes, luxor, shell_without_terminal};

/// How a volume with a damaged field behaves.
#[derive(Clone, Copy, Debug)]
enum Expected {
    /// The passphrase opens it in both programs or in neither.
    Alike,
    /// Luxor refuses it with these words. cryptsetup computes for minutes.
    Costly(&'static str),
}

use Expected::{Alike, Costly};

/// A field, its offset, and its value.
type Case = (&'static str, usize, Vec<u8>, Expected);

const LIMIT: Expected = Costly("more than the limit of");

fn luks1_cases() -> Vec<Case> {
    let mut cases = vec![
        ("magic", 0, b"X".to_vec(), Alike),
        ("version", 6, vec![0, 0], Alike),
        ("version", 6, vec![0, 3], Alike),
    ];
    for (field, begin, len) in [
        ("cipher-name", 8, 32),
        ("cipher-mode", 40, 32),
        ("hash-spec", 72, 32),
        ("uuid", 168, 40),
    ] {
        cases.extend([
            (field, begin, vec![0; len], Alike),
            (field, begin, vec![b'a'; len], Alike),
            (field, begin + len - 1, b"a".to_vec(), Alike),
            (field, begin, vec![0xff, 0xfe], Alike),
        ]);
    }
    for (field, begin, names) in [
        ("cipher-name", 8, "AES Aes aes-256 rijndael"),
        ("cipher-mode", 40, "xts-PLAIN64 XTS-plain64 xts-plain64x"),
        (
            "hash-spec",
            72,
            "SHA256 sha-256 SHA2-256 2.16.840.1.101.3.4.2.1 RSA-SHA256 sha_256",
        ),
    ] {
        let of_name = |name: &str| (field, begin, format!("{name}\0").into_bytes(), Alike);
        cases.extend(names.split(' ').map(of_name));
    }
    let mut number = |field, offset, values: &[(u32, Expected)]| {
        for (value, expected) in values {
            cases.push((field, offset, value.to_be_bytes().to_vec(), *expected));
        }
    };
    let all_alike = |values: &[u32]| {
        values
            .iter()
            .map(|&value| (value, Alike))
            .collect::<Vec<_>>()
    };
    let offsets = [
        0,
        1,
        7,
        8,
        9,
        0x800,
        0xfff,
        0x1001,
        0x2001,
        0x7fff_ffff,
        u32::MAX,
    ];
    number("payload-offset", 104, &all_alike(&offsets));
    let lens = [0, 1, 16, 24, 32, 63, 65, 512, 0x7fff_ffff, u32::MAX];
    number("key-bytes", 108, &all_alike(&lens));
    let iterations = [(0, Alike), (1, Alike), (1 << 31, LIMIT), (u32::MAX, LIMIT)];
    number("mk-digest-iter", 164, &iterations);
    // Keyslot 0 is used, the others are empty.
    for slot in [0, 1, 7] {
        let begin = 208 + 48 * slot;
        let states = [0, 1, 0xdead, 0x00ac_71f2, 0x00ac_71f3, u32::MAX];
        number("active", begin, &all_alike(&states));
        let most = if slot == 0 { LIMIT } else { Alike };
        number(
            "iterations",
            begin + 4,
            &[(0, Alike), (1, Alike), (u32::MAX, most)],
        );
        let places = [0, 1, 2, 8, 9, 0x7ff, 0x1000, 0x7fff_ffff, u32::MAX];
        number("key-material-offset", begin + 40, &all_alike(&places));
        number(
            "stripes",
            begin + 44,
            &all_alike(&[0, 1, 3999, 4001, u32::MAX]),
        );
    }
    cases
}

/// A folder with a volume and a backup of its header.
fn prepared(format: &str) -> (Folder, Vec<u8>) {
    let folder = Folder::new();
    folder.write("key", "correct horse");
    folder.write("v", bytes(4 << 20, 1));
    let line = format!("cryptsetup luksFormat --batch-mode {format} --key-file key v");
    shell_without_terminal(&line, folder.path()).assert_code(0);
    run(&folder, "header backup v backup").assert_code(0);
    let good = fs::read(folder.join("v")).unwrap();
    (folder, good)
}

fn run(folder: &Folder, line: &str) -> Outcome {
    luxor(line).current_dir(folder.path()).run()
}

/// Does what the message advises, if it advises a command. Returns the command.
fn follow(folder: &Folder, message: &Outcome) -> Option<String> {
    let mut spans = message.stderr.split('`').skip(1).step_by(2);
    let command = spans.next()?.strip_prefix("luxor ")?;
    let line = command.replace("BACKUP", "--batch-mode backup");
    let damaged = fs::read(folder.join("v")).unwrap();
    // The other command for the same damage.
    if let Some(other) = spans.next() {
        let outcome = run(folder, other.strip_prefix("luxor ").unwrap());
        assert_eq!(outcome.code, Some(0), "{message:#?}\n{outcome:#?}");
        assert_eq!(run(folder, "check v").code, Some(0), "{message:#?}");
        folder.write("v", damaged);
    }
    let outcome = run(folder, &line);
    assert_eq!(outcome.code, Some(0), "{message:#?}\n{outcome:#?}");
    let opened = run(folder, "check --key-file key v");
    assert!(
        opened.code == Some(0) && opened.stderr.is_empty(),
        "{message:#?}\n{opened:#?}"
    );
    Some(line)
}

#[test]
fn each_field_of_luks1_is_read_as_cryptsetup_reads_it() {
    let (folder, good) = prepared("--type luks1 --pbkdf-force-iterations 1000");
    let mut followed = [0; 2];
    for (field, offset, value, expected) in luks1_cases() {
        let mut damaged = good.clone();
        damaged[offset..][..value.len()].copy_from_slice(&value);
        folder.write("v", &damaged);
        let what = format!("{field} at byte {offset} is {value:x?}, {expected:?}");
        let ours = run(&folder, "key test --key-file key v");
        let theirs = |arguments: &[&str]| {
            let mut command = Command::new("cryptsetup");
            let command = command.args(arguments).current_dir(folder.path());
            command.output().unwrap().status.success()
        };
        let opens = || theirs(&["open", "--test-passphrase", "--key-file", "key", "v"]);
        match expected {
            Alike => assert_eq!(ours.code == Some(0), opens(), "{what}: {ours:#?}"),
            Costly(words) => assert!(ours.stderr.contains(words), "{what}: {ours:#?}"),
        }
        assert!(ours.code <= Some(2), "{what}: {ours:#?}");

        let dump = run(&folder, "dump v");
        let (command, told) = match dump.code {
            // A damaged keyslot does not close the volume.
            Some(0) if dump.stderr.is_empty() => continue,
            Some(0) => {
                let words = "`luxor check v` says what helps";
                assert!(dump.stderr.contains(words), "{what}: {dump:#?}");
                ("check", run(&folder, "check v"))
            }
            _ => ("dump", dump),
        };
        // A refusal for damage always says what helps, except where nothing is known to help.
        let piped = fs::File::open(folder.join("v")).unwrap();
        let piped = luxor(&format!("{command} -")).stdin_from(piped).run();
        piped.assert_code(1);
        assert!(!piped.stderr.contains("luxor header"), "{what}: {piped:#?}");
        let line = follow(&folder, &told).unwrap_or_else(|| panic!("{what}: {told:#?}"));
        followed[usize::from(line.starts_with("header repair"))] += 1;
    }
    assert!(followed.iter().all(|&count| count > 5), "{followed:?}");
}

/// What is advised never takes the last keyslot away, whatever is damaged besides.
#[test]
fn the_only_keyslot_survives_every_advised_repair() {
    let (folder, good) = prepared("--type luks1 --pbkdf-force-iterations 1000");
    for (state, iterations, other, opens) in [
        (Some(1_u32), None, false, true),
        (Some(1), None, true, true),
        (None, Some(0_u32), false, false),
        (None, Some(0), true, false),
        (Some(0), Some(0), true, false),
    ] {
        let mut damaged = good.clone();
        if let Some(state) = state {
            damaged[208..212].copy_from_slice(&state.to_be_bytes());
        }
        if let Some(iterations) = iterations {
            damaged[212..216].copy_from_slice(&iterations.to_be_bytes());
        }
        if other {
            // The stripes of keyslot 1.
            damaged[300..304].fill(0);
        }
        folder.write("v", &damaged);
        let what = format!("{state:?}, {iterations:?}, {other}");
        let check = run(&folder, "check v");
        check.assert_code(1);
        for line in ["header repair v", "header repair --force v"] {
            folder.write("v", &damaged);
            let repaired = run(&folder, line);
            let advised = check.stderr.contains(&format!("`luxor {line}`"));
            assert!(
                !advised || repaired.code == Some(0),
                "{what}: {check:#?} {repaired:#?}"
            );
            let test = run(&folder, "key test --key-file key v");
            assert_eq!(
                test.code == Some(0),
                opens,
                "{what}, {line}: {repaired:#?} {test:#?}"
            );
            // With the right numbers, it opens.
            let mut now = fs::read(folder.join("v")).unwrap();
            now[208..216].copy_from_slice(&good[208..216]);
            now[300..304].copy_from_slice(&good[300..304]);
            assert!(now == good, "{what}, {line}");
        }
        // The user may empty it, and says that it is the last.
        folder.write("v", &damaged);
        if !other && !opens {
            let line = "key remove --key-slot 0 --force v";
            let refused = run(&folder, line);
            assert!(refused.stderr.contains("--last"), "{what}: {refused:#?}");
            let removed = run(&folder, &format!("{line} --last"));
            removed.assert_code(0);
            run(&folder, "check v").assert_code(0);
        }
    }
}

/// A copy that cannot be read may be good.
#[test]
fn no_repair_is_advised_after_a_read_error() {
    for (format, reads) in [
        ("--type luks2 --pbkdf pbkdf2", 1..8),
        ("--type luks1", 1..4),
    ] {
        let (folder, good) = prepared(&format!("{format} --pbkdf-force-iterations 1000"));
        let mut failed = 0;
        for nth in reads {
            let traced = luxor("check v").current_dir(folder.path()).under(&format!(
                "strace -f -qq -o /dev/null -P v -e trace=pread64 -e inject=pread64:error=EIO:when={nth}"
            ));
            let check = traced.run();
            if check.stderr.contains("Input/output error") {
                failed += 1;
                assert!(!check.stderr.contains("luxor header"), "{nth}: {check:#?}");
            }
        }
        assert!(failed > 0);
        assert!(fs::read(folder.join("v")).unwrap() == good);
    }
}

/// Each field of the binary headers of LUKS2, and of the beginning of their JSON.
#[test]
fn advice_for_a_damaged_luks2_header_works() {
    let (folder, good) = prepared(
        "--type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --luks2-keyslots-size 256k",
    );
    let fields = [
        0, 6, 8, 16, 24, 72, 104, 168, 208, 256, 264, 448, 512, 4096, 4200,
    ];
    for at in fields {
        for begins in [&[0][..], &[0x4000], &[0, 0x4000]] {
            for change in [0x01, 0xff] {
                let mut damaged = good.clone();
                for begin in begins {
                    damaged[begin + at] ^= change;
                }
                folder.write("v", &damaged);
                let dump = run(&folder, "dump v");
                let line = follow(&folder, &dump);
                assert!(line.is_some(), "{begins:x?} + {at}: {dump:#?}");
            }
        }
    }
}

/// A file that ends within the header has no room for a backup of it.
#[test]
fn a_header_that_is_cut_off_has_no_advice_that_needs_its_room() {
    for (format, lens) in [
        ("--type luks1", vec![10, 300, 591]),
        (
            "--type luks2 --pbkdf pbkdf2",
            vec![10, 300, 4096, 16_383, 16_384, 20_000, 32_767],
        ),
    ] {
        let (folder, good) = prepared(&format!("{format} --pbkdf-force-iterations 1000"));
        for len in lens {
            folder.write("v", &good[..len]);
            let dump = run(&folder, "dump v");
            assert!(!dump.stderr.contains("header restore"), "{len}: {dump:#?}");
            if dump.stderr.contains("luxor header repair") {
                run(&folder, "header repair v").assert_code(0);
            }
        }
    }
}

#[test]
fn data_far_beyond_the_end_are_not_converted() {
    let (folder, good) = prepared("--type luks1 --pbkdf-force-iterations 1000");
    for offset in [0x7fff_ffff_u32, u32::MAX] {
        let mut damaged = good.clone();
        damaged[104..108].copy_from_slice(&offset.to_be_bytes());
        folder.write("v", &damaged);
        let theirs = "cryptsetup convert --batch-mode --type luks2 v";
        assert_ne!(shell_without_terminal(theirs, folder.path()).code, Some(0));
        let ours = luxor("convert --batch-mode --type luks2 v").current_dir(folder.path());
        ours.fails(1, "beyond the end at byte 4194304");
        assert!(fs::read(folder.join("v")).unwrap() == damaged);
    }
}
