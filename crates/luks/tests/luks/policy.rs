// SPDX-License-Identifier: MIT OR Apache-2.0
//! Header digests, and requirements for headers.

use std::{fs, process::Command};

use luxor_luks::{Encryption, HeaderPolicy, PbkdfKind, PolicyError, VolumeHeader};
use luxor_sector::MemoryStorage;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::replace_json;

/// Returns a volume that cryptsetup created, with one keyslot.
fn formatted(options: &str) -> Vec<u8> {
    changed(options, &[])
}

/// Returns such a volume with more keyslots, each added with its own options.
fn changed(options: &str, keyslots: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("key"), "key").unwrap();
    fs::write(path("volume"), vec![0; 3 << 20]).unwrap();
    let cryptsetup = |line: &str| {
        let output = Command::new("cryptsetup")
            .args(line.split_whitespace())
            .current_dir(folder.path())
            .output()
            .expect("cryptsetup must be installed");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "cryptsetup {line}: {errors}");
    };
    cryptsetup(&format!(
        "luksFormat --batch-mode --key-file key {options} volume"
    ));
    for options in keyslots {
        cryptsetup(&format!(
            "luksAddKey --batch-mode --key-file key {options} volume key"
        ));
    }
    fs::read(path("volume")).unwrap()
}

const PBKDF2: &str = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";
const ARGON2: &str =
    "--pbkdf argon2id --pbkdf-memory 32 --pbkdf-parallel 1 --pbkdf-force-iterations 4";
/// The least costs that a requirement accepts.
const STRONG_PBKDF2: &str = "--pbkdf pbkdf2 --hash sha256 --pbkdf-force-iterations 600000";
const STRONG_ARGON2: &str =
    "--pbkdf argon2id --pbkdf-memory 9216 --pbkdf-parallel 1 --pbkdf-force-iterations 4";
const LUKS2: &str = "--type luks2 --luks2-keyslots-size 1m --offset 4096";

fn read(bytes: &[u8]) -> VolumeHeader {
    VolumeHeader::read(&MemoryStorage::new(bytes.to_vec())).unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_digest_is_of_the_bytes_that_are_parsed() {
    let luks1 = formatted(&format!("--type luks1 {PBKDF2}"));
    assert_eq!(read(&luks1).digest().to_string(), sha256(&luks1[..592]));
    let luks2 = formatted(&format!("{LUKS2} {PBKDF2}"));
    let of_primary = sha256(&luks2[..0x4000]);
    assert_eq!(read(&luks2).digest().to_string(), of_primary);

    // Every byte of them matters, and no byte after them.
    for (bytes, end) in [(&luks1, 592), (&luks2, 0x4000)] {
        let before = read(bytes).digest();
        for at in (0..end).step_by(13) {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x20;
            // A damaged header is not accepted, or the other copy is used.
            let header = VolumeHeader::read(&MemoryStorage::new(bytes));
            assert!(
                header.is_err() || header.unwrap().digest() != before,
                "{at}"
            );
        }
        for at in [0x1_0000, bytes.len() - 1] {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x20;
            assert_eq!(read(&bytes).digest(), before);
        }
    }
    let mut damaged = luks2.clone();
    damaged[0] ^= 1;
    let of_secondary = sha256(&luks2[0x4000..0x8000]);
    assert_eq!(read(&damaged).digest().to_string(), of_secondary);
    let mut damaged = luks2;
    damaged[0x4000] ^= 1;
    assert_eq!(read(&damaged).digest().to_string(), of_primary);
}

#[test]
fn each_requirement_holds_for_all_keyslots() {
    let volume = read(&changed(
        &format!("{LUKS2} {STRONG_ARGON2}"),
        &[STRONG_ARGON2, STRONG_PBKDF2],
    ));
    let luks1 = read(&formatted(&format!(
        "--type luks1 --cipher aes-cbc-essiv:sha256 --key-size 256 {STRONG_PBKDF2}"
    )));
    let none = HeaderPolicy::default();
    assert!(none.is_empty());
    none.check(&volume).unwrap();
    none.check(&luks1).unwrap();

    let pbkdfs = |kinds: &[PbkdfKind]| HeaderPolicy {
        pbkdfs: kinds.to_vec(),
        ..HeaderPolicy::default()
    };
    let both = [PbkdfKind::Argon2id, PbkdfKind::Pbkdf2];
    pbkdfs(&both).check(&volume).unwrap();
    pbkdfs(&both[1..]).check(&luks1).unwrap();
    assert!(!pbkdfs(&both).is_empty());
    assert_eq!(
        pbkdfs(&both[..1]).check(&volume),
        Err(PolicyError::Pbkdf {
            keyslot: 2,
            found: PbkdfKind::Pbkdf2,
            required: both[..1].to_vec(),
        })
    );
    let error = pbkdfs(&[PbkdfKind::Argon2i, PbkdfKind::Argon2id])
        .check(&luks1)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "keyslot 0 uses pbkdf2, and argon2i or argon2id is required"
    );

    let encryptions = |encryptions: &[Encryption]| HeaderPolicy {
        encryptions: encryptions.to_vec(),
        ..HeaderPolicy::default()
    };
    let xts = encryptions(&[Encryption::AesXtsPlain64]);
    xts.check(&volume).unwrap();
    assert!(matches!(
        xts.check(&luks1),
        Err(PolicyError::Encryption { found, .. }) if found == "aes-cbc-essiv:sha256"
    ));
    let essiv = encryptions(&[Encryption::AesCbcPlain, Encryption::AesCbcEssivSha256]);
    essiv.check(&luks1).unwrap();
    essiv.check(&volume).unwrap_err();
}

/// Returns `bytes`, a volume with one keyslot, with these values in the metadata.
fn with(bytes: &[u8], changes: &[(&str, Value)]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for begin in [0, 0x4000] {
        let copy = &mut bytes[begin..begin + 0x4000];
        let text = copy[4096..].split(|&byte| byte == 0).next().unwrap();
        let mut json: Value = serde_json::from_slice(text).unwrap();
        for (path, value) in changes {
            *json.pointer_mut(path).unwrap() = value.clone();
        }
        let text = json.to_string();
        replace_json(copy, &text);
    }
    bytes
}

/// The name of a good function is not enough: its costs must be high enough too.
#[test]
fn a_required_key_derivation_has_a_least_cost() {
    let check = |bytes: &[u8], kind: PbkdfKind| {
        let policy = HeaderPolicy {
            pbkdfs: vec![kind],
            ..HeaderPolicy::default()
        };
        policy.check(&read(bytes))
    };
    let argon2 = formatted(&format!("{LUKS2} {ARGON2}"));
    let of_argon2 = |kind: PbkdfKind, time: u32, memory: u32| {
        let changes = [
            ("/keyslots/0/kdf/type", json!(kind.name())),
            ("/keyslots/0/kdf/time", json!(time)),
            ("/keyslots/0/kdf/memory", json!(memory)),
        ];
        check(&with(&argon2, &changes), kind)
    };
    let (id, i) = (PbkdfKind::Argon2id, PbkdfKind::Argon2i);
    assert!(matches!(
        check(&argon2, id),
        Err(PolicyError::Cheap { keyslot: 0, .. })
    ));
    // OWASP's five choices, the least that cryptsetup and luxor choose when they measure on a slow
    // machine, and RFC 9106's second choice.
    for (time, memory) in [
        (1, 47104),
        (2, 19456),
        (3, 12288),
        (4, 9216),
        (5, 7168),
        (4, 65536),
        (3, 65536),
    ] {
        of_argon2(id, time, memory).unwrap();
        assert_eq!(of_argon2(i, time, memory).is_ok(), time >= 3, "{time}");
    }
    for (time, memory) in [
        (1, 8),
        (4, 32),
        (1, 19456),
        (2, 12288),
        (4, 7168),
        (1000, 7167),
        (u32::MAX, 8),
    ] {
        let error = of_argon2(id, time, memory).unwrap_err();
        let words = error.to_string();
        assert!(
            words.contains(&format!("{memory} KiB")) && words.contains("7168 KiB"),
            "{words}"
        );
    }

    let pbkdf2 = formatted(&format!("{LUKS2} {PBKDF2}"));
    for (hash, least) in [
        ("sha1", 1_300_000),
        ("ripemd160", 1_300_000),
        ("sha256", 600_000),
        ("sha512", 210_000),
        ("whirlpool", 210_000),
    ] {
        for (iterations, accepted) in [(least, true), (least - 1, false), (1000, false)] {
            let changes = [
                ("/keyslots/0/kdf/hash", json!(hash)),
                ("/keyslots/0/kdf/iterations", json!(iterations)),
            ];
            let result = check(&with(&pbkdf2, &changes), PbkdfKind::Pbkdf2);
            assert_eq!(result.is_ok(), accepted, "{hash} {iterations}");
            if let Err(error) = result {
                assert!(error.to_string().contains(&least.to_string()), "{error}");
            }
        }
    }

    // Key derivations that cannot be checked.
    let unknown = [
        ("/keyslots/0/kdf/hash", json!("blake2b-512")),
        ("/keyslots/0/kdf/iterations", json!(u32::MAX)),
    ];
    let error = check(&with(&pbkdf2, &unknown), PbkdfKind::Pbkdf2).unwrap_err();
    assert!(error.to_string().contains("blake2b-512"), "{error}");
    for kind in [PbkdfKind::Pbkdf2, id] {
        let changes = [("/keyslots/0/kdf/type", json!("scrypt"))];
        let error = check(&with(&pbkdf2, &changes), kind).unwrap_err();
        assert!(
            matches!(&error, PolicyError::ForeignKeyslot { keyslot: 0, what } if what.contains("scrypt")),
            "{error}"
        );
    }
}

#[test]
fn a_keyslots_cipher_counts() {
    let keyslot = format!("{PBKDF2} --keyslot-cipher aes-cbc-plain64 --keyslot-key-size 256");
    let volume = read(&changed(&format!("{LUKS2} {PBKDF2}"), &[&keyslot]));
    let policy = HeaderPolicy {
        encryptions: vec![Encryption::AesXtsPlain64],
        ..HeaderPolicy::default()
    };
    assert!(matches!(
        policy.check(&volume),
        Err(PolicyError::KeyslotEncryption { keyslot: 1, found, .. }) if found == "aes-cbc-plain64"
    ));
}

#[test]
fn a_pinned_header_is_the_only_one() {
    let options = format!("{LUKS2} {PBKDF2}");
    let (ours, other) = (read(&formatted(&options)), read(&formatted(&options)));
    let pinned = HeaderPolicy {
        digest: Some(ours.digest()),
        ..HeaderPolicy::default()
    };
    pinned.check(&ours).unwrap();
    let error = pinned.check(&other).unwrap_err();
    assert_eq!(
        error,
        PolicyError::Digest {
            found: other.digest(),
            expected: ours.digest()
        }
    );
    assert!(error.to_string().contains(&other.digest().to_string()));
}
