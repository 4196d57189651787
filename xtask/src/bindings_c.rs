// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask test c`: builds the library for C, installs it under `target/bindings-c`, and tests
//! what is installed there as its users would find it, through `pkg-config`. The C tests, the
//! examples and the programs of `docs/c.md` run with gcc and clang, the address and the
//! undefined-behaviour sanitizer, and under valgrind. `abidiff` compares the library with the
//! committed description of its functions and types.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{self, Path, PathBuf},
    process::Command,
};

use crate::{
    jobs::{self, Job},
    process::{self, cargo, command},
    steps::Steps,
};

const FOLDER: &str = "bindings/c";
const ABI: &str = "bindings/c/libluxor.abi";
const DOCUMENT: &str = "docs/c.md";

/// The name in the library, which programs that were linked with it look for. The number changes
/// when such a program would no longer work.
const SONAME: &str = "libluxor.so.0";

/// What the Rust standard library needs from the system.
const PRIVATE: &str = "-lgcc_s -lpthread -lm -ldl";

const STRICT: &str = "-std=c11 -g -O1 -pthread -Wall -Wextra -Wpedantic -Werror";
const SANITIZERS: &str = "-fsanitize=address,undefined -fno-sanitize-recover=all";

/// The programs in `bindings/c`, with the libraries that they need, for `pkg-config`. `docs/c.md` has
/// more.
const PROGRAMS: [(&str, &str, &str); 8] = [
    ("arguments", "tests/arguments.c", "luxor"),
    ("fork", "tests/fork.c", "luxor"),
    ("gpu", "tests/gpu.c", "luxor"),
    ("threads", "tests/threads.c", "luxor"),
    ("volume", "tests/volume.c", "luxor"),
    ("xts", "tests/xts.c", "luxor"),
    ("static", "tests/xts.c", "--static luxor"),
    (
        "openssl-sectors",
        "examples/openssl-sectors.c",
        "luxor libcrypto",
    ),
];

/// Every program is compiled with each of these compilers and the sanitizers, and with gcc to run
/// under valgrind. Valgrind is the slowest, so it comes first.
const BUILDS: [&str; 3] = ["valgrind", "gcc", "clang"];

const PASSPHRASE: &str = "correct horse";
const KEY_FILE: &str = "key";
const VOLUME_KEY_FILE: &str = "volume-key";

/// Builds and tests the library. `packages` are those of the chore's other tests, or `None` for the
/// whole workspace.
pub fn test(packages: Option<&str>) -> Result<String, String> {
    process::build_libraries(packages)?;
    let archive = process::beside_this_program("libluxor_c.a")?;
    // The whole workspace has the engine `fpga`, whose simulated core is C++.
    let private = match packages {
        None => format!("{PRIVATE} -lstdc++"),
        Some(_) => PRIVATE.to_owned(),
    };
    let installed = Installed::new(
        &archive,
        &InstallFolders::at(&folder()?.join("prefix")),
        &private,
        &[],
    )?;
    jobs::run(installed.jobs()?)
}

/// Builds the library as its users need it, and installs it into the folder `prefix`.
pub fn install(prefix: &str) -> Result<String, String> {
    process::run(cargo("build --locked --release --package luxor-c"))?;
    let archive = process::beside_this_program("../release/libluxor_c.a")?;
    let prefix = path::absolute(prefix).map_err(|e| format!("{prefix}: {e}"))?;
    install_into(&archive, &InstallFolders::at(&prefix), false)?;
    Ok(format!("installed in {}", prefix.display()))
}

/// Installs the library from the static library `archive`, for users.
pub fn install_into(archive: &Path, place: &InstallFolders, has_fpga: bool) -> Result<(), String> {
    let options = ["-Wl,--strip-debug"];
    Installed::new(archive, place, &private(has_fpga), &options)?;
    Ok(())
}

/// Returns the libraries that the library needs. The simulated core of the engine `fpga` is C++.
fn private(has_fpga: bool) -> String {
    format!("{PRIVATE}{}", if has_fpga { " -lstdc++" } else { "" })
}

/// Writes the committed header and the description of the ABI.
pub fn write(steps: &mut Steps) {
    steps.run("C header and ABI", || {
        let mut header = process::cargo_packages("test", "luxor-c");
        // Only this test: the others read the header.
        header.args(["--test", "header", "the_header_is_up_to_date"]);
        process::run(header.env("LUXOR_WRITE_HEADER", "1"))?;
        process::run(process::cargo_packages("build", "luxor-c").args(["--lib", "--tests"]))?;
        let archive = process::beside_this_program("libluxor_c.a")?;
        let installed = Installed::new(
            &archive,
            &InstallFolders::at(&folder()?.join("prefix")),
            PRIVATE,
            &[],
        )?;
        let mut describe = command("abidw");
        describe.args("--no-show-locs --no-comp-dir-path --no-corpus-path".split(' '));
        describe.args("--no-elf-needed --type-id-style hash".split(' '));
        let abi = process::output(describe.arg(installed.library()))?;
        write_file(&process::root().join(ABI), without_empty_units(&abi))
    });
}

/// Removes the source files of other crates, of which nothing is exported.
fn without_empty_units(abi: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for line in abi.lines() {
        let is_empty = line.trim() == "</abi-instr>"
            && kept
                .last()
                .is_some_and(|last| last.trim().starts_with("<abi-instr"));
        if is_empty {
            kept.pop();
        } else {
            kept.push(line);
        }
    }
    kept.join("\n") + "\n"
}

/// Where the library is installed.
pub struct InstallFolders<'a> {
    /// The folder that the files are written into.
    pub folder: &'a Path,
    /// That folder in the description for `pkg-config`, which can follow a folder that is moved.
    pub prefix: &'a str,
    /// The folder of the libraries in it.
    pub lib: &'a str,
}

impl<'a> InstallFolders<'a> {
    fn at(folder: &'a Path) -> Self {
        Self {
            folder,
            prefix: "${pcfiledir}/../..",
            lib: "lib",
        }
    }
}

/// An installed library.
struct Installed {
    lib: PathBuf,
}

impl Installed {
    /// Installs the library from the static library `archive`. `private` names the libraries that
    /// it needs, and `options` are for the linker.
    fn new(
        archive: &Path,
        place: &InstallFolders,
        private: &str,
        options: &[&str],
    ) -> Result<Self, String> {
        let fail = |error: io::Error| format!("{}: {error}", place.folder.display());
        let (include, lib) = (place.folder.join("include"), place.folder.join(place.lib));
        for folder in [&include, &lib.join("pkgconfig")] {
            fs::create_dir_all(folder).map_err(fail)?;
        }
        let source = process::root().join(FOLDER);
        fs::copy(source.join("include/luxor.h"), include.join("luxor.h")).map_err(fail)?;
        fs::copy(archive, lib.join("libluxor.a")).map_err(fail)?;

        let version = env!("CARGO_PKG_VERSION");
        let template = fs::read_to_string(source.join("luxor.pc.in")).map_err(fail)?;
        let description = template
            .replace("@prefix@", place.prefix)
            .replace("@lib@", place.lib)
            .replace("@version@", version)
            .replace("@private@", private);
        write_file(&lib.join("pkgconfig/luxor.pc"), description)?;

        let file = format!("libluxor.so.{version}");
        let mut link = command("cc");
        link.args(["-shared", "-o"]).arg(lib.join(&file));
        link.arg(format!("-Wl,-soname,{SONAME}"));
        link.arg(format!("-Wl,--version-script={FOLDER}/libluxor.map"));
        link.args(["-Wl,--no-undefined", "-Wl,--gc-sections", "-Wl,-z,now"]);
        link.args(options).arg("-Wl,--whole-archive").arg(archive);
        link.arg("-Wl,--no-whole-archive").args(private.split(' '));
        process::run(link)?;
        for (name, target) in [(SONAME, file.as_str()), ("libluxor.so", SONAME)] {
            let name = lib.join(name);
            // A link cannot be made over an old one.
            match fs::remove_file(&name) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
                _ => symlink(target, &name).map_err(fail)?,
            }
        }
        Ok(Self { lib })
    }

    fn library(&self) -> PathBuf {
        self.lib.join(SONAME)
    }

    /// Returns a command that compiles `source` to `output`. `packages` is for `pkg-config`.
    fn compile(
        &self,
        compiler: &str,
        options: &str,
        source: &Path,
        packages: &str,
        output: &Path,
    ) -> Result<Command, String> {
        let mut ask = command("pkg-config");
        ask.args(["--cflags", "--libs"]).args(packages.split(' '));
        ask.env("PKG_CONFIG_PATH", self.lib.join("pkgconfig"));
        let flags = process::output(ask)?;
        let mut compile = command(compiler);
        compile
            .args(STRICT.split(' '))
            .args(options.split_whitespace());
        compile.arg(format!("-DPASSPHRASE=\"{PASSPHRASE}\""));
        compile.arg(source).arg("-o").arg(output);
        // `--static` alone only adds what the static library needs.
        compile.args(flags.split_whitespace().map(|flag| match flag {
            "-lluxor" if packages.contains("--static") => "-l:libluxor.a",
            _ => flag,
        }));
        compile.arg(format!("-Wl,-rpath,{}", self.lib.display()));
        Ok(compile)
    }

    fn jobs(&self) -> Result<Vec<Job>, String> {
        let folder = folder()?;
        write_file(&key_file(&folder), PASSPHRASE)?;
        // The tests know this key.
        let volume_key: [u8; 32] = std::array::from_fn(|i| u8::try_from(i).unwrap_or_default());
        write_file(&folder.join(VOLUME_KEY_FILE), volume_key)?;
        let programs = programs(&folder)?;
        let mut jobs = vec![header_in_cpp()];
        // The committed description names this architecture.
        if cfg!(target_arch = "x86_64") {
            jobs.push(self.abi());
        }
        for build in BUILDS {
            for program in programs.iter().filter(|program| program.runs(build)) {
                jobs.push(self.job(program, build, &folder)?);
            }
        }
        for compiler in ["gcc", "clang"] {
            for kind in ["luks1", "luks2"] {
                jobs.push(self.plugin(compiler, kind, &folder)?);
            }
        }
        Ok(jobs)
    }

    /// Compiles and runs a program.
    fn job(&self, program: &Program, build: &str, folder: &Path) -> Result<Job, String> {
        let volume = folder.join(format!("{}-{build}", program.name));
        let binary = volume.with_extension("program");
        let (compiler, options) = match build {
            "valgrind" => ("gcc", ""),
            // In a forked child the lock of a sanitizer's allocator stays locked if another thread
            // held it.
            compiler if program.name == "fork" => (compiler, ""),
            compiler => (compiler, SANITIZERS),
        };
        let (source, packages) = (&program.source, program.packages);
        let compile = self.compile(compiler, options, source, packages, &binary)?;
        let mut run = if build == "valgrind" {
            let mut run = command("valgrind");
            run.args(["--quiet", "--error-exitcode=9", "--leak-check=full"]);
            // The tests use an engine whose instructions every valgrind knows.
            run.arg(binary).env("LUXOR_TEST_ENGINE", "portable");
            run
        } else {
            command(binary)
        };
        run.arg(&volume).arg(key_file(folder));
        if program.name == "gpu" {
            run.env("LD_LIBRARY_PATH", process::emulated_driver(folder)?);
        }
        Ok(with_volume(&volume, "luks2", compile, run))
    }

    /// Compares the library with the committed description.
    fn abi(&self) -> Job {
        let mut compare = command("abidiff");
        compare.arg(ABI).arg(self.library());
        Job::new("ABI (regenerate: cargo xtask c --write)", [compare])
    }

    /// Serves a volume with the `nbdkit` plugin, and copies data to it and back. qemu, which knows
    /// LUKS1, must read the same data from the file.
    fn plugin(&self, compiler: &str, kind: &str, folder: &Path) -> Result<Job, String> {
        const SCRIPT: &str = r#"
            set -e
            head -c 1M /dev/urandom > "$0.data"
            nbdkit -U - "$1" volume="$0" passphrase=+"$2" --run '
                set -e
                truncate -s "$(nbdinfo --size "$uri")" "'"$0"'.data"
                nbdcopy "'"$0"'.data" "$uri"
                nbdcopy "$uri" "'"$0"'.copy"'
            cmp "$0.data" "$0.copy"
            if [ "$3" = luks1 ]; then
                qemu-img compare --object secret,id=key,file="$2" --image-opts \
                    driver=raw,file.filename="$0.data" \
                    driver=luks,key-secret=key,file.filename="$0"
            fi
            nbdkit -U - "$1" volume="$0" passphrase=wrong readonly=true --run true 2>&1 |
                grep 'no keyslot accepts'"#;
        let source = process::root()
            .join(FOLDER)
            .join("examples/nbdkit-luxor-plugin.c");
        let volume = folder.join(format!("nbdkit-{kind}-{compiler}"));
        let plugin = volume.with_extension("so");
        let compile = self.compile(compiler, "-shared -fPIC", &source, "luxor", &plugin)?;
        let mut run = command("bash");
        run.args(["-c", SCRIPT]).arg(&volume).arg(plugin);
        run.arg(key_file(folder)).arg(kind);
        Ok(with_volume(&volume, kind, compile, run))
    }
}

/// A program in C, whose arguments are a volume and the file with its passphrase.
struct Program {
    name: String,
    source: PathBuf,
    /// The libraries that it needs, for `pkg-config`.
    packages: &'static str,
}

impl Program {
    /// Whether it runs in this build. The child in the test of forks loses what its parent
    /// allocated, which valgrind takes for a leak, and so does the emulator of a GPU when the program
    /// ends. For valgrind, the static library is no different.
    fn runs(&self, build: &str) -> bool {
        build != "valgrind" || !["fork", "gpu", "static"].contains(&self.name.as_str())
    }
}

/// Returns the programs to compile and run. Those of the document are written into `folder`.
fn programs(folder: &Path) -> Result<Vec<Program>, String> {
    let mut programs = Vec::new();
    for (name, source, packages) in PROGRAMS {
        programs.push(Program {
            name: name.to_owned(),
            source: process::root().join(FOLDER).join(source),
            packages,
        });
    }
    let text = fs::read_to_string(process::root().join(DOCUMENT));
    let text = text.map_err(|e| format!("{DOCUMENT}: {e}"))?;
    let blocks = text.split("```c\n").skip(1);
    for (number, block) in blocks.enumerate() {
        let name = format!("docs-{number}");
        let source = folder.join(&name).with_extension("c");
        write_file(&source, block.split("```").next().unwrap_or_default())?;
        programs.push(Program {
            name,
            source,
            packages: "luxor",
        });
    }
    if programs.len() < PROGRAMS.len() + 2 {
        return Err(format!("{DOCUMENT} has fewer than two programs"));
    }
    Ok(programs)
}

/// Returns a job that makes a volume, compiles and runs a program, and checks that cryptsetup still
/// opens the volume.
fn with_volume(volume: &Path, kind: &str, compile: Command, run: Command) -> Job {
    let mut make = command("truncate");
    make.args(["--size", "20M"]).arg(volume);
    let cryptsetup = |args: &str| {
        let mut cryptsetup = command("cryptsetup");
        cryptsetup.args(args.split(' ')).arg("--key-file");
        cryptsetup.arg(volume.with_file_name(KEY_FILE)).arg(volume);
        cryptsetup
    };
    let pbkdf = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";
    let options = format!("luksFormat --batch-mode --type {kind} --key-size 256 {pbkdf}");
    let mut format = cryptsetup(&options);
    let volume_key = volume.with_file_name(VOLUME_KEY_FILE);
    format.arg("--volume-key-file").arg(volume_key);
    let open = cryptsetup("open --test-passphrase");
    let name = volume.file_name().unwrap_or_default().to_string_lossy();
    Job::new(&name, [make, format, compile, run, open])
}

fn key_file(folder: &Path) -> PathBuf {
    folder.join(KEY_FILE)
}

/// Checks that C++ accepts the header.
fn header_in_cpp() -> Job {
    let mut check = command("c++");
    check.args("-fsyntax-only -x c++ -Wall -Wextra -Wpedantic -Werror".split(' '));
    check.arg(format!("{FOLDER}/include/luxor.h"));
    Job::new("header in C++", [check])
}

fn folder() -> Result<PathBuf, String> {
    crate::folder("target", "bindings-c")
}

fn write_file(path: &Path, contents: impl AsRef<[u8]>) -> Result<String, String> {
    fs::write(path, contents).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_empty_units_are_removed() {
        let abi = "<abi-corpus>\n  <abi-instr a='1'>\n  </abi-instr>\n  <abi-instr b='2'>\n    \
                   <function-decl/>\n  </abi-instr>\n</abi-corpus>\n";
        let kept = "<abi-corpus>\n  <abi-instr b='2'>\n    <function-decl/>\n  </abi-instr>\n\
                    </abi-corpus>\n";
        assert_eq!(without_empty_units(abi), kept);
    }
}
