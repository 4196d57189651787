// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes, changes and reads volumes through the library alone.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use luxor::{
    Context, ErrorClass, Export, ExportOptions, HeaderRestore, KeyOptions, NewFiles, PlainVolume,
    Volume, back_up_header, create_output, decrypt_plaintext,
};
use luxor_engine::SecretBytes;
use luxor_files::{Input, OutputOptions, Role};
use luxor_luks::{LuksVersion, NewVolumeOptions, PbkdfKind, PbkdfOptions, UnlockOptions};
use luxor_sector::DiskStream;
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
    luxor::format(&files, Some(1 << 20), &options, first, &Context::default()).unwrap();
    (folder, path)
}

/// Returns the keyslot that a secret opens, or `None`.
fn opens(path: &Path, text: &str) -> Option<u32> {
    let context = Context::default();
    let volume = Volume::open_metadata(path, Role::Metadata, &context).unwrap();
    let engine = luxor::Engine::select(&context, luxor_engine::Mode::Xts).unwrap();
    let (backend, options) = (&*engine.backend, UnlockOptions::default());
    match volume.test(&secret(text), backend, &options, &context) {
        Ok(unlocked) => Some(unlocked.keyslot),
        Err(error) => {
            assert_eq!(error.class(), ErrorClass::NoKey, "{error}");
            None
        }
    }
}

#[test]
fn keys_come_and_go() {
    let context = Context::default();
    let options = KeyOptions {
        pbkdf: Some(cheap()),
        ..KeyOptions::default()
    };
    let unlock = UnlockOptions::default();
    for version in [LuksVersion::Luks1, LuksVersion::Luks2] {
        let (_folder, path) = volume(version);
        let open = || Volume::open_metadata(&path, Role::Change, &context).unwrap();
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
        let volume = Volume::open_metadata(&path, Role::Metadata, &context).unwrap();
        assert!(volume.header.keyslots().is_empty());
    }
}

#[test]
fn a_header_comes_back() {
    let context = Context::default();
    let (folder, path) = volume(LuksVersion::Luks2);
    let backup = folder.path().join("backup");
    let input = Input::open(&path, Role::Metadata).unwrap();
    let len = back_up_header(&input, &backup, false, &[], &context).unwrap();
    assert_eq!(fs::metadata(&backup).unwrap().len(), len);

    let mut volume = Volume::open_metadata(&path, Role::Change, &context).unwrap();
    volume
        .change(|header, storage| header.erase(storage))
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

    let options = ExportOptions::default();
    let secret = || Ok(key.clone());
    let export =
        Export::open_plain(&path("volume"), &plain, secret, false, &options, &context).unwrap();
    let mut stream = DiskStream::new(export.disk.clone());
    stream.write_all(&bytes).unwrap();
    stream.flush().unwrap();
    drop((stream, export));

    let input = Input::open(&path("volume"), Role::Data).unwrap();
    let extent = plain.extent(input.len().unwrap(), "volume").unwrap();
    let plaintext = plain.plaintext(extent, key, false).unwrap();
    let output = create_output(&path("plain"), &OutputOptions::default(), &context).unwrap();
    decrypt_plaintext(input, &plaintext, output, &context).unwrap();
    assert!(fs::read(path("plain")).unwrap() == bytes);
}
