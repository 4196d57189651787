// SPDX-License-Identifier: MIT OR Apache-2.0
//! A damaged or older copy of the metadata, made anew from the other one.

use std::io;

use luxor_sector::Storage;

use super::{ChangeError, write_copy};
use crate::{
    binary_header::CopyKind,
    header::{CopyError, CopyStatus, Header, Warning},
};

/// What [`Header::repair`] may overwrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// A copy of the metadata that was read and is damaged or older. All other changes
    /// overwrite no more either.
    Damaged,
    /// Also one that cannot be read, although it may be the newer one, and what begins
    /// like something else.
    Anything,
}

impl Header {
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

/// What else begins like this: by the offsets and magics that file(1) and blkid(8) look
/// for. All that fit between a volume's beginning and its data. FAT's name is in what
/// are fields of text here: it is known by the end of its boot sector.
pub(super) const SIGNATURES: [(u64, &[u8], &str); 20] = [
    (0, b"XFSB", "an XFS file system"),
    (0, b"hsqs", "a squashfs file system"),
    (0, b"QFI\xfb", "a qcow2 image"),
    (3, b"-FVE-FS-", "a BitLocker volume"),
    (3, b"NTFS    ", "an NTFS file system"),
    (3, b"EXFAT   ", "an exFAT file system"),
    (
        510,
        b"\x55\xaa",
        "a boot sector (as of FAT) or partition table",
    ),
    (512, b"EFI PART", "a partition table (GPT)"),
    (512, b"LABELONE", "an LVM physical volume"),
    (1024, b"\xe2\xe1\xf5\xe0", "an EROFS file system"),
    (1024, b"\x10\x20\xf5\xf2", "an F2FS file system"),
    (1080, b"\x53\xef", "an ext2, ext3 or ext4 file system"),
    (4086, b"SWAPSPACE2", "a swap area"),
    (4096, b"\xfc\x4e\x2b\xa9", "a Linux RAID member"),
    (
        4120,
        b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81",
        "a bcache device",
    ),
    (32769, b"CD001", "an ISO 9660 file system"),
    (32768, b"JFS1", "a JFS file system"),
    (32769, b"BEA01", "a UDF file system"),
    (65600, b"_BHRfS_M", "a btrfs file system"),
    (65588, b"ReIsEr", "a ReiserFS file system"),
];

/// The first of [`SIGNATURES`] that is there, in words.
///
/// # Errors
/// The storage's.
pub(crate) fn foreign_signature(storage: &dyn Storage) -> io::Result<Option<&'static str>> {
    let len = storage.len()?;
    for (offset, magic, name) in SIGNATURES {
        let mut found = vec![0; magic.len()];
        if offset + magic.len() as u64 > len {
            continue;
        }
        storage.read_exact_at(&mut found, offset)?;
        if found == magic {
            return Ok(Some(name));
        }
    }
    Ok(None)
}
