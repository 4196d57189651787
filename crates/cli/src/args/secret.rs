// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options for secrets.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use super::values::descriptor;

/// The options for one secret.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SecretArgs<'a> {
    /// The key file, if one was named; `-` is standard input.
    pub key_file: Option<&'a Path>,
    /// The number of bytes of the key file to skip.
    pub offset: u64,
    /// The number of bytes of the key file to read; `None` means to the end.
    pub size: Option<u64>,
    /// The file descriptor with the passphrase, if one was named; 0 is standard input.
    pub descriptor: Option<i32>,
    /// The names of these options.
    pub names: SecretArgNames,
}

/// The names of the options of [`SecretArgs`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct SecretArgNames {
    pub key_file: &'static str,
    pub offset: &'static str,
    pub size: &'static str,
    pub descriptor: &'static str,
}

/// Where a new secret comes from.
#[derive(Args, Clone, Debug)]
pub(crate) struct NewSecretArgs {
    /// Read the new secret from FILE, every byte as it is; `-` is standard input
    ///
    /// Without this option and --new-passphrase-fd, luxor asks for the new passphrase twice on the
    /// terminal.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Key")]
    pub new_key_file: Option<PathBuf>,

    /// Skip this many bytes at the beginning of the new key file
    #[arg(long, value_name = "BYTES", help_heading = "Key", default_value_t = 0)]
    #[arg(hide_default_value = true)]
    pub new_keyfile_offset: u64,

    /// Read this many bytes of the new key file, at most 8388608 (default: to its end)
    #[arg(long, value_name = "BYTES", help_heading = "Key")]
    pub new_keyfile_size: Option<u64>,

    /// Read the new passphrase from file descriptor N: one line, without its newline
    ///
    /// With the same N as --passphrase-fd it is the line after the other passphrase.
    #[arg(
        long,
        value_name = "N",
        help_heading = "Key",
        conflicts_with = "new_key_file"
    )]
    #[arg(value_parser = descriptor())]
    pub new_passphrase_fd: Option<i32>,
}

impl NewSecretArgs {
    /// Returns the options for [`SecretSource::pair`](crate::secrets::SecretSource::pair).
    #[must_use]
    pub(crate) fn secret(&self) -> SecretArgs<'_> {
        SecretArgs {
            key_file: self.new_key_file.as_deref(),
            offset: self.new_keyfile_offset,
            size: self.new_keyfile_size,
            descriptor: self.new_passphrase_fd,
            names: SecretArgNames {
                key_file: "--new-key-file",
                offset: "--new-keyfile-offset",
                size: "--new-keyfile-size",
                descriptor: "--new-passphrase-fd",
            },
        }
    }
}
