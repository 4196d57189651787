// SPDX-License-Identifier: MIT OR Apache-2.0
//! The copy in place: reads every byte and writes it back, as a re-encryption does. It is a separate
//! process, as every contestant is.

use std::{
    ffi::OsString,
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::Path,
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

/// The argument that starts this program as the copy.
pub(crate) const COPY: &str = "--copy-in-place";

/// The bytes that a thread copies at a time: as many as a thread of Luxor re-encrypts.
const PIECE: usize = 256 << 10;

/// Copies the last bytes of a file. The arguments are the number of threads, the number of bytes,
/// and the file.
pub(crate) fn copy(words: &[OsString]) -> ExitCode {
    let [threads, bytes, file] = words else {
        return ExitCode::FAILURE;
    };
    let [Some(threads), Some(bytes)] = [threads, bytes].map(|word| word.to_str()?.parse().ok())
    else {
        return ExitCode::FAILURE;
    };
    match copy_end(Path::new(file), threads, bytes) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", Path::new(file).display());
            ExitCode::FAILURE
        }
    }
}

fn copy_end(path: &Path, threads: u64, bytes: u64) -> io::Result<()> {
    let file = File::options().read(true).write(true).open(path)?;
    let end = file.metadata()?.len();
    let next = AtomicU64::new(end.saturating_sub(bytes));
    let work = || -> io::Result<()> {
        let mut piece = vec![0; PIECE];
        loop {
            let at = next.fetch_add(PIECE as u64, Ordering::Relaxed);
            let rest = usize::try_from(end.saturating_sub(at)).unwrap_or(PIECE);
            let piece = &mut piece[..rest.min(PIECE)];
            if piece.is_empty() {
                return Ok(());
            }
            file.read_exact_at(piece, at)?;
            file.write_all_at(piece, at)?;
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut threads = threads.into_iter();
        threads.try_for_each(|thread| thread.join().expect("copying does not panic"))
    })?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::MetadataExt};

    use super::*;
    use crate::program::Folder;

    #[test]
    fn the_copy_writes_exactly_the_last_bytes() {
        let folder = Folder::new(Path::new("/dev/shm")).unwrap();
        let path = folder.path().join("file");
        let file = File::create_new(&path).unwrap();
        let len = 9 * PIECE as u64;
        file.set_len(len).unwrap();
        file.write_all_at(b"at the end", len - 10).unwrap();
        let written = || fs::metadata(&path).unwrap().blocks() * 512;
        assert!(written() < len / 9);
        // Writing fills the holes of the file.
        copy_end(&path, 2, 4 * PIECE as u64 + 4096).unwrap();
        assert_eq!(written(), 4 * PIECE as u64 + 4096);
        assert!(fs::read(&path).unwrap().ends_with(b"at the end"));
        fs::remove_file(&path).unwrap();
        assert!(copy_end(&path, 2, 1).is_err());
    }
}
