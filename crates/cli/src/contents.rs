// SPDX-License-Identifier: MIT OR Apache-2.0
//! What stands on a file or a device that is to be overwritten, in words.

use luxor_luks::{Signature, VolumeHeader, signatures};
use luxor_sector::Storage;

use crate::{commands::dump::Escaped, error::io_words};

/// Each thing that is recognised on `storage`, with its place; then what could not be read.
#[must_use]
pub fn recognised(storage: &dyn Storage) -> Vec<String> {
    let (found, failed) = signatures(storage);
    let words =
        |Signature { name, offset, .. }: &Signature| format!("{name} (signature at byte {offset})");
    let failed = failed.map(|error| {
        format!(
            "something that cannot be recognised, since a part cannot be read ({})",
            io_words(&error)
        )
    });
    found.iter().map(words).chain(failed).collect()
}

/// The volume that `header` is of: version, UUID and label.
#[must_use]
pub fn volume(header: &VolumeHeader) -> String {
    let label = match header {
        VolumeHeader::Luks2(header) if !header.describe().label.is_empty() => {
            format!(" and the label {}", Escaped(header.describe().label))
        }
        _ => String::new(),
    };
    format!(
        "a LUKS{} volume with the UUID {}{label}",
        header.version(),
        Escaped(header.uuid())
    )
}
