// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ground of every format: how a secret becomes a key, what that may cost, and how
//! keys are drawn, split, wrapped and given to the engine.
//!
//! Nothing here knows an on-disk format. What a format keeps in its metadata comes in and
//! goes out as values, so that a format without LUKS's headers uses the same code.

pub(crate) mod af;
pub(crate) mod area;
pub(crate) mod budget;
pub(crate) mod cipher;
pub(crate) mod hash;
pub(crate) mod memory;
pub(crate) mod pbkdf;
pub(crate) mod pbkdf_options;
pub(crate) mod rng;
pub(crate) mod volume_key;
