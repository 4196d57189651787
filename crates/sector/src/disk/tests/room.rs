// SPDX-License-Identifier: MIT OR Apache-2.0
//! Room that is given back, and where there is none.

use std::{collections::BTreeMap, sync::Mutex};

use super::*;

/// Storage with holes, which remembers what was discarded.
struct Holes {
    len: u64,
    /// Where holes begin and end.
    edges: BTreeMap<u64, bool>,
    discarded: Mutex<Vec<(u64, u64)>>,
}

impl Storage for Holes {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_exact_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
        unreachable!()
    }

    fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        unreachable!()
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        self.discarded.lock().unwrap().push((offset, len));
        Ok(())
    }

    fn extent(&self, offset: u64, len: u64) -> io::Result<Extent> {
        let (_, &hole) = self.edges.range(..=offset).next_back().unwrap();
        let next = self.edges.range(offset + 1..).next();
        let len = next.map_or(len, |(end, _)| len.min(end - offset));
        Ok(Extent { len, hole })
    }
}

fn holes(edges: &[(u64, bool)], parts: Vec<Part>) -> (Arc<Holes>, Disk) {
    let storage = Arc::new(Holes {
        len: 1 << 20,
        edges: edges.iter().copied().collect(),
        discarded: Mutex::default(),
    });
    let options = DiskOptions {
        allow_discards: true,
        ..DiskOptions::default()
    };
    let disk = Disk::new(storage.clone(), parts, options).unwrap();
    (storage, disk)
}

#[test]
fn discards_are_rounded_inward() {
    let parts = vec![
        part(4096, 8192, SectorSize::B4096, 1),
        part(65536, 1000, SectorSize::B512, 2),
    ];
    let (storage, disk) = holes(&[(0, false)], parts);
    for (offset, len, expected) in [
        (0, 4096, vec![(4096, 4096)]),
        (1, 4096, vec![]),
        (1, 8191, vec![(8192, 4096)]),
        (4095, 4098, vec![(8192, 4096)]),
        (0, 8192 + 511, vec![(4096, 8192)]),
        (0, 8192 + 512, vec![(4096, 8192), (65536, 512)]),
        // The last sector shows 488 bytes only, and these are all of it.
        (8192 + 512, 488, vec![(65536 + 512, 512)]),
        (8192 + 512, 487, vec![]),
        (8192 + 513, 487, vec![]),
        (8192, 0, vec![]),
    ] {
        disk.discard(offset, len).unwrap();
        let found = std::mem::take(&mut *storage.discarded.lock().unwrap());
        assert_eq!(found, expected, "{len} bytes at {offset}");
    }
}

#[test]
fn discards_need_leave_and_a_storage_that_can() {
    let (storage, disk) = single(8192, SectorSize::B512);
    let error = disk.discard(0, 512).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    drop(disk);
    let options = DiskOptions {
        allow_discards: true,
        ..DiskOptions::default()
    };
    let parts = vec![part(0, 8192, SectorSize::B512, 1)];
    let disk = Disk::new(storage, parts, options).unwrap();
    disk.discard(0, 512).unwrap();
}

#[test]
fn extents_cover_whole_sectors_and_zeros_are_never_promised() {
    let hole = |len| Extent { len, hole: true };
    let data = |len| Extent { len, hole: false };
    let parts = || {
        vec![
            part(4096, 8192, SectorSize::B4096, 1),
            part(65536, 1000, SectorSize::B512, 2),
        ]
    };
    for (edges, offset, len, expected) in [
        (vec![(0, false)], 0, 9192, vec![data(9192)]),
        (vec![(0, true)], 0, 9192, vec![hole(9192)]),
        (vec![(0, true)], 100, 50, vec![hole(50)]),
        // A hole that ends, or begins, within a sector.
        (
            vec![(0, true), (8193, false)],
            0,
            9192,
            vec![hole(4096), data(5096)],
        ),
        (
            vec![(0, false), (4097, true)],
            0,
            8192,
            vec![data(4096), hole(4096)],
        ),
        (
            vec![(0, true), (4097, false), (4098, true)],
            0,
            8192,
            vec![data(4096), hole(4096)],
        ),
        (
            vec![(0, false), (65536, true)],
            0,
            9192,
            vec![data(8192), hole(1000)],
        ),
        (
            vec![(0, false), (65536, true), (65536 + 600, false)],
            8192,
            1000,
            vec![hole(512), data(488)],
        ),
        (vec![(0, true)], 0, 0, vec![]),
    ] {
        let (_, disk) = holes(&edges, parts());
        let found = disk.extents(offset, len, usize::MAX).unwrap();
        assert_eq!(found, expected, "{edges:?}, {len} bytes at {offset}");
    }
    let (_, disk) = holes(&[(0, true), (8192, false)], parts());
    assert_eq!(disk.extents(0, 9192, 1).unwrap(), [hole(4096)]);
}

#[test]
fn files_tell_their_holes_and_give_room_back() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(1 << 20).unwrap();
    let file = Arc::new(file);
    let options = DiskOptions {
        allow_discards: true,
        ..DiskOptions::default()
    };
    let parts = vec![part(65536, 512 << 10, SectorSize::B512, 1)];
    let disk = Disk::new(file.clone(), parts, options).unwrap();
    let extents = || {
        let found = disk.extents(0, disk.len(), usize::MAX).unwrap();
        assert_eq!(
            found.iter().map(|extent| extent.len).sum::<u64>(),
            disk.len()
        );
        found.iter().map(|extent| extent.hole).collect::<Vec<_>>()
    };
    assert_eq!(extents(), [true]);
    disk.write(&[1; 65536], 131_072).unwrap();
    assert_eq!(extents(), [true, false, true]);
    disk.flush().unwrap();
    disk.discard(131_072, 65536).unwrap();
    assert!(disk.is_dirty());
    assert_eq!(extents(), [true]);
    disk.will_need(0, 65536).unwrap();
    let mut buf = [0; 512];
    disk.read(&mut buf, 131_072).unwrap();
    assert_ne!(buf, [0; 512], "a hole is not zeros");
}
