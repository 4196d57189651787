// SPDX-License-Identifier: MIT OR Apache-2.0
//! Direct I/O on devices and on a small file system. It needs root.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::Path,
    process::Command,
    sync::Arc,
};

use luxor_conformance::Random;
use luxor_engine::{KeySpec, Mode, Registry, XtsKey};
use luxor_sector::{
    DirectFile, Disk, DiskError, DiskOptions, Geometry, IvMode, Part, ReadAt, SectorSize, Storage,
    Transfer, TransferData, WriteAt,
};

fn tool<const N: usize>(program: &str, arguments: [&str; N]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {said} (loop devices and mounts need root)"
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

struct Loop(String);

impl Loop {
    fn attach(image: &Path, sector: &str) -> Self {
        let image = image.to_str().unwrap();
        let wanted = ["--find", "--show", "--sector-size", sector, image];
        Self(tool("losetup", wanted))
    }

    fn open(&self) -> File {
        let options = OpenOptions::new().read(true).write(true).open(&self.0);
        options.unwrap()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

/// By `io_uring`, and by threads.
fn both(open: impl Fn() -> File) -> [DirectFile; 2] {
    let direct = || DirectFile::new(open()).unwrap();
    [direct(), direct().without_io_uring()]
}

fn part(offset: u64, len: u64) -> Part {
    let key: Vec<u8> = (0..64).collect();
    let key = KeySpec::Xts(XtsKey::new(&key).unwrap());
    let backend = Registry::cpu().best(Mode::Xts).unwrap();
    let geometry = Geometry {
        sector_size: SectorSize::B512,
        iv_mode: IvMode::Plain64,
        iv_offset: 0,
        iv_large_sectors: false,
    };
    Part {
        offset,
        len,
        crypt: Some((Arc::from(backend.load_key(&key).unwrap()), geometry)),
    }
}

/// A disk with sectors of 512 bytes, on devices with sectors of 512 and 4096.
#[test]
fn devices_are_read_and_written_in_their_own_sectors() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    let mut random = Random::for_test("direct::devices");
    for (sector, alignment) in [("512", 512), ("4096", 4096)] {
        File::create(&image).unwrap().set_len(1 << 20).unwrap();
        let device = Loop::attach(&image, sector);
        for file in both(|| device.open()) {
            assert_eq!(file.alignment(), alignment);
            assert_eq!(file.len().unwrap(), 1 << 20);
            let parts = vec![part(65536, 512 << 10)];
            let disk = Disk::new(Arc::new(file), parts, DiskOptions::default()).unwrap();
            let mut model = random.bytes(512 << 10);
            disk.write(&model, 0).unwrap();
            for _ in 0..40 {
                let mut bytes: Vec<_> = (0..random.below(200))
                    .map(|_| {
                        let len = [512, 700, 4096, 8192][random.below(4)];
                        random.bytes(len)
                    })
                    .collect();
                let mut begin = random.below(5000);
                let mut batch = Vec::new();
                for bytes in &mut bytes {
                    if begin + bytes.len() > model.len() {
                        break;
                    }
                    model[begin..begin + bytes.len()].copy_from_slice(bytes);
                    let offset = begin as u64;
                    begin = (begin + bytes.len() + random.below(600)).next_multiple_of(512);
                    batch.push(Transfer {
                        offset,
                        data: TransferData::Write(bytes),
                        result: Ok(()),
                    });
                }
                disk.transfer(&mut batch);
                batch.into_iter().for_each(|one| one.result.unwrap());
            }
            disk.flush().unwrap();
            let mut found = vec![0; model.len()];
            let mut batch: Vec<_> = (0..)
                .step_by(4096)
                .zip(found.chunks_mut(4096))
                .map(|(offset, bytes)| Transfer {
                    offset,
                    data: TransferData::Read(bytes),
                    result: Ok(()),
                })
                .collect();
            disk.transfer(&mut batch);
            batch.into_iter().for_each(|one| one.result.unwrap());
            assert!(found == model);
            // What is there without the page cache is there with it.
            let parts = vec![part(65536, 512 << 10)];
            let disk = Disk::new(Arc::new(device.open()), parts, DiskOptions::default()).unwrap();
            disk.read(&mut found, 0).unwrap();
            assert!(found == model);
        }
        let file = DirectFile::new(device.open()).unwrap();
        let made = Disk::new(
            Arc::new(file),
            vec![part(512, 4096)],
            DiskOptions::default(),
        );
        match alignment {
            512 => assert_eq!(made.unwrap().len(), 4096),
            _ => assert!(matches!(made, Err(DiskError::Alignment { .. }))),
        }
    }
}

/// A device gives up whole blocks of its own only, which may be larger than sectors.
#[test]
fn discards_of_devices_are_rounded_to_their_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    let options = DiskOptions {
        allow_discards: true,
        ..DiskOptions::default()
    };
    for (sector, gone) in [
        ("512", 1024..9216),
        ("2048", 2048..8192),
        ("4096", 4096..8192),
    ] {
        fs::write(&image, [1; 65536]).unwrap();
        let device = Loop::attach(&image, sector);
        let disk = |file: File| Disk::new(Arc::new(file), vec![part(0, 65536)], options).unwrap();
        let disk = disk(device.open());
        disk.discard(1024, 8192).unwrap();
        // In the midst of a block, and at the end of the device.
        disk.discard(16384 + 512, 512).unwrap();
        disk.discard(65536 - 4096, 4096).unwrap();
        disk.flush().unwrap();
        let mut found = vec![0; 65536];
        device.open().read_exact_at(&mut found, 0).unwrap();
        let mut expected = vec![1; 65536];
        expected[gone].fill(0);
        if sector == "512" {
            expected[16384 + 512..][..512].fill(0);
        }
        expected[65536 - 4096..].fill(0);
        assert!(found == expected, "{sector}");
    }
}

#[test]
fn a_device_ends_where_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    File::create(&image).unwrap().set_len(1 << 20).unwrap();
    let device = Loop::attach(&image, "4096");
    for file in both(|| device.open()) {
        let bytes = vec![1; 8192];
        let mut writes = [(1 << 20) - 4096, 0, 1 << 20].map(|offset| WriteAt {
            buf: &bytes,
            offset,
            result: Ok(()),
        });
        file.write_batch(&mut writes);
        let kinds = writes.map(|write| write.result.map_err(|error| error.kind()));
        let full = Err(io::ErrorKind::StorageFull);
        assert_eq!(kinds, [full, Ok(()), full]);
        let (mut a, mut b) = (vec![0; 8192], vec![0; 8192]);
        let mut reads = [((1 << 20) - 4096, &mut a), (0, &mut b)].map(|(offset, buf)| ReadAt {
            buf,
            offset,
            result: Ok(()),
        });
        file.read_batch(&mut reads);
        let kinds = reads.map(|read| read.result.map_err(|error| error.kind()));
        assert_eq!(kinds, [Err(io::ErrorKind::UnexpectedEof), Ok(())]);
        assert!(b == bytes);
    }
}

struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

/// Some writes fit and some do not. Those that are reported as done are in the file.
#[test]
fn a_full_file_system_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (image, below) = (folder.path().join("image"), folder.path().join("mounted"));
    fs::create_dir(&below).unwrap();
    File::create(&image).unwrap().set_len(8 << 20).unwrap();
    let (image, place) = (image.to_str().unwrap(), below.to_str().unwrap());
    tool("mkfs.ext4", ["-q", "-F", "-b", "4096", image]);
    tool("mount", ["-o", "loop", image, place]);
    let _mounted = Mounted(&below);
    for (number, open) in [DirectFile::new as fn(_) -> _, |file| {
        DirectFile::new(file).map(DirectFile::without_io_uring)
    }]
    .into_iter()
    .enumerate()
    {
        let path = below.join(number.to_string());
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path);
        let file = open(file.unwrap()).unwrap();
        let bytes: Vec<_> = (0..160_u8).map(|k| vec![k; 64 << 10]).collect();
        let mut writes: Vec<_> = (0..)
            .step_by(64 << 10)
            .zip(&bytes)
            .map(|(offset, buf)| WriteAt {
                buf,
                offset,
                result: Ok(()),
            })
            .collect();
        file.write_batch(&mut writes);
        let mut found = vec![0; 64 << 10];
        let mut fitted = 0;
        for write in writes {
            match write.result {
                Ok(()) => {
                    file.read_exact_at(&mut found, write.offset).unwrap();
                    assert!(found == write.buf);
                    fitted += 1;
                }
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::StorageFull),
            }
        }
        assert!(fitted > 0 && fitted < 160, "{fitted}");
        drop(file);
        fs::remove_file(path).unwrap();
    }
}
