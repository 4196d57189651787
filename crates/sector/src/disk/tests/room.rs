// SPDX-License-Identifier: MIT OR Apache-2.0
//! Discards, and storage that does not support them.

use std::{os::unix::fs::MetadataExt, sync::Mutex};

use super::*;

/// Storage that records discards.
#[derive(Default)]
struct Room {
    discarded: Mutex<Vec<(u64, u64)>>,
}

impl Storage for Room {
    fn len(&self) -> io::Result<u64> {
        Ok(1 << 20)
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
}

fn room(parts: Vec<Part>) -> (Arc<Room>, Disk) {
    let storage = Arc::new(Room::default());
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
    let (storage, disk) = room(parts);
    for (offset, len, expected) in [
        (0, 4096, vec![(4096, 4096)]),
        (1, 4096, vec![]),
        (1, 8191, vec![(8192, 4096)]),
        (4095, 4098, vec![(8192, 4096)]),
        (0, 8192 + 511, vec![(4096, 8192)]),
        (0, 8192 + 512, vec![(4096, 8192), (65536, 512)]),
        // Only 488 bytes of the last sector are visible, and this request covers them all.
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
fn discards_free_space_and_do_not_read_as_zeros() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(1 << 20).unwrap();
    let file = Arc::new(file);
    let options = DiskOptions {
        allow_discards: true,
        ..DiskOptions::default()
    };
    let parts = vec![part(65536, 512 << 10, SectorSize::B512, 1)];
    let disk = Disk::new(file.clone(), parts, options).unwrap();
    let room = || file.metadata().unwrap().blocks();
    let empty = room();
    disk.write(&[1; 65536], 131_072).unwrap();
    disk.flush().unwrap();
    assert!(room() > empty);
    disk.discard(131_072, 65536).unwrap();
    assert!(disk.is_dirty());
    assert_eq!(room(), empty);
    disk.will_need(0, 65536).unwrap();
    let mut buf = [0; 512];
    disk.read(&mut buf, 131_072).unwrap();
    assert_ne!(buf, [0; 512]);
}
