// SPDX-License-Identifier: MIT OR Apache-2.0
//! A regular file that appears whole or not at all.

use std::{
    collections::hash_map::RandomState,
    ffi::{OsStr, OsString},
    fs::File,
    hash::BuildHasher,
    io,
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    path::Path,
};

use nix::{
    errno::Errno,
    fcntl::{AtFlags, OFlag, RenameFlags, openat, renameat, renameat2},
    libc,
    sys::stat::Mode,
    unistd::{UnlinkatFlags, linkat, unlinkat},
};

use super::{OutputError, OutputOptions};
use crate::{
    locks::{Access, lock_data},
    process::Temporary,
};

/// A file that is being written and has no name yet, or a random one where the
/// file system knows no files without names.
#[derive(Debug)]
pub struct WholeFile {
    file: File,
    folder: Folder,
    name: OsString,
    temporary: Option<TemporaryName>,
    force: bool,
    /// What is to be replaced, locked.
    _old: Option<File>,
}

#[derive(Debug)]
struct Folder {
    file: File,
    /// Not where it may be searched and written but not read.
    can_sync: bool,
}

/// Removed by a signal as long as this lives.
#[derive(Debug)]
struct TemporaryName {
    name: OsString,
    _registered: Temporary,
}

/// Whether to look for a file system's ability to have files without names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nameless {
    IfSupported,
    #[cfg(test)]
    Never,
}

impl WholeFile {
    /// The file that is going to be `target`, with no symbolic links at its
    /// end; `path` is how the user calls it. `old` is kept until the end.
    pub fn create(
        path: &Path,
        target: &Path,
        options: &OutputOptions<'_>,
        old: Option<File>,
    ) -> Result<Self, OutputError> {
        Self::create_as(path, target, options, old, Nameless::IfSupported)
    }

    fn create_as(
        path: &Path,
        target: &Path,
        options: &OutputOptions<'_>,
        old: Option<File>,
        nameless: Nameless,
    ) -> Result<Self, OutputError> {
        let failed = |source| OutputError::Create {
            path: path.to_owned(),
            source,
        };
        let Some(name) = target.file_name() else {
            return Err(failed(io::ErrorKind::InvalidFilename.into()));
        };
        let parent = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let folder = Folder::open(parent).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => OutputError::MissingFolder {
                path: path.to_owned(),
            },
            _ => failed(source),
        })?;

        let mode = Mode::from_bits_truncate(options.mode);
        let unnamed = match nameless {
            Nameless::IfSupported => folder.unnamed_file(mode).map_err(failed)?,
            #[cfg(test)]
            Nameless::Never => None,
        };
        let (file, temporary) = match unnamed {
            Some(file) => (file, None),
            None => {
                let (file, temporary) = folder.named_file(parent, mode).map_err(failed)?;
                (file, Some(temporary))
            }
        };
        let whole = Self {
            file,
            folder,
            name: name.to_owned(),
            temporary,
            force: options.force,
            _old: old,
        };
        // Cannot be held by others: nobody knows the file.
        lock_data(&whole.file, Access::Write).map_err(failed)?;
        Ok(whole)
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// Makes the content durable, then the name, which appears at once. An error of
    /// the kind [`io::ErrorKind::AlreadyExists`] says that it is taken.
    pub fn publish(&mut self) -> io::Result<()> {
        self.file.sync_all()?;
        match (&self.temporary, self.force) {
            (None, _) => self.publish_unnamed()?,
            (Some(temporary), true) => {
                renameat(
                    &self.folder.file,
                    &*temporary.name,
                    &self.folder.file,
                    &*self.name,
                )?;
            }
            (Some(temporary), false) => self.folder.rename_to_new(&temporary.name, &self.name)?,
        }
        self.temporary = None;
        self.folder.sync()
    }

    fn publish_unnamed(&self) -> io::Result<()> {
        match self.folder.link(&self.file, &self.name) {
            Err(Errno::EEXIST) if self.force => {}
            result => return Ok(result?),
        }
        // A link never replaces: link to another name, and rename that.
        let other = with_random_name(|name| self.folder.link(&self.file, name))?;
        renameat(&self.folder.file, &*other, &self.folder.file, &*self.name).map_err(|e| {
            self.folder.remove(&other);
            e.into()
        })
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            self.folder.remove(&temporary.name);
        }
    }
}

impl Folder {
    fn open(path: &Path) -> io::Result<Self> {
        let open = |flags| {
            std::fs::OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_DIRECTORY | flags)
                .open(path)
        };
        match open(0) {
            Ok(file) => Ok(Self {
                file,
                can_sync: true,
            }),
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Ok(Self {
                file: open(libc::O_PATH)?,
                can_sync: false,
            }),
            Err(e) => Err(e),
        }
    }

    /// A file without a name; None where that is not supported, or where it
    /// could not be given one later.
    fn unnamed_file(&self, mode: Mode) -> io::Result<Option<File>> {
        let flags = OFlag::O_TMPFILE | OFlag::O_RDWR | OFlag::O_CLOEXEC;
        match openat(&self.file, ".", flags, mode) {
            Ok(file) => {
                let file = File::from(file);
                let visible = Path::new(&proc_name(&file)).exists();
                Ok(visible.then_some(file))
            }
            // EISDIR and ENOENT are what kernels and file systems say that take
            // the flags for those of an ordinary open.
            Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::ENOENT | Errno::EINVAL) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    fn named_file(&self, path: &Path, mode: Mode) -> io::Result<(File, TemporaryName)> {
        let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_RDWR | OFlag::O_CLOEXEC;
        let mut made = None;
        let name = with_random_name(|name| {
            let registered = Temporary::new(path.join(name));
            let file = openat(&self.file, name, flags, mode)?;
            made = Some((file, registered));
            Ok(())
        })?;
        let (file, registered) = made.expect("a name was found, so a file was made");
        Ok((
            file.into(),
            TemporaryName {
                name,
                _registered: registered,
            },
        ))
    }

    /// Gives `file` the name `name`, which must not be taken.
    fn link(&self, file: &File, name: &OsStr) -> nix::Result<()> {
        linkat(
            &self.file,
            proc_name(file).as_str(),
            &self.file,
            name,
            AtFlags::AT_SYMLINK_FOLLOW,
        )
    }

    /// Renames, and never over something that exists.
    fn rename_to_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        match renameat2(
            &self.file,
            from,
            &self.file,
            to,
            RenameFlags::RENAME_NOREPLACE,
        ) {
            Err(Errno::EINVAL | Errno::ENOSYS) => {}
            result => return Ok(result?),
        }
        // Network file systems do not have that, and do have links.
        match linkat(&self.file, from, &self.file, to, AtFlags::empty()) {
            Ok(()) => {
                self.remove(from);
                return Ok(());
            }
            Err(Errno::EPERM | Errno::EOPNOTSUPP | Errno::ENOSYS) => {}
            Err(e) => return Err(e.into()),
        }
        // Take the name, so that what is then replaced is one's own.
        let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        openat(&self.file, to, flags, Mode::S_IRUSR | Mode::S_IWUSR)?;
        renameat(&self.file, from, &self.file, to).map_err(|e| {
            self.remove(to);
            e.into()
        })
    }

    fn remove(&self, name: &OsStr) {
        // There is nobody to tell, and the cause is being told already.
        let _ = unlinkat(&self.file, name, UnlinkatFlags::NoRemoveDir);
    }

    fn sync(&self) -> io::Result<()> {
        if !self.can_sync {
            return Ok(());
        }
        match self.file.sync_all() {
            // Some file systems have no such thing for folders.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            result => result,
        }
    }
}

/// Tries names until `make` finds none taken, and returns the one.
fn with_random_name(mut make: impl FnMut(&OsStr) -> nix::Result<()>) -> io::Result<OsString> {
    // Whoever guesses a name only makes it another one.
    let random = RandomState::new();
    for attempt in 0..100 {
        let name = OsString::from(format!(".luxor-{:016x}", random.hash_one(attempt)));
        match make(&name) {
            Err(Errno::EEXIST) => {}
            result => return Ok(result.map(|()| name)?),
        }
    }
    Err(Errno::EEXIST.into())
}

fn proc_name(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}
