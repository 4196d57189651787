// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each field of the headers gets values that break a rule, one at a time. Luxor opens what cryptsetup
//! opens, or says why not, and what it advises works.

use std::{fs, process::Command};

use serde_json::{Value, json};

use crate::support::{
    Folder, Outcome, bytes, luxor, shell_without_terminal, terminal, with_metadata,
};

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

/// Whether cryptsetup succeeds.
fn theirs(folder: &Folder, line: &str) -> bool {
    let mut command = Command::new("cryptsetup");
    let command = command.args(line.split(' ')).current_dir(folder.path());
    command.output().unwrap().status.success()
}

/// Does what the message advises, if it advises a command. Returns the command.
fn follow(folder: &Folder, message: &Outcome) -> Option<String> {
    let mut spans = message.stderr.split('`').skip(1).step_by(2);
    let command = spans.next()?.strip_prefix("luxor ")?;
    let damaged = fs::read(folder.join("v")).unwrap();
    // The other command for the same damage.
    if let Some(other) = spans.next() {
        let outcome = run(folder, other.strip_prefix("luxor ").unwrap());
        assert_eq!(outcome.code, Some(0), "{message:#?}\n{outcome:#?}");
        assert_eq!(run(folder, "check v").code, Some(0), "{message:#?}");
        folder.write("v", damaged);
    }
    if command.contains("BACKUP") {
        let line = command.replace("BACKUP", "backup");
        let (code, screen) = terminal(&line, &["YES\n"], folder.path());
        assert_eq!(code, 0, "{message:#?}\n{screen}");
    } else {
        let outcome = run(folder, command);
        assert_eq!(outcome.code, Some(0), "{message:#?}\n{outcome:#?}");
    }
    let opened = run(folder, "check --key-file key v");
    assert!(
        opened.code == Some(0) && opened.stderr.is_empty(),
        "{message:#?}\n{opened:#?}"
    );
    Some(command.to_owned())
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
        let opens = || theirs(&folder, "open --test-passphrase --key-file key v");
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

/// `check` and `header repair` agree about every cipher, also where Luxor cannot open the data.
#[test]
fn what_check_calls_damaged_is_repaired_or_refused() {
    for (format, cipher) in [
        ("--key-size 512", None),
        ("--cipher aes-cbc-essiv:sha256 --key-size 192", None),
        ("--key-size 256", Some("camellia")),
    ] {
        let (folder, mut good) = prepared(&format!(
            "--type luks1 --pbkdf-force-iterations 1000 {format}"
        ));
        if let Some(cipher) = cipher {
            good[8..40].fill(0);
            good[8..8 + cipher.len()].copy_from_slice(cipher.as_bytes());
        }
        let (mut repaired, mut is_used) = (0, 0);
        for (field, offset, value, _) in luks1_cases() {
            let mut damaged = good.clone();
            damaged[offset..][..value.len()].copy_from_slice(&value);
            folder.write("v", &damaged);
            let what = format!("{format}: {field} at byte {offset} is {value:x?}");
            let check = run(&folder, "check v");
            let repair = run(&folder, "header repair v");
            let now = fs::read(folder.join("v")).unwrap();
            if check.code == Some(0) {
                assert!(now == damaged, "{what}: {check:#?} {repair:#?}");
                continue;
            }
            if now != damaged {
                repaired += 1;
                repair.assert_code(0);
                run(&folder, "check v").assert_code(0);
                is_used += usize::from(offset == 208 && now == good);
            } else if repair.code == Some(0) {
                // Only the length of the data is wrong.
                let advised = check.stderr.contains("luxor header repair");
                assert!(!advised, "{what}: {check:#?} {repair:#?}");
            }
        }
        assert!(
            repaired > 10 && is_used > 2,
            "{format}: {repaired}, {is_used}"
        );
    }
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

/// Who opens a volume by its other keyslots, if a keyslot or digest has an odd field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Openers {
    Both,
    /// cryptsetup refuses the whole header.
    Luxor,
    /// Luxor refuses the whole header.
    Cryptsetup,
    Neither,
}

fn base64(len: usize) -> Value {
    // Seven is `BwcH` three times over.
    let text = "BwcH".repeat(len / 3) + ["", "Bw==", "Bwc="][len % 3];
    text.into()
}

/// Fields of keyslot 0 and of digest 1, and their values.
fn luks2_cases() -> Vec<(String, Option<Value>, Openers)> {
    use Openers::{Both, Cryptsetup, Luxor, Neither};

    let mut cases = Vec::new();
    let mut keyslot = |field: &str, openers, values: Vec<Value>| {
        let path = format!("/keyslots/0/{field}");
        cases.extend(
            values
                .into_iter()
                .map(|value| (path.clone(), Some(value), openers)),
        );
    };
    let (empty, five) = (json!(""), json!(5));
    keyslot(
        "af/stripes",
        Both,
        vec![json!(0), json!(3999), json!(4001), json!(-1)],
    );
    keyslot("af/stripes", Luxor, vec![json!("4000"), json!(4000.5)]);
    keyslot("af/hash", Both, vec![json!("nohash"), json!("SHA-256")]);
    keyslot("af/hash", Luxor, vec![empty.clone(), five.clone()]);
    keyslot("af/type", Luxor, vec![json!("luks2"), empty.clone()]);
    keyslot(
        "kdf/salt",
        Both,
        [1, 7, 8, 31, 33, 1025].map(base64).to_vec(),
    );
    keyslot("kdf/salt", Both, vec![json!("????")]);
    keyslot("kdf/salt", Luxor, vec![empty.clone(), five.clone()]);
    keyslot("kdf/type", Both, vec![json!("scrypt"), json!("PBKDF2")]);
    keyslot("kdf/type", Luxor, vec![empty.clone(), five.clone()]);
    let argon2 = json!({"type": "argon2id", "salt": base64(32), "time": 0, "memory": 0, "cpus": 0});
    keyslot("kdf", Both, vec![json!({"type": "scrypt"}), argon2]);
    keyslot(
        "kdf",
        Luxor,
        vec![json!({"type": "pbkdf2"}), json!({}), five.clone()],
    );
    keyslot("kdf/iterations", Both, vec![json!(0), json!(1)]);
    keyslot("kdf/iterations", Luxor, vec![json!("1000"), json!(1.5)]);
    keyslot("kdf/hash", Both, vec![json!("nohash")]);
    keyslot("area/type", Luxor, vec![json!("none")]);
    keyslot("area/type", Neither, vec![empty.clone(), five.clone()]);
    keyslot(
        "area/encryption",
        Both,
        vec![json!("serpent-xts-plain64"), json!("aes")],
    );
    keyslot("area/encryption", Luxor, vec![empty.clone(), five.clone()]);
    keyslot(
        "area/encryption",
        Cryptsetup,
        vec![json!("cipher_null-ecb")],
    );
    keyslot(
        "area/key_size",
        Both,
        vec![json!(0), json!(1), json!(63), json!(513)],
    );
    keyslot(
        "area/size",
        Both,
        vec![json!("1"), json!("511"), json!("255999")],
    );
    keyslot(
        "area/size",
        Neither,
        vec![json!("0"), json!("-1"), json!("9999999"), five.clone()],
    );
    keyslot(
        "area/offset",
        Neither,
        vec![json!("0"), json!("32767"), json!("290816")],
    );
    let lens = [0, 1, 32, 63, 48, 65, 128, 8192, 8193].map(Value::from);
    keyslot("key_size", Both, lens.to_vec());
    keyslot(
        "key_size",
        Luxor,
        vec![json!(-1), json!("64"), json!(1_u64 << 32)],
    );
    keyslot("type", Both, vec![json!("new")]);
    keyslot(
        "type",
        Neither,
        vec![empty.clone(), five.clone(), json!("reencrypt")],
    );
    keyslot("unknown", Both, vec![json!({"a": 1})]);
    for field in [
        "af",
        "af/hash",
        "kdf",
        "kdf/salt",
        "area/encryption",
        "key_size",
    ] {
        cases.push((format!("/keyslots/0/{field}"), None, Luxor));
    }
    for field in ["type", "area", "area/offset", "area/size", "area/type"] {
        cases.push((format!("/keyslots/0/{field}"), None, Neither));
    }
    let mut digest = |field: &str, openers, values: Vec<Value>| {
        let path = format!("/digests/1/{field}");
        cases.extend(
            values
                .into_iter()
                .map(|value| (path.clone(), Some(value), openers)),
        );
    };
    let lens = [0, 1, 19, 21, 31, 33, 64, 65];
    digest("digest", Both, lens.map(base64).to_vec());
    digest("salt", Both, lens.map(base64).to_vec());
    digest(
        "hash",
        Both,
        vec![json!("nohash"), empty.clone(), five.clone()],
    );
    digest("iterations", Both, vec![json!(0), json!("1000")]);
    digest("type", Both, vec![json!("new")]);
    digest("type", Neither, vec![empty, five]);
    digest(
        "keyslots",
        Neither,
        vec![json!([]), json!(["2", "5"]), json!(["0", "2"])],
    );
    for field in ["digest", "salt", "hash", "iterations"] {
        cases.push((format!("/digests/1/{field}"), None, Both));
    }
    cases
}

/// Sets the value at `path` in the metadata of a volume, or removes it.
fn with_value(volume: &[u8], path: &str, value: Option<&Value>) -> Vec<u8> {
    with_metadata(volume, |text| {
        let mut metadata: Value = serde_json::from_str(text).unwrap();
        let (parent, name) = path.rsplit_once('/').unwrap();
        let object = metadata
            .pointer_mut(parent)
            .unwrap()
            .as_object_mut()
            .unwrap();
        match value {
            Some(value) => drop(object.insert(name.into(), value.clone())),
            None => drop(object.remove(name)),
        }
        metadata.to_string()
    })
}

/// A folder with the keys `key`, `key1` and `key2`, and a volume `v` with a keyslot for each. The last holds
/// a key that encrypts nothing.
fn with_three_keyslots() -> (Folder, Vec<u8>) {
    let cheap = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";
    let (folder, _) = prepared(&format!("--type luks2 {cheap} --luks2-keyslots-size 1m"));
    for (name, more) in [("key1", ""), ("key2", " --unbound --key-size 512")] {
        folder.write(name, name);
        let line = format!("luksAddKey --batch-mode {cheap}{more} --key-file key v {name}");
        assert!(theirs(&folder, &line));
    }
    let volume = fs::read(folder.join("v")).unwrap();
    (folder, volume)
}

#[test]
fn an_odd_keyslot_or_digest_of_luks2_leaves_the_other_keyslots() {
    let (folder, good) = with_three_keyslots();
    for (path, value, openers) in luks2_cases() {
        let odd = with_value(&good, &path, value.as_ref());
        folder.write("v", &odd);
        let what = format!("{path} is {value:?}");
        let ours = run(&folder, "key test --key-file key1 v");
        let is_opened = (
            ours.code == Some(0),
            theirs(
                &folder,
                "open --test-passphrase --key-slot 1 --key-file key1 v",
            ),
        );
        let found = match is_opened {
            (true, true) => Openers::Both,
            (true, false) => Openers::Luxor,
            (false, true) => Openers::Cryptsetup,
            (false, false) => Openers::Neither,
        };
        assert_eq!(found, openers, "{what}: {ours:#?}");
        if ours.code == Some(0) {
            run(&folder, "dump v").assert_code(0);
            run(&folder, "key list v").assert_code(0);
            let check = run(&folder, "check v");
            assert!(check.code <= Some(1), "{what}: {check:#?}");
        } else {
            ours.assert_code(1);
        }
    }
}

/// cryptsetup reads the name of an area's encryption with `sscanf`.
#[test]
fn names_of_area_encryption_are_read_as_cryptsetup_reads_them() {
    let (folder, good) = with_three_keyslots();
    for name in [
        "aes-xts-plain64 junk",
        "aes-xts-plain64\n",
        "aes-xts-plain64\u{b}x",
        "aes-xts-plain64\u{a0}",
        "aes- xts-plain64",
        "aes-\n\txts-plain64",
        "aes-xts- plain64",
        "aes-xts -plain64",
        "aes -xts-plain64",
        " aes-xts-plain64",
        "AES-xts-PLAIN64 x-y",
    ] {
        let value = Value::from(name);
        folder.write(
            "v",
            with_value(&good, "/keyslots/0/area/encryption", Some(&value)),
        );
        let ours = run(&folder, "key test --key-slot 0 --key-file key v");
        let opens = theirs(
            &folder,
            "open --test-passphrase --key-slot 0 --key-file key v",
        );
        assert_eq!(ours.code == Some(0), opens, "{name:?}: {ours:#?}");
    }
}

/// With such a digest cryptsetup 2.6.1 takes every key for the right one.
#[test]
fn check_tells_that_no_key_can_be_compared_with_an_odd_digest() {
    let (folder, good) = with_three_keyslots();
    for (path, value) in [
        ("/digests/0/digest", base64(33)),
        ("/digests/0/digest", base64(19)),
        ("/digests/0/salt", base64(7)),
    ] {
        folder.write("v", with_value(&good, path, Some(&value)));
        let ours = |line| luxor(line).current_dir(folder.path());
        ours("key test --key-file key v").fails(1, "digest 0: ");
        let check = ours("check v").run();
        check.assert_code(1);
        let words = "v is damaged: digest 0: ";
        assert!(check.stderr.contains(words), "{check:#?}");
        run(&folder, "key list v").assert_code(0);
    }
}
