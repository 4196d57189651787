// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor header repair`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use luxor::{luks::Overwrite, repair_header};

use crate::{
    commands::{Subcommand, Taken},
    console,
    context::Context,
    error::Result,
    volume::metadata_place,
};

/// Repair a damaged header
///
/// LUKS2 has two copies of its header: a copy that is damaged, or older than the other after a
/// crash, is rewritten from the other one. LUKS1 has one copy, of which the signature, the
/// places and states of the keyslots and more can be recomputed; without --force it is repaired
/// completely or not at all.
/// An intact header is not changed. --force is needed if something else, such as a file
/// system, begins in the place of the damaged header, if a copy cannot be read, or if neither
/// copy is older and they differ in keyslots, digests, segments or tokens.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor header repair photos.luks
  luxor check photos.luks            shows whether a repair is needed")]
pub(crate) struct HeaderRepairArgs {
    /// The volume, or its detached header
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// Overwrite something else in the header's place, copies that cannot be read, and a secondary
    /// copy that differs and is as old as the primary; mark LUKS1 keyslots that cannot be restored
    /// as empty, if another one is used
    #[arg(long)]
    pub force: bool,
}

impl Subcommand for HeaderRepairArgs {
    const NAME: &str = "repair";
    const TAKES: Taken = Taken::METADATA;

    fn run(&self, context: &Context) -> Result<()> {
        let overwrite = if self.force {
            Overwrite::Anything
        } else {
            Overwrite::Damaged
        };
        let target = metadata_place(&self.volume, context);
        let repaired = repair_header(target, overwrite, &context.library)?;
        console::print(&repaired.to_string())
    }
}
