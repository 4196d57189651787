// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the examples share: a folder, and volumes that are quick to open, and weak.

#![allow(dead_code, reason = "no example needs all of it")]

use std::{error::Error, path::PathBuf};

use luxor::{
    EncryptOptions, SecretBytes,
    luks::{LuksVersion, NewVolumeOptions, PbkdfKind, PbkdfOptions},
};
use tempfile::TempDir;

pub type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

pub fn secret() -> SecretBytes {
    SecretBytes::copy_of(b"correct horse")
}

/// 1000 iterations make a fast example and a weak keyslot: leave `pbkdf` out in real use.
pub fn cheap() -> PbkdfOptions {
    PbkdfOptions {
        kind: PbkdfKind::Pbkdf2,
        force_iterations: Some(1000),
        ..PbkdfOptions::default()
    }
}

pub fn new_volume(version: LuksVersion) -> NewVolumeOptions {
    NewVolumeOptions {
        pbkdf: cheap(),
        ..NewVolumeOptions::new(version)
    }
}

/// A folder with an empty volume of 1 MiB.
pub fn volume(version: LuksVersion) -> Result<(TempDir, PathBuf)> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("volume");
    let options = EncryptOptions::new().volume(new_volume(version));
    options.format(&path, 1 << 20, &secret())?;
    Ok((folder, path))
}
