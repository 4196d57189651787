// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a change may overwrite.

use luxor_sector::{Storage, foreign_signature};

use super::error::ChangeError;
use crate::luks2::{binary_header::CopyKind, copy::CopyError, header::Luks2Header};

/// What a repair ([`HeaderRepair::plan`](crate::HeaderRepair::plan)) may overwrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// A copy of the metadata that can be read and is damaged or older. Other changes than a repair
    /// overwrite nothing else either.
    Damaged,
    /// Also a copy that cannot be read, although it may be the newer one, a secondary copy that has the
    /// seqid of the primary one and other keyslots, digests, segments or tokens, an older copy with a
    /// keyslot or digest that cannot be used in the newer one, and a place with the signature of another
    /// format. In LUKS1 also keyslots with an unknown former state, which
    /// become empty.
    Anything,
}

/// Checks that nothing is lost when both copies are written.
pub(super) fn check_places(storage: &dyn Storage, header: &Luks2Header) -> Result<(), ChangeError> {
    if let Some(differences) = header.vital_differences() {
        let differences = differences.to_vec();
        return Err(ChangeError::CopiesDiffer { differences });
    }
    if let Some(spoilt) = header.spoilt() {
        let spoilt = spoilt.to_vec();
        return Err(ChangeError::OlderIsIntact { spoilt });
    }
    for copy in header.copies() {
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
