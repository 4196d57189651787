// SPDX-License-Identifier: MIT OR Apache-2.0
//! The encryption of a keyslot's area: `aes-xts-plain64` over 512-byte data
//! units, numbered from 0 at the area's first byte.

use luxor_engine::{
    Backend, BackendError, CryptError, DataUnitLen, DataUnitNumber, Direction, KeySpec, Run,
    RunError, XtsKey,
};

/// Encrypts or decrypts an area in place; `bytes` are whole data units.
pub(crate) fn crypt_area(
    backend: &dyn Backend,
    key: XtsKey,
    direction: Direction,
    bytes: &mut [u8],
) -> Result<(), AreaError> {
    let unit = DataUnitLen::new(512)?;
    let run = Run::new(DataUnitNumber::default(), 1, unit, bytes)?;
    backend
        .load_key(&KeySpec::Xts(key))?
        .crypt(direction, &mut [run])?;
    Ok(())
}

/// Why a keyslot's area could not be encrypted or decrypted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AreaError {
    /// The area's length is no multiple of 512 bytes.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The engine does not take the key.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The engine failed.
    #[error(transparent)]
    Crypt(#[from] CryptError),
}
