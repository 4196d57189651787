// SPDX-License-Identifier: MIT OR Apache-2.0
//! Test support: loop devices, and a lock between the tests of one program.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// A lock for tests that start processes, and for tests that lock a file or device and release it.
/// A process that is being started has all open files for a moment, and with them their locks.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A loop device over a file, which is detached on drop. Needs root.
pub struct Loop(pub PathBuf);

impl Loop {
    /// Attaches a loop device with sectors of 512 bytes.
    ///
    /// # Panics
    /// If `losetup` fails.
    #[must_use]
    pub fn over(file: &Path) -> Self {
        Self::with_sectors(file, 512)
    }

    /// Attaches a loop device with sectors of `bytes`.
    ///
    /// # Panics
    /// If `losetup` fails.
    #[must_use]
    pub fn with_sectors(file: &Path, bytes: u32) -> Self {
        Self::with(file, &["--sector-size", &bytes.to_string()])
    }

    /// Attaches a loop device with these options of `losetup`.
    ///
    /// # Panics
    /// If `losetup` fails.
    #[must_use]
    pub fn with(file: &Path, options: &[&str]) -> Self {
        let output = Command::new("losetup")
            .args(["--find", "--show"])
            .args(options)
            .arg(file)
            .output();
        let output = output.unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Self(String::from_utf8(output.stdout).unwrap().trim().into())
    }

    /// The path of the device, such as `/dev/loop0`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }
}

impl Drop for Loop {
    /// Detaches the device, and waits until it is gone: a process that is being started has it open
    /// for a moment.
    fn drop(&mut self) {
        let name = self.name().trim_start_matches("/dev/");
        let file = format!("/sys/block/{name}/loop/backing_file");
        let ours = fs::read(&file).ok();
        let _ = Command::new("losetup")
            .args(["--detach", self.name()])
            .status();
        let begun = Instant::now();
        while ours.is_some()
            && fs::read(&file).ok() == ours
            && begun.elapsed() < Duration::from_secs(10)
        {
            thread::sleep(Duration::from_millis(5));
        }
    }
}
