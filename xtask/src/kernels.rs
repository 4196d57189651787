// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask kernels`: checks the GPU kernels on a machine without a GPU. Their tables are
//! generated again and compared. They run as C++ on the host under sanitizers. NVIDIA's compiler
//! and assembler, which come as Python packages, must produce the committed PTX, with no more
//! registers and loads than the limits.

use std::{fs, process::Command};

use crate::{
    jobs::{self, Job},
    oclgrind,
    process::{self, command},
    setup,
    steps::Steps,
};

const FOLDER: &str = "kernels";

/// A build: REPLICAS, TABLES, LANES, THREADS and the sanitizers. LANES is 0 for the kernels with
/// tables.
type Build = ([u32; 4], &'static str);

/// The builds of the tests for our kernels: each layout that an engine chooses. The first one is
/// NVIDIA's, with fewer threads.
const OURS: [Build; 10] = [
    ([32, 2, 0, 64], "address,undefined"),
    ([32, 2, 0, 64], "thread"),
    ([1, 4, 0, 32], "address,undefined"),
    ([1, 1, 0, 32], "thread"),
    ([8, 1, 0, 64], "address,undefined"),
    ([8, 2, 0, 32], ""),
    ([32, 1, 0, 96], ""),
    ([1, 1, 1, 64], "address,undefined"),
    ([1, 1, 8, 32], "thread"),
    ([1, 1, 16, 64], "address,undefined"),
];

/// The builds that only `--long` adds. With them every layout occurs.
const OURS_LONG: [Build; 5] = [
    ([1, 1, 0, 64], ""),
    ([1, 2, 0, 64], ""),
    ([8, 4, 0, 64], ""),
    ([32, 4, 0, 64], ""),
    ([1, 1, 4, 64], ""),
];

/// The same for the papers' kernels.
const PAPERS: [Build; 2] = [
    ([32, 1, 0, 32], "address,undefined"),
    ([1, 1, 0, 32], "thread"),
];

pub fn steps(steps: &mut Steps) {
    tests(steps);
    steps.run("kernels: PTX", || ptx(&[]));
}

/// The steps that run the kernels.
pub fn tests(steps: &mut Steps) {
    steps.run("kernels: host", host);
    steps.run("kernels: Oclgrind", oclgrind::check);
}

/// Generates and checks the PTX.
pub fn write(steps: &mut Steps) {
    steps.run("kernels: PTX", || ptx(&["--write"]));
}

fn host() -> Result<String, String> {
    let folder = process::root().join("target/kernels");
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut tables = command("/usr/bin/python3");
    tables.arg(format!("{FOLDER}/tables.py")).arg("--check");
    let mut list = vec![Job::new("tables.h", [tables])];
    let more: &[Build] = if process::is_long() { &OURS_LONG } else { &[] };
    let ours = OURS.iter().chain(more).map(|&build| ("test", build));
    let papers = PAPERS.map(|build| ("papers", build));
    for (test, build) in ours.chain(papers) {
        let ([replicas, tables, lanes, threads], sanitizers) = build;
        let layout =
            format!("REPLICAS {replicas}, TABLES {tables}, LANES {lanes}, THREADS {threads}");
        let name = format!("{test}: {layout} {sanitizers}")
            .trim_end()
            .to_owned();
        let program = folder.join(name.replace([' ', ',', ':'], "-"));
        let mut compile = command("c++");
        compile.args(["-std=c++17", "-O1", "-g1", "-pthread"]);
        compile.args(["-Wall", "-Wextra", "-Werror"]);
        if !sanitizers.is_empty() {
            compile.arg(format!("-fsanitize={sanitizers}"));
            compile.arg("-fno-sanitize-recover=all");
        }
        if process::is_long() {
            compile.arg("-DLUXOR_TEST_LONG");
        }
        compile.arg(format!("-DREPLICAS={replicas}"));
        compile.arg(format!("-DTABLES={tables}"));
        compile.arg(format!("-DLANES={lanes}"));
        compile.arg(format!("-DTHREADS={threads}"));
        compile.arg(format!("{FOLDER}/test/{test}.cpp"));
        compile.arg("-o").arg(&program);
        let mut test = if sanitizers == "thread" {
            without_randomisation()
        } else {
            command("env")
        };
        test.arg(&program).arg("vectors");
        list.push(Job::new(&name, [compile, test]).must_say(&format!("{layout}: passed")));
    }
    jobs::run(list)
}

/// Returns `setarch` if it can disable address randomisation, otherwise `env`. Older thread
/// sanitizers fail if the kernel randomises addresses more than they expect.
fn without_randomisation() -> Command {
    let mut setarch = command("setarch");
    setarch.arg("--addr-no-randomize");
    if process::succeeds(command("setarch").args(["--addr-no-randomize", "true"])) {
        setarch
    } else {
        command("env")
    }
}

fn ptx(args: &[&str]) -> Result<String, String> {
    let python = setup::ensure_python(
        &process::root().join("target/kernels/python"),
        &process::root().join(FOLDER).join("requirements.txt"),
    )?;
    process::run(command(python).arg(format!("{FOLDER}/ptx.py")).args(args))
}
