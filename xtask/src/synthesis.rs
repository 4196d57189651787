// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask bench rtl`: what the core takes of an FPGA and how fast its clock is there, by
//! `rtl/syn/synthesise.py`, with tools that come as Python packages.

use std::process::Command;

use crate::{
    jobs::Job,
    process::{self, command},
    setup::{self, Need},
};

const FOLDER: &str = "rtl/syn";

/// The point of `cargo xtask rtl`, the quickest that has a target.
const CHECKED: &str = "xc7-aes128-enc";

/// `args` are the script's: points, `--list`, `--record`.
pub fn bench(args: &[&str]) -> Result<String, String> {
    setup::ensure(&Need::for_synthesis())?;
    process::run(script()?.args(args))
}

/// One point has what it is to have, and not much more than the record has.
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
