// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the examples, and checks that the page of the library names them.

use std::{collections::BTreeSet, env, ffi::OsStr, fs, path::Path, process::Command};

#[test]
fn every_example_runs_and_is_in_the_table() {
    let page = include_str!("../src/lib.rs");
    let named: BTreeSet<&str> = page
        .split("`examples/")
        .skip(1)
        .filter_map(|rest| rest.split(".rs`").next())
        .collect();
    let this = env::current_exe().unwrap();
    let built = this.ancestors().nth(2).unwrap().join("examples");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().and_then(OsStr::to_str).unwrap().to_owned();
        // `xts` is a measurement, which has arguments.
        if path.extension() != Some("rs".as_ref()) || name == "xts" {
            continue;
        }
        let output = Command::new(built.join(&name)).output();
        let output =
            output.expect("the examples are not built: run `cargo build -p luxor --examples`");
        assert!(output.status.success(), "{name}: {output:?}");
        found.insert(name);
    }
    assert!(named.iter().eq(found.iter()), "{named:?} {found:?}");
}
