// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file with the process ID of a server.
//!
//! The process locks its file. The lock distinguishes it from a file that a crash left behind and
//! that contains an ID which another process may have by now.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process,
};

use luxor::files::{open, path_name, temporary::Temporary};
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, fcntl},
    libc,
};

use crate::error::{Error, ErrorClass, Result};

/// This process's pid file, which is removed when dropped.
///
/// The file appears with its contents, and stays locked as long as the process lives, so that a
/// stale file can be recognised. (qemu-nbd locks its pid file in the same way.)
#[derive(Debug)]
pub(crate) struct PidFile {
    path: PathBuf,
    file: File,
    _temporary: Temporary,
}

impl PidFile {
    /// Refuses an unusable path early, before the file is made.
    ///
    /// # Errors
    /// Fails when the file belongs to a running process, or is not a pid file.
    pub(crate) fn check(path: &Path) -> Result<()> {
        match open_old(path, false) {
            Ok(file) => check_stale(&file, path),
            Err(error) if error.kind() == io::ErrorKind::NotFound && has_folder(path) => Ok(()),
            Err(error) => Err(unwritable(path, &error)),
        }
    }

    /// Makes the file.
    ///
    /// # Errors
    /// Those of [`PidFile::check`], and those of the system.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let failed = |error: io::Error| unwritable(path, &error);
        let mut hidden = path.as_os_str().to_owned();
        hidden.push(format!(".{}", process::id()));
        let hidden = PathBuf::from(hidden);
        // A file that an earlier process with the same ID may have left.
        let _ = fs::remove_file(&hidden);
        let under_work = Temporary::new(hidden.clone());
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o644);
        let made = open(&hidden, &options).and_then(|mut file| {
            set_lock(&file)?;
            writeln!(file, "{}", process::id())?;
            Ok(file)
        });
        let placed = made
            .map_err(failed)
            .and_then(|file| place(&hidden, path).map(|()| file));
        let _ = fs::remove_file(&hidden);
        drop(under_work);
        Ok(Self {
            path: path.to_owned(),
            file: placed?,
            _temporary: Temporary::new(path.to_owned()),
        })
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let ours = self.file.metadata();
        if let (Ok(ours), Ok(named)) = (ours, fs::symlink_metadata(&self.path))
            && is_same(&ours, &named)
        {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Links the file to its final name, replacing a stale one.
fn place(hidden: &Path, path: &Path) -> Result<()> {
    let failed = |error: io::Error| unwritable(path, &error);
    loop {
        match fs::hard_link(hidden, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => return result.map_err(failed),
        }
        let old = match open_old(path, true) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            old => old.map_err(failed)?,
        };
        check_stale(&old, path)?;
        // If several processes do this at once, only one replaces the file. The others find a
        // different file at the path and check again.
        match set_lock(&old) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            result => result.map_err(failed)?,
        }
        let locked = old.metadata().map_err(failed)?;
        if fs::symlink_metadata(path).is_ok_and(|named| is_same(&locked, &named)) {
            return fs::rename(hidden, path).map_err(failed);
        }
    }
}

/// Opens the existing file. A FIFO or a link at the path does not block the process or lead
/// elsewhere.
fn open_old(path: &Path, write: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(write)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY);
    open(path, &options)
}

/// No pid file is this long.
const LONGEST: usize = 32;

/// Checks that the file is a pid file, and that no process holds its lock.
fn check_stale(file: &File, path: &Path) -> Result<()> {
    let failed = |error: io::Error| unwritable(path, &error);
    let mut text = Vec::new();
    let is_file = file.metadata().map_err(failed)?.is_file();
    if is_file {
        file.take(LONGEST as u64)
            .read_to_end(&mut text)
            .map_err(failed)?;
    }
    let number = text.trim_ascii();
    // A 64-bit number and a newline are shorter than `LONGEST`, so the whole file was read.
    let is_number = number.iter().all(u8::is_ascii_digit) && text.len() < LONGEST;
    if !is_file || !is_number {
        return Err(Error::new(
            ErrorClass::Busy,
            format!("{} exists and is not a pid file", path_name(path)),
        ));
    }
    let mut question = whole_file(libc::F_WRLCK);
    match fcntl(file, FcntlArg::F_OFD_GETLK(&mut question)) {
        // If the file system has no locks, no process can hold one.
        Ok(_) if i32::from(question.l_type) != libc::F_UNLCK => Err(Error::new(
            ErrorClass::Busy,
            format!(
                "{} belongs to a running process: {}",
                path_name(path),
                String::from_utf8_lossy(number)
            ),
        )),
        _ => Ok(()),
    }
}

fn set_lock(file: &File) -> io::Result<()> {
    match fcntl(file, FcntlArg::F_OFD_SETLK(&whole_file(libc::F_WRLCK))) {
        Ok(_) | Err(Errno::EINVAL | Errno::ENOLCK | Errno::ENOSYS | Errno::EOPNOTSUPP) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

fn whole_file(kind: i32) -> libc::flock {
    libc::flock {
        l_type: i16::try_from(kind).expect("a lock type is 0, 1 or 2"),
        l_whence: i16::try_from(libc::SEEK_SET).expect("SEEK_SET is 0"),
        l_start: 0,
        l_len: 0,
        // Must be 0 for open file description locks.
        l_pid: 0,
    }
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Whether the folder of the file exists.
fn has_folder(path: &Path) -> bool {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    folder.is_none_or(Path::is_dir)
}

fn unwritable(path: &Path, error: &io::Error) -> Error {
    Error::io(
        format!("cannot write the pid file {}", path_name(path)),
        error,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use luxor::files::testing::alone;

    #[test]
    fn a_pid_file_has_the_number_and_is_removed() {
        let _alone = alone();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pid");
        let ours = format!("{}\n", process::id());
        // No file, and stale files with and without a number.
        for stale in [None, Some(""), Some("123"), Some("4294967295\n")] {
            if let Some(stale) = stale {
                fs::write(&path, stale).unwrap();
            }
            PidFile::check(&path).unwrap();
            let file = PidFile::create(&path).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), ours);
            let mode = fs::metadata(&path).unwrap().mode();
            assert_eq!(mode & 0o777, 0o644 & !umask());
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
            drop(file);
            assert!(!path.exists());
        }
    }

    fn umask() -> u32 {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
        u32::from_str_radix(mask.unwrap().trim(), 8).unwrap()
    }

    #[test]
    fn a_pid_file_in_use_is_kept() {
        let _alone = alone();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pid");
        let first = PidFile::create(&path).unwrap();
        for error in [
            PidFile::check(&path).unwrap_err(),
            PidFile::create(&path).unwrap_err(),
        ] {
            let words = error.to_string();
            assert!(words.contains("running"), "{words}");
            assert!(words.contains(&process::id().to_string()), "{words}");
            assert_eq!(error.class(), ErrorClass::Busy);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

        // A file that has replaced this one must not be removed.
        fs::remove_file(&path).unwrap();
        let second = PidFile::create(&path).unwrap();
        drop(first);
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_is_not_a_pid_file_is_kept() {
        let _alone = alone();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pid");
        let many = "1".repeat(31) + "\nand more";
        for content in ["photos", "12 13", "-1", &many] {
            fs::write(&path, content).unwrap();
            let errors = [PidFile::check(&path), PidFile::create(&path).map(drop)];
            for error in errors {
                let error = error.unwrap_err();
                assert!(error.to_string().contains("not a pid file"), "{error}");
                assert_eq!(error.class(), ErrorClass::Busy);
            }
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("nowhere", &path).unwrap();
        assert!(PidFile::check(&path).is_err());
        assert!(PidFile::create(&path).is_err());
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(PidFile::check(&path).is_err());
        assert!(PidFile::create(&path).is_err());
        assert!(PidFile::create(&path.join("no/folder")).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    /// If many processes find a stale file at once, exactly one gets the path.
    #[test]
    fn exactly_one_of_many_processes_gets_the_path() {
        let _alone = alone();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pid");
        for _ in 0..100 {
            // In one process all temporary files would have the same name, so each thread makes its
            // own and only `place` is tested.
            let hidden: Vec<PathBuf> = (0..8)
                .map(|k| folder.path().join(format!("hidden{k}")))
                .collect();
            fs::write(&path, "1\n").unwrap();
            let start = std::sync::Barrier::new(hidden.len());
            let (start, path) = (&start, path.as_path());
            let winners = std::thread::scope(|scope| {
                let threads: Vec<_> = hidden
                    .iter()
                    .map(|hidden| {
                        scope.spawn(move || {
                            let file = File::create_new(hidden).unwrap();
                            set_lock(&file).unwrap();
                            (&file).write_all(b"2\n").unwrap();
                            start.wait();
                            // Returned, so that each file stays locked until all threads have
                            // tried.
                            (place(hidden, path).is_ok(), file)
                        })
                    })
                    .collect();
                let ended: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
                ended.iter().filter(|(won, _)| *won).count()
            });
            assert_eq!(winners, 1);
            fs::remove_file(path).unwrap();
            for hidden in hidden {
                let _ = fs::remove_file(hidden);
            }
        }
    }
}
