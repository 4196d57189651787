// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `mount`.

use std::path::PathBuf;

use clap::{
    Args, ValueHint,
    builder::{OsStringValueParser, TypedValueParser},
};
use luxor_serve::fuse::FileName;

use super::{ExportArgs, StatsArgs};

/// Show a volume's plaintext as a file, for losetup, mount and any program that reads files
///
/// DIR then contains one file, the plaintext, with the name of VOLUME without `.luks`. It
/// exists until DIR is unmounted (`fusermount3 -u DIR`, or `umount DIR` as root) or the program
/// receives SIGINT or SIGTERM. This uses FUSE: it needs no root where /dev/fuse is accessible,
/// and no dm-crypt.
#[derive(Args, Debug)]
// `mount` refuses this option: a file's holes read as zeros, but discarded sectors do not.
#[command(mut_arg("allow_discards", |arg| arg.hide(true)))]
pub(crate) struct MountArgs {
    /// The volume.
    #[command(flatten)]
    pub export: ExportArgs,

    /// The folder to mount on, which must be empty
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = None)]
    pub folder: PathBuf,

    /// The file's name (default: that of VOLUME, without .luks)
    #[arg(long, help_heading = "Mounting")]
    #[arg(value_parser = OsStringValueParser::new().try_map(FileName::new))]
    pub name: Option<FileName>,

    /// Let root use the file too, for losetup; its mode 0600 keeps all other users out
    ///
    /// If a user other than root mounts, /etc/fuse.conf must contain `user_allow_other`.
    #[arg(long, help_heading = "Mounting")]
    pub allow_other: bool,

    /// The statistics to show.
    #[command(flatten)]
    pub stats: StatsArgs,
}
