// SPDX-License-Identifier: MIT OR Apache-2.0
//! Begins and commits a draft of the metadata: the way in which every change is written.

use luxor_sector::Storage;

use super::{
    durable,
    error::ChangeError,
    members::JsonMembers,
    overwrite::{Overwrite, check_places},
};
use crate::luks2::{
    binary_header::{BinaryHeader, CopyKind, json_size},
    copy::{CopyError, CopyStatus, HeaderCopy},
    header::Luks2Header,
    json_c,
};

/// The metadata as they will be. Seqid and salts are set when they are written.
pub(in crate::luks2) struct MetadataDraft {
    pub(in crate::luks2) binary: BinaryHeader,
    pub(in crate::luks2) root: JsonMembers,
}

impl Luks2Header {
    /// Reads the metadata again, and begins a change.
    ///
    /// The caller holds the lock on the volume's metadata, so that they do not change until the
    /// draft is written.
    pub(in crate::luks2) fn begin(
        &mut self,
        storage: &dyn Storage,
    ) -> Result<MetadataDraft, ChangeError> {
        self.read_again(storage)?;
        Ok(self.draft())
    }

    /// As [`Luks2Header::begin`], also during a re-encryption: for its own changes, and for those that
    /// leave its state as it is.
    pub(in crate::luks2) fn begin_reencrypting(
        &mut self,
        storage: &dyn Storage,
    ) -> Result<MetadataDraft, ChangeError> {
        self.begin_over(storage, Overwrite::Damaged)
    }

    /// As [`Luks2Header::begin`], whatever the metadata require: for the destruction of all keys, which
    /// no requirement can forbid.
    pub(super) fn begin_erasing(
        &mut self,
        storage: &dyn Storage,
    ) -> Result<MetadataDraft, ChangeError> {
        self.read_same(storage, Overwrite::Damaged)?;
        Ok(self.draft())
    }

    pub(super) fn begin_over(
        &mut self,
        storage: &dyn Storage,
        overwrite: Overwrite,
    ) -> Result<MetadataDraft, ChangeError> {
        self.read_same(storage, overwrite)?;
        match self.check_changeable() {
            Ok(()) | Err(ChangeError::Reencrypting | ChangeError::CannotFinish(_)) => {
                Ok(self.draft())
            }
            Err(error) => Err(error),
        }
    }

    fn draft(&self) -> MetadataDraft {
        MetadataDraft {
            binary: self.binary().clone(),
            root: JsonMembers::parse(self.text()),
        }
    }

    /// Reads the metadata again. Checks that they are those that were read before, and that this
    /// version may change them, and makes them durable.
    pub(crate) fn read_again(&mut self, storage: &dyn Storage) -> Result<(), ChangeError> {
        let read = self.read_same(storage, Overwrite::Damaged);
        if matches!(read, Err(ChangeError::ChangedMeanwhile)) {
            // A program that re-encrypts changes them all the time.
            Self::read(storage)?.check_changeable()?;
        }
        read?;
        self.check_changeable()
    }

    /// Checks that the metadata require nothing that forbids changes.
    ///
    /// # Errors
    /// [`ChangeError::Requirements`], [`ChangeError::Reencrypting`] and [`ChangeError::CannotFinish`].
    pub fn check_changeable(&self) -> Result<(), ChangeError> {
        let config = &self.metadata().config;
        let names: Vec<String> = config.unknown_requirements().map(str::to_owned).collect();
        if !names.is_empty() {
            return Err(ChangeError::Requirements { names });
        }
        if config.reencrypt_version().is_none() {
            return Ok(());
        }
        Err(match self.metadata().check_readable() {
            Err(error) if !error.can_be_finished() => ChangeError::CannotFinish(error),
            _ => ChangeError::Reencrypting,
        })
    }

    /// As [`Luks2Header::read_again`], whatever the metadata require.
    fn read_same(
        &mut self,
        storage: &dyn Storage,
        overwrite: Overwrite,
    ) -> Result<(), ChangeError> {
        if self.is_as_written(storage) {
            return Ok(());
        }
        let now = Self::read(storage)?;
        if overwrite == Overwrite::Damaged {
            check_places(storage, &now)?;
        }
        if now.binary() != self.binary() || now.text() != self.text() {
            return Err(ChangeError::ChangedMeanwhile);
        }
        // The metadata may have been read from the page cache only, and could be lost after the
        // first write.
        storage
            .sync()
            .map_err(|source| ChangeError::Sync { source })?;
        *self = now;
        Ok(())
    }

    /// Validates and writes the draft, and reads it again.
    pub(in crate::luks2) fn commit(
        &mut self,
        storage: &dyn Storage,
        draft: MetadataDraft,
    ) -> Result<(), ChangeError> {
        let MetadataDraft { mut binary, root } = draft;
        let text = root.text();
        // The text is terminated by a zero byte.
        check_room(&binary, &text, 1)?;
        binary.seqid = binary
            .seqid
            .checked_add(1)
            .ok_or(ChangeError::SeqidExhausted)?;
        // Both are made before one is written, so that no error but the storage's comes in between.
        let primary = parsed_copy(&binary, CopyKind::Primary, &text, None)?;
        let secondary = parsed_copy(&binary, CopyKind::Secondary, &text, Some(&primary.1))?;
        let metadata = &primary.1.metadata;
        if metadata.broken_objects() > self.metadata().broken_objects() {
            return Err(ChangeError::NotReadBack);
        }
        let [first, second] = if metadata.has_unprotected_zone() {
            self.announce(storage, &text)?;
            [CopyKind::Primary, CopyKind::Secondary]
        } else {
            write_order(self.copies())
        };
        let write = |kind| {
            let (bytes, _) = match kind {
                CopyKind::Primary => &primary,
                CopyKind::Secondary => &secondary,
            };
            write_copy(storage, kind, &binary, bytes)
        };
        write(first).map_err(|error| {
            match Self::read(storage) {
                Ok(now) if now.binary().seqid < binary.seqid => error,
                // The copy was written before the failure, or the metadata cannot be read any more.
                _ => ChangeError::Unsettled {
                    error: Box::new(error),
                },
            }
        })?;
        // The change is made: a crash from here on leaves the first copy, which is newer than the other.
        let unfinished = |error: ChangeError| ChangeError::Unfinished {
            error: Box::new(error),
        };
        write(second).map_err(unfinished)?;
        let written = Self::of_written([primary, secondary]);
        if written.is_as_written(storage) {
            *self = written;
            return Ok(());
        }
        let now = Self::read(storage).map_err(|error| unfinished(error.into()))?;
        // These fields differ between the copies.
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

    /// Writes the secondary copy of a change that names a zone without protection, with the seqid of the
    /// primary one, which stays in use. From the primary copy on, nothing can finish the zone after a crash. If
    /// the secondary one was newer at any time, `cryptsetup` would replace the primary one by it, and the
    /// data of the zone would be lost, although they have not changed.
    fn announce(&mut self, storage: &dyn Storage, text: &str) -> Result<(), ChangeError> {
        // Both copies must have one seqid before.
        self.repair(storage, Overwrite::Damaged)?;
        let kind = CopyKind::Secondary;
        let bytes = new_copy(self.binary(), kind, text)?;
        write_copy(storage, kind, self.binary(), &bytes)
    }
}

/// Returns the order of writing: the less useful copy first, so that the other one stays valid in
/// the meantime.
fn write_order(copies: &[CopyStatus; 2]) -> [CopyKind; 2] {
    // `None`, for a damaged copy, is less than any seqid.
    let [primary, secondary] = copies
        .each_ref()
        .map(|copy| copy.found.as_ref().ok().map(|facts| facts.seqid));
    if primary < secondary {
        [CopyKind::Primary, CopyKind::Secondary]
    } else {
        [CopyKind::Secondary, CopyKind::Primary]
    }
}

/// Checks that the JSON area has room for `text` and `more` bytes.
pub(in crate::luks2) fn check_room(
    binary: &BinaryHeader,
    text: &str,
    more: u64,
) -> Result<(), ChangeError> {
    let room = json_size(binary.size);
    let needed = json_c::encode(text).len() as u64 + more;
    if needed > room {
        return Err(ChangeError::NoRoom { needed, room });
    }
    Ok(())
}

/// Writes the bytes of one copy, which [`new_copy`] has made. It is durable on return.
pub(super) fn write_copy(
    storage: &dyn Storage,
    kind: CopyKind,
    binary: &BinaryHeader,
    bytes: &[u8],
) -> Result<(), ChangeError> {
    durable::write(storage, bytes, binary.place(kind))
        .map_err(|source| ChangeError::WriteCopy { kind, source })
}

/// Returns the bytes of one copy with a new salt, after reading them as a header is read: a header
/// that says something else, or cannot be read, is never written.
pub(crate) fn new_copy(
    binary: &BinaryHeader,
    kind: CopyKind,
    text: &str,
) -> Result<Vec<u8>, ChangeError> {
    Ok(parsed_copy(binary, kind, text, None)?.0)
}

/// As [`new_copy`], with what was read. `other` is the other copy.
fn parsed_copy(
    binary: &BinaryHeader,
    kind: CopyKind,
    text: &str,
    other: Option<&HeaderCopy>,
) -> Result<(Vec<u8>, HeaderCopy), ChangeError> {
    let bytes = binary.copy(kind, text)?;
    let read = HeaderCopy::parse(&bytes, (kind, binary.place(kind)), other);
    let read = read.map_err(|error| match error {
        CopyError::Unsupported { error, .. } => error.into(),
        _ => ChangeError::NotReadBack,
    })?;
    // These fields are new.
    let BinaryHeader { salt, offset, .. } = read.binary;
    let meant = BinaryHeader {
        salt,
        offset,
        ..binary.clone()
    };
    if read.binary == meant && read.text == text {
        Ok((bytes, read))
    } else {
        Err(ChangeError::NotReadBack)
    }
}
