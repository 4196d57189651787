// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor header backup`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use luxor::{
    back_up_header,
    files::{Input, Role, path_name, shell_word},
};

use crate::{
    commands::{Subcommand, Taken, is_stdout},
    context::Context,
    error::Result,
    volume::metadata_place,
};

/// Store a volume's header and keyslots in a file
///
/// The file has the format of `cryptsetup luksHeaderBackup`, so each program restores the
/// other's backups. It appears whole or not at all, and only its owner can read it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor header backup photos.luks photos.header
  luxor header backup --header photos.header photos.data photos.header-backup")]
pub(crate) struct HeaderBackupArgs {
    /// The volume
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// The file to create; `-` is standard output
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,

    /// Replace FILE if it exists
    #[arg(long)]
    pub force: bool,
}

impl Subcommand for HeaderBackupArgs {
    const NAME: &str = "backup";
    const TAKES: Taken = Taken::METADATA;

    fn run(&self, context: &Context) -> Result<()> {
        let input = Input::open(metadata_place(&self.volume, context), Role::Metadata)?;
        let needed = [("the volume", Some(self.volume.as_path()))];
        let len = back_up_header(&input, &self.file, self.force, &needed, &context.library)?;
        let text = format!("{len} bytes of header and keyslots are stored");
        context.console.note(text);
        if !self.output_is_stdout() {
            let (volume, backup) = (path_name(&self.volume), path_name(&self.file));
            let restores = format!("`luxor header restore VOLUME {}`", shell_word(&self.file));
            let text = format!(
                "{backup} has the header and the keyslots of {volume}. To restore them: {restores}"
            );
            context.console.tell_on_terminal(|| text);
        }
        Ok(())
    }

    fn output_is_stdout(&self) -> bool {
        is_stdout(&self.file)
    }
}
