// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the user can do about an error, in the words of the command line. The libraries speak of volumes,
//! files and values, and never of options or commands: this is the place that knows them.

mod contents;

pub(crate) use self::contents::before_encryption;

use std::{error, io, path::Path};

use luxor::{
    CreateError, EditError, Error, FrontOfData, OpenError, PlainError, PossibleLen, ReencryptError,
    ResizeError,
    engine::SelectError,
    engines::CalibrationError,
    files::{
        DataFile, DataFileError, InputError, NotLocked, OutputError, VolumePartError,
        locks::{Access, LockError},
        path_name,
    },
    luks::{
        ChangeError, ConvertError, CostError, HeaderRepairError, Luks1RepairError, NewKeyslotError,
        NewVolumeError, ReencryptionError, SegmentError, UnlockError,
    },
    sector::{RawError, rewrite::RewriteError},
    volume::{HeaderError, HeaderErrorKind, Remedy, RepairOutlook},
};

use crate::subject;

pub(crate) const BACKUP_HELPS: &str =
    "If you have a backup of the header, restore it: `luxor header restore --force VOLUME BACKUP`.";

/// Saves data whose end is missing.
const SAVES: &str =
    "`luxor decrypt --truncated VOLUME NEW-FILE` saves the whole sectors that are left.";

/// Finishes a zone within which a re-encryption was interrupted.
const FINISH: &str =
    "Unless another program is re-encrypting it now, finish it: `luxor reencrypt VOLUME`.";

/// Makes a trailer valid again that another UUID has made invalid.
const RESTORE_UUID: &str = "If its UUID was changed, this sets the old one back: `luxor config --force \
                            --uuid OLD-UUID VOLUME`.";

/// Overwrites the signature of another format.
const KEEP_LUKS: &str =
    "To keep the LUKS volume, overwrite that with `luxor header repair --force VOLUME`.";

/// Makes two copies of a header equal that differ.
const MAKE_EQUAL: &str = "If the volume opens as you expect, `luxor header repair --force VOLUME` makes the \
                          secondary copy equal to the primary one, which is in use.";

/// For a volume that cannot be changed in place.
const AGAIN: &str = "Decrypt it, and encrypt the file again.";

/// Returns advice about `error`, or about the first of its sources that has some.
pub(crate) fn of(error: &Error) -> Option<String> {
    let mut cause = error::Error::source(error);
    while let Some(error) = cause {
        if let Some(advice) = of_cause(error) {
            return Some(advice);
        }
        cause = error.source();
    }
    None
}

fn of_cause(error: &(dyn error::Error + 'static)) -> Option<String> {
    let of_change = || change(change_in(error)?);
    error
        .downcast_ref()
        .and_then(open)
        .or_else(|| error.downcast_ref().and_then(create))
        .or_else(|| error.downcast_ref().and_then(edit))
        .or_else(|| error.downcast_ref().and_then(resize))
        .or_else(|| error.downcast_ref().and_then(reencrypt))
        .or_else(of_change)
        .or_else(|| error.downcast_ref().and_then(plain))
        .or_else(|| error.downcast_ref().and_then(not_locked))
        .or_else(|| error.downcast_ref().and_then(data_file))
        .or_else(|| error.downcast_ref().and_then(convert))
        .or_else(|| error.downcast_ref().and_then(unlock))
        .or_else(|| error.downcast_ref().and_then(raw))
        .or_else(|| other(error))
}

fn open(error: &OpenError) -> Option<String> {
    Some(match error {
        OpenError::DetachedHeader { .. } => {
            "Name that file as the volume, and this one as --header.".to_owned()
        }
        // `header restore` has one option for the part, and that is about the target.
        OpenError::HeaderOnly { .. } if !subject::is_a_whole_file() => {
            "If it is a backup, copy it to a file of its own. Then name the volume, and that file as \
             --header; or restore it from there."
                .to_owned()
        }
        OpenError::HeaderOnly { .. } => {
            "If it is a backup, name the volume, and this file as --header; or restore it: `luxor \
             header restore TARGET VOLUME`."
                .to_owned()
        }
        OpenError::NotAVolume { name, contents } => return contents::for_contents(name, contents),
        // No command changes what came through a pipe.
        OpenError::Unreadable { .. } if subject::is_stream() => return None,
        OpenError::Unreadable {
            name,
            source,
            repair,
        } => return for_damage(name, source, *repair),
        OpenError::CutOff { .. }
        | OpenError::FileCutOff { .. }
        | OpenError::EndsEarly { .. }
        | OpenError::TrailerInReencryption
        | OpenError::NoTrailer {
            is_stream: true, ..
        } => SAVES.to_owned(),
        OpenError::NoTrailer { .. } => format!("{SAVES} {RESTORE_UUID}"),
        OpenError::TrailerNotLast => {
            "`luxor decrypt VOLUME NEW-FILE` looks for it in all sectors.".to_owned()
        }
        OpenError::SeveralPartsInStream => "Name a file or a block device.".to_owned(),
        OpenError::Changed { .. } => {
            "Run the command again when no other program changes the volume.".to_owned()
        }
        OpenError::Reencrypting { .. } => {
            "Use --read-only, or finish it: `luxor reencrypt VOLUME`. If it gives the volume a new key, \
             --reencrypt=begun continues it meanwhile."
                .to_owned()
        }
        OpenError::EncryptionPrepared { reduce_by, .. } => format!(
            "This begins it again: `luxor reencrypt --encrypt --reduce-device-size {reduce_by} VOLUME`."
        ),
        OpenError::EncryptionInterrupted {
            reduce_by: None, ..
        } => "This continues it: `luxor reencrypt VOLUME`.".to_owned(),
        OpenError::EncryptionInterrupted {
            reduce_by: Some(reduce_by),
            ..
        } => format!(
            "Only this continues it: `luxor reencrypt --encrypt --reduce-device-size {reduce_by} VOLUME`."
        ),
        OpenError::Disk { direct: true, .. } => "It may work without --direct.".to_owned(),
        _ => return None,
    })
}

fn create(error: &CreateError) -> Option<String> {
    Some(match error {
        CreateError::DoesNotFit { .. } => {
            "Use --type luks2, which can store any length.".to_owned()
        }
        CreateError::UnknownSize { .. } => "To create a new file, add --size SIZE.".to_owned(),
        CreateError::PartSector {
            possible: Some(PossibleLen::File(len)),
            ..
        } => format!("`truncate --size {len} VOLUME` gives it a possible length."),
        CreateError::PartSector {
            possible: Some(PossibleLen::Plaintext(len)),
            ..
        } => format!("A size of {len} bytes is possible."),
        _ => return None,
    })
}

fn edit(error: &EditError) -> Option<String> {
    Some(match error {
        EditError::KeyslotInUse { .. } => {
            "Name another keyslot with --new-key-slot N, or use `luxor key change VOLUME`.".to_owned()
        }
        EditError::LastKeyslot { .. } => "To remove it nevertheless, add --last.".to_owned(),
        EditError::EndOfFile { .. } => {
            "To lose the end of the file nevertheless, add --force.".to_owned()
        }
        EditError::UuidOfTrailer { .. } => {
            "Decrypt the volume, and encrypt it again with --uuid UUID. If this is the UUID with which \
             it was made, add --force."
                .to_owned()
        }
        EditError::BackupDoesNotFit { .. } => {
            "--force restores it nevertheless; the data may then be lost.".to_owned()
        }
        EditError::HeaderLost { .. } => "If it was this volume, add --force.".to_owned(),
        EditError::BackupOfDetachedHeader { file, .. } => {
            let file = luxor::files::shell_word(Path::new(file));
            format!(
                "To open the data, give the backup as their header: --header {file}. --force writes it \
                 nevertheless."
            )
        }
        EditError::NoRoomForBackup { .. } => {
            "For a detached header, name an empty file.".to_owned()
        }
        EditError::TargetChanged { .. } => "Run the command again.".to_owned(),
        EditError::HalfRepaired { .. } => {
            "Some of the header may be repaired. Run the command again when writing works.".to_owned()
        }
        EditError::HalfRestored { .. } => {
            "The header may be the old one still, or that of the backup already. Restore it again when \
             writing works."
                .to_owned()
        }
        _ => return None,
    })
}

fn resize(error: &ResizeError) -> Option<String> {
    let shorten = |length: u64, left: u64| {
        let lost = length - left;
        format!("To lose the other {lost} bytes, add --shrink --size {left}.")
    };
    Some(match *error {
        ResizeError::CutOff {
            file: Some((length, left)),
            ..
        }
        | ResizeError::FileCutOff { length, left } => shorten(length, left),
        ResizeError::CutOff { .. } => {
            "--shrink makes the volume as long as what is left of it.".to_owned()
        }
        ResizeError::Trailer => AGAIN.to_owned(),
        ResizeError::LosesData { .. } => "--shrink makes it shorter nevertheless.".to_owned(),
        ResizeError::LosesRest { .. } => "--shrink makes the file shorter nevertheless.".to_owned(),
        ResizeError::Grows => "Leave out --shrink.".to_owned(),
        _ => return None,
    })
}

fn reencrypt(error: &ReencryptError) -> Option<String> {
    const DECRYPTS: &str = "`luxor reencrypt --decrypt VOLUME`";
    Some(match error {
        ReencryptError::OnlyLuks2 => {
            "Convert it first: `luxor convert --type luks2 VOLUME`.".to_owned()
        }
        ReencryptError::NoHeaderFile | ReencryptError::OtherHeader { .. } => {
            "--header FILE names a new file for a copy of the header.".to_owned()
        }
        ReencryptError::AlreadyLuks {
            is_reencrypting: true,
        } => "This continues it: `luxor reencrypt --resume-only VOLUME`.".to_owned(),
        ReencryptError::OnlyOffline { .. }
        | ReencryptError::NoTrailerInUse
        | ReencryptError::UnprotectedInUse => {
            "`luxor reencrypt VOLUME` continues this.".to_owned()
        }
        ReencryptError::Unfinished => "Finish it first: `luxor reencrypt VOLUME`.".to_owned(),
        ReencryptError::KeyslotsChosen => "Leave out --key-slot.".to_owned(),
        // No key authenticates the length, so this is not a command.
        ReencryptError::Decrypted {
            longer: Some((length, name)),
        } => format!(
            "The header says that the file has {length} bytes. Without a key this cannot be checked, and \
             {name} may be another file: nothing was cut off. If you know the length to be right, cut the \
             file off there."
        ),
        ReencryptError::NotCutOff { .. } => {
            "Without a key this cannot be checked, and it may be another file: nothing was cut off. If \
             you know the end to be right, cut the file off there, and run the command again."
                .to_owned()
        }
        ReencryptError::FirstIv { .. } => AGAIN.to_owned(),
        ReencryptError::NoTrailer => format!("{AGAIN} {RESTORE_UUID}"),
        ReencryptError::DataAfter { .. } => {
            "`luxor resize --shrink VOLUME` cuts that off.".to_owned()
        }
        ReencryptError::Trailer => {
            "This writes the data to a new file: `luxor decrypt VOLUME NEW-FILE`".to_owned()
        }
        ReencryptError::PlainPartSector {
            padded: Some(padded),
            ..
        }
        | ReencryptError::ReducedPartSector {
            padded: Some(padded),
            ..
        }
        | ReencryptError::ShorterThanHeader {
            padded: Some(padded),
            ..
        } => format!(
            "`truncate --size {padded} VOLUME` adds zeros, which become a part of the data. `luxor encrypt` \
             makes a new file, which keeps the exact length."
        ),
        ReencryptError::NotFree { reduced } => format!(
            "Make it longer first (for a file: `truncate --size +{reduced} VOLUME`). If nothing there is \
             needed, permit it with --force. An interrupted attempt leaves something there too."
        ),
        ReencryptError::HalfWritten { .. } => {
            "If --encrypt was interrupted, the same command continues, with the same \
             --reduce-device-size and while the file has the same length."
                .to_owned()
        }
        ReencryptError::EachKeyslot { .. } => {
            "The secret of each keyslot is needed, because all are kept. `luxor reencrypt --key-slot N \
             VOLUME` keeps keyslot N and removes the others."
                .to_owned()
        }
        ReencryptError::Part { .. } | ReencryptError::PartMoves => "Leave out --device-size.".to_owned(),
        ReencryptError::ShortZone { unit } => format!("Give --hotzone-size at least {unit}."),
        ReencryptError::Memory { .. } => "A smaller --hotzone-size needs less.".to_owned(),
        ReencryptError::HasBegun => "This continues it: `luxor reencrypt VOLUME`.".to_owned(),
        ReencryptError::BegunWithOther { .. } => {
            "It is kept as it has begun: `luxor reencrypt VOLUME` continues it.".to_owned()
        }
        ReencryptError::MovingOverHeader { header, .. } => format!(
            "The same command continues. Until then the volume may open only with --header {header}."
        ),
        ReencryptError::BeginningWithJournal { .. } => {
            "--resilience checksum needs less room than a journal.".to_owned()
        }
        ReencryptError::ZoneInUse { first, last, .. } => format!(
            "Requests for bytes {first} to {last} fail until the next start, which continues."
        ),
        ReencryptError::Front { front } => match front {
            FrontOfData::Original { .. } => {
                format!("Without --header its own is used. {DECRYPTS} decrypts it.")
            }
            FrontOfData::DamagedOriginal { .. } => {
                format!("If a decryption was interrupted, {DECRYPTS} continues it.")
            }
            FrontOfData::Other => "Without --header that one is used.".to_owned(),
            FrontOfData::Decryption { .. } => format!("{DECRYPTS} continues it."),
            _ => return None,
        },
        ReencryptError::WholeDisk { .. } => {
            "If the data are in a partition, or begin at another byte, add --volume-partition N or \
             --volume-offset SIZE. To change the whole disk, give --force to `luxor reencrypt`."
                .to_owned()
        }
        ReencryptError::LockIsRoots => "Run the command as root.".to_owned(),
        _ => return None,
    })
}

/// Returns the failed change of a header, if `error` is that or prints it as its own text.
fn change_in<'a>(error: &'a (dyn error::Error + 'static)) -> Option<&'a ChangeError> {
    if let Some(ConvertError::Change(error)) = error.downcast_ref() {
        return Some(error);
    }
    if let Some(HeaderRepairError::Luks1(Luks1RepairError::Change(error))) = error.downcast_ref() {
        return Some(error);
    }
    error.downcast_ref()
}

fn change(error: &ChangeError) -> Option<String> {
    const MAKE_AGAIN: &str = "check the volume (`luxor dump VOLUME`, `luxor key test VOLUME`) and make the change again.";
    Some(match error {
        ChangeError::WrittenOver => format!("When that program has ended, {MAKE_AGAIN}"),
        ChangeError::Unsettled { .. } => format!("When writing works again, {MAKE_AGAIN}"),
        ChangeError::Unfinished { .. } => {
            "`luxor header repair VOLUME` makes both copies of the header equal again.".to_owned()
        }
        ChangeError::ForeignSignature { .. } => KEEP_LUKS.to_owned(),
        ChangeError::ReadCopy { .. } => {
            "If that persists, `luxor header repair --force VOLUME` rewrites it from the other copy, which \
             may be older."
                .to_owned()
        }
        ChangeError::CopiesDiffer { .. } => MAKE_EQUAL.to_owned(),
        ChangeError::OlderIsIntact { .. } => {
            "cryptsetup may use the older copy. Keep both: `luxor header backup VOLUME NEW-FILE`. Then \
             `luxor header repair --force VOLUME` writes the newer copy over the older one."
                .to_owned()
        }
        ChangeError::Reencrypting => "Finish it first: `luxor reencrypt VOLUME`.".to_owned(),
        ChangeError::NoRoomBeside { .. } => {
            "To overwrite it with the new one, make a backup of the header, because a crash in between \
             loses the keyslot: `luxor header backup VOLUME NEW-FILE`. Then add to `luxor key change` or \
             `luxor key convert`: --in-place --last (--last only for the last keyslot)."
                .to_owned()
        }
        _ => return None,
    })
}

fn not_locked(error: &NotLocked) -> Option<String> {
    Some(match &error.source {
        LockError::UnderLoop { device } => format!("Name {device} instead."),
        LockError::BesideLoop { device } => {
            format!("Detach one of the two first: `losetup --detach {device}`.")
        }
        LockError::Held(_) => {
            "Run the command again when that program has ended; lslocks lists it.".to_owned()
        }
        LockError::Missing { file: None, .. } => {
            "Without a lock, two changes at the same time can lose keys. Add --disable-locks if no \
             other program changes the volume."
                .to_owned()
        }
        LockError::Missing { .. } => {
            "Without the lock, two changes at the same time can lose keys. Run the command as root, or \
             add --disable-locks if no other program changes the volume."
                .to_owned()
        }
        _ => return None,
    })
}

/// About the values of a plain volume.
fn plain(error: &PlainError) -> Option<String> {
    match error {
        PlainError::PartSector { sector_size, .. } => Some(format!(
            "The unit is 512 bytes: give a multiple of {}.",
            sector_size.units()
        )),
        PlainError::Rest { .. } => {
            let size = error.whole_units()?;
            Some(format!("To leave the rest out, add --size {size}."))
        }
        _ => None,
    }
}

fn data_file(error: &DataFileError) -> Option<String> {
    match error {
        DataFileError::Part { source, .. } => part(source),
        DataFileError::InUse { path, .. }
        | DataFileError::Locked {
            path,
            access: Access::Write,
        } if can_be_read(path) => {
            Some("--read-only allows other readers at the same time.".to_owned())
        }
        DataFileError::Open {
            path,
            access: Access::Write,
            source,
        } if can_be_read(path)
            && matches!(
                source.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            Some("--read-only needs no permission to write.".to_owned())
        }
        _ => None,
    }
}

/// About a file or device that has no such part.
fn part(error: &VolumePartError) -> Option<String> {
    match error {
        VolumePartError::HasDevice { device } => Some(format!("Name {device} instead.")),
        VolumePartError::NoTable | VolumePartError::NoPartition { .. }
            if subject::has_partitions_within() =>
        {
            let advice = "For a partition table in the volume, give --files --partition N in place of \
                          --volume-partition.";
            Some(advice.to_owned())
        }
        VolumePartError::CutOff { .. } => Some(
            "--volume-offset SIZE opens the part that is there, if you name the byte at which the \
             partition begins."
                .to_owned(),
        ),
        _ => None,
    }
}

fn unlock(error: &UnlockError) -> Option<String> {
    match error {
        UnlockError::Segment(SegmentError::HotZone { .. }) => return Some(FINISH.to_owned()),
        UnlockError::Reencryption(ReencryptionError::NoDigest) => {
            return Some("If you trust it, `cryptsetup repair VOLUME` adds a digest.".to_owned());
        }
        _ => {}
    }
    if let Some(number) = error.ignored().first() {
        return Some(if subject::can_choose_keyslot() {
            format!("To try keyslot {number} too, add --key-slot {number}.")
        } else {
            format!(
                "`luxor config --priority normal --key-slot {number} VOLUME` lets keyslot {number} be tried."
            )
        });
    }
    if let UnlockError::VolumeKey { .. } = error {
        return Some("To read the data all the same, use --allow-weak-key.".to_owned());
    }
    Some(match error.limit()? {
        CostError::Memory { kib, .. } => {
            format!("If you trust the volume, allow it with --pbkdf-memory-limit {kib}.")
        }
        CostError::Passes { time, .. } => {
            format!("If you trust the volume, allow it with --pbkdf-iterations-limit {time}.")
        }
        CostError::Iterations { iterations, .. } => {
            format!("If you trust the volume, allow it with --pbkdf-iterations-limit {iterations}.")
        }
        _ => "Try one keyslot alone with --key-slot N, or, if you trust the volume, raise the limit with \
              --pbkdf-iterations-limit."
            .to_owned(),
    })
}

fn convert(error: &ConvertError) -> Option<String> {
    Some(match error {
        ConvertError::Loses { .. } => "--force drops it.".to_owned(),
        ConvertError::Damaged => "Run `luxor header repair VOLUME`.".to_owned(),
        ConvertError::Pbkdf { keyslot, .. } => format!(
            "Convert the keyslot first: `luxor key convert --pbkdf pbkdf2 --key-slot {keyslot} VOLUME`."
        ),
        ConvertError::Unfinished { now: None, .. } => {
            "When reading works again, check the volume: `luxor dump VOLUME`.".to_owned()
        }
        ConvertError::Unfinished {
            from,
            now: Some(now),
            is_damaged,
            ..
        } => match (is_damaged, now != from) {
            (true, true) => {
                "When writing works again, `luxor header repair VOLUME` repairs its header.".to_owned()
            }
            (true, false) => {
                "When writing works again, repair its header (`luxor header repair VOLUME`) and convert it \
                 again."
                    .to_owned()
            }
            (false, false) => "When writing works again, convert it again.".to_owned(),
            (false, true) => return None,
        },
        _ => return None,
    })
}

fn raw(error: &RawError) -> Option<String> {
    Some(match error {
        RawError::UnitTooLong => "Divide it into data units with --data-unit.".to_owned(),
        RawError::NoMessages { .. } => "Choose another engine with --engine.".to_owned(),
        _ => return None,
    })
}

/// Whether a new keyslot asks for more memory than there is.
fn is_out_of_memory(error: &(dyn error::Error + 'static)) -> bool {
    let volume = error.downcast_ref::<NewVolumeError>();
    let keyslot = error.downcast_ref::<NewKeyslotError>();
    volume.is_some_and(NewVolumeError::is_out_of_memory)
        || keyslot.is_some_and(NewKeyslotError::is_out_of_memory)
}

fn other(error: &(dyn error::Error + 'static)) -> Option<String> {
    if let Some(InputError::Part { source, .. }) = error.downcast_ref() {
        return part(source);
    }
    if let Some(error) = error.downcast_ref::<HeaderRepairError>() {
        if let HeaderRepairError::Luks1(Luks1RepairError::ForeignSignature { .. }) = error {
            return Some(KEEP_LUKS.to_owned());
        }
        return for_defect(error.outlook(), error.wants_backup());
    }
    let is_hot_zone = |error: &SegmentError| matches!(error, SegmentError::HotZone { .. });
    let advice = if error.downcast_ref().is_some_and(is_hot_zone) {
        FINISH
    } else if let Some(RewriteError::NoChecksum { .. }) = error.downcast_ref() {
        "cryptsetup began this part, and cannot finish it either. Restore the volume from a backup."
    } else if let Some(CalibrationError::NoFolder) = error.downcast_ref() {
        "Set XDG_CACHE_HOME or HOME to an absolute path."
    } else if is_out_of_memory(error) {
        "Ask for less with --pbkdf-memory."
    } else if error.is::<SelectError>() {
        "`luxor engines` lists the engines."
    } else {
        return None;
    };
    Some(advice.to_owned())
}

/// Returns the message of an error that an option can avoid, with the name of that option.
pub(crate) fn message(error: &Error) -> Option<String> {
    let error: &OutputError = error::Error::source(error)?.downcast_ref()?;
    Some(match error {
        OutputError::Exists { .. } => format!("{error} (--force replaces it)"),
        OutputError::OneOfTwo { path } => format!(
            "{} exists already, and Luxor does not replace a volume and its --header together: name another \
             file",
            path_name(path)
        ),
        OutputError::Foreign { .. } => format!("{error}; --force writes to it"),
        OutputError::IsDevice { .. } => format!("{error}: --force overwrites what is on it"),
        _ => return None,
    })
}

/// Returns advice for damage that does not prevent opening the volume. `wants_backup`: a backup of the
/// header helps against it.
pub(crate) fn for_defect(repair: RepairOutlook, wants_backup: bool) -> Option<String> {
    if repair == RepairOutlook::Impossible {
        return wants_backup.then(|| BACKUP_HELPS.to_owned());
    }
    by_repair(repair)
}

/// Returns advice for metadata that cannot be read in the file called `name`.
fn for_damage(name: &str, error: &HeaderError, repair: RepairOutlook) -> Option<String> {
    // A backup is not repaired in the place of the volume that it is for.
    if !subject::is_volume(name) && !subject::is_header(name) {
        return (error.kind == HeaderErrorKind::CutOff).then(|| contents::INCOMPLETE.to_owned());
    }
    if repair != RepairOutlook::Impossible {
        return by_repair(repair);
    }
    match error.kind {
        HeaderErrorKind::CutOff => Some(contents::INCOMPLETE.to_owned()),
        HeaderErrorKind::Damaged => Some(BACKUP_HELPS.to_owned()),
        _ => None,
    }
}

/// Returns advice to repair the header, if that helps.
fn by_repair(repair: RepairOutlook) -> Option<String> {
    Some(match repair {
        RepairOutlook::Restored => {
            "`luxor header repair VOLUME` repairs what can be repaired without loss.".to_owned()
        }
        RepairOutlook::LosesKeyslots => format!(
            "{BACKUP_HELPS} Otherwise `luxor header repair --force VOLUME` empties the damaged \
             keyslots, which loses their keys, and repairs the rest."
        ),
        RepairOutlook::LeavesKeyslots => format!(
            "{BACKUP_HELPS} Otherwise `luxor header repair --force VOLUME` repairs the rest of the \
             header, and leaves the damaged keyslots as they are."
        ),
        RepairOutlook::MakesEqual => MAKE_EQUAL.to_owned(),
        RepairOutlook::Impossible => return None,
    })
}

/// Returns a warning about a header with what helps.
pub(crate) fn with_remedy(text: &str, remedy: Option<Remedy>) -> String {
    let advice = match remedy {
        Some(Remedy::Repair) => "`luxor header repair VOLUME` makes both copies equal",
        Some(Remedy::RepairByForce) => MAKE_EQUAL.trim_end_matches('.'),
        Some(Remedy::Check) => "`luxor check VOLUME` says what helps",
        None => return text.to_owned(),
    };
    format!("{text}. {advice}")
}

/// Whether `--read-only` would work now.
fn can_be_read(path: &Path) -> bool {
    subject::can_only_read() && DataFile::open(path, Access::Read).is_ok()
}
