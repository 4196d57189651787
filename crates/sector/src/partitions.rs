// SPDX-License-Identifier: MIT OR Apache-2.0
//! Partition tables: GPT (UEFI specification 2.10, chapter 5) and MBR with logical partitions. A
//! table is hostile input: its checksums are compared, its counts are bounded before they are used,
//! and every read has a fixed length.
//!
//! Partitions have the numbers that Linux gives them (`block/partitions/efi.c` and `msdos.c`).

use std::{io, ops::Range};

use crate::Storage;

/// The formats of partition tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionTableKind {
    /// A GUID partition table.
    Gpt,
    /// A master boot record, with extended partitions for logical ones.
    Mbr,
}

impl PartitionTableKind {
    /// Its name: `GPT` or `MBR`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gpt => "GPT",
            Self::Mbr => "MBR",
        }
    }
}

/// A partition of a [`PartitionTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Partition {
    /// The number that Linux gives it, from 1 on. Logical partitions begin with 5.
    pub number: u32,
    /// The offset of its first byte.
    pub offset: u64,
    /// Its length in bytes, at least 1. It may end beyond the end of the storage.
    pub len: u64,
    /// Whether it is an extended partition, which contains logical ones and no data.
    pub is_extended: bool,
}

/// The partitions of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionTable {
    /// Its format.
    pub kind: PartitionTableKind,
    /// Whether it was read from GPT's second copy, because the first one is damaged.
    pub is_backup: bool,
    /// The partitions, ordered by number.
    pub partitions: Vec<Partition>,
    /// The bytes of the table, and those outside the space that it gives to partitions.
    reserved: Vec<Range<u64>>,
    /// The partitions of a hybrid MBR, which other systems use instead of the GPT.
    hybrid: Vec<Partition>,
}

/// What a partition covers although it belongs to something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionConflict {
    /// The table itself, or bytes outside the space for partitions.
    Table,
    /// A part of the partition with this number.
    Partition(u32),
    /// A part of the partition that this entry of the MBR beside the GPT has, from 1 on.
    MbrEntry(u32),
}

/// Why a partition table cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PartitionTableError {
    /// Both copies of a GPT break a rule.
    #[error("the partition table (GPT) is damaged: neither of its copies is intact")]
    Damaged,
    /// The storage failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The sector sizes of disks.
const SECTOR_SIZES: [u64; 2] = [512, 4096];
/// The length of a boot record, whatever the sector size is.
const RECORD: usize = 512;
/// The most bytes of a GPT's entries that are read: 8192 partitions of 128 bytes.
const MAX_ENTRIES_LEN: u64 = 1 << 20;
/// The number of bytes that are read at a time, a multiple of every entry's length.
const PIECE: usize = 16 << 10;
/// The most boot records of logical partitions that are read, as in Linux.
const MAX_RECORDS: usize = 100;
/// The number of partitions in the first boot record.
const PRIMARY: u32 = 4;
/// MBR's type for the partition that protects a GPT.
const PROTECTIVE: u8 = 0xee;

impl PartitionTable {
    /// Reads the partition table of `storage`. Returns `None` if it has none. `sector_size` is the
    /// disk's; without it, a GPT itself shows the size, and an MBR counts sectors of 512 bytes.
    ///
    /// # Errors
    /// [`PartitionTableError`]: a GPT is damaged, or the storage failed.
    pub fn read(
        storage: &dyn Storage,
        sector_size: Option<u64>,
    ) -> Result<Option<Self>, PartitionTableError> {
        let disk = Disk {
            storage,
            len: storage.len()?,
        };
        let Some(record) = disk.read::<RECORD>(0)? else {
            return Ok(None);
        };
        let entries = boot_record(&record);
        // Linux too looks only at the types, whatever else the entries say.
        let is_protected =
            has_boot_magic(&record) && (0..4).any(|k| record[446 + 16 * k + 4] == PROTECTIVE);
        // As Linux does: an MBR without this type has replaced an older GPT.
        if is_protected || entries.is_none() && !has_boot_magic(&record) {
            let sizes = sector_size.map_or(SECTOR_SIZES.to_vec(), |size| vec![size]);
            if let Some((table, sector)) = disk.gpt(&sizes)? {
                let hybrid = entries.iter().flat_map(|entries| primary(entries, sector));
                let hybrid =
                    hybrid.filter_map(|(entry, found)| (entry.kind != PROTECTIVE).then_some(found));
                let hybrid = hybrid.collect();
                return Ok(Some(PartitionTable { hybrid, ..table }));
            }
            let has_magic = |at| Ok::<_, io::Error>(disk.read(at)? == Some(*MAGIC));
            for size in sizes {
                if has_magic(size)? || disk.len >= size && has_magic(last_sector(disk.len, size))? {
                    return Err(PartitionTableError::Damaged);
                }
            }
        }
        match entries {
            Some(entries) => Ok(disk.mbr(&entries, sector_size.unwrap_or(512))?),
            None => Ok(None),
        }
    }

    /// Returns the partition with this number.
    #[must_use]
    pub fn partition(&self, number: u32) -> Option<&Partition> {
        let mut partitions = self.partitions.iter();
        partitions.find(|partition| partition.number == number)
    }

    /// Returns what else the bytes of `partition`, which is not extended, belong to. A change of its data
    /// could destroy that.
    #[must_use]
    pub fn conflict(&self, partition: &Partition) -> Option<PartitionConflict> {
        let place = partition.range();
        let covers = |other: &Range<u64>| place.start < other.end && other.start < place.end;
        if self.reserved.iter().any(covers) {
            return Some(PartitionConflict::Table);
        }
        let is_logical = self.kind == PartitionTableKind::Mbr && partition.number > PRIMARY;
        let mut others = self.partitions.iter();
        let other = others.find(|other| {
            let contains = other.is_extended && is_logical;
            other.number != partition.number && !contains && covers(&other.range())
        });
        // A hybrid MBR repeats partitions of the GPT.
        let mut hybrid = self.hybrid.iter();
        let differs = |other: &&Partition| other.range() != place && covers(&other.range());
        other
            .map(|other| PartitionConflict::Partition(other.number))
            .or_else(|| Some(PartitionConflict::MbrEntry(hybrid.find(differs)?.number)))
    }
}

impl Partition {
    fn range(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(self.len)
    }
}

/// Where a GPT's second header is: in the last whole sector.
fn last_sector(len: u64, sector: u64) -> u64 {
    (len / sector).saturating_sub(1) * sector
}

const MAGIC: &[u8; 8] = b"EFI PART";

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|k| bytes[at + k]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|k| bytes[at + k]))
}

/// A partition's entry in a boot record.
#[derive(Clone, Copy, Debug)]
struct Entry {
    kind: u8,
    start: u64,
    sectors: u64,
}

impl Entry {
    fn is_extended(self) -> bool {
        matches!(self.kind, 0x05 | 0x0f | 0x85) && self.sectors > 0
    }
}

fn has_boot_magic(record: &[u8; RECORD]) -> bool {
    record[510..] == [0x55, 0xaa]
}

/// Returns the entries of a boot record, or `None` if it is none: the boot sector of a file system has
/// the same magic, and code in the place of the entries.
fn boot_record(record: &[u8; RECORD]) -> Option<[Entry; 4]> {
    let entry = |k: usize| &record[446 + 16 * k..][..16];
    let is_record = has_boot_magic(record) && (0..4).all(|k| matches!(entry(k)[0], 0 | 0x80));
    is_record.then(|| {
        std::array::from_fn(|k| Entry {
            kind: entry(k)[4],
            start: u32_at(entry(k), 8).into(),
            sectors: u32_at(entry(k), 12).into(),
        })
    })
}

/// Returns the partitions of the first boot record. As in Linux, only those without a length are left
/// out: those of bootable CDs begin at sector 0 and may have type 0.
fn primary(
    entries: &[Entry; PRIMARY as usize],
    sector: u64,
) -> impl Iterator<Item = (&Entry, Partition)> {
    let used = (1..).zip(entries).filter(|(_, entry)| entry.sectors > 0);
    used.map(move |(number, entry)| {
        let found = Partition {
            number,
            offset: entry.start * sector,
            len: entry.sectors * sector,
            is_extended: entry.is_extended(),
        };
        (entry, found)
    })
}

struct Disk<'a> {
    storage: &'a dyn Storage,
    len: u64,
}

impl Disk<'_> {
    /// Reads `N` bytes, or returns `None` if the storage ends before.
    fn read<const N: usize>(&self, offset: u64) -> io::Result<Option<[u8; N]>> {
        let end = offset.checked_add(N as u64);
        if end.is_none_or(|end| end > self.len) {
            return Ok(None);
        }
        let mut bytes = [0; N];
        self.storage.read_exact_at(&mut bytes, offset)?;
        Ok(Some(bytes))
    }

    /// Returns the GPT from its first intact copy, and the sector size.
    fn gpt(&self, sector_sizes: &[u64]) -> io::Result<Option<(PartitionTable, u64)>> {
        for is_backup in [false, true] {
            for &sector in sector_sizes {
                let at = if is_backup {
                    last_sector(self.len, sector)
                } else {
                    sector
                };
                if let Some(table) = self.gpt_copy(at, sector)? {
                    return Ok(Some((PartitionTable { is_backup, ..table }, sector)));
                }
            }
        }
        Ok(None)
    }

    /// Returns the partitions of the copy whose header is at byte `at`, if both of its checksums are
    /// right.
    fn gpt_copy(&self, at: u64, sector: u64) -> io::Result<Option<PartitionTable>> {
        const HEADER: usize = 92;
        const CHECKSUM: Range<usize> = 16..20;
        let Some(header) = self.read::<RECORD>(at)? else {
            return Ok(None);
        };
        let Some(header_len) = usize::try_from(u32_at(&header, 12))
            .ok()
            .filter(|len| (HEADER..=RECORD).contains(len) && header.starts_with(MAGIC))
        else {
            return Ok(None);
        };
        let mut without = header;
        without[CHECKSUM].fill(0);
        let mut crc = Crc32::default();
        crc.update(&without[..header_len]);
        let is_here = u64_at(&header, 24).checked_mul(sector) == Some(at);
        if crc.value() != u32_at(&header, CHECKSUM.start) || !is_here {
            return Ok(None);
        }

        let (count, size) = (u32_at(&header, 80), u32_at(&header, 84));
        let size_is_right = size >= 128 && size.is_power_of_two() && size <= 4096;
        let len = u64::from(count) * u64::from(size);
        let begin = u64_at(&header, 72).checked_mul(sector);
        let end = begin.and_then(|begin| begin.checked_add(len));
        let (Some(begin), true) = (begin, end.is_some_and(|end| end <= self.len)) else {
            return Ok(None);
        };
        if !size_is_right || len > MAX_ENTRIES_LEN {
            return Ok(None);
        }
        let mut crc = Crc32::default();
        let mut partitions = Vec::new();
        let mut numbers = 1_u32..;
        let mut at = begin;
        while at < begin + len {
            let mut piece = [0; PIECE];
            let left = usize::try_from(begin + len - at).map_or(PIECE, |left| left.min(PIECE));
            self.storage.read_exact_at(&mut piece[..left], at)?;
            crc.update(&piece[..left]);
            for (entry, number) in piece[..left].chunks_exact(size as usize).zip(&mut numbers) {
                let is_used = entry[..16] != [0; 16];
                let partition = is_used.then(|| gpt_partition(entry, number, sector));
                partitions.extend(partition.flatten());
            }
            at += left as u64;
        }
        if crc.value() != u32_at(&header, 88) {
            return Ok(None);
        }
        let [first, last] = [40, 48].map(|at| u64_at(&header, at));
        let first = first.saturating_mul(sector).max(2 * sector);
        let after = last.saturating_add(1).saturating_mul(sector);
        let after = after.min(last_sector(self.len, sector));
        Ok(Some(PartitionTable {
            kind: PartitionTableKind::Gpt,
            is_backup: false,
            partitions,
            reserved: vec![0..first, begin..begin + len, after..u64::MAX],
            hybrid: Vec::new(),
        }))
    }

    /// Returns the partitions of an MBR, or `None` if it has none.
    fn mbr(&self, entries: &[Entry; 4], sector: u64) -> io::Result<Option<PartitionTable>> {
        // An image of a CD may have an entry for all of it, which alone makes no table.
        if !entries
            .iter()
            .any(|entry| entry.sectors > 0 && entry.start > 0 && entry.kind != 0)
        {
            return Ok(None);
        }
        let mut partitions: Vec<_> = primary(entries, sector).map(|(_, found)| found).collect();
        let mut records = vec![0];
        for extended in entries.iter().filter(|entry| entry.is_extended()) {
            let first = partitions.last().map_or(5, |last| 5.max(last.number + 1));
            partitions.extend(self.logical(*extended, first, sector, &mut records)?);
        }
        let reserved = records.into_iter().map(|at| at..at + RECORD as u64);
        Ok(Some(PartitionTable {
            kind: PartitionTableKind::Mbr,
            is_backup: false,
            partitions,
            reserved: reserved.collect(),
            hybrid: Vec::new(),
        }))
    }

    /// Returns the logical partitions, the first of which gets the number `first`. Each has a boot
    /// record with the place of the next record, and these could make a circle. The places of the
    /// records are added to `records`.
    fn logical(
        &self,
        extended: Entry,
        first: u32,
        sector: u64,
        records: &mut Vec<u64>,
    ) -> io::Result<Vec<Partition>> {
        let mut found = Vec::new();
        let (mut here, mut room) = (extended.start, extended.sectors);
        let end = extended.start + extended.sectors;
        for _ in 0..MAX_RECORDS {
            let record = here.checked_mul(sector).map(|at| self.read::<RECORD>(at));
            let Some(record) = record.transpose()?.flatten() else {
                break;
            };
            let Some(entries) = boot_record(&record) else {
                break;
            };
            records.push(here * sector);
            let data = entries.iter().enumerate().filter(|(k, entry)| {
                let begin = here + entry.start;
                let is_inside = begin >= extended.start && begin + entry.sectors <= end;
                // The first two entries are trusted, as in Linux.
                let is_odd = *k >= 2 && (entry.start + entry.sectors > room || !is_inside);
                entry.sectors > 0 && !entry.is_extended() && !is_odd
            });
            for (_, entry) in data {
                let number = first + u32::try_from(found.len()).expect("at most 400 partitions");
                found.push(Partition {
                    number,
                    offset: (here + entry.start) * sector,
                    len: entry.sectors * sector,
                    is_extended: false,
                });
            }
            let Some(next) = entries.iter().find(|entry| entry.is_extended()) else {
                break;
            };
            (here, room) = (extended.start + next.start, next.sectors);
        }
        Ok(found)
    }
}

fn gpt_partition(entry: &[u8], number: u32, sector: u64) -> Option<Partition> {
    let (first, last) = (u64_at(entry, 32), u64_at(entry, 40));
    let sectors = last.checked_sub(first)?.checked_add(1)?;
    let (offset, len) = (first.checked_mul(sector)?, sectors.checked_mul(sector)?);
    offset.checked_add(len)?;
    Some(Partition {
        number,
        offset,
        len,
        is_extended: false,
    })
}

/// The checksum of GPT (ISO 3309, reflected), bit by bit: at most 1 MiB is summed.
struct Crc32(u32);

impl Default for Crc32 {
    fn default() -> Self {
        Self(u32::MAX)
    }
}

impl Crc32 {
    fn update(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 ^= u32::from(byte);
            for _ in 0..8 {
                let low = self.0 & 1;
                self.0 = (self.0 >> 1) ^ (0xedb8_8320 * low);
            }
        }
    }

    fn value(&self) -> u32 {
        !self.0
    }
}

#[cfg(test)]
mod tests;
