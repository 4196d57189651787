// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program without a lock writes the header while a key is changed: an old keyslot is not
//! overwritten when the header refers to it again.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use luxor_engine::{Backend, KeySize, Mode, Registry};
use luxor_luks::{
    ChangeError, Luks1Options, Luks2Options, NewLuks1Volume, NewVolume, PbkdfKind, PbkdfOptions,
    UnlockOptions, VolumeHeader,
};
use luxor_sector::{MemoryStorage, Storage};

const OLD: &[u8] = b"the old secret";
const NEW: &[u8] = b"the new secret";

fn backend() -> Arc<dyn Backend> {
    Registry::cpu().best(Mode::Xts).unwrap()
}

fn cheap() -> PbkdfOptions {
    PbkdfOptions {
        kind: PbkdfKind::Pbkdf2,
        force_iterations: Some(1000),
        ..PbkdfOptions::default()
    }
}

/// What another program writes to byte 0 while a sync is under way.
struct Interrupted {
    storage: MemoryStorage,
    stale: Vec<u8>,
    /// So many syncs are left before it does.
    syncs: AtomicUsize,
}

impl Storage for Interrupted {
    fn len(&self) -> io::Result<u64> {
        self.storage.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.storage.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.storage.write_all_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        if self.syncs.fetch_sub(1, Relaxed) == 0 {
            self.storage.write_all_at(&self.stale, 0)?;
        }
        self.storage.sync()
    }
}

fn opens(storage: &dyn Storage, secret: &[u8]) -> bool {
    let options = UnlockOptions::default();
    VolumeHeader::read(storage).is_ok_and(|header| {
        header
            .unlock(storage, secret, &*backend(), &options)
            .is_ok()
    })
}

/// Changes the key of a volume whose first `header` bytes another program writes once more
/// during sync `at`, with a change of its own. Returns what the change says.
fn changed(image: &[u8], header: usize, at: usize) -> Result<(), ChangeError> {
    let storage = MemoryStorage::new(image.to_vec());
    let mut stale = VolumeHeader::read(&storage).unwrap();
    stale
        .set_uuid(&storage, luxor_luks::Uuid::from_bytes([7; 16]))
        .unwrap();
    let mut bytes = storage.into_bytes();
    bytes.truncate(header);

    let storage = Interrupted {
        storage: MemoryStorage::new(image.to_vec()),
        stale: bytes,
        syncs: AtomicUsize::new(usize::MAX),
    };
    let mut header = VolumeHeader::read(&storage).unwrap();
    let unlocked = header
        .unlock(&storage, OLD, &*backend(), &UnlockOptions::default())
        .unwrap();
    let new = header
        .new_keyslot(&unlocked, NEW, &cheap(), &*backend())
        .unwrap();
    storage.syncs.store(at, Relaxed);
    let result = header.replace_keyslot(&storage, 0, &new);
    let (old, new) = (opens(&storage, OLD), opens(&storage, NEW));
    assert!(old || new, "sync {at}: nothing opens the volume");
    match &result {
        Ok(()) => assert!(new, "sync {at}: the new secret opens nothing"),
        Err(ChangeError::WrittenOver) => {}
        Err(error) => panic!("sync {at}: {error}"),
    }
    result
}

/// Syncs: what is there, the new area, each copy of the header, the old area.
#[test]
fn a_luks2_header_that_is_written_over_keeps_its_keyslot() {
    let options = Luks2Options {
        key_size: KeySize::Aes128,
        pbkdf: cheap(),
        ..Luks2Options::default()
    };
    let mut image = Vec::new();
    let volume = NewVolume::create(&options, OLD, &*backend()).unwrap();
    volume.write_stream(&mut image).unwrap();
    let results: Vec<_> = (0..4).map(|at| changed(&image, 32 << 10, at)).collect();
    assert!(matches!(results[3], Err(ChangeError::WrittenOver)));
}

/// Syncs: what is there, the new area, the header.
#[test]
fn a_luks1_header_that_is_written_over_keeps_its_keyslot() {
    let options = Luks1Options {
        key_size: KeySize::Aes128,
        pbkdf: cheap(),
        detached: true,
        ..Luks1Options::default()
    };
    let volume = NewLuks1Volume::create(&options, OLD, &*backend()).unwrap();
    let storage = MemoryStorage::default();
    volume.write_to(&storage).unwrap();
    let image = storage.into_bytes();
    let results: Vec<_> = (0..3).map(|at| changed(&image, 592, at)).collect();
    assert!(matches!(results[2], Err(ChangeError::WrittenOver)));
}
