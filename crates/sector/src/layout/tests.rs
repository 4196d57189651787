// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares a layout with a disk over the same parts, and with the slow reference.

use std::num::NonZeroUsize;

use luxor_conformance::Random;
use luxor_engine::{KeySpec, Mode, Registry, XtsKey};

use super::*;
use crate::{Disk, DiskOptions, IvMode, MemoryStorage, SectorSize, Storage};

fn key_bytes(number: u8) -> Vec<u8> {
    (0..64).map(|i: u8| i.wrapping_mul(5) ^ number).collect()
}

fn key(number: u8) -> Arc<dyn LoadedKey> {
    let spec = KeySpec::Xts(XtsKey::new(&key_bytes(number)).unwrap());
    let backend = Registry::cpu().best(Mode::Xts).unwrap();
    Arc::from(backend.load_key(&spec).unwrap())
}

fn geometry(sector_size: SectorSize, iv_offset: u64) -> Geometry {
    Geometry {
        sector_size,
        iv_mode: IvMode::Plain64,
        iv_offset,
        iv_large_sectors: false,
    }
}

fn part(offset: u64, len: u64, sector_size: SectorSize, number: u8) -> Part {
    Part {
        offset,
        len,
        crypt: Some((key(number), geometry(sector_size, 1000))),
    }
}

fn plain(offset: u64, len: u64) -> Part {
    Part {
        offset,
        len,
        crypt: None,
    }
}

fn executor() -> Executor {
    Executor::new(NonZeroUsize::MIN)
}

fn kind(result: io::Result<()>) -> io::ErrorKind {
    result.unwrap_err().kind()
}

/// One to four parts of any sector sizes, also unencrypted ones, in any order in the storage and
/// with gaps between them. Only the last one may end within a sector. Part 0 has key 0, and so on.
fn random_parts(random: &mut Random) -> Vec<Part> {
    let count = 1 + random.below(4);
    let mut parts = Vec::new();
    for number in 0..count {
        let size = SectorSize::ALL[random.below(4)];
        let iv_offset = match random.below(3) {
            // The numbers wrap within the part, or soon after its first sectors.
            0 => 0_u64.wrapping_sub(size.units() * random.below(4) as u64),
            1 => 0_u64.wrapping_sub(3),
            _ => 1000,
        };
        let mut len = (random.below(4) * size.bytes()) as u64;
        let is_plain = random.below(4) == 0;
        if is_plain || number + 1 == count {
            len += random.below(size.bytes()) as u64;
        }
        let crypt = (!is_plain).then(|| {
            let number = u8::try_from(number).unwrap();
            (key(number), geometry(size, iv_offset))
        });
        parts.push(Part {
            offset: 0,
            len,
            crypt,
        });
    }
    // The order in the storage.
    let mut end = 0;
    let mut left: Vec<usize> = (0..count).collect();
    while !left.is_empty() {
        let part = &mut parts[left.swap_remove(random.below(left.len()))];
        part.offset = end + random.below(3000) as u64;
        end = part.offset + part.len.next_multiple_of(part.sector() as u64);
    }
    parts
}

/// Encrypts by the slow reference: `bytes` are whole sectors at the beginning of `part`.
fn reference(part: &Part, number: u8, bytes: &[u8]) -> Vec<u8> {
    let Some((_, geometry)) = &part.crypt else {
        return bytes.to_vec();
    };
    let sector = geometry.sector_size;
    let mut iv = geometry.iv_offset;
    let mut encrypted = Vec::new();
    for bytes in bytes.chunks(sector.bytes()) {
        encrypted.extend(luxor_reference::xts_encrypt(
            &key_bytes(number),
            iv.into(),
            bytes,
        ));
        iv = iv.wrapping_add(sector.units());
    }
    encrypted
}

/// Encrypts or decrypts in place, or into another buffer.
fn crypt(layout: &Layout, direction: Direction, bytes: &mut [u8], offset: u64, in_place: bool) {
    let executor = Executor::new(NonZeroUsize::new(2).unwrap());
    if in_place {
        layout
            .crypt(&executor, direction, bytes.into(), offset)
            .unwrap();
        return;
    }
    let input = bytes.to_vec();
    bytes.fill(0xaa);
    let data = InOut::Separate {
        input: &input,
        output: bytes,
    };
    layout.crypt(&executor, direction, data, offset).unwrap();
}

/// What a disk has written is what `stored` finds and `crypt` decrypts, and the other way round,
/// whatever the parts.
#[test]
fn layouts_agree_with_disks_and_the_reference() {
    let mut random = Random::for_test("layout::agree_with_disks");
    for round in 0..60 {
        let parts = random_parts(&mut random);
        let layout = Layout::new(parts.clone(), 1).unwrap();
        let storage_len = usize::try_from(layout.storage_len()).unwrap();
        let storage = Arc::new(MemoryStorage::new(random.bytes(storage_len)));
        let disk = Disk::new(storage.clone(), parts.clone(), DiskOptions::default()).unwrap();
        let len = layout.len();
        let words = format!("round {round}, {len} bytes");
        assert_eq!(disk.len(), len, "{words}");
        assert_eq!(disk.sector_size(), layout.sector_size(), "{words}");
        let mut plaintext = random.bytes(usize::try_from(len).unwrap());
        disk.write(&plaintext, 0).unwrap();
        let stored = storage.to_bytes();

        // Everything at once. The rest of the last sector is unchanged noise, and counts.
        let (mut all, mut encrypted) = (Vec::new(), Vec::new());
        for range in layout.stored(0..len).unwrap() {
            assert_eq!(range.plaintext.start, all.len() as u64, "{words}");
            let mut bytes = range_of(&stored, &range).to_vec();
            encrypted.extend_from_slice(&bytes);
            crypt(
                &layout,
                Direction::Decrypt,
                &mut bytes,
                range.plaintext.start,
                true,
            );
            all.extend(bytes);
        }
        assert!(all[..plaintext.len()] == plaintext, "{words}");
        plaintext.clone_from(&all);
        let mut at = 0;
        for (part, number) in parts.iter().zip(0..) {
            let len = part.len.next_multiple_of(part.sector() as u64);
            let (begin, end) = (at, at + usize::try_from(len).unwrap());
            let expected = reference(part, number, &plaintext[begin..end]);
            assert!(encrypted[begin..end] == expected, "{words}, part {number}");
            at = end;
        }

        for _ in 0..30 {
            let a = random.u64() % (len + 1);
            let b = random.u64() % (len + 1);
            let range = a.min(b)..a.max(b);
            let words = format!("{words}: {range:?}");
            let found = layout.stored(range.clone()).unwrap();
            check_stored(&parts, &range, &found, &words);
            if range.is_empty() {
                continue;
            }
            let whole = found[0].plaintext.start..found.last().unwrap().plaintext.end;
            let offset = whole.start;
            let whole = index(&whole);
            let in_place = random.below(2) == 0;
            let mut bytes = encrypted[whole.clone()].to_vec();
            crypt(&layout, Direction::Decrypt, &mut bytes, offset, in_place);
            assert!(bytes == plaintext[whole.clone()], "{words}");
            crypt(&layout, Direction::Encrypt, &mut bytes, offset, !in_place);
            assert!(bytes == encrypted[whole.clone()], "{words}");
        }

        // What the layout has encrypted is what the disk reads.
        let mut other = random.bytes(plaintext.len());
        let expected = other.clone();
        crypt(&layout, Direction::Encrypt, &mut other, 0, false);
        for range in layout.stored(0..len).unwrap() {
            let bytes = &other[index(&range.plaintext)];
            storage.write_all_at(bytes, range.offset).unwrap();
        }
        let mut found = vec![0; usize::try_from(len).unwrap()];
        disk.read(&mut found, 0).unwrap();
        assert!(found == expected[..found.len()], "{words}");
    }
}

fn index(range: &Range<u64>) -> Range<usize> {
    usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()
}

/// Returns the bytes of `range` in the bytes of a storage.
fn range_of<'a>(stored: &'a [u8], range: &StoredRange) -> &'a [u8] {
    let len = range.plaintext.end - range.plaintext.start;
    &stored[index(&(range.offset..range.offset + len))]
}

/// Compares with what one byte after the other says.
fn check_stored(parts: &[Part], range: &Range<u64>, found: &[StoredRange], words: &str) {
    let mut expected: Vec<StoredRange> = Vec::new();
    let mut begin = 0;
    for (number, part) in parts.iter().enumerate() {
        let sector = part.sector() as u64;
        let mut last = None;
        for at in range.clone() {
            if at < begin || at - begin >= part.len {
                continue;
            }
            let first = (at - begin) / sector * sector;
            let plaintext = begin + first..begin + first + sector;
            match &mut last {
                None => {
                    last = Some(StoredRange {
                        part: number,
                        plaintext,
                        offset: part.offset + first,
                    });
                }
                Some(range) => range.plaintext.end = plaintext.end,
            }
        }
        expected.extend(last);
        begin += part.len;
    }
    assert_eq!(found, expected, "{words}");
}

/// A layout of 8192 bytes in sectors of 4096, 1000 unencrypted bytes, 2048 bytes in sectors of 512,
/// and 1500 bytes in sectors of 1024.
fn mixed() -> Layout {
    let parts = vec![
        part(20480, 8192, SectorSize::B4096, 1),
        plain(16384, 1000),
        part(0, 2048, SectorSize::B512, 2),
        part(28672, 1500, SectorSize::B1024, 3),
    ];
    Layout::new(parts, 1).unwrap()
}

#[test]
fn data_must_begin_and_end_with_a_sector() {
    let layout = mixed();
    assert_eq!((layout.len(), layout.sector_size()), (12740, 4096));
    assert_eq!(layout.storage_len(), 28672 + 2048);
    let crypt = |begin: u64, end: u64| {
        let mut data = vec![7; usize::try_from(end - begin).unwrap()];
        layout.crypt(
            &executor(),
            Direction::Encrypt,
            data.as_mut_slice().into(),
            begin,
        )
    };
    for (begin, end) in [
        (0, 4096),
        (4096, 8192),
        (4096, 8193),
        (8191 + 1, 9192),
        (8500, 8700),
        (8500, 9192 + 512),
        (9192 + 512, 11240 + 1024),
        (11240 + 1024, 13288),
        (0, 13288),
        (5, 5),
    ] {
        assert!(crypt(begin, end).is_ok(), "{begin}..{end}");
    }
    for (begin, end) in [
        (0, 1),
        (0, 4095),
        (1, 4096),
        (512, 4096),
        (4096, 8704 - 1024),
        (4095, 8192),
        (8191, 8193),
        (8500, 9193),
        (9193, 9704),
        (9192, 11240 + 512),
        // The last sector counts as whole, and nothing follows it.
        (11240, 12740),
        (11240, 12264 + 512),
        (11240, 13287),
        (11240, 13289),
        (0, 13288 + 1024),
    ] {
        assert_eq!(
            kind(crypt(begin, end)),
            io::ErrorKind::InvalidInput,
            "{begin}..{end}"
        );
    }
}

#[test]
fn data_beyond_the_end_are_refused() {
    let empty = Layout::new(vec![part(0, 0, SectorSize::B512, 1)], 1).unwrap();
    let whole = Layout::new(vec![part(0, 8192, SectorSize::B512, 1)], 1).unwrap();
    for layout in [&empty, &whole, &mixed()] {
        let len = layout.len();
        for offset in [
            len.next_multiple_of(512),
            len.next_multiple_of(512) + 512,
            1 << 40,
            u64::MAX - 1023,
            u64::MAX - 511,
            u64::MAX,
        ] {
            for data in [&mut [0_u8; 1024][..], &mut [0]] {
                let words = format!("{} bytes at {offset} of {len}", data.len());
                let refused = layout.crypt(&executor(), Direction::Decrypt, data.into(), offset);
                assert_eq!(kind(refused), io::ErrorKind::InvalidInput, "{words}");
            }
        }
        for range in [
            len..len + 1,
            0..len + 1,
            len + 1..len + 1,
            0..u64::MAX,
            u64::MAX..u64::MAX,
        ] {
            let refused = layout.stored(range.clone()).map(|_| ());
            assert_eq!(kind(refused), io::ErrorKind::InvalidInput, "{range:?}");
        }
    }
}

#[test]
fn no_bytes_are_stored_nowhere() {
    let none = Layout::new(vec![], 1).unwrap();
    let empty = Layout::new(vec![part(512, 0, SectorSize::B4096, 1)], 1).unwrap();
    for (layout, sector, storage_len) in [(&none, 1, 0), (&empty, 4096, 512)] {
        assert!(layout.is_empty());
        assert_eq!(layout.len(), 0);
        assert_eq!(layout.sector_size(), sector);
        assert_eq!(layout.storage_len(), storage_len);
        assert_eq!(layout.stored(0..0).unwrap(), []);
        let nothing = [].as_mut_slice().into();
        layout
            .crypt(&executor(), Direction::Encrypt, nothing, 0)
            .unwrap();
    }
    let layout = mixed();
    for at in [0, 1, 8192, 8193, 9192, 9193, layout.len()] {
        assert_eq!(layout.stored(at..at).unwrap(), [], "{at}");
        // Nor do ranges have bytes that end before they begin.
        let reversed = layout.stored(at..0);
        assert_eq!(reversed.unwrap(), [], "{at}");
        // Where no sector begins, too.
        let nothing = InOut::Separate {
            input: &[],
            output: &mut [],
        };
        layout
            .crypt(&executor(), Direction::Decrypt, nothing, at)
            .unwrap();
    }
}

#[test]
fn input_and_output_have_one_length() {
    let layout = mixed();
    for (from, to, offset) in [
        (4096, 8192, 0),
        (8192, 4096, 0),
        (0, 4096, 0),
        (4096, 0, 0),
        (10, 20, 8192),
        (20, 10, 8192),
        (9192, 9191, 0),
    ] {
        let (input, mut output) = (vec![1; from], vec![2; to]);
        let data = InOut::Separate {
            input: &input,
            output: &mut output,
        };
        let refused = layout.crypt(&executor(), Direction::Encrypt, data, offset);
        assert_eq!(
            kind(refused),
            io::ErrorKind::InvalidInput,
            "{from} into {to}"
        );
        assert!(output.iter().all(|&byte| byte == 2));
    }
}

/// No storage is needed, so a plaintext can be longer than any.
#[test]
fn offsets_have_64_bits() {
    let begin = 1 << 63;
    let layout = Layout::new(vec![part(begin, begin - 512, SectorSize::B512, 1)], 1).unwrap();
    assert_eq!(layout.storage_len(), u64::MAX - 511);
    let at = layout.len() - 1024;
    let found = layout.stored(at + 1..layout.len()).unwrap();
    let expected = StoredRange {
        part: 0,
        plaintext: at..at + 1024,
        offset: begin + at,
    };
    assert_eq!(found, [expected]);
    let (_, numbered) = layout.numbered(&found[0]).unwrap().unwrap();
    let units = NumberedUnits {
        first: 1000 + at / 512,
        units: 2,
    };
    assert_eq!(numbered, [units]);
    let mut data = [3; 1024];
    crypt(&layout, Direction::Encrypt, &mut data, at, true);
    let numbers = [0, 1].map(|k| u128::from(1000 + at / 512 + k));
    let expected = numbers.map(|i| luxor_reference::xts_encrypt(&key_bytes(1), i, &[3; 512]));
    assert!(data[..] == expected.concat());
}

#[test]
fn parts_end_before_the_64_bits_do() {
    let half = 1 << 63;
    for parts in [
        vec![part(u64::MAX - 511, 512, SectorSize::B512, 1)],
        vec![part(0, u64::MAX, SectorSize::B512, 1)],
        vec![plain(2, u64::MAX - 1)],
        vec![plain(0, half), plain(0, half)],
        // The plaintext has less than 2⁶⁴ bytes, but not with the rest of its last sector.
        vec![plain(0, half), part(0, half - 1, SectorSize::B512, 1)],
    ] {
        let lens: Vec<_> = parts.iter().map(|part| (part.offset, part.len)).collect();
        let error = Layout::new(parts, 1).unwrap_err();
        assert!(matches!(error, DiskError::Overflow { .. }), "{lens:?}");
    }
    let layout = Layout::new(vec![plain(0, half), plain(0, half - 1)], 1).unwrap();
    let last = layout.stored(u64::MAX - 1..u64::MAX).unwrap();
    assert_eq!(last[0].offset, half - 2);
}

/// A unit is at least as long as the alignment, and may be several sectors.
#[test]
fn units_are_aligned() {
    let parts = vec![
        part(8192, 8192, SectorSize::B512, 1),
        part(4096, 700, SectorSize::B4096, 2),
    ];
    let layout = Layout::new(parts, 4096).unwrap();
    assert_eq!(layout.sector_size(), 4096);
    let found = layout.stored(4095..8193).unwrap();
    let expected =
        [(0, 0..8192, 8192), (1, 8192..12288, 4096)].map(|(part, plaintext, offset)| StoredRange {
            part,
            plaintext,
            offset,
        });
    assert_eq!(found, expected);
    // Also less than a unit is encrypted, as it is whole sectors.
    let mut all = vec![9; 12288];
    crypt(&layout, Direction::Encrypt, &mut all, 0, true);
    let mut some = vec![9; 512 + 4096];
    crypt(&layout, Direction::Encrypt, &mut some, 7680, false);
    assert!(some == all[7680..]);

    for parts in [
        vec![part(512, 4096, SectorSize::B512, 1)],
        vec![part(0, 512, SectorSize::B512, 1)],
        vec![plain(0, 4095)],
    ] {
        let error = Layout::new(parts, 4096).unwrap_err();
        assert!(matches!(error, DiskError::Alignment { .. }), "{error}");
    }
}

/// The next part would begin within a sector.
#[test]
fn only_the_last_part_ends_within_a_sector() {
    let parts = vec![part(0, 511, SectorSize::B512, 1), plain(512, 1)];
    let error = Layout::new(parts, 1).unwrap_err();
    let words = error.to_string();
    assert!(
        matches!(
            error,
            DiskError::PartSector {
                number: 0,
                len: 511
            }
        ),
        "{words}"
    );
    let odd = Geometry {
        iv_large_sectors: true,
        ..geometry(SectorSize::B4096, 3)
    };
    let part = Part {
        offset: 0,
        len: 4096,
        crypt: Some((key(1), odd)),
    };
    let error = Layout::new(vec![part], 1).unwrap_err();
    assert!(matches!(error, DiskError::Geometry { .. }), "{error}");
}

/// A layout with parts of these lengths and sectors, far smaller than those of volumes. Each part
/// begins 100 bytes after the one before in the storage.
fn small(parts: &[(u64, usize)]) -> Layout {
    let mut len = 0;
    let placed = |(number, &(part_len, sector)): (usize, &(u64, usize))| {
        let begin = len;
        len += part_len;
        Placed {
            number,
            begin,
            part: plain(100 * number as u64, part_len),
            sector,
        }
    };
    let parts = parts.iter().enumerate().map(placed).collect();
    Layout {
        parts,
        len,
        storage_len: 0,
    }
}

/// All layouts of one to three parts with sectors of 1, 2 and 4 bytes and up to 8 bytes in a part.
fn all_small() -> Vec<Vec<(u64, usize)>> {
    let lens = |whole: bool| {
        [1_usize, 2, 4].into_iter().flat_map(move |sector| {
            (0..=2 * sector.max(2) as u64)
                .filter(move |len| !whole || len.is_multiple_of(sector as u64))
                .map(move |len| (len, sector))
        })
    };
    let mut all = Vec::new();
    for last in lens(false) {
        all.push(vec![last]);
        for second in lens(true) {
            all.push(vec![second, last]);
            all.extend(lens(true).map(|first| vec![first, second, last]));
        }
    }
    all
}

/// For each byte of the plaintext: its part, its place in the part, and its sector's bytes there.
fn bytes_of(parts: &[(u64, usize)]) -> Vec<(usize, u64, Range<u64>)> {
    let mut bytes = Vec::new();
    for (number, &(len, sector)) in parts.iter().enumerate() {
        for at in 0..len {
            let begin = (0..=at).rev().find(|at| at.is_multiple_of(sector as u64));
            let begin = begin.unwrap();
            bytes.push((number, at, begin..begin + sector as u64));
        }
    }
    bytes
}

#[test]
fn all_small_ranges_have_the_sectors_of_their_bytes() {
    for parts in all_small() {
        let (layout, bytes) = (small(&parts), bytes_of(&parts));
        for begin in 0..=bytes.len() {
            for end in begin..=bytes.len() {
                let range = begin as u64..end as u64;
                let mut expected: Vec<StoredRange> = Vec::new();
                for (at, (part, offset, sector)) in bytes.iter().enumerate().take(end).skip(begin) {
                    let part_begin = at as u64 - offset;
                    match expected.last_mut() {
                        Some(last) if last.part == *part => {
                            last.plaintext.end = part_begin + sector.end;
                        }
                        _ => expected.push(StoredRange {
                            part: *part,
                            plaintext: part_begin + sector.start..part_begin + sector.end,
                            offset: 100 * *part as u64 + sector.start,
                        }),
                    }
                }
                let whole = match (expected.first(), expected.last()) {
                    (Some(first), Some(last)) => first.plaintext.start..last.plaintext.end,
                    _ => range.clone(),
                };
                let words = format!("{parts:?}: {range:?}");
                assert_eq!(layout.whole_sectors(range.clone()), whole, "{words}");
                assert_eq!(layout.stored(range).unwrap(), expected, "{words}");
            }
        }
    }
}

/// Each piece is the longest that has at most `most` bytes, lies in a single part, and is whole
/// sectors or lies in a single sector.
#[test]
fn all_small_ranges_are_cut_into_the_longest_pieces() {
    for parts in all_small() {
        let (layout, bytes) = (small(&parts), bytes_of(&parts));
        for (begin, most) in (0..=bytes.len()).flat_map(|begin| (1..=9).map(move |m| (begin, m))) {
            for end in begin..=bytes.len() {
                let mut at = begin;
                for piece in layout.pieces(begin as u64, (end - begin) as u64, most) {
                    let words = format!("{parts:?}: {begin}..{end} by {most}, at {at}");
                    let (part, offset, sector) = &bytes[at];
                    let lawful = |len: &usize| {
                        let last = &bytes[at + len - 1];
                        let is_whole = *offset == sector.start && last.1 + 1 == last.2.end;
                        last.0 == *part && (last.2 == *sector || is_whole)
                    };
                    let longest = (1..=most.min(end - at)).rev().find(lawful).unwrap();
                    let found = (piece.placed.number, piece.offset, piece.len);
                    assert_eq!(found, (*part, *offset, longest), "{words}");
                    let is_whole = *offset == sector.start && longest % parts[*part].1 == 0;
                    assert_eq!(piece.is_whole_sectors(), is_whole, "{words}");
                    assert_eq!(piece.begin_in_sector() as u64, offset - sector.start);
                    assert_eq!(piece.sector().offset, sector.start, "{words}");
                    at += longest;
                }
                assert_eq!(at, end, "{parts:?}: {begin}..{end} by {most}");
            }
        }
    }
}
