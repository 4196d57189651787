// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state that the digest of a re-encryption covers. That digest belongs to the keyslot of type
//! `reencrypt`, and is computed over these bytes (integers are big-endian; lengths of texts are not
//! included):
//!
//! ```text
//! "v2" or "v3"           the version of the requirement
//! the keys               of backup-previous, then of backup-final if it has another key
//! the keyslot            mode, direction, the area's type, offset, size,
//!                        and, if the type has them, hash, sector_size (32 bits), shift_size
//! the backup segments    previous, final, and moved if there is one, each:
//!                        type, offset, size (or "dynamic"),
//!                        and, if it is encrypted, iv_tweak, encryption, sector_size (32 bits)
//! ```
//!
//! This follows cryptsetup's implementation; the specification leaves it open.

use luxor_secret::SecretBytes;
use luxor_volume::Encryption;

use super::error::ReencryptionError;
use crate::luks2::{
    metadata::Metadata,
    reencrypt_keyslot::ReencryptKeyslot,
    segment::{SegmentEntry, SegmentKind, SegmentRole, SegmentSize},
};

/// The complete state of a re-encryption, and the digests of the keys that it covers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reencryption<'a> {
    pub(super) keyslot: &'a ReencryptKeyslot,
    /// The number of the keyslot's digest, which covers all of this.
    pub digest: u32,
    version: u8,
    pub(super) previous: BackupSegment<'a>,
    pub(super) last: BackupSegment<'a>,
    pub(super) moved: Option<BackupSegment<'a>>,
}

/// A backup segment, and the number of its key's digest if it is encrypted.
#[derive(Clone, Copy, Debug)]
pub(super) struct BackupSegment<'a> {
    pub(super) entry: &'a SegmentEntry,
    pub(super) digest: Option<u32>,
}

impl<'a> Reencryption<'a> {
    /// Finds the state of a re-encryption; `None` if the metadata require none. Does not check the
    /// parts of the data.
    pub(super) fn find(metadata: &'a Metadata) -> Result<Option<Self>, ReencryptionError> {
        let Some(version) = metadata.config.reencrypt_version() else {
            return Ok(None);
        };
        if version < 2 {
            return Err(ReencryptionError::NoDigest);
        }
        let Some((number, keyslot)) = &metadata.reencrypt else {
            let mut foreign = metadata.foreign_keyslots.iter();
            let (&keyslot, found) = foreign
                .find(|(_, found)| found.kind == "reencrypt")
                .expect("parsing checks that there is one");
            return Err(ReencryptionError::ForeignKeyslot {
                keyslot,
                what: found.what.clone(),
            });
        };
        let find = |role: SegmentRole| {
            let Some((number, entry)) = metadata.segments.of_role(role) else {
                return Ok(None);
            };
            if let SegmentKind::Foreign { what, .. } = &entry.kind {
                return Err(ReencryptionError::Foreign {
                    segment: number,
                    what: what.what.clone(),
                });
            }
            let digest = entry.crypt().map(|_| metadata.digest_of_segment(number));
            Ok(Some(BackupSegment { entry, digest }))
        };
        let find_required = |role: SegmentRole| {
            let found = find(role)?;
            Ok(found.expect("parsing checks that there is one"))
        };
        let state = Self {
            keyslot,
            digest: metadata.digest_of_keyslot(*number),
            version,
            previous: find_required(SegmentRole::BackupPrevious)?,
            last: find_required(SegmentRole::BackupFinal)?,
            moved: find(SegmentRole::BackupMoved)?,
        };
        Ok(Some(state))
    }

    /// Returns the keys that the state's digest covers, in its order: the number of each key's
    /// digest, and the encryption that the key is for.
    pub(crate) fn keys(&self) -> Vec<(u32, Encryption)> {
        let mut keys: Vec<_> = [self.previous, self.last]
            .iter()
            .filter_map(|backup| Some((backup.digest?, backup.entry.crypt()?.encryption)))
            .collect();
        keys.dedup_by_key(|(digest, _)| *digest);
        keys
    }

    /// Returns the bytes that the digest covers. `keys` are those of [`Reencryption::keys`].
    pub(crate) fn bytes(&self, keys: &[&[u8]]) -> SecretBytes {
        let mut state = Vec::new();
        self.keyslot.push_bytes(&mut state);
        for backup in [self.previous, self.last].into_iter().chain(self.moved) {
            push_segment(&mut state, backup.entry);
        }
        let version = [b'v', b'0' + self.version];
        let parts = || {
            [&version[..]]
                .into_iter()
                .chain(keys.iter().copied())
                .chain([&state[..]])
        };
        let mut bytes = SecretBytes::zeroed(parts().map(<[u8]>::len).sum());
        let mut rest = bytes.expose_mut();
        for part in parts() {
            let (head, tail) = rest.split_at_mut(part.len());
            head.copy_from_slice(part);
            rest = tail;
        }
        bytes
    }
}

fn push_segment(out: &mut Vec<u8>, entry: &SegmentEntry) {
    let kind = match &entry.kind {
        SegmentKind::Crypt(_) => "crypt",
        SegmentKind::Linear { .. } => "linear",
        SegmentKind::Foreign { what, .. } => &what.kind,
    };
    out.extend(kind.as_bytes());
    out.extend(entry.offset().to_be_bytes());
    match entry.size() {
        SegmentSize::Dynamic => out.extend(b"dynamic"),
        SegmentSize::Fixed(size) => out.extend(size.to_be_bytes()),
    }
    if let SegmentKind::Crypt(segment) = &entry.kind {
        out.extend(segment.geometry.iv_offset.to_be_bytes());
        out.extend(segment.encryption_name.as_bytes());
        let sector = u32::try_from(segment.geometry.sector_size.bytes()).expect("at most 4096");
        out.extend(sector.to_be_bytes());
    }
}
