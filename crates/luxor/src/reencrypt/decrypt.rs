// SPDX-License-Identifier: MIT OR Apache-2.0
//! Begins to decrypt a volume in place. Its header must be in another file, because the data take its
//! place:
//!
//! ```text
//! before         header | encrypted data
//! begun          first part of the data | free | rest of the data        the header is another file
//! after          data | free
//! ```

use std::{collections::BTreeMap, io, ops::Range, path::Path};

use luxor_files::{DataFile, Input, OutputOptions, Role, path_name};
use luxor_luks::{ConfirmedKey, InPlace, InPlacePlan, LuksVersion, PbkdfOptions, Resilience};
use luxor_sector::Storage;
use luxor_volume::VolumeKey;

use super::{ReencryptOptions, copy, only_luks2};
use crate::{Context, Engine, Error, Result, Secrets, Volume, header::back_up};

/// Copies the header of `volume` into the new file `header`. If that exists, it must be of the same
/// volume, unless the volume has no header of its own.
pub(super) fn export_header(volume: &DataFile, header: &Path, context: &Context) -> Result<()> {
    let version = Volume::version(volume.input()?, context)?;
    if header.symlink_metadata().is_ok() {
        let other = Input::open(header, Role::Metadata)?;
        let other = Volume::read_with_header(other, None, context)?;
        if version.is_none() || other.header.is_reencrypting() {
            return Ok(());
        }
        let mine = Volume::read_with_header(volume.input()?, None, context)?;
        if mine.header.uuid() == other.header.uuid() {
            return Ok(());
        }
        let (header, volume) = (path_name(header), path_name(volume.path()));
        let text = format!("{header}: it exists, and is not the header of {volume}");
        return Err(
            Error::failure(text).hint("--header names a new file for a copy of the header.")
        );
    }
    let name = path_name(volume.path());
    match version {
        Some(LuksVersion::Luks2) => {}
        Some(LuksVersion::Luks1) => return Err(only_luks2(&name)),
        None => {
            let header = path_name(header);
            let text =
                format!("{name}: it is not a LUKS volume, and its header {header} is missing");
            return Err(Error::failure(text));
        }
    }
    let input = volume.input()?;
    let options = OutputOptions {
        mode: 0o600,
        known_input: Some(&input),
        becomes_luks2: true,
        ..OutputOptions::default()
    };
    back_up(&input, header, &options, context).map(drop)
}

/// Begins the decryption. Returns the length of the data and the key.
pub(super) fn begin_decryption(
    volume: &mut Volume,
    data: &DataFile,
    secrets: &dyn Secrets,
    options: &ReencryptOptions,
    engine: &Engine,
    context: &Context,
) -> Result<(u64, BTreeMap<u32, VolumeKey>)> {
    let name = volume.data_name();
    let refused = |text: String| Error::failure(format!("{name}: {text}"));
    let (Some(segment), Some(luks2)) = (volume.header.segment().cloned(), volume.header.luks2())
    else {
        return Err(refused("its data consist of several parts".to_owned()));
    };
    if volume.header.has_trailer() {
        let text = "the length of its data is in a trailer after them";
        let hint = format!("This writes the data to a new file: luxor decrypt {name} OUTPUT");
        return Err(refused(text.to_owned()).hint(hint));
    }
    let storage = data.storage()?;
    let data_len = luks2.data_len(data.len()?);
    let data_len = data_len.map_err(|error| refused(error.to_string()))?;
    let (unlocked, _) = volume.unlock(secrets, &*engine.backend, &options.unlock, context)?;
    let failed = |error: io::Error| Error::io(format!("{name}: cannot move the data"), &error);

    let first = segment.offset.min(data_len);
    let shift = segment.offset;
    let has_header =
        shift > 0 && is_over_header(volume, &*storage, shift..shift + first).map_err(failed)?;
    let protection = options.protection.unwrap_or_default();
    let resilience = match protection.resilience(segment.geometry.sector_size) {
        resilience if !has_header => resilience,
        Resilience::Journal => Resilience::DataShiftJournal { shift },
        Resilience::Checksum { hash, sector_size } => Resilience::DataShiftChecksum {
            hash,
            sector_size,
            shift,
        },
        _ => {
            let text =
                "resilience none is not possible where the data take the place of the header";
            return Err(refused(text.to_owned()));
        }
    };
    let plan = InPlacePlan {
        what: InPlace::Decrypt,
        key: ConfirmedKey {
            digest: unlocked.digest,
            volume_key: &unlocked.volume_key,
        },
        resilience,
        moved: has_header.then_some((0, data_len)),
        pbkdf: &options.pbkdf.clone().unwrap_or_else(|| PbkdfOptions {
            kind: volume.header.version().default_pbkdf(),
            ..PbkdfOptions::default()
        }),
    };
    let moved = volume.change(context, |header, metadata| {
        let header = header.luks2_mut().expect("it is LUKS2");
        header.begin_in_place(metadata, &plan, || {
            if !has_header {
                return Ok(());
            }
            // The block that `is_over_header` recognises comes last.
            let head = first.min(HEAD);
            copy(&*storage, shift + head..shift + first, &*storage, head)?;
            storage.sync()?;
            copy(&*storage, shift..shift + head, &*storage, 0)?;
            storage.sync()
        })
    })?;
    moved.map_err(failed)?;
    let keys = BTreeMap::from([(unlocked.digest, unlocked.volume_key)]);
    Ok((data_len, keys))
}

/// The length of the first sector of the metadata, which a disk writes whole or not at all.
const HEAD: u64 = 512;

/// Returns whether the data follow their own header, and not something else that belongs to someone:
/// it begins as the metadata do, or the first part of the data, `first`, was already copied over it
/// before an interruption.
fn is_over_header(volume: &Volume, storage: &dyn Storage, first: Range<u64>) -> io::Result<bool> {
    const PIECE: usize = 1 << 20;
    let mut heads = [[0; HEAD as usize]; 2];
    volume.metadata_storage().read_exact_at(&mut heads[0], 0)?;
    storage.read_exact_at(&mut heads[1], 0)?;
    if heads[0] == heads[1] {
        return Ok(true);
    }
    for at in first.clone().step_by(PIECE) {
        let len = usize::try_from(first.end - at).unwrap_or(PIECE).min(PIECE);
        let mut pieces = [vec![0; len], vec![0; len]];
        storage.read_exact_at(&mut pieces[0], at)?;
        storage.read_exact_at(&mut pieces[1], at - first.start)?;
        if pieces[0] != pieces[1] {
            return Ok(false);
        }
    }
    Ok(true)
}
