// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the secret of a volume comes from.

use std::path::Path;

use luxor_engine::SecretBytes;

use crate::{Error, Result};

/// A prompt, a file, or a secret that is there already.
pub trait Secrets {
    /// The secret of `volume`.
    ///
    /// # Errors
    /// When there is none.
    fn secret(&self, volume: &Path) -> Result<SecretBytes>;

    /// The last one does not open the volume, as `wrong` says: whether another one may be asked
    /// for.
    fn ask_again(&self, wrong: &Error) -> bool;
}

/// The same for every volume.
impl Secrets for SecretBytes {
    fn secret(&self, _: &Path) -> Result<SecretBytes> {
        Ok(self.clone())
    }

    fn ask_again(&self, _: &Error) -> bool {
        false
    }
}
