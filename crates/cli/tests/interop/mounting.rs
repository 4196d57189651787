// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor mount`, with a file system of the kernel in the volume.
//!
//! Python decrypts what ext4 wrote through FUSE and a loop device, with the key that `cryptsetup`
//! prints. The result must be a valid ext4. This test needs root.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use luxor::files::testing::Loop;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    Cell, PASSPHRASE, SecretKind,
    programs::{Bench, Outcome, Secret, Volume, must, must_equal, run, text},
    words,
};

#[test]
fn ext4_lives_in_luks2_with_sectors_of_512_bytes() -> Outcome<()> {
    ext4_lives_in(
        Cell {
            sector_size: 512,
            ..Cell::example()
        },
        "--direct-io=on",
    )
}

#[test]
fn ext4_lives_in_luks2_with_sectors_of_4096_bytes() -> Outcome<()> {
    ext4_lives_in(Cell::example(), "--direct-io=on")
}

#[test]
fn ext4_lives_in_luks1() -> Outcome<()> {
    ext4_lives_in(Cell::of_version(true), "--direct-io=off")
}

fn ext4_lives_in(cell: Cell, direct_io: &str) -> Outcome<()> {
    must(
        nix::unistd::geteuid().is_root(),
        "loop devices and mounts need root: `cargo xtask test` runs the tests with sudo",
    )?;
    // The source folder `crates` of this workspace, as test data.
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .ok_or("no folder crates")?;
    let mut bench = Bench::new();
    let secret = bench.secret(PASSPHRASE, SecretKind::KeyFile);
    let volume = Volume::attached(bench.new_path());
    let options = [cell.luxor_options(), words("--size 16M")].concat();
    bench
        .luxor("format", &[&volume.data], &options, &secret)?
        .must_exit(0)?;

    let mount = Mount::start(&mut bench, &volume, &secret, &[])?;
    let device = Loop::with(&mount.file, &[direct_io]);
    tool("mkfs.ext4", &["-q", device.name()])?;
    let folder = Folder::with(&mut bench, &device, "rw")?;
    tool("cp", &["-a", &text(sources), &text(&folder.0)])?;
    tool("umount", &[&text(&folder.0)])?;
    tool("e2fsck", &["-f", "-n", device.name()])?;
    drop(device);
    mount.stop()?;

    // Read what ext4 wrote in three ways.
    let image = bench.new_path();
    bench
        .luxor("decrypt", &[&volume.data, &image], &[], &secret)?
        .must_exit(0)?;
    let plaintext = fs::read(&image).map_err(|e| e.to_string())?;
    let python = bench.python_decrypts(cell, &volume, &secret)?;
    must_equal("what Luxor decrypts", &plaintext, &python)?;
    let mount = Mount::start(&mut bench, &volume, &secret, &words("--read-only"))?;
    let mounted = fs::read(&mount.file).map_err(|e| e.to_string())?;
    must_equal("what Luxor mounts", &mounted, &python)?;

    let device = Loop::with(&mount.file, &["--read-only"]);
    let folder = Folder::with(&mut bench, &device, "ro")?;
    let copy = folder.0.join("crates");
    let (sources, copy) = (text(sources), text(&copy));
    // Links lead out of the folder.
    tool(
        "diff",
        &["--recursive", "--no-dereference", &sources, &copy],
    )?;
    drop((folder, device));
    mount.stop()
}

fn tool(program: &str, arguments: &[&str]) -> Outcome<String> {
    let mut command = Command::new(program);
    command.args(arguments);
    let ran = run(command, None)?;
    ran.must_exit(0)?;
    Ok(ran.stdout())
}

/// A running `luxor mount` with its file.
struct Mount {
    child: Child,
    folder: PathBuf,
    file: PathBuf,
}

impl Mount {
    fn start(
        bench: &mut Bench,
        volume: &Volume,
        secret: &Secret,
        options: &[String],
    ) -> Outcome<Self> {
        let folder = bench.new_path();
        fs::create_dir(&folder).map_err(|e| e.to_string())?;
        let mut luxor = Command::new(env!("CARGO_BIN_EXE_luxor"));
        luxor
            .args(["mount", "--name", "plaintext", "--key-file"])
            .args(&secret.key_file)
            .args(options)
            .args([&volume.data, &folder])
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = luxor.spawn().map_err(|e| e.to_string())?;
        let stderr = child.stderr.take().ok_or("no standard error")?;
        let mut line = String::new();
        BufReader::new(stderr)
            .read_line(&mut line)
            .map_err(|e| e.to_string())?;
        let mount = Self {
            child,
            file: folder.join("plaintext"),
            folder,
        };
        must(
            line.contains("the plaintext is "),
            &format!("{luxor:?}: {line}"),
        )?;
        Ok(mount)
    }

    /// Stops `luxor mount` cleanly. It waits for a loop device that is a moment behind.
    fn stop(mut self) -> Outcome<()> {
        let pid = Pid::from_raw(self.child.id().try_into().expect("a process ID fits"));
        kill(pid, Signal::SIGTERM).map_err(|e| e.to_string())?;
        let status = self.child.wait().map_err(|e| e.to_string())?;
        must(status.code() == Some(0), &format!("luxor mount: {status}"))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // If the process had to be killed, the mount is still there.
        unmount(&self.folder);
    }
}

/// A folder on which a file system is mounted.
struct Folder(PathBuf);

impl Folder {
    fn with(bench: &mut Bench, device: &Loop, options: &str) -> Outcome<Self> {
        let folder = Self(bench.new_path());
        fs::create_dir(&folder.0).map_err(|e| e.to_string())?;
        tool("mount", &["-o", options, device.name(), &text(&folder.0)])?;
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        unmount(&self.0);
    }
}

fn unmount(folder: &Path) {
    let _ = Command::new("umount")
        .args(["--lazy", "--quiet"])
        .arg(folder)
        .status();
}
