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
    /// Luxor refuses it with these words. cryptsetup opens it.
    Refused(&'static str),
    /// Luxor refuses it with these words. cryptsetup computes for minutes.
    Costly(&'static str),
}

use Expected::{Alike, Costly, Refused};

/// A field, its offset, and its value.
type Case = (&'static str, usize, Vec<u8>, Expected);

const STATE: Expected = Refused("is marked neither as used nor as empty");
const NO_ITERATIONS: Expected = Refused("has 0 iterations");
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
        let (state, used) = if slot == 0 {
            (Alike, Alike)
        } else {
            (STATE, NO_ITERATIONS)
        };
        let states = [
            (0, state),
            (u32::MAX, state),
            (0xdead, Alike),
            (0x00ac_71f3, used),
        ];
        number("active", begin, &states);
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
            Refused(words) => assert!(ours.stderr.contains(words) && opens(), "{what}: {ours:#?}"),
            Costly(words) => assert!(ours.stderr.contains(words), "{what}: {ours:#?}"),
        }
        assert!(ours.code <= Some(2), "{what}: {ours:#?}");

        let dump = run(&folder, "dump v");
        if dump.code == Some(0) {
            assert_eq!(dump.stderr, "", "{what}");
            continue;
        }
        // A refusal for damage always says what helps, except where nothing is known to help.
        let piped = fs::File::open(folder.join("v")).unwrap();
        let piped = luxor("dump -").stdin_from(piped).run();
        piped.assert_code(1);
        assert!(!piped.stderr.contains("luxor header"), "{what}: {piped:#?}");
        let line = follow(&folder, &dump).unwrap_or_else(|| panic!("{what}: {dump:#?}"));
        followed[usize::from(line.starts_with("header repair"))] += 1;
    }
    assert!(followed.iter().all(|&count| count > 5), "{followed:?}");
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
