// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables made by sfdisk, whose own listing says what they contain, and damaged copies of them.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use luxor_conformance::Random;

use super::*;
use crate::MemoryStorage;

const LEN: u64 = 16 << 20;

/// Runs a program on the file at `path`, with this input. Returns what it prints.
fn run(program: &str, options: &[&str], path: &Path, input: &str) -> String {
    let mut child = Command::new(program)
        .args(options)
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdin = child.stdin.take();
    stdin.unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn empty_disk(folder: &Path) -> PathBuf {
    let path = folder.join("disk");
    fs::File::create(&path).unwrap().set_len(LEN).unwrap();
    path
}

/// Makes a disk of [`LEN`] bytes with a table from sfdisk's script. Returns its bytes, and the numbers,
/// offsets and lengths of the partitions that are not extended.
fn disk(script: &str) -> (Vec<u8>, Vec<(u32, u64, u64)>) {
    let folder = tempfile::tempdir().unwrap();
    let path = empty_disk(folder.path());
    run("sfdisk", &["--quiet"], &path, script);
    let listing = run("sfdisk", &["--dump"], &path, "");
    let partitions = listing.lines().filter_map(|line| {
        let (name, rest) = line
            .strip_prefix(path.to_str().unwrap())?
            .split_once(" : ")?;
        let field = |what: &str| {
            let value = rest
                .split(',')
                .find_map(|part| part.trim().strip_prefix(what));
            value.unwrap().trim().to_owned()
        };
        let bytes = |what| field(what).parse::<u64>().unwrap() * 512;
        let is_data = !["5", "f", "85"].contains(&field("type=").as_str());
        let place = (
            name.trim().parse().unwrap(),
            bytes("start="),
            bytes("size="),
        );
        is_data.then_some(place)
    });
    let partitions = partitions.collect();
    (fs::read(&path).unwrap(), partitions)
}

const GPT: &str =
    "label: gpt\nfirst-lba: 64\nsize=1MiB\nstart=8MiB, size=2MiB\n7: start=4MiB, size=1MiB\n";
const LOGICAL: &str = "label: dos\n1: start=2048, size=2048, type=83\n2: start=6144, size=20480, type=5\n\
    4: start=4096, size=2048, type=da\n5: start=8192, size=2048, type=83\n6: start=12288, size=4096, \
    type=83\n7: start=18432, size=1024, type=e8\n";

fn read(bytes: &[u8]) -> Result<Option<PartitionTable>, PartitionTableError> {
    PartitionTable::read(&MemoryStorage::new(bytes.to_vec()), None)
}

fn found(table: &PartitionTable) -> Vec<(u32, u64, u64)> {
    let data = table
        .partitions
        .iter()
        .filter(|partition| !partition.is_extended);
    data.map(|partition| (partition.number, partition.offset, partition.len))
        .collect()
}

#[test]
fn partitions_are_those_of_sfdisk() {
    for (script, kind, count) in [
        (GPT, PartitionTableKind::Gpt, 3),
        (LOGICAL, PartitionTableKind::Mbr, 5),
    ] {
        let (bytes, expected) = disk(script);
        assert_eq!(expected.len(), count, "{script}");
        let table = read(&bytes).unwrap().unwrap();
        assert_eq!((table.kind, table.is_backup), (kind, false));
        assert_eq!(found(&table), expected, "{script}");
        for (number, offset, _) in expected {
            assert_eq!(table.partition(number).unwrap().offset, offset);
        }
        assert_eq!(table.partition(99), None);
    }
}

#[test]
fn a_disk_can_have_sectors_of_4096_bytes() {
    for (table, kind) in [
        ("g\nn\n2\n256\n511\nw\n", PartitionTableKind::Gpt),
        ("o\nn\np\n2\n256\n511\nw\n", PartitionTableKind::Mbr),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = empty_disk(folder.path());
        run("fdisk", &["-b", "4096"], &path, table);
        let storage = MemoryStorage::new(fs::read(&path).unwrap());
        let read = |size| PartitionTable::read(&storage, size).unwrap().unwrap();
        let found_table = read(Some(4096));
        assert_eq!(found_table.kind, kind);
        assert_eq!(found(&found_table), [(2, 1 << 20, 1 << 20)]);
        // Only a GPT shows the size of the sectors.
        if kind == PartitionTableKind::Gpt {
            assert_eq!(read(None), found_table);
        }
    }
}

#[test]
fn a_second_copy_stands_for_a_damaged_first_one() {
    let (mut bytes, expected) = disk(GPT);
    let intact = bytes.clone();
    // The reserved field, a checksum, the number of entries, a partition, and the magic.
    for at in [512 + 20, 512 + 16, 512 + 80, 1024 + 33, 512] {
        bytes.clone_from(&intact);
        bytes[at] ^= 1;
        let table = read(&bytes).unwrap().unwrap();
        assert!(table.is_backup, "{at}");
        assert_eq!(found(&table), expected);
    }
    // Without the protective MBR too, but not with another one, which has replaced the table.
    bytes[..512].fill(0);
    assert_eq!(found(&read(&bytes).unwrap().unwrap()), expected);
    let (mbr, of_mbr) = disk("label: dos\nstart=2048, size=2048, type=83\n");
    bytes[..512].copy_from_slice(&mbr[..512]);
    assert_eq!(found(&read(&bytes).unwrap().unwrap()), of_mbr);

    let mut both = intact;
    both[512 + 20] = 1;
    let end = both.len();
    both[end - 512 + 20] = 1;
    assert!(matches!(read(&both), Err(PartitionTableError::Damaged)));
    both[512..1024].fill(0);
    assert!(matches!(read(&both), Err(PartitionTableError::Damaged)));
}

/// A header whose checksum is right and whose numbers are not.
#[test]
fn the_counts_of_a_gpt_are_bounded() {
    let (intact, _) = disk(GPT);
    let with = |changes: &[(usize, &[u8])]| {
        let mut bytes = intact.clone();
        let end = bytes.len();
        bytes[end - 512..].fill(0);
        for (at, new) in changes {
            bytes[512 + at..][..new.len()].copy_from_slice(new);
        }
        bytes[512 + 16..512 + 20].fill(0);
        let len = (u32_at(&bytes, 512 + 12) as usize).min(512);
        let mut crc = Crc32::default();
        crc.update(&bytes[512..][..len]);
        bytes[512 + 16..512 + 20].copy_from_slice(&crc.value().to_le_bytes());
        bytes
    };
    assert!(read(&with(&[])).unwrap().is_some());
    let huge = u32::MAX.to_le_bytes();
    for (at, new) in [
        (80, &huge[..]),
        (80, &8193_u32.to_le_bytes()),
        (84, &huge),
        (84, &0_u32.to_le_bytes()),
        (84, &64_u32.to_le_bytes()),
        (84, &129_u32.to_le_bytes()),
        (72, &u64::MAX.to_le_bytes()),
        (72, &(LEN / 512).to_le_bytes()),
        (24, &2_u64.to_le_bytes()),
        (12, &91_u32.to_le_bytes()),
        (12, &huge),
    ] {
        let result = read(&with(&[(at, new)]));
        assert!(
            matches!(result, Err(PartitionTableError::Damaged)),
            "{at} {new:?}"
        );
    }
    // Partitions with impossible ends are left out, and the entries have a checksum of their own.
    let mut bytes = intact.clone();
    bytes[1024 + 32..1024 + 48].copy_from_slice(&[[0xff; 8], [0; 8]].concat());
    bytes[1024 + 128 + 32..1024 + 128 + 48].fill(0xff);
    let mut crc = Crc32::default();
    crc.update(&bytes[1024..1024 + 128 * 128]);
    let entries = crc.value().to_le_bytes();
    bytes[512 + 88..512 + 92].copy_from_slice(&entries);
    bytes[512 + 16..512 + 20].fill(0);
    let mut crc = Crc32::default();
    crc.update(&bytes[512..512 + 92]);
    bytes[512 + 16..512 + 20].copy_from_slice(&crc.value().to_le_bytes());
    let table = read(&bytes).unwrap().unwrap();
    assert!(!table.is_backup);
    assert_eq!(
        found(&table)
            .iter()
            .map(|found| found.0)
            .collect::<Vec<_>>(),
        [7]
    );
}

#[test]
fn records_in_a_circle_end() {
    let (mut bytes, _) = disk(LOGICAL);
    // The record of partition 6 leads back to that of partition 5, which is the extended partition's.
    let table = read(&bytes).unwrap().unwrap();
    let extended = table
        .partitions
        .iter()
        .find(|partition| partition.is_extended);
    let first = usize::try_from(extended.unwrap().offset).unwrap();
    let next = first + 512 * u32_at(&bytes, first + 446 + 16 + 8) as usize;
    bytes[next + 446 + 16 + 8..][..4].fill(0);
    let table = read(&bytes).unwrap().unwrap();
    assert!((8..=4 + 4 * MAX_RECORDS).contains(&table.partitions.len()));
}

/// A change of any byte of the tables is an error, the other copy, or other numbers, but no panic.
#[test]
fn changed_tables_do_not_panic() {
    let mut random = Random::for_test("partitions::changed");
    for script in [GPT, LOGICAL] {
        let (intact, _) = disk(script);
        let tables: Vec<usize> = (0..intact.len()).filter(|&at| intact[at] != 0).collect();
        let storage = MemoryStorage::new(intact.clone());
        for _ in 0..3000 {
            let places: [usize; 3] = std::array::from_fn(|_| tables[random.below(tables.len())]);
            for at in places {
                storage.write_all_at(&random.bytes(1), at as u64).unwrap();
            }
            if let Ok(Some(table)) = PartitionTable::read(&storage, None) {
                for partition in &table.partitions {
                    assert!(
                        partition.len > 0 && partition.offset.checked_add(partition.len).is_some()
                    );
                }
            }
            for at in places {
                storage.write_all_at(&[intact[at]], at as u64).unwrap();
            }
        }
    }
}

#[test]
fn other_contents_are_no_table() {
    let mut fat = vec![0; 1 << 20];
    fat[..3].copy_from_slice(b"\xeb\x3c\x90");
    fat[446..510].fill(0x7a);
    fat[510..512].copy_from_slice(&[0x55, 0xaa]);
    let mut empty_record = vec![0; 1 << 20];
    empty_record[510..512].copy_from_slice(&[0x55, 0xaa]);
    for bytes in [
        vec![],
        vec![0; 511],
        vec![0; 4096],
        vec![0xff; 8192],
        fat,
        empty_record,
    ] {
        assert!(read(&bytes).unwrap().is_none(), "{} bytes", bytes.len());
    }
}

/// Writes the checksums of a GPT again, as programs do.
fn sealed(bytes: &mut [u8]) {
    let sum = |bytes: &[u8]| {
        let mut crc = Crc32::default();
        crc.update(bytes);
        crc.value().to_le_bytes()
    };
    let begin = usize::try_from(u64_at(bytes, 512 + 72)).unwrap() * 512;
    let entries = sum(&bytes[begin..][..128 * 128]);
    bytes[512 + 88..][..4].copy_from_slice(&entries);
    bytes[512 + 16..][..4].fill(0);
    let header = sum(&bytes[512..][..92]);
    bytes[512 + 16..][..4].copy_from_slice(&header);
}

#[test]
fn what_a_partition_covers_besides_itself_is_found() {
    use PartitionConflict::{Partition, Table};
    let conflicts = |bytes: &[u8]| -> Vec<_> {
        let table = read(bytes).unwrap().unwrap();
        let partitions = table.partitions.iter().filter(|found| !found.is_extended);
        partitions.map(|found| table.conflict(found)).collect()
    };
    let (gpt, _) = disk(GPT);
    assert_eq!(conflicts(&gpt), [None; 3]);
    let last = LEN / 512 - 1;
    // The first usable sector is 64.
    for (first, end, expected) in [
        (0, 100, Some(Table)),
        (1, 1, Some(Table)),
        (2, 2, Some(Table)),
        (63, 70, Some(Table)),
        (64, 70, None),
        (last, last, Some(Table)),
        (last - 40, last - 34, None),
        (last - 40, last - 33, None),
        (last - 40, last - 32, Some(Table)),
        (8192, 8192, Some(Partition(7))),
        (10_239, 10_240, Some(Partition(7))),
        (10_240, 10_250, None),
    ] {
        let mut bytes = gpt.clone();
        let entry = usize::try_from(u64_at(&bytes, 512 + 72)).unwrap() * 512;
        bytes[entry + 32..][..8].copy_from_slice(&u64::to_le_bytes(first));
        bytes[entry + 40..][..8].copy_from_slice(&u64::to_le_bytes(end));
        sealed(&mut bytes);
        assert_eq!(conflicts(&bytes)[0], expected, "{first} to {end}");
    }
    // A header that gives partitions the place of the table.
    let mut bytes = gpt;
    bytes[512 + 40..][..8].fill(0);
    let entry = usize::try_from(u64_at(&bytes, 512 + 72)).unwrap() * 512;
    bytes[entry + 32..][..8].copy_from_slice(&u64::to_le_bytes(2));
    sealed(&mut bytes);
    assert_eq!(conflicts(&bytes)[0], Some(Table));

    let (mbr, _) = disk(LOGICAL);
    assert_eq!(conflicts(&mbr), [None; 5]);
    for (start, sectors, with) in [
        (1_u32, 2048_u32, None),
        (1, 4096, Some(Partition(4))),
        (2048, 5000, Some(Table)),
    ] {
        let mut bytes = mbr.clone();
        bytes[446 + 8..][..4].copy_from_slice(&start.to_le_bytes());
        bytes[446 + 12..][..4].copy_from_slice(&sectors.to_le_bytes());
        assert_eq!(conflicts(&bytes)[0], with, "{start}, {sectors}");
    }
}

/// Linux looks at the types of the entries only.
#[test]
fn no_other_entry_and_no_flag_hides_a_gpt() {
    let (gpt, expected) = disk(GPT);
    for (at, byte) in [
        (446, 1),
        (446 + 16, 0x7f),
        (446 + 20, 0x83),
        (446 + 32, 0x80),
    ] {
        let mut bytes = gpt.clone();
        bytes[at] = byte;
        let table = read(&bytes).unwrap().unwrap();
        assert_eq!(table.kind, PartitionTableKind::Gpt, "{at}");
        assert_eq!(found(&table), expected);
    }
}

/// Entries that programs write to please firmware, or by mistake.
#[test]
fn any_entry_of_an_mbr_counts_as_linux_counts_it() {
    use PartitionConflict::{MbrEntry, Partition, Table};
    let conflicts = |bytes: &[u8], number: usize, kind: u8, start: u32, sectors: u32| -> Vec<_> {
        let mut bytes = bytes.to_vec();
        let entry = &mut bytes[446 + 16 * (number - 1)..][..16];
        entry[4] = kind;
        entry[8..12].copy_from_slice(&start.to_le_bytes());
        entry[12..].copy_from_slice(&sectors.to_le_bytes());
        let table = read(&bytes).unwrap().unwrap();
        let partitions = table.partitions.iter().filter(|found| !found.is_extended);
        let conflict = |found: &super::Partition| (found.number, table.conflict(found));
        partitions.map(conflict).collect()
    };
    let all = u32::try_from(LEN / 512).unwrap();
    let (mbr, _) = disk(LOGICAL);
    // The image of a bootable CD, whose first entry may have no type.
    for kind in [0, 0x17, 0x83] {
        let covered = conflicts(&mbr, 3, kind, 0, all);
        let expected = [1, 4, 5, 6, 7].map(|number| (number, Some(Partition(3))));
        let (own, others): (Vec<_>, Vec<_>) = covered.into_iter().partition(|found| found.0 == 3);
        assert_eq!(others, expected, "{kind}");
        assert_eq!(own, [(3, Some(Table))], "{kind}");
    }
    let free = [1, 4, 5, 6, 7].map(|number| (number, None));
    assert_eq!(conflicts(&mbr, 3, 0x83, 2048, 0), free);
    for (start, sectors, with) in [
        (all + 1, 100, None),
        (u32::MAX, u32::MAX, None),
        (30_000, u32::MAX, None),
        // Within the extended partition, between the logical ones.
        (24_000, 100, Some(Partition(2))),
        (26_623, 2, Some(Partition(2))),
        (26_624, 2, None),
    ] {
        let mut found = conflicts(&mbr, 3, 0x83, start, sectors);
        let at = found.iter().position(|found| found.0 == 3).unwrap();
        assert_eq!(found.remove(at).1, with, "{start}, {sectors}");
        assert_eq!(found, free, "{start}, {sectors}");
    }

    // A hybrid MBR. Partition 2 of the GPT has sectors 16384 to 20480.
    let (gpt, _) = disk(GPT);
    for (start, sectors, with) in [
        (16_384, 4096, None),
        (1, 2047, None),
        (0, 0, None),
        (16_384, 4095, Some(MbrEntry(3))),
        (20_479, 10, Some(MbrEntry(3))),
        (0, all, Some(MbrEntry(3))),
    ] {
        let of_second = conflicts(&gpt, 3, 0x83, start, sectors)[1];
        assert_eq!(of_second, (2, with), "{start}, {sectors}");
    }
}
