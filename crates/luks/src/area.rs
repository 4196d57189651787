// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encrypts keyslot areas: 512-byte data units, numbered from 0 at the area's first byte.

use luxor_engine::{Backend, BackendError, CryptError, Direction, KeySpec};
use luxor_sector::{Geometry, GeometryError, SectorSize};
use luxor_volume::Encryption;

/// Encrypts or decrypts an area in place. `bytes` holds whole data units.
pub(crate) fn crypt_area(
    backend: &dyn Backend,
    key: &KeySpec,
    encryption: Encryption,
    direction: Direction,
    bytes: &mut [u8],
) -> Result<(), AreaError> {
    let geometry = Geometry {
        sector_size: SectorSize::B512,
        iv_mode: encryption.iv_mode(),
        iv_offset: 0,
        iv_large_sectors: false,
    };
    let mut runs = geometry.runs(0, bytes)?;
    backend.load_key(key)?.crypt(direction, &mut runs)?;
    Ok(())
}

/// Why a keyslot's area could not be encrypted or decrypted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AreaError {
    /// The area's length is not a multiple of 512 bytes.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The engine does not accept the key.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The engine failed while it encrypted or decrypted the area.
    #[error(transparent)]
    Crypt(#[from] CryptError),
}
