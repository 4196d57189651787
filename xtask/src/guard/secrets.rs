// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks with memcheck that no branch and no address depends on secrets: the programs declare
//! them undefined, and memcheck tracks them through all computations.
//!
//! A few branches must depend on secrets, because their outcome is public: whether a passphrase
//! opens a keyslot. [`DECISIONS`] lists them. Memcheck does not report them, but counts them.

use std::{
    fmt::Write,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use crate::process::{self, command};

/// The exit status of valgrind if memcheck has reported something.
const REPORTED: i32 = 99;

/// The functions that decide by a secret: their names, as the compiler writes them, and the number
/// of branches that `handled` makes them take: one for each decision. A comparison that stops at the
/// first difference, and a loop, take more.
const DECISIONS: [(&str, u64); 4] = [
    // Whether a volume key is that of a digest.
    ("6digest6Digest7confirm", 48),
    // Whether the halves of an XTS key are equal.
    ("3key6XtsKey3new", 18),
    // Whether a key was derived from this passphrase before.
    ("9key_cache8KeyCache6derive", 1),
    // Whether a sector begins like a trailer, and whether its HMAC is right.
    ("7trailer10TrailerKey6length", 5),
];

/// Lets memcheck watch `engines` in the program `watched`, also where threads share a data unit. It
/// must report the table look-ups of the reference's AES, and nothing in the engines.
pub fn check_kernels(watched: &Path, engines: &[&str]) -> Result<String, String> {
    process::run(memcheck(watched, &[engines, &["parts"]].concat()))?;
    reports(watched, "reference")?;
    Ok(engines.join(", "))
}

/// Lets memcheck watch the code outside the kernels, in the program `handled`. It must report the
/// planted mistakes and nothing else, and count each of [`DECISIONS`].
pub fn check_others(handled: &Path) -> Result<String, String> {
    reports(handled, "tables")?;
    reports(handled, "comparison")?;
    let (expected, log) = (
        handled.with_extension("supp"),
        handled.with_extension("log"),
    );
    let failed = |path: &Path, error| format!("{}: {error}", path.display());
    fs::write(&expected, suppressions()).map_err(|error| failed(&expected, error))?;
    let mut watch = command("valgrind");
    options(&mut watch)
        .arg("--verbose")
        .arg(format!("--suppressions={}", expected.display()))
        .arg(format!("--log-file={}", log.display()))
        .arg(handled);
    let outcome = process::run(watch);
    let log = fs::read_to_string(&log).map_err(|error| failed(&log, error))?;
    if let Err(error) = outcome {
        println!("{log}");
        return Err(error);
    }
    for (function, expected) in DECISIONS {
        let found = taken(&log, function);
        if found != expected {
            return Err(format!(
                "{function} branches {found} times on secrets, instead of {expected}"
            ));
        }
    }
    Ok("keyslots, trailers, digits".to_owned())
}

fn options(memcheck: &mut Command) -> &mut Command {
    memcheck
        .env_remove("VALGRIND_OPTS")
        .arg("--tool=memcheck")
        .arg(format!("--error-exitcode={REPORTED}"))
}

fn memcheck(program: &Path, names: &[&str]) -> Command {
    let mut memcheck = command("valgrind");
    options(&mut memcheck)
        .arg("--quiet")
        .arg(program)
        .args(names)
        .stdout(Stdio::null());
    memcheck
}

/// Checks that memcheck reports what `program` does under this name.
fn reports(program: &Path, name: &str) -> Result<(), String> {
    let mut memcheck = memcheck(program, &[name]);
    let status = memcheck.stderr(Stdio::null()).status();
    let status = status.map_err(|error| format!("{}: {error}", process::line(&memcheck)))?;
    if status.code() == Some(REPORTED) {
        Ok(())
    } else {
        Err(format!("memcheck does not report the planted \"{name}\""))
    }
}

/// The decisions in memcheck's form. Only branches in the function itself, not in those it calls.
fn suppressions() -> String {
    let mut text = String::new();
    for (function, _) in DECISIONS {
        let _ = writeln!(text, "{{\n{function}\nMemcheck:Cond\nfun:*{function}*\n}}");
    }
    text
}

/// Returns how often memcheck suppressed a branch of `function`, from a line such as
/// `--12-- used_suppression:     48 NAME FILE:3 suppressed: 0 bytes in 0 blocks`.
fn taken(log: &str, function: &str) -> u64 {
    let mut lines = log.lines().filter_map(|line| {
        let (_, rest) = line.split_once("used_suppression:")?;
        let mut words = rest.split_whitespace();
        let count = words.next()?.parse().ok()?;
        (words.next() == Some(function)).then_some(count)
    });
    lines.next().unwrap_or(0)
}
