// SPDX-License-Identifier: MIT OR Apache-2.0
//! A regular file that appears whole or not at all.

use std::{
    collections::hash_map::RandomState,
    ffi::{OsStr, OsString},
    fs::{File, Metadata},
    hash::BuildHasher,
    io,
    os::{
        fd::AsRawFd,
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::Path,
};

use nix::{
    errno::Errno,
    fcntl::{AtFlags, OFlag, RenameFlags, openat, renameat, renameat2},
    libc,
    sys::stat::Mode,
    unistd::{UnlinkatFlags, geteuid, linkat, unlinkat},
};

use super::{OutputError, OutputOptions, entry::DirectoryEntry};
use crate::{
    locks::{Access, lock_data},
    temporary::{Temporary, uninterrupted},
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
    /// The file that is going to be `entry`; `path` is how the user calls it. `old` is
    /// kept until the end.
    pub fn create(
        path: &Path,
        entry: DirectoryEntry,
        options: &OutputOptions<'_>,
        old: Option<File>,
    ) -> Result<Self, OutputError> {
        Self::create_as(path, entry, options, old, Nameless::IfSupported)
    }

    fn create_as(
        path: &Path,
        entry: DirectoryEntry,
        options: &OutputOptions<'_>,
        old: Option<File>,
        nameless: Nameless,
    ) -> Result<Self, OutputError> {
        let failed = |source| OutputError::Create {
            path: path.to_owned(),
            source,
        };
        let (parent, name) = (entry.folder_path, entry.name);
        let folder = Folder::open(entry.folder).map_err(failed)?;
        folder.remove_left_over(&name);

        let mode = Mode::from_bits_truncate(options.mode);
        let unnamed = match nameless {
            Nameless::IfSupported => folder.unnamed_file(mode).map_err(failed)?,
            #[cfg(test)]
            Nameless::Never => None,
        };
        let (file, temporary) = match unnamed {
            Some(file) => (file, None),
            None => {
                let (file, temporary) = folder.named_file(&parent, mode).map_err(failed)?;
                (file, Some(temporary))
            }
        };
        let whole = Self {
            file,
            folder,
            name,
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

    fn link_left_over(&self) -> nix::Result<OsString> {
        let name = left_over_name(&self.name);
        self.folder.link(&self.file, &name).map(|()| name)
    }

    fn publish_unnamed(&self) -> io::Result<()> {
        match self.folder.link(&self.file, &self.name) {
            Err(Errno::EEXIST) if self.force => {}
            result => return Ok(result?),
        }
        // A link never replaces: link to another name, and rename that. A signal waits, so
        // that the whole plaintext does not stay there under a name that no one looks for.
        uninterrupted(|| {
            let link = || self.link_left_over();
            let other = match link() {
                // Another run was killed here.
                Err(Errno::EEXIST) if self.folder.remove_left_over(&self.name) => link(),
                result => result,
            };
            let other = match other {
                // Another run is just here, or the name is that of something else.
                Err(Errno::EEXIST) => with_random_name(|name| self.folder.link(&self.file, name))?,
                result => result?,
            };
            renameat(&self.folder.file, &*other, &self.folder.file, &*self.name).map_err(|e| {
                self.folder.remove(&other);
                e.into()
            })
        })
    }
}

/// The name that a new file has for a moment before it replaces `name`.
fn left_over_name(name: &OsStr) -> OsString {
    const NAME_MAX: usize = 255;
    let room = NAME_MAX - ".".len() - LEFT_OVER.len();
    let name = name.as_bytes();
    let mut left_over = OsString::from(".");
    left_over.push(OsStr::from_bytes(&name[..name.len().min(room)]));
    left_over.push(LEFT_OVER);
    left_over
}

/// How such a name ends.
const LEFT_OVER: &str = ".luxor-new";

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            self.folder.remove(&temporary.name);
        }
    }
}

impl Folder {
    /// Once more, to make durable what is in it.
    fn open(folder: File) -> io::Result<Self> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        match openat(&folder, ".", flags, Mode::empty()) {
            Ok(file) => Ok(Self {
                file: file.into(),
                can_sync: true,
            }),
            Err(Errno::EACCES) => Ok(Self {
                file: folder,
                can_sync: false,
            }),
            Err(e) => Err(e.into()),
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
        match self.relink_to_new(from, to) {
            Err(Errno::EPERM | Errno::EOPNOTSUPP | Errno::ENOSYS) => {}
            result => return Ok(result?),
        }
        Ok(self.claim_and_rename(from, to)?)
    }

    fn relink_to_new(&self, from: &OsStr, to: &OsStr) -> nix::Result<()> {
        linkat(&self.file, from, &self.file, to, AtFlags::empty())?;
        self.remove(from);
        Ok(())
    }

    /// Takes the name with an empty file, so that what is replaced is one's own.
    fn claim_and_rename(&self, from: &OsStr, to: &OsStr) -> nix::Result<()> {
        let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        openat(&self.file, to, flags, Mode::S_IRUSR | Mode::S_IWUSR)?;
        renameat(&self.file, from, &self.file, to).inspect_err(|_| self.remove(to))
    }

    /// Removes what a run left that was killed while it replaced `name`: a whole file, of
    /// this user and for him only. A run that goes on has a lock on its file. Whether
    /// something was removed.
    fn remove_left_over(&self, name: &OsStr) -> bool {
        let left_over = left_over_name(name);
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let Ok(file) = openat(&self.file, &*left_over, flags, Mode::empty()) else {
            return false;
        };
        let file = File::from(file);
        let is_ours = |metadata: Metadata| {
            metadata.is_file()
                && metadata.uid() == geteuid().as_raw()
                && metadata.mode() & 0o077 == 0
        };
        if !file.metadata().is_ok_and(is_ours)
            || !matches!(lock_data(&file, Access::Write), Ok(true))
        {
            return false;
        }
        // Others remove it under this lock only, so that the name is still this file's.
        unlinkat(&self.file, &*left_over, UnlinkatFlags::NoRemoveDir).is_ok()
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

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{MetadataExt, PermissionsExt, symlink},
        path::PathBuf,
    };

    use luxor_sector::Storage;

    use super::*;

    const BOTH: [Nameless; 2] = [Nameless::IfSupported, Nameless::Never];

    fn create(path: &Path, force: bool, nameless: Nameless) -> WholeFile {
        let options = OutputOptions {
            force,
            ..OutputOptions::default()
        };
        let whole = WholeFile::create_as(
            path,
            DirectoryEntry::of(path).unwrap(),
            &options,
            None,
            nameless,
        )
        .unwrap();
        assert_eq!(whole.temporary.is_some(), nameless == Nameless::Never);
        Storage::write_all_at(&whole.file, b"new", 0).unwrap();
        whole
    }

    fn names(folder: &Path) -> Vec<PathBuf> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_appears_when_it_is_whole() {
        for nameless in BOTH {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file");
            let mut whole = create(&path, false, nameless);
            assert!(!path.exists());
            assert_eq!(
                names(folder.path()).len(),
                usize::from(nameless == Nameless::Never)
            );
            whole.publish().unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"new");
            drop(whole);
            assert_eq!(names(folder.path()), [Path::new("file")]);
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
            assert_eq!(fs::metadata(&path).unwrap().nlink(), 1);
        }
    }

    #[test]
    fn nothing_is_left_of_one_that_is_given_up() {
        for nameless in BOTH {
            let folder = tempfile::tempdir().unwrap();
            drop(create(&folder.path().join("file"), false, nameless));
            assert!(names(folder.path()).is_empty());
        }
    }

    #[test]
    fn a_name_that_was_taken_meanwhile_is_left_alone() {
        for nameless in BOTH {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file");
            type Make = fn(&Path);
            let makes: [Make; 3] = [
                |path| fs::write(path, "theirs").unwrap(),
                |path| symlink("/nowhere", path).unwrap(),
                |path| fs::create_dir(path).unwrap(),
            ];
            for make in makes {
                let mut whole = create(&path, false, nameless);
                make(&path);
                let before = fs::symlink_metadata(&path).unwrap();
                let error = whole.publish().unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
                drop(whole);
                let after = fs::symlink_metadata(&path).unwrap();
                assert_eq!((after.ino(), after.len()), (before.ino(), before.len()));
                assert_eq!(names(folder.path()), [Path::new("file")]);
                fs::remove_file(&path)
                    .or_else(|_| fs::remove_dir(&path))
                    .unwrap();
            }
        }
    }

    #[test]
    fn force_replaces_at_once() {
        for nameless in BOTH {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file");
            fs::write(&path, "old").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
            let old = File::open(&path).unwrap();
            let mut whole = create(&path, true, nameless);
            assert_eq!(fs::read(&path).unwrap(), b"old");
            whole.publish().unwrap();
            drop(whole);
            assert_eq!(fs::read(&path).unwrap(), b"new");
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
            assert_eq!(names(folder.path()), [Path::new("file")]);
            // Whoever has the old file open keeps it.
            let mut bytes = [0; 3];
            Storage::read_exact_at(&old, &mut bytes, 0).unwrap();
            assert_eq!(&bytes, b"old");

            // Without one there it is as any other.
            let path = folder.path().join("second");
            create(&path, true, nameless).publish().unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"new");
        }
    }

    #[test]
    fn every_way_to_rename_refuses_a_name_that_is_taken() {
        type Rename = fn(&Folder, &OsStr, &OsStr) -> io::Result<()>;
        let ways: [Rename; 3] = [
            Folder::rename_to_new,
            |folder, from, to| Ok(folder.relink_to_new(from, to)?),
            |folder, from, to| Ok(folder.claim_and_rename(from, to)?),
        ];
        for rename in ways {
            let dir = tempfile::tempdir().unwrap();
            let folder = Folder::open(File::open(dir.path()).unwrap()).unwrap();
            let [from, to] = ["from", "to"].map(OsStr::new);
            fs::write(dir.path().join("from"), "new").unwrap();
            fs::write(dir.path().join("to"), "theirs").unwrap();
            let error = rename(&folder, from, to).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(fs::read(dir.path().join("to")).unwrap(), b"theirs");
            assert_eq!(fs::read(dir.path().join("from")).unwrap(), b"new");

            fs::remove_file(dir.path().join("to")).unwrap();
            rename(&folder, from, to).unwrap();
            assert_eq!(names(dir.path()), [Path::new("to")]);
            assert_eq!(fs::read(dir.path().join("to")).unwrap(), b"new");

            // What fails leaves no empty file.
            assert!(rename(&folder, from, OsStr::new("other")).is_err());
            assert_eq!(names(dir.path()), [Path::new("to")]);
        }
    }

    #[test]
    fn the_mode_is_the_one_asked_for() {
        for (mode, nameless) in [
            (0o600, BOTH[0]),
            (0o600, BOTH[1]),
            (0o400, BOTH[0]),
            (0o400, BOTH[1]),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file");
            let options = OutputOptions {
                mode,
                ..OutputOptions::default()
            };
            let mut whole = WholeFile::create_as(
                &path,
                DirectoryEntry::of(&path).unwrap(),
                &options,
                None,
                nameless,
            )
            .unwrap();
            whole.publish().unwrap();
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, mode);
        }
    }
}
