// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Debian packages `luxor`, `libluxor0` and `libluxor-dev`, which debhelper makes from
//! `packaging/debian`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    archive, bindings_c,
    process::{self, command, root},
};

/// What a package is made for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// From a release build, for users.
    ToInstall,
    /// From the build of the tests, to check how packages are made. It has the engine `fpga`, whose
    /// simulated core is C++. Compressing it well would take longer than the check.
    OfTests,
}

/// Makes the packages from the build in the folder `programs`. `time` is that of the commit.
pub fn packages(programs: &Path, folder: &Path, time: &str, kind: Kind) -> Result<(), String> {
    let source = archive::empty("target/debian/luxor")?;
    let debian = source.join("debian");
    let mut copy = command("cp");
    process::run(copy.args(["-r", "packaging/debian"]).arg(&source))?;
    let third_party = archive::third_party_licenses()?;
    archive::write(&source.join(archive::THIRD_PARTY), third_party)?;
    archive::write(&debian.join("changelog"), changelog(time)?)?;

    // What `debian/*.install` takes.
    let usr = source.join("built/usr");
    archive::programs_and_share(programs, &usr, "share/zsh/vendor-completions")?;
    let triplet = process::output(command("dpkg-architecture").arg("-qDEB_HOST_MULTIARCH"))?;
    let place = bindings_c::InstallFolders {
        folder: &usr,
        prefix: "/usr",
        lib: &format!("lib/{}", triplet.trim()),
    };
    let archive = programs.join("libluxor_c.a");
    bindings_c::install_into(&archive, &place, kind == Kind::OfTests)?;
    let units = usr.join("lib/systemd/system");
    for unit in files_with(&["service", "socket"], &root().join("systemd"))? {
        archive::copy(&unit, &units.join(unit.file_name().unwrap_or_default()))?;
    }

    let mut build = command("dpkg-buildpackage");
    build.args(["--build=binary", "--no-sign", "--no-pre-clean"]);
    build.current_dir(&source).env("SOURCE_DATE_EPOCH", time);
    if kind == Kind::OfTests {
        build.env("DPKG_DEB_COMPRESSOR_TYPE", "gzip");
        build.env("DPKG_DEB_COMPRESSOR_LEVEL", "1");
    }
    process::run(build)?;
    for package in files_with(&["deb"], &root().join("target/debian"))? {
        let name = package.file_name().unwrap_or_default();
        archive::copy(&package, &folder.join(name))?;
    }
    Ok(())
}

/// Returns the files in a folder whose names end with one of these extensions.
fn files_with(extensions: &[&str], folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = archive::list(folder)?;
    files.retain(|file| {
        let extension = file.extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| extensions.contains(&extension))
    });
    Ok(files)
}

/// The release for debhelper, which takes the version and the time from it.
fn changelog(time: &str) -> Result<String, String> {
    let date = process::output(
        command("date")
            .args(["--utc", "--rfc-email", "--date"])
            .arg(format!("@{time}")),
    )?;
    let control =
        fs::read_to_string(root().join("packaging/debian/control")).map_err(|e| e.to_string())?;
    let maintainer = control
        .lines()
        .find_map(|line| line.strip_prefix("Maintainer: "));
    Ok(format!(
        "luxor ({}) unstable; urgency=medium\n\n  * Release of Luxor.\n\n -- {}  {date}",
        archive::VERSION,
        maintainer.ok_or("packaging/debian/control names no maintainer")?
    ))
}

/// Checks the packages in the folder with lintian.
pub fn lint(folder: &Path, kind: Kind) -> Result<String, String> {
    let mut packages = files_with(&["deb"], folder)?;
    if kind == Kind::OfTests {
        // Reading the objects of the static library takes half a minute.
        packages.retain(|package| !package.to_string_lossy().contains("-dev_"));
    }
    process::run(
        command("lintian")
            .args(["--fail-on", "error,warning"])
            .args(packages),
    )
}

/// Installs, uses and removes the packages in the folder.
pub fn try_out(folder: &Path) -> Result<String, String> {
    process::run(command("packaging/try-packages.sh").arg(folder))
}
