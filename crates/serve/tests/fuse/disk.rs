// SPDX-License-Identifier: MIT OR Apache-2.0
//! A disk with storage that counts syncs.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use luxor_engine::{KeySpec, LoadedKey, Mode, Registry, XtsKey};
use luxor_sector::{Disk, DiskOptions, Geometry, IvMode, MemoryStorage, Part, SectorSize, Storage};

/// Memory that counts its syncs, and fails on request.
#[derive(Default)]
pub struct Watched {
    memory: MemoryStorage,
    pub syncs: AtomicUsize,
    pub fails: AtomicBool,
}

impl Watched {
    /// Runs `what`, which must sync at least once. It may sync more often: other tests start
    /// processes, each of which closes the descriptors that it inherits, and closing syncs.
    #[track_caller]
    pub fn must_be_synced(&self, what: impl FnOnce()) {
        let before = self.syncs.load(Ordering::SeqCst);
        what();
        assert!(self.syncs.load(Ordering::SeqCst) > before);
    }

    fn check(&self) -> io::Result<()> {
        if self.fails.load(Ordering::SeqCst) {
            Err(io::ErrorKind::StorageFull.into())
        } else {
            Ok(())
        }
    }
}

impl Storage for Watched {
    fn len(&self) -> io::Result<u64> {
        self.memory.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.check()?;
        self.memory.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.check()?;
        self.memory.write_all_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.check()?;
        self.syncs.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// A disk of `len` zeros.
pub fn disk(len: u64, sector_size: SectorSize, read_only: bool) -> (Arc<Watched>, Arc<Disk>) {
    let bytes: [u8; 64] = core::array::from_fn(|i| i.to_le_bytes()[0]);
    let key = KeySpec::Xts(XtsKey::new(&bytes).unwrap());
    let backend = Registry::cpu().best(Mode::Xts).unwrap();
    let key: Arc<dyn LoadedKey> = Arc::from(backend.load_key(&key).unwrap());
    let geometry = Geometry {
        sector_size,
        iv_mode: IvMode::Plain64,
        iv_offset: 0,
        iv_large_sectors: false,
    };
    let storage = Arc::new(Watched::default());
    let room = len.next_multiple_of(sector_size.bytes() as u64);
    storage.memory.write_all_at(&[0], 4096 + room - 1).unwrap();
    let open = |read_only| {
        let part = Part {
            offset: 4096,
            len,
            crypt: Some((key.clone(), geometry)),
        };
        let options = DiskOptions {
            read_only,
            ..DiskOptions::default()
        };
        Disk::new(storage.clone(), vec![part], options).unwrap()
    };
    open(false).write_zeroes(0, len).unwrap();
    (storage.clone(), Arc::new(open(read_only)))
}
