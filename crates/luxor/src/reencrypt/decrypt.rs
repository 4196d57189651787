// SPDX-License-Identifier: MIT OR Apache-2.0
//! Begins to decrypt a volume in place. Its header must be in another file, because the data take its
//! place:
//!
//! ```text
//! before         header | encrypted data
//! begun          first part of the data | free | rest of the data        the header is another file
//! after          data | free
//! ```

use std::{collections::BTreeMap, fs, io, ops::Range, path::Path};

use luxor_files::{DataFile, Input, OutputOptions, Role, path_name};
use luxor_luks::{
    ChangeError, ConfirmedKey, InPlace, InPlacePlan, LuksVersion, PbkdfOptions, Resilience,
    Unlocked, VolumeHeader, check_file_length,
};
use luxor_sector::Storage;
use luxor_volume::VolumeKey;

use super::{
    FrontOfData, ReencryptError, ReencryptOptions, begin::check_first_iv, begins_like_luks,
    check_zone, copy, is_plain, only_luks2, part::check_part,
};
use crate::{
    Context, Engine, Error, LuksMetadata, LuksVolume, OpenError, Result, Secrets, error::Cause,
    header::back_up, header_room::is_same,
};

/// Checks that `header` is that of `volume`, if it exists. Otherwise makes it: a copy of the header of
/// `volume`, after one of its keyslots was opened. Returns that and the header, or `None` if the header
/// exists.
pub(super) fn export_header(
    volume: &DataFile,
    header: &Path,
    secrets: &dyn Secrets,
    options: &ReencryptOptions,
    engine: &Engine,
    context: &Context,
) -> Result<Option<Unlocked>> {
    let (name, header_name) = (path_name(volume.path()), path_name(header));
    if header.symlink_metadata().is_ok() {
        let other = Input::open(header, Role::Metadata)?;
        let other = LuksMetadata::read_input(other, None, context)?;
        let is_copy = || -> Result<bool> {
            let heads = heads(&other, &*volume.storage()?);
            let [head, front] = heads.map_err(|error| {
                Error::io(format!("cannot read the beginning of {name}"), &error)
            })?;
            Ok(head == front)
        };
        // A copy that is older than the header of the volume may have another key.
        let is_of_volume = other.header.is_reencrypting() || is_plain(&other.header);
        if is_of_volume || !begins_like_luks(volume)? || is_copy()? {
            return Ok(None);
        }
        return Err(ReencryptError::OtherHeader { volume: name }.about(&header_name));
    }
    match LuksMetadata::version(volume.input()?, context)? {
        Some(LuksVersion::Luks2) => {}
        Some(LuksVersion::Luks1) => return Err(only_luks2(&name)),
        None => {
            let header = header_name;
            return Err(ReencryptError::NotLuks { header }.about(&name));
        }
    }
    let input = volume.input()?;
    let opened = LuksMetadata::open_input(volume.input()?, None, context)?;
    if opened.is_without_data() {
        return Err(OpenError::DetachedHeader { name }.into());
    }
    check(&opened, volume, options)?;
    let (unlocked, _) = opened.unlock(secrets, &*engine.backend, &options.unlock, context)?;
    let options = OutputOptions {
        mode: 0o600,
        known_input: Some(&input),
        becomes_luks2: true,
        ..OutputOptions::default()
    };
    back_up(&input, header, &options, context)?;
    Ok(Some(unlocked))
}

/// Removes the header that [`export_header`] has made, if nothing has begun: a copy that ages would do
/// harm.
pub(super) fn forget_header(volume: &DataFile, header: &Path, context: &Context) -> Result<()> {
    let mine = LuksMetadata::read_input(volume.input()?, None, context)?;
    let other = Input::open(header, Role::Metadata)?;
    let other = LuksMetadata::read_input(other, None, context)?;
    if mine.header.digest() == other.header.digest() {
        let removed = fs::remove_file(header);
        removed
            .map_err(|error| Error::io(format!("cannot remove {}", path_name(header)), &error))?;
    }
    Ok(())
}

/// Checks what can be checked before anything changes. Returns the length of the data, and that of their
/// first part if only that is to be decrypted.
fn check(
    volume: &LuksMetadata,
    data: &DataFile,
    options: &ReencryptOptions,
) -> Result<(u64, Option<u64>)> {
    let name = path_name(data.path());
    let refused = |error: ReencryptError| error.about(&name);
    let (Some(segment), Some(luks2)) = (volume.header.segment(), volume.header.luks2()) else {
        if volume.header.is_reencrypting() {
            return Err(refused(ReencryptError::Unfinished));
        }
        let is_openable = volume.header.check_openable();
        is_openable.map_err(|error| error.about(&name))?;
        return Err(refused(ReencryptError::SeveralParts));
    };
    if volume.header.has_trailer() {
        return Err(refused(ReencryptError::Trailer));
    }
    check_first_iv(segment).map_err(refused)?;
    let data_len = luks2.data_len(data.len()?);
    let data_len = data_len.map_err(|error| error.about(&name))?;
    let sector_size = segment.geometry.sector_size;
    let sector = sector_size.bytes() as u64;
    if data_len == 0 || !data_len.is_multiple_of(sector) {
        let len = data_len;
        return Err(refused(ReencryptError::PartSector { len, sector_size }));
    }
    let file_length = volume.header.file_length();
    if let Some(length) = file_length {
        let checked = check_file_length(length, data_len, sector_size);
        checked.map_err(|error| error.about(&name))?;
    }
    check_zone(options, sector).map_err(refused)?;
    let part = check_part(options, data_len, sector_size, segment.size, file_length);
    Ok((data_len, part.map_err(refused)?))
}

/// Begins the decryption. `unlocked` is from [`export_header`]. Returns the length of the data and the
/// key.
pub(super) fn begin_decryption(
    volume: &mut LuksVolume,
    data: &DataFile,
    unlocked: Option<Unlocked>,
    secrets: &dyn Secrets,
    options: &ReencryptOptions,
    engine: &Engine,
    context: &Context,
) -> Result<(u64, BTreeMap<u32, VolumeKey>)> {
    let name = volume.data_name();
    let (data_len, part) = check(volume, data, options)?;
    let len = part.unwrap_or(data_len);
    let segment = volume.header.segment().cloned().expect("it was checked");
    let storage = data.storage()?;
    let unlocked = match unlocked {
        Some(unlocked) => unlocked,
        None => {
            let unlock = &options.unlock;
            volume.unlock(secrets, &*engine.backend, unlock, context)?.0
        }
    };
    let failed = |error: io::Error| Error::io(format!("{name}: cannot move the data"), &error);

    let (shift, first) = (segment.offset, segment.offset.min(len));
    if shift > 0 && !is_over_header(volume, &*storage, shift..shift + first).map_err(failed)? {
        return Err(ReencryptError::NoOwnHeader { offset: shift }.about(&name));
    }
    let protection = options.protection.unwrap_or_default();
    let resilience = match protection.resilience(segment.geometry.sector_size) {
        resilience if shift == 0 => resilience,
        Resilience::Journal => Resilience::DataShiftJournal { shift },
        Resilience::Checksum { hash, sector_size } => Resilience::DataShiftChecksum {
            hash,
            sector_size,
            shift,
        },
        _ => return Err(ReencryptError::Unprotected.about(&name)),
    };
    let is_journal = resilience.without_shift() == Resilience::Journal;
    let plan = InPlacePlan {
        what: InPlace::Decrypt,
        key: ConfirmedKey {
            digest: unlocked.digest,
            volume_key: &unlocked.volume_key,
        },
        resilience,
        moved: (shift > 0).then_some((0, len)),
        is_part: part.is_some(),
        pbkdf: &options.pbkdf.clone().unwrap_or_else(|| PbkdfOptions {
            kind: volume.header.version().default_pbkdf(),
            ..PbkdfOptions::default()
        }),
    };
    let begun = volume.change_luks2(context, |header, metadata| {
        header.begin_in_place(metadata, &plan, || {
            if shift == 0 {
                return Ok(());
            }
            // The sector that `is_over_header` recognises comes last.
            let head = first.min(HEAD as u64);
            copy(&*storage, shift + head..shift + first, &*storage, head)?;
            storage.sync()?;
            copy(&*storage, shift..shift + head, &*storage, 0)?;
            storage.sync()
        })
    });
    // The first data may be in the place of the volume's own header already.
    let is_moving = |source: Error| -> Error {
        let header = volume.name();
        ReencryptError::MovingOverHeader { header, source }.into()
    };
    let begun = begun.map_err(|error| match error.find() {
        Some(write @ ChangeError::Unchanged { .. }) if shift > 0 => {
            let message = format!("{}: {}", volume.name(), write.cause());
            is_moving(Error::new(error.class(), message))
        }
        _ if is_journal => ReencryptError::BeginningWithJournal { source: error }.into(),
        _ => error,
    })?;
    begun.map_err(|error| is_moving(failed(error)))?;
    let keys = BTreeMap::from([(unlocked.digest, unlocked.volume_key)]);
    Ok((data_len, keys))
}

/// Checks that the file with the data of a volume with a detached header has no header of its own, and that
/// no decryption of it was interrupted before the header recorded it: only a decryption may continue then.
/// `has_begun` is whether the header records a re-encryption.
pub(super) fn check_front(volume: &LuksVolume, data: &DataFile, has_begun: bool) -> Result<()> {
    let (name, header) = (path_name(data.path()), volume.name());
    let storage = data.storage()?;
    let begins_like_luks = begins_like_luks(data)?;
    let failed =
        |error: io::Error| Error::io(format!("cannot read the beginning of {name}"), &error);
    // Data that are shorter than a sector have no header.
    let Ok([head, front]) = heads(volume, &*storage) else {
        return Ok(());
    };
    let front = if begins_like_luks {
        let is_copy = !has_begun && head == front;
        match (is_copy, VolumeHeader::read(&*storage).is_ok()) {
            (true, true) => FrontOfData::Original { header },
            // The first part of the data has been moved, up to the sector that comes last.
            (true, false) => FrontOfData::DamagedOriginal { header },
            (false, true) => FrontOfData::Other,
            (false, false) => FrontOfData::DamagedOther,
        }
    } else {
        let first = volume.header.segment().zip(data.len().ok());
        let first = first.and_then(|(segment, len)| {
            let len = len.checked_sub(segment.offset)?;
            Some(segment.offset..segment.offset + segment.offset.min(len))
        });
        let first = first.filter(|first| !has_begun && !first.is_empty());
        // Before data that were never written there may be the same bytes, such as zeros.
        let is_uniform = front.iter().all(|byte| *byte == front[0]);
        let is_moved = match first {
            Some(first) if !is_uniform => {
                is_over_header(volume, &*storage, first).map_err(failed)?
            }
            _ => false,
        };
        if !is_moved {
            return Ok(());
        }
        FrontOfData::Decryption { header }
    };
    Err(ReencryptError::Front { front }.about(&name))
}

/// Returns the first sectors of the metadata and of the storage. The former has a checksum over all of
/// the first copy, and the number of its last change.
fn heads(volume: &LuksMetadata, storage: &dyn Storage) -> io::Result<[[u8; HEAD]; 2]> {
    let mut heads = [[0; HEAD]; 2];
    volume.storage().read_exact_at(&mut heads[0], 0)?;
    storage.read_exact_at(&mut heads[1], 0)?;
    Ok(heads)
}

/// The length of the first sector of the metadata, which a disk writes whole or not at all.
const HEAD: usize = 512;

/// Returns whether the data follow their own header, and not something else that belongs to someone:
/// it begins as the metadata do, or the first part of the data, `first`, was already copied over it
/// before an interruption.
fn is_over_header(
    volume: &LuksMetadata,
    storage: &dyn Storage,
    first: Range<u64>,
) -> io::Result<bool> {
    let [head, front] = heads(volume, storage)?;
    Ok(head == front || is_same(storage, first, storage, 0)?)
}
