// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changing a volume's metadata.
//!
//! Every change is an edit of the JSON text, or of the binary header's fields, that is
//! written in one way ([`draft`]):
//!
//! ```text
//! read the metadata again           refused if they are not what the caller has seen, or
//!                                   if what stands in a copy's place is better kept
//! sync                              a program that was killed may not have done it
//! edit                              all that is not edited keeps its bytes
//! parse and validate the result     by the rules for reading
//! write one copy, sync              the damaged or older one, else the secondary
//! write the other copy, sync
//! read both again                   an error if they are not what was written
//! ```
//!
//! At each instant one valid copy stands. Each has a new salt and the next seqid, so
//! that the newer one counts when the power fails between them. A keyslot's area is
//! written and synced before metadata refer to it, and overwritten when none do any
//! more; only what is to be destroyed is destroyed first.
//!
//! Because a change is refused when the metadata are not what the caller has seen, the slow
//! derivation of a key needs no lock.
//!
//! Another program that takes no lock may write at the same time. What was written is read
//! again before an old area is overwritten, so that the volume is not left without either.

mod draft;
pub(crate) mod durable;
mod error;
mod keyslots;
mod members;
mod numbers;
mod overwrite;
mod repair;
mod settings;
#[cfg(test)]
mod tests;
mod tokens;

pub(crate) use self::numbers::free_number;
pub use self::{error::ChangeError, overwrite::Overwrite};
