// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repairs a damaged LUKS1 header, as far as its former contents are certain. There is one copy and
//! no checksum, but many fields can be derived from others:
//!
//! ```text
//! field                  derived from
//! magic, version         all other fields, which must form a valid header
//! hash-spec              its own letters, if some are capital
//! key-bytes              the distance between the areas
//! uuid                   its first 36 characters, after which it must end
//! key-material-offset    the other areas, most of which lie where cryptsetup places them;
//!                        the area of an empty keyslot may lie wherever there is room
//! stripes                always 4000
//! active                 the word that it is close to, if the rest of the keyslot agrees;
//!                        empty also if all the rest is intact and blank
//! ```
//!
//! Salts, digest, iterations and the offset of the data are stored once and cannot be derived.
//!
//! A program that overwrites a header by mistake usually overwrites its end: a partition table
//! covers bytes 440 to 512, which are in keyslots 4 to 6.

use std::{fmt, ops::Range};

use luxor_sector::{Storage, foreign_signature};
use luxor_volume::{Encryption, HashAlgorithm, brief};
use uuid::Uuid;

use super::{
    change::{SectorOrder, write_sectors},
    header::{Luks1Header, encryption_name},
    layout::{self, AREA_ALIGNMENT},
    phdr::{self, KEYSLOTS, MAGIC, Phdr, RawKeyslot, UNIT},
    relocate::places,
};
use crate::{
    af::STRIPES,
    luks1_error::Luks1Error,
    luks2::edit::{ChangeError, Overwrite},
};

/// The number of areas, of eight, that must lie where cryptsetup places them before others are
/// moved to their places.
const MOST: usize = 5;

/// The salt of an empty keyslot.
const NO_SALT: [u8; 32] = [0; 32];

/// The last two bytes of a boot sector, at byte 510. They fall into the salt of [`MARKED_KEYSLOT`],
/// at [`MARK_IN_SALT`].
const PARTITION_MARK: [u8; 2] = [0x55, 0xaa];
const MARKED_KEYSLOT: usize = 6;
const MARK_IN_SALT: usize = 6;

/// A planned repair of a LUKS1 header. Nothing has been written yet.
#[derive(Clone, Debug)]
pub struct Luks1Repair {
    damaged: Box<phdr::Bytes>,
    header: Luks1Header,
    restored: Vec<Luks1Restored>,
}

impl Luks1Repair {
    /// Looks for damage in the header at the beginning of `storage`. The caller holds the lock on
    /// the volume's metadata. In a valid header only the name of the hash, the length of the key and the
    /// end of the UUID may be damaged.
    ///
    /// [`Overwrite::Anything`] permits overwriting the signature of another format, and empties
    /// keyslots with an unknown former state.
    ///
    /// # Errors
    /// [`Luks1RepairError`]: the former contents cannot be determined, or `storage` has the
    /// signature of another format, which may be wanted.
    pub fn plan(storage: &dyn Storage, overwrite: Overwrite) -> Result<Self, Luks1RepairError> {
        let damaged = Luks1Header::read_bytes(storage)?;
        let (header, restored) = restore(&damaged, overwrite)?;
        if !restored.is_empty() && overwrite == Overwrite::Damaged {
            let found = foreign_signature(storage)
                .map_err(|source| ChangeError::ReadBeginning { source })?;
            if let Some(found) = found {
                return Err(Luks1RepairError::ForeignSignature { found });
            }
        }
        Ok(Self {
            damaged: Box::new(damaged),
            header,
            restored,
        })
    }

    /// The header after the repair.
    #[must_use]
    pub fn header(&self) -> &Luks1Header {
        &self.header
    }

    /// What will be restored. Empty if the header is valid.
    #[must_use]
    pub fn restored(&self) -> &[Luks1Restored] {
        &self.restored
    }

    /// Writes the bytes that differ, and returns when they are durable. The caller still holds the
    /// lock. If a crash interrupts this, the rest can be repaired in the same way.
    ///
    /// # Errors
    /// [`ChangeError`]: the header changed since the repair was planned, or cannot be written.
    pub fn write(self, storage: &dyn Storage) -> Result<Luks1Header, ChangeError> {
        if Luks1Header::read_bytes(storage)? != *self.damaged {
            return Err(ChangeError::ChangedMeanwhile);
        }
        storage
            .sync()
            .map_err(|source| ChangeError::Sync { source })?;
        let order = SectorOrder::FirstFirst;
        write_sectors(storage, &self.damaged, &self.header.bytes, order)?;
        Ok(self.header)
    }
}

fn restore(
    damaged: &phdr::Bytes,
    overwrite: Overwrite,
) -> Result<(Luks1Header, Vec<Luks1Restored>), Luks1RepairError> {
    let mut bytes = *damaged;
    if !damaged.starts_with(MAGIC) {
        bytes[..MAGIC.len()].copy_from_slice(MAGIC);
        // Only a header that is otherwise whole shows that it was one.
        let header = Luks1Header::parse(&bytes).map_err(|_| Luks1Error::Magic)?;
        return Ok((header, vec![Luks1Restored::Magic]));
    }
    let valid = Luks1Header::parse(damaged);
    let mut restored = Vec::new();
    restored.extend(restore_uuid(&mut bytes));
    let mut phdr = Phdr::parse(&bytes)?;
    restored.extend(restore_hash(&mut bytes, &phdr));
    let mut lost = Vec::new();
    if let Some(encryption) = Encryption::by_name(&encryption_name(&phdr)) {
        restored.extend(restore_key_len(&mut phdr, encryption));
        if valid.is_err() && encryption.key_lens().contains(&phdr.key_bytes) {
            let keyslots = KeyslotClaims::new(&phdr);
            lost = keyslots.unknown();
            restored.extend(keyslots.restore(&mut phdr.keyslots));
        }
    }
    phdr.put_numbers(&mut bytes);
    // Any other damage cannot be repaired, and is an error here.
    let header = Luks1Header::parse(&bytes)?;
    if !lost.is_empty() && overwrite == Overwrite::Damaged {
        return Err(Luks1RepairError::Unknown { keyslots: lost });
    }
    Ok((header, restored))
}

fn restore_uuid(bytes: &mut phdr::Bytes) -> Option<Luks1Restored> {
    let field = &bytes[phdr::UUID];
    let uuid = Uuid::try_parse_ascii(&field[..36]).ok()?;
    if field.contains(&0) {
        return None;
    }
    phdr::put_uuid(bytes, &uuid.to_string());
    Some(Luks1Restored::Uuid)
}

/// Restores the hash's name in lowercase. Programs that accept either case wrote capital letters.
fn restore_hash(bytes: &mut phdr::Bytes, phdr: &Phdr) -> Option<Luks1Restored> {
    let from = phdr.hash_spec.clone();
    let hash = HashAlgorithm::by_name(&from.to_ascii_lowercase())?;
    if from == hash.name() {
        return None;
    }
    bytes[phdr::HASH_SPEC][..from.len()].make_ascii_lowercase();
    Some(Luks1Restored::Hash { from, hash })
}

/// Restores the key length for which the areas lie where cryptsetup places them. The present length
/// is replaced if the cipher does not allow it, or if it is greater, so that the areas would
/// overlap.
fn restore_key_len(phdr: &mut Phdr, encryption: Encryption) -> Option<Luks1Restored> {
    let from = phdr.key_bytes;
    let lens = encryption.key_lens();
    let is_wrong = |to: u32| !lens.contains(&from) || from > to;
    let to = lens
        .into_iter()
        .find(|&len| len != from && is_wrong(len) && standard(phdr, len).count() >= MOST)?;
    phdr.key_bytes = to;
    Some(Luks1Restored::KeyLen { from, to })
}

/// The keyslots with areas that begin where cryptsetup places them.
fn standard(phdr: &Phdr, key_len: u32) -> impl Iterator<Item = usize> {
    let is_standard = move |(slot, keyslot): (usize, &RawKeyslot)| {
        (offset(keyslot) == layout::area_offset(key_len, slot)).then_some(slot)
    };
    phdr.keyslots.iter().enumerate().filter_map(is_standard)
}

fn offset(keyslot: &RawKeyslot) -> u64 {
    u64::from(keyslot.key_material_offset) * UNIT
}

/// What the keyslots say, given the key length.
struct KeyslotClaims {
    states: [KeyslotState; KEYSLOTS],
    offsets: [u64; KEYSLOTS],
    /// The offsets at which cryptsetup places the areas.
    standard: [u64; KEYSLOTS],
    /// The length of each area.
    len: u64,
    /// The offset at which all areas must have ended.
    limit: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum KeyslotState {
    Used,
    Empty,
    Unknown,
}

impl KeyslotClaims {
    fn new(phdr: &Phdr) -> Self {
        let key_len = phdr.key_bytes;
        let standard = std::array::from_fn(|slot| layout::area_offset(key_len, slot));
        Self {
            states: std::array::from_fn(|slot| {
                let keyslot = &phdr.keyslots[slot];
                keyslot.state(offset(keyslot) == standard[slot], is_marked(keyslot, slot))
            }),
            offsets: phdr.keyslots.each_ref().map(offset),
            standard,
            len: layout::area_len(key_len),
            limit: match phdr.payload_offset {
                0 => u64::MAX,
                units => u64::from(units) * UNIT,
            },
        }
    }

    fn unknown(&self) -> Vec<u32> {
        let is_unknown = |(slot, &state)| (state == KeyslotState::Unknown).then_some(slot);
        (0..).zip(&self.states).filter_map(is_unknown).collect()
    }

    /// Returns the offset of each area. The used keyslots come first. The areas of the others go
    /// where cryptsetup places them if that is free.
    fn places(&self) -> [u64; KEYSLOTS] {
        let is_standard = |slot: usize| self.offsets[slot] == self.standard[slot];
        let is_known = (0..KEYSLOTS).filter(|&slot| is_standard(slot)).count() >= MOST;
        let in_order: Vec<u64> = (0..KEYSLOTS)
            .filter(|&slot| is_standard(slot))
            .map(|slot| self.offsets[slot])
            .collect();
        let mut found = self.offsets;
        let mut taken = Vec::with_capacity(KEYSLOTS);
        for (slot, place) in found.iter_mut().enumerate() {
            if self.states[slot] != KeyslotState::Used {
                continue;
            }
            if is_known && !is_standard(slot) && !self.is_free(*place, &in_order) {
                *place = self.standard[slot];
            }
            taken.push(*place);
        }
        for (slot, place) in found.iter_mut().enumerate() {
            if self.states[slot] == KeyslotState::Used {
                continue;
            }
            let mut wanted = [self.standard[slot], *place].into_iter();
            let other = || places(taken.clone(), self.len, AREA_ALIGNMENT, self.limit).next();
            let free = wanted.find(|&place| self.is_free(place, &taken));
            // If no place is free, the wrong offset stays and parsing refuses it.
            *place = free.or_else(other).unwrap_or(*place);
            taken.push(*place);
        }
        found
    }

    fn is_free(&self, place: u64, taken: &[u64]) -> bool {
        let range = |begin: u64| begin..begin + self.len;
        place >= phdr::LEN as u64
            && place + self.len <= self.limit
            && !taken
                .iter()
                .any(|&other| overlap(&range(place), &range(other)))
    }

    fn restore(&self, keyslots: &mut [RawKeyslot; KEYSLOTS]) -> Vec<Luks1Restored> {
        let mut restored = Vec::new();
        let all = (0..).zip(keyslots).zip(self.states).zip(self.places());
        for (((number, keyslot), state), place) in all {
            let before = keyslot.clone();
            keyslot.key_material_offset = layout::units(place);
            keyslot.stripes = STRIPES;
            keyslot.active = match state {
                KeyslotState::Used => phdr::ACTIVE,
                KeyslotState::Empty | KeyslotState::Unknown => phdr::DISABLED,
            };
            let is_marked = state == KeyslotState::Empty && is_marked(&before, number as usize);
            if *keyslot == before && !is_marked {
                continue;
            }
            if state == KeyslotState::Unknown {
                restored.push(Luks1Restored::Lost { keyslot: number });
            } else {
                restored.extend(differences(number, &before, keyslot));
            }
            if is_marked {
                restored.push(Luks1Restored::PartitionMark { keyslot: number });
            }
            if state != KeyslotState::Used {
                *keyslot = RawKeyslot::empty(keyslot.key_material_offset);
            }
        }
        restored
    }
}

fn differences(number: u32, before: &RawKeyslot, after: &RawKeyslot) -> Vec<Luks1Restored> {
    let mut found = Vec::new();
    if before.active != after.active {
        found.push(Luks1Restored::State {
            keyslot: number,
            from: before.active,
            is_used: after.active == phdr::ACTIVE,
        });
    }
    if before.key_material_offset != after.key_material_offset {
        found.push(Luks1Restored::Offset {
            keyslot: number,
            from: offset(before),
            to: offset(after),
        });
    }
    if before.stripes != after.stripes {
        found.push(Luks1Restored::Stripes {
            keyslot: number,
            from: before.stripes,
        });
    }
    found
}

impl RawKeyslot {
    /// Returns the keyslot's state. A wrong guess could lose a key: if a used keyslot is taken for
    /// empty, another key may be written to its area.
    ///
    /// Iterations and a salt alone prove little, because garbage has them too. A blank keyslot
    /// alone does not prove that it is empty, because a used one may have been overwritten with
    /// zeros.
    fn state(&self, is_in_place: bool, is_marked: bool) -> KeyslotState {
        let is_whole = is_in_place && self.stripes == STRIPES && !is_marked;
        let is_blank = self.iterations == 0 && self.salt == NO_SALT;
        let has_secret = self.iterations != 0 && !is_overwritten(&self.salt);
        match self.active {
            phdr::DISABLED => KeyslotState::Empty,
            phdr::ACTIVE if has_secret => KeyslotState::Used,
            phdr::ACTIVE => KeyslotState::Unknown,
            word if has_secret && is_whole && is_near(word, phdr::ACTIVE) => KeyslotState::Used,
            word if is_blank && (is_whole || is_near(word, phdr::DISABLED)) => KeyslotState::Empty,
            _ => KeyslotState::Unknown,
        }
    }
}

/// Returns whether `found` is `word` with one damaged byte or at most 4 damaged bits.
/// [`phdr::ACTIVE`] and [`phdr::DISABLED`] differ in 15 bits.
fn is_near(found: u32, word: u32) -> bool {
    let difference = found ^ word;
    let bytes = difference.to_be_bytes();
    difference.count_ones() <= 4 || bytes.iter().filter(|&&byte| byte != 0).count() == 1
}

/// Returns whether the salt was overwritten. A random salt does not repeat a byte eight times in a
/// row.
fn is_overwritten(salt: &[u8]) -> bool {
    salt.windows(8)
        .any(|run| run.iter().all(|&byte| byte == run[0]))
}

fn is_marked(keyslot: &RawKeyslot, slot: usize) -> bool {
    slot == MARKED_KEYSLOT && keyslot.salt[MARK_IN_SALT..].starts_with(&PARTITION_MARK)
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Something that is restored in a LUKS1 header.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Luks1Restored {
    /// The magic and version, if all the rest is valid.
    Magic,
    /// The terminating zero bytes of the UUID.
    Uuid,
    /// The name of the hash, in lowercase.
    Hash {
        /// The damaged name.
        from: String,
        /// The hash.
        hash: HashAlgorithm,
    },
    /// The length of the volume key in bytes.
    KeyLen {
        /// The damaged length.
        from: u32,
        /// The length that the offsets of the areas imply.
        to: u32,
    },
    /// The state of a keyslot.
    State {
        /// The keyslot.
        keyslot: u32,
        /// The damaged word.
        from: u32,
        /// Whether the keyslot is used.
        is_used: bool,
    },
    /// The offset of a keyslot's area in bytes.
    Offset {
        /// The keyslot.
        keyslot: u32,
        /// The damaged offset.
        from: u64,
        /// The restored offset.
        to: u64,
    },
    /// The number of stripes of a keyslot.
    Stripes {
        /// The keyslot.
        keyslot: u32,
        /// The damaged number.
        from: u32,
    },
    /// The salt of an empty keyslot, which contained the signature of a partition table.
    PartitionMark {
        /// The keyslot.
        keyslot: u32,
    },
    /// A keyslot that was emptied because its former state could not be determined.
    Lost {
        /// The keyslot.
        keyslot: u32,
    },
}

impl fmt::Display for Luks1Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic => write!(f, "its signature is restored"),
            Self::Uuid => write!(f, "its UUID ends after 36 characters"),
            Self::Hash { from, hash } => {
                write!(f, "its hash is {hash} instead of {}", brief(from))
            }
            Self::KeyLen { from, to } => {
                write!(f, "its volume key has {to} bytes instead of {from}")
            }
            Self::State {
                keyslot,
                from,
                is_used,
            } => {
                let state = if *is_used { "used" } else { "empty" };
                write!(
                    f,
                    "keyslot {keyslot}: its state is {state} instead of 0x{from:08x}"
                )
            }
            Self::Offset { keyslot, from, to } => write!(
                f,
                "keyslot {keyslot}: its area begins at byte {to} instead of {from}"
            ),
            Self::Stripes { keyslot, from } => {
                write!(
                    f,
                    "keyslot {keyslot}: it has {STRIPES} stripes instead of {from}"
                )
            }
            Self::PartitionMark { keyslot } => write!(
                f,
                "keyslot {keyslot}: the signature of a partition table is removed"
            ),
            Self::Lost { keyslot } => {
                write!(f, "keyslot {keyslot}: it is empty now, and its key is lost")
            }
        }
    }
}

/// Why a LUKS1 header was not repaired. Nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Luks1RepairError {
    /// The header has damage that cannot be repaired.
    #[error("{0}")]
    Damaged(#[from] Luks1Error),
    /// Only the states of some keyslots cannot be determined.
    #[error(
        "the state of keyslots {} cannot be recovered; nothing was written. `luxor header repair \
         --force VOLUME` empties them, which loses their keys, and repairs the rest",
        keyslots.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
    )]
    Unknown {
        /// The keyslots.
        keyslots: Vec<u32>,
    },
    /// The header's place has the signature of another format, which may be wanted.
    #[error(
        "the signature of {found} is in the place of the header; nothing was written. To keep the \
         LUKS volume, overwrite that with `luxor header repair --force VOLUME`"
    )]
    ForeignSignature {
        /// The name of the format, in words.
        found: &'static str,
    },
    /// The header cannot be read again or written.
    #[error(transparent)]
    Change(#[from] ChangeError),
}
