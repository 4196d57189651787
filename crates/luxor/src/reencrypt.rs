// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes the key of a volume in place, zone by zone.
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

use std::{collections::BTreeMap, ops::Range, path::Path, sync::Arc};

use luxor_engine::{LoadedKey, Mode, SecretBytes};
use luxor_files::{DataFile, Role, is_same_file, locks::Access, path_name};
use luxor_luks::{
    CarriedKeyslot, ChangeError, ConfirmedKey, DataEnd, Luks2Header, NewVolumeKey,
    NewVolumeOptions, PbkdfOptions, ReencryptDirection, ReencryptMode, ReencryptionPlan,
    ReencryptionProgress, ReencryptionState, Resilience, SegmentSize, UnlockOptions,
};
use luxor_sector::{
    SectorSize, Storage,
    rewrite::{Blocks, Rewrite, RewriteError, Side},
};
use luxor_volume::{Encryption, ExtentCipher, HashAlgorithm, VolumeKey};

use crate::{
    Context, Engine, Error, ErrorClass, Result, Secrets, Volume, VolumeError,
    create::new_detached_header, trailer::length_at_end,
};

/// The longest zone by default, in bytes. A longer one is not faster, and what is left of a zone is
/// done before an interruption takes effect.
const ZONE: u64 = 128 << 20;

/// How to re-encrypt a volume. The defaults keep what the volume has, except for its key.
#[derive(Clone, Debug, Default)]
pub struct ReencryptOptions {
    /// The keyslots to keep; empty means all. The others are removed at the end.
    pub keyslots: Vec<u32>,
    /// The length of the new volume key in bytes: 32 or 64.
    pub key_len: Option<usize>,
    /// The new sector size, which must divide the length of the data.
    pub sector_size: Option<SectorSize>,
    /// The PBKDF and costs of the new keyslots.
    pub pbkdf: Option<PbkdfOptions>,
    /// How a zone survives a crash. `None`: with checksums by SHA-256, or as it has begun.
    pub protection: Option<ZoneProtection>,
    /// The longest zone in bytes. Its area in the metadata may permit less.
    pub zone: Option<u64>,
    /// Whether to begin, or to continue what has begun.
    pub part: ReencryptPart,
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
    /// It does not survive, but every interruption by a signal that can be caught.
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

/// Re-encrypts a volume in place with a new volume key, or continues a re-encryption that Luxor or
/// cryptsetup has begun. With a `header` the metadata are there, and `volume` has only the data.
///
/// Asks `secrets` for the secret of each keyslot that is kept. After an interruption, also by a crash
/// unless the protection is [`ZoneProtection::None`], another call continues.
///
/// # Errors
/// Fails for LUKS1, when the volume is in use or cannot be locked, when a keyslot cannot be opened,
/// when there is no room for the new keyslots or the sector size does not fit: nothing has changed
/// then. Fails with [`ErrorClass::Cancelled`] between two zones, and when something cannot be read or
/// written.
pub fn reencrypt(
    volume: &Path,
    header: Option<&Path>,
    secrets: &dyn Secrets,
    options: &ReencryptOptions,
    context: &Context,
) -> Result<()> {
    let header = header.filter(|header| !is_same_file(volume, header));
    let data = DataFile::open(volume, Access::Write)?;
    let mut opened = Volume::open_metadata(header.unwrap_or(volume), Role::Change, context)?;
    if header.is_some() {
        opened = opened.with_data(data.input()?);
    }
    reencrypt_data(opened, data, secrets, options, context)
}

/// As [`reencrypt`](fn@reencrypt), for a volume that is open: its metadata with [`Role::Change`], and
/// its data for writing.
///
/// # Errors
/// Those of [`reencrypt`](fn@reencrypt).
pub fn reencrypt_data(
    volume: Volume,
    data: DataFile,
    secrets: &dyn Secrets,
    options: &ReencryptOptions,
    context: &Context,
) -> Result<()> {
    let (mut opened, name) = (volume, path_name(data.path()));
    if opened.is_without_data() {
        let name = opened.name();
        return Err(VolumeError::DetachedHeader { name }.into());
    }
    let _alone = opened.lock_for_reencryption(data.is_regular(), context)?;
    // Another program may have changed it until the lock was there.
    opened.read_again(context)?;
    let Some(luks2) = opened.header.luks2() else {
        let message = format!("{name}: a LUKS1 volume cannot be re-encrypted");
        return Err(Error::failure(message).hint("Convert it first: luxor convert --type luks2."));
    };
    let has_begun = luks2.describe().config.reencrypt_version().is_some();
    match options.part {
        ReencryptPart::Begin if has_begun => {
            return Err(Error::failure(format!(
                "{name}: a re-encryption has begun already"
            )));
        }
        ReencryptPart::Continue if !has_begun => {
            return Err(Error::failure(format!(
                "{name}: no re-encryption has begun"
            )));
        }
        _ => {}
    }
    let engine = Engine::select(context, Mode::Xts)?;
    let (data_len, keys) = if has_begun {
        let data_len = luks2.data_len(data.len()?);
        let data_len = data_len.map_err(|error| Error::failure(format!("{name}: {error}")))?;
        let unlock = UnlockOptions {
            keyslots: options.keyslots.clone(),
            ..options.unlock.clone()
        };
        let keys = opened.test(secrets, &*engine.backend, &unlock, context)?;
        let keys = keys.into_keys();
        check_is_the_same(&opened.reencryption(data_len)?, &keys, options)
            .map_err(|what| Error::failure(format!("{name}: it has begun with another {what}")))?;
        (data_len, keys)
    } else {
        begin(&mut opened, &data, secrets, options, &engine, context)?
    };
    if options.part == ReencryptPart::Begin {
        return Ok(());
    }
    let storage = data.into_storage();
    Reencryption {
        volume: opened,
        name,
        data: storage,
        data_len,
        keys,
        engine,
        context,
    }
    .run(options.zone)
}

/// Checks that `options` agree with a re-encryption that has begun. Returns what does not.
fn check_is_the_same(
    state: &ReencryptionState,
    keys: &BTreeMap<u32, VolumeKey>,
    options: &ReencryptOptions,
) -> std::result::Result<(), &'static str> {
    let new = state.new.1;
    let sector_size = new.map(|cipher| cipher.geometry.sector_size);
    let key = new.and_then(|cipher| keys.get(&cipher.key));
    let key_len = key.map(|key| key.expose().len());
    let resilience = options.protection.map(|protection| {
        let (_, unit) = state.resilience.checksum().unwrap_or(("", 512));
        let unit = SectorSize::try_from(unit).unwrap_or(SectorSize::B4096);
        protection.resilience(unit)
    });
    if options.sector_size.is_some() && options.sector_size != sector_size {
        Err("sector size")
    } else if options.key_len.is_some() && options.key_len != key_len {
        Err("key length")
    } else if resilience.is_some_and(|resilience| resilience != state.resilience) {
        Err("resilience")
    } else {
        Ok(())
    }
}

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
        return Err(refused("it is a LUKS volume already".to_owned()));
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
            let begun = luks2.begin_encryption(storage, key, &resilience, &new.pbkdf);
            begun.map_err(|error| refused(error.to_string()))
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

/// Begins a re-encryption. Returns the length of the data and both keys, by the numbers of their
/// digests.
fn begin(
    volume: &mut Volume,
    data: &DataFile,
    secrets: &dyn Secrets,
    options: &ReencryptOptions,
    engine: &Engine,
    context: &Context,
) -> Result<(u64, BTreeMap<u32, VolumeKey>)> {
    let name = volume.data_name();
    let refused = |text: String| Error::failure(format!("{name}: {text}"));
    let data_len = volume.payload_len()?.unwrap_or_default();
    // The program that continues it takes all that the storage has for data.
    let storage_len = data.len()?;
    let whole = volume
        .header
        .luks2()
        .map(|luks2| luks2.data_len(storage_len));
    if !matches!(whole, Some(Ok(whole)) if whole == data_len) {
        let text = format!("it has {data_len} bytes of data, and something else after them");
        return Err(refused(text).hint("`luxor resize --shrink` cuts that off."));
    }
    let Some(segment) = volume.header.segment().cloned() else {
        return Err(refused("its data consist of several parts".to_owned()));
    };
    let sector_size = options.sector_size.unwrap_or(segment.geometry.sector_size);
    if !data_len.is_multiple_of(sector_size.bytes() as u64) {
        return Err(refused(format!(
            "the data have {data_len} bytes, which is not a multiple of the new sector size \
             ({sector_size})"
        )));
    }
    let default = || PbkdfOptions {
        kind: volume.header.version().default_pbkdf(),
        ..PbkdfOptions::default()
    };
    let pbkdf = options.pbkdf.clone().unwrap_or_else(default);

    let opened = open_keyslots(volume, secrets, options, engine, context)?;
    let (old, digest) = (&opened.key, opened.digest);
    let key_len = options.key_len.unwrap_or(old.expose().len());
    let new = VolumeKey::random(key_len, Encryption::AesXtsPlain64);
    let new = new.map_err(|error| refused(error.to_string()))?;
    let step = context.events.step("Making the keyslots");
    let new = NewVolumeKey::of(new, &pbkdf)?;
    let mut keyslots = Vec::new();
    for (from, secret) in &opened.secrets {
        let made = new.keyslot(secret.expose(), &pbkdf, &*engine.backend)?;
        keyslots.push(CarriedKeyslot {
            from: *from,
            new: made,
        });
        context.check_cancelled()?;
    }
    drop(step);
    let file_length = if volume.header.has_trailer() {
        let keys = BTreeMap::from([(digest, old.clone())]);
        let plaintext = volume.plaintext_of(keys)?;
        let input = data.input()?;
        let length = length_at_end(&input, &plaintext, engine, volume.header.uuid())?;
        Some(length.ok_or_else(|| {
            let text = "the trailer that ends the file in it is not the last sector";
            refused(text.to_owned()).hint("Decrypt it, and encrypt the file again.")
        })?)
    } else {
        None
    };
    if segment.geometry.iv_offset != 0 || segment.size != SegmentSize::Dynamic {
        let text = "its data have a first IV or a length in the metadata, which cryptsetup would not \
                    keep: do not continue with cryptsetup";
        context.events.warning(&format!("{name}: {text}"));
    }
    let unit = segment.geometry.sector_size.max(sector_size);
    let plan = ReencryptionPlan {
        old: ConfirmedKey {
            digest,
            volume_key: old,
        },
        new: &new,
        keyslots: &keyslots,
        sector_size,
        resilience: options.protection.unwrap_or_default().resilience(unit),
        pbkdf: &pbkdf,
        file_length,
    };
    volume.change(context, |header, storage| {
        let header = header.luks2_mut().expect("it is LUKS2");
        header.begin_reencryption(storage, &plan)
    })?;
    let state = volume.reencryption(data_len)?;
    let new_cipher = state
        .new
        .1
        .ok_or_else(|| refused("it has no key".to_owned()))?;
    let keys = [(digest, old.clone()), (new_cipher.key, new.into_key())];
    Ok((data_len, keys.into()))
}

/// The key of the data, and the secrets of the keyslots that are kept.
struct OpenedKeyslots {
    digest: u32,
    key: VolumeKey,
    secrets: Vec<(u32, SecretBytes)>,
}

fn open_keyslots(
    volume: &Volume,
    secrets: &dyn Secrets,
    options: &ReencryptOptions,
    engine: &Engine,
    context: &Context,
) -> Result<OpenedKeyslots> {
    let name = volume.name();
    let of_data = volume.header.data_keyslots();
    let mut wanted = options.keyslots.clone();
    if wanted.is_empty() {
        wanted.clone_from(&of_data);
    }
    wanted.sort_unstable();
    wanted.dedup();
    let mut found: Vec<(u32, SecretBytes)> = Vec::new();
    let mut key = None;
    for number in wanted {
        let unlock = UnlockOptions {
            keyslots: vec![number],
            ..options.unlock.clone()
        };
        let open =
            |secrets: &dyn Secrets| volume.unlock(secrets, &*engine.backend, &unlock, context);
        let mut known = found.iter().map(|(_, secret)| secret);
        let opened = known.find_map(|secret| open(secret).ok());
        let (unlocked, secret) = match opened {
            Some(opened) => opened,
            None => open(&OfKeyslot { secrets, number }).map_err(|error| match error.class() {
                ErrorClass::NoKey if of_data.len() > 1 => error.hint(
                    "All keyslots are kept. To keep one of them and remove the others, name it \
                         with --key-slot.",
                ),
                _ => error,
            })?,
        };
        found.push((number, secret));
        key = Some((unlocked.digest, unlocked.volume_key));
    }
    let Some((digest, key)) = key else {
        return Err(Error::new(
            ErrorClass::NoKey,
            format!("{name}: it has no keyslot"),
        ));
    };
    for number in of_data {
        if found.iter().all(|(kept, _)| *kept != number) {
            let text = format!("{name}: keyslot {number} will be removed");
            context.events.warning(&text);
        }
    }
    Ok(OpenedKeyslots {
        digest,
        key,
        secrets: found,
    })
}

/// Secrets for one keyslot.
struct OfKeyslot<'a> {
    secrets: &'a dyn Secrets,
    number: u32,
}

impl Secrets for OfKeyslot<'_> {
    fn secret(&self, volume: &Path) -> Result<SecretBytes> {
        self.secrets.keyslot_secret(volume, self.number)
    }

    fn ask_again(&self, wrong: &Error) -> bool {
        self.secrets.ask_again(wrong)
    }

    fn are_volume_keys(&self) -> bool {
        self.secrets.are_volume_keys()
    }
}

/// A re-encryption that has begun.
struct Reencryption<'a> {
    volume: Volume,
    name: String,
    data: Arc<dyn Storage>,
    data_len: u64,
    keys: BTreeMap<u32, VolumeKey>,
    engine: Engine,
    context: &'a Context,
}

impl Reencryption<'_> {
    /// Does what is left, and ends it.
    fn run(mut self, zone: Option<u64>) -> Result<()> {
        let state = self.volume.reencryption(self.data_len)?;
        let is_known = state.mode != ReencryptMode::Decrypt
            && state.direction == ReencryptDirection::Forward
            && !state.has_moved;
        if !is_known || state.resilience.shift().is_some() || state.old.0 != state.new.0 {
            let text = format!(
                "this version does not continue the mode {}",
                state.mode.name()
            );
            let hint = "Let cryptsetup finish it: cryptsetup reencrypt.";
            return Err(self.failed(&text).hint(hint));
        }
        self.data_len = self.checked_len(&state)?;
        let [old, new] = [self.load(state.old)?, self.load(state.new)?];
        let data = Arc::clone(&self.data);
        let rewrite = Rewrite {
            storage: &*data,
            old: side(state.old, old.as_deref()),
            new: side(state.new, new.as_deref()),
            threads: self.engine.threads,
        };
        let blocks = self.blocks(&state)?;
        let longest = self.longest_zone(&state, blocks.as_ref(), zone)?;
        let mut done = state.progress.done;
        if let Some(len) = state.progress.zone {
            self.recover(&state, &rewrite, done..done + len, blocks.as_ref())?;
            done += len;
            self.record(done)?;
        }
        let bytes =
            self.context
                .events
                .bytes("Re-encrypting", self.name.clone(), Some(self.data_len));
        bytes.at(done);
        while done < self.data_len {
            self.context.check_cancelled()?;
            let zone = done..done.saturating_add(longest).min(self.data_len);
            self.protect(&state, &rewrite, zone.clone(), blocks.as_ref())?;
            rewrite
                .run(zone.clone())
                .map_err(|error| self.rewriting(&error))?;
            self.sync()?;
            done = zone.end;
            self.record(done)?;
            bytes.at(done);
        }
        drop(bytes);
        self.change(Luks2Header::end_reencryption)
    }

    /// Returns the length of the data, if they end where the metadata require it and everything is in
    /// whole sectors. Data that are too short are others, or only a part.
    fn checked_len(&self, state: &ReencryptionState) -> Result<u64> {
        let (data_len, progress) = (self.data_len, state.progress);
        let done = progress.done.checked_add(progress.zone.unwrap_or(0));
        let (is_there, end) = match state.end {
            DataEnd::At(end) => (data_len >= end, end),
            DataEnd::After(begin) => (data_len > begin, data_len),
        };
        let done = done
            .filter(|&done| is_there && done <= end)
            .ok_or_else(|| {
                let text = format!("it has {data_len} bytes of data, and some are missing");
                self.failed(&text)
            })?;
        let unit = longest_sector(state);
        let mut places = [end, progress.done, done].into_iter();
        if let Some(place) = places.find(|place| !place.is_multiple_of(unit)) {
            let text =
                format!("byte {place} of the data is not the end of a sector of {unit} bytes");
            return Err(self.failed(&text));
        }
        match self.volume.header.file_length() {
            Some(length) if length > end => {
                let text =
                    format!("it holds a file of {length} bytes, and has {end} bytes of data");
                Err(self.failed(&text))
            }
            _ => Ok(end),
        }
    }

    /// Writes what makes the zone survive a crash, and records that it is being re-encrypted.
    fn protect(
        &mut self,
        state: &ReencryptionState,
        rewrite: &Rewrite<'_>,
        zone: Range<u64>,
        blocks: Option<&Checksums>,
    ) -> Result<()> {
        let failed = |error| self.rewriting(&error);
        let checksums = match blocks {
            Some(blocks) => {
                let found = blocks.with(|blocks| rewrite.checksums(zone.clone(), blocks));
                Some(found.map_err(failed)?)
            }
            None => None,
        };
        let (offset, _) = state.area;
        let is_journal = state.resilience == Resilience::Journal;
        let progress = ReencryptionProgress {
            done: zone.start,
            zone: Some(zone.end - zone.start),
        };
        let data_len = self.data_len;
        let kept = self.change(|header, storage| {
            header.check_unchanged(storage)?;
            if is_journal && let Err(error) = rewrite.keep(zone, storage, offset) {
                return Ok(Err(error));
            }
            header.store_zone(storage, checksums.as_deref().unwrap_or_default())?;
            header.set_reencryption(storage, progress, data_len)?;
            Ok(Ok(()))
        })?;
        kept.map_err(|error| self.rewriting(&error))
    }

    /// Finishes a zone within which a re-encryption was interrupted.
    fn recover(
        &mut self,
        state: &ReencryptionState,
        rewrite: &Rewrite<'_>,
        zone: Range<u64>,
        blocks: Option<&Checksums>,
    ) -> Result<()> {
        let (offset, size) = state.area;
        let is_journal = state.resilience == Resilience::Journal;
        let needed = match blocks {
            Some(blocks) => blocks.area_len(&zone),
            None if is_journal => zone.end - zone.start,
            None => u64::MAX,
        };
        let len = usize::try_from(needed).ok().filter(|_| needed <= size);
        let Some(len) = len else {
            let text = format!(
                "the re-encryption was interrupted within a zone of {} bytes from byte {} of the \
                 plaintext on, which nothing protects (resilience {})",
                zone.end - zone.start,
                zone.start,
                state.resilience.name(),
            );
            return Err(self.failed(&text));
        };
        // Under the lock, so that the area is that of this zone.
        let done = self.change(|header, storage| {
            header.check_unchanged(storage)?;
            let Some(blocks) = blocks else {
                return Ok(rewrite.run_from(zone, storage, offset));
            };
            let mut checksums = vec![0; len];
            let read = storage.read_exact_at(&mut checksums, offset);
            read.map_err(|source| ChangeError::ReadArea { offset, source })?;
            Ok(blocks.with(|blocks| rewrite.run_where_old(zone, blocks, &checksums)))
        })?;
        done.map_err(|error| self.rewriting(&error))?;
        self.sync()
    }

    fn record(&mut self, done: u64) -> Result<()> {
        let progress = ReencryptionProgress { done, zone: None };
        let data_len = self.data_len;
        self.change(|header, storage| header.set_reencryption(storage, progress, data_len))
    }

    /// The longest zone: as long as its area permits, in whole sectors of both sizes.
    fn longest_zone(
        &self,
        state: &ReencryptionState,
        blocks: Option<&Checksums>,
        wanted: Option<u64>,
    ) -> Result<u64> {
        let mut unit = longest_sector(state);
        let (_, size) = state.area;
        let fits = match (&state.resilience, blocks) {
            (Resilience::Journal, _) => size,
            (_, Some(Checksums { hash, block_len })) => {
                unit = unit.max(*block_len as u64);
                size / hash.output_len() as u64 * *block_len as u64
            }
            _ => u64::MAX,
        };
        let longest = wanted.unwrap_or(ZONE).min(fits);
        match longest / unit * unit {
            0 => Err(self.failed(&format!("a zone must have at least {unit} bytes"))),
            longest => Ok(longest),
        }
    }

    fn blocks(&self, state: &ReencryptionState) -> Result<Option<Checksums>> {
        let Some((name, sector_size)) = state.resilience.checksum() else {
            return Ok(None);
        };
        let hash = HashAlgorithm::by_name(name).ok_or_else(|| {
            self.failed(&format!(
                "this version does not know the hash {name} of its checksums"
            ))
        })?;
        let block_len = sector_size as usize;
        if u64::from(sector_size) < longest_sector(state) || block_len > Blocks::MAX_LEN {
            let text = format!("its checksums cover {sector_size} bytes each");
            return Err(self.failed(&text));
        }
        Ok(Some(Checksums { hash, block_len }))
    }

    fn load(&self, (_, cipher): (u64, Option<ExtentCipher>)) -> Result<Option<Box<dyn LoadedKey>>> {
        let Some(cipher) = cipher else {
            return Ok(None);
        };
        let key = self.keys.get(&cipher.key);
        let key = key.ok_or_else(|| self.failed("a key of the data is missing"))?;
        Ok(Some(self.engine.load_volume_key(key, cipher.encryption)?))
    }

    /// Changes the metadata as [`Volume::change`] does, also after an interruption: what has begun
    /// must be finished.
    fn change<T>(
        &mut self,
        change: impl FnOnce(&mut Luks2Header, &dyn Storage) -> std::result::Result<T, ChangeError>,
    ) -> Result<T> {
        let context = Context {
            cancel: Arc::default(),
            ..self.context.clone()
        };
        self.volume.change(&context, |header, storage| {
            change(header.luks2_mut().expect("it is LUKS2"), storage)
        })
    }

    fn sync(&self) -> Result<()> {
        let synced = self.data.sync();
        synced.map_err(|error| {
            let text = format!("{}: cannot make the data durable", self.name);
            Error::io(text, &error)
        })
    }

    fn failed(&self, text: &str) -> Error {
        Error::failure(format!("{}: {text}", self.name))
    }

    fn rewriting(&self, error: &RewriteError) -> Error {
        let hint = "Unless --resilience is none, the same command continues.";
        self.failed(&error.to_string()).hint(hint)
    }
}

/// The checksums of a zone's blocks.
struct Checksums {
    hash: HashAlgorithm,
    block_len: usize,
}

impl Checksums {
    fn with<T>(&self, work: impl FnOnce(Blocks<'_>) -> T) -> T {
        work(Blocks {
            len: self.block_len,
            checksum_len: self.hash.output_len(),
            checksum: &|block, out| {
                let mut hash = [0; 64];
                self.hash.digest_into(&[block], &mut hash);
                out.copy_from_slice(&hash[..out.len()]);
            },
        })
    }

    fn area_len(&self, zone: &Range<u64>) -> u64 {
        let blocks = (zone.end - zone.start).div_ceil(self.block_len as u64);
        blocks.saturating_mul(self.hash.output_len() as u64)
    }
}

/// Returns the longer one of the sectors before and after it, in bytes.
fn longest_sector(state: &ReencryptionState) -> u64 {
    let sector = |cipher: Option<ExtentCipher>| {
        cipher.map_or(512, |cipher| cipher.geometry.sector_size.bytes() as u64)
    };
    sector(state.old.1).max(sector(state.new.1))
}

fn side<'a>(
    (offset, cipher): (u64, Option<ExtentCipher>),
    key: Option<&'a dyn LoadedKey>,
) -> Side<'a> {
    let cipher = cipher.map(|cipher| cipher.geometry).zip(key);
    Side { offset, cipher }
}
