// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metadata that would cost much memory or time.

use std::time::Duration;

use luxor_luks::{
    CostError, KeyslotError, Luks2Header, PbkdfKind, Skipped, UnlockError, UnlockOptions,
};
use luxor_sector::MemoryStorage;
use serde_json::{Map, Value, json};

use super::support::{SECRET, attempt, base64, changed, cpu_time, json_text, volume, with_json};
use crate::backend;

#[test]
fn big_and_deep_json_is_read_or_refused_fast() {
    let volume = volume(PbkdfKind::Pbkdf2);
    let room = (4 << 20) - 4096 - 1;
    let token = |inner: &str, close: &str| {
        // The sizes and offsets of a header of 4 MiB.
        let json = json_text(&volume)
            .replace("\"12288\"", &format!("\"{}\"", room + 1))
            .replace("\"16744448\"", "\"8388608\"")
            .replace("\"offset\":\"32768\"", "\"offset\":\"8388608\"");
        let (before, after) = json.split_once("\"tokens\":{").unwrap();
        let before = format!("{before}\"tokens\":{{\"1\":{{\"type\":\"x\",\"keyslots\":[],\"y\":");
        let left = room - before.len() - after.len() - close.len() - 10;
        let inner = inner.repeat(left / inner.len());
        format!("{before}{inner}{close}}},{after}")
    };
    let keys: String = (0..290_000).map(|i| format!("\"{i}\":0,")).collect();
    let json = token(" ", &format!("{{{keys}\"x\":1}}"));
    assert!(json.len() <= room && json.len() > 3 << 20, "{}", json.len());
    attempt(with_json(&volume, json.as_bytes())).unwrap();
    let json = token(" ", &format!("[{}0]", "0,".repeat(1 << 20)));
    attempt(with_json(&volume, json.as_bytes())).unwrap();
    let twice = format!("{{{}\"x\":1}}", "\"x\":0,".repeat(500_000));
    attempt(with_json(&volume, token(" ", &twice).as_bytes())).unwrap();
    for (inner, close, words) in [
        ("[", "", "deeper than 32 levels"),
        ("{\"a\":", "", "deeper than 32 levels"),
        ("[", "]", "deeper than 32 levels"),
        ("\"\\u0041\",", "1", "not valid JSON"),
    ] {
        let error = attempt(with_json(&volume, token(inner, close).as_bytes())).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn hostile_costs_are_refused_at_once_and_named_overrides_lift_them() {
    const BILLION: u32 = 1_000_000_000;
    let unlock = |bytes: &[u8], memory_limit_kib, iterations_limit| {
        let storage = MemoryStorage::new(bytes.to_vec());
        let options = UnlockOptions {
            memory_limit_kib,
            iterations_limit,
            ..UnlockOptions::default()
        };
        let begin = cpu_time();
        let result =
            Luks2Header::read(&storage)
                .unwrap()
                .unlock(&storage, SECRET, &*backend(), &options);
        let took = cpu_time() - begin;
        assert!(took < Duration::from_secs(10), "{took:?}");
        result.unwrap_err()
    };
    let pbkdf2 = volume(PbkdfKind::Pbkdf2);
    let argon2 = volume(PbkdfKind::Argon2id);
    let billion = Some(json!(BILLION));

    let keyslot = changed(&pbkdf2, &[("keyslots/0/kdf/iterations", billion.clone())]);
    let error = unlock(&keyslot, None, None);
    assert!(matches!(
        error,
        UnlockError::Keyslot {
            error: KeyslotError::Limit(_),
            ..
        }
    ));
    assert!(
        matches!(
            error.limit(),
            Some(CostError::Iterations {
                iterations: BILLION,
                ..
            })
        ),
        "{error}"
    );

    let digest = changed(&pbkdf2, &[("digests/0/iterations", billion.clone())]);
    let error = unlock(&digest, None, None);
    assert!(matches!(error, UnlockError::DigestLimit { digest: 0, .. }));
    assert!(
        matches!(
            error.limit(),
            Some(CostError::Iterations {
                iterations: BILLION,
                ..
            })
        ),
        "{error}"
    );

    // More than the limit of each of these hashes, but within SHA-256's.
    for (hash, len) in [
        ("sha1", 20),
        ("sha512", 64),
        ("ripemd160", 20),
        ("whirlpool", 64),
    ] {
        let dear = Some(json!(49_000_000));
        let value = Some(json!(hash));
        let keyslot = changed(
            &pbkdf2,
            &[
                ("keyslots/0/kdf/hash", value.clone()),
                ("keyslots/0/kdf/iterations", dear.clone()),
            ],
        );
        let error = unlock(&keyslot, None, None);
        assert!(
            matches!(
                error.limit(),
                Some(CostError::Iterations {
                    iterations: 49_000_000,
                    ..
                })
            ),
            "{error}"
        );
        let digest = changed(
            &pbkdf2,
            &[
                ("digests/0/hash", value),
                ("digests/0/iterations", dear),
                ("digests/0/digest", Some(base64(len))),
            ],
        );
        // A digest of 20 bytes is one block of SHA-1, and a fourth as expensive as the keyslot.
        if hash != "sha1" {
            let error = unlock(&digest, None, None);
            assert!(
                matches!(error, UnlockError::DigestLimit { digest: 0, .. }),
                "{hash}: {error}"
            );
        }
    }

    let passes = changed(&argon2, &[("keyslots/0/kdf/time", billion)]);
    let error = unlock(&passes, None, None);
    assert!(
        matches!(error.limit(), Some(CostError::Passes { time: BILLION, .. })),
        "{error}"
    );

    let memory = changed(
        &argon2,
        &[("keyslots/0/kdf/memory", Some(json!(100 << 20)))],
    );
    let error = unlock(&memory, None, None);
    assert!(
        matches!(
            error.limit(),
            Some(CostError::Memory {
                kib: 104_857_600,
                ..
            })
        ),
        "{error}"
    );
    assert!(!error.is_out_of_memory());
    // With the overrides the memory of the machine decides, before anything is allocated.
    let error = unlock(&memory, Some(100 << 20), None);
    assert!(error.is_out_of_memory(), "{error}");
    assert!(error.to_string().contains("104857600 KiB"), "{error}");
}

/// Each keyslot is within the limits. All together would take eight times the total limit.
#[test]
fn many_keyslots_cost_no_more_than_all_may() {
    let volume = volume(PbkdfKind::Pbkdf2);
    let json: Value = serde_json::from_str(json_text(&volume)).unwrap();
    let mut keyslots = Map::new();
    for number in 0..32 {
        let mut keyslot = json["keyslots"]["0"].clone();
        keyslot["area"]["offset"] = json!((32768 + 258_048 * number).to_string());
        match number {
            0 => {}
            // Too expensive by itself, and unsupported: neither is charged.
            1 => keyslot["kdf"]["iterations"] = json!(60_000_000),
            2 => keyslot["af"]["hash"] = json!("sha3-256"),
            _ => keyslot["kdf"]["iterations"] = json!(20_000_000),
        }
        keyslots.insert(number.to_string(), keyslot);
    }
    let numbers: Vec<_> = (0..32).map(|number: u32| number.to_string()).collect();
    let bytes = changed(
        &volume,
        &[
            ("keyslots", Some(Value::Object(keyslots))),
            ("digests/0/keyslots", Some(json!(numbers))),
        ],
    );
    // Only the first keyslot has an area, so the expensive ones derive nothing.
    let storage = MemoryStorage::new(bytes);
    let header = Luks2Header::read(&storage).unwrap();
    let unlock = |options| header.unlock(&storage, b"wrong", &*backend(), &options);
    let error = unlock(UnlockOptions::default()).unwrap_err();
    let UnlockError::WrongSecret { tried, skipped } = error else {
        panic!("{error}")
    };
    assert_eq!(tried, [0]);
    assert_eq!(skipped.len(), 31);
    for Skipped { keyslot, error, .. } in skipped {
        let expected = match keyslot {
            1 => matches!(error, KeyslotError::Limit(CostError::Iterations { .. })),
            2 => matches!(error, KeyslotError::Unsupported { .. }),
            3..=5 => matches!(error, KeyslotError::Io { .. }),
            _ => matches!(error, KeyslotError::Limit(CostError::Total { .. })),
        };
        assert!(expected, "{keyslot}: {error}");
    }
    // Requesting some keyslots by number does not raise the total limit.
    let error = unlock(UnlockOptions {
        keyslots: (1..32).collect(),
        ..UnlockOptions::default()
    })
    .unwrap_err();
    let UnlockError::Keyslot { keyslot: 1, error } = error else {
        panic!("{error}")
    };
    assert!(matches!(error, KeyslotError::Limit(_)), "{error}");
    let error = unlock(UnlockOptions {
        keyslots: [0].into_iter().chain(3..32).collect(),
        ..UnlockOptions::default()
    })
    .unwrap_err();
    let UnlockError::WrongSecret { tried, skipped } = error else {
        panic!("{error}")
    };
    assert_eq!((tried, skipped.len()), (vec![0], 29));
    let of_total = skipped
        .iter()
        .filter(|skipped| matches!(skipped.error, KeyslotError::Limit(CostError::Total { .. })));
    assert_eq!(of_total.count(), 26);
    // The message recommends this.
    let error = unlock(UnlockOptions {
        keyslots: vec![31],
        ..UnlockOptions::default()
    })
    .unwrap_err();
    let UnlockError::Keyslot { keyslot: 31, error } = error else {
        panic!("{error}")
    };
    assert!(matches!(error, KeyslotError::Io { .. }), "{error}");
}
