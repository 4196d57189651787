// SPDX-License-Identifier: MIT OR Apache-2.0
//! Guards what the compiler made of the kernels: their speed, without a clock, so that it
//! can be done on any machine, a busy one too; and that their time tells no secret.
//!
//! - [`passes`] reads the disassembly of the program `luxor` as it is released:
//!   in each kernel's main loops there are the AES instructions that there must
//!   be, and little else.
//! - [`counts`] lets callgrind count the instructions per block of the kernels
//!   that it can run.
//! - [`secrets`] lets memcheck look for branches and addresses that depend on secrets.
//!
//! The first two have a table of limits in its source, in the form in which it prints what
//! it found: who makes a kernel better, or has a reason to make it worse, copies
//! the lines from there. [`Slack`] says what is near enough.

mod counts;
mod disassembly;
mod flow;
mod passes;
mod secrets;
mod table;

use std::{env, path::PathBuf};

use crate::{
    process::{self, cargo},
    steps::Steps,
};

/// The kernels that valgrind can run, which are those without VAES.
const UNDER_VALGRIND: [&str; 2] = ["aesni", "portable"];

/// The guards, a step each.
pub fn steps(steps: &mut Steps) {
    steps.run("speed: the kernels' loops", || {
        for_x86_64(|| {
            // The packages and features of README's `cargo run`, for one build of both.
            process::run(cargo("build --locked --release --bin luxor"))?;
            passes::check(&released("luxor")?)
        })
    });
    steps.run("speed: instructions per block", || {
        for_x86_64(|| {
            // The other packages are named so that the engine has the features, and so the build,
            // that it has in `luxor`.
            process::run(cargo(
                "build --locked --release --package luxor-cli --package luxor-bench \
                 --package luxor-conformance --example watched",
            ))?;
            counts::check(&released("examples/watched")?, &UNDER_VALGRIND)
        })
    });
    steps.run("constant time: branches and addresses", || {
        for_x86_64(|| secrets::check(&released("examples/watched")?, &UNDER_VALGRIND))
    });
}

fn for_x86_64(work: impl FnOnce() -> Result<String, String>) -> Result<String, String> {
    if cfg!(target_arch = "x86_64") {
        work()
    } else {
        Ok("the kernels with limits are those of x86-64, and this is another machine".to_owned())
    }
}

/// What the release profile made, in the folder beside this program's own.
fn released(name: &str) -> Result<PathBuf, String> {
    let here = env::current_exe().map_err(|e| e.to_string())?;
    let target = here
        .ancestors()
        .nth(2)
        .ok_or("this program is not where cargo puts it")?;
    Ok(target.join("release").join(name))
}

/// What is near enough to a limit: a compiler that chooses a few other
/// instructions is no regression.
struct Slack {
    /// So many more are none, and
    few: f64,
    /// so much more, in per cent.
    more: f64,
}

impl Slack {
    /// Far below a limit, the limit can be lowered.
    const LESS: f64 = 10.0;

    fn is_too_much(&self, found: impl Into<f64>, limit: impl Into<f64>) -> bool {
        found.into() > limit.into() * (1.0 + self.more / 100.0) + self.few
    }

    fn is_far_below(&self, found: impl Into<f64>, limit: impl Into<f64>) -> bool {
        found.into() < limit.into() * (1.0 - (self.more + Self::LESS) / 100.0) - self.few
    }
}

/// An error if something is wrong; else what the summary says, which is `all_well`
/// and how many rows of limits are too high.
fn verdict(
    all_well: &str,
    wrong: &[String],
    too_high: usize,
    limits: &str,
) -> Result<String, String> {
    let by_hand = format!("the new rows are above, and the limits in {limits}");
    for what in wrong {
        println!("wrong: {what}");
    }
    match (wrong, too_high) {
        ([], 0) => Ok(all_well.to_owned()),
        ([], _) => Ok(format!(
            "{all_well}; {too_high} limits are too high: {by_hand}"
        )),
        ([only], _) => Err(format!("{only}; if that has a reason, {by_hand}")),
        ([first, ..], _) => Err(format!(
            "{} things are wrong, the first: {first}; if that has a reason, {by_hand}",
            wrong.len()
        )),
    }
}
