// SPDX-License-Identifier: MIT OR Apache-2.0
//! The front door for new volumes.

use std::path::{Path, PathBuf};

use luxor_files::{Input, Role};
use luxor_luks::{LuksVersion, NewVolumeOptions};
use luxor_secret::SecretBytes;

use crate::{Context, NewFiles, Result, encrypt_files, format_files};

/// Encrypts a file into a new LUKS2 volume, with the defaults of cryptsetup. [`EncryptOptions`] has
/// more choices.
///
/// # Errors
/// Those of [`EncryptOptions::encrypt`].
pub fn encrypt(from: impl AsRef<Path>, to: impl AsRef<Path>, secret: &SecretBytes) -> Result<()> {
    EncryptOptions::new().encrypt(from, to, secret)
}

/// What a new volume is like. The default is a LUKS2 volume with the defaults of cryptsetup, which
/// replaces no file.
#[derive(Clone, Debug)]
pub struct EncryptOptions {
    new: NewVolumeOptions,
    header: Option<PathBuf>,
    force: bool,
    context: Context,
}

impl Default for EncryptOptions {
    fn default() -> Self {
        Self {
            new: NewVolumeOptions::new(LuksVersion::Luks2),
            header: None,
            force: false,
            context: Context::default(),
        }
    }
}

impl EncryptOptions {
    /// The default.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The version, key size, sector size, key derivation and names of the volume.
    #[must_use]
    pub fn volume(mut self, new: NewVolumeOptions) -> Self {
        self.new = new;
        self
    }

    /// Writes the metadata into this file.
    #[must_use]
    pub fn header(mut self, header: impl Into<PathBuf>) -> Self {
        self.header = Some(header.into());
        self
    }

    /// Whether to replace an existing file or overwrite a block device.
    #[must_use]
    pub fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// The engine and the receiver of events.
    #[must_use]
    pub fn context(mut self, context: &Context) -> Self {
        self.context = context.clone();
        self
    }

    /// Encrypts all of the file or stream at one path into a new volume at another, which appears
    /// whole or not at all. `-` is standard input or output.
    ///
    /// # Errors
    /// Those of [`encrypt_files`]. Also fails when `from` cannot be opened.
    pub fn encrypt(
        &self,
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        secret: &SecretBytes,
    ) -> Result<()> {
        let mut input = Input::open(from.as_ref(), Role::Data)?;
        let (files, secret) = (self.files(to.as_ref()), || Ok(secret.clone()));
        encrypt_files(&mut input, &files, &self.new, secret, &self.context)
    }

    /// Makes an empty volume for `size` bytes of plaintext.
    ///
    /// # Errors
    /// Those of [`format_files`].
    pub fn format(&self, path: impl AsRef<Path>, size: u64, secret: &SecretBytes) -> Result<()> {
        let (files, secret) = (self.files(path.as_ref()), || Ok(secret.clone()));
        format_files(&files, Some(size), &self.new, secret, &self.context)
    }

    fn files<'a>(&'a self, volume: &'a Path) -> NewFiles<'a> {
        NewFiles {
            volume,
            header: self.header.as_deref(),
            force: self.force,
            needed: &[],
        }
    }
}
