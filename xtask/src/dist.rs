// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask dist`: makes everything that users install, in `target/dist`. The same commit gives
//! the same bytes in every folder: times are the commit's, the programs do not contain the paths of
//! their sources, and archives are sorted.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    bindings_python,
    debian::{self, Kind},
    oci,
    process::{self, cargo, command, root},
    setup::{self, Need},
};

pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The folder of these builds. Their flags differ from those of others.
pub const BUILD: &str = "target/dist-build";

/// The target of the static programs. A static program cannot load the libraries of GPUs.
const STATIC: &str = "x86_64-unknown-linux-musl";

/// The packages of the programs, and of the libraries for C and Python, as arguments of cargo.
const PROGRAMS: &str = "--package luxor-cli --package luxor-bench";
const LIBRARY: &str = "--package luxor-c";
const MODULE: &str = "--package luxor-python";

/// The licences of the project, in every archive.
pub const LICENSES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// The file with the licences of other projects, in every archive.
pub const THIRD_PARTY: &str = "THIRD-PARTY-LICENSES";

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

/// Returns flags for the compiler, for `CARGO_ENCODED_RUSTFLAGS`, that replace this machine's paths.
pub fn without_paths() -> String {
    [(root(), "/luxor"), (&cargo_home(), "/cargo")]
        .map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()))
        .join("\x1f")
}

fn cargo_home() -> PathBuf {
    let home = env::home_dir().unwrap_or_default().join(".cargo");
    env::var_os("CARGO_HOME").map_or(home, PathBuf::from)
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

/// Returns a `tar` that makes the same archive everywhere, of names in the folder `parent`.
pub fn tar(time: &str, parent: &Path) -> Command {
    let mut tar = command("tar");
    tar.args("--format=gnu --sort=name --owner=0 --group=0 --numeric-owner".split(' '));
    tar.args(["--mode=u=rwX,go=rX", &format!("--mtime=@{time}")]);
    tar.arg("-C").arg(parent);
    tar
}

/// Puts the programs into the folder `prefix`, with the files that `luxor` writes about itself.
/// `zsh` is where zsh looks for completions.
pub fn programs_and_share(programs: &Path, prefix: &Path, zsh: &str) -> Result<(), String> {
    for name in ["luxor", "luxor-bench"] {
        let program = prefix.join("bin").join(name);
        copy(&programs.join(name), &program)?;
        process::run(command("strip").arg(program))?;
    }
    let luxor = programs.join("luxor");
    let pages = prefix.join("share/man/man1");
    make_folder(&pages)?;
    process::run(command(&luxor).arg("man").arg(pages))?;
    for (shell, file) in [
        ("bash", "share/bash-completion/completions/luxor"),
        ("fish", "share/fish/vendor_completions.d/luxor.fish"),
        ("zsh", &format!("{zsh}/_luxor")),
    ] {
        let completions = process::output(command(&luxor).args(["completions", shell]))?;
        write(&prefix.join(file), completions)?;
    }
    Ok(())
}

/// Puts the licences of the project and those of others into a folder.
pub fn copy_licenses(folder: &Path) -> Result<(), String> {
    for license in LICENSES {
        copy(&root().join(license), &folder.join(license))?;
    }
    write(&folder.join(THIRD_PARTY), third_party_licenses()?)
}

/// Returns the licences of the crates that are linked into the programs and the libraries. A text that
/// several crates have appears once.
pub fn third_party_licenses() -> Result<String, String> {
    let arguments = "tree --locked --edges normal --prefix none --format {p}";
    let tree = process::output(cargo(&format!("{arguments} {PROGRAMS} {LIBRARY} {MODULE}")))?;
    let sources = list(&cargo_home().join("registry/src"))?;
    let mut texts = BTreeMap::<String, BTreeSet<String>>::new();
    // Our own crates have a path in the third column. They have the project's licences.
    for package in tree.lines().filter(|line| !line.contains('/')) {
        let mut columns = package.split_whitespace();
        let (Some(name), Some(version)) = (columns.next(), columns.next()) else {
            continue;
        };
        let package = format!("{name}-{}", version.trim_start_matches('v'));
        let mut folders = sources.iter().map(|source| source.join(&package));
        let folder = folders.find(|folder| folder.is_dir());
        let folder = folder.ok_or_else(|| format!("the source of {package} is missing"))?;
        for file in list(&folder)?.iter().filter(|file| is_license(file)) {
            let text = fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
            texts.entry(text).or_default().insert(package.clone());
        }
    }
    let mut all = STANDARD_LIBRARIES.to_owned();
    let mut texts: Vec<_> = texts.into_iter().collect();
    texts.sort_by(|(_, a), (_, b)| a.cmp(b));
    for (text, packages) in texts {
        let packages = Vec::from_iter(packages).join(", ");
        all += &format!("\n{}\n{packages}:\n\n{}\n", "-".repeat(80), text.trim_end());
    }
    Ok(all)
}

const STANDARD_LIBRARIES: &str = "\
Luxor's programs and libraries contain the crates below. They also contain the standard library of
Rust (MIT OR Apache-2.0), and the static programs contain musl (MIT, Copyright 2005-2020 Rich Felker
and others). The texts of these licences are among those below.
";

fn is_license(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let name = name.to_uppercase();
    let beginnings = ["LICEN", "COPY", "NOTICE", "UNLICENSE"];
    file.is_file()
        && beginnings
            .iter()
            .any(|beginning| name.starts_with(beginning))
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

/// Returns a folder of the repository that is empty now.
pub fn empty(name: &str) -> Result<PathBuf, String> {
    let folder = root().join(name);
    let _ = fs::remove_dir_all(&folder);
    make_folder(&folder)?;
    Ok(folder)
}

pub fn make_folder(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))
}

fn make_parent(file: &Path) -> Result<(), String> {
    file.parent().map_or(Ok(()), make_folder)
}

/// Copies a file, and makes the folder for it.
pub fn copy(from: &Path, to: &Path) -> Result<(), String> {
    make_parent(to)?;
    fs::copy(from, to).map_err(|e| format!("{} to {}: {e}", from.display(), to.display()))?;
    Ok(())
}

/// Writes a file, and makes the folder for it.
pub fn write(file: &Path, contents: impl AsRef<[u8]>) -> Result<(), String> {
    make_parent(file)?;
    fs::write(file, contents).map_err(|e| format!("{}: {e}", file.display()))
}

/// Returns the paths in a folder, sorted.
pub fn list(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let named = |e: std::io::Error| format!("{}: {e}", folder.display());
    let entries = fs::read_dir(folder).map_err(named)?;
    let paths = entries.map(|entry| Ok(entry?.path()));
    let mut paths = paths.collect::<Result<Vec<_>, _>>().map_err(named)?;
    paths.sort();
    Ok(paths)
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
