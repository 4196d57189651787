// SPDX-License-Identifier: MIT OR Apache-2.0
//! Storage and keys that fail, or do less than they were asked for.

use luxor_engine::{CryptError, CryptErrorKind};

use super::*;

#[test]
fn a_flush_makes_earlier_writes_durable() {
    let (storage, disk) = single(8192, SectorSize::B512);
    let syncs = || {
        let operations = storage.operations();
        operations
            .iter()
            .filter(|done| matches!(done, Operation::Sync(_)))
            .count()
    };
    disk.flush().unwrap();
    assert_eq!(syncs(), 0, "nothing was written yet");
    for (count, write) in [
        (1, &(|| disk.write(&[1; 100], 3).unwrap()) as &dyn Fn()),
        (2, &|| disk.write_zeroes(0, 512).unwrap()),
        (3, &|| {
            let mut bytes = [1; 512];
            disk.transfer(&mut [Transfer {
                offset: 512,
                data: TransferData::Write(&mut bytes),
                result: Ok(()),
            }]);
        }),
    ] {
        assert!(!disk.is_dirty());
        write();
        assert!(disk.is_dirty());
        disk.flush().unwrap();
        disk.flush().unwrap();
        assert_eq!(syncs(), count);
    }
    assert!(matches!(
        storage.operations().last(),
        Some(Operation::Sync(_))
    ));
}

#[test]
fn after_a_failed_sync_nothing_is_called_durable() {
    let faults = Faults {
        fail_sync_after: Some(1),
        ..Faults::default()
    };
    let (_, disk) = with_faults(8192, SectorSize::B512, faults);
    disk.write(&[1], 0).unwrap();
    disk.flush().unwrap();
    disk.write(&[1], 0).unwrap();
    assert_eq!(disk.flush().unwrap_err().raw_os_error(), Some(5));
    // The system's next sync succeeds, but means nothing.
    for _ in 0..2 {
        let error = disk.flush().unwrap_err();
        assert!(error.to_string().contains("may be lost"), "{error}");
    }
    // What is there can still be read.
    disk.read(&mut [0; 512], 0).unwrap();
}

/// Only the request that meets the fault fails, in a batch too.
#[test]
fn one_bad_sector_fails_one_request() {
    for bad in 0..4 {
        let faults = Faults {
            fail_read_after: Some(bad),
            fail_write_after: Some(4 + bad),
            ..Faults::default()
        };
        let (_, disk) = with_faults(8192, SectorSize::B512, faults);
        let mut plain: Vec<Vec<u8>> = (0..4).map(|k| vec![k + 1; 512]).collect();
        for write in [true, false] {
            // In the first round of writes, all succeed.
            for last in if write {
                [false, true].as_slice()
            } else {
                &[true]
            } {
                let mut buffers = plain.clone();
                let mut batch: Vec<_> = (0..)
                    .zip(&mut buffers)
                    .map(|(k, bytes)| Transfer {
                        offset: k * 1024,
                        data: if write {
                            TransferData::Write(bytes)
                        } else {
                            TransferData::Read(bytes)
                        },
                        result: Ok(()),
                    })
                    .collect();
                disk.transfer(&mut batch);
                for (k, transfer) in (0..).zip(&batch) {
                    let expected = (*last && k == bad).then_some(5);
                    let found = transfer.result.as_ref().err();
                    assert_eq!(found.and_then(io::Error::raw_os_error), expected);
                }
                drop(batch);
                if !write {
                    plain[usize::try_from(bad).unwrap()]
                        .clone_from(&buffers[usize::try_from(bad).unwrap()]);
                    assert!(buffers == plain);
                }
            }
        }
    }
}

#[test]
fn short_transfers_are_completed() {
    for longest in [1, 7, 511] {
        let faults = Faults {
            longest_transfer: NonZeroUsize::new(longest),
            ..Faults::default()
        };
        let (storage, disk) = with_faults(4096, SectorSize::B512, faults);
        disk.write(&[7; 4096], 0).unwrap();
        let mut buf = [0; 3000];
        disk.read(&mut buf, 17).unwrap();
        assert_eq!(buf, [7; 3000]);
        assert!(storage.to_bytes()[4096..8192] == encrypted(&[7; 4096], 512, 1));
    }
}

/// Otherwise, what was cut off would appear again, as noise.
#[test]
fn a_file_that_was_cut_off_does_not_grow_again() {
    let file = Arc::new(tempfile::tempfile().unwrap());
    file.set_len(65536).unwrap();
    let parts = vec![part(0, 65536, SectorSize::B512, 1)];
    let disk = Disk::new(file.clone(), parts, DiskOptions::default()).unwrap();
    file.set_len(32768 + 100).unwrap();
    let gone = |result: io::Result<()>| {
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    };
    let mut buffers = vec![vec![7; 1024]; 3];
    let mut batch: Vec<_> = [0, 32768 - 512, 60000 / 512 * 512]
        .into_iter()
        .zip(&mut buffers)
        .map(|(offset, bytes)| Transfer {
            offset,
            data: TransferData::Write(bytes),
            result: Ok(()),
        })
        .collect();
    disk.transfer(&mut batch);
    let mut results = batch.into_iter().map(|one| one.result);
    results.next().unwrap().unwrap();
    results.for_each(gone);
    gone(disk.write(&[7; 512], 65536 - 512));
    gone(disk.write(&[7; 512], 32768));
    gone(disk.write_zeroes(0, 65536));
    assert_eq!(file.metadata().unwrap().len(), 32768 + 100);
    disk.write(&[7; 32768], 0).unwrap();
    gone(disk.read(&mut [0; 512], 32768));
}

/// Storage that reports its length only once.
struct Unmeasured(MemoryStorage, AtomicBool);

impl Storage for Unmeasured {
    fn len(&self) -> io::Result<u64> {
        if self.1.swap(true, Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        self.0.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        unreachable!()
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn nothing_is_written_to_storage_without_a_length() {
    let storage = Unmeasured(MemoryStorage::new(vec![0; 4096]), AtomicBool::default());
    let parts = vec![part(0, 4096, SectorSize::B512, 1)];
    let disk = Disk::new(Arc::new(storage), parts, DiskOptions::default()).unwrap();
    let mut bytes = [7; 1024];
    let mut batch = [Transfer {
        offset: 0,
        data: TransferData::Write(&mut bytes),
        result: Ok(()),
    }];
    disk.transfer(&mut batch);
    let [Transfer { result, .. }] = batch;
    for result in [result, disk.write(&[7; 512], 0)] {
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::Interrupted);
    }
    disk.read(&mut [0; 512], 0).unwrap();
}

/// A key that fails.
struct Broken;

impl LoadedKey for Broken {
    fn crypt(&self, _: Direction, _: &mut [Run<'_>]) -> Result<(), CryptError> {
        let kind = CryptErrorKind::Device {
            backend: "test",
            message: "on fire".into(),
        };
        Err(CryptError::new(0, kind))
    }
}

#[test]
fn data_that_cannot_be_encrypted_are_not_written() {
    let storage = Arc::new(FaultyStorage::new(vec![0; 8192]));
    let mut parts = vec![part(0, 8192, SectorSize::B512, 1)];
    let geometry = parts[0].crypt.take().unwrap().1;
    parts[0].crypt = Some((Arc::new(Broken), geometry));
    let disk = Disk::new(storage.clone(), parts, DiskOptions::default()).unwrap();
    for offset in [0, 3] {
        for error in [
            disk.write(&[1; 512], offset).unwrap_err(),
            disk.write_zeroes(offset, 512).unwrap_err(),
            disk.read(&mut [1; 512], offset).unwrap_err(),
        ] {
            assert!(error.to_string().contains("on fire"), "{error}");
        }
        let mut bytes = [1; 512];
        let mut batch = [Transfer {
            offset,
            data: TransferData::Write(&mut bytes),
            result: Ok(()),
        }];
        disk.transfer(&mut batch);
        assert!(batch[0].result.is_err());
    }
    assert_eq!(storage.operations(), []);
}
