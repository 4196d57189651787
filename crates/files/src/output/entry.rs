// SPDX-License-Identifier: MIT OR Apache-2.0
//! The location of an output: a name in an open folder.
//!
//! In a folder that other users may write to, they can create links, FIFOs and files at any time.
//! So each step is made relative to an open folder, and what is found there is opened with
//! `O_PATH`, which has no side effect, before it is examined.

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
    fcntl::{AT_FDCWD, OFlag, readlinkat},
    libc::{S_ISVTX, S_IWOTH},
    sys::{
        stat::Mode,
        statfs::{PROC_SUPER_MAGIC, fstatfs},
    },
    unistd::geteuid,
};

use crate::{block_device::FileIdentity, opening::open_at};

/// A name in a folder that exists. It is not a symbolic link.
#[derive(Debug)]
pub struct DirectoryEntry {
    /// Open for looking up names only (`O_PATH`).
    pub folder: File,
    /// The path of the folder, for messages and for removing files on a signal.
    pub folder_path: PathBuf,
    pub name: OsString,
    /// Whether a symbolic link led here.
    pub is_linked: bool,
    /// The file with this name, if there is one.
    pub found: Option<Found>,
}

/// A file of any type.
#[derive(Debug)]
pub struct Found {
    pub metadata: Metadata,
    /// Whether the entry is a link in /proc to a file that a process has open.
    is_open_file: bool,
    /// Whether that process is this one.
    is_inherited: bool,
}

/// Why a path leads to no entry.
#[derive(Debug)]
pub enum EntryError {
    MissingFolder,
    /// The path can only name a folder.
    Folder,
    /// A link of another user in a sticky folder.
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
    /// Follows `path`. For links in a sticky folder that all users may write to, the kernel's rule
    /// applies (`protected_symlinks` in proc(5)): such a link is followed if it belongs to the
    /// caller or to the folder's owner.
    pub fn resolve(path: &Path) -> Result<Self, EntryError> {
        let (mut base, mut base_path) = (None, PathBuf::new());
        let mut path = path.to_owned();
        if path.as_os_str().is_empty() {
            return Err(Errno::ENOENT.into());
        }
        // The system itself follows as many links (path_resolution(7)).
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
                result => result?,
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
                // The target of such a link is not always a path.
                let open = entry.open_at(OFlag::O_PATH)?;
                let metadata = open.metadata().map_err(EntryError::Io)?;
                if metadata.is_file() {
                    let named = fs::metadata(entry.folder_path.join(&target));
                    if !named.is_ok_and(|named| {
                        FileIdentity::from_metadata(&named)
                            == FileIdentity::from_metadata(&metadata)
                    }) {
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

    fn open_at(&self, flags: OFlag) -> nix::Result<File> {
        open_at(&self.folder, &*self.name, flags, Mode::empty())
    }

    /// Opens the file that was found. Fails if another file has its name now.
    pub fn open(&self, found: &Found, flags: OFlag) -> io::Result<File> {
        let follow = if found.is_open_file {
            OFlag::empty()
        } else {
            OFlag::O_NOFOLLOW
        };
        let file = self.open_at(flags | OFlag::O_NOCTTY | follow)?;
        let metadata = file.metadata()?;
        // Compare the owner too: a new file may get the inode number of a removed one.
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

    /// The place in the file system, which does not depend on the path.
    pub fn place(&self) -> io::Result<(u64, u64, &OsStr)> {
        let folder = self.folder.metadata()?;
        Ok((folder.dev(), folder.ino(), &self.name))
    }
}

impl Found {
    /// Returns the kind of a FIFO, socket or device that belongs to another user than root and the
    /// caller.
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
        FileIdentity::from_metadata(&self.metadata)
    }
}

/// Splits a path into folder and name. `None` if it can only name a folder.
fn split(path: &Path) -> Option<(&Path, &OsStr)> {
    let bytes = path.as_os_str().as_bytes();
    let name = path.file_name()?;
    if !bytes.ends_with(name.as_bytes()) {
        return None;
    }
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    Some((parent.unwrap_or(Path::new(".")), name))
}

/// Returns whether the open `folder` is the one in which /proc lists this process's open files. A
/// link in the folder of another process may lead to a file that another user opened.
fn has_own_files(folder: &Metadata) -> bool {
    ["/proc/self/fd", "/proc/thread-self/fd"]
        .iter()
        .filter_map(|own| fs::metadata(own).ok())
        .any(|own| (own.dev(), own.ino()) == (folder.dev(), folder.ino()))
}

fn open_folder(base: Option<&File>, path: &Path) -> Result<File, EntryError> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
    let opened = match base {
        Some(base) => open_at(base, path, flags, Mode::empty()),
        None => open_at(AT_FDCWD, path, flags, Mode::empty()),
    };
    match opened {
        Ok(folder) => Ok(folder),
        Err(Errno::ENOENT | Errno::ENOTDIR) => Err(EntryError::MissingFolder),
        Err(error) => Err(error.into()),
    }
}
