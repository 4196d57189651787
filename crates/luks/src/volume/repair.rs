// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repairs damaged metadata of either version.

use std::fmt;

use luxor_sector::Storage;
use luxor_volume::RepairOutlook;

use super::{VolumeHeader, VolumeReadError};
use crate::{
    luks1::{ByForce, Luks1Repair, Luks1RepairError, Luks1Restored},
    luks1_error::Luks1Error,
    luks2::{
        binary_header::CopyKind,
        edit::{ChangeError, Overwrite},
        header::Luks2Header,
    },
};

/// A planned repair. Nothing has been written yet. A volume with intact metadata has a plan too,
/// which writes nothing.
#[derive(Debug)]
pub struct HeaderRepair(Plan);

#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "only one value exists, and it is not moved around"
)]
enum Plan {
    Luks1(Luks1Repair),
    Luks2(Luks2Header, Overwrite),
}

impl HeaderRepair {
    /// Reads the metadata at the beginning of `storage`, and determines what they were before the
    /// damage. The caller holds the lock on them. A LUKS1 header may have lost even its magic and
    /// version.
    ///
    /// # Errors
    /// [`HeaderRepairError`]: the lost bytes cannot be determined, or `storage` holds something
    /// else that `overwrite` does not permit to overwrite.
    pub fn plan(storage: &dyn Storage, overwrite: Overwrite) -> Result<Self, HeaderRepairError> {
        let error = match VolumeHeader::read(storage) {
            Ok(VolumeHeader::Luks2(header)) => return Ok(Self(Plan::Luks2(header, overwrite))),
            Ok(VolumeHeader::Luks1(_)) | Err(VolumeReadError::Luks1(_)) => None,
            // The header is intact, so it is no LUKS1 header with a damaged version.
            Err(error) if error.version().is_some() => return Err(error.into()),
            Err(error) => Some(error),
        };
        match (Luks1Repair::plan(storage, overwrite), error) {
            (Ok(plan), _) => Ok(Self(Plan::Luks1(plan))),
            (Err(Luks1RepairError::Damaged(Luks1Error::Magic)), Some(error)) => Err(error.into()),
            (Err(error), _) => Err(error.into()),
        }
    }

    /// Returns what a repair of the metadata at the beginning of `storage` would achieve.
    #[must_use]
    pub fn outlook(storage: &dyn Storage) -> RepairOutlook {
        match Self::plan(storage, Overwrite::Damaged) {
            Ok(Self(Plan::Luks2(header, _))) if header.vital_differences().is_some() => {
                RepairOutlook::MakesEqual
            }
            Ok(Self(Plan::Luks2(header, _))) if !header.is_repairable(storage) => {
                RepairOutlook::Impossible
            }
            Ok(_) => RepairOutlook::Restored,
            Err(error) => error.outlook(),
        }
    }

    /// The metadata after the repair.
    #[must_use]
    pub fn header(&self) -> VolumeHeader {
        match &self.0 {
            Plan::Luks1(plan) => VolumeHeader::Luks1(plan.header().clone()),
            Plan::Luks2(header, _) => VolumeHeader::Luks2(header.clone()),
        }
    }

    /// Writes the damaged parts, and returns when they are durable. The caller still holds the
    /// lock.
    ///
    /// # Errors
    /// [`ChangeError`]: the metadata changed since the repair was planned, or cannot be written.
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
                let differences = header.vital_differences().unwrap_or_default().to_vec();
                let rewritten = header.repair(storage, overwrite)?;
                Ok(Repaired::Luks2 {
                    rewritten,
                    differences,
                })
            }
        }
    }
}

/// What was repaired. `Display` prints one line for each part.
#[derive(Clone, Debug)]
pub enum Repaired {
    /// The restored parts of a LUKS1 header; empty if it was good.
    Luks1(Vec<Luks1Restored>),
    /// A copy of LUKS2's metadata.
    Luks2 {
        /// The copy that was written anew; `None` if both were good.
        rewritten: Option<CopyKind>,
        /// The parts of that copy that were not as in the other one, if both were valid and equally old.
        differences: Vec<&'static str>,
    },
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
            Self::Luks2 {
                rewritten: Some(kind),
                differences,
            } => {
                write!(f, "the {} header is rewritten", kind.name())?;
                if !differences.is_empty() {
                    write!(f, "; it had other {}", differences.join(", "))?;
                }
                writeln!(f)
            }
            Self::Luks2 { .. } => writeln!(f, "both copies of the header are good"),
        }
    }
}

/// Why metadata cannot be repaired.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderRepairError {
    /// There is no LUKS1 header, and neither copy of a LUKS2 header can be read.
    #[error(transparent)]
    Unreadable(#[from] VolumeReadError),
    /// A LUKS1 header cannot be restored.
    #[error(transparent)]
    Luks1(#[from] Luks1RepairError),
}

impl HeaderRepairError {
    /// Returns what a repair with permission to overwrite anything would achieve.
    #[must_use]
    pub fn outlook(&self) -> RepairOutlook {
        match self {
            Self::Luks1(Luks1RepairError::Unknown { by_force, .. }) => match by_force {
                ByForce::Empties => RepairOutlook::LosesKeyslots,
                ByForce::Leaves => RepairOutlook::LeavesKeyslots,
                ByForce::Nothing => RepairOutlook::Impossible,
            },
            _ => RepairOutlook::Impossible,
        }
    }

    /// Returns whether only a backup can help, because the lost bytes cannot be determined.
    #[must_use]
    pub fn wants_backup(&self) -> bool {
        matches!(
            self,
            Self::Luks1(Luks1RepairError::Damaged(_) | Luks1RepairError::Unknown { .. })
        )
    }
}
