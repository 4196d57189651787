// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes of a volume of either version. LUKS1 only has keyslots and a UUID; every other change
//! fails with [`ChangeError::NotInLuks1`].

use luxor_engine::Backend;
use luxor_secret::with_key_stack;
use luxor_sector::Storage;
use luxor_volume::PbkdfOptions;
use uuid::Uuid;

use super::VolumeHeader;
use crate::luks2::{
    config::ActivationFlag,
    edit::ChangeError,
    keyslot::Priority,
    label::Label,
    new_keyslot::{NewKeyslot, NewKeyslotError},
    segment::SegmentSize,
    unlock::ConfirmedKey,
};

impl VolumeHeader {
    /// Encrypts the volume key `key` under `secret`: the slow part of adding or changing a
    /// keyslot. Reads and writes no storage, so it needs no lock.
    ///
    /// # Errors
    /// [`NewKeyslotError`]; Argon2 is refused for LUKS1.
    pub fn new_keyslot<'a>(
        &self,
        key: impl Into<ConfirmedKey<'a>>,
        secret: &[u8],
        pbkdf: &PbkdfOptions,
        backend: &dyn Backend,
    ) -> Result<NewKeyslot, NewKeyslotError> {
        with_key_stack(|| match self {
            Self::Luks1(header) => header.new_keyslot(key, secret, pbkdf, backend),
            Self::Luks2(header) => header.new_keyslot(key, secret, pbkdf, backend),
        })
    }

    /// Adds `new` as keyslot `number`, or as the first free keyslot, and returns its number.
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
        match self {
            Self::Luks1(header) => header.add_keyslot(storage, new, number),
            Self::Luks2(header) => header.add_keyslot(storage, new, number),
        }
    }

    /// Replaces keyslot `number` with `new`. At each instant the old or the new keyslot can be
    /// opened.
    ///
    /// # Errors
    /// [`ChangeError`]: as for [`VolumeHeader::add_keyslot`]. [`ChangeError::NoRoomBeside`] without
    /// room for the old and the new keyslot.
    pub fn replace_keyslot(
        &mut self,
        storage: &dyn Storage,
        number: u32,
        new: &NewKeyslot,
    ) -> Result<(), ChangeError> {
        match self {
            Self::Luks1(header) => header.replace_keyslot(storage, number, new),
            Self::Luks2(header) => header.replace_keyslot(storage, number, new),
        }
    }

    /// Replaces keyslot `number` with `new` in its own place: for a header without room for both. A
    /// crash in between leaves a keyslot that no secret opens.
    ///
    /// # Errors
    /// [`ChangeError`]: as for [`VolumeHeader::add_keyslot`].
    pub fn replace_keyslot_in_place(
        &mut self,
        storage: &dyn Storage,
        number: u32,
        new: &NewKeyslot,
    ) -> Result<(), ChangeError> {
        match self {
            Self::Luks1(header) => header.replace_keyslot_in_place(storage, number, new),
            Self::Luks2(header) => header.replace_keyslot_in_place(storage, number, new),
        }
    }

    /// Removes keyslot `number`, which may be the last one. Its area is overwritten first.
    ///
    /// # Errors
    /// [`ChangeError`]: there is no such keyslot, or the metadata on `storage` are not those that
    /// this header was read from, or cannot be written.
    pub fn remove_keyslot(
        &mut self,
        storage: &dyn Storage,
        number: u32,
    ) -> Result<(), ChangeError> {
        match self {
            Self::Luks1(header) => header.remove_keyslot(storage, number),
            Self::Luks2(header) => header.remove_keyslot(storage, number),
        }
    }

    /// Removes all keyslots. No secret opens the volume any more.
    ///
    /// # Errors
    /// [`ChangeError`]: the metadata on `storage` are not those that this header was read from, or
    /// cannot be written.
    pub fn erase(&mut self, storage: &dyn Storage) -> Result<(), ChangeError> {
        match self {
            Self::Luks1(header) => header.erase(storage),
            Self::Luks2(header) => header.erase(storage),
        }
    }

    /// Sets the UUID.
    ///
    /// # Errors
    /// [`ChangeError`]: the metadata on `storage` are not those that this header was read from, or
    /// cannot be written.
    pub fn set_uuid(&mut self, storage: &dyn Storage, uuid: Uuid) -> Result<(), ChangeError> {
        match self {
            Self::Luks1(header) => header.set_uuid(storage, uuid),
            Self::Luks2(header) => header.set_uuid(storage, uuid),
        }
    }

    /// Sets the priority of keyslot `number`, which determines when it is tried.
    ///
    /// # Errors
    /// [`ChangeError`]: there is no such keyslot, or the volume is LUKS1; or the metadata on
    /// `storage` are not those that this header was read from, or cannot be written.
    pub fn set_priority(
        &mut self,
        storage: &dyn Storage,
        number: u32,
        priority: Priority,
    ) -> Result<(), ChangeError> {
        match self {
            Self::Luks1(_) => not_in_luks1("priorities"),
            Self::Luks2(header) => header.set_priority(storage, number, priority),
        }
    }

    /// Sets the label; an empty one removes it.
    ///
    /// # Errors
    /// [`ChangeError`]: the volume is LUKS1, or the metadata on `storage` are not those that this
    /// header was read from, or cannot be written.
    pub fn set_label(&mut self, storage: &dyn Storage, label: &Label) -> Result<(), ChangeError> {
        match self {
            Self::Luks1(_) => not_in_luks1("labels"),
            Self::Luks2(header) => header.set_label(storage, label),
        }
    }

    /// Sets the second label; an empty one removes it.
    ///
    /// # Errors
    /// [`ChangeError`]: the volume is LUKS1, or the metadata on `storage` are not those that this
    /// header was read from, or cannot be written.
    pub fn set_subsystem(
        &mut self,
        storage: &dyn Storage,
        subsystem: &Label,
    ) -> Result<(), ChangeError> {
        match self {
            Self::Luks1(_) => not_in_luks1("subsystems"),
            Self::Luks2(header) => header.set_subsystem(storage, subsystem),
        }
    }

    /// Replaces the activation flags with `flags`.
    ///
    /// # Errors
    /// [`ChangeError`]: the volume is LUKS1, or the metadata on `storage` are not those that this
    /// header was read from, or cannot be written.
    pub fn set_flags(
        &mut self,
        storage: &dyn Storage,
        flags: &[ActivationFlag],
    ) -> Result<(), ChangeError> {
        match self {
            Self::Luks1(_) => not_in_luks1("flags"),
            Self::Luks2(header) => header.set_flags(storage, flags),
        }
    }

    /// Sets the length of the data: [`Luks2Header::set_data_size`](crate::Luks2Header::set_data_size).
    ///
    /// # Errors
    /// [`ChangeError`]: the volume is LUKS1, whose data extend to the end, or the metadata on
    /// `storage` are not those that this header was read from, or cannot be written.
    pub fn set_data_size(
        &mut self,
        storage: &dyn Storage,
        size: SegmentSize,
        file_length: Option<u64>,
    ) -> Result<(), ChangeError> {
        match self {
            Self::Luks1(_) => not_in_luks1("length of the data"),
            Self::Luks2(header) => header.set_data_size(storage, size, file_length),
        }
    }

    /// Returns token `number` as JSON on one line: [`Luks2Header::token_json`](crate::Luks2Header::token_json).
    /// `None` if there is no such token.
    #[must_use]
    pub fn token_json(&self, number: u32) -> Option<Vec<u8>> {
        match self {
            Self::Luks1(_) => None,
            Self::Luks2(header) => header.token_json(number),
        }
    }

    /// Adds a token as token `number`, or as the first free one, and returns its number.
    ///
    /// # Errors
    /// [`ChangeError`]: the volume is LUKS1, `number` is taken, `json` is not a token or does not
    /// fit; or the metadata on `storage` are not those that this header was read from, or cannot be
    /// written.
    pub fn add_token(
        &mut self,
        storage: &dyn Storage,
        json: impl AsRef<[u8]>,
        number: Option<u32>,
    ) -> Result<u32, ChangeError> {
        match self {
            Self::Luks1(_) => not_in_luks1("tokens"),
            Self::Luks2(header) => header.add_token(storage, json, number),
        }
    }

    /// Replaces token `number`.
    ///
    /// # Errors
    /// [`ChangeError`]: the volume is LUKS1, there is no such token, `json` is not a token or does
    /// not fit; or the metadata on `storage` are not those that this header was read from, or
    /// cannot be written.
    pub fn replace_token(
        &mut self,
        storage: &dyn Storage,
        json: impl AsRef<[u8]>,
        number: u32,
    ) -> Result<(), ChangeError> {
        match self {
            Self::Luks1(_) => not_in_luks1("tokens"),
            Self::Luks2(header) => header.replace_token(storage, json, number),
        }
    }

    /// Removes token `number`.
    ///
    /// # Errors
    /// [`ChangeError`]: the volume is LUKS1, there is no such token, or the metadata on `storage`
    /// are not those that this header was read from, or cannot be written.
    pub fn remove_token(&mut self, storage: &dyn Storage, number: u32) -> Result<(), ChangeError> {
        match self {
            Self::Luks1(_) => not_in_luks1("tokens"),
            Self::Luks2(header) => header.remove_token(storage, number),
        }
    }
}

fn not_in_luks1<T>(what: &'static str) -> Result<T, ChangeError> {
    Err(ChangeError::NotInLuks1 { what })
}
