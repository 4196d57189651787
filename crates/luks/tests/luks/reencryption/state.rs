// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes of the metadata that the state of a re-encryption must not allow.

use luxor_luks::{CostError, KeyslotError, ReencryptionError};
use serde_json::{Value, json};

use super::*;
use crate::replace_json;

/// Returns the metadata as JSON.
fn metadata_of(storage: &dyn Storage) -> Value {
    let header = Luks2Header::read(storage).unwrap();
    serde_json::from_str(&header.metadata_json()).unwrap()
}

/// Returns the metadata area of `storage`, with this JSON in the first copy.
fn with_json(storage: &dyn Storage, json: &Value) -> MemoryStorage {
    let header = Luks2Header::read(storage).unwrap();
    let size = usize::try_from(header.describe().header_size).unwrap();
    let mut bytes = vec![0; usize::try_from(header.metadata_len()).unwrap()];
    let there = bytes
        .len()
        .min(usize::try_from(storage.len().unwrap()).unwrap());
    storage.read_exact_at(&mut bytes[..there], 0).unwrap();
    replace_json(&mut bytes[..size], &json.to_string());
    MemoryStorage::new(bytes)
}

/// Checks that each change of the state that its digest covers is noticed.
pub(super) fn is_held_to_its_digest(storage: &dyn Storage) {
    // Data that are valid with any state. When all have another key, the digest is not looked at.
    let header = Luks2Header::read(storage).unwrap();
    let (_, state) = header.describe().reencrypt.unwrap();
    let role = match state.mode {
        ReencryptMode::Reencrypt => PREVIOUS,
        _ => FINAL,
    };
    let through: &[Stretch] = &[(role, 0, 0)];
    is_accepted(storage, through);
    let storage = &with_data(storage, through, None);
    let header = Luks2Header::read(storage).unwrap();
    let json = metadata_of(storage);
    let (keyslot, _) = header.describe().reencrypt.unwrap();
    let keyslot = format!("/keyslots/{keyslot}");
    let backup = |role: SegmentRole| {
        let mut segments = header.segments().iter();
        let found = segments.find(|(_, entry)| entry.role == role);
        found.map(|(number, _)| format!("/segments/{number}"))
    };
    let mut changes = vec![
        (format!("{keyslot}/mode"), ["encrypt", "decrypt"]),
        (format!("{keyslot}/direction"), ["forward", "backward"]),
        (
            "/config/requirements/mandatory/0".into(),
            ["online-reencrypt-v2", "online-reencrypt-v3"],
        ),
    ];
    for role in [
        SegmentRole::BackupPrevious,
        SegmentRole::BackupFinal,
        SegmentRole::BackupMoved,
    ] {
        if let Some(segment) = backup(role) {
            changes.push((format!("{segment}/offset"), ["134217728", "268435456"]));
            changes.push((format!("{segment}/size"), ["4096", "8192"]));
            if json.pointer(&format!("{segment}/iv_tweak")).is_some() {
                changes.push((format!("{segment}/iv_tweak"), ["1", "2"]));
            }
        }
    }
    for (path, values) in changes {
        let mut json = json.clone();
        let place = json.pointer_mut(&path).unwrap();
        let other = values.into_iter().find(|value| place != value).unwrap();
        *place = other.into();
        let storage = with_data(&with_json(storage, &json), through, None);
        let header = Luks2Header::read(&storage).unwrap();
        let error = unlock(&header, &storage, SECRET).unwrap_err();
        let expected = UnlockError::Reencryption(ReencryptionError::Digest { digest: 0 });
        assert_eq!(
            std::mem::discriminant(&error),
            std::mem::discriminant(&expected),
            "{path}: {error}"
        );
        assert!(
            error.to_string().contains("does not agree with its digest"),
            "{error}"
        );
    }
}

/// Checks that the digest of the state is charged to the same budget as the keyslots and their
/// digests, and before them.
pub(super) fn its_digest_is_held_to_the_costs(storage: &dyn Storage) {
    let header = Luks2Header::read(storage).unwrap();
    let (keyslot, _) = header.describe().reencrypt.unwrap();
    let mut digests = header.describe().digests.iter();
    let (state, _) = digests
        .find(|(_, digest)| digest.keyslots.contains(keyslot))
        .unwrap();
    let refused = |state_iterations: u32, keyslot_blocks: Option<u64>| {
        let mut json = metadata_of(storage);
        json["digests"][state.to_string()]["iterations"] = json!(state_iterations);
        for (_, keyslot) in json["keyslots"].as_object_mut().unwrap() {
            if let Some(blocks) = keyslot_blocks
                && keyslot["type"] == "luks2"
            {
                let of_key = keyslot["area"]["key_size"].as_u64().unwrap() / 32;
                keyslot["kdf"]["iterations"] = json!(blocks / of_key);
            }
        }
        let storage = with_json(storage, &json);
        let header = Luks2Header::read(&storage).unwrap();
        unlock(&header, &storage, SECRET).unwrap_err()
    };
    let error = refused(u32::MAX, None);
    assert!(
        matches!(&error, UnlockError::DigestLimit { digest, .. } if digest == state),
        "{error}"
    );
    // Each derivation is within its own limit.
    let error = refused(90_000_000, Some(80_000_000));
    assert!(
        matches!(
            error,
            UnlockError::Keyslot {
                error: KeyslotError::Limit(CostError::Total { .. }),
                ..
            }
        ),
        "{error}"
    );
}

/// A part of the data: the backup segment that it is a stretch of, the first byte in the plaintext,
/// and the length. A length of 0 extends to the end.
type Stretch = (SegmentRole, u64, u64);

/// Returns the volume with other data, which are stretches of its backup segments. `change`
/// increases a member of one of the segments.
pub(super) fn with_data(
    storage: &dyn Storage,
    stretches: &[Stretch],
    change: Option<(usize, &str, i64)>,
) -> MemoryStorage {
    let header = Luks2Header::read(storage).unwrap();
    let mut json = metadata_of(storage);
    let of_role = |role: SegmentRole| {
        let mut segments = header.segments().iter();
        let (number, _) = segments.find(|(_, entry)| entry.role == role)?;
        Some(number.to_string())
    };
    let grown = |value: &Value, by: u64| {
        let value: u64 = value.as_str().unwrap().parse().unwrap();
        json!((value + by).to_string())
    };
    // First the segments of the data, then the backup segments.
    let mut parts: Vec<(String, Value)> = Vec::new();
    for &(role, from, len) in stretches {
        let number = of_role(role).unwrap();
        let mut part = json["segments"][&number].clone();
        part.as_object_mut().unwrap().remove("flags");
        part["offset"] = grown(&part["offset"], from);
        if part["type"] == "crypt" {
            part["iv_tweak"] = grown(&part["iv_tweak"], from / 512);
        }
        part["size"] = match len {
            0 => json!("dynamic"),
            len => json!(len.to_string()),
        };
        parts.push((number, part));
    }
    if let Some((part, member, by)) = change {
        let member = &mut parts[part].1[member];
        let value: u64 = member.as_str().unwrap().parse().unwrap();
        *member = json!(value.checked_add_signed(by).unwrap().to_string());
    }
    for role in [
        SegmentRole::BackupMoved,
        SegmentRole::BackupPrevious,
        SegmentRole::BackupFinal,
    ] {
        let number = of_role(role);
        parts.extend(number.map(|n| (n.clone(), json["segments"][&n].clone())));
    }
    for digest in json["digests"].as_object_mut().unwrap().values_mut() {
        let mine = digest["segments"].clone();
        let mine = mine.as_array().unwrap();
        let now = parts.iter().zip(0..);
        let now = now.filter(|((number, _), _)| mine.contains(&json!(number)));
        digest["segments"] = now.map(|(_, at): (_, u32)| at.to_string()).collect();
    }
    let numbered = parts.into_iter().zip(0..);
    json["segments"] = numbered
        .map(|((_, part), at): (_, u32)| (at.to_string(), part))
        .collect();
    with_json(storage, &json)
}

const PREVIOUS: SegmentRole = SegmentRole::BackupPrevious;
pub(super) const FINAL: SegmentRole = SegmentRole::BackupFinal;
const MOVED: SegmentRole = SegmentRole::BackupMoved;

#[track_caller]
fn is_accepted(storage: &dyn Storage, stretches: &[Stretch]) {
    let changed = with_data(storage, stretches, None);
    let header = Luks2Header::read(&changed).unwrap();
    if let Err(error) = unlock(&header, &changed, SECRET) {
        panic!("{stretches:?}: {error}");
    }
}

#[track_caller]
fn is_refused(
    storage: &dyn Storage,
    stretches: &[Stretch],
    change: Option<(usize, &str, i64)>,
    words: &str,
) {
    let changed = with_data(storage, stretches, change);
    let header = Luks2Header::read(&changed).unwrap_or_else(|e| panic!("{stretches:?}: {e}"));
    let error = unlock(&header, &changed, SECRET).expect_err(words);
    assert!(
        matches!(error, UnlockError::Reencryption(_)),
        "{stretches:?}: {error}"
    );
    let error = error.to_string();
    assert!(error.contains(words), "{stretches:?}: {error}");
    assert!(
        error.contains("other than cryptsetup"),
        "{stretches:?}: {error}"
    );
}

/// The digest of the state does not cover the segments of the data.
#[test]
fn parts_of_the_data_lie_where_the_state_has_them() {
    let (mib, all) = (MIB as u64, LEN as u64);
    let scratch = Scratch::new();
    volume(&scratch, "", 4 * MIB, false);
    scratch.succeed(&format!(
        "reencrypt -q --init-only --key-file secret {CHEAP} --sector-size 512 data"
    ));
    let storage = open(&scratch.path("data"));
    for good in [
        &[(PREVIOUS, 0, 0)][..],
        &[(FINAL, 0, mib), (PREVIOUS, mib, 0)],
        &[(FINAL, 0, 0)],
        // The result of `--device-size`.
        &[(FINAL, 0, mib), (PREVIOUS, mib, mib)],
    ] {
        is_accepted(&storage, good);
    }
    // A state of an unknown kind is reported as such.
    let mut json = metadata_of(&storage);
    let header = Luks2Header::read(&storage).unwrap();
    let (keyslot, _) = header.describe().reencrypt.unwrap();
    json["keyslots"][keyslot.to_string()]["area"]["type"] = json!("magic");
    let changed = with_json(&storage, &json);
    let error = unlock(&Luks2Header::read(&changed).unwrap(), &changed, SECRET).unwrap_err();
    let words = format!("its state is in keyslot {keyslot}: area.type: it is \"magic\", which");
    assert!(error.to_string().contains(&words), "{error}");

    // Parts that are exchanged, missing, or begin before another one's beginning.
    let half = all / 2;
    let exchanged = [(PREVIOUS, half, half), (PREVIOUS, 0, half)];
    let place = "must begin at byte";
    is_refused(&storage, &exchanged, None, place);
    is_refused(
        &storage,
        &[(FINAL, 0, mib), (PREVIOUS, 2 * mib, 0)],
        None,
        place,
    );
    is_refused(
        &storage,
        &[(FINAL, mib, mib), (PREVIOUS, 2 * mib, 0)],
        None,
        place,
    );
    is_refused(
        &storage,
        &[(PREVIOUS, 0, 0)],
        Some((0, "offset", 4096)),
        place,
    );
    // A different IV in either part.
    let good = [(FINAL, 0, mib), (PREVIOUS, mib, 0)];
    for part in [0, 1] {
        is_refused(
            &storage,
            &good,
            Some((part, "iv_tweak", 1)),
            "its iv_tweak must be",
        );
    }
    // Data with the new encryption, ahead of the re-encryption.
    is_refused(
        &storage,
        &[(PREVIOUS, 0, mib), (FINAL, mib, 0)],
        None,
        "wrong side",
    );
    let both = [(FINAL, 0, mib), (PREVIOUS, mib, mib), (FINAL, 2 * mib, 0)];
    is_refused(&storage, &both, None, "wrong side");
    // The future data must begin after the keyslots too.
    let mut json = metadata_of(&storage);
    let mut segments = json["segments"].as_object_mut().unwrap().values_mut();
    let last = segments.find(|segment| segment["flags"] == json!(["backup-final"]));
    last.unwrap()["offset"] = "65536".into();
    // Only the first of the two copies has this defect.
    let header = Luks2Header::read(&with_json(&storage, &json)).unwrap();
    let [warning] = header.warnings() else {
        panic!("{:?}", header.warnings())
    };
    let words = "before the keyslots area's end";
    assert!(warning.to_string().contains(words), "{warning}");
    // Data that were cut off, before the re-encryption began and after it finished.
    is_refused(
        &storage,
        &[(PREVIOUS, 0, mib)],
        None,
        "bytes of data in all",
    );
    is_refused(&storage, &[(FINAL, 0, mib)], None, "bytes of data in all");
}

#[test]
fn data_that_are_not_encrypted_yet_lie_where_they_were() {
    let scratch = Scratch::new();
    fs::write(scratch.path("data"), plaintext(LEN)).unwrap();
    let header = File::create(scratch.path("header")).unwrap();
    header.set_len(16 * MIB as u64).unwrap();
    scratch.succeed(&format!(
        "reencrypt -q --encrypt --init-only --key-file secret {CHEAP} --header header data"
    ));
    let storage = open(&scratch.path("header"));
    is_accepted(&storage, &[(PREVIOUS, 0, 0)]);
    is_accepted(&storage, &[(FINAL, 0, 8192), (PREVIOUS, 8192, 0)]);
    let cut = "bytes of data in all";
    is_refused(&storage, &[(PREVIOUS, 0, 4096)], None, cut);
    is_refused(
        &storage,
        &[(PREVIOUS, 4096, 0)],
        None,
        "must begin at byte 0",
    );
}

#[test]
fn data_that_are_shifted_lie_where_they_were_moved() {
    let (mib, all) = (MIB as u64, LEN as u64);
    let scratch = Scratch::new();
    let mut bytes = plaintext(LEN);
    bytes.resize(LEN + 2 * MIB, 0);
    fs::write(scratch.path("data"), bytes).unwrap();
    scratch.succeed(&format!(
        "reencrypt -q --encrypt --init-only --key-file secret {CHEAP} \
         --luks2-keyslots-size 512k --reduce-device-size 2M data"
    ));
    let storage = open(&scratch.path("data"));
    for good in [
        &[(MOVED, 0, mib), (PREVIOUS, mib, all - mib)][..],
        &[
            (MOVED, 0, mib),
            (PREVIOUS, mib, mib),
            (FINAL, 2 * mib, all - 2 * mib),
        ],
        &[(MOVED, 0, mib), (FINAL, mib, all - mib)],
        &[(FINAL, 0, 0)],
    ] {
        is_accepted(&storage, good);
    }
    is_refused(&storage, &[(MOVED, 0, 0)], None, "extends beyond");
    is_refused(&storage, &[(MOVED, 0, mib)], None, "bytes of data in all");
    is_refused(
        &storage,
        &[(MOVED, 0, mib), (PREVIOUS, mib, mib)],
        None,
        "bytes of data",
    );
    // The header is there now.
    is_refused(&storage, &[(PREVIOUS, 0, all)], None, "must begin at byte");
}
