// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where an output is: a name in an opened folder.
//!
//! Another user may put links, FIFOs and files of his own into a folder that both may
//! write, at any time. So each step is made in a folder that is open, and what is found
//! there is opened without an effect (`O_PATH`) before it is looked at.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File, Metadata},
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileTypeExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, OFlag, openat, readlinkat},
    libc::{S_ISVTX, S_IWOTH},
    sys::{
        stat::Mode,
        statfs::{PROC_SUPER_MAGIC, fstatfs},
    },
    unistd::geteuid,
};

use crate::block_device::FileIdentity;

/// A name in a folder that exists, and no symbolic link.
#[derive(Debug)]
pub struct DirectoryEntry {
    /// Open for looking up names only.
    pub folder: File,
    /// The folder's path, for messages and for removing files at a signal.
    pub folder_path: PathBuf,
    pub name: OsString,
    /// Whether a symbolic link has led here.
    pub is_linked: bool,
    /// What has the name.
    pub found: Option<Found>,
}

/// A file of any type.
#[derive(Debug)]
pub struct Found {
    pub metadata: Metadata,
    /// The entry is a link of /proc to a file that some process has open.
    is_open_file: bool,
    /// And that process is this one.
    is_inherited: bool,
}

/// Why there is no entry.
#[derive(Debug)]
pub enum EntryError {
    MissingFolder,
    /// The path names a folder.
    Folder,
    /// A link in a sticky folder that belongs to another user.
    ForeignLink,
    /// An open file that has lost its name, or never had one.
    Nameless,
    Io(io::Error),
}

impl From<Errno> for EntryError {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

impl DirectoryEntry {
    /// Follows `path`, by the kernel's rule for links in folders that all may write
    /// (`protected_symlinks` in proc(5)): such a link counts if it belongs to the caller
    /// or to the folder's owner.
    pub fn of(path: &Path) -> Result<Self, EntryError> {
        let (mut base, mut base_path) = (None, PathBuf::new());
        let mut path = path.to_owned();
        if path.as_os_str().is_empty() {
            return Err(Errno::ENOENT.into());
        }
        // As many links as the system itself follows (path_resolution(7)).
        for links in 0..=40 {
            let Some((parent, name)) = split(&path) else {
                return Err(EntryError::Folder);
            };
            let folder = open_folder(base.as_ref(), parent)?;
            let folder_path = base_path.join(parent);
            let mut entry = Self {
                folder,
                folder_path,
                name: name.to_owned(),
                is_linked: links > 0,
                found: None,
            };
            let file = match entry.open_at(OFlag::O_PATH | OFlag::O_NOFOLLOW) {
                Err(Errno::ENOENT) => return Ok(entry),
                result => File::from(result?),
            };
            let metadata = file.metadata().map_err(EntryError::Io)?;
            if !metadata.is_symlink() {
                entry.found = Some(Found {
                    metadata,
                    is_open_file: false,
                    is_inherited: false,
                });
                return Ok(entry);
            }
            let folder = entry.folder.metadata().map_err(EntryError::Io)?;
            let all_may_write = S_ISVTX | S_IWOTH;
            if folder.mode() & all_may_write == all_may_write
                && metadata.uid() != geteuid().as_raw()
                && metadata.uid() != folder.uid()
            {
                return Err(EntryError::ForeignLink);
            }
            let target = PathBuf::from(readlinkat(&file, "")?);
            if fstatfs(&entry.folder)?.filesystem_type() == PROC_SUPER_MAGIC {
                // What such a link says is not always a path.
                let open = File::from(entry.open_at(OFlag::O_PATH)?);
                let metadata = open.metadata().map_err(EntryError::Io)?;
                if metadata.is_file() {
                    let named = fs::metadata(entry.folder_path.join(&target));
                    if !named
                        .is_ok_and(|named| FileIdentity::of(&named) == FileIdentity::of(&metadata))
                    {
                        return Err(EntryError::Nameless);
                    }
                }
                if !metadata.is_file() && !metadata.is_dir() {
                    entry.found = Some(Found {
                        metadata,
                        is_open_file: true,
                        is_inherited: has_own_files(&folder),
                    });
                    return Ok(entry);
                }
            }
            path = target;
            (base, base_path) = (Some(entry.folder), entry.folder_path);
        }
        Err(Errno::ELOOP.into())
    }

    fn open_at(&self, flags: OFlag) -> nix::Result<std::os::fd::OwnedFd> {
        let flags = flags | OFlag::O_CLOEXEC;
        openat(&self.folder, &*self.name, flags, Mode::empty())
    }

    /// Opens what was found, and nothing that has taken its name meanwhile.
    pub fn open(&self, found: &Found, flags: OFlag) -> io::Result<File> {
        let follow = if found.is_open_file {
            OFlag::empty()
        } else {
            OFlag::O_NOFOLLOW
        };
        let file = File::from(self.open_at(flags | OFlag::O_NOCTTY | follow)?);
        let metadata = file.metadata()?;
        // The owner too: a file that was removed leaves its number to the next one.
        let what = |metadata: &Metadata| {
            let owner = metadata.uid();
            (metadata.dev(), metadata.ino(), metadata.rdev(), owner)
        };
        if what(&metadata) == what(&found.metadata) {
            Ok(file)
        } else {
            Err(io::Error::other("it changed while it was opened"))
        }
    }

    /// The place in the file system, which is the same by whatever path.
    pub fn place(&self) -> io::Result<(u64, u64, &OsStr)> {
        let folder = self.folder.metadata()?;
        Ok((folder.dev(), folder.ino(), &self.name))
    }
}

impl Found {
    /// The FIFO, socket or device of another user, who is not root: what kind that is.
    pub fn foreign_kind(&self) -> Option<&'static str> {
        let uid = self.metadata.uid();
        if self.is_inherited || uid == 0 || uid == geteuid().as_raw() {
            return None;
        }
        let kind = self.metadata.file_type();
        match () {
            () if kind.is_fifo() => Some("FIFO"),
            () if kind.is_socket() => Some("socket"),
            () if kind.is_block_device() || kind.is_char_device() => Some("device"),
            () => None,
        }
    }

    pub fn identity(&self) -> Option<FileIdentity> {
        FileIdentity::of(&self.metadata)
    }
}

/// The folder and the name; `None` if the path can name a folder only.
fn split(path: &Path) -> Option<(&Path, &OsStr)> {
    let bytes = path.as_os_str().as_bytes();
    let name = path.file_name()?;
    if !bytes.ends_with(name.as_bytes()) {
        return None;
    }
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    Some((parent.unwrap_or(Path::new(".")), name))
}

/// Whether `folder`, which is open, is where /proc shows this process's open files. A link in
/// another process's folder leads to what another user may have opened.
fn has_own_files(folder: &Metadata) -> bool {
    ["/proc/self/fd", "/proc/thread-self/fd"]
        .iter()
        .filter_map(|own| fs::metadata(own).ok())
        .any(|own| (own.dev(), own.ino()) == (folder.dev(), folder.ino()))
}

fn open_folder(base: Option<&File>, path: &Path) -> Result<File, EntryError> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let opened = match base {
        Some(base) => openat(base, path, flags, Mode::empty()),
        None => openat(AT_FDCWD, path, flags, Mode::empty()),
    };
    match opened {
        Ok(folder) => Ok(folder.into()),
        Err(Errno::ENOENT | Errno::ENOTDIR) => Err(EntryError::MissingFolder),
        Err(error) => Err(error.into()),
    }
}
