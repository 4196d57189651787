// SPDX-License-Identifier: MIT OR Apache-2.0
//! Backups of a volume's metadata and keyslots: all bytes before the data, in the format of
//! `cryptsetup luksHeaderBackup`.

use std::{borrow::Cow, fmt, io, ops::Range, sync::Arc};

use luxor_sector::{MemoryStorage, Storage};
use luxor_volume::{brief, brief_list};

use crate::{
    ChangeError,
    luks1_error::Luks1Error,
    luks2::{
        binary_header::{self, CopyKind},
        copy::CopyError,
        edit::new_copy,
        header::{Luks2Header, ReadError, Warning},
        token::FileEnd,
        unlock::UnlockError,
    },
    version::LuksVersion,
    volume::{VolumeHeader, VolumeReadError},
};

/// No LUKS2 header is longer (two copies of 4 MiB each and 128 MiB of keyslots), nor is any LUKS1
/// header that existing programs create.
const MAX_LEN: u64 = 136 << 20;

/// cryptsetup rounds the length of a backup up to whole pages.
const PAGE: usize = 4096;

/// The offset at which LUKS1's first keyslot area usually begins.
const LUKS1_ALIGNMENT: u32 = 4096;
/// The length that cryptsetup assumes for a LUKS1 header: whole 512-byte sectors.
const LUKS1_LEN: usize = 1024;

/// All bytes of a volume before its data: checked metadata, and the keyslots.
#[derive(Clone)]
pub struct HeaderBackup {
    bytes: Vec<u8>,
    header: VolumeHeader,
}

impl HeaderBackup {
    /// Takes a backup of the volume at the beginning of `storage`: the bytes that
    /// `cryptsetup luksHeaderBackup` writes. The metadata must not be changed meanwhile.
    ///
    /// # Errors
    /// [`BackupError`]: the metadata are not valid, or the storage cannot be read to the
    /// end of the keyslots.
    pub fn take(storage: &dyn Storage) -> Result<Self, BackupError> {
        let mut backup = Self::read(storage)?;
        let bytes = &mut backup.bytes;
        if matches!(backup.header, VolumeHeader::Luks1(_)) {
            // The field key-material-offset of keyslot 0, in 512-byte units.
            let first = u32::from_be_bytes(std::array::from_fn(|i| bytes[248 + i]));
            if first == LUKS1_ALIGNMENT / 512 {
                // Clear bytes that an earlier use of the storage may have left between header and
                // keyslot 0, as cryptsetup does.
                bytes[LUKS1_LEN..PAGE].fill(0);
            }
        }
        bytes.resize(bytes.len().next_multiple_of(PAGE), 0);
        Ok(backup)
    }

    /// Reads a backup from the beginning of `storage`.
    ///
    /// # Errors
    /// [`BackupError`]: `storage` holds no valid metadata, or ends before the last keyslot does.
    pub fn read(storage: &dyn Storage) -> Result<Self, BackupError> {
        let io = |source: io::Error| BackupError::Io {
            source: Arc::new(source),
        };
        let len = VolumeHeader::read(storage)?.metadata_len();
        if len > MAX_LEN {
            return Err(BackupError::TooLong { len, max: MAX_LEN });
        }
        let there = storage.len().map_err(io)?;
        if there < len {
            return Err(BackupError::Truncated { there, len });
        }
        let mut bytes = vec![0; index(len)];
        storage.read_exact_at(&mut bytes, 0).map_err(io)?;
        // Parse the copy in memory again, so that the checked bytes are the ones that are kept.
        let bytes = MemoryStorage::new(bytes);
        let header = VolumeHeader::read(&bytes)?;
        if header.metadata_len() != len {
            return Err(BackupError::Changed);
        }
        let bytes = bytes.into_bytes();
        Ok(Self { bytes, header })
    }

    /// The bytes of the backup, to be written to a file.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The metadata in the backup.
    #[must_use]
    pub fn header(&self) -> &VolumeHeader {
        &self.header
    }

    /// Returns how the backup differs from the present header, as far as it matters to the data.
    /// `present` is the result of [`VolumeHeader::read`] on the storage that the backup would be
    /// restored to. Show the misfits to the user before [`HeaderBackup::restore`].
    #[must_use]
    pub fn misfits(&self, present: Result<&VolumeHeader, &VolumeReadError>) -> Vec<Misfit> {
        let mut misfits = self.misfits_by_itself();
        match present {
            Ok(present) => {
                misfits.extend(requirements("the volume", present));
                misfits.extend(differences(&self.header, present));
            }
            Err(error) => {
                let is_unsupported = is_unsupported(error);
                let error = error.to_string();
                misfits.push(if is_unsupported {
                    Misfit::Unsupported { error }
                } else {
                    Misfit::NoHeader { error }
                });
            }
        }
        misfits
    }

    /// The misfits that do not depend on the present header.
    fn misfits_by_itself(&self) -> Vec<Misfit> {
        let damaged = damaged_copies(&self.header).into_iter();
        let mut misfits: Vec<Misfit> = damaged
            .map(|(kind, error)| Misfit::DamagedCopy { kind, error })
            .collect();
        let differs = |warning: &Warning| {
            matches!(
                warning,
                Warning::Seqids { .. }
                    | Warning::Spoilt { .. }
                    | Warning::Announced { .. }
                    | Warning::Contents { .. }
            )
        };
        if self.header.warnings().iter().any(differs) {
            misfits.push(Misfit::CopiesDiffer);
        }
        if !self.header.has_data_keyslots() {
            misfits.push(Misfit::NoKeyslot);
        }
        misfits.extend(requirements("the backup", &self.header));
        if let Some(error) = contradiction(&self.header) {
            misfits.push(Misfit::Contradiction { error });
        }
        misfits
    }

    /// Writes the backup to the beginning of `storage`, in place of the header there, and returns
    /// when it is durable. The caller must hold the lock on the volume's metadata.
    ///
    /// For LUKS2, the copy in use is restored: if the backup's other copy is damaged or differs, it
    /// is written anew from that one.
    ///
    /// A crash on the way leaves valid metadata if there were some before, and the restore can be
    /// repeated. The old header's keyslots open until the new header takes effect, and the new
    /// header's from then on. The exceptions are keyslots that overlap the other header's copies
    /// or a different keyslot in it, and a LUKS1 backup in place of a LUKS2 header with only one
    /// valid copy.
    ///
    /// # Errors
    /// [`RestoreError`]. Without `force`, the first [misfit](HeaderBackup::misfits) that
    /// [is serious](Misfit::is_serious) is returned before anything is written.
    pub fn restore(&self, storage: &dyn Storage, force: bool) -> Result<(), RestoreError> {
        let present = VolumeHeader::read(storage);
        let mut misfits = self.misfits(present.as_ref()).into_iter();
        if !force && let Some(misfit) = misfits.find(Misfit::is_serious) {
            return Err(RestoreError::Misfit { misfit });
        }
        let io = |source| RestoreError::Io { source };
        let parts = self.header_parts(present.as_ref().ok());
        let live = present.map_or_else(|_| Vec::new(), |present| in_use(&present));
        let bytes = self.checked_bytes().map_err(io)?;
        let write = |range: Range<u64>| {
            let bytes = &bytes[index(range.start)..index(range.end)];
            storage.write_all_at(bytes, range.start).map_err(io)
        };

        // The data of a writer that was killed before its sync may still be only in the page cache.
        // Make them durable first, because `present` was read from them.
        storage.sync().map_err(io)?;
        // First the keyslots that lie outside of all ranges that the present header uses.
        for area in areas(&self.header) {
            if !live.iter().any(|range| overlap(range, &area)) {
                write(area)?;
            }
        }
        storage.sync().map_err(io)?;
        // Then one part of the header at a time: either the other parts keep the old header valid,
        // or the written part is valid by itself.
        for part in parts {
            write(part)?;
            storage.sync().map_err(io)?;
        }
        write(self.header_end()..self.header.metadata_len())?;
        self.wipe_old_copies(storage).map_err(io)?;
        storage.sync().map_err(io)
    }

    /// Returns the backup's bytes, with a second copy that is damaged or differs replaced by one
    /// made from the copy in use, which is the copy that was checked.
    fn checked_bytes(&self) -> io::Result<Cow<'_, [u8]>> {
        let VolumeHeader::Luks2(header) = &self.header else {
            return Ok(Cow::Borrowed(&self.bytes));
        };
        if header.warnings().is_empty() {
            return Ok(Cow::Borrowed(&self.bytes));
        }
        let mut bytes = self.bytes.clone();
        for copy in header.copies().iter().filter(|copy| !copy.used) {
            let binary = header.binary();
            let made = new_copy(binary, copy.kind, header.text());
            let made = made.map_err(|error| io::Error::other(error.to_string()))?;
            bytes[index(binary.place(copy.kind))..][..made.len()].copy_from_slice(&made);
        }
        Ok(Cow::Owned(bytes))
    }

    /// The parts of the header in the order in which they are written, each followed by a sync.
    ///
    /// LUKS2: the secondary copy, then the primary's first sector, so that LUKS1's magic never
    /// precedes a partly written primary copy, then the primary. If the secondary copy of the
    /// `present` header is in use, because its primary is damaged or older, the secondary is
    /// written last.
    ///
    /// LUKS1, which has one copy: first its second sector, which only holds keyslots 6 and 7, then
    /// its first.
    fn header_parts(&self, present: Option<&VolumeHeader>) -> Vec<Range<u64>> {
        match &self.header {
            VolumeHeader::Luks1(_) => vec![512..LUKS1_LEN as u64, 0..512],
            VolumeHeader::Luks2(header) => {
                let size = header.describe().header_size;
                let (primary, secondary) = (0..size, size..2 * size);
                match present.and_then(counting_secondary) {
                    Some(stands) if overlap(&stands, &secondary) => {
                        vec![0..512, primary, secondary]
                    }
                    _ => vec![secondary, 0..512, primary],
                }
            }
        }
    }

    fn header_end(&self) -> u64 {
        match &self.header {
            VolumeHeader::Luks1(_) => LUKS1_LEN as u64,
            VolumeHeader::Luks2(header) => 2 * header.describe().header_size,
        }
    }

    /// Wipes secondary copies of an earlier header beyond the backup's end. One of them would take
    /// effect if the new primary copy was damaged later.
    fn wipe_old_copies(&self, storage: &dyn Storage) -> io::Result<()> {
        let data = match self.header.data_offset() {
            0 => u64::MAX,
            offset => offset,
        };
        let end = storage.len()?.min(data);
        for offset in binary_header::SIZES {
            let len = binary_header::LEN as u64;
            if offset < self.header.metadata_len() || offset + len > end {
                continue;
            }
            let mut magic = [0; 6];
            storage.read_exact_at(&mut magic, offset)?;
            if magic == *CopyKind::Secondary.magic() {
                storage.write_all_at(&[0; binary_header::LEN], offset)?;
            }
        }
        Ok(())
    }
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("at most 136 MiB")
}

/// Leaves out the bytes.
impl fmt::Debug for HeaderBackup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeaderBackup")
            .field("len", &self.bytes.len())
            .field("header", &self.header)
            .finish()
    }
}

/// The ranges that must be intact for the volume to open.
fn in_use(header: &VolumeHeader) -> Vec<Range<u64>> {
    let copies = match header {
        VolumeHeader::Luks1(_) => 0..LUKS1_LEN as u64,
        VolumeHeader::Luks2(header) => 0..2 * header.describe().header_size,
    };
    [copies].into_iter().chain(areas(header)).collect()
}

/// The range of the secondary copy, if it is the copy in use.
fn counting_secondary(header: &VolumeHeader) -> Option<Range<u64>> {
    let VolumeHeader::Luks2(header) = header else {
        return None;
    };
    let mut used = header.copies().iter().filter(|copy| copy.used);
    let is_secondary = used.any(|copy| copy.kind == CopyKind::Secondary);
    let size = header.describe().header_size;
    is_secondary.then_some(size..2 * size)
}

/// The areas of all keyslots, including those that this version does not open.
fn areas(header: &VolumeHeader) -> Vec<Range<u64>> {
    let range = |offset, size| offset..offset + size;
    match header {
        VolumeHeader::Luks1(header) => header.used_areas().collect(),
        VolumeHeader::Luks2(header) => {
            let areas = header.metadata().areas.values();
            areas.map(|area| range(area.offset, area.size)).collect()
        }
    }
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

fn damaged_copies(header: &VolumeHeader) -> Vec<(CopyKind, CopyError)> {
    let VolumeHeader::Luks2(header) = header else {
        return Vec::new();
    };
    let copies = header.describe().copies.iter();
    copies
        .filter_map(|copy| Some((copy.kind, copy.found.as_ref().err()?.clone())))
        .collect()
}

fn requirements(owner: &'static str, header: &VolumeHeader) -> Option<Misfit> {
    match header.luks2()?.check_changeable().err()? {
        ChangeError::Requirements { names } => Some(Misfit::Requirements { owner, names }),
        _ => Some(Misfit::Reencrypting { owner }),
    }
}

/// Returns how the header contradicts itself about the length of a key.
fn contradiction(header: &VolumeHeader) -> Option<String> {
    let lens = header.luks2().map_or(Ok(()), Luks2Header::check_key_lens);
    match lens.and_then(|()| header.check_openable()) {
        Err(error @ (UnlockError::KeyLens { .. } | UnlockError::KeyLenOfCipher { .. })) => {
            Some(error.to_string())
        }
        _ => None,
    }
}

/// Returns how the backup's header differs from the `present` one.
fn differences(backup: &VolumeHeader, present: &VolumeHeader) -> Vec<Misfit> {
    let mut misfits = Vec::new();
    let offsets = (backup.data_offset(), present.data_offset());
    if offsets.0 != offsets.1 {
        misfits.push(Misfit::DataOffset {
            backup: offsets.0,
            volume: offsets.1,
        });
    }
    if let (Some(backup), Some(volume)) = (backup.key_len(), present.key_len())
        && backup != volume
    {
        misfits.push(Misfit::KeyLen { backup, volume });
    }
    if backup.version() != present.version() {
        misfits.push(Misfit::Version {
            backup: backup.version(),
            volume: present.version(),
        });
    }
    if backup.uuid() != present.uuid() {
        misfits.push(Misfit::Uuid {
            backup: backup.uuid().into(),
            volume: present.uuid().into(),
        });
    }
    // A different offset has its own misfit.
    if offsets.0 == offsets.1 && !backup.has_same_segments(present) {
        misfits.push(Misfit::Segments);
    }
    match (backup.volume_key_digest(), present.volume_key_digest()) {
        (Some(ours), Some(theirs)) if ours.is_of_same_key(theirs) => {}
        (Some(_), Some(_)) => misfits.push(Misfit::VolumeKey),
        _ => misfits.push(Misfit::UnknownKey),
    }
    let ends = (backup.file_end(), present.file_end());
    if ends.0 != ends.1 {
        misfits.push(Misfit::FileEnd {
            backup: ends.0.cloned(),
            volume: ends.1.cloned(),
        });
    }
    misfits
}

/// Whether the storage may well hold a header, which this version cannot compare with the backup's.
fn is_unsupported(error: &VolumeReadError) -> bool {
    match error {
        VolumeReadError::Luks1(error) => {
            matches!(error, Luks1Error::Io { .. } | Luks1Error::CipherNull)
        }
        VolumeReadError::Luks2(error) => {
            matches!(error, ReadError::Io { .. } | ReadError::Unsupported { .. })
        }
    }
}

/// A difference between a backup and the header that it would replace, or a defect of the backup.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Misfit {
    /// One of the two copies in the backup is damaged, or this version does not accept it.
    #[error("the {} copy of the header in the backup {} ({error})", kind.name(), error.state())]
    DamagedCopy {
        /// Which one.
        kind: CopyKind,
        /// What is wrong with it.
        error: CopyError,
    },
    /// The two copies in the backup differ, and only one of them was checked.
    #[error("the two copies of the header in the backup differ")]
    CopiesDiffer,
    /// The backup states several lengths for one key, or one that its cipher does not have.
    #[error("{error} (in the backup)")]
    Contradiction {
        /// The contradiction, in words.
        error: String,
    },
    /// The backup or the volume has requirements, which only the present header describes correctly.
    #[error(
        "{owner} requires {}, which this version does not support",
        brief_list(names)
    )]
    Requirements {
        /// `the backup` or `the volume`.
        owner: &'static str,
        /// The names of the requirements.
        names: Vec<String>,
    },
    /// A re-encryption of the volume was under way when the backup was made, or is now.
    #[error(
        "{owner} is in the midst of a re-encryption, and only the present header says how far that has \
         come"
    )]
    Reencrypting {
        /// `the backup` or `the volume`.
        owner: &'static str,
    },
    /// The volume has a header, but this version cannot compare it with the backup's.
    #[error("the present header cannot be compared with the backup: {error}")]
    Unsupported {
        /// Why, in words.
        error: String,
    },
    /// The data begin at another offset.
    #[error("the data begin at byte {backup} according to the backup, and at byte {volume} now")]
    DataOffset {
        /// In the backup, in bytes.
        backup: u64,
        /// In the present header, in bytes.
        volume: u64,
    },
    /// The volume key has another length.
    #[error("the volume key has {backup} bytes according to the backup, and {volume} now")]
    KeyLen {
        /// In the backup, in bytes.
        backup: u32,
        /// In the present header, in bytes.
        volume: u32,
    },
    /// There is no header to compare with.
    #[error("there is no header now ({error})")]
    NoHeader {
        /// What is wrong with it, in words.
        error: String,
    },
    /// The volume has the other version of LUKS.
    #[error("the backup is of {backup}, and the volume is {volume} now")]
    Version {
        /// Of the backup.
        backup: LuksVersion,
        /// Of the present header.
        volume: LuksVersion,
    },
    /// The UUIDs differ: the backup is of another volume, or the UUID was changed.
    #[error(
        "the backup's UUID is {}, and the volume's is {}",
        brief(backup),
        brief(volume)
    )]
    Uuid {
        /// In the backup.
        backup: String,
        /// In the present header.
        volume: String,
    },
    /// The volume keys differ: data written under the present key cannot be read with the backup's.
    #[error(
        "the backup has a different volume key: data written under the present one would be lost"
    )]
    VolumeKey,
    /// A digest is missing, or of a type that this version does not support.
    #[error("the volume keys of the backup and of the volume cannot be compared")]
    UnknownKey,
    /// The backup has no keyslot for the data. It was taken after the keyslots were erased, or the
    /// keys are not kept in keyslots.
    #[error("the backup has no keyslot that opens the data")]
    NoKeyslot,
    /// The present data would be decrypted to something else.
    #[error(
        "the backup describes the data differently: its cipher, sector size, first IV or length \
         differs"
    )]
    Segments,
    /// The file in the volume would be cut off or padded.
    #[error(
        "the file in the volume has {} according to the backup, and {} now",
        file_end(backup.as_ref()),
        file_end(volume.as_ref())
    )]
    FileEnd {
        /// In the backup.
        backup: Option<FileEnd>,
        /// In the present header.
        volume: Option<FileEnd>,
    },
}

fn file_end(end: Option<&FileEnd>) -> String {
    end.map_or_else(|| "no recorded length".into(), ToString::to_string)
}

impl Misfit {
    /// Returns whether a restore would most likely make the volume unusable or overwrite another
    /// volume. Such a misfit needs `force`.
    #[must_use]
    pub fn is_serious(&self) -> bool {
        match self {
            Self::DamagedCopy { .. }
            | Self::CopiesDiffer
            | Self::Contradiction { .. }
            | Self::Requirements { .. }
            | Self::Reencrypting { .. }
            | Self::Unsupported { .. }
            | Self::DataOffset { .. }
            | Self::KeyLen { .. }
            | Self::NoHeader { .. }
            | Self::Uuid { .. }
            | Self::VolumeKey
            | Self::UnknownKey
            | Self::NoKeyslot
            | Self::Segments
            | Self::FileEnd { .. } => true,
            Self::Version { .. } => false,
        }
    }
}

/// Why a backup cannot be taken or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// There are no valid metadata.
    #[error(transparent)]
    Header(#[from] VolumeReadError),
    /// The storage ends before the last keyslot does.
    #[error("it is cut off: metadata and keyslots have {len} bytes, and only {there} are present")]
    Truncated {
        /// The length of the storage in bytes.
        there: u64,
        /// The length of metadata and keyslots in bytes.
        len: u64,
    },
    /// The metadata and keyslots are longer than those of any known volume.
    #[error("metadata and keyslots have {len} bytes; a backup has at most {max}")]
    TooLong {
        /// Their length in bytes.
        len: u64,
        /// The limit in bytes.
        max: u64,
    },
    /// The second read of the header returned another length.
    #[error("the header changed while it was read")]
    Changed,
    /// The storage cannot be read.
    #[error("it cannot be read: {source}")]
    Io {
        /// The system's reason.
        source: Arc<io::Error>,
    },
}

/// Why a backup was not restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// A misfit is serious. Nothing was written.
    #[error("{misfit}")]
    Misfit {
        /// The first serious misfit.
        misfit: Misfit,
    },
    /// The storage failed. A part may have been written; the restore can be repeated.
    #[error("the header cannot be written: {source}")]
    Io {
        /// The system's reason.
        source: io::Error,
    },
}
