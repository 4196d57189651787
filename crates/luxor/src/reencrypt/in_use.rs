// SPDX-License-Identifier: MIT OR Apache-2.0
//! Re-encrypts a volume while its plaintext is a disk in use.

use std::{
    num::NonZeroU64,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use luxor_files::DataFile;
use luxor_luks::ReencryptMode;
use luxor_sector::Disk;

use super::{ReencryptOptions, begin_or_find, zones::BetweenZones};
use crate::{Context, Error, Export, ExportOptions, Result, Secrets, Volume};

/// The longest zone by default, in bytes. Requests for it wait. Shorter ones are not much faster, because
/// each is made durable several times.
const ZONE: u64 = 4 << 20;

/// A re-encryption of a volume that is exported. When this is dropped, the volume is still exported.
pub struct ReencryptionInUse {
    zones: BetweenZones,
    disk: Arc<Disk>,
    name: String,
}

/// Begins to re-encrypt a volume with a new key, or continues what has begun, and makes a disk of it that can
/// be used meanwhile. `volume` has its metadata with [`Role::Change`](luxor_files::Role::Change), and `data`
/// are open for writing. What a crash has left half done is finished first. [`ReencryptionInUse::run`] does
/// the rest; without it, the volume stays as it is, and can be used all the same.
///
/// # Errors
/// Those of [`reencrypt`](fn@super::reencrypt). Also fails when the export is read-only, and when more than the
/// encryption changes: plain data are encrypted or decrypted, or moved.
pub fn reencrypt_in_use(
    volume: Volume,
    data: DataFile,
    secrets: &dyn Secrets,
    options: &ReencryptOptions,
    export: &ExportOptions,
    context: &Context,
) -> Result<(Export, ReencryptionInUse)> {
    let name = volume.data_name();
    let refused = |text: &str| Error::failure(format!("{name}: {text}"));
    if export.read_only {
        return Err(refused("a volume that is read-only cannot be re-encrypted"));
    }
    if options.mode == Some(ReencryptMode::Decrypt) {
        return Err(refused(
            "it cannot be decrypted for good while it is in use",
        ));
    }
    let (reencryption, lock) = begin_or_find(volume, &data, None, secrets, options, context)?;
    let state = reencryption.volume.reencryption(reencryption.data_len)?;
    let other = match state.mode {
        ReencryptMode::Encrypt => Some("plain data that are being encrypted"),
        ReencryptMode::Decrypt => Some("data that are being decrypted for good"),
        ReencryptMode::Reencrypt if state.old.offset != state.new.offset => {
            Some("data that are being moved")
        }
        ReencryptMode::Reencrypt => None,
    };
    if let Some(other) = other {
        let error = refused(&format!("it has {other}, which cannot be used meanwhile"));
        return Err(error.hint("`luxor reencrypt` continues this."));
    }
    let header = &reencryption.volume.header;
    if header.has_trailer() && header.file_length().is_none() {
        let error = refused("the trailer that ends the file in it is being re-encrypted");
        return Err(error.hint("`luxor reencrypt` continues this."));
    }
    let export = ExportOptions {
        allow_discards: export.allow_discards || header.allows_discards(),
        ..*export
    };
    let len = header.file_length().unwrap_or(u64::MAX);
    let mut zones = reencryption.resume(Some(options.zone.unwrap_or(ZONE)))?;
    let parts = zones.parts(len);
    let export = Export {
        _reencryption: Some(lock),
        ..Export::of_parts(data, parts, zones.engine(), &export)?
    };
    let disk = Arc::clone(&export.disk);
    zones.use_storage(Arc::clone(&disk).storage());
    Ok((export, ReencryptionInUse { zones, disk, name }))
}

impl ReencryptionInUse {
    /// Does what is left, and ends it. Returns false if something came through `stop`, or its sender was
    /// dropped, before the end: [`reencrypt_in_use`] continues later.
    ///
    /// At most `rate` bytes are done in each second. Without a rate, it works for a quarter of the time while
    /// anyone uses the disk.
    ///
    /// # Errors
    /// Fails when something cannot be read or written. All requests for the zone in which it failed fail then.
    pub fn run(mut self, rate: Option<NonZeroU64>, stop: &Receiver<()>) -> Result<bool> {
        let mut pause = Duration::ZERO;
        let mut used = self.disk.engine_time().calls;
        while let Some(zone) = self.zones.next() {
            if stop.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                return Ok(false);
            }
            let len = zone.end - zone.start;
            let held = self.disk.hold(zone.clone());
            let begun = Instant::now();
            // Its checksums must be those of sectors that a power cut cannot undo.
            self.disk.flush().map_err(|error| {
                Error::io(
                    format!("{}: cannot make the data durable", self.name),
                    &error,
                )
            })?;
            self.zones.zone(zone)?;
            held.replace(self.zones.parts(self.disk.len()))
                .map_err(|error| Error::failure(format!("{}: {error}", self.name)))?;
            let taken = begun.elapsed();
            let calls = self.disk.engine_time().calls;
            pause = match rate {
                Some(rate) => {
                    let least = Duration::from_micros(len.saturating_mul(1_000_000) / rate);
                    least.saturating_sub(taken)
                }
                None if calls == used => Duration::ZERO,
                // Then clients keep two thirds of their throughput.
                None => taken * 3,
            };
            used = calls;
        }
        self.zones.end(|| Ok(()))?;
        Ok(true)
    }
}
