// SPDX-License-Identifier: MIT OR Apache-2.0
//! The errors of a re-encryption.

use luxor_sector::{SectorSize, rewrite::RewriteError};

use crate::{Contents, Error, ErrorClass, error::Cause};

/// Why a volume is not re-encrypted, or how far a re-encryption came.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReencryptError {
    /// LUKS1 has no place for the state.
    #[error("a LUKS1 volume cannot be re-encrypted")]
    OnlyLuks2,
    /// There is no header, neither in the file with the data nor in another one.
    #[error("it is not a LUKS volume, and its header {header} is missing")]
    NotLuks {
        /// The name of the file for the header.
        header: String,
    },
    /// A decryption in place needs a header in another file.
    #[error("to decrypt it in place, its header must be in another file")]
    NoHeaderFile,
    /// The file that was named for the header has another one.
    #[error("it exists, and is not a copy of the header of {volume}")]
    OtherHeader {
        /// The name of the volume.
        volume: String,
    },
    /// The header of a new volume can only be in a file or on a device.
    #[error("the header must be a file or a device")]
    HeaderNotSeekable,
    /// Data that are to be encrypted are a LUKS volume.
    #[error("it is a LUKS volume already{}", if *is_reencrypting { ", and a re-encryption of it is under way" } else { "" })]
    AlreadyLuks {
        /// Whether a re-encryption, or the encryption that was to begin, is under way.
        is_reencrypting: bool,
    },
    /// No re-encryption is under way.
    #[error("no re-encryption is under way")]
    NotUnderWay,
    /// One was to begin, and one has begun already.
    #[error("a re-encryption has begun already")]
    HasBegun,
    /// One was to be continued, and none has begun.
    #[error("no re-encryption has begun")]
    HasNotBegun,
    /// Another re-encryption is not finished.
    #[error("a re-encryption is under way")]
    Unfinished,
    /// The options contradict what has begun.
    #[error("it has begun with another {what}")]
    BegunWithOther {
        /// What differs, in words.
        what: &'static str,
    },
    /// The keyslots to keep can only be chosen when it begins.
    #[error("it has begun, and the keyslots to keep were chosen then")]
    KeyslotsChosen,
    /// The data are plain, and the header remains.
    #[error("the data of this header have been decrypted already, and nothing is left to do")]
    Decrypted {
        /// The length that the header records for the file, and the name of the file, if that is longer.
        longer: Option<(u64, String)>,
    },
    /// The data are plain, and may have to be cut off.
    #[error(
        "it has been decrypted. Its header says that the data end at byte {end}, and {rest} bytes of the \
         volume follow them"
    )]
    NotCutOff {
        /// The end of the data in bytes.
        end: u64,
        /// The number of bytes after it.
        rest: u64,
    },
    /// The data are plain, and cannot be re-encrypted while they are in use.
    #[error("its data have been decrypted already")]
    PlainInUse,
    /// The volume has several data segments.
    #[error("its data consist of several parts")]
    SeveralParts,
    /// IVs do not count from 0: cryptsetup 2.6 continues as if they did, and destroys the data.
    #[error(
        "the IVs of its data begin with {first} and not with 0, and cryptsetup could not continue: it would \
         destroy the data"
    )]
    FirstIv {
        /// The first IV.
        first: u64,
    },
    /// The length of the data does not divide into sectors.
    #[error(
        "the data have {len} bytes, which is not a multiple of the new sector size ({sector_size})"
    )]
    NewSectorSize {
        /// The length of the data in bytes.
        len: u64,
        /// The new sector size.
        sector_size: SectorSize,
    },
    /// The data to be decrypted do not divide into sectors.
    #[error(
        "it has {len} bytes of data, which must be a multiple of the sector size ({sector_size}), and not 0"
    )]
    PartSector {
        /// The length of the data in bytes.
        len: u64,
        /// The sector size.
        sector_size: SectorSize,
    },
    /// The data to be encrypted do not divide into sectors.
    #[error(
        "its length ({len} bytes) must be a multiple of the sector size ({sector_size}), and not 0"
    )]
    PlainPartSector {
        /// The length of the data in bytes.
        len: u64,
        /// The sector size.
        sector_size: SectorSize,
        /// The next length that is possible, if the file can have it.
        padded: Option<u64>,
    },
    /// As [`ReencryptError::PlainPartSector`], where the end of the file gives room for a header.
    #[error(
        "without its last {reduced} bytes it has {len}, which must be a multiple of the sector size \
         ({sector_size}), and not 0"
    )]
    ReducedPartSector {
        /// The number of bytes for the header.
        reduced: u64,
        /// The length of the data in bytes.
        len: u64,
        /// The sector size.
        sector_size: SectorSize,
        /// The next length that is possible, if the file can have it.
        padded: Option<u64>,
    },
    /// The data are too short for the header that is to be put in front of them.
    #[error("its {len} bytes of data are shorter than a header of {header} bytes")]
    ShorterThanHeader {
        /// The length of the data in bytes.
        len: u64,
        /// The length of the header in bytes.
        header: u64,
        /// The next length that is possible, if the file can have it.
        padded: Option<u64>,
    },
    /// The room for a header has another granularity.
    #[error("the {reduced} bytes for the header must be a multiple of 8192")]
    ReducedUnit {
        /// The number of bytes for the header.
        reduced: u64,
    },
    /// The last bytes of the file are in use.
    #[error("its last {reduced} bytes are not empty, and would be lost")]
    NotFree {
        /// The number of bytes for the header.
        reduced: u64,
    },
    /// A header of this length cannot be made.
    #[error("the header cannot have {len} bytes: {source}")]
    HeaderSizes {
        /// The length in bytes.
        len: u64,
        /// Why.
        source: luxor_luks::Luks2HeaderSizesError,
    },
    /// A header cannot be made.
    #[error("cannot make a header of {len} bytes: {source}")]
    NewHeader {
        /// The length in bytes.
        len: u64,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The encryption cannot begin in a new detached header.
    #[error("its new header: {}", source.cause())]
    NewDetachedHeader {
        /// Why.
        source: luxor_luks::ChangeError,
    },
    /// The beginning of the data is a header that is not valid, as an interruption leaves it.
    #[error("{source}")]
    HalfWritten {
        /// What is wrong with it.
        source: Error,
    },
    /// Other bytes than the volume's follow its data.
    #[error("other bytes follow its {len} bytes of data")]
    DataAfter {
        /// The length of the data in bytes.
        len: u64,
    },
    /// The length of the data is in a trailer.
    #[error("the length of its data is in a trailer after them")]
    Trailer,
    /// The last sector is not the trailer that the metadata promise.
    #[error("the last sector is not a trailer of its key and UUID, which ends the file in it")]
    NoTrailer,
    /// The trailer was not found, so the disk would have no end.
    #[error("the trailer that ends the file in it was not found")]
    NoTrailerInUse,
    /// There is other data where the header should be.
    #[error(
        "its data begin at byte {offset}, and something else than its header comes before them"
    )]
    NoOwnHeader {
        /// The offset of the data in bytes.
        offset: u64,
    },
    /// The data take the place of the header, and that needs protection.
    #[error("resilience none is not possible where the data take the place of the header")]
    Unprotected,
    /// There is no keyslot whose key decrypts the data.
    #[error("it has no keyslot")]
    NoKeyslot,
    /// The new metadata have no key for the data.
    #[error("it has no key")]
    NoKey,
    /// All keyslots are kept, so the secret of each of them is needed.
    #[error("{source}")]
    EachKeyslot {
        /// Why one of them was not opened.
        source: Error,
    },
    /// Only the first part of the data was to be changed, and that is not possible.
    #[error("a part of {part} bytes {why}")]
    Part {
        /// The length of the part in bytes.
        part: u64,
        /// Why.
        why: PartError,
    },
    /// More of the data would be lost than the caller permits.
    #[error(
        "{lost} bytes of data come after the first {part} now, and {permitted} were to be lost"
    )]
    LosesMore {
        /// The number of bytes that would be lost.
        lost: u64,
        /// The length of the part that is kept, in bytes.
        part: u64,
        /// The number of bytes that the caller permits to be lost.
        permitted: u64,
    },
    /// Where a header is put in front of the data, all of them move.
    #[error(
        "a part of the data cannot be encrypted alone where they move to make room for a header"
    )]
    PartMoves,
    /// A zone is shorter than a sector.
    #[error("a zone must have at least {unit} bytes")]
    ShortZone {
        /// The shortest zone in bytes.
        unit: u64,
    },
    /// A zone would overwrite data that are not yet read.
    #[error(
        "a zone of {len} bytes from byte {from} of the plaintext on would be written over itself"
    )]
    OverItself {
        /// The length of the zone in bytes.
        len: u64,
        /// Its first byte.
        from: u64,
    },
    /// The area of the metadata is too short to protect a zone.
    #[error("a zone of {len} bytes needs {needed} bytes in the metadata, which have {room}")]
    Area {
        /// The length of the zone in bytes.
        len: u64,
        /// The length in bytes that it needs.
        needed: u64,
        /// The length of the area in bytes.
        room: u64,
    },
    /// Checksums with an unknown hash.
    #[error("this version does not know the hash {hash} of its checksums")]
    ChecksumHash {
        /// The name of the hash.
        hash: String,
    },
    /// Checksums over blocks of a length that this version does not support.
    #[error("its checksums cover {len} bytes each")]
    ChecksumLen {
        /// The length of a block in bytes.
        len: u32,
    },
    /// The storage is shorter than the data.
    #[error("it has {len} bytes of data, and some are missing")]
    Missing {
        /// The length of the data in bytes.
        len: u64,
    },
    /// The progress is not in whole sectors.
    #[error("byte {at} of the data is not the end of a sector of {unit} bytes")]
    NotAligned {
        /// The place in the data.
        at: u64,
        /// The length of a sector in bytes.
        unit: u64,
    },
    /// The file in the volume is longer than the data.
    #[error("it holds a file of {file} bytes, and has {len} bytes of data")]
    FileLonger {
        /// The length of the file in bytes.
        file: u64,
        /// The length of the data in bytes.
        len: u64,
    },
    /// A crash within a zone has mixed old and new data.
    #[error(
        "the re-encryption was interrupted within a zone of {len} bytes from byte {from} of the plaintext \
         on, which nothing protects (resilience {resilience}), so no program can finish it: restore the \
         volume from a backup"
    )]
    InterruptedUnprotected {
        /// The length of the zone in bytes.
        len: u64,
        /// Its first byte.
        from: u64,
        /// The name of the resilience.
        resilience: String,
    },
    /// A part of the data has a key that was not given.
    #[error("a key of the data is missing")]
    KeyMissing,
    /// A zone does not fit into memory.
    #[error("not enough memory: a zone has {len} bytes")]
    Memory {
        /// The length of the zone in bytes.
        len: u64,
    },
    /// An error while the data are changed. The metadata say how far that came.
    #[error("{source}")]
    Interrupted {
        /// What failed.
        source: Error,
    },
    /// An error while the first part of the data moves into the place of the volume's own header.
    #[error("{source}")]
    MovingOverHeader {
        /// The name of the file with the copy of the header.
        header: String,
        /// What failed.
        source: Error,
    },
    /// The change of the metadata that begins a decryption with a journal has failed.
    #[error("{source}")]
    BeginningWithJournal {
        /// What failed.
        source: Error,
    },
    /// An error within a zone of a disk that is in use.
    #[error("{source}")]
    ZoneInUse {
        /// The first byte of the zone.
        first: u64,
        /// Its last byte.
        last: u64,
        /// What failed.
        source: Error,
    },
    /// The disk is read-only.
    #[error("a volume that is read-only cannot be re-encrypted")]
    ReadOnly,
    /// A decryption changes what a disk in use is.
    #[error("it cannot be decrypted for good while it is in use")]
    DecryptInUse,
    /// A re-encryption has begun that only works while the data are not in use.
    #[error("it has {what}, which cannot be used meanwhile")]
    OnlyOffline {
        /// The data, in words.
        what: &'static str,
    },
    /// A disk in use must survive a crash.
    #[error("nothing protects its zones (resilience none), so it cannot be used meanwhile")]
    UnprotectedInUse,
    /// Data with a detached header begin with a header of their own.
    #[error("{front}")]
    Front {
        /// What is there.
        front: FrontOfData,
    },
    /// A disk with partitions is in the place of the data of a detached header.
    #[error("{contents}. All of it would be changed, with the partition table")]
    WholeDisk {
        /// What it is.
        contents: Contents,
    },
    /// The lock on a re-encryption is root's.
    #[error("only root can take cryptsetup's lock on a re-encryption")]
    LockIsRoots,
}

/// Why the first part of the data cannot be changed alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PartError {
    /// It is not in whole sectors.
    #[error("must be a multiple of the sector size ({unit}), and not 0")]
    PartSector {
        /// The sector size.
        unit: SectorSize,
    },
    /// The data are shorter.
    #[error("is more than its {len} bytes of data")]
    TooLong {
        /// The length of the data in bytes.
        len: u64,
    },
    /// The file in the volume is longer.
    #[error("is less than the {len} bytes of the file in it")]
    CutsFile {
        /// The length of the file in bytes.
        len: u64,
    },
    /// The metadata state how long the data are.
    #[error("is not possible, because the metadata have the length of its data")]
    FixedLength,
}

/// What data that have a detached header begin with, if that is not data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrontOfData {
    /// The header of which the detached one is a copy.
    #[error("it has a LUKS header of its own, of which {header} is a copy")]
    Original {
        /// The name of the detached header.
        header: String,
    },
    /// The same, partly overwritten: a decryption may have been interrupted.
    #[error("its LUKS header, of which {header} is a copy, is damaged")]
    DamagedOriginal {
        /// The name of the detached header.
        header: String,
    },
    /// Another header.
    #[error("it has a LUKS header of its own, and is not what was begun")]
    Other,
    /// Another header, which is damaged.
    #[error("it has a damaged LUKS header of its own, and is not what was begun")]
    DamagedOther,
    /// Data of a decryption that the header does not record yet.
    #[error("a decryption with the header {header} was interrupted")]
    Decryption {
        /// The name of the detached header.
        header: String,
    },
}

impl ReencryptError {
    /// Wraps an error while the data are changed, unless it says itself how that goes on.
    pub(super) fn interrupted(source: Error) -> Error {
        let is_said = matches!(
            source.find(),
            Some(Self::Interrupted { .. } | Self::Memory { .. })
        ) || matches!(source.find(), Some(RewriteError::NoChecksum { .. }));
        if is_said {
            return source;
        }
        Self::Interrupted { source }.into()
    }
}

impl Cause for ReencryptError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::NoKeyslot => ErrorClass::NoKey,
            Self::HalfWritten { source }
            | Self::EachKeyslot { source }
            | Self::Interrupted { source }
            | Self::MovingOverHeader { source, .. }
            | Self::BeginningWithJournal { source }
            | Self::ZoneInUse { source, .. } => source.class(),
            _ => ErrorClass::Failure,
        }
    }
}
