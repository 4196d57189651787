// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor header digest`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::{
    commands::{Subcommand, Taken},
    console,
    context::Context,
    error::Result,
    volume::open_metadata,
};

/// Print the SHA-256 of a volume's header, for --header-digest
///
/// It covers the bytes that are parsed: the current copy of a LUKS2 header, or the first 592
/// bytes of a LUKS1 header.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  luxor header digest photos.luks > photos.digest
  luxor decrypt --header-digest \"$(cat photos.digest)\" photos.luks photos.tar")]
pub(crate) struct HeaderDigestArgs {
    /// The volume, a detached header or a backup
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,
}

impl Subcommand for HeaderDigestArgs {
    const NAME: &str = "digest";
    const TAKES: Taken = Taken::METADATA;

    fn run(&self, context: &Context) -> Result<()> {
        let volume = open_metadata(&self.volume, context)?;
        console::print(&format!("{}\n", volume.header.digest()))
    }
}
