// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compared with `Disk` and the CPU, on an emulator of the device.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Mutex,
};

use luxor_conformance::Random;
use luxor_engine::{AesKey, CbcKey, KeySpec, Mode, Registry};
use luxor_engine_cuda::{Cuda, Driver};
use luxor_engine_gpu::Tuning;
use luxor_files::DataFile;
use luxor_luks::{LuksVersion, NewVolumeOptions, PbkdfKind, PbkdfOptions};
use luxor_ptx_driver::{Double, GPU};
use luxor_secret::SecretBytes;
use luxor_sector::{Disk, DiskOptions, Geometry, IvMode, MemoryStorage, SectorSize, Storage};
use luxor_volume::{DataKey, Encryption, Extent, ExtentCipher, VolumeKey};
use tempfile::TempDir;

use super::*;
use crate::{Context, EncryptOptions, Engine, OpenOptions, volume_disk::parts};

/// A small queue, so that few bytes are many portions.
fn backend() -> Arc<GpuBackend<Cuda>> {
    let driver: Arc<dyn Driver> = Double::new(&[GPU, GPU]);
    let mut tuning = Tuning::default();
    tuning.batch = 8192;
    Arc::new(GpuBackend::new(Cuda::all(&driver).unwrap(), tuning))
}

fn memory(backend: &GpuBackend<Cuda>, device: usize, bytes: &[u8]) -> <Cuda as Device>::Memory {
    let device = &backend.devices()[device];
    let mut memory = device.memory(bytes.len()).unwrap();
    device.write(&mut memory, 0, bytes).unwrap();
    memory
}

fn bytes(backend: &GpuBackend<Cuda>, device: usize, memory: &<Cuda as Device>::Memory) -> Vec<u8> {
    let mut bytes = vec![0; luxor_engine_gpu::DeviceMemory::len(memory)];
    backend.devices()[device]
        .read(memory, 0, &mut bytes)
        .unwrap();
    bytes
}

/// Up to ten copies out of `len` bytes, in any order, with the length of the memory that they need.
fn copies(random: &mut Random, len: usize) -> (Vec<DeviceCopy>, usize) {
    let (mut copies, mut begin, mut at) = (Vec::new(), 0, random.below(20));
    while begin < len && copies.len() < 10 {
        let offset = (begin + random.below(2) * random.below(len / 4 + 1)).min(len);
        let copy = DeviceCopy {
            offset: offset as u64,
            len: random.below((len - offset).min(len / 3) + 1),
            at,
        };
        begin = offset + copy.len;
        at += copy.len + random.below(2) * random.below(9);
        copies.insert(random.below(copies.len() + 1), copy);
    }
    (copies, at + random.below(9))
}

fn range(copy: &DeviceCopy) -> Range<usize> {
    let begin = usize::try_from(copy.offset).unwrap();
    begin..begin + copy.len
}

/// A key, and parts as a re-encryption leaves them: of two keys and sizes, not encrypted, under a
/// cipher that no device has, and cut off within a sector.
fn mixed() -> (Plaintext, Vec<u8>) {
    let geometry = |sector_size| Geometry {
        sector_size,
        iv_mode: IvMode::Plain,
        // Within the first extent the number restarts at 0.
        iv_offset: (1 << 32) - 16,
        iv_large_sectors: false,
    };
    let cipher = |key, size| {
        Some(ExtentCipher {
            key,
            encryption: (key != 2).then_some(Encryption::AesXtsPlain64),
            geometry: geometry(size),
        })
    };
    let extent = |offset, len, cipher| Extent {
        offset,
        len,
        cipher,
    };
    let cbc = Registry::cpu().best(Mode::Cbc).unwrap();
    let cbc = cbc.load_key(&KeySpec::Cbc(CbcKey::plain(AesKey::new(&[5; 16]).unwrap())));
    let xts = |seed: u8, len: u8| {
        let bytes: Vec<u8> = (0..len).map(|i| i ^ seed).collect();
        let key = SecretBytes::copy_of(&bytes);
        DataKey::from(VolumeKey::new(key, Encryption::AesXtsPlain64, false).unwrap())
    };
    let plaintext = Plaintext {
        extents: vec![
            extent(4096, 40960, cipher(0, SectorSize::B4096)),
            extent(65536, 1000, None),
            extent(0, 2048, cipher(2, SectorSize::B512)),
            extent(131_072, 20480, cipher(1, SectorSize::B512)),
            extent(98304, 8192, cipher(0, SectorSize::B2048)),
        ],
        len: Some(40960 + 1000 + 2048 + 20480 + 7000),
        keys: BTreeMap::from([
            (0, xts(0, 64)),
            (1, xts(9, 32)),
            (2, DataKey::Loaded(Arc::from(cbc.unwrap()))),
        ]),
    };
    (plaintext, vec![0; 160_000])
}

#[test]
fn parts_of_any_kind_are_the_same_as_on_a_disk() {
    let random = &mut Random::for_test("device parts");
    let backend = backend();
    let engine = Engine::select(&Context::default(), Mode::Xts).unwrap();
    let (plaintext, zeros) = mixed();
    let keys = DeviceKeys::of(&plaintext, &backend, &engine, &Context::default()).unwrap();
    assert_eq!(
        keys.keys.iter().map(Option::is_some).collect::<Vec<_>>(),
        [true, false, false, true, true]
    );
    assert!(Arc::ptr_eq(
        keys.keys[0].as_ref().unwrap(),
        keys.keys[4].as_ref().unwrap()
    ));
    let storage = Arc::new(MemoryStorage::new(zeros));
    let disk = parts(&plaintext, &engine).unwrap();
    let disk = Disk::new(storage.clone(), disk, DiskOptions::default()).unwrap();
    let len = usize::try_from(disk.len()).unwrap();
    let layout = disk.layout();
    let read = |stored: &StoredRange, buf: &mut [u8]| disk.read_stored(buf, &stored.plaintext);
    let write = |stored: &StoredRange, buf: &[u8]| storage.write_all_at(buf, stored.offset);
    for round in 0..12 {
        let device = round % 2;
        let expected = random.bytes(len);
        disk.write(&expected, 0).unwrap();
        let (copies, room) = copies(random, len);
        let mut to = memory(&backend, device, &vec![3; room]);
        keys.read_into(&layout, device, &mut to, &copies, read)
            .unwrap();
        let mut wanted = vec![3; room];
        for copy in &copies {
            wanted[copy.at..][..copy.len].copy_from_slice(&expected[range(copy)]);
        }
        assert!(bytes(&backend, device, &to) == wanted, "{copies:?}");

        let new = random.bytes(room);
        let from = memory(&backend, device, &new);
        keys.write_from(&layout, device, &from, &copies, (read, write))
            .unwrap();
        let mut wanted = expected;
        for copy in &copies {
            wanted[range(copy)].copy_from_slice(&new[copy.at..][..copy.len]);
        }
        let mut found = vec![0; len];
        disk.read(&mut found, 0).unwrap();
        assert!(found == wanted, "{copies:?}");
    }
}

fn secret() -> SecretBytes {
    SecretBytes::copy_of(b"correct horse")
}

fn volume(options: NewVolumeOptions, plaintext: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let [plain, path] = ["plain", "volume"].map(|name| folder.path().join(name));
    std::fs::write(&plain, plaintext).unwrap();
    let pbkdf = PbkdfOptions {
        kind: PbkdfKind::Pbkdf2,
        force_iterations: Some(1000),
        ..PbkdfOptions::default()
    };
    let options = EncryptOptions::new().volume(NewVolumeOptions { pbkdf, ..options });
    options.encrypt(&plain, &path, &secret()).unwrap();
    (folder, path)
}

fn opened(path: &Path, write: bool) -> UnlockedVolume {
    let options = OpenOptions::new().write(write);
    options.open(path).unwrap().unlock(&secret()).unwrap()
}

#[test]
fn a_volume_is_read_and_written_in_the_memory_of_a_device() {
    let random = &mut Random::for_test("device volume");
    let backend = backend();
    let plaintext = random.bytes(50_176);
    for version in [LuksVersion::Luks1, LuksVersion::Luks2] {
        let (_folder, path) = volume(NewVolumeOptions::new(version), &plaintext);
        let disk = opened(&path, true).disk_on(&backend).unwrap();
        let copy = DeviceCopy {
            offset: 1,
            len: 50_175,
            at: 3,
        };
        let mut to = memory(&backend, 0, &[0; 50_178]);
        disk.read_into(0, &mut to, &[copy]).unwrap();
        assert!(bytes(&backend, 0, &to)[3..] == plaintext[1..]);
        for _ in 0..20 {
            let (copies, room) = copies(random, plaintext.len());
            let mut wanted = vec![0; room];
            for copy in &copies {
                wanted[copy.at..][..copy.len].copy_from_slice(&plaintext[range(copy)]);
            }
            let mut found = vec![0; room];
            let context = Context::default();
            disk.disk()
                .read_into(&mut found, &copies, &context)
                .unwrap();
            assert!(found == wanted, "{copies:?}");
        }

        let new = random.bytes(700);
        let copy = DeviceCopy {
            offset: 49_476,
            len: 700,
            at: 0,
        };
        let from = memory(&backend, 1, &new);
        disk.write_from(1, &from, &[copy]).unwrap();
        disk.disk().sync().unwrap();
        drop(disk);
        let mut found = vec![0; 50_176];
        opened(&path, false)
            .disk()
            .unwrap()
            .read_at(&mut found, 0)
            .unwrap();
        assert!(found[..49_476] == plaintext[..49_476] && found[49_476..] == new);

        // Without the volume's own storage.
        let stored = std::fs::read(&path).unwrap();
        let cipher = opened(&path, false).cipher_on(&backend).unwrap();
        let mut to = memory(&backend, 0, &[0; 700]);
        let reads = Mutex::new(0);
        cipher
            .read_into(0, &mut to, &[copy], |range, buf| {
                *reads.lock().unwrap() += 1;
                let begin = usize::try_from(range.offset).unwrap();
                buf.copy_from_slice(&stored[begin..begin + buf.len()]);
                Ok(())
            })
            .unwrap();
        assert!(bytes(&backend, 0, &to) == new);
        assert_eq!(reads.into_inner().unwrap(), 1);
    }
}

/// A storage that sets a flag with each read of the data.
struct Cancelling(MemoryStorage, Arc<AtomicBool>);

impl Storage for Cancelling {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.1.store(offset >= 16 << 20, Ordering::Relaxed);
        self.0.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}

#[test]
fn a_cancelled_copy_ends() {
    let mut tuning = Tuning::default();
    (tuning.batch, tuning.queues) = (8192, 1);
    let driver: Arc<dyn Driver> = Double::new(&[GPU]);
    let backend = Arc::new(GpuBackend::new(Cuda::all(&driver).unwrap(), tuning));
    let (_folder, path) = volume(NewVolumeOptions::new(LuksVersion::Luks2), &[7; 32768]);
    let context = Context::default();
    let stored = MemoryStorage::new(std::fs::read(&path).unwrap());
    let storage = Arc::new(Cancelling(stored, Arc::clone(&context.cancel)));
    let disk = OpenOptions::new()
        .write(true)
        .context(&context)
        .open_data(DataFile::of_storage(storage, &path), None)
        .and_then(|volume| volume.unlock(&secret())?.disk_on(&backend))
        .unwrap();
    let copy = |offset, len| DeviceCopy { offset, len, at: 0 };
    let mut to = memory(&backend, 0, &[0; 32768]);
    let interrupted = |result: io::Result<()>| {
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::Interrupted);
    };
    context.cancel.store(false, Ordering::Relaxed);
    interrupted(disk.read_into(0, &mut to, &[copy(0, 32768)]));
    assert!(bytes(&backend, 0, &to)[..8192] == [7; 8192]);
    assert!(bytes(&backend, 0, &to)[8192..] == [0; 24576]);
    // A part of a sector is read before it is written.
    context.cancel.store(false, Ordering::Relaxed);
    interrupted(disk.write_from(0, &to, &[copy(0, 32767)]));
    interrupted(
        disk.disk()
            .read_into(&mut [0; 100], &[copy(0, 100)], &context),
    );
}

#[test]
fn the_cpu_does_aes_where_a_device_is_spared() {
    let random = &mut Random::for_test("spared");
    let backend = backend();
    let (_folder, path) = volume(NewVolumeOptions::new(LuksVersion::Luks2), &[7; 50_001]);
    let info = backend.info();
    let slow = [info.name.into(), info.device, "it is slow".into()];
    let other = [info.name.into(), "another one".into(), "it is slow".into()];
    for (named, given_up, is_spared) in [
        (None, None, false),
        (None, Some(&other), false),
        (None, Some(&slow), true),
        (Some(info.name), Some(&slow), false),
        (Some("portable"), None, true),
    ] {
        let mut volume = opened(&path, true);
        volume.engine.named = named.map(str::to_owned);
        volume.engine.given_up = given_up.into_iter().cloned().collect();
        let disk = volume.disk_on(&backend).unwrap();
        let keys = &disk.keys.keys;
        assert_eq!(
            keys.iter().all(Option::is_none),
            is_spared,
            "{named:?} {given_up:?}"
        );
        let plaintext = random.bytes(50_001);
        let from = memory(&backend, 0, &plaintext);
        // In two parts, neither of which is whole sectors.
        for part in [0..20_001, 20_001..50_001] {
            let copy = DeviceCopy {
                offset: part.start as u64,
                len: part.len(),
                at: part.start,
            };
            disk.write_from(0, &from, &[copy]).unwrap();
        }
        let mut to = memory(&backend, 1, &[0; 50_001]);
        let copy = DeviceCopy {
            offset: 1,
            len: 50_000,
            at: 1,
        };
        disk.read_into(1, &mut to, &[copy]).unwrap();
        assert!(bytes(&backend, 1, &to)[1..] == plaintext[1..], "{named:?}");
        drop(disk);
        let mut found = vec![0; 50_001];
        let disk = opened(&path, false).disk().unwrap();
        disk.read_at(&mut found, 0).unwrap();
        assert!(found == plaintext, "{named:?}");
    }
}

#[test]
fn direct_reads_are_the_same_where_they_are_possible() {
    let plaintext = Random::for_test("direct").bytes(50_001);
    let (_folder, path) = volume(NewVolumeOptions::new(LuksVersion::Luks2), &plaintext);
    let open = || OpenOptions::new().open(&path).unwrap();
    let may = open().data.direct_again().is_ok();
    let volume = open().direct_if_possible();
    assert_eq!(volume.options.disk.direct, may);
    let disk = volume.unlock(&secret()).unwrap().disk().unwrap();
    let mut found = vec![0; 50_000];
    let copy = DeviceCopy {
        offset: 1,
        len: 50_000,
        at: 0,
    };
    disk.read_into(&mut found, &[copy], &Context::default())
        .unwrap();
    assert!(found == plaintext[1..]);

    let storage = Arc::new(MemoryStorage::new(std::fs::read(&path).unwrap()));
    let data = DataFile::of_storage(storage, &path);
    let volume = OpenOptions::new().open_data(data, None).unwrap();
    assert!(!volume.direct_if_possible().options.disk.direct);
}

#[test]
fn a_file_that_is_not_encrypted_is_read_as_it_is() {
    let (backend, context) = (backend(), Context::default());
    let folder = TempDir::new().unwrap();
    for len in [0_usize, 1, 8192, 50_001] {
        let stored = Random::for_test("unencrypted").bytes(len);
        let path = folder.path().join(len.to_string());
        std::fs::write(&path, &stored).unwrap();
        let options = DiskUse {
            read_only: true,
            direct: true,
            ..DiskUse::default()
        };
        let open = || DataFile::open(&*path, options.access()).unwrap();
        let may = open().direct_again().is_ok() && len % 4096 == 0;
        let disk = DeviceDisk::of_unencrypted(open(), &options, &backend, &context).unwrap();
        assert_eq!(disk.disk().shared().sector_size() > 1, may, "{len}");
        assert!(disk.disk().has_exact_len());
        let (mut to, mut found) = (memory(&backend, 1, &vec![0; len + 7]), vec![0; len + 7]);
        let copy = DeviceCopy {
            offset: 0,
            len,
            at: 7,
        };
        disk.read_into(1, &mut to, &[copy]).unwrap();
        assert!(bytes(&backend, 1, &to)[7..] == stored, "{len}");
        let read = disk.disk().read_into(&mut found, &[copy], &context);
        read.unwrap();
        assert!(found[7..] == stored, "{len}");
    }
}

#[test]
fn what_cannot_be_copied_is_refused() {
    let backend = backend();
    let (_folder, path) = volume(NewVolumeOptions::new(LuksVersion::Luks2), &[7; 5000]);
    let disk = opened(&path, false).disk_on(&backend).unwrap();
    let copy = |offset, len, at| DeviceCopy { offset, len, at };
    let mut to = memory(&backend, 0, &[0; 5000]);
    for (copies, kind) in [
        (vec![copy(0, 5001, 0)], io::ErrorKind::InvalidInput),
        (vec![copy(u64::MAX, 2, 0)], io::ErrorKind::InvalidInput),
        (
            vec![copy(5, 10, 0), copy(0, 6, 100)],
            io::ErrorKind::InvalidInput,
        ),
        // The memory is too short, which the device finds.
        (vec![copy(0, 5000, 1)], io::ErrorKind::Other),
        (vec![copy(0, 5000, usize::MAX)], io::ErrorKind::Other),
    ] {
        let error = disk.read_into(0, &mut to, &copies).unwrap_err();
        assert_eq!(error.kind(), kind, "{copies:?}: {error}");
        let context = Context::default();
        let error = disk.disk().read_into(&mut [0; 5000], &copies, &context);
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
    let twice = [copy(0, 10, 5), copy(10, 10, 14)];
    let error = disk
        .disk()
        .read_into(&mut [0; 5000], &twice, &Context::default());
    assert_eq!(error.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    disk.read_into(0, &mut to, &[copy(5000, 0, 9000)]).unwrap();
    disk.read_into(0, &mut to, &[copy(0, 6, 0), copy(6, 4994, 6)])
        .unwrap();
    assert!(bytes(&backend, 0, &to) == [7; 5000]);
    let refused = disk.write_from(0, &to, &[copy(0, 1, 0)]).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
}
