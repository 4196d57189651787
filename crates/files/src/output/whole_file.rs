// SPDX-License-Identifier: MIT OR Apache-2.0
//! A regular file that appears whole or not at all.

use std::{
    collections::hash_map::RandomState,
    ffi::{OsStr, OsString},
    fs::{self, File, Metadata},
    hash::BuildHasher,
    io,
    os::{
        fd::{AsRawFd, RawFd},
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::Path,
};

use nix::{
    errno::Errno,
    fcntl::{AtFlags, OFlag, renameat},
    libc,
    sys::stat::{Mode, fchmod, fstatat},
    unistd::{UnlinkatFlags, geteuid, linkat, unlinkat},
};
use rustix::fs::{RenameFlags, renameat_with};

use super::{OutputError, OutputOptions, entry::DirectoryEntry};
use crate::{
    FileIdentity,
    locks::{Access, DataLock},
    opening::open_at,
    temporary::{Temporary, uninterrupted},
};

/// A file that is being written. It has no name yet, or a random one on file systems that do not
/// support files without names.
#[derive(Debug)]
pub struct WholeFile {
    file: File,
    folder: Folder,
    name: OsString,
    temporary: Option<TemporaryName>,
    force: bool,
    /// Keep the file itself, and that which will be replaced, locked.
    locks: Vec<DataLock>,
}

#[derive(Debug)]
struct Folder {
    file: File,
    /// False if the folder may be searched and written to but not read.
    can_sync: bool,
}

/// The name of a temporary file. A signal removes the file as long as this value exists.
#[derive(Debug)]
struct TemporaryName {
    name: OsString,
    _registered: Temporary,
}

/// Whether to use files without names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nameless {
    IfSupported,
    #[cfg(test)]
    Never,
}

impl WholeFile {
    /// Creates the file that will become `entry`. `path` is the path as the user gave it. `old` is
    /// kept until the end.
    pub fn create(
        path: &Path,
        entry: DirectoryEntry,
        options: &OutputOptions<'_>,
        old: Option<DataLock>,
    ) -> Result<Self, OutputError> {
        Self::create_as(path, entry, options, old, Nameless::IfSupported)
    }

    fn create_as(
        path: &Path,
        entry: DirectoryEntry,
        options: &OutputOptions<'_>,
        old: Option<DataLock>,
        nameless: Nameless,
    ) -> Result<Self, OutputError> {
        let failed = |source| OutputError::Create {
            path: path.to_owned(),
            source,
        };
        let (parent, name) = (entry.folder_path, entry.name);
        let folder = Folder::open(entry.folder).map_err(failed)?;
        let mode = Mode::from_bits_truncate(options.mode);
        let unnamed = match nameless {
            Nameless::IfSupported => folder.unnamed_file(mode).map_err(failed)?,
            #[cfg(test)]
            Nameless::Never => None,
        };
        let (file, temporary) = match unnamed {
            Some(file) => (file, None),
            None => {
                let (file, temporary) = folder.named_file(&parent, &name, mode).map_err(failed)?;
                (file, Some(temporary))
            }
        };
        let mut whole = Self {
            file,
            folder,
            name,
            temporary,
            // Never replace one of two files, even if it appears later.
            force: options.force && !options.is_one_of_two,
            locks: old.into_iter().collect(),
        };
        // This lock cannot be held by another program: the file has no name yet, or was locked when
        // it was created.
        let lock = DataLock::acquire(&whole.file, Access::Write).map_err(failed)?;
        whole.locks.extend(lock);
        Ok(whole)
    }

    /// The descriptors that it holds.
    pub fn descriptors(&self) -> Vec<RawFd> {
        let files = [self.file.as_raw_fd(), self.folder.file.as_raw_fd()];
        let locks = self.locks.iter().map(DataLock::descriptor);
        files.into_iter().chain(locks).collect()
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// Publishes this one file with [`publish_all`].
    #[cfg(test)]
    fn publish(&mut self) -> io::Result<()> {
        publish_all(&mut [self]).map_err(|(_, error)| error)
    }

    /// Gives the file its name.
    fn appear(&self) -> io::Result<()> {
        match (&self.temporary, self.force) {
            (None, _) => self.link(),
            (Some(temporary), true) => self.replace(&temporary.name),
            (Some(temporary), false) => self.folder.rename_to_new(&temporary.name, &self.name),
        }
    }

    fn link(&self) -> io::Result<()> {
        match self.folder.link(&self.file, &self.name) {
            Err(Errno::EEXIST) if self.force => {}
            result => return Ok(result?),
        }
        // A link never replaces a file: link to another name, and rename that.
        let link = |name: &OsStr| self.folder.link(&self.file, name).map_err(io::Error::from);
        let other = left_over_name(&self.name);
        let other = match link(&other) {
            // Another run is at this step, or the name belongs to something else.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                with_random_name(&self.name, link)?
            }
            result => result.map(|()| other)?,
        };
        self.replace(&other)
            .inspect_err(|_| self.folder.remove(&other))
    }

    fn replace(&self, from: &OsStr) -> io::Result<()> {
        let folder = &self.folder.file;
        Ok(renameat(folder, from, folder, &*self.name)?)
    }

    /// Removes the name again, if it still belongs to this file.
    fn disappear(&self) {
        let found = fstatat(&self.folder.file, &*self.name, AtFlags::AT_SYMLINK_NOFOLLOW);
        if let (Ok(found), Ok(own)) = (found, self.file.metadata())
            && (found.st_dev, found.st_ino) == (own.dev(), own.ino())
        {
            self.folder.remove(&self.name);
        }
    }
}

/// Makes the contents of all files durable, then gives the files their names, then makes the names
/// durable. If a name is taken, none of the files appears and the error is of the kind
/// [`io::ErrorKind::AlreadyExists`]. The error's number is the index of the file that failed.
pub fn publish_all(files: &mut [&mut WholeFile]) -> Result<(), (usize, io::Error)> {
    for (index, whole) in files.iter().enumerate() {
        whole.file.sync_all().map_err(|error| (index, error))?;
    }
    // Signals wait: a signal here could leave one file of two, or the whole plaintext under a name
    // that the user does not know.
    uninterrupted(|| {
        for (index, whole) in files.iter().enumerate() {
            if let Err(error) = whole.appear() {
                files[..index].iter().for_each(|other| other.disappear());
                return Err((index, error));
            }
        }
        Ok(())
    })?;
    for (index, whole) in files.iter_mut().enumerate() {
        whole.temporary = None;
        whole.folder.sync().map_err(|error| (index, error))?;
    }
    Ok(())
}

/// The name that a new file has for a moment before it replaces `name`.
fn left_over_name(name: &OsStr) -> OsString {
    const NAME_MAX: usize = 255;
    const DIGITS: usize = "-0123456789abcdef".len();
    let room = NAME_MAX - ".".len() - LEFT_OVER.len() - DIGITS;
    let name = name.as_bytes();
    let mut left_over = OsString::from(".");
    left_over.push(OsStr::from_bytes(&name[..name.len().min(room)]));
    left_over.push(LEFT_OVER);
    left_over
}

/// The end of such a name, unless a hyphen and 16 digits follow.
const LEFT_OVER: &str = ".luxor-new";

/// Removes files of killed runs that wrote or replaced `name` in `folder`. Only files that belong
/// to this user, and are accessible to this user only, are removed. A run that is still active has
/// a lock on its file. A file in `kept`, which the command reads, is never removed, nor one that a
/// loop device shows.
pub fn remove_left_overs(folder: &File, name: &OsStr, kept: &[FileIdentity]) {
    let Ok(folder) = folder.try_clone().and_then(Folder::open) else {
        return;
    };
    let left_over = left_over_name(name);
    folder.remove_left_over(&left_over, kept);
    // If the folder cannot be read, only that name is tried.
    let Ok(entries) = fs::read_dir(proc_name(&folder.file)) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let rest = name.as_bytes().strip_prefix(left_over.as_bytes());
        let digits = rest.and_then(|rest| rest.strip_prefix(b"-"));
        if digits
            .is_some_and(|digits| digits.len() == 16 && digits.iter().all(u8::is_ascii_hexdigit))
        {
            folder.remove_left_over(&name, kept);
        }
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
    /// Opens the folder again, for reading, so that its entries can be made durable.
    fn open(folder: File) -> io::Result<Self> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        match open_at(&folder, ".", flags, Mode::empty()) {
            Ok(file) => Ok(Self {
                file,
                can_sync: true,
            }),
            Err(Errno::EACCES) => Ok(Self {
                file: folder,
                can_sync: false,
            }),
            Err(e) => Err(e.into()),
        }
    }

    /// Creates a file without a name. `None` if the file system does not support that, or if the
    /// file could not be given a name later.
    fn unnamed_file(&self, mode: Mode) -> io::Result<Option<File>> {
        let flags = OFlag::O_TMPFILE | OFlag::O_RDWR;
        match open_at(&self.file, ".", flags, mode) {
            Ok(file) => {
                set_mode(&file, mode);
                let visible = Path::new(&proc_name(&file)).exists();
                Ok(visible.then_some(file))
            }
            // EISDIR and ENOENT come from kernels and file systems that do not know the flag and
            // treat the call as an ordinary open.
            Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::ENOENT | Errno::EINVAL) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Creates a file with a random name, and locks it.
    fn named_file(
        &self,
        path: &Path,
        name: &OsStr,
        mode: Mode,
    ) -> io::Result<(File, TemporaryName)> {
        let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_RDWR;
        let mut made = None;
        let name = with_random_name(name, |name| {
            let registered = Temporary::new(path.join(name));
            let file = open_at(&self.file, name, flags, mode)?;
            set_mode(&file, mode);
            // Another run may have removed it as a left-over before it was locked.
            let lock = DataLock::acquire(&file, Access::Write)?;
            if lock.is_none() || file.metadata()?.nlink() == 0 {
                return Err(Errno::EEXIST.into());
            }
            made = Some((file, registered));
            Ok(())
        })?;
        let (file, registered) = made.expect("with_random_name returned a name, so it made a file");
        Ok((
            file,
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

    /// Renames a file, but never over an existing one.
    fn rename_to_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        // `nix` has this only for glibc.
        match renameat_with(&self.file, from, &self.file, to, RenameFlags::NOREPLACE) {
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {}
            result => return Ok(result?),
        }
        // Network file systems do not support that, but they support links.
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

    /// Claims the name with an empty file, so that the rename replaces only that.
    fn claim_and_rename(&self, from: &OsStr, to: &OsStr) -> nix::Result<()> {
        let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY;
        open_at(&self.file, to, flags, Mode::S_IRUSR | Mode::S_IWUSR)?;
        renameat(&self.file, from, &self.file, to).inspect_err(|_| self.remove(to))
    }

    fn remove_left_over(&self, name: &OsStr, kept: &[FileIdentity]) {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let Ok(file) = open_at(&self.file, name, flags, Mode::empty()) else {
            return;
        };
        let is_ours = |metadata: Metadata| {
            // A loop device over the file may be mounted, or may be what the command reads.
            metadata.is_file()
                && !FileIdentity::from_metadata(&metadata)
                    .is_some_and(|file| kept.contains(&file) || file.loop_device().is_some())
                && metadata.uid() == geteuid().as_raw()
                && metadata.mode() & 0o077 == 0
        };
        // Other runs remove the file only under this lock, so the name still belongs to this file.
        if file.metadata().is_ok_and(is_ours)
            && let Ok(Some(_lock)) = DataLock::acquire(&file, Access::Write)
        {
            self.remove(name);
        }
    }

    fn remove(&self, name: &OsStr) {
        // The error is ignored, because its cause is being reported already.
        let _ = unlinkat(&self.file, name, UnlinkatFlags::NoRemoveDir);
    }

    fn sync(&self) -> io::Result<()> {
        if !self.can_sync {
            return Ok(());
        }
        match self.file.sync_all() {
            // Some file systems do not support sync for folders.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            result => result,
        }
    }
}

/// Tries random names derived from `name` until `make` finds one that is not taken, and returns it.
fn with_random_name(
    name: &OsStr,
    mut make: impl FnMut(&OsStr) -> io::Result<()>,
) -> io::Result<OsString> {
    // The names need not be secret: if one is taken, the next is tried.
    let random = RandomState::new();
    for attempt in 0..100 {
        let mut name = left_over_name(name);
        name.push(format!("-{:016x}", random.hash_one(attempt)));
        match make(&name) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            result => return result.map(|()| name),
        }
    }
    Err(Errno::EEXIST.into())
}

fn proc_name(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Gives a new file its mode in spite of the umask, which has removed bits of it. On a file system without
/// modes it stays as it is.
fn set_mode(file: &File, mode: Mode) {
    let _ = fchmod(file, mode);
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
            DirectoryEntry::resolve(path).unwrap(),
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
    fn an_abandoned_output_leaves_nothing() {
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
            // A program that has the old file open keeps it.
            let mut bytes = [0; 3];
            Storage::read_exact_at(&old, &mut bytes, 0).unwrap();
            assert_eq!(&bytes, b"old");

            // Without an existing file `force` makes no difference.
            let path = folder.path().join("second");
            create(&path, true, nameless).publish().unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"new");
        }
    }

    fn pair(folder: &Path, nameless: Nameless) -> [WholeFile; 2] {
        let options = OutputOptions {
            force: true,
            is_one_of_two: true,
            ..OutputOptions::default()
        };
        ["a", "b"].map(|name| {
            let path = folder.join(name);
            let entry = DirectoryEntry::resolve(&path).unwrap();
            WholeFile::create_as(&path, entry, &options, None, nameless).unwrap()
        })
    }

    #[test]
    fn two_files_appear_together_or_not_at_all() {
        for nameless in BOTH {
            for taken in [None, Some("a"), Some("b")] {
                let folder = tempfile::tempdir().unwrap();
                let mut files = pair(folder.path(), nameless);
                if let Some(name) = taken {
                    fs::write(folder.path().join(name), "theirs").unwrap();
                }
                let [a, b] = &mut files;
                let published = publish_all(&mut [a, b]);
                drop(files);
                let Some(name) = taken else {
                    published.unwrap();
                    assert_eq!(names(folder.path()), ["a", "b"].map(Path::new));
                    continue;
                };
                let (index, error) = published.unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
                assert_eq!(["a", "b"][index], name);
                assert_eq!(names(folder.path()), [Path::new(name)]);
                assert_eq!(fs::read(folder.path().join(name)).unwrap(), b"theirs");
            }
        }
    }

    #[test]
    fn a_late_link_is_replaced_and_a_moved_folder_followed() {
        for nameless in BOTH {
            let dir = tempfile::tempdir().unwrap();
            let [folder, moved, other] = ["folder", "moved", "other"].map(|n| dir.path().join(n));
            fs::create_dir(&folder).unwrap();
            fs::create_dir(&other).unwrap();
            fs::write(other.join("theirs"), "theirs").unwrap();
            let mut whole = create(&folder.join("file"), true, nameless);
            symlink(other.join("theirs"), folder.join("file")).unwrap();
            fs::rename(&folder, &moved).unwrap();
            symlink(&other, &folder).unwrap();
            whole.publish().unwrap();
            drop(whole);
            assert_eq!(names(&moved), [Path::new("file")]);
            let metadata = fs::symlink_metadata(moved.join("file")).unwrap();
            assert!(metadata.is_file());
            assert_eq!(names(&other), [Path::new("theirs")]);
            assert_eq!(fs::read(other.join("theirs")).unwrap(), b"theirs");
        }
    }

    #[test]
    fn only_files_of_killed_runs_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let write = |name: &str, mode: u32| {
            fs::write(folder.path().join(name), "plaintext").unwrap();
            let permissions = fs::Permissions::from_mode(mode);
            fs::set_permissions(folder.path().join(name), permissions).unwrap();
        };
        // A file that another run is writing, and has locked.
        let mut running = create(&path, false, Nameless::Never);
        let temporary = running.temporary.as_ref().unwrap().name.clone();
        assert!(temporary.as_bytes().starts_with(b".file.luxor-new-"));
        let kept = [
            ".file.luxor-new-0000000000000002",
            ".file.luxor-newer",
            ".filer.luxor-new",
            ".file.luxor-new-notes.txt",
            ".file.luxor-new-00000000000000000",
            ".file.luxor-new-0000000000000003",
        ];
        write(kept[0], 0o644);
        for name in &kept[1..] {
            write(name, 0o600);
        }
        write(".file.luxor-new", 0o600);
        write(".file.luxor-new-0000000000000000", 0o600);
        write(".file.luxor-new-0000000000000001", 0o400);
        let opened = File::open(folder.path()).unwrap();
        let needed = fs::metadata(folder.path().join(kept[5])).unwrap();
        let needed = FileIdentity::from_metadata(&needed).unwrap();
        remove_left_overs(&opened, OsStr::new("file"), &[needed]);
        let mut expected: Vec<_> = kept.map(PathBuf::from).to_vec();
        expected.push(temporary.into());
        expected.sort();
        assert_eq!(names(folder.path()), expected);
        running.publish().unwrap();
        assert!(path.exists());
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

            // A failed rename leaves no empty file.
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
                DirectoryEntry::resolve(&path).unwrap(),
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
