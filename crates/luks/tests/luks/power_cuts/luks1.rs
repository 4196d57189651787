// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every change of a LUKS1 header, with the power cut at each of its writes and syncs, and with
//! errors. No key may be lost except those to be removed, and an acknowledged change must persist.

use std::num::NonZeroUsize;

use luxor_engine::KeySize;
use luxor_luks::{
    ChangeError, Luks1Header, Luks1Options, NewKeyslot, NewLuks1Volume, UnlockOptions, Uuid,
};
use luxor_sector::{
    MemoryStorage, Storage,
    faulty::{Cut, Faults, FaultyStorage, Killed, PowerCuts},
};

use super::{Answers, sync_fails, without_syncs, write_fails};
use crate::{backend, beside_cryptsetup::Beside, cheap};

/// The secrets of keyslots 0, 6 and 7, which are in the first sector of the header, in both, and in
/// the second.
const SECRETS: [(u32, &[u8]); 3] = [(0, b"zero"), (6, b"six"), (7, b"seven")];
const NEW: &[u8] = b"a new one";

/// Returns a detached header with its areas.
fn volume() -> Vec<u8> {
    let options = Luks1Options {
        key_size: KeySize::Aes128,
        pbkdf: cheap(),
        detached: true,
        ..Luks1Options::default()
    };
    let volume = NewLuks1Volume::create(&options, SECRETS[0].1, &*backend()).unwrap();
    let storage = MemoryStorage::default();
    volume.write_to(&storage).unwrap();
    let mut header = Luks1Header::read(&storage).unwrap();
    for (number, secret) in &SECRETS[1..] {
        let new = new_keyslot(&header, &storage, secret);
        let added = header.add_keyslot(&storage, &new, Some(*number)).unwrap();
        assert_eq!(added, *number);
    }
    storage.into_bytes()
}

fn new_keyslot(header: &Luks1Header, storage: &dyn Storage, secret: &[u8]) -> NewKeyslot {
    let options = UnlockOptions::default();
    let unlocked = header.unlock(storage, SECRETS[0].1, &*backend(), &options);
    header
        .new_keyslot(&unlocked.unwrap(), secret, &cheap(), &*backend())
        .unwrap()
}

type Change = Box<dyn Fn(&mut Luks1Header, &dyn Storage) -> Result<(), ChangeError>>;

struct Case {
    name: String,
    change: Change,
    /// The secrets that open the volume at each instant.
    kept: Vec<&'static [u8]>,
    /// At each instant at least one of these secrets opens the volume, unless the list is empty.
    one_of: Vec<&'static [u8]>,
    /// The only secrets that open the volume afterwards.
    after: Vec<&'static [u8]>,
}

fn cases(image: &[u8]) -> Vec<Case> {
    let storage = MemoryStorage::new(image.to_vec());
    let header = Luks1Header::read(&storage).unwrap();
    let all = SECRETS.map(|(_, secret)| secret);
    let but = |gone: &[u8]| -> Vec<_> { all.into_iter().filter(|s| *s != gone).collect() };
    let with_new = |secrets: &[&'static [u8]]| [secrets, &[NEW]].concat();
    let mut cases = Vec::new();
    for (number, secret) in SECRETS {
        let new = new_keyslot(&header, &storage, NEW);
        cases.push(Case {
            name: format!("replace_keyslot {number}"),
            change: Box::new(move |h, s| h.replace_keyslot(s, number, &new)),
            kept: but(secret),
            one_of: vec![secret, NEW],
            after: with_new(&but(secret)),
        });
        cases.push(Case {
            name: format!("remove_keyslot {number}"),
            change: Box::new(move |h, s| h.remove_keyslot(s, number)),
            kept: but(secret),
            one_of: Vec::new(),
            after: but(secret),
        });
    }
    // Keyslot 6, which is in both sectors, may be lost.
    let (six, secret) = SECRETS[1];
    let new = new_keyslot(&header, &storage, NEW);
    cases.push(Case {
        name: "replace_keyslot_in_place".into(),
        change: Box::new(move |h, s| h.replace_keyslot_in_place(s, six, &new)),
        kept: but(secret),
        one_of: Vec::new(),
        after: with_new(&but(secret)),
    });
    let new = new_keyslot(&header, &storage, NEW);
    cases.push(Case {
        name: "add_keyslot".into(),
        change: Box::new(move |h, s| h.add_keyslot(s, &new, None).map(drop)),
        kept: all.to_vec(),
        one_of: Vec::new(),
        after: with_new(&all),
    });
    cases.push(Case {
        name: "erase".into(),
        change: Box::new(|h, s| h.erase(s)),
        kept: Vec::new(),
        one_of: Vec::new(),
        after: Vec::new(),
    });
    cases.push(Case {
        name: "set_uuid".into(),
        change: Box::new(|h, s| h.set_uuid(s, Uuid::from_u128(7))),
        kept: all.to_vec(),
        one_of: Vec::new(),
        after: all.to_vec(),
    });
    cases
}

/// Adding keyslots 6 and 7. The salt of keyslot 6 is in both sectors of the header.
fn add_cases(image: &[u8]) -> Vec<Case> {
    let storage = MemoryStorage::new(image.to_vec());
    let header = Luks1Header::read(&storage).unwrap();
    let case = |number| {
        let new = new_keyslot(&header, &storage, NEW);
        Case {
            name: format!("add_keyslot {number}"),
            change: Box::new(move |h, s| h.add_keyslot(s, &new, Some(number)).map(drop)),
            kept: vec![SECRETS[0].1],
            one_of: Vec::new(),
            after: vec![SECRETS[0].1, NEW],
        }
    };
    vec![case(6), case(7)]
}

/// Returns a volume with keyslot 0 only.
fn one_key() -> Vec<u8> {
    let storage = MemoryStorage::new(volume());
    let mut header = Luks1Header::read(&storage).unwrap();
    for number in [6, 7] {
        header.remove_keyslot(&storage, number).unwrap();
    }
    storage.into_bytes()
}

/// The secrets that open an image.
#[derive(Default)]
struct Opened(Answers<Vec<&'static [u8]>>);

impl Opened {
    fn secrets(&mut self, image: &MemoryStorage) -> Result<Vec<&'static [u8]>, String> {
        let header = Luks1Header::read(image).map_err(|error| error.to_string())?;
        let bytes = image.to_bytes();
        let areas = header.describe().keyslots.values().map(|keyslot| {
            let begin = usize::try_from(keyslot.area.offset).unwrap();
            &bytes[begin..][..128_000]
        });
        let question = (&bytes[..592], areas.collect::<Vec<_>>());
        Ok(self.0.to(question, || {
            let all = SECRETS.map(|(_, secret)| secret);
            let options = UnlockOptions::default();
            [&all[..], &[NEW]]
                .concat()
                .into_iter()
                .filter(|secret| header.unlock(image, secret, &*backend(), &options).is_ok())
                .collect()
        }))
    }

    fn check(&mut self, case: &Case, image: &MemoryStorage, is_done: bool) -> Result<(), String> {
        let uuid_of = |image: &MemoryStorage| {
            let header = Luks1Header::read(image).unwrap();
            header.describe().uuid.to_owned()
        };
        let is_new = case.name != "set_uuid" || uuid_of(image) == Uuid::from_u128(7).to_string();
        let opens = self.secrets(image)?;
        let has = |secret: &&[u8]| opens.contains(secret);
        if !case.kept.iter().all(has) {
            return Err("a key is lost".into());
        }
        if !case.one_of.is_empty() && !case.one_of.iter().any(has) {
            return Err("neither the old nor the new key opens it".into());
        }
        let as_it_must = opens.len() == case.after.len() && case.after.iter().all(has) && is_new;
        if is_done && !as_it_must {
            return Err("what was done is not there".into());
        }
        Ok(())
    }
}

fn run(case: &Case, storage: &dyn Storage) -> Result<(), ChangeError> {
    let mut header = Luks1Header::read(storage).unwrap();
    (case.change)(&mut header, storage)
}

fn cut(case: &Case, image: &[u8]) {
    let mut opened = Opened::default();
    let cuts = PowerCuts {
        image,
        ..PowerCuts::default()
    };
    let mut check =
        |after: MemoryStorage, cut: &Cut<'_>| opened.check(case, &after, cut.after == cut.of);
    let seen = cuts
        .check(|storage| run(case, storage).unwrap(), &mut check)
        .unwrap_or_else(|broken| panic!("{}: {broken}", case.name));
    assert!(seen >= 4, "{}: {seen}", case.name);
    let faults = without_syncs();
    let noticed =
        PowerCuts { faults, ..cuts }.check(|storage| run(case, storage).unwrap(), &mut check);
    assert!(noticed.is_err(), "{}: missing syncs pass", case.name);
}

#[test]
fn no_power_cut_loses_a_key() {
    let image = volume();
    for case in cases(&image) {
        cut(&case, &image);
    }
}

#[test]
fn no_power_cut_breaks_a_key_being_added() {
    let image = one_key();
    for case in add_cases(&image) {
        cut(&case, &image);
    }
}

#[test]
fn cryptsetup_reads_each_state_as_luxor_does() {
    let secrets = SECRETS.map(|(_, secret)| secret);
    let mut beside = Beside::new(&[&secrets[..], &[NEW]].concat());
    let (image, one) = (volume(), one_key());
    let cases = cases(&image).into_iter().map(|case| (case, &image));
    for (case, image) in cases.chain(add_cases(&one).into_iter().map(|case| (case, &one))) {
        // A new keyslot must open as soon as the header has it.
        let is_in_place = case.name == "replace_keyslot_in_place";
        let least = case.after.len() - usize::from(is_in_place);
        beside.check(&case.name, image, least, |s| run(&case, s).unwrap());
    }
    beside.end(60, false);
}

/// A failure is reported, and leaves the volume in the state before or after the change.
#[test]
fn no_error_loses_a_key() {
    let image = volume();
    let one = one_key();
    let cases = cases(&image).into_iter().map(|case| (case, &image));
    let cases = cases.chain(add_cases(&one).into_iter().map(|case| (case, &one)));
    for (case, image) in cases {
        let mut opened = Opened::default();
        let mut failed = 0;
        for after in 0.. {
            let mut all_good = true;
            for faults in [write_fails(after), sync_fails(after)] {
                let storage = FaultyStorage::with_faults(image.clone(), faults);
                let result = run(&case, &storage);
                all_good &= result.is_ok();
                failed += u32::from(result.is_err());
                let now = MemoryStorage::new(storage.to_bytes());
                if let Err(ChangeError::WriteHeader { .. }) = result {
                    let header = |bytes: &[u8]| bytes[..592].to_vec();
                    assert_eq!(header(&storage.to_bytes()), header(image), "{}", case.name);
                }
                opened
                    .check(&case, &now, result.is_ok())
                    .unwrap_or_else(|error| panic!("{}, {faults:?}: {error}", case.name));
            }
            if all_good {
                break;
            }
        }
        assert!(failed >= 2, "{}: {failed}", case.name);
    }
}

#[test]
fn short_transfers_change_nothing() {
    let image = volume();
    for case in cases(&image) {
        let faults = Faults {
            longest_transfer: NonZeroUsize::new(1000),
            ..Faults::default()
        };
        let storage = FaultyStorage::with_faults(image.clone(), faults);
        run(&case, &storage).unwrap();
        let now = MemoryStorage::new(storage.to_bytes());
        Opened::default().check(&case, &now, true).unwrap();
    }
}

/// After the new key is written, an error must say where it is.
#[test]
fn a_failure_after_the_key_has_changed_says_so() {
    let image = volume();
    let storage = MemoryStorage::new(image.clone());
    let new = new_keyslot(&Luks1Header::read(&storage).unwrap(), &storage, NEW);
    let mut seen = [0; 2];
    for writes in 0.. {
        let storage = FaultyStorage::with_faults(image.clone(), write_fails(writes));
        let mut header = Luks1Header::read(&storage).unwrap();
        let Err(error) = header.replace_keyslot(&storage, 0, &new) else {
            break;
        };
        let now = Luks1Header::read(&storage).unwrap();
        let opens = now
            .unlock(&storage, NEW, &*backend(), &UnlockOptions::default())
            .is_ok();
        let is_said = matches!(
            error,
            ChangeError::NewKeyElsewhere {
                keyslot: 0,
                other: 1,
                ..
            }
        );
        assert_eq!(is_said, opens, "{writes}: {error}");
        seen[usize::from(is_said)] += 1;
    }
    assert!(seen[0] >= 2 && seen[1] >= 3, "{seen:?}");
}

/// A change by a program that was killed may be read from the page cache without being on the disk.
/// Here it is a new key, and the next program removes the old one.
#[test]
fn a_change_after_one_that_was_killed() {
    let image = one_key();
    let storage = MemoryStorage::new(image.clone());
    let new = new_keyslot(&Luks1Header::read(&storage).unwrap(), &storage, NEW);
    let mut opened = Opened::default();
    let changes = |storage: &FaultyStorage| {
        // The first sync comes before all writes, the second after the area, the third after the
        // header.
        let killed = Killed::after_syncs(storage, 2);
        let mut header = Luks1Header::read(storage).unwrap();
        header.add_keyslot(&killed, &new, Some(1)).unwrap_err();
        let mut header = Luks1Header::read(storage).unwrap();
        assert_eq!(header.describe().keyslots.len(), 2);
        header.remove_keyslot(storage, 0).unwrap();
    };
    let check = |image: MemoryStorage, _: &Cut<'_>| match &opened.secrets(&image)?[..] {
        [] => Err("nothing opens it".to_owned()),
        _ => Ok(()),
    };
    let cuts = PowerCuts {
        image: &image,
        ..PowerCuts::default()
    };
    cuts.check(changes, check)
        .unwrap_or_else(|broken| panic!("{broken}"));
}
