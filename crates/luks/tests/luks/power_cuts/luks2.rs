// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every change of LUKS2 metadata, with the power cut at each of its writes and syncs, with errors,
//! and starting from volumes with a damaged or an older copy. Afterwards the volume must be in the
//! state before or after the change, and open.

use std::{cell::Cell, io, num::NonZeroUsize};

use luxor_engine::KeySize;
use luxor_luks::{
    ActivationFlag, ChangeError, Luks2Header, Luks2Options, NewKeyslot, NewLuks2Volume, Overwrite,
    Priority, UnlockOptions, Uuid,
};
use luxor_sector::{
    MemoryStorage, Storage,
    faulty::{Cut, Faults, FaultyStorage, Killed, Operation, PowerCuts},
};

use super::{Answers, sync_fails, without_syncs, write_fails};
use crate::{backend, beside_cryptsetup::Beside, cheap};

const HEADER: usize = 16 << 10;
/// The length of the area of a keyslot with a key of 32 bytes, in whole pages.
const AREA: usize = 128 << 10;

const A: &[u8] = b"of keyslot 0";
const B: &[u8] = b"of keyslot 1";
const C: &[u8] = b"a new one";

/// Returns a volume with two keyslots and a token, up to the end of the fourth area.
fn volume() -> Vec<u8> {
    let options = Luks2Options {
        key_size: KeySize::Aes128,
        pbkdf: cheap(),
        ..Luks2Options::default()
    };
    let mut bytes = Vec::new();
    let volume = NewLuks2Volume::create(&options, A, &*backend()).unwrap();
    volume.write_stream(&mut bytes).unwrap();
    bytes.truncate(2 * HEADER + 4 * AREA);
    let storage = MemoryStorage::new(bytes);
    let mut header = Luks2Header::read(&storage).unwrap();
    let new = new_keyslot(&header, &storage, B);
    assert_eq!(header.add_keyslot(&storage, &new, None).unwrap(), 1);
    let token = r#"{"type":"test","keyslots":["1"]}"#;
    assert_eq!(header.add_token(&storage, token, None).unwrap(), 0);
    storage.into_bytes()
}

fn new_keyslot(header: &Luks2Header, storage: &dyn Storage, secret: &[u8]) -> NewKeyslot {
    let unlocked = header
        .unlock(storage, A, &*backend(), &UnlockOptions::default())
        .unwrap();
    header
        .new_keyslot(&unlocked, secret, &cheap(), &*backend())
        .unwrap()
}

type Change = Box<dyn Fn(&mut Luks2Header, &dyn Storage) -> Result<(), ChangeError>>;

/// A change, with the keyslots that must open before and after it, and their secrets. Keyslots that
/// the change destroys are not listed.
struct Case {
    name: &'static str,
    change: Change,
    before: Vec<(u32, &'static [u8])>,
    after: Vec<(u32, &'static [u8])>,
}

fn cases(image: &[u8]) -> Vec<Case> {
    let both = vec![(0, A), (1, B)];
    let case = |name, before: &[_], after: &[_], change: Change| Case {
        name,
        change,
        before: before.to_vec(),
        after: after.to_vec(),
    };
    let same = |name, change: Change| case(name, &both, &both, change);
    let new = || {
        let storage = MemoryStorage::new(image.to_vec());
        new_keyslot(&Luks2Header::read(&storage).unwrap(), &storage, C)
    };
    let (to_add, to_replace, in_place) = (new(), new(), new());
    vec![
        case(
            "add_keyslot",
            &both,
            &[(0, A), (1, B), (2, C)],
            Box::new(move |h, s| h.add_keyslot(s, &to_add, None).map(drop)),
        ),
        case(
            "replace_keyslot",
            &both,
            &[(0, C), (1, B)],
            Box::new(move |h, s| h.replace_keyslot(s, 0, &to_replace)),
        ),
        // The one keyslot that a crash may lose, as long as the metadata are the old ones.
        case(
            "replace_keyslot_in_place",
            &[(1, B)],
            &[(0, C), (1, B)],
            Box::new(move |h, s| h.replace_keyslot_in_place(s, 0, &in_place)),
        ),
        case(
            "remove_keyslot",
            &[(0, A)],
            &[(0, A)],
            Box::new(|h, s| h.remove_keyslot(s, 1)),
        ),
        case("erase", &[], &[], Box::new(|h, s| h.erase(s))),
        same(
            "set_priority",
            Box::new(|h, s| h.set_priority(s, 1, Priority::Ignore)),
        ),
        same(
            "add_token",
            Box::new(|h, s| {
                let json = r#"{"type":"t","keyslots":[]}"#;
                h.add_token(s, json, Some(7)).map(drop)
            }),
        ),
        same(
            "replace_token",
            Box::new(|h, s| h.replace_token(s, r#"{"type":"u","keyslots":["0"]}"#, 0)),
        ),
        same("remove_token", Box::new(|h, s| h.remove_token(s, 0))),
        same(
            "set_label",
            Box::new(|h, s| h.set_label(s, &"new".parse().unwrap())),
        ),
        same(
            "set_subsystem",
            Box::new(|h, s| h.set_subsystem(s, &"new".parse().unwrap())),
        ),
        same(
            "set_uuid",
            Box::new(|h, s| h.set_uuid(s, Uuid::from_u128(7))),
        ),
        same(
            "set_flags",
            Box::new(|h, s| h.set_flags(s, &[ActivationFlag::AllowDiscards])),
        ),
        same(
            "repair",
            Box::new(|h, s| h.repair(s, Overwrite::Damaged).map(drop)),
        ),
    ]
}

/// Returns `volume` unchanged, with one copy damaged, and with one copy older than the other.
fn beginnings(volume: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let storage = MemoryStorage::new(volume.to_vec());
    let mut header = Luks2Header::read(&storage).unwrap();
    header
        .set_label(&storage, &"newer".parse().unwrap())
        .unwrap();
    let newer = storage.into_bytes();
    let damaged = |at: usize| {
        let mut bytes = volume.to_vec();
        bytes[at..at + 300].fill(0);
        bytes
    };
    let mixed = |primary: &[u8], secondary: &[u8]| {
        let (primary, rest) = (&primary[..HEADER], &secondary[HEADER..]);
        [primary, rest].concat()
    };
    vec![
        ("in order", volume.to_vec()),
        ("primary damaged", damaged(100)),
        ("primary wiped", damaged(0)),
        ("secondary damaged", damaged(HEADER + 5000)),
        ("primary older", mixed(volume, &newer)),
        ("secondary older", mixed(&newer, volume)),
    ]
}

/// The contents of the metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    seqid: u64,
    json: String,
    names: [String; 3],
}

impl State {
    fn from_header(header: &Luks2Header) -> Self {
        let described = header.describe();
        Self {
            seqid: described.seqid,
            json: header.metadata_json(),
            names: [described.label, described.subsystem, described.uuid].map(Into::into),
        }
    }
}

/// Whether keyslots open with their secrets.
#[derive(Default)]
struct Opened(Answers<bool>);

impl Opened {
    fn opens(
        &mut self,
        header: &Luks2Header,
        image: &MemoryStorage,
        keyslot: u32,
        secret: &[u8],
    ) -> bool {
        let described = header.describe();
        let (description, digests) = (described.keyslots.get(&keyslot), described.digests);
        let area = description.map(|keyslot| {
            let mut area = vec![0; AREA];
            image.read_exact_at(&mut area, keyslot.area.offset).unwrap();
            area
        });
        let question = (format!("{description:?} {digests:?}"), secret, area);
        self.0.to(question, || {
            let options = UnlockOptions {
                keyslots: vec![keyslot],
                ..UnlockOptions::default()
            };
            header.unlock(image, secret, &*backend(), &options).is_ok()
        })
    }
}

impl Case {
    /// Checks that `header`, which was read from `image`, is in one of the `states` before and
    /// after the change, and that the keyslots that must open do.
    fn check(
        &self,
        opened: &mut Opened,
        header: &Luks2Header,
        image: &MemoryStorage,
        [before, after]: [&State; 2],
    ) -> Result<(), String> {
        let state = State::from_header(header);
        let secrets = if state == *after {
            &self.after
        } else if state == *before {
            &self.before
        } else {
            return Err(format!("neither old nor new: {state:?}"));
        };
        for &(keyslot, secret) in secrets {
            if !opened.opens(header, image, keyslot, secret) {
                return Err(format!("keyslot {keyslot} does not open"));
            }
        }
        Ok(())
    }
}

fn run(case: &Case, storage: &dyn Storage) -> Result<(), ChangeError> {
    let mut header = Luks2Header::read(storage).unwrap();
    (case.change)(&mut header, storage)
}

fn state_of(image: &[u8]) -> State {
    State::from_header(&Luks2Header::read(&MemoryStorage::new(image.to_vec())).unwrap())
}

/// Runs one case with `faults` and all power cuts. `acknowledged` requires that a change persists
/// once it was reported as done.
fn cut(
    opened: &mut Opened,
    case: &Case,
    image: &[u8],
    faults: Faults,
    acknowledged: bool,
) -> Result<usize, String> {
    let faultless = MemoryStorage::new(image.to_vec());
    let before = state_of(image);
    run(case, &faultless).unwrap();
    let after = State::from_header(&Luks2Header::read(&faultless).unwrap());

    let done = Cell::new(false);
    let cuts = PowerCuts {
        image,
        faults,
        ..PowerCuts::default()
    };
    let check = |image: MemoryStorage, cut: &Cut<'_>| -> Result<(), String> {
        let header = Luks2Header::read(&image).map_err(|error| format!("lost: {error}"))?;
        let state = State::from_header(&header);
        let finished = done.get() && cut.after == cut.of;
        if finished && acknowledged {
            if !header.warnings().is_empty() {
                return Err(format!("not whole: {:?}", header.warnings()));
            }
            if state != after {
                return Err("what was done is lost".into());
            }
        }
        case.check(opened, &header, &image, [&before, &after])
    };
    cuts.check(|storage| done.set(run(case, storage).is_ok()), check)
        .map_err(|broken| format!("{}: {broken}", case.name))
}

#[test]
fn a_power_cut_leaves_the_old_or_the_new() {
    let volume = volume();
    let mut opened = Opened::default();
    let mut images = 0;
    for (beginning, image) in beginnings(&volume) {
        for case in cases(&volume) {
            let seen = cut(&mut opened, &case, &image, Faults::default(), true)
                .unwrap_or_else(|error| panic!("{beginning}: {error}"));
            images += seen;
        }
    }
    println!("{images} images");
    assert!(images > 2000, "{images}");
}

#[test]
fn cryptsetup_reads_each_state_as_luxor_does() {
    let volume = volume();
    let mut beside = Beside::new(&[A, B, C]);
    for (beginning, image) in beginnings(&volume) {
        for case in cases(&volume) {
            let least = match case.name {
                "add_keyslot" => 3,
                // A keyslot to be ignored opens only by its number.
                "set_priority" | "remove_keyslot" | "replace_keyslot_in_place" => 1,
                "erase" => 0,
                _ => 2,
            };
            let name = format!("{beginning}, {}", case.name);
            beside.check(&name, &image, least, |s| run(&case, s).unwrap());
        }
    }
    beside.end(300, false);
}

#[test]
fn missing_syncs_are_noticed() {
    let volume = volume();
    let damaged = &beginnings(&volume)[1].1;
    for case in cases(&volume) {
        let image = if case.name == "repair" {
            damaged
        } else {
            &volume
        };
        let lost = cut(&mut Opened::default(), &case, image, without_syncs(), true).unwrap_err();
        assert!(lost.contains(case.name), "{lost}");

        // Without syncs the result is not only not durable, but unusable. Some changes are
        // exceptions: a name change leaves the JSON text and all sectors but one unchanged, and a
        // sector is never torn; a repair writes only one copy.
        let broken = cut(&mut Opened::default(), &case, image, without_syncs(), false);
        let is_atomic = ["set_label", "set_subsystem", "set_uuid", "repair"].contains(&case.name);
        assert_eq!(broken.is_ok(), is_atomic, "{}", case.name);
        if let Err(words) = broken {
            let of_no_use = ["lost: ", "does not open"];
            assert!(of_no_use.iter().any(|what| words.contains(what)), "{words}");
        }
    }
}

#[test]
fn an_error_leaves_the_old_or_the_new() {
    let volume = volume();
    let mut opened = Opened::default();
    for (beginning, image) in beginnings(&volume) {
        for case in cases(&volume) {
            let (writes, syncs) = operations(&case, &image);
            let faults = (0..writes).map(write_fails);
            for faults in faults.chain((0..syncs).map(sync_fails)) {
                let storage = FaultyStorage::with_faults(image.clone(), faults);
                let mut header = Luks2Header::read(&storage).unwrap();
                let error = (case.change)(&mut header, &storage).unwrap_err();
                let words = error.to_string();
                let says = ["cannot be written", "cannot be made durable"];
                assert!(says.iter().any(|what| words.contains(what)), "{words}");
                let seqid = |image| {
                    let storage = MemoryStorage::new(image);
                    Luks2Header::read(&storage).unwrap().describe().seqid
                };
                let before = seqid(image.clone());
                let tells = matches!(
                    error,
                    ChangeError::Unfinished { .. }
                        | ChangeError::OldKeyLeft { .. }
                        | ChangeError::KeyslotLost { .. }
                        | ChangeError::Unsettled { .. }
                );
                let counts = seqid(storage.to_bytes()) > before;
                assert_eq!(
                    tells, counts,
                    "{beginning}, {}, {faults:?}: {words}",
                    case.name
                );
                cut(&mut opened, &case, &image, faults, true)
                    .unwrap_or_else(|error| panic!("{beginning}, {faults:?}: {error}"));
            }
        }
    }
}

/// Returns how often a case writes and syncs.
fn operations(case: &Case, image: &[u8]) -> (u64, u64) {
    let storage = FaultyStorage::new(image.to_vec());
    let mut header = Luks2Header::read(&storage).unwrap();
    (case.change)(&mut header, &storage).unwrap();
    let operations = storage.operations();
    let count = |is: fn(&Operation) -> bool| operations.iter().filter(|o| is(o)).count() as u64;
    (
        count(|operation| matches!(operation, Operation::Write { .. })),
        count(|operation| matches!(operation, Operation::Sync(_))),
    )
}

#[test]
fn short_transfers_and_read_errors_do_no_harm() {
    let volume = volume();
    let cases = cases(&volume);
    let label = cases.iter().find(|case| case.name == "set_label").unwrap();
    let short = Faults {
        longest_transfer: NonZeroUsize::new(5000),
        ..Faults::default()
    };
    cut(&mut Opened::default(), label, &volume, short, true).unwrap();

    let mut opened = Opened::default();
    let before = state_of(&volume);
    for case in &cases {
        let done = MemoryStorage::new(volume.clone());
        run(case, &done).unwrap();
        let after = State::from_header(&Luks2Header::read(&done).unwrap());
        // More than the number of its reads.
        for k in 0..40 {
            let faults = Faults {
                fail_read_after: Some(k),
                ..Faults::default()
            };
            let storage = FaultyStorage::with_faults(volume.clone(), faults);
            // Some reads serve to find out which copy is valid.
            let Ok(mut header) = Luks2Header::read(&storage) else {
                continue;
            };
            let result = (case.change)(&mut header, &storage);
            let image = MemoryStorage::new(storage.to_bytes());
            let now = Luks2Header::read(&image).unwrap();
            if result.is_ok() {
                assert_eq!(State::from_header(&header), after, "{}", case.name);
                assert_eq!(State::from_header(&now), after, "{}", case.name);
            }
            case.check(&mut opened, &now, &image, [&before, &after])
                .unwrap_or_else(|error| panic!("{}, read {k}: {error}", case.name));
        }
    }
}

/// A change by a program that was killed may be read from the page cache without being on the disk.
#[test]
fn a_change_after_one_that_was_killed() {
    const D: &[u8] = b"of the change that is killed";
    let volume = volume();
    let storage = MemoryStorage::new(volume.clone());
    let new = new_keyslot(&Luks2Header::read(&storage).unwrap(), &storage, D);
    let mut opened = Opened::default();
    let mut seen = 0;
    for case in cases(&volume) {
        for syncs in 0..5 {
            let changes = |storage: &FaultyStorage| {
                let killed = Killed::after_syncs(storage, syncs);
                let mut header = Luks2Header::read(storage).unwrap();
                header.replace_keyslot(&killed, 0, &new).unwrap_err();
                run(&case, storage).unwrap();
            };
            let check = |image: MemoryStorage, _: &Cut<'_>| -> Result<(), String> {
                let header = Luks2Header::read(&image).map_err(|error| format!("lost: {error}"))?;
                let mut opens = |keyslot, secrets: &[&[u8]]| {
                    let mut opens = |secret| opened.opens(&header, &image, keyslot, secret);
                    secrets.iter().any(|secret| opens(secret))
                };
                let may_lose = ["erase", "replace_keyslot_in_place"];
                if !may_lose.contains(&case.name) && !opens(0, &[A, C, D]) {
                    return Err("keyslot 0 does not open".into());
                }
                if !["erase", "remove_keyslot"].contains(&case.name) && !opens(1, &[B]) {
                    return Err("keyslot 1 does not open".into());
                }
                Ok(())
            };
            let cuts = PowerCuts {
                image: &volume,
                ..PowerCuts::default()
            };
            seen += cuts
                .check(changes, check)
                .unwrap_or_else(|broken| panic!("{}, {syncs} syncs: {broken}", case.name));
        }
    }
    assert!(seen > 500, "{seen}");
}

#[test]
fn a_full_disk_leaves_the_old() {
    let mut image = volume();
    image.truncate(2 * HEADER + 2 * AREA);
    let case = cases(&image).swap_remove(0);
    for room in [0, 1000] {
        let faults = Faults {
            room: Some(room),
            ..Faults::default()
        };
        let storage = FaultyStorage::with_faults(image.clone(), faults);
        let mut header = Luks2Header::read(&storage).unwrap();
        let error = (case.change)(&mut header, &storage).unwrap_err();
        assert!(
            matches!(&error, ChangeError::WriteArea { source, .. }
                if source.kind() == io::ErrorKind::StorageFull),
            "{error}"
        );
        cut(&mut Opened::default(), &case, &image, faults, true).unwrap();
    }
}
