// SPDX-License-Identifier: MIT OR Apache-2.0
//! Objects that this version does not know.
//!
//! A keyslot, segment, digest or token of unknown type is no error: it is kept with its type. Its
//! area and its number count in every rule, and `dump` shows it. Only when a volume is opened does
//! it matter whether the object is needed. So volumes of a newer cryptsetup can be examined, and an
//! older copy of a header is never preferred just because the newer one is not understood.

use super::{field::FieldPath, metadata_error::MetadataError};

/// An object that this version does not know. It is shown and kept, but never used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Foreign {
    /// Its type in the metadata.
    pub kind: String,
    /// What is not known, in words.
    pub what: String,
}

impl Foreign {
    /// Describes what `error` finds unknown in the object of type `kind` at `place`.
    ///
    /// # Errors
    /// `error` itself, if it is about a rule that the object breaks.
    pub(crate) fn new(
        kind: &str,
        place: &FieldPath<'_>,
        error: MetadataError,
    ) -> Result<Self, MetadataError> {
        let MetadataError::Unsupported { place: at, what } = error else {
            return Err(error);
        };
        let within = within(place, &at);
        Ok(Self {
            kind: kind.into(),
            what: if within.is_empty() {
                what
            } else {
                format!("{within}: {what}")
            },
        })
    }

    /// As [`Foreign::new`], also if the object breaks a rule.
    pub(crate) fn of_any(kind: &str, place: &FieldPath<'_>, error: MetadataError) -> Self {
        Self::new(kind, place, error).unwrap_or_else(|error| Self {
            kind: kind.into(),
            what: within(place, &error.to_string()).into(),
        })
    }
}

/// Returns a text about a field of the object at `place` without the name of the object.
fn within<'a>(place: &FieldPath<'_>, text: &'a str) -> &'a str {
    let within = text.strip_prefix(&place.to_string()).unwrap_or(text);
    within.trim_start_matches(": ")
}
