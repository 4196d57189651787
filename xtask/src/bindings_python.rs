// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask test python`: puts the Python module together from what the tests have built, and
//! runs its tests, the examples of its README, and two type checkers.

use std::{
    env, fs, io, iter,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    archive, go,
    process::{self, command},
    setup,
};

const FOLDER: &str = "bindings/python";
const MANIFEST: &str = "bindings/python/Cargo.toml";
const CONFIG: &str = "bindings/python/pyproject.toml";
const DOCUMENT: &str = "bindings/python/README.md";
const FIXTURES: &str = "bindings/python/conftest.py";
const TESTS: &str = "bindings/python/tests";
const PYTEST: &[&str] = &["pytest", "-q", "-c", CONFIG, "--rootdir", "."];

/// The S3 server that the tests run, with objects in files.
const S3_SERVER: go::Program = go::Program {
    package: "github.com/versity/versitygw/cmd/versitygw",
    version: "v1.8.0",
    oldest_go: 25,
};

/// The environment variable with its path, for `tests/s3.py`.
const S3_SERVER_VARIABLE: &str = "LUXOR_TEST_S3_SERVER";

/// What only the long tests use, because it has gigabytes.
const TORCH: &str = "torch==2.15.0";

/// Builds and tests the module. `packages` are those of the chore's other tests, or `None` for the
/// whole workspace.
pub fn test(packages: Option<&str>) -> Result<String, String> {
    let folder = process::root().join("target/bindings-python");
    let python = python(&folder)?;
    if process::is_long() {
        let install = ["-m", "pip", "--quiet", "install", "--only-binary", ":all:"];
        process::run(command(&python).args(install).arg(TORCH))?;
    }
    let s3_server = s3_server(&folder)?;
    process::build_libraries(packages)?;
    let path = folder.join("path");
    put_together(&path, &python)?;
    let driver = process::emulated_driver(&folder)?;
    let run = |args: &[&str]| {
        let mut run = command(&python);
        run.args(["-B", "-m"]).args(args);
        // The type checker finds the module in the same place.
        run.env("PYTHONPATH", &path).env("MYPYPATH", &path);
        run.env(S3_SERVER_VARIABLE, &s3_server);
        if process::is_long() {
            run.env("LUXOR_TEST_LONG", "1");
        }
        process::run(run.env("LD_LIBRARY_PATH", &driver))
    };
    let cache = folder.join("mypy");
    let cache = cache.to_string_lossy();
    let mypy = ["mypy", "--config-file", CONFIG, "--cache-dir", &cache];
    run(&[&mypy[..], &["--package", "luxor"]].concat())?;
    run(&[&mypy[..], &[FIXTURES, TESTS]].concat())?;
    // Otherwise pyright takes the interpreter of the search path, which lacks the packages.
    let (interpreter, package) = (python.to_string_lossy(), path.join("luxor"));
    let package = package.to_string_lossy();
    run(&["pyright", "--pythonpath", &interpreter, &package])?;
    run(&[PYTEST, &[TESTS, DOCUMENT]].concat())
}

/// The systems for which wheels are built: a target of Rust, and the oldest C library on which the
/// wheel must run.
const WHEELS: [(&str, &str); 4] = [
    ("x86_64-unknown-linux-gnu", "manylinux2014"),
    ("aarch64-unknown-linux-gnu", "manylinux2014"),
    ("x86_64-unknown-linux-musl", "musllinux_1_2"),
    ("aarch64-unknown-linux-musl", "musllinux_1_2"),
];

/// The interpreters for which wheels are built: the stable ABI from this version on, and the
/// free-threaded build, which has no stable ABI in this version.
const INTERPRETERS: [&str; 2] = ["python3.11", "python3.14t"];

/// Builds the wheels for all systems into `folder`. Zig links for those that this one is not.
/// `time` is that of the files in them.
pub fn dist(folder: &Path, time: &str) -> Result<String, String> {
    let requirements = process::root().join(FOLDER).join("dist-requirements.txt");
    let python = setup::ensure_python(
        &process::root().join("target/bindings-python/dist"),
        &requirements,
    )?;
    write_third_party_licenses()?;
    for (target, system) in WHEELS {
        setup::ensure_target(target)?;
        let mut build = maturin(&python, folder, "release");
        build.args(["--zig", "--target", target, "--compatibility", system]);
        build.args(["--target-dir", archive::BUILD]);
        build.env("CARGO_ENCODED_RUSTFLAGS", archive::without_paths());
        build.env("SOURCE_DATE_EPOCH", time);
        process::run(build.arg("--interpreter").args(INTERPRETERS))?;
    }
    Ok(String::new())
}

/// Writes the licences of other projects where `license-files` in pyproject.toml finds them. Those of
/// Luxor are links in the same folder.
fn write_third_party_licenses() -> Result<(), String> {
    let file = process::root().join(FOLDER).join(archive::THIRD_PARTY);
    archive::write(&file, archive::third_party_licenses()?)
}

/// Returns a command that builds a wheel into `folder`, with this profile of cargo.
fn maturin(python: &Path, folder: &Path, profile: &str) -> Command {
    let mut build = command(python);
    build.args(["-m", "maturin", "build", "--locked", "--quiet"]);
    build.args(["--profile", profile]);
    build
        .args(["--manifest-path", MANIFEST, "--out"])
        .arg(folder);
    // maturin looks for Zig in this environment only by the search path.
    let bin = python.parent().expect("the interpreter is in a folder");
    let path = env::var_os("PATH").unwrap_or_default();
    let path = iter::once(bin.to_owned()).chain(env::split_paths(&path));
    build.env(
        "PATH",
        env::join_paths(path).expect("these paths have no colons"),
    );
    build
}

/// Builds the wheel for this system, with the profile of the tests to share what they compiled. Installs it
/// into an environment of its own, and runs the examples there. The wheel must contain all licences.
pub fn wheel() -> Result<String, String> {
    let folder = process::root().join("target/bindings-python");
    let python = python(&folder)?;
    let s3_server = s3_server(&folder)?;
    let wheels = folder.join("wheels");
    let _ = fs::remove_dir_all(&wheels);
    write_third_party_licenses()?;
    process::run(maturin(&python, &wheels, "dev"))?;
    let mut names = fs::read_dir(&wheels).map_err(|e| format!("{}: {e}", wheels.display()))?;
    let wheel = names.next().ok_or("maturin made no wheel")?;
    let wheel = wheel.map_err(|e| e.to_string())?.path();

    let installed = folder.join("installed");
    let _ = fs::remove_dir_all(&installed);
    let mut install = command(&python);
    install.args(["-m", "pip", "--quiet", "install", "--no-index", "--target"]);
    process::run(install.arg(&installed).arg(&wheel))?;
    let licenses = format!("luxor_xts-{}.dist-info/licenses", archive::VERSION);
    for license in archive::LICENSES.iter().chain([&archive::THIRD_PARTY]) {
        let file = installed.join(&licenses).join(license);
        fs::metadata(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    let mut examples = command(&python);
    examples.args(["-B", "-m"]).args(PYTEST).arg(DOCUMENT);
    examples.env(S3_SERVER_VARIABLE, &s3_server);
    process::run(examples.env("PYTHONPATH", &installed))?;
    let name = wheel.file_name().unwrap_or_default().to_string_lossy();
    Ok(name.into_owned())
}

/// Returns the interpreter of an environment with what the tests use.
fn python(folder: &Path) -> Result<PathBuf, String> {
    let requirements = process::root().join(TESTS).join("requirements.txt");
    setup::ensure_python(&folder.join("python"), &requirements)
}

/// Returns the S3 server.
fn s3_server(folder: &Path) -> Result<PathBuf, String> {
    go::ensure(&S3_SERVER, &folder.join("go"))
}

/// Copies the parts of the module into the folder `path`, and writes what an installation records
/// about the package there: fsspec finds the protocol "luks" in it.
fn put_together(path: &Path, python: &Path) -> Result<(), String> {
    let fail = |path: &Path, e: io::Error| format!("{}: {e}", path.display());
    let (source, target) = (
        process::root().join(FOLDER).join("python/luxor"),
        path.join("luxor"),
    );
    let _ = fs::remove_dir_all(&target);
    fs::create_dir_all(&target).map_err(|e| fail(&target, e))?;
    for entry in fs::read_dir(&source).map_err(|e| fail(&source, e))? {
        let from = entry.map_err(|e| fail(&source, e))?.path();
        if let (true, Some(name)) = (from.is_file(), from.file_name()) {
            fs::copy(&from, target.join(name)).map_err(|e| fail(&from, e))?;
        }
    }
    let library = process::beside_this_program("lib_luxor.so")?;
    fs::copy(&library, target.join("_luxor.abi3.so")).map_err(|e| fail(&library, e))?;
    let mut record = command(python);
    record.args(["-m", "maturin", "pep517", "write-dist-info"]);
    record.args(["--locked", "--quiet", "--manifest-path", MANIFEST]);
    record.arg("--interpreter").arg(python);
    process::run(record.arg("--metadata-directory").arg(path))?;
    Ok(())
}
