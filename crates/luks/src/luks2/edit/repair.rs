// SPDX-License-Identifier: MIT OR Apache-2.0
//! A damaged or older copy of the metadata, made anew from the other one.

use luxor_sector::Storage;

use super::{draft::write_copy, error::ChangeError, overwrite::Overwrite};
use crate::luks2::{
    binary_header::CopyKind,
    header::{Luks2Header, Warning},
};

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
