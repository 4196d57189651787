// SPDX-License-Identifier: MIT OR Apache-2.0
//! What stands on a file or a device that is to be overwritten, in words.

use luxor_files::Output;
use luxor_luks::VolumeHeader;

use crate::{commands::dump::Escaped, console::Console};

/// Says what is recognised on block devices that will be overwritten: before a secret is
/// asked for, and before anything is written.
pub fn warn_of_contents<'a>(outputs: impl IntoIterator<Item = &'a Output>, console: Console) {
    for output in outputs {
        for what in output.contents() {
            console.warn(format!(
                "{} has {what}, which is overwritten",
                output.name()
            ));
        }
    }
}

/// The volume that `header` is of: version, UUID and label.
#[must_use]
pub fn volume(header: &VolumeHeader) -> String {
    let label = match header.label() {
        "" => String::new(),
        label => format!(" and the label {}", Escaped(label)),
    };
    format!(
        "a LUKS{} volume with the UUID {}{label}",
        header.version(),
        Escaped(header.uuid())
    )
}
