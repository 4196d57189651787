// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keyslots that come, change and go.

use std::ops::Range;

use luxor_engine::Backend;
use luxor_sector::Storage;
use luxor_volume::{Encryption, HashAlgorithm, PbkdfOptions, SALT_BYTES, VolumeKey, rng};

use super::{
    draft::MetadataDraft,
    durable,
    error::ChangeError,
    members::JsonMembers,
    numbers::{MAX_NUMBERS, free_number},
};
use crate::luks2::{
    header::Luks2Header,
    keyslot::Priority,
    new_keyslot::{NewKeyslot, NewKeyslotError},
    unlock::Unlocked,
};

/// Of every area that is written.
const ENCRYPTION: Encryption = Encryption::AesXtsPlain64;
/// Between the stripes.
const HASH: HashAlgorithm = HashAlgorithm::Sha256;
impl Luks2Header {
    /// Puts the volume key under `secret`: the slow part of adding or changing a
    /// keyslot. Takes as long as the key derivation's costs say, and several times
    /// that when they are measured. Reads and writes nothing.
    ///
    /// # Errors
    /// [`NewKeyslotError`]: options out of bounds, a key of another volume, too little
    /// memory, or no random bytes from the system.
    pub fn new_keyslot(
        &self,
        unlocked: &Unlocked,
        secret: &[u8],
        pbkdf: &PbkdfOptions,
        backend: &dyn Backend,
    ) -> Result<NewKeyslot, NewKeyslotError> {
        pbkdf.check()?;
        let digest = self
            .metadata()
            .digests
            .get(&unlocked.digest)
            .ok_or(NewKeyslotError::OtherVolume)?;
        let key = &unlocked.volume_key;
        if digest.verify(key.expose()) != Some(true) {
            return Err(NewKeyslotError::OtherVolume);
        }
        let kdf = pbkdf.choose(HASH, rng::random(SALT_BYTES)?, key.expose().len())?;
        let new = NewKeyslot::make(key, secret, kdf, HASH, area_encryption(key), backend)?;
        Ok(NewKeyslot {
            digest: Some((unlocked.digest, digest.value.clone())),
            ..new
        })
    }

    /// Adds `new` as keyslot `number`, or as the first that is free, and returns its
    /// number. The area is durable before the metadata refer to it.
    ///
    /// Like all changes it is fast, and to be made under the lock on the volume's
    /// metadata; it is refused when they are not what this header has read.
    ///
    /// # Errors
    /// [`ChangeError`]: `number` is taken, there is no room, or `new` holds another key;
    /// the metadata on `storage` are not those that this header has read, or cannot be
    /// written.
    pub fn add_keyslot(
        &mut self,
        storage: &dyn Storage,
        new: &NewKeyslot,
        number: Option<u32>,
    ) -> Result<u32, ChangeError> {
        let mut draft = self.begin(storage)?;
        let digest = self.digest_of(new)?;
        // Also those of types that this version does not open.
        let taken = &self.metadata().areas;
        let number = free_number("keyslot", number, MAX_NUMBERS, |number| {
            taken.contains_key(&number)
        })?;
        let offset = self.write_area(storage, new)?;

        let name = number.to_string();
        draft.root.edit(&["keyslots"], |keyslots| {
            keyslots.set(&name, &new.json(offset));
        });
        draft
            .root
            .edit(&["digests", &digest.to_string()], |digest| {
                let mut references = digest.references("keyslots");
                references.push(name);
                digest.set("keyslots", &references);
            });
        self.commit(storage, draft)?;
        let checked = durable::check_area(storage, &new.encrypted, offset);
        checked.map_err(|error| match error {
            ChangeError::WrittenOver => error,
            error => ChangeError::Unfinished {
                error: Box::new(error),
            },
        })?;
        Ok(number)
    }

    /// Makes `new` the content of keyslot `number`, which keeps its number, its
    /// priority and its tokens: another secret, or other costs for the same one. Old or
    /// new, the keyslot can be opened at each instant: the new area is a free one, and
    /// the old one is overwritten when no copy of the metadata refers to it any more.
    /// When just that is interrupted, the old bytes stay in a place that nothing refers to
    /// until another keyslot is put there: the old secret could be tried on them.
    ///
    /// # Errors
    /// [`ChangeError`], also when there is no room for a second area, and when the
    /// keyslot is for another key.
    pub fn replace_keyslot(
        &mut self,
        storage: &dyn Storage,
        number: u32,
        new: &NewKeyslot,
    ) -> Result<(), ChangeError> {
        let mut draft = self.begin(storage)?;
        let old = self.area_of(number)?;
        let digest = self.digest_of(new)?;
        if !self.metadata().digests[&digest].keyslots.contains(&number) {
            return Err(ChangeError::Unbound { keyslot: number });
        }
        let place = self.write_area(storage, new)?;

        let before = draft.root.clone();
        let path = ["keyslots", &number.to_string()];
        draft.root.edit(&path, |keyslot| {
            if let Some(members) = new.json(place).as_object() {
                for (name, value) in members {
                    keyslot.set(name, value);
                }
            }
        });
        let offset = old.start;
        let left = |error| ChangeError::OldKeyLeft {
            keyslot: number,
            offset,
            error: Box::new(error),
        };
        self.commit(storage, draft).map_err(|error| match error {
            ChangeError::Unfinished { error } => left(*error),
            error => error,
        })?;
        let checked = durable::check_area(storage, &new.encrypted, place);
        checked.map_err(|error| match error {
            ChangeError::WrittenOver => {
                // The old area is whole, and the metadata can refer to it again.
                let draft = self.begin(storage);
                let restored = draft.and_then(|draft| {
                    let root = before;
                    self.commit(storage, MetadataDraft { root, ..draft })
                });
                restored.err().unwrap_or(error)
            }
            error => left(error),
        })?;
        durable::overwrite(storage, old).map_err(left)
    }

    /// Removes keyslot `number`, which may be the last one. Its area is overwritten
    /// first: from then on nothing opens it, whatever happens to the metadata.
    ///
    /// # Errors
    /// [`ChangeError`]: there is no such keyslot, the metadata on `storage` are not those
    /// that this header has read, or cannot be written.
    pub fn remove_keyslot(
        &mut self,
        storage: &dyn Storage,
        number: u32,
    ) -> Result<(), ChangeError> {
        let mut draft = self.begin(storage)?;
        let area = self.area_of(number)?;
        durable::overwrite(storage, area)?;
        let name = number.to_string();
        draft
            .root
            .edit(&["keyslots"], |keyslots| keyslots.remove(&name));
        draft.forget_keyslots(|reference| reference == name);
        self.commit(storage, draft)
    }

    /// Removes all keyslots: nothing opens the volume any more. The whole keyslots area
    /// is overwritten first, with what changes that were interrupted may have left.
    ///
    /// # Errors
    /// [`ChangeError`]: the metadata on `storage` are not those that this header has
    /// read, or cannot be written.
    pub fn erase(&mut self, storage: &dyn Storage) -> Result<(), ChangeError> {
        let mut draft = self.begin(storage)?;
        let begin = 2 * self.binary().size;
        durable::overwrite(storage, begin..self.metadata_len())?;
        draft.root.set("keyslots", &JsonMembers::default());
        draft.forget_keyslots(|_| true);
        self.commit(storage, draft)
    }

    /// Sets when keyslot `number` is tried.
    ///
    /// # Errors
    /// [`ChangeError`]: there is no such keyslot, the metadata on `storage` are not those
    /// that this header has read, or cannot be written.
    pub fn set_priority(
        &mut self,
        storage: &dyn Storage,
        number: u32,
        priority: Priority,
    ) -> Result<(), ChangeError> {
        let mut draft = self.begin(storage)?;
        self.area_of(number)?;
        let path = ["keyslots", &number.to_string()];
        draft.root.edit(&path, |keyslot| match priority {
            Priority::Ignore => keyslot.set("priority", &0),
            Priority::Normal => keyslot.remove("priority"),
            Priority::Prefer => keyslot.set("priority", &2),
        });
        self.commit(storage, draft)
    }

    /// The digest of the key in `new`, if that is one of this volume's.
    fn digest_of(&self, new: &NewKeyslot) -> Result<u32, ChangeError> {
        let (number, value) = new.digest.as_ref().ok_or(ChangeError::OtherKey)?;
        match self.metadata().digests.get(number) {
            Some(digest) if digest.value == *value => Ok(*number),
            _ => Err(ChangeError::OtherKey),
        }
    }

    fn area_of(&self, number: u32) -> Result<Range<u64>, ChangeError> {
        let keyslot = self.metadata().keyslots.get(&number);
        let keyslot = keyslot.ok_or(ChangeError::Missing {
            what: "keyslot",
            number,
        })?;
        Ok(keyslot.area.offset..keyslot.area.offset + keyslot.area.size)
    }

    /// Writes a new keyslot's area to a free place, and returns where that is when it is
    /// durable.
    fn write_area(&self, storage: &dyn Storage, new: &NewKeyslot) -> Result<u64, ChangeError> {
        let offset = self.free_area(new.area_size())?;
        durable::write_area(storage, &new.encrypted, offset)?;
        Ok(offset)
    }

    /// The first gap between areas with room for `size` bytes, as cryptsetup takes it,
    /// in whole pages.
    pub(super) fn free_area(&self, size: u64) -> Result<u64, ChangeError> {
        let mut areas: Vec<_> = self
            .metadata()
            .areas
            .values()
            .map(|area| (area.offset, area.size))
            .collect();
        areas.sort_unstable();
        let mut offset = 2 * self.binary().size;
        for (begin, len) in areas {
            if offset + size <= begin {
                break;
            }
            offset = (begin + len).next_multiple_of(4096);
        }
        if offset + size > self.metadata_len() {
            return Err(ChangeError::NoArea { needed: size });
        }
        Ok(offset)
    }
}

impl MetadataDraft {
    /// Takes the keyslots for which `gone` is true out of tokens and digests. A digest
    /// of nothing goes too.
    pub(super) fn forget_keyslots(&mut self, gone: impl Fn(&str) -> bool) {
        let forget = |object: &mut JsonMembers| {
            let mut references = object.references("keyslots");
            let before = references.len();
            references.retain(|reference| !gone(reference));
            if references.len() < before {
                object.set("keyslots", &references);
            }
            references.is_empty()
        };
        self.root.edit(&["tokens"], |tokens| {
            tokens.retain(|token| {
                forget(token);
                true
            });
        });
        self.root.edit(&["digests"], |digests| {
            digests.retain(|digest| !(forget(digest) && digest.references("segments").is_empty()));
        });
    }
}

/// How an area is encrypted: its key is as long as the volume key, as in what cryptsetup
/// makes.
fn area_encryption(key: &VolumeKey) -> (Encryption, u32) {
    let len = u32::try_from(key.expose().len()).expect("at most 512 bytes");
    (ENCRYPTION, len)
}
