// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory, stacks and processes that keep keys.
//!
//! | to do this | use |
//! |---|---|
//! | hold a key, a passphrase or a key schedule | [`SecretBytes`] |
//! | leave no part of a key on the stack or in vector registers | [`with_key_stack`] |
//! | overwrite the stack of a function that has returned | [`wipe_stack`] |
//! | write or read a secret's hexadecimal or base64 digits | [`encode_hex`], [`decode_hex`], [`base64_value`] |
//! | keep keys out of core dumps and from other processes | [`harden_process`] |
//! | give the threads of drivers enough stack, whatever `ulimit -s` says | [`set_default_stack`] |
//!
//! ```
//! use luxor_secret::{SecretBytes, with_key_stack};
//!
//! let key = SecretBytes::copy_of(b"sixteen byte key");
//! let sum = with_key_stack(|| key.expose().iter().fold(0, |sum, byte| sum ^ byte));
//! assert_eq!(format!("{key:?}"), "SecretBytes(16 bytes)");
//! # let _ = sum;
//! ```
//!
//! Without the default feature `std` the crate is `no_std` and needs only `alloc`. It then keeps secrets
//! in ordinary memory that is wiped, and lacks [`with_key_stack`] and [`harden_process`].

#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod digits;
#[cfg(feature = "std")]
mod process;
mod secret_bytes;
mod stack;

pub use digits::{base64_value, decode_hex, encode_hex};
#[cfg(all(feature = "std", target_os = "linux"))]
pub use process::set_default_stack;
#[cfg(feature = "std")]
pub use process::{NotHardened, harden_process};
pub use secret_bytes::SecretBytes;
pub use stack::wipe as wipe_stack;
#[cfg(feature = "std")]
pub use stack::with_key_stack;
