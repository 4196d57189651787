// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metadata with random changes, read by `cryptsetup luksDump` and here: both accept them,
//! both refuse them, or the difference is in a table with its reason.
//!
//! An ordinary run takes a few hundred. `LUXOR_FUZZ_METADATA=100000` takes more, and
//! `LUXOR_FUZZ_SEED` begins with another seed; one that is reported is the seed of a single
//! change, to be given with a count of 1.

use std::{env, fs, fs::File, os::unix::fs::FileExt, path::Path, process::Command, thread};

use luxor_luks::Luks2Header;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The length of a copy of the header, and where its JSON begins.
const SIZE: usize = 16 << 10;
const JSON: usize = 4096;

/// What cryptsetup reads only when it opens a keyslot, and fails on then.
const LATE: &str = "cryptsetup looks at it when a keyslot is opened, which fails then; here \
                    everything is checked before anything is used";

/// What only cryptsetup accepts: a part of the error here, with each number as a `#`, and
/// why it is one.
const STRICTER: &[(&str, &str)] = &[
    ("digest #: hash", LATE),
    ("digest #: iterations", LATE),
    ("digest #: salt", LATE),
    ("digest #: digest", LATE),
    ("keyslot #: key_size must be", LATE),
    ("keyslot #: area.key_size must be", LATE),
    ("keyslot #: af.stripes must be", LATE),
    ("keyslot #: kdf.iterations must be", LATE),
    ("keyslot #: kdf.time must be", LATE),
    ("keyslot #: kdf.memory must be", LATE),
    ("keyslot #: kdf.cpus must be", LATE),
    ("keyslot #: kdf.salt", LATE),
    ("and the split key needs #", LATE),
    (
        "keyslot #: priority must be",
        "cryptsetup takes any other value for one of the three",
    ),
    (
        "the key \"\" is no object number",
        "cryptsetup takes the empty name for 0, so that two names are one object",
    ),
    (
        "refers to # for the second time",
        "cryptsetup ignores it; who removes one reference would leave the other",
    ),
    (
        "the key \"#\" is no object number",
        "cryptsetup takes 01 for 1, so that two names are one object",
    ),
    (
        "is cipher_null, which encrypts nothing",
        "cryptsetup opens it with an empty passphrase; here it is refused on principle",
    ),
    (
        "segment #: sector_size is #; it must be",
        "the kernel refuses a sector size that is no power of two when it is opened",
    ),
];

/// What only Luxor accepts: a part of what `cryptsetup --debug` says, what Luxor shows as
/// unknown, and why it may.
const LOOSER: &[(&str, &str, &str)] = &[
    (
        "Keyslot type luks# validation failed",
        "area.type: it is",
        UNKNOWN,
    ),
    (
        "Keyslot type luks# validation failed",
        "af.type: it is",
        UNKNOWN,
    ),
    (
        "Keyslot type luks# validation failed",
        "kdf.type: it is",
        UNKNOWN,
    ),
    ("is missing \"key_size\"", "it is of type", UNKNOWN),
    (
        "Segment integrity",
        "",
        "a segment with integrity tags is shown, and never opened, whatever these are",
    ),
];

const UNKNOWN: &str = "a newer cryptsetup may know the type: the keyslot is shown, and never \
                       opened, and its other fields are not looked at";

/// A generator of random numbers, `SplitMix64`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).unwrap()
    }

    fn of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}

/// A volume by cryptsetup, up to the end of its headers: two keyslots and a token.
fn volume() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("key"), "key").unwrap();
    fs::write(path("token"), r#"{"type":"test","keyslots":["1"],"x":"y"}"#).unwrap();
    File::create(path("volume"))
        .unwrap()
        .set_len(20 << 20)
        .unwrap();
    let cheap = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";
    let argon2 = "--pbkdf argon2id --pbkdf-memory 32 --pbkdf-parallel 1 --pbkdf-force-iterations 4";
    for line in [
        format!("luksFormat -q --type luks2 --label name --key-file key {cheap} volume"),
        format!("luksAddKey -q --key-file key {argon2} volume key"),
        "token import --json-file token volume".into(),
    ] {
        let output = Command::new("cryptsetup")
            .args(line.split_whitespace())
            .current_dir(folder.path())
            .output()
            .expect("cryptsetup must be installed");
        assert!(output.status.success(), "cryptsetup {line}: {output:?}");
    }
    let mut bytes = fs::read(path("volume")).unwrap();
    bytes.truncate(2 * SIZE);
    bytes
}

fn json_of(volume: &[u8]) -> Value {
    let text = volume[JSON..SIZE].split(|&byte| byte == 0).next().unwrap();
    serde_json::from_slice(text).unwrap()
}

/// The paths of all values, as `/keyslots/0/area`.
fn paths(value: &Value, path: &str, found: &mut Vec<String>) {
    let mut visit = |name: &str, value: &Value| {
        let path = format!("{path}/{name}");
        paths(value, &path, found);
        found.push(path);
    };
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| visit(name, value)),
        Value::Array(values) => {
            for (i, value) in values.iter().enumerate() {
                visit(&i.to_string(), value);
            }
        }
        _ => {}
    }
}

/// Values that are right somewhere, at an edge, or nowhere.
fn value(random: &mut Random) -> Value {
    let texts = [
        "",
        "0",
        "1",
        "2",
        "31",
        "32",
        "512",
        "4096",
        "4097",
        "16384",
        "32768",
        "290816",
        "16777216",
        "16744448",
        "18446744073709551104",
        "18446744073709547520",
        "18446744073709551615",
        "18446744073709551616",
        "-1",
        "00",
        "+1",
        " 1",
        "0x10",
        "1e3",
        "dynamic",
        "crypt",
        "linear",
        "luks2",
        "reencrypt",
        "raw",
        "luks1",
        "pbkdf2",
        "argon2id",
        "argon2i",
        "sha256",
        "sha1",
        "nohash",
        "aes-xts-plain64",
        "aes",
        "aes-cbc-essiv:sha256",
        "capi:xts(aes)-plain64",
        "cipher_null-ecb",
        "null",
        "AAAAAAAAAAA=",
        "AAAA",
        "!!",
        "in-reencryption",
        "backup-final",
        "backup-previous",
        "allow-discards",
        "new-flag",
        "online-reencrypt-v2",
        "none",
        "journal",
        "checksum",
        "x",
    ];
    match random.below(8) {
        0 => Value::Null,
        1 => json!(random.below(2) == 0),
        2 => json!(*random.of(&[
            -1_i64,
            0,
            1,
            2,
            3,
            4,
            8,
            16,
            31,
            32,
            64,
            512,
            513,
            520,
            1024,
            2048,
            4000,
            4096,
            8192,
            1_000_000,
            2_147_483_647,
            2_147_483_648,
            4_294_967_295,
            4_294_967_296,
            i64::MAX,
        ])),
        3 => json!(*random.of(&[0.5, 1.0, 1e300, -1.5])),
        4 => random
            .of(&[
                json!([]),
                json!(["0"]),
                json!(["1", "0"]),
                json!(["0", "0"]),
                json!(["7"]),
                json!([0]),
            ])
            .clone(),
        5 => random
            .of(&[
                json!({}),
                json!({"0": {}}),
                json!({"x": "y"}),
                json!({"mandatory": []}),
                json!({"mandatory": ["x"]}),
            ])
            .clone(),
        _ => json!(*random.of(&texts)),
    }
}

/// One to three changes, which know what JSON is and what stands where.
fn mutated(original: &Value, seed: u64) -> Value {
    let mut random = Random(seed);
    let mut json = original.clone();
    for _ in 0..=random.below(3) {
        let mut all = Vec::new();
        paths(&json, "", &mut all);
        if all.is_empty() {
            break;
        }
        let path = random.of(&all).clone();
        let (parent, name) = path.rsplit_once('/').unwrap();
        match random.below(10) {
            0 => {
                if let Some(members) = json.pointer_mut(parent).unwrap().as_object_mut() {
                    members.shift_remove(name);
                }
            }
            // Another name for it, or a second one.
            1 | 2 => {
                let copy = json.pointer(&path).unwrap().clone();
                let other = *random.of(&[
                    "0",
                    "1",
                    "2",
                    "3",
                    "31",
                    "32",
                    "33",
                    "-1",
                    "01",
                    "x",
                    "",
                    "flags",
                    "integrity",
                    "requirements",
                    "priority",
                ]);
                if let Some(members) = json.pointer_mut(parent).unwrap().as_object_mut() {
                    members.insert(other.into(), copy);
                    if random.below(2) == 0 {
                        members.shift_remove(name);
                    }
                }
            }
            // What stands elsewhere.
            3 => {
                let from = random.of(&all).clone();
                let copy = json.pointer(&from).unwrap().clone();
                if copy.to_string().len() < 2000 {
                    *json.pointer_mut(&path).unwrap() = copy;
                }
            }
            // A member that it may have.
            4 => {
                let names = [
                    "flags",
                    "integrity",
                    "priority",
                    "requirements",
                    "mode",
                    "direction",
                    "x",
                ];
                let new = value(&mut random);
                let name = *random.of(&names);
                if let Some(members) = json.pointer_mut(&path).unwrap().as_object_mut() {
                    members.insert(name.into(), new);
                }
            }
            // Near to what it is.
            5 | 6 => {
                let target = json.pointer_mut(&path).unwrap();
                let by = *random.of(&[-4096_i64, -512, -1, 1, 512, 4096, 1 << 20, 1 << 40]);
                if let Some(number) = target.as_i64() {
                    *target = json!(number.wrapping_add(by));
                } else if let Some(number) =
                    target.as_str().and_then(|text| text.parse::<u64>().ok())
                {
                    *target = json!(number.wrapping_add_signed(by).to_string());
                }
            }
            _ => *json.pointer_mut(&path).unwrap() = value(&mut random),
        }
    }
    json
}

/// Both copies with this JSON and true checksums.
fn with_json(volume: &[u8], json: &Value) -> Option<Vec<u8>> {
    let text = json.to_string();
    let mut bytes = volume.to_vec();
    for copy in bytes.chunks_mut(SIZE) {
        copy[JSON..].fill(0);
        copy.get_mut(JSON..JSON + text.len())
            .filter(|area| area.len() < SIZE - JSON)?
            .copy_from_slice(text.as_bytes());
        copy[448..512].fill(0);
        let sum = Sha256::digest(&*copy);
        copy[448..480].copy_from_slice(&sum);
    }
    Some(bytes)
}

/// What one program says of metadata.
enum Verdict {
    /// With what is shown as unknown, where that is known.
    Accepted(String),
    /// With the reason, where that is known. Each number is a `#`.
    Refused(String),
}

/// What Luxor says and what cryptsetup says.
fn verdicts(original: &[u8], file: &Path, seed: u64) -> Option<(Verdict, Verdict)> {
    let bytes = with_json(original, &mutated(&json_of(original), seed))?;
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(true);
    let storage = options.open(file).unwrap();
    storage.set_len(20 << 20).unwrap();
    storage.write_all_at(&bytes, 0).unwrap();
    let ours = match Luks2Header::read(&storage) {
        Ok(header) => {
            let unknown = header.describe().foreign_keyslots.values();
            Verdict::Accepted(unknown.map(|foreign| foreign.what.as_str()).collect())
        }
        Err(error) => {
            let words = error.to_string();
            let primary = words.split("; the secondary").next().unwrap();
            Verdict::Refused(without_numbers(primary))
        }
    };
    let dump = |options: &[&str]| {
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
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines = lines
            .lines()
            .skip_while(|line| !line.contains("(in-memory)"));
        let lines: Vec<_> = lines
            .skip(1)
            .take_while(|line| !line.contains("epairing"))
            .collect();
        Verdict::Refused(without_numbers(&lines.join(" ")))
    };
    Some((ours, theirs))
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

/// The disagreement, unless a table has it.
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
    let original = volume();
    let folder = tempfile::tempdir().unwrap();
    let threads = 2;
    let run = &|thread: u64| {
        let file = folder.path().join(format!("volume{thread}"));
        let mut both = [0; 2];
        let mut found = Vec::new();
        for seed in (first..first + count).filter(|seed| seed % threads == thread) {
            let Some((ours, theirs)) = verdicts(&original, &file, seed) else {
                continue;
            };
            match (&ours, &theirs) {
                (Verdict::Accepted(_), Verdict::Accepted(_)) => both[0] += 1,
                (Verdict::Refused(_), Verdict::Refused(_)) => both[1] += 1,
                _ => {}
            }
            if let Some(words) = disagreement(&ours, &theirs) {
                let json = mutated(&json_of(&original), seed);
                found.push(format!("seed {seed}: {words}\n  {json}"));
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
    // The changes are neither all fatal nor all harmless.
    assert!(count < 100 || (both[0] > 10 && both[1] > 10), "{both:?}");
}
