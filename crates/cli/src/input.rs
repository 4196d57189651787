// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is read: a file, a block device, a pipe, standard input. And metadata that are
//! changed in place.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek},
    os::{
        fd::AsFd,
        unix::fs::{FileExt, FileTypeExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use luxor_sector::{
    Storage,
    copy::{Region, Source},
};
use nix::{
    errno::Errno,
    libc,
    unistd::{Whence, lseek},
};

use crate::{
    block_device::Identity,
    error::{Error, Exit, io_words, name},
    locks::{Access, lock_data, unlock_data},
};

/// What an input is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// All its bytes: nobody may change them meanwhile.
    Data,
    /// A volume's metadata, which may be looked at while the volume is in use.
    Metadata,
    /// A volume's metadata, to be changed in place. That, too, may be done while the
    /// volume is in use: its data stay as they are.
    Change,
}

/// An input that is open.
///
/// As a [`Read`] it gives its bytes in order. Seekable ones are also a
/// [`Storage`]. Either way, large holes are zeros without being read, and that a
/// regular file became shorter or longer meanwhile is an error, at the latest
/// when its last byte is read: its length was announced.
#[derive(Debug)]
pub struct Input {
    path: PathBuf,
    file: File,
    kind: Kind,
    locked: bool,
    writable: bool,
}

#[derive(Debug)]
enum Kind {
    Seekable(Place),
    /// A pipe, a terminal, a socket: read in order, to an end that nobody knows.
    Stream {
        /// Bytes read.
        position: u64,
    },
}

/// Where in a file or device.
#[derive(Debug)]
struct Place {
    /// Where the input's first byte is. Not 0 only where standard input is a
    /// file of which something else has read a part.
    base: u64,
    /// Bytes from `base` to the end, as it was when the input was opened.
    len: u64,
    /// The next byte to be read, from `base` on.
    position: u64,
    regular: bool,
}

impl Input {
    /// Opens `path`, or standard input for `-`.
    ///
    /// With [`Role::Data`] it is locked against programs that write to it.
    ///
    /// # Errors
    /// [`InputError`].
    pub fn open(path: &Path, role: Role) -> Result<Self, InputError> {
        let path_of = || path.to_owned();
        let failed = |source| InputError::Open {
            path: path_of(),
            source,
        };
        if role == Role::Change && path == Path::new("-") {
            return Err(InputError::Unchangeable { path: path_of() });
        }
        let file = if path == Path::new("-") {
            File::from(io::stdin().as_fd().try_clone_to_owned().map_err(failed)?)
        } else {
            OpenOptions::new()
                .read(true)
                .write(role == Role::Change)
                .custom_flags(libc::O_NOCTTY)
                .open(path)
                .map_err(|source| match source.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                        InputError::Missing { path: path_of() }
                    }
                    io::ErrorKind::IsADirectory => InputError::Folder { path: path_of() },
                    _ => failed(source),
                })?
        };
        Self::of_file(file, path, role)
    }

    /// What is left of `file` from its position on.
    fn of_file(file: File, path: &Path, role: Role) -> Result<Self, InputError> {
        let path_of = || path.to_owned();
        let failed = |source| InputError::Open {
            path: path_of(),
            source,
        };
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(InputError::Folder { path: path_of() });
        }
        let regular = metadata.is_file();
        let seekable = regular || metadata.file_type().is_block_device();
        let kind = if seekable {
            let position = (&file).stream_position().map_err(failed)?;
            let end = Storage::len(&file).map_err(failed)?;
            // Files in /proc say that they are empty and are not.
            if regular && end == 0 && file.read_at(&mut [0], 0).map_err(failed)? > 0 {
                Kind::Stream { position: 0 }
            } else {
                let base = position.min(end);
                Kind::Seekable(Place {
                    base,
                    len: end - base,
                    position: 0,
                    regular,
                })
            }
        } else {
            Kind::Stream { position: 0 }
        };
        let writable = role == Role::Change;
        if writable && matches!(kind, Kind::Stream { .. }) {
            return Err(InputError::Unchangeable { path: path_of() });
        }

        let locked = seekable && role == Role::Data;
        if locked && !lock_data(&file, Access::Read).map_err(failed)? {
            return Err(InputError::Locked { path: path_of() });
        }
        Ok(Self {
            path: path_of(),
            file,
            kind,
            locked,
            writable,
        })
    }

    /// The number of bytes from its beginning to its end, as it was when the
    /// input was opened. None for pipes and the like.
    #[must_use]
    pub fn len(&self) -> Option<u64> {
        match &self.kind {
            Kind::Seekable(place) => Some(place.len),
            Kind::Stream { .. } => None,
        }
    }

    /// As it was named on the command line.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its name for messages.
    #[must_use]
    pub fn name(&self) -> String {
        shown(&self.path)
    }

    /// The file itself, for [`MetadataLock`](crate::locks::MetadataLock).
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Its bytes at offsets, for reading only unless it was opened with
    /// [`Role::Change`]. None for pipes and the like.
    #[must_use]
    pub fn as_storage(&self) -> Option<&dyn Storage> {
        match self.kind {
            Kind::Seekable(_) => Some(self),
            Kind::Stream { .. } => None,
        }
    }

    /// What is left of it.
    pub fn source(&mut self) -> Source<'_> {
        match &self.kind {
            Kind::Seekable(place) => Source::At(Region {
                storage: self,
                offset: place.position,
                len: place.len - place.position,
            }),
            Kind::Stream { .. } => Source::Stream(self),
        }
    }

    /// Which file or device it is. None for pipes and the like.
    #[must_use]
    pub fn identity(&self) -> Option<Identity> {
        match self.kind {
            Kind::Seekable(_) => Identity::of(&self.file.metadata().ok()?),
            Kind::Stream { .. } => None,
        }
    }

    /// Goes on reading at byte `offset`: a jump, or in a stream, where it
    /// cannot go back, by reading up to there.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] when it ends before, and
    /// [`io::ErrorKind::InvalidInput`] for the way back in a stream. Else those
    /// of the system.
    pub fn skip_to(&mut self, offset: u64) -> io::Result<()> {
        let ends = |end| {
            let message = format!("it ends after {end} bytes, before byte {offset}");
            Err(io::Error::new(io::ErrorKind::UnexpectedEof, message))
        };
        match &mut self.kind {
            Kind::Seekable(place) if offset > place.len => ends(place.len),
            Kind::Seekable(place) => {
                place.position = offset;
                Ok(())
            }
            Kind::Stream { position } => {
                let here = *position;
                let Some(forward) = offset.checked_sub(here) else {
                    let message = format!("a stream cannot go back to byte {offset}");
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
                };
                let skipped = io::copy(&mut self.by_ref().take(forward), &mut io::sink())?;
                if skipped == forward {
                    Ok(())
                } else {
                    ends(here + skipped)
                }
            }
        }
    }
}

impl Read for Input {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match &mut self.kind {
            Kind::Seekable(place) => place.read(&self.file, buf),
            Kind::Stream { position } => match (&self.file).read(buf) {
                Ok(read) => {
                    *position += read as u64;
                    Ok(read)
                }
                // Another process has made the pipe so: wait, without a loop
                // that takes a whole processor.
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    thread::sleep(Duration::from_millis(2));
                    Err(io::ErrorKind::Interrupted.into())
                }
                Err(e) => Err(e),
            },
        }
    }
}

impl Place {
    fn read(&mut self, file: &File, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.len - self.position;
        let wanted = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
        if left == 0 {
            // An empty file, too, may have grown.
            self.check_len(file)?;
        }
        self.read_exact_at(file, &mut buf[..wanted], self.position)?;
        self.position += wanted as u64;
        Ok(wanted)
    }

    /// Fills `buf` with what begins at byte `offset`, counted from `base` on.
    fn read_exact_at(&self, file: &File, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.saturating_add(buf.len() as u64);
        if end > self.len {
            let message = format!("it ends after {} bytes, before byte {end}", self.len);
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
        }
        if buf.is_empty() {
            return Ok(());
        }
        let at = self.base + offset;
        let hole = self.hole_at(file, at, buf.len())?;
        let (zeros, rest) = buf.split_at_mut(hole);
        zeros.fill(0);
        Storage::read_exact_at(file, rest, at + hole as u64).map_err(|error| {
            match error.kind() {
                // A device has no other length, but may have other words for it.
                io::ErrorKind::UnexpectedEof if self.regular => self
                    .check_len(file)
                    .err()
                    .unwrap_or_else(|| self.changed_len(at)),
                _ => error,
            }
        })?;
        if end == self.len {
            self.check_len(file)?;
        }
        Ok(())
    }

    /// How many of `len` bytes from byte `at` of the file on are in a hole.
    ///
    /// Holes further on are read: to find the end of the data takes some file
    /// systems a look at every page.
    fn hole_at(&self, file: &File, at: u64, len: usize) -> io::Result<usize> {
        let Some(offset) = i64::try_from(at).ok().filter(|_| self.regular) else {
            return Ok(0);
        };
        match lseek(file, offset, Whence::SeekData) {
            Ok(data) => {
                let hole = u64::try_from(data).map_or(0, |data| data.saturating_sub(at));
                Ok(usize::try_from(hole).map_or(len, |hole| hole.min(len)))
            }
            // No data up to the end, wherever that is now.
            Err(Errno::ENXIO) => self.check_len(file).map(|()| len),
            // Some file systems do not know holes.
            Err(_) => Ok(0),
        }
    }

    fn check_len(&self, file: &File) -> io::Result<()> {
        if !self.regular {
            return Ok(());
        }
        let now = file.metadata()?.len();
        if now == self.base + self.len {
            Ok(())
        } else {
            Err(self.changed_len(now))
        }
    }

    fn changed_len(&self, now: u64) -> io::Error {
        let before = self.base + self.len;
        let what = if now < before { "shorter" } else { "longer" };
        io::Error::other(format!(
            "it became {what} while it was read: it had {before} bytes, now {now}"
        ))
    }
}

impl Storage for Input {
    fn len(&self) -> io::Result<u64> {
        self.len().ok_or_else(|| io::ErrorKind::NotSeekable.into())
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let Kind::Seekable(place) = &self.kind else {
            return Err(io::ErrorKind::NotSeekable.into());
        };
        place.read_exact_at(&self.file, buf, offset)
    }

    /// Only what [`Role::Change`] opened can be written, and nothing becomes longer.
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let (Kind::Seekable(place), true) = (&self.kind, self.writable) else {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "it is open for reading only",
            ));
        };
        let end = offset.saturating_add(buf.len() as u64);
        if end > place.len {
            let message = format!("it ends after {} bytes, before byte {end}", place.len);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        Storage::write_all_at(&self.file, buf, place.base + offset)
    }

    fn sync(&self) -> io::Result<()> {
        match self.writable {
            true => Storage::sync(&self.file),
            false => Ok(()),
        }
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        if self.locked {
            unlock_data(&self.file);
        }
    }
}

fn shown(path: &Path) -> String {
    if path == Path::new("-") {
        "standard input".into()
    } else {
        name(path)
    }
}

/// Why an input cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// There is nothing of that name.
    #[error("{} does not exist", shown(path))]
    Missing {
        /// As it was named.
        path: PathBuf,
    },
    /// It is a folder.
    #[error("{} is a folder, not a file", shown(path))]
    Folder {
        /// As it was named.
        path: PathBuf,
    },
    /// It has no place that could be written again.
    #[error(
        "{} cannot be changed in place: it is no file and no block device",
        shown(path)
    )]
    Unchangeable {
        /// As it was named.
        path: PathBuf,
    },
    /// Somebody writes to it.
    #[error("{} is locked: another program is writing to it", shown(path))]
    Locked {
        /// As it was named.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot open {}: {}", shown(path), io_words(source))]
    Open {
        /// As it was named.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl From<InputError> for Error {
    fn from(error: InputError) -> Self {
        let exit = match error {
            InputError::Missing { .. } => Exit::Missing,
            InputError::Locked { .. } => Exit::Busy,
            InputError::Folder { .. }
            | InputError::Unchangeable { .. }
            | InputError::Open { .. } => Exit::Failure,
        };
        Self::new(exit, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write};

    use nix::{sys::stat::Mode, unistd::mkfifo};

    use super::*;
    use crate::block_device::tests::{Loop, alone};

    fn data(path: &Path) -> Input {
        Input::open(path, Role::Data).unwrap()
    }

    fn all(input: &mut Input) -> Vec<u8> {
        let mut bytes = Vec::new();
        input.read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_file_is_read_and_is_storage() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let bytes: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        fs::write(&path, &bytes).unwrap();
        let mut input = data(&path);
        assert_eq!(input.len(), Some(400_000));
        assert_eq!(all(&mut input), bytes);
        input.skip_to(399_990).unwrap();
        assert_eq!(all(&mut input), bytes[399_990..]);
        input.skip_to(5).unwrap();
        let mut buf = [0; 3];
        input.read_exact(&mut buf).unwrap();
        assert_eq!(buf, bytes[5..8]);
        let error = input.skip_to(400_001).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);

        let storage = input.as_storage().unwrap();
        assert_eq!(storage.len().unwrap(), 400_000);
        storage.read_exact_at(&mut buf, 1000).unwrap();
        assert_eq!(buf, bytes[1000..1003]);
        assert!(storage.read_exact_at(&mut buf, 399_998).is_err());
        assert!(storage.write_all_at(&buf, 0).is_err());
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }

    #[test]
    fn only_what_is_opened_for_changes_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "0123456789").unwrap();
        let input = Input::open(&path, Role::Change).unwrap();
        input.write_all_at(b"xy", 8).unwrap();
        input.sync().unwrap();
        assert!(input.write_all_at(b"xyz", 8).is_err());
        assert!(input.write_all_at(b"x", u64::MAX).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"01234567xy");
        // The data may be in use.
        assert!(lock_data(&File::open(&path).unwrap(), Access::Read).unwrap());

        mkfifo(&folder.path().join("pipe"), Mode::S_IRWXU).unwrap();
        for name in ["pipe", "-"] {
            let path = if name == "-" {
                name.into()
            } else {
                folder.path().join(name)
            };
            let error = Input::open(&path, Role::Change).unwrap_err();
            assert!(matches!(error, InputError::Unchangeable { .. }), "{error}");
        }
        let error = Input::open(folder.path(), Role::Change).unwrap_err();
        assert!(matches!(error, InputError::Folder { .. }), "{error}");
    }

    #[test]
    fn holes_are_zeros_wherever_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sparse");
        let file = File::create(&path).unwrap();
        file.set_len(3 << 30).unwrap();
        let marks = [
            (1_u64 << 20, b"one".as_slice()),
            (2 << 30, b"two"),
            ((3 << 30) - 5, b"three"),
        ];
        for (at, mark) in marks {
            Storage::write_all_at(&file, mark, at).unwrap();
        }
        let mut input = data(&path);
        let mut buf = vec![1; 4 << 20];
        let (mut position, mut found) = (0, Vec::new());
        loop {
            let read = input.read(&mut buf).unwrap();
            if read == 0 {
                break;
            }
            for (at, mark) in marks {
                let Some(begin) = at.checked_sub(position) else {
                    continue;
                };
                if let Ok(begin) = usize::try_from(begin)
                    && begin < read
                {
                    assert_eq!(&buf[begin..][..mark.len()], mark);
                    buf[begin..][..mark.len()].fill(0);
                    found.push(at);
                }
            }
            assert!(buf[..read].iter().fold(0, |a, b| a | b) == 0);
            position += read as u64;
        }
        assert_eq!(position, 3 << 30);
        assert_eq!(found, marks.map(|(at, _)| at));
    }

    #[test]
    fn a_file_that_changes_its_length_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        for (sparse, before, now, word) in [
            (false, 10_000, 9_999, "shorter"),
            (false, 10_000, 0, "shorter"),
            (false, 10_000, 10_001, "longer"),
            (false, 0, 1, "longer"),
            (true, 10_000_000, 9_999_999, "shorter"),
            (true, 10_000_000, 100, "shorter"),
            (true, 10_000_000, 10_000_001, "longer"),
        ] {
            let path = folder.path().join("file");
            fs::write(&path, vec![7; if sparse { 0 } else { before }]).unwrap();
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            file.set_len(before as u64).unwrap();
            let mut input = data(&path);
            file.set_len(now).unwrap();
            // Also for somebody who stops at the length that was announced.
            for limit in [before as u64, u64::MAX] {
                if limit == 0 {
                    continue;
                }
                input.skip_to(0).unwrap();
                let result = input.by_ref().take(limit).read_to_end(&mut Vec::new());
                let error = result.unwrap_err().to_string();
                assert!(error.contains(word), "{before}, then {now}: {error}");
                assert!(error.contains(&before.to_string()), "{error}");
            }
        }
    }

    #[test]
    fn a_change_in_the_middle_of_reading_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, vec![7; 1 << 20]).unwrap();
        let mut input = data(&path);
        input.read_exact(&mut [0; 100_000]).unwrap();
        OpenOptions::new()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(50_000)
            .unwrap();
        let error = input.read_to_end(&mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("shorter"), "{error}");
    }

    #[test]
    fn a_change_is_seen_by_who_reads_at_offsets() {
        let folder = tempfile::tempdir().unwrap();
        for sparse in [false, true] {
            let path = folder.path().join("file");
            fs::write(&path, vec![7; if sparse { 0 } else { 1 << 20 }]).unwrap();
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            file.set_len(1 << 20).unwrap();
            let input = data(&path);
            let storage = input.as_storage().unwrap();
            let mut buf = [1; 4096];
            let mut read = |offset| match storage.read_exact_at(&mut buf, offset) {
                Ok(()) => {
                    assert_eq!(buf, [if sparse { 0 } else { 7 }; 4096]);
                    "good".into()
                }
                Err(error) => error.to_string(),
            };
            let last = (1 << 20) - 4096;
            assert_eq!([0, 50_000, last].map(&mut read), ["good"; 3]);
            for (now, word) in [(50_000, "shorter"), ((1 << 20) + 1, "longer")] {
                file.set_len(now).unwrap();
                assert!(read(last).contains(word), "{sparse}, {now}: {}", read(last));
            }
            // What is missing is nothing but missing, also before the end.
            file.set_len(50_000).unwrap();
            for offset in [50_000, 48_000, 500_000] {
                assert!(read(offset).contains("shorter"), "{}", read(offset));
            }
        }
    }

    /// As standard input is after a header was read from it.
    #[test]
    fn an_open_file_is_read_from_its_position_on() {
        let _alone = alone();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "0123456789").unwrap();
        for (position, expected) in [(0, "0123456789"), (4, "456789"), (10, ""), (11, "")] {
            let mut file = File::open(&path).unwrap();
            file.seek(io::SeekFrom::Start(position)).unwrap();
            let shared = file.try_clone().unwrap();
            let mut input = Input::of_file(file, Path::new("-"), Role::Data).unwrap();
            assert_eq!(input.len(), Some(expected.len() as u64));
            assert_eq!(all(&mut input), expected.as_bytes());
            if position == 4 {
                let mut buf = [0; 2];
                let storage = input.as_storage().unwrap();
                storage.read_exact_at(&mut buf, 4).unwrap();
                assert_eq!(&buf, b"89");
                assert!(storage.read_exact_at(&mut buf, 5).is_err());
                input.skip_to(5).unwrap();
                assert_eq!(all(&mut input), b"9");
            }
            // Another process has it open still, and no locks with it.
            drop(input);
            let writer = OpenOptions::new()
                .read(true)
                .write(true)
                .open(&path)
                .unwrap();
            assert!(lock_data(&writer, Access::Write).unwrap());
            drop(shared);
        }
    }

    #[test]
    fn streams_have_no_length() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        mkfifo(&path, Mode::S_IRWXU).unwrap();
        let writer = thread::spawn({
            let path = path.clone();
            move || {
                OpenOptions::new()
                    .write(true)
                    .open(path)
                    .unwrap()
                    .write_all(b"0123456789")
            }
        });
        let mut input = data(&path);
        assert_eq!(input.len(), None);
        assert!(input.as_storage().is_none());
        let mut buf = [0; 2];
        input.read_exact(&mut buf).unwrap();
        input.skip_to(2).unwrap();
        input.skip_to(5).unwrap();
        let error = input.skip_to(4).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert_eq!(all(&mut input), b"56789");
        assert_eq!(
            input.skip_to(11).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
        writer.join().unwrap().unwrap();

        // A file that says it is empty, and is not.
        let mut version = data(Path::new("/proc/version"));
        assert_eq!(version.len(), None);
        assert!(all(&mut version).starts_with(b"Linux"));
    }

    #[test]
    fn a_block_device_is_as_long_as_it_is() {
        let _alone = alone();
        let file = tempfile::NamedTempFile::new().unwrap();
        let bytes: Vec<u8> = (0..1 << 20).map(|i: u32| i.to_le_bytes()[1]).collect();
        fs::write(file.path(), &bytes).unwrap();
        let device = Loop::over(file.path());
        let mut input = data(&device.0);
        assert_eq!(input.len(), Some(1 << 20));
        assert_eq!(all(&mut input), bytes);
        let mut buf = [0; 4];
        input
            .as_storage()
            .unwrap()
            .read_exact_at(&mut buf, 256)
            .unwrap();
        assert_eq!(buf, bytes[256..260]);
    }

    #[test]
    fn what_cannot_be_opened_is_told_in_words() {
        let _alone = alone();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("no such file");
        let error = Input::open(&path, Role::Data).unwrap_err();
        assert!(matches!(error, InputError::Missing { .. }));
        assert!(
            error.to_string().ends_with("no such file does not exist"),
            "{error}"
        );
        assert_eq!(Error::from(error).exit(), Exit::Missing);

        let error = Input::open(folder.path(), Role::Data).unwrap_err();
        assert!(matches!(error, InputError::Folder { .. }));
        assert_eq!(Error::from(error).exit(), Exit::Failure);

        fs::write(&path, "x").unwrap();
        let writer = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        assert!(lock_data(&writer, Access::Write).unwrap());
        let error = Input::open(&path, Role::Data).unwrap_err();
        assert!(matches!(error, InputError::Locked { .. }));
        assert_eq!(Error::from(error).exit(), Exit::Busy);
        Input::open(&path, Role::Metadata).unwrap();
        drop(writer);

        let first = data(&path);
        let second = data(&path);
        drop((first, second));
        let writer = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        assert!(lock_data(&writer, Access::Write).unwrap());
    }
}
