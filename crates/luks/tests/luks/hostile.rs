// SPDX-License-Identifier: MIT OR Apache-2.0
//! Damaged and hostile headers. Each must result in an error message or in a volume, in under a
//! second and without a panic.

mod copies;
mod costs;
mod key_lengths;
mod odd_objects;
mod rules;
pub(crate) mod support;

use luxor_luks::PbkdfKind;
use serde_json::Value;

use support::{attempt, changed, json_text, volume, with_json};

#[test]
fn json_of_every_wrong_type_is_an_error_or_a_volume() {
    let replacements = [
        "null",
        "true",
        "-1",
        "0",
        "1",
        "1.5",
        "1e400",
        "1e308",
        "4294967295",
        "4294967296",
        "18446744073709551616",
        "\"\"",
        "\"x\"",
        "\"0\"",
        "\"1\"",
        "\"-1\"",
        "\"18446744073709551615\"",
        "\"18446744073709551616\"",
        "\"999999999999999999999999\"",
        "[]",
        "[\"0\"]",
        "[\"0\",\"0\"]",
        "[\"9\"]",
        "{}",
        "{\"0\":{}}",
        "{\"0\":null}",
    ];
    let mut errors = 0;
    let mut volumes = 0;
    for kind in [PbkdfKind::Pbkdf2, PbkdfKind::Argon2id] {
        let volume = volume(kind);
        let json: Value = serde_json::from_str(json_text(&volume)).unwrap();
        let mut paths = Vec::new();
        every_path(&json, String::new(), &mut paths);
        assert!(paths.len() > 45, "{paths:?}");
        for path in &paths {
            let mut marked = json.clone();
            *marked.pointer_mut(path).unwrap() = "@".into();
            let marked = marked.to_string();
            for replacement in replacements {
                let text = marked.replace("\"@\"", replacement);
                match attempt(with_json(&volume, text.as_bytes())) {
                    Ok(_) => volumes += 1,
                    Err(_) => errors += 1,
                }
            }
            if let Some(member) = path.strip_prefix('/')
                && let Some((parent, _)) = path.rsplit_once('/')
                && json.pointer(parent).unwrap().is_object()
            {
                let _ = attempt(changed(&volume, &[(member, None)]));
            }
        }
    }
    println!("{errors} errors, {volumes} volumes");
    // Some changed values are still valid. One iteration more or less gives another key, but an
    // iv_tweak of 1 is a valid volume.
    assert!(
        errors > 10 * volumes && volumes > 0,
        "{errors} errors, {volumes} volumes"
    );
}

fn every_path(json: &Value, path: String, paths: &mut Vec<String>) {
    match json {
        Value::Object(object) => {
            for (key, value) in object {
                every_path(value, format!("{path}/{key}"), paths);
            }
        }
        Value::Array(array) => {
            for (i, value) in array.iter().enumerate() {
                every_path(value, format!("{path}/{i}"), paths);
            }
        }
        _ => {}
    }
    paths.push(path);
}

const SPECIAL: &[u8] = b" {}[]\",:0129-.eE\\u\x01\x7fnt";

#[test]
fn random_damage_under_true_checksums_never_panics() {
    let volume = volume(PbkdfKind::Pbkdf2);
    let json = json_text(&volume).as_bytes();
    let seed = 0x1ce_b00d_u64;
    println!("seed {seed:#x}");
    let mut state = seed;
    let mut random = |below: usize| {
        // xorshift64 (Marsaglia 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap()
    };
    let mut opened = 0;
    for _ in 0..3000 {
        let mut text = json.to_vec();
        for _ in 0..=random(3) {
            let at = random(text.len());
            match random(4) {
                0 => text[at] = SPECIAL[random(SPECIAL.len())],
                1 => drop(text.splice(at..(at + random(20)).min(text.len()), [])),
                2 => {
                    let from = random(text.len());
                    let piece = text[from..(from + random(60)).min(text.len())].to_vec();
                    drop(text.splice(at..at, piece));
                }
                _ => text[at] ^= 1 << random(8),
            }
        }
        opened += usize::from(attempt(with_json(&volume, &text)).is_ok());
    }
    println!("{opened} of 3000 opened all the same");
    assert!(opened < 1000);
}
