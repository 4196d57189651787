// SPDX-License-Identifier: MIT OR Apache-2.0
//! How every change is written: a draft of the metadata, begun and committed.

use luxor_sector::Storage;

use super::{
    durable,
    error::ChangeError,
    members::JsonMembers,
    overwrite::{Overwrite, check_places},
};
use crate::luks2::{
    binary_header::{BinaryHeader, CopyKind, json_size},
    copy::CopyStatus,
    header::Luks2Header,
    metadata::Metadata,
};

/// What the metadata shall be. Seqid and salts are set when it is written.
pub(super) struct MetadataDraft {
    pub(super) binary: BinaryHeader,
    pub(super) root: JsonMembers,
}

impl Luks2Header {
    /// Reads the metadata again, and begins a change of them.
    ///
    /// The caller holds the lock on the volume's metadata: what is read here must not
    /// change until it is written.
    pub(super) fn begin(&mut self, storage: &dyn Storage) -> Result<MetadataDraft, ChangeError> {
        self.begin_over(storage, Overwrite::Damaged)
    }

    pub(super) fn begin_over(
        &mut self,
        storage: &dyn Storage,
        overwrite: Overwrite,
    ) -> Result<MetadataDraft, ChangeError> {
        self.read_again(storage, overwrite)?;
        Ok(MetadataDraft {
            binary: self.binary().clone(),
            root: JsonMembers::parse(self.text()),
        })
    }

    /// Reads the metadata again, and makes sure that they are what was read before, are
    /// durable, and may be changed by this version.
    pub(crate) fn read_again(
        &mut self,
        storage: &dyn Storage,
        overwrite: Overwrite,
    ) -> Result<(), ChangeError> {
        let now = Self::read(storage)?;
        if overwrite == Overwrite::Damaged {
            check_places(storage, now.copies())?;
        }
        if now.binary() != self.binary() || now.text() != self.text() {
            return Err(ChangeError::ChangedMeanwhile);
        }
        let requirements = &now.metadata().config.requirements;
        if !requirements.is_empty() {
            let names = requirements.clone();
            return Err(ChangeError::Requirements { names });
        }
        // What was read may be in memory only, and be lost after the first writes.
        storage
            .sync()
            .map_err(|source| ChangeError::Sync { source })?;
        *self = now;
        Ok(())
    }

    /// Validates and writes what `draft` has become, and reads it again.
    pub(super) fn commit(
        &mut self,
        storage: &dyn Storage,
        draft: MetadataDraft,
    ) -> Result<(), ChangeError> {
        let MetadataDraft { mut binary, root } = draft;
        let text = root.text();
        let room = json_size(binary.size);
        // A zero byte ends the text.
        let needed = text.len() as u64 + 1;
        if needed > room {
            return Err(ChangeError::NoRoom { needed, room });
        }
        Metadata::parse(&text, binary.size)?;
        binary.seqid = binary
            .seqid
            .checked_add(1)
            .ok_or(ChangeError::SeqidExhausted)?;
        let [first, second] = write_order(self.copies());
        write_copy(storage, first, &binary, &text).map_err(|error| match Self::read(storage) {
            Ok(now) if now.binary().seqid < binary.seqid => error,
            // It was written before it failed.
            _ => ChangeError::Unsettled {
                error: Box::new(error),
            },
        })?;
        let finish = || -> Result<Self, ChangeError> {
            write_copy(storage, second, &binary, &text)?;
            Ok(Self::read(storage)?)
        };
        let now = finish().map_err(|error| ChangeError::Unfinished {
            error: Box::new(error),
        })?;
        // These are each copy's own.
        let BinaryHeader { salt, offset, .. } = *now.binary();
        let written = BinaryHeader {
            salt,
            offset,
            ..binary
        };
        if *now.binary() != written || now.text() != text {
            return Err(ChangeError::WrittenOver);
        }
        *self = now;
        Ok(())
    }
}

/// The copy that is worth less comes first: while it is written, the other one stands.
fn write_order(copies: &[CopyStatus; 2]) -> [CopyKind; 2] {
    // `None`, a damaged copy's, is less than any.
    let [primary, secondary] = copies
        .each_ref()
        .map(|copy| copy.found.as_ref().ok().map(|facts| facts.seqid));
    if primary < secondary {
        [CopyKind::Primary, CopyKind::Secondary]
    } else {
        [CopyKind::Secondary, CopyKind::Primary]
    }
}

/// Writes one copy with a new salt, and returns when it is durable.
pub(super) fn write_copy(
    storage: &dyn Storage,
    kind: CopyKind,
    binary: &BinaryHeader,
    text: &str,
) -> Result<(), ChangeError> {
    let bytes = binary.copy(kind, text)?;
    durable::write(storage, &bytes, binary.place(kind))
        .map_err(|source| ChangeError::WriteCopy { kind, source })
}
