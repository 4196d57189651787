// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requirements on the header of a volume.

use luxor_luks::{HeaderPolicy, LuksVersion, VolumeHeader};
use luxor_volume::Header;

use crate::{OpenError, Result};

/// Requirements for volumes from untrusted sources. The default requires nothing.
#[derive(Clone, Debug, Default)]
pub struct VolumePolicy {
    /// The required version of LUKS.
    pub version: Option<LuksVersion>,
    /// The required encryption, keyslots and digest.
    pub header: HeaderPolicy,
}

impl VolumePolicy {
    /// Whether there are no requirements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.version.is_none() && self.header.is_empty()
    }

    /// Checks the metadata of a volume, which messages call `volume`. The functions of this crate
    /// that open a volume or a backup call this with [`Context::policy`](crate::Context::policy). A
    /// caller that reads a header in another way calls it before using the metadata for anything
    /// else.
    ///
    /// # Errors
    /// Fails when the metadata do not meet a requirement; the message names it.
    pub fn check(&self, header: &dyn Header, volume: &str) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        // Only LUKS has a header that can meet requirements.
        let name = || volume.to_owned();
        let header = header.downcast_ref::<VolumeHeader>();
        let header = header.ok_or_else(|| OpenError::NoHeaderForPolicy { name: name() })?;
        let version = header.version();
        if self.version.is_some_and(|wanted| wanted != version) {
            let name = name();
            return Err(OpenError::VersionRefused { name, version }.into());
        }
        let checked = self.header.check(header);
        let refused = |source| OpenError::Refused {
            name: name(),
            source,
        };
        Ok(checked.map_err(refused)?)
    }
}
