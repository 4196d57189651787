// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looks for undefined behaviour. Miri interprets the tests that it can, and checks each access to
//! memory and each race of threads. `AddressSanitizer` watches the accesses of compiled tests, also
//! those that call the system, the drivers of GPUs and foreign libraries. `ThreadSanitizer` watches
//! the threads of compiled tests. The models of threads run under many schedules.

use std::process::Command;

use crate::{
    jobs::{self, Job},
    process::{self, cargo as stable_cargo, command},
    setup,
    steps::Steps,
};

/// The toolchain: only a nightly one has Miri and the flags of the sanitizers.
const TOOLCHAIN: &str = "nightly-2026-10-30";

/// The target, which must be named: without it, cargo also applies the flags to programs that run during
/// the build.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The instructions of the CPU in Miri, which are those that are enabled at compile time: all that
/// the kernels for x86-64 need.
const INSTRUCTIONS: &str =
    "-Ctarget-feature=+aes,+pclmulqdq,+sse4.1,+avx2,+vaes,+vpclmulqdq,+avx512f,+avx512bw,+avx512vl";

/// The tests for Miri: a name, and the arguments of `cargo miri test`. Other tests make system calls
/// that Miri lacks, or take hours there.
const IN_MIRI: [(&str, &str); 4] = [
    ("kernels", "--package luxor-engine --test short_runs"),
    (
        "buffers, runs and threads of the engine",
        "--package luxor-engine --lib -- buffer:: crew:: run::",
    ),
    (
        "secrets",
        "--package luxor-secret --lib -- --skip pages_are_locked",
    ),
    (
        "memory of GPUs",
        "--package luxor-engine-gpu --lib -- host:: keys:: launch:: layout:: plan:: ranges::",
    ),
];

/// The packages for `AddressSanitizer`, those that `--long` adds, and those for `ThreadSanitizer`.
const ADDRESSES: &str =
    "luxor-engine luxor-secret luxor-uring luxor-tls-psk luxor-engine-gpu luxor-engine-cuda";
const MORE_ADDRESSES: &str = "luxor-conformance luxor-engine-opencl luxor-files luxor-c";
const THREADS: &str = "luxor-engine luxor-sector luxor-uring luxor-serve luxor-engine-gpu";

/// The packages that have models, and the schedules of each model and each way to choose them.
const MODELS: &str = "luxor-engine luxor-sector";
const SCHEDULES: &str = "1000";
const MORE_SCHEDULES: &str = "20000";

/// Parts of the names of tests for which `AddressSanitizer` needs minutes.
const SLOW: [&str; 3] = [
    "conformance",
    "any_call_may_fail",
    "a_long_call_does_not_block_others",
];

/// Parts of the names of tests that fail under `AddressSanitizer`. It ignores calls that lock memory, and
/// keeps variables on the stack that are otherwise in registers.
const UNSUITED: [&str; 4] = [
    "pages_are_locked",
    "on_the_stack",
    "on_a_key_stack",
    "little_stack",
];

pub fn steps(steps: &mut Steps) {
    steps.run_tests("models of threads", models);
    if cfg!(not(all(target_arch = "x86_64", target_os = "linux"))) {
        return;
    }
    let found = steps.run("undefined behaviour: toolchain", || {
        setup::ensure_toolchain(TOOLCHAIN, &["miri", "rust-src"])
    });
    if !found {
        return;
    }
    steps.run("undefined behaviour: Miri", miri);
    steps.run_tests("undefined behaviour: AddressSanitizer", || {
        let mut packages = ADDRESSES.to_owned();
        let mut skipped = UNSUITED.to_vec();
        if process::is_long() {
            packages = format!("{packages} {MORE_ADDRESSES}");
        } else {
            skipped.extend(SLOW);
        }
        sanitized("address", &packages, &skipped)
    });
    if process::is_long() {
        steps.run_tests("undefined behaviour: ThreadSanitizer", || {
            let mut cargo = sanitized("thread", THREADS, &["kernel"]);
            // It sees no race in functions that were not compiled for it.
            cargo.env("CARGO_UNSTABLE_BUILD_STD", "std");
            cargo
        });
    }
}

/// Returns `cargo` of the toolchain. Its files are apart from those of other builds.
fn cargo(name: &str, flags: &str) -> Command {
    let mut cargo = command("rustup");
    cargo.args(["run", TOOLCHAIN, "cargo"]);
    let folder = process::root().join("target").join(name);
    cargo.env("CARGO_TARGET_DIR", folder);
    cargo.env("RUSTFLAGS", flags);
    cargo
}

/// Returns `cargo test` of the models. Their crates are built with other locks, apart from those of other
/// builds.
fn models() -> Command {
    let mut cargo = stable_cargo("test --locked --no-fail-fast --lib --target-dir target/models");
    process::add_packages(&mut cargo, MODELS);
    // The schedules take seconds anyway, and the kernels would take the compiler minutes.
    for package in MODELS.split(' ') {
        let setting = format!("profile.dev.package.{package}.opt-level=0");
        cargo.args(["--config", &setting]);
    }
    let is_long = process::is_long();
    let schedules = if is_long { MORE_SCHEDULES } else { SCHEDULES };
    cargo.env("RUSTFLAGS", "--cfg model");
    cargo.env("LUXOR_MODEL_SCHEDULES", schedules);
    cargo.args(["--", "models::"]);
    cargo
}

fn miri() -> Result<String, String> {
    let miri = |arguments: &str| {
        let mut miri = cargo("miri", INSTRUCTIONS);
        miri.args("miri test --locked --target".split(' ').chain([TARGET]));
        miri.args(arguments.split(' '));
        // Tests read the clock and the number of cores.
        miri.env("MIRIFLAGS", "-Zmiri-disable-isolation");
        miri
    };
    // Otherwise each of the jobs would begin with it.
    process::run(cargo("miri", INSTRUCTIONS).args(["miri", "setup", "--target", TARGET]))?;
    jobs::run(
        IN_MIRI
            .map(|(name, arguments)| Job::new(name, [miri(arguments)]))
            .into(),
    )
}

/// Returns `cargo test` of these packages with a sanitizer, without the tests whose names contain one of
/// `skipped`.
fn sanitized(sanitizer: &str, packages: &str, skipped: &[&str]) -> Command {
    let mut cargo = cargo(sanitizer, &format!("-Zsanitizer={sanitizer}"));
    cargo.args(["test", "--locked", "--no-fail-fast", "--target", TARGET]);
    // rustdoc, which makes the tests in documents, has flags of its own.
    cargo.args(["--lib", "--tests"]);
    process::add_packages(&mut cargo, packages);
    // Tests ask for more memory than a computer has, and others take away what the search for leaks at the
    // end of a program needs. Miri looks for leaks too.
    cargo.env("ASAN_OPTIONS", "allocator_may_return_null=1:detect_leaks=0");
    cargo.env("TSAN_OPTIONS", "allocator_may_return_null=1");
    cargo.arg("--");
    for test in skipped {
        cargo.args(["--skip", test]);
    }
    cargo
}
