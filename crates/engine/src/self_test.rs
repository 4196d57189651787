// SPDX-License-Identifier: MIT OR Apache-2.0
//! A self-test for backends, fast enough to run before each use. It checks known answers in both
//! directions, then compares results with the portable kernel.
//!
//! The compared runs reach every loop of the CPU kernels: units of one block, of a few blocks, of
//! whole passes and of partial passes, with and without ciphertext stealing; more units than one
//! batch; numbers that carry out of their low half; strides other than 1; in-place and separate
//! buffers; two runs in one call; and lengths from which a kernel prefetches. They do not reach the
//! many megabytes from which a kernel stores around the caches: the test suite covers those.

use alloc::{string::String, vec, vec::Vec};
use core::ops::Range;

use crate::{
    backend::{Backend, BackendError, BackendInfo, CryptError, Direction, LoadedKey},
    kernel,
    key::{
        AesKey, AesSize, CbcKey, Construction, KeySize, KeySpec, Mode, ParallelOfbKey,
        TweakSchedule, XtsKey,
    },
    run::{DataUnitLen, DataUnitNumber, InOut, Run},
};

/// Checks `backend` in each of its modes with keys of each of its sizes.
///
/// # Errors
/// [`SelfTestError`], which names what failed. The backend must then not be used.
pub fn self_test(backend: &dyn Backend) -> Result<(), SelfTestError> {
    let BackendInfo {
        modes, key_sizes, ..
    } = backend.info();
    for answer in ANSWERS.iter().filter(|answer| modes.contains(&answer.mode)) {
        let key = key_spec(answer.mode, &hex(answer.key));
        if key_sizes.contains(&key.size()) {
            answer.check(&*backend.load_key(&key)?)?;
        }
    }
    let plaintext = pattern(MAX_LEN);
    for &mode in modes {
        for len in key_sizes.iter().flat_map(|&size| key_lens(mode, size)) {
            compare_with_portable(backend, mode, len, &plaintext)?;
        }
    }
    Ok(())
}

/// Why a backend failed its self-test.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SelfTestError {
    /// The result differs from a known answer.
    #[error("{mode} fails the known answer of {source_name}, {direction:?}")]
    KnownAnswer {
        /// The mode.
        mode: Mode,
        /// The source of the known answer: a standard with its section, or a test vector.
        source_name: &'static str,
        /// Whether encryption or decryption failed.
        direction: Direction,
    },
    /// The result differs from the portable kernel's.
    #[error("{mode} with {units} data units of {unit_len} bytes differs from the portable kernel")]
    Differs {
        /// The mode.
        mode: Mode,
        /// The length of the units in bytes.
        unit_len: usize,
        /// The number of units.
        units: usize,
    },
    /// A key could not be loaded.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// A call returned an error.
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
const SP_800_38A_KEY_192: &str = "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b";
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
        source: "FIPS 197, C.2",
        key: "000102030405060708090a0b0c0d0e0f1011121314151617",
        number: 0,
        plaintext: "00112233445566778899aabbccddeeff",
        ciphertext: "dda97ca4864cdfe06eaf70a0ec0d7191",
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
        source: "SP 800-38A, F.5.3",
        key: SP_800_38A_KEY_192,
        number: SP_800_38A_COUNTER,
        plaintext: SP_800_38A_BLOCK,
        ciphertext: "1abc932417521ca24f2b0459fe7e6e0b",
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
        mode: Mode::Cbc,
        source: "SP 800-38A, F.2.1",
        key: SP_800_38A_KEY_128,
        number: SP_800_38A_IV.swap_bytes(),
        plaintext: "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51",
        ciphertext: "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2",
    },
    Answer {
        mode: Mode::Cbc,
        source: "SP 800-38A, F.2.3",
        key: SP_800_38A_KEY_192,
        number: SP_800_38A_IV.swap_bytes(),
        plaintext: "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51",
        ciphertext: "4f021db243bc633d7178183a9fa071e8b4d9ada9ad7dedf4e5e738763f69145a",
    },
    Answer {
        mode: Mode::Cbc,
        source: "SP 800-38A, F.2.5",
        key: SP_800_38A_KEY_256,
        number: SP_800_38A_IV.swap_bytes(),
        plaintext: "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51",
        ciphertext: "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d",
    },
    Answer {
        mode: Mode::Cbc,
        source: "Linux, essiv(cbc(aes),sha256), 2",
        // The data key followed by its SHA-256.
        key: "c286696d887c9aa0611bbb3e2025a45a7fe27b021a2b1841dd5c9bc6905a97db04382217076a7e4ee3dd5b85b569a32a",
        number: 0x283d_096d_9917_2e56,
        plaintext: "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
        ciphertext: "c8599afe79e67b20067d550a5ec7b5a70b9c80d215a1b86dc6ab7b65d9fd88eb",
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
        source: "SP 800-38A, F.4.3",
        key: SP_800_38A_KEY_192,
        number: SP_800_38A_IV,
        plaintext: SP_800_38A_BLOCK,
        ciphertext: "cdc80d6fddf18cab34c25909c99a4174",
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
        mode: Mode::OfbXex,
        source: "vectors/parallel-ofb, 2",
        key: "d3f9e58a83780e02f4396bc82de6fea299c0c89bf6c825e9aad18a3a46f7e111",
        number: 0xffff_ffff_ffff_ffff_ffff_ffff_ffff_ffff,
        plaintext: "5ecfc2d0f330e250ad83ccafb94e614bdc",
        ciphertext: "201ec7f89fa1a3a4e0dff58fb7aa6827e6",
    },
    Answer {
        mode: Mode::OfbXex,
        source: "vectors/parallel-ofb, 15",
        key: "e0d6a1f74b4b8e9942b150515b5172fe6d5df41e50cabd931fe02cf90b360af7e96d7638bde302c2541c66d5ff72f95fd12f1dce89f6945c6f3d1b49a03cc2b0",
        number: 0x1,
        plaintext: "5e09b8b87291d1eae85b1b43db6db2e11b916694d10c0df6d5a7c28da80b9a3d74",
        ciphertext: "e5920b0e5733ebaf1a59698a4307c86ed444ecad1997e3a6305daf178fa76308fc",
    },
    Answer {
        mode: Mode::OfbXe,
        source: "vectors/parallel-ofb, 2",
        key: "0b2f4e4c570bcb1d5a40e32be0e5f43b7c29df83817a4ccbbc96667cafd91e0f",
        number: 0xffff_ffff_ffff_ffff_ffff_ffff_ffff_ffff,
        plaintext: "6141bc4006c759b64d7fe5d5f656b69bf912df63593b56b57aa632d682d550",
        ciphertext: "ba7756831a5cda7c42b93d61430037893f8020e63966acc165be4439cd97e5",
    },
    Answer {
        mode: Mode::OfbXe,
        source: "vectors/parallel-ofb, 15",
        key: "716197aebe6d6382a9247c7d778d4c14d900caf9ebe96adb5ba2c331936810ec0bc9de10a163a87f03c326ec54b2448ab967842a17ab62731fcafe2dac142218",
        number: 0x1,
        plaintext: "3cea9626dd0ff8f18cc67bd7f472c2ac27d08913f2a183141468ee3869ee4b4e",
        ciphertext: "0c5878389eea12633701a6b1a25dea60fe1c0a030a8315f85ba0bbbdaf050c55",
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
    fn check(&self, key: &dyn LoadedKey) -> Result<(), SelfTestError> {
        let (plaintext, ciphertext) = (hex(self.plaintext), hex(self.ciphertext));
        for (direction, input, expected) in [
            (Direction::Encrypt, &plaintext, &ciphertext),
            (Direction::Decrypt, &ciphertext, &plaintext),
        ] {
            let mut bytes = input.clone();
            let number = DataUnitNumber::new(self.number);
            crypt(key, direction, number, input.len(), &mut bytes)?;
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
    key_len: usize,
    plaintext: &[u8],
) -> Result<(), SelfTestError> {
    let spec = key_spec(mode, &pattern(key_len));
    let key = backend.load_key(&spec)?;
    let portable = kernel::portable().load_key(&spec)?;
    let (long, batches) = match mode {
        Mode::Xts => (LONG, BATCHES),
        // Each block depends on the one before at any length, so long runs add time but no new
        // path.
        Mode::Ofb | Mode::OfbXex | Mode::OfbXe => (&[][..], &[][..]),
        Mode::Cbc => (LONG, CHAINS),
        Mode::Ctr | Mode::Ecb => (LONG, &[][..]),
    };
    for shape in SMALL.iter().chain(long).chain(batches) {
        if !mode.accepts_unit_len(shape.unit_len) {
            continue;
        }
        if !shape.agrees(&*key, &*portable, &plaintext[..shape.len()])? {
            return Err(SelfTestError::Differs {
                mode,
                unit_len: shape.unit_len,
                units: shape.units,
            });
        }
    }
    Ok(())
}

/// The shape of a run: everything except its bytes.
struct Shape {
    unit_len: usize,
    units: usize,
    stride: u64,
    first: u128,
}

const fn shape(unit_len: usize, units: usize, stride: u64, first: u128) -> Shape {
    Shape {
        unit_len,
        units,
        stride,
        first,
    }
}

/// Two numbers before a carry.
const AT_32: u128 = (1 << 32) - 2;
const AT_64: u128 = (7 << 64) - 2;
const AT_128: u128 = u128::MAX - 1;

// A pass of the widest kernel has 32 blocks. In CTR, a stride equal to the number of blocks in a
// unit makes the run one message.

const SMALL: &[Shape] = &[
    shape(16, 70, 1, AT_32),
    shape(48, 22, 8, AT_64),
    shape(16, 3, u64::MAX, AT_128),
    // A whole pass, then 4, 2 and 1 registers, then part of a register.
    shape(1007, 2, 1, AT_64),
];

const LONG: &[Shape] = &[
    shape(496, 3, 31, AT_64),
    shape(2064, 2, 129, AT_128),
    shape(2560, 2, 160, AT_64),
];

/// Runs for the batches of XTS, which encrypts the numbers of 128 units at once.
const BATCHES: &[Shape] = &[
    shape(16, 131, 3, AT_64),
    shape(17, 130, 1, AT_32),
    shape(48, 131, 8, AT_64 - 8 * 128),
    shape(512, 9, 1, AT_64),
    shape(1040, 3, 1, AT_32),
    shape(512, MAX_LEN / 512, 1, AT_64 - 128),
];

/// Runs for CBC, which takes 8, 4, 2 or 1 registers: of the rest of a unit when it decrypts, and of
/// units when it encrypts.
const CHAINS: &[Shape] = &[
    shape(32, 9, 1, AT_64),
    shape(112, 12, 8, AT_32),
    shape(208, 5, 1, AT_128),
];

/// The largest number of bytes in a run.
const MAX_LEN: usize = 131 * 512;

impl Shape {
    fn len(&self) -> usize {
        self.unit_len * self.units
    }

    /// The run that begins at unit `unit`, over all of `bytes`.
    fn run<'a>(&self, unit: usize, bytes: impl Into<InOut<'a>>) -> Run<'a> {
        let first = DataUnitNumber::new(self.first).step(unit as u64, self.stride);
        let unit_len = DataUnitLen::new(self.unit_len).expect("a constant of this file");
        Run::new(first, self.stride, unit_len, bytes).expect("whole units")
    }

    /// The ranges of units that are compared with the portable kernel. It is slow, so only the last
    /// half kilobyte is compared, and the first unit if it is short.
    fn compared(&self) -> [Range<usize>; 2] {
        let tail = (512 / self.unit_len).clamp(1, self.units);
        let head = usize::from(tail < self.units && self.unit_len <= 512);
        [0..head, self.units - tail..self.units]
    }

    /// Encrypts and decrypts in place as one run, and with separate buffers as two runs. The
    /// longest run takes time, so it is only encrypted in place and decrypted with separate
    /// buffers.
    fn agrees(
        &self,
        key: &dyn LoadedKey,
        portable: &dyn LoadedKey,
        plaintext: &[u8],
    ) -> Result<bool, CryptError> {
        let mut bytes = plaintext.to_vec();
        key.crypt(Direction::Encrypt, &mut [self.run(0, bytes.as_mut_slice())])?;
        let mut agrees = true;
        for units in self.compared() {
            let range = units.start * self.unit_len..units.end * self.unit_len;
            let mut expected = plaintext[range.clone()].to_vec();
            let run = self.run(units.start, expected.as_mut_slice());
            portable.crypt(Direction::Encrypt, &mut [run])?;
            agrees &= bytes[range] == expected;
        }
        let both = [
            (Direction::Encrypt, plaintext, &*bytes),
            (Direction::Decrypt, &*bytes, plaintext),
        ];
        let longest = self.len() == MAX_LEN;
        let mut output = vec![0; plaintext.len()];
        for &(direction, input, expected) in &both[usize::from(longest)..] {
            let output = output.as_mut_slice();
            let run = self.run(0, InOut::Separate { input, output });
            let (a, b) = run.split_at(self.units / 2);
            let mut runs = [a, b];
            key.crypt(direction, &mut runs)?;
            let [a, b] = &mut runs;
            let (head, tail) = expected.split_at(a.len());
            agrees &= a.output() == head && b.output() == tail;
        }
        if !longest {
            let run = self.run(0, bytes.as_mut_slice());
            key.crypt(Direction::Decrypt, &mut [run])?;
            agrees &= bytes == plaintext;
        }
        Ok(agrees)
    }
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
        Mode::Cbc => KeySpec::Cbc(cbc_key(bytes)),
        Mode::Ofb => KeySpec::Ofb(aes()),
        Mode::OfbXex => KeySpec::ParallelOfb(parallel_ofb_key(bytes, Construction::Xex)),
        Mode::OfbXe => KeySpec::ParallelOfb(parallel_ofb_key(bytes, Construction::Xe)),
    }
}

/// Makes a key of two chains, or of one chain if `bytes` has 64 bytes.
fn parallel_ofb_key(bytes: &[u8], construction: Construction) -> ParallelOfbKey {
    let new = match bytes.len() {
        64 => ParallelOfbKey::one_chain,
        _ => ParallelOfbKey::new,
    };
    new(bytes, construction, TweakSchedule::Alpha).expect("a constant of this file")
}

/// Makes a key with ESSIV if 32 bytes follow the data key, and otherwise without.
fn cbc_key(bytes: &[u8]) -> CbcKey {
    let (data, hash) = match bytes.len() {
        len @ (48 | 56 | 64) => bytes.split_at(len - 32),
        len => bytes.split_at(len),
    };
    let data = AesKey::new(data).expect("a constant of this file");
    match hash.try_into() {
        Ok(hash) => CbcKey::essiv_sha256(data, hash),
        Err(_) => CbcKey::plain(data),
    }
}

/// The lengths of a mode's keys of one size as [`key_spec`] takes them: for CBC without and with
/// ESSIV. Empty if the mode has no keys of this size.
fn key_lens(mode: Mode, size: AesSize) -> Vec<usize> {
    let len = size.bytes();
    match mode {
        Mode::Xts | Mode::OfbXex | Mode::OfbXe => {
            let is_xts = KeySize::ALL.iter().any(|xts| xts.aes() == size);
            is_xts.then_some(2 * len).into_iter().collect()
        }
        Mode::Cbc => [len, len + 32].to_vec(),
        Mode::Ecb | Mode::Ctr | Mode::Ofb => [len].to_vec(),
    }
}

/// Returns `len` bytes with no short period.
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
    use crate::{buffer::Buffer, registry::Registry};

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

    /// A backend that flips one bit of the last unit.
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

    /// A defect that a kernel can have although it passes the known answers.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Flaw {
        None,
        SecondBatch,
        /// Affects the first run of two.
        FirstRun,
        SecondRun,
        Separate,
        Stride,
        /// Affects carries out of the low 64 bits.
        Carry,
        LongUnit,
        /// Affects part of a block after several passes.
        Tail,
        ShortUnits,
        /// Long units are encrypted and decrypted under another key. Only a comparison with another
        /// implementation can detect this.
        OtherKey,
    }

    struct Flawed {
        flaw: Flaw,
        mode: Mode,
        size: AesSize,
        direction: Direction,
    }

    struct FlawedKey {
        key: Box<dyn LoadedKey>,
        other: Box<dyn LoadedKey>,
        flaw: Flaw,
        direction: Direction,
    }

    impl Backend for Flawed {
        fn info(&self) -> BackendInfo {
            let mut info = kernel::portable().info();
            info.modes = match self.mode {
                Mode::Xts => &[Mode::Xts],
                Mode::Ecb => &[Mode::Ecb],
                Mode::Ctr => &[Mode::Ctr],
                Mode::Cbc => &[Mode::Cbc],
                Mode::Ofb => &[Mode::Ofb],
                Mode::OfbXex => &[Mode::OfbXex],
                Mode::OfbXe => &[Mode::OfbXe],
            };
            info
        }

        fn load_key(&self, key: &KeySpec) -> Result<Box<dyn LoadedKey>, BackendError> {
            let flaw = if key.size() == self.size {
                self.flaw
            } else {
                Flaw::None
            };
            let parts = match key.mode() {
                Mode::Xts | Mode::OfbXex | Mode::OfbXe => 2,
                _ => 1,
            };
            let mut other = pattern(parts * key.size().bytes());
            other[0] ^= 1;
            let other = kernel::portable().load_key(&key_spec(key.mode(), &other))?;
            Ok(Box::new(FlawedKey {
                key: kernel::portable().load_key(key)?,
                other,
                flaw,
                direction: self.direction,
            }))
        }

        fn alloc(&self, len: usize) -> Buffer {
            Buffer::zeroed(len)
        }
    }

    impl LoadedKey for FlawedKey {
        fn crypt(&self, direction: Direction, runs: &mut [Run<'_>]) -> Result<(), CryptError> {
            let count = runs.len();
            for run in &mut *runs {
                let long = run.unit_len().get() >= 1000;
                let key = match self.flaw {
                    Flaw::OtherKey if long => &self.other,
                    _ => &self.key,
                };
                key.crypt(direction, &mut [run.reborrow()])?;
            }
            for (i, run) in runs.iter_mut().enumerate() {
                let (len, units) = (run.unit_len().get(), run.units());
                if units == 0 || direction != self.direction {
                    continue;
                }
                let high = |unit| run.first().step(unit as u64, run.stride()).get() >> 64;
                let byte = match self.flaw {
                    Flaw::SecondBatch if units > 128 => 128 * len,
                    Flaw::FirstRun if i == 0 && count == 2 => 0,
                    Flaw::SecondRun if i == 1 => 0,
                    Flaw::Separate if matches!(run.buf(), InOut::Separate { .. }) => 0,
                    Flaw::Stride if run.stride() != 1 && units > 1 => len,
                    Flaw::Carry if high(0) != high(units - 1) => units * len - 1,
                    Flaw::LongUnit if len >= 1000 => len - 1,
                    Flaw::Tail if len >= 1000 && len % 16 != 0 => len - 1,
                    Flaw::ShortUnits if len < 64 && len != 16 && units > 10 => 10 * len,
                    _ => continue,
                };
                run.output()[byte] ^= 0x10;
            }
            Ok(())
        }
    }

    #[test]
    fn cases_beyond_the_known_answers_are_compared() {
        for &mode in kernel::portable().info().modes {
            let sizes = AesSize::ALL.into_iter();
            for (size, direction) in sizes
                .filter(|&size| !key_lens(mode, size).is_empty())
                .flat_map(|size| Direction::ALL.map(|direction| (size, direction)))
            {
                let run = |flaw| {
                    self_test(&Flawed {
                        flaw,
                        mode,
                        size,
                        direction,
                    })
                };
                run(Flaw::None).unwrap();
                for flaw in [
                    Flaw::SecondBatch,
                    Flaw::FirstRun,
                    Flaw::SecondRun,
                    Flaw::Separate,
                    Flaw::Stride,
                    Flaw::Carry,
                    Flaw::LongUnit,
                    Flaw::Tail,
                    Flaw::ShortUnits,
                    Flaw::OtherKey,
                ] {
                    // Only XTS has batches of 128 units, and ECB and CBC have no partial blocks.
                    match (mode, flaw) {
                        (Mode::Xts, Flaw::SecondBatch) => {}
                        (_, Flaw::SecondBatch) | (Mode::Ecb | Mode::Cbc, Flaw::Tail) => continue,
                        _ => {}
                    }
                    let error = run(flaw).expect_err("a flaw");
                    assert!(
                        matches!(error, SelfTestError::Differs { mode: m, .. } if m == mode),
                        "{flaw:?} {size:?} {direction:?}: {error}"
                    );
                }
            }
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
