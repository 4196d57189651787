// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts LUKS1 to LUKS2 in place. The data stay where they are. So do the keyslot areas, except
//! those that LUKS2's headers will cover.
//!
//! ```text
//! writes                                                  the volume afterwards
//! the keyslot areas are moved, key by key                 LUKS1 at each instant
//! 16 KiB..32 KiB   the secondary header, sync             LUKS1
//! 0..512           the primary header's beginning, sync   LUKS2, by its secondary header
//! 512..16 KiB      the rest of the primary header, sync   LUKS2
//! ```

use base64::{Engine, prelude::BASE64_STANDARD};
use luxor_engine::Mode;
use luxor_sector::Storage;
use luxor_volume::{HashAlgorithm, Kdf};
use serde_json::{Map, Value, json};

use super::{
    change::SectorOrder,
    convert::{ConvertError, MAX_UUID_LEN},
    header::Luks1Header,
    layout,
    phdr::{self, KEYSLOTS, RawKeyslot, UNIT},
    relocate::{self, KeyslotAreas, RelocationPlan, RelocationStep},
};
use crate::{
    af::STRIPES,
    luks2::{
        binary_header::{BinaryHeader, CopyKind, TextField, json_size},
        config::MAX_KEYSLOTS_SIZE,
        edit::{ChangeError, durable, new_copy},
        header::Luks2Header,
        keyslot::Keyslot,
        metadata::Metadata,
    },
};

/// The length in bytes of each LUKS2 header: the smallest and usual one.
const HEADER_SIZE: u64 = 16 << 10;
const HEADERS_END: u64 = 2 * HEADER_SIZE;
/// The length of the keyslots area is a multiple of this number of bytes.
const PAGE: u64 = 4096;
const HEADERS_AND_PAGE: u64 = HEADERS_END + PAGE;
/// The only keyslot with its state in the header's second sector.
const LAST: usize = KEYSLOTS - 1;

impl Luks1Header {
    /// Converts the volume to LUKS2, with the same keyslots, UUID and data. No secret is needed.
    /// The caller must hold the lock on the volume's metadata.
    ///
    /// At each instant the volume is valid as one version or the other, and every key opens it. A
    /// crash may leave a key in two keyslots, or under another number.
    ///
    /// # Errors
    /// [`ConvertError`]: the cipher, the UUID or the offset of the data is not suitable, there is no
    /// room for the headers, or the storage failed.
    pub fn convert_to_luks2(mut self, storage: &dyn Storage) -> Result<Luks2Header, ConvertError> {
        if let Some((&keyslot, &damage)) = self.damaged.first_key_value() {
            return Err(ConvertError::DamagedKeyslot { keyslot, damage });
        }
        self.begin(storage)?;
        if self.known_segment()?.encryption.mode() != Mode::Xts {
            let found = self.encryption.clone();
            return Err(ConvertError::Cipher { found });
        }
        // Parsing replaced bytes that are not UTF-8.
        if self.uuid.len() > MAX_UUID_LEN || self.uuid.contains(char::REPLACEMENT_CHARACTER) {
            return Err(ConvertError::Uuid);
        }
        // LUKS2 would break its rules, and the other bytes of the name would be lost.
        if self.hash.is_empty() || self.hash.contains(char::REPLACEMENT_CHARACTER) {
            return Err(ConvertError::HashName);
        }
        if matches!(self.entry.offset(), 1..HEADERS_AND_PAGE) {
            let is_removable = false;
            return Err(ConvertError::NoRoom { is_removable });
        }
        let len = storage
            .len()
            .map_err(|source| ChangeError::ReadBeginning { source })?;
        // As in cryptsetup, a detached header with an offset may grow to the longest keyslots area.
        let data = self.entry.offset();
        if data > len.max(HEADERS_END + MAX_KEYSLOTS_SIZE) {
            return Err(ConvertError::NoData { data, len });
        }
        let plan = self.make_room(len)?;
        let end = self.keyslots_end(&plan.end, len);
        let text = self.luks2_metadata(&plan, end).to_string();
        // Check the new metadata before anything is written: they must not be refused afterwards.
        Metadata::parse(&text, HEADER_SIZE).map_err(ChangeError::from)?;
        let binary = self.binary_header();
        let primary = new_copy(&binary, CopyKind::Primary, &text)?;
        let secondary = new_copy(&binary, CopyKind::Secondary, &text)?;

        for step in plan.steps {
            self.take(storage, step).map_err(ConvertError::moving)?;
        }
        self.overwrite_old_place(storage)?;
        let write = |kind, bytes: &[u8], offset| {
            durable::write(storage, bytes, offset)
                .map_err(|source| ChangeError::WriteCopy { kind, source })
        };
        if end > len {
            // A detached header: extend the file to the end of the keyslots area.
            storage
                .write_all_at(&[0], end - 1)
                .map_err(|source| ChangeError::WriteArea {
                    offset: end - 1,
                    source,
                })?;
        }
        write(CopyKind::Secondary, &secondary, HEADER_SIZE)?;
        let (first, rest) = primary.split_at(phdr::FIRST_SECTOR);
        write(CopyKind::Primary, first, 0)?;
        write(CopyKind::Primary, rest, phdr::FIRST_SECTOR as u64)?;
        Ok(Luks2Header::read(storage).map_err(ChangeError::from)?)
    }

    fn make_room(&self, len: u64) -> Result<RelocationPlan, ConvertError> {
        let limit = match self.entry.offset() {
            // A detached header can grow.
            0 => len.max(self.metadata_len + HEADERS_END),
            offset => offset,
        };
        let areas = self.areas(limit);
        relocate::plan(&areas, HEADERS_END).ok_or_else(|| {
            let is_removable = areas.keyslots(true).count() > 1
                && areas.keyslots(true).any(|slot| {
                    let mut fewer = areas;
                    fewer.used[slot] = false;
                    relocate::plan(&fewer, HEADERS_END).is_some()
                });
            ConvertError::NoRoom { is_removable }
        })
    }

    /// Moves the first area to where cryptsetup places it, because `cryptsetup convert` requires
    /// that. Does nothing if there is neither an empty keyslot nor room for this.
    pub(super) fn settle(&mut self, storage: &dyn Storage) -> Result<(), ConvertError> {
        // Without room for a detached header to grow: `limit` is 0, because its end is not known
        // here.
        let limit = self.entry.offset();
        let plan = relocate::settle(&self.areas(limit));
        for step in plan.into_iter().flat_map(|plan| plan.steps) {
            self.take(storage, step)?;
        }
        Ok(())
    }

    fn areas(&self, limit: u64) -> KeyslotAreas {
        KeyslotAreas {
            offsets: std::array::from_fn(|slot| self.area(slot).start),
            used: std::array::from_fn(|slot| self.raw(slot).active == phdr::ACTIVE),
            len: layout::area_len(self.key_len),
            limit,
        }
    }

    /// Returns the end of the keyslots area: the beginning of the data or, as in cryptsetup, the
    /// end of a detached header.
    fn keyslots_end(&self, areas: &KeyslotAreas, len: u64) -> u64 {
        let end = match self.entry.offset() {
            0 => {
                let used = (0..KEYSLOTS).filter(|&slot| areas.used[slot]);
                let last = used.map(|slot| areas.offsets[slot] + areas.len).max();
                let last = last.unwrap_or(0).next_multiple_of(PAGE);
                last.max(HEADERS_AND_PAGE).max(len / PAGE * PAGE)
            }
            offset => offset / PAGE * PAGE,
        };
        end.min(HEADERS_END + MAX_KEYSLOTS_SIZE)
    }

    fn take(&mut self, storage: &dyn Storage, step: RelocationStep) -> Result<(), ConvertError> {
        match step {
            RelocationStep::Place { slot, offset } => {
                let before = self.raw(slot);
                let after = RawKeyslot {
                    key_material_offset: layout::units(offset),
                    ..before.clone()
                };
                let is_used = before.active == phdr::ACTIVE;
                let old = self.area(slot);
                if is_used {
                    copy(storage, old.clone(), offset)?;
                }
                let mut bytes = *self.bytes;
                after.put(&mut bytes, slot);
                self.write(storage, bytes, SectorOrder::SecondFirst)?;
                if is_used {
                    durable::overwrite(storage, old)?;
                }
            }
            RelocationStep::Move { from, to } => {
                let key = self.raw(from);
                let offset = self.raw(to).key_material_offset;
                let at = |active, key_material_offset| RawKeyslot {
                    active,
                    key_material_offset,
                    ..key.clone()
                };
                // An empty keyslot with a salt is marked for `sweep`. Until the key has moved this
                // is `to`, afterwards it is `from`.
                let mut bytes = *self.bytes;
                at(phdr::DISABLED, offset).put(&mut bytes, to);
                self.write(storage, bytes, SectorOrder::FirstFirst)?;
                copy(storage, self.area(from), self.area(to).start)?;
                at(phdr::ACTIVE, offset).put(&mut bytes, to);
                at(phdr::DISABLED, key.key_material_offset).put(&mut bytes, from);
                // Write the sector that makes `to` valid first. If neither keyslot is `LAST`, both
                // states are in the first sector.
                let order = match to {
                    LAST => SectorOrder::SecondFirst,
                    _ => SectorOrder::FirstFirst,
                };
                self.write(storage, bytes, order)?;
                self.sweep(storage)?;
            }
        }
        Ok(())
    }

    /// Overwrites the bytes right after the headers, from which an interrupted conversion may have
    /// copied an area.
    fn overwrite_old_place(&self, storage: &dyn Storage) -> Result<(), ChangeError> {
        let data = match self.entry.offset() {
            0 => u64::MAX,
            offset => offset,
        };
        let used = self.keyslots.values().map(|keyslot| keyslot.area.offset);
        let end = used.fold(data, u64::min);
        let end = end.min(HEADERS_END + layout::area_len(self.key_len));
        if HEADERS_END < end {
            durable::overwrite(storage, HEADERS_END..end)
        } else {
            Ok(())
        }
    }

    /// Returns the header of which both copies are made: they get salts and offsets of their own.
    fn binary_header(&self) -> BinaryHeader {
        BinaryHeader {
            size: HEADER_SIZE,
            seqid: 1,
            label: TextField::new(""),
            checksum: HashAlgorithm::Sha256,
            salt: [0; 64],
            uuid: TextField::new(&self.uuid),
            subsystem: TextField::new(""),
            offset: 0,
        }
    }

    /// Returns LUKS2's metadata for the end of the plan, with JSON keys in cryptsetup's order.
    fn luks2_metadata(&self, plan: &RelocationPlan, end: u64) -> Value {
        let areas = &plan.end;
        let mut used: Vec<usize> = (0..KEYSLOTS).filter(|&slot| areas.used[slot]).collect();
        used.sort_by_key(|&slot| plan.numbers[slot]);
        let ends_before = |begin: u64| {
            let offsets = used.iter().map(|&slot| areas.offsets[slot]);
            offsets.filter(|&other| other > begin).chain([end]).min()
        };
        let mut keyslots = Map::new();
        for &slot in &used {
            let number = u32::try_from(plan.numbers[slot]).expect("below 8");
            let offset = areas.offsets[slot];
            // An area beyond the end has none, and the check of the metadata refuses it.
            let room = ends_before(offset).unwrap_or(end).saturating_sub(offset);
            // Whole pages, unless the next area or the end comes first.
            let size = layout::pitch(self.key_len).min(room);
            let keyslot = luks2_keyslot(&self.keyslots[&number], offset, size);
            keyslots.insert(number.to_string(), keyslot);
        }
        let numbers: Vec<String> = self.keyslots.keys().map(u32::to_string).collect();
        json!({
            "keyslots": keyslots,
            "tokens": {},
            "segments": { "0": {
                "type": "crypt",
                "offset": self.entry.offset().to_string(),
                "iv_tweak": "0",
                "size": "dynamic",
                "encryption": self.encryption,
                "sector_size": UNIT,
            }},
            "digests": { "0": {
                "type": "pbkdf2",
                "keyslots": numbers,
                "segments": ["0"],
                "hash": self.hash,
                "salt": BASE64_STANDARD.encode(&self.digest.salt),
                "digest": BASE64_STANDARD.encode(&self.digest.value),
                "iterations": self.digest.iterations,
            }},
            "config": {
                "json_size": json_size(HEADER_SIZE).to_string(),
                "keyslots_size": (end - HEADERS_END).to_string(),
            },
        })
    }
}

fn luks2_keyslot(keyslot: &Keyslot, offset: u64, size: u64) -> Value {
    let Kdf::Pbkdf2 {
        hash,
        iterations,
        salt,
    } = &keyslot.kdf
    else {
        unreachable!("LUKS1 has no other")
    };
    json!({
        "type": "luks2",
        "key_size": keyslot.key_len,
        "kdf": {
            "type": "pbkdf2",
            "hash": hash,
            "iterations": iterations,
            "salt": BASE64_STANDARD.encode(salt),
        },
        "af": {
            "type": "luks1",
            "hash": keyslot.af_hash,
            "stripes": STRIPES,
        },
        "area": {
            "type": "raw",
            "encryption": keyslot.area.encryption,
            "key_size": keyslot.area.key_len,
            "offset": offset.to_string(),
            "size": size.to_string(),
        },
    })
}

/// Copies an area to a range that does not overlap it. The copy is durable on return.
fn copy(storage: &dyn Storage, from: std::ops::Range<u64>, to: u64) -> Result<(), ConvertError> {
    let len = usize::try_from(from.end - from.start).expect("an area has at most 64 × 4000 bytes");
    let mut area = vec![0; len];
    storage
        .read_exact_at(&mut area, from.start)
        .map_err(|source| ConvertError::ReadArea {
            offset: from.start,
            source,
        })?;
    Ok(durable::write_area(storage, &area, to)?)
}
