// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file that ends with a trailer: only the old key recognises it, so its length is recorded while
//! that key is still there, also where another program has begun the re-encryption.

use std::sync::Arc;

use luxor_luks::{ReencryptMode, ReencryptionProgress, TrailerKey};
use luxor_secret::SecretBytes;
use luxor_sector::{Disk, DiskOptions};

use super::{zone::Zones, zones::Reencryption};
use crate::{OpenError, Result, error::Cause};

impl Reencryption {
    /// Records the length of a file with a trailer in the metadata. If the trailer is what follows the
    /// data of a file, it is cut off at the end.
    ///
    /// # Errors
    /// Fails when the last sector cannot be read, or the metadata cannot be changed.
    pub(super) fn take_over_trailer(
        &mut self,
        zones: &Zones,
        progress: &ReencryptionProgress,
    ) -> Result<()> {
        let header = &self.volume.header;
        let has_trailer = header.has_trailer();
        if !has_trailer && header.file_length().is_none() {
            return Ok(());
        }
        let length = self.length_in_trailer(zones, progress)?;
        if let (true, Some(length)) = (has_trailer, length) {
            self.change(|header, storage| header.record_file_length(storage, length))?;
        } else if has_trailer {
            let text = "the trailer that ends the file was not found: afterwards it is not known \
                        where the file ends";
            let text = format!("{}: {text}", self.name);
            self.context.events.warning(&text);
        }
        let new = zones.state.new;
        let padded = new
            .cipher
            .zip(length)
            .and_then(|(cipher, length)| cipher.geometry.sector_size.payload_len(length));
        if let (Some(padded), true) = (padded, self.may_cut) {
            self.cut_at = Some(new.offset + padded);
        }
        Ok(())
    }

    /// Returns the length of the file if the last sector of the data is its trailer.
    fn length_in_trailer(
        &self,
        zones: &Zones,
        progress: &ReencryptionProgress,
    ) -> Result<Option<u64>> {
        let state = &zones.state;
        let parts = zones.parts(progress, u64::MAX);
        let is_whole = parts.iter().map(|part| part.len).sum::<u64>() == self.data_len;
        let old = state.old.cipher.filter(|_| {
            // If only a part is changed, the rest with the trailer is given up.
            is_whole && state.mode == ReencryptMode::Reencrypt
        });
        let Some((cipher, key)) = old.and_then(|old| Some((old, self.keys.get(&old.key)?))) else {
            return Ok(None);
        };
        let sector_size = cipher.geometry.sector_size;
        let trailer = TrailerKey::new(key, self.volume.header.uuid(), sector_size);
        let mut sector = SecretBytes::zeroed(sector_size.bytes());
        let Some(offset) = self.data_len.checked_sub(sector.len() as u64) else {
            return Ok(None);
        };
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| {
            OpenError::LastSector { source }.about(&self.name)
        };
        let options = DiskOptions {
            read_only: true,
            ..DiskOptions::default()
        };
        let disk = Disk::new(Arc::clone(&self.data), parts, options);
        let disk = disk.map_err(|error| failed(error.into()))?;
        let read = disk.read(sector.expose_mut(), offset);
        read.map_err(|error| failed(error.into()))?;
        Ok(trailer.length(sector.expose(), offset))
    }
}
