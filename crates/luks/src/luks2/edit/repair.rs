// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rewrites a damaged or older copy of the metadata from the other one.

use std::io;

use luxor_sector::Storage;

use super::{
    draft::{new_copy, write_copy},
    durable,
    error::ChangeError,
    overwrite::{Overwrite, check_places},
};
use crate::luks2::{
    binary_header::CopyKind,
    header::{Luks2Header, Warning},
};

impl Luks2Header {
    /// Rewrites the copy of the metadata that is damaged or older than the other one, with a new
    /// salt, and returns which one it was. Returns `None` if both are good. If they have equal
    /// seqids and differ, the secondary is rewritten from the primary.
    ///
    /// # Errors
    /// [`ChangeError`]: the metadata changed, cannot be read again or cannot be written; or
    /// `overwrite` does not permit the repair, because the place of the primary copy may hold
    /// something that is wanted now.
    pub fn repair(
        &mut self,
        storage: &dyn Storage,
        overwrite: Overwrite,
    ) -> Result<Option<CopyKind>, ChangeError> {
        let draft = self.begin_over(storage, overwrite)?;
        // At most one copy is bad, because the copy in use is good.
        let mut bad = self.warnings().iter().filter_map(|warning| match *warning {
            Warning::Damaged { kind, .. } => Some(kind),
            Warning::Seqids { primary, secondary } if primary < secondary => {
                Some(CopyKind::Primary)
            }
            Warning::Spoilt {
                newer: CopyKind::Secondary,
                ..
            } => Some(CopyKind::Primary),
            Warning::Seqids { .. }
            | Warning::Spoilt { .. }
            | Warning::Announced { .. }
            | Warning::Contents { .. } => Some(CopyKind::Secondary),
            // Only LUKS1 has these.
            Warning::Keyslot { .. } | Warning::Field(_) => None,
        });
        let Some(kind) = bad.next() else {
            return Ok(None);
        };
        let bytes = new_copy(&draft.binary, kind, self.text())?;
        write_copy(storage, kind, &draft.binary, &bytes)?;
        *self = Self::read(storage)?;
        Ok(Some(kind))
    }

    /// Whether [`Luks2Header::repair`] would succeed without permission to overwrite anything.
    pub(crate) fn is_repairable(&self, storage: &dyn Storage) -> bool {
        let changeable = self.check_changeable();
        check_places(storage, self).is_ok()
            && !matches!(changeable, Err(ChangeError::Requirements { .. }))
    }

    /// Writes the copies of the metadata that are in use again, unchanged. After a failed sync the system
    /// may show one that the disk does not have, and later syncs do not write it. Nothing may depend on it
    /// before, nor the other copy change.
    ///
    /// # Errors
    /// [`ChangeError`]: the metadata changed, cannot be read again or cannot be written.
    pub fn write_again(&mut self, storage: &dyn Storage) -> Result<(), ChangeError> {
        self.begin_reencrypting(storage)?;
        let newest = self.binary().seqid;
        for kind in [CopyKind::Primary, CopyKind::Secondary] {
            let found = &self.copies()[kind as usize].found;
            if !matches!(found, Ok(facts) if facts.seqid == newest) {
                continue;
            }
            let place = self.binary().place(kind);
            let write = || -> io::Result<()> {
                let len = usize::try_from(self.binary().size).map_err(io::Error::other)?;
                let mut bytes = vec![0; len];
                storage.read_exact_at(&mut bytes, place)?;
                durable::write(storage, &bytes, place)
            };
            write().map_err(|source| ChangeError::WriteCopy { kind, source })?;
        }
        Ok(())
    }
}
