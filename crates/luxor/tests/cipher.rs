// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes and reads volumes whose data the caller reads and writes itself.

use std::{
    ops::Range,
    path::Path,
    sync::{Arc, atomic::Ordering},
    thread,
};

use luxor::{
    Context, Engine, Error, ErrorClass, LuksMetadata, NewHeader, VolumeCipher, VolumeKeySecret,
    encrypt_to, new_header,
};
use luxor_engine::{Direction, InOut, Mode};
use luxor_files::{Input, Output};
use luxor_luks::{
    Kdf, KeyCache, LuksVersion, NewVolumeOptions, PbkdfKind, PbkdfOptions, UnlockOptions,
    VolumeHeader,
};
use luxor_secret::SecretBytes;
use luxor_sector::{MemoryStorage, SectorSize, Storage};
use luxor_volume::Unlocked;

const NAME: &str = "object";

fn secret(text: &str) -> SecretBytes {
    SecretBytes::copy_of(text.as_bytes())
}

/// Options for a volume that is quick to open, and weak.
fn options(version: LuksVersion) -> NewVolumeOptions {
    NewVolumeOptions {
        pbkdf: PbkdfOptions {
            kind: PbkdfKind::Pbkdf2,
            force_iterations: Some(1000),
            ..PbkdfOptions::default()
        },
        ..NewVolumeOptions::new(version)
    }
}

fn made(len: u64, options: &NewVolumeOptions) -> NewHeader {
    let first = || Ok(secret("first"));
    new_header(len, options, first, &Context::default()).unwrap()
}

/// A storage with the header alone: the data are zeros.
fn storage(new: &NewHeader) -> Arc<MemoryStorage> {
    let mut bytes = new.bytes.clone();
    bytes.resize(usize::try_from(new.volume_len).unwrap(), 0);
    Arc::new(MemoryStorage::new(bytes))
}

fn volume_key(unlocked: &Unlocked) -> Vec<u8> {
    unlocked.keys[&0].volume_key().unwrap().expose().to_vec()
}

fn volume(storage: &Arc<MemoryStorage>) -> LuksMetadata {
    let input = Input::of_storage(storage.clone(), Path::new(NAME)).unwrap();
    LuksMetadata::open_input(input, None, &Context::default()).unwrap()
}

fn cipher(storage: &Arc<MemoryStorage>) -> VolumeCipher {
    let unlock = UnlockOptions::default();
    VolumeCipher::open(
        volume(storage),
        &secret("first"),
        &unlock,
        &Context::default(),
    )
    .unwrap()
}

fn decrypted(storage: &Arc<MemoryStorage>) -> Vec<u8> {
    let target = Arc::new(MemoryStorage::default());
    let output = Output::of_storage(target.clone(), Path::new("plain"));
    let unlock = UnlockOptions::default();
    luxor::decrypt_to(
        volume(storage),
        &secret("first"),
        &unlock,
        output,
        &Context::default(),
    )
    .unwrap();
    target.to_bytes()
}

/// Encrypts `plain` as a caller would that writes one range after the other.
fn write(cipher: &VolumeCipher, storage: &MemoryStorage, plain: &[u8]) {
    for range in cipher.stored(0..plain.len() as u64).unwrap() {
        let bytes = index(&range.plaintext);
        let mut data = plain[bytes.start..bytes.end.min(plain.len())].to_vec();
        data.resize(bytes.len(), 0);
        let data = data.as_mut_slice();
        cipher
            .crypt(Direction::Encrypt, data.into(), range.plaintext.start)
            .unwrap();
        storage.write_all_at(data, range.offset).unwrap();
    }
}

/// Returns the bytes of `range`, which are read and decrypted with the sectors around them.
fn read(cipher: &VolumeCipher, storage: &MemoryStorage, range: Range<u64>) -> Vec<u8> {
    let mut found = Vec::new();
    for stored in cipher.stored(range.clone()).unwrap() {
        let whole = stored.plaintext;
        let mut input = vec![0; index(&whole).len()];
        storage.read_exact_at(&mut input, stored.offset).unwrap();
        let mut output = vec![0; input.len()];
        let data = InOut::Separate {
            input: &input,
            output: &mut output,
        };
        cipher.crypt(Direction::Decrypt, data, whole.start).unwrap();
        let wanted =
            range.start.max(whole.start) - whole.start..range.end.min(whole.end) - whole.start;
        found.extend_from_slice(&output[index(&wanted)]);
    }
    found
}

fn index(range: &Range<u64>) -> Range<usize> {
    usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()
}

fn bytes(len: u64) -> Vec<u8> {
    (0..=250)
        .cycle()
        .take(usize::try_from(len).unwrap())
        .collect()
}

#[test]
fn a_header_and_encrypted_data_are_a_volume() {
    let luks1 = options(LuksVersion::Luks1);
    let luks2 = options(LuksVersion::Luks2);
    let small = NewVolumeOptions {
        sector_size: Some(SectorSize::B512),
        ..luks2.clone()
    };
    for (options, lens) in [
        (&luks1, &[512, 4096, 4608, 100_352][..]),
        (&luks2, &[0, 1, 511, 512, 4095, 4096, 4097, 100_000]),
        (&small, &[0, 1, 511, 512, 513, 4096, 4097]),
    ] {
        for &len in lens {
            let words = format!("{len} bytes in {}", options.version);
            let new = made(len, options);
            let sector = options.sector_size().bytes() as u64;
            let data_offset = new.bytes.len() as u64;
            assert_eq!(data_offset, options.data_offset(), "{words}");
            // At least one sector.
            let payload = len.max(1).next_multiple_of(sector);
            assert_eq!(new.volume_len, data_offset + payload, "{words}");

            let storage = storage(&new);
            assert_eq!(volume(&storage).plaintext_len().unwrap(), Some(len));
            let cipher = cipher(&storage);
            assert_eq!(cipher.len(), len, "{words}");
            assert_eq!(cipher.is_empty(), len == 0, "{words}");
            assert_eq!(cipher.sector_size() as u64, sector, "{words}");
            let plain = bytes(len);
            write(&cipher, &storage, &plain);
            assert!(decrypted(&storage) == plain, "{words}");
            for range in [0..len, len / 3..len, len / 3..len / 2, len..len] {
                let found = read(&cipher, &storage, range.clone());
                assert!(found == plain[index(&range)], "{range:?} of {words}");
            }
        }
    }
}

#[test]
fn a_cipher_decrypts_what_was_encrypted_into_a_volume() {
    for version in [LuksVersion::Luks1, LuksVersion::Luks2] {
        let plain = bytes(150_016);
        let storage = Arc::new(MemoryStorage::default());
        let mut input = Input::of_stream(std::io::Cursor::new(plain.clone()), Path::new("stream"));
        let output = Output::of_storage(storage.clone(), Path::new(NAME));
        let first = || Ok(secret("first"));
        encrypt_to(
            &mut input,
            output,
            &options(version),
            first,
            &Context::default(),
        )
        .unwrap();
        let cipher = cipher(&storage);
        let stored = storage.to_bytes();
        let begin = stored.len()
            - usize::try_from(cipher.stored(0..150_016).unwrap()[0].plaintext.end).unwrap();
        thread::scope(|scope| {
            for thread in 0..4 {
                let (cipher, storage, plain) = (&cipher, &storage, &plain);
                scope.spawn(move || {
                    for step in 0..50 {
                        let at = (thread * 7919 + step * 4093) % 145_000;
                        let range = at..at + 5000;
                        let found = read(cipher, storage, range.clone());
                        assert!(found == plain[index(&range)], "{range:?}");
                    }
                });
            }
        });
        // The same bytes again, as the volume key is the same.
        write(&cipher, &storage, &plain);
        assert!(storage.to_bytes()[begin..] == stored[begin..]);
    }
}

#[test]
fn lengths_that_do_not_fit_are_refused_before_a_secret_is_asked_for() {
    let context = Context::default();
    let unasked = || panic!("a secret was asked for");
    let refused = |len, version| -> Error {
        new_header(len, &options(version), unasked, &context).unwrap_err()
    };
    for len in [0, 1, 511, 513, u64::MAX] {
        let error = refused(len, LuksVersion::Luks1);
        assert!(error.message().contains(&format!("{len} bytes")), "{error}");
        assert!(error.message().contains("LUKS1"), "{error}");
    }
    let max = u64::try_from(i64::MAX).unwrap();
    for version in [LuksVersion::Luks1, LuksVersion::Luks2] {
        let options = options(version);
        let sector = options.sector_size().bytes() as u64;
        let longest = (max - options.data_offset()) / sector * sector;
        for len in [longest + sector, (max + 1), u64::MAX / 512 * 512] {
            let error = refused(len, version);
            let words = format!("{len} bytes are too many");
            assert!(error.message().contains(&words), "{error}");
        }
        let new = made(longest, &options);
        assert_eq!(new.volume_len, longest + options.data_offset());
    }
    let error = refused(u64::MAX, LuksVersion::Luks2);
    assert!(error.message().contains("too many"), "{error}");
}

/// `detached` and `file_length` do not count.
#[test]
fn a_header_is_never_detached() {
    let options = NewVolumeOptions {
        detached: true,
        file_length: Some(5),
        ..options(LuksVersion::Luks2)
    };
    let new = made(10_000, &options);
    assert_eq!(new.bytes.len(), 16 << 20);
    assert_eq!(cipher(&storage(&new)).len(), 10_000);
}

#[test]
fn a_new_header_can_be_cancelled_and_its_secret_can_be_missing() {
    let context = Context::default();
    let missing = || Err(Error::failure("no secret".to_owned()));
    let error = new_header(5, &options(LuksVersion::Luks2), missing, &context).unwrap_err();
    assert_eq!(error.message(), "no secret");
    context.cancel.store(true, Ordering::Relaxed);
    let first = || Ok(secret("first"));
    let error = new_header(5, &options(LuksVersion::Luks2), first, &context).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Cancelled, "{error}");
}

fn kdf(storage: &Arc<MemoryStorage>) -> Kdf {
    volume(storage).header.keyslots()[&0].kdf.clone()
}

#[test]
fn a_volume_like_another_has_its_derivation() {
    let luks2 = options(LuksVersion::Luks2);
    let argon2 = NewVolumeOptions {
        pbkdf: PbkdfOptions {
            kind: PbkdfKind::Argon2id,
            memory_kib: Some(64),
            parallel: Some(1),
            force_iterations: Some(5),
            ..PbkdfOptions::default()
        },
        ..luks2.clone()
    };
    for other in [&luks2, &argon2, &options(LuksVersion::Luks1)] {
        let other = storage(&made(5120, other));
        let kdf_of_other = kdf(&other);
        let cache = Arc::new(KeyCache::default());
        let like = NewVolumeOptions {
            pbkdf: PbkdfOptions {
                cache: Some(cache.clone()),
                ..PbkdfOptions::like(kdf_of_other.clone())
            },
            ..luks2.clone()
        };
        let mut unlock = UnlockOptions {
            cache: Some(cache),
            ..UnlockOptions::default()
        };
        // One after the other, from one derivation.
        let volumes = [
            storage(&made(5120, &like)),
            storage(&made(5120, &like)),
            other,
        ];
        let mut keys = Vec::new();
        for one in &volumes {
            assert_eq!(kdf(one), kdf_of_other);
            let (context, secret) = (Context::default(), secret("first"));
            let engine = Engine::select(&context, Mode::Xts).unwrap();
            let opened = volume(one).unlock_data(&secret, &*engine.backend, &unlock, &context);
            keys.push(volume_key(&opened.unwrap()));
        }
        assert!(keys[0] != keys[1] && keys[1] != keys[2] && keys[0] != keys[2]);
        let VolumeHeader::Luks2(header) = *volume(&volumes[0]).header else {
            panic!("it is LUKS2");
        };
        let json: serde_json::Value = serde_json::from_str(&header.metadata_json()).unwrap();
        assert_eq!(json["digests"]["0"]["iterations"], 1000);

        // A cache does not help a wrong secret.
        for cache in [unlock.cache.take(), None] {
            let unlock = UnlockOptions {
                cache,
                ..UnlockOptions::default()
            };
            for text in ["First", "firs", "first ", ""] {
                let opened = VolumeCipher::open(
                    volume(&volumes[0]),
                    &secret(text),
                    &unlock,
                    &Context::default(),
                );
                assert_eq!(opened.unwrap_err().class(), ErrorClass::NoKey);
            }
            let opened = VolumeCipher::open(
                volume(&volumes[0]),
                &secret("first"),
                &unlock,
                &Context::default(),
            );
            assert_eq!(opened.unwrap().len(), 5120);
        }
    }
}

#[test]
fn a_keyslot_of_luks1_cannot_be_like_another() {
    let kdf = kdf(&storage(&made(512, &options(LuksVersion::Luks1))));
    let like = NewVolumeOptions {
        pbkdf: PbkdfOptions::like(kdf),
        ..options(LuksVersion::Luks1)
    };
    let first = || Ok(secret("first"));
    let error = new_header(512, &like, first, &Context::default()).unwrap_err();
    assert!(
        error.message().contains("only a volume of LUKS2"),
        "{error}"
    );
}

#[test]
fn a_cipher_needs_the_key_and_the_length() {
    let context = Context::default();
    let unlock = UnlockOptions::default();
    let open =
        |volume: LuksMetadata| VolumeCipher::open(volume, &secret("first"), &unlock, &context);
    for version in [LuksVersion::Luks1, LuksVersion::Luks2] {
        let new = made(8192, &options(version));
        let storage = storage(&new);
        let wrong = VolumeCipher::open(volume(&storage), &secret("second"), &unlock, &context);
        assert_eq!(wrong.unwrap_err().class(), ErrorClass::NoKey);

        let engine = Engine::select(&context, Mode::Xts).unwrap();
        let keys =
            volume(&storage).unlock_data(&secret("first"), &*engine.backend, &unlock, &context);
        let key = SecretBytes::copy_of(&volume_key(&keys.unwrap()));
        let opened = VolumeCipher::open(volume(&storage), &VolumeKeySecret(key), &unlock, &context);
        assert_eq!(opened.unwrap().len(), 8192);

        // The data are cut off, or only the header is there.
        for len in [
            new.volume_len - 4096,
            new.volume_len - 1,
            new.bytes.len() as u64,
        ] {
            let mut bytes = storage.to_bytes();
            bytes.truncate(usize::try_from(len).unwrap());
            let short = Arc::new(MemoryStorage::new(bytes));
            match (open(volume(&short)), version) {
                // Its data extend to the end, whatever it is.
                (Ok(cipher), LuksVersion::Luks1) => {
                    assert_eq!(cipher.len(), len - new.bytes.len() as u64);
                }
                (opened, _) => {
                    let error = opened.unwrap_err();
                    assert!(error.message().starts_with(NAME), "{error}");
                }
            }
        }
    }
    // A stream of LUKS1 does not say how long it is.
    let bytes = storage(&made(8192, &options(LuksVersion::Luks1))).to_bytes();
    let input = Input::of_stream(std::io::Cursor::new(bytes), Path::new("stream"));
    let error = open(LuksMetadata::open_input(input, None, &context).unwrap()).unwrap_err();
    assert_eq!(error.message(), "stream has no known length");
}
