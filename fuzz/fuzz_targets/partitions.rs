// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes where a partition table should be: partitions that lie below 2⁶⁴, or an error.
//!
//! A change of a table that is right has four bytes: its place, and the value. Its checksums are made
//! right again, unless the first byte of the input is odd.

#![no_main]

use libfuzzer_sys::fuzz_target;
use luxor_sector::{MemoryStorage, PartitionTable, signatures};

const SECTOR: usize = 512;
/// The table, its entries, and as much for the second copy.
const LEN: usize = 96 * SECTOR;
const ENTRIES: usize = 32 * SECTOR;

fuzz_target!(|input: &[u8]| {
    let Some((&how, rest)) = input.split_first() else {
        return;
    };
    let bytes = if how & 2 == 0 {
        rest.to_vec()
    } else {
        changed(rest, how & 1 == 0)
    };
    let storage = MemoryStorage::new(bytes);
    for sector_size in [None, Some(512), Some(4096)] {
        if let Ok(Some(table)) = PartitionTable::read(&storage, sector_size) {
            // 8192 in a GPT; 4, and 4 for each of 100 boot records of each extended partition.
            assert!(table.partitions.len() <= 8192);
            let mut last = 0;
            for partition in &table.partitions {
                assert!(partition.number > last && partition.len > 0);
                assert!(partition.offset.checked_add(partition.len).is_some());
                let _ = table.conflict(partition);
                last = partition.number;
            }
        }
    }
    let (_, failed) = signatures(&storage);
    assert!(failed.is_none());
});

/// A disk with a GPT or an MBR, after these changes.
fn changed(changes: &[u8], is_right: bool) -> Vec<u8> {
    let mut disk = vec![0; LEN];
    let mut put = |at: usize, bytes: &[u8]| disk[at..][..bytes.len()].copy_from_slice(bytes);
    put(446 + 4, &[0xee, 0, 0, 0, 1, 0, 0, 0, 95]);
    put(510, &[0x55, 0xaa]);
    let last = LEN / SECTOR - 1;
    for (here, entries) in [(1, 2), (last, last - ENTRIES / SECTOR)] {
        let at = here * SECTOR;
        put(at, b"EFI PART\0\0\x01\0\x5c");
        put(at + 24, &(here as u64).to_le_bytes());
        put(at + 72, &(entries as u64).to_le_bytes());
        put(at + 80, &128_u32.to_le_bytes());
        put(at + 84, &128_u32.to_le_bytes());
        put(entries * SECTOR, &[1]);
        put(entries * SECTOR + 32, &40_u64.to_le_bytes());
        put(entries * SECTOR + 40, &50_u64.to_le_bytes());
    }
    for change in changes.chunks_exact(4) {
        let place = usize::from(u16::from_be_bytes([change[0], change[1]])) % (LEN - 1);
        disk[place..][..2].copy_from_slice(&change[2..]);
    }
    if is_right {
        for at in [SECTOR, last * SECTOR] {
            let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|k| disk[at + k]));
            let begin = usize::try_from(number(at + 72))
                .unwrap_or(LEN)
                .saturating_mul(SECTOR);
            let (count, size) = (number(at + 80) as u32, (number(at + 80) >> 32) as u32);
            let len = usize::try_from(u64::from(count) * u64::from(size)).unwrap_or(LEN);
            let entries = disk.get(begin..).and_then(|rest| rest.get(..len));
            let crc = entries.map_or(0, crc32).to_le_bytes();
            disk[at + 88..][..4].copy_from_slice(&crc);
            disk[at + 16..][..4].fill(0);
            let header_len = u32::from_le_bytes(std::array::from_fn(|k| disk[at + 12 + k]));
            let header_len = usize::try_from(header_len).unwrap_or(SECTOR).min(SECTOR);
            let crc = crc32(&disk[at..][..header_len]).to_le_bytes();
            disk[at + 16..][..4].copy_from_slice(&crc);
        }
    }
    disk
}

/// The checksum of ISO 3309.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 * (crc & 1))
        })
    };
    !bytes.iter().fold(u32::MAX, step)
}
