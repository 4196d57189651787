// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program that `cargo xtask guard` runs under memcheck to watch the code that handles secrets
//! outside the kernels: it declares passphrases, keys and their digits secret, and memcheck reports
//! each branch and each address that depends on them.
//!
//! A few results are public although they depend on secrets: whether a passphrase opens a keyslot,
//! whether a key has equal halves, whether a sector is a trailer. Where the program receives such a
//! result, it calls [`publish`]. Where Luxor decides by it, `xtask/src/guard/secrets.rs` names the
//! function, and the number of decisions that this program makes it take.
//!
//! The name "tables" stands for a table that is indexed by a secret, and "comparison" for one that
//! stops at the first difference: memcheck must report both. Without a name everything else runs.
//!
//! Argon2 is not here: Argon2id's addresses depend on the passphrase by design. Neither is
//! Whirlpool, which has tables.

use std::{env, error::Error, hint::black_box, io};

use luxor_conformance::memcheck::{hide, publish};
use luxor_engine::{AesKey, CbcKey, Registry, XtsKey};
use luxor_luks::{
    Encryption, HashAlgorithm, Kdf, KeyCache, LuksVersion, NewVolumeOptions, PbkdfKind,
    PbkdfOptions, TrailerKey, UnlockOptions, VolumeHeader, VolumeKey,
};
use luxor_secret::{SecretBytes, base64_value, decode_hex, encode_hex};
use luxor_sector::{MemoryStorage, SectorSize, Storage};

/// Those without tables.
const HASHES: [HashAlgorithm; 4] = [
    HashAlgorithm::Sha1,
    HashAlgorithm::Sha256,
    HashAlgorithm::Sha512,
    HashAlgorithm::Ripemd160,
];

fn main() -> Result<(), Box<dyn Error>> {
    match env::args().nth(1).as_deref() {
        Some("tables") => tables(),
        Some("comparison") => comparison(),
        _ => {
            for version in [LuksVersion::Luks1, LuksVersion::Luks2] {
                for hash in HASHES {
                    keyslots(version, hash)?;
                }
            }
            derived_keys()?;
            halves()?;
            trailers()?;
            digits();
        }
    }
    Ok(())
}

/// Returns a secret copy.
fn secret(bytes: &[u8]) -> SecretBytes {
    let copy = SecretBytes::copy_of(bytes);
    hide(copy.expose());
    copy
}

/// Storage in memory. All that is written there is public: metadata, and encrypted keyslots.
#[derive(Default)]
struct Published(MemoryStorage);

impl Storage for Published {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        publish(buf);
        self.0.write_all_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}

/// Opens a keyslot: PBKDF2, the decryption of its area, merging the stripes, and comparing the key
/// with the digest. Then splits the secret key into the stripes of another keyslot.
fn keyslots(version: LuksVersion, hash: HashAlgorithm) -> Result<(), Box<dyn Error>> {
    let pbkdf = PbkdfOptions {
        kind: PbkdfKind::Pbkdf2,
        force_iterations: Some(1000),
        ..PbkdfOptions::default()
    };
    let mut options = NewVolumeOptions::new(version);
    options.hash = hash;
    options.pbkdf = pbkdf.clone();
    let backend = Registry::cpu().get("portable")?;
    let storage = Published::default();
    let volume = options.create(b"one", &*backend)?;
    volume.write_to(&storage)?;

    let mut header = VolumeHeader::read(&storage)?;
    let limits = UnlockOptions::default();
    let unlock = |header: &VolumeHeader, passphrase: &[u8]| {
        let passphrase = secret(passphrase);
        header.unlock(&storage, passphrase.expose(), &*backend, &limits)
    };
    let unlocked = unlock(&header, b"one")?;
    let new = header.new_keyslot(&unlocked, secret(b"two").expose(), &pbkdf, &*backend)?;
    header.add_keyslot(&storage, &new, None)?;
    let again = unlock(&header, b"two")?;
    publish(again.volume_key.expose());
    if again.volume_key.expose() != volume.volume_key().expose() {
        return Err("the added keyslot holds another key".into());
    }
    match unlock(&header, b"three") {
        Err(error) if error.is_wrong_secret() => Ok(()),
        _ => Err("a wrong passphrase was accepted".into()),
    }
}

/// Derives a key twice, the second time from what is kept of the first.
fn derived_keys() -> Result<(), Box<dyn Error>> {
    let cache = KeyCache::default();
    let kdf = Kdf::Pbkdf2 {
        hash: HashAlgorithm::Sha256.name().into(),
        iterations: 1000,
        salt: vec![3; 32],
    };
    let keys = [[0; 64]; 2];
    let keys = keys.map(|mut key| {
        let derived = cache.derive(&kdf, secret(b"a passphrase").expose(), &mut key);
        publish(&key);
        derived.map(|()| key)
    });
    let [first, second] = keys;
    if first? != second? {
        return Err("the kept key differs".into());
    }
    Ok(())
}

/// Compares the halves of keys, and hashes a key for ESSIV.
fn halves() -> Result<(), Box<dyn Error>> {
    let key: Vec<u8> = (0..64).collect();
    let key = secret(&key);
    black_box(XtsKey::new(key.expose())?);
    black_box(Encryption::AesCbcEssivSha256.key_spec(&key.expose()[..32])?);
    black_box(CbcKey::plain(AesKey::new(&key.expose()[..16])?));
    let equal = secret(&[5; 32]);
    if XtsKey::new(equal.expose()).is_ok() {
        return Err("equal halves were accepted".into());
    }
    Ok(())
}

/// Recognises a trailer, a forged one, and data.
fn trailers() -> Result<(), Box<dyn Error>> {
    const LENGTH: u64 = 1000;
    const OFFSET: u64 = 1024;
    let bytes: Vec<u8> = (0..64).collect();
    let key = VolumeKey::of_unknown_encryption(secret(&bytes));
    let key = TrailerKey::new(&key, "a UUID", SectorSize::B512);
    let trailer = key.trailer(LENGTH);
    let mut forged = trailer.clone();
    forged[40] ^= 1;
    let data = vec![7; 512];
    for (sector, expected) in [(trailer, Some(LENGTH)), (forged, None), (data, None)] {
        hide(&sector);
        // The length of a file is public.
        publish(&sector[16..24]);
        if key.length(&sector, OFFSET) != expected {
            return Err("a trailer was not recognised, or data were".into());
        }
    }
    Ok(())
}

/// Writes a key in hexadecimal digits and reads it, and decodes base64.
fn digits() {
    let bytes: Vec<u8> = (0..=255).collect();
    let key = secret(&bytes);
    let mut digits = vec![0; 512];
    encode_hex(key.expose(), &mut digits);
    let mut decoded = [0; 256];
    let is_valid = [u8::from(decode_hex(&digits, &mut decoded))];
    publish(&is_valid);
    publish(&decoded);
    // Through `black_box`, so that the compiler does not use the values from before.
    assert!(black_box(&is_valid)[0] == 1 && black_box(&decoded)[..] == bytes[..]);
    let values: Vec<i32> = key
        .expose()
        .iter()
        .map(|byte| base64_value(*byte))
        .collect();
    black_box(values);
}

fn tables() {
    let index = secret(&[7; 16]);
    let table: [u8; 256] = std::array::from_fn(|i| i.to_le_bytes()[0]);
    for index in index.expose() {
        black_box(black_box(&table)[usize::from(*index)]);
    }
}

fn comparison() {
    let (one, other) = (secret(&[7; 32]), [7; 32]);
    let mut pairs = one.expose().iter().zip(black_box(&other));
    black_box(pairs.all(|(one, other)| one == other));
}
