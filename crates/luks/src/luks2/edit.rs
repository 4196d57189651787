// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes a volume's metadata.
//!
//! Every change edits the JSON text or the binary header's fields, and is written in the same way
//! ([`draft`]):
//!
//! ```text
//! read the metadata again           refuse if they are not what the caller has seen, or if
//!                                   something else in the place of a copy must not be lost
//! sync                              a program that was killed may not have done it
//! edit                              everything that is not edited keeps its text, as json-c would write it
//! parse and validate the result     by the rules for reading
//! write one copy, sync              the damaged or older one, otherwise the secondary
//! write the other copy, sync
//! read both again                   fail if they are not what was written
//! ```
//!
//! At each instant one copy is valid. Each copy gets a new salt and the next seqid, so that the
//! newer one takes effect if the power fails between the two writes. A keyslot's area is written
//! and synced before metadata refer to it, and overwritten after no metadata refer to it any more.
//! Only the area of a keyslot that is being removed is overwritten first.
//!
//! The slow derivation of a key needs no lock, because a change is refused if the metadata are not
//! what the caller has seen.
//!
//! A program that takes no lock may write at the same time. So what was written is read again
//! before an old area is overwritten: the volume is never left with neither the old keyslot nor the
//! new one. The one exception is a keyslot that is replaced in its own place, which the caller must
//! ask for.

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

pub(crate) use self::{
    draft::new_copy,
    numbers::{MAX_NUMBERS, free_number},
};
pub(super) use self::{
    draft::{MetadataDraft, check_room},
    members::JsonMembers,
};
pub use self::{
    error::ChangeError, keyslots::NewVolumeKey, overwrite::Overwrite, tokens::token_with_keyslot,
};
