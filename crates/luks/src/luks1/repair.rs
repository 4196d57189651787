// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repairs a damaged LUKS1 header, as far as its former contents are certain. There is one copy and
//! no checksum, but many fields can be derived from others:
//!
//! ```text
//! field                  derived from
//! magic, version         all other fields, which must form a valid header
//! cipher-name, -mode     their own letters, if some are capital
//! hash-spec              its own letters, if some are capital
//! key-bytes              the distance between the areas
//! uuid                   its first 36 characters, after which it must end
//! key-material-offset    the other areas, most of which lie where cryptsetup places them;
//!                        the area of an empty keyslot may lie wherever there is room
//! stripes                always 4000
//! active                 used if the keyslot has a salt and iterations that can be right, and its
//!                        area is not blank; otherwise the word that it is close to, if the rest of
//!                        the keyslot agrees; empty also if all the rest is intact and blank, and its
//!                        area too
//! ```
//!
//! Salts, digest, iterations and the offset of the data are stored once and cannot be derived. A
//! repair never overwrites a salt or iterations, because another reading of the header may need them.
//!
//! A program that overwrites a header by mistake usually overwrites its end: a partition table
//! covers bytes 440 to 512, which are in keyslots 4 to 6.

use std::{fmt, ops::Range};

use luxor_sector::{Storage, foreign_signature};
use luxor_volume::{brief, check_iterations};

use super::{
    change::{SectorOrder, write_sectors},
    fields::{self, MOST, offset},
    header::{Luks1Header, check},
    layout::{self, AREA_ALIGNMENT},
    phdr::{self, KEYSLOTS, MAGIC, Phdr, RawKeyslot, UNIT},
    relocate::places,
};
use crate::{
    af::STRIPES,
    luks1_error::{FieldDamage, Luks1Error},
    luks2::edit::{ChangeError, Overwrite},
};

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
    /// the volume's metadata. In a valid header only the fields of [`FieldDamage`] and keyslots may be
    /// damaged.
    ///
    /// [`Overwrite::Anything`] permits overwriting the signature of another format. It also marks
    /// keyslots that cannot be restored as empty, if another keyslot is used.
    ///
    /// # Errors
    /// [`Luks1RepairError`]: the former contents cannot be determined, or `storage` has the
    /// signature of another format, which may be wanted.
    pub fn plan(storage: &dyn Storage, overwrite: Overwrite) -> Result<Self, Luks1RepairError> {
        let damaged = Luks1Header::read_bytes(storage)?;
        let (header, restored) = restore(&damaged, storage, overwrite)?;
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
    storage: &dyn Storage,
    overwrite: Overwrite,
) -> Result<(Luks1Header, Vec<Luks1Restored>), Luks1RepairError> {
    let mut bytes = *damaged;
    let mut restored = Vec::new();
    if !damaged.starts_with(MAGIC) {
        // Only a header that otherwise breaks no rule shows that it was one. Its keyslots may be damaged.
        Luks1Header::parse_with_magic(damaged).map_err(|_| Luks1Error::Magic)?;
        bytes[..MAGIC.len()].copy_from_slice(MAGIC);
        restored.push(Luks1Restored::Magic);
    }
    let valid = Luks1Header::parse(&bytes);
    let mut phdr = Phdr::parse(&bytes)?;
    let fields = fields::restore(&mut bytes, &mut phdr);
    restored.extend(fields.into_iter().map(Luks1Restored::Field));
    let mut lost = Vec::new();
    let mut has_key = false;
    let is_intact = matches!(&valid, Ok(header) if header.damaged.is_empty());
    // The rules for keyslots are the same for every cipher, also for one that this version does not
    // support. Without a possible key length nothing is known of the areas.
    if !is_intact && check(&phdr).is_ok() {
        let keyslots = KeyslotClaims::new(&phdr, valid.is_ok(), storage);
        lost = keyslots.lost();
        has_key = keyslots.has_key();
        let empties = has_key && overwrite == Overwrite::Anything;
        restored.extend(keyslots.restore(&mut phdr.keyslots, empties));
    }
    phdr.put_numbers(&mut bytes);
    // Any other damage cannot be repaired, and is an error here.
    let header = Luks1Header::parse(&bytes)?;
    let by_force = if has_key {
        ByForce::Empties
    } else if bytes == *damaged {
        ByForce::Nothing
    } else {
        ByForce::Leaves
    };
    let is_refused = overwrite == Overwrite::Damaged || by_force == ByForce::Nothing;
    if !lost.is_empty() && is_refused {
        let keyslots = lost;
        return Err(Luks1RepairError::Unknown { keyslots, by_force });
    }
    Ok((header, restored))
}

/// What the keyslots say, given the key length.
struct KeyslotClaims {
    states: [KeyslotState; KEYSLOTS],
    /// The offsets of the areas after the repair.
    places: [u64; KEYSLOTS],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum KeyslotState {
    Used,
    Empty,
    Unknown,
}

impl KeyslotClaims {
    /// `is_valid`: the header breaks no rule, so that all areas are in their places.
    fn new(phdr: &Phdr, is_valid: bool, storage: &dyn Storage) -> Self {
        let key_len = phdr.key_bytes;
        let keyslots = &phdr.keyslots;
        let areas = AreaClaims {
            offsets: keyslots.each_ref().map(offset),
            standard: std::array::from_fn(|slot| layout::area_offset(key_len, slot)),
            len: layout::area_len(key_len),
            limit: match phdr.payload_offset {
                0 => u64::MAX,
                units => u64::from(units) * UNIT,
            },
        };
        let mut states = std::array::from_fn(|slot| {
            let is_in_place = is_valid || areas.offsets[slot] == areas.standard[slot];
            keyslots[slot].state(is_in_place, is_marked(&keyslots[slot], slot))
        });
        let places = if is_valid {
            areas.offsets
        } else {
            areas.places(&states)
        };
        // A keyslot that was empty and is taken for used costs time only: no secret opens it, and the
        // user can remove it.
        for (slot, keyslot) in keyslots.iter().enumerate() {
            let is_cheap = || {
                let (hash, len) = (&phdr.hash_spec, key_len as usize);
                check_iterations(hash, len, keyslot.iterations, None).is_ok()
            };
            if states[slot] == KeyslotState::Unknown
                && keyslot.has_secret()
                && !is_marked(keyslot, slot)
                && is_cheap()
                && !is_blank(storage, places[slot], areas.len)
            {
                states[slot] = KeyslotState::Used;
            }
            // A used keyslot that was overwritten with zeros looks the same, except for its area.
            if states[slot] == KeyslotState::Unknown
                && keyslot.active != phdr::ACTIVE
                && keyslot.stripes == STRIPES
                && places[slot] == areas.offsets[slot]
                && keyslot.is_blank()
                && holds_zeros(storage, places[slot], areas.len)
            {
                states[slot] = KeyslotState::Empty;
            }
        }
        Self { states, places }
    }

    /// The keyslots that cannot be restored: their state is unknown, or no secret opens them.
    fn lost(&self) -> Vec<u32> {
        let is_lost = |(slot, &state)| (state == KeyslotState::Unknown).then_some(slot);
        (0..).zip(&self.states).filter_map(is_lost).collect()
    }

    /// Whether a keyslot is used.
    fn has_key(&self) -> bool {
        self.states.contains(&KeyslotState::Used)
    }

    /// `empties`: marks the keyslots that are lost as empty. Otherwise they keep their state.
    fn restore(&self, keyslots: &mut [RawKeyslot; KEYSLOTS], empties: bool) -> Vec<Luks1Restored> {
        let mut restored = Vec::new();
        for (number, (slot, keyslot)) in (0..).zip(keyslots.iter_mut().enumerate()) {
            let before = keyslot.clone();
            keyslot.key_material_offset = layout::units(self.places[slot]);
            keyslot.stripes = STRIPES;
            let state = self.states[slot];
            keyslot.active = match state {
                KeyslotState::Used => phdr::ACTIVE,
                KeyslotState::Unknown if !empties => before.active,
                KeyslotState::Unknown | KeyslotState::Empty => phdr::DISABLED,
            };
            if state == KeyslotState::Unknown && empties {
                restored.push(Luks1Restored::Lost { keyslot: number });
            } else {
                restored.extend(differences(number, &before, keyslot));
            }
            if state == KeyslotState::Unknown && !empties {
                restored.push(Luks1Restored::Left { keyslot: number });
            }
            if keyslot.active == phdr::DISABLED && is_marked(keyslot, slot) {
                keyslot.salt[MARK_IN_SALT..][..PARTITION_MARK.len()].fill(0);
                restored.push(Luks1Restored::PartitionMark { keyslot: number });
            }
        }
        restored
    }
}

/// Where the areas are, and where they can be.
struct AreaClaims {
    offsets: [u64; KEYSLOTS],
    /// The offsets at which cryptsetup places the areas.
    standard: [u64; KEYSLOTS],
    /// The length of each area.
    len: u64,
    /// The offset at which all areas must have ended.
    limit: u64,
}

impl AreaClaims {
    /// Returns the offset of each area. The used keyslots come first, then those that may be used. The
    /// areas of the others go where cryptsetup places them if that is free.
    fn places(&self, states: &[KeyslotState; KEYSLOTS]) -> [u64; KEYSLOTS] {
        let of = |wanted| (0..KEYSLOTS).filter(move |&slot| states[slot] == wanted);
        let is_standard = |slot: usize| self.offsets[slot] == self.standard[slot];
        let is_known = (0..KEYSLOTS).filter(|&slot| is_standard(slot)).count() >= MOST;
        let in_order: Vec<u64> = (0..KEYSLOTS)
            .filter(|&slot| is_standard(slot))
            .map(|slot| self.offsets[slot])
            .collect();
        let mut found = self.offsets;
        let mut taken = Vec::with_capacity(KEYSLOTS);
        for slot in of(KeyslotState::Used) {
            if is_known && !is_standard(slot) && !self.is_free(found[slot], &in_order) {
                found[slot] = self.standard[slot];
            }
            taken.push(found[slot]);
        }
        for slot in of(KeyslotState::Unknown) {
            let is_mine = is_standard(slot) || self.is_free(found[slot], &in_order);
            let mut wanted = [found[slot], self.standard[slot]];
            if !is_mine {
                wanted.reverse();
            }
            found[slot] = self.free_place(wanted, &taken);
            taken.push(found[slot]);
        }
        for slot in of(KeyslotState::Empty) {
            found[slot] = self.free_place([self.standard[slot], found[slot]], &taken);
            taken.push(found[slot]);
        }
        found
    }

    /// Returns the first free place, preferably one that is `wanted`. If there is none, the last of
    /// these, which parsing then refuses.
    fn free_place(&self, wanted: [u64; 2], taken: &[u64]) -> u64 {
        let other = || places(taken.to_vec(), self.len, AREA_ALIGNMENT, self.limit).next();
        let mut free = wanted
            .into_iter()
            .filter(|&place| self.is_free(place, taken));
        free.next().or_else(other).unwrap_or(wanted[1])
    }

    fn is_free(&self, place: u64, taken: &[u64]) -> bool {
        let range = |begin: u64| begin..begin + self.len;
        place >= phdr::LEN as u64
            && place + self.len <= self.limit
            && !taken
                .iter()
                .any(|&other| overlap(&range(place), &range(other)))
    }
}

/// Whether the area of `len` bytes at `offset` holds nothing but zeros, or cannot be read.
fn is_blank(storage: &dyn Storage, offset: u64, len: u64) -> bool {
    let Ok(end) = storage.len() else {
        return true;
    };
    let there = end.saturating_sub(offset).min(len);
    let mut area = vec![0; usize::try_from(there).expect("at most 512 × 4000 bytes")];
    storage.read_exact_at(&mut area, offset).is_err() || area.iter().all(|&byte| byte == 0)
}

/// Whether the whole area of `len` bytes at `offset` can be read, and holds nothing but zeros.
fn holds_zeros(storage: &dyn Storage, offset: u64, len: u64) -> bool {
    let mut area = vec![0; usize::try_from(len).expect("at most 512 × 4000 bytes")];
    storage.read_exact_at(&mut area, offset).is_ok() && area.iter().all(|&byte| byte == 0)
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
    /// Returns the keyslot's state, as far as the header alone shows it. A wrong guess could lose a
    /// key: if a used keyslot is taken for empty, another key may be written to its area.
    ///
    /// A blank keyslot alone does not prove that it is empty, because a used one may have been
    /// overwritten with zeros: its state must nearly be the word for empty.
    fn state(&self, is_in_place: bool, is_marked: bool) -> KeyslotState {
        let is_whole = is_in_place && self.stripes == STRIPES && !is_marked;
        match self.active {
            phdr::DISABLED => KeyslotState::Empty,
            phdr::ACTIVE if self.has_secret() => KeyslotState::Used,
            phdr::ACTIVE => KeyslotState::Unknown,
            word if self.has_secret() && is_whole && is_near(word, phdr::ACTIVE) => {
                KeyslotState::Used
            }
            word if self.is_blank() && is_near(word, phdr::DISABLED) => KeyslotState::Empty,
            _ => KeyslotState::Unknown,
        }
    }

    /// Whether salt and iterations are those of an empty keyslot.
    fn is_blank(&self) -> bool {
        self.iterations == 0 && self.salt == NO_SALT
    }

    /// Whether the salt and the iterations can be those of a used keyslot.
    fn has_secret(&self) -> bool {
        self.iterations != 0 && !is_overwritten(&self.salt)
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
    /// A field that concerns no keyslot.
    Field(FieldDamage),
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
    /// A keyslot that is marked as empty because it could not be restored. Its salt and iterations stay
    /// until the next change of the header.
    Lost {
        /// The keyslot.
        keyslot: u32,
    },
    /// A keyslot whose state, salt or iterations could not be restored, and were not changed, because no
    /// other keyslot is used.
    Left {
        /// The keyslot.
        keyslot: u32,
    },
}

impl fmt::Display for Luks1Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic => write!(f, "its signature is restored"),
            Self::Field(FieldDamage::Uuid) => write!(f, "its UUID ends after 36 characters"),
            Self::Field(FieldDamage::Hash { from, hash }) => {
                write!(f, "its hash is {hash} instead of {}", brief(from))
            }
            Self::Field(FieldDamage::Encryption { from, to }) => {
                write!(f, "its encryption is {to} instead of {}", brief(from))
            }
            Self::Field(FieldDamage::KeyLen { from, to }) => {
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
            Self::Left { keyslot } => write!(
                f,
                "keyslot {keyslot}: its state, salt or iterations cannot be restored, and stay as they are"
            ),
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
    /// Only some keyslots cannot be restored.
    #[error(
        "the state, salt or iterations of keyslots {} cannot be recovered; nothing was written",
        keyslots.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
    )]
    Unknown {
        /// The keyslots.
        keyslots: Vec<u32>,
        /// What [`Overwrite::Anything`] would do.
        by_force: ByForce,
    },
    /// The header's place has the signature of another format, which may be wanted.
    #[error("the signature of {found} is in the place of the header; nothing was written")]
    ForeignSignature {
        /// The name of the format, in words.
        found: &'static str,
    },
    /// The header cannot be read again or written.
    #[error(transparent)]
    Change(#[from] ChangeError),
}

/// What a repair by [`Overwrite::Anything`] does about keyslots that cannot be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByForce {
    /// It marks them as empty, and repairs the rest. Another keyslot is used.
    Empties,
    /// It repairs the rest, and leaves them as they are, because no other keyslot is used.
    Leaves,
    /// Nothing: no other keyslot is used, and the rest is not damaged.
    Nothing,
}
