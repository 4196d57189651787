// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the header of a volume must be.

use luxor_luks::{HeaderPolicy, LuksVersion, VolumeHeader};

use crate::{Error, Result};

/// For volumes from strangers. The default requires nothing.
#[derive(Clone, Debug, Default)]
pub struct VolumePolicy {
    /// The version of its format.
    pub version: Option<LuksVersion>,
    /// Its encryptions, keyslots and digest.
    pub header: HeaderPolicy,
}

impl VolumePolicy {
    /// Whether nothing is required.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.version.is_none() && self.header.is_empty()
    }

    /// Compares the metadata of `volume`, which is its name for messages. To be called before
    /// anything is done with them.
    ///
    /// # Errors
    /// When they are something else.
    pub fn check(&self, header: &VolumeHeader, volume: &str) -> Result<()> {
        let version = header.version();
        if self.version.is_some_and(|wanted| wanted != version) {
            return Err(Error::failure(format!(
                "{volume} is refused: it is a {version} volume"
            )));
        }
        self.header
            .check(header)
            .map_err(|error| Error::failure(format!("{volume} is refused: {error}")))
    }
}
