// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names what a file or device contains that is not a volume, so that an error can say what it is.
//! Everything that is read is hostile: the places and lengths of all reads are fixed, or those of a
//! partition table whose checksums are right.

use std::{fmt, io};

use luxor_luks::{LuksVersion, VolumeHeader};
use luxor_sector::{
    Partition, PartitionTable, PartitionTableError, PartitionTableKind, Storage, Window, signatures,
};

/// What a file or device is that does not begin with the header of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Contents {
    /// It has no bytes.
    Empty,
    /// It has only zeros.
    Zeros {
        /// The number of bytes that were looked at.
        len: u64,
        /// Whether these are all.
        is_all: bool,
    },
    /// A disk with partitions.
    Disk {
        /// The format of its partition table.
        kind: PartitionTableKind,
        /// The partitions, except extended ones, and what they contain.
        partitions: Vec<PartitionContents>,
    },
    /// A disk whose partition table is damaged.
    DamagedTable,
    /// A known format.
    Known {
        /// What it is, in words: `a qcow2 image`.
        name: &'static str,
        /// The class of the format.
        class: ContentsClass,
    },
    /// A LUKS volume that begins at another byte.
    VolumeAt {
        /// What it lies in, in words, if that is known.
        within: Option<&'static str>,
        /// Its first byte, counted from the beginning of the file.
        offset: u64,
        /// Its version.
        version: LuksVersion,
    },
    /// Text.
    Text,
    /// Bytes that look random: encrypted data without a header, or compressed ones.
    Random,
    /// None of these.
    Unknown,
}

/// What is in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionContents {
    /// Its number, as Linux counts.
    pub number: u32,
    /// Its first byte.
    pub offset: u64,
    /// Its length in bytes, as the table says.
    pub len: u64,
    /// Whether its beginning could be looked at. A disk may be shorter than its table says, and of a
    /// pipe only the beginning is read.
    pub is_there: bool,
    /// The version of the LUKS volume in it, if it has one.
    pub volume: Option<LuksVersion>,
    /// What it contains otherwise, in words, if that is known.
    pub name: Option<&'static str>,
}

/// The classes of known formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContentsClass {
    /// The image of a disk in the format of a virtual machine.
    DiskImage,
    /// A compressed file or an archive.
    Archive,
    /// A file or disk that another program has encrypted.
    Encrypted,
    /// A file system. It is not encrypted.
    FileSystem,
    /// A part of a RAID or of a volume manager.
    Member,
    /// Anything else.
    Other,
}

use ContentsClass::{Archive, DiskImage, Encrypted, FileSystem, Member, Other};

/// A magic of a format that [`signatures`] does not look for, since it is no use of a device.
struct Magic {
    /// Its offset. Counted from the end if it is negative.
    at: i64,
    magic: &'static [u8],
    name: &'static str,
    class: ContentsClass,
}

const fn magic(at: i64, magic: &'static [u8], name: &'static str, class: ContentsClass) -> Magic {
    Magic {
        at,
        magic,
        name,
        class,
    }
}

const SIF: &str = "a Singularity image (SIF)";
const AGE: &str = "a file encrypted with age";
const PGP: &str = "a file encrypted with OpenPGP (GnuPG)";
const VHD: &str = "a VHD image";
const VMDK: &str = "a VMDK image";
const BITLOCKER: &str = "a BitLocker volume";
const RAR: &str = "a RAR archive";

/// The first that is found counts.
const MAGICS: [Magic; 45] = [
    magic(0, b"QFI\xfb", "a qcow2 image", DiskImage),
    magic(0, b"QED\0", "a QED image", DiskImage),
    magic(0, b"KDMV", VMDK, DiskImage),
    magic(0, b"COWD", VMDK, DiskImage),
    magic(0, b"# Disk DescriptorFile", VMDK, DiskImage),
    magic(0, b"vhdxfile", "a VHDX image", DiskImage),
    magic(0, b"conectix", VHD, DiskImage),
    magic(-512, b"conectix", VHD, DiskImage),
    magic(64, b"\x7f\x10\xda\xbe", "a VDI image", DiskImage),
    magic(0, b"WithoutFreeSpace", "a Parallels image", DiskImage),
    magic(0, b"WithouFreSpacExt", "a Parallels image", DiskImage),
    magic(0, b"\x3a\xff\x26\xed", "an Android sparse image", DiskImage),
    magic(-512, b"koly\0\0\0\x04", "an Apple disk image", DiskImage),
    magic(32, b"SIF_MAGIC\0", SIF, Other),
    magic(3, b"-FVE-FS-", BITLOCKER, Encrypted),
    magic(
        424,
        b"\x3b\xd6\x67\x49\x29\x2e\xd8\x4a\x83\x99\xf6\xa3\x39\xe3\xd0\x01",
        "a BitLocker To Go volume",
        Encrypted,
    ),
    magic(
        88,
        b"CS\x01\0",
        "a FileVault 2 (CoreStorage) volume",
        Encrypted,
    ),
    magic(0, b"encrcdsa", "an encrypted Apple disk image", Encrypted),
    magic(0, b"age-encryption.org/", AGE, Encrypted),
    magic(0, b"-----BEGIN AGE ENCRYPTED FILE-----", AGE, Encrypted),
    magic(0, b"-----BEGIN PGP MESSAGE-----", PGP, Encrypted),
    magic(
        0,
        b"Salted__",
        "a file encrypted with openssl enc",
        Encrypted,
    ),
    magic(0, b"\x1f\x8b\x08", "a gzip file", Archive),
    magic(0, b"\xfd7zXZ\0", "an xz file", Archive),
    magic(0, b"\x28\xb5\x2f\xfd", "a zstd file", Archive),
    magic(0, b"BZh", "a bzip2 file", Archive),
    magic(0, b"\x04\x22\x4d\x18", "an lz4 file", Archive),
    magic(0, b"LZIP", "an lzip file", Archive),
    magic(0, b"PK\x03\x04", "a ZIP archive", Archive),
    magic(0, b"PK\x05\x06", "a ZIP archive", Archive),
    magic(0, b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", Archive),
    magic(0, b"Rar!\x1a\x07", RAR, Archive),
    magic(257, b"ustar", "a tar archive", Archive),
    magic(0, b"070701", "a cpio archive", Archive),
    magic(0, b"!<arch>\n", "an ar archive", Archive),
    magic(0, b"integrit", "a dm-integrity device", Member),
    magic(0, b"\x7fELF", "a program (ELF)", Other),
    magic(0, b"%PDF-", "a PDF document", Other),
    magic(0, b"SQLite format 3\0", "an SQLite database", Other),
    magic(0, b"\x89PNG\r\n\x1a\n", "a PNG image", Other),
    magic(0, b"\xff\xd8\xff", "a JPEG image", Other),
    magic(0, b"\x89HDF\r\n\x1a\n", "an HDF5 file", Other),
    magic(0, b"PAR1", "a Parquet file", Other),
    magic(4, b"ftyp", "a video (MP4)", Other),
    magic(0, b"\xd0\x0d\xfe\xed", "a device tree", Other),
];

/// The bytes from the beginning that are read once, in which most magics lie.
const HEAD: usize = 128 << 10;
/// The bytes from the beginning in which a volume is looked for.
const SEARCHED: u64 = 8 << 20;
/// The most partitions that are looked into.
const MAX_PARTITIONS: usize = 64;
/// The offset of the name of the cipher in a LUKS1 header.
const LUKS1_CIPHER: u64 = 8;
const LUKS_MAGIC: &[u8; 6] = b"LUKS\xba\xbe";

impl Contents {
    /// Looks at a storage that does not begin with a valid header of a volume. Reads at most about
    /// 8 MiB, and a few places of each partition.
    ///
    /// # Errors
    /// The error of the storage.
    pub fn recognise(storage: &dyn Storage) -> io::Result<Self> {
        Self::look(storage, true)
    }

    /// As [`Contents::recognise`], for a storage that is the part of a file or device from byte `begin`
    /// on. No partition table belongs to it: the second copy of the disk's may be at its end. The offset
    /// of a volume is counted from the beginning of the file.
    ///
    /// # Errors
    /// The error of the storage.
    pub(crate) fn recognise_part(storage: &dyn Storage, begin: u64) -> io::Result<Self> {
        let mut contents = Self::look(storage, false)?;
        if let Self::VolumeAt { offset, .. } = &mut contents {
            *offset += begin;
        }
        Ok(contents)
    }

    /// As [`Contents::recognise`], for the plaintext of a volume, or with `is_part` of a partition in it, which
    /// may begin with the header of another volume.
    pub(crate) fn recognise_plaintext(storage: &dyn Storage, is_part: bool) -> io::Result<Self> {
        match version(storage) {
            Some(version) => Ok(Self::VolumeAt {
                within: None,
                offset: 0,
                version,
            }),
            None => Self::look(storage, !is_part),
        }
    }

    fn look(storage: &dyn Storage, may_have_table: bool) -> io::Result<Self> {
        let len = storage.len()?;
        if len == 0 {
            return Ok(Self::Empty);
        }
        let storage = &Head::read(storage, len)?;
        if let Some((name, class)) = known(storage) {
            return Ok(Self::Known { name, class }.or_volume(storage));
        }
        let table = if may_have_table {
            PartitionTable::read(storage, None)
        } else {
            Ok(None)
        };
        let table = match table {
            Ok(table) => table,
            Err(PartitionTableError::Damaged) => return Ok(Self::DamagedTable),
            Err(PartitionTableError::Io(error)) => return Err(error),
            Err(_) => None,
        };
        let disk = table.map(|table| Self::Disk {
            kind: table.kind,
            partitions: partitions(storage, &table.partitions),
        });
        // A bootable CD has a partition table and a file system.
        if let Some(disk @ Self::Disk { .. }) = &disk
            && disk.partitions_with_volume().next().is_some()
        {
            return Ok(disk.clone());
        }
        if let Some(name) = specific_signature(storage) {
            return Ok(Self::Known {
                name,
                class: class_of(name),
            });
        }
        if let Some(disk) = disk {
            return Ok(disk);
        }
        Ok(storage.plain().or_volume(storage))
    }

    /// Returns the partitions with a LUKS volume.
    pub fn partitions_with_volume(&self) -> impl Iterator<Item = &PartitionContents> {
        let partitions = match self {
            Self::Disk { partitions, .. } => partitions.as_slice(),
            _ => &[],
        };
        partitions.iter().filter(|found| found.volume.is_some())
    }

    /// Returns the volume at a later byte of the storage, if it has one, and otherwise itself.
    fn or_volume(self, storage: &Head<'_>) -> Self {
        let within = match self {
            Self::Known { name, class: Other } => Some(name),
            Self::Known { .. } => return self,
            _ => None,
        };
        match volume_at(storage) {
            Some((offset, version)) => Self::VolumeAt {
                within,
                offset,
                version,
            },
            None => self,
        }
    }
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty"),
            Self::Zeros { len, is_all: true } => {
                write!(f, "it has {len} bytes, and all of them are zero")
            }
            Self::Zeros { len, is_all: false } => {
                write!(f, "its first {len} bytes are all zero")
            }
            Self::Disk { kind, partitions } => write!(
                f,
                "it is a disk with a partition table ({}){}",
                kind.name(),
                ListOf(partitions)
            ),
            Self::DamagedTable => f.write_str(
                "it is a disk whose partition table (GPT) is damaged: neither of its copies is intact",
            ),
            Self::Known {
                name,
                class: FileSystem,
            } => write!(f, "it is {name}, which is not encrypted"),
            Self::Known { name, .. } => write!(f, "it is {name}"),
            Self::VolumeAt {
                within,
                offset,
                version,
            } => {
                if let Some(name) = within {
                    write!(f, "it is {name}, and ")?;
                }
                write!(f, "a {version} volume begins at byte {offset}")
            }
            Self::Text => f.write_str("it is a text file"),
            Self::Random => f.write_str(
                "it has no signature and begins with bytes that look random. Volumes of VeraCrypt and \
                 TrueCrypt, plain dm-crypt volumes, and data whose LUKS header is in another file have \
                 no signature",
            ),
            Self::Unknown => f.write_str("it has no LUKS header, and no known signature"),
        }
    }
}

/// The first partitions, in words.
struct ListOf<'a>(&'a [PartitionContents]);

impl fmt::Display for ListOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        let Self(partitions) = self;
        let mut separator = ": ";
        for PartitionContents {
            number,
            offset,
            is_there,
            volume,
            name,
            ..
        } in partitions.iter().take(SHOWN)
        {
            write!(f, "{separator}partition {number}")?;
            separator = ", ";
            match (volume, name) {
                (Some(version), _) => write!(f, " is a {version} volume (at byte {offset})")?,
                (None, Some(name)) => write!(f, " is {name}")?,
                (None, None) if !is_there => f.write_str(" is missing here")?,
                (None, None) => f.write_str(" has no known signature")?,
            }
        }
        match partitions.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// A storage, with its first bytes in memory.
struct Head<'a> {
    storage: &'a dyn Storage,
    len: u64,
    bytes: Vec<u8>,
}

impl<'a> Head<'a> {
    fn read(storage: &'a dyn Storage, len: u64) -> io::Result<Self> {
        let mut bytes = vec![0; usize::try_from(len).map_or(HEAD, |len| len.min(HEAD))];
        storage.read_exact_at(&mut bytes, 0)?;
        Ok(Self {
            storage,
            len,
            bytes,
        })
    }

    fn has(&self, at: i64, magic: &[u8]) -> bool {
        let back = at.unsigned_abs();
        let offset = if at < 0 {
            self.len.checked_sub(back)
        } else {
            Some(back)
        };
        let mut found = vec![0; magic.len()];
        // Beyond the end there is nothing to read.
        offset
            .is_some_and(|offset| self.read_exact_at(&mut found, offset).is_ok() && found == magic)
    }

    /// What it looks like without a signature.
    fn plain(&self) -> Contents {
        let all_zero = self.bytes.iter().all(|&byte| byte == 0);
        if all_zero {
            let len = self.bytes.len() as u64;
            let is_all = len == self.len;
            return Contents::Zeros { len, is_all };
        }
        let page = &self.bytes[..self.bytes.len().min(4096)];
        if is_text(page) {
            Contents::Text
        } else if is_random(page) {
            Contents::Random
        } else {
            Contents::Unknown
        }
    }
}

impl Storage for Head<'_> {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let known = usize::try_from(offset).ok();
        let known = known.and_then(|offset| self.bytes.get(offset..)?.get(..buf.len()));
        match known {
            Some(bytes) => {
                buf.copy_from_slice(bytes);
                Ok(())
            }
            None => self.storage.read_exact_at(buf, offset),
        }
    }

    fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns what a magic of [`MAGICS`] says.
fn known(storage: &Head<'_>) -> Option<(&'static str, ContentsClass)> {
    let mut magics = MAGICS.iter();
    let by_magic = magics.find(|entry| storage.has(entry.at, entry.magic));
    match by_magic {
        // The field is 2 if LUKS encrypts the clusters of the image.
        Some(entry) if entry.name == "a qcow2 image" && storage.has(32, &[0, 0, 0, 2]) => {
            Some(("a qcow2 image that is encrypted with LUKS", DiskImage))
        }
        Some(entry) => Some((entry.name, entry.class)),
        None => is_openpgp(&storage.bytes).then_some((PGP, Encrypted)),
    }
}

/// Whether the first packet (RFC 9580, section 5) is a session key for a passphrase or for a
/// public key. Both have a version, and the numbers of algorithms that exist.
fn is_openpgp(bytes: &[u8]) -> bool {
    match bytes {
        // A passphrase: the tag in the old and the new format, the length, the version, a cipher, and
        // how the key is derived.
        [0x8c | 0xc3, ..=63, 4, 1..=13, 0 | 1 | 3 | 4, ..] => true,
        [0x8c | 0xc3, ..=127, 5 | 6, ..=63, 1..=13, ..] => true,
        // A public key: the same, with lengths of one and two bytes; the number of the key is before
        // the algorithm.
        [0x84, _, 3, _, _, _, _, _, _, _, _, 1..=30, ..] => true,
        [0x85, ..=8, _, 3, _, _, _, _, _, _, _, _, 1..=30, ..] => true,
        [0xc1, ..=191, 3, _, _, _, _, _, _, _, _, 1..=30, ..] => true,
        [0xc1, 192..=223, _, 3, _, _, _, _, _, _, _, _, 1..=30, ..] => true,
        _ => false,
    }
}

/// Returns the first signature that is not shared by several formats.
fn specific_signature(storage: &dyn Storage) -> Option<&'static str> {
    // What cannot be read has no name.
    let (found, _) = signatures(storage);
    let names = || found.iter().map(|found| found.name);
    let is_specific = |name: &&str| !name.contains("partition table") && !name.contains("LUKS");
    names().find(is_specific)
}

fn class_of(name: &str) -> ContentsClass {
    if name.ends_with("file system") {
        FileSystem
    } else if name.contains("BitLocker") {
        Encrypted
    } else if ["LVM", "RAID", "member", "bcache", "VDO", "Ceph", "dm-"]
        .iter()
        .any(|word| name.contains(word))
    {
        Member
    } else {
        Other
    }
}

/// Returns what each partition contains.
fn partitions(storage: &Head<'_>, partitions: &[Partition]) -> Vec<PartitionContents> {
    let data = partitions.iter().filter(|partition| !partition.is_extended);
    let contents = |partition: &Partition| {
        let (number, offset) = (partition.number, partition.offset);
        // A disk may be shorter than its table says.
        let len = storage.len.saturating_sub(offset).min(partition.len);
        let window = Window::new(storage, offset, len).ok();
        let volume = window.as_ref().and_then(|window| version(window));
        let name = window.filter(|_| volume.is_none()).and_then(|window| {
            let known = Head::read(&window, len).ok();
            let known = known.as_ref().and_then(known_of);
            known.or_else(|| specific_signature(&window))
        });
        PartitionContents {
            number,
            offset,
            len: partition.len,
            is_there: offset < storage.len,
            volume,
            name,
        }
    };
    data.take(MAX_PARTITIONS).map(contents).collect()
}

fn known_of(storage: &Head<'_>) -> Option<&'static str> {
    known(storage).map(|(name, _)| name)
}

/// Returns the version of the volume that begins with the storage, if there is one.
fn version(storage: &dyn Storage) -> Option<LuksVersion> {
    match VolumeHeader::read(storage) {
        Ok(header) => Some(header.version()),
        Err(error) => {
            // LUKS1 has no checksum. Without the name of a cipher it is a magic and nothing else.
            let mut cipher = [0; 1];
            let is_named = storage.read_exact_at(&mut cipher, LUKS1_CIPHER).is_ok()
                && cipher[0].is_ascii_alphanumeric();
            let version = error.version();
            version.filter(|version| *version != LuksVersion::Luks1 || is_named)
        }
    }
}

/// Returns the first byte and the version of a volume that does not begin at byte 0.
fn volume_at(storage: &Head<'_>) -> Option<(u64, LuksVersion)> {
    const PIECE: usize = 64 << 10;
    const UNIT: usize = 512;
    /// Copies of the magic that are no header.
    const MAX_FALSE: usize = 16;
    let mut false_ones = 0;
    let mut piece = vec![0; PIECE];
    let mut begin = 0;
    while begin < storage.len.min(SEARCHED) {
        let left = usize::try_from(storage.len - begin).map_or(PIECE, |left| left.min(PIECE));
        storage.read_exact_at(&mut piece[..left], begin).ok()?;
        for (unit, bytes) in piece[..left].chunks(UNIT).enumerate() {
            let offset = begin + (unit * UNIT) as u64;
            if offset == 0 || !bytes.starts_with(LUKS_MAGIC) {
                continue;
            }
            let window = Window::new(storage, offset, storage.len - offset).ok()?;
            if let Some(version) = version(&window) {
                return Some((offset, version));
            }
            false_ones += 1;
            if false_ones == MAX_FALSE {
                return None;
            }
        }
        begin += PIECE as u64;
    }
    None
}

/// Whether the bytes are printable UTF-8. The last character may be cut off.
fn is_text(bytes: &[u8]) -> bool {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    !text.is_empty() && !text.contains(|c: char| c.is_control() && !"\n\r\t\x0c".contains(c))
}

/// Whether the first 512 bytes, as those of the header of `VeraCrypt`, could be random: 512 random bytes have
/// 221 different values on average, with a standard deviation of 5.
fn is_random(bytes: &[u8]) -> bool {
    let Some(sample) = bytes.get(..512) else {
        return false;
    };
    let mut seen = [false; 256];
    for &byte in sample {
        seen[usize::from(byte)] = true;
    }
    seen.iter().filter(|seen| **seen).count() >= 190
}

#[cfg(test)]
mod tests;
