// SPDX-License-Identifier: MIT OR Apache-2.0
//! Begins a re-encryption with a new key.

use std::{collections::BTreeMap, path::Path};

use luxor_files::DataFile;
use luxor_luks::{
    CarriedKeyslot, ConfirmedKey, NewVolumeKey, PbkdfOptions, ReencryptionPlan, Segment,
    SegmentSize, UnlockOptions,
};
use luxor_secret::SecretBytes;
use luxor_volume::{Encryption, VolumeKey};

use super::{ReencryptError, ReencryptOptions, part::check_part};
use crate::{
    Context, Engine, Error, ErrorClass, LuksVolume, OpenError, Result, Secrets, error::Cause,
    trailer::length_at_end,
};

/// Checks that IVs count from 0: cryptsetup 2.6 continues as if they did, and destroys the data.
pub(super) fn check_first_iv(segment: &Segment) -> Result<(), ReencryptError> {
    match segment.geometry.iv_offset {
        0 => Ok(()),
        first => Err(ReencryptError::FirstIv { first }),
    }
}

/// Begins a re-encryption. Returns the length of the data and both keys, by the numbers of their
/// digests.
pub(super) fn begin(
    volume: &mut LuksVolume,
    data: &DataFile,
    secrets: &dyn Secrets,
    options: &ReencryptOptions,
    engine: &Engine,
    context: &Context,
) -> Result<(u64, BTreeMap<u32, VolumeKey>)> {
    let name = volume.data_name();
    let refused = |error: ReencryptError| error.about(&name);
    let data_len = volume.payload_len()?.unwrap_or_default();
    // The program that continues it takes all that the storage has for data.
    let storage_len = data.len()?;
    let whole = volume
        .header
        .luks2()
        .map(|luks2| luks2.data_len(storage_len));
    let Some(segment) = volume.header.segment().cloned() else {
        return Err(refused(ReencryptError::SeveralParts));
    };
    if !matches!(whole, Some(Ok(whole)) if whole == data_len) {
        // Only the key tells where such a file ends.
        if volume.header.has_trailer() {
            return Err(OpenError::TrailerNotLast.about(&name));
        }
        return Err(refused(ReencryptError::DataAfter { len: data_len }));
    }
    check_first_iv(&segment).map_err(refused)?;
    let sector_size = options.sector_size.unwrap_or(segment.geometry.sector_size);
    if !data_len.is_multiple_of(sector_size.bytes() as u64) {
        let len = data_len;
        return Err(refused(ReencryptError::NewSectorSize { len, sector_size }));
    }
    let unit = segment.geometry.sector_size.max(sector_size);
    let unit_len = unit.bytes() as u64;
    if options.zone.is_some_and(|zone| zone < unit_len) {
        return Err(refused(ReencryptError::ShortZone { unit: unit_len }));
    }
    let is_possible = |file_length| {
        let part = check_part(options, data_len, unit, segment.size, file_length);
        part.map(drop).map_err(refused)
    };
    is_possible(volume.header.file_length())?;
    let default = || PbkdfOptions {
        kind: volume.header.version().default_pbkdf(),
        ..PbkdfOptions::default()
    };
    let pbkdf = options.pbkdf.clone().unwrap_or_else(default);

    let opened = open_keyslots(volume, secrets, options, engine, context)?;
    let (old, digest) = (&opened.key, opened.digest);
    let key_len = options.key_len.unwrap_or(old.expose().len());
    let new = VolumeKey::random(key_len, Encryption::AesXtsPlain64);
    let new = new.map_err(|error| error.about(&name))?;
    let step = context.events.step("Making the keyslots");
    let new = NewVolumeKey::with_digest(new, &pbkdf)?;
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
        Some(length.ok_or_else(|| refused(ReencryptError::NoTrailer))?)
    } else {
        None
    };
    is_possible(file_length)?;
    let end = segment.offset + data_len;
    if segment.size != SegmentSize::Dynamic && storage_len > end {
        let rest = storage_len - end;
        let text = format!(
            "{rest} bytes follow the data, and cryptsetup would change them too: do not continue with cryptsetup"
        );
        context.events.warning(&format!("{name}: {text}"));
    }
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
    volume.change_luks2(context, |header, storage| {
        header.begin_reencryption(storage, &plan)
    })?;
    let state = volume.reencryption(data_len)?;
    let new_cipher = state
        .new
        .cipher
        .ok_or_else(|| refused(ReencryptError::NoKey))?;
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
    volume: &LuksVolume,
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
                ErrorClass::NoKey if of_data.len() > 1 && options.keyslots.is_empty() => {
                    ReencryptError::EachKeyslot { source: error }.into()
                }
                _ => error,
            })?,
        };
        found.push((number, secret));
        key = Some((unlocked.digest, unlocked.volume_key));
    }
    let Some((digest, key)) = key else {
        return Err(ReencryptError::NoKeyslot.about(&name));
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

    fn explain(&self, wrong: Error) -> Error {
        self.secrets.explain(wrong)
    }

    fn are_volume_keys(&self) -> bool {
        self.secrets.are_volume_keys()
    }
}
