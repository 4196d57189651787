// SPDX-License-Identifier: MIT OR Apache-2.0
//! New LUKS1 volumes: compared with those that `cryptsetup` creates, and when the power is cut.

use std::{fs, fs::File, path::Path, process::Command};

use luxor_engine::KeySize;
use luxor_luks::{
    CreateError, HashAlgorithm, Luks1Header, Luks1Options, NewLuks1Volume, PbkdfKind, PbkdfOptions,
    PbkdfOptionsError, UnlockOptions, VolumeHeader,
};
use luxor_sector::{
    MemoryStorage, Storage,
    faulty::{Cut, Faults, PowerCuts},
};

use crate::backend;

const SECRET: &[u8] = b"secret";

fn options(hash: HashAlgorithm, key_size: KeySize, detached: bool) -> Luks1Options {
    let defaults = Luks1Options::default();
    Luks1Options {
        key_size,
        volume_key: None,
        hash,
        pbkdf: PbkdfOptions {
            force_iterations: Some(1000),
            ..defaults.pbkdf.clone()
        },
        uuid: Some("01234567-89ab-4def-8123-456789abcdef".parse().unwrap()),
        detached,
        ..defaults
    }
}

fn made(options: &Luks1Options) -> NewLuks1Volume {
    NewLuks1Volume::create(options, SECRET, &*backend()).unwrap()
}

/// Returns the first `len` bytes of the volume that `cryptsetup` creates with the same options.
fn made_by_cryptsetup(options: &Luks1Options, len: u64) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let sparse = |name: &str, len| File::create(path(name)).unwrap().set_len(len).unwrap();
    fs::write(path("secret"), SECRET).unwrap();
    sparse("data", 3 << 20);
    let (file, header) = if options.detached {
        ("header", "--header header")
    } else {
        ("data", "")
    };
    if options.detached {
        sparse("header", len);
    }
    let key_size = 16 * options.key_size.bytes();
    let line = format!(
        "luksFormat -q --type luks1 --key-file secret --pbkdf-force-iterations 1000 --hash {} \
         --key-size {key_size} --uuid {} {header} data",
        options.hash,
        options.uuid.unwrap(),
    );
    cryptsetup(folder.path(), &line);
    let mut bytes = fs::read(path(file)).unwrap();
    bytes.truncate(usize::try_from(len).unwrap());
    bytes
}

fn cryptsetup(folder: &Path, line: &str) {
    let output = Command::new("cryptsetup")
        .args(line.split_whitespace())
        .current_dir(folder)
        .output()
        .expect("cryptsetup must be installed");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cryptsetup {line}: {errors}");
}

/// Returns the header without its random fields: the digest with its salt, and keyslot 0's salt.
fn without_random_fields(bytes: &[u8]) -> Vec<u8> {
    let mut header = bytes[..592].to_vec();
    header[112..164].fill(0);
    header[216..248].fill(0);
    header
}

/// Returns for each 512-byte sector whether it contains anything but zeros.
fn used_sectors(bytes: &[u8]) -> Vec<bool> {
    let is_used = |sector: &[u8]| sector.iter().any(|&byte| byte != 0);
    bytes.chunks(512).map(is_used).collect()
}

#[test]
fn a_new_volume_equals_that_of_cryptsetup() {
    for hash in HashAlgorithm::ALL {
        for key_size in [KeySize::Aes128, KeySize::Aes256] {
            for detached in [false, true] {
                let words = format!("{hash}, {key_size:?}, {detached}");
                let options = options(hash, key_size, detached);
                let volume = made(&options);
                let storage = MemoryStorage::default();
                volume.write_to(&storage).unwrap();
                let ours = storage.into_bytes();
                assert_eq!(ours.len() as u64, volume.header_len(), "{words}");
                let theirs = made_by_cryptsetup(&options, volume.header_len());
                assert_eq!(without_random_fields(&ours), without_random_fields(&theirs));
                assert_eq!(used_sectors(&ours), used_sectors(&theirs), "{words}");

                let header = Luks1Header::read(&MemoryStorage::new(theirs)).unwrap();
                assert_eq!(header.segment(), Some(volume.segment()), "{words}");
            }
        }
    }
}

#[test]
fn nothing_repeats_and_the_stream_is_the_same() {
    let volume = made(&options(HashAlgorithm::Sha256, KeySize::Aes256, false));
    let mut stream = Vec::new();
    volume.write_stream(&mut stream).unwrap();
    assert_eq!(stream.len() as u64, volume.header_len());
    let storage = MemoryStorage::default();
    volume.write_to(&storage).unwrap();
    let written = storage.into_bytes();
    // Compares the header and the keyslot; the other areas are filled with new random bytes each
    // time.
    assert_eq!(stream[..4096 + 256_000], written[..4096 + 256_000]);
    assert_ne!(stream[516 * 512..], written[516 * 512..]);
    assert_eq!(used_sectors(&stream), used_sectors(&written));
    let mut seen = std::collections::HashSet::new();
    for (i, piece) in written[4096..].chunks(64).enumerate() {
        let is_new = seen.insert(piece) || piece == [0; 64];
        assert!(is_new, "64-byte piece {i} occurred before");
    }
}

#[test]
fn options_that_luks1_does_not_have_are_refused() {
    for kind in [PbkdfKind::Argon2id, PbkdfKind::Argon2i] {
        let options = Luks1Options {
            pbkdf: PbkdfOptions {
                kind,
                ..PbkdfOptions::default()
            },
            ..Luks1Options::default()
        };
        let error = NewLuks1Volume::create(&options, SECRET, &*backend()).unwrap_err();
        let CreateError::Options(PbkdfOptionsError::NotForLuks1 { name }) = error else {
            panic!("{error}")
        };
        assert_eq!(name, kind.name());
    }
}

/// The storage must not look like a volume before the volume is complete.
#[test]
fn a_power_cut_leaves_a_complete_volume_or_none() {
    let volume = made(&options(HashAlgorithm::Sha256, KeySize::Aes128, true));
    let len = usize::try_from(volume.header_len()).unwrap();
    let whole = MemoryStorage::default();
    volume.write_to(&whole).unwrap();
    let whole = whole.into_bytes();
    let image = vec![0; len];
    let check = |after: MemoryStorage, _: &Cut<'_>| {
        let mut head = [0; 592];
        after.read_exact_at(&mut head, 0).unwrap();
        if head[..8] != *b"LUKS\xba\xbe\x00\x01" {
            return match VolumeHeader::read(&after) {
                Ok(_) => Err("a volume without a header"),
                Err(_) => Ok(()),
            };
        }
        let bytes = after.into_bytes();
        // The other areas hold different random bytes.
        if bytes[..4096 + 128_000] == whole[..4096 + 128_000] {
            Ok(())
        } else {
            Err("a header without its keyslot")
        }
    };
    let cuts = PowerCuts {
        image: &image,
        ..PowerCuts::default()
    };
    let seen = cuts
        .check(|storage| volume.write_to(storage).unwrap(), check)
        .unwrap();
    assert!(seen > 100, "{seen}");
    let faults = Faults {
        ignore_syncs: true,
        ..Faults::default()
    };
    let noticed = PowerCuts { faults, ..cuts }
        .check(|storage| volume.write_to(storage).unwrap(), check)
        .unwrap_err();
    assert!(
        noticed.to_string().starts_with("a header without"),
        "{noticed}"
    );

    let header = Luks1Header::read(&MemoryStorage::new(whole.clone())).unwrap();
    let storage = MemoryStorage::new(whole);
    let options = UnlockOptions::default();
    let unlocked = header
        .unlock(&storage, SECRET, &*backend(), &options)
        .unwrap();
    assert_eq!(unlocked.volume_key.expose(), volume.volume_key().expose());
}
