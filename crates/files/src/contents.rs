// SPDX-License-Identifier: MIT OR Apache-2.0
//! What stands on a file or a device that is to be overwritten, in words.

use luxor_sector::{Signature, Storage, signatures};

use crate::io_words;

/// Whether there may be LUKS2 metadata on `storage`, be it one copy of two.
pub(crate) fn may_be_luks2(storage: &dyn Storage) -> bool {
    let mut begin = [0; 8];
    let is_luks1 =
        storage.read_exact_at(&mut begin, 0).is_ok() && begin == *b"LUKS\xba\xbe\x00\x01";
    let (found, failed) = signatures(storage);
    !is_luks1 && (failed.is_some() || found.iter().any(Signature::is_luks))
}

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
