// SPDX-License-Identifier: MIT OR Apache-2.0
//! The contestants: servers, their files and their command lines.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, OpenOptions},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use clap::ValueEnum;
use nix::fcntl::OFlag;
use serde::{Deserialize, Serialize};

use crate::{
    disk::Transform,
    plaintext,
    program::{self, Folder, Lane},
};

/// A server and what it serves. Luxor's servers come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Contestant {
    /// luxor serve on a LUKS2 volume with sectors of 4096 bytes
    Luxor,
    /// luxor serve on a LUKS2 volume with sectors of 512 bytes
    Luxor512,
    /// Luxor's server on the plaintext itself
    LuxorNull,
    /// nbdkit file on the plaintext itself
    Nbdkit,
    /// nbdkit file --filter=luks on a LUKS1 volume
    NbdkitLuks,
    /// qemu-nbd on the plaintext itself
    Qemu,
    /// qemu-nbd on a LUKS1 volume
    QemuLuks,
}

impl Contestant {
    /// Returns its name on the command line and in the JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Luxor => "luxor",
            Self::Luxor512 => "luxor512",
            Self::LuxorNull => "luxor-null",
            Self::Nbdkit => "nbdkit",
            Self::NbdkitLuks => "nbdkit-luks",
            Self::Qemu => "qemu",
            Self::QemuLuks => "qemu-luks",
        }
    }

    /// Returns its name in the tables.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Luxor => "luxor, LUKS2, 4096-byte sectors",
            Self::Luxor512 => "luxor, LUKS2, 512-byte sectors",
            Self::LuxorNull => "luxor, not encrypted",
            Self::Nbdkit => "nbdkit, not encrypted",
            Self::NbdkitLuks => "nbdkit, LUKS1",
            Self::Qemu => "qemu-nbd, not encrypted",
            Self::QemuLuks => "qemu-nbd, LUKS1",
        }
    }

    /// Returns the same server without encryption.
    pub(super) fn without_encryption(self) -> Option<Self> {
        match self {
            Self::Luxor | Self::Luxor512 => Some(Self::LuxorNull),
            Self::NbdkitLuks => Some(Self::Nbdkit),
            Self::QemuLuks => Some(Self::Qemu),
            Self::LuxorNull | Self::Nbdkit | Self::Qemu => None,
        }
    }

    pub(super) fn is_luxor(self) -> bool {
        matches!(self, Self::Luxor | Self::Luxor512 | Self::LuxorNull)
    }

    /// Returns the version that the program reports.
    pub(super) fn version(self, luxor: &Path) -> Result<String, String> {
        match self {
            Self::Luxor | Self::Luxor512 => {
                program::first_line(&luxor.to_string_lossy(), &["--version"])
            }
            Self::LuxorNull => Ok(format!("luxor-bench {}", env!("CARGO_PKG_VERSION"))),
            Self::Nbdkit | Self::NbdkitLuks => program::first_line("nbdkit", &["--version"]),
            Self::Qemu | Self::QemuLuks => program::first_line("qemu-nbd", &["--version"]),
        }
    }

    fn file(self) -> FileName {
        match self {
            Self::Luxor => "luks2-4096",
            Self::Luxor512 => "luks2-512",
            Self::LuxorNull | Self::Nbdkit | Self::Qemu => PLAIN,
            Self::NbdkitLuks | Self::QemuLuks => "luks1",
        }
    }
}

type FileName = &'static str;

const PLAIN: FileName = "plain";

/// The volumes, with the options of `luxor encrypt` for them. All use AES-256-XTS.
const VOLUMES: [(FileName, &[&str]); 3] = [
    ("luks2-4096", &["--sector-size=4096"]),
    ("luks2-512", &["--sector-size=512"]),
    ("luks1", &["--type=luks1"]),
];

/// The files that are served.
pub(super) struct Files<'a> {
    pub(super) folder: &'a Folder,
    pub(super) luxor: &'a Path,
    pub(super) engine: &'a str,
    /// `--engine` and `--threads` for `luxor`.
    pub(super) options: &'a [String],
}

impl Files<'_> {
    /// Returns how many files of the plaintext's length `contestants` need. The plaintext is always
    /// one of them, since the volumes are made from it.
    pub(super) fn count(contestants: &[Contestant]) -> u64 {
        let volumes = VOLUMES
            .iter()
            .filter(|(name, _)| contestants.iter().any(|c| c.file() == *name));
        volumes.count() as u64 + 1
    }

    /// Creates the files that `contestants` need, from `len` known bytes.
    pub(super) fn make(&self, contestants: &[Contestant], len: usize) -> Result<(), String> {
        let (plain, key) = (self.path(PLAIN), self.path(KEY_FILE));
        fs::write(&key, [0x4b; 32]).map_err(|e| format!("{}: {e}", key.display()))?;
        plaintext::make(&plain, len)?;
        for (name, options) in VOLUMES {
            if contestants.iter().any(|c| c.file() == name) {
                let mut words: Vec<OsString> = vec![self.luxor.into(), "encrypt".into()];
                words.extend(self.options.iter().map(OsString::from));
                words.extend(options.iter().map(OsString::from));
                words.extend(
                    ["-q", "--pbkdf=pbkdf2", "--pbkdf-force-iterations=1000"].map(OsString::from),
                );
                words.extend([
                    "--key-file".into(),
                    key.clone().into(),
                    plain.clone().into(),
                    self.path(name).into(),
                ]);
                Lane::default().run(&words, false)?;
            }
        }
        Ok(())
    }

    pub(super) fn socket(&self, contestant: Contestant) -> PathBuf {
        self.path(contestant.name()).with_extension("socket")
    }

    pub(super) fn log(&self, contestant: Contestant) -> PathBuf {
        self.path(contestant.name()).with_extension("log")
    }

    /// Returns the command line of a server in the foreground.
    pub(super) fn words(&self, contestant: Contestant) -> Vec<OsString> {
        let (file, socket) = (self.path(contestant.file()), self.socket(contestant));
        let key = self.path(KEY_FILE);
        match contestant {
            Contestant::Luxor | Contestant::Luxor512 => {
                let mut words = words(&[&self.luxor, &"serve"]);
                words.extend(self.options.iter().map(OsString::from));
                words.extend(self::words(&[
                    &file,
                    &"--socket",
                    &socket,
                    &"--key-file",
                    &key,
                ]));
                words
            }
            Contestant::LuxorNull => {
                let as_it_is = Transform {
                    sector: None,
                    request_limit: None,
                    device: None,
                };
                as_it_is.words(&file, &socket, self.engine)
            }
            Contestant::Nbdkit | Contestant::NbdkitLuks => {
                let mut words = words(&[&"nbdkit", &"--foreground", &"--unix", &socket]);
                if contestant == Contestant::Nbdkit {
                    words.extend(self::words(&[&"file", &file]));
                } else {
                    words.extend(self::words(&[&"--filter=luks", &"file", &file]));
                    words.push(joined(&[&"passphrase=+", &key]));
                }
                words
            }
            Contestant::Qemu | Contestant::QemuLuks => {
                let mut words = words(&[&"qemu-nbd", &"--persistent", &"--shared=4"]);
                words.extend(self::words(&[&"--socket", &socket]));
                let driver = if contestant == Contestant::Qemu {
                    "driver=raw"
                } else {
                    words.push("--object".into());
                    words.push(joined(&[&"secret,id=key,file=", &key]));
                    "driver=luks,key-secret=key"
                };
                // These two were the fastest here, among threads, native and io_uring, with and
                // without the page cache.
                let way = if takes_direct_io(&file) {
                    "file.aio=native,file.cache.direct=on"
                } else {
                    "file.aio=io_uring"
                };
                let options = [driver, ",file.driver=file,", way, ",file.filename="].concat();
                words.push("--image-opts".into());
                words.push(joined(&[&options, &file]));
                words
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

const KEY_FILE: &str = "key";

fn words(words: &[&dyn AsRef<OsStr>]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

fn joined(parts: &[&dyn AsRef<OsStr>]) -> OsString {
    let parts = parts.iter();
    parts.map(AsRef::as_ref).collect()
}

fn takes_direct_io(file: &Path) -> bool {
    let open = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_DIRECT.bits())
        .open(file);
    open.is_ok()
}
