// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask dist`: makes everything that users install, in `target/dist`. The same commit gives
//! the same bytes in every folder: times are the commit's, the programs do not contain the paths of
//! their sources, and archives are sorted.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use crate::{
    archive::{
        BUILD, LIBRARY, PROGRAMS, VERSION, cargo_home, copy, copy_licenses, empty, list,
        programs_and_share, rustup_home, tar, without_paths, write,
    },
    bindings_python,
    debian::{self, Kind},
    oci,
    process::{self, cargo, command, root},
    setup::{self, Need},
};

/// The target of the static programs. A static program cannot load the libraries of GPUs.
const STATIC: &str = "x86_64-unknown-linux-musl";

/// Makes everything. Returns a list of it.
pub fn make() -> Result<String, String> {
    setup::ensure(&Need::for_dist())?;
    let time = commit_time()?;
    let folder = empty("target/dist")?;
    let programs = build()?;
    debian::packages(&programs, &folder, &time, Kind::ToInstall)?;
    debian::lint(&folder, Kind::ToInstall)?;
    let programs = build_static()?;
    tarball(&programs, &folder, &time)?;
    oci::image(&programs, &folder, &time)?;
    bindings_python::dist(&folder, &time)?;
    bills_of_materials(&folder, &time)?;

    let names = list(&folder)?;
    let names = names.iter().filter_map(|file| file.file_name());
    let mut sums = command("sha256sum");
    let sums = process::output(sums.current_dir(&folder).args(names))?;
    write(&folder.join("SHA256SUMS"), &sums)?;
    Ok(format!("{} contains:\n{sums}", folder.display()))
}

/// Makes everything, and then once more as another user elsewhere would, and compares: in a clone, in a
/// folder with another name, with another home, mask of permissions and local date.
pub fn make_twice() -> Result<String, String> {
    let changes = process::output(command("git").args(["status", "--porcelain"]))?;
    if !changes.is_empty() {
        return Err(format!("the clone would lack these changes:\n{changes}"));
    }
    make()?;
    let folder = empty("target/dist-twice")?;
    let clone = folder.join("the second one");
    process::run(command("git").args(["clone", "--quiet", "."]).arg(&clone))?;
    let mut again = command("sh");
    again
        .args(["-c", "umask 077; exec \"$0\" xtask dist"])
        .arg(cargo("").get_program())
        .current_dir(&clone)
        .env("CARGO_HOME", cargo_home())
        .env("RUSTUP_HOME", rustup_home())
        .env("HOME", folder.join("home"))
        .env("TZ", zone_with_another_date());
    for name in ["LOGNAME", "USER"] {
        again.env(name, "other");
    }
    process::run(&mut again)?;
    let sums = |root: &Path| {
        let file = root.join("target/dist/SHA256SUMS");
        fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))
    };
    let (first, second) = (sums(root())?, sums(&clone)?);
    if first == second {
        return Ok(format!("{} files, twice the same", first.lines().count()));
    }
    let only_first = first.lines().filter(|line| !second.contains(line));
    let different: Vec<_> = only_first.collect();
    Err(format!(
        "these differ in {}:\n{}",
        clone.join("target/dist").display(),
        different.join("\n")
    ))
}

/// A time zone, as in POSIX, in which it is not the day that it is in UTC.
fn zone_with_another_date() -> &'static str {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let second_of_day = now.unwrap_or_default().as_secs() % 86400;
    if second_of_day < 43200 {
        "XXX+12"
    } else {
        "XXX-14"
    }
}

/// Makes the Debian packages from the programs and the library that the tests use, and checks them.
pub fn check() -> Result<String, String> {
    process::build_libraries(None)?;
    let programs = process::beside_this_program("")?;
    let folder = empty("target/dist-check")?;
    debian::packages(&programs, &folder, &commit_time()?, Kind::OfTests)?;
    debian::lint(&folder, Kind::OfTests)?;
    debian::try_out(&folder)
}

/// Builds the programs and the library for C. Returns their folder.
fn build() -> Result<PathBuf, String> {
    release(&format!("{PROGRAMS} {LIBRARY}"))?;
    Ok(root().join(BUILD).join("release"))
}

/// Builds the static programs. Returns their folder.
fn build_static() -> Result<PathBuf, String> {
    release(&format!(
        "{PROGRAMS} --target {STATIC} --no-default-features"
    ))?;
    Ok(root().join(BUILD).join(STATIC).join("release"))
}

/// Builds without the paths of this machine.
fn release(args: &str) -> Result<String, String> {
    let args = format!("build --locked --release --target-dir {BUILD} {args}");
    process::run(cargo(&args).env("CARGO_ENCODED_RUSTFLAGS", without_paths()))
}

/// Returns the time of the commit, in seconds since 1970.
fn commit_time() -> Result<String, String> {
    let time = process::output(command("git").args(["log", "-1", "--format=%ct"]))?;
    Ok(time.trim().to_owned())
}

/// The documents and the units for systemd in the archive of the static programs.
const DOCUMENTS: [&str; 5] = [
    "README.md",
    "CHANGELOG.md",
    "systemd/README.md",
    "systemd/luxor-serve@.service",
    "systemd/luxor-serve@.socket",
];

/// Makes the archive of the static programs, with their pages, completions, licences, documents and
/// units for systemd.
fn tarball(programs: &Path, folder: &Path, time: &str) -> Result<(), String> {
    let name = format!("luxor-{VERSION}-{STATIC}");
    let parent = empty("target/dist-stage")?;
    let stage = parent.join(&name);
    programs_and_share(programs, &stage, "share/zsh/site-functions")?;
    copy_licenses(&stage)?;
    for file in DOCUMENTS {
        copy(&root().join(file), &stage.join(file))?;
    }
    let archive = folder.join(format!("{name}.tar.gz"));
    process::run(
        tar(time, &parent)
            .arg("--use-compress-program=gzip -9n")
            .arg("-cf")
            .arg(archive)
            .arg(name),
    )?;
    Ok(())
}

/// Writes what the programs, the library for C and the Python module are made of, as `CycloneDX`. The
/// files that contain them are in the folder.
fn bills_of_materials(folder: &Path, time: &str) -> Result<(), String> {
    if !process::succeeds(cargo("cyclonedx --version")) {
        let install = "install --locked --debug --config profile.dev.debug=false";
        process::run(cargo(install).arg("cargo-cyclonedx@0.5.9"))?;
    }
    // It writes beside each Cargo.toml, and the path of the source into each document.
    let source = empty("target/dist-source")?;
    let archive = source.with_extension("tar");
    let mut export = command("git");
    process::run(
        export
            .args(["archive", "--output"])
            .arg(&archive)
            .arg("HEAD"),
    )?;
    process::run(
        command("tar")
            .arg("-xf")
            .arg(&archive)
            .arg("-C")
            .arg(&source),
    )?;
    let words = "cyclonedx --quiet --format json --spec-version 1.5 --override-filename bom";
    let mut describe = cargo(words);
    process::run(describe.current_dir(&source).env("SOURCE_DATE_EPOCH", time))?;
    let files = list(folder)?;
    let files = files.iter().filter_map(|file| file.file_name()?.to_str());
    for (package, name, beginnings) in bills() {
        let is_in = |file: &&str| beginnings.iter().any(|begin| file.starts_with(begin));
        let files: Vec<_> = files.clone().filter(is_in).collect();
        let bill = source.join(package).join("bom.json");
        let text = fs::read_to_string(&bill).map_err(|e| format!("{}: {e}", bill.display()))?;
        let text = text.replace(&*source.to_string_lossy(), "/luxor");
        let text = with_files(&text, &files)?;
        write(&folder.join(format!("{name}-{VERSION}.cdx.json")), text)?;
    }
    Ok(())
}

/// Returns the package and the name of each list, and the beginnings of the names of the files that
/// contain the program or library.
fn bills() -> [(&'static str, &'static str, Vec<String>); 4] {
    let file = |name: &str| format!("{name}{VERSION}");
    let (deb, archive) = (file("luxor_"), file("luxor-"));
    let programs = vec![deb.clone(), format!("{archive}-{STATIC}")];
    let libraries = vec![file("libluxor0_"), file("libluxor-dev_")];
    [
        ("crates/cli", "luxor", vec![deb, archive]),
        ("bench", "luxor-bench", programs),
        ("bindings/c", "libluxor", libraries),
        ("bindings/python", "luxor_xts", vec![file("luxor_xts-")]),
    ]
}

/// Adds the names of the files that contain it to the component which a list in `CycloneDX` describes.
fn with_files(bill: &str, files: &[&str]) -> Result<String, String> {
    const COMPONENT: &str = "\"component\": {";
    if files.is_empty() || !bill.contains(COMPONENT) {
        return Err("no file contains what a list of components describes".to_owned());
    }
    let property = |file| format!(r#"{{ "name": "luxor:file", "value": "{file}" }}"#);
    let properties: Vec<_> = files.iter().map(property).collect();
    let properties = properties.join(",\n        ");
    let properties = format!("\n      \"properties\": [\n        {properties}\n      ],");
    Ok(bill.replacen(COMPONENT, &format!("{COMPONENT}{properties}"), 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_list_of_components_is_of_the_files_that_contain_it() {
        let archive = format!("luxor-{VERSION}-{STATIC}.tar.gz");
        for (file, lists) in [
            (format!("luxor_{VERSION}_amd64.deb"), "luxor luxor-bench"),
            (archive, "luxor luxor-bench"),
            (format!("luxor-{VERSION}-oci.tar"), "luxor"),
            (format!("libluxor-dev_{VERSION}_amd64.deb"), "libluxor"),
            (format!("luxor_xts-{VERSION}-cp311.whl"), "luxor_xts"),
        ] {
            let of = bills().into_iter().filter(|(_, _, beginnings)| {
                let mut beginnings = beginnings.iter();
                beginnings.any(|beginning| file.starts_with(beginning))
            });
            let names: Vec<_> = of.map(|(_, name, _)| name).collect();
            assert_eq!(names.join(" "), lists, "{file}");
        }
    }

    #[test]
    fn a_list_of_components_names_its_files() {
        let bill = r#"{ "metadata": { "component": { "name": "luxor-cli" } } }"#;
        let named = with_files(bill, &["a.deb", "b.tar"]).unwrap();
        let named: String = named.split_whitespace().collect();
        assert_eq!(
            named,
            r#"{"metadata":{"component":{"properties":[{"name":"luxor:file","value":"a.deb"},{"name":"luxor:file","value":"b.tar"}],"name":"luxor-cli"}}}"#
        );
        assert!(with_files(bill, &[]).is_err());
        assert!(with_files("{}", &["a.deb"]).is_err());
    }
}
