// SPDX-License-Identifier: MIT OR Apache-2.0
//! A re-encryption of a volume that clients read and write meanwhile.

use std::{
    any::Any,
    num::NonZeroU64,
    sync::{Mutex, OnceLock},
    thread,
};

use luxor::{Error, ReencryptError, ReencryptionInUse, reencrypt_in_use};
use luxor_conformance::Random;
use luxor_sector::{Disk, faulty::Cut};

use super::*;

/// Several zones, and an end within a sector.
const LEN: usize = (180 << 10) + 100;
const HEADER: usize = 312 << 10;

fn volume() -> Vec<u8> {
    volume_of(plain_of(LEN))
}

fn volume_of(plain: Vec<u8>) -> Vec<u8> {
    let storage = Arc::new(MemoryStorage::default());
    let mut input = Input::of_stream(Cursor::new(plain), Path::new("plain"));
    let output = Output::of_storage(storage.clone(), Path::new("volume"));
    let (new, context) = (new_volume(HEADER as u64), Context::default());
    luxor::encrypt_to(&mut input, output, &new, || Ok(secret()), &context).unwrap();
    storage.to_bytes()
}

pub(super) fn begin(
    storage: Arc<dyn Storage>,
    options: &ReencryptOptions,
    context: &Context,
) -> Result<(VolumeDisk, ReencryptionInUse)> {
    let (volume, data) = open(storage);
    let export = DiskUse::default();
    reencrypt_in_use(volume, data, &secret(), options, &export, context)
}

/// Reads and writes until `stop` says that it ends. Client `number` has every third piece of 700 bytes, so
/// that clients share sectors. Returns what its pieces have; the other bytes are zeros.
fn client(number: usize, disk: &Disk, stop: &AtomicBool) -> Vec<u8> {
    let mut random = Random::for_test(&format!("reencrypt::in_use {number}"));
    let places: Vec<_> = (number * 700..LEN).step_by(3 * 700).collect();
    let mut model = plain_of(LEN);
    let mut left = 100;
    while left > 0 {
        left -= u32::from(stop.load(Ordering::Relaxed));
        let place = places[random.below(places.len())];
        let range = place..LEN.min(place + 700);
        if random.below(2) == 0 {
            let bytes = random.bytes(range.len());
            disk.write(&bytes, place as u64).unwrap();
            model[range].copy_from_slice(&bytes);
        } else {
            let mut found = vec![0; range.len()];
            disk.read(&mut found, place as u64).unwrap();
            assert!(found == model[range], "client {number} at {place}");
        }
        if random.below(20) == 0 {
            disk.flush().unwrap();
        }
    }
    for (at, piece) in model.chunks_mut(700).enumerate() {
        if at % 3 != number {
            piece.fill(0);
        }
    }
    model
}

/// Runs a re-encryption with clients until `until` returns. Returns the plaintext, and how it ended.
fn with_clients(
    storage: Arc<dyn Storage>,
    protection: ZoneProtection,
    rate: Option<NonZeroU64>,
    until: impl FnOnce(&AtomicBool),
) -> (Vec<u8>, Result<()>) {
    let context = Context::default();
    let (export, work) = begin(storage, &options(protection), &context).unwrap();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (disk, is_done) = (export.shared(), &is_done);
        let clients: Vec<_> = (0..3)
            .map(|number| scope.spawn(move || client(number, disk, is_done)))
            .collect();
        let work = scope.spawn(move || work.run(rate));
        until(&context.cancel);
        let ended = work.join().unwrap();
        is_done.store(true, Ordering::Relaxed);
        let mut plain = vec![0; LEN];
        for client in clients {
            let own = client.join().unwrap();
            for (byte, own) in plain.iter_mut().zip(own) {
                *byte |= own;
            }
        }
        let mut found = vec![0; LEN];
        disk.read(&mut found, 0).unwrap();
        assert!(found == plain);
        disk.flush().unwrap();
        (plain, ended)
    })
}

#[test]
fn clients_read_and_write_meanwhile() {
    for protection in PROTECTIONS {
        let storage = Arc::new(MemoryStorage::new(volume()));
        let (plain, ended) = with_clients(storage.clone(), protection, None, |_| ());
        ended.unwrap();
        let (volume, _) = open(storage.clone());
        assert!(!volume.header.is_reencrypting());
        assert!(decrypted_of(storage, LEN) == plain, "{protection:?}");
    }
}

/// At this rate, the second zone would begin after an hour.
#[test]
fn what_is_stopped_continues_without_clients() {
    let storage = Arc::new(MemoryStorage::new(volume()));
    let protection = PROTECTIONS[0];
    let done = || {
        let (volume, data) = open(storage.clone());
        let data_len = data.len().unwrap();
        let state = volume.header.luks2().unwrap().reencryption(data_len);
        state.unwrap().unwrap().progress.done()
    };
    let (plain, ended) = with_clients(storage.clone(), protection, NonZeroU64::new(1), |stop| {
        while done() == 0 {
            thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(ended.unwrap_err().class(), ErrorClass::Cancelled);
    assert_eq!(done(), ZONE);
    reencrypt(storage.clone(), &options(protection), &Context::default()).unwrap();
    assert!(decrypted_of(storage, LEN) == plain);
}

/// At this rate, the pause after a zone lasts hours. The stop comes as soon as the last zone is done.
#[test]
fn the_last_zone_is_the_end() {
    let storage = Arc::new(MemoryStorage::new(volume_of(Blocks::blank())));
    let context = Context::default();
    let cancel = Arc::clone(&context.cancel);
    let stop = move |done| cancel.store(done > 0, Ordering::Relaxed);
    let context = Context {
        events: Arc::new(BetweenZones(Arc::new(stop))),
        ..context
    };
    let options = ReencryptOptions {
        zone: Some(1 << 20),
        ..options(PROTECTIONS[0])
    };
    let (export, work) = begin(storage.clone(), &options, &context).unwrap();
    work.run(NonZeroU64::new(1)).unwrap();
    drop(export);
    assert!(!open(storage.clone()).0.header.is_reencrypting());
    let blank = Blocks::blank();
    assert!(decrypted_of(storage, blank.len()) == blank);
}

/// A few blocks of 512 bytes, each of which repeats its version, and a client that writes them at the worst
/// moments: just before a zone, and between what is done for it before and after requests have to wait.
struct Blocks {
    data: Arc<FaultyStorage>,
    disk: OnceLock<Arc<Disk>>,
    state: Mutex<Versions>,
    /// Whether the next sync is the one before requests have to wait.
    comes: AtomicBool,
}

struct Versions {
    random: Random,
    newest: [u32; BLOCKS],
    /// How many operations of the storage there were when these were durable.
    durable: Vec<(usize, [u32; BLOCKS])>,
}

const BLOCKS: usize = 24;

impl Blocks {
    fn blank() -> Vec<u8> {
        vec![0; BLOCKS * 512]
    }

    fn between_zones(&self) {
        {
            let mut state = self.state.lock().unwrap();
            let newest = state.newest;
            state.durable.push((self.data.operation_count(), newest));
        }
        self.write_some();
        self.comes.store(true, Ordering::Relaxed);
    }

    fn write_some(&self) {
        let mut state = self.state.lock().unwrap();
        // One in each zone.
        for zone in (0..BLOCKS).step_by(8) {
            let block = zone + state.random.below(8);
            state.newest[block] += 1;
            let bytes = state.newest[block].to_be_bytes().repeat(512 / 4);
            let disk = self.disk.get().unwrap();
            disk.write(&bytes, block as u64 * 512).unwrap();
        }
    }

    /// Fails if a block is torn, or older than what was durable when there were so many operations.
    fn check(&self, after: usize, plain: &[u8]) -> std::result::Result<(), String> {
        let state = self.state.lock().unwrap();
        let durable = state.durable.iter().rev();
        let mut durable = durable.skip_while(|(count, _)| *count > after);
        let oldest = durable
            .next()
            .map_or([0; BLOCKS], |(_, versions)| *versions);
        for (block, bytes) in plain.chunks(512).enumerate() {
            let found = u32::from_be_bytes(bytes[..4].try_into().unwrap());
            let is_whole = bytes.chunks(4).all(|bytes| bytes == found.to_be_bytes());
            if !is_whole || !(oldest[block]..=state.newest[block]).contains(&found) {
                return Err(format!("block {block} is {:?}", &bytes[..8]));
            }
        }
        Ok(())
    }
}

/// The storage of the data, with the client.
struct Beneath(Arc<Blocks>);

impl Storage for Beneath {
    fn len(&self) -> io::Result<u64> {
        self.0.data.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.data.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.0.data.write_all_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.data.sync()?;
        if self.0.comes.swap(false, Ordering::Relaxed) {
            self.0.write_some();
        }
        Ok(())
    }
}

/// Is called between two zones with the number of bytes that are done.
struct BetweenZones(Arc<dyn Fn(u64) + Send + Sync>);

impl Events for BetweenZones {
    fn warning(&self, text: &str) {
        panic!("{text}");
    }

    fn note(&self, _: &str) {}

    fn step(&self, _: &'static str) -> Box<dyn Any> {
        Box::new(())
    }

    fn bytes(&self, _: &'static str, _: String, _: Option<u64>) -> Box<dyn Progress> {
        Box::new(Self(self.0.clone()))
    }
}

impl Progress for BetweenZones {
    fn at(&self, done: u64) {
        (self.0)(done);
    }
}

/// A header in another file, in all its states. What is written to it is durable at once.
struct Header {
    bytes: MemoryStorage,
    data: Arc<FaultyStorage>,
    /// How many operations on the data came before.
    states: Mutex<Vec<(usize, Vec<u8>)>>,
}

impl Header {
    fn note(&self) {
        let state = (self.data.operation_count(), self.bytes.to_bytes());
        self.states.lock().unwrap().push(state);
    }
}

impl Storage for Header {
    fn len(&self) -> io::Result<u64> {
        self.bytes.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.bytes.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        // Until then the data had this one.
        self.note();
        self.bytes.write_all_at(buf, offset)?;
        self.note();
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

fn open_with(header: Arc<dyn Storage>, data: Arc<dyn Storage>) -> (LuksVolume, DataFile) {
    let data = DataFile::of_storage(data, Path::new("volume"));
    let header = Input::of_storage(header, Path::new("header")).unwrap();
    let context = Context::default();
    let volume = LuksVolume::of_input(header, &context).unwrap();
    (volume.with_data(data.input().unwrap()), data)
}

/// Returns how many images were seen, and the first one that has lost something.
fn cut_power_with_a_client(
    protection: ZoneProtection,
    faults: Faults,
) -> std::result::Result<usize, String> {
    let mut image = volume_of(Blocks::blank());
    let header = MemoryStorage::new(image[..HEADER].to_vec());
    image[..HEADER].fill(0);
    let data = Arc::new(FaultyStorage::with_faults(image, faults));
    let blocks = Arc::new(Blocks {
        data: data.clone(),
        disk: OnceLock::new(),
        state: Mutex::new(Versions {
            random: Random::for_test("reencrypt::cut_power_with_a_client"),
            newest: [0; BLOCKS],
            durable: Vec::new(),
        }),
        comes: AtomicBool::new(false),
    });
    let header = Arc::new(Header {
        bytes: header,
        data: data.clone(),
        states: Mutex::default(),
    });
    let options = options(protection);
    let between_zones = {
        let blocks = blocks.clone();
        move |_| blocks.between_zones()
    };
    let context = Context {
        threads: Some(1.try_into().unwrap()),
        events: Arc::new(BetweenZones(Arc::new(between_zones))),
        ..Context::default()
    };
    let (volume, beneath) = open_with(header.clone(), Arc::new(Beneath(blocks.clone())));
    let export = DiskUse::default();
    let begun = reencrypt_in_use(volume, beneath, &secret(), &options, &export, &context);
    let (export, work) = begun.unwrap();
    assert!(blocks.disk.set(export.shared().clone()).is_ok());
    work.run(None).unwrap();
    drop(export);

    let (states, mut seen) = (header.states.lock().unwrap(), 0);
    for after in 0..=data.operation_count() {
        let mut same = states
            .iter()
            .filter(|(count, _)| *count == after)
            .collect::<Vec<_>>();
        let before = states.iter().rev().find(|(count, _)| *count < after);
        same.extend(before.filter(|_| same.is_empty()));
        same.dedup();
        for (_, header) in same {
            let check = |data: MemoryStorage, _: &Cut<'_>| {
                let header: Arc<dyn Storage> = Arc::new(MemoryStorage::new(header.clone()));
                let data: Arc<dyn Storage> = Arc::new(data);
                let (volume, file) = open_with(header, data);
                let (context, export) = (Context::default(), DiskUse::default());
                // The next start finishes the zone. At the end there is nothing left.
                let export = if volume.header.is_reencrypting() {
                    reencrypt_in_use(volume, file, &secret(), &options, &export, &context)
                        .map(|(export, _)| export)
                } else {
                    disk(volume, file)
                };
                let export = export.map_err(|error| error.to_string())?;
                let mut plain = Blocks::blank();
                let read = export.shared().read(&mut plain, 0);
                read.map_err(|error| error.to_string())?;
                blocks.check(after, &plain)
            };
            let images = data.cut_power(after, 0x5eed, check);
            seen += images.map_err(|broken| broken.to_string())?;
        }
    }
    Ok(seen)
}

#[test]
fn a_power_cut_loses_nothing_that_clients_made_durable() {
    for protection in PROTECTIONS {
        let seen = cut_power_with_a_client(protection, Faults::default()).unwrap();
        eprintln!("{protection:?}: {seen} images");
        assert!(seen > 100, "{seen}");
        let lost = cut_power_with_a_client(
            protection,
            Faults {
                ignore_syncs: true,
                ..Faults::default()
            },
        );
        assert!(lost.is_err());
    }
}

/// Runs it on a storage with faults, with `faults` for many numbers of successful transfers.
/// Returns how often it failed in a zone, and how often without one.
fn fail(faults: impl Fn(u64) -> Faults) -> (u32, u32) {
    let image = volume();
    let (mut in_zone, mut between) = (0, 0);
    for after in (20..1500).step_by(37) {
        let storage = Arc::new(FaultyStorage::with_faults(image.clone(), faults(after)));
        let options = options(PROTECTIONS[0]);
        let Ok((export, work)) = begin(storage.clone(), &options, &Context::default()) else {
            continue;
        };
        // Metadata that cannot be compared with what was written are read again.
        let Err(error) = work.run(None) else {
            continue;
        };
        let mut lost = 0;
        for (at, old) in plain_of(LEN).chunks(512).enumerate() {
            let mut found = vec![0; old.len()];
            let at = at as u64 * 512;
            match export.shared().read(&mut found, at) {
                Ok(()) => assert!(found == old, "{after}, {at}"),
                Err(_) => lost += 1,
            }
            let written = export.shared().write(&found, at);
            assert_eq!(written.is_ok(), found == old, "{after}, {at}");
        }
        assert!(lost <= ZONE / 512, "{lost}");
        let is_in_zone = matches!(error.find(), Some(ReencryptError::ZoneInUse { .. }));
        assert_eq!(is_in_zone, lost > 0, "{error}");
        *if lost > 0 { &mut in_zone } else { &mut between } += 1;
        drop(export);
        reencrypt(storage.clone(), &options, &Context::default()).unwrap();
        assert!(decrypted_of(storage, LEN) == plain_of(LEN));
    }
    (in_zone, between)
}

#[test]
fn after_an_error_all_but_one_zone_is_served() {
    let (in_zone, between) = fail(|after| Faults {
        fail_write_after: Some(after),
        ..Faults::default()
    });
    assert!(in_zone > 0 && between > 0, "{in_zone}, {between}");
    // A zone is read before it begins.
    let (_, between) = fail(|after| Faults {
        fail_read_after: Some(after),
        ..Faults::default()
    });
    assert!(between > 0);
}

/// A storage with no space for the holes in it.
struct Full(MemoryStorage);

impl Storage for Full {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn allocate(&self, _: u64, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::StorageFull.into())
    }
}

#[test]
fn without_space_nothing_changes() {
    let storage = Arc::new(Full(MemoryStorage::new(volume())));
    let options = options(ZoneProtection::None);
    let no_space = |error: Error| assert!(error.message().contains("no space"), "{error}");
    no_space(reencrypt(storage.clone(), &options, &Context::default()).unwrap_err());
    let storage = Arc::new(MemoryStorage::new(storage.0.to_bytes()));
    reencrypt(storage.clone(), &options, &Context::default()).unwrap();
    assert!(decrypted_of(storage, LEN) == plain_of(LEN));
}

#[test]
fn zones_are_shorter_while_clients_use_the_disk() {
    const MIB: u64 = 1 << 20;
    let storage = Arc::new(MemoryStorage::default());
    let plain = plain_of(12 << 20);
    let mut input = Input::of_stream(Cursor::new(plain), Path::new("plain"));
    let output = Output::of_storage(storage.clone(), Path::new("volume"));
    let (new, quiet) = (new_volume(8 * MIB), Context::default());
    luxor::encrypt_to(&mut input, output, &new, || Ok(secret()), &quiet).unwrap();
    let disk = Arc::new(OnceLock::<Arc<Disk>>::new());
    let ends = Arc::new(Mutex::new(Vec::new()));
    let between_zones = {
        let (disk, ends) = (disk.clone(), ends.clone());
        move |done| {
            ends.lock().unwrap().push(done / MIB);
            // A client uses the disk until 3 MiB are done.
            if (MIB..=3 * MIB).contains(&done) {
                disk.get().unwrap().read(&mut [0; 512], 0).unwrap();
            }
        }
    };
    let context = Context {
        events: Arc::new(BetweenZones(Arc::new(between_zones))),
        ..Context::default()
    };
    let options = ReencryptOptions {
        zone: None,
        ..options(PROTECTIONS[0])
    };
    let (export, work) = begin(storage, &options, &context).unwrap();
    assert!(disk.set(export.shared().clone()).is_ok());
    work.run(None).unwrap();
    assert_eq!(*ends.lock().unwrap(), [0, 1, 2, 3, 4, 8, 12]);
}

#[test]
fn what_moves_data_or_is_read_only_is_refused() {
    let storage = Arc::new(MemoryStorage::new(volume()));
    let (volume, data) = open(storage);
    let read_only = DiskUse {
        read_only: true,
        ..DiskUse::default()
    };
    let (options, context) = (options(PROTECTIONS[0]), Context::default());
    let refused = reencrypt_in_use(volume, data, &secret(), &options, &read_only, &context);
    assert!(refused.err().unwrap().message().contains("read-only"));

    let mut image = plain_of(SHIFTED_LEN);
    image.resize(SHIFTED_LEN + 2 * SHIFT, 0);
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new(image));
    let data = DataFile::of_storage(storage.clone(), Path::new("volume"));
    let (new, by) = (new_volume(SHIFT as u64), 2 * SHIFT as u64);
    let only = ReencryptOptions::default();
    luxor::put_header_in_front(&data, by, &new, || Ok(secret()), &only, &context).unwrap();
    let refused = begin(storage, &only, &context).err().unwrap();
    assert!(refused.message().contains("plain data"), "{refused}");

    let storage = Arc::new(MemoryStorage::new(super::volume()));
    let refused = begin(storage, &self::options(ZoneProtection::None), &context).err();
    assert!(refused.unwrap().message().contains("resilience none"));
}
