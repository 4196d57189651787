// SPDX-License-Identifier: MIT OR Apache-2.0
//! A re-encryption of a volume that clients read and write meanwhile.

use std::{sync::mpsc, thread};

use luxor::{ReencryptionInUse, reencrypt_in_use};
use luxor_conformance::Random;
use luxor_sector::{
    Disk,
    faulty::{Operation, SyncOutcome},
};

use super::*;

/// Several zones, and an end within a sector.
const LEN: usize = (180 << 10) + 100;

fn volume() -> Vec<u8> {
    let storage = Arc::new(MemoryStorage::default());
    let mut input = Input::of_stream(Cursor::new(plain_of(LEN)), Path::new("plain"));
    let output = Output::of_storage(storage.clone(), Path::new("volume"));
    let (new, context) = (new_volume(312 << 10), Context::default());
    luxor::encrypt_to(&mut input, output, &new, || Ok(secret()), &context).unwrap();
    storage.to_bytes()
}

fn begin(
    storage: Arc<dyn Storage>,
    options: &ReencryptOptions,
    context: &Context,
) -> Result<(Export, ReencryptionInUse)> {
    let (volume, data) = open(storage);
    let export = ExportOptions::default();
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

/// Runs a re-encryption with clients until it ends, or until it is stopped. Returns whether it ended, and the
/// plaintext.
fn with_clients(
    storage: Arc<dyn Storage>,
    protection: ZoneProtection,
    stops: bool,
) -> (bool, Vec<u8>) {
    let (export, work) = begin(storage, &options(protection), &Context::default()).unwrap();
    let (stop, stopped) = mpsc::channel();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (disk, is_done) = (&export.disk, &is_done);
        let clients: Vec<_> = (0..3)
            .map(|number| scope.spawn(move || client(number, disk, is_done)))
            .collect();
        let work = scope.spawn(move || work.run(None, &stopped).unwrap());
        if stops {
            thread::sleep(std::time::Duration::from_millis(5));
            drop(stop);
        } else {
            std::mem::forget(stop);
        }
        let ended = work.join().unwrap();
        is_done.store(true, Ordering::Relaxed);
        let mut plain = vec![0; LEN];
        for client in clients {
            let own = client.join().unwrap();
            plain
                .iter_mut()
                .zip(own)
                .for_each(|(byte, own)| *byte |= own);
        }
        let mut found = vec![0; LEN];
        disk.read(&mut found, 0).unwrap();
        assert!(found == plain);
        disk.flush().unwrap();
        (ended, plain)
    })
}

#[test]
fn clients_read_and_write_meanwhile() {
    for protection in PROTECTIONS {
        let storage = Arc::new(MemoryStorage::new(volume()));
        let (ended, plain) = with_clients(storage.clone(), protection, false);
        assert!(ended);
        let (volume, _) = open(storage.clone());
        assert!(!volume.header.is_reencrypting());
        assert!(decrypted_of(storage, LEN) == plain, "{protection:?}");
    }
}

#[test]
fn what_is_stopped_continues_without_clients() {
    let storage = Arc::new(MemoryStorage::new(volume()));
    let protection = PROTECTIONS[0];
    let (ended, plain) = with_clients(storage.clone(), protection, true);
    assert!(!ended);
    reencrypt(storage.clone(), &options(protection), &Context::default()).unwrap();
    assert!(decrypted_of(storage, LEN) == plain);
}

/// The header is another file, so that a sync of it does not make the data durable.
#[test]
fn what_clients_wrote_is_durable_before_its_checksums_count() {
    const HEADER: usize = 312 << 10;
    let mut image = super::volume();
    let header = Arc::new(MemoryStorage::new(image[..HEADER].to_vec()));
    image[..HEADER].fill(0);
    let storage = Arc::new(FaultyStorage::new(image));
    let data = DataFile::of_storage(storage.clone(), Path::new("volume"));
    let header = Input::of_storage(header, Path::new("header")).unwrap();
    let context = Context::default();
    let volume = Volume::open_with_header(data.input().unwrap(), Some(header), &context);
    let (options, export) = (options(PROTECTIONS[0]), ExportOptions::default());
    let begun = reencrypt_in_use(
        volume.unwrap(),
        data,
        &secret(),
        &options,
        &export,
        &context,
    );
    let (export, work) = begun.unwrap();
    export.disk.write(&[7], 0).unwrap();
    let before = storage.operation_count();
    let (_stop, stopped) = mpsc::channel();
    work.run(None, &stopped).unwrap();
    let operations = storage.operations();
    let first = &operations[before];
    assert!(
        matches!(first, Operation::Sync(SyncOutcome::Durable)),
        "{first}"
    );
}

#[test]
fn after_an_error_all_but_one_zone_is_served() {
    let image = volume();
    let mut failed = 0;
    for after in (20..).step_by(37) {
        let faults = Faults {
            fail_write_after: Some(after),
            ..Faults::default()
        };
        let storage = Arc::new(FaultyStorage::with_faults(image.clone(), faults));
        let options = options(PROTECTIONS[0]);
        let Ok((export, work)) = begin(storage.clone(), &options, &Context::default()) else {
            continue;
        };
        let (_stop, stopped) = mpsc::channel();
        if work.run(None, &stopped).is_ok() {
            break;
        }
        let mut lost = 0;
        for (at, old) in plain_of(LEN).chunks(512).enumerate() {
            let mut found = vec![0; old.len()];
            let at = at as u64 * 512;
            match export.disk.read(&mut found, at) {
                Ok(()) => assert!(found == old, "{after}, {at}"),
                Err(_) => lost += 1,
            }
            let written = export.disk.write(&found, at);
            assert_eq!(written.is_ok(), found == old, "{after}, {at}");
        }
        // The end can fail too.
        assert!(lost <= ZONE / 512, "{lost}");
        failed += u32::from(lost > 0);
        drop(export);
        reencrypt(storage.clone(), &options, &Context::default()).unwrap();
        assert!(decrypted_of(storage, LEN) == plain_of(LEN));
    }
    assert!(failed > 2, "{failed}");
}

#[test]
fn what_moves_data_or_is_read_only_is_refused() {
    let storage = Arc::new(MemoryStorage::new(volume()));
    let (volume, data) = open(storage);
    let read_only = ExportOptions {
        read_only: true,
        ..ExportOptions::default()
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
}
