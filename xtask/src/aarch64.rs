// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the kernels for `AArch64` in QEMU, which runs a program of another architecture under this
//! machine's Linux. QEMU checks what a program computes. It says nothing about its time.
//!
//! Everything is built as released, so that the guard of the loops finds the engine built.

use std::{fs, path::PathBuf, process::Command};

use crate::{
    catalogue::CPU_KERNELS,
    folder,
    process::{self, cargo, command},
    setup,
    tools::{AARCH64_LINKER, AARCH64_SYSROOT},
};

/// The name of the step.
pub const IN_QEMU: &str = "AArch64 in QEMU";

const TARGET: &str = "aarch64-unknown-linux-gnu";

/// A CPU of QEMU with every instruction, and one without those of SHA-3.
const ALL: &str = "max";
const WITHOUT_SHA3: &str = "cortex-a72";

/// What the test `identity` prints on a CPU without SHA-3.
const NO_SHA3: &str = "the engine aeseor3 is not available: this CPU has no sha3";

/// Tests of what QEMU's user mode does not emulate: memory that Linux wipes in a forked child.
const BEYOND_QEMU: [&str; 2] = [
    "kernel::tests::a_forked_child_does_not_encrypt_with_zeros",
    "secret_bytes::tests::pages_are_locked_and_left_out_of_dumps",
];

/// The variable with which the conformance suite runs few cases.
const FEW: &str = "LUXOR_TEST_FEW";

/// Returns the names of the kernels that need none of `but`, for `LUXOR_REQUIRE_ENGINES`.
fn required(but: &[&str]) -> String {
    let kernels = CPU_KERNELS.iter().filter(|kernel| {
        let mut needs = kernel.features.iter();
        kernel.architecture == "aarch64" && !needs.any(|feature| but.contains(feature))
    });
    let names = kernels.map(|kernel| kernel.name).chain(["portable"]);
    names.collect::<Vec<_>>().join(",")
}

/// Returns arguments for a test program that leave out the kernels for another architecture.
fn skipped() -> impl Iterator<Item = String> {
    let others = CPU_KERNELS
        .iter()
        .filter(|kernel| kernel.architecture != "aarch64");
    others.map(|kernel| format!("--skip={}::", kernel.name))
}

/// Runs few cases of the conformance suite with each kernel. With `--long`, also all cases, few
/// cases on a CPU without SHA-3, the tests of the engine and of `secret`, and the whole program.
pub fn test() -> Result<String, String> {
    if cfg!(target_arch = "aarch64") {
        return Ok("this is AArch64, and the other tests use its kernels".to_owned());
    }
    setup::ensure_target(TARGET)?;
    let kernels = format!("test {PACKAGES} --test registers --test kernels");
    let few = |cpu, but: &[&str], args: &[&str]| {
        let mut few = on(&kernels, cpu, &required(but));
        few.env(FEW, "1").arg("--").args(args).args(skipped());
        few
    };
    let (mut count, _) = tests(few(ALL, &[], &[]))?;
    let older = few(WITHOUT_SHA3, &["sha3"], &["--nocapture", "identity"]);
    let (_, said) = tests(older)?;
    if !said.contains(NO_SHA3) {
        return Err(format!("on {WITHOUT_SHA3} no test printed \"{NO_SHA3}\""));
    }
    if !process::is_long() {
        return Ok(format!(
            "{count} tests; --long adds the program and all cases"
        ));
    }
    count += tests(few(WITHOUT_SHA3, &["sha3"], &[]))?.0;
    let units = "test --package luxor-secret --package luxor-engine --lib";
    let mut units = on(units, ALL, "");
    units.arg("--");
    units.args(BEYOND_QEMU.map(|name| format!("--skip={name}")));
    count += tests(units)?.0;
    let all = "test --package luxor-conformance --test kernels";
    let mut all = on(all, ALL, &required(&[]));
    all.arg("--").args(skipped());
    count += tests(all)?.0;
    program()?;
    Ok(format!("{count} tests, and volumes of the program"))
}

/// The packages whose tests are run. Together they choose the features of the engine.
const PACKAGES: &str = "--package luxor-engine --package luxor-conformance";

/// Builds an example of [`PACKAGES`] for `AArch64`, and returns its path.
pub fn example(name: &str) -> Result<PathBuf, String> {
    setup::ensure_target(TARGET)?;
    let build = format!("build {PACKAGES} --example {name}");
    process::run(on(&build, ALL, ""))?;
    Ok(released(&format!("examples/{name}")))
}

fn released(name: &str) -> PathBuf {
    process::root().join(format!("target/{TARGET}/release/{name}"))
}

/// Returns a subcommand of Cargo for the target, whose programs run on `cpu` and must find the
/// engines `required`.
fn on(subcommand: &str, cpu: &str, required: &str) -> Command {
    let mut cargo = cargo(subcommand);
    let runner = format!("qemu-aarch64 -L {AARCH64_SYSROOT} -cpu {cpu}");
    cargo.args(["--locked", "--release", "--target", TARGET]);
    cargo.env(
        "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER",
        AARCH64_LINKER,
    );
    cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner);
    cargo.env("LUXOR_REQUIRE_ENGINES", required);
    cargo
}

/// Runs a `cargo test`, and returns the number of tests that passed and what they printed.
fn tests(mut command: Command) -> Result<(usize, String), String> {
    eprintln!("$ {}", process::line(&command));
    let said = process::output(&mut command)?;
    println!("{said}");
    match passed(&said) {
        0 => Err(format!("{}: no tests ran", process::line(&command))),
        count => Ok((count, said)),
    }
}

/// Adds up the results of the test programs.
fn passed(said: &str) -> usize {
    said.lines()
        .filter_map(|line| {
            line.strip_prefix("test result: ok. ")?
                .split_once(" passed")
        })
        .filter_map(|(count, _)| count.parse::<usize>().ok())
        .sum()
}

/// A volume that the program encrypts in QEMU is decrypted by the program of this machine, and the
/// other way round. cryptsetup checks its header and passphrase.
fn program() -> Result<(), String> {
    let build = "build --package luxor-cli";
    process::run(on(build, ALL, ""))?;
    // The tests of the workspace have built it, and run meanwhile: another build would replace it.
    if !process::builds_everything() {
        process::run(cargo(build).arg("--locked"))?;
    }
    let folder = folder("target", "aarch64")?;
    let byte = |i: u32| i.wrapping_mul(0x9e37_79b9).to_be_bytes()[0];
    let plain: Vec<u8> = (0..3_000_001).map(byte).collect();
    write(&folder.join("plain"), &plain)?;
    write(&folder.join("key"), b"a passphrase")?;
    let here = process::beside_this_program("luxor")?;
    let there = released("luxor");
    let in_qemu = |cpu: &str| {
        let mut qemu = command("qemu-aarch64");
        qemu.args(["-L", AARCH64_SYSROOT, "-cpu", cpu]).arg(&there);
        qemu
    };
    for (encrypts, decrypts) in [
        (in_qemu(ALL), command(&here)),
        (in_qemu(WITHOUT_SHA3), command(&here)),
        (command(&here), in_qemu(ALL)),
    ] {
        for output in ["volume", "decrypted"] {
            // It does not exist the first time.
            let _ = fs::remove_file(folder.join(output));
        }
        let run = |mut luxor: Command, args: &str| {
            process::run(luxor.current_dir(&folder).args(args.split(' ')))
        };
        let cost = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";
        run(
            encrypts,
            &format!("encrypt --key-file key {cost} plain volume"),
        )?;
        run(decrypts, "decrypt --key-file key volume decrypted")?;
        run(
            command("cryptsetup"),
            "open --test-passphrase --key-file key volume",
        )?;
        let path = folder.join("decrypted");
        if fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))? != plain {
            return Err(format!("{} differs from plain beside it", path.display()));
        }
    }
    Ok(())
}

fn write(path: &PathBuf, bytes: &[u8]) -> Result<(), String> {
    fs::write(path, bytes).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn tests_of_all_programs_count() {
        let result = |n| format!("test result: ok. {n} passed; 0 failed; 0 ignored\n");
        let said = format!("running 2 tests\n{}noise\n{}", result(2), result(30));
        assert_eq!(super::passed(&said), 32);
        assert_eq!(
            super::passed("test result: FAILED. 3 passed; 1 failed\n"),
            0
        );
    }
}
