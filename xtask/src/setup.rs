// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the chores need from the machine: found, or installed, or named.

use crate::{
    BARE_TARGET,
    process::{self, cargo, command, find},
};

/// Something that must be there.
pub struct Need {
    what: &'static str,
    is_there: fn() -> bool,
    packages: Packages,
}

/// The packages with it, per distribution, separated by spaces.
struct Packages {
    debian: &'static str,
    fedora: &'static str,
    arch: &'static str,
    suse: &'static str,
}

impl Need {
    /// What `cargo xtask test` needs beside the Rust toolchain.
    pub fn for_tests() -> Vec<Self> {
        vec![
            Self {
                what: "cryptsetup",
                is_there: || find("cryptsetup").is_some(),
                packages: Packages::same("cryptsetup").debian("cryptsetup-bin"),
            },
            Self {
                // The system's Python: another one earlier on PATH may lack the module.
                what: "/usr/bin/python3 with the module cryptography",
                is_there: || {
                    process::succeeds(
                        command("/usr/bin/python3").args(["-c", "import cryptography"]),
                    )
                },
                packages: Packages::same("python3-cryptography").arch("python-cryptography"),
            },
            Self {
                what: "openssl",
                is_there: || find("openssl").is_some(),
                packages: Packages::same("openssl"),
            },
            Self {
                what: "losetup, mount and umount",
                is_there: || {
                    ["losetup", "mount", "umount"]
                        .iter()
                        .all(|p| find(p).is_some())
                },
                packages: Packages::same("util-linux").debian("mount"),
            },
        ]
    }

    /// What `cargo xtask ci` needs: libFuzzer is C++, and the checks list files by Git.
    pub fn for_ci() -> Vec<Self> {
        let mut needs = Self::for_tests();
        needs.push(Self {
            what: "c++",
            is_there: || find("c++").is_some(),
            packages: Packages::same("gcc-c++").debian("g++").arch("gcc"),
        });
        needs.push(Self {
            what: "git",
            is_there: || find("git").is_some(),
            packages: Packages::same("git"),
        });
        needs
    }
}

impl Packages {
    const fn same(name: &'static str) -> Self {
        Self {
            debian: name,
            fedora: name,
            arch: name,
            suse: name,
        }
    }

    const fn debian(mut self, name: &'static str) -> Self {
        self.debian = name;
        self
    }

    const fn arch(mut self, name: &'static str) -> Self {
        self.arch = name;
        self
    }
}

/// Sees to it that everything is there, the parts of the Rust toolchain included.
pub fn ensure(needs: &[Need]) -> Result<String, String> {
    let missing: Vec<&Need> = needs.iter().filter(|need| !(need.is_there)()).collect();
    if !missing.is_empty() {
        install(&missing)?;
    }
    for need in needs {
        if !(need.is_there)() {
            return Err(format!(
                "{} is still missing after the installation",
                need.what
            ));
        }
    }
    ensure_rust_parts()?;
    let names: Vec<_> = missing.iter().map(|need| need.what).collect();
    Ok(if names.is_empty() {
        String::new()
    } else {
        format!("installed: {}", names.join("; "))
    })
}

/// A cargo subcommand as `cargo-deny`, built from source if absent.
pub fn ensure_cargo_tool(name: &str) -> Result<String, String> {
    let subcommand = name.trim_start_matches("cargo-");
    if process::succeeds(cargo(subcommand).arg("--version")) {
        return Ok(String::new());
    }
    process::run(cargo("install --locked").arg(name))
}

fn install(missing: &[&Need]) -> Result<(), String> {
    let names: Vec<_> = missing.iter().map(|need| need.what).collect();
    println!("missing: {}", names.join("; "));
    let packages = |of: fn(&Packages) -> &'static str| {
        missing
            .iter()
            .map(|need| of(&need.packages))
            .collect::<Vec<_>>()
    };
    if find("apt-get").is_none() {
        return Err(if find("dnf").is_some() {
            format!("run: sudo dnf install {}", packages(|p| p.fedora).join(" "))
        } else if find("pacman").is_some() {
            format!("run: sudo pacman -S {}", packages(|p| p.arch).join(" "))
        } else if find("zypper").is_some() {
            format!(
                "run: sudo zypper install {}",
                packages(|p| p.suse).join(" ")
            )
        } else {
            format!("install by hand: {}", names.join("; "))
        });
    }
    let packages = packages(|p| p.debian);
    let by_hand = format!(
        "run: sudo apt-get update && sudo apt-get install --yes --no-install-recommends {}",
        packages.join(" ")
    );
    let is_root = process::output(command("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    let as_root: &[&str] = if is_root {
        &["env"]
    } else if process::succeeds(command("sudo").args(["-n", "true"])) {
        &["sudo", "-n", "env"]
    } else {
        return Err(by_hand);
    };
    let apt_get = |args: &[&str]| {
        process::run(
            command(as_root[0])
                .args(&as_root[1..])
                .args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet"])
                .args(args),
        )
    };
    // A fresh machine has no package lists; a list that cannot be fetched anew may do.
    let updated = apt_get(&["update"]);
    let install = ["install", "--yes", "--no-install-recommends"];
    apt_get(&[&install, packages.as_slice()].concat()).map_err(|error| match updated {
        Ok(_) => format!("{error}; by hand: {by_hand}"),
        Err(update) => format!("{update}; {error}; by hand: {by_hand}"),
    })?;
    Ok(())
}

/// rustfmt, clippy and the bare target, by rustup if absent.
fn ensure_rust_parts() -> Result<(), String> {
    for (part, subcommand) in [("rustfmt", "fmt"), ("clippy", "clippy")] {
        if !process::succeeds(cargo(subcommand).arg("--version")) {
            process::run(command("rustup").args(["component", "add", part]))
                .map_err(|e| format!("{e}: {part} is missing from the Rust toolchain"))?;
        }
    }
    let core = process::output(command(rustc()).args([
        "--print",
        "target-libdir",
        "--target",
        BARE_TARGET,
    ]))?;
    if !std::path::Path::new(core.trim()).is_dir() {
        process::run(command("rustup").args(["target", "add", BARE_TARGET]))
            .map_err(|e| format!("{e}: the target {BARE_TARGET} is missing from the toolchain"))?;
    }
    Ok(())
}

fn rustc() -> std::ffi::OsString {
    std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())
}
