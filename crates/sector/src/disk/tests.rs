// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares a disk with a vector of bytes, and its storage with the slow reference.

mod faults;
mod hold;
mod room;

use std::{sync::atomic::AtomicBool, thread, time::Duration};

use luxor_conformance::Random;
use luxor_engine::{KeySpec, Mode, Registry, XtsKey};

use super::*;
use crate::{
    MemoryStorage, SectorSize,
    faulty::{Faults, FaultyStorage, Operation},
    geometry::{Geometry, IvMode},
};

fn key_bytes(number: u8) -> Vec<u8> {
    (0..64).map(|i: u8| i.wrapping_mul(3) ^ number).collect()
}

fn key(number: u8) -> Arc<dyn LoadedKey> {
    let spec = KeySpec::Xts(XtsKey::new(&key_bytes(number)).unwrap());
    let backend = Registry::cpu().best(Mode::Xts).unwrap();
    Arc::from(backend.load_key(&spec).unwrap())
}

fn part(offset: u64, len: u64, sector_size: SectorSize, number: u8) -> Part {
    let geometry = Geometry {
        sector_size,
        iv_mode: IvMode::Plain64,
        iv_offset: 1000,
        iv_large_sectors: false,
    };
    Part {
        offset,
        len,
        crypt: Some((key(number), geometry)),
    }
}

/// A disk of one part in a storage of zeros, with 4096 unused bytes before it and at least as many
/// after it.
fn single(len: u64, sector_size: SectorSize) -> (Arc<FaultyStorage>, Disk) {
    with_faults(len, sector_size, Faults::default())
}

fn with_faults(len: u64, sector_size: SectorSize, faults: Faults) -> (Arc<FaultyStorage>, Disk) {
    let stored = usize::try_from(len).unwrap().next_multiple_of(4096) + 2 * 4096;
    let storage = Arc::new(FaultyStorage::with_faults(vec![0; stored], faults));
    let parts = vec![part(4096, len, sector_size, 1)];
    let disk = Disk::new(storage.clone(), parts, DiskOptions::default()).unwrap();
    (storage, disk)
}

/// The ciphertext that the storage must contain for `plain`, a whole number of sectors.
fn encrypted(plain: &[u8], sector: usize, number: u8) -> Vec<u8> {
    let numbers = (1000..).step_by(sector / 512);
    plain
        .chunks(sector)
        .zip(numbers)
        .flat_map(|(bytes, i)| luxor_reference::xts_encrypt(&key_bytes(number), i, bytes))
        .collect()
}

/// `plain` extended to whole sectors, if the rest of the last sector is unchanged in a storage that
/// was all zeros.
fn padded(plain: &[u8], sector: usize, number: u8) -> Vec<u8> {
    let mut padded = plain.to_vec();
    let over = plain.len() % sector;
    if over > 0 {
        let i = 1000 + plain.len() / sector * (sector / 512);
        let noise = luxor_reference::xts_decrypt(&key_bytes(number), i as u128, &vec![0; sector]);
        padded.extend(&noise[over..]);
    }
    padded
}

/// Storage that accepts only whole units.
struct Aligned<S> {
    storage: S,
    unit: usize,
}

impl<S: Storage> Storage for Aligned<S> {
    fn alignment(&self) -> usize {
        self.unit
    }

    fn len(&self) -> io::Result<u64> {
        self.storage.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        assert!((offset | buf.len() as u64).is_multiple_of(self.unit as u64));
        self.storage.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        assert!((offset | buf.len() as u64).is_multiple_of(self.unit as u64));
        self.storage.write_all_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.storage.sync()
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        assert!((offset | len).is_multiple_of(self.unit as u64));
        self.storage.discard(offset, len)
    }
}

/// Lengths and offsets around every edge: of sectors, of pieces and of parts.
#[test]
fn requests_of_any_kind_act_like_a_vector() {
    let mut random = Random::for_test("disk::requests_of_any_kind");
    for (round, (limit, unit)) in [
        (None, 1),
        (Some(512), 1),
        (Some(4096), 1),
        (Some(100), 1),
        (None, 512),
        (None, 4096),
        (Some(512), 4096),
    ]
    .into_iter()
    .enumerate()
    {
        // The order in the storage: third part, second part (unencrypted), first part, fourth part.
        let plain = 1000_usize.next_multiple_of(unit);
        let parts = vec![
            part(20480, 8192, SectorSize::B4096, 1),
            Part {
                offset: 16384,
                len: plain as u64,
                crypt: None,
            },
            part(0, 16384, SectorSize::B512, 2),
            part(28672, 3 * 1024 + 7, SectorSize::B1024, 3),
        ];
        let lens: Vec<_> = parts
            .iter()
            .map(|part| usize::try_from(part.len).unwrap())
            .collect();
        let storage = Arc::new(Aligned {
            storage: MemoryStorage::new(vec![0; 28672 + 4 * 1024]),
            unit,
        });
        let options = DiskOptions {
            request_limit: limit.and_then(NonZeroUsize::new),
            threads: NonZeroUsize::new(2),
            ..DiskOptions::default()
        };
        let disk = Disk::new(storage.clone(), parts, options).unwrap();
        assert_eq!(disk.sector_size(), 4096);
        let len = lens.iter().sum::<usize>();
        assert_eq!(disk.len(), len as u64);
        let mut model = random.bytes(len);
        disk.write(&model, 0).unwrap();
        let edges: Vec<usize> = lens
            .iter()
            .scan(0, |sum, len| {
                *sum += len;
                Some(*sum)
            })
            .chain([0, 512, 4096, 8192 + 500, 8192 + plain + 512])
            .collect();
        for _ in 0..600 {
            let near = |random: &mut Random| {
                let edge = edges[random.below(edges.len())];
                let by = [0, 0, 1, 511, 512, 513, 4095][random.below(7)];
                let around = if random.below(2) == 0 {
                    edge + by
                } else {
                    edge.saturating_sub(by)
                };
                if random.below(4) == 0 {
                    random.below(len + 1)
                } else {
                    around.min(len)
                }
            };
            let (a, b) = (near(&mut random), near(&mut random));
            let range = a.min(b)..a.max(b);
            let at = range.start as u64;
            match random.below(4) {
                0 => {
                    let mut buf = vec![0xaa; range.len()];
                    disk.read(&mut buf, at).unwrap();
                    assert!(buf == model[range.clone()], "{range:?} in round {round}");
                }
                1 => {
                    let bytes = random.bytes(range.len());
                    disk.write(&bytes, at).unwrap();
                    model[range].copy_from_slice(&bytes);
                }
                2 => {
                    disk.write_zeroes(at, range.len() as u64).unwrap();
                    model[range].fill(0);
                }
                _ => batch(&disk, &mut model, &mut random, &edges),
            }
        }
        let mut all = vec![0; len];
        disk.read(&mut all, 0).unwrap();
        assert!(all == model);

        let stored = storage.storage.to_bytes();
        let third = 8192 + plain;
        assert!(stored[20480..28672] == encrypted(&model[..8192], 4096, 1));
        assert!(stored[16384..16384 + plain] == model[8192..third]);
        assert!(stored[..16384] == encrypted(&model[third..third + 16384], 512, 2));
        let last = padded(&model[third + 16384..], 1024, 3);
        assert!(stored[28672..] == encrypted(&last, 1024, 3));
        assert!(stored[16384 + plain..20480].iter().all(|&b| b == 0));
    }
}

/// Runs a batch of reads and writes, some of which overlap, on disk and model.
fn batch(disk: &Disk, model: &mut [u8], random: &mut Random, edges: &[usize]) {
    let count = random.below(12);
    let mut buffers = Vec::new();
    for _ in 0..count {
        let begin = edges[random.below(edges.len())] / 512 * 512;
        let len = [0, 1, 512, 512, 1024, 4096, 5000][random.below(7)].min(model.len() - begin);
        let write = random.below(2) == 0;
        let bytes = if write {
            random.bytes(len)
        } else {
            vec![0xaa; len]
        };
        buffers.push((begin, write, bytes));
    }
    let mut before = buffers.clone();
    let mut transfers: Vec<_> = buffers
        .iter_mut()
        .map(|(begin, write, bytes)| Transfer {
            offset: *begin as u64,
            data: if *write {
                TransferData::Write(bytes)
            } else {
                TransferData::Read(bytes)
            },
            result: Err(io::Error::other("not done")),
        })
        .collect();
    disk.transfer(&mut transfers);
    for transfer in &transfers {
        assert!(transfer.result.is_ok(), "{transfer:?}");
    }
    drop(transfers);
    // Overlapping requests take effect in their order.
    for ((begin, write, bytes), (_, _, done)) in before.iter_mut().zip(&buffers) {
        let range = *begin..*begin + bytes.len();
        if *write {
            model[range].copy_from_slice(bytes);
        } else {
            assert!(*done == model[range.clone()], "{range:?}");
        }
    }
}

#[test]
fn long_requests_go_in_pieces() {
    let len = 2 * PIECE + 5000;
    let mut random = Random::for_test("disk::long_requests");
    let (storage, disk) = single(len as u64, SectorSize::B512);
    let mut model = random.bytes(len);
    disk.write(&model, 0).unwrap();
    for (offset, len) in [
        (0, len),
        (1, len - 1),
        (511, 2 * PIECE),
        (PIECE - 1, PIECE + 2),
    ] {
        let mut bytes = random.bytes(len);
        model[offset..offset + len].copy_from_slice(&bytes);
        let mut lent = [Transfer {
            offset: offset as u64,
            data: TransferData::Write(&mut bytes),
            result: Ok(()),
        }];
        disk.transfer(&mut lent);
        assert!(lent[0].result.is_ok());
        let mut found = vec![0; len];
        disk.read(&mut found, offset as u64).unwrap();
        assert!(found == model[offset..offset + len]);
    }
    let padded = padded(&model, 512, 1);
    let stored = storage.to_bytes();
    assert!(stored[4096..4096 + padded.len()] == encrypted(&padded, 512, 1));
    assert!(stored[4096 + padded.len()..].iter().all(|&b| b == 0));
}

/// Storage that writes the first half of a request a while before the second.
struct Halves(MemoryStorage);

impl Storage for Halves {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let (first, second) = buf.split_at(buf.len() / 2);
        self.0.write_all_at(first, offset)?;
        thread::sleep(Duration::from_micros(500));
        self.0.write_all_at(second, offset + first.len() as u64)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}

/// A writer of part of a sector does not undo what another writes to the rest.
#[test]
fn writers_of_one_sector_do_not_lose_bytes() {
    const LEN: usize = 16 << 10;
    let storage = Halves(MemoryStorage::new(vec![0; LEN]));
    let parts = vec![part(0, LEN as u64, SectorSize::B4096, 1)];
    let disk = Disk::new(Arc::new(storage), parts, DiskOptions::default()).unwrap();
    thread::scope(|scope| {
        for k in 0..4_usize {
            let disk = &disk;
            scope.spawn(move || {
                for i in (0..LEN / 64).filter(|i| i % 4 == k) {
                    let bytes = [i.to_le_bytes()[0]; 64];
                    disk.write(&bytes, (i * 64) as u64).unwrap();
                    let mut found = [0; 64];
                    disk.read(&mut found, (i * 64) as u64).unwrap();
                    assert_eq!(found, bytes);
                }
            });
        }
    });
    let mut all = vec![0; LEN];
    disk.read(&mut all, 0).unwrap();
    for (i, bytes) in all.chunks(64).enumerate() {
        assert_eq!(bytes, [i.to_le_bytes()[0]; 64]);
    }
}

/// Writing zeros takes little memory, whatever the length, because no server accounts for it.
#[test]
fn zeros_are_encrypted_in_short_pieces() {
    let len = 2 * PIECE;
    let (storage, disk) = single(len as u64, SectorSize::B4096);
    disk.write_zeroes(0, len as u64).unwrap();
    let mut written = 0;
    for operation in storage.operations() {
        if let Operation::Write { bytes, .. } = operation {
            assert!(bytes.len() <= ZEROS, "{}", bytes.len());
            written += bytes.len();
        }
    }
    assert_eq!(written, len);
}

/// A reader sees each request as one writer left it, whether or not it is part of a batch.
#[test]
fn readers_see_no_half_written_request() {
    let storage = Halves(MemoryStorage::new(vec![0; 8192]));
    let parts = vec![part(0, 8192, SectorSize::B512, 1)];
    let disk = &Disk::new(Arc::new(storage), parts, DiskOptions::default()).unwrap();
    disk.write_zeroes(0, 8192).unwrap();
    let transfer = |data: TransferData<'_>| {
        let mut batch = [Transfer {
            offset: 2048,
            data,
            result: Ok(()),
        }];
        disk.transfer(&mut batch);
        batch[0].result.as_ref().unwrap();
    };
    let twice = || {
        let mut bytes = [[1; 4096], [2; 4096]];
        let mut batch = bytes.each_mut().map(|bytes| Transfer {
            offset: 2048,
            data: TransferData::Write(bytes),
            result: Ok(()),
        });
        disk.transfer(&mut batch);
        batch.into_iter().for_each(|one| one.result.unwrap());
    };
    let over = &AtomicBool::new(false);
    let look = |read: &dyn Fn(&mut [u8])| {
        while !over.load(Ordering::Relaxed) {
            let mut buf = [9; 4096];
            read(&mut buf);
            assert!(buf.iter().all(|&b| b == buf[0] && b < 3));
        }
    };
    thread::scope(|scope| {
        let one = scope.spawn(|| (0..25).for_each(|_| disk.write(&[1; 8192], 0).unwrap()));
        let other = scope.spawn(|| {
            (0..25).for_each(|_| transfer(TransferData::Write(&mut [2; 4096])));
        });
        let third = scope.spawn(|| (0..12).for_each(|_| twice()));
        scope.spawn(|| look(&|buf| disk.read(buf, 2048).unwrap()));
        scope.spawn(|| look(&|buf| transfer(TransferData::Read(buf))));
        let written = [one.join(), other.join(), third.join()];
        over.store(true, Ordering::Relaxed);
        assert!(written.iter().all(Result::is_ok));
    });
}

#[test]
fn requests_beyond_the_end_are_refused() {
    let (storage, disk) = single(1000, SectorSize::B512);
    for (offset, len) in [
        (1000, 1),
        (0, 1001),
        (999, 2),
        (u64::MAX, 1),
        (u64::MAX, usize::MAX),
    ] {
        let refused = |result: io::Result<()>| {
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::InvalidInput);
        };
        if len < 2000 {
            let mut buf = vec![0; len];
            refused(disk.read(&mut buf, offset));
            refused(disk.write(&buf, offset));
            let mut batch = [Transfer {
                offset,
                data: TransferData::Write(&mut buf),
                result: Ok(()),
            }];
            disk.transfer(&mut batch);
            refused(std::mem::replace(&mut batch[0].result, Ok(())));
        }
        refused(disk.write_zeroes(offset, len as u64));
        refused(disk.discard(offset, len as u64));
        refused(disk.will_need(offset, len as u64));
    }
    disk.read(&mut [], 1000).unwrap();
    disk.write(&[], 1000).unwrap();
    assert_eq!(storage.operations(), []);
}

#[test]
fn a_read_only_disk_is_not_written() {
    let storage = Arc::new(FaultyStorage::new(vec![0; 8192]));
    let options = DiskOptions {
        read_only: true,
        allow_discards: true,
        ..DiskOptions::default()
    };
    let parts = vec![part(0, 8192, SectorSize::B512, 1)];
    let disk = Disk::new(storage.clone(), parts, options).unwrap();
    let refused = |result: io::Result<()>| {
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    };
    assert!(disk.is_read_only() && !disk.allows_discards());
    refused(disk.write(&[1], 0));
    refused(disk.write_zeroes(0, 512));
    refused(disk.discard(0, 512));
    let mut bytes = [1; 512];
    let mut batch = [Transfer {
        offset: 0,
        data: TransferData::Write(&mut bytes),
        result: Ok(()),
    }];
    disk.transfer(&mut batch);
    refused(std::mem::replace(&mut batch[0].result, Ok(())));
    disk.flush().unwrap();
    assert_eq!(storage.operations(), []);
}

#[test]
fn parts_beyond_the_storage_are_refused() {
    let new = |parts| {
        let storage = Arc::new(MemoryStorage::new(vec![0; 8192]));
        Disk::new(storage, parts, DiskOptions::default()).map(|disk| disk.len())
    };
    let b512 = SectorSize::B512;
    assert_eq!(new(vec![part(0, 8192, b512, 1)]).unwrap(), 8192);
    assert_eq!(new(vec![part(512, 7680 - 5, b512, 1)]).unwrap(), 7675);
    assert_eq!(new(vec![]).unwrap(), 0);
    let error = new(vec![part(512, 7681, b512, 1)]).unwrap_err();
    assert!(
        matches!(
            error,
            DiskError::Short {
                needed: 8704,
                found: 8192
            }
        ),
        "{error}"
    );
    let error = new(vec![part(0, 511, b512, 1), part(512, 512, b512, 1)]).unwrap_err();
    assert!(
        matches!(
            error,
            DiskError::PartSector {
                number: 0,
                len: 511
            }
        ),
        "{error}"
    );
    for (offset, len) in [(u64::MAX, 512), (512, u64::MAX), (u64::MAX - 511, 512)] {
        let error = new(vec![part(offset, len, b512, 1)]).unwrap_err();
        assert!(matches!(error, DiskError::Overflow { .. }), "{error}");
    }
}

#[test]
fn parts_without_valid_numbers_are_refused() {
    let mut odd = part(512, 8192, SectorSize::B4096, 1);
    let (_, geometry) = odd.crypt.as_mut().unwrap();
    (geometry.iv_large_sectors, geometry.iv_offset) = (true, 9);
    let parts = vec![part(0, 512, SectorSize::B512, 1), odd];
    let storage = Arc::new(MemoryStorage::new(vec![0; 16384]));
    let error = Disk::new(storage, parts, DiskOptions::default()).unwrap_err();
    assert!(
        matches!(error, DiskError::Geometry { number: 1, .. }),
        "{error}"
    );
}

/// Nothing next to a part may be read or written, so parts must begin and end at whole units.
#[test]
fn parts_not_aligned_to_the_storage_are_refused() {
    let b512 = SectorSize::B512;
    for (unit, parts, expected) in [
        (512, vec![part(512, 1024, b512, 1)], None),
        (512, vec![part(512, 1000, b512, 1)], None),
        (4096, vec![part(4096, 8192, b512, 1)], None),
        (4096, vec![part(4096, 8000, b512, 1)], None),
        (4096, vec![part(0, 5000, SectorSize::B4096, 1)], None),
        (4096, vec![part(512, 4096, b512, 1)], Some((512, 4608))),
        (4096, vec![part(0, 4000 - 512, b512, 1)], Some((0, 3584))),
        (4096, vec![part(8192, 1, b512, 1)], Some((8192, 8704))),
        (
            4096,
            vec![part(0, 512, b512, 1), part(4096, 4096, b512, 1)],
            Some((0, 512)),
        ),
    ] {
        let storage = Aligned {
            storage: MemoryStorage::new(vec![0; 16384]),
            unit,
        };
        let made = Disk::new(Arc::new(storage), parts, DiskOptions::default());
        match (made, expected) {
            (Ok(disk), None) => assert_eq!(disk.sector_size(), unit),
            (Err(error), Some((from, to))) => {
                assert!(
                    matches!(error, DiskError::Alignment { begin, end, alignment }
                        if (begin, end, alignment) == (from, to, unit)),
                    "{error}"
                );
                assert!(error.to_string().contains("direct I/O"));
            }
            (made, expected) => panic!("{made:?}, and not {expected:?}"),
        }
    }
}

/// Writers of sectors within one unit do not undo each other's writes.
#[test]
fn writers_of_one_unit_do_not_lose_sectors() {
    let storage = Arc::new(Aligned {
        storage: Halves(MemoryStorage::new(vec![0; 65536])),
        unit: 4096,
    });
    let parts = vec![part(0, 65536, SectorSize::B512, 1)];
    let disk = Disk::new(storage.clone(), parts, DiskOptions::default()).unwrap();
    thread::scope(|scope| {
        for k in 0..4_u8 {
            let disk = &disk;
            scope.spawn(move || {
                for sector in (u64::from(k)..128).step_by(4) {
                    let mut bytes = [k; 512];
                    let mut batch = [Transfer {
                        offset: sector * 512,
                        data: TransferData::Write(&mut bytes),
                        result: Ok(()),
                    }];
                    disk.transfer(&mut batch);
                    batch[0].result.as_ref().unwrap();
                }
            });
        }
    });
    let plain: Vec<u8> = (0..65536).map(|i| [0, 1, 2, 3][i / 512 % 4]).collect();
    assert!(storage.storage.0.to_bytes() == encrypted(&plain, 512, 1));
}

#[test]
fn a_limit_makes_more_calls_of_the_engine_and_the_same_bytes() {
    for (limit, calls) in [(None, 1), (Some(512), 16), (Some(4096), 2), (Some(1), 16)] {
        let storage = Arc::new(MemoryStorage::new(vec![0; 8192]));
        let options = DiskOptions {
            request_limit: limit.and_then(NonZeroUsize::new),
            ..DiskOptions::default()
        };
        let parts = vec![part(0, 8192, SectorSize::B512, 1)];
        let disk = Disk::new(storage.clone(), parts, options).unwrap();
        disk.write(&[5; 8192], 0).unwrap();
        let time = disk.engine_time();
        assert_eq!((time.bytes, time.calls), (8192, calls));
        assert!(time.nanoseconds > 0);
        assert!(storage.to_bytes() == encrypted(&[5; 8192], 512, 1));
    }
}
