// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes the contents of a file or device that is to be overwritten.

use luxor_sector::{Signature, Storage, signatures};

use crate::io_words;

/// Returns whether `storage` begins with the magic number and the version of LUKS1. One that cannot
/// be read does not.
#[must_use]
pub fn begins_with_luks1(storage: &dyn Storage) -> bool {
    let mut begin = [0; 8];
    storage.read_exact_at(&mut begin, 0).is_ok() && begin == *b"LUKS\xba\xbe\x00\x01"
}

/// Returns whether `storage` may hold LUKS2 metadata, even if only one of the two copies.
pub(crate) fn may_be_luks2(storage: &dyn Storage) -> bool {
    let (found, failed) = signatures(storage);
    !begins_with_luks1(storage) && (failed.is_some() || found.iter().any(Signature::is_luks))
}

/// Returns each signature that is recognised on `storage`, with its offset, and then what could not
/// be read, in words.
#[must_use]
pub fn recognised(storage: &dyn Storage) -> Vec<String> {
    let (found, failed) = signatures(storage);
    let words =
        |Signature { name, offset, .. }: &Signature| format!("{name} (signature at byte {offset})");
    let failed = failed.map(|error| {
        format!(
            "unknown contents, because a part cannot be read ({})",
            io_words(&error)
        )
    });
    found.iter().map(words).chain(failed).collect()
}
