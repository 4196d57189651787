// SPDX-License-Identifier: MIT OR Apache-2.0
//! Luxor as a library: volumes in files and on devices, and the one place that chooses between
//! implementations of AES.
//!
//! | to … | use |
//! |---|---|
//! | say which engine and how many threads, and hear warnings | [`Context`], [`Events`] |
//! | open a volume, unlock it, and find its data | [`Volume`], [`Secrets`] |
//! | change its metadata under its locks | [`Volume::change`] |
//! | refuse volumes that are not as they must be | [`VolumePolicy`] |
//! | load keys into the best engine of this machine | [`Engine`] |
//! | list the engines that there are | [`engines::registry`] |
//! | keep or read how fast devices are beside this CPU | [`Calibration`] |
//!
//! The formats are in `luxor-luks`, files and devices in `luxor-files`, data units in
//! `luxor-sector`.
//!
//! ```
//! use luxor::{Context, Engine};
//! use luxor_engine::{DataUnitLen, Direction, KeySpec, Mode, Run, XtsKey};
//!
//! let engine = Engine::select(&Context::default(), Mode::Xts)?;
//! # let random_bytes: [u8; 64] = core::array::from_fn(|i| i as u8);
//! let key = engine.load(&KeySpec::Xts(XtsKey::new(&random_bytes).unwrap()))?;
//!
//! // Eight sectors of 512 bytes, numbered from 0.
//! let mut bytes = vec![7; 4096];
//! let unit = DataUnitLen::new(512).unwrap();
//! let run = Run::new(0_u64.into(), 1, unit, bytes.as_mut_slice()).unwrap();
//! key.crypt(Direction::Encrypt, &mut [run]).unwrap();
//! assert_ne!(bytes, vec![7; 4096]);
//! # Ok::<(), luxor::Error>(())
//! ```

#![forbid(unsafe_code)]

mod context;
pub mod engines;
mod error;
mod policy;
mod secrets;
mod volume;

pub use context::{Context, Events, NoEvents};
pub use engines::{Calibration, Engine};
pub use error::{Error, ErrorClass, Result};
pub use policy::VolumePolicy;
pub use secrets::Secrets;
pub use volume::{Payload, Place, Volume, VolumeError, begin_change, exclusive, load, parts};
