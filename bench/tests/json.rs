// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `--json` writes has the form of the committed example. Speeds are not looked at.

use std::{env, fs, path::Path, process::Command};

use serde_json::Value;

#[test]
fn json_has_the_documented_form() {
    let file = env::temp_dir().join(format!("luxor-bench-json-{}", std::process::id()));
    let line = "cpu --quick --engine portable --size 1M --call 4K --unit 512 --key-size 256 \
                --direction encrypt --place in --json";
    let output = Command::new(env!("CARGO_BIN_EXE_luxor-bench"))
        .args(line.split_whitespace())
        .arg(&file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let found: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    fs::remove_file(&file).unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples/bench.json");
    let example: Value = serde_json::from_str(&fs::read_to_string(example).unwrap()).unwrap();
    assert_eq!(found["schema"], example["schema"]);
    let fields = |value: &Value| {
        let mut fields = Vec::new();
        list(value, "", &mut fields);
        fields
    };
    assert_eq!(fields(&found), fields(&example));
    assert!(
        found["cpu"]["rows"][0]["gb_per_s"]["median"]
            .as_f64()
            .unwrap()
            > 0.0
    );
}

/// Minutes of measuring would be lost otherwise.
#[test]
fn what_must_fail_fails_before_anything_is_measured() {
    let quick = "--quick --engine portable --size 1M --call 4K --unit 512 --key-size 256 \
                 --direction encrypt --place in";
    for (names, more) in [
        ("cpu file", ["--dir", "/nonexistent/folder"]),
        ("cpu", ["--json", "/nonexistent/folder/file"]),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_luxor-bench"))
            .args(names.split(' ').chain(quick.split_whitespace()))
            .args(more)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("/nonexistent/folder"), "{said}");
        assert!(output.stdout.is_empty(), "{more:?}");
    }
}

/// A file's name may be any bytes.
#[cfg(unix)]
#[test]
fn a_name_that_is_no_text_is_written_to() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

    let mut name = format!("luxor-bench-name-{}-", std::process::id()).into_bytes();
    name.push(0xff);
    let file = env::temp_dir().join(OsStr::from_bytes(&name));
    let line = "cpu --quick --engine portable --size 1M --call 4K --unit 512 --key-size 256 \
                --direction encrypt --place in --json";
    let output = Command::new(env!("CARGO_BIN_EXE_luxor-bench"))
        .args(line.split_whitespace())
        .arg(&file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let found: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    fs::remove_file(&file).unwrap();
    assert!(found["command"].is_array());
}

/// The names of all fields, in order; a list has those of its first element.
fn list(value: &Value, at: &str, fields: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                let name = format!("{at}.{name}");
                fields.push(name.clone());
                list(value, &name, fields);
            }
        }
        // Which limits there are depends on the CPU.
        Value::Array(array) if !at.ends_with(".limits") => {
            if let Some(first) = array.first() {
                list(first, at, fields);
            }
        }
        _ => {}
    }
}
