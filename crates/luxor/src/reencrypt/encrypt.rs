// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encrypts plain data in place.
//!
//! The header is a new file, or takes the place of the first bytes, which are moved to the end:
//!
//! ```text
//! before         data ........................ | free (2 × shift)
//! begun          header | data ............... | free | first bytes of the data
//! after          header | encrypted data ............ | random bytes
//! ```

use std::{collections::BTreeMap, convert::Infallible, io, path::Path, sync::Arc};

use luxor_engine::{Mode, SecretBytes};
use luxor_files::{DataFile, Input, Role, locks::Access, path_name};
use luxor_luks::{
    ConfirmedKey, InPlace, InPlacePlan, Luks2Header, Luks2HeaderSizes, NewVolumeOptions,
    ReencryptDirection, ReencryptMode, Resilience, UnlockOptions,
};
use luxor_sector::{MemoryStorage, Storage};
use luxor_volume::VolumeKey;

use super::{ReencryptOptions, ReencryptPart, copy, each_piece, zones::Reencryption};
use crate::{
    Context, Engine, Error, Result, Volume,
    create::{make, new_detached_header},
};

/// Encrypts data in place, with a new detached header. `new` are the options of the volume, of which
/// the PBKDF and those for the layout count here; `options.unlock` and what they keep do not. Calls
/// `secret` for the secret of the keyslot. An interruption is continued with [`reencrypt`](fn@reencrypt).
///
/// # Errors
/// Fails when the header exists, when `data` are a LUKS volume or in use, when their length is no
/// multiple of the sector size, and with the errors of [`reencrypt`](fn@reencrypt).
pub fn encrypt_in_place(
    data: &Path,
    header: &Path,
    new: &NewVolumeOptions,
    secret: impl FnOnce() -> Result<SecretBytes>,
    options: &ReencryptOptions,
    context: &Context,
) -> Result<()> {
    let name = path_name(data);
    let refused = |text: String| Error::failure(format!("{name}: {text}"));
    let file = DataFile::open(data, Access::Write)?;
    if Volume::version(file.input()?, context)?.is_some() {
        return Err(already_luks(data));
    }
    let sector_size = new.sector_size();
    let data_len = file.len()?;
    if data_len == 0 || !data_len.is_multiple_of(sector_size.bytes() as u64) {
        return Err(refused(format!(
            "its length ({data_len} bytes) must be a multiple of the sector size ({sector_size}), and \
             not 0"
        )));
    }
    let engine = Engine::select(context, Mode::Xts)?;
    let new = NewVolumeOptions {
        detached: true,
        ..new.clone()
    };
    let made = new_detached_header(
        data,
        header,
        &new,
        secret,
        &engine,
        context,
        |header, key| {
            let storage = header
                .as_storage()
                .ok_or_else(|| refused("the header must be a file or a device".to_owned()))?;
            let mut luks2 =
                Luks2Header::read(storage).map_err(|error| refused(error.to_string()))?;
            let key = ConfirmedKey {
                digest: 0,
                volume_key: key,
            };
            let protection = options.protection.unwrap_or_default();
            let resilience = protection.resilience(sector_size);
            let plan = InPlacePlan {
                what: InPlace::Encrypt,
                key,
                resilience,
                moved: None,
                pbkdf: &new.pbkdf,
            };
            let begun = luks2.begin_in_place(storage, &plan, || Ok::<_, Infallible>(()));
            begun.map(drop).map_err(|error| refused(error.to_string()))
        },
    )?;
    let volume = Volume::open_metadata(header, Role::Change, context)?.with_data(file.input()?);
    if options.part == ReencryptPart::Begin {
        return Ok(());
    }
    let _alone = volume.lock_for_reencryption(file.is_regular(), context)?;
    Reencryption {
        volume,
        name,
        data: file.into_storage(),
        data_len,
        keys: BTreeMap::from([(0, made)]),
        engine,
        context,
    }
    .run(options.zone)
}

/// Encrypts data in place, with a new header before them, and moves them to make room. The last
/// `reduce_by` bytes of `data` must be free: the header takes half of them. `new`, `secret` and `options`
/// are those of [`encrypt_in_place`].
///
/// The same call continues what was interrupted while the header was written; later interruptions are
/// continued with [`reencrypt`](fn@super::reencrypt).
///
/// # Errors
/// Fails when `data` are a LUKS volume, when `reduce_by` leaves too little room for the header or for the
/// data, when the last bytes are not empty and [`ReencryptOptions::force`] is not set, and with the errors
/// of [`reencrypt`](fn@super::reencrypt).
pub fn encrypt_with_header_in_front(
    data: &Path,
    reduce_by: u64,
    new: &NewVolumeOptions,
    secret: impl FnOnce() -> Result<SecretBytes>,
    options: &ReencryptOptions,
    context: &Context,
) -> Result<()> {
    let engine = Engine::select(context, Mode::Xts)?;
    let file = DataFile::open(data, Access::Write)?;
    let (data_len, keys) = begin(&file, reduce_by, new, secret, options, &engine, context)?;
    if options.part == ReencryptPart::Begin {
        return Ok(());
    }
    let volume = Volume::open_metadata(data, Role::Change, context)?;
    let _alone = volume.lock_for_reencryption(file.is_regular(), context)?;
    Reencryption {
        volume,
        name: path_name(data),
        data: file.into_storage(),
        data_len,
        keys,
        engine,
        context,
    }
    .run(options.zone)
}

/// Begins as [`encrypt_with_header_in_front`] does, and changes nothing but the place of the first bytes.
/// [`reencrypt_data`](fn@super::reencrypt_data) continues.
///
/// # Errors
/// Those of [`encrypt_with_header_in_front`].
pub fn put_header_in_front(
    data: &DataFile,
    reduce_by: u64,
    new: &NewVolumeOptions,
    secret: impl FnOnce() -> Result<SecretBytes>,
    options: &ReencryptOptions,
    context: &Context,
) -> Result<()> {
    let engine = Engine::select(context, Mode::Xts)?;
    begin(data, reduce_by, new, secret, options, &engine, context).map(drop)
}

/// Returns the length of the data and the keys, by the numbers of their digests.
fn begin(
    data: &DataFile,
    reduce_by: u64,
    new: &NewVolumeOptions,
    secret: impl FnOnce() -> Result<SecretBytes>,
    options: &ReencryptOptions,
    engine: &Engine,
    context: &Context,
) -> Result<(u64, BTreeMap<u32, VolumeKey>)> {
    let name = path_name(data.path());
    let refused = |text: String| Error::failure(format!("{name}: {text}"));
    // One copy of a header may be half written.
    let version = Volume::version(data.input()?, context);
    if matches!(version, Ok(Some(_))) {
        return Err(already_luks(data.path()));
    }
    if reduce_by == 0 || !reduce_by.is_multiple_of(2 * 4096) {
        let text = format!("the {reduce_by} bytes for the header must be a multiple of 8192");
        return Err(refused(text));
    }
    let len = data.len()?;
    let sector = new.sector_size().bytes() as u64;
    let data_len = len.saturating_sub(reduce_by);
    if data_len == 0 || !data_len.is_multiple_of(sector) {
        return Err(refused(format!(
            "without its last {reduce_by} bytes it has {data_len}, which must be a multiple of the \
             sector size ({sector}), and not 0"
        )));
    }
    let place = Place {
        shift: reduce_by / 2,
        data_len,
    };
    let storage = data.storage()?;
    let failed = |error: io::Error| Error::io(format!("{name}: cannot be prepared"), &error);

    let (header, keys) = match place.interrupted(&*storage).map_err(failed)? {
        Some(header) => {
            let input = Input::of_storage(header.clone(), data.path())?;
            let volume = Volume::open(input, context)?;
            let unlock = UnlockOptions::default();
            let keys = volume.test(&secret()?, &*engine.backend, &unlock, context)?;
            (header, keys.into_keys())
        }
        None => {
            version?;
            if !options.force && !place.is_free(&*storage).map_err(failed)? {
                let text = format!("its last {reduce_by} bytes are not empty, and would be lost");
                return Err(refused(text).hint(
                    "Make it longer first (for a file: truncate --size). If nothing there is needed, \
                     or an earlier attempt was interrupted, permit it with --force.",
                ));
            }
            place.header(new, secret, engine, context)?
        }
    };
    place.put(&*storage, &header).map_err(failed)?;
    Ok((data_len, keys))
}

fn already_luks(data: &Path) -> Error {
    let name = path_name(data);
    let error = Error::failure(format!("{name}: it is a LUKS volume already"));
    error.hint(format!(
        "If it was interrupted, this continues: luxor reencrypt {name}"
    ))
}

/// Where the header and the first bytes of the data go.
#[derive(Clone, Copy)]
struct Place {
    /// The length of the header, and the distance by which the data are moved, in bytes.
    shift: u64,
    /// The length of the data in bytes. Twice the shift is free after them.
    data_len: u64,
}

impl Place {
    /// Where the first bytes of the data go.
    fn moved(self) -> u64 {
        self.data_len + self.shift
    }

    /// Returns whether the bytes after the data are all zero.
    fn is_free(self, storage: &dyn Storage) -> io::Result<bool> {
        let mut is_free = true;
        let end = self.moved() + self.shift;
        each_piece(self.data_len..end, |at, len| {
            let mut bytes = vec![0; len];
            storage.read_exact_at(&mut bytes, at)?;
            is_free &= bytes.iter().all(|byte| *byte == 0);
            Ok(())
        })?;
        Ok(is_free)
    }

    /// Makes the header, with the state of the encryption that begins. Returns the keys too, by the
    /// numbers of their digests.
    fn header(
        self,
        new: &NewVolumeOptions,
        secret: impl FnOnce() -> Result<SecretBytes>,
        engine: &Engine,
        context: &Context,
    ) -> Result<(Arc<MemoryStorage>, BTreeMap<u32, VolumeKey>)> {
        let failed = |error: &dyn std::error::Error| {
            Error::failure(format!(
                "cannot make a header of {} bytes: {error}",
                self.shift
            ))
        };
        let keyslots = self.shift.saturating_sub(2 * (16 << 10));
        let sizes = Luks2HeaderSizes::new(None, Some(keyslots), None, new.key_size);
        let options = NewVolumeOptions {
            detached: false,
            header_sizes: Some(sizes.map_err(|error| failed(&error))?),
            ..new.clone()
        };
        options.check()?;
        let volume = make(&options, secret, engine, context)?;
        let header = MemoryStorage::default();
        let written = volume.write_to(&header);
        let written = written.and_then(|()| header.write_all_at(&[0], self.shift - 1));
        written.map_err(|error| failed(&error))?;
        let mut luks2 = Luks2Header::read(&header).map_err(|error| failed(&error))?;
        let key = volume.volume_key();
        let plan = InPlacePlan {
            what: InPlace::Encrypt,
            key: ConfirmedKey {
                digest: 0,
                volume_key: key,
            },
            resilience: Resilience::DataShift { shift: self.shift },
            moved: Some((self.moved(), self.data_len)),
            pbkdf: &new.pbkdf,
        };
        let begun = luks2.begin_in_place(&header, &plan, || Ok::<_, Infallible>(()));
        let Ok(()) = begun.map_err(|error| failed(&error))?;
        Ok((Arc::new(header), BTreeMap::from([(0, key.clone())])))
    }

    /// Returns the header of an encryption that was interrupted while the header was put in its place.
    fn interrupted(self, storage: &dyn Storage) -> io::Result<Option<Arc<MemoryStorage>>> {
        let mut bytes = vec![0; usize::try_from(self.shift).map_err(io::Error::other)?];
        storage.read_exact_at(&mut bytes, self.data_len)?;
        let header = MemoryStorage::new(bytes);
        let state = Luks2Header::read(&header).ok();
        let state = state.and_then(|luks2| luks2.reencryption(self.data_len).ok().flatten());
        let is_of_this = state.is_some_and(|state| {
            let moved = state.moved.map(|(moved, _)| moved.offset);
            (state.mode, state.direction) == (ReencryptMode::Encrypt, ReencryptDirection::Backward)
                && (state.old.offset, state.new.offset) == (0, self.shift)
                && state.progress.len() == self.data_len
                && state.progress.done() == 0
                && moved == Some(self.moved())
        });
        Ok(is_of_this.then(|| Arc::new(header)))
    }

    /// Moves the first bytes of the data, and writes the header in their place. After an interruption
    /// the data are still plain, or the header is complete, or it is complete after the data, from
    /// where [`Place::interrupted`] takes it.
    fn put(self, storage: &dyn Storage, header: &MemoryStorage) -> io::Result<()> {
        const COPY: u64 = 16 << 10;
        let at_end = self.data_len;
        let is_there = self.interrupted(storage)?.is_some();
        if !is_there {
            let first = self.shift.min(self.data_len);
            copy(storage, 0..first, storage, self.moved())?;
            storage.sync()?;
            // Its keyslots must be there before one of both copies of its metadata is.
            copy(header, 2 * COPY..self.shift, storage, at_end + 2 * COPY)?;
            storage.sync()?;
            copy(header, 0..2 * COPY, storage, at_end)?;
            storage.sync()?;
        }
        for part in [2 * COPY..self.shift, COPY..2 * COPY, 0..COPY] {
            copy(header, part.clone(), storage, part.start)?;
            storage.sync()?;
        }
        each_piece(at_end..at_end + self.shift, |at, len| {
            storage.write_all_at(&vec![0; len], at)
        })?;
        storage.sync()
    }
}
