// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor resize`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use luxor::{
    Resized,
    files::{DataFileError, path_name},
};

use crate::{
    args::size,
    commands::{Subcommand, Taken},
    context::Context,
    error::{Error, Result},
};

/// Change the size of a volume
///
/// A file becomes longer or shorter with its volume; a block device must have the room. No secret
/// is needed, and nothing may use the volume meanwhile.
///
/// New sectors are not written: they decrypt to noise, as those of a new volume. A file system in the
/// volume keeps its size: grow it afterwards (`resize2fs`), or shrink it first.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor resize --size 200G disk.luks
  luxor resize --size 50G --shrink disk.luks
  luxor resize /dev/sdx1                      to the end of the device
  luxor resize --header disk.header --size 200G disk.data")]
pub(crate) struct ResizeArgs {
    /// The volume: a file or a block device
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// The new size of the plaintext: a number of bytes, or with K, M, G or T for powers of 1024
    ///
    /// Without this option the volume fills the file or device. A file in it whose length the
    /// metadata record keeps that length.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub size: Option<u64>,

    /// Allow a smaller size: the data at the end are lost
    #[arg(long)]
    pub shrink: bool,
}

impl Subcommand for ResizeArgs {
    const NAME: &str = "resize";
    const TAKES: Taken = Taken::METADATA;

    /// Changes the size of a volume.
    ///
    /// # Errors
    /// Those of [`luxor::resize`].
    fn run(&self, context: &Context) -> Result<()> {
        let header = context.options.header.as_deref();
        let resized = luxor::resize(
            context.place(&self.volume),
            header,
            self.size,
            self.shrink,
            &context.library,
        );
        let Resized { before, after } = resized.map_err(with_hint)?;
        let volume = path_name(&self.volume);
        context
            .console
            .tell(format!("{volume} holds {after} bytes now, {before} before"));
        Ok(())
    }
}

/// Adds what to do when the volume cannot be opened for a change. The general hints name the option
/// `--read-only`, which this command does not have.
fn with_hint(error: Error) -> Error {
    let hint = match error.find() {
        Some(DataFileError::InUse { .. } | DataFileError::Locked { .. }) => {
            "Run the command again when nothing else uses the volume."
        }
        Some(DataFileError::Open { .. }) => "A new size needs permission to write.",
        _ => return error,
    };
    error.hint(hint)
}
