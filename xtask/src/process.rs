// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts child processes, all in the same environment.

use std::{
    borrow::BorrowMut,
    env,
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::cpu;

/// The root of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask/ has a parent folder")
}

/// Returns whether to run what is left out otherwise: the command line has `--long`, or the
/// environment has `LUXOR_TEST_LONG`.
pub fn is_long() -> bool {
    env::args().any(|arg| arg == "--long") || env::var_os("LUXOR_TEST_LONG").is_some()
}

/// Returns a program that runs in the root of the repository, without standard input.
///
/// Removes inherited variables: `RUSTFLAGS` would change what the compiler makes, and
/// `LUXOR_REQUIRE_ENGINES` what the tests require. Cargo sets those about the package xtask, for
/// which the crate `ring` and all that use it would be built again after a build without xtask.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(root())
        .stdin(Stdio::null())
        .env("PATH", search_path());
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let is_of_xtask = text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_");
        if text.ends_with("RUSTFLAGS") || text == "LUXOR_REQUIRE_ENGINES" || is_of_xtask {
            command.env_remove(&name);
        }
    }
    if builds_everything() {
        // In a new clone, preparing for the next build takes a sixth of the time. A chore for one
        // area is repeated after each change, and profits from it. Debug information and many small
        // units of code take another quarter.
        command.env("CARGO_INCREMENTAL", "0");
        command.env("CARGO_PROFILE_DEV_DEBUG", "false");
        command.env("CARGO_PROFILE_DEV_CODEGEN_UNITS", "4");
    }
    command
}

/// Whether this chore builds everything.
pub fn builds_everything() -> bool {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    matches!(args[..], ["ci" | "test"] | ["test", "--long"])
}

/// Returns the `cargo` that runs this program, with the words of `args`.
pub fn cargo(args: &str) -> Command {
    let mut command = command(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args.split(' '));
    command
}

/// Returns `cargo` with the default effects of signals, if `env` can restore them. Signals are
/// ignored in a command that was started in the background or with `nohup`, and then tests of
/// signals would wait for ever.
pub fn cargo_with_signals(args: &str) -> Command {
    let default = "--default-signal=HUP,INT,QUIT,TERM";
    if !succeeds(command("env").args([default, "true"])) {
        return cargo(args);
    }
    let cargo = cargo(args);
    let mut env = command("env");
    env.arg(default)
        .arg(cargo.get_program())
        .args(cargo.get_args());
    env
}

/// Returns a subcommand of `cargo` for the whole workspace, with the engine `fpga`, which needs
/// Verilator. Every subcommand uses the same features, including those for tests, so that nothing
/// is built twice.
pub fn cargo_workspace(subcommand: &str) -> Command {
    let mut command = cargo_with_signals(subcommand);
    command.args(["--locked", "--workspace", "--features"]);
    command.arg(
        FEATURES
            .map(|(package, name)| format!("{package}/{name}"))
            .join(","),
    );
    command
}

/// As [`cargo_workspace`], for these packages alone, separated by spaces.
pub fn cargo_packages(subcommand: &str, packages: &str) -> Command {
    let mut command = cargo_with_signals(subcommand);
    command.arg("--locked");
    add_packages(&mut command, packages);
    command
}

/// Adds these packages, separated by spaces, and their features to the arguments of `cargo`.
pub fn add_packages(cargo: &mut Command, packages: &str) {
    for package in packages.split(' ') {
        cargo.args(["--package", package]);
        for (_, name) in FEATURES.iter().filter(|(of, _)| *of == package) {
            cargo.arg(format!("--features={package}/{name}"));
        }
    }
}

/// Builds the libraries for other languages: with the tests of these packages, or of the whole
/// workspace, since then cargo chooses the same features as for them, and builds nothing twice.
pub fn build_libraries(packages: Option<&str>) -> Result<String, String> {
    let mut build = match packages {
        None => cargo_workspace("build"),
        Some(packages) => cargo_packages("build", packages),
    };
    run(build.args(["--lib", "--tests"]))
}

/// The features with which the workspace is tested, and their packages.
const FEATURES: [(&str, &str); 5] = [
    ("luxor-engine-fpga", "designs"),
    ("luxor-cli", "fpga"),
    ("luxor-bench", "fpga"),
    ("luxor-files", "testing"),
    ("luxor-sector", "faulty"),
];

/// Returns a program that was built with this one, by its path in the profile's folder.
pub fn beside_this_program(path: &str) -> Result<PathBuf, String> {
    let this = env::current_exe().map_err(|e| e.to_string())?;
    Ok(this.with_file_name(path))
}

/// Returns a folder with the driver for NVIDIA's GPUs that runs kernels in the emulator.
pub fn emulated_driver(folder: &Path) -> Result<PathBuf, String> {
    let folder = folder.join("driver");
    let (from, to) = (
        beside_this_program("libluxor_ptx_driver.so")?,
        folder.join("libcuda.so.1"),
    );
    fs::create_dir_all(&folder)
        .and_then(|()| fs::copy(&from, &to))
        .map_err(|e| format!("{} to {}: {e}", from.display(), to.display()))?;
    Ok(folder)
}

/// Runs a command to its end and shows its output. An error names the command.
pub fn run(mut command: impl BorrowMut<Command>) -> Result<String, String> {
    let command = command.borrow_mut();
    eprintln!("$ {}", line(command));
    match command.spawn().and_then(|mut child| cpu::wait(&mut child)) {
        Ok(status) if status.success() => Ok(String::new()),
        Ok(status) => Err(format!("{}: {status}", line(command))),
        Err(error) => Err(format!("{}: {error}", line(command))),
    }
}

/// Runs a command to its end and returns its standard output.
pub fn output(mut command: impl BorrowMut<Command>) -> Result<String, String> {
    let command = command.borrow_mut();
    let output = cpu::output(command.stdout(Stdio::piped()).stderr(Stdio::inherit()))
        .map_err(|error| format!("{}: {error}", line(command)))?;
    if !output.status.success() {
        return Err(format!("{}: {}", line(command), output.status));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{}: not UTF-8", line(command)))
}

/// Whether the command runs and exits with code 0. Its output is not shown.
pub fn succeeds(mut command: impl BorrowMut<Command>) -> bool {
    let command = command
        .borrow_mut()
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Returns the file of a program on the search path.
pub fn find(program: &str) -> Option<PathBuf> {
    env::split_paths(&search_path())
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Returns the command line as text.
pub fn line(command: &Command) -> String {
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns `PATH` with the administrator's folders, which contain `cryptsetup` and `losetup` and
/// are missing from an ordinary user's `PATH` on Debian.
fn search_path() -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let sbin = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut folders: Vec<PathBuf> = env::split_paths(&path).collect();
    folders.extend(
        sbin.into_iter()
            .filter(|folder| !env::split_paths(&path).any(|p| p == *folder)),
    );
    env::join_paths(folders).unwrap_or(path)
}
