// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor header restore`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use luxor::{
    EditError, HeaderRestore,
    files::{Input, Role, path_name},
};

use crate::{
    commands::{Subcommand, Taken},
    confirm::confirm,
    context::Context,
    error::{Error, Result},
    process::terminal,
    volume::metadata_place,
};

/// Restore a header from a backup
///
/// Replaces the header and all keyslots of the volume: passphrases added since the backup no
/// longer open it, and passphrases removed since then open it again. If the header is lost, luxor
/// asks whether this was the volume of the backup. --force is needed if the backup is damaged, if
/// it places the data elsewhere, if its UUID or volume key is not the volume's, if something else
/// is in the place of the header, and in a script if the header is lost. Luxor refuses a volume that is too short for the
/// backup, and never makes it longer; an empty file becomes a detached header. After a crash,
/// run the command again.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor header restore photos.luks photos.header
  luxor header restore --batch-mode --force photos.luks photos.header   in a script
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
        let plan = |force| HeaderRestore::plan(&file, target, force, &context.library);
        let can_ask = !self.batch_mode && terminal().is_ok();
        let is_lost = |error: &Error| matches!(error.find(), Some(EditError::HeaderLost { .. }));
        let plan = match plan(self.force) {
            // The user knows whether it was the volume of the backup.
            Err(error) if can_ask && is_lost(&error) => plan(true),
            plan => plan,
        }?;
        let volume = plan.volume();
        if !self.batch_mode {
            confirm(&plan.warning(), "--batch-mode")?;
        } else if plan.is_serious() {
            context.console.warn(plan.warning());
        }
        plan.write(&context.library)?;
        context.console.tell(format!(
            "the header of {} is restored from {}: {volume}",
            path_name(target.path),
            file.name()
        ));
        Ok(())
    }
}
