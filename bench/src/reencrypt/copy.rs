// SPDX-License-Identifier: MIT OR Apache-2.0
//! The copy in place: reads every byte and writes it back, as a re-encryption does. It is a separate
//! process, as every contestant is. On a disk it uses direct I/O, with enough requests at a time to reach
//! the disk's bandwidth.

use std::{
    ffi::OsString,
    fs::File,
    io,
    path::Path,
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use luxor_engine::Buffer;
use luxor_sector::{DirectFile, Storage};

/// The argument that starts this program as the copy.
pub(crate) const COPY: &str = "--copy-in-place";

/// The bytes that a thread copies at a time: as many as a thread of Luxor re-encrypts.
const PIECE: usize = 256 << 10;

/// The same on a disk, and the least number of threads there.
const DIRECT_PIECE: usize = 1 << 20;
const DIRECT_THREADS: u64 = 16;

/// Copies the last bytes of a file. The arguments are the number of threads, the number of bytes,
/// whether the file is on a disk, and the file.
pub(crate) fn copy(words: &[OsString]) -> ExitCode {
    let [threads, bytes, on_disk, file] = words else {
        return ExitCode::FAILURE;
    };
    let [Some(threads), Some(bytes)] = [threads, bytes].map(|word| word.to_str()?.parse().ok())
    else {
        return ExitCode::FAILURE;
    };
    match copy_end(Path::new(file), threads, bytes, on_disk == "true") {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", Path::new(file).display());
            ExitCode::FAILURE
        }
    }
}

fn copy_end(path: &Path, threads: u64, bytes: u64, on_disk: bool) -> io::Result<()> {
    let file = File::options().read(true).write(true).open(path)?;
    if on_disk {
        let file = DirectFile::new(file).map_err(io::Error::other)?;
        return copy_storage(&file, threads.max(DIRECT_THREADS), bytes, DIRECT_PIECE);
    }
    copy_storage(&file, threads, bytes, PIECE)
}

fn copy_storage(file: &dyn Storage, threads: u64, bytes: u64, piece: usize) -> io::Result<()> {
    let end = file.len()?;
    let next = AtomicU64::new(end.saturating_sub(bytes));
    let work = || -> io::Result<()> {
        let mut buffer = Buffer::zeroed(piece);
        loop {
            let at = next.fetch_add(piece as u64, Ordering::Relaxed);
            let rest = usize::try_from(end.saturating_sub(at)).unwrap_or(piece);
            let part = &mut buffer[..rest.min(piece)];
            if part.is_empty() {
                return Ok(());
            }
            file.read_exact_at(part, at)?;
            file.write_all_at(part, at)?;
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut threads = threads.into_iter();
        threads.try_for_each(|thread| thread.join().expect("copying does not panic"))
    })?;
    file.sync()
}

#[cfg(test)]
mod tests {
    use std::{
        env, fs,
        os::unix::fs::{FileExt, MetadataExt},
    };

    use super::*;
    use crate::program::Folder;

    fn copies_the_last_bytes(inside: &Path, on_disk: bool) {
        let folder = Folder::new(inside).unwrap();
        let path = folder.path().join("file");
        let file = File::create_new(&path).unwrap();
        let len = 9 * PIECE as u64;
        file.set_len(len).unwrap();
        FileExt::write_all_at(&file, b"at the end", len - 10).unwrap();
        if on_disk && DirectFile::new(file).is_err() {
            return;
        }
        let written = || fs::metadata(&path).unwrap().blocks() * 512;
        assert!(written() < len / 9);
        // Writing fills the holes of the file.
        copy_end(&path, 2, 4 * PIECE as u64 + 4096, on_disk).unwrap();
        assert_eq!(written(), 4 * PIECE as u64 + 4096);
        assert!(fs::read(&path).unwrap().ends_with(b"at the end"));
        fs::remove_file(&path).unwrap();
        assert!(copy_end(&path, 2, 1, on_disk).is_err());
    }

    #[test]
    fn the_copy_writes_exactly_the_last_bytes() {
        copies_the_last_bytes(Path::new("/dev/shm"), false);
    }

    #[test]
    fn the_copy_on_a_disk_writes_exactly_the_last_bytes() {
        copies_the_last_bytes(&env::temp_dir(), true);
    }
}
