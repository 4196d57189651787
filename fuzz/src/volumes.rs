// SPDX-License-Identifier: MIT OR Apache-2.0
//! Volumes of both versions that are right but for some bytes, on storage that may fail.

use std::{
    collections::BTreeMap,
    io,
    ops::Range,
    sync::{LazyLock, Mutex, MutexGuard},
};

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use luxor_engine::KeySize;
use luxor_luks::{
    HashAlgorithm, Keyslot, Luks1Options, Luks2HeaderSizes, Luks2Options, LuksVersion, NewKeyslot,
    NewLuks1Volume, NewLuks2Volume, PbkdfKind, PbkdfOptions, UnlockOptions, VolumeHeader,
};
use luxor_sector::{MemoryStorage, SectorSize, Storage};
use sha2::{Digest, Sha256};

use crate::backend;

/// Where the data begin, in both versions.
pub const DATA: u64 = 2 << 20;
const LEN: usize = (2 << 20) + 8192;
/// The length of a copy of LUKS2's metadata, and of the binary header in it.
const COPY: usize = 16 << 10;
const BINARY: usize = 4096;
const LUKS1_LEN: usize = 592;
const PAGE: usize = 4096;

/// What is wrong with a volume.
#[derive(Arbitrary, Clone, Debug, Default)]
pub struct Hostile {
    /// Bytes of the metadata that LUKS2's checksums confirm.
    metadata: Vec<(u16, u8)>,
    /// Bytes that were damaged later.
    damage: Vec<(u16, u8)>,
}

/// A volume, and how it is to be changed.
#[derive(Arbitrary, Debug)]
pub struct Attempt {
    pub volume: Hostile,
    pub luks2: bool,
    pub force: bool,
    pub fails_after: Option<u8>,
}

impl Attempt {
    pub fn version(&self) -> LuksVersion {
        version(self.luks2)
    }

    pub fn storage(&self) -> Faulty {
        self.volume.volume(self.version(), self.fails_after)
    }
}

pub fn version(is_luks2: bool) -> LuksVersion {
    if is_luks2 {
        LuksVersion::Luks2
    } else {
        LuksVersion::Luks1
    }
}

/// A good volume, and a keyslot of the same key.
pub struct Good {
    bytes: Vec<u8>,
    /// The length of the JSON text.
    json: usize,
    pub keyslot: NewKeyslot,
}

impl Hostile {
    pub fn is_metadata_good(&self) -> bool {
        self.metadata.is_empty()
    }

    /// Returns a volume with all this. After `writes` writes and syncs, if given, the storage fails.
    pub fn volume(&self, version: LuksVersion, writes: Option<u8>) -> Faulty {
        let good = good(version);
        let storage = Faulty {
            base: &good.bytes,
            state: Mutex::new(State {
                pages: BTreeMap::new(),
                len: LEN,
                writes: Vec::new(),
                left: None,
                was_full: false,
            }),
        };
        match version {
            LuksVersion::Luks1 => {
                for (at, byte) in self.metadata.iter().chain(&self.damage) {
                    storage.put(usize::from(*at) % LUKS1_LEN, &[*byte]);
                }
            }
            LuksVersion::Luks2 => self.luks2(good, &storage),
        }
        storage.state().left = writes.map(u32::from);
        storage
    }

    fn luks2(&self, good: &Good, storage: &Faulty) {
        let end = BINARY + good.json;
        for copy in [0, COPY] {
            if self.metadata.is_empty() {
                break;
            }
            let mut bytes = good.bytes[copy..copy + COPY].to_vec();
            for (at, byte) in &self.metadata {
                // The fields of the binary header, or the text.
                let at = usize::from(*at);
                let at = if at >> 15 == 1 {
                    at % 512
                } else {
                    BINARY + at % good.json
                };
                bytes[at] = *byte;
            }
            bytes[448..512].fill(0);
            let sum = Sha256::digest(&bytes);
            bytes[448..480].copy_from_slice(&sum);
            storage.put(copy, &bytes);
        }
        for (at, byte) in &self.damage {
            let at = usize::from(*at);
            storage.put((at >> 15) * COPY + (at & 0x7fff) % end, &[*byte]);
        }
    }
}

pub fn good(version: LuksVersion) -> &'static Good {
    static GOOD: LazyLock<[Good; 2]> = LazyLock::new(|| [good_luks1(), good_luks2()]);
    &GOOD[usize::from(version == LuksVersion::Luks2)]
}

fn pbkdf() -> PbkdfOptions {
    PbkdfOptions {
        kind: PbkdfKind::Pbkdf2,
        force_iterations: Some(1000),
        ..PbkdfOptions::default()
    }
}

fn good_luks1() -> Good {
    let options = Luks1Options {
        key_size: KeySize::Aes128,
        volume_key: None,
        hash: HashAlgorithm::Sha256,
        pbkdf: pbkdf(),
        keyslot: 0,
        uuid: None,
        detached: false,
        data_offset: Some(DATA),
    };
    let made = NewLuks1Volume::create(&options, b"first", backend()).expect("a volume");
    let storage = MemoryStorage::default();
    made.write_to(&storage).expect("memory is written");
    filled(&storage)
}

fn good_luks2() -> Good {
    let keyslots = DATA - 2 * COPY as u64;
    let options = Luks2Options {
        key_size: KeySize::Aes128,
        sector_size: SectorSize::B512,
        pbkdf: pbkdf(),
        header_sizes: Luks2HeaderSizes::new(None, Some(keyslots), None, KeySize::Aes128)
            .expect("sizes"),
        ..Luks2Options::default()
    };
    let made = NewLuks2Volume::create(&options, b"first", backend()).expect("a volume");
    let storage = MemoryStorage::default();
    made.write_to(&storage).expect("memory is written");
    filled(&storage)
}

/// Adds a second keyslot, and data.
fn filled(storage: &MemoryStorage) -> Good {
    let mut header = VolumeHeader::read(storage).expect("a volume");
    let unlocked = header
        .unlock(storage, b"first", backend(), &UnlockOptions::default())
        .expect("the secret");
    let new = |secret| {
        let new = header.new_keyslot(&unlocked, secret, &pbkdf(), backend());
        new.expect("a keyslot")
    };
    let (second, keyslot) = (new(b"second"), new(b"third"));
    header.add_keyslot(storage, &second, Some(3)).expect("room");
    let mut bytes = storage.to_bytes();
    bytes.resize(LEN, 0x5a);
    let json = bytes[BINARY..COPY].iter().position(|byte| *byte == 0);
    Good {
        json: json.unwrap_or(1).max(1),
        bytes,
        keyslot,
    }
}

/// A volume's bytes with the pages that were changed, and what was written since.
pub struct Faulty {
    base: &'static [u8],
    state: Mutex<State>,
}

struct State {
    pages: BTreeMap<usize, Vec<u8>>,
    len: usize,
    writes: Vec<Range<u64>>,
    /// Writes and syncs until all fail.
    left: Option<u32>,
    /// Whether a write was refused because it would have made the storage too long.
    was_full: bool,
}

impl Faulty {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("not poisoned")
    }

    /// What has been written since the last call.
    pub fn writes(&self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.state().writes)
    }

    /// Whether the storage has failed since the last call. From now on it only fails when it is full.
    pub fn failed(&self) -> bool {
        let mut state = self.state();
        let was_full = std::mem::take(&mut state.was_full);
        state.left.take() == Some(0) || was_full
    }

    /// The bytes of an area, with zeros beyond the storage's end: those that it gets there when it grows.
    pub fn area(&self, keyslot: &Keyslot) -> Vec<u8> {
        let len = self.state().len;
        let place = |at: u64| usize::try_from(at).map_or(len, |at| at.min(len));
        let area_len = u64::from(keyslot.key_len) * 4000;
        let range = place(keyslot.area.offset)..place(keyslot.area.offset + area_len);
        let mut bytes = vec![0; usize::try_from(area_len).expect("it is in memory")];
        self.read_exact_at(&mut bytes[..range.len()], range.start as u64)
            .expect("memory is read");
        bytes
    }

    fn put(&self, mut at: usize, mut bytes: &[u8]) {
        let mut state = self.state();
        while !bytes.is_empty() {
            let (page, offset) = (at / PAGE, at % PAGE);
            let (now, rest) = bytes.split_at(bytes.len().min(PAGE - offset));
            let page = state.pages.entry(page).or_insert_with(|| {
                let base = self.base.get(page * PAGE..).unwrap_or_default();
                let mut bytes = base[..base.len().min(PAGE)].to_vec();
                bytes.resize(PAGE, 0);
                bytes
            });
            page[offset..][..now.len()].copy_from_slice(now);
            (at, bytes) = (at + now.len(), rest);
        }
        state.len = state.len.max(at);
    }

    fn step(&self) -> io::Result<()> {
        match &mut self.state().left {
            Some(0) => Err(io::Error::other("the storage fails")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Storage for Faulty {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().len as u64)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let state = self.state();
        let end = offset.checked_add(buf.len() as u64);
        if end.is_none_or(|end| end > state.len as u64) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (mut at, mut buf) = (usize::try_from(offset).expect("below the end"), buf);
        while !buf.is_empty() {
            let (page, offset) = (at / PAGE, at % PAGE);
            let len = buf.len().min(PAGE - offset);
            let (now, rest) = buf.split_at_mut(len);
            match (state.pages.get(&page), self.base.get(at..at + len)) {
                (Some(page), _) => now.copy_from_slice(&page[offset..][..len]),
                (None, Some(base)) => now.copy_from_slice(base),
                (None, None) => now.fill(0),
            }
            (at, buf) = (at + len, rest);
        }
        Ok(())
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.step()?;
        let end = offset.checked_add(buf.len() as u64);
        // LUKS2's keyslots have 128 MiB at most, and a detached header may grow to that.
        if end.is_none_or(|end| end > 256 << 20) {
            self.state().was_full = true;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.put(usize::try_from(offset).expect("below the end"), buf);
        self.state().writes.push(offset..offset + buf.len() as u64);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.step()
    }
}

/// Checks that nothing was written to the data, whose place `header` says. A detached header may
/// grow.
pub fn data_unwritten(header: &VolumeHeader, writes: &[Range<u64>]) {
    let data = header.data_offset();
    for write in writes {
        let is_before = data == 0 || write.end <= data;
        assert!(is_before, "{write:?} is written, data at {data}");
    }
}
