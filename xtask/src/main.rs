// SPDX-License-Identifier: MIT OR Apache-2.0
//! The project's chores. `cargo xtask test` sets up what the tests need and runs all of them.
//! `cargo xtask ci` adds every other check that a change must pass. `cargo xtask guard`,
//! `cargo xtask rtl` and `cargo xtask kernels` are parts of these. `cargo xtask bench` measures.
//!
//! This crate has no dependencies, so that a newcomer's first command builds in seconds.

mod aarch64;
mod archive;
mod bindings_c;
mod bindings_python;
#[path = "../../crates/engine/src/kernel/catalogue.rs"]
mod catalogue;
mod checks;
mod circles;
mod cpu;
mod debian;
mod dist;
mod emulate;
mod engines;
mod go;
mod guard;
mod jobs;
mod kernels;
mod oci;
mod oclgrind;
mod page;
mod plots;
mod process;
mod readme;
mod results;
mod rtl;
mod setup;
mod steps;
mod synthesis;
mod tools;
mod unsafe_code;

use std::{
    env, fs,
    num::NonZero,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    thread,
};

use engines::Engines;
use jobs::Job;
use process::cargo;
use setup::{Need, Root};
use steps::{Steps, Work};

const USAGE: &str = "\
usage: cargo xtask test [--long]    set up what the tests need, and run them all; --long adds the
                                    cases that take hours, the proofs of the FPGA core, the page of a
                                    report, emulate aarch64, and emulate if the CPU has no AVX-512
       cargo xtask test AREA        run the tests of one area: engine, luks, serve, cli, c, python,
                                    kernels, rtl or page
       cargo xtask check            check the format, the links, the order of the modules, the lints
                                    and the unit tests, which need neither root nor other programs
       cargo xtask ci               run the tests and every other check that a change must pass
       cargo xtask guard            check only the kernels' speed and constant time
       cargo xtask rtl              check only the FPGA core
       cargo xtask kernels          check only the GPU kernels
       cargo xtask kernels --write  regenerate the committed PTX of the GPU kernels
       cargo xtask c --install DIR  build libluxor, the library for C, and install it into DIR
       cargo xtask c --write        regenerate the committed header and ABI of libluxor
       cargo xtask dist             make what users install, in target/dist: wheels for four systems,
                                    static programs, Debian packages and an image for containers
       cargo xtask dist --twice     make it in two places, and check that all bytes are the same
       cargo xtask dist --check     make the Debian packages only; install, use and remove them
       cargo xtask emulate          test the kernel vaes512 in an emulator of a CPU with AVX-512
       cargo xtask emulate aarch64 [--long]
                                    test the kernels for AArch64 in QEMU; --long adds all cases and
                                    the whole program
       cargo xtask unsafe [--long]  look for undefined behaviour, with Miri and sanitizers; --long adds
                                    the slow tests and more packages
       cargo xtask fuzz             run only the fuzz targets, a minute each (ci: 11 seconds)
       cargo xtask page [FILE]      check a new quick report, or FILE, in a browser
       cargo xtask readme           run the commands of README.md
       cargo xtask results          rewrite the documents' results and plots from the records
       cargo xtask bench [ARGS]...  measure, compared with rivals; ARGS go to luxor-bench
       cargo xtask bench rtl [POINT]... [--list | --record]
                                    synthesise the FPGA core, and compare it with its targets";

/// The target on which the engine must build without `std`.
const BARE_TARGET: &str = "thumbv7em-none-eabihf";

/// The packages of each area of `cargo xtask test AREA`.
const AREAS: [(&str, &str); 4] = [
    (
        "engine",
        "luxor-engine luxor-conformance luxor-reference luxor-engine-gpu luxor-engine-cuda \
         luxor-engine-opencl luxor-engine-fpga luxor-ptx",
    ),
    ("luks", "luxor-volume luxor-luks luxor-plain"),
    (
        "serve",
        "luxor-sector luxor-uring luxor-tls-psk luxor-confine luxor-serve",
    ),
    ("cli", "luxor-files luxor luxor-cli"),
];

/// Turns all optimisation off. The level of a package counts more than the profile's.
const UNOPTIMISED: [&str; 4] = [
    "--config",
    "profile.dev.opt-level=0",
    "--config",
    "profile.dev.package.luxor-engine.opt-level=0",
];

const LIBRARY_FOR_C: &str = "library for C";
const PYTHON_MODULE: &str = "Python module";
const DEBIAN_PACKAGES: &str = "Debian packages";

/// How long a fuzz target runs. In CI that is enough for the committed inputs and a few more.
const FUZZ_SECONDS: u32 = 60;
const FUZZ_SECONDS_IN_CI: u32 = 11;

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    match args
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["test"] | ["test", "--long"] => part("test", &needs_of_tests(), test),
        ["test", "c"] => part("c", &Need::for_c(), |s| {
            let packages = Some("luxor-c luxor-ptx-driver");
            if rust_tests(s, packages) {
                s.run(LIBRARY_FOR_C, || bindings_c::test(packages));
            }
        }),
        ["test", "python"] => part("python", &Need::for_tests(), |s| {
            let packages = Some("luxor-python luxor-ptx-driver");
            s.run(PYTHON_MODULE, || bindings_python::test(packages));
        }),
        ["c", "--write"] => part("c", &Need::for_c(), bindings_c::write),
        ["c", "--install", prefix] => {
            report(|| bindings_c::install(prefix).inspect(|said| println!("{said}")))
        }
        ["dist"] => report(|| dist::make().inspect(|said| println!("{said}"))),
        ["dist", "--twice"] => report(|| dist::make_twice().inspect(|said| println!("{said}"))),
        ["dist", "--check"] => part("dist", &Need::for_packages(), |s| {
            s.run(DEBIAN_PACKAGES, dist::check);
        }),
        ["test", area] if packages(area).is_some() => part("test", &Need::for_tests(), |s| {
            rust_tests(s, packages(area));
        }),
        ["guard"] => part("guard", &Need::for_guard(), guard::steps),
        ["rtl"] | ["test", "rtl"] => part("rtl", &Need::for_rtl(), rtl::steps),
        ["kernels"] | ["test", "kernels"] => part("kernels", &Need::for_kernels(), kernels::steps),
        ["kernels", "--write"] => part("kernels", &Need::for_kernels(), kernels::write),
        ["emulate"] => part("emulate", &Need::for_emulate(), emulate::steps),
        ["emulate", "aarch64"] | ["emulate", "aarch64", "--long"] => {
            part("emulate", &Need::for_aarch64(), |s| {
                s.run(aarch64::IN_QEMU, aarch64::test);
            })
        }
        ["unsafe"] | ["unsafe", "--long"] => {
            part("unsafe", &Need::for_unsafe(), unsafe_code::steps)
        }
        ["fuzz"] => part("fuzz", &Need::for_fuzz(), |s| fuzz(s, FUZZ_SECONDS)),
        ["check"] => part("check", &[], check),
        ["ci"] => part("ci", &Need::for_ci(), ci),
        ["page"] | ["test", "page"] => part("page", &Need::for_page(), page::steps),
        ["page", file] => report(|| page::look(Path::new(file)).inspect(|seen| println!("{seen}"))),
        ["results"] => report(results::write),
        ["readme"] => report(|| readme::follow().inspect(|said| println!("{said}"))),
        ["bench", "rtl", rest @ ..] => report(|| synthesis::bench(rest)),
        ["bench", rest @ ..] => report(|| bench(rest)),
        [] | ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        other => {
            eprintln!("xtask: unknown command: {}\n{USAGE}", other.join(" "));
            ExitCode::from(2)
        }
    }
}

/// Sets up what the steps need, then runs them.
fn part(name: &'static str, needs: &[Need], take: impl FnOnce(&mut Steps)) -> ExitCode {
    let mut steps = Steps::new(name);
    if steps.run("setup", || setup::ensure(needs)) {
        take(&mut steps);
    }
    steps.finish()
}

fn needs_of_tests() -> Vec<Need> {
    let mut needs = Need::for_tests();
    if process::is_long() {
        needs.extend(Need::for_page());
        needs.extend(Need::for_aarch64());
        if emulate::is_needed() {
            needs.extend(Need::for_emulate());
        }
    }
    needs
}

fn packages(area: &str) -> Option<&'static str> {
    let mut areas = AREAS.into_iter();
    Some(areas.find(|(name, _)| *name == area)?.1)
}

fn test(steps: &mut Steps) {
    workspace_tests(steps, process::is_long(), |steps| {
        kernels::tests(steps);
        rtl::whole_core(steps);
    });
    if process::is_long() && emulate::is_needed() {
        emulate::steps(steps);
    }
}

/// Checks of the sources as text.
fn quick_checks(steps: &mut Steps) {
    steps.run("SPDX lines", checks::spdx);
    steps.run("links in the documents", checks::links);
    steps.run("circles of modules", circles::check);
    steps.run("format", || {
        setup::ensure_component("rustfmt")?;
        process::run(cargo("fmt --all --check"))?;
        process::run(cargo("fmt --manifest-path fuzz/Cargo.toml -- --check"))
    });
}

/// What a contributor runs while making a change: checks that need neither root nor other programs. The
/// features that need a simulator or other libraries are left out.
fn check(steps: &mut Steps) {
    quick_checks(steps);
    steps.run("clippy", || {
        let clippy = "clippy --locked --workspace --all-targets -- -D warnings";
        process::run(cargo(clippy))
    });
    steps.run_tests("unit tests", || {
        cargo("test --locked --workspace --lib --bins --no-fail-fast")
    });
}

fn ci(steps: &mut Steps) {
    quick_checks(steps);
    steps.run("clippy", || {
        let mut clippy = process::cargo_workspace("clippy");
        process::run(clippy.args(["--all-targets", "--", "-D", "warnings"]))
    });
    steps.run("documentation", || {
        let mut doc = process::cargo_workspace("doc");
        process::run(doc.arg("--no-deps").env("RUSTDOCFLAGS", "-D warnings"))
    });
    let is_built = workspace_tests(steps, true, |steps| {
        kernels::steps(steps);
        rtl::all_but_benches(steps);
    });
    if is_built {
        engines_as_built(steps);
        steps.run(DEBIAN_PACKAGES, dist::check);
    }
    steps.run("plots of the documents", plots::check);
    steps.run("README's commands", readme::follow);
    steps.run("Python wheel", bindings_python::wheel);
    guard::steps(steps);
    steps.run("licences and sources", || {
        let mut deny = setup::cargo_tool("deny")?;
        process::run(deny.args(["--locked", "check", "bans", "licenses", "sources"]))
    });
    unsafe_code::steps(steps);
    fuzz(steps, FUZZ_SECONDS_IN_CI);
}

/// Lists the engines of this machine, and tests the engine without `std` and without optimisation.
fn engines_as_built(steps: &mut Steps) {
    steps.run("engines of this machine", || {
        // The tests have built it, beside this program.
        let luxor = process::beside_this_program("luxor")?;
        process::run(process::command(luxor).arg("engines"))
    });
    steps.run("engine without std", || {
        setup::ensure_target(BARE_TARGET)?;
        process::run(
            cargo("build --locked --package luxor-engine --no-default-features")
                .args(UNOPTIMISED)
                .args(["--target", BARE_TARGET]),
        )
    });
    // Programs that use the engine build it in this way for debugging.
    steps.run("engine without optimisation", || {
        process::run(
            cargo("test --locked --package luxor-engine --lib")
                .args(["--target-dir", "target/unoptimised"])
                .args(UNOPTIMISED),
        )
    });
}

/// Builds and runs all tests of the workspace, those of the libraries for other languages, and the
/// benches of the FPGA core. `with_more` also makes a report and checks its page, and runs the kernels
/// for `AArch64`. `others` are steps that need nothing of these. Returns whether the tests were built.
fn workspace_tests(steps: &mut Steps, with_more: bool, others: impl FnOnce(&mut Steps)) -> bool {
    let is_built = steps.run("tests: build", || {
        process::run(process::cargo_workspace("test").arg("--no-run"))?;
        process::build_libraries(None)
    });
    if is_built {
        // The build uses all cores. Many tests wait for a process or a disk, so other tests use the
        // cores that these leave idle. They disturb the report's numbers, which are not recorded.
        // None of them builds the programs that make the report.
        let mut beside: Vec<(_, Work<'_>)> = vec![
            ("RTL: benches", Box::new(rtl::benches)),
            (LIBRARY_FOR_C, Box::new(|| bindings_c::test(None))),
            (PYTHON_MODULE, Box::new(|| bindings_python::test(None))),
        ];
        if with_more {
            beside.push((page::MAKE, Box::new(page::make)));
            beside.push((aarch64::IN_QEMU, Box::new(aarch64::test)));
        }
        steps.run_beside(beside, |steps| {
            rust_tests(steps, None);
            // Those of Python wait for servers and clusters for longer than these tests take.
            others(steps);
        });
        if steps.has_passed(page::MAKE) {
            page::look_at_it(steps);
        }
    }
    is_built
}

/// Runs the tests of these packages, or of the whole workspace. Returns whether they ran.
fn rust_tests(steps: &mut Steps, packages: Option<&str>) -> bool {
    let mut required = Engines::default();
    let found = steps.run("engines of this CPU", || {
        required = Engines::of_this_machine()?;
        Ok(required.summary())
    });
    if !found {
        return false;
    }
    steps.run_tests("tests", || {
        let mut command = match packages {
            None => process::cargo_workspace("test"),
            Some(packages) => process::cargo_packages("test", packages),
        };
        command.arg("--no-fail-fast");
        match Root::of_this_user() {
            Root::Is => {}
            Root::BySudo => {
                println!("Some tests need root for loop devices and mounts: sudo runs all tests.");
                command.args(["--config", r#"target."cfg(unix)".runner = "sudo -n -E""#]);
            }
            Root::IsNot => println!(
                "Some tests need root for loop devices and mounts, and will fail.\n\
                 To let them pass, first run `sudo -v`, or run this command as root."
            ),
        }
        command.env("LUXOR_REQUIRE_ENGINES", required.names());
        // Many tests wait for a process or a disk.
        let threads = 2 * thread::available_parallelism().map_or(1, NonZero::get);
        command.env("RUST_TEST_THREADS", threads.to_string());
        if process::is_long() {
            command.env("LUXOR_TEST_LONG", "1");
        }
        command
    });
    true
}

fn fuzz(steps: &mut Steps, seconds: u32) {
    let mut targets = Vec::new();
    steps.run("fuzz targets: build", || {
        let list = process::output(setup::cargo_tool("fuzz")?.arg("list"))?;
        targets = list.lines().map(str::to_owned).collect();
        if targets.is_empty() {
            return Err("there are no fuzz targets".to_owned());
        }
        process::run(cargo_fuzz("build")?)
    });
    steps.run(&format!("fuzz targets: {seconds} s each"), || {
        let jobs = targets.iter().map(|target| fuzz_job(target, seconds));
        jobs::run(jobs.collect::<Result<_, _>>()?)
    });
}

/// Returns `cargo fuzz`, which needs unstable compiler flags.
fn cargo_fuzz(subcommand: &str) -> Result<Command, String> {
    let mut command = setup::cargo_tool("fuzz")?;
    // The default is one codegen unit. With several, the build uses all cores.
    command.args([subcommand, "--codegen-units=16"]);
    command.env("RUSTC_BOOTSTRAP", "1");
    Ok(command)
}

/// Returns a folder with this name, and makes it if necessary.
fn folder(parent: &str, name: &str) -> Result<PathBuf, String> {
    let folder = process::root().join(parent).join(name);
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(folder)
}

fn fuzz_job(target: &str, seconds: u32) -> Result<Job, String> {
    // New inputs go to a corpus that is not committed.
    let corpus = folder("target/fuzz-corpus", target)?;
    let mut command = cargo_fuzz("run")?;
    command.arg(target).arg(&corpus);
    let archive = process::root().join(format!("fuzz/corpus/{target}.tar.gz"));
    if archive.is_file() {
        let seeds = folder("target/fuzz-seeds", target)?;
        let mut unpack = process::command("tar");
        unpack.arg("-xzf").arg(&archive);
        unpack.args(["--strip-components=1", "-C"]).arg(&seeds);
        process::run(unpack)?;
        command.arg(&seeds);
    }
    command.args(["--", &format!("-max_total_time={seconds}")]);
    Ok(Job::new(target, [command]))
}

/// Builds `luxor` and the bench program with the rivals, as users build them, and runs the bench
/// program.
fn bench(args: &[&str]) -> Result<String, String> {
    setup::ensure(&Need::for_bench())?;
    // The commit is part of the results.
    let describe = "describe --always --abbrev=40 --dirty".split(' ');
    let commit = process::output(process::command("git").args(describe))?;
    process::run(cargo("build --locked --release --package luxor-cli"))?;
    let mut run =
        cargo("run --locked --release --package luxor-bench --features luxor-bench/rivals --");
    process::run(run.args(args).env("LUXOR_COMMIT", commit.trim()))
}

fn report(work: impl FnOnce() -> Result<String, String>) -> ExitCode {
    match work() {
        Ok(_) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
