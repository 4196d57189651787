// SPDX-License-Identifier: MIT OR Apache-2.0
//! Guards two properties of the kernels as the compiler built them: their speed, checked without
//! measuring time, so that even a busy machine can do it; and that their time does not depend on
//! secrets.
//!
//! - [`passes`] reads the disassembly of the released program `luxor`: the main loops of each
//!   kernel must contain the necessary AES instructions, and few others.
//! - [`ports`] lets `llvm-mca` model these loops, and those of the kernels for `AArch64`, on many
//!   CPUs: their cycles must not exceed those of a table.
//! - [`counts`] lets callgrind count the instructions per block of the kernels that it can run.
//! - [`secrets`] lets memcheck look for branches and addresses that depend on secrets, in the
//!   kernels and in the other code that handles secrets.
//! - [`data_flow`] follows secrets through the disassembly of kernels that valgrind cannot run.
//!
//! The first three have a table of limits in their source, in the form in which they print their
//! results. To change the limits, after an improvement or for a good reason, copy the printed
//! lines. [`Slack`] defines the tolerance.

mod counts;
mod data_flow;
mod disassembly;
mod flow;
mod main_loops;
mod operands;
mod passes;
mod ports;
mod secrets;
mod table;

use std::{env, path::PathBuf};

use disassembly::Listing;

use crate::{
    aarch64,
    catalogue::{CPU_KERNELS, CpuKernel},
    process::{self, cargo},
    steps::Steps,
};

/// The disassembler for x86-64, with the option for its syntax.
const OBJDUMP: &str = "objdump --disassembler-options=intel";

/// The features of the catalogue's kernels for x86-64 that valgrind has.
const IN_VALGRIND: [&str; 4] = ["aes", "pclmulqdq", "sse4.1", "avx2"];

/// Returns the kernels that valgrind can run.
fn under_valgrind() -> Vec<&'static str> {
    let can_run = |kernel: &&CpuKernel| {
        let mut needs = kernel.features.iter();
        kernel.architecture == "x86_64" && needs.all(|feature| IN_VALGRIND.contains(feature))
    };
    let kernels = CPU_KERNELS.iter().filter(can_run);
    kernels
        .map(|kernel| kernel.name)
        .chain(["portable"])
        .collect()
}

/// Runs each guard as a step.
pub fn steps(steps: &mut Steps) {
    let mut listing = None;
    steps.run("speed: the kernels' loops", || {
        for_x86_64(|| {
            // The same packages and features as README's `cargo run`, so that one build serves
            // both.
            process::run(cargo("build --locked --release --bin luxor"))?;
            let listing = listing.insert(Listing::disassemble(&released("luxor")?, OBJDUMP)?);
            passes::check(&listing.functions())
        })
    });
    steps.run("speed: the kernels' loops on other CPUs", || {
        for_x86_64(|| {
            let listing = listing.as_ref().ok_or("the program was not read")?;
            ports::check(&listing.functions(), &ports::X86_64, &released("")?)
        })
    });
    steps.run("speed: the loops of the kernels for AArch64", || {
        for_x86_64(|| {
            let listing =
                Listing::disassemble(&aarch64::example("watched")?, crate::tools::AARCH64_OBJDUMP)?;
            ports::check(&listing.functions(), &ports::AARCH64, &released("")?)
        })
    });
    steps.run("speed: instructions per block", || {
        for_x86_64(|| {
            // The other packages are named so that the engine has the same features as in `luxor`,
            // and is built only once.
            process::run(cargo(
                "build --locked --release --package luxor-cli --package luxor-bench \
                 --package luxor-conformance --example watched",
            ))?;
            counts::check(&released("examples/watched")?, &under_valgrind())
        })
    });
    steps.run("constant time: branches and addresses", || {
        for_x86_64(|| secrets::check_kernels(&released("examples/watched")?, &under_valgrind()))
    });
    steps.run("constant time: vaes256, vaes512", || {
        for_x86_64(|| {
            let listing = listing.as_ref().ok_or("the program was not read")?;
            data_flow::check(&listing.functions())
        })
    });
    steps.run("constant time: outside the kernels", || {
        for_x86_64(|| {
            // By itself, because the package's tests enable features that `luxor` does not have.
            process::run(cargo(
                "build --locked --release --package luxor-luks --example handled",
            ))?;
            secrets::check_others(&released("examples/handled")?)
        })
    });
}

fn for_x86_64(work: impl FnOnce() -> Result<String, String>) -> Result<String, String> {
    if cfg!(target_arch = "x86_64") {
        work()
    } else {
        Ok("the limits are for code that an x86-64 machine builds, and this is another".to_owned())
    }
}

/// Returns the path of a file that the release profile built, in the folder beside this program's
/// own.
fn released(name: &str) -> Result<PathBuf, String> {
    let here = env::current_exe().map_err(|e| e.to_string())?;
    let target = here
        .ancestors()
        .nth(2)
        .ok_or("this program is not where cargo puts it")?;
    Ok(target.join("release").join(name))
}

/// The tolerance for a limit: a few other instructions by the compiler are not a regression.
struct Slack {
    /// The number of additional instructions that is tolerated.
    few: f64,
    /// The additional percentage that is tolerated.
    more: f64,
}

impl Slack {
    /// A limit counts as too high if the value is this percentage further below it.
    const LESS: f64 = 10.0;

    fn is_too_much(&self, found: impl Into<f64>, limit: impl Into<f64>) -> bool {
        found.into() > limit.into() * (1.0 + self.more / 100.0) + self.few
    }

    fn is_far_below(&self, found: impl Into<f64>, limit: impl Into<f64>) -> bool {
        found.into() < limit.into() * (1.0 - (self.more + Self::LESS) / 100.0) - self.few
    }
}

/// Returns an error if something is wrong. Otherwise returns the text for the summary: `all_well`,
/// and how many limits are too high.
fn verdict(
    all_well: &str,
    wrong: &[String],
    too_high: usize,
    limits: &str,
) -> Result<String, String> {
    let update = format!("copy the rows printed above to the limits in {limits}");
    for what in wrong {
        println!("wrong: {what}");
    }
    match (wrong, too_high) {
        ([], 0) => Ok(all_well.to_owned()),
        ([], _) => Ok(format!(
            "{all_well}; {too_high} limits are higher than necessary: {update}"
        )),
        ([only], _) => Err(format!("{only}; if this is intended, {update}")),
        ([first, ..], _) => Err(format!(
            "{} errors, the first: {first}; if they are intended, {update}",
            wrong.len()
        )),
    }
}
