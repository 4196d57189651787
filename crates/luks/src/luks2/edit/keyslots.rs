// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adds, replaces and removes keyslots.

use std::ops::Range;

use luxor_engine::Backend;
use luxor_sector::Storage;
use luxor_volume::{Encryption, HashAlgorithm, PbkdfOptions, VolumeKey};

use super::{
    draft::MetadataDraft,
    durable,
    error::ChangeError,
    members::JsonMembers,
    numbers::{MAX_NUMBERS, free_number},
};
use crate::luks2::{
    digest::NewDigest,
    header::Luks2Header,
    keyslot::Priority,
    metadata::{AreaRange, MAX_DIGESTS},
    new_keyslot::{KeyDigest, NewKeyslot, NewKeyslotError},
    unlock::ConfirmedKey,
};

/// The encryption of new areas.
const ENCRYPTION: Encryption = Encryption::AesXtsPlain64;
/// The hash for the anti-forensic splitter of new keyslots.
const HASH: HashAlgorithm = HashAlgorithm::Sha256;

impl Luks2Header {
    /// Encrypts the volume key under `secret`: the slow part of adding or changing a keyslot. The
    /// time that this takes is set by the costs of the key derivation; measuring them takes several
    /// times as long. Reads and writes no storage.
    ///
    /// # Errors
    /// [`NewKeyslotError`]: the options are out of bounds, the key belongs to another volume,
    /// memory is short, or the system returned no random bytes.
    pub fn new_keyslot<'a>(
        &self,
        key: impl Into<ConfirmedKey<'a>>,
        secret: &[u8],
        pbkdf: &PbkdfOptions,
        backend: &dyn Backend,
    ) -> Result<NewKeyslot, NewKeyslotError> {
        pbkdf.check()?;
        let ConfirmedKey {
            digest: number,
            volume_key: key,
        } = key.into();
        let digest = self
            .metadata()
            .digests
            .get(&number)
            .ok_or(NewKeyslotError::OtherVolume)?;
        digest
            .confirm(key.expose())
            .map_err(|_| NewKeyslotError::OtherVolume)?;
        let new = NewKeyslot::make(key, secret, pbkdf, HASH, area_encryption(key), backend)?;
        Ok(NewKeyslot {
            digest: KeyDigest::Present(number, digest.value.clone()),
            ..new
        })
    }

    /// As [`Luks2Header::new_keyslot`], for a key that encrypts no data.
    ///
    /// # Errors
    /// [`NewKeyslotError`]: the options are out of bounds, memory is short, or the system returned
    /// no random bytes.
    pub fn new_unbound_keyslot(
        key: &VolumeKey,
        secret: &[u8],
        pbkdf: &PbkdfOptions,
        backend: &dyn Backend,
    ) -> Result<NewKeyslot, NewKeyslotError> {
        NewVolumeKey::with_digest(key.clone(), pbkdf)?.keyslot(secret, pbkdf, backend)
    }

    /// Adds `new` as keyslot `number`, or as the first free keyslot, and returns its number. The
    /// area is durable before the metadata refer to it.
    ///
    /// This is fast, like all changes, and the caller must hold the lock on the volume's metadata.
    /// The change is refused if the metadata on `storage` are no longer those that were read into
    /// this header.
    ///
    /// # Errors
    /// [`ChangeError`]: `number` is taken, there is no room, or `new` holds another key; or the
    /// metadata on `storage` are not those that this header was read from, or cannot be written.
    pub fn add_keyslot(
        &mut self,
        storage: &dyn Storage,
        new: &NewKeyslot,
        number: Option<u32>,
    ) -> Result<u32, ChangeError> {
        let mut draft = self.begin(storage)?;
        // Keyslots of types that this version does not support count too.
        let taken = &self.metadata().areas;
        let number = free_number("keyslot", number, MAX_NUMBERS, |number| {
            taken.contains_key(&number)
        })?;
        let name = number.to_string();
        if let KeyDigest::New(digest) = &new.digest {
            let number = self.free_digest()?;
            draft.root.edit(&["digests"], |digests| {
                digests.set(&number.to_string(), &digest.json(&[&name], &[]));
            });
        } else {
            let path = ["digests", &self.digest_of(new)?.to_string()];
            draft.root.edit(&path, |digest| {
                let mut references = digest.references("keyslots");
                references.push(name.clone());
                digest.set("keyslots", &references);
            });
        }
        let offset = self.write_area(storage, new)?;
        draft.root.edit(&["keyslots"], |keyslots| {
            keyslots.set(&name, &new.json(offset));
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

    /// Replaces keyslot `number` with `new`, which has another secret or other costs. The number,
    /// priority and tokens stay.
    ///
    /// At each instant the old or the new keyslot can be opened: the new area is written to a free
    /// place, and the old one is overwritten after no copy of the metadata refers to it any more.
    /// If a crash prevents that, the old area stays until another keyslot takes its place, and the
    /// old secret can still be tried on it.
    ///
    /// # Errors
    /// [`ChangeError`]: as for [`Luks2Header::add_keyslot`], or the keyslot holds another key.
    /// [`ChangeError::NoRoomBeside`] without room for a second area.
    pub fn replace_keyslot(
        &mut self,
        storage: &dyn Storage,
        number: u32,
        new: &NewKeyslot,
    ) -> Result<(), ChangeError> {
        let (mut draft, old) = self.begin_replacing(storage, number, new)?;
        let place = self.write_area(storage, new).map_err(|error| match error {
            ChangeError::NoArea { .. } => ChangeError::NoRoomBeside {
                keyslot: number,
                is_only: self.metadata().is_only_keyslot(number),
                error: Box::new(error),
            },
            error => error,
        })?;

        let before = draft.root.clone();
        draft.set_keyslot(number, new, place);
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
                // The old area is intact, so the metadata can refer to it again.
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

    /// Replaces keyslot `number` as [`Luks2Header::replace_keyslot`] does, but in its own area: for a
    /// keyslots area without room for a second one. A crash between the first write to the area and
    /// the first write of the metadata leaves a keyslot that no secret opens. Other keyslots are not
    /// touched.
    ///
    /// # Errors
    /// [`ChangeError`]: as for [`Luks2Header::replace_keyslot`]; the old area is written back if the
    /// new one cannot be used. [`ChangeError::NoArea`] if the new keyslot needs a longer area.
    pub fn replace_keyslot_in_place(
        &mut self,
        storage: &dyn Storage,
        number: u32,
        new: &NewKeyslot,
    ) -> Result<(), ChangeError> {
        let (mut draft, old) = self.begin_replacing(storage, number, new)?;
        let (needed, size) = (new.encrypted.len() as u64, old.end - old.start);
        if needed > size {
            // Without another keyslot the area does not become longer either.
            let is_removable = false;
            return Err(ChangeError::NoArea {
                needed,
                is_removable,
            });
        }
        draft.set_keyslot(number, new, old.start);
        // The area may be shorter than a new one, as after a conversion from LUKS1.
        let path = ["keyslots", &number.to_string(), "area"];
        draft
            .root
            .edit(&path, |area| area.set("size", &size.to_string()));
        durable::replace_area(storage, &new.encrypted, (number, old.start), || {
            self.commit(storage, draft)
        })
    }

    /// Begins to replace keyslot `number`, and returns its area.
    fn begin_replacing(
        &mut self,
        storage: &dyn Storage,
        number: u32,
        new: &NewKeyslot,
    ) -> Result<(MetadataDraft, Range<u64>), ChangeError> {
        let draft = self.begin(storage)?;
        let old = self.area_of(number)?;
        let digest = self.digest_of(new)?;
        if !self.metadata().digests[&digest].keyslots.contains(&number) {
            return Err(ChangeError::Unbound { keyslot: number });
        }
        Ok((draft, old))
    }

    /// Removes keyslot `number`, which may be the last one. Its area is overwritten first; from
    /// then on no secret opens it, even if the metadata are not changed.
    ///
    /// # Errors
    /// [`ChangeError`]: there is no such keyslot, or the metadata on `storage` are not those that
    /// this header was read from, or cannot be written.
    pub fn remove_keyslot(
        &mut self,
        storage: &dyn Storage,
        number: u32,
    ) -> Result<(), ChangeError> {
        let mut draft = self.begin(storage)?;
        let area = self.area_of(number)?;
        let destroying = |error: ChangeError| error.while_destroying(Some(number));
        durable::overwrite(storage, area).map_err(destroying)?;
        let name = number.to_string();
        draft
            .root
            .edit(&["keyslots"], |keyslots| keyslots.remove(&name));
        draft.forget_keyslots(|reference| reference == name);
        self.commit(storage, draft).map_err(destroying)
    }

    /// Removes all keyslots. No secret opens the volume any more. The whole keyslots area is
    /// overwritten first, because interrupted changes may have left keys in unused places.
    ///
    /// The state of a re-encryption stays: it holds no key, and belongs to a backup of the header. A
    /// requirement that this version does not support does not matter.
    ///
    /// # Errors
    /// [`ChangeError`]: the metadata on `storage` are not those that this header was read from, or
    /// cannot be written.
    pub fn erase(&mut self, storage: &dyn Storage) -> Result<(), ChangeError> {
        let mut draft = self.begin_erasing(storage)?;
        let state = self.metadata().reencrypt_keyslot();
        let area = state.map(|number| self.metadata().areas[&number]);
        let all = 2 * self.binary().size..self.metadata_len();
        let kept = area.map_or(all.end..all.end, |area| {
            area.offset..area.offset + area.size
        });
        let destroying = |error: ChangeError| error.while_destroying(None);
        for range in [all.start..kept.start, kept.end..all.end] {
            durable::overwrite(storage, range).map_err(destroying)?;
        }
        let gone = self.metadata().areas.keys();
        let gone: Vec<_> = gone
            .filter(|&&number| Some(number) != state)
            .map(u32::to_string)
            .collect();
        draft.root.edit(&["keyslots"], |keyslots| {
            gone.iter().for_each(|name| keyslots.remove(name));
        });
        draft.forget_keyslots(|reference| gone.iter().any(|name| name == reference));
        self.commit(storage, draft).map_err(destroying)
    }

    /// Sets the priority of keyslot `number`, which determines when it is tried.
    ///
    /// # Errors
    /// [`ChangeError`]: there is no such keyslot, or the metadata on `storage` are not those that
    /// this header was read from, or cannot be written.
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

    /// Returns the digest of the key in `new`, if it is a key of this volume.
    fn digest_of(&self, new: &NewKeyslot) -> Result<u32, ChangeError> {
        let KeyDigest::Present(number, value) = &new.digest else {
            return Err(ChangeError::OtherKey);
        };
        match self.metadata().digests.get(number) {
            Some(digest) if digest.value == *value => Ok(*number),
            _ => Err(ChangeError::OtherKey),
        }
    }

    /// Returns the area of a keyslot that holds a key, also if this version cannot open it.
    fn area_of(&self, number: u32) -> Result<Range<u64>, ChangeError> {
        let metadata = self.metadata();
        let what = "keyslot";
        if !metadata.keyslots_with_keys().any(|other| other == number) {
            return Err(ChangeError::Missing { what, number });
        }
        let area = metadata.areas.get(&number);
        let area = area.ok_or(ChangeError::Missing { what, number })?;
        Ok(area.offset..area.offset + area.size)
    }

    /// Returns the first number that no digest has.
    pub(in crate::luks2) fn free_digest(&self) -> Result<u32, ChangeError> {
        let taken = &self.metadata().bindings;
        let is_taken = |number| taken.contains_key(&number);
        free_number("digest", None, MAX_DIGESTS, is_taken)
    }

    /// Writes a new keyslot's area to a free place, and returns its offset. The area is durable on
    /// return.
    fn write_area(&self, storage: &dyn Storage, new: &NewKeyslot) -> Result<u64, ChangeError> {
        let offset = self.free_area(new.area_size(), &[])?;
        durable::write_area(storage, &new.encrypted, offset)?;
        Ok(offset)
    }

    /// Returns the offset of the first gap between areas that has room for `size` bytes, in whole
    /// pages, as cryptsetup chooses it. The areas `others` are taken too.
    pub(in crate::luks2) fn free_area(
        &self,
        size: u64,
        others: &[AreaRange],
    ) -> Result<u64, ChangeError> {
        let mut gaps = self.gaps(others).into_iter();
        let found = gaps.find(|gap| gap.size >= size);
        found
            .map(|gap| gap.offset)
            .ok_or_else(|| self.no_area(size))
    }

    /// The error for a keyslots area without a gap of `needed` bytes.
    pub(in crate::luks2) fn no_area(&self, needed: u64) -> ChangeError {
        let is_removable = self.metadata().keyslots.len() > 1;
        ChangeError::NoArea {
            needed,
            is_removable,
        }
    }

    /// Returns the gaps between the areas of keyslots and `others`, each from the beginning of a
    /// page.
    pub(in crate::luks2) fn gaps(&self, others: &[AreaRange]) -> Vec<AreaRange> {
        let areas = self.metadata().areas.values().chain(others);
        let mut areas: Vec<_> = areas.map(|area| (area.offset, area.size)).collect();
        areas.sort_unstable();
        areas.push((self.metadata_len(), 0));
        let mut gaps = Vec::new();
        let mut offset = 2 * self.binary().size;
        for (begin, len) in areas {
            if let Some(size) = begin.checked_sub(offset).filter(|&size| size > 0) {
                gaps.push(AreaRange { offset, size });
            }
            offset = (begin + len).next_multiple_of(4096);
        }
        gaps
    }
}

/// A key that a volume will get, and its digest.
#[derive(Debug)]
pub struct NewVolumeKey {
    pub(crate) key: VolumeKey,
    pub(crate) digest: NewDigest,
}

impl NewVolumeKey {
    /// Makes the digest of `key`. `pbkdf` sets how long that takes.
    ///
    /// # Errors
    /// [`NewKeyslotError`]: the options are out of bounds, or the system returned no random bytes.
    pub fn with_digest(key: VolumeKey, pbkdf: &PbkdfOptions) -> Result<Self, NewKeyslotError> {
        pbkdf.check()?;
        let digest = NewDigest::make(key.expose(), HASH, pbkdf)?;
        Ok(Self { key, digest })
    }

    /// Returns the key.
    #[must_use]
    pub fn into_key(self) -> VolumeKey {
        self.key
    }

    /// Encrypts the key under `secret`, as [`Luks2Header::new_keyslot`] does.
    ///
    /// # Errors
    /// [`NewKeyslotError`]: the options are out of bounds, memory is short, or the system returned
    /// no random bytes.
    pub fn keyslot(
        &self,
        secret: &[u8],
        pbkdf: &PbkdfOptions,
        backend: &dyn Backend,
    ) -> Result<NewKeyslot, NewKeyslotError> {
        pbkdf.check()?;
        let key = &self.key;
        let new = NewKeyslot::make(key, secret, pbkdf, HASH, area_encryption(key), backend)?;
        Ok(NewKeyslot {
            digest: KeyDigest::New(self.digest.clone()),
            ..new
        })
    }
}

impl MetadataDraft {
    /// Describes `new`, with its area at byte `place`, as keyslot `number`, which exists. Its other
    /// members stay.
    fn set_keyslot(&mut self, number: u32, new: &NewKeyslot, place: u64) {
        self.root
            .edit(&["keyslots", &number.to_string()], |keyslot| {
                if let Some(members) = new.json(place).as_object() {
                    for (name, value) in members {
                        keyslot.set(name, value);
                    }
                }
            });
    }

    /// Removes the keyslots for which `gone` returns true from tokens and digests. Also removes a
    /// digest that then has neither keyslots nor segments.
    pub(in crate::luks2) fn forget_keyslots(&mut self, gone: impl Fn(&str) -> bool) {
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

/// Returns the encryption of the area and the length of its key. As in cryptsetup, that key is as
/// long as the volume key if the encryption has such keys, and otherwise as long as possible.
fn area_encryption(key: &VolumeKey) -> (Encryption, u32) {
    let [_, longest] = ENCRYPTION.key_lens();
    let len = u32::try_from(key.expose().len()).unwrap_or(longest);
    let is_key_len = ENCRYPTION.key_lens().contains(&len);
    (ENCRYPTION, if is_key_len { len } else { longest })
}
