// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor format`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use luxor::files::path_name;

use crate::{
    args::{General, NewVolumeArgs, size},
    commands::{Subcommand, Taken},
    confirm::confirm,
    context::Context,
    error::{Error, Result},
    new_volume,
    secrets::SecretSource,
};

/// Create an empty LUKS volume
///
/// A new file appears whole or not at all; its data area takes no space on the disk until
/// something is written. A block device becomes a volume as a whole, unless --size limits it.
/// Its earlier contents are lost.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor format --size 100G disk.luks
  luxor format --force --label Backups /dev/sdx1
  luxor format --size 100G --header disk.header disk.data
  luxor format --header disk.header /dev/sdx1           does not change the device")]
pub(crate) struct FormatArgs {
    /// The volume to create: a file or a block device
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// The size of the plaintext: a number of bytes, or with K, M, G or T for powers of 1024
    ///
    /// A new file is longer than that by the header (16 MiB by default, or 2 MiB for LUKS1), unless
    /// the header is detached. Without this option the volume fills the file or device, which must
    /// exist.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub size: Option<u64>,

    /// What the volume is to be.
    #[command(flatten)]
    pub new: NewVolumeArgs,

    /// Replace VOLUME if it exists; required to write to a block device
    #[arg(long)]
    pub force: bool,

    /// If VOLUME exists, ask on the terminal whether to replace it
    ///
    /// As cryptsetup does.
    #[arg(long, conflicts_with = "force", hide = true)]
    pub ask: bool,
}

impl Subcommand for FormatArgs {
    const NAME: &str = "format";
    const TAKES: Taken = Taken::Options(&[
        General::Key,
        General::Prompt,
        General::Passphrase,
        General::VolumeKey,
        General::Header,
        General::Engine,
        General::Locks,
        General::Progress,
        General::Talk,
    ]);

    /// Makes an empty volume.
    ///
    /// # Errors
    /// Fails when the options contradict each other, and with the errors of [`luxor::format_files`].
    fn run(&self, context: &Context) -> Result<()> {
        let options = new_volume::options(&self.new, &[], context)?;
        let secrets = SecretSource::secret_only(context, &[])?;
        if self.volume == Path::new("-") {
            return Err(Error::failure("VOLUME must be a file or a block device"));
        }
        let needed = new_volume::needed(context);
        let force = self.force || (self.ask && is_to_be_replaced(&self.volume)?);
        let files = new_volume::files(&self.volume, force, &needed, context);
        let secret = || secrets.new_one(&self.volume);
        luxor::format_files(&files, self.size, &options, secret, &context.library)?;
        let made = || new_volume::made(&self.volume, &options, context);
        context.console.tell_on_terminal(made);
        Ok(())
    }
}

/// If the volume exists, asks whether to replace it.
fn is_to_be_replaced(volume: &Path) -> Result<bool> {
    let exists = volume.exists();
    if exists {
        let warning = format!("All data on {} will be lost.", path_name(volume));
        confirm(&warning, "--force")?;
    }
    Ok(exists)
}
