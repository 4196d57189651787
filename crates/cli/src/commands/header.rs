// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor header`.

mod backup;
mod digest;
mod repair;
mod restore;

use clap::Args;

use crate::{
    commands::{Subcommand, Taken},
    context::Context,
    error::Result,
};

/// Back up, restore, repair or identify a volume's header
///
/// The header contains the keyslots: without it the data cannot be read. A backup of the
/// header opens the data with the passphrases of that time, even if they were changed or
/// removed since.
#[derive(Args, Debug)]
pub(crate) struct HeaderArgs {
    /// What to do with it.
    #[command(subcommand)]
    pub action: HeaderAction,
}

commands! {
    /// What to do with a header.
    HeaderAction {
        Backup(backup::HeaderBackupArgs),
        Restore(restore::HeaderRestoreArgs),
        Repair(repair::HeaderRepairArgs),
        Digest(digest::HeaderDigestArgs),
    }
}

impl Subcommand for HeaderArgs {
    const NAME: &str = "header";
    const TAKES: Taken = Taken::Each(HeaderAction::TAKES);

    fn run(&self, context: &Context) -> Result<()> {
        self.action.run(context)
    }

    fn output_is_stdout(&self) -> bool {
        self.action.output_is_stdout()
    }
}
