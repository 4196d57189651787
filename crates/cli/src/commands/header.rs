// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor header`.

use luxor::{
    HeaderRestore, back_up_header,
    files::{Input, Role, path_name},
    luks::Overwrite,
    repair_header,
};

use crate::{
    args::{
        HeaderAction, HeaderArgs, HeaderBackupArgs, HeaderDigestArgs, HeaderRepairArgs,
        HeaderRestoreArgs,
    },
    confirm::confirm,
    console,
    context::Context,
    error::Result,
    volume::{metadata_place, open_metadata},
};

/// Backs up, restores, repairs or identifies a header.
///
/// # Errors
/// Fails when the volume or a file cannot be used.
pub(crate) fn run(args: &HeaderArgs, context: &Context) -> Result<()> {
    match &args.action {
        HeaderAction::Backup(args) => backup(args, context),
        HeaderAction::Restore(args) => restore(args, context),
        HeaderAction::Repair(args) => repair(args, context),
        HeaderAction::Digest(args) => digest(args, context),
    }
}

fn backup(args: &HeaderBackupArgs, context: &Context) -> Result<()> {
    let input = Input::open(metadata_place(&args.volume, context), Role::Metadata)?;
    let needed = [("the volume", Some(args.volume.as_path()))];
    let len = back_up_header(&input, &args.file, args.force, &needed, &context.library)?;
    let text = format!("{len} bytes of header and keyslots are stored");
    context.console.note(text);
    Ok(())
}

fn restore(args: &HeaderRestoreArgs, context: &Context) -> Result<()> {
    let target = metadata_place(&args.volume, context);
    let file = Input::open(&args.file, Role::Metadata)?;
    let plan = HeaderRestore::plan(&file, target, args.force, &context.library)?;
    if !args.batch_mode {
        confirm(&plan.warning(), "--batch-mode")?;
    } else if plan.is_serious() {
        context.console.warn(plan.warning());
    }
    plan.write(&context.library)?;
    let text = format!("the header of {} is restored", path_name(target.path));
    context.console.note(text);
    Ok(())
}

fn repair(args: &HeaderRepairArgs, context: &Context) -> Result<()> {
    let overwrite = if args.force {
        Overwrite::Anything
    } else {
        Overwrite::Damaged
    };
    let target = metadata_place(&args.volume, context);
    let repaired = repair_header(target, overwrite, &context.library)?;
    console::print(&repaired.to_string())
}

fn digest(args: &HeaderDigestArgs, context: &Context) -> Result<()> {
    let volume = open_metadata(&args.volume, context)?;
    console::print(&format!("{}\n", volume.header.digest()))
}
