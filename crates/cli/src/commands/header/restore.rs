// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor header restore`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use luxor::{
    HeaderRestore,
    files::{Input, Role, path_name},
};

use crate::{
    commands::{Subcommand, Taken},
    confirm::confirm,
    context::Context,
    error::Result,
    volume::metadata_place,
};

/// Restore a header from a backup
///
/// Replaces the header and all keyslots of the volume: passphrases added since the backup no
/// longer open it, and passphrases removed since then open it again. --force is needed if the
/// backup is damaged, if it places the data elsewhere, if its UUID or volume key is not the
/// volume's, or if there is no LUKS header. Luxor refuses a volume that is too short for the
/// backup, and never makes it longer; an empty file becomes a detached header. After a crash,
/// run the command again.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor header restore photos.luks photos.header
  luxor header restore --force photos.luks photos.header   the header is lost
  luxor header restore --header-digest \"$(cat photos.digest)\" photos.luks photos.header")]
pub(crate) struct HeaderRestoreArgs {
    /// The volume
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// The backup, made by Luxor or cryptsetup; --header-digest and --require-… apply to it
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,

    /// Do not ask for confirmation; a backup that does not fit is still refused
    #[arg(long)]
    pub batch_mode: bool,

    /// Restore a backup that does not fit, even where there is no LUKS header
    #[arg(long)]
    pub force: bool,
}

impl Subcommand for HeaderRestoreArgs {
    const NAME: &str = "restore";
    const TAKES: Taken = Taken::METADATA;

    fn run(&self, context: &Context) -> Result<()> {
        let target = metadata_place(&self.volume, context);
        let file = Input::open(&self.file, Role::Metadata)?;
        let plan = HeaderRestore::plan(&file, target, self.force, &context.library)?;
        if !self.batch_mode {
            confirm(&plan.warning(), "--batch-mode")?;
        } else if plan.is_serious() {
            context.console.warn(plan.warning());
        }
        plan.write(&context.library)?;
        let text = format!("the header of {} is restored", path_name(target.path));
        context.console.note(text);
        Ok(())
    }
}
