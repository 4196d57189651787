// SPDX-License-Identifier: MIT OR Apache-2.0
//! A damaged or older copy of the metadata, made anew from the other one.

use luxor_sector::{Storage, foreign_signature};

use super::{ChangeError, write_copy};
use crate::{
    luks2::{
        binary_header::CopyKind,
        header::{CopyError, CopyStatus, Luks2Header, Warning},
    },
};

/// What [`Luks2Header::repair`] may overwrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// A copy of the metadata that was read and is damaged or older. All other changes
    /// overwrite no more either.
    Damaged,
    /// Also one that cannot be read, although it may be the newer one, and what begins
    /// like something else.
    Anything,
}

impl Luks2Header {
    /// Makes the copy of the metadata anew that is damaged or older than the other one,
    /// with a new salt, and returns which one that was; `None` when both are in order.
    /// Of two that are of one time and differ, the primary counts.
    ///
    /// # Errors
    /// [`ChangeError`], also when `overwrite` does not permit it: where the primary copy
    /// was, something else may be wanted now.
    pub fn repair(
        &mut self,
        storage: &dyn Storage,
        overwrite: Overwrite,
    ) -> Result<Option<CopyKind>, ChangeError> {
        let draft = self.begin_over(storage, overwrite)?;
        // There is at most one: the copy that counts is good.
        let mut bad = self.warnings().iter().map(|warning| match *warning {
            Warning::Damaged { kind, .. } => kind,
            Warning::Seqids { primary, secondary } if primary < secondary => CopyKind::Primary,
            Warning::Seqids { .. } | Warning::Contents { .. } => CopyKind::Secondary,
        });
        let Some(kind) = bad.next() else {
            return Ok(None);
        };
        write_copy(storage, kind, &draft.binary, self.text())?;
        *self = Self::read(storage)?;
        Ok(Some(kind))
    }
}

/// That nothing is lost when both copies are written.
pub(super) fn check_places(
    storage: &dyn Storage,
    copies: &[CopyStatus; 2],
) -> Result<(), ChangeError> {
    for copy in copies {
        let kind = copy.kind;
        match &copy.found {
            Err(error @ CopyError::Io { .. }) => {
                let error = error.clone();
                return Err(ChangeError::ReadCopy { kind, error });
            }
            Err(_) if kind == CopyKind::Primary => {
                let found = foreign_signature(storage)
                    .map_err(|source| ChangeError::ReadBeginning { source })?;
                if let Some(found) = found {
                    return Err(ChangeError::ForeignSignature { found });
                }
            }
            _ => {}
        }
    }
    Ok(())
}
