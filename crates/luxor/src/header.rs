// SPDX-License-Identifier: MIT OR Apache-2.0
//! Headers: backed up, restored, repaired.

use std::{io::Write, path::Path};

use luxor_files::{
    Escaped, Input, Needed, OutputOptions, Role, check_not_needed, lock_to_read, path_name,
    recognised,
};
use luxor_luks::{
    BackupError, HeaderBackup, HeaderRepair, Misfit, Overwrite, Repaired, RestoreError,
    VolumeHeader,
};
use luxor_sector::Storage;

use crate::{
    Context, Error, Result, VolumeError, create_output,
    output::no_storage,
    volume::{begin_change, exclusive},
};

/// Copies the metadata and all keyslots of `volume`, or of a detached header, into a new file at
/// `file` with the mode 0400, and returns how many bytes they are. With `force` an existing file is
/// replaced. None of the `needed` files may be `file`.
///
/// # Errors
/// When `volume` has no valid metadata, or others than are required; when `file` exists or cannot
/// be written.
pub fn back_up_header(
    volume: &Input,
    file: &Path,
    force: bool,
    needed: Needed<'_>,
    context: &Context,
) -> Result<u64> {
    let options = OutputOptions {
        force,
        mode: 0o400,
        known_input: Some(volume),
        needed,
        becomes_luks2: true,
        ..OutputOptions::default()
    };
    let mut output = create_output(file, &options, context)?;
    let backup = read(volume, HeaderBackup::take)?;
    context.policy.check(backup.header(), &volume.name())?;
    for warning in backup.header().warnings() {
        let text = format!("{}: {warning}", volume.name());
        context.events.warning(&text);
    }
    let len = backup.bytes().len() as u64;
    output.begin(0, Some(len))?;
    let _lock = output.lock_metadata()?;
    output
        .write_all(backup.bytes())
        .map_err(|error| Error::io(format!("cannot write {}", output.name()), &error))?;
    output.finish()?;
    Ok(len)
}

/// Repairs the metadata of the volume or detached header at `target`.
///
/// # Errors
/// When it cannot be known what they were, when something else stands in their place that
/// `overwrite` does not give up, and when they cannot be locked or written.
pub fn repair_header(target: &Path, overwrite: Overwrite, context: &Context) -> Result<Repaired> {
    let name = path_name(target);
    let input = Input::open(target, Role::Change)?;
    let change = begin_change(&input, context.disable_locks)?;
    let plan = HeaderRepair::plan(change.storage(), overwrite)
        .map_err(|error| Error::failure(format!("{name}: {error}")).caused_by(error))?;
    context.policy.check(&plan.header(), &name)?;
    plan.write(change.storage())
        .map_err(|error| Error::failure(format!("{name}: {error}")))
}

/// A backup that is to be restored: nothing is written yet.
pub struct HeaderRestore<'a> {
    backup: HeaderBackup,
    target: &'a Path,
    replaced: Replaced,
    force: bool,
}

impl<'a> HeaderRestore<'a> {
    /// Compares the backup in `file` with what is at the beginning of `target`, a volume or an
    /// empty file for a detached header. Other programs may go on using it meanwhile.
    ///
    /// # Errors
    /// When `file` has no backup, or another one than is required; when there is too little room
    /// for it; and without `force`, when the data could be lost
    /// ([`VolumeError::BackupDoesNotFit`]).
    pub fn plan(file: &Input, target: &'a Path, force: bool, context: &Context) -> Result<Self> {
        check_not_needed(target, &[("the backup", Some(file.path()))])?;
        let backup = read(file, HeaderBackup::read)?;
        context.policy.check(backup.header(), &file.name())?;
        let present = Input::open(target, Role::Metadata)?;
        let replaced = {
            let _lock = lock_to_read(&present)?;
            let storage = present.as_storage().ok_or_else(|| no_storage(&present))?;
            Replaced::look(&backup, target, storage)?
        };
        let plan = Self {
            backup,
            target,
            replaced,
            force,
        };
        plan.check()?;
        Ok(plan)
    }

    /// What will be lost, for somebody who is asked whether to go on.
    #[must_use]
    pub fn warning(&self) -> String {
        self.replaced.warning(self.target)
    }

    /// Whether the data could be lost.
    #[must_use]
    pub fn is_serious(&self) -> bool {
        self.replaced.is_serious()
    }

    /// Puts the backup in its place, and returns when it is durable.
    ///
    /// # Errors
    /// When the target is in use or cannot be locked, when it has changed since it was looked at,
    /// and when it cannot be written.
    pub fn write(self, context: &Context) -> Result<()> {
        let name = path_name(self.target);
        let input = Input::open(self.target, Role::Change)?;
        let change = begin_change(&input, context.disable_locks)?;
        // A program that has the data open would go on as the present header says.
        let mut misfits = self.replaced.misfits.iter();
        let is_replaced = misfits.any(|misfit| misfit.is_serious() || is_no_header(misfit));
        let _exclusive = is_replaced.then(|| exclusive(&change)).transpose()?;
        // Under that name there may be something else by now.
        let replaced = Replaced::look(&self.backup, self.target, change.storage())?;
        if (replaced.len, replaced.warning(self.target)) != (self.replaced.len, self.warning()) {
            let message = format!("{name} has changed since it was checked; nothing was written");
            return Err(Error::failure(message).hint("Run the command again."));
        }
        let force = self.force || replaced.is_empty();
        let restored = self.backup.restore(change.storage(), force);
        restored.map_err(|error| match &error {
            RestoreError::Io { source } => Error::io(format!("cannot write {name}"), source)
                .hint("A part of the header may have been written. Restore it again."),
            _ => Error::failure(format!("{name}: {error}")),
        })
    }

    /// An empty file grows: it is the place of a detached header. Nothing else does, with `force`
    /// neither.
    fn check(&self) -> Result<()> {
        let (name, len) = (path_name(self.target), self.replaced.len);
        let needed = self.backup.header().metadata_len();
        if !self.replaced.is_empty() && len < needed {
            let message =
                format!("the backup does not fit {name}, which has {len} bytes: it needs {needed}");
            return Err(Error::failure(message).hint("For a detached header, name an empty file."));
        }
        if self.force || !self.is_serious() {
            return Ok(());
        }
        Err(VolumeError::BackupDoesNotFit {
            name,
            reasons: self.replaced.serious().map(Misfit::to_string).collect(),
            loss: self.replaced.loss(),
        }
        .into())
    }
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

fn is_no_header(misfit: &Misfit) -> bool {
    matches!(
        misfit,
        Misfit::NoHeader { .. } | Misfit::Unsupported { .. } | Misfit::Version { .. }
    )
}

/// What a backup is to replace.
struct Replaced {
    len: u64,
    misfits: Vec<Misfit>,
    /// What is lost, in words.
    present: Vec<String>,
}

impl Replaced {
    /// Looks at the target, under its lock.
    fn look(backup: &HeaderBackup, target: &Path, storage: &dyn Storage) -> Result<Self> {
        let len = storage
            .len()
            .map_err(|error| Error::io(format!("cannot read {}", path_name(target)), &error))?;
        let found = VolumeHeader::read(storage);
        let present = match &found {
            Ok(header) => vec![in_words(header)],
            Err(_) => recognised(storage),
        };
        Ok(Self {
            len,
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

    /// What is destroyed, as a sentence.
    fn loss(&self) -> String {
        match self.present.as_slice() {
            [] => "No known format was found there".into(),
            present => format!("It would destroy {}", present.join(" and ")),
        }
    }

    fn warning(&self, target: &Path) -> String {
        let name = path_name(target);
        let mut text = if self.misfits.iter().any(is_no_header) {
            format!("What is at the beginning of {name} will be lost.")
        } else {
            format!("The header and all keyslots of {name} will be replaced.")
        };
        for misfit in &self.misfits {
            text += &format!("\n  {misfit}");
        }
        for present in &self.present {
            text += &format!("\n  it would destroy {present}");
        }
        text
    }
}

/// The volume that `header` is of: version, UUID and label.
fn in_words(header: &VolumeHeader) -> String {
    let label = match header.label() {
        "" => String::new(),
        label => format!(" and the label {}", Escaped(label)),
    };
    format!(
        "a {} volume with the UUID {}{label}",
        header.version(),
        Escaped(header.uuid())
    )
}
