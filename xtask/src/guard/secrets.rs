// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks with memcheck that no branch and no address depends on keys or data: the program declares
//! them undefined, and memcheck tracks them through all computations.

use std::{path::Path, process::Stdio};

use crate::process::{self, command};

/// The exit status of valgrind if memcheck has reported something.
const REPORTED: i32 = 99;

/// Lets memcheck watch `engines`, also where threads share a data unit. It must report the table
/// look-ups of the reference's AES, and nothing in the engines.
pub fn check(program: &Path, engines: &[&str]) -> Result<String, String> {
    let memcheck = |engines: &[&str]| {
        let mut memcheck = command("valgrind");
        memcheck
            .env_remove("VALGRIND_OPTS")
            .args(["--quiet", "--tool=memcheck"])
            .arg(format!("--error-exitcode={REPORTED}"))
            .arg(program)
            .args(engines)
            .stdout(Stdio::null());
        memcheck
    };
    process::run(memcheck(engines).arg("parts"))?;
    let mut tables = memcheck(&["reference"]);
    let status = tables.stderr(Stdio::null()).status();
    match status
        .map_err(|e| format!("{}: {e}", process::line(&tables)))?
        .code()
    {
        Some(REPORTED) => Ok(engines.join(", ")),
        _ => Err("memcheck does not report the table look-ups of the reference's AES".to_owned()),
    }
}
