// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor header`.

use std::{fmt::Display, io::Write, path::Path};

use luxor::{Volume, begin_change, create_output, exclusive};
use luxor_files::{
    Input, OutputOptions, Role, check_not_needed, lock_to_read, path_name, recognised,
};
use luxor_luks::{
    BackupError, HeaderBackup, HeaderRepair, Misfit, Overwrite, RestoreError, VolumeHeader,
};
use luxor_sector::Storage;

use crate::{
    args::{
        HeaderAction, HeaderArgs, HeaderBackupArgs, HeaderDigestArgs, HeaderRepairArgs,
        HeaderRestoreArgs,
    },
    confirm::confirm,
    console, contents,
    context::Context,
    error::{Error, Result},
};

/// Backs up, restores or identifies a header.
///
/// # Errors
/// When the volume or a file is not usable.
pub(crate) fn run(args: &HeaderArgs, context: &Context) -> Result<()> {
    match &args.action {
        HeaderAction::Backup(args) => backup(args, context),
        HeaderAction::Restore(args) => restore(args, context),
        HeaderAction::Repair(args) => repair(args, context),
        HeaderAction::Digest(args) => digest(args, context),
    }
}

fn backup(args: &HeaderBackupArgs, context: &Context) -> Result<()> {
    let path = context.options.header.as_ref().unwrap_or(&args.volume);
    let input = Input::open(path, Role::Metadata)?;
    let options = OutputOptions {
        force: args.force,
        mode: 0o400,
        known_input: Some(&input),
        needed: &[("the volume", Some(&args.volume))],
        becomes_luks2: true,
        ..OutputOptions::default()
    };
    let mut output = create_output(&args.file, &options, &context.library)?;
    let backup = read(&input, HeaderBackup::take)?;
    context
        .library
        .policy
        .check(backup.header(), &input.name())?;
    for warning in backup.header().warnings() {
        context.console.warn(format!("{}: {warning}", input.name()));
    }
    let len = backup.bytes().len() as u64;
    output.begin(0, Some(len))?;
    let _lock = output.lock_metadata()?;
    output
        .write_all(backup.bytes())
        .map_err(|error| Error::io(format!("cannot write {}", output.name()), &error))?;
    output.finish()?;
    context
        .console
        .note(format!("{len} bytes of header and keyslots are stored"));
    Ok(())
}

fn restore(args: &HeaderRestoreArgs, context: &Context) -> Result<()> {
    let target = context.options.header.as_ref().unwrap_or(&args.volume);
    let input = Input::open(&args.file, Role::Metadata)?;
    check_not_needed(target, &[("the backup", Some(&args.file))])?;
    let backup = read(&input, HeaderBackup::read)?;
    context
        .library
        .policy
        .check(backup.header(), &input.name())?;

    // Asked about what is there, without keeping others from it meanwhile.
    let present = Input::open(target, Role::Metadata)?;
    let asked = {
        let _lock = lock_to_read(&present)?;
        let storage = present.as_storage().ok_or_else(|| no_storage(&present))?;
        Replaced::look(&backup, target, storage)?
    };
    asked.check(args.force)?;
    if !args.batch_mode {
        confirm(&asked.warning(), "--batch-mode")?;
    } else if asked.is_serious() {
        context.console.warn(asked.warning());
    }

    let input = Input::open(target, Role::Change)?;
    let change = begin_change(&input, context.options.disable_locks)?;
    // A program that has the data open would go on as the present header says.
    let mut misfits = asked.misfits.iter();
    let is_replaced = misfits.any(|misfit| misfit.is_serious() || is_no_header(misfit));
    let _exclusive = is_replaced.then(|| exclusive(&change)).transpose()?;
    // Under that name there may be something else by now.
    let replaced = Replaced::look(&backup, target, change.storage())?;
    if (replaced.len, replaced.warning()) != (asked.len, asked.warning()) {
        return Err(Error::failure(format!(
            "{} has changed since it was looked at; nothing is written",
            path_name(target)
        ))
        .hint("Restore once more."));
    }
    backup
        .restore(change.storage(), args.force || replaced.is_empty())
        .map_err(|error| match &error {
            RestoreError::Io { source } => {
                Error::io(format!("cannot write {}", path_name(target)), source)
                    .hint("A part of the header may be written. Restore it once more.")
            }
            _ => Error::failure(format!("{}: {error}", path_name(target))),
        })?;
    context
        .console
        .note(format!("the header of {} is restored", path_name(target)));
    Ok(())
}

fn repair(args: &HeaderRepairArgs, context: &Context) -> Result<()> {
    let target = context.options.header.as_ref().unwrap_or(&args.volume);
    let input = Input::open(target, Role::Change)?;
    let change = begin_change(&input, context.options.disable_locks)?;
    let overwrite = if args.force {
        Overwrite::Anything
    } else {
        Overwrite::Damaged
    };
    let plan = HeaderRepair::plan(change.storage(), overwrite).map_err(|error| {
        let failure = failed(target, &error);
        if error.wants_backup() {
            failure.hint("A backup of the header would help: luxor header restore.")
        } else {
            failure
        }
    })?;
    context
        .library
        .policy
        .check(&plan.header(), &path_name(target))?;
    let repaired = plan
        .write(change.storage())
        .map_err(|error| failed(target, &error))?;
    console::print(&repaired.to_string())
}

fn failed(path: &Path, error: &dyn Display) -> Error {
    Error::failure(format!("{}: {error}", path_name(path)))
}

fn digest(args: &HeaderDigestArgs, context: &Context) -> Result<()> {
    let path = context.options.header.as_ref().unwrap_or(&args.volume);
    let volume = Volume::open(Input::open(path, Role::Metadata)?, &context.library)?;
    console::print(&format!("{}\n", volume.header.digest()))
}

/// What `read` makes of the metadata, while nobody changes them.
fn read(
    input: &Input,
    read: impl Fn(&dyn Storage) -> Result<HeaderBackup, BackupError>,
) -> Result<HeaderBackup> {
    let _lock = lock_to_read(input)?;
    let storage = input.as_storage().ok_or_else(|| no_storage(input))?;
    read(storage).map_err(|error| Error::failure(format!("{}: {error}", input.name())))
}

fn no_storage(input: &Input) -> Error {
    Error::failure(format!(
        "{} is neither a file nor a block device",
        input.name()
    ))
}

fn is_no_header(misfit: &Misfit) -> bool {
    matches!(
        misfit,
        Misfit::NoHeader { .. } | Misfit::Unsupported { .. } | Misfit::Version { .. }
    )
}

/// What a backup is to replace.
struct Replaced<'a> {
    target: &'a Path,
    len: u64,
    needed: u64,
    misfits: Vec<Misfit>,
    /// What is lost, in words.
    present: Vec<String>,
}

impl<'a> Replaced<'a> {
    /// Looks at the target, under its lock.
    ///
    /// # Errors
    /// When its length cannot be read.
    fn look(backup: &HeaderBackup, target: &'a Path, storage: &dyn Storage) -> Result<Self> {
        let len = storage
            .len()
            .map_err(|error| Error::io(format!("cannot read {}", path_name(target)), &error))?;
        let found = VolumeHeader::read(storage);
        let present = match &found {
            Ok(header) => vec![contents::volume(header)],
            Err(_) => recognised(storage),
        };
        Ok(Self {
            target,
            len,
            needed: backup.header().metadata_len(),
            misfits: backup.misfits(found.as_ref()),
            present,
        })
    }

    /// Whether nothing can be lost.
    fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The differences that take force.
    fn serious(&self) -> impl Iterator<Item = &Misfit> {
        let counts = |misfit: &&Misfit| match misfit {
            Misfit::NoHeader { .. } => !self.is_empty(),
            misfit => misfit.is_serious(),
        };
        self.misfits.iter().filter(counts)
    }

    fn is_serious(&self) -> bool {
        self.serious().next().is_some()
    }

    /// An empty file grows: it is the place of a detached header. Nothing else does, with
    /// `force` neither.
    fn check(&self, force: bool) -> Result<()> {
        let Self { len, needed, .. } = *self;
        if !self.is_empty() && len < needed {
            return Err(Error::failure(format!(
                "the backup does not fit {}, which has {len} bytes: {needed} are needed",
                path_name(self.target)
            ))
            .hint("For a detached header, name an empty file."));
        }
        if force || !self.is_serious() {
            return Ok(());
        }
        let reasons: Vec<_> = self.serious().map(Misfit::to_string).collect();
        Err(Error::failure(format!(
            "the backup does not fit {}: {}. {}",
            path_name(self.target),
            reasons.join("; "),
            self.loss()
        ))
        .hint("--force restores it all the same; the data may be lost then."))
    }

    /// What is destroyed, as a sentence.
    fn loss(&self) -> String {
        match self.present.as_slice() {
            [] => "Nothing is recognised there".into(),
            present => format!("It would destroy {}", present.join(" and ")),
        }
    }

    fn warning(&self) -> String {
        let mut text = if self.misfits.iter().any(is_no_header) {
            format!(
                "What is at the beginning of {} will be lost.",
                path_name(self.target)
            )
        } else {
            format!(
                "The header and all keyslots of {} will be replaced.",
                path_name(self.target)
            )
        };
        for misfit in &self.misfits {
            text += &format!("\n  {misfit}");
        }
        for present in &self.present {
            text += &format!("\n  destroyed is {present}");
        }
        text
    }
}
