// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file systems that `luxor mount --files` shows, and the programs that show them.

use std::{
    env,
    ffi::OsString,
    fs::{self, File},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use luxor::files::open;
use nix::unistd::{AccessFlags, access, geteuid};
use rustix::{
    io::Errno,
    mount::{FsOpenFlags, fsopen},
};

/// A file system.
pub(super) struct FileSystem {
    /// What the library calls it when it recognises it ([`luxor::Contents`]).
    signature: &'static str,
    /// Its name for messages.
    pub(super) name: &'static str,
    /// The kernel's name of the file system, as for `mount -t`.
    pub(super) kernel: &'static str,
    /// Whether files in it can be changed at all.
    pub(super) is_writable: bool,
    /// The program that shows it to users other than root, and to root where the kernel cannot.
    pub(super) driver: Option<Driver>,
}

/// A program that shows a file system by FUSE.
pub(super) struct Driver {
    pub(super) program: &'static str,
    /// Its arguments, in which [`IMAGE`] and [`FOLDER`] stand for paths, and [`OPTIONS`] for `options` with
    /// one of `read_only` and `read_write`.
    arguments: &'static [&'static str],
    options: &'static str,
    read_only: &'static str,
    read_write: &'static str,
    /// The packages that contain it in Debian and in Fedora.
    debian: &'static str,
    fedora: &'static str,
    /// Why it is weaker than the kernel, so that it only reads unless the user wants it to write.
    pub(super) weakness: Option<&'static str>,
}

const IMAGE: &str = "IMAGE";
const FOLDER: &str = "FOLDER";
const OPTIONS: &str = "OPTIONS";

/// The order of arguments that most drivers take. They stay in the foreground.
const USUAL: &[&str] = &["-f", "-o", OPTIONS, IMAGE, FOLDER];

const fn ext(signature: &'static str, name: &'static str) -> FileSystem {
    FileSystem {
        signature,
        name,
        // The kernel's ext4 also mounts the two older ones.
        kernel: "ext4",
        is_writable: true,
        driver: Some(Driver {
            program: "fuse2fs",
            arguments: USUAL,
            // Without it, the files of root would be closed to the only user who sees them.
            options: "fakeroot,",
            read_only: "ro",
            read_write: "rw",
            debian: "fuse2fs",
            fedora: "fuse2fs",
            weakness: Some(
                "fuse2fs does not use the journal, so that a crash can damage the files",
            ),
        }),
    }
}

/// A file system for which there is no driver in Debian.
const fn of_kernel(
    signature: &'static str,
    name: &'static str,
    kernel: &'static str,
) -> FileSystem {
    FileSystem {
        signature,
        name,
        kernel,
        is_writable: true,
        driver: None,
    }
}

/// The table of file systems.
const FILE_SYSTEMS: [FileSystem; 16] = [
    ext("an ext2 file system", "ext2"),
    ext("an ext3 file system", "ext3"),
    ext("an ext4 file system", "ext4"),
    ext("an ext2, ext3 or ext4 file system", "ext4"),
    FileSystem {
        signature: "an NTFS file system",
        name: "NTFS",
        kernel: "ntfs3",
        is_writable: true,
        driver: Some(Driver {
            program: "ntfs-3g",
            arguments: &["-o", OPTIONS, IMAGE, FOLDER],
            // Its own options would show the files to all users.
            options: "no_detach,no_def_opts,silent,umask=077,big_writes,",
            read_only: "ro",
            read_write: "rw",
            debian: "ntfs-3g",
            fedora: "ntfs-3g",
            weakness: None,
        }),
    },
    FileSystem {
        signature: "an exFAT file system",
        name: "exFAT",
        kernel: "exfat",
        is_writable: true,
        driver: Some(Driver {
            program: "mount.exfat-fuse",
            arguments: &["-o", OPTIONS, IMAGE, FOLDER],
            // It lets all users in, and this mask keeps them out.
            options: "umask=077,",
            read_only: "ro",
            read_write: "rw",
            debian: "exfat-fuse",
            fedora: "fuse-exfat",
            weakness: None,
        }),
    },
    FileSystem {
        signature: "a FAT file system",
        name: "FAT",
        kernel: "vfat",
        is_writable: true,
        driver: Some(Driver {
            program: "fusefat",
            arguments: USUAL,
            options: "fsname=IMAGE,",
            read_only: "ro",
            read_write: "rw+",
            debian: "fusefat",
            fedora: "",
            weakness: Some("writing is an experiment of fusefat"),
        }),
    },
    FileSystem {
        signature: "a squashfs file system",
        name: "squashfs",
        kernel: "squashfs",
        is_writable: false,
        driver: Some(Driver {
            program: "squashfuse",
            arguments: USUAL,
            options: "fsname=IMAGE,",
            read_only: "ro",
            read_write: "ro",
            debian: "squashfuse",
            fedora: "squashfuse",
            weakness: None,
        }),
    },
    FileSystem {
        signature: "an EROFS file system",
        name: "EROFS",
        kernel: "erofs",
        is_writable: false,
        driver: Some(Driver {
            program: "erofsfuse",
            arguments: USUAL,
            options: "fsname=IMAGE,",
            read_only: "ro",
            read_write: "ro",
            debian: "erofsfuse",
            fedora: "erofs-fuse",
            weakness: None,
        }),
    },
    FileSystem {
        signature: "an ISO 9660 file system",
        name: "ISO 9660",
        kernel: "iso9660",
        is_writable: false,
        driver: Some(Driver {
            program: "fuseiso",
            // It gives the words after the folder to FUSE.
            arguments: &["-n", IMAGE, FOLDER, "-f", "-o", OPTIONS],
            options: "fsname=IMAGE,",
            read_only: "ro",
            read_write: "ro",
            debian: "fuseiso",
            fedora: "fuseiso",
            weakness: None,
        }),
    },
    of_kernel("a btrfs file system", "btrfs", "btrfs"),
    of_kernel("an XFS file system", "XFS", "xfs"),
    of_kernel("an F2FS file system", "F2FS", "f2fs"),
    of_kernel("a UDF file system", "UDF", "udf"),
    of_kernel("an HFS+ file system", "HFS+", "hfsplus"),
    of_kernel("a JFS file system", "JFS", "jfs"),
];

impl FileSystem {
    /// Returns the file system that the library recognises as `signature`.
    pub(super) fn of(signature: &str) -> Option<&'static Self> {
        FILE_SYSTEMS
            .iter()
            .find(|entry| entry.signature == signature)
    }

    /// Whether this process can mount it as a file system of the kernel, on a loop device. The kernel
    /// loads its module, if there is one.
    pub(super) fn is_for_kernel(&self) -> bool {
        let is_known = || match fsopen(self.kernel, FsOpenFlags::FSOPEN_CLOEXEC) {
            // Linux before 5.2 cannot say it.
            Ok(_) | Err(Errno::NOSYS) => true,
            Err(_) => false,
        };
        let control = || open("/dev/loop-control", File::options().read(true).write(true));
        geteuid().is_root() && is_known() && control().is_ok()
    }
}

impl Driver {
    /// Whether the program has other rights than the user who starts it, so that the user's mounts are
    /// closed to it unless they are open to all: Debian's ntfs-3g belongs to root and sets its user ID.
    pub(super) fn sets_user_id(program: &Path) -> bool {
        fs::metadata(program).is_ok_and(|found| found.mode() & 0o4000 != 0)
    }

    /// Returns where the program is.
    pub(super) fn find(&self) -> Option<PathBuf> {
        find(self.program)
    }

    /// Returns the arguments for it to show the file system in the file `image` on `folder`. The path of
    /// `image` must have no comma.
    pub(super) fn arguments(
        &self,
        image: &Path,
        folder: &Path,
        is_read_only: bool,
    ) -> Vec<OsString> {
        let mode = if is_read_only {
            self.read_only
        } else {
            self.read_write
        };
        let options = self.options.replace(IMAGE, &image.to_string_lossy()) + mode;
        let words = self.arguments.iter().map(|&word| match word {
            IMAGE => image.into(),
            FOLDER => folder.into(),
            OPTIONS => options.clone().into(),
            word => word.into(),
        });
        words.collect()
    }

    /// Says in which package it is, or how this system installs it.
    pub(super) fn packages(&self) -> String {
        for (program, package) in [("apt-get", self.debian), ("dnf", self.fedora)] {
            if !package.is_empty() && find(program).is_some() {
                return format!("As root, `{program} install {package}` installs it.");
            }
        }
        match (self.debian, self.fedora) {
            (debian, "") => format!("It is in Debian's package {debian}; Fedora has none."),
            (debian, fedora) if debian == fedora => {
                format!("It is in the package {debian} of Debian and Fedora.")
            }
            (debian, fedora) => {
                format!("It is in Debian's package {debian}, and in Fedora's {fedora}.")
            }
        }
    }
}

/// The folders of programs: those of PATH, and those that the PATH of users may lack.
pub(super) fn folders() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let given = env::split_paths(&path).filter(|folder| folder.is_absolute());
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    given.chain(more).collect()
}

/// Returns the path of a program.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    let mut paths = folders().into_iter().map(|folder| folder.join(program));
    paths.find(|path| path.is_file() && access(path, AccessFlags::X_OK).is_ok())
}

#[cfg(test)]
mod tests {
    use luxor::sector::SIGNATURES;

    use super::*;

    #[test]
    fn the_library_recognises_every_file_system_of_the_table() {
        // Which of the three it is follows from flags.
        let ext = ["an ext2", "an ext3", "an ext4"].map(|name| format!("{name} file system"));
        for entry in &FILE_SYSTEMS {
            let is_known = SIGNATURES.iter().any(|magic| magic.name == entry.signature);
            assert!(
                is_known || ext.iter().any(|name| name == entry.signature),
                "{}",
                entry.signature
            );
        }
    }

    #[test]
    fn paths_are_arguments_of_their_own() {
        let odd = Path::new("/-o allow_other,\n");
        for driver in FILE_SYSTEMS
            .iter()
            .filter_map(|entry| entry.driver.as_ref())
        {
            let words = driver.arguments(Path::new("/run/image"), odd, true);
            assert_eq!(words.iter().filter(|word| *word == odd).count(), 1);
            let others = words.iter().filter(|word| *word != odd);
            for word in others {
                assert!(!word.to_string_lossy().contains("allow_other"), "{word:?}");
            }
            assert!(words.iter().any(|word| word == "/run/image"));
        }
    }
}
