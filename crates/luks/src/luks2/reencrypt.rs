// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of an online re-encryption: a keyslot of type `reencrypt`, segments that
//! say which part is how, and a digest over all of that under the volume keys, so that
//! nobody else can change it (CVE-2021-4122).

mod error;
mod parts;
mod state;

pub use error::ReencryptionError;
pub(crate) use state::Reencryption;

use super::metadata::Metadata;

impl<'a> Reencryption<'a> {
    /// `None` when the metadata ask for nothing of the kind.
    ///
    /// The parts of the data have been checked: each is where the state puts it.
    pub(crate) fn of(metadata: &'a Metadata) -> Result<Option<Self>, ReencryptionError> {
        let state = Self::find(metadata)?;
        if let Some(state) = &state {
            state.check_parts(metadata)?;
        }
        Ok(state)
    }
}
