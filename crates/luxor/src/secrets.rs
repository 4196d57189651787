// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the secret of a volume comes from.

use std::path::Path;

use luxor_secret::SecretBytes;

use crate::{Context, Error, Result};

/// The source of a volume's secret: a prompt, a file, or a secret that the caller already has.
pub trait Secrets {
    /// Returns a secret for the volume with the path `volume`: the bytes of a passphrase or of a
    /// key file, without a line end unless it belongs to the secret.
    ///
    /// # Errors
    /// Any error ends the operation, which returns that error.
    fn secret(&self, volume: &Path) -> Result<SecretBytes>;

    /// As [`Secrets::secret`], for this keyslot.
    ///
    /// # Errors
    /// Those of [`Secrets::secret`].
    fn keyslot_secret(&self, volume: &Path, _keyslot: u32) -> Result<SecretBytes> {
        self.secret(volume)
    }

    /// Called with the error `wrong` when the last secret opened no keyslot. Returns whether to
    /// call [`Secrets::secret`] again; if not, `wrong` is the error of the operation.
    fn ask_again(&self, wrong: &Error) -> bool;

    /// Called with the error of the operation when no secret opened a keyslot. Returns it, perhaps with
    /// a hint about the last secret.
    fn explain(&self, wrong: Error) -> Error {
        wrong
    }

    /// Called before keyslot `keyslot` of `volume` is removed, after a secret has permitted it. `left` is the
    /// number of other keyslots that open the data.
    ///
    /// # Errors
    /// An error ends the operation, which returns that error. The keyslot stays.
    fn confirm_removal(&self, _volume: &Path, _keyslot: u32, _left: usize) -> Result<()> {
        Ok(())
    }

    /// Whether the secrets are volume keys, which need no keyslot.
    fn are_volume_keys(&self) -> bool {
        false
    }
}

/// A volume key in place of a secret that opens a keyslot: 32 or 64 bytes for XTS.
#[derive(Clone, Debug)]
pub struct VolumeKeySecret(pub SecretBytes);

impl Secrets for VolumeKeySecret {
    fn secret(&self, _: &Path) -> Result<SecretBytes> {
        Ok(self.0.clone())
    }

    fn ask_again(&self, _: &Error) -> bool {
        false
    }

    fn are_volume_keys(&self) -> bool {
        true
    }
}

/// The same secret for every volume, tried once.
impl Secrets for SecretBytes {
    fn secret(&self, _: &Path) -> Result<SecretBytes> {
        Ok(self.clone())
    }

    fn ask_again(&self, _: &Error) -> bool {
        false
    }
}

/// The result of a failed attempt to unlock a volume.
pub(crate) struct Attempt {
    pub(crate) error: Error,
    /// Whether another secret may help.
    pub(crate) is_wrong_secret: bool,
}

/// Calls `unlock` with secrets for the volume at `path` until one of them opens it. Returns the
/// result and that secret. Every format unlocks its volumes through this loop.
///
/// # Errors
/// Fails when there is no secret, when `unlock` fails for another reason than a wrong secret, and
/// when `secrets` ends after a wrong one.
pub(crate) fn try_secrets<T>(
    path: &Path,
    secrets: &dyn Secrets,
    context: &Context,
    unlock: impl Fn(&SecretBytes) -> Result<T, Attempt>,
) -> Result<(T, SecretBytes)> {
    loop {
        let secret = secrets.secret(path)?;
        let step = context.events.step("Opening the volume");
        let result = unlock(&secret);
        drop(step);
        context.check_cancelled()?;
        match result {
            Ok(unlocked) => return Ok((unlocked, secret)),
            Err(Attempt {
                error,
                is_wrong_secret,
            }) => {
                if !is_wrong_secret {
                    return Err(error);
                }
                if !secrets.ask_again(&error) {
                    return Err(secrets.explain(error));
                }
            }
        }
    }
}
