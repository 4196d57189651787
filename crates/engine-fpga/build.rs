// SPDX-License-Identifier: MIT OR Apache-2.0
//! With the feature `model`, builds a simulation of `rtl/rtl` with Verilator.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "model")]
    if let Err(message) = model::build() {
        for line in message.lines() {
            println!("cargo::error={line}");
        }
    }
}

#[cfg(feature = "model")]
mod model {
    use std::{
        env,
        ffi::OsStr,
        fs, io,
        path::{Path, PathBuf},
        process::Command,
    };

    /// A design of the core: the name of its functions, its top and the file in `src/shim` for it,
    /// and its parameters as numbered in `luxor_pkg.sv`.
    struct Design {
        name: &'static str,
        top: &'static str,
        shim: &'static str,
        parameters: [(&'static str, u32); 8],
    }

    /// Both directions, counter mode, and a separate unit for tweaks. T-tables and one register per round simulate
    /// fastest.
    const FULL: Design = Design {
        name: "luxor_full",
        top: "luxor_xts",
        shim: "streams.cpp",
        parameters: [
            ("TWEAK", 2),
            ("CIPHER", 2),
            ("KEY128", 1),
            ("KEY256", 1),
            ("SBOX", 3),
            ("STAGES", 1),
            ("LANES", 1),
            ("CTR", 1),
        ],
    };

    /// The same core with a bus master, and two designs for encryption with AES-128, with tweaks in
    /// the data's pipeline. The first of the two follows the paper of 2011. The second encrypts tweaks
    /// several units ahead, with as many registers as the design that is routed for an ECP5
    /// (`rtl/syn`).
    const DESIGNS: [Design; 3] = [
        Design {
            name: "luxor_master",
            top: "luxor_xts_dma",
            shim: "memory.cpp",
            ..FULL
        },
        encryption("luxor_paper", 0, 2),
        encryption("luxor_shared", 1, 4),
    ];

    const fn encryption(name: &'static str, tweak: u32, stages: u32) -> Design {
        Design {
            name,
            top: FULL.top,
            shim: FULL.shim,
            parameters: [
                ("TWEAK", tweak),
                ("CIPHER", 0),
                ("KEY128", 1),
                ("KEY256", 0),
                ("SBOX", 3),
                ("STAGES", stages),
                ("LANES", 1),
                ("CTR", 0),
            ],
        }
    }

    const NEEDED: &str = "the engine fpga (cargo feature `model` of luxor-engine-fpga, `fpga` of \
        luxor) needs Verilator 5 and a C++ compiler, the Debian packages `verilator` and `g++`";

    pub(super) fn build() -> Result<(), String> {
        let version = verilator(["--version"])?;
        let mut words = version.split_whitespace();
        let (name, number) = (words.next(), words.next());
        let (Some("Verilator"), Some(number)) = (name, number) else {
            return Err(format!("{NEEDED}; `verilator --version` says {version:?}"));
        };
        let major = number.split('.').next().and_then(|n| n.parse().ok());
        if major.is_none_or(|major: u32| major < 5) {
            return Err(format!("{NEEDED}; the installed Verilator is {number}"));
        }
        println!("cargo::rustc-env=LUXOR_VERILATOR=Verilator {number}");

        let root = verilator(["--getenv", "VERILATOR_ROOT"])?;
        let include = Path::new(root.trim()).join("include");
        println!("cargo::rerun-if-changed=src/shim");
        make(&FULL, &include, true)?;
        if env::var_os("CARGO_FEATURE_DESIGNS").is_some() {
            for design in DESIGNS {
                make(&design, &include, false)?;
            }
        }
        Ok(())
    }

    /// Builds one design, with or without Verilator's `runtime`.
    fn make(design: &Design, include: &Path, runtime: bool) -> Result<(), String> {
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo")).join(design.name);
        // Files that an earlier version of the core left would be compiled too.
        match fs::remove_dir_all(&out) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(format!("{}: {e}", out.display()));
            }
            _ => {}
        }
        generate(design, &out)?;
        compile(design, &out, include, runtime)
    }

    fn generate(design: &Design, out: &Path) -> Result<(), String> {
        let mut arguments: Vec<String> = [
            "--cc",
            "--top-module",
            design.top,
            "--prefix",
            &format!("V{}", design.name),
            "--no-timing",
            "-O3",
            "--x-assign",
            "fast",
            "--x-initial",
            "unique",
            "--Mdir",
        ]
        .map(String::from)
        .to_vec();
        let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
        // A link to `rtl/rtl`, so that a package of this crate contains the sources.
        let folder = manifest.join("rtl");
        let folder = fs::canonicalize(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let name = |path: &Path| path.display().to_string();
        arguments.push(name(out));
        arguments.extend(
            design
                .parameters
                .iter()
                .map(|(name, value)| format!("-G{name}={value}")),
        );
        arguments.push(format!("-I{}", folder.display()));
        arguments.extend(sources(&folder)?.iter().map(|path| name(path)));
        verilator(arguments)?;
        Ok(())
    }

    /// Returns the packages, and then all modules.
    fn sources(folder: &Path) -> Result<Vec<PathBuf>, String> {
        println!("cargo::rerun-if-changed={}", folder.display());
        let mut sources = files(folder, "sv")?;
        sources.sort_by_cached_key(|path| {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            (!name.ends_with("_pkg"), path.clone())
        });
        Ok(sources)
    }

    fn compile(design: &Design, out: &Path, include: &Path, runtime: bool) -> Result<(), String> {
        let mut build = cc::Build::new();
        build
            .cpp(true)
            .std("c++17")
            // Always optimise: the simulation is slow enough.
            .opt_level(3)
            .debug(false)
            .warnings(false)
            .include(out)
            .include(include)
            .include(include.join("vltstd"))
            .flag_if_supported("-pthread");
        for name in [
            "VM_COVERAGE",
            "VM_SC",
            "VM_TRACE",
            "VM_TRACE_FST",
            "VM_TRACE_VCD",
        ] {
            build.define(name, "0");
        }
        build.define("VERILATOR", "1");
        build.files(files(out, "cpp")?);
        if runtime {
            for file in ["verilated.cpp", "verilated_threads.cpp"] {
                build.file(include.join(file));
            }
        }
        let header = format!("\"V{}.h\"", design.name);
        build.define("HEADER", header.as_str());
        build.define("CORE", format!("V{}", design.name).as_str());
        build.define("FUNCTIONS", design.name);
        build.file(Path::new("src/shim").join(design.shim));
        build
            .try_compile(&format!("{}_model", design.name))
            .map_err(|e| format!("{NEEDED}; compiling the model failed: {e}"))
    }

    fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
        let fail = |e: io::Error| format!("{}: {e}", folder.display());
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            if path.extension() == Some(OsStr::new(extension)) {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }

    /// Runs Verilator and returns its output.
    fn verilator<S: AsRef<OsStr>>(
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<String, String> {
        println!("cargo::rerun-if-env-changed=VERILATOR");
        println!("cargo::rerun-if-env-changed=VERILATOR_ROOT");
        let program = env::var_os("VERILATOR").unwrap_or_else(|| "verilator".into());
        let output = Command::new(&program)
            .args(arguments)
            .output()
            .map_err(|e| format!("{NEEDED}; {} cannot be started: {e}", program.display()))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(format!(
            "Verilator rejects rtl/rtl ({})\n{messages}",
            output.status
        ))
    }
}
