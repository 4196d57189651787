// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask rtl`: lint, benches and proofs of the XTS-AES core, tests of the whole core, and
//! synthesis of one point. The engine that runs on the core is tested together with all others.
//!
//! Modules in `rtl/rtl`, benches in `rtl/tb` and proofs in `rtl/tb/proofs` are found by their file
//! names, so that none can be forgotten. Everything is built again each time, under `target/rtl`,
//! but `ccache` saves compiling the same source twice.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    jobs::{Job, run},
    process::{self, cargo, command},
    setup,
    steps::Steps,
    synthesis,
};

const MODULES: &str = "rtl/rtl";
const BOARD: &str = "rtl/board";
/// The core of a paper, which is compared with Luxor's.
const ELMOGHANY: &str = "rtl/elmoghany";
const SYNTHESIS: &str = "rtl/syn";
const BENCHES: &str = "rtl/tb";
const PROOFS: &str = "rtl/tb/proofs";
const COCOTB: &str = "rtl/tb/cocotb";
const CORE_FILE: &str = "rtl/luxor_xts.core";
const TOP: &str = "luxor_xts";
const DMA_TOP: &str = "luxor_xts_dma";

/// The designs that are no part of the core, each with its folder: for a board, the core of a paper,
/// and for place and route.
const AROUND: [(&str, &str); 5] = [
    (BOARD, "ulx3s"),
    (ELMOGHANY, "elmoghany_xts"),
    (SYNTHESIS, "luxor_xts_dma_pins"),
    (SYNTHESIS, "luxor_xts_pins"),
    (SYNTHESIS, "xts_core_pins"),
];

/// Every module may use these packages, and a later package may use an earlier one.
const PACKAGES: [&str; 2] = ["rtl/rtl/luxor_pkg.sv", "rtl/rtl/aes_pkg.sv"];

/// The name of a program that Icarus compiles.
const SIMULATION: &str = "bench.vvp";

/// A package that benches use.
const BENCH_PACKAGES: [&str; 1] = ["rtl/tb/aes_model.sv"];

/// A bench with this line in its header does not run on Verilator. The line gives the reason.
const ICARUS_ALONE: &str = "// This bench runs only on Icarus, because ";

/// The parameters with which the top modules are checked: TWEAK (0 paper, 1 shared, 2 dedicated),
/// CIPHER (0 encryption, 1 decryption, 2 both), KEY128, KEY256, SBOX (0 table, 1 logic, 2 block
/// RAM, 3 T-tables), STAGES, LANES, CTR.
const PARAMETER_SETS: &[(&str, [u8; 8])] = &[
    (TOP, [0, 0, 1, 0, 0, 2, 1, 0]),
    (TOP, [1, 0, 0, 1, 1, 1, 4, 1]),
    (TOP, [1, 2, 1, 0, 1, 3, 1, 0]),
    (TOP, [2, 1, 0, 1, 1, 4, 4, 0]),
    (TOP, [2, 2, 1, 1, 2, 2, 2, 1]),
    (TOP, [2, 2, 1, 1, 3, 1, 1, 1]),
    (DMA_TOP, [1, 2, 1, 1, 3, 1, 4, 1]),
    (DMA_TOP, [2, 2, 1, 1, 3, 1, 2, 0]),
];
const PARAMETERS: [&str; 8] = [
    "TWEAK", "CIPHER", "KEY128", "KEY256", "SBOX", "STAGES", "LANES", "CTR",
];

/// A function that prepares jobs.
type Part = fn() -> Result<Vec<Job>, String>;

pub fn steps(steps: &mut Steps) {
    steps.run("RTL: benches", benches);
    all_but_benches(steps);
}

/// The other steps, for a chore that runs the benches beside something else.
pub fn all_but_benches(steps: &mut Steps) {
    together(
        steps,
        "RTL: synthesis, the whole core, proofs, lint",
        &[synthesis::check, whole, proofs, lint],
    );
}

/// Runs the tests of the whole core; in the long form also the proofs.
pub fn whole_core(steps: &mut Steps) {
    if process::is_long() {
        together(steps, "RTL: the whole core, proofs", &[whole, proofs]);
    } else {
        together(steps, "RTL: the whole core", &[whole]);
    }
}

/// Runs the jobs of these parts as one step. The long ones come first, so that all cores have work
/// until the end.
fn together(steps: &mut Steps, name: &str, parts: &[Part]) {
    steps.run(name, || {
        let parts: Vec<_> = parts.iter().map(|jobs| jobs()).collect();
        let failed: Vec<_> = parts
            .iter()
            .filter_map(|part| part.as_ref().err().cloned())
            .collect();
        let result = run(parts.into_iter().flatten().flatten().collect());
        if failed.is_empty() {
            result
        } else {
            Err(format!("{}; {result:?}", failed.join("; ")))
        }
    });
}

/// Lints each module, the top modules with several parameters, and the designs around it. Also
/// checks the list of files, and that generated files are up to date.
fn lint() -> Result<Vec<Job>, String> {
    let modules = files(MODULES, "sv")?;
    core_file_lists(MODULES, &modules)?;
    core_file_lists(BOARD, &files(BOARD, "sv")?)?;
    let lint = |top: &str| {
        let mut command = command("verilator");
        command.args(["--lint-only", "-Wall", "--no-timing", "-y", MODULES]);
        command.arg(format!("-I{MODULES}"));
        command.args(["--top-module", top]).args(PACKAGES);
        command
    };
    let mut jobs = Vec::new();
    for module in modules.iter().filter(|module| !is_package(module)) {
        let name = stem(module);
        let mut command = lint(name);
        command.arg(module);
        jobs.push(Job::new(name, [command]));
    }
    for (top, set) in PARAMETER_SETS {
        let mut command = lint(top);
        let parameters = PARAMETERS.iter().zip(set);
        let parameters: Vec<_> = parameters
            .map(|(name, value)| format!("-G{name}={value}"))
            .collect();
        command.args(&parameters).arg(format!("{MODULES}/{top}.sv"));
        jobs.push(Job::new(
            &format!("{top} {}", parameters.join(" ")),
            [command],
        ));
    }
    for (folder, top) in AROUND {
        let mut command = lint(top);
        command.args(["-y", folder]);
        command.arg(format!("{folder}/{top}.sv"));
        jobs.push(Job::new(top, [command]));
    }
    let mut generator = command("python3");
    generator.args(["rtl/gen/sbox_logic.py", "--check"]);
    jobs.push(Job::new("sbox_logic.py", [generator]));
    Ok(jobs)
}

/// Checks that the file for `FuseSoC` names every module in a folder under `rtl`.
fn core_file_lists(folder: &str, modules: &[PathBuf]) -> Result<(), String> {
    let text = read(Path::new(CORE_FILE))?;
    let prefix = format!("{}/", folder.trim_start_matches("rtl/"));
    let listed: BTreeSet<&str> = text
        .split_whitespace()
        .filter_map(|word| word.strip_prefix(&prefix)?.strip_suffix(".sv"))
        .collect();
    let there: BTreeSet<&str> = modules.iter().map(|module| stem(module)).collect();
    if listed == there {
        return Ok(());
    }
    let differ: Vec<_> = listed.symmetric_difference(&there).collect();
    Err(format!("{CORE_FILE} and {folder} differ in {differ:?}"))
}

/// Runs every bench on Icarus and on Verilator. A bench that passes prints a line that says so.
pub fn benches() -> Result<String, String> {
    let mut jobs = Vec::new();
    let is_bench = |file: &PathBuf| stem(file).ends_with("_tb");
    // Begins with those of `xts_…` and `luxor_xts`, two of which take longest.
    for bench in files(BENCHES, "sv")?.into_iter().rev().filter(is_bench) {
        let tested = stem(&bench).trim_end_matches("_tb");
        let passes = format!("PASS {tested}");
        let text = read(&bench)?;
        if !text.lines().any(|line| line.starts_with(ICARUS_ALONE)) {
            let commands = by_verilator(&bench, &new_folder(&format!("verilator/{tested}"))?);
            jobs.push(Job::new(&format!("{tested}, Verilator"), commands).must_say(&passes));
        }
        let commands = by_icarus(&bench, &new_folder(&format!("icarus/{tested}"))?);
        jobs.push(Job::new(&format!("{tested}, Icarus"), commands).must_say(&passes));
    }
    jobs.push(host()?);
    run(jobs)
}

/// Tests the host program of the boards against a simulated board.
fn host() -> Result<Job, String> {
    let board = Path::new(BENCHES).join("luxor_uart_lines.sv");
    let folder = new_folder("icarus/luxor_uart_lines")?;
    let [compile, _] = by_icarus(&board, &folder);
    let mut test = command("python3");
    test.arg(format!("{BENCHES}/host_test.py"));
    test.arg(folder.join(SIMULATION));
    Ok(Job::new("host.py", [compile, test]).must_say("PASS host.py"))
}

fn by_icarus(bench: &Path, folder: &Path) -> [Command; 2] {
    let program = folder.join(SIMULATION);
    let mut compile = command("iverilog");
    compile.args(["-g2012", "-Y", ".sv"]);
    for folder in [MODULES, BOARD, ELMOGHANY, BENCHES] {
        compile.args(["-y", folder]);
    }
    compile.args([format!("-I{MODULES}"), format!("-I{BENCHES}")]);
    if process::is_long() {
        compile.arg("-DLUXOR_TEST_LONG");
    }
    compile.args(["-s", stem(bench), "-o"]).arg(&program);
    compile.args(PACKAGES).args(BENCH_PACKAGES).arg(bench);
    let mut simulate = command("vvp");
    simulate.arg("-n").arg(&program);
    [compile, simulate]
}

fn by_verilator(bench: &Path, folder: &Path) -> [Command; 2] {
    let top = stem(bench);
    let mut compile = cached("verilator");
    compile.args(["--binary", "--timing", "--assert", "--timescale", "1ns/1ps"]);
    compile.args(["-Wno-lint", "-Wno-style", "-Wno-TIMESCALEMOD"]);
    // Registers that were not reset have random values, where Icarus uses X.
    compile.args(["--x-assign", "unique", "--x-initial", "unique"]);
    // Compiling takes longer than simulating, so do not optimise.
    compile.args(["--unroll-count", "4", "--build-jobs", "1"]);
    compile.args(["-MAKEFLAGS", "-s OPT_FAST=-O0 OPT_GLOBAL=-O0"]);
    compile.args(["-y", MODULES, "-y", BENCHES]);
    compile.args([format!("-I{MODULES}"), format!("-I{BENCHES}")]);
    compile.args(["--top-module", top, "--Mdir"]).arg(folder);
    if process::is_long() {
        compile.arg("-DLUXOR_TEST_LONG");
    }
    compile.args(PACKAGES).args(BENCH_PACKAGES).arg(bench);
    let mut simulate = command(folder.join(format!("V{top}")));
    simulate.args(["+verilator+rand+reset+2", "+verilator+seed+1619"]);
    [compile, simulate]
}

/// The proofs. Each one is a Yosys script that runs in its own folder. The last ones are the
/// longest.
fn proofs() -> Result<Vec<Job>, String> {
    let mut jobs = Vec::new();
    for proof in files(PROOFS, "ys")?.into_iter().rev() {
        let mut yosys = command("yosys");
        yosys.current_dir(process::root().join(PROOFS));
        yosys
            .args(["-q", "-s"])
            .arg(proof.file_name().expect("the path names a file"));
        jobs.push(Job::new(stem(&proof), [yosys]));
    }
    Ok(jobs)
}

/// Compares the whole core with the reference and with known answers of the standards, using
/// cocotb.
fn whole() -> Result<Vec<Job>, String> {
    let python = setup::ensure_python(
        &process::root().join("target/rtl/python"),
        &process::root().join(COCOTB).join("requirements.txt"),
    )?;
    process::run(cargo(
        "build --locked --package luxor-reference --example answers",
    ))?;
    let run_py = format!("{COCOTB}/run.py");
    let answers = process::beside_this_program("examples/answers")?;
    let configurations = process::output(command(&python).arg(&run_py).arg("--list"))?;
    let mut jobs = Vec::new();
    for configuration in configurations.lines() {
        let folder = new_folder(&format!("cocotb/{configuration}"))?;
        let mut test = cached(&python);
        test.arg(&run_py).arg(configuration);
        test.arg("--folder")
            .arg(folder)
            .arg("--answers")
            .arg(&answers);
        if process::is_long() {
            test.env("LUXOR_TEST_LONG", "1");
        }
        jobs.push(Job::new(configuration, [test]));
    }
    Ok(jobs)
}

/// Returns a command that compiles C++ through `ccache`. Verilator's own sources are part of every
/// bench and take longer to compile than the bench.
fn cached(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = command(program);
    command.env("OBJCACHE", "ccache");
    command.env("CCACHE_DIR", process::root().join("target/rtl/ccache"));
    command
}

/// Returns the files in a folder with an extension, sorted, relative to the root.
fn files(folder: &str, extension: &str) -> Result<Vec<PathBuf>, String> {
    let fail = |e: std::io::Error| format!("{folder}: {e}");
    let mut files = Vec::new();
    for entry in fs::read_dir(process::root().join(folder)).map_err(fail)? {
        let name = PathBuf::from(entry.map_err(fail)?.file_name());
        if name.extension().is_some_and(|e| e == extension) {
            files.push(Path::new(folder).join(name));
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(format!("{folder} has no .{extension} file"));
    }
    Ok(files)
}

fn is_package(module: &Path) -> bool {
    stem(module).ends_with("_pkg")
}

fn stem(file: &Path) -> &str {
    let stem = file.file_stem().and_then(|stem| stem.to_str());
    stem.expect("names in rtl/ are ASCII")
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(process::root().join(file)).map_err(|e| format!("{}: {e}", file.display()))
}

/// Makes an empty folder under `target/rtl`. Verilator would reuse files from an earlier build.
fn new_folder(name: &str) -> Result<PathBuf, String> {
    let folder = process::root().join("target/rtl").join(name);
    let fail = |e: std::io::Error| format!("{}: {e}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(fail)?;
    }
    fs::create_dir_all(&folder).map_err(fail)?;
    Ok(folder)
}
