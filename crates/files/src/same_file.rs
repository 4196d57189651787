// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks whether two paths name the same file.

use std::{fs, io, path::Path};

use crate::{FileIdentity, output::DirectoryEntry, standard_streams};

/// Returns whether a write to `output` would change `other`: both are the same file or device, one
/// is a device that shows bytes of the other ([`FileIdentity::overlaps`]), or both have the same
/// name in the same folder and one of them is missing or is neither a file nor a device. `other` may be `-` for standard input.
#[must_use]
pub fn is_same_file(output: &Path, other: &Path) -> bool {
    let metadata = if other == Path::new("-") {
        standard_streams::stdin().and_then(|stdin| stdin.metadata())
    } else {
        fs::metadata(other)
    };
    let identity = |metadata: io::Result<_>| FileIdentity::from_metadata(&metadata.ok()?);
    match (identity(fs::metadata(output)), identity(metadata)) {
        (Some(output), Some(other)) => output.overlaps(other),
        _ => is_same_entry(output, other).unwrap_or(false),
    }
}

/// Returns whether both have, or would get, the same name in the same folder.
fn is_same_entry(a: &Path, b: &Path) -> Option<bool> {
    let [a, b] = [
        DirectoryEntry::resolve(a).ok()?,
        DirectoryEntry::resolve(b).ok()?,
    ];
    Some(a.place().ok()? == b.place().ok()?)
}
