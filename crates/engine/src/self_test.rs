// SPDX-License-Identifier: MIT OR Apache-2.0
//! A backend's test of itself, quick enough to run before each use: known
//! answers in both directions, then agreement with the portable kernel on runs
//! that reach all of a kernel's paths.

use alloc::{string::String, vec::Vec};

use crate::{
    backend::{Backend, BackendError, CryptError, Direction, LoadedKey},
    kernel,
    key::{AesKey, KeySize, KeySpec, Mode, XtsKey},
    run::{DataUnitLen, DataUnitNumber, Run},
};

/// Checks `backend` in each of its modes with AES-128 and AES-256.
///
/// # Errors
/// [`SelfTestError`], which says what came out wrong: the backend must not be used.
pub fn self_test(backend: &dyn Backend) -> Result<(), SelfTestError> {
    let modes = backend.info().modes;
    for answer in ANSWERS.iter().filter(|answer| modes.contains(&answer.mode)) {
        answer.check(backend)?;
    }
    for &mode in modes {
        for size in KeySize::ALL {
            compare_with_portable(backend, mode, size)?;
        }
    }
    Ok(())
}

/// What a backend's self-test found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SelfTestError {
    /// A known answer did not come out.
    #[error("{mode} fails the known answer of {source_name}, {direction:?}")]
    KnownAnswer {
        /// The mode.
        mode: Mode,
        /// The standard and its section.
        source_name: &'static str,
        /// Which way it failed.
        direction: Direction,
    },
    /// The result differs from the portable kernel's.
    #[error("{mode} with {units} data units of {unit_len} bytes differs from the portable kernel")]
    Differs {
        /// The mode.
        mode: Mode,
        /// The length of the units in bytes.
        unit_len: usize,
        /// How many units.
        units: usize,
    },
    /// A key could not be loaded.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// A call failed.
    #[error("the self-test could not run: {0}")]
    Crypt(String),
}

impl From<CryptError> for SelfTestError {
    fn from(e: CryptError) -> Self {
        Self::Crypt(alloc::format!("{e}"))
    }
}

struct Answer {
    mode: Mode,
    source: &'static str,
    key: &'static str,
    number: u128,
    plaintext: &'static str,
    ciphertext: &'static str,
}

const SP_800_38A_BLOCK: &str = "6bc1bee22e409f96e93d7e117393172a";
const SP_800_38A_KEY_128: &str = "2b7e151628aed2a6abf7158809cf4f3c";
const SP_800_38A_KEY_256: &str = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4";
const SP_800_38A_COUNTER: u128 = 0xf0f1_f2f3_f4f5_f6f7_f8f9_fafb_fcfd_feff;
const SP_800_38A_IV: u128 = 0x0001_0203_0405_0607_0809_0a0b_0c0d_0e0f;

const ANSWERS: &[Answer] = &[
    Answer {
        mode: Mode::Ecb,
        source: "FIPS 197, C.1",
        key: "000102030405060708090a0b0c0d0e0f",
        number: 0,
        plaintext: "00112233445566778899aabbccddeeff",
        ciphertext: "69c4e0d86a7b0430d8cdb78070b4c55a",
    },
    Answer {
        mode: Mode::Ecb,
        source: "FIPS 197, C.3",
        key: "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
        number: 0,
        plaintext: "00112233445566778899aabbccddeeff",
        ciphertext: "8ea2b7ca516745bfeafc49904b496089",
    },
    Answer {
        mode: Mode::Ctr,
        source: "SP 800-38A, F.5.1",
        key: SP_800_38A_KEY_128,
        number: SP_800_38A_COUNTER,
        plaintext: SP_800_38A_BLOCK,
        ciphertext: "874d6191b620e3261bef6864990db6ce",
    },
    Answer {
        mode: Mode::Ctr,
        source: "SP 800-38A, F.5.5",
        key: SP_800_38A_KEY_256,
        number: SP_800_38A_COUNTER,
        plaintext: SP_800_38A_BLOCK,
        ciphertext: "601ec313775789a5b7a7f504bbf3d228",
    },
    Answer {
        mode: Mode::Ofb,
        source: "SP 800-38A, F.4.1",
        key: SP_800_38A_KEY_128,
        number: SP_800_38A_IV,
        plaintext: SP_800_38A_BLOCK,
        ciphertext: "3b3fd92eb72dad20333449f8e83cfb4a",
    },
    Answer {
        mode: Mode::Ofb,
        source: "SP 800-38A, F.4.5",
        key: SP_800_38A_KEY_256,
        number: SP_800_38A_IV,
        plaintext: SP_800_38A_BLOCK,
        ciphertext: "dc7e84bfda79164b7ecd8486985d3860",
    },
    Answer {
        mode: Mode::Xts,
        source: "IEEE 1619-2007, vector 2",
        key: "1111111111111111111111111111111122222222222222222222222222222222",
        number: 0x33_3333_3333,
        plaintext: "4444444444444444444444444444444444444444444444444444444444444444",
        ciphertext: "c454185e6a16936e39334038acef838bfb186fff7480adc4289382ecd6d394f0",
    },
    Answer {
        mode: Mode::Xts,
        source: "IEEE 1619-2007, vector 15",
        key: "fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0bfbebdbcbbbab9b8b7b6b5b4b3b2b1b0",
        number: 0x12_3456_789a,
        plaintext: "000102030405060708090a0b0c0d0e0f10",
        ciphertext: "6c1625db4671522d3d7599601de7ca09ed",
    },
    Answer {
        mode: Mode::Xts,
        source: "IEEE 1619-2007, vector 10 (its first two blocks)",
        key: "27182818284590452353602874713526624977572470936999595749669676273141592653589793238462643383279502884197169399375105820974944592",
        number: 0xff,
        plaintext: "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
        ciphertext: "1c3b3a102f770386e4836c99e370cf9bea00803f5e482357a4ae12d414a3e63b",
    },
];

impl Answer {
    fn check(&self, backend: &dyn Backend) -> Result<(), SelfTestError> {
        let key = backend.load_key(&key_spec(self.mode, &hex(self.key)))?;
        let (plaintext, ciphertext) = (hex(self.plaintext), hex(self.ciphertext));
        for (direction, input, expected) in [
            (Direction::Encrypt, &plaintext, &ciphertext),
            (Direction::Decrypt, &ciphertext, &plaintext),
        ] {
            let mut bytes = input.clone();
            let number = DataUnitNumber::new(self.number);
            crypt(&*key, direction, number, input.len(), &mut bytes)?;
            if bytes != *expected {
                let (mode, source_name) = (self.mode, self.source);
                return Err(SelfTestError::KnownAnswer {
                    mode,
                    source_name,
                    direction,
                });
            }
        }
        Ok(())
    }
}

fn compare_with_portable(
    backend: &dyn Backend,
    mode: Mode,
    size: KeySize,
) -> Result<(), SelfTestError> {
    let parts = if mode == Mode::Xts { 2 } else { 1 };
    let spec = key_spec(mode, &pattern(parts * size.bytes()));
    let key = backend.load_key(&spec)?;
    let portable = kernel::portable().load_key(&spec)?;
    // One block; no whole pass; exactly one; stealing; several passes.
    for (unit_len, units) in [(16, 70), (48, 45), (512, 9), (536, 3), (4096, 2)] {
        if !mode.accepts_unit_len(unit_len) {
            continue;
        }
        let plaintext = pattern(unit_len * units);
        let mut bytes = plaintext.clone();
        let mut expected = plaintext.clone();
        // The numbers run across 2³².
        let first = DataUnitNumber::from((1_u64 << 32) - 2);
        crypt(&*key, Direction::Encrypt, first, unit_len, &mut bytes)?;
        crypt(
            &*portable,
            Direction::Encrypt,
            first,
            unit_len,
            &mut expected,
        )?;
        let encrypted = bytes == expected;
        crypt(&*key, Direction::Decrypt, first, unit_len, &mut bytes)?;
        if !encrypted || bytes != plaintext {
            return Err(SelfTestError::Differs {
                mode,
                unit_len,
                units,
            });
        }
    }
    Ok(())
}

fn crypt(
    key: &dyn LoadedKey,
    direction: Direction,
    first: DataUnitNumber,
    unit_len: usize,
    bytes: &mut [u8],
) -> Result<(), CryptError> {
    let unit_len = DataUnitLen::new(unit_len).expect("a constant of this file");
    let run = Run::new(first, 1, unit_len, bytes).expect("whole units");
    key.crypt(direction, &mut [run])
}

fn key_spec(mode: Mode, bytes: &[u8]) -> KeySpec {
    let aes = || AesKey::new(bytes).expect("a constant of this file");
    match mode {
        Mode::Xts => KeySpec::Xts(XtsKey::new(bytes).expect("a constant of this file")),
        Mode::Ecb => KeySpec::Ecb(aes()),
        Mode::Ctr => KeySpec::Ctr(aes()),
        Mode::Ofb => KeySpec::Ofb(aes()),
    }
}

/// Bytes with no short period.
fn pattern(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
            state.to_le_bytes()[3]
        })
        .collect()
}

fn hex(digits: &str) -> Vec<u8> {
    digits
        .as_bytes()
        .chunks_exact(2)
        .map(|pair| {
            let pair = core::str::from_utf8(pair).expect("a constant of this file");
            u8::from_str_radix(pair, 16).expect("a constant of this file")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use alloc::{boxed::Box, sync::Arc};

    use super::*;
    use crate::{backend::BackendInfo, buffer::Buffer, registry::Registry};

    #[test]
    fn every_kernel_passes() {
        let mut passed = 0;
        for (name, backend) in Registry::cpu().probe_all() {
            if let Ok(backend) = backend {
                self_test(&*backend).unwrap_or_else(|e| panic!("{name}: {e}"));
                passed += 1;
            }
        }
        assert!(passed >= 1);
    }

    /// Flips one bit of the last unit.
    struct Broken(Arc<dyn Backend>, Mode);
    struct BrokenKey(Box<dyn LoadedKey>, bool);

    impl Backend for Broken {
        fn info(&self) -> BackendInfo {
            self.0.info()
        }

        fn load_key(&self, key: &KeySpec) -> Result<Box<dyn LoadedKey>, BackendError> {
            Ok(Box::new(BrokenKey(
                self.0.load_key(key)?,
                key.mode() == self.1,
            )))
        }

        fn alloc(&self, len: usize) -> Buffer {
            self.0.alloc(len)
        }
    }

    impl LoadedKey for BrokenKey {
        fn crypt(&self, direction: Direction, runs: &mut [Run<'_>]) -> Result<(), CryptError> {
            self.0.crypt(direction, runs)?;
            let last = runs.last_mut().and_then(|run| run.output().last_mut());
            if let Some(byte) = last.filter(|_| self.1) {
                *byte ^= 1;
            }
            Ok(())
        }
    }

    #[test]
    fn a_broken_backend_fails_in_the_mode_that_is_broken() {
        for &mode in kernel::portable().info().modes {
            let error = self_test(&Broken(kernel::portable(), mode)).unwrap_err();
            assert!(
                matches!(error, SelfTestError::KnownAnswer { mode: m, .. } if m == mode),
                "{error}"
            );
        }
    }
}
