// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the secret of a volume comes from.

use std::path::Path;

use luxor_engine::SecretBytes;

use crate::{Error, Result};

/// The source of a volume's secret: a prompt, a file, or a secret that the caller already has.
pub trait Secrets {
    /// Returns the secret of `volume`.
    ///
    /// # Errors
    /// Fails when there is none.
    fn secret(&self, volume: &Path) -> Result<SecretBytes>;

    /// Called when the last secret did not open the volume, with the error `wrong`. Returns whether
    /// to ask for another secret.
    fn ask_again(&self, wrong: &Error) -> bool;
}

/// Uses the same secret for every volume.
impl Secrets for SecretBytes {
    fn secret(&self, _: &Path) -> Result<SecretBytes> {
        Ok(self.clone())
    }

    fn ask_again(&self, _: &Error) -> bool {
        false
    }
}
