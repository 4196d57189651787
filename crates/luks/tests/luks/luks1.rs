// SPDX-License-Identifier: MIT OR Apache-2.0
//! LUKS1 headers that `cryptsetup` created: unchanged, damaged, and hostile.

use std::{
    fs::{self, File},
    path::Path,
    process::Command,
};

use luxor_luks::{
    CostError, Kdf, KeyslotError, Luks1Error, Luks1Header, Luks2Header, ReadError, SegmentError,
    UnlockError, UnlockOptions, Unlocked, VolumeHeader, VolumeReadError,
};
use luxor_sector::{IvMode, MemoryStorage, SectorSize};

use crate::backend;

const SECRET: &[u8] = b"secret";
/// The length of the area of a keyslot with a key of 32 bytes.
const AREA: usize = 32 * 4000;
const LEN: usize = 592;

fn cryptsetup(folder: &Path, arguments: &str) -> String {
    let output = Command::new("cryptsetup")
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .output()
        .expect("cryptsetup must be installed");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cryptsetup {arguments}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns a header with one keyslot and a key of 32 bytes, the keyslot's area, and the key.
fn volume() -> (Vec<u8>, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("secret"), SECRET).unwrap();
    File::create(folder.path().join("volume"))
        .unwrap()
        .set_len(3 << 20)
        .unwrap();
    cryptsetup(
        folder.path(),
        "luksFormat -q --type luks1 --key-file secret --pbkdf-force-iterations 1000 \
         --key-size 256 --uuid 01234567-89ab-4def-8123-456789abcdef volume",
    );
    cryptsetup(
        folder.path(),
        "luksDump -q --dump-volume-key --volume-key-file key --key-file secret volume",
    );
    let mut bytes = fs::read(folder.path().join("volume")).unwrap();
    bytes.truncate(4096 + AREA);
    (bytes, fs::read(folder.path().join("key")).unwrap())
}

fn read(bytes: &[u8]) -> Result<Luks1Header, Luks1Error> {
    let storage = MemoryStorage::new(bytes.to_vec());
    let header = Luks1Header::read(&storage);
    assert!(storage.into_bytes() == bytes, "reading wrote");
    header
}

fn unlock(header: &Luks1Header, bytes: &[u8]) -> Result<Unlocked, UnlockError> {
    // A damaged number of iterations could take years.
    let options = UnlockOptions {
        iterations_limit: Some(2000),
        ..UnlockOptions::default()
    };
    let storage = MemoryStorage::new(bytes.to_vec());
    let unlocked = header.unlock(&storage, SECRET, &*backend(), &options);
    assert!(storage.into_bytes() == bytes, "opening wrote");
    unlocked
}

/// Returns `bytes` with `value` at byte `offset`.
fn patched(bytes: &[u8], offset: usize, value: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[offset..][..value.len()].copy_from_slice(value);
    bytes
}

/// Checks that the header is valid, and that opening it is refused with these words.
fn not_openable(header: &Luks1Header, words: &str) {
    assert_eq!(header.segment(), None);
    let options = UnlockOptions::default();
    let storage = MemoryStorage::new(Vec::new());
    let error = header.unlock(&storage, SECRET, &*backend(), &options);
    let error = error.unwrap_err();
    assert!(matches!(error, UnlockError::Segment(_)), "{error}");
    assert!(error.to_string().contains(words), "{words}: {error}");
}

/// Spellings of `aes-xts-plain64`, and the hash in capital letters.
#[test]
fn other_spellings_open() {
    let (bytes, key) = volume();
    for (cipher, mode, hash) in [
        ("aes", "xts-plain64:sha256", "sha256"),
        ("aes:1", "xts-plain64", "SHA256"),
        ("capi:xts(aes)", "plain64", "Sha256"),
    ] {
        let mut bytes = bytes.clone();
        for (offset, name) in [(8, cipher), (40, mode), (72, hash)] {
            bytes = patched(&bytes, offset, format!("{name}\0").as_bytes());
        }
        let header = read(&bytes).unwrap();
        assert_eq!(header.describe().encryption, format!("{cipher}-{mode}"));
        let opened = unlock(&header, &bytes).unwrap();
        assert_eq!(opened.volume_key.expose(), key);
    }
}

#[test]
fn every_field_is_read() {
    let (bytes, key) = volume();
    let header = read(&bytes).unwrap();
    let description = header.describe();
    assert_eq!(description.uuid, "01234567-89ab-4def-8123-456789abcdef");
    assert_eq!(description.encryption, "aes-xts-plain64");
    assert_eq!(description.hash, "sha256");
    assert_eq!(description.key_len, 32);
    assert_eq!(description.keyslots.len(), 1);
    let keyslot = &description.keyslots[&0];
    assert_eq!((keyslot.area.offset, keyslot.area.size), (4096, 128_000));
    assert_eq!((keyslot.key_len, keyslot.stripes), (32, 4000));
    assert_eq!(
        keyslot.kdf,
        Kdf::Pbkdf2 {
            hash: "sha256".into(),
            iterations: 1000,
            salt: bytes[216..248].to_vec(),
        }
    );
    assert_eq!(description.digest.value, bytes[112..132]);
    assert_eq!(description.digest.salt, bytes[132..164]);
    assert_eq!(description.digest.iterations, 1000);
    let segment = header.segment().unwrap();
    assert_eq!(segment.offset, 2 << 20);
    assert_eq!(segment.geometry.sector_size, SectorSize::B512);
    assert_eq!(segment.geometry.iv_mode, IvMode::Plain64);
    assert_eq!(segment.geometry.iv_offset, 0);
    assert_eq!(header.plaintext_len(3 << 20), Ok(1 << 20));
    let cut_off = header.plaintext_len((3 << 20) - 1);
    assert!(matches!(cut_off, Err(SegmentError::PartSector { .. })));
    // The areas of the other seven keyslots, each at the next page.
    assert_eq!(header.metadata_len(), 4096 + 7 * 131_072 + 128_000);

    let unlocked = unlock(&header, &bytes).unwrap();
    assert_eq!(unlocked.volume_key.expose(), key);
    let storage = MemoryStorage::new(bytes.clone());
    let options = UnlockOptions::default();
    let error = header
        .unlock(&storage, b"Secret", &*backend(), &options)
        .unwrap_err();
    assert!(error.is_wrong_secret(), "{error}");

    let plain = patched(&bytes, 40, b"xts-plain\0\0");
    let header = read(&plain).unwrap();
    assert_eq!(header.segment().unwrap().geometry.iv_mode, IvMode::Plain);
    assert_eq!(unlock(&header, &plain).unwrap().volume_key.expose(), key);
}

#[test]
fn luks_versions_are_distinguished() {
    let (bytes, _) = volume();
    let storage = MemoryStorage::new(bytes.clone());
    let read = |bytes| VolumeHeader::read(&MemoryStorage::new(bytes));
    assert!(matches!(read(bytes.clone()), Ok(VolumeHeader::Luks1(_))));
    assert!(matches!(Luks2Header::read(&storage), Err(ReadError::Luks1)));
    // The rest of the header shows what it is.
    for other in [0, 2, 3] {
        let error = read(patched(&bytes, 7, &[other])).unwrap_err();
        let words = format!("its version is {other}, and must be 1");
        assert!(error.to_string().contains(&words), "{error}");
    }
    let neither = patched(&patched(&bytes, 7, &[3]), 164, &[0; 4]);
    assert!(matches!(
        read(neither),
        Err(VolumeReadError::Luks2(ReadError::Damaged { .. }))
    ));
    for len in [0, 5] {
        let error = read(bytes[..len].to_vec()).unwrap_err();
        assert!(
            matches!(error, VolumeReadError::Luks2(ReadError::NotLuks)),
            "{error}"
        );
    }
    for len in [8, LEN - 1] {
        let error = read(bytes[..len].to_vec()).unwrap_err();
        assert!(
            matches!(error, VolumeReadError::Luks1(Luks1Error::Truncated { .. })),
            "{error}"
        );
    }
    assert!(read(bytes[..LEN].to_vec()).is_ok());
}

/// A damaged byte is refused, or has no effect on the key.
#[test]
fn no_flipped_byte_panics_or_gives_another_key() {
    let (bytes, key) = volume();
    let mut opened = 0;
    for place in 0..LEN {
        for flip in [1, 0x80, 0xff] {
            let mut bytes = bytes.clone();
            bytes[place] ^= flip;
            let result = match read(&bytes) {
                Ok(header) => {
                    let _ = (header.describe(), header.metadata_json());
                    unlock(&header, &bytes).map_err(|error| error.to_string())
                }
                Err(error) => Err(error.to_string()),
            };
            match result {
                Err(words) => assert!(words.len() > 15 && words.len() < 500, "{words}"),
                Ok(unlocked) => {
                    opened += 1;
                    assert_eq!(unlocked.volume_key.expose(), key);
                    // No other value is accepted for magic, names, key length, digest, keyslot 0,
                    // and the stripes of the other keyslots.
                    let matters = match place {
                        0..11 | 40..51 | 72..78 | 108..168 | 208..256 => true,
                        256.. => (place - 208) % 48 >= 44,
                        _ => false,
                    };
                    assert!(!matters, "byte {place} changed by {flip:#x}");
                }
            }
        }
    }
    assert!(opened > 300, "{opened}");
}

#[test]
fn each_rule_has_its_error() {
    let (bytes, _) = volume();
    let error = |offset, value: &[u8]| read(&patched(&bytes, offset, value)).unwrap_err();
    let number = |offset, value: u32| error(offset, &value.to_be_bytes());

    assert!(matches!(error(5, b"\0"), Luks1Error::Magic));
    // As in cryptsetup, a text without its terminating zero byte ends before the last byte.
    for (offset, len) in [(8, 32), (40, 32), (72, 32), (168, 40)] {
        let header = read(&patched(&bytes, offset, &vec![b'z'; len])).unwrap();
        let text = "z".repeat(len - 1);
        assert!(header.metadata_json().contains(&text), "{offset}");
        assert!(
            !header.metadata_json().contains(&"z".repeat(len)),
            "{offset}"
        );
    }
    assert!(matches!(error(8, b"cipher_null\0"), Luks1Error::CipherNull));
    for (offset, name, expected) in [
        (8, b"serpent\0".as_slice(), "serpent-xts-plain64"),
        (40, b"cbc-essiv:sha512\0", "aes-cbc-essiv:sha512"),
        (40, b"xts-plain64be\0", "aes-xts-plain64be"),
        (8, b"\0", "-xts-plain64"),
    ] {
        let header = read(&patched(&bytes, offset, name)).unwrap();
        assert_eq!(header.describe().encryption, expected);
        not_openable(&header, expected);
    }
    for name in [b"md5\0".as_slice(), b"\0"] {
        let header = read(&patched(&bytes, 72, name)).unwrap();
        let name = std::str::from_utf8(name).unwrap().trim_end_matches('\0');
        assert_eq!(header.describe().hash, name);
        // The data could be read, but no key can be confirmed.
        assert!(header.segment().is_some());
    }
    for len in [0, 513, 1_073_742, u32::MAX] {
        match number(108, len) {
            Luks1Error::KeyLen { found } => assert_eq!(found, len),
            error => panic!("{len}: {error}"),
        }
    }
    // AES-192 has this length. The areas would overlap one another.
    assert!(matches!(number(108, 48), Luks1Error::Overlap { .. }));
    for len in [1, 16, 31, 33, 63, 512] {
        let error = number(108, len);
        assert!(
            matches!(error, Luks1Error::KeyLenOfCipher { found, .. } if found == len),
            "{error}"
        );
    }
    assert!(matches!(number(164, 0), Luks1Error::DigestIterations));
    // The iterations of an empty keyslot do not matter; cryptsetup writes 0.
    assert_eq!(bytes[256 + 4..256 + 8], [0; 4]);

    for keyslot in 0..8_u32 {
        let at = 208 + 48 * usize::try_from(keyslot).unwrap();
        // The length of all stripes of a key of 32 bytes would be 0 in 32 bits.
        for stripes in [0, 1, 3999, 4001, 1 << 27, u32::MAX] {
            match number(at + 44, stripes) {
                Luks1Error::Stripes { keyslot: k, found } => {
                    assert_eq!((k, found), (keyslot, stripes));
                }
                error => panic!("{keyslot}: {error}"),
            }
        }
        for offset in [0, 1] {
            assert!(matches!(
                number(at + 40, offset),
                Luks1Error::AreaOverHeader { keyslot: k, .. } if k == keyslot
            ));
        }
        // The data begin at sector 4096, and an area has 250 sectors.
        for offset in [4096 - 249, 4096, u32::MAX] {
            assert!(matches!(
                number(at + 40, offset),
                Luks1Error::AreaOverData { keyslot: k, .. } if k == keyslot
            ));
        }
    }
    assert!(read(&patched(&bytes, 208 + 40, &(4096 - 250_u32).to_be_bytes())).is_ok());
    // Keyslot 1's area begins at sector 264, and ends at 514.
    assert_eq!(bytes[256 + 40..256 + 44], 264_u32.to_be_bytes());
    for (offset, first, second) in [(15, 0, 1), (264, 0, 1), (513, 1, 0)] {
        match number(208 + 40, offset) {
            Luks1Error::Overlap {
                first: f,
                second: s,
                ..
            } => assert_eq!((f, s), (first, second), "{offset}"),
            error => panic!("{offset}: {error}"),
        }
    }
    for offset in [2, 14] {
        let moved = patched(&bytes, 208 + 40, &u32::to_be_bytes(offset));
        assert!(read(&moved).is_ok(), "{offset}");
    }
}

/// The data may be anywhere in another file, so the areas may be anywhere in this one.
#[test]
fn a_detached_header_has_no_data() {
    let (bytes, key) = volume();
    let detached = patched(&bytes, 104, &[0; 4]);
    let header = read(&detached).unwrap();
    assert_eq!(header.segment().unwrap().offset, 0);
    assert!(header.segment().unwrap().offset < header.metadata_len());
    assert_eq!(unlock(&header, &detached).unwrap().volume_key.expose(), key);
    // The greatest offset that a header can contain, where there is nothing.
    let far = patched(&detached, 208 + 40, &u32::MAX.to_be_bytes());
    let error = unlock(&read(&far).unwrap(), &far).unwrap_err();
    assert!(
        matches!(
            error,
            UnlockError::Keyslot {
                keyslot: 0,
                error: KeyslotError::Io { .. }
            }
        ),
        "{error}"
    );
}

/// The iterations of an untrusted volume are checked before anything is computed.
#[test]
fn costs_are_bounded() {
    let (bytes, _) = volume();
    let most = u32::MAX.to_be_bytes();
    let options = UnlockOptions::default();
    let unlock = |bytes: Vec<u8>| {
        let header = read(&bytes).unwrap();
        header
            .unlock(&MemoryStorage::new(bytes), SECRET, &*backend(), &options)
            .unwrap_err()
    };
    let error = unlock(patched(&bytes, 164, &most));
    assert!(
        matches!(
            error,
            UnlockError::DigestLimit {
                error: CostError::Iterations { .. },
                ..
            }
        ),
        "{error}"
    );
    let error = unlock(patched(&bytes, 212, &most));
    assert!(
        matches!(
            error,
            UnlockError::Keyslot {
                keyslot: 0,
                error: KeyslotError::Limit(_)
            }
        ),
        "{error}"
    );
    assert!(matches!(error.limit(), Some(CostError::Iterations { .. })));
    let empty = patched(&bytes, 208, &0xdead_u32.to_be_bytes());
    assert!(matches!(unlock(empty), UnlockError::NoKeyslots { .. }));
}
