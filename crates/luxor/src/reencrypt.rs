// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes the encryption of data in place, zone by zone.
//!
//! ```text
//! before a zone     what makes it survive a crash is written to the metadata's area, then the zone
//!                   is recorded as being re-encrypted
//! the zone          read, decrypted, encrypted and written, by all threads
//! after a zone      it is recorded as done
//! ```
//!
//! Each of the three is durable before the next begins. No other program may use the data meanwhile:
//! this holds the lock on the data and cryptsetup's lock on the re-encryption.

mod begin;
mod decrypt;
mod encrypt;
mod error;
mod in_use;
mod part;
mod streamed;
mod tail;
mod whole_disk;
mod zone;
mod zones;

use std::{collections::BTreeMap, io, ops::Range, path::Path};

use luxor_engine::Mode;
use luxor_files::{
    DataFile, VolumePlace, is_same_file,
    locks::{Access, ReencryptionLock},
    path_name,
};
use luxor_luks::{
    Luks2Header, PbkdfOptions, ReencryptMode, ReencryptionProgress, ReencryptionState, Resilience,
    SegmentEntry, SegmentKind, UnlockOptions, Unlocked, VolumeHeader,
};
use luxor_sector::{SectorSize, Storage};
use luxor_volume::{HashAlgorithm, VolumeKey};

use self::{
    begin::begin,
    decrypt::{begin_decryption, check_front, export_header, forget_header},
    whole_disk::check_is_no_disk,
    zones::Reencryption,
};
use crate::{
    Context, Engine, Error, LuksMetadata, LuksVolume, OpenError, Result, Secrets, error::Cause,
};

pub(crate) use self::tail::TAIL;

pub use self::{
    encrypt::{encrypt_in_place, encrypt_with_header_in_front, put_header_in_front},
    error::{FrontOfData, PartError, ReencryptError},
    in_use::{ReencryptionInUse, reencrypt_in_use},
    part::data_beyond,
};

/// How to re-encrypt a volume. The defaults keep what the volume has, except for its key.
#[derive(Clone, Debug, Default)]
pub struct ReencryptOptions {
    /// The keyslots to keep; empty means all. The others are removed at the end. To continue, empty, or those
    /// with which it has begun.
    pub keyslots: Vec<u32>,
    /// The length of the new volume key in bytes: 32 or 64.
    pub key_len: Option<usize>,
    /// The new sector size, which must divide the length of the data.
    pub sector_size: Option<SectorSize>,
    /// The PBKDF and costs of the new keyslots.
    pub pbkdf: Option<PbkdfOptions>,
    /// How a zone survives a crash. `None`: with checksums by SHA-256, or as it has begun. It may be
    /// another one than when it has begun, unless the data are moved.
    pub protection: Option<ZoneProtection>,
    /// The longest zone in bytes. Its area in the metadata may permit less.
    pub zone: Option<u64>,
    /// Changes only this number of bytes from the beginning of the data. The data after them are lost:
    /// they stay as they are, and have no key any more ([`data_beyond`]). The metadata have it as soon as
    /// there is a zone.
    pub device_size: Option<u64>,
    /// The most bytes after `device_size` that may be lost, as the user was told them. `None`: any
    /// number.
    pub most_lost: Option<u64>,
    /// Whether to begin, or to continue what has begun.
    pub part: ReencryptPart,
    /// What is to be done, and what may be continued. `None`: a new key, or whatever has begun. To
    /// decrypt it for good, the header is another file; if it does not exist, it becomes a copy of that of
    /// the volume.
    pub mode: Option<ReencryptMode>,
    /// Whether [`encrypt_with_header_in_front`] may overwrite bytes at the end that are not zero, and whether
    /// the data of a detached header may be a whole disk with partitions.
    pub force: bool,
    /// What opening a keyslot may cost. Its keyslots are ignored.
    pub unlock: UnlockOptions,
}

/// How the zone on which a re-encryption works survives a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneProtection {
    /// Checksums of its sectors are stored first. A disk that writes only a part of a sector before
    /// the power fails would lose that sector.
    Checksum(HashAlgorithm),
    /// All of it is copied first.
    Journal,
    /// It does not survive, but every interruption by a signal that can be caught: see
    /// [`Events::hold`](crate::Events::hold).
    None,
}

impl ZoneProtection {
    /// Returns its state in the metadata. Checksums cover sectors of `unit`.
    fn resilience(self, unit: SectorSize) -> Resilience {
        match self {
            Self::None => Resilience::None,
            Self::Journal => Resilience::Journal,
            Self::Checksum(hash) => Resilience::Checksum {
                hash: hash.name().to_owned(),
                sector_size: u32::try_from(unit.bytes()).expect("at most 4096"),
            },
        }
    }

    /// Returns its state in the metadata, which is `begun` if that is the same protection.
    fn instead_of(self, begun: &Resilience, unit: SectorSize) -> Resilience {
        match (self, begun) {
            (Self::Checksum(hash), Resilience::Checksum { hash: same, .. })
                if hash.name() == same =>
            {
                begun.clone()
            }
            _ => self.resilience(unit),
        }
    }
}

impl Default for ZoneProtection {
    fn default() -> Self {
        Self::Checksum(HashAlgorithm::Sha256)
    }
}

/// Which part of a re-encryption to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReencryptPart {
    /// All that is left: begin unless it has begun, and continue to the end.
    #[default]
    All,
    /// Begin, and change no data yet.
    Begin,
    /// Continue, and fail if it has not begun.
    Continue,
}

/// Re-encrypts a volume in place with a new volume key, or decrypts it in place, or continues a
/// re-encryption that Luxor or cryptsetup has begun. With a `header` the metadata are there, and `volume`
/// has only the data.
///
/// A file that was decrypted is cut off where the data end. A device is not, and has other bytes after
/// them.
///
/// Returns what was done. Asks `secrets` for the secret of each keyslot that is kept. After an interruption, also by a crash
/// unless the protection is [`ZoneProtection::None`], another call continues.
///
/// # Errors
/// Fails for LUKS1, when the volume is in use or cannot be locked, when a keyslot cannot be opened,
/// when there is no room for the new keyslots or the sector size does not fit: nothing has changed
/// then. Fails with [`ErrorClass::Cancelled`](crate::ErrorClass) between two zones, and when something
/// cannot be read or written.
pub fn reencrypt<'a>(
    volume: impl Into<VolumePlace<'a>>,
    header: Option<&Path>,
    secrets: &dyn Secrets,
    options: &ReencryptOptions,
    context: &Context,
) -> Result<ReencryptMode> {
    let volume = volume.into();
    let header = header.filter(|header| !is_same_file(volume.path, header));
    let data = DataFile::open(volume, Access::Write)?;
    let mut unlocked = None;
    if options.mode == Some(ReencryptMode::Decrypt) {
        let missing = || ReencryptError::NoHeaderFile.about(&path_name(volume.path));
        let header = header.ok_or_else(missing)?;
        let engine = Engine::select(context, Mode::Xts)?;
        unlocked = export_header(&data, header, secrets, options, &engine, context)?;
    }
    let is_exported = unlocked.is_some();
    let open = || {
        let opened = LuksVolume::open(header.map_or(volume, VolumePlace::from), context)?;
        Ok(match header {
            Some(_) => opened.with_data(data.input()?),
            None => opened,
        })
    };
    let done = open()
        .and_then(|opened| begin_or_continue(opened, &data, unlocked, secrets, options, context));
    if let (Err(_), Some(header), true) = (&done, header, is_exported) {
        // What it was about is the first error.
        let _ = forget_header(&data, header, context);
    }
    done
}

/// As [`reencrypt`](fn@reencrypt), for a volume that is open, and its data, which are open
/// for writing.
///
/// # Errors
/// Those of [`reencrypt`](fn@reencrypt).
pub fn reencrypt_data(
    volume: LuksVolume,
    data: &DataFile,
    secrets: &dyn Secrets,
    options: &ReencryptOptions,
    context: &Context,
) -> Result<()> {
    begin_or_continue(volume, data, None, secrets, options, context).map(drop)
}

/// As [`reencrypt_data`](fn@reencrypt_data). A keyslot may have been opened already.
fn begin_or_continue(
    volume: LuksVolume,
    data: &DataFile,
    unlocked: Option<Unlocked>,
    secrets: &dyn Secrets,
    options: &ReencryptOptions,
    context: &Context,
) -> Result<ReencryptMode> {
    let (mut reencryption, _alone) =
        match begin_or_find(volume, data, unlocked, secrets, options, context)? {
            Found::Reencryption(reencryption, alone) => (*reencryption, alone),
            Found::End => return Ok(ReencryptMode::Decrypt),
        };
    let file_length = reencryption.volume.header.file_length();
    let state = reencryption.state()?;
    let mode = state.mode;
    if options.part == ReencryptPart::Begin {
        return Ok(mode);
    }
    // The file of a volume without a recorded length is cut off only while it is known where its data end.
    let is_done = state.progress.left() == 0;
    let len = file_length.or((!is_done).then_some(state.progress.len()));
    let is_file = mode == ReencryptMode::Decrypt && state.progress.is_open() && data.can_set_len();
    let end = len.filter(|_| is_file).map(|len| state.new.offset + len);
    reencryption.cut_at = end;
    reencryption.may_cut = data.can_set_len();
    let mut zones = reencryption.resume(options.zone)?;
    zones.bypass_page_cache(data);
    let (mut ended, end) = zones.run()?;
    tail::cut_off(&mut ended, data, end, context)?;
    Ok(mode)
}

impl LuksMetadata {
    /// Returns the re-encryption that is under way.
    ///
    /// # Errors
    /// Fails when there is none, and when this version does not support its state.
    pub(crate) fn reencryption(&self, data_len: u64) -> Result<ReencryptionState> {
        let name = self.name();
        let state = self
            .header
            .luks2()
            .map(|luks2| luks2.reencryption(data_len));
        let state = state.transpose().map_err(|error| error.about(&name))?;
        let none = || ReencryptError::NotUnderWay.about(&name);
        state.flatten().ok_or_else(none)
    }

    /// Returns how far a re-encryption has come. `None` if there is none, if this version does not support
    /// its state, or if the length of the data is not known.
    #[must_use]
    pub fn reencryption_progress(&self) -> Option<ReencryptionProgress> {
        let (luks2, len) = (self.header.luks2()?, self.storage_len()?);
        let len = luks2
            .data_len(len)
            .ok()
            .filter(|_| !self.is_without_data())?;
        Some(self.reencryption(len).ok()?.progress)
    }
}

/// What [`begin_or_find`] has found.
enum Found {
    Reencryption(Box<Reencryption>, ReencryptionLock),
    /// The end of a decryption after which the file was to be cut off, which it has been.
    End,
}

/// Begins a re-encryption, or finds the one that has begun.
fn begin_or_find(
    volume: LuksVolume,
    data: &DataFile,
    unlocked: Option<Unlocked>,
    secrets: &dyn Secrets,
    options: &ReencryptOptions,
    context: &Context,
) -> Result<Found> {
    let (mut opened, name) = (volume, path_name(data.path()));
    if opened.is_without_data() {
        let name = opened.name();
        return Err(OpenError::DetachedHeader { name }.into());
    }
    // Held until the re-encryption ends: cryptsetup does not continue it meanwhile.
    let alone = opened.lock_for_reencryption(data.is_regular(), context)?;
    // Another program may have changed it until the lock was there.
    opened.read_again(context)?;
    // An encryption that was interrupted while its header was written has metadata and no keyslots yet.
    if encrypt::finish_header(&opened, data)? {
        opened.read_again(context)?;
    }
    let Some(luks2) = opened.header.luks2() else {
        return Err(only_luks2(&name));
    };
    let has_begun = luks2.describe().config.reencrypt_version().is_some();
    // The data will change as the metadata say, so these must be durable, also after a failed sync.
    opened.change_luks2(context, Luks2Header::write_again)?;
    let is_decrypted = !has_begun && is_plain(&opened.header);
    if is_decrypted && tail::is_cut_off(&mut opened, data, context)? {
        return Ok(Found::End);
    }
    let Some(luks2) = opened.header.luks2() else {
        return Err(only_luks2(&name));
    };
    match options.part {
        ReencryptPart::Begin if has_begun => {
            return Err(ReencryptError::HasBegun.about(&name));
        }
        ReencryptPart::Continue if !has_begun => {
            return Err(ReencryptError::HasNotBegun.about(&name));
        }
        _ => {}
    }
    let engine = Engine::select(context, Mode::Xts)?;
    let state = if has_begun {
        let len = luks2.data_len(data.len()?);
        let len = len.map_err(|error| error.about(&name))?;
        Some((opened.reencryption(len)?, len))
    } else {
        None
    };
    let to_plain = Some(ReencryptMode::Decrypt);
    let may_have_header = match &state {
        // Data that are plain already can begin like a volume.
        Some((state, _)) => state.mode == ReencryptMode::Decrypt && state.progress.has_begun_at_0(),
        // That it is a copy of the header was checked.
        None => options.mode == to_plain,
    };
    if opened.has_detached_header() && !may_have_header {
        check_front(&opened, data, state.is_some())?;
    }
    if state.is_none() && is_plain(&opened.header) {
        // cryptsetup leaves the padding of a file behind it. No key authenticates the length.
        let longer = match luks2.file_length().filter(|_| data.can_set_len()) {
            Some(length) if data.len()? > length => Some((length, path_name(data.path()))),
            _ => None,
        };
        return Err(ReencryptError::Decrypted { longer }.about(&opened.name()));
    }
    if opened.has_detached_header() {
        check_is_no_disk(data, state.as_ref().map(|(state, _)| state), options)?;
    }
    let (data_len, keys) = if let Some((state, data_len)) = state {
        let unlock = as_begun(luks2, options);
        let unlock = unlock.ok_or_else(|| ReencryptError::KeyslotsChosen.about(&name))?;
        let keys = if luks2.is_decrypted() {
            BTreeMap::new()
        } else {
            let (opened, _) = opened.test(secrets, &*engine.backend, &unlock, context)?;
            opened.into_keys()
        };
        check_is_the_same(&state, &keys, options)
            .map_err(|what| ReencryptError::BegunWithOther { what }.about(&name))?;
        if options.device_size.is_none() {
            part::warn_of_rest(&state, data_len, &name, context);
        }
        (data_len, keys)
    } else if options.mode == to_plain {
        begin_decryption(
            &mut opened,
            data,
            unlocked,
            secrets,
            options,
            &engine,
            context,
        )?
    } else {
        begin(&mut opened, data, secrets, options, &engine, context)?
    };
    let reencryption = Reencryption {
        volume: opened,
        name,
        data: data.storage()?,
        data_len,
        keys,
        device_size: options.device_size,
        protection: options.protection,
        cut_at: None,
        may_cut: false,
        engine,
        context: context.clone(),
    };
    Ok(Found::Reencryption(Box::new(reencryption), alone))
}

/// Checks that the longest zone that the options permit has at least a sector.
fn check_zone(options: &ReencryptOptions, sector: u64) -> Result<(), ReencryptError> {
    match options.zone {
        Some(zone) if zone < sector => Err(ReencryptError::ShortZone { unit: sector }),
        _ => Ok(()),
    }
}

/// Returns whether the data begin with the first bytes of a LUKS header.
fn begins_like_luks(data: &DataFile) -> Result<bool> {
    const MAGIC: [u8; 6] = *b"LUKS\xba\xbe";
    let mut first = [0; MAGIC.len()];
    let read = data.storage()?.read_exact_at(&mut first, 0);
    Ok(read.is_ok() && first == MAGIC)
}

/// Returns whether the header is that of data that were decrypted.
fn is_plain(header: &VolumeHeader) -> bool {
    let segments = header.luks2().map(Luks2Header::segments);
    segments.is_some_and(|segments| {
        let is_linear = |entry: &SegmentEntry| matches!(entry.kind, SegmentKind::Linear { .. });
        segments.values().all(is_linear)
    })
}

fn only_luks2(name: &str) -> Error {
    ReencryptError::OnlyLuks2.about(name)
}

/// Returns how the keyslots of a re-encryption that has begun are opened, or `None` if it has begun with others
/// than `options` keep. Only their number is known, and that the secret opens one of them.
fn as_begun(luks2: &Luks2Header, options: &ReencryptOptions) -> Option<UnlockOptions> {
    let mut keyslots = options.keyslots.clone();
    if keyslots.is_empty() {
        return Some(options.unlock.clone());
    }
    keyslots.sort_unstable();
    keyslots.dedup();
    let (old, new) = luks2.keyslots_of_keys()?;
    if keyslots.len() != new.len() || keyslots.iter().any(|number| !old.contains(number)) {
        return None;
    }
    keyslots.extend(new);
    Some(UnlockOptions {
        keyslots,
        ..options.unlock.clone()
    })
}

/// Checks that `options` agree with a re-encryption that has begun. Returns what does not.
fn check_is_the_same(
    state: &ReencryptionState,
    keys: &BTreeMap<u32, VolumeKey>,
    options: &ReencryptOptions,
) -> std::result::Result<(), &'static str> {
    let new = state.new.cipher;
    let sector_size = new.map(|cipher| cipher.geometry.sector_size);
    let key = new.and_then(|cipher| keys.get(&cipher.key));
    let key_len = key.map(|key| key.expose().len());
    let begun = state.resilience.without_shift();
    let is_other =
        |protection: ZoneProtection| protection.instead_of(&begun, SectorSize::B512) != begun;
    let is_shifted = state.resilience.shift().is_some();
    if options.mode.is_some_and(|mode| mode != state.mode) {
        Err("mode")
    } else if options
        .device_size
        .is_some_and(|size| !part::may_end_at(state, size))
    {
        Err("device size")
    } else if options.sector_size.is_some() && options.sector_size != sector_size {
        Err("sector size")
    } else if options.key_len.is_some() && options.key_len != key_len {
        Err("key length")
    } else if is_shifted && options.protection.is_some_and(is_other) {
        Err("resilience")
    } else {
        Ok(())
    }
}

/// Copies a range of `from` to byte `offset` of `to`.
pub(super) fn copy(
    from: &dyn Storage,
    range: Range<u64>,
    to: &dyn Storage,
    offset: u64,
) -> io::Result<()> {
    each_piece(range.clone(), |at, len| {
        let mut bytes = vec![0; len];
        from.read_exact_at(&mut bytes, at)?;
        to.write_all_at(&bytes, offset + (at - range.start))
    })
}

/// Calls `work` with the offsets and lengths of the pieces of `range`.
fn each_piece(
    range: Range<u64>,
    mut work: impl FnMut(u64, usize) -> io::Result<()>,
) -> io::Result<()> {
    const PIECE: usize = 1 << 20;
    for at in range.clone().step_by(PIECE) {
        let rest = usize::try_from(range.end - at).unwrap_or(PIECE);
        work(at, rest.min(PIECE))?;
    }
    Ok(())
}
