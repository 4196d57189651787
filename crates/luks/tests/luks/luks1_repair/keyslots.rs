// SPDX-License-Identifier: MIT OR Apache-2.0
//! Damaged keyslots: no repair loses a key, and a damaged keyslot does not close the volume.

use std::ops::Range;

use luxor_engine::{Mode, Registry};
use luxor_luks::{
    ByForce, Luks1Restored, Overwrite, PbkdfKind, PbkdfOptions, UnlockOptions, Uuid, VolumeHeader,
};
use luxor_sector::MemoryStorage;

use super::{ITERATIONS, OFFSET, ONES, STRIPES, Scratch, USED, by_force, keyslot, repair};

const STATE: Range<usize> = 0..4;

/// Returns the volume with only keyslot 0 in use.
fn with_one_keyslot(scratch: &Scratch) -> Vec<u8> {
    let mut bytes = scratch.good.clone();
    for number in &USED[1..] {
        let begin = keyslot(*number);
        bytes[begin..][STATE].copy_from_slice(&0xdead_u32.to_be_bytes());
        bytes[begin + ITERATIONS..begin + OFFSET].fill(0);
    }
    bytes
}

/// Each number of a keyslot gets values that break a rule. Whatever the repair does, and by whatever
/// means, the salt and the iterations stay, and with the right numbers the keyslot opens again.
#[test]
fn no_damaged_number_costs_a_key() {
    let scratch = Scratch::new("--key-size 256");
    // This version supports neither of these.
    let aes_192 = Scratch::new("--key-size 192 --cipher aes-cbc-essiv:sha256");
    let camellia = scratch.damaged(&[(8, b"camellia\0")]);
    for (good, used) in [
        (scratch.good.clone(), &USED[..]),
        (with_one_keyslot(&scratch), &USED[..1]),
        (aes_192.good.clone(), &USED[..]),
        (with_one_keyslot(&aes_192), &USED[..1]),
        (camellia, &USED[..]),
    ] {
        for &number in used {
            let begin = keyslot(number);
            for (field, is_certain) in [
                (STATE.start, true),
                (OFFSET, true),
                (STRIPES, true),
                (ITERATIONS, false),
            ] {
                for value in [0_u32, 1, 8, 4001, 0x00ac_0000, 0xdead_0000, u32::MAX] {
                    let at = begin + field;
                    if field == ITERATIONS && value != 0 {
                        continue;
                    }
                    let mut damaged = good.clone();
                    damaged[at..at + 4].copy_from_slice(&value.to_be_bytes());
                    let what = format!("keyslot {number} of {used:?}, byte {field}: {value:#x}");
                    let gentle = repair(&damaged, Overwrite::Damaged);
                    assert_eq!(gentle.is_ok(), is_certain, "{what}: {gentle:?}");
                    for result in [gentle, repair(&damaged, Overwrite::Anything)] {
                        let Ok((mut bytes, restored)) = result else {
                            continue;
                        };
                        if is_certain {
                            assert!(bytes == good, "{what}: {restored:?}");
                            continue;
                        }
                        assert!(used.len() > 1, "{what}: {restored:?}");
                        assert_eq!(restored.len(), 1, "{what}: {restored:?}");
                        bytes[begin..][STATE].copy_from_slice(&good[begin..][STATE]);
                        bytes[at..at + 4].copy_from_slice(&good[at..at + 4]);
                        assert!(bytes == good, "{what}");
                    }
                }
            }
        }
    }
}

/// The area decides about a keyslot that has a salt and no known state.
#[test]
fn a_keyslot_with_a_blank_area_is_not_restored() {
    let scratch = Scratch::new("--key-size 256");
    let mut damaged = scratch.damaged(&[(keyslot(3), ONES)]);
    damaged[4096 + 3 * 0x20000..][..128_000].fill(0);
    let error = repair(&damaged, Overwrite::Damaged).unwrap_err();
    assert!(error.to_string().contains("keyslots 3"), "{error}");
}

/// Without another keyslot in use, force restores the rest of the header, and empties nothing.
#[test]
fn the_last_keyslot_is_never_emptied() {
    let scratch = Scratch::new("--key-size 256");
    let good = with_one_keyslot(&scratch);
    let mut damaged = good.clone();
    damaged[keyslot(0)..][..8].fill(0);
    damaged[keyslot(1) + OFFSET..][..4].fill(0xff);
    let error = repair(&damaged, Overwrite::Damaged).unwrap_err();
    assert_eq!(by_force(&error), Some(ByForce::Leaves));
    let (bytes, restored) = repair(&damaged, Overwrite::Anything).unwrap();
    assert!(
        restored.contains(&Luks1Restored::Left { keyslot: 0 }),
        "{restored:?}"
    );
    let mut expected = good;
    expected[keyslot(0)..][..8].fill(0);
    assert!(bytes == expected);

    // Nothing else is damaged.
    let error = repair(&bytes, Overwrite::Anything).unwrap_err();
    assert_eq!(by_force(&error), Some(ByForce::Nothing));
}

/// cryptsetup too opens such a volume by another keyslot.
#[test]
fn a_damaged_keyslot_counts_as_used_and_does_not_close_the_volume() {
    let scratch = Scratch::new("--key-size 256");
    let backend = Registry::cpu().best(Mode::Xts).unwrap();
    for (number, at, value, words) in [
        (
            1,
            STATE.start,
            1_u32,
            "neither as used nor as empty (0x00000001)",
        ),
        (1, STATE.start, 0x00ac_71f3, "it has 0 iterations"),
        (
            3,
            STATE.start,
            0xac71_f300,
            "neither as used nor as empty (0xac71f300)",
        ),
        (3, ITERATIONS, 0, "it has 0 iterations"),
    ] {
        let damaged = scratch.damaged(&[(keyslot(number) + at, &value.to_be_bytes())]);
        scratch.check_keys(&damaged, &[0, 7]);
        let storage = MemoryStorage::new(damaged.clone());
        let mut header = VolumeHeader::read(&storage).unwrap();
        let number = u32::try_from(number).unwrap();
        let found = header.damaged_keyslots();
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), [number]);
        assert!(found[&number].to_string().contains(words), "{found:?}");
        assert_eq!(header.warnings().len(), 1);
        assert!(header.keyslot_numbers().contains(&number));
        assert!(!header.openable_keyslots().contains(&number));
        let options = UnlockOptions {
            keyslots: vec![number],
            ..UnlockOptions::default()
        };
        let error = header
            .unlock(&storage, b"3", &*backend, &options)
            .unwrap_err();
        assert!(error.to_string().contains(words), "{error}");

        // A new key goes elsewhere, and the conversion does not drop the keyslot.
        let unlocked = header.unlock(&storage, b"0", &*backend, &UnlockOptions::default());
        let pbkdf = PbkdfOptions {
            kind: PbkdfKind::Pbkdf2,
            force_iterations: Some(1000),
            ..PbkdfOptions::default()
        };
        let new = header
            .new_keyslot(&unlocked.unwrap(), b"new", &pbkdf, &*backend)
            .unwrap();
        let added = header.add_keyslot(&storage, &new, None).unwrap();
        assert!(added != number);
        let record = keyslot(number as usize)..keyslot(number as usize) + 48;
        assert!(storage.to_bytes()[record.clone()] == damaged[record]);
        let error = header.clone().convert(&storage, true).unwrap_err();
        assert!(error.to_string().contains("is damaged"), "{error}");
        header.remove_keyslot(&storage, number).unwrap();
        assert!(header.damaged_keyslots().is_empty());
        scratch.check_keys(storage.to_bytes().as_slice(), &[0, 7]);
    }
}

/// A keyslot that only looks empty is not overwritten by the next change, which may be the last chance
/// to find it.
#[test]
fn no_change_overwrites_the_area_of_the_only_keyslot() {
    let scratch = Scratch::new("--key-size 256");
    let good = with_one_keyslot(&scratch);
    let mut damaged = good.clone();
    damaged[keyslot(0)..][STATE].copy_from_slice(&0xdead_u32.to_be_bytes());
    let storage = MemoryStorage::new(damaged);
    let mut header = VolumeHeader::read(&storage).unwrap();
    header.set_uuid(&storage, Uuid::from_u128(3)).unwrap();
    let mut bytes = storage.into_bytes();
    bytes[keyslot(0)..][STATE].copy_from_slice(&good[keyslot(0)..][STATE]);
    assert!(bytes[keyslot(0)..] == good[keyslot(0)..]);
    scratch.check_keys(&bytes, &[0]);
}

/// Zeros over the state, the iterations and the salt of a used keyslot make it look empty. Its area has
/// the key, which may be needed.
#[test]
fn a_keyslot_that_was_overwritten_is_not_empty() {
    let scratch = Scratch::new("--key-size 256");
    for state in [0, 0x00ac_71f2, 0x0001_dfff_u32] {
        let mut damaged = scratch.good.clone();
        let begin = keyslot(USED[1]);
        damaged[begin..begin + OFFSET].fill(0);
        damaged[begin..][STATE].copy_from_slice(&state.to_be_bytes());
        let error = repair(&damaged, Overwrite::Damaged).unwrap_err();
        let words = format!("keyslots {}", USED[1]);
        assert!(error.to_string().contains(&words), "{state:#x}: {error}");
        assert_eq!(by_force(&error), Some(ByForce::Empties));
        // With a blank area there is no key.
        let area = 4096 + 0x20000 * USED[1];
        damaged[area..][..128_000].fill(0);
        let (bytes, restored) = repair(&damaged, Overwrite::Damaged).unwrap();
        assert_eq!(restored.len(), 1, "{restored:?}");
        assert_eq!(bytes[begin..][STATE], 0xdead_u32.to_be_bytes());
    }
}

/// One repair restores the signature and the keyslots.
#[test]
fn signature_and_state_are_restored_together() {
    let scratch = Scratch::new("--key-size 256");
    let damaged = scratch.damaged(&[(0, b"\0\0\0\0\0\0\0\0"), (keyslot(USED[1]) + 3, b"\0")]);
    let (bytes, restored) = repair(&damaged, Overwrite::Damaged).unwrap();
    assert_eq!(restored.len(), 2, "{restored:?}");
    assert!(bytes == scratch.good);
}
