// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares CBC of every kernel with `openssl`: single messages, and the sectors of dm-crypt's
//! `aes-cbc-plain64` and `aes-cbc-essiv:sha256`. The other modes are compared through the command
//! line, which has no CBC.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use luxor_conformance::{Random, forced};
use luxor_engine::{
    AesKey, AesSize, CbcKey, DataUnitLen, DataUnitNumber, Direction, InOut, KeySpec, LoadedKey,
    Registry, Run,
};

const SECTOR: usize = 512;

/// A temporary file for one test.
struct File(PathBuf);

impl File {
    fn new(test: &str) -> Self {
        Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(test))
    }

    /// Runs `openssl` with `input` and returns its output.
    fn openssl(&self, arguments: &str, input: &[u8]) -> Vec<u8> {
        fs::write(&self.0, input).unwrap();
        let output = Command::new("openssl")
            .args(arguments.split(' '))
            .stdin(fs::File::open(&self.0).unwrap())
            .output()
            .expect("this test needs openssl");
        assert!(output.status.success(), "{arguments}: {output:?}");
        output.stdout
    }

    fn encrypt(&self, mode: &str, key: &[u8], iv: u128, input: &[u8]) -> Vec<u8> {
        let (bits, key) = (8 * key.len(), hex(key));
        let iv = match mode {
            "ecb" => String::new(),
            _ => format!(" -iv {}", hex(&iv.to_le_bytes())),
        };
        self.openssl(
            &format!("enc -aes-{bits}-{mode} -nopad -K {key}{iv}"),
            input,
        )
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Loads the key on each kernel of this machine.
fn loaded(key: &CbcKey) -> Vec<(&'static str, Box<dyn LoadedKey>)> {
    let registry = Registry::cpu();
    let spec = KeySpec::Cbc(key.clone());
    let keys: Vec<_> = registry
        .names()
        .filter_map(|name| Some((name, forced(&registry, name)?.load_key(&spec).unwrap())))
        .collect();
    assert!(!keys.is_empty());
    keys
}

/// Checks both directions, with separate buffers and in place.
fn check(key: &CbcKey, first: u128, unit_len: usize, plaintext: &[u8], ciphertext: &[u8]) {
    let unit_len = DataUnitLen::new(unit_len).unwrap();
    let first = DataUnitNumber::new(first);
    for (name, loaded) in loaded(key) {
        for (direction, input, expected) in [
            (Direction::Encrypt, plaintext, ciphertext),
            (Direction::Decrypt, ciphertext, plaintext),
        ] {
            let mut output = vec![0; input.len()];
            let apart = InOut::Separate {
                input,
                output: &mut output,
            };
            let run = Run::new(first, 1, unit_len, apart).unwrap();
            loaded.crypt(direction, &mut [run]).unwrap();
            let mut in_place = input.to_vec();
            let run = Run::new(first, 1, unit_len, in_place.as_mut_slice()).unwrap();
            loaded.crypt(direction, &mut [run]).unwrap();
            let what = format!("{name}, {key:?}, {direction:?}, {} bytes", input.len());
            assert!(output == expected, "{what}");
            assert!(in_place == expected, "{what}, in place");
        }
    }
}

#[test]
fn a_message_agrees_with_openssl() {
    let random = &mut Random::for_test("openssl message");
    let file = File::new("message");
    for size in AesSize::ALL {
        let bytes = random.bytes(size.bytes());
        let key = CbcKey::plain(AesKey::new(&bytes).unwrap());
        for len in [16, 112, 512, 528, 4096, 65536 + 48, (1 << 20) + 16, 5 << 20] {
            let (iv, plaintext) = (random.u128(), random.bytes(len));
            let ciphertext = file.encrypt("cbc", &bytes, iv, &plaintext);
            check(&key, iv, len, &plaintext, &ciphertext);
        }
    }
}

#[test]
fn sectors_agree_with_openssl_used_like_dm_crypt() {
    let random = &mut Random::for_test("openssl sectors");
    let file = File::new("sectors");
    // More sectors than the widest kernel processes at a time, and numbers that exceed 32 bits.
    let sectors = 37;
    let first = (1 << 32) - 5;
    let numbers = || (0..sectors as u128).map(|sector| first + sector);
    let numbers_bytes: Vec<u8> = numbers().flat_map(u128::to_le_bytes).collect();
    for size in AesSize::ALL {
        let bytes = random.bytes(size.bytes());
        let data = || AesKey::new(&bytes).unwrap();
        let hash = file.openssl("dgst -sha256 -binary", &bytes);
        let encrypted = file.encrypt("ecb", &hash, 0, &numbers_bytes);
        let essiv = encrypted
            .chunks_exact(16)
            .map(|iv| u128::from_le_bytes(iv.try_into().unwrap()));
        let hash = hash.as_slice().try_into().unwrap();
        for (key, ivs) in [
            (CbcKey::plain(data()), numbers().collect::<Vec<_>>()),
            (CbcKey::essiv_sha256(data(), hash), essiv.collect()),
        ] {
            let plaintext = random.bytes(sectors * SECTOR);
            let ciphertext: Vec<u8> = plaintext
                .chunks_exact(SECTOR)
                .zip(ivs)
                .flat_map(|(sector, iv)| file.encrypt("cbc", &bytes, iv, sector))
                .collect();
            check(&key, first, SECTOR, &plaintext, &ciphertext);
        }
    }
}
