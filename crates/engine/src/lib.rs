// SPDX-License-Identifier: MIT OR Apache-2.0
//! XTS-AES and other AES modes over runs of data units, at the speed of the hardware.
//!
//! | to do this | use |
//! |---|---|
//! | encrypt disk sectors | [`Registry::best`], [`Backend::load_key`], [`LoadedKey::crypt`] |
//! | the same on all cores | [`Executor`] |
//! | encrypt a message in OFB piece by piece | [`Message`] |
//! | encrypt many such messages together | [`encrypt_streams`] |
//! | choose or list implementations | [`Registry`], [`CPU_KERNELS`] |
//! | describe what to encrypt | [`Run`] |
//! | hold a key | [`XtsKey`], [`AesKey`], [`CbcKey`], [`ParallelOfbKey`] |
//! | leave no part of a key on the stack | [`with_key_stack`](luxor_secret::with_key_stack) |
//! | check an implementation | [`self_test`] |
//! | plug in a device | implement [`Backend`] and [`LoadedKey`] |
//! | continue on the CPU when a device fails | [`Fallback`] |
//! | send only long calls to a device | [`Choice`] |
//!
//! XTS keeps data secret but does not authenticate it: anyone who can write to the ciphertext can
//! change the plaintext in units of 16 bytes, and decryption does not detect it.
//!
//! ```
//! use luxor_engine::{DataUnitLen, DataUnitNumber, Direction, KeySpec, Mode, Registry, Run, XtsKey};
//!
//! # let random_bytes: [u8; 64] = core::array::from_fn(|i| i as u8);
//! let key = KeySpec::Xts(XtsKey::new(&random_bytes)?);
//! let key = Registry::cpu().best(Mode::Xts)?.load_key(&key)?;
//!
//! // A MiB of 4096-byte sectors, numbered as LUKS2 does it: in units of 512 bytes.
//! let mut disk = vec![0; 1 << 20];
//! let sector = DataUnitLen::new(4096)?;
//! let run = Run::new(DataUnitNumber::from(0_u64), 8, sector, disk.as_mut_slice())?;
//! key.crypt(Direction::Encrypt, &mut [run])?;
//! assert_ne!(disk[..16], disk[4096..][..16]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Without the default feature `std` the crate is `no_std` and needs only `alloc`. It then uses the
//! CPU features that were enabled at compile time, keeps secrets in ordinary memory that is wiped,
//! and lacks [`Executor`] and [`Choice`].

#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod backend;
mod buffer;
#[cfg(feature = "std")]
mod choice;
mod detect;
#[cfg(feature = "std")]
mod executor;
mod fallback;
pub mod gf128;
mod kernel;
mod key;
mod message;
mod mode;
mod registry;
mod run;
mod self_test;

pub use backend::{
    Backend, BackendError, BackendInfo, CryptError, CryptErrorKind, Direction, LoadedKey,
    check_runs,
};
pub use buffer::{Buffer, PAGE};
#[cfg(feature = "std")]
pub use choice::Choice;
#[cfg(feature = "std")]
pub use executor::{Chains, Executor};
pub use fallback::Fallback;
pub use kernel::catalogue::{CPU_KERNELS, CpuKernel};
pub use key::{
    AesKey, AesSize, CbcKey, Construction, KeyError, KeySize, KeySpec, Mode, ParallelOfbKey,
    TweakSchedule, XtsKey,
};
pub use message::{Message, Messages, Turn, encrypt_streams};
pub use registry::{Registry, SelectError, Unavailable};
pub use run::{DataUnitLen, DataUnitNumber, InOut, Run, RunError};
pub use self_test::{SelfTestError, self_test};
