// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of an online re-encryption: a keyslot of type `reencrypt`, segments that describe each
//! part of the data, and a digest over that state. The digest covers the volume keys too, so only a
//! holder of the keys can change the state (CVE-2021-4122).

mod change;
mod error;
mod parts;
mod seal;
mod state;

pub use change::{
    CarriedKeyslot, InPlace, InPlacePlan, ReencryptionPlan, ReencryptionState, StoredData,
};
pub use error::ReencryptionError;
pub use parts::{DataEnd, PartState, ReencryptionProgress};
pub(crate) use state::Reencryption;

use super::metadata::Metadata;

impl<'a> Reencryption<'a> {
    /// Returns the re-encryption that is under way; `None` if the metadata require none.
    ///
    /// The parts of the data are checked: each is where the state requires it.
    pub(crate) fn find_checked(metadata: &'a Metadata) -> Result<Option<Self>, ReencryptionError> {
        let state = Self::find(metadata)?;
        if let Some(state) = &state {
            state.check_parts(metadata)?;
        }
        Ok(state)
    }

    /// Returns whether all data have a new key, and the old one is not needed any more. cryptsetup
    /// destroys its keyslots before its last change, so without them the digest over the state, which
    /// covers both keys, cannot be checked. The data are then no more than those of a volume with one
    /// key, whose metadata have no such digest either.
    pub(crate) fn needs_no_old_key(&self, metadata: &Metadata) -> bool {
        self.keys().len() == 2 && self.is_done(metadata)
    }

    /// Returns whether all data are new.
    pub(crate) fn is_done(&self, metadata: &Metadata) -> bool {
        let (_, progress) = self.progress(metadata, u64::MAX);
        progress.left() == 0
    }
}
