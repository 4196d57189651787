// SPDX-License-Identifier: MIT OR Apache-2.0
//! Backs up, restores and repairs headers.

use std::{
    io::{self, Write},
    path::Path,
};

use luxor_files::{
    Escaped, Input, Needed, OutputOptions, Role, VolumePlace, check_not_needed, lock_to_read,
    path_name, recognised,
};
use luxor_luks::{
    BackupError, HashAlgorithm, HeaderBackup, HeaderDigest, HeaderRepair, HeaderRepairError,
    Misfit, Overwrite, Repaired, RestoreError, VolumeHeader,
};
use luxor_sector::Storage;
use luxor_volume::Header;

use crate::{
    Context, EditError, Error, OpenError, Result, create_output,
    error::Cause,
    header_room::{interrupted_encryption, lacks_keyslots},
    luks_volume::{begin_change, exclusive},
    metadata::unreadable,
    output::no_storage,
};

/// Copies the metadata and all keyslots of `volume`, or of a detached header, into a new file with
/// mode 0400, and returns its length in bytes. With `force` an existing file is replaced. `file`
/// must not be one of the `needed` files.
///
/// # Errors
/// Fails when `volume` is neither a file nor a block device or has no valid metadata, when the
/// policy of `context` refuses them, and when `file` is one of the `needed` files, exists without
/// `force`, or cannot be written.
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
    back_up(volume, file, &options, context)
}

/// As [`back_up_header`], with any options for the file.
pub(crate) fn back_up(
    volume: &Input,
    file: &Path,
    options: &OutputOptions<'_>,
    context: &Context,
) -> Result<u64> {
    let mut output = create_output(file, options, context)?;
    let backup = read(volume, HeaderBackup::take, context)?;
    if volume.as_storage().is_some_and(lacks_keyslots) {
        let (name, reduce_by) = (volume.name(), None);
        return Err(OpenError::EncryptionInterrupted { name, reduce_by }.into());
    }
    context.policy.check(backup.header(), &volume.name())?;
    for warning in Header::warnings(backup.header()) {
        let text = format!("{}: {}", volume.name(), warning.text);
        context.events.header_warning(&text, warning.remedy);
    }
    let len = backup.bytes().len() as u64;
    output.begin(0, Some(len))?;
    let _lock = output.lock_metadata()?;
    context.check_cancelled()?;
    output
        .write_all(backup.bytes())
        .map_err(|error| Error::io(format!("cannot write {}", output.name()), &error))?;
    output.finish()?;
    Ok(len)
}

/// Repairs the metadata of the volume or detached header at `target`, without a secret. Metadata
/// that are intact stay unchanged.
///
/// # Errors
/// Fails when the original metadata cannot be determined, when something else is in their place
/// that `overwrite` does not permit to be destroyed, and when they cannot be locked or written.
pub fn repair_header<'a>(
    target: impl Into<VolumePlace<'a>>,
    overwrite: Overwrite,
    context: &Context,
) -> Result<Repaired> {
    let target = target.into();
    let name = path_name(target.path);
    let input = Input::open(target, Role::Change)?;
    let change = begin_change(&input, context)?;
    let plan = HeaderRepair::plan(change.storage(), overwrite).map_err(|error| match error {
        HeaderRepairError::Unreadable(source)
            if source.is_not_luks() || interrupted_encryption(change.storage()).is_some() =>
        {
            let part = input.part_begin();
            unreadable(source.into(), change.storage(), part, &input.name())
        }
        error => error.about(&name),
    })?;
    context.policy.check(&plan.header(), &name)?;
    let repaired = plan.write(change.storage());
    repaired.map_err(|source| {
        if source.may_have_written() {
            EditError::HalfRepaired { name, source }.into()
        } else {
            source.about(&name)
        }
    })
}

/// A header backup that has been compared with its target; nothing is written yet. Show
/// [`HeaderRestore::warning`] to the user, then call [`HeaderRestore::write`].
pub struct HeaderRestore<'a> {
    backup: HeaderBackup,
    /// The name of the file with the backup.
    file: String,
    target: VolumePlace<'a>,
    replaced: Replaced,
    force: bool,
}

impl<'a> HeaderRestore<'a> {
    /// Compares the backup in `file` with the beginning of `target`: a volume, or an empty file for
    /// a detached header. Other programs may continue to use `target`.
    ///
    /// # Errors
    /// Fails when `file` contains no backup or the policy of `context` refuses it, and when
    /// `target` is too short. Without `force` also fails with [`EditError::BackupDoesNotFit`]
    /// when data could be lost, and with [`EditError::HeaderLost`] when only a user knows whether
    /// `target` was the volume of the backup.
    pub fn plan(
        file: &Input,
        target: impl Into<VolumePlace<'a>>,
        force: bool,
        context: &Context,
    ) -> Result<Self> {
        let target = target.into();
        check_not_needed(target.path, &[("the backup", Some(file.path()))])?;
        let backup = read(file, HeaderBackup::read, context)?;
        context.policy.check(backup.header(), &file.name())?;
        let present = Input::open(target, Role::Metadata)?;
        let replaced = {
            let _lock = lock_to_read(&present, &context.cancel)?;
            let storage = present.as_storage().ok_or_else(|| no_storage(&present))?;
            Replaced::look(&backup, target.path, storage)?
        };
        let plan = Self {
            backup,
            file: file.name(),
            target,
            replaced,
            force,
        };
        plan.check()?;
        Ok(plan)
    }

    /// Returns what will be lost, in one or more lines, for the question to the user.
    #[must_use]
    pub fn warning(&self) -> String {
        if self.replaced.is_lost_header() && !self.may_be_data() {
            return format!("{}.", self.header_lost());
        }
        if self.is_serious() {
            return self.replaced.warning(self.target.path);
        }
        let mut text = format!(
            "The header and all keyslots of {} will be replaced by those of the backup {}, which is of {}.",
            path_name(self.target.path),
            self.file,
            self.volume()
        );
        for misfit in &self.replaced.misfits {
            text += &format!("\n  {misfit}");
        }
        text
    }

    /// The volume of the backup in words: its version, UUID, label and number of keyslots.
    #[must_use]
    pub fn volume(&self) -> String {
        let header = self.backup.header();
        let keyslots = match header.keyslot_numbers().len() {
            1 => "1 keyslot".to_owned(),
            count => format!("{count} keyslots"),
        };
        format!("{}, with {keyslots}", in_words(header))
    }

    fn header_lost(&self) -> EditError {
        EditError::HeaderLost {
            name: path_name(self.target.path),
            backup: self.volume(),
            len: self.backup.header().metadata_len(),
        }
    }

    /// Whether the target may be the data of a detached header: it is longer than a file with that alone,
    /// which is whole MiB.
    fn may_be_data(&self) -> bool {
        let header = self.backup.header();
        let len = header.metadata_len();
        header.describe().data_offset < len
            && self.replaced.len > len.next_multiple_of(1 << 20)
            && self.replaced.has_no_header()
    }

    /// Whether data could be lost: [`HeaderRestore::plan`] then requires `force`.
    #[must_use]
    pub fn is_serious(&self) -> bool {
        self.replaced.is_serious()
    }

    /// Writes the backup to the target, and returns when it is durable.
    ///
    /// # Errors
    /// Fails when the target is in use, cannot be locked or cannot be written, and when it has
    /// changed since [`HeaderRestore::plan`].
    pub fn write(self, context: &Context) -> Result<()> {
        let name = path_name(self.target.path);
        let input = Input::open(self.target, Role::Change)?;
        let change = begin_change(&input, context)?;
        // A program that has the data open would continue with the header that is replaced here.
        let mut misfits = self.replaced.misfits.iter();
        let is_replaced = misfits.any(|misfit| misfit.is_serious() || is_no_header(misfit));
        let _exclusive = is_replaced.then(|| exclusive(&change)).transpose()?;
        // While the user was asked, another program may have added a key.
        let replaced = Replaced::look(&self.backup, self.target.path, change.storage())?;
        if !replaced.is_same(&self.replaced, self.target.path) {
            return Err(EditError::TargetChanged { name }.into());
        }
        let force = self.force || replaced.is_empty();
        let restored = self.backup.restore(change.storage(), force);
        restored.map_err(|error| match error {
            RestoreError::Io { source } => EditError::HalfRestored { name, source }.into(),
            error => error.about(&name),
        })
    }

    /// Only an empty file may grow, because it becomes a detached header. Any other target must be
    /// long enough, even with `force`.
    fn check(&self) -> Result<()> {
        let (name, len) = (path_name(self.target.path), self.replaced.len);
        let needed = self.backup.header().metadata_len();
        if !self.replaced.is_empty() && len < needed {
            return Err(EditError::NoRoomForBackup { name, len, needed }.into());
        }
        if self.force || !self.is_serious() {
            return Ok(());
        }
        if self.replaced.is_lost_header() && !self.may_be_data() {
            return Err(self.header_lost().into());
        }
        if self.may_be_data() {
            let file = self.file.clone();
            let (backup, len) = (self.volume(), needed);
            return Err(EditError::BackupOfDetachedHeader {
                name,
                file,
                backup,
                len,
            }
            .into());
        }
        Err(EditError::BackupDoesNotFit {
            name,
            reasons: self.replaced.serious().map(Misfit::to_string).collect(),
            loss: self.replaced.loss(),
        }
        .into())
    }
}

/// Runs `read` on the metadata while they are locked against changes.
fn read(
    input: &Input,
    read: impl Fn(&dyn Storage) -> Result<HeaderBackup, BackupError>,
    context: &Context,
) -> Result<HeaderBackup> {
    let _lock = lock_to_read(input, &context.cancel)?;
    let storage = input.as_storage().ok_or_else(|| no_storage(input))?;
    let name = input.name();
    read(storage).map_err(|error| match error {
        BackupError::Header(source) => {
            unreadable(source.into(), storage, input.part_begin(), &name)
        }
        error => error.about(&name),
    })
}

fn is_no_header(misfit: &Misfit) -> bool {
    matches!(
        misfit,
        Misfit::NoHeader { .. } | Misfit::Unsupported { .. } | Misfit::Version { .. }
    )
}

/// The contents of the target that a backup will replace.
struct Replaced {
    len: u64,
    /// A hash of the bytes that the backup replaces ([`chained_hash`]). They include all keyslots of a volume that
    /// the backup fits.
    contents: [u8; 64],
    /// The digest of the header, which may also lie elsewhere.
    header: Option<HeaderDigest>,
    misfits: Vec<Misfit>,
    /// What will be lost, in words.
    present: Vec<String>,
}

impl Replaced {
    /// Examines the target. The caller holds its lock.
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
            contents: chained_hash(storage, len.min(backup.header().metadata_len()))
                .map_err(|error| Error::io(format!("cannot read {}", path_name(target)), &error))?,
            header: found.as_ref().ok().map(VolumeHeader::digest),
            misfits: backup.misfits(found.as_ref()),
            present,
        })
    }

    /// Whether the target has the same contents as when it was examined before, as far as the backup
    /// replaces them. The path may name another file by now.
    fn is_same(&self, before: &Self, target: &Path) -> bool {
        self.len == before.len
            && self.contents == before.contents
            && self.header == before.header
            && self.warning(target) == before.warning(target)
    }

    /// Whether the target is empty, so that nothing can be lost.
    fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The differences that require `force`.
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

    fn has_no_header(&self) -> bool {
        let mut misfits = self.misfits.iter();
        misfits.any(|misfit| matches!(misfit, Misfit::NoHeader { .. }))
    }

    /// Whether a lost header is all that speaks against the backup: nothing known is in its place.
    fn is_lost_header(&self) -> bool {
        let mut serious = self.serious();
        let is_lost = matches!(serious.next(), Some(Misfit::NoHeader { .. }));
        is_lost && serious.next().is_none() && self.present.is_empty()
    }

    /// Returns a sentence that says what will be destroyed.
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

/// Returns a hash of the first `len` bytes of `storage`: the SHA-256 of the hash of the pieces before
/// and of the last piece.
fn chained_hash(storage: &dyn Storage, len: u64) -> io::Result<[u8; 64]> {
    const PIECE: usize = 1 << 20;
    let mut piece = vec![0; PIECE];
    let mut hash = [0; 64];
    for offset in (0..len).step_by(PIECE) {
        let there = usize::try_from(len - offset).map_or(PIECE, |left| left.min(PIECE));
        let piece = &mut piece[..there];
        storage.read_exact_at(piece, offset)?;
        let before = hash;
        HashAlgorithm::Sha256.digest_into(&[&before, piece], &mut hash);
    }
    Ok(hash)
}

/// Describes a volume by the version, UUID and label in its header.
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
