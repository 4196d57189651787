// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the texts in the sources of the program and its libraries.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Programs that messages call.
const PROGRAMS: [&str; 17] = [
    "mkdir",
    "e2fsck",
    "luxor",
    "cryptsetup",
    "losetup",
    "fusermount3",
    "tar",
    "truncate",
    "modprobe",
    "tr",
    "cargo",
    "clevis",
    "ulimit",
    "chmod",
    "iconv",
    "qemu-img",
    "tail",
];

/// Words that follow `luxor` only in a command.
const COMMANDS: [&str; 19] = [
    "encrypt",
    "decrypt",
    "format",
    "resize",
    "reencrypt",
    "dump",
    "check",
    "header",
    "convert",
    "erase",
    "key",
    "token",
    "config",
    "mount",
    "umount",
    "serve",
    "raw",
    "engines",
    "report",
];

/// A string in a source file.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) literal: String,
    pub(super) file: PathBuf,
}

/// Returns the texts that name an option or a command.
pub(super) fn texts() -> Vec<Text> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for of_crate in fs::read_dir(crates).unwrap() {
        collect(&of_crate.unwrap().path().join("src"), &mut files);
    }
    files.sort();
    let mut texts = Vec::new();
    for file in files {
        let name = file.to_str().unwrap();
        // Help is a document: `examples.rs` executes its examples.
        let help = ["cli/src/args", "cli/src/commands/definition"];
        let is_other = ["/tests", "/testing", "/faulty"].iter().chain(&help);
        if is_other.into_iter().any(|part| name.contains(part)) {
            continue;
        }
        let source = fs::read_to_string(&file).unwrap();
        let source = source.split("#[cfg(test)]\nmod tests").next().unwrap();
        let found = literals(&without_help(source))
            .into_iter()
            .filter(|text| advises(text));
        texts.extend(found.map(|literal| Text {
            literal,
            file: file.clone(),
        }));
    }
    texts
}

/// Returns the text of all tests of this crate.
pub(super) fn tests() -> String {
    let mut files = Vec::new();
    collect(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests"),
        &mut files,
    );
    let sources = files.iter().map(|file| fs::read_to_string(file).unwrap());
    sources.collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Whether the text names an option, or calls a program.
fn advises(text: &str) -> bool {
    if !text.contains(' ') {
        return false;
    }
    let words: Vec<_> = text.split([' ', '\n', '(', '`']).collect();
    let is_option = |word: &&str| {
        let name = word.strip_prefix("--");
        name.is_some_and(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
    };
    // The names of options that two commands call differently.
    let stands_for_one = ["{option}", "{key_file}", "{descriptor}", "{size_name}"];
    let is_option = |word: &&str| {
        is_option(word) || stands_for_one.iter().any(|option| word.starts_with(option))
    };
    let calls = |program| {
        ["", "(umask 077; "]
            .iter()
            .any(|before| text.contains(&format!("`{before}{program} ")))
    };
    words.iter().any(is_option)
        || PROGRAMS.iter().any(calls)
        || !commands(text).is_empty()
        || text.contains("`{command}`")
}

/// Returns the places in a text where a command of Luxor begins.
fn commands(text: &str) -> Vec<usize> {
    let places = text.match_indices("luxor ");
    let is_command = |at: &usize| {
        let name = text[at + "luxor ".len()..].split(|c: char| !c.is_ascii_lowercase());
        let name = name.into_iter().next().unwrap_or_default();
        COMMANDS.contains(&name)
    };
    places.map(|(at, _)| at).filter(is_command).collect()
}

/// Returns whether each command of Luxor in the text is between backticks.
pub(super) fn are_commands_marked(text: &str) -> bool {
    // An odd number of backticks precedes a command: the end of one is not the beginning of another.
    let is_marked = |at: &usize| text[..*at].matches('`').count() % 2 == 1;
    commands(text).iter().all(is_marked)
}

/// Returns Rust's source without the attributes that define the help of a command.
fn without_help(source: &str) -> String {
    let mut parts = source.split("#[command(");
    let first = parts.next().unwrap_or_default();
    let others = parts.map(|part| part.split_once(")]\n").expect("an attribute ends").1);
    [first].into_iter().chain(others).collect()
}

/// Returns the strings of Rust's source, as they are at run time.
fn literals(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(at) = rest.find(['/', '"', '\'', 'r']) {
        let (before, from) = rest.split_at(at);
        let follows_word = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let hashes = from[1..].chars().take_while(|&c| c == '#').count();
        if from.starts_with("//") {
            rest = from.split_once('\n').map_or("", |(_, rest)| rest);
        } else if from.starts_with("/*") {
            rest = from.split_once("*/").map_or("", |(_, rest)| rest);
        } else if from.starts_with('r') && from[1 + hashes..].starts_with('"') && !follows_word {
            let end = format!("\"{}", "#".repeat(hashes));
            let (literal, after) = from[2 + hashes..].split_once(&end).unwrap();
            found.push(literal.to_owned());
            rest = after;
        } else if let Some(after) = from.strip_prefix('"') {
            let (literal, after) = literal(after);
            found.push(literal);
            rest = after;
        } else if let Some(after) = from.strip_prefix("'\\") {
            rest = after[1..].split_once('\'').unwrap().1;
        } else if let Some(after) = from.strip_prefix('\'') {
            let mut chars = from.chars().skip(1);
            let is_char = chars.nth(1) == Some('\'');
            let len = from.chars().take(3).map(char::len_utf8).sum();
            rest = if is_char { &from[len..] } else { after };
        } else {
            rest = &from[1..];
        }
    }
    found
}

/// Returns a string up to its closing quote, and what follows.
fn literal(source: &str) -> (String, &str) {
    let mut text = String::new();
    let mut chars = source.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (text, &source[at + 1..]),
            '\\' => match chars.next().map(|(_, c)| c) {
                Some('\n') => {
                    let rest = chars.as_str();
                    let skipped = rest.len() - rest.trim_start().len();
                    for _ in 0..skipped {
                        chars.next();
                    }
                }
                Some('n') => text.push('\n'),
                Some(c) => text.push(c),
                None => break,
            },
            c => text.push(c),
        }
    }
    panic!("a string has no end")
}
