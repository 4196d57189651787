// SPDX-License-Identifier: MIT OR Apache-2.0
//! The volume that is re-encrypted again and again.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

use super::{CHEAP, Plan, SECTOR};
use crate::{plaintext, program::Program};

pub(super) struct Volume<'a> {
    plan: &'a Plan,
    /// The length of the plaintext.
    pub(super) bytes: usize,
    pub(super) path: PathBuf,
    pub(super) key: PathBuf,
    pub(super) plain: PathBuf,
}

impl<'a> Volume<'a> {
    /// Writes the key. The volume does not exist yet.
    pub(super) fn new(plan: &'a Plan, bytes: usize, folder: &Path) -> Result<Self, String> {
        let [plain, path, key] = ["plain", "volume", "key"].map(|name| folder.join(name));
        fs::write(&key, [0x4b; 32]).map_err(|e| format!("{}: {e}", key.display()))?;
        Ok(Self {
            plan,
            bytes,
            path,
            key,
            plain,
        })
    }

    /// Makes the volume with known bytes in it.
    pub(super) fn encrypt(&self) -> Result<(), String> {
        plaintext::make(&self.plain, self.bytes)?;
        let mut encrypt = self.luxor("encrypt");
        encrypt.extend(new_volume());
        encrypt.extend([&self.plain, &self.path].map(OsString::from));
        Program::new(encrypt).run(false)?;
        self.forget_plain()
    }

    /// Makes the volume without data in it.
    pub(super) fn format(&self) -> Result<(), String> {
        let mut format = self.luxor("format");
        format.extend(new_volume());
        format.extend(["--size".into(), self.bytes.to_string().into()]);
        format.push(OsString::from(&self.path));
        Program::new(format).run(false)
    }

    /// Decrypts the volume into the file `plain`.
    pub(super) fn decrypt(&self) -> Result<(), String> {
        let mut decrypt = self.luxor("decrypt");
        decrypt.extend([&self.path, &self.plain].map(OsString::from));
        Program::new(decrypt).run(false)
    }

    fn forget_plain(&self) -> Result<(), String> {
        let removed = fs::remove_file(&self.plain);
        removed.map_err(|e| format!("cannot remove {}: {e}", self.plain.display()))
    }

    /// Returns the first words of a command of `luxor` that opens the volume.
    pub(super) fn luxor(&self, command: &str) -> Vec<OsString> {
        let mut words = self.server(command);
        words.push("-q".into());
        words
    }

    /// As [`Self::luxor`], with all messages.
    pub(super) fn server(&self, command: &str) -> Vec<OsString> {
        let mut words = vec![OsString::from(&self.plan.luxor), command.into()];
        words.extend(self.plan.options.iter().map(OsString::from));
        words.extend(["--key-file".into(), OsString::from(&self.key)]);
        words
    }

    /// Compares every byte of the plaintext with the known ones.
    pub(super) fn compare(&self) -> Result<(), String> {
        let words = self.luxor("decrypt");
        let mut luxor = Command::new(&words[0])
            .args(&words[1..])
            .args([self.path.as_os_str(), OsStr::new("-")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{}: {e}", self.plan.luxor.display()))?;
        let from = luxor.stdout.take().expect("it is a pipe");
        let compared = plaintext::compare(from, self.bytes);
        let status = luxor.wait().map_err(|e| e.to_string())?;
        if !status.success() {
            return Err(format!("luxor decrypt: {status}"));
        }
        compared.map_err(|e| format!("the plaintext has changed: {e}"))
    }

    /// Makes the volume durable, and drops it from the page cache: a volume on a disk is usually longer
    /// than the memory.
    pub(super) fn leave_cache(&self) -> Result<(), String> {
        let drop = || {
            let file = File::open(&self.path)?;
            file.sync_all()?;
            Ok(posix_fadvise(
                &file,
                0,
                0,
                PosixFadviseAdvice::POSIX_FADV_DONTNEED,
            )?)
        };
        drop().map_err(|e: io::Error| format!("{}: {e}", self.path.display()))
    }

    /// Returns the last sector as it is stored.
    pub(super) fn last_sector(&self) -> Result<Vec<u8>, String> {
        let read = || {
            let file = File::open(&self.path)?;
            let mut sector = vec![0; SECTOR];
            let end = file.metadata()?.len();
            file.read_exact_at(&mut sector, end.saturating_sub(SECTOR as u64))?;
            Ok(sector)
        };
        read().map_err(|e: io::Error| format!("cannot read {}: {e}", self.path.display()))
    }
}

/// The options of a new volume, which replaces one that exists.
fn new_volume() -> impl Iterator<Item = OsString> {
    let sector = format!("--sector-size={SECTOR}");
    let words = CHEAP.into_iter().map(OsString::from);
    words.chain([sector.into(), "--force".into()])
}
