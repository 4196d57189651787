// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes a LUKS1 volume's header and keyslots. The header has one copy and no checksum, so that
//! crash safety depends on the order of writes:
//!
//! ```text
//! add a key        write its area, sync; write the header, sync
//! remove a key     overwrite its area, sync; write the header, sync
//! replace a key    add the new key to an empty keyslot, then write it in place of the
//!                  old one, then remove it from the first keyslot
//! … in place       write its area, sync; write the header, sync: a crash in between
//!                  loses the keyslot
//! ```
//!
//! A disk writes a sector of 512 bytes whole or not at all. The header has 592 bytes: keyslot 7 and
//! most of keyslot 6's salt are in the second sector, and the fields that mark the other keyslots
//! as used are in the first. The second sector is written first when a key is added, and last when
//! a key is removed: then a keyslot that is marked as used always has its whole salt.

use std::ops::Range;

use luxor_engine::Backend;
use luxor_sector::Storage;
use luxor_volume::{Encryption, HashAlgorithm, PbkdfOptions};
use uuid::Uuid;

use super::{
    header::Luks1Header,
    layout,
    phdr::{self, KEYSLOTS, RawKeyslot, UNIT},
};
use crate::luks2::{
    binary_header::{self, CopyKind},
    edit::{ChangeError, durable, free_number},
    new_keyslot::{KeyDigest, NewKeyslot, NewKeyslotError},
    unlock::ConfirmedKey,
};

/// The order in which the two sectors of the header are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SectorOrder {
    /// For a change that makes a keyslot valid.
    SecondFirst,
    /// For a change that makes a keyslot invalid.
    FirstFirst,
}

impl Luks1Header {
    /// Encrypts the volume key under `secret`: the slow part of adding or changing a keyslot, like
    /// [`Luks2Header::new_keyslot`](crate::Luks2Header::new_keyslot). The options must be of kind
    /// [`PbkdfKind::Pbkdf2`](crate::PbkdfKind::Pbkdf2); the hash is the volume's.
    ///
    /// # Errors
    /// [`NewKeyslotError`]: LUKS1 does not support the options, the key belongs to another volume,
    /// memory is short, or the system returned no random bytes.
    pub fn new_keyslot<'a>(
        &self,
        key: impl Into<ConfirmedKey<'a>>,
        secret: &[u8],
        pbkdf: &PbkdfOptions,
        backend: &dyn Backend,
    ) -> Result<NewKeyslot, NewKeyslotError> {
        pbkdf.check_luks1()?;
        let ConfirmedKey {
            digest,
            volume_key: key,
        } = key.into();
        self.digest
            .confirm(key.expose())
            .map_err(|_| NewKeyslotError::OtherVolume)?;
        // The areas may be supported although the data are not.
        let encryption = Encryption::of_area_by_name(&self.encryption)
            .filter(|encryption| encryption.key_lens().contains(&self.key_len))
            .map_or_else(
                || self.known_segment().map(|segment| segment.encryption),
                Ok,
            )?;
        let hash = HashAlgorithm::by_name(&self.hash).ok_or_else(|| NewKeyslotError::Hash {
            found: self.hash.clone(),
        })?;
        let area = (encryption, self.key_len);
        let new = NewKeyslot::make(key, secret, pbkdf, hash, area, backend)?;
        Ok(NewKeyslot {
            digest: KeyDigest::Present(digest, self.digest.value.clone()),
            ..new
        })
    }

    /// Adds `new` as keyslot `number`, or as the first empty keyslot, and returns its number. The
    /// area is durable before the header refers to it.
    ///
    /// This is fast, like all changes, and the caller must hold the lock on the volume's metadata.
    /// The change is refused if the header on `storage` is no longer the one that was read into
    /// this value.
    ///
    /// # Errors
    /// [`ChangeError`]: no keyslot is empty, `number` is used, or `new` holds another key; or the
    /// header on `storage` is not the one that was read, or cannot be written.
    pub fn add_keyslot(
        &mut self,
        storage: &dyn Storage,
        new: &NewKeyslot,
        number: Option<u32>,
    ) -> Result<u32, ChangeError> {
        self.begin(storage)?;
        self.check_key(new)?;
        let number = self.free_keyslot(number)?;
        self.put_key(storage, number, new)?;
        Ok(number)
    }

    /// Replaces keyslot `number` with `new`, which has another secret or other costs. At each instant
    /// the old or the new keyslot can be opened. A crash may leave both, or the new one twice.
    ///
    /// # Errors
    /// [`ChangeError`]: as for [`Luks1Header::add_keyslot`]. [`ChangeError::NoRoomBeside`] if all
    /// eight keyslots are used.
    pub fn replace_keyslot(
        &mut self,
        storage: &dyn Storage,
        number: u32,
        new: &NewKeyslot,
    ) -> Result<(), ChangeError> {
        self.begin(storage)?;
        self.check_key(new)?;
        self.require(number)?;
        let other = self
            .free_keyslot(None)
            .map_err(|error| ChangeError::NoRoomBeside {
                keyslot: number,
                is_only: false,
                error: Box::new(error),
            })?;
        self.put_key(storage, other, new)?;
        let offset = self.area(slot(number)?).start;
        self.put_key(storage, number, new)
            .and_then(|()| self.take_key(storage, other))
            .map_err(|error| ChangeError::NewKeyElsewhere {
                keyslot: number,
                offset,
                other,
                error: Box::new(error),
            })
    }

    /// Replaces keyslot `number` as [`Luks1Header::replace_keyslot`] does, but without another keyslot.
    /// A crash between the first write to its area and the write of the header leaves a keyslot that
    /// no secret opens. Other keyslots are not touched.
    ///
    /// # Errors
    /// [`ChangeError`]: as for [`Luks1Header::add_keyslot`]; the old area is written back if the new
    /// one cannot be used.
    pub fn replace_keyslot_in_place(
        &mut self,
        storage: &dyn Storage,
        number: u32,
        new: &NewKeyslot,
    ) -> Result<(), ChangeError> {
        self.begin(storage)?;
        self.check_key(new)?;
        self.require(number)?;
        let slot = slot(number)?;
        let offset = self.area(slot).start;
        durable::replace_area(storage, &new.encrypted, (number, offset), || {
            self.put_raw(storage, slot, new)
        })
    }

    /// Removes keyslot `number`, which may be the last one. Its area is overwritten first; from
    /// then on no secret opens it, even if the header is not changed.
    ///
    /// # Errors
    /// [`ChangeError`]: the keyslot is empty, or the header on `storage` is not the one that was
    /// read, or cannot be written.
    pub fn remove_keyslot(
        &mut self,
        storage: &dyn Storage,
        number: u32,
    ) -> Result<(), ChangeError> {
        self.begin(storage)?;
        if !self.holds_key(number) {
            return Err(ChangeError::Missing { what: WHAT, number });
        }
        let taken = self.take_key(storage, number);
        taken.map_err(|error| error.while_destroying(Some(number)))
    }

    /// Removes all keyslots. No secret opens the volume any more. The areas of all keyslots, used
    /// and empty, are overwritten first, because interrupted changes may have left keys in empty
    /// ones.
    ///
    /// # Errors
    /// [`ChangeError`]: the header on `storage` is not the one that was read, or cannot be written.
    pub fn erase(&mut self, storage: &dyn Storage) -> Result<(), ChangeError> {
        self.begin(storage)?;
        let destroying = |error: ChangeError| error.while_destroying(None);
        let mut bytes = *self.bytes;
        for number in 0..KEYSLOTS {
            durable::overwrite(storage, self.area(number)).map_err(destroying)?;
            RawKeyslot::empty(self.raw(number).key_material_offset).put(&mut bytes, number);
        }
        self.write(storage, bytes, SectorOrder::FirstFirst)
            .map_err(destroying)
    }

    /// Sets the UUID.
    ///
    /// # Errors
    /// [`ChangeError`]: the header on `storage` is not the one that was read, or cannot be written.
    pub fn set_uuid(&mut self, storage: &dyn Storage, uuid: Uuid) -> Result<(), ChangeError> {
        self.begin(storage)?;
        let mut bytes = *self.bytes;
        phdr::put_uuid(&mut bytes, &uuid.to_string());
        self.write(storage, bytes, SectorOrder::FirstFirst)
    }

    /// Begins a change. The caller holds the lock on the volume's metadata until the change is
    /// written. Fails if the header on `storage` is not this one. Then syncs, because a program
    /// that was killed may have left the header in the page cache only, and removes what an
    /// interrupted conversion left.
    pub(super) fn begin(&mut self, storage: &dyn Storage) -> Result<(), ChangeError> {
        let now = Self::read(storage)?;
        if now.bytes != self.bytes {
            return Err(ChangeError::ChangedMeanwhile);
        }
        storage
            .sync()
            .map_err(|source| ChangeError::Sync { source })?;
        self.sweep(storage)?;
        self.remove_luks2(storage)
    }

    /// Overwrites the areas of empty keyslots that have a salt, and empties these keyslots. The
    /// salt marks the source or the destination of an interrupted move of a key. That key is also in
    /// a used keyslot: if there is none, a damaged keyslot only looks empty.
    pub(super) fn sweep(&mut self, storage: &dyn Storage) -> Result<(), ChangeError> {
        if self.keyslots.is_empty() {
            return Ok(());
        }
        for slot in 0..KEYSLOTS {
            let keyslot = self.raw(slot);
            let empty = RawKeyslot::empty(keyslot.key_material_offset);
            if keyslot.active == phdr::DISABLED && keyslot != empty {
                durable::overwrite(storage, self.area(slot))?;
                let mut bytes = *self.bytes;
                empty.put(&mut bytes, slot);
                self.write(storage, bytes, SectorOrder::FirstFirst)?;
            }
        }
        Ok(())
    }

    /// Overwrites secondary headers of LUKS2. One of them would be taken for the volume's header if
    /// a write of the first sector failed.
    fn remove_luks2(&self, storage: &dyn Storage) -> Result<(), ChangeError> {
        let failed = |source| ChangeError::ReadBeginning { source };
        let end = match self.entry.offset() {
            0 => u64::MAX,
            offset => offset,
        };
        let end = end.min(storage.len().map_err(failed)?);
        for offset in binary_header::SIZES {
            let place = offset..offset + binary_header::LEN as u64;
            let is_used = self
                .used_areas()
                .any(|area| area.start < place.end && place.start < area.end);
            if is_used || place.end > end {
                continue;
            }
            let mut magic = [0; 6];
            storage.read_exact_at(&mut magic, offset).map_err(failed)?;
            if magic == *CopyKind::Secondary.magic() {
                durable::overwrite(storage, place)?;
            }
        }
        Ok(())
    }

    /// Writes `bytes` as the header.
    pub(super) fn write(
        &mut self,
        storage: &dyn Storage,
        bytes: phdr::Bytes,
        order: SectorOrder,
    ) -> Result<(), ChangeError> {
        let new = Self::parse(&bytes)?;
        write_sectors(storage, &self.bytes, &bytes, order).map_err(|error| {
            match Self::read(storage) {
                Ok(now) if now.bytes == self.bytes => error,
                // A part was written before the failure, or the header cannot be read any more.
                _ => ChangeError::Unsettled {
                    error: Box::new(error),
                },
            }
        })?;
        let mut now = [0; phdr::LEN];
        let read = storage.read_exact_at(&mut now, 0);
        read.map_err(|source| ChangeError::Unsettled {
            error: Box::new(ChangeError::ReadBeginning { source }),
        })?;
        if now != bytes {
            return Err(ChangeError::WrittenOver);
        }
        *self = new;
        Ok(())
    }

    fn check_key(&self, new: &NewKeyslot) -> Result<(), ChangeError> {
        if matches!(&new.digest, KeyDigest::Present(0, value) if *value == self.digest.value) {
            Ok(())
        } else {
            Err(ChangeError::OtherKey)
        }
    }

    fn require(&self, number: u32) -> Result<(), ChangeError> {
        if self.keyslots.contains_key(&number) {
            Ok(())
        } else {
            Err(ChangeError::Missing { what: WHAT, number })
        }
    }

    fn free_keyslot(&self, wanted: Option<u32>) -> Result<u32, ChangeError> {
        free_number(WHAT, wanted, MAX, |number| self.holds_key(number))
    }

    fn put_key(
        &mut self,
        storage: &dyn Storage,
        number: u32,
        new: &NewKeyslot,
    ) -> Result<(), ChangeError> {
        let slot = slot(number)?;
        let offset = self.area(slot).start;
        durable::write_area(storage, &new.encrypted, offset)?;
        self.put_raw(storage, slot, new)?;
        let checked = durable::check_area(storage, &new.encrypted, offset);
        checked.map_err(|error| match error {
            ChangeError::WrittenOver => error,
            error => ChangeError::Unsettled {
                error: Box::new(error),
            },
        })
    }

    /// Writes the header with `new` in keyslot `slot`.
    fn put_raw(
        &mut self,
        storage: &dyn Storage,
        slot: usize,
        new: &NewKeyslot,
    ) -> Result<(), ChangeError> {
        let mut bytes = *self.bytes;
        let mut keyslot = self.raw(slot);
        keyslot.fill(&new.kdf);
        keyslot.put(&mut bytes, slot);
        self.write(storage, bytes, SectorOrder::SecondFirst)
    }

    fn take_key(&mut self, storage: &dyn Storage, number: u32) -> Result<(), ChangeError> {
        let slot = slot(number)?;
        durable::overwrite(storage, self.area(slot))?;
        let mut bytes = *self.bytes;
        RawKeyslot::empty(self.raw(slot).key_material_offset).put(&mut bytes, slot);
        self.write(storage, bytes, SectorOrder::FirstFirst)
    }

    pub(super) fn raw(&self, slot: usize) -> RawKeyslot {
        let phdr = phdr::Phdr::parse(&self.bytes).expect("`bytes` was parsed before");
        phdr.keyslots[slot].clone()
    }

    /// The ranges of the areas of all keyslots that hold a key, or may hold one.
    pub(crate) fn used_areas(&self) -> impl Iterator<Item = Range<u64>> {
        let numbers = self.digest.keyslots.iter();
        numbers.map(|&number| self.area(number as usize))
    }

    /// The range of the area of keyslot `slot`, used or empty, in bytes.
    pub(super) fn area(&self, slot: usize) -> Range<u64> {
        let begin = u64::from(self.raw(slot).key_material_offset) * UNIT;
        begin..begin + layout::area_len(self.key_len)
    }
}

/// Writes the sectors that differ between `old` and `new`. The first is durable before the second
/// is written.
pub(super) fn write_sectors(
    storage: &dyn Storage,
    old: &phdr::Bytes,
    new: &phdr::Bytes,
    order: SectorOrder,
) -> Result<(), ChangeError> {
    let mut sectors = [0..phdr::FIRST_SECTOR, phdr::FIRST_SECTOR..phdr::LEN];
    if order == SectorOrder::SecondFirst {
        sectors.reverse();
    }
    for sector in sectors {
        let (old, new) = (&old[sector.clone()], &new[sector.clone()]);
        if old != new {
            durable::write(storage, new, sector.start as u64)
                .map_err(|source| ChangeError::WriteHeader { source })?;
        }
    }
    Ok(())
}

const WHAT: &str = "keyslot";
const MAX: u32 = 8;
const _: () = assert!(MAX as usize == KEYSLOTS);

fn slot(number: u32) -> Result<usize, ChangeError> {
    usize::try_from(number)
        .ok()
        .filter(|&slot| slot < KEYSLOTS)
        .ok_or(ChangeError::Number {
            what: WHAT,
            number,
            max: MAX - 1,
        })
}
