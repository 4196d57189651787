// SPDX-License-Identifier: MIT OR Apache-2.0
//! Another program without a lock writes the header while a key is changed. An old keyslot must not
//! be overwritten if the header refers to it again.

use std::{
    io,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use luxor_engine::KeySize;
use luxor_luks::{
    ChangeError, Luks1Options, Luks2Options, NewLuks1Volume, NewLuks2Volume, UnlockOptions,
    VolumeHeader,
};
use luxor_sector::{MemoryStorage, Storage};

use crate::{backend, cheap};

const OLD: &[u8] = b"the old secret";
const NEW: &[u8] = b"the new secret";

/// A storage to which another program writes while a sync is under way.
struct Interrupted {
    storage: MemoryStorage,
    bytes: Vec<u8>,
    offset: u64,
    /// The number of syncs before the other program writes.
    syncs: AtomicUsize,
    /// The offsets of all writes of the change.
    offsets: Mutex<Vec<u64>>,
}

impl Storage for Interrupted {
    fn len(&self) -> io::Result<u64> {
        self.storage.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.storage.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.offsets.lock().unwrap().push(offset);
        self.storage.write_all_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        if self.syncs.fetch_sub(1, Relaxed) == 0 {
            self.storage.write_all_at(&self.bytes, self.offset)?;
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Add,
    Replace,
}

/// The result of a change during which another program has written.
struct Ended {
    result: Result<(), ChangeError>,
    /// Whether the old and the new secret open the volume.
    old: bool,
    new: bool,
    /// The offsets that the change has written, without the other program's writes.
    offsets: Vec<u64>,
    syncs: usize,
}

/// Makes `change` on the volume `image`, while another program writes `bytes` at `offset` during
/// sync `at`.
fn interrupted(image: &[u8], change: Change, bytes: &[u8], offset: u64, at: usize) -> Ended {
    let storage = Interrupted {
        storage: MemoryStorage::new(image.to_vec()),
        bytes: bytes.to_vec(),
        offset,
        syncs: AtomicUsize::new(usize::MAX),
        offsets: Mutex::default(),
    };
    let mut header = VolumeHeader::read(&storage).unwrap();
    let unlocked = header
        .unlock(&storage, OLD, &*backend(), &UnlockOptions::default())
        .unwrap();
    let new = header
        .new_keyslot(&unlocked, NEW, &cheap(), &*backend())
        .unwrap();
    storage.syncs.store(at, Relaxed);
    let result = match change {
        Change::Add => header.add_keyslot(&storage, &new, None).map(drop),
        Change::Replace => header.replace_keyslot(&storage, 0, &new),
    };
    Ended {
        result,
        old: opens(&storage, OLD),
        new: opens(&storage, NEW),
        syncs: at.wrapping_sub(storage.syncs.load(Relaxed)),
        offsets: storage.offsets.into_inner().unwrap(),
    }
}

const NEVER: usize = usize::MAX;

/// Changes the key of a volume, while another program rewrites its first `header` bytes with a
/// change of its own during sync `at`. Returns the result of the key change.
fn changed(image: &[u8], header: usize, at: usize) -> Result<(), ChangeError> {
    let storage = MemoryStorage::new(image.to_vec());
    let mut stale = VolumeHeader::read(&storage).unwrap();
    stale
        .set_uuid(&storage, luxor_luks::Uuid::from_bytes([7; 16]))
        .unwrap();
    let mut bytes = storage.into_bytes();
    bytes.truncate(header);

    let ended = interrupted(image, Change::Replace, &bytes, 0, at);
    assert!(
        ended.old || ended.new,
        "sync {at}: nothing opens the volume"
    );
    match &ended.result {
        Ok(()) => assert!(ended.new, "sync {at}: the new secret opens nothing"),
        Err(ChangeError::WrittenOver) => {}
        Err(error) => panic!("sync {at}: {error}"),
    }
    ended.result
}

/// Lets another program overwrite each area after the first `header` bytes that `change` writes,
/// during each sync except the last `unguarded` ones, after which the old key is gone. Returns how
/// often `change` noticed it.
fn areas_written_over(image: &[u8], header: u64, change: Change, unguarded: usize) -> usize {
    let Ended {
        mut offsets, syncs, ..
    } = interrupted(image, change, &[], 0, NEVER);
    offsets.retain(|&offset| offset >= header);
    offsets.sort_unstable();
    offsets.dedup();
    let mut noticed = 0;
    for &area in &offsets {
        for at in 0..syncs - unguarded {
            let ended = interrupted(image, change, &[0x5a; 4096], area, at);
            let case = format!("{change:?}, byte {area}, sync {at}");
            assert!(ended.old || ended.new, "{case}: nothing opens the volume");
            match ended.result {
                Ok(()) => assert!(ended.new, "{case}: the new secret opens nothing"),
                Err(error) => {
                    assert!(is_written_over(&error), "{case}: {error}");
                    noticed += 1;
                }
            }
        }
    }
    noticed
}

fn is_written_over(error: &ChangeError) -> bool {
    match error {
        ChangeError::WrittenOver => true,
        ChangeError::NewKeyElsewhere { error, .. } => is_written_over(error),
        _ => false,
    }
}

fn luks2() -> Vec<u8> {
    let options = Luks2Options {
        key_size: KeySize::Aes128,
        pbkdf: cheap(),
        ..Luks2Options::default()
    };
    let mut image = Vec::new();
    let volume = NewLuks2Volume::create(&options, OLD, &*backend()).unwrap();
    volume.write_stream(&mut image).unwrap();
    image
}

fn luks1() -> Vec<u8> {
    let options = Luks1Options {
        key_size: KeySize::Aes128,
        pbkdf: cheap(),
        detached: true,
        ..Luks1Options::default()
    };
    let volume = NewLuks1Volume::create(&options, OLD, &*backend()).unwrap();
    let storage = MemoryStorage::default();
    volume.write_to(&storage).unwrap();
    storage.into_bytes()
}

/// The syncs: the old contents, the new area, each copy of the header, the old area.
#[test]
fn a_luks2_header_that_is_written_over_keeps_its_keyslot() {
    let image = luks2();
    let results: Vec<_> = (0..4).map(|at| changed(&image, 32 << 10, at)).collect();
    assert!(matches!(results[3], Err(ChangeError::WrittenOver)));
}

/// The syncs: the old contents, the new area, the header.
#[test]
fn a_luks1_header_that_is_written_over_keeps_its_keyslot() {
    let image = luks1();
    let results: Vec<_> = (0..3).map(|at| changed(&image, 592, at)).collect();
    assert!(matches!(results[2], Err(ChangeError::WrittenOver)));
}

/// The area of the new key is read again before the old area is overwritten. If it is damaged, the
/// header refers to the old area again.
#[test]
fn an_overwritten_luks2_area_does_not_become_a_keyslot() {
    let image = luks2();
    let header = 32 << 10;
    assert_eq!(areas_written_over(&image, header, Change::Add, 0), 3);
    assert_eq!(areas_written_over(&image, header, Change::Replace, 1), 3);
}

/// The new key is also written in place of the old one, and then its first copy is removed: its
/// area is overwritten, and the header is written.
#[test]
fn an_overwritten_luks1_area_does_not_become_a_keyslot() {
    let image = luks1();
    assert_eq!(areas_written_over(&image, 592, Change::Add, 0), 2);
    assert_eq!(areas_written_over(&image, 592, Change::Replace, 2), 4);
}
