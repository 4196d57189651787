// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks for the programs and libraries that the chores need, and installs or names missing ones.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    page,
    process::{self, cargo, command, find},
    tools,
};

/// Something that must be present.
pub struct Need {
    what: String,
    is_there: Box<dyn Fn() -> bool>,
    packages: Packages,
}

/// The packages that contain it in each distribution, separated by spaces.
#[derive(Clone, Copy)]
struct Packages {
    debian: &'static str,
    fedora: &'static str,
    arch: &'static str,
    suse: &'static str,
}

impl Need {
    /// Returns what `cargo xtask test` needs besides the Rust toolchain.
    pub fn for_tests() -> Vec<Self> {
        vec![
            Self::programs(
                &["cryptsetup"],
                Packages::same("cryptsetup").debian("cryptsetup-bin"),
            ),
            // The system's Python: another one earlier on PATH may lack the module.
            Self {
                what: "/usr/bin/python3 with the module cryptography".to_owned(),
                is_there: Box::new(|| {
                    let import = ["-c", "import cryptography"];
                    process::succeeds(command("/usr/bin/python3").args(import))
                }),
                packages: Packages::same("python3-cryptography").arch("python-cryptography"),
            },
            Self::programs(&["openssl"], Packages::same("openssl")),
            Self::programs(
                &["losetup", "mount", "umount"],
                Packages::same("util-linux").debian("mount"),
            ),
            Self::programs(&["script"], Packages::same("util-linux").debian("bsdutils")),
            Self::programs(
                &["setpriv", "setsid", "unshare"],
                Packages::same("util-linux"),
            ),
            Self::programs(
                &["addpart", "delpart", "flock", "wipefs"],
                Packages::same("util-linux"),
            ),
            Self::programs(
                &["fdisk", "sfdisk"],
                Packages::same("util-linux").debian("fdisk"),
            ),
            Self::programs(
                &["qemu-img", "qemu-io", "qemu-nbd"],
                Packages::same("qemu-img").debian("qemu-utils"),
            ),
            Self::programs(
                &["nbdcopy", "nbdinfo"],
                Packages::same("libnbd").debian("libnbd-bin"),
            ),
            Self::fio(),
            Self::programs(&["fusermount3"], Packages::same("fuse3")),
            Self::programs(&["e2fsck", "mkfs.ext4"], Packages::same("e2fsprogs")),
            // File systems that `luxor mount --files` shows, and their drivers.
            Self::programs(&["fuse2fs"], Packages::same("fuse2fs")),
            Self::programs(
                &["mkntfs", "ntfs-3g"],
                Packages::same("ntfs-3g").fedora("ntfs-3g ntfsprogs"),
            ),
            Self::programs(
                &["mksquashfs", "squashfuse"],
                Packages::same("squashfs-tools squashfuse").suse("squashfs squashfuse"),
            ),
            Self::programs(
                &["fuseiso", "genisoimage"],
                Packages::same("fuseiso genisoimage").arch("fuseiso cdrtools"),
            ),
            Self::programs(
                &["fusefat", "mkfs.vfat"],
                Packages::same("fusefat dosfstools"),
            ),
            Self::programs(
                &["mkfs.btrfs"],
                Packages::same("btrfsprogs")
                    .debian("btrfs-progs")
                    .fedora("btrfs-progs")
                    .arch("btrfs-progs"),
            ),
            Self::programs(&["mkfs.erofs"], Packages::same("erofs-utils")),
            Self::programs(
                &["systemd-analyze", "systemd-socket-activate"],
                Packages::same("systemd"),
            ),
            Self::programs(&["bash"], Packages::same("bash")),
            Self::programs(&["strace"], Packages::same("strace")),
            Self::opencl(),
        ]
        .into_iter()
        .chain(Self::for_c())
        .chain(Self::for_kernels())
        .chain(Self::for_rtl())
        .collect()
    }

    /// Returns what `cargo xtask page` needs: a browser, and what builds the simulated core.
    pub fn for_page() -> Vec<Self> {
        let browser = Self {
            what: "Chromium (chromium, chromium-browser or google-chrome)".to_owned(),
            is_there: Box::new(|| page::browser().is_ok()),
            packages: Packages::same("chromium"),
        };
        [browser].into_iter().chain(Self::for_rtl()).collect()
    }

    /// Returns what `cargo xtask test c` needs.
    pub fn for_c() -> Vec<Self> {
        vec![
            Self::programs(
                &["cryptsetup"],
                Packages::same("cryptsetup").debian("cryptsetup-bin"),
            ),
            Self::sanitizers(),
            Self::compiles(
                "clang with the address and undefined-behaviour sanitizers",
                &[
                    "clang",
                    "-fsanitize=address,undefined",
                    "-include",
                    "stdio.h",
                ],
                Packages::same("clang")
                    .debian("clang libclang-rt-dev")
                    .fedora("clang compiler-rt"),
            ),
            Self::compiles(
                "the header nbdkit-plugin.h",
                &[
                    "cc",
                    "-DNBDKIT_API_VERSION=2",
                    "-include",
                    "nbdkit-plugin.h",
                ],
                Packages::same("nbdkit")
                    .debian("nbdkit-plugin-dev")
                    .fedora("nbdkit-devel")
                    .suse("nbdkit-devel"),
            ),
            Self::compiles(
                "the header openssl/evp.h",
                &["cc", "-include", "openssl/evp.h"],
                Packages::same("openssl-devel")
                    .debian("libssl-dev")
                    .arch("openssl")
                    .suse("libopenssl-devel"),
            ),
            Self::programs(&["nbdkit"], Packages::same("nbdkit")),
            Self::programs(
                &["nbdcopy", "nbdinfo"],
                Packages::same("libnbd").debian("libnbd-bin"),
            ),
            Self::programs(
                &["qemu-img"],
                Packages::same("qemu-img").debian("qemu-utils"),
            ),
            Self::programs(&["pkg-config"], Packages::same("pkgconf")),
            Self::programs(
                &["abidiff", "abidw"],
                Packages::same("libabigail").debian("abigail-tools"),
            ),
            Self::programs(&["valgrind"], Packages::same("valgrind")),
        ]
    }

    /// Returns what `cargo xtask kernels` needs.
    pub fn for_kernels() -> Vec<Self> {
        vec![
            Self::sanitizers(),
            Self::programs(&["oclgrind-kernel"], Packages::same("oclgrind")),
            Self::python(),
        ]
    }

    /// Returns what `cargo xtask rtl` needs.
    pub fn for_rtl() -> Vec<Self> {
        vec![
            Self::programs(&["verilator"], Packages::same("verilator")),
            Self::programs(&["iverilog", "vvp"], Packages::same("iverilog")),
            Self::programs(&["yosys"], Packages::same("yosys")),
            // Verilator's models are C++.
            Self::cpp(),
            Self::programs(&["make"], Packages::same("make")),
            Self::programs(&["ccache"], Packages::same("ccache")),
            Self::python(),
        ]
    }

    /// Returns what `cargo xtask fuzz` needs. libFuzzer is written in C++.
    pub fn for_fuzz() -> Vec<Self> {
        vec![
            Self::cpp(),
            Self::programs(&["tar"], Packages::same("tar")),
            Self::programs(&["gzip"], Packages::same("gzip")),
        ]
    }

    /// Returns what `cargo xtask unsafe` needs.
    pub fn for_unsafe() -> Vec<Self> {
        vec![Self::programs(&["rustup"], Packages::same("rustup"))]
    }

    /// Returns what `cargo xtask bench rtl` needs.
    pub fn for_synthesis() -> Vec<Self> {
        vec![
            // A record names the commit.
            Self::programs(&["git"], Packages::same("git")),
            Self::python(),
        ]
    }

    /// Returns what `cargo xtask dist` needs.
    pub fn for_dist() -> Vec<Self> {
        let programs = [
            Self::programs(
                &["musl-gcc"],
                Packages::same("musl-gcc").debian("musl-tools").arch("musl"),
            ),
            Self::programs(&["gzip"], Packages::same("gzip")),
            Self::programs(&["tar"], Packages::same("tar")),
        ];
        programs.into_iter().chain(Self::for_packages()).collect()
    }

    /// Returns what makes and checks the Debian packages.
    pub fn for_packages() -> Vec<Self> {
        vec![
            Self::programs(&["cc", "strip"], Packages::same("gcc")),
            Self::programs(
                &["cryptsetup"],
                Packages::same("cryptsetup").debian("cryptsetup-bin"),
            ),
            Self::programs(&["dh", "dpkg-buildpackage"], Packages::same("debhelper")),
            Self::programs(&["git"], Packages::same("git")),
            Self::programs(&["lintian"], Packages::same("lintian")),
            Self::programs(&["pkg-config"], Packages::same("pkgconf")),
            Self::programs(&["systemctl"], Packages::same("systemd")),
        ]
    }

    /// Returns what `cargo xtask emulate` needs: the emulator, and the tools that make an image for
    /// it. The paths are Debian's.
    pub fn for_emulate() -> Vec<Self> {
        let file = |path: &'static str, packages| Self {
            what: path.to_owned(),
            is_there: Box::new(move || Path::new(path).is_file()),
            packages,
        };
        let busybox = Self {
            what: "a statically linked busybox".to_owned(),
            is_there: Box::new(|| {
                find("busybox").is_some_and(|file| !process::succeeds(command("ldd").arg(file)))
            }),
            packages: Packages::same("busybox-static")
                .fedora("busybox")
                .arch("busybox"),
        };
        let bochs = Packages::same("bochs");
        let isolinux = Packages::same("syslinux");
        let needs = [
            Self::programs(&["bochs"], bochs),
            file(
                "/usr/lib/x86_64-linux-gnu/bochs/plugins/libbx_term_gui.so",
                bochs.debian("bochs-term"),
            ),
            file(
                "/usr/share/bochs/BIOS-bochs-latest",
                bochs.debian("bochsbios"),
            ),
            file("/usr/share/vgabios/vgabios.bin", bochs.debian("vgabios")),
            file(
                "/usr/lib/ISOLINUX/isolinux.bin",
                isolinux.debian("isolinux"),
            ),
            file(
                "/usr/lib/syslinux/modules/bios/ldlinux.c32",
                isolinux.debian("syslinux-common"),
            ),
            Self::programs(&["xorriso"], Packages::same("xorriso").arch("libisoburn")),
            Self::programs(&["strip"], Packages::same("binutils")),
            busybox,
        ];
        // All tests are built with the simulated core.
        needs.into_iter().chain(Self::for_rtl()).collect()
    }

    /// Returns what `cargo xtask emulate aarch64` needs.
    pub fn for_aarch64() -> Vec<Self> {
        if cfg!(target_arch = "aarch64") {
            return Vec::new();
        }
        let mut needs = Self::for_building_aarch64();
        needs.extend([
            Self::programs(
                &["qemu-aarch64"],
                Packages::same("qemu-user").suse("qemu-linux-user"),
            ),
            Self::programs(
                &["cryptsetup"],
                Packages::same("cryptsetup").debian("cryptsetup-bin"),
            ),
        ]);
        needs
    }

    /// Returns what builds and reads programs for `AArch64`. The path of the C library is Debian's.
    fn for_building_aarch64() -> Vec<Self> {
        let gcc = Packages::same("gcc-aarch64-linux-gnu");
        vec![
            Self::programs(
                &[tools::AARCH64_LINKER, tools::AARCH64_OBJDUMP],
                gcc.arch("aarch64-linux-gnu-gcc")
                    .suse("cross-aarch64-gcc14"),
            ),
            Self {
                what: format!("the C library for AArch64 in {}", tools::AARCH64_SYSROOT),
                is_there: Box::new(tools::has_aarch64_libc),
                packages: Packages::same("libc6-dev-arm64-cross").arch("aarch64-linux-gnu-glibc"),
            },
        ]
    }

    /// Returns what `cargo xtask ci` needs. Some checks use Git to list files.
    pub fn for_ci() -> Vec<Self> {
        let mut needs = Self::for_tests();
        needs.extend(Self::for_page());
        needs.extend(Self::for_aarch64());
        needs.push(Self::programs(&["git"], Packages::same("git")));
        needs.extend(Self::for_packages());
        needs.extend(Self::for_guard());
        needs.extend(Self::for_unsafe());
        needs.extend(Self::for_fuzz());
        needs
    }

    /// Returns what `cargo xtask guard` needs.
    pub fn for_guard() -> Vec<Self> {
        let mut needs = vec![
            Self::programs(&["objdump"], Packages::same("binutils")),
            Self::programs(
                &[tools::LLVM_MCA],
                Packages::same("llvm19").debian("llvm-19"),
            ),
            Self::programs(&["valgrind"], Packages::same("valgrind")),
        ];
        if cfg!(target_arch = "x86_64") {
            needs.extend(Self::for_building_aarch64());
        }
        needs
    }

    /// Returns the programs that `cargo xtask bench` compares with.
    pub fn for_bench() -> Vec<Self> {
        vec![
            Self::programs(
                &["cryptsetup"],
                Packages::same("cryptsetup").debian("cryptsetup-bin"),
            ),
            Self::programs(
                &["qemu-img", "qemu-nbd"],
                Packages::same("qemu-img").debian("qemu-utils"),
            ),
            Self::programs(&["nbdkit"], Packages::same("nbdkit")),
            Self::programs(&["nbdcopy"], Packages::same("libnbd").debian("libnbd-bin")),
            Self::fio(),
        ]
    }

    fn cpp() -> Self {
        Self::programs(
            &["c++"],
            Packages::same("gcc-c++").debian("g++").arch("gcc"),
        )
    }

    fn fio() -> Self {
        Self {
            what: "fio with the engine nbd".to_owned(),
            is_there: Box::new(|| process::succeeds(command("fio").arg("--enghelp=nbd"))),
            packages: Packages::same("fio").fedora("fio fio-engine-nbd"),
        }
    }

    /// Python for `ensure_python`. The simulated core also embeds Python.
    fn python() -> Self {
        Self {
            what: "/usr/bin/python3 with venv and libpython".to_owned(),
            is_there: Box::new(|| {
                let script = "import ctypes, ensurepip, sysconfig, venv\n\
                              ctypes.CDLL(sysconfig.get_config_var('INSTSONAME'))";
                process::succeeds(command("/usr/bin/python3").args(["-c", script]))
            }),
            packages: Packages::same("python3")
                .debian("python3-venv libpython3-dev")
                .fedora("python3 python3-libs")
                .arch("python"),
        }
    }

    /// Returns a need that is met if this compiler makes a library of an empty file.
    fn compiles(what: &str, compiler: &'static [&'static str], packages: Packages) -> Self {
        Self {
            what: what.to_owned(),
            is_there: Box::new(|| {
                let nothing = ["-shared", "-x", "c", "/dev/null", "-o", "/dev/null"];
                process::succeeds(command(compiler[0]).args(&compiler[1..]).args(nothing))
            }),
            packages,
        }
    }

    fn sanitizers() -> Self {
        Self {
            what: "c++ with the address, undefined-behaviour and thread sanitizers".to_owned(),
            is_there: Box::new(|| {
                ["-fsanitize=address,undefined", "-fsanitize=thread"]
                    .iter()
                    .all(|sanitizers| {
                        let nothing = ["-shared", "-x", "c++", "/dev/null", "-o", "/dev/null"];
                        process::succeeds(command("c++").arg(sanitizers).args(nothing))
                    })
            }),
            packages: Packages::same("gcc-c++")
                .debian("g++")
                .fedora("gcc-c++ libasan libubsan libtsan")
                .arch("gcc"),
        }
    }

    /// An OpenCL for tests on the CPU: the library that finds implementations, and PoCL.
    fn opencl() -> Self {
        Self {
            what: "libOpenCL.so.1 with an OpenCL implementation".to_owned(),
            is_there: Box::new(|| {
                // Checked in Python, because the library may be anywhere that the loader looks.
                let script = "import ctypes\n\
                              count = ctypes.c_uint(0)\n\
                              cl = ctypes.CDLL('libOpenCL.so.1')\n\
                              cl.clGetPlatformIDs(0, None, ctypes.byref(count))\n\
                              assert count.value > 0";
                process::succeeds(command("/usr/bin/python3").args(["-c", script]))
            }),
            packages: Packages::same("pocl")
                .debian("pocl-opencl-icd ocl-icd-libopencl1")
                .fedora("pocl ocl-icd")
                .arch("pocl ocl-icd"),
        }
    }

    fn programs(programs: &'static [&'static str], packages: Packages) -> Self {
        Self {
            what: programs.join(", "),
            is_there: Box::new(|| programs.iter().all(|program| find(program).is_some())),
            packages,
        }
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

    const fn fedora(mut self, name: &'static str) -> Self {
        self.fedora = name;
        self
    }

    const fn arch(mut self, name: &'static str) -> Self {
        self.arch = name;
        self
    }

    const fn suse(mut self, name: &'static str) -> Self {
        self.suse = name;
        self
    }
}

/// Installs what is missing, and fails if anything is still missing.
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
    let names: Vec<_> = missing.iter().map(|need| need.what.as_str()).collect();
    Ok(if names.is_empty() {
        String::new()
    } else {
        format!("installed: {}", names.join("; "))
    })
}

/// Returns a command that runs a subcommand of cargo which is not part of it, such as `deny`. If this
/// machine has none, Python's package index has it built: from source each takes minutes.
pub fn cargo_tool(name: &str) -> Result<Command, String> {
    if process::succeeds(cargo(name).arg("--version")) {
        return Ok(cargo(name));
    }
    let python = ensure_python(
        &process::root().join("target/cargo-tools"),
        &process::root().join("xtask/requirements.txt"),
    )?;
    let mut tool = command(python.with_file_name(format!("cargo-{name}")));
    tool.arg(name);
    Ok(tool)
}

/// Makes a Python environment in `folder`, with the packages and versions that the file
/// `requirements` lists. Returns its Python program.
pub fn ensure_python(folder: &Path, requirements: &Path) -> Result<PathBuf, String> {
    let python = folder.join("bin/python");
    let fail = |file: &Path, e: std::io::Error| format!("{}: {e}", file.display());
    let wanted = fs::read_to_string(requirements).map_err(|e| fail(requirements, e))?;
    // This file is written last, so its contents show that the installation was complete.
    let installed = folder.join("installed.txt");
    if fs::read_to_string(&installed).is_ok_and(|text| text == wanted) {
        return Ok(python);
    }
    process::run(
        command("/usr/bin/python3")
            .args(["-m", "venv", "--clear"])
            .arg(folder),
    )?;
    let install = [
        "-m",
        "pip",
        "--quiet",
        "--disable-pip-version-check",
        "install",
    ];
    let only_wheels = ["--only-binary", ":all:", "--requirement"];
    process::run(
        command(&python)
            .args(install)
            .args(only_wheels)
            .arg(requirements),
    )?;
    fs::write(&installed, wanted).map_err(|e| fail(&installed, e))?;
    Ok(python)
}

fn install(missing: &[&Need]) -> Result<(), String> {
    let names: Vec<_> = missing.iter().map(|need| need.what.as_str()).collect();
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
            format!("install these: {}", names.join("; "))
        });
    }
    let packages: Vec<_> = packages(|p| p.debian)
        .into_iter()
        .flat_map(str::split_whitespace)
        .collect();
    let by_hand = format!(
        "run: sudo apt-get update && sudo apt-get install --yes --no-install-recommends {}",
        packages.join(" ")
    );
    let as_root: &[&str] = match Root::of_this_user() {
        Root::Is => &["env"],
        Root::BySudo => &["sudo", "-n", "env"],
        Root::IsNot => return Err(by_hand),
    };
    let apt_get = |args: &[&str]| {
        process::run(
            command(as_root[0])
                .args(&as_root[1..])
                .args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet"])
                .args(args),
        )
    };
    // A new machine has no package lists. If they cannot be updated, the old ones may be enough.
    let updated = apt_get(&["update"]);
    let install = ["install", "--yes", "--no-install-recommends"];
    apt_get(&[&install, packages.as_slice()].concat()).map_err(|error| match updated {
        Ok(_) => format!("{error}; {by_hand}"),
        Err(update) => format!("{update}; {error}; {by_hand}"),
    })?;
    Ok(())
}

/// The rights of the current user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// The user is root.
    Is,
    /// The user can use `sudo` without a password.
    BySudo,
    /// The user is not root and cannot use `sudo` without a password.
    IsNot,
}

impl Root {
    pub fn of_this_user() -> Self {
        if process::output(command("id").arg("-u")).is_ok_and(|id| id.trim() == "0") {
            Self::Is
        } else if process::succeeds(command("sudo").args(["-n", "true"])) {
            Self::BySudo
        } else {
            Self::IsNot
        }
    }
}

/// Adds a component of the Rust toolchain, `rustfmt` or `clippy`, with rustup if it is missing.
pub fn ensure_component(name: &str) -> Result<String, String> {
    let subcommand = name.trim_start_matches("rust");
    if process::succeeds(cargo(subcommand).arg("--version")) {
        return Ok(String::new());
    }
    let add = process::run(command("rustup").args(["component", "add", name]));
    add.map_err(|e| format!("the Rust toolchain lacks {name}, which cannot be installed: {e}"))
}

/// Adds the core library for a target with rustup, if it is missing.
pub fn ensure_target(name: &str) -> Result<String, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let folder = ["--print", "target-libdir", "--target", name];
    let folder = process::output(command(rustc).args(folder))?;
    if Path::new(folder.trim()).is_dir() {
        return Ok(String::new());
    }
    let add = process::run(command("rustup").args(["target", "add", name]));
    add.map_err(|e| format!("the Rust toolchain lacks {name}, which cannot be installed: {e}"))
}

/// Adds a toolchain with these components with rustup, if a part of it is missing.
pub fn ensure_toolchain(name: &str, components: &[&str]) -> Result<String, String> {
    let list = ["component", "list", "--installed", "--toolchain", name];
    let installed = process::output(command("rustup").args(list)).unwrap_or_default();
    let has = |component: &&str| installed.lines().any(|line| line.starts_with(*component));
    if components.iter().all(has) {
        return Ok(String::new());
    }
    let mut add = command("rustup");
    add.args(["toolchain", "install", "--profile", "minimal", name]);
    for component in components {
        add.args(["--component", component]);
    }
    let add = process::run(add);
    add.map_err(|e| format!("the Rust toolchain {name} cannot be installed: {e}"))
}
