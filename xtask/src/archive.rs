// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the archives that users install have in common: their files, their licences, and flags that keep
//! this machine's paths out of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::process::{self, cargo, command, root};

pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The folder of these builds. Their flags differ from those of others.
pub const BUILD: &str = "target/dist-build";

/// The packages of the programs, and of the libraries for C and Python, as arguments of cargo.
pub const PROGRAMS: &str = "--package luxor-cli --package luxor-bench";
pub const LIBRARY: &str = "--package luxor-c";
const MODULE: &str = "--package luxor-python";

/// The licences of the project, in every archive.
pub const LICENSES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// The file with the licences of other projects, in every archive.
pub const THIRD_PARTY: &str = "THIRD-PARTY-LICENSES";

/// Returns flags for the compiler, for `CARGO_ENCODED_RUSTFLAGS`, that replace this machine's paths.
pub fn without_paths() -> String {
    [(root(), "/luxor"), (&cargo_home(), "/cargo")]
        .map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()))
        .join("\x1f")
}

/// Returns the folder in which cargo keeps the sources of other crates.
pub fn cargo_home() -> PathBuf {
    home_of("CARGO_HOME", ".cargo")
}

/// Returns the folder in which rustup keeps the compilers.
pub fn rustup_home() -> PathBuf {
    home_of("RUSTUP_HOME", ".rustup")
}

/// Returns the folder of a tool, which a variable or else its name in the user's home gives.
fn home_of(variable: &str, name: &str) -> PathBuf {
    let home = env::home_dir().unwrap_or_default().join(name);
    env::var_os(variable).map_or(home, PathBuf::from)
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
