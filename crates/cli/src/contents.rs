// SPDX-License-Identifier: MIT OR Apache-2.0
//! What stands on a file or a device that is to be overwritten, in words.

use luxor_files::Escaped;
use luxor_luks::VolumeHeader;

/// The volume that `header` is of: version, UUID and label.
#[must_use]
pub(crate) fn volume(header: &VolumeHeader) -> String {
    let label = match header.label() {
        "" => String::new(),
        label => format!(" and the label {}", Escaped(label)),
    };
    format!(
        "a {} volume with the UUID {}{label}",
        header.version(),
        Escaped(header.uuid())
    )
}
