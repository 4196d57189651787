// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metadata with random changes, read by `cryptsetup luksDump` and by Luxor. Both must accept them,
//! or both must refuse them, or a table must list the difference with its reason.
//!
//! The changes affect the JSON values of LUKS2, its JSON text (in ways that no JSON library would
//! write) and the fields of LUKS1. Of the two LUKS2 volumes, one is at rest and the other is in the
//! middle of a re-encryption.
//!
//! By default a few hundred changes are tried. `LUXOR_FUZZ_METADATA=100000` sets another number,
//! and `LUXOR_FUZZ_SEED` sets the first seed. To repeat one change, set its reported seed and a
//! count of 1.

mod changes;

use std::{
    env, fs,
    fs::File,
    os::unix::fs::FileExt,
    path::Path,
    process::{Command, Output},
    thread,
};

use luxor_luks::{HashAlgorithm, VolumeHeader};
use serde_json::{Value, json};

use changes::{mutated, mutated_luks1, mutated_text};

use crate::seal;

/// The length of a copy of the header, and the offset of its JSON area.
const SIZE: usize = 16 << 10;
const JSON: usize = 4096;

const SYNTAX: &str = "cryptsetup's parser accepts text that is not valid JSON by RFC 8259; no \
                      program writes it, and two parsers may read it differently";

const C_TEXT: &str = "a C string ends at the first zero character, so two programs may read \
                      different strings; no program writes a zero character";

const C_NUMBER: &str = "the C library accepts leading spaces or a sign before a number; no program \
                        writes them";

const ODD: &str = "Luxor shows the keyslot, but never uses it; the others open the volume";

const LUKS1_LATE: &str = "cryptsetup shows it, and opens it if the kernel or its library supports \
                          it; a LUKS1 header has no checksum, so Luxor treats an unknown value as \
                          damage";

/// Metadata that only cryptsetup accepts: a part of Luxor's error, with each number as a `#`, and
/// the reason.
const STRICTER: &[(&str, &str)] = &[
    (
        "is not the usual form of a number",
        "cryptsetup reads the empty name as 0 and 01 as 1, so two names would mean one object",
    ),
    (
        "refers to # twice",
        "cryptsetup ignores the repetition; removing one reference would leave the other",
    ),
    (
        "is cipher_null, which encrypts nothing",
        "cryptsetup opens it with an empty passphrase; Luxor always refuses cipher_null",
    ),
    ("JSON: expected value", SYNTAX),
    ("JSON: expected ident", SYNTAX),
    ("JSON: expected `", SYNTAX),
    ("JSON: key must be a string", SYNTAX),
    ("JSON: invalid number", SYNTAX),
    ("JSON: trailing comma", SYNTAX),
    ("JSON: control character", SYNTAX),
    ("JSON: lone leading surrogate", SYNTAX),
    ("JSON: unexpected end of hex escape", SYNTAX),
    (
        "only zero bytes may follow",
        "cryptsetup skips white space after the last brace; no program writes any",
    ),
    (
        "occurs twice",
        "cryptsetup uses the last member, other parsers the first: they would see different \
         volumes",
    ),
    ("has a zero character", C_TEXT),
    ("decimal digits, below #^#, and is \"#\\#", C_TEXT),
    ("decimal digits, below #^#, and is \"dynamic\\#", C_TEXT),
    ("decimal digits, below #^#, and is \"+#", C_NUMBER),
    ("decimal digits, below #^#, and is \" #", C_NUMBER),
    ("an object's number as a text, and is \"#\\#", C_TEXT),
    (
        "keyslot # belongs to # digests",
        "cryptsetup counts only digests of keyslots of type luks2; Luxor does not trust the state \
         of a re-encryption without its digest",
    ),
    (
        "before the keyslots area's end",
        "cryptsetup checks the segments in use, but not those that will exist at the end of the \
         re-encryption",
    ),
    (
        "belongs to # digests, and must belong to exactly one",
        "cryptsetup uses the first digest; the key of the data would depend on their order",
    ),
    (
        "area.shift_size is missing",
        "cryptsetup reads it only when it resumes the re-encryption, and then fails",
    ),
    ("it is encrypted with", LUKS1_LATE),
    ("its volume key has", LUKS1_LATE),
    ("its hash is", LUKS1_LATE),
    ("mk-digest-iter is #, and must be", LUKS1_LATE),
    (
        "its cipher is null",
        "cryptsetup opens it with any passphrase; Luxor always refuses a null cipher",
    ),
];

/// Metadata that only Luxor accepts: a part of the output of `cryptsetup --debug`, what Luxor
/// reports as unknown, and the reason.
const LOOSER: &[(&str, &str, &str)] = &[
    ("Keyslot type luks# validation failed", "", ODD),
    ("is missing \"key_size\"", "key_size", ODD),
    ("Illegal field \"key_size\"", "key_size must be", ODD),
    ("is missing \"key_size\"", "it is of type", UNKNOWN),
    (
        "Missing reencryption requirement flag",
        "requires",
        "an unknown requirement may concern the keyslot: Luxor shows the volume, but neither \
         opens nor changes it",
    ),
    (
        "Segment does not match neither",
        "",
        "Luxor shows the volume; when opening it, Luxor checks the segments of a re-encryption \
         more strictly than this",
    ),
    (
        "Segment in reencryption does not match",
        "",
        "Luxor shows such a segment, but never opens it",
    ),
    (
        "Illegal sector size",
        "",
        "Luxor shows a segment with an unknown cipher, but never opens it, whatever its other \
         fields say",
    ),
    (
        "device size # sectors, header size # sectors. # Releasing",
        "",
        BEHIND_THE_END,
    ),
    ("# Invalid offset # in keyslot #", "", BEHIND_THE_END),
    (
        "Reading LUKS header",
        "unknown hash",
        "another cryptsetup may know the hash: Luxor shows the header, but never opens it",
    ),
    (
        "Segment integrity",
        "",
        "Luxor shows a segment with integrity tags, but never opens it, whatever the tags are",
    ),
];

const BEHIND_THE_END: &str = "keyslot areas of LUKS1 extend beyond the end of the file, for example \
                              because it was truncated: Luxor shows the header, and keyslots that \
                              are missing cannot be opened";

const UNKNOWN: &str = "a newer cryptsetup may know the type: Luxor shows the keyslot, but never \
                       opens it and does not read its other fields";

/// A volume that cryptsetup created.
struct Base {
    /// The bytes up to the end of its headers.
    bytes: Vec<u8>,
    /// The length of the volume.
    len: u64,
}

const CHEAP: &str = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";

impl Base {
    fn new(len: u64, lines: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("key"), "key").unwrap();
        fs::write(path("token"), r#"{"type":"test","keyslots":["1"],"x":"y"}"#).unwrap();
        File::create(path("volume")).unwrap().set_len(len).unwrap();
        for line in lines {
            let output = Command::new("cryptsetup")
                .args(line.split_whitespace())
                .arg("--batch-mode")
                .current_dir(folder.path())
                .output()
                .expect("cryptsetup must be installed");
            assert!(output.status.success(), "cryptsetup {line}: {output:?}");
        }
        let mut bytes = fs::read(path("volume")).unwrap();
        bytes.truncate(2 * SIZE);
        Self { bytes, len }
    }

    /// Returns a LUKS2 volume with two keyslots and a token.
    fn luks2() -> Self {
        let argon2 =
            "--pbkdf argon2id --pbkdf-memory 32 --pbkdf-parallel 1 --pbkdf-force-iterations 4";
        Self::new(
            20 << 20,
            &[
                &format!("luksFormat --type luks2 --label name --key-file key {CHEAP} volume"),
                &format!("luksAddKey --key-file key {argon2} volume key"),
                "token import --json-file token volume",
            ],
        )
    }

    /// Returns a LUKS2 volume at the beginning of a re-encryption.
    fn reencryption() -> Self {
        Self::new(
            64 << 20,
            &[
                &format!("luksFormat --type luks2 --key-file key {CHEAP} volume"),
                &format!("reencrypt --init-only --key-file key {CHEAP} volume"),
            ],
        )
    }

    fn luks1() -> Self {
        let format = "luksFormat --type luks1 --key-file key --pbkdf-force-iterations 1000 volume";
        Self::new(8 << 20, &[format])
    }

    /// The JSON text.
    fn text(&self) -> &[u8] {
        let mut pieces = self.bytes[JSON..SIZE].split(|&byte| byte == 0);
        pieces.next().unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(self.text()).unwrap()
    }

    /// Returns both copies with this text and correct checksums; `None` if it is too long.
    fn with_text(&self, text: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = self.bytes.clone();
        for copy in bytes.chunks_mut(SIZE) {
            copy[JSON..].fill(0);
            copy.get_mut(JSON..JSON + text.len())
                .filter(|area| area.len() < SIZE - JSON)?
                .copy_from_slice(text);
            seal(copy);
        }
        Some(bytes)
    }
}

/// The volumes that are changed.
struct Bases {
    luks2: Base,
    reencryption: Base,
    luks1: Base,
}

impl Bases {
    fn new() -> Self {
        Self {
            luks2: Base::luks2(),
            reencryption: Base::reencryption(),
            luks1: Base::luks1(),
        }
    }

    /// Returns a changed header, the length of its volume, and its contents as text; `None` if the
    /// text is too long.
    fn changed(&self, seed: u64) -> Option<(Vec<u8>, u64, String)> {
        let base = match seed % 4 {
            0 | 2 => &self.luks2,
            _ => &self.reencryption,
        };
        let text = match seed % 5 {
            0 | 1 => mutated(&base.json(), seed).to_string().into_bytes(),
            2 | 3 => mutated_text(base.text(), seed),
            _ => {
                let (bytes, what) = mutated_luks1(&self.luks1.bytes, seed);
                return Some((bytes, self.luks1.len, what));
            }
        };
        let bytes = base.with_text(&text)?;
        Some((bytes, base.len, String::from_utf8_lossy(&text).into_owned()))
    }
}

/// The verdict of one program about metadata.
enum Verdict {
    /// The unsupported parts that are shown, if known.
    Accepted(String),
    /// The reason, if known, with each number as a `#`.
    Refused(String),
}

/// Returns the verdicts of Luxor and of cryptsetup about a volume that begins with `bytes`.
fn verdicts(bytes: &[u8], len: u64, file: &Path) -> (Verdict, Verdict) {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(true);
    let storage = options.open(file).unwrap();
    storage.set_len(len).unwrap();
    storage.write_all_at(bytes, 0).unwrap();
    let ours = match VolumeHeader::read(&storage) {
        Ok(VolumeHeader::Luks2(header)) => {
            let description = header.describe();
            let unknown = description.foreign_keyslots.values();
            let mut unknown: String = unknown.map(|foreign| foreign.what.as_str()).collect();
            for name in description.config.unknown_requirements() {
                unknown += &format!(" requires {name}");
            }
            Verdict::Accepted(unknown)
        }
        Ok(VolumeHeader::Luks1(header)) => {
            let hash = HashAlgorithm::by_name(header.describe().hash);
            let unknown = if hash.is_none() { "unknown hash" } else { "" };
            Verdict::Accepted(unknown.to_owned())
        }
        Err(error) => {
            let words = error.to_string();
            let primary = words.split("; the secondary").next().unwrap();
            Verdict::Refused(without_numbers(primary))
        }
    };
    let dump = |options: &[&str]| -> Output {
        let mut command = Command::new("cryptsetup");
        command.arg("luksDump").args(options).arg(file);
        command.output().expect("cryptsetup must be installed")
    };
    let theirs = if dump(&[]).status.success() {
        Verdict::Accepted(String::new())
    } else if matches!(ours, Verdict::Refused(_)) {
        Verdict::Refused(String::new())
    } else {
        let output = dump(&["--debug"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines = text
            .lines()
            .skip_while(|line| !line.contains("(in-memory)"));
        let lines: Vec<_> = lines
            .skip(1)
            .take_while(|line| !line.contains("epairing"))
            .collect();
        // LUKS1 has no copies: all lines are about the only header.
        let words = match lines.as_slice() {
            [] => text.replace('\n', " "),
            lines => lines.join(" "),
        };
        Verdict::Refused(without_numbers(&words))
    };
    (ours, theirs)
}

fn without_numbers(words: &str) -> String {
    let mut short = String::new();
    for c in words.chars() {
        if !c.is_ascii_digit() {
            short.push(c);
        } else if !short.ends_with('#') {
            short.push('#');
        }
    }
    short
}

/// Returns a description of the disagreement, unless a table contains it.
fn disagreement(ours: &Verdict, theirs: &Verdict) -> Option<String> {
    match (ours, theirs) {
        (Verdict::Refused(words), Verdict::Accepted(_)) => {
            let known = STRICTER.iter().any(|(part, _)| words.contains(part));
            (!known).then(|| format!("only cryptsetup accepts it: {words}"))
        }
        (Verdict::Accepted(unknown), Verdict::Refused(words)) => {
            let mut table = LOOSER.iter();
            let known =
                table.any(|(theirs, ours, _)| words.contains(theirs) && unknown.contains(ours));
            (!known).then(|| format!("only Luxor accepts it ({unknown}): {words}"))
        }
        _ => None,
    }
}

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().expect(name))
}

#[test]
fn cryptsetup_accepts_the_same_metadata() {
    let count = number("LUXOR_FUZZ_METADATA", 400);
    let first = number("LUXOR_FUZZ_SEED", 0);
    println!("seeds {first} to {}", first + count - 1);
    let bases = Bases::new();
    let folder = tempfile::tempdir().unwrap();
    let threads = 2;
    let run = &|thread: u64| {
        let file = folder.path().join(format!("volume{thread}"));
        let mut both = [0; 2];
        let mut found = Vec::new();
        for seed in (first..first + count).filter(|seed| seed % threads == thread) {
            let Some((bytes, len, what)) = bases.changed(seed) else {
                continue;
            };
            let (ours, theirs) = verdicts(&bytes, len, &file);
            match (&ours, &theirs) {
                (Verdict::Accepted(_), Verdict::Accepted(_)) => both[0] += 1,
                (Verdict::Refused(_), Verdict::Refused(_)) => both[1] += 1,
                _ => {}
            }
            if let Some(words) = disagreement(&ours, &theirs) {
                found.push(format!("seed {seed}: {words}\n  {what}"));
            }
        }
        (both, found)
    };
    let (both, found) = thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || run(thread)))
            .collect();
        let mut both = [0; 2];
        let mut found = Vec::new();
        for handle in handles {
            let (of_thread, more) = handle.join().unwrap();
            both[0] += of_thread[0];
            both[1] += of_thread[1];
            found.extend(more);
        }
        (both, found)
    });
    println!("{} accepted and {} refused by both", both[0], both[1]);
    assert!(
        found.is_empty(),
        "{} disagreements:\n{}",
        found.len(),
        found.join("\n")
    );
    // The changes must be neither all fatal nor all harmless.
    assert!(count < 100 || (both[0] > 10 && both[1] > 10), "{both:?}");
}

/// If a part of the state of a re-encryption is missing or wrong, both programs refuse the metadata.
#[test]
fn cryptsetup_refuses_the_same_parts_of_a_reencryption() {
    let base = Base::reencryption();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("volume");
    let original = base.json();
    let mut keyslots = original["keyslots"].as_object().unwrap().iter();
    let (keyslot, _) = keyslots
        .find(|(_, keyslot)| keyslot["type"] == "reencrypt")
        .unwrap();
    let area = |member: &str| format!("/keyslots/{keyslot}/area/{member}");
    let required = "/config/requirements/mandatory";
    let moved = json!(["backup-moved-segment"]);
    for (path, value, accepted) in [
        (
            required.into(),
            original.pointer(required).unwrap().clone(),
            true,
        ),
        (required.into(), json!(["online-reencrypt-v3"]), true),
        (
            required.into(),
            json!(["online-reencrypt-v2", "online-reencrypt-v2"]),
            false,
        ),
        (
            required.into(),
            json!(["online-reencrypt-v2", "online-reencrypt-v3"]),
            false,
        ),
        (
            required.into(),
            json!(["online-reencrypt", "online-reencrypt-v2"]),
            false,
        ),
        (required.into(), json!([]), false),
        (format!("/keyslots/{keyslot}/type"), json!("other"), false),
        (area("hash"), json!(""), false),
        (area("size"), json!("0"), false),
        ("/segments/1/flags".into(), moved.clone(), false),
        ("/segments/2/flags".into(), moved, false),
        ("/segments/2/flags".into(), json!(["backup-other"]), false),
    ] {
        let mut json = original.clone();
        *json.pointer_mut(&path).unwrap() = value.clone();
        let bytes = base.with_text(json.to_string().as_bytes()).unwrap();
        let (ours, theirs) = verdicts(&bytes, base.len, &file);
        let is_accepted = |verdict| matches!(verdict, Verdict::Accepted(_));
        let seen = [ours, theirs].map(is_accepted);
        assert_eq!(seen, [accepted; 2], "{path} is {value}");
    }
}
