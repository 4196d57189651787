// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a flush or FUA acknowledged survives a power cut.
//!
//! Clients write stamped blocks. At each acknowledgement they record how many operations the
//! storage had seen by then. The power is cut at every sync and at random operations, and the test
//! looks in the remaining data for everything that had been acknowledged.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
    thread,
};

use luxor_conformance::Random;
use luxor_engine::{KeySpec, LoadedKey, Mode, Registry, XtsKey};
use luxor_sector::{
    Disk, DiskOptions, Geometry, IvMode, MemoryStorage, Part, SectorSize,
    faulty::{Faults, FaultyStorage, Operation},
};
use luxor_serve::nbd::ServerOptions;

use crate::support::{Client, FLUSH, FUA, Running};

/// The number of blocks of 512 bytes. Each is filled with a stamp.
const BLOCKS: usize = 128;
const BLOCK: usize = 512;
const CLIENTS: usize = 2;

fn disk(storage: Arc<dyn luxor_sector::Storage>, sector_size: SectorSize) -> Disk {
    let bytes: Vec<u8> = (0..64).collect();
    let spec = KeySpec::Xts(XtsKey::new(&bytes).unwrap());
    let backend = Registry::cpu().best(Mode::Xts).unwrap();
    let key: Arc<dyn LoadedKey> = Arc::from(backend.load_key(&spec).unwrap());
    let geometry = Geometry {
        sector_size,
        iv_mode: IvMode::Plain64,
        iv_offset: 0,
        iv_large_sectors: false,
    };
    let part = Part {
        offset: 4096,
        len: (BLOCKS * BLOCK) as u64,
        crypt: Some((key, geometry)),
    };
    Disk::new(storage, vec![part], DiskOptions::default()).unwrap()
}

fn stamp(block: usize, version: u32) -> [u8; BLOCK] {
    let mut bytes = [0; BLOCK];
    for (i, piece) in bytes.chunks_mut(16).enumerate() {
        piece[..4].copy_from_slice(&u32::try_from(block).unwrap().to_be_bytes());
        piece[4..8].copy_from_slice(&version.to_be_bytes());
        piece[8..].copy_from_slice(&(i as u64).to_be_bytes());
    }
    bytes
}

/// Returns the version of a block, if its stamp is complete.
fn version(block: usize, bytes: &[u8]) -> Option<u32> {
    let found = u32::from_be_bytes(bytes[4..8].try_into().unwrap());
    (stamp(block, found) == bytes).then_some(found)
}

/// What the clients have sent and seen acknowledged.
#[derive(Clone)]
struct Known {
    /// The newest version of each block that was sent.
    sent: Vec<u32>,
    /// The newest version of each block with an acknowledged write.
    written: Vec<u32>,
    /// Every acknowledgement of durability: how many operations the storage had seen at that time,
    /// and which versions were durable.
    durable: Vec<(usize, Vec<u32>)>,
}

struct Notes<'a> {
    storage: &'a FaultyStorage,
    known: Mutex<Known>,
}

impl Notes<'_> {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap()
    }

    /// Records that all of `versions`, and everything durable before, is durable now.
    fn durable(&self, versions: &[u32]) {
        let mut known = self.lock();
        let operations = self.storage.operation_count();
        let mut all = match known.durable.last() {
            Some((_, all)) => all.clone(),
            None => vec![0; BLOCKS],
        };
        for (all, version) in all.iter_mut().zip(versions) {
            *all = (*all).max(*version);
        }
        known.durable.push((operations, all));
    }
}

/// Writes blocks of its own, several at a time, some with FUA, and flushes now and then.
fn client(number: usize, mut client: Client, notes: &Notes<'_>, rounds: usize) {
    let mut random = Random::for_test(&format!("durability, client {number}"));
    let own: Vec<usize> = (0..BLOCKS).filter(|b| b / 4 % CLIENTS == number).collect();
    for _ in 0..rounds {
        let mut flying: HashMap<u64, (usize, u32, bool)> = HashMap::new();
        let mut flush = None;
        let count = 1 + random.below(8);
        for cookie in 0..count as u64 {
            let block = own[random.below(own.len())];
            // Only one write to a block at a time, because their order is not defined otherwise.
            if flying.values().any(|(other, ..)| *other == block) {
                continue;
            }
            let mut known = notes.lock();
            known.sent[block] += 1;
            let version = known.sent[block];
            drop(known);
            let fua = random.below(4) == 0;
            let flags = if fua { FUA } else { 0 };
            client.send_write(
                flags,
                cookie,
                (block * BLOCK) as u64,
                &stamp(block, version),
            );
            flying.insert(cookie, (block, version, fua));
        }
        if random.below(3) == 0 {
            // A flush covers the acknowledged writes of all clients.
            flush = Some(notes.lock().written.clone());
            client.send(FLUSH, 0, 99, 0, 0);
        }
        for _ in 0..flying.len() + usize::from(flush.is_some()) {
            let cookie = client.done();
            if cookie == 99 {
                notes.durable(flush.as_ref().unwrap());
                continue;
            }
            let (block, version, fua) = flying[&cookie];
            notes.lock().written[block] = version;
            if fua {
                let mut only = vec![0; BLOCKS];
                only[block] = version;
                notes.durable(&only);
            }
        }
    }
}

/// Serves the writing clients. Returns what they recorded, and the storage.
fn load(sector_size: SectorSize, ignore_syncs: bool) -> (Arc<FaultyStorage>, Known) {
    let blank = Arc::new(MemoryStorage::new(vec![0; 4096 + BLOCKS * BLOCK]));
    let fresh = disk(blank.clone(), sector_size);
    for block in 0..BLOCKS {
        fresh
            .write(&stamp(block, 0), (block * BLOCK) as u64)
            .unwrap();
    }
    let faults = Faults {
        ignore_syncs,
        ..Faults::default()
    };
    let storage = Arc::new(FaultyStorage::with_faults(blank.to_bytes(), faults));
    let running = Running::of_disk(disk(storage.clone(), sector_size), ServerOptions::default());
    let notes = Notes {
        storage: &storage,
        known: Mutex::new(Known {
            sent: vec![0; BLOCKS],
            written: vec![0; BLOCKS],
            durable: Vec::new(),
        }),
    };
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (client_of, notes) = (running.client(), &notes);
            scope.spawn(move || client(number, client_of, notes, 60));
        }
    });
    let known = notes.lock().clone();
    running.end().unwrap();
    (storage, known)
}

/// Cuts the power at every sync and at random operations, at least `cuts` times. Returns how often
/// it was cut, or what was lost.
fn cut(
    storage: &FaultyStorage,
    known: &Known,
    sector_size: SectorSize,
    cuts: usize,
) -> Result<usize, String> {
    let mut random = Random::for_test("durability, cuts");
    let operations = storage.operations();
    let mut places: Vec<usize> = (0..operations.len())
        .filter(|i| matches!(operations[*i], Operation::Sync(_)))
        .flat_map(|i| [i, i + 1])
        .collect();
    let mut images = 0;
    while images < cuts || !places.is_empty() {
        let after = match places.pop() {
            Some(place) => place,
            None => random.below(operations.len() + 1),
        };
        let durable = known
            .durable
            .iter()
            .filter(|(count, _)| *count <= after)
            .map(|(_, versions)| versions)
            .next_back();
        let check = |image: MemoryStorage, _: &luxor_sector::faulty::Cut<'_>| {
            let disk = disk(Arc::new(image), sector_size);
            let mut bytes = vec![0; BLOCKS * BLOCK];
            disk.read(&mut bytes, 0).unwrap();
            for (block, bytes) in bytes.chunks(BLOCK).enumerate() {
                let found = version(block, bytes)
                    .ok_or_else(|| format!("block {block} is none that was written"))?;
                let least = durable.map_or(0, |versions| versions[block]);
                if found < least || found > known.sent[block] {
                    return Err(format!(
                        "block {block} has version {found}, and {least} was acknowledged"
                    ));
                }
            }
            Ok(())
        };
        images += storage
            .cut_power(after, random.u64(), check)
            .map_err(|broken| broken.to_string())?;
    }
    Ok(images)
}

#[test]
fn data_acknowledged_as_durable_survive_a_power_cut() {
    for sector_size in [SectorSize::B512, SectorSize::B4096] {
        let (storage, known) = load(sector_size, false);
        assert!(known.durable.len() > 30, "{}", known.durable.len());
        let images = cut(&storage, &known, sector_size, 1000).unwrap();
        println!("{images} power cuts with sectors of {sector_size} bytes");
        assert!(images >= 1000);
    }
}

/// The same without syncs, which shows that the test above notices if the server leaves them out.
#[test]
fn missing_syncs_are_noticed() {
    let (storage, known) = load(SectorSize::B512, true);
    let lost = cut(&storage, &known, SectorSize::B512, 1000).unwrap_err();
    assert!(lost.contains("was acknowledged"), "{lost}");
}
