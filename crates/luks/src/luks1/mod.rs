// SPDX-License-Identifier: MIT OR Apache-2.0
//! LUKS1 (LUKS1 On-Disk Format Specification 1.2.3). A header is read into the same typed values as
//! LUKS2's (keyslots, one digest, one segment), so that both versions open keyslots by the same
//! code.
//!
//! ```text
//!   0            header (592 bytes)
//!   4 KiB        keyslot areas, each 4000 times as long as the key
//!   about 2 MiB  data in 512-byte sectors, to the storage's end (or in another storage)
//! ```

mod change;
mod convert;
mod create;
mod fields;
mod from_luks2;
mod header;
mod layout;
mod phdr;
mod relocate;
mod repair;
mod to_luks2;

pub(crate) use self::phdr::MAGIC;
pub use self::{
    convert::ConvertError,
    create::{Luks1Options, NewLuks1Volume},
    header::{Luks1Description, Luks1Header},
    repair::{ByForce, Luks1Repair, Luks1RepairError, Luks1Restored},
};
