// SPDX-License-Identifier: MIT OR Apache-2.0
//! Re-encrypts a volume while its plaintext is a disk in use.

use std::{
    mem,
    num::NonZeroU64,
    ops::Range,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use luxor_files::{DataFile, locks::ReencryptionLock};
use luxor_luks::{ReencryptDirection, ReencryptMode};
use luxor_sector::Disk;

use super::{
    Found, ReencryptError, ReencryptOptions, begin_or_find,
    zones::{ZoneByZone, waits},
};
use crate::{
    Context, DiskUse, Error, LuksVolume, Result, Secrets, VolumeDisk, error::Cause,
    luks_volume::is_locked,
};

/// The longest zone by default, in bytes, while no client uses the disk.
const ZONE: u64 = 4 << 20;

/// The longest zone by default, in bytes, while clients use the disk. Requests for the zone wait, and others
/// compete with it for the CPU until it is done. With shorter zones the re-encryption is slow, because each
/// is made durable several times.
const ZONE_IN_USE: u64 = 1 << 20;

/// How soon a pause ends for an interruption.
const MOMENT: Duration = Duration::from_millis(20);

/// A re-encryption of a volume that is exported. When this is dropped, the volume is still exported.
pub struct ReencryptionInUse {
    zones: ZoneByZone,
    disk: Arc<Disk>,
    /// The longest zone in bytes while clients use the disk.
    longest_in_use: u64,
    name: String,
    context: Context,
    _lock: Arc<ReencryptionLock>,
}

/// Begins to re-encrypt a volume with a new key, or continues what has begun, and makes a disk of it that can
/// be used meanwhile. `volume` has its metadata with [`Role::Change`](luxor_files::Role::Change), and `data`
/// are open for writing. What a crash has left half done is finished first. [`ReencryptionInUse::run`] does
/// the rest; without it, the volume stays as it is, and can be used all the same.
///
/// # Errors
/// Those of [`reencrypt`](fn@super::reencrypt). Also fails when the export is read-only or cannot be made,
/// when more than the encryption changes (plain data are encrypted or decrypted, or data are moved), and
/// when nothing protects the zones from a crash.
pub fn reencrypt_in_use(
    volume: LuksVolume,
    data: DataFile,
    secrets: &dyn Secrets,
    options: &ReencryptOptions,
    export: &DiskUse,
    context: &Context,
) -> Result<(VolumeDisk, ReencryptionInUse)> {
    let name = volume.data_name();
    let refused = |error: ReencryptError| error.about(&name);
    if export.read_only {
        return Err(refused(ReencryptError::ReadOnly));
    }
    if options.mode == Some(ReencryptMode::Decrypt) {
        return Err(refused(ReencryptError::DecryptInUse));
    }
    if !volume.header.is_reencrypting() {
        VolumeDisk::check_direct(&volume, &data, export)?;
    }
    let Found::Reencryption(reencryption, lock) =
        begin_or_find(volume, &data, None, secrets, options, context)?
    else {
        return Err(refused(ReencryptError::PlainInUse));
    };
    let state = reencryption.volume.reencryption(reencryption.data_len)?;
    let other = match state.mode {
        ReencryptMode::Encrypt => Some("plain data that are being encrypted"),
        ReencryptMode::Decrypt => Some("data that are being decrypted for good"),
        ReencryptMode::Reencrypt if state.old.offset != state.new.offset => {
            Some("data that are being moved")
        }
        // Its last zone may be changed twice.
        ReencryptMode::Reencrypt if state.direction == ReencryptDirection::Backward => {
            Some("data that are being re-encrypted from their end on")
        }
        ReencryptMode::Reencrypt => None,
    };
    if let Some(what) = other {
        return Err(refused(ReencryptError::OnlyOffline { what }));
    }
    let header = &reencryption.volume.header;
    let export = DiskUse {
        allow_discards: export.allow_discards || header.allows_discards(),
        ..*export
    };
    let mut zones = reencryption.resume(Some(options.zone.unwrap_or(ZONE)))?;
    let header = &zones.reencryption.volume.header;
    if header.has_trailer() {
        return Err(refused(ReencryptError::NoTrailerInUse));
    }
    let len = header.file_length().unwrap_or(u64::MAX);
    if !zones.is_protected() {
        return Err(refused(ReencryptError::UnprotectedInUse));
    }
    let lock = Arc::new(lock);
    let (parts, kept) = (zones.parts(len), Some(Arc::clone(&lock)));
    let export = VolumeDisk::of_parts(data, parts, kept, zones.engine().threads, &export)?;
    let disk = Arc::clone(export.shared());
    zones.use_storage(Arc::clone(&disk).storage());
    let in_use = ReencryptionInUse {
        zones,
        disk,
        longest_in_use: options.zone.unwrap_or(ZONE_IN_USE),
        name,
        context: context.clone(),
        _lock: lock,
    };
    Ok((export, in_use))
}

impl ReencryptionInUse {
    /// Does what is left, and ends it. At most `rate` bytes are done in each second. Without a rate, it works
    /// for a quarter of the time while anyone uses the disk.
    ///
    /// While another program has locked the metadata, it waits, and all requests are served.
    ///
    /// # Errors
    /// Fails with [`ErrorClass::Cancelled`](crate::ErrorClass) between two zones when [`Context::cancel`] is set, and when something
    /// cannot be read or written. After an error within a zone, which the hint names, all requests for this
    /// zone fail. In each case another [`reencrypt_in_use`] continues.
    pub fn run(mut self, rate: Option<NonZeroU64>) -> Result<()> {
        let context = self.context.clone();
        let total = Some(self.disk.len());
        let report = (context.events).bytes("Re-encrypting", self.name.clone(), total);
        report.continue_from(self.zones.done());
        let mut used = self.disk.engine_time().calls;
        let mut longest = self.longest_in_use;
        let mut has_warned = false;
        loop {
            let Some(zone) = self.zones.next(longest) else {
                return Ok(());
            };
            let pause = match self.zone(zone) {
                // There is nothing to wait for.
                Ok(_) if self.zones.is_done() => {
                    report.at(self.zones.done());
                    return Ok(());
                }
                Ok((len, taken)) => {
                    has_warned = false;
                    report.at(self.zones.done());
                    let calls = self.disk.engine_time().calls;
                    let is_used = mem::replace(&mut used, calls) != calls;
                    longest = if is_used {
                        self.longest_in_use
                    } else {
                        u64::MAX
                    };
                    match rate {
                        Some(rate) => {
                            let least = Duration::from_micros(len.saturating_mul(1_000_000) / rate);
                            least.saturating_sub(taken)
                        }
                        // Other programs can read the metadata then.
                        None if !is_used => taken / 4,
                        // Then clients keep two thirds of their throughput.
                        None => taken * 3,
                    }
                }
                Err(error) if is_locked(&error) => {
                    if !mem::replace(&mut has_warned, true) {
                        context.events.warning(&waits(&error));
                    }
                    MOMENT
                }
                Err(error) => return Err(error),
            };
            self.wait(pause)?;
        }
    }

    /// Does a zone. Returns its length, and how long requests for it had to wait. If another program has
    /// locked the metadata, it fails with [`ErrorClass::Busy`](crate::ErrorClass), and nothing has waited.
    fn zone(&mut self, zone: Range<u64>) -> Result<(u64, Duration)> {
        // What can take long comes before requests for the zone must wait.
        flush(&self.disk, &self.name)?;
        let disk = Arc::clone(&self.disk);
        let mut held = None;
        let changed = self.zones.zone_in_use(&zone, || {
            held = Some((disk.hold(zone.clone()), Instant::now()));
            // Its checksums must be those of sectors that a power cut cannot undo.
            flush(&disk, &self.name)
        });
        match (held, changed) {
            // What can fail after the last zone does not concern the requests for it.
            (Some((held, begun)), changed) if changed.is_ok() || self.zones.is_done() => {
                let replaced = held.replace(self.zones.parts(disk.len()));
                replaced.map_err(|error| error.about(&self.name))?;
                changed.map(|()| (zone.end - zone.start, begun.elapsed()))
            }
            (Some(_), Err(source)) if self.zones.is_in_zone() => {
                let (first, last) = (zone.start, zone.end - 1);
                let source = ReencryptError::ZoneInUse {
                    first,
                    last,
                    source,
                };
                Err(source.into())
            }
            (held, changed) => {
                if let Some((held, _)) = held {
                    held.release();
                }
                changed.map(|()| (0, Duration::ZERO))
            }
        }
    }

    fn wait(&self, pause: Duration) -> Result<()> {
        let end = Instant::now() + pause;
        loop {
            self.context.check_cancelled()?;
            match end.saturating_duration_since(Instant::now()) {
                Duration::ZERO => return Ok(()),
                left => thread::sleep(left.min(MOMENT)),
            }
        }
    }
}

fn flush(disk: &Disk, name: &str) -> Result<()> {
    disk.flush()
        .map_err(|error| Error::io(format!("{name}: cannot make the data durable"), &error))
}
