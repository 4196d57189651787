// SPDX-License-Identifier: MIT OR Apache-2.0
//! A disk with partitions in the place of the data of a detached header. The header does not say in which part
//! of a disk its data are, so without the part that the re-encryption has begun with, all of the disk would be
//! changed, from its first byte on.

use luxor_files::{DataFile, path_name};
use luxor_luks::{PartState, ReencryptMode, ReencryptionState};

use super::{ReencryptError, ReencryptOptions};
use crate::{Contents, Error, Result, error::Cause};

/// The end of a boot record, which both kinds of partition tables have in the first sector.
const BOOT_MAGIC: [u8; 2] = [0x55, 0xaa];

/// Checks that the data of a detached header do not begin with a partition table, unless
/// [`ReencryptOptions::force`] permits it. Encrypted data have none there, and in plain ones it means that all
/// partitions become one volume. `begun` is the re-encryption, if there is one.
pub(super) fn check_is_no_disk(
    data: &DataFile,
    begun: Option<&ReencryptionState>,
    options: &ReencryptOptions,
) -> Result<()> {
    if options.force || begun.is_some_and(may_begin_like_a_disk) {
        return Ok(());
    }
    let (name, input) = (path_name(data.path()), data.input()?);
    if input.part_begin().is_some() {
        return Ok(());
    }
    let storage = data.storage()?;
    let mut magic = [0; BOOT_MAGIC.len()];
    if storage.read_exact_at(&mut magic, 510).is_err() || magic != BOOT_MAGIC {
        return Ok(());
    }
    let contents = Contents::recognise(&*storage)
        .map_err(|error| Error::io(format!("cannot read the beginning of {name}"), &error))?;
    match &contents {
        Contents::Disk { partitions, .. } if !partitions.is_empty() => {
            Err(ReencryptError::WholeDisk { contents }.about(&name))
        }
        _ => Ok(()),
    }
}

/// Whether the first bytes may be decrypted already, or partly so.
fn may_begin_like_a_disk(state: &ReencryptionState) -> bool {
    match state.progress.parts().first() {
        Some((_, PartState::Zone)) => true,
        Some((_, PartState::New)) => state.mode == ReencryptMode::Decrypt,
        _ => false,
    }
}
