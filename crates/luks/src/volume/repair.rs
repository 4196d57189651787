// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metadata of either version that are damaged, and made good again.

use std::fmt;

use luxor_sector::Storage;

use super::{VolumeHeader, VolumeReadError};
use crate::{
    luks1::{Luks1Repair, Luks1RepairError, Luks1Restored},
    luks1_error::Luks1Error,
    luks2::{
        binary_header::CopyKind,
        edit::{ChangeError, Overwrite},
        header::Luks2Header,
    },
};

/// A repair that has been planned: nothing is written yet.
#[derive(Debug)]
pub struct HeaderRepair(Plan);

#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one of them, and it stays where it is"
)]
enum Plan {
    Luks1(Luks1Repair),
    Luks2(Luks2Header, Overwrite),
}

impl HeaderRepair {
    /// Looks at the metadata at the beginning of `storage`, under the lock on them, and finds out
    /// what they were. Of a LUKS1 header even the beginning may be lost.
    ///
    /// # Errors
    /// [`HeaderRepairError`]: what was there cannot be known, or something else may be wanted
    /// there.
    pub fn plan(storage: &dyn Storage, overwrite: Overwrite) -> Result<Self, HeaderRepairError> {
        let error = match VolumeHeader::read(storage) {
            Ok(VolumeHeader::Luks2(header)) => return Ok(Self(Plan::Luks2(header, overwrite))),
            Ok(VolumeHeader::Luks1(_)) | Err(VolumeReadError::Luks1(_)) => None,
            Err(error) if error.is_not_luks() => Some(error),
            Err(error) => return Err(error.into()),
        };
        match (Luks1Repair::plan(storage, overwrite), error) {
            (Ok(plan), _) => Ok(Self(Plan::Luks1(plan))),
            (Err(Luks1RepairError::Damaged(Luks1Error::Magic)), Some(error)) => Err(error.into()),
            (Err(error), _) => Err(error.into()),
        }
    }

    /// The metadata as they will be.
    #[must_use]
    pub fn header(&self) -> VolumeHeader {
        match &self.0 {
            Plan::Luks1(plan) => VolumeHeader::Luks1(plan.header().clone()),
            Plan::Luks2(header, _) => VolumeHeader::Luks2(header.clone()),
        }
    }

    /// Writes what was damaged, and returns when it is durable; still under the lock.
    ///
    /// # Errors
    /// [`ChangeError`]: the metadata are not the ones that were looked at any more, or cannot be
    /// written.
    pub fn write(self, storage: &dyn Storage) -> Result<Repaired, ChangeError> {
        match self.0 {
            Plan::Luks1(plan) => {
                let restored = plan.restored().to_vec();
                if !restored.is_empty() {
                    plan.write(storage)?;
                }
                Ok(Repaired::Luks1(restored))
            }
            Plan::Luks2(mut header, overwrite) => {
                Ok(Repaired::Luks2(header.repair(storage, overwrite)?))
            }
        }
    }
}

/// What was made good, a line each.
#[derive(Clone, Debug)]
pub enum Repaired {
    /// The parts of a LUKS1 header; none when it was good.
    Luks1(Vec<Luks1Restored>),
    /// The copy of LUKS2's metadata that is made anew; `None` when both were good.
    Luks2(Option<CopyKind>),
}

impl fmt::Display for Repaired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Luks1(restored) if restored.is_empty() => {
                writeln!(f, "the header is good (LUKS1: one copy, no checksum)")
            }
            Self::Luks1(restored) => {
                restored.iter().try_for_each(|what| writeln!(f, "{what}"))?;
                writeln!(f, "the header is restored")
            }
            Self::Luks2(Some(kind)) => writeln!(f, "the {} header is made anew", kind.name()),
            Self::Luks2(None) => writeln!(f, "both copies of the header are good"),
        }
    }
}

/// Why metadata cannot be made good.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderRepairError {
    /// They are no LUKS1 header, and neither copy of LUKS2's can be read.
    #[error(transparent)]
    Unreadable(#[from] VolumeReadError),
    /// A LUKS1 header cannot be restored.
    #[error(transparent)]
    Luks1(#[from] Luks1RepairError),
}

impl HeaderRepairError {
    /// Whether nothing but a backup can help, since what was there is not known.
    #[must_use]
    pub fn wants_backup(&self) -> bool {
        matches!(
            self,
            Self::Luks1(Luks1RepairError::Damaged(_) | Luks1RepairError::Unknown { .. })
        )
    }
}
