// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repair of damaged LUKS1 headers: compared with `cryptsetup repair`, when the power is cut, and
//! when writing fails.

mod keyslots;

use std::{
    fs::{self, File},
    iter,
    ops::Range,
    process::Command,
};

use luxor_engine::{Mode, Registry};
use luxor_luks::{
    ByForce, ChangeError, Luks1Error, Luks1Header, Luks1Repair, Luks1RepairError, Luks1Restored,
    Overwrite, UnlockOptions,
};
use luxor_sector::{
    MemoryStorage, Storage,
    faulty::{Cut, Faults, FaultyStorage, PowerCuts},
};

use crate::is_long;

/// What permission to overwrite anything would do about keyslots that cannot be restored.
fn by_force(error: &Luks1RepairError) -> Option<ByForce> {
    match error {
        Luks1RepairError::Unknown { by_force, .. } => Some(*by_force),
        _ => None,
    }
}

const LEN: usize = 592;
/// The keyslots in use. The secret of each is its number as text.
const USED: [usize; 3] = [0, 3, 7];
const KEY_BYTES: usize = 108;
const HASH_SPEC: usize = 72;
const UUID: usize = 168;
/// Offsets in a keyslot's record.
const ITERATIONS: usize = 4;
const SALT: usize = 8;
const OFFSET: usize = 40;
const STRIPES: usize = 44;

fn keyslot(number: usize) -> usize {
    208 + 48 * number
}

struct Scratch {
    folder: tempfile::TempDir,
    /// The header and the areas as `cryptsetup` created them.
    good: Vec<u8>,
}

impl Scratch {
    fn new(options: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for number in USED {
            let name = number.to_string();
            fs::write(folder.path().join(&name), &name).unwrap();
        }
        let volume = File::create(folder.path().join("volume")).unwrap();
        volume.set_len(3 << 20).unwrap();
        let mut scratch = Self {
            folder,
            good: Vec::new(),
        };
        let cheap = "--pbkdf-force-iterations 1000";
        scratch.succeeds(&format!(
            "luksFormat --type luks1 {cheap} {options} --key-file 0 volume"
        ));
        for number in &USED[1..] {
            scratch.succeeds(&format!(
                "luksAddKey {cheap} --key-file 0 --key-slot {number} volume {number}"
            ));
        }
        scratch.good = fs::read(scratch.folder.path().join("volume")).unwrap();
        scratch
    }

    fn cryptsetup(&self, line: &str) -> bool {
        let output = Command::new("cryptsetup")
            .arg("-q")
            .args(line.split_whitespace())
            .current_dir(self.folder.path())
            .output()
            .expect("cryptsetup must be installed");
        output.status.success()
    }

    fn succeeds(&self, line: &str) {
        assert!(self.cryptsetup(line), "cryptsetup {line}");
    }

    /// Returns the good volume with this damage.
    fn damaged(&self, damage: &[(usize, &[u8])]) -> Vec<u8> {
        let mut bytes = self.good.clone();
        for (at, value) in damage {
            bytes[*at..][..value.len()].copy_from_slice(value);
        }
        bytes
    }

    /// Returns the result of `cryptsetup repair`, if it succeeds.
    fn repaired_by_cryptsetup(&self, damaged: &[u8]) -> Option<Vec<u8>> {
        fs::write(self.folder.path().join("theirs"), damaged).unwrap();
        let succeeds = self.cryptsetup("repair theirs");
        let bytes = fs::read(self.folder.path().join("theirs")).unwrap();
        if !succeeds {
            assert!(bytes == damaged, "cryptsetup wrote although it failed");
        }
        succeeds.then_some(bytes)
    }

    /// Checks with both programs that each of these keyslots opens.
    fn check_keys(&self, image: &[u8], numbers: &[usize]) {
        fs::write(self.folder.path().join("ours"), image).unwrap();
        let storage = MemoryStorage::new(image.to_vec());
        let header = Luks1Header::read(&storage).unwrap();
        let backend = Registry::cpu().best(Mode::Xts).unwrap();
        for number in numbers {
            let secret = number.to_string();
            let options = UnlockOptions::default();
            let unlocked = header.unlock(&storage, secret.as_bytes(), &*backend, &options);
            assert_eq!(unlocked.unwrap().keyslot as usize, *number);
            self.succeeds(&format!(
                "open --test-passphrase --key-slot {number} --key-file {number} ours"
            ));
        }
    }
}

fn repair(
    image: &[u8],
    overwrite: Overwrite,
) -> Result<(Vec<u8>, Vec<Luks1Restored>), Luks1RepairError> {
    let storage = MemoryStorage::new(image.to_vec());
    let plan = Luks1Repair::plan(&storage, overwrite)?;
    let restored = plan.restored().to_vec();
    let digest = plan.header().digest();
    let header = plan.write(&storage)?;
    assert_eq!(header.digest(), digest);
    assert_eq!(Luks1Header::read(&storage).unwrap().digest(), digest);
    Ok((storage.into_bytes(), restored))
}

/// The outcome for a damaged header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Everything is restored.
    Whole,
    /// Everything is restored, but only with force.
    WholeByForce,
    /// With force the header is restored, but a key is lost.
    LostByForce,
    /// Nothing is changed.
    Refused,
    /// The damage is not noticed.
    Unnoticed,
}
use Outcome::{LostByForce, Refused, Unnoticed, Whole, WholeByForce};

const ONES: &[u8] = &[0xff; 4];
const ZEROS: &[u8] = &[0; 48];
const GARBAGE: &[u8] = &[0xa5; 48];

/// Damaged bytes and their offsets.
type Damage<'a> = &'a [(usize, &'a [u8])];

/// The name, the damage, and the outcomes with Luxor and with `cryptsetup`.
type Case<'a> = (&'a str, Damage<'a>, Outcome, Outcome);

/// Each kind of damage, with the outcomes. The programs differ where `cryptsetup` does not touch
/// the keyslots in use, or loses the key of a used keyslot with both state and offset damaged.
/// `cryptsetup` restores no fields outside of the keyslots.
#[test]
fn repair_agrees_with_cryptsetup_or_restores_the_original() {
    let scratch = Scratch::new("--key-size 256 --cipher aes-xts-plain64 --hash sha256");
    // A partition table with one partition from sector 2048 on, and the disk signature before it.
    let mut table = [0; 72];
    table[..4].copy_from_slice(&0x1234_5678_u32.to_le_bytes());
    table[6..22]
        .copy_from_slice(b"\x00\x20\x21\x00\x83\xfe\xff\xff\x00\x08\x00\x00\x00\x10\x00\x00");
    table[70..].copy_from_slice(&[0x55, 0xaa]);
    let uuid_goes_on = [b'x'; 4];
    let cases: &[Case<'_>] = &[
        (
            "offset, empty",
            &[(keyslot(1) + OFFSET, ONES)],
            Whole,
            Whole,
        ),
        (
            "stripes, empty",
            &[(keyslot(1) + STRIPES, ONES)],
            Whole,
            Whole,
        ),
        (
            "offset 0, empty",
            &[(keyslot(2) + OFFSET, &ZEROS[..4])],
            Whole,
            Whole,
        ),
        (
            "two empty ones",
            &[(keyslot(1) + OFFSET, ONES), (keyslot(6) + STRIPES, ONES)],
            Whole,
            Whole,
        ),
        (
            "all of an empty one zero",
            &[(keyslot(5), ZEROS)],
            WholeByForce,
            Whole,
        ),
        (
            "all of a used one zero",
            &[(keyslot(3), ZEROS)],
            LostByForce,
            LostByForce,
        ),
        (
            "all but its place, empty",
            &[(keyslot(5), &GARBAGE[..OFFSET])],
            LostByForce,
            Unnoticed,
        ),
        (
            "all but its place, empty, no pattern",
            &[(
                keyslot(5),
                &b"Neither a state word nor iterations nor salt"[..OFFSET],
            )],
            LostByForce,
            Unnoticed,
        ),
        (
            "half a salt, place and stripes",
            &[(keyslot(3) + 16, &ZEROS[..32])],
            LostByForce,
            Refused,
        ),
        (
            "all of an empty one",
            &[(keyslot(5), GARBAGE)],
            LostByForce,
            Whole,
        ),
        ("a partition table", &[(440, &table)], LostByForce, Whole),
        // Its area is random, as that of a used one is.
        (
            "state, empty",
            &[(keyslot(1), ONES)],
            WholeByForce,
            Unnoticed,
        ),
        (
            "offset, used",
            &[(keyslot(3) + OFFSET, ONES)],
            Whole,
            Refused,
        ),
        (
            "stripes, used",
            &[(keyslot(3) + STRIPES, ONES)],
            Whole,
            Refused,
        ),
        (
            "offset, used, second sector",
            &[(keyslot(7) + OFFSET, ONES)],
            Whole,
            Refused,
        ),
        (
            "the place of another",
            &[(keyslot(3) + OFFSET, &[0, 0, 1, 8])],
            Whole,
            Refused,
        ),
        ("state, used", &[(keyslot(3), &ONES[..1])], Whole, Unnoticed),
        (
            "state, used, second sector",
            &[(keyslot(7) + 2, &ZEROS[..1])],
            Whole,
            Unnoticed,
        ),
        (
            "all of the state, used",
            &[(keyslot(3), ONES)],
            Whole,
            Unnoticed,
        ),
        (
            "state and offset, used",
            &[(keyslot(3), ONES), (keyslot(3) + OFFSET, ONES)],
            Whole,
            LostByForce,
        ),
        (
            "iterations, used",
            &[(keyslot(3) + ITERATIONS, &ZEROS[..4])],
            LostByForce,
            Unnoticed,
        ),
        ("key-bytes", &[(KEY_BYTES, ONES)], Whole, Refused),
        (
            "key-bytes too many",
            &[(KEY_BYTES, &[0, 0, 0, 64])],
            Whole,
            Refused,
        ),
        (
            "key-bytes of another cipher",
            &[(KEY_BYTES, &[0, 0, 0, 16])],
            Whole,
            Unnoticed,
        ),
        (
            "the hash's letters",
            &[(HASH_SPEC, b"SHA256")],
            Whole,
            Whole,
        ),
        (
            "the UUID's end",
            &[(UUID + 36, &uuid_goes_on)],
            Whole,
            Unnoticed,
        ),
        ("magic", &[(0, &ZEROS[..6])], Whole, Refused),
        ("version", &[(6, &ONES[..2])], Whole, Refused),
        (
            "magic and stripes",
            &[(0, &ZEROS[..6]), (keyslot(1) + STRIPES, ONES)],
            Refused,
            Refused,
        ),
    ];
    let mut seen = Vec::new();
    for (name, damage, ours, theirs) in cases {
        let damaged = scratch.damaged(damage);
        let outcome = match repair(&damaged, Overwrite::Damaged) {
            Ok((bytes, restored)) if restored.is_empty() => {
                assert!(bytes == damaged, "{name}");
                Unnoticed
            }
            Ok((bytes, _)) => {
                assert!(bytes == scratch.good, "{name}");
                scratch.check_keys(&bytes, &USED);
                Whole
            }
            Err(error) => {
                let by_force = repair(&damaged, Overwrite::Anything);
                match (&error, by_force) {
                    (Luks1RepairError::Damaged(_), Err(_)) => Refused,
                    (_, Ok((bytes, _))) if bytes == scratch.good => WholeByForce,
                    (_, Ok((bytes, restored))) => {
                        let lost = |what: &Luks1Restored| match what {
                            Luks1Restored::Lost { keyslot } => Some(*keyslot as usize),
                            _ => None,
                        };
                        let lost: Vec<_> = restored.iter().filter_map(lost).collect();
                        assert!(!lost.is_empty(), "{name}");
                        // Their salts and iterations stay.
                        for number in &lost {
                            let secret = keyslot(*number) + ITERATIONS..keyslot(*number) + OFFSET;
                            let (after, before) = (&bytes[secret.clone()], &damaged[secret]);
                            let is_marked = before[10..12] == [0x55, 0xaa];
                            assert!(after == before || is_marked, "{name}");
                        }
                        let left: Vec<_> = USED.into_iter().filter(|n| !lost.contains(n)).collect();
                        scratch.check_keys(&bytes, &left);
                        LostByForce
                    }
                    (_, Err(by_force)) => panic!("{name}: {error}, by force {by_force}"),
                }
            }
        };
        assert_eq!(outcome, *ours, "{name}");
        // `cryptsetup repair` takes a second, so the short form has one case for each difference.
        let is_new = !seen.contains(&(ours, theirs));
        seen.push((ours, theirs));
        if !is_new && !is_long() {
            continue;
        }
        let outcome = match scratch.repaired_by_cryptsetup(&damaged) {
            None => Refused,
            Some(bytes) if bytes == scratch.good => Whole,
            Some(bytes) if bytes == damaged => Unnoticed,
            Some(_) => LostByForce,
        };
        assert_eq!(outcome, *theirs, "{name}, by cryptsetup");
    }
}

/// Every key length and every cipher, because the offsets of the areas depend on them.
#[test]
fn each_key_length_and_cipher_is_restored() {
    for options in [
        "--key-size 512 --cipher aes-xts-plain64",
        "--key-size 128 --cipher aes-cbc-essiv:sha256",
        "--key-size 256 --cipher aes-cbc-plain64 --hash sha1",
        // AES-192, which this version does not support.
        "--key-size 192 --cipher aes-cbc-essiv:sha256",
    ] {
        let scratch = Scratch::new(options);
        for damage in [
            &[(keyslot(1) + OFFSET, ONES)][..],
            &[(keyslot(3) + OFFSET, ONES)],
            &[(KEY_BYTES, ONES)],
            &[(KEY_BYTES, ONES), (keyslot(3) + OFFSET, ONES)],
        ] {
            let (bytes, restored) = repair(&scratch.damaged(damage), Overwrite::Damaged).unwrap();
            assert!(bytes == scratch.good, "{options}, {damage:?}");
            assert_eq!(restored.len(), damage.len());
        }
        if !options.contains("192") {
            scratch.check_keys(&scratch.good, &USED);
        }
    }
}

/// Two fields at once. No repair changes a used keyslot into another, and Luxor restores what
/// cryptsetup restores, except where only the area shows whether a keyslot is used.
#[test]
fn each_pair_of_damaged_fields_is_restored_as_by_cryptsetup() {
    let scratch = Scratch::new("--key-size 256");
    let mut fields = vec![("magic", 0), ("cipher", 8), ("mode", 40), ("hash", 72)];
    fields.extend([("payload-offset", 104), ("key-bytes", KEY_BYTES)]);
    fields.extend([("mk-digest-iter", 164), ("uuid", UUID)]);
    for number in [1, 3, 6] {
        let numbers = [
            ("state", 0),
            ("iterations", ITERATIONS),
            ("salt", SALT),
            ("offset", OFFSET),
            ("stripes", STRIPES),
        ];
        fields.extend(numbers.map(|(name, at)| (name, keyslot(number) + at)));
    }
    let is_empty = |at: usize| (keyslot(1)..keyslot(2)).contains(&at) || at >= keyslot(6);
    let (mut compared, mut restored) = (0, 0);
    for (first, (name, at)) in fields.iter().enumerate() {
        for (other_name, other_at) in &fields[first + 1..] {
            let what = format!("{name} at {at}, {other_name} at {other_at}");
            let damaged = scratch.damaged(&[(*at, ONES), (*other_at, ONES)]);
            let ours = repair(&damaged, Overwrite::Damaged).ok();
            let ours = ours.map(|(bytes, _)| bytes);
            if let Some(ours) = &ours {
                for at in USED
                    .into_iter()
                    .flat_map(|slot| keyslot(slot)..keyslot(slot + 1))
                {
                    let is_right = ours[at] == scratch.good[at] || ours[at] == damaged[at];
                    assert!(is_right, "{what}: byte {at}");
                }
                restored += usize::from(*ours == scratch.good);
            }
            let is_certain = !["state", "iterations", "salt"]
                .iter()
                .any(|field| [name, other_name].contains(&field));
            // `cryptsetup repair` takes a second, and repairs offsets and stripes of empty keyslots only.
            let may_repair = is_certain && [*at, *other_at].into_iter().all(is_empty);
            if !may_repair && !is_long() {
                continue;
            }
            compared += 1;
            let theirs = scratch.repaired_by_cryptsetup(&damaged);
            let is_restored = theirs.is_some_and(|theirs| theirs == scratch.good);
            assert!(
                !is_restored || !is_certain || ours.as_ref() == Some(&scratch.good),
                "{what}"
            );
        }
    }
    assert!(compared > 4 && restored > 20, "{compared}, {restored}");
}

#[test]
fn fields_that_cannot_be_restored_are_named() {
    let scratch = Scratch::new("--key-size 256");
    for (damage, words) in [
        (
            &[(104, &ZEROS[..4]), (KEY_BYTES, &ZEROS[..4]), (8, b"x")][..],
            "volume key has 0 bytes",
        ),
        (&[(104, &[0, 0, 0, 9])], "data begin at byte 4608"),
        (&[(164, &ZEROS[..4])], "mk-digest-iter"),
        // Two used keyslots that overlap, both away from the standard offsets.
        (
            &[
                (keyslot(0) + OFFSET, &[0, 0, 0x20, 0]),
                (keyslot(3) + OFFSET, &[0, 0, 0x20, 0]),
                (104, &ZEROS[..4]),
            ],
            "overlap",
        ),
        // Most areas are not at the standard offsets.
        (
            &[
                (keyslot(1) + OFFSET, ONES),
                (keyslot(2) + OFFSET, ONES),
                (keyslot(3) + OFFSET, ONES),
                (keyslot(4) + OFFSET, ONES),
            ],
            "keyslot 3",
        ),
    ] {
        let damaged = scratch.damaged(damage);
        for overwrite in [Overwrite::Damaged, Overwrite::Anything] {
            let error = repair(&damaged, overwrite).unwrap_err();
            assert!(matches!(error, Luks1RepairError::Damaged(_)), "{error}");
            assert!(error.to_string().contains(words), "{words}: {error}");
        }
    }
    // Another cipher may be what the owner chose.
    for name in [b"bes".as_slice(), GARBAGE] {
        let other = scratch.damaged(&[(8, name)]);
        let (bytes, restored) = repair(&other, Overwrite::Damaged).unwrap();
        assert!(bytes == other && restored.is_empty());
    }
    let error = repair(&scratch.good[4096..], Overwrite::Anything).unwrap_err();
    assert!(
        matches!(error, Luks1RepairError::Damaged(Luks1Error::Magic)),
        "{error}"
    );
    let damaged = scratch.damaged(&[
        (keyslot(3) + ITERATIONS, &ZEROS[..4]),
        (keyslot(5), GARBAGE),
    ]);
    let error = repair(&damaged, Overwrite::Damaged).unwrap_err();
    assert!(error.to_string().contains("keyslots 3, 5"), "{error}");
    assert_eq!(by_force(&error), Some(ByForce::Empties));
}

/// Whatever is damaged, all other bytes keep their contents. A single damaged bit is restored
/// completely or not at all.
#[test]
fn nothing_good_is_lost_by_any_damage() {
    let scratch = Scratch::new("--key-size 256");
    let good = &scratch.good[..8192];
    let check = |damaged: &[u8], of: &[Range<usize>], words: &dyn Fn() -> String| -> bool {
        let Ok((bytes, restored)) = repair(damaged, Overwrite::Damaged) else {
            return false;
        };
        if restored.is_empty() {
            assert!(bytes == damaged, "{}", words());
            return false;
        }
        for i in 0..good.len() {
            let was_damaged = of.iter().any(|range| range.contains(&i));
            assert!(bytes[i] == good[i] || was_damaged, "{}: {i}", words());
        }
        true
    };
    let mut whole = 0;
    for bit in 0..8 * LEN {
        let mut bytes = good.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        if check(&bytes, &[], &|| format!("bit {bit}")) {
            whole += 1;
        }
    }
    // Magic and version, the states, the stripes, and some others.
    assert!(whole >= 64 + 8 * 32 + 8 * 32, "{whole}");

    let mut random = Random(7);
    let mut restored = 0;
    for round in 0..20_000 {
        let mut bytes = good.to_vec();
        let mut damaged = Vec::new();
        for _ in 0..1 + random.next() % 3 {
            let number = usize::from(random.next().to_le_bytes()[0]) % fields().len();
            let field = fields()[number].clone();
            damaged.push(field.clone());
            let kind = random.next() % 3;
            for byte in &mut bytes[field] {
                *byte = match kind {
                    0 => 0,
                    1 => 0xff,
                    _ => random.next().to_le_bytes()[3],
                };
            }
        }
        restored += u32::from(check(&bytes, &damaged, &|| format!("round {round}")));
    }
    assert!(restored > 4000, "{restored}");
}

/// All fields except texts and numbers that cannot be derived, because damage to those prevents the
/// repair of the rest.
fn fields() -> Vec<Range<usize>> {
    let of_keyslots = (0..8).flat_map(|number| {
        let begin = keyslot(number);
        [0, ITERATIONS, OFFSET, STRIPES]
            .map(|at| begin + at..begin + at + 4)
            .into_iter()
            .chain(iter::once(begin + SALT..begin + OFFSET))
    });
    of_keyslots
        .chain([0..8, KEY_BYTES..KEY_BYTES + 4, UUID + 36..UUID + 40])
        .collect()
}

/// `SplitMix64` (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// An area that is not where cryptsetup places it stays there, and the area of an empty keyslot is
/// placed where there is room.
#[test]
fn areas_in_other_places_stay() {
    let scratch = Scratch::new("--key-size 256");
    // Like after a conversion from LUKS2: keyslot 0 occupies the places of 5 and 6.
    let place = &[0, 0, 5, 200];
    let last = &[0, 0, 8, 8];
    let moved = [
        (keyslot(0) + OFFSET, place.as_slice()),
        (keyslot(5) + OFFSET, &[0, 0, 0, 8]),
        (keyslot(6) + OFFSET, last),
    ];
    let lawful = scratch.damaged(&moved);
    let (bytes, restored) = repair(&lawful, Overwrite::Damaged).unwrap();
    assert!(bytes == lawful && restored.is_empty());

    let damaged = scratch.damaged(&[&moved[..], &[(keyslot(5) + OFFSET, ONES)]].concat());
    let (bytes, restored) = repair(&damaged, Overwrite::Damaged).unwrap();
    assert!(bytes == lawful, "{restored:?}");
    assert_eq!(
        restored,
        [Luks1Restored::Offset {
            keyslot: 5,
            from: 0xffff_ffff * 512,
            to: 4096
        }]
    );
}

#[test]
fn a_device_with_new_content_is_left_alone() {
    let scratch = Scratch::new("--key-size 256");
    let stripes = (keyslot(1) + STRIPES, ONES);
    for (damage, words) in [
        (&[stripes, (1080, &[0x53, 0xef])][..], "ext4"),
        (&[stripes, (4086, b"SWAPSPACE2".as_slice())], "swap"),
        (&[(0, b"XFSB".as_slice())], "XFS"),
        (&[stripes, (510, &[0x55, 0xaa])], "partition table"),
    ] {
        let damaged = scratch.damaged(damage);
        let error = repair(&damaged, Overwrite::Damaged).unwrap_err();
        assert!(
            matches!(error, Luks1RepairError::ForeignSignature { .. }),
            "{error}"
        );
        assert!(error.to_string().contains(words), "{error}");
        let (bytes, _) = repair(&damaged, Overwrite::Anything).unwrap();
        assert!(bytes[..LEN] == scratch.good[..LEN], "{words}");
        assert!(bytes[LEN..] == damaged[LEN..], "{words}");
        // A valid header is accepted in spite of the foreign signature.
        let beside = scratch.damaged(&damage[1..]);
        let (bytes, restored) = repair(&beside, Overwrite::Damaged).unwrap();
        assert!(bytes == beside && restored.is_empty());
    }
}

/// Damage in both sectors.
fn damaged_twice(scratch: &Scratch) -> Vec<u8> {
    let damage = [
        (keyslot(1) + OFFSET, ONES),
        (keyslot(3), &ONES[..1]),
        (keyslot(6) + STRIPES, ONES),
        (keyslot(7) + OFFSET, ONES),
    ];
    let mut bytes = scratch.damaged(&damage);
    bytes.truncate(8192);
    bytes
}

fn repaired(storage: &dyn Storage) -> Result<(), Luks1RepairError> {
    let plan = Luks1Repair::plan(storage, Overwrite::Damaged)?;
    plan.write(storage)?;
    Ok(())
}

#[test]
fn after_a_power_cut_the_rest_is_restored() {
    let scratch = Scratch::new("--key-size 256");
    let image = damaged_twice(&scratch);
    let good = &scratch.good[..8192];
    let check = |after: MemoryStorage, cut: &Cut<'_>| -> Result<(), String> {
        if cut.after == cut.of && after.to_bytes() != good {
            return Err("what was done is not there".into());
        }
        repaired(&after).map_err(|error| error.to_string())?;
        if after.into_bytes() == good {
            Ok(())
        } else {
            Err("it is not what it was".into())
        }
    };
    let cuts = PowerCuts {
        image: &image,
        ..PowerCuts::default()
    };
    let seen = cuts
        .check(|storage| repaired(storage).unwrap(), check)
        .unwrap();
    assert!(seen >= 6, "{seen}");
    let faults = Faults {
        ignore_syncs: true,
        ..Faults::default()
    };
    let noticed = PowerCuts { faults, ..cuts }.check(|storage| repaired(storage).unwrap(), check);
    assert!(noticed.is_err(), "missing syncs pass");
}

#[test]
fn after_an_error_the_rest_is_restored() {
    let scratch = Scratch::new("--key-size 256");
    let image = damaged_twice(&scratch);
    let mut failed = 0;
    for after in 0..20 {
        for (fail_read_after, fail_write_after, fail_sync_after) in [
            (Some(after), None, None),
            (None, Some(after), None),
            (None, None, Some(after)),
        ] {
            let faults = Faults {
                fail_read_after,
                fail_write_after,
                fail_sync_after,
                ..Faults::default()
            };
            let storage = FaultyStorage::with_faults(image.clone(), faults);
            failed += u32::from(repaired(&storage).is_err());
            let storage = MemoryStorage::new(storage.to_bytes());
            repaired(&storage).unwrap();
            assert!(storage.into_bytes() == scratch.good[..8192], "{faults:?}");
        }
    }
    // Two reads, of header and signatures; two writes; and three syncs, one before the writes and
    // one after each.
    assert!(failed >= 2 + 2 + 3, "{failed}");
}

#[test]
fn a_header_that_has_changed_is_not_written_over() {
    let scratch = Scratch::new("--key-size 256");
    let storage = MemoryStorage::new(damaged_twice(&scratch));
    let plan = Luks1Repair::plan(&storage, Overwrite::Damaged).unwrap();
    storage.write_all_at(b"other", 300).unwrap();
    let now = storage.to_bytes();
    let error = plan.write(&storage).unwrap_err();
    assert!(matches!(error, ChangeError::ChangedMeanwhile), "{error}");
    assert!(storage.into_bytes() == now);
}
