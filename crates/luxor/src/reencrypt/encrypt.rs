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

use luxor_engine::Mode;
use luxor_files::{DataFile, Input, VolumePlace, locks::Access, path_name};
use luxor_luks::{
    ConfirmedKey, InPlace, InPlacePlan, Luks2Header, Luks2HeaderSizes, NewVolumeOptions,
    Resilience, SegmentSize, VolumeHeader,
};
use luxor_secret::SecretBytes;
use luxor_sector::{MemoryStorage, Storage};
use luxor_volume::VolumeKey;

use super::{
    ReencryptError, ReencryptOptions, ReencryptPart, check_zone, copy, each_piece,
    part::check_part, whole_disk::check_is_no_disk, zones::Reencryption,
};
use crate::{
    Context, Engine, Error, LuksMetadata, LuksVolume, Result,
    create::{announce, choose_sector_size, make, new_detached_header},
    error::Cause,
    header_room::{FRONT, HeaderRoom, PAGE, SECTOR, interrupted_encryption},
    key_scope::warn_of_key_scope,
};

/// Encrypts data in place, with a new detached header. `new` are the options of the volume, of which
/// the PBKDF and those for the layout count here; `options.unlock` and what they keep do not. Calls
/// `secret` for the secret of the keyslot. An interruption is continued with
/// [`reencrypt`](fn@super::reencrypt).
///
/// # Errors
/// Fails when the header exists, when `data` are a LUKS volume or in use, when their length is no
/// multiple of the sector size, and with the errors of [`reencrypt`](fn@super::reencrypt).
pub fn encrypt_in_place<'a>(
    data: impl Into<VolumePlace<'a>>,
    header: &Path,
    new: &NewVolumeOptions,
    secret: impl FnOnce() -> Result<SecretBytes>,
    options: &ReencryptOptions,
    context: &Context,
) -> Result<()> {
    let data = data.into();
    let name = path_name(data.path);
    let refused = |error: ReencryptError| error.about(&name);
    let file = DataFile::open(data, Access::Write)?;
    if LuksMetadata::version(file.input()?, context)?.is_some() {
        return Err(already_luks(&file)?);
    }
    check_is_no_disk(&file, None, options)?;
    let data_len = file.len()?;
    let mut new = new.clone();
    let choice = choose_sector_size(&mut new, &name, file.file(), data_len);
    let sector_size = new.sector_size();
    if data_len == 0 || !data_len.is_multiple_of(sector_size.bytes() as u64) {
        let padded = data_len.max(1).next_multiple_of(sector_size.bytes() as u64);
        return Err(refused(ReencryptError::PlainPartSector {
            len: data_len,
            sector_size,
            padded: file.can_set_len().then_some(padded),
        }));
    }
    check_zone(options, sector_size.bytes() as u64).map_err(refused)?;
    let part = check_part(options, data_len, sector_size, SegmentSize::Dynamic, None);
    let part = part.map_err(refused)?;
    announce(choice, context);
    warn_of_key_scope(&name, part.unwrap_or(data_len), context);
    let engine = Engine::select(context, Mode::Xts)?;
    let new = NewVolumeOptions {
        detached: true,
        ..new.clone()
    };
    let made = new_detached_header(
        data.path,
        header,
        &new,
        secret,
        &engine,
        context,
        |header, key| {
            let storage = header
                .as_storage()
                .ok_or_else(|| refused(ReencryptError::HeaderNotSeekable))?;
            let mut luks2 = Luks2Header::read(storage).map_err(|error| error.about(&name))?;
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
                is_part: false,
                pbkdf: &new.pbkdf,
            };
            let begun = luks2.begin_in_place(storage, &plan, || Ok::<_, Infallible>(()));
            // The header has no name yet, so its state does not matter.
            let failed = |source| refused(ReencryptError::NewDetachedHeader { source });
            begun.map(drop).map_err(failed)
        },
    )?;
    let volume = LuksVolume::open(header, context)?.with_data(file.input()?);
    if options.part == ReencryptPart::Begin {
        return Ok(());
    }
    let keys = BTreeMap::from([(0, made)]);
    go_on(volume, &file, (data_len, keys), engine, options, context)
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
pub fn encrypt_with_header_in_front<'a>(
    data: impl Into<VolumePlace<'a>>,
    reduce_by: u64,
    new: &NewVolumeOptions,
    secret: impl FnOnce() -> Result<SecretBytes>,
    options: &ReencryptOptions,
    context: &Context,
) -> Result<()> {
    let data = data.into();
    let engine = Engine::select(context, Mode::Xts)?;
    let file = DataFile::open(data, Access::Write)?;
    let begun = begin(&file, reduce_by, new, secret, options, &engine, context)?;
    if options.part == ReencryptPart::Begin {
        return Ok(());
    }
    let volume = LuksVolume::open(data, context)?;
    go_on(volume, &file, begun, engine, options, context)
}

/// Does what has begun. The data have this length, and these keys by the numbers of their digests.
fn go_on(
    volume: LuksVolume,
    file: &DataFile,
    (data_len, keys): (u64, BTreeMap<u32, VolumeKey>),
    engine: Engine,
    options: &ReencryptOptions,
    context: &Context,
) -> Result<()> {
    let _alone = volume.lock_for_reencryption(file.is_regular(), context)?;
    Reencryption {
        volume,
        name: path_name(file.path()),
        data: file.storage()?,
        data_len,
        keys,
        device_size: options.device_size,
        protection: None,
        cut_at: None,
        may_cut: false,
        engine,
        context: context.clone(),
    }
    .resume(options.zone)?
    .run()
    .map(drop)
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
    let refused = |error: ReencryptError| error.about(&name);
    // A header that is half written is neither.
    let version = LuksMetadata::version(data.input()?, context);
    if matches!(version, Ok(Some(_))) {
        return Err(already_luks(data)?);
    }
    if options.device_size.is_some() {
        return Err(refused(ReencryptError::PartMoves));
    }
    if reduce_by == 0 || !reduce_by.is_multiple_of(2 * PAGE) {
        return Err(refused(ReencryptError::ReducedUnit { reduced: reduce_by }));
    }
    let len = data.len()?;
    let data_len = len.saturating_sub(reduce_by);
    let mut new = new.clone();
    let choice = choose_sector_size(&mut new, &name, data.file(), data_len);
    let sector = new.sector_size().bytes() as u64;
    let shift = reduce_by / 2;
    let padded = reduce_by.saturating_add(data_len.max(shift).next_multiple_of(sector));
    let padded = data.can_set_len().then_some(padded);
    if data_len == 0 || !data_len.is_multiple_of(sector) {
        return Err(refused(ReencryptError::ReducedPartSector {
            reduced: reduce_by,
            len: data_len,
            sector_size: new.sector_size(),
            padded,
        }));
    }
    if data_len < shift {
        return Err(refused(ReencryptError::ShorterThanHeader {
            len: data_len,
            header: shift,
            padded,
        }));
    }
    let sizes = Luks2HeaderSizes::new(None, Some(shift.saturating_sub(FRONT)), None, new.key_size);
    let sizes =
        sizes.map_err(|source| refused(ReencryptError::HeaderSizes { len: shift, source }))?;
    check_zone(options, sector).map_err(refused)?;
    announce(choice, context);
    warn_of_key_scope(&name, data_len, context);
    let place = HeaderRoom { shift, data_len };
    let storage = data.storage()?;
    let failed = |error: io::Error| Error::io(format!("{name}: cannot be prepared"), &error);

    let (header, keys) = match version {
        Err(error) => {
            let header = place.interrupted(&*storage).map_err(failed)?;
            let header = header.ok_or_else(|| {
                // Else it says how it continues.
                if interrupted_encryption(&*storage).is_some() {
                    return error;
                }
                ReencryptError::HalfWritten { source: error }.into()
            })?;
            let input = Input::of_storage(header.clone(), data.path())?;
            let volume = LuksMetadata::open_input(input, None, context)?;
            let secret = secret()?;
            let (keys, _) = volume.test(&secret, &*engine.backend, &options.unlock, context)?;
            (header, keys.into_keys())
        }
        Ok(_) => {
            // What an attempt has left there that changed no data is not needed: it begins again.
            let may_overwrite = options.force
                || place.is_free(&*storage).map_err(failed)?
                || place.is_prepared(&*storage).map_err(failed)?;
            if !may_overwrite {
                return Err(refused(ReencryptError::NotFree { reduced: reduce_by }));
            }
            let (header, keys) = place.header(&new, sizes, secret, engine, context)?;
            place.prepare(&*storage, &header).map_err(failed)?;
            (header, keys)
        }
    };
    place.put(&*storage, &header).map_err(failed)?;
    Ok((data_len, keys))
}

/// Finishes a header that an interruption has left without its keyslots. Returns whether there was one.
pub(super) fn finish_header(volume: &LuksVolume, data: &DataFile) -> Result<bool> {
    let name = volume.data_name();
    let failed = |error: io::Error| Error::io(format!("{name}: cannot finish its header"), &error);
    let Some(place) = volume.header.luks2().and_then(HeaderRoom::of) else {
        return Ok(false);
    };
    let end = place.moved().checked_add(place.shift);
    let len = data.len()?;
    if volume.has_detached_header() || end.is_none_or(|end| end > len) {
        return Ok(false);
    }
    let storage = data.storage()?;
    let header = place.interrupted(&*storage).map_err(failed)?;
    if let Some(header) = &header {
        place.put(&*storage, header).map_err(failed)?;
    }
    Ok(header.is_some())
}

fn already_luks(data: &DataFile) -> Result<Error> {
    let header = VolumeHeader::read(&*data.storage()?);
    let is_reencrypting = header.is_ok_and(|header| header.is_reencrypting());
    Ok(ReencryptError::AlreadyLuks { is_reencrypting }.about(&path_name(data.path())))
}

impl HeaderRoom {
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
        sizes: Luks2HeaderSizes,
        secret: impl FnOnce() -> Result<SecretBytes>,
        engine: &Engine,
        context: &Context,
    ) -> Result<(Arc<MemoryStorage>, BTreeMap<u32, VolumeKey>)> {
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| {
            let len = self.shift;
            ReencryptError::NewHeader { len, source }
        };
        let options = NewVolumeOptions {
            detached: false,
            header_sizes: Some(sizes),
            ..new.clone()
        };
        options.check()?;
        let volume = make(&options, secret, engine, context)?;
        let header = MemoryStorage::default();
        let written = volume.write_to(&header);
        let written = written.and_then(|()| header.write_all_at(&[0], self.shift - 1));
        written.map_err(|error| failed(error.into()))?;
        let mut luks2 = Luks2Header::read(&header).map_err(|error| failed(error.into()))?;
        let key = volume.volume_key();
        let plan = InPlacePlan {
            what: InPlace::Encrypt,
            key: ConfirmedKey {
                digest: 0,
                volume_key: key,
            },
            resilience: Resilience::DataShift { shift: self.shift },
            moved: Some((self.moved(), self.data_len)),
            is_part: false,
            pbkdf: &new.pbkdf,
        };
        let begun = luks2.begin_in_place(&header, &plan, || Ok::<_, Infallible>(()));
        let Ok(()) = begun.map_err(|error| failed(error.into()))?;
        Ok((Arc::new(header), BTreeMap::from([(0, key.clone())])))
    }

    /// Moves the first bytes of the data, and writes the header after the data.
    fn prepare(self, storage: &dyn Storage, header: &MemoryStorage) -> io::Result<()> {
        copy(storage, 0..self.shift, storage, self.moved())?;
        storage.sync()?;
        // Its keyslots must be there before one of both copies of its metadata is.
        copy(header, FRONT..self.shift, storage, self.data_len + FRONT)?;
        storage.sync()?;
        copy(header, 0..FRONT, storage, self.data_len)?;
        storage.sync()
    }

    /// Writes the header in the place of the first bytes of the data. As soon as the first sector is
    /// there, nothing takes the data for plain. After it, an interruption is recognised by
    /// [`HeaderRoom::interrupted`].
    fn put(self, storage: &dyn Storage, header: &MemoryStorage) -> io::Result<()> {
        let sector = SECTOR as u64;
        for part in [0..sector, sector..FRONT, FRONT..self.shift] {
            copy(header, part.clone(), storage, part.start)?;
            storage.sync()?;
        }
        // Without its keyslots it must not be valid.
        for part in [0..FRONT, FRONT..self.shift] {
            each_piece(
                self.data_len + part.start..self.data_len + part.end,
                |at, len| storage.write_all_at(&vec![0; len], at),
            )?;
            storage.sync()?;
        }
        Ok(())
    }
}
