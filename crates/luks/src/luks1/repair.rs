// SPDX-License-Identifier: MIT OR Apache-2.0
//! A damaged LUKS1 header, as far as it can be known for certain what it was. There is
//! one copy and no checksum, but much of it is said twice:
//!
//! ```text
//! magic, version       all else is a header's, field by field
//! hash-spec            small letters, where there are capital ones
//! key-bytes            the distance of the areas
//! uuid                 36 characters, and then its end
//! a keyslot's area     most others lie where cryptsetup puts them; one of an empty
//!                      keyslot can be wherever there is room
//! its stripes          4000
//! its state            the word that it is near to, if the rest of the keyslot is of
//!                      that kind; empty too if only the word is damaged
//! ```
//!
//! Salts, digest and iterations are said once, and so is where the data begin.
//!
//! What writes over a header by mistake writes over its end: a partition table lies upon
//! keyslots 4 to 6, from byte 440 to 512.

use std::{fmt, ops::Range};

use luxor_sector::{Storage, foreign_signature};
use luxor_volume::{Encryption, HashAlgorithm, brief};
use uuid::Uuid;

use super::{
    change::{SectorOrder, write_sectors},
    header::Luks1Header,
    layout::{self, AREA_ALIGNMENT},
    phdr::{self, KEYSLOTS, MAGIC, Phdr, RawKeyslot, UNIT},
    relocate::places,
};
use crate::{
    af::STRIPES,
    luks1_error::Luks1Error,
    luks2::edit::{ChangeError, Overwrite},
};

/// So many of the eight areas must be where cryptsetup puts them, before others are put
/// there too.
const MOST: usize = 5;

/// Of empty keyslots.
const NO_SALT: [u8; 32] = [0; 32];

/// What ends a boot sector, and the keyslot in whose salt that is, with the place.
const PARTITION_MARK: [u8; 2] = [0x55, 0xaa];
const MARKED_KEYSLOT: usize = 6;
const MARK_IN_SALT: usize = 6;

/// What is to be restored in a LUKS1 header. Nothing is written yet.
#[derive(Clone, Debug)]
pub struct Luks1Repair {
    damaged: Box<phdr::Bytes>,
    header: Luks1Header,
    restored: Vec<Luks1Restored>,
}

impl Luks1Repair {
    /// Looks for what is damaged in the header at the beginning of `storage`, under the
    /// lock on the volume's metadata. A header that is good is not looked at further.
    ///
    /// With [`Overwrite::Anything`] also the signature of something else does not
    /// hinder, and keyslots of which it cannot be known what they were become empty.
    ///
    /// # Errors
    /// [`Luks1RepairError`]: what was there cannot be known, or something else may be
    /// wanted there.
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

    /// The header as it will be.
    #[must_use]
    pub fn header(&self) -> &Luks1Header {
        &self.header
    }

    /// What will be restored: nothing when the header is good.
    #[must_use]
    pub fn restored(&self) -> &[Luks1Restored] {
        &self.restored
    }

    /// Writes what differs, and returns when it is durable; still under the lock. After
    /// a crash on the way the rest can be restored as before.
    ///
    /// # Errors
    /// [`ChangeError`]: the header is not the one that was looked at any more, or cannot
    /// be written.
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
        // It takes a whole header to know that it was one.
        let header = Luks1Header::parse(&bytes).map_err(|_| Luks1Error::Magic)?;
        return Ok((header, vec![Luks1Restored::Magic]));
    }
    if let Ok(header) = Luks1Header::parse(damaged) {
        return Ok((header, Vec::new()));
    }
    let mut restored = Vec::new();
    restored.extend(restore_uuid(&mut bytes));
    let mut phdr = Phdr::parse(&bytes)?;
    restored.extend(restore_hash(&mut bytes, &phdr));
    let name = format!("{}-{}", phdr.cipher_name, phdr.cipher_mode);
    let mut lost = Vec::new();
    if let Some(encryption) = Encryption::by_name(&name) {
        restored.extend(restore_key_len(&mut phdr, encryption));
        if encryption.key_lens().contains(&phdr.key_bytes) {
            let keyslots = KeyslotClaims::new(&phdr);
            lost = keyslots.unknown();
            restored.extend(keyslots.restore(&mut phdr.keyslots));
        }
    }
    phdr.put_numbers(&mut bytes);
    // All else that is wrong cannot be known.
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

/// Programs that took any letters have written capital ones.
fn restore_hash(bytes: &mut phdr::Bytes, phdr: &Phdr) -> Option<Luks1Restored> {
    let from = phdr.hash_spec.clone();
    let hash = HashAlgorithm::by_name(&from.to_ascii_lowercase())?;
    if from == hash.name() {
        return None;
    }
    bytes[phdr::HASH_SPEC][..from.len()].make_ascii_lowercase();
    Some(Luks1Restored::Hash { from, hash })
}

/// The areas lie apart as far as their length needs: another length is wrong when it is
/// none, or when they would overlap.
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

/// The keyslots whose areas begin where cryptsetup puts them.
fn standard(phdr: &Phdr, key_len: u32) -> impl Iterator<Item = usize> {
    let is_standard = move |(slot, keyslot): (usize, &RawKeyslot)| {
        (offset(keyslot) == layout::area_offset(key_len, slot)).then_some(slot)
    };
    phdr.keyslots.iter().enumerate().filter_map(is_standard)
}

fn offset(keyslot: &RawKeyslot) -> u64 {
    u64::from(keyslot.key_material_offset) * UNIT
}

/// What the keyslots say, whose key length is known.
struct KeyslotClaims {
    states: [KeyslotState; KEYSLOTS],
    offsets: [u64; KEYSLOTS],
    /// Where cryptsetup puts the areas.
    standard: [u64; KEYSLOTS],
    /// The length of each.
    len: u64,
    /// Where they must have ended.
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

    /// Where the areas are: the used ones, then places for the others, which go where
    /// cryptsetup puts them if nothing is there.
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
            // Without one it stays wrong, and is refused.
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
    /// What it is. Once it is said to be used and once to be empty, its key is lost: of
    /// two guesses the wrong one gives the area to another key.
    ///
    /// Iterations and salt alone say little: garbage has them too. Nothing at all says
    /// nothing either: a used keyslot may have been written over with zeros.
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

/// Whether one byte or a few bits are damaged, of 15 bits in which the two words differ.
fn is_near(found: u32, word: u32) -> bool {
    let difference = found ^ word;
    let bytes = difference.to_be_bytes();
    difference.count_ones() <= 4 || bytes.iter().filter(|&&byte| byte != 0).count() == 1
}

/// No salt has eight times the same byte in a row.
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
    /// What the header begins with, which was all that was missing.
    Magic,
    /// The end of the UUID.
    Uuid,
    /// The name of the hash, in small letters.
    Hash {
        /// The name that was there.
        from: String,
        /// The hash.
        hash: HashAlgorithm,
    },
    /// The volume key's length in bytes.
    KeyLen {
        /// The length that was there.
        from: u32,
        /// The length by which the keyslots lie where they do.
        to: u32,
    },
    /// Whether a keyslot is used.
    State {
        /// The keyslot.
        keyslot: u32,
        /// The word that was there.
        from: u32,
        /// What it is.
        is_used: bool,
    },
    /// Where a keyslot's area begins, in bytes.
    Offset {
        /// The keyslot.
        keyslot: u32,
        /// The place that was there.
        from: u64,
        /// The place that it has.
        to: u64,
    },
    /// A keyslot's stripes.
    Stripes {
        /// The keyslot.
        keyslot: u32,
        /// The number that was there.
        from: u32,
    },
    /// The salt of an empty keyslot, where a partition table's signature was.
    PartitionMark {
        /// The keyslot.
        keyslot: u32,
    },
    /// A keyslot that is empty now, since it could not be known what it was.
    Lost {
        /// The keyslot.
        keyslot: u32,
    },
}

impl fmt::Display for Luks1Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic => write!(f, "the signature at its beginning is there again"),
            Self::Uuid => write!(f, "its UUID ends after 36 characters"),
            Self::Hash { from, hash } => {
                write!(f, "its hash is {hash}, which was {}", brief(from))
            }
            Self::KeyLen { from, to } => {
                write!(f, "its volume key has {to} bytes, not {from}")
            }
            Self::State {
                keyslot,
                from,
                is_used,
            } => {
                let state = if *is_used { "used" } else { "empty" };
                write!(
                    f,
                    "keyslot {keyslot}: it is {state}, which was 0x{from:08x}"
                )
            }
            Self::Offset { keyslot, from, to } => write!(
                f,
                "keyslot {keyslot}: its area begins at byte {to}, not {from}"
            ),
            Self::Stripes { keyslot, from } => {
                write!(f, "keyslot {keyslot}: it has {STRIPES} stripes, not {from}")
            }
            Self::PartitionMark { keyslot } => write!(
                f,
                "keyslot {keyslot}: a partition table's signature is removed"
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
    /// What should be there cannot be known.
    #[error("{0}")]
    Damaged(#[from] Luks1Error),
    /// The same of some keyslots only.
    #[error(
        "the state of keyslots {} cannot be recovered; nothing was written. `luxor header repair \
         --force` empties them, which loses their keys, and repairs the rest",
        keyslots.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
    )]
    Unknown {
        /// The keyslots.
        keyslots: Vec<u32>,
    },
    /// Something else may be wanted there now.
    #[error(
        "the signature of {found} is in the place of the header; nothing was written. To keep the \
         LUKS volume, overwrite that with `luxor header repair --force`"
    )]
    ForeignSignature {
        /// Whose signature, in words.
        found: &'static str,
    },
    /// It cannot be read again or written.
    #[error(transparent)]
    Change(#[from] ChangeError),
}
