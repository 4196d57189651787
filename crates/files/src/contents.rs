// SPDX-License-Identifier: MIT OR Apache-2.0
//! What stands on a file or a device that is to be overwritten, in words.

use luxor_sector::{Signature, Storage, signatures};

use crate::io_words;

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
