// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this version does not know.
//!
//! A keyslot, segment, digest or token of unknown type is kept by name and is no error. Its area and
//! its number count in every rule, `dump` shows it, and only opening the volume asks whether it is
//! needed. So volumes of a newer cryptsetup can be examined, and an older copy of a header is never
//! preferred only because the newer one is not understood.

use super::{field::FieldPath, metadata_error::MetadataError};

/// An object that this version does not know: shown and kept, never used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Foreign {
    /// Its type in the metadata.
    pub kind: String,
    /// What is not known, in words.
    pub what: String,
}

impl Foreign {
    /// What `error` finds unknown in the object of type `kind` at `place`.
    ///
    /// # Errors
    /// `error`, when it is about a rule that the object breaks.
    pub(crate) fn new(
        kind: &str,
        place: &FieldPath,
        error: MetadataError,
    ) -> Result<Self, MetadataError> {
        let MetadataError::Unsupported { place: at, what } = error else {
            return Err(error);
        };
        let within = at.strip_prefix(&place.to_string()).unwrap_or(&at);
        let within = within.trim_start_matches(": ");
        Ok(Self {
            kind: kind.into(),
            what: if within.is_empty() {
                what
            } else {
                format!("{within}: {what}")
            },
        })
    }
}
