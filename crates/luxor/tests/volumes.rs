// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes, changes and reads volumes through the library alone.

use std::{
    fs::{self, File},
    io::{ErrorKind, Read, Write},
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use luxor::{
    Context, DecryptOptions, DiskUse, Engine, Error, ErrorClass, HeaderRestore, KeyOptions,
    LuksMetadata, LuksVolume, NewFiles, OpenOptions, PlainVolume, RawOptions, Result, Secrets,
    VolumeDisk, VolumeKeySecret, VolumePolicy, VolumeWriter, back_up_header, create_output,
    crypt_raw, repair_header,
};
use luxor_engine::{AesKey, DataUnitLen, DataUnitNumber, Direction, KeySpec, Mode};
use luxor_files::{DataFile, Input, Output, OutputOptions, Role};
use luxor_luks::{
    LuksVersion, NewVolumeOptions, Overwrite, PbkdfKind, PbkdfOptions, UnlockOptions,
};
use luxor_secret::SecretBytes;
use luxor_sector::{DiskStream, MemoryStorage};
use tempfile::TempDir;

fn secret(text: &str) -> SecretBytes {
    SecretBytes::copy_of(text.as_bytes())
}

/// Makes unlocking fast, and weak.
fn cheap() -> PbkdfOptions {
    PbkdfOptions {
        kind: PbkdfKind::Pbkdf2,
        force_iterations: Some(1000),
        ..PbkdfOptions::default()
    }
}

/// A folder with an empty volume that the passphrase `first` opens.
fn volume(version: LuksVersion) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume");
    let files = NewFiles {
        volume: &path,
        header: None,
        force: false,
        needed: &[],
    };
    let options = NewVolumeOptions {
        pbkdf: cheap(),
        ..NewVolumeOptions::new(version)
    };
    let first = || Ok(secret("first"));
    luxor::format_files(&files, Some(1 << 20), &options, first, &Context::default()).unwrap();
    (folder, path)
}

/// Returns the keyslot that a secret opens, or `None`.
fn opens(path: &Path, text: &str) -> Option<u32> {
    let context = Context::default();
    let volume = LuksMetadata::open_path(path, &context).unwrap();
    let engine = Engine::select(&context, Mode::Xts).unwrap();
    let (backend, options) = (&*engine.backend, UnlockOptions::default());
    match volume.test(&secret(text), backend, &options, &context) {
        Ok(unlocked) => Some(unlocked.0.keyslot),
        Err(error) => {
            assert_eq!(error.class(), ErrorClass::NoKey, "{error}");
            None
        }
    }
}

#[test]
fn keys_are_added_and_removed() {
    let context = Context::default();
    let options = KeyOptions {
        pbkdf: Some(cheap()),
        ..KeyOptions::default()
    };
    let unlock = UnlockOptions::default();
    for version in [LuksVersion::Luks1, LuksVersion::Luks2] {
        let (_folder, path) = volume(version);
        let open = || LuksVolume::open(&path, &context).unwrap();
        let second = || Ok(secret("second"));
        let added = open().add_key(Some(5), &secret("first"), second, &options, &context);
        assert_eq!(added.unwrap(), 5);
        assert_eq!(opens(&path, "second"), Some(5));

        let third = |old: SecretBytes| {
            assert_eq!(old.expose(), b"second");
            Ok(secret("third"))
        };
        let changed = open().change_key(&secret("second"), third, &options, &context);
        assert_eq!(changed.unwrap(), 5);
        assert_eq!(opens(&path, "second"), None);
        assert_eq!(opens(&path, "third"), Some(5));

        // Opening the keyslot that is removed does not prove that another one can be opened.
        let mut volume = open();
        let wrong = volume.remove_keyslot(0, Some(&secret("first")), false, &unlock, &context);
        assert_eq!(wrong.unwrap_err().class(), ErrorClass::NoKey);
        volume
            .remove_keyslot(0, Some(&secret("third")), false, &unlock, &context)
            .unwrap();
        assert_eq!(opens(&path, "first"), None);

        let last = open().remove_key(&secret("third"), false, &unlock, &context);
        assert!(last.unwrap_err().message().contains("is the last one"));
        let last = open().remove_key(&secret("third"), true, &unlock, &context);
        assert_eq!(last.unwrap(), 5);
        let volume = LuksMetadata::open_path(&path, &context).unwrap();
        assert!(volume.header.keyslots().is_empty());
    }
}

/// Must not be asked for anything.
struct Unasked;

impl Secrets for Unasked {
    fn secret(&self, _: &Path) -> Result<SecretBytes, Error> {
        panic!("a secret was asked for");
    }

    fn ask_again(&self, _: &Error) -> bool {
        panic!("a secret was asked for");
    }
}

#[test]
fn keyslots_are_checked_before_a_secret_is_asked_for() {
    let context = Context::default();
    let (options, unlock) = (KeyOptions::default(), UnlockOptions::default());
    let (_folder, path) = volume(LuksVersion::Luks1);
    let mut volume = LuksVolume::open(&path, &context).unwrap();
    let new = || panic!("a new secret was asked for");
    for (number, words) in [(0, "is in use"), (8, "the last one is 7")] {
        let error = volume.add_key(Some(number), &Unasked, new, &options, &context);
        assert!(error.unwrap_err().message().contains(words));
    }
    for (number, words) in [(0, "is the last one"), (1, "there is no keyslot 1")] {
        let error = volume.remove_keyslot(number, Some(&Unasked), false, &unlock, &context);
        assert!(error.unwrap_err().message().contains(words));
    }
}

#[test]
fn raw_modes_refuse_options_of_other_modes() {
    let context = Context::default();
    let folder = tempfile::tempdir().unwrap();
    let path = |name| folder.path().join(name);
    fs::write(path("input"), [7; 64]).unwrap();
    let key = |bytes: &[u8]| KeySpec::Ctr(AesKey::new(bytes).unwrap());
    let ctr = RawOptions {
        mode: Mode::Ctr,
        direction: Direction::Encrypt,
        data_unit: None,
        first: DataUnitNumber::new(5),
        stride: 1,
    };
    let crypt = |options: &RawOptions| {
        let mut input = Input::open(&path("input"), Role::Data).unwrap();
        let output = OutputOptions {
            force: true,
            ..OutputOptions::default()
        };
        let output = create_output(&path("output"), &output, &context).unwrap();
        crypt_raw(&mut input, output, || Ok(key(&[1; 16])), options, &context)
    };
    let units = RawOptions {
        data_unit: Some(DataUnitLen::new(20).unwrap()),
        ..ctr
    };
    let error = crypt(&units).unwrap_err();
    assert!(error.message().contains("no data units"), "{error}");
    let other = RawOptions {
        mode: Mode::Ecb,
        ..ctr
    };
    let error = crypt(&other).unwrap_err();
    assert!(error.message().contains("the key is for"), "{error}");
    assert!(!path("output").exists());
    crypt(&ctr).unwrap();
    assert_ne!(fs::read(path("output")).unwrap(), [7; 64]);
}

#[test]
fn a_header_is_backed_up_and_restored() {
    let context = Context::default();
    let (folder, path) = volume(LuksVersion::Luks2);
    let backup = folder.path().join("backup");
    let input = Input::open(&path, Role::Metadata).unwrap();
    let len = back_up_header(&input, &backup, false, &[], &context).unwrap();
    assert_eq!(fs::metadata(&backup).unwrap().len(), len);

    let mut volume = LuksVolume::open(&path, &context).unwrap();
    volume
        .change(&context, |header, storage| header.erase(storage))
        .unwrap();
    assert!(volume.header.keyslots().is_empty());
    let file = Input::open(&backup, Role::Metadata).unwrap();
    let plan = HeaderRestore::plan(&file, &path, false, &context).unwrap();
    assert!(!plan.is_serious(), "{}", plan.warning());
    plan.write(&context).unwrap();
    assert_eq!(opens(&path, "first"), Some(0));
}

/// What is written through the disk of a plain volume is what decryption reads.
#[test]
fn plain_volumes_have_one_plaintext() {
    let context = Context::default();
    let folder = tempfile::tempdir().unwrap();
    let path = |name| folder.path().join(name);
    fs::write(path("volume"), vec![0; 1 << 20]).unwrap();
    let plain = PlainVolume {
        offset: 8,
        skip: 16,
        ..PlainVolume::default()
    };
    let key = SecretBytes::copy_of(&(0..32).collect::<Vec<u8>>());
    let bytes: Vec<u8> = (0..=250).cycle().take((1 << 20) - 4096).collect();

    let (short, format) = (SecretBytes::copy_of(&[1; 16]), Arc::new(plain));
    let open = |context: &Context| {
        let options = OpenOptions::new().format(format.clone()).write(true);
        options.context(context).open(path("volume"))
    };
    let mut disk = open(&context)
        .unwrap()
        .unlock(&key)
        .unwrap()
        .disk()
        .unwrap();
    disk.write_all(&bytes).unwrap();
    disk.flush().unwrap();
    drop(disk);

    assert!(open(&context).unwrap().unlock(&short).is_err());
    let decrypt = DecryptOptions::new().volume(OpenOptions::new().format(format.clone()));
    let plain = path("plain");
    decrypt.decrypt(path("volume"), &plain, &key).unwrap();
    assert!(fs::read(plain).unwrap() == bytes);

    // A volume with no header meets no requirement.
    let strict = Context {
        policy: VolumePolicy {
            version: Some(LuksVersion::Luks2),
            ..VolumePolicy::default()
        },
        ..context
    };
    let error = open(&strict).map(|_| ()).unwrap_err();
    assert!(error.message().contains("has no header"), "{error}");
}

#[test]
fn an_export_needs_the_data_of_its_volume() {
    let context = Context::default();
    let (_folder, path) = volume(LuksVersion::Luks2);
    let (_other_folder, other) = volume(LuksVersion::Luks2);
    let (unlock, options) = (UnlockOptions::default(), DiskUse::default());
    let open = |data: &Path, secrets: &dyn Secrets| {
        let volume = LuksMetadata::open_path(&path, &context).unwrap();
        let data = DataFile::open(data, options.access()).unwrap();
        VolumeDisk::check(&volume, &data, &options)?;
        let engine = Engine::select(&context, Mode::Xts)?;
        let unlocked = volume.unlock_data(secrets, &*engine.backend, &unlock, &context)?;
        VolumeDisk::of_unlocked(volume, data, unlocked, &engine, &options, &context)
    };
    let error = open(&other, &Unasked).map(|_| ()).unwrap_err();
    assert!(error.message().contains("has the data"), "{error}");
    assert_eq!(open(&path, &secret("first")).unwrap().len(), 1 << 20);
}

/// Encrypts from a stream into a storage that is no file, changes a byte of the plaintext and a
/// keyslot there, and decrypts it again.
#[test]
fn a_volume_can_be_in_any_storage() {
    let context = Context::default();
    let name = Path::new("object");
    for version in [LuksVersion::Luks1, LuksVersion::Luks2] {
        let mut plain = vec![7; 102_400];
        let storage = Arc::new(MemoryStorage::default());
        let new = NewVolumeOptions {
            pbkdf: cheap(),
            ..NewVolumeOptions::new(version)
        };
        let mut input = Input::of_stream(std::io::Cursor::new(plain.clone()), Path::new("stream"));
        let output = Output::of_storage(storage.clone(), name);
        let first = || Ok(secret("first"));
        luxor::encrypt_to(&mut input, output, &new, first, &context).unwrap();

        let options = KeyOptions {
            pbkdf: Some(cheap()),
            ..KeyOptions::default()
        };
        let input = Input::of_storage(storage.clone(), name).unwrap();
        let mut volume = LuksVolume::of_input(input, &context).unwrap();
        let second = || Ok(secret("second"));
        volume
            .add_key(None, &secret("first"), second, &options, &context)
            .unwrap();

        let data = DataFile::of_storage(storage.clone(), name);
        let volume = OpenOptions::new()
            .write(true)
            .open_data(data, None)
            .unwrap();
        let disk = volume.unlock(&secret("second")).unwrap().disk().unwrap();
        disk.write_at(b"changed", 50_000).unwrap();
        plain[50_000..50_007].copy_from_slice(b"changed");

        let input = Input::of_storage(storage.clone(), name).unwrap();
        let volume = LuksMetadata::open_input(input, None, &context).unwrap();
        let unlock = UnlockOptions::default();
        let (mut read, write) = std::io::pipe().unwrap();
        let output = Output::of_stream(write, Path::new("pipe"));
        let decrypting = thread::spawn(move || {
            let context = Context::default();
            luxor::decrypt_to(volume, &secret("first"), &unlock, output, &context)
        });
        let mut again = Vec::new();
        read.read_to_end(&mut again).unwrap();
        decrypting.join().unwrap().unwrap();
        assert!(again == plain);

        let direct = DiskUse {
            direct: true,
            ..DiskUse::default()
        };
        let data = DataFile::of_storage(storage, name);
        let volume = OpenOptions::new()
            .disk_use(direct)
            .open_data(data, None)
            .unwrap();
        let opened = volume.unlock(&secret("first")).unwrap().disk();
        let error = opened.map(|_| ()).unwrap_err();
        assert!(error.message().contains("only a file"), "{error}");
    }
}

#[test]
fn a_cancelled_encryption_has_its_own_class() {
    let context = Context::default();
    context.cancel.store(true, Ordering::Relaxed);
    let folder = tempfile::tempdir().unwrap();
    let path = |name| folder.path().join(name);
    fs::write(path("plain"), vec![7; 1 << 20]).unwrap();
    let files = NewFiles {
        volume: &path("volume"),
        header: None,
        force: false,
        needed: &[],
    };
    let options = NewVolumeOptions {
        pbkdf: cheap(),
        ..NewVolumeOptions::new(LuksVersion::Luks2)
    };
    let mut input = Input::open(&path("plain"), Role::Data).unwrap();
    let first = || Ok(secret("first"));
    let error = luxor::encrypt_files(&mut input, &files, &options, first, &context).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Cancelled, "{error}");
    assert!(!path("volume").exists());
}

#[test]
fn a_cancelled_change_changes_nothing() {
    let context = Context::default();
    let (folder, path) = volume(LuksVersion::Luks2);
    let open = || LuksVolume::open(&path, &context).unwrap();
    let (mut changed, converted) = (open(), open());
    let mut remove = |context| {
        let unlock = UnlockOptions::default();
        changed.remove_keyslot(0, None, true, &unlock, context)
    };
    let backup = folder.path().join("backup");
    let input = Input::open(&path, Role::Metadata).unwrap();
    back_up_header(&input, &backup, false, &[], &context).unwrap();
    let input = Input::open(&backup, Role::Metadata).unwrap();
    let restored = HeaderRestore::plan(&input, &path, false, &context).unwrap();
    let before = fs::read(&path).unwrap();
    let cancelled = |result: Result<(), Error>| {
        let error = result.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Cancelled, "{error}");
    };

    // Another program has the lock when the caller cancels, and keeps it.
    let lock = File::open(&path).unwrap();
    lock.lock_shared().unwrap();
    let begun = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(100));
            context.cancel.store(true, Ordering::Relaxed);
        });
        cancelled(remove(&context));
    });
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "it waited for the lock"
    );
    drop(lock);

    // The lock is free.
    cancelled(remove(&context));
    cancelled(converted.convert(false, &context));
    cancelled(restored.write(&context));
    cancelled(repair_header(&path, Overwrite::Damaged, &context).map(|_| ()));
    assert!(fs::read(&path).unwrap() == before);

    // No lock protects a storage that is no file.
    let storage = Arc::new(MemoryStorage::new(before.clone()));
    let input = Input::of_storage(storage.clone(), Path::new("object")).unwrap();
    let mut changed = LuksVolume::of_input(input, &Context::default()).unwrap();
    cancelled(changed.change(&context, |header, storage| header.erase(storage)));
    assert!(storage.to_bytes() == before);
}

#[test]
fn a_volume_key_opens_the_data_but_no_keyslot() {
    let context = Context::default();
    for version in [LuksVersion::Luks1, LuksVersion::Luks2] {
        let (_folder, path) = volume(version);
        let open = || LuksMetadata::open_path(&path, &context).unwrap();
        let engine = Engine::select(&context, Mode::Xts).unwrap();
        let (backend, unlock) = (&*engine.backend, UnlockOptions::default());
        let (unlocked, _) = open()
            .unlock(&secret("first"), backend, &unlock, &context)
            .unwrap();
        let key = unlocked.volume_key.expose().to_vec();
        let keys = |key: &[u8]| {
            let key = VolumeKeySecret(SecretBytes::copy_of(key));
            open().unlock_data(&key, backend, &unlock, &context)
        };
        let found = keys(&key).unwrap();
        assert_eq!(found.keys.len(), 1);
        assert_eq!(found.keys[&0].volume_key().unwrap().expose(), key);
        let mut other = key.clone();
        other[0] ^= 1;
        let not_its_key = "this is not the volume key of the volume";
        for (wrong, reason) in [
            (&other[..], not_its_key.to_owned()),
            (
                &key[1..],
                format!(
                    "{not_its_key}: it has {} bytes, not {}",
                    key.len() - 1,
                    key.len()
                ),
            ),
            (
                &[],
                format!("{not_its_key}: it has 0 bytes, not {}", key.len()),
            ),
        ] {
            let error = keys(wrong).unwrap_err();
            assert_eq!(error.class(), ErrorClass::NoKey, "{error}");
            assert!(error.message().ends_with(&reason), "{error}");
        }
        let key = VolumeKeySecret(SecretBytes::copy_of(&key));
        let removed = LuksVolume::open(&path, &context)
            .unwrap()
            .remove_key(&key, true, &unlock, &context);
        let error = removed.unwrap_err();
        assert!(error.message().contains("belongs to no keyslot"), "{error}");
    }
}

#[test]
fn the_trailer_of_a_streamed_file_sets_the_length_of_its_disk() {
    let context = Context::default();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume");
    let plain: Vec<u8> = (0..10_001_u32).map(|i| i.to_le_bytes()[0]).collect();
    let input = Input::of_stream(std::io::Cursor::new(plain.clone()), Path::new("plain"));
    let output = Output::of_stream(File::create(&path).unwrap(), Path::new("volume"));
    let options = NewVolumeOptions {
        pbkdf: cheap(),
        ..NewVolumeOptions::new(LuksVersion::Luks2)
    };
    let first = || Ok(secret("first"));
    luxor::encrypt_to(&mut { input }, output, &options, first, &context).unwrap();

    let open = |path: &Path| {
        let volume = OpenOptions::new().write(true).open(path).unwrap();
        volume.unlock(&secret("first")).unwrap().disk().unwrap()
    };
    let export = open(&path);
    assert_eq!(export.shared().len(), 10_001);
    let mut stream = DiskStream::new(export.shared().clone());
    stream.write_all(b"changed").unwrap();
    stream.flush().unwrap();
    drop((stream, export));
    let export = open(&path);
    let mut read = Vec::new();
    DiskStream::new(export.shared().clone())
        .read_to_end(&mut read)
        .unwrap();
    assert_eq!(read[..7], *b"changed");
    assert!(read[7..] == plain[7..]);
    drop(export);

    // Behind the trailer is noise: all sectors are shown, read-only.
    File::options()
        .append(true)
        .open(&path)
        .unwrap()
        .write_all(&[7; 5000])
        .unwrap();
    let export = open(&path);
    assert_eq!(export.shared().len(), 3 * 4096 + 2 * 4096);
    assert!(
        DiskStream::new(export.shared().clone())
            .write_all(b"x")
            .is_err()
    );
}

#[test]
fn a_new_volume_that_lacks_a_write_does_not_appear() {
    let (folder, context) = (TempDir::new().unwrap(), Context::default());
    let path = folder.path().join("volume");
    let options = NewVolumeOptions {
        pbkdf: cheap(),
        ..NewVolumeOptions::new(LuksVersion::Luks2)
    };
    let files = NewFiles {
        volume: &path,
        header: None,
        force: false,
        needed: &[],
    };
    for write in [
        |writer: &VolumeWriter| writer.write(b"after a gap", 1 << 60),
        |writer: &VolumeWriter| writer.set_len(1 << 60),
        |writer: &VolumeWriter| writer.check_len(1 << 60),
    ] {
        let writer =
            VolumeWriter::create(&files, &options, || Ok(secret("first")), &context).unwrap();
        writer.write(b"whole", 0).unwrap();
        writer.check_complete().unwrap();
        // The file system has not so much space, and is not filled.
        let refused = write(&writer).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::StorageFull);
        assert_eq!(writer.len(), 5);
        writer.write(b"goes on", 0).unwrap();
        let error = writer.finish(&context).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("a write to the new volume failed")
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
