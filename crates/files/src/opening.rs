// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens files, with descriptors above those of the standard streams.
//!
//! If the caller's process has closed standard error, the kernel gives its number, 2, to the next file
//! that is opened. Whatever any code of the process then prints as a message is written into that file,
//! at its position: for a volume, into its header. Therefore no file gets the numbers 0 to 2, and this is
//! the one place in which this crate and those above it open files. `clippy.toml` forbids the functions
//! of the standard library and of other crates.
//!
//! The program `luxor` also keeps these numbers in use from its beginning
//! ([`keep_closed`](crate::standard_streams::keep_closed)), which covers its sockets.

use std::{
    fs::{File, OpenOptions},
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
    path::Path,
};

use nix::{
    NixPath,
    fcntl::{OFlag, openat},
    sys::stat::Mode,
};
use rustix::io::{fcntl_dupfd_cloexec, fcntl_getfd};

use crate::standard_streams::unconnected;

/// The least number of a file's descriptor.
const LEAST: RawFd = 3;

/// Opens `path` as `options` say.
///
/// # Errors
/// Those of the system.
pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> io::Result<File> {
    let _occupied = occupy();
    #[expect(clippy::disallowed_methods, reason = "this is the place for it")]
    lifted(options.open(path)?.into())
}

/// Opens `path` for reading.
///
/// # Errors
/// Those of the system.
pub fn open_to_read(path: impl AsRef<Path>) -> io::Result<File> {
    open(path, OpenOptions::new().read(true))
}

/// Opens `path`, which is relative to `folder`. The descriptor is closed when another program is
/// executed, whether or not `flags` say so.
///
/// # Errors
/// Those of the system.
pub fn open_at(
    folder: impl AsFd,
    path: &(impl NixPath + ?Sized),
    flags: OFlag,
    mode: Mode,
) -> nix::Result<File> {
    let _occupied = occupy();
    #[expect(clippy::disallowed_methods, reason = "this is the place for it")]
    let opened = openat(folder, path, flags | OFlag::O_CLOEXEC, mode)?;
    lifted(opened).map_err(|error| nix::Error::try_from(error).unwrap_or(nix::Error::EIO))
}

/// Occupies the numbers of closed standard streams until the result is dropped. Opening a file first and
/// giving it another number afterwards would leave a moment in which another thread could write to it.
fn occupy() -> Vec<OwnedFd> {
    let mut occupied = Vec::new();
    if fcntl_getfd(io::stdin()).is_ok()
        && fcntl_getfd(io::stdout()).is_ok()
        && fcntl_getfd(io::stderr()).is_ok()
    {
        return occupied;
    }
    // Without a socket, `lifted` is all that is left to do.
    while let Ok(nothing) = unconnected()
        && nothing.as_raw_fd() < LEAST
    {
        occupied.push(nothing);
    }
    occupied
}

/// Gives a file another number if it has that of a standard stream, which another thread may have closed
/// in the meantime.
fn lifted(file: OwnedFd) -> io::Result<File> {
    if file.as_raw_fd() < LEAST {
        return Ok(fcntl_dupfd_cloexec(file, LEAST)?.into());
    }
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use std::{env, fs, path::Path, process, process::Command, sync::atomic::AtomicBool};

    use nix::unistd::close;

    use super::*;
    use crate::{
        DataFile, Input, Output, OutputOptions, Role,
        locks::{Access, MetadataLock},
        testing::alone,
    };

    const FOLDER: &str = "LUXOR_TEST_OPENING";

    /// A file with the number 2 would receive messages for standard error.
    #[test]
    fn no_file_gets_the_number_of_a_standard_stream() {
        if let Some(folder) = env::var_os(FOLDER) {
            process::exit(without_streams(Path::new(&folder)));
        }
        let _alone = alone();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("volume"), [7; 8192]).unwrap();
        fs::write(folder.path().join("input"), [7; 8192]).unwrap();
        let status = Command::new(env::current_exe().unwrap())
            .args([
                "--exact",
                "opening::tests::no_file_gets_the_number_of_a_standard_stream",
                "--nocapture",
            ])
            .env(FOLDER, folder.path())
            .status();
        assert_eq!(status.unwrap().code(), Some(10));
    }

    /// Closes the streams, opens files, and returns 10 if none of them has the number of a stream, or
    /// else the number of the step that has given it one.
    fn without_streams(folder: &Path) -> i32 {
        for stream in 0..LEAST {
            close(stream).unwrap();
        }
        let is_taken = |step: i32| {
            let mut streams = 0..LEAST;
            if streams.any(|stream| fs::read_link(format!("/proc/self/fd/{stream}")).is_ok()) {
                process::exit(step);
            }
        };
        is_taken(0);
        let data = DataFile::open(&folder.join("volume"), Access::Write).unwrap();
        is_taken(1);
        let _input = (data.input().unwrap(), data.storage().unwrap());
        is_taken(2);
        let input = Input::open(&folder.join("input"), Role::Data).unwrap();
        is_taken(3);
        let change = Input::open(&folder.join("input"), Role::Change).unwrap();
        is_taken(4);
        let output = Output::create(&folder.join("output"), &OutputOptions::default()).unwrap();
        is_taken(5);
        let file = open_to_read(folder.join("input")).unwrap();
        is_taken(6);
        let lock = MetadataLock::to_read(&file, false, &AtomicBool::new(false)).unwrap();
        is_taken(7);
        drop((data, input, change, output, file, lock));
        10
    }
}
