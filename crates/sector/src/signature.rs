// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recognises what a storage already contains, by the offsets and magics that libblkid, `file` and
//! `wipefs` look for.

use std::io;

use crate::Storage;

/// The position of a magic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MagicPlace {
    /// This many bytes after the start.
    Start(u64),
    /// This many bytes before the end.
    End(u64),
    /// The first number is the distance from the end in bytes. The offset that it leads to is
    /// rounded down to a multiple of the second number.
    EndAligned(u64, u64),
}

use MagicPlace::{End, EndAligned, Start};

impl MagicPlace {
    /// The offset in bytes, or `None` if the storage is too short.
    fn offset(self, storage_len: u64) -> Option<u64> {
        match self {
            Start(offset) => Some(offset),
            End(back) => storage_len.checked_sub(back),
            EndAligned(back, unit) => Some(storage_len.checked_sub(back)? / unit * unit),
        }
    }
}

/// An entry of [`SIGNATURES`].
pub struct KnownMagic {
    /// The position of the magic.
    pub place: MagicPlace,
    /// The bytes to look for.
    pub magic: &'static [u8],
    /// What the magic indicates, in words.
    pub name: &'static str,
    /// Whether this magic, in the place of a header copy, stops `repair` from rewriting that copy.
    /// False for LUKS itself, and for magics that the header's own fields and areas can contain by
    /// chance or by choice, such as FAT's name in LUKS2's label.
    pub stops_repair: bool,
}

/// A magic in the place of a LUKS header, next to it or after it, which does not stop a repair.
const fn other(place: MagicPlace, magic: &'static [u8], name: &'static str) -> KnownMagic {
    let stops_repair = false;
    KnownMagic {
        place,
        magic,
        name,
        stops_repair,
    }
}

/// A magic between the start of a volume and its data which shows that something else begins there.
/// It stops a repair.
const fn start(offset: u64, magic: &'static [u8], name: &'static str) -> KnownMagic {
    KnownMagic {
        place: Start(offset),
        magic,
        name,
        stops_repair: true,
    }
}

/// [`Looker::ext`] finds out which of the three.
const EXT: &str = "an ext2, ext3 or ext4 file system";
const FAT: &str = "a FAT file system";
const LUKS: &str = "a LUKS volume";
const LUKS2: &str = "a LUKS2 volume (its second header)";
const LVM: &str = "an LVM physical volume";
const SWAP: &str = "a swap area";
const RAID: &str = "a Linux RAID member";
const GPT: &str = "a partition table (GPT)";
const ZFS: &str = "a ZFS member";
const UDF: &str = "a UDF file system";
const ISO: &str = "an ISO 9660 file system";

/// The magics that [`signatures`] and [`foreign_signature`] look for. The order matters: a repair
/// names the first that it finds, so the magics with low offsets come first.
pub const SIGNATURES: [KnownMagic; 77] = [
    other(Start(0), b"LUKS\xba\xbe", LUKS),
    start(0, b"XFSB", "an XFS file system"),
    start(0, b"hsqs", "a squashfs file system"),
    start(0, b"QFI\xfb", "a qcow2 image"),
    other(Start(0), b"sqsh", "a squashfs file system"),
    other(Start(0), b"\x45\x3d\xcd\x28", "a cramfs file system"),
    other(Start(0), b"-rom1fs-", "a romfs file system"),
    other(Start(0), b"SFOZ", "a zonefs file system"),
    other(Start(0), b"\x31\x18\x10\x06", "a UBIFS file system"),
    other(Start(0), b"UBI#", "a UBI volume"),
    other(Start(0), b"integrit", "a dm-integrity device"),
    other(Start(0), b"verity\0\0", "a dm-verity hash tree"),
    other(Start(0), b"dmvdo001", "a VDO volume"),
    other(
        Start(0),
        b"bluestore block device",
        "a Ceph BlueStore device",
    ),
    other(Start(0), b"LABELONE", LVM),
    other(Start(0), b"\xfc\x4e\x2b\xa9", RAID),
    start(3, b"-FVE-FS-", "a BitLocker volume"),
    start(3, b"NTFS    ", "an NTFS file system"),
    start(3, b"EXFAT   ", "an exFAT file system"),
    other(Start(32), b"NXSB", "an APFS container"),
    other(Start(54), b"MSDOS", FAT),
    other(Start(54), b"FAT12   ", FAT),
    other(Start(54), b"FAT16   ", FAT),
    other(Start(54), b"FAT     ", FAT),
    other(Start(82), b"FAT32   ", FAT),
    other(Start(82), b"MSWIN", FAT),
    start(
        510,
        b"\x55\xaa",
        "a boot sector (as of FAT) or partition table",
    ),
    start(512, b"EFI PART", GPT),
    start(512, b"LABELONE", LVM),
    other(
        Start(516),
        b"!Stra0tis\x86\xff\x02^\x41rh",
        "a Stratis member",
    ),
    other(Start(1024), b"LABELONE", LVM),
    start(1024, b"\xe2\xe1\xf5\xe0", "an EROFS file system"),
    start(1024, b"\x10\x20\xf5\xf2", "an F2FS file system"),
    other(Start(1024), b"H+\0\x04", "an HFS+ file system"),
    other(Start(1024), b"HX\0\x05", "an HFS+ file system"),
    other(Start(1024), b"OCFSV2", "an OCFS2 file system"),
    start(1080, b"\x53\xef", EXT),
    other(Start(1536), b"LABELONE", LVM),
    start(4086, b"SWAPSPACE2", SWAP),
    other(Start(4086), b"SWAP-SPACE", SWAP),
    other(Start(4086), b"S1SUSPEND\0", "a suspended system's memory"),
    start(4096, b"\xfc\x4e\x2b\xa9", RAID),
    other(Start(4096), b"EFI PART", GPT),
    other(Start(4096), b"OCFSV2", "an OCFS2 file system"),
    start(
        4120,
        b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81",
        "a bcache device",
    ),
    other(
        Start(4120),
        b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef",
        "a bcachefs member",
    ),
    other(Start(8182), b"SWAPSPACE2", SWAP),
    other(Start(8244), b"ReIsEr", "a ReiserFS file system"),
    other(Start(9564), b"\x54\x19\x01\x00", "a UFS file system"),
    other(Start(16374), b"SWAPSPACE2", SWAP),
    start(32769, b"CD001", ISO),
    start(32768, b"JFS1", "a JFS file system"),
    start(32769, b"BEA01", UDF),
    other(Start(32769), b"NSR02", UDF),
    other(Start(32769), b"NSR03", UDF),
    other(Start(32758), b"SWAPSPACE2", SWAP),
    other(Start(65526), b"SWAPSPACE2", SWAP),
    other(Start(65536), b"\x01\x16\x19\x70", "a GFS2 file system"),
    start(65600, b"_BHRfS_M", "a btrfs file system"),
    start(65588, b"ReIsEr", "a ReiserFS file system"),
    other(Start(66908), b"\x54\x19\x01\x00", "a UFS file system"),
    other(Start(0x4000), b"SKUL\xba\xbe", LUKS2),
    other(Start(0x8000), b"SKUL\xba\xbe", LUKS2),
    other(Start(0x1_0000), b"SKUL\xba\xbe", LUKS2),
    other(Start(0x2_0000), b"SKUL\xba\xbe", LUKS2),
    other(Start(0x4_0000), b"SKUL\xba\xbe", LUKS2),
    other(Start(0x8_0000), b"SKUL\xba\xbe", LUKS2),
    other(Start(0x10_0000), b"SKUL\xba\xbe", LUKS2),
    other(Start(0x20_0000), b"SKUL\xba\xbe", LUKS2),
    other(Start(0x40_0000), b"SKUL\xba\xbe", LUKS2),
    other(End(512), b"EFI PART", GPT),
    other(End(4096), b"EFI PART", GPT),
    other(
        End(1024),
        b"Intel Raid ISM Cfg Sig. ",
        "an Intel RAID member",
    ),
    other(End(512), b"\xde\x11\xde\x11", "a DDF RAID member"),
    other(EndAligned(8192, 4096), b"\xfc\x4e\x2b\xa9", RAID),
    other(EndAligned(65536, 65536), b"\xfc\x4e\x2b\xa9", RAID),
    other(EndAligned(65536, 65536), b"\xa9\x2b\x4e\xfc", RAID),
];

/// A recognised magic on a storage.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Signature {
    /// What it indicates, in words: `an ext4 file system`.
    pub name: &'static str,
    /// The offset of its magic in bytes from the start.
    pub offset: u64,
}

impl Signature {
    /// Whether it is that of a LUKS header, of either version and either copy.
    #[must_use]
    pub fn is_luks(&self) -> bool {
        [LUKS, LUKS2].contains(&self.name)
    }
}

/// Returns everything that is recognised on `storage`, ordered by offset, without duplicates. If
/// some places cannot be read, also returns the first error.
pub fn signatures(storage: &dyn Storage) -> (Vec<Signature>, Option<io::Error>) {
    let mut looker = Looker {
        storage,
        len: 0,
        failed: None,
    };
    match storage.len() {
        Ok(len) => looker.len = len,
        Err(error) => return (Vec::new(), Some(error)),
    }
    let mut found = Vec::new();
    for entry in &SIGNATURES {
        let Some(offset) = entry.place.offset(looker.len) else {
            continue;
        };
        if looker.has(offset, entry.magic) {
            let name = match entry.name {
                EXT => looker.ext(),
                name => name,
            };
            found.push(Signature { name, offset });
        }
    }
    found.extend(looker.zfs());
    found.sort_by_key(|signature| signature.offset);
    // On a small storage, two entries can have the same offset.
    found.dedup();
    (found, looker.failed)
}

struct Looker<'a> {
    storage: &'a dyn Storage,
    len: u64,
    failed: Option<io::Error>,
}

impl Looker<'_> {
    fn read<const N: usize>(&mut self, offset: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.read_to(&mut bytes, offset)?;
        Some(bytes)
    }

    fn read_to(&mut self, bytes: &mut [u8], offset: u64) -> Option<()> {
        let end = offset.checked_add(bytes.len() as u64)?;
        if end > self.len {
            return None;
        }
        match self.storage.read_exact_at(bytes, offset) {
            Ok(()) => Some(()),
            Err(error) => {
                self.failed.get_or_insert(error);
                None
            }
        }
    }

    fn has(&mut self, offset: u64, magic: &[u8]) -> bool {
        let mut bytes = vec![0; magic.len()];
        self.read_to(&mut bytes, offset).is_some() && bytes == magic
    }

    /// Tells ext2, ext3 and ext4 apart by the superblock's feature flags, as libblkid does.
    fn ext(&mut self) -> &'static str {
        const JOURNAL: u32 = 4;
        const JOURNAL_DEVICE: u32 = 8;
        /// Sparse superblocks, large files and hashed directories.
        const OLD_READ_ONLY: u32 = 1 | 2 | 4;
        /// File types in directories and meta block groups. ext3 also has the recovery flag.
        const EXT2: u32 = 2 | 0x10;
        const EXT3: u32 = EXT2 | 4;
        let Some(flags) = self.read::<12>(1024 + 0x5c) else {
            return EXT;
        };
        let flag = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| flags[at + i]));
        let (compatible, incompatible, read_only) = (flag(0), flag(4), flag(8));
        let old = read_only & !OLD_READ_ONLY == 0;
        if incompatible & JOURNAL_DEVICE != 0 {
            "a journal of ext3 or ext4"
        } else if compatible & JOURNAL == 0 && old && incompatible & !EXT2 == 0 {
            "an ext2 file system"
        } else if compatible & JOURNAL != 0 && old && incompatible & !EXT3 == 0 {
            "an ext3 file system"
        } else {
            "an ext4 file system"
        }
    }

    /// Looks for the first uberblock in the first of ZFS's four labels that has one, in either byte
    /// order. All places in a label's ring are searched, because the places in use and their length
    /// depend on the pool.
    fn zfs(&mut self) -> Option<Signature> {
        const LABEL: u64 = 256 << 10;
        const RING: usize = 128 << 10;
        const UNIT: usize = 1024;
        const MAGIC: u64 = 0x00ba_b10c;
        let end = self.len / LABEL * LABEL;
        let labels = [
            0,
            LABEL,
            end.saturating_sub(2 * LABEL),
            end.saturating_sub(LABEL),
        ];
        let mut ring = vec![0; RING];
        for label in labels {
            let begin = label + RING as u64;
            if self.read_to(&mut ring, begin).is_none() {
                continue;
            }
            let is_magic = |block: &[u8]| {
                [MAGIC.to_le_bytes(), MAGIC.to_be_bytes()]
                    .contains(&std::array::from_fn(|i| block[i]))
            };
            if let Some(block) = ring.chunks(UNIT).position(is_magic) {
                let offset = begin + (block * UNIT) as u64;
                return Some(Signature { name: ZFS, offset });
            }
        }
        None
    }
}

/// Returns the [name](KnownMagic::name) of the first magic on `storage` that
/// [stops a repair](KnownMagic::stops_repair): another format begins in the place of a LUKS header.
///
/// # Errors
/// The error of the storage.
pub fn foreign_signature(storage: &dyn Storage) -> io::Result<Option<&'static str>> {
    let len = storage.len()?;
    for entry in SIGNATURES.iter().filter(|entry| entry.stops_repair) {
        let mut found = vec![0; entry.magic.len()];
        let Some(offset) = entry.place.offset(len) else {
            continue;
        };
        if offset + entry.magic.len() as u64 > len {
            continue;
        }
        storage.read_exact_at(&mut found, offset)?;
        if found == entry.magic {
            return Ok(Some(entry.name));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
