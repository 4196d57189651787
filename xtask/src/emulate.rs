// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the kernel `vaes512` in Bochs, a PC emulator, for machines with a CPU that lacks AVX-512.
//!
//! Bochs boots Linux from a CD-ROM. Its first program runs the tests, and their output goes over
//! the serial port into a file. Only this file shows the result, because Bochs' exit status is
//! always the same.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::Child,
    thread,
    time::{Duration, Instant},
};

use crate::{
    catalogue::CPU_KERNELS,
    cpu,
    engines::Engines,
    folder,
    process::{self, cargo_workspace, command},
    steps::Steps,
};

/// The axes of the conformance suite that run in the guest. With the other runs they take about a
/// minute of the guest's time and some minutes here. All axes would take a quarter of an hour.
const AXES: [&str; 7] = [
    "identity",
    "known_answers",
    "keys",
    "alignment",
    "memory",
    "large_runs",
    "strides",
];

/// The kernel that is tested.
const KERNEL: &str = "vaes512";

/// What the test `identity` prints of it.
const KERNEL_RAN: &str = "vaes512: CPU, VAES in 512-bit registers";

const DONE: &str = "@ done";

/// A time limit, in case the guest hangs.
const LIMIT: Duration = Duration::from_mins(15);

/// Whether this machine can run the kernel only in the emulator.
pub fn is_needed() -> bool {
    let has_it = |engines: Engines| engines.names().contains(KERNEL);
    cfg!(target_arch = "x86_64") && !Engines::of_this_machine().is_ok_and(has_it)
}

pub fn steps(steps: &mut Steps) {
    steps.run("vaes512 in Bochs", || {
        if cfg!(not(target_arch = "x86_64")) {
            return Err("the tests that run in Bochs must be built on x86-64".to_owned());
        }
        let passed = run()?;
        Ok(if is_needed() {
            passed
        } else {
            format!("{passed}; this CPU has AVX-512, and `cargo xtask test` runs vaes512 on it")
        })
    });
}

fn run() -> Result<String, String> {
    let folder = folder("target", "emulate")?;
    make_image(&folder)?;
    let serial = folder.join("serial");
    write(&serial, "")?;
    write(&folder.join("bochsrc"), BOCHSRC)?;
    // Debian's Bochs starts in its debugger, so tell it to continue.
    write(&folder.join("commands"), "c\n")?;
    let screen = |e: io::Error| format!("{}: {e}", folder.join("screen").display());
    let file = File::create(folder.join("screen")).map_err(screen)?;
    let mut bochs = command("bochs");
    bochs.args(["-q", "-rc", "commands", "-f", "bochsrc"]);
    bochs.current_dir(&folder).env("TERM", "vt100");
    bochs.stderr(file.try_clone().map_err(screen)?).stdout(file);
    println!("$ {}", process::line(&bochs));
    let mut bochs = bochs.spawn().map_err(|e| format!("bochs: {e}"))?;
    let waited = wait(&mut bochs, &serial);
    // This fails if Bochs has already ended.
    let _ = bochs.kill();
    let _ = cpu::wait(&mut bochs);
    let said = read(&serial)?;
    println!("{said}");
    waited.and_then(|()| judge(&said)).map_err(|what| {
        let lines: Vec<_> = said.lines().collect();
        let end = lines[lines.len().saturating_sub(30)..].join("\n");
        let folder = folder.display();
        format!("{what}; see the files serial, log and screen in {folder}; serial ends:\n{end}")
    })
}

/// Waits until the guest has run everything, its kernel has panicked, or Bochs has ended.
fn wait(bochs: &mut Child, serial: &Path) -> Result<(), String> {
    let begun = Instant::now();
    while bochs.try_wait().map_err(|e| e.to_string())?.is_none() {
        let said = read(serial)?;
        if said.contains(DONE) || said.contains("Kernel panic") {
            break;
        }
        if begun.elapsed() > LIMIT {
            let minutes = LIMIT.as_secs() / 60;
            return Err(format!("the guest did not finish in {minutes} minutes"));
        }
        thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

/// The runs in the guest: names, and test programs with their arguments.
fn runs() -> Vec<(&'static str, String)> {
    let axis = |axis| {
        let test = format!("{KERNEL}::conformance::{axis}");
        (axis, format!("kernels --exact {test}"))
    };
    let engine = [
        ("registers", "registers"),
        ("kernel", "luxor_engine kernel::"),
    ];
    let engine = engine.map(|(name, run)| (name, run.to_owned()));
    engine.into_iter().chain(AXES.map(axis)).collect()
}

/// Checks the guest's output: every run contained tests and passed, and they used the kernel
/// `vaes512`.
fn judge(said: &str) -> Result<String, String> {
    let lines: Vec<&str> = said.lines().map(str::trim_end).collect();
    let ends = || lines.iter().filter(|line| line.starts_with("@ end "));
    if let Some(line) = ends().find(|line| !line.ends_with(" rc 0")) {
        return Err(format!("a run failed: {line}"));
    }
    if !lines.contains(&DONE) {
        return Err("the guest did not finish".to_owned());
    }
    let runs = runs();
    let expected = runs.iter().map(|(name, _)| format!("@ end {name} rc 0"));
    if !ends().copied().eq(expected) {
        return Err("the guest did not run exactly the expected programs".to_owned());
    }
    let with_tests = |line: &&&str| {
        line.starts_with("test result: ok. ") && !line.starts_with("test result: ok. 0 passed")
    };
    if lines.iter().filter(with_tests).count() != runs.len() {
        return Err("a run contained no tests".to_owned());
    }
    if !said.contains(KERNEL_RAN) {
        return Err(format!("no test printed \"{KERNEL_RAN}\""));
    }
    Ok(format!("{} runs passed", runs.len()))
}

/// Makes `luxor.iso` from the Linux kernel, the test programs and their vectors.
fn make_image(folder: &Path) -> Result<(), String> {
    let kernels = CPU_KERNELS.iter().filter(|k| k.architecture == "x86_64");
    let kernels = kernels.map(|kernel| kernel.name).chain(["portable"]);
    let required = kernels.collect::<Vec<_>>().join(",");
    let mut script = GUEST.replace("{required}", &required);
    for (name, run) in runs() {
        script += &format!("run {name} {run}\n");
    }
    script += &format!("echo '{DONE}'\n/bin/busybox poweroff -f\n");
    write(&folder.join("init"), &script)?;
    write(&folder.join("isolinux.cfg"), ISOLINUX)?;
    write(&folder.join("image.sh"), IMAGE)?;
    let mut image = command("sh");
    image.args(["-eu", "image.sh"]);
    image.arg(process::root()).args(test_programs()?);
    process::run(image.current_dir(folder)).map(drop)
}

/// Builds the test programs of [`runs`].
fn test_programs() -> Result<Vec<PathBuf>, String> {
    let mut build = cargo_workspace("test");
    build.args(["--lib", "--test", "registers", "--test", "kernels"]);
    build.args(["--no-run", "--message-format", "json"]);
    println!("$ {}", process::line(&build));
    let messages = process::output(build)?;
    let programs: Vec<_> = messages
        .lines()
        .filter_map(|line| line.split_once(r#""executable":""#)?.1.split_once('"'))
        .map(|(path, _)| PathBuf::from(path))
        .collect();
    ["registers", "luxor_engine", "kernels"]
        .iter()
        .map(|name| {
            let is_it = |path: &&PathBuf| without_hash(path) == Some(name);
            let found = programs.iter().find(is_it).cloned();
            found.ok_or_else(|| format!("cargo built no test program {name}"))
        })
        .collect()
}

/// Returns the name of a test program without the hash that Cargo adds.
fn without_hash(path: &Path) -> Option<&str> {
    Some(path.file_name()?.to_str()?.rsplit_once('-')?.0)
}

fn read(path: &Path) -> Result<String, String> {
    let bytes = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).replace('\r', ""))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

/// The machine that Bochs emulates: an Ice Lake client CPU with VAES and AVX-512.
const BOCHSRC: &str = "\
config_interface: textconfig
display_library: term
plugin_ctrl: speaker=0, parallel=0, gameport=0, biosdev=0
cpu: model=corei7_icelake_u, count=1, ips=100000000, reset_on_triple_fault=0
memory: guest=1024, host=1024
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/vgabios/vgabios.bin
ata0: enabled=1
ata0-master: type=cdrom, path=luxor.iso, status=inserted
boot: cdrom
clock: sync=none, time0=local
com1: enabled=1, mode=file, dev=serial
log: log
debugger_log: -
panic: action=fatal
error: action=report
info: action=report
debug: action=ignore, pci=report
vga: extension=none, update_freq=1
";

/// `clearcpuid` is essential: for the first three features Bochs 2.7 reports wrong sizes of the
/// XSAVE area (CPUID leaf 0xD), and with `fsrm` the boot hangs in `memmove`. The other parameters
/// shorten the boot.
const ISOLINUX: &str = "\
SERIAL 0 115200
DEFAULT luxor
PROMPT 0
LABEL luxor
  KERNEL vmlinuz
  INITRD initrd
  APPEND console=ttyS0,115200 loglevel=4 init_on_alloc=0 nokaslr mitigations=off panic=-1 \
tsc=reliable tsc_early_khz=100000 lpj=400000 no_timer_check clearcpuid=pku,xsaves,xsavec,fsrm \
lsm=capability idle=halt audit=0 rdinit=/init
";

/// The beginning of the guest's first program. Without `dmesg -n 1`, messages of the kernel could
/// break the lines of the tests.
const GUEST: &str = r#"#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t tmpfs tmp /tmp
/bin/busybox dmesg -n 1
export LUXOR_REQUIRE_ENGINES={required} LUXOR_TEST_FEW=1
cd /tests
run() {
    name=$1; program=$2; shift 2
    echo "@ begin $name"
    "./$program" "$@" --nocapture --test-threads=1
    echo "@ end $name rc $?"
}
"#;

/// Makes the image in the current folder. `$1` is the repository, and the test programs follow. In
/// the guest the vectors have the path that is compiled into the tests. The kernel's package is
/// unpacked, not installed, because installing it would change what this machine boots.
const IMAGE: &str = r#"
    root=$1; shift
    if ! test -f vmlinuz; then
        rm -f linux-image-*.deb
        package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: //p')
        if test -z "$package"; then
            echo "no linux-image-cloud-amd64: run sudo apt-get update, or put a Linux kernel" \
                "for x86-64 at $PWD/vmlinuz" >&2
            exit 1
        fi
        apt-get --quiet download "$package"
        dpkg-deb --fsys-tarfile linux-image-*.deb | tar -xO --wildcards './boot/vmlinuz-*' >new
        rm linux-image-*.deb
        mv new vmlinuz
    fi
    rm -rf guest cd luxor.iso
    mkdir -p guest/bin guest/tests guest/proc guest/sys guest/dev guest/tmp cd
    mkdir -p "guest$root/conformance"
    cp -r "$root/vectors" "guest$root/"
    cp "$(command -v busybox)" guest/bin/busybox
    cp init guest/init
    chmod +x guest/init
    for program; do
        name=${program##*/}
        strip -s -o "guest/tests/${name%-*}" "$program"
        ldd "$program" | grep -o '/[^ ]*' | while read -r library; do
            mkdir -p "guest${library%/*}"
            cp -L "$library" "guest$library"
        done
    done
    (cd guest && find . | busybox cpio -o -H newc -R 0:0) >cd/initrd
    cp vmlinuz isolinux.cfg cd/
    cp /usr/lib/ISOLINUX/isolinux.bin /usr/lib/syslinux/modules/bios/ldlinux.c32 cd/
    xorriso -as mkisofs -quiet -o luxor.iso -b isolinux.bin -c boot.cat -no-emul-boot \
        -boot-load-size 4 -boot-info-table cd
"#;

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> String {
        let run = |(name, _): &(&str, String)| {
            format!("test result: ok. 1 passed; 0 failed\r\n\r\n@ end {name} rc 0\r\n")
        };
        let runs: String = runs().iter().map(run).collect();
        format!("ISOLINUX\r\n{KERNEL_RAN} [Xts]\r\n{runs}{DONE}\r\n")
    }

    #[test]
    fn only_all_runs_that_passed_on_the_kernel_pass() {
        judge(&good()).unwrap();
        for (from, to) in [
            (DONE, ""),
            (KERNEL_RAN, "vaes256: CPU, VAES in 256-bit registers"),
            ("@ end keys rc 0", "@ end keys rc 101"),
            ("@ end keys rc 0", ""),
            ("@ end keys rc 0", "@ end keys rc 0\n@ end keys rc 0"),
            ("ok. 1 passed", "ok. 0 passed"),
        ] {
            let bad = good().replacen(from, to, 1);
            assert_ne!(bad, good());
            assert!(judge(&bad).is_err(), "{to:?} instead of {from:?}");
        }
    }
}
