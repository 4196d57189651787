// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes of a volume of either version. LUKS1 has keyslots and a UUID; anything else
//! is [`ChangeError::NotInLuks1`].

use luxor_engine::{Backend, with_key_stack};
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
    unlock::Unlocked,
};

impl VolumeHeader {
    /// Puts the volume key under `secret`: the slow part of adding or changing a
    /// keyslot. Reads and writes nothing.
    ///
    /// # Errors
    /// [`NewKeyslotError`], also for Argon2 in LUKS1.
    pub fn new_keyslot(
        &self,
        unlocked: &Unlocked,
        secret: &[u8],
        pbkdf: &PbkdfOptions,
        backend: &dyn Backend,
    ) -> Result<NewKeyslot, NewKeyslotError> {
        with_key_stack(|| match self {
            Self::Luks1(header) => header.new_keyslot(unlocked, secret, pbkdf, backend),
            Self::Luks2(header) => header.new_keyslot(unlocked, secret, pbkdf, backend),
        })
    }

    /// Adds `new` as keyslot `number`, or as the first that is free, and returns its
    /// number.
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
        match self {
            Self::Luks1(header) => header.add_keyslot(storage, new, number),
            Self::Luks2(header) => header.add_keyslot(storage, new, number),
        }
    }

    /// Makes `new` the content of keyslot `number`, which keeps its number. Old or new,
    /// it can be opened at each instant.
    ///
    /// # Errors
    /// [`ChangeError`], also when there is no room for both.
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

    /// Removes keyslot `number`, which may be the last one. Its area is overwritten
    /// first.
    ///
    /// # Errors
    /// [`ChangeError`]: there is no such keyslot, the metadata on `storage` are not those
    /// that this header has read, or cannot be written.
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

    /// Removes all keyslots: nothing opens the volume any more.
    ///
    /// # Errors
    /// [`ChangeError`]: the metadata on `storage` are not those that this header has
    /// read, or cannot be written.
    pub fn erase(&mut self, storage: &dyn Storage) -> Result<(), ChangeError> {
        match self {
            Self::Luks1(header) => header.erase(storage),
            Self::Luks2(header) => header.erase(storage),
        }
    }

    /// Sets the UUID.
    ///
    /// # Errors
    /// [`ChangeError`]: the metadata on `storage` are not those that this header has
    /// read, or cannot be written.
    pub fn set_uuid(&mut self, storage: &dyn Storage, uuid: Uuid) -> Result<(), ChangeError> {
        match self {
            Self::Luks1(header) => header.set_uuid(storage, uuid),
            Self::Luks2(header) => header.set_uuid(storage, uuid),
        }
    }

    /// Sets when keyslot `number` is tried.
    ///
    /// # Errors
    /// [`ChangeError`]: there is no such keyslot, or it is a LUKS1 volume; the metadata
    /// on `storage` are not those that this header has read, or cannot be written.
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

    /// Sets the label; an empty one is none.
    ///
    /// # Errors
    /// [`ChangeError`]: it is a LUKS1 volume, the metadata on `storage` are not those
    /// that this header has read, or cannot be written.
    pub fn set_label(&mut self, storage: &dyn Storage, label: &Label) -> Result<(), ChangeError> {
        match self {
            Self::Luks1(_) => not_in_luks1("labels"),
            Self::Luks2(header) => header.set_label(storage, label),
        }
    }

    /// Sets the second label; an empty one is none.
    ///
    /// # Errors
    /// [`ChangeError`]: it is a LUKS1 volume, the metadata on `storage` are not those
    /// that this header has read, or cannot be written.
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

    /// Sets the flags for activation to these and no others.
    ///
    /// # Errors
    /// [`ChangeError`]: it is a LUKS1 volume, the metadata on `storage` are not those
    /// that this header has read, or cannot be written.
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

    /// Token `number` as JSON on one line; `None` when there is no such token.
    #[must_use]
    pub fn token_json(&self, number: u32) -> Option<String> {
        match self {
            Self::Luks1(_) => None,
            Self::Luks2(header) => header.token_json(number),
        }
    }

    /// Adds a token as token `number`, or as the first that is free, and returns its
    /// number.
    ///
    /// # Errors
    /// [`ChangeError`]: it is a LUKS1 volume, `number` is taken, `json` is no token or
    /// does not fit; the metadata on `storage` are not those that this header has read,
    /// or cannot be written.
    pub fn add_token(
        &mut self,
        storage: &dyn Storage,
        json: &str,
        number: Option<u32>,
    ) -> Result<u32, ChangeError> {
        match self {
            Self::Luks1(_) => not_in_luks1("tokens"),
            Self::Luks2(header) => header.add_token(storage, json, number),
        }
    }

    /// Puts another token in the place of token `number`.
    ///
    /// # Errors
    /// [`ChangeError`]: it is a LUKS1 volume, there is no such token, `json` is none or
    /// does not fit; the metadata on `storage` are not those that this header has read,
    /// or cannot be written.
    pub fn replace_token(
        &mut self,
        storage: &dyn Storage,
        json: &str,
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
    /// [`ChangeError`]: it is a LUKS1 volume, there is no such token, the metadata on
    /// `storage` are not those that this header has read, or cannot be written.
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
