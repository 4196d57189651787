// SPDX-License-Identifier: MIT OR Apache-2.0
//! The choice between the two copies.

use luxor_luks::{
    ChangeError, CopyKind, HeaderRepair, Luks2Header, Overwrite, PbkdfKind, ReadError, Warning,
};
use luxor_sector::{MemoryStorage, Storage};
use luxor_volume::{Remedy, RepairOutlook};
use serde_json::json;

use super::support::{AREA_END, SIZE, attempt, changed, json_text, unlock, volume, with_json};
use crate::seal;

/// A keyslot or digest that only the older copy has intact may be the last one.
#[test]
fn an_intact_older_copy_is_overwritten_only_by_force() {
    let volume = volume(PbkdfKind::Pbkdf2);
    for (path, value, object) in [
        ("keyslots/0/key_size", json!("64"), "keyslot 0"),
        ("keyslots/0/kdf/iterations", json!("1000"), "keyslot 0"),
        ("keyslots/0/area/type", json!("RAW"), "keyslot 0"),
        ("keyslots/0/af/stripes", json!(5), "keyslot 0"),
        ("digests/0/type", json!("x"), "digest 0"),
    ] {
        let spoilt = changed(&volume, &[(path, Some(value))]);
        for newest in [CopyKind::Primary, CopyKind::Secondary] {
            let mut bytes = volume.clone();
            let place = newest as usize * SIZE..(newest as usize + 1) * SIZE;
            let copy = &mut bytes[place.clone()];
            copy.copy_from_slice(&spoilt[place]);
            copy[16..24].copy_from_slice(&9_u64.to_be_bytes());
            seal(copy);
            let storage = MemoryStorage::new(bytes.clone());
            let header = Luks2Header::read(&storage).unwrap();
            assert!(
                matches!(
                    header.warnings(),
                    [Warning::Spoilt { newer, spoilt }] if *newer == newest && *spoilt == [object]
                ),
                "{path}: {:?}",
                header.warnings()
            );
            assert_eq!(HeaderRepair::outlook(&storage), RepairOutlook::Impossible);
            let label = "new".parse().unwrap();
            let repaired = header.clone().repair(&storage, Overwrite::Damaged);
            let relabelled = header.clone().set_label(&storage, &label);
            for error in [repaired.unwrap_err(), relabelled.unwrap_err()] {
                let is_right =
                    matches!(&error, ChangeError::OlderIsIntact { spoilt } if *spoilt == [object]);
                assert!(is_right, "{path}: {error}");
            }
            assert!(storage.to_bytes() == bytes, "{path}");

            let plan = HeaderRepair::plan(&storage, Overwrite::Anything).unwrap();
            plan.write(&storage).unwrap();
            assert!(Luks2Header::read(&storage).unwrap().warnings().is_empty());
        }
    }
}

#[test]
fn a_truncated_header_is_reported() {
    let volume = volume(PbkdfKind::Pbkdf2);
    for len in (0..=volume.len()).step_by(512) {
        let storage = MemoryStorage::new(volume[..len].to_vec());
        match Luks2Header::read(&storage) {
            Err(error) => {
                assert!(len < SIZE, "{len}: {error}");
                let expected = if len == 0 {
                    "no LUKS header"
                } else {
                    "cut off"
                };
                assert!(error.to_string().contains(expected), "{len}: {error}");
            }
            Ok(header) => {
                assert!(len >= SIZE, "{len}");
                assert_eq!(header.warnings().len(), usize::from(len < 2 * SIZE));
                match unlock(&header, &storage) {
                    Ok(_) => assert_eq!(len, AREA_END),
                    Err(error) => {
                        assert!(len < AREA_END, "{len}: {error}");
                        let words = error.to_string();
                        assert!(
                            words.contains("keyslot 0: its area at byte 32768"),
                            "{words}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_flipped_bit_in_any_byte_leaves_the_other_copy() {
    let volume = volume(PbkdfKind::Pbkdf2);
    let storage = MemoryStorage::new(volume.clone());
    let intact = Luks2Header::read(&storage).unwrap();
    assert!(intact.warnings().is_empty());
    let flip = |at: usize| {
        let mut byte = [0];
        storage.read_exact_at(&mut byte, at as u64).unwrap();
        storage
            .write_all_at(&[byte[0] ^ (1 << (at % 8))], at as u64)
            .unwrap();
    };
    for at in 0..2 * SIZE {
        flip(at);
        // A SHA-256 checksum leaves half of its field unused.
        if (480..512).contains(&(at % SIZE)) {
            assert!(Luks2Header::read(&storage).unwrap().warnings().is_empty());
            flip(at);
            continue;
        }
        let header =
            Luks2Header::read(&storage).unwrap_or_else(|error| panic!("byte {at}: {error}"));
        let expected = if at < SIZE {
            CopyKind::Primary
        } else {
            CopyKind::Secondary
        };
        match header.warnings() {
            [Warning::Damaged { kind, .. }] => assert_eq!(*kind, expected, "byte {at}"),
            warnings => panic!("byte {at}: {warnings:?}"),
        }
        assert_eq!(header.metadata_json(), intact.metadata_json());
        if at % 997 == 0 {
            unlock(&header, &storage).unwrap();
        }
        if at < SIZE {
            // Flip the same bit of the other copy too: no valid copy is left.
            flip(at + SIZE);
            let error = Luks2Header::read(&storage).unwrap_err();
            match (at, &error) {
                (0..6, ReadError::NotLuks) | (6.., ReadError::Damaged { .. }) => {}
                _ => panic!("byte {at}: {error}"),
            }
            flip(at + SIZE);
        }
        flip(at);
    }
    assert_eq!(storage.into_bytes(), volume);
}

/// Both copies are changed, with correct checksums. The volume must be refused, or have the same
/// key as before.
#[test]
fn a_flipped_bit_under_true_checksums_gives_no_other_key() {
    let volume = volume(PbkdfKind::Pbkdf2);
    let key = attempt(volume.clone()).unwrap().volume_key;
    let fields = (0..448).chain(512..4096);
    let text = 4096..4096 + json_text(&volume).len() + 2;
    let (mut opened, mut refused) = (0, 0);
    for at in fields.chain(text) {
        let mut bytes = volume.clone();
        for copy in [0, SIZE] {
            bytes[copy + at] ^= 1 << (at % 8);
            seal(&mut bytes[copy..copy + SIZE]);
        }
        match attempt(bytes) {
            Ok(unlocked) => {
                opened += 1;
                assert_eq!(unlocked.volume_key.expose(), key.expose(), "byte {at}");
            }
            Err(_) => refused += 1,
        }
    }
    println!("{opened} opened, {refused} refused");
    // Labels, the copies' salts and padding do not matter; most of the JSON text does.
    assert!(opened > 3000 && refused > 500, "{opened}, {refused}");
}

#[test]
fn the_newer_copy_counts() {
    let volume = volume(PbkdfKind::Pbkdf2);
    for (primary, secondary, used) in [
        (1, 1, CopyKind::Primary),
        (2, 1, CopyKind::Primary),
        (1, 2, CopyKind::Secondary),
        (0, u64::MAX, CopyKind::Secondary),
    ] {
        let mut bytes = volume.clone();
        for (copy, seqid) in [(0, primary), (SIZE, secondary)] {
            bytes[copy + 16..copy + 24].copy_from_slice(&u64::to_be_bytes(seqid));
            seal(&mut bytes[copy..copy + SIZE]);
        }
        let header = Luks2Header::read(&MemoryStorage::new(bytes)).unwrap();
        assert_eq!(header.describe().seqid, primary.max(secondary));
        let status = header.describe().copies.clone();
        assert!(status.iter().all(|copy| copy.used == (copy.kind == used)));
        assert_eq!(header.warnings().len(), usize::from(primary != secondary));
    }
}

#[test]
fn a_secondary_copy_is_found_at_each_of_its_nine_places() {
    let volume = volume(PbkdfKind::Pbkdf2);
    for shift in 14..=22 {
        let size = 1_usize << shift;
        let mut bytes = vec![0; size];
        bytes.extend(secondary(&volume, size, 7));
        bytes.extend(&volume[2 * SIZE..]);
        let storage = MemoryStorage::new(bytes);
        let header = Luks2Header::read(&storage).unwrap();
        assert_eq!(header.describe().header_size, size as u64);
        unlock(&header, &storage).unwrap();
    }
}

/// A secondary copy of an older volume may still be in the keyslots area or the data, and have a
/// higher seqid.
#[test]
fn of_two_secondary_copies_the_first_one_counts() {
    let volume = volume(PbkdfKind::Pbkdf2);
    let intact = Luks2Header::read(&MemoryStorage::new(volume.clone())).unwrap();
    for (seqid, damaged) in [(0, 0), (u64::MAX, 0), (u64::MAX, SIZE + 600)] {
        let mut bytes = volume.clone();
        bytes.resize(4 << 20, 0);
        for shift in 16..=20 {
            let size = 1_usize << shift;
            bytes[size..2 * size].copy_from_slice(&secondary(&volume, size, seqid));
        }
        bytes[0] ^= 1;
        bytes[damaged] ^= u8::from(damaged > 0);
        let header = Luks2Header::read(&MemoryStorage::new(bytes)).unwrap();
        let size = if damaged == 0 { SIZE } else { 1 << 16 };
        assert_eq!(header.describe().header_size, size as u64);
        let is_intact = header.metadata_json() == intact.metadata_json();
        assert_eq!(is_intact, damaged == 0);
    }
    // It is also not used in place of a copy that this version does not support.
    let mut refused = changed(
        &volume,
        &[("keyslots/0/area/encryption", Some(json!("cipher_null")))],
    );
    refused.resize(1 << 20, 0);
    refused[1 << 16..1 << 17].copy_from_slice(&secondary(&volume, 1 << 16, u64::MAX));
    refused[0] ^= 1;
    let error = Luks2Header::read(&MemoryStorage::new(refused)).unwrap_err();
    assert!(matches!(error, ReadError::Unsupported { .. }), "{error}");
}

/// Returns a secondary copy of another size.
fn secondary(volume: &[u8], size: usize, seqid: u64) -> Vec<u8> {
    let json = json_text(volume)
        .replace("\"12288\"", &format!("\"{}\"", size - 4096))
        .replace(
            "\"offset\":\"32768\"",
            &format!("\"offset\":\"{}\"", 2 * size),
        )
        .replace(
            "\"keyslots_size\":\"16744448\"",
            "\"keyslots_size\":\"1048576\"",
        );
    let mut bytes = volume[SIZE..SIZE + 4096].to_vec();
    bytes[8..16].copy_from_slice(&(size as u64).to_be_bytes());
    bytes[16..24].copy_from_slice(&seqid.to_be_bytes());
    bytes[256..264].copy_from_slice(&(size as u64).to_be_bytes());
    bytes.extend(json.as_bytes());
    bytes.resize(size, 0);
    seal(&mut bytes);
    bytes
}

/// One copy is not supported by this version, and is newer or older than the other one. In both
/// cases the newer one is used, because it is what the owner last wrote.
#[test]
fn the_newer_copy_counts_even_if_it_is_not_understood() {
    let volume = volume(PbkdfKind::Pbkdf2);
    let refused = changed(
        &volume,
        &[("keyslots/0/area/encryption", Some(json!("cipher_null")))],
    );
    let of = |kind| match kind {
        CopyKind::Primary => 0..SIZE,
        CopyKind::Secondary => SIZE..2 * SIZE,
    };
    for kind in [CopyKind::Primary, CopyKind::Secondary] {
        for (seqid, is_used) in [(6, true), (5, kind == CopyKind::Primary), (4, false)] {
            let mut bytes = volume.clone();
            bytes[of(kind)].copy_from_slice(&refused[of(kind)]);
            for copy in [CopyKind::Primary, CopyKind::Secondary] {
                let seqid = if copy == kind { seqid } else { 5_u64 };
                let copy = &mut bytes[of(copy)];
                copy[16..24].copy_from_slice(&seqid.to_be_bytes());
                seal(copy);
            }
            let words = format!("{} copy, seqid {seqid} and 5", kind.name());
            match Luks2Header::read(&MemoryStorage::new(bytes.clone())) {
                Err(ReadError::Unsupported { .. }) => assert!(is_used, "{words}"),
                Err(error) => panic!("{words}: {error}"),
                Ok(header) => {
                    assert!(!is_used, "{words}");
                    assert_eq!(header.warnings().len(), 1, "{words}");
                }
            }
            // If the other copy is damaged, its age does not matter.
            for copy in [CopyKind::Primary, CopyKind::Secondary] {
                if copy != kind {
                    bytes[of(copy)][600] ^= 1;
                }
            }
            let error = Luks2Header::read(&MemoryStorage::new(bytes)).unwrap_err();
            assert!(
                matches!(error, ReadError::Unsupported { .. }),
                "{words}: {error}"
            );
        }
    }
}

/// A copy with the right checksum that breaks a rule is not called damaged, and never overwritten if it
/// is the newer one: another program may permit what it says.
#[test]
fn a_newer_copy_that_breaks_a_rule_is_never_overwritten() {
    let volume = volume(PbkdfKind::Pbkdf2);
    let of = |kind| match kind {
        CopyKind::Primary => 0..SIZE,
        CopyKind::Secondary => SIZE..2 * SIZE,
    };
    let rules = [
        ("keyslots/0/area/size", json!("0")),
        ("keyslots/0/area/offset", json!("0")),
        ("digests/0/keyslots", json!([])),
        ("segments/0/size", json!("100")),
    ];
    let rules = rules.map(|(path, value)| (path, changed(&volume, &[(path, Some(value))])));
    let no_json = ["", "no JSON", "{\"keyslots\":", "{}}", " {}"];
    let no_json = no_json.map(|text| (text, with_json(&volume, text.as_bytes())));
    for (what, refused) in rules.into_iter().chain(no_json) {
        for kind in [CopyKind::Primary, CopyKind::Secondary] {
            for seqid in [6, 5, 4] {
                let mut bytes = volume.clone();
                bytes[of(kind)].copy_from_slice(&refused[of(kind)]);
                for copy in [CopyKind::Primary, CopyKind::Secondary] {
                    let seqid = if copy == kind { seqid } else { 5_u64 };
                    let copy = &mut bytes[of(copy)];
                    copy[16..24].copy_from_slice(&seqid.to_be_bytes());
                    seal(copy);
                }
                let words = format!("{what}, {} copy, seqid {seqid} and 5", kind.name());
                let storage = MemoryStorage::new(bytes.clone());
                if seqid == 6 {
                    let error = Luks2Header::read(&storage).unwrap_err();
                    assert!(
                        matches!(error, ReadError::Unsupported { .. }),
                        "{words}: {error}"
                    );
                    for overwrite in [Overwrite::Damaged, Overwrite::Anything] {
                        let plan = HeaderRepair::plan(&storage, overwrite);
                        assert!(plan.is_err(), "{words}");
                    }
                } else {
                    let mut header = Luks2Header::read(&storage).unwrap();
                    let told = header.warnings()[0].to_string();
                    assert!(!told.contains("damaged"), "{words}: {told}");
                    let repaired = header.repair(&storage, Overwrite::Damaged);
                    assert_eq!(repaired.unwrap(), Some(kind), "{words}");
                }
            }
        }
    }
}

/// A later version of LUKS2, or a checksum by a hash that only other programs compute, is no damage.
#[test]
fn a_copy_of_another_version_or_hash_is_not_taken_for_damaged() {
    let volume = volume(PbkdfKind::Pbkdf2);
    let copy_of = |seqid: u64, kind: CopyKind, at: usize, with: &[u8]| {
        let begin = if kind == CopyKind::Primary { 0 } else { SIZE };
        let mut copy = volume[begin..begin + SIZE].to_vec();
        copy[16..24].copy_from_slice(&seqid.to_be_bytes());
        copy[at..at + with.len()].copy_from_slice(with);
        seal(&mut copy);
        copy
    };
    let names: [&[u8]; 6] = [
        b"sha224\0",
        b"SHA384\0",
        b"sha3-256\0",
        b"md5\0",
        b"blake2b-512\0",
        b"stribog512\0",
    ];
    let versions: [&[u8]; 2] = [&[0, 3], &[0, 255]];
    let foreign = names.map(|name| (72, name)).into_iter();
    for (at, with) in foreign.chain(versions.map(|version| (6, version))) {
        // The seqids of the copies, the copies that are foreign, and whether the volume is refused.
        for (seqids, is_foreign, is_refused) in [
            ([6, 5], [true, false], true),
            ([5, 6], [false, true], true),
            ([5, 5], [true, false], true),
            ([5, 5], [true, true], true),
            ([4, 5], [true, false], false),
            ([5, 4], [false, true], false),
        ] {
            let part = |index: usize, kind| {
                let with: &[u8] = if is_foreign[index] { with } else { &[] };
                copy_of(seqids[index], kind, at, with)
            };
            let mut bytes = part(0, CopyKind::Primary);
            bytes.extend(part(1, CopyKind::Secondary));
            bytes.extend(&volume[2 * SIZE..]);
            let storage = MemoryStorage::new(bytes.clone());
            let words = format!("{with:?}, {seqids:?}, {is_foreign:?}");
            if is_refused {
                let error = Luks2Header::read(&storage).unwrap_err();
                let told = error.to_string();
                assert!(
                    matches!(error, ReadError::Unsupported { .. }) && told.contains("supported"),
                    "{words}: {told}"
                );
                for overwrite in [Overwrite::Damaged, Overwrite::Anything] {
                    let told = HeaderRepair::plan(&storage, overwrite).unwrap_err();
                    assert!(!told.wants_backup(), "{words}: {told}");
                }
                assert!(storage.to_bytes() == bytes, "{words}");
            } else {
                let header = Luks2Header::read(&storage).unwrap();
                let told = header.warnings()[0].to_string();
                assert!(told.contains("is not supported"), "{words}: {told}");
                unlock(&header, &storage).unwrap();
            }
        }
    }
    // What no program writes is damage.
    for (at, with) in [(72, &b"sha25\0"[..]), (6, &[1, 0]), (6, &[0, 0])] {
        let mut bytes = copy_of(6, CopyKind::Primary, at, with);
        bytes.extend(copy_of(5, CopyKind::Secondary, 16, &[]));
        bytes.extend(&volume[2 * SIZE..]);
        let header = Luks2Header::read(&MemoryStorage::new(bytes)).unwrap();
        let told = header.warnings()[0].to_string();
        assert!(told.contains("is damaged"), "{told}");
    }
}

/// Nothing says which of two copies of equal age is the right one, so a repair names the difference, and
/// overwrites keys, segments and tokens only if the caller insists.
#[test]
fn copies_of_equal_age_that_differ_are_not_overwritten_unasked() {
    let volume = volume(PbkdfKind::Pbkdf2);
    let with_secondary = |other: Vec<u8>| {
        let mut bytes = volume.clone();
        bytes[SIZE..2 * SIZE].copy_from_slice(&other[SIZE..2 * SIZE]);
        bytes
    };
    let token = json!({"type": "x", "keyslots": []});
    for (path, value, part) in [
        ("keyslots/0/priority", json!(2), "keyslots"),
        ("segments/0/iv_tweak", json!("1"), "segments"),
        ("digests/0/iterations", json!(1001), "digests"),
        ("tokens/3", token, "tokens"),
    ] {
        let bytes = with_secondary(changed(&volume, &[(path, Some(value))]));
        let storage = MemoryStorage::new(bytes.clone());
        let header = Luks2Header::read(&storage).unwrap();
        unlock(&header, &storage).unwrap();
        let words = format!("{:?}", header.warnings());
        assert!(
            matches!(header.warnings(), [Warning::Contents { differences, .. }] if *differences == [part]),
            "{words}"
        );
        assert_eq!(header.warnings()[0].remedy(), Some(Remedy::RepairByForce));
        assert_eq!(HeaderRepair::outlook(&storage), RepairOutlook::MakesEqual);

        let label = "new".parse().unwrap();
        let repaired = header.clone().repair(&storage, Overwrite::Damaged);
        let relabelled = header.clone().set_label(&storage, &label);
        for error in [repaired.unwrap_err(), relabelled.unwrap_err()] {
            assert!(
                matches!(&error, ChangeError::CopiesDiffer { differences } if *differences == [part]),
                "{error}"
            );
        }
        assert!(storage.to_bytes() == bytes, "{path}");
        let plan = HeaderRepair::plan(&storage, Overwrite::Anything).unwrap();
        let told = plan.write(&storage).unwrap().to_string();
        let words = format!("the secondary header is rewritten; it had other {part}\n");
        assert_eq!(told, words);
        let header = Luks2Header::read(&storage).unwrap();
        assert!(header.warnings().is_empty());
    }
    // No key needs a label.
    let mut other = volume.clone();
    other[SIZE + 24] = b'x';
    seal(&mut other[SIZE..2 * SIZE]);
    let storage = MemoryStorage::new(with_secondary(other));
    let mut header = Luks2Header::read(&storage).unwrap();
    let told = header.warnings()[0].to_string();
    assert!(told.contains("differ in their label"), "{told}");
    assert_eq!(header.warnings()[0].remedy(), Some(Remedy::Repair));
    assert_eq!(HeaderRepair::outlook(&storage), RepairOutlook::Restored);
    let repaired = header.repair(&storage, Overwrite::Damaged).unwrap();
    assert_eq!(repaired, Some(CopyKind::Secondary));
}
