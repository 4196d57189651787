// SPDX-License-Identifier: MIT OR Apache-2.0
use std::{fs, io::Write, sync::atomic::AtomicBool};

use luxor_sector::MemoryStorage;
use nix::{sys::stat::Mode, unistd::mkfifo};

use super::*;
use crate::{
    DataFile, DataFileError, MetadataChange, lock_to_read,
    locks::lock_data,
    testing::{Loop, alone},
};

fn data(path: &Path) -> Input {
    Input::open(path, Role::Data).unwrap()
}

fn all(input: &mut Input) -> Vec<u8> {
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_file_is_read_and_is_storage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let bytes: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(&path, &bytes).unwrap();
    let mut input = data(&path);
    assert_eq!(input.len(), Some(400_000));
    assert_eq!(all(&mut input), bytes);
    input.skip_to(399_990).unwrap();
    assert_eq!(all(&mut input), bytes[399_990..]);
    input.skip_to(5).unwrap();
    let mut buf = [0; 3];
    input.read_exact(&mut buf).unwrap();
    assert_eq!(buf, bytes[5..8]);
    let error = input.skip_to(400_001).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);

    let storage = input.as_storage().unwrap();
    assert_eq!(storage.len().unwrap(), 400_000);
    storage.read_exact_at(&mut buf, 1000).unwrap();
    assert_eq!(buf, bytes[1000..1003]);
    assert!(storage.read_exact_at(&mut buf, 399_998).is_err());
    assert!(storage.write_all_at(&buf, 0).is_err());
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn only_inputs_opened_for_changes_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "0123456789").unwrap();
    let input = Input::open(&path, Role::Change).unwrap();
    let change = MetadataChange::begin(&input, |_| true, &AtomicBool::new(false)).unwrap();
    change.storage().write_all_at(b"xy", 8).unwrap();
    change.storage().sync().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"01234567xy");
    // No data lock: the data may be in use.
    assert!(lock_data(&File::open(&path).unwrap(), Access::Read).unwrap());
    drop(change);
    for role in [Role::Change, Role::Metadata] {
        let input = Input::open(&path, role).unwrap();
        assert!(input.write_all_at(b"x", 0).is_err());
    }
    let input = Input::open(&path, Role::Metadata).unwrap();
    assert!(Storage::write_all_at(input.file().unwrap(), b"x", 0).is_err());

    mkfifo(&folder.path().join("pipe"), Mode::S_IRWXU).unwrap();
    for name in ["pipe", "-"] {
        let path = if name == "-" {
            name.into()
        } else {
            folder.path().join(name)
        };
        let error = Input::open(&path, Role::Change).unwrap_err();
        assert!(matches!(error, InputError::Unchangeable { .. }), "{error}");
    }
    let error = Input::open(folder.path(), Role::Change).unwrap_err();
    assert!(matches!(error, InputError::Folder { .. }), "{error}");
}

#[test]
fn holes_are_zeros_wherever_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sparse");
    let file = File::create(&path).unwrap();
    file.set_len(3 << 30).unwrap();
    let marks = [
        (1_u64 << 20, b"one".as_slice()),
        (2 << 30, b"two"),
        ((3 << 30) - 5, b"three"),
    ];
    for (at, mark) in marks {
        Storage::write_all_at(&file, mark, at).unwrap();
    }
    let mut input = data(&path);
    let mut buf = vec![1; 4 << 20];
    let (mut position, mut found) = (0, Vec::new());
    loop {
        let read = input.read(&mut buf).unwrap();
        if read == 0 {
            break;
        }
        for (at, mark) in marks {
            let Some(begin) = at.checked_sub(position) else {
                continue;
            };
            if let Ok(begin) = usize::try_from(begin)
                && begin < read
            {
                assert_eq!(&buf[begin..][..mark.len()], mark);
                buf[begin..][..mark.len()].fill(0);
                found.push(at);
            }
        }
        assert!(buf[..read].iter().fold(0, |a, b| a | b) == 0);
        position += read as u64;
    }
    assert_eq!(position, 3 << 30);
    assert_eq!(found, marks.map(|(at, _)| at));
}

#[test]
fn a_file_that_becomes_shorter_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    for (sparse, before, now) in [
        (false, 10_000, Err(9_999)),
        (false, 10_000, Err(0)),
        (false, 10_000, Ok(10_001)),
        (false, 10_000, Ok(10_000)),
        (false, 0, Ok(1)),
        (true, 10_000_000, Err(9_999_999)),
        (true, 10_000_000, Err(100)),
        (true, 10_000_000, Ok(10_000_001)),
    ] {
        let path = folder.path().join("file");
        fs::write(&path, vec![7; if sparse { 0 } else { before }]).unwrap();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(before as u64).unwrap();
        let mut input = data(&path);
        file.set_len(now.unwrap_or_else(|now| now)).unwrap();
        // Also for a reader that stops at the announced length.
        for limit in [before as u64, u64::MAX] {
            input.skip_to(0).unwrap();
            let mut read = Vec::new();
            let result = input.by_ref().take(limit).read_to_end(&mut read);
            match now {
                Ok(now) => {
                    assert_eq!(result.unwrap(), before);
                    assert_eq!(input.has_grown(), now > before as u64);
                }
                Err(_) => {
                    let error = result.unwrap_err().to_string();
                    assert!(error.contains("shorter"), "{before}, then {now:?}: {error}");
                    assert!(error.contains(&before.to_string()), "{error}");
                }
            }
        }
    }
}

#[test]
fn a_change_in_the_middle_of_reading_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, vec![7; 1 << 20]).unwrap();
    let mut input = data(&path);
    input.read_exact(&mut [0; 100_000]).unwrap();
    OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(50_000)
        .unwrap();
    let error = input.read_to_end(&mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("shorter"), "{error}");
}

#[test]
fn reads_at_offsets_notice_a_change() {
    let folder = tempfile::tempdir().unwrap();
    for sparse in [false, true] {
        let path = folder.path().join("file");
        fs::write(&path, vec![7; if sparse { 0 } else { 1 << 20 }]).unwrap();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(1 << 20).unwrap();
        let input = data(&path);
        let storage = input.as_storage().unwrap();
        let mut buf = [1; 4096];
        let mut read = |offset| match storage.read_exact_at(&mut buf, offset) {
            Ok(()) => {
                assert_eq!(buf, [if sparse { 0 } else { 7 }; 4096]);
                "good".into()
            }
            Err(error) => error.to_string(),
        };
        let last = (1 << 20) - 4096;
        assert_eq!([0, 50_000, last].map(&mut read), ["good"; 3]);
        file.set_len((1 << 20) + 1).unwrap();
        assert_eq!(read(last), "good");
        // Missing bytes before the end are reported as such too.
        file.set_len(50_000).unwrap();
        for offset in [last, 50_000, 48_000, 500_000] {
            assert!(read(offset).contains("shorter"), "{}", read(offset));
        }
    }
}

/// Like standard input after a header was read from it.
#[test]
fn an_open_file_is_read_from_its_position_on() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "0123456789").unwrap();
    for (position, expected) in [(0, "0123456789"), (4, "456789"), (10, ""), (11, "")] {
        let mut file = File::open(&path).unwrap();
        file.seek(io::SeekFrom::Start(position)).unwrap();
        let shared = file.try_clone().unwrap();
        let mut input = Input::of_file(file, Path::new("-"), Role::Data).unwrap();
        assert_eq!(input.len(), Some(expected.len() as u64));
        assert_eq!(all(&mut input), expected.as_bytes());
        if position == 4 {
            let mut buf = [0; 2];
            let storage = input.as_storage().unwrap();
            storage.read_exact_at(&mut buf, 4).unwrap();
            assert_eq!(&buf, b"89");
            assert!(storage.read_exact_at(&mut buf, 5).is_err());
            input.skip_to(5).unwrap();
            assert_eq!(all(&mut input), b"9");
        }
        // Another process still has the file open; no lock must remain on it.
        drop(input);
        let writer = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        assert!(lock_data(&writer, Access::Write).unwrap());
        drop(shared);
    }
}

#[test]
fn streams_have_no_length() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    mkfifo(&path, Mode::S_IRWXU).unwrap();
    let writer = thread::spawn({
        let path = path.clone();
        move || {
            OpenOptions::new()
                .write(true)
                .open(path)
                .unwrap()
                .write_all(b"0123456789")
        }
    });
    let mut input = data(&path);
    assert_eq!(input.len(), None);
    assert!(input.as_storage().is_none());
    let mut buf = [0; 2];
    input.read_exact(&mut buf).unwrap();
    input.skip_to(2).unwrap();
    input.skip_to(5).unwrap();
    let error = input.skip_to(4).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert_eq!(all(&mut input), b"56789");
    assert_eq!(
        input.skip_to(11).unwrap_err().kind(),
        io::ErrorKind::UnexpectedEof
    );
    writer.join().unwrap().unwrap();
}

/// `stat` says 0 bytes of the first and 4096 of the second.
#[test]
fn files_with_a_false_length_are_streams() {
    for (path, begin) in [
        ("/proc/version", b"Linux".as_slice()),
        ("/sys/devices/system/cpu/online", b"0"),
    ] {
        let path = Path::new(path);
        let expected = fs::read(path).unwrap();
        assert_ne!(fs::metadata(path).unwrap().len(), expected.len() as u64);
        for role in [Role::Data, Role::Metadata] {
            let mut input = Input::open(path, role).unwrap();
            assert_eq!(input.len(), None, "{}", path.display());
            let bytes = all(&mut input);
            assert!(bytes.starts_with(begin) && bytes == expected);
        }
        // Another program has read the beginning.
        let mut file = File::open(path).unwrap();
        file.read_exact(&mut [0]).unwrap();
        let mut input = Input::of_file(file, path, Role::Data).unwrap();
        assert_eq!(all(&mut input), expected[1..]);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hole");
    for len in [0, 1, 4096, 1 << 40] {
        File::create(&path).unwrap().set_len(len).unwrap();
        assert_eq!(data(&path).len(), Some(len));
    }
}

#[test]
fn the_length_of_a_block_device_is_known() {
    let _alone = alone();
    let file = tempfile::NamedTempFile::new().unwrap();
    let bytes: Vec<u8> = (0..1 << 20).map(|i: u32| i.to_le_bytes()[1]).collect();
    fs::write(file.path(), &bytes).unwrap();
    let device = Loop::over(file.path());
    let mut input = data(&device.0);
    assert_eq!(input.len(), Some(1 << 20));
    assert_eq!(all(&mut input), bytes);
    let mut buf = [0; 4];
    input
        .as_storage()
        .unwrap()
        .read_exact_at(&mut buf, 256)
        .unwrap();
    assert_eq!(buf, bytes[256..260]);
}

#[test]
fn errors_say_why_a_file_cannot_be_opened() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("no such file");
    let error = Input::open(&path, Role::Data).unwrap_err();
    assert!(matches!(error, InputError::Missing { .. }));
    assert!(
        error.to_string().ends_with("no such file does not exist"),
        "{error}"
    );
    assert_eq!(error.class(), FileErrorClass::Missing);

    let error = Input::open(folder.path(), Role::Data).unwrap_err();
    assert!(matches!(error, InputError::Folder { .. }));
    assert_eq!(error.class(), FileErrorClass::Failure);

    fs::write(&path, "x").unwrap();
    let writer = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    assert!(lock_data(&writer, Access::Write).unwrap());
    let error = Input::open(&path, Role::Data).unwrap_err();
    assert!(matches!(error, InputError::Locked { .. }));
    assert_eq!(error.class(), FileErrorClass::Busy);
    Input::open(&path, Role::Metadata).unwrap();
    drop(writer);

    let first = data(&path);
    let second = data(&path);
    drop((first, second));
    let writer = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    assert!(lock_data(&writer, Access::Write).unwrap());
}

#[test]
fn a_supplied_storage_is_read_like_a_file_and_changed_without_locks() {
    let bytes: Vec<u8> = (0..10_000_u32).flat_map(u32::to_le_bytes).collect();
    let storage = Arc::new(MemoryStorage::new(bytes.clone()));
    let mut input = Input::of_storage(storage.clone(), Path::new("object")).unwrap();
    assert_eq!((input.len(), input.name()), (Some(40_000), "object".into()));
    assert!(input.file().is_none() && input.identity().is_none());
    assert_eq!(all(&mut input), bytes);
    input.skip_to(39_990).unwrap();
    assert!(matches!(
        input.source(),
        Source::At(Region {
            offset: 39_990,
            len: 10,
            ..
        })
    ));
    assert_eq!(all(&mut input), bytes[39_990..]);
    assert!(input.skip_to(40_001).is_err());
    assert!(Storage::write_all_at(&input, b"x", 0).is_err());
    assert!(
        lock_to_read(&input, &AtomicBool::new(false))
            .unwrap()
            .is_none()
    );

    let change = MetadataChange::begin(&input, |_| true, &AtomicBool::new(false)).unwrap();
    change.storage().write_all_at(b"xy", 8).unwrap();
    assert!(change.exclusive().unwrap().is_none());
    let mut found = [0; 2];
    storage.read_exact_at(&mut found, 8).unwrap();
    assert_eq!(found, *b"xy");
}

#[test]
fn a_supplied_stream_has_no_length() {
    let mut input = Input::of_stream(&b"from a stream"[..], Path::new("stream"));
    assert!(input.len().is_none() && input.as_storage().is_none());
    input.skip_to(5).unwrap();
    assert!(input.skip_to(4).is_err());
    assert_eq!(all(&mut input), b"a stream");
}

/// A disk with a partition from 1 to 3 MiB, and something else everywhere else.
fn disk(path: &Path) -> Vec<u8> {
    let mut bytes = vec![0xee; 4 << 20];
    bytes[..512].fill(0);
    bytes[446 + 4] = 0x83;
    bytes[446 + 8..446 + 12].copy_from_slice(&2048_u32.to_le_bytes());
    bytes[446 + 12..446 + 16].copy_from_slice(&4096_u32.to_le_bytes());
    bytes[510..512].copy_from_slice(&[0x55, 0xaa]);
    bytes[1 << 20..3 << 20].fill(0x11);
    fs::write(path, &bytes).unwrap();
    bytes
}

#[test]
fn a_part_is_read_and_written_alone_under_the_locks_of_the_whole() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let mut bytes = disk(&path);
    let place = |part| VolumePlace { path: &path, part };
    let partition = place(VolumePart::Partition(1));
    let mut input = Input::open(partition, Role::Data).unwrap();
    assert_eq!(input.len(), Some(2 << 20));
    assert!(
        input.name().ends_with("disk, partition 1"),
        "{}",
        input.name()
    );
    assert!(all(&mut input) == bytes[1 << 20..3 << 20]);
    assert!(input.read_exact_at(&mut [0], 2 << 20).is_err());
    // qemu's locks are those of the whole file.
    assert!(matches!(
        DataFile::open(&path, Access::Write),
        Err(DataFileError::Locked { .. })
    ));
    // Bytes behind the part do not make it longer.
    assert!(!input.has_grown());
    drop(input);

    let from = place(VolumePart::From(3 << 20));
    assert!(all(&mut Input::open(from, Role::Data).unwrap()) == bytes[3 << 20..]);

    let input = Input::open(partition, Role::Change).unwrap();
    let change = MetadataChange::begin(&input, |_| true, &AtomicBool::new(false)).unwrap();
    let other = File::open(&path).unwrap();
    let locked = nix::fcntl::Flock::lock(other, nix::fcntl::FlockArg::LockSharedNonblock);
    assert!(locked.is_err(), "the file has no lock");
    change.storage().write_all_at(b"first", 0).unwrap();
    change
        .storage()
        .write_all_at(b"last", (2 << 20) - 4)
        .unwrap();
    assert!(
        change
            .storage()
            .write_all_at(b"late", (2 << 20) - 3)
            .is_err()
    );
    drop(change);
    bytes[1 << 20..][..5].copy_from_slice(b"first");
    bytes[(3 << 20) - 4..][..4].copy_from_slice(b"last");
    assert!(fs::read(&path).unwrap() == bytes);

    let data = DataFile::open(partition, Access::Write).unwrap();
    assert_eq!(data.len().unwrap(), 2 << 20);
    assert!(data.is_regular() && !data.can_set_len() && data.set_len(1 << 20).is_err());
    let mut head = [0; 5];
    data.input().unwrap().read_exact(&mut head).unwrap();
    assert_eq!(&head, b"first");
    for storage in [data.storage().unwrap(), data.into_storage(false).unwrap()] {
        assert_eq!(storage.len().unwrap(), 2 << 20);
        storage.write_all_at(b"FIRST", 0).unwrap();
        assert!(storage.write_all_at(b"late", (2 << 20) - 3).is_err());
    }
    bytes[1 << 20..][..5].copy_from_slice(b"FIRST");
    assert!(fs::read(&path).unwrap() == bytes);
}

#[test]
fn a_part_that_is_not_there_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    disk(&path);
    for (part, words) in [
        (
            VolumePart::Partition(2),
            "there is no partition 2; it has 1",
        ),
        (VolumePart::Partition(0), "there is no partition 0"),
        (VolumePart::From(1000), "multiple of 512"),
        (
            VolumePart::From(5 << 20),
            "no volume can begin at byte 5242880",
        ),
    ] {
        let place = VolumePlace { path: &path, part };
        let input = Input::open(place, Role::Metadata).unwrap_err().to_string();
        let data = DataFile::open(place, Access::Read).unwrap_err().to_string();
        assert!(
            input.contains(words) && data.contains(words),
            "{input}; {data}"
        );
    }
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(2 << 20)
        .unwrap();
    let part = VolumePart::Partition(1);
    let error = Input::open(VolumePlace { path: &path, part }, Role::Data).unwrap_err();
    assert!(
        error.to_string().contains("ends at byte 3145728"),
        "{error}"
    );
    fs::write(&path, "text").unwrap();
    let error = Input::open(VolumePlace { path: &path, part }, Role::Data).unwrap_err();
    assert!(error.to_string().contains("no partition table"), "{error}");
}
