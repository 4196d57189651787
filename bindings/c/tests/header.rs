// SPDX-License-Identifier: MIT OR Apache-2.0
//! The committed header is what cbindgen makes of the source, and the shared library exports what it
//! declares.

use std::{collections::BTreeSet, env, fs, path::Path};

use cbindgen::{Builder, Config};

/// The sources, in the order of the header.
const SOURCES: [&str; 5] = ["error", "process", "options", "xts", "volume"];

#[test]
fn the_header_is_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = Config::from_file(folder.join("cbindgen.toml")).unwrap();
    let builder = SOURCES.iter().fold(Builder::new(), |builder, name| {
        builder.with_src(folder.join(format!("src/{name}.rs")))
    });
    let mut made = Vec::new();
    builder
        .with_config(config)
        .generate()
        .unwrap()
        .write(&mut made);
    let made = String::from_utf8(made).unwrap();

    let header = folder.join("include/luxor.h");
    if env::var_os("LUXOR_WRITE_HEADER").is_some() {
        fs::write(header, made).unwrap();
    } else {
        let committed = fs::read_to_string(header).unwrap();
        assert!(
            committed == made,
            "include/luxor.h is not up to date: run \
             `LUXOR_WRITE_HEADER=1 cargo test --package luxor-c`"
        );
    }
}

#[test]
fn the_map_lists_every_function_of_the_header() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Returns the names that begin with `luxor_` and stand before `end`.
    let names = |file: &str, end: char| -> BTreeSet<String> {
        let text = fs::read_to_string(folder.join(file)).unwrap();
        let parts = text.split_inclusive(|c: char| !c.is_alphanumeric() && c != '_');
        parts
            .filter_map(|part| part.strip_suffix(end))
            .filter(|name| name.starts_with("luxor_"))
            .map(str::to_owned)
            .collect()
    };
    let functions = names("include/luxor.h", '(');
    assert!(functions.len() > 20, "{functions:?}");
    assert_eq!(names("libluxor.map", ';'), functions);
}
