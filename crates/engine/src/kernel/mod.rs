// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPU kernels, each of which is a backend.
//!
//! A mode is written once, in [`crate::mode`], over the two private traits of [`vector`]: registers
//! of whole blocks, and an expanded key that encrypts several registers together. The architecture
//! files supply operations only.
//!
//! [`catalogue`] lists them. A pass of their main loops takes 8 registers. `portable`, bitsliced AES
//! in 64-bit integers for any CPU, is not in the list; its passes take 32 blocks.

#[cfg(all(
    target_arch = "aarch64",
    target_endian = "little",
    target_feature = "neon"
))]
mod aarch64;
#[cfg(any(
    all(
        target_arch = "aarch64",
        target_endian = "little",
        target_feature = "neon"
    ),
    target_arch = "x86_64"
))]
mod aes;
mod bitsliced;
pub(crate) mod catalogue;
mod feedback;
mod four_blocks;
mod modes;
mod portable;
pub(crate) mod vector;
#[cfg(target_arch = "x86_64")]
mod x86;

use alloc::{boxed::Box, sync::Arc};

use zeroize::Zeroizing;

use self::{
    feedback::{FeedbackKernel, FeedbackKey},
    modes::Kernel,
};
use crate::{
    backend::{
        Backend, BackendError, BackendInfo, CryptError, CryptErrorKind, Direction, LoadedKey,
        check_runs,
    },
    buffer::Buffer,
    cpu_kernels,
    gf128::mul_alpha_pow,
    key::{KeySpec, Mode},
    message::Messages,
    registry::{Registry, Unavailable},
    run::{DataUnitLen, DataUnitNumber, Run},
};

macro_rules! register {
    (
        ($registry:ident)
        $($architecture:ident $name:ident {
            $token:ident, $blocks:literal, $words:tt, [$($feature:tt)+]
        })+
    ) => {
        $(register!(@$architecture $registry, stringify!($name), $token);)+
    };
    (@x86_64 $registry:ident, $name:expr, $token:ident) => {
        #[cfg(target_arch = "x86_64")]
        $registry.register($name, || crate::detect::$token::detect().map(backend));
        #[cfg(not(target_arch = "x86_64"))]
        $registry.register($name, || Err(Unavailable::Architecture));
    };
    (@aarch64 $registry:ident, $name:expr, $token:ident) => {
        #[cfg(all(
            target_arch = "aarch64",
            target_endian = "little",
            target_feature = "neon"
        ))]
        $registry.register($name, || crate::detect::$token::detect().map(backend));
        #[cfg(not(all(
            target_arch = "aarch64",
            target_endian = "little",
            target_feature = "neon"
        )))]
        $registry.register($name, || Err(Unavailable::Architecture));
    };
}

impl Registry {
    /// The backends of the CPU, fastest first, all in constant time: those of [`CPU_KERNELS`], and
    /// `portable`, which needs no special instructions. All of them support all modes. Those for
    /// another architecture than that of the program are listed as [`Unavailable::Architecture`].
    ///
    /// [`CPU_KERNELS`]: crate::CPU_KERNELS
    #[must_use]
    pub fn cpu() -> Self {
        let mut registry = Self::empty();
        cpu_kernels!(register(registry));
        registry.register("portable", || Ok::<_, Unavailable>(portable()));
        registry
    }
}

/// The kernel that is available on every machine.
pub(crate) fn portable() -> Arc<dyn Backend> {
    backend(portable::Portable)
}

fn backend<K: FeedbackKernel>(kernel: K) -> Arc<dyn Backend> {
    Arc::new(CpuBackend(kernel))
}

struct CpuBackend<K>(K);

impl<K: FeedbackKernel> Backend for CpuBackend<K> {
    fn info(&self) -> BackendInfo {
        BackendInfo::new(K::NAME, self.0.device(), Mode::ALL)
    }

    fn load_key(&self, key: &KeySpec) -> Result<Box<dyn LoadedKey>, BackendError> {
        if key.is_lost() {
            return Err(BackendError::KeyLostInFork);
        }
        let key = expanded(self.0, key);
        K::wipe_stack();
        Ok(Box::new(key))
    }

    fn alloc(&self, len: usize) -> Buffer {
        Buffer::zeroed(len)
    }
}

/// Not inlined, so that its stack frame lies where [`wipe_stack`](luxor_secret::wipe_stack) overwrites
/// it.
#[inline(never)]
fn expanded<K: FeedbackKernel>(kernel: K, key: &KeySpec) -> CpuKey<K> {
    let keys = match key {
        KeySpec::Xts(key) => Keys::Xts {
            data: kernel.expand(key.data_key()),
            tweak: kernel.expand(key.tweak_key()),
        },
        KeySpec::Ecb(key) => Keys::Ecb(kernel.expand(key)),
        KeySpec::Ctr(key) => Keys::Ctr(kernel.expand(key)),
        KeySpec::Cbc(key) => Keys::Cbc {
            data: kernel.expand(key.data_key()),
            essiv: key.essiv_key().map(|key| kernel.expand(key)),
        },
        KeySpec::Ofb(key) => Keys::Feedback(FeedbackKey::plain(kernel, kernel.expand(key))),
        KeySpec::ParallelOfb(key) => {
            let [first, second] = [key.first_key(), key.second_key()].map(|k| kernel.expand(k));
            Keys::Feedback(FeedbackKey::tweaked(kernel, key, first, second))
        }
    };
    let mode = key.mode();
    CpuKey { kernel, mode, keys }
}

struct CpuKey<K: Kernel> {
    kernel: K,
    mode: Mode,
    keys: Keys<K>,
}

enum Keys<K: Kernel> {
    Xts {
        data: K::Key,
        tweak: K::Key,
    },
    Ecb(K::Key),
    Ctr(K::Key),
    Cbc {
        data: K::Key,
        essiv: Option<K::Key>,
    },
    /// OFB with or without tweaks.
    Feedback(FeedbackKey<K>),
}

impl<K: FeedbackKernel> Keys<K> {
    /// Any one of the keys. A fork wipes all of them at once, so checking one is enough.
    fn first(&self) -> &K::Key {
        match self {
            Self::Xts { data, .. } | Self::Cbc { data, .. } => data,
            Self::Ecb(key) | Self::Ctr(key) => key,
            Self::Feedback(key) => key.first(),
        }
    }
}

impl<K: FeedbackKernel> LoadedKey for CpuKey<K> {
    fn crypt(&self, direction: Direction, runs: &mut [Run<'_>]) -> Result<(), CryptError> {
        check_runs(self.mode, runs)?;
        if K::is_lost(self.keys.first()) {
            return Err(CryptError::new(0, CryptErrorKind::KeyLostInFork));
        }
        // SAFETY: `check_runs` has checked the unit lengths for the key's mode.
        unsafe { self.crypt_checked(direction, runs) };
        K::wipe_stack();
        Ok(())
    }

    fn takes_parts_of_units(&self) -> bool {
        matches!(self.keys, Keys::Xts { .. })
    }

    fn messages(&self) -> Option<&dyn Messages> {
        match &self.keys {
            Keys::Feedback(key) => Some(key),
            _ => None,
        }
    }
}

impl<K: FeedbackKernel> CpuKey<K> {
    /// Returns the number of the first unit. For a part of a unit, it is the number whose tweak is that of the
    /// part's first block: what decrypts to T·αʲ. So the kernels need not know of parts.
    fn number_of(&self, tweak: &K::Key, run: &Run<'_>) -> DataUnitNumber {
        if run.unit_offset() == 0 {
            return run.first();
        }
        let unit = DataUnitLen::new(16).expect("a block is a valid unit");
        let mut block = Zeroizing::new(run.first().get().to_le_bytes());
        let ecb = |direction, block: &mut [u8]| {
            let run = Run::new(DataUnitNumber::new(0), 1, unit, block);
            let mut run = run.expect("it is one unit");
            // SAFETY: a unit is one block.
            unsafe { self.kernel.ecb(tweak, direction, &mut run) };
        };
        ecb(Direction::Encrypt, &mut *block);
        let blocks = (run.unit_offset() / 16) as u128;
        *block = mul_alpha_pow(u128::from_le_bytes(*block), blocks).to_le_bytes();
        ecb(Direction::Decrypt, &mut *block);
        DataUnitNumber::new(u128::from_le_bytes(*block))
    }

    /// Not inlined, so that its stack frame lies where [`wipe_stack`](luxor_secret::wipe_stack)
    /// overwrites it.
    ///
    /// # Safety
    /// The key's mode accepts the unit lengths of all `runs`.
    #[inline(never)]
    unsafe fn crypt_checked(&self, direction: Direction, runs: &mut [Run<'_>]) {
        for run in runs {
            match &self.keys {
                // SAFETY: the caller guarantees it, as `# Safety` requires.
                Keys::Xts { data, tweak } => unsafe {
                    let mut run = run.numbered_from(self.number_of(tweak, run));
                    self.kernel.xts(data, tweak, direction, &mut run);
                },
                // SAFETY: the caller guarantees it, as `# Safety` requires.
                Keys::Ecb(key) => unsafe { self.kernel.ecb(key, direction, run) },
                Keys::Ctr(key) => self.kernel.ctr(key, run),
                // SAFETY: the caller guarantees it, as `# Safety` requires.
                Keys::Cbc { data, essiv } => unsafe {
                    self.kernel.cbc(data, essiv.as_ref(), direction, run);
                },
                Keys::Feedback(key) => key.crypt_run(run),
            }
        }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use std::thread;

    use luxor_secret::with_key_stack;

    use super::*;
    use crate::{
        AesKey, CbcKey, Construction, DataUnitLen, DataUnitNumber, ParallelOfbKey, TweakSchedule,
        XtsKey,
    };

    /// Threads of other programs can have small stacks: musl gives them 128 KiB. Without
    /// optimisation, everything that is inlined takes stack space of its own.
    #[test]
    fn a_call_needs_little_stack() {
        let stack = if cfg!(debug_assertions) {
            1 << 20
        } else {
            64 << 10
        };
        let key = [0, 1].map(|k| [k; 32]);
        let halves: [u8; 32] = core::array::from_fn(|i| u8::from(i < 16));
        let parallel =
            ParallelOfbKey::new(&halves, Construction::Xex, TweakSchedule::Printed).unwrap();
        let aes = || AesKey::new(&key[0]).unwrap();
        let keys = [
            KeySpec::Xts(XtsKey::new(key.as_flattened()).unwrap()),
            KeySpec::Ecb(aes()),
            KeySpec::Ctr(aes()),
            KeySpec::Cbc(CbcKey::essiv_sha256(aes(), &key[1])),
            KeySpec::Ofb(aes()),
            KeySpec::ParallelOfb(parallel),
        ];
        for backend in Registry::cpu().probe_all().filter_map(|(_, b)| b.ok()) {
            for key in &keys {
                thread::scope(|scope| {
                    thread::Builder::new()
                        .stack_size(stack)
                        .spawn_scoped(scope, || {
                            let key = backend.load_key(key).unwrap();
                            let unit = DataUnitLen::new(48).unwrap();
                            let mut bytes = [0; 48];
                            for direction in [Direction::Encrypt, Direction::Decrypt] {
                                let first = DataUnitNumber::new(0);
                                let run = Run::new(first, 1, unit, &mut bytes[..]).unwrap();
                                key.crypt(direction, &mut [run]).unwrap();
                            }
                        })
                        .unwrap();
                });
            }
        }
    }

    /// In a forked child a call fails, and so does loading the key again; otherwise the child would
    /// encrypt with a key schedule of zeros. The parent continues to work.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_forked_child_does_not_encrypt_with_zeros() {
        let spec = KeySpec::Xts(XtsKey::new([[3; 32], [5; 32]].as_flattened()).unwrap());
        for backend in Registry::cpu().probe_all().filter_map(|(_, b)| b.ok()) {
            let key = backend.load_key(&spec).unwrap();
            let crypt = || {
                let mut bytes = [0; 16];
                let unit = DataUnitLen::new(16).unwrap();
                let run = Run::new(DataUnitNumber::new(0), 1, unit, &mut bytes[..]).unwrap();
                key.crypt(Direction::Encrypt, &mut [run]).map(|()| bytes)
            };
            let expected = crypt().unwrap();
            // SAFETY: the child takes no lock that another thread of the parent could hold: both
            // calls fail without allocating.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let is_right = crypt()
                    .is_err_and(|error| error.kind == CryptErrorKind::KeyLostInFork)
                    && matches!(backend.load_key(&spec), Err(BackendError::KeyLostInFork));
                // SAFETY: _exit ends the child without running the exit handlers of the test
                // process.
                unsafe { libc::_exit(i32::from(!is_right)) };
            }
            assert!(child > 0, "fork failed");
            let mut status = -1;
            // SAFETY: `status` is a valid place for the exit status.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(
                status,
                0,
                "{}: the child's exit status",
                backend.info().name
            );
            assert_eq!(crypt().unwrap(), expected, "{}", backend.info().name);
        }
    }

    /// Copies the stack below the caller's frame.
    #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
    #[inline(never)]
    fn dead_stack(copy: &mut [u8; 8 << 10]) {
        // SAFETY: these pages are mapped, since a call that used more stack has returned.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            core::arch::asm!(
                "sub {from}, sp, {len}",
                "2:",
                "ldr {word}, [{from}], #8",
                "str {word}, [{to}], #8",
                "subs {left}, {left}, #8",
                "b.ne 2b",
                len = const 8 << 10,
                from = out(reg) _,
                word = out(reg) _,
                to = inout(reg) copy.as_mut_ptr() => _,
                left = inout(reg) copy.len() => _,
            );
        }
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            core::arch::asm!(
                "lea rsi, [rsp - {len}]",
                "rep movsb",
                len = const 8 << 10,
                out("rsi") _,
                inout("rdi") copy.as_mut_ptr() => _,
                inout("rcx") copy.len() => _,
            );
        }
    }

    /// The key in every form that the portable kernel uses, in pieces of 8 bytes: the round keys as
    /// FIPS 197 has them, and bitsliced.
    #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
    fn forms(key: &AesKey) -> Vec<[u8; 8]> {
        let expanded = portable::Portable.expand(key);
        let standard: Vec<_> = bitsliced::standard_round_keys(&expanded).collect();
        let bitsliced = expanded.round_keys().as_flattened();
        [standard.as_flattened().as_chunks().0, bitsliced].concat()
    }

    #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
    #[test]
    fn the_portable_kernel_leaves_no_key_on_the_stack() {
        let bytes = |seed: u8| {
            // Marsaglia's xorshift.
            let mut x = 0x9e37_79b9_7f4a_7c15_u64 ^ (u64::from(seed) << 32);
            [0; 32].map(|_: u8| {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                x.to_le_bytes()[7]
            })
        };
        let (key, iv_key) = (bytes(1), bytes(2));
        let mut data = [0; 512];
        let unit = DataUnitLen::new(512).unwrap();
        for len in [16, 24, 32] {
            let aes = || AesKey::new(&key[..len]).unwrap();
            let cbc = CbcKey::essiv_sha256(aes(), &iv_key);
            let mut secrets = forms(&aes());
            secrets.extend(cbc.essiv_key().into_iter().flat_map(forms));
            for spec in [KeySpec::Ecb(aes()), KeySpec::Cbc(cbc)] {
                let mut images = [[0; 8 << 10]; 2];
                // `forms` has expanded keys without wiping them.
                luxor_secret::wipe_stack::<{ 12 << 10 }>();
                let key = portable().load_key(&spec).unwrap();
                dead_stack(&mut images[0]);
                let run = Run::new(DataUnitNumber::new(0), 1, unit, &mut data[..]).unwrap();
                key.crypt(Direction::Decrypt, &mut [run]).unwrap();
                dead_stack(&mut images[1]);
                for (image, when) in images.iter().zip(["loading the key", "a call"]) {
                    let is_secret = |piece: &[u8]| secrets.iter().any(|secret| secret == piece);
                    let found = image.windows(8).filter(|piece| is_secret(piece)).count();
                    assert_eq!(found, 0, "{spec:?}: pieces of the key after {when}");
                }
            }
        }
    }

    /// The kernels keep tweaks, or all bits of them but a few at the ends, in their frames.
    #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
    #[test]
    fn no_tweaks_are_left_on_a_key_stack() {
        const UNIT: usize = 4096;
        let (data_key, tweak_key) = ([7; 32], [9; 32]);
        let unit = DataUnitLen::new(UNIT).unwrap();
        let mut tweak = [0; 16];
        let ecb = KeySpec::Ecb(AesKey::new(&tweak_key).unwrap());
        let one = DataUnitLen::new(16).unwrap();
        let run = Run::new(DataUnitNumber::new(0), 1, one, &mut tweak[..]).unwrap();
        let key = portable().load_key(&ecb).unwrap();
        key.crypt(Direction::Encrypt, &mut [run]).unwrap();
        let tweaks = (0..UNIT as u128 / 16).map(|j| mul_alpha_pow(u128::from_le_bytes(tweak), j));
        let inner: std::collections::HashSet<[u8; 8]> = tweaks
            .map(|tweak| core::array::from_fn(|i| tweak.to_le_bytes()[4 + i]))
            .collect();
        let spec = KeySpec::Xts(XtsKey::new([data_key, tweak_key].as_flattened()).unwrap());
        let mut data = vec![0; UNIT];
        let mut image = Box::new([0; 8 << 10]);
        for backend in Registry::cpu().probe_all().filter_map(|(_, b)| b.ok()) {
            let key = backend.load_key(&spec).unwrap();
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                let run = Run::new(DataUnitNumber::new(0), 1, unit, &mut data[..]).unwrap();
                with_key_stack(|| key.crypt(direction, &mut [run])).unwrap();
                dead_stack(&mut image);
                let pieces = image.windows(8);
                let found = pieces.filter(|piece| inner.contains(*piece)).count();
                assert_eq!(found, 0, "{}, {direction:?}", backend.info().name);
            }
        }
    }
}
