// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names and flags.

use std::{fmt, str::FromStr};

use luxor_sector::Storage;
use uuid::Uuid;

use super::ChangeError;
use crate::{
    brief::brief,
    luks2::{binary_header::TextField, header::Luks2Header, label::Label},
};

impl Luks2Header {
    /// Sets the label; an empty one is none.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub fn set_label(&mut self, storage: &dyn Storage, label: &Label) -> Result<(), ChangeError> {
        let mut draft = self.begin(storage)?;
        draft.binary.label = TextField::new(label.as_str());
        self.commit(storage, draft)
    }

    /// Sets the second label; an empty one is none.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub fn set_subsystem(
        &mut self,
        storage: &dyn Storage,
        subsystem: &Label,
    ) -> Result<(), ChangeError> {
        let mut draft = self.begin(storage)?;
        draft.binary.subsystem = TextField::new(subsystem.as_str());
        self.commit(storage, draft)
    }

    /// Sets the UUID.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub fn set_uuid(&mut self, storage: &dyn Storage, uuid: Uuid) -> Result<(), ChangeError> {
        let mut draft = self.begin(storage)?;
        draft.binary.uuid = TextField::new(&uuid.to_string());
        self.commit(storage, draft)
    }

    /// Sets the flags for activation to these and no others. Flags that this version
    /// does not know stay.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub fn set_flags(
        &mut self,
        storage: &dyn Storage,
        flags: &[ActivationFlag],
    ) -> Result<(), ChangeError> {
        let mut draft = self.begin(storage)?;
        let mut names: Vec<&str> = Vec::new();
        for flag in ActivationFlag::ALL {
            if flags.contains(&flag) {
                names.push(flag.name());
            }
        }
        let unknown = self
            .metadata()
            .config
            .flags
            .iter()
            .map(String::as_str)
            .filter(|name| name.parse::<ActivationFlag>().is_err());
        names.extend(unknown);
        draft
            .root
            .edit(&["config"], |config| config.set("flags", &names));
        self.commit(storage, draft)
    }
}

/// A flag for activation that is kept in the volume (LUKS2 specification, section 3.6).
/// They are for dm-crypt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ActivationFlag {
    /// Discards reach the storage.
    AllowDiscards,
    /// Encryption on the CPU that asked for the I/O.
    SameCpuCrypt,
    /// Writes are submitted by the thread that encrypts.
    SubmitFromCryptCpus,
    /// No journal for integrity tags.
    NoJournal,
    /// Reads without a work queue.
    NoReadWorkqueue,
    /// Writes without a work queue.
    NoWriteWorkqueue,
}

impl ActivationFlag {
    /// All, in cryptsetup's order.
    pub const ALL: [Self; 6] = [
        Self::AllowDiscards,
        Self::SameCpuCrypt,
        Self::SubmitFromCryptCpus,
        Self::NoJournal,
        Self::NoReadWorkqueue,
        Self::NoWriteWorkqueue,
    ];

    /// The name in the metadata: `allow-discards`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllowDiscards => "allow-discards",
            Self::SameCpuCrypt => "same-cpu-crypt",
            Self::SubmitFromCryptCpus => "submit-from-crypt-cpus",
            Self::NoJournal => "no-journal",
            Self::NoReadWorkqueue => "no-read-workqueue",
            Self::NoWriteWorkqueue => "no-write-workqueue",
        }
    }
}

impl fmt::Display for ActivationFlag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ActivationFlag {
    type Err = UnknownFlag;

    fn from_str(name: &str) -> Result<Self, UnknownFlag> {
        Self::ALL
            .into_iter()
            .find(|flag| flag.name() == name)
            .ok_or_else(|| UnknownFlag { name: name.into() })
    }
}

/// No flag for activation that this version knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} is no flag; there are {}",
    brief(name),
    ActivationFlag::ALL.map(ActivationFlag::name).join(", ")
)]
#[non_exhaustive]
pub struct UnknownFlag {
    /// The name.
    pub name: String,
}
