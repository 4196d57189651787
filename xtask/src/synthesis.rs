// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask bench rtl`: measures the area and the clock of the core on FPGAs with
//! `rtl/syn/synthesise.py`. Its tools come as Python packages.

use std::process::Command;

use crate::{
    jobs::Job,
    process::{self, command},
    setup::{self, Need},
};

const FOLDER: &str = "rtl/syn";

/// The point that `cargo xtask rtl` checks: the quickest one with a target.
const CHECKED: &str = "xc7-aes128-enc";

/// Runs the script. `args` are its arguments: points, `--list`, `--record`.
pub fn bench(args: &[&str]) -> Result<String, String> {
    setup::ensure(&Need::for_synthesis())?;
    process::run(script()?.args(args))
}

/// Checks that one point meets its target, and takes at most 2 % more than in the record.
pub fn check() -> Result<Vec<Job>, String> {
    let mut check = script()?;
    check.args(["--check", CHECKED]);
    Ok(vec![Job::new(&format!("synthesis of {CHECKED}"), [check])])
}

fn script() -> Result<Command, String> {
    let python = setup::ensure_python(
        &process::root().join("target/rtl/synthesis-python"),
        &process::root().join(FOLDER).join("requirements.txt"),
    )?;
    let mut script = command(python);
    script.arg(format!("{FOLDER}/synthesise.py"));
    Ok(script)
}
