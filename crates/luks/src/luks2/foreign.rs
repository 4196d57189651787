// SPDX-License-Identifier: MIT OR Apache-2.0
//! Objects that this version does not use.
//!
//! A keyslot, segment, digest or token of unknown type is no error: it is kept with its type. Its
//! area and its number count in every rule, and `dump` shows it. Only when a volume is opened does
//! it matter whether the object is needed. So volumes of a newer cryptsetup can be examined, and an
//! older copy of a header is never preferred just because the newer one is not understood.
//!
//! A keyslot or digest that breaks a rule of its own is treated alike: the other keyslots still open
//! the volume. Rules between objects (areas that overlap, references to missing objects) are rules of
//! the header, and so are those that every program needs to find an object's area or bindings.

use super::{field::FieldPath, metadata_error::MetadataError};

/// An object that this version does not use. It is shown and kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Foreign {
    /// Its type in the metadata.
    pub kind: String,
    /// What is not known or what rule the object breaks, in words.
    pub what: String,
    /// Whether the object breaks a rule, so that no version can use it.
    pub breaks_rule: bool,
}

impl Foreign {
    /// Describes an object of type `kind` that breaks no rule.
    pub(crate) fn unknown(kind: &str, what: String) -> Self {
        Self {
            kind: kind.into(),
            what,
            breaks_rule: false,
        }
    }

    /// Describes an object of type `kind` that breaks a rule.
    pub(crate) fn breaking_rule(kind: &str, what: String) -> Self {
        Self {
            breaks_rule: true,
            ..Self::unknown(kind, what)
        }
    }

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
        let what = if within.is_empty() {
            what
        } else {
            format!("{within}: {what}")
        };
        Ok(Self::unknown(kind, what))
    }

    /// As [`Foreign::new`], also if the object breaks a rule. Only a null cipher remains an error:
    /// whatever else the volume has, its key or its data may be there in plaintext.
    pub(crate) fn of_any(
        kind: &str,
        place: &FieldPath<'_>,
        error: MetadataError,
    ) -> Result<Self, MetadataError> {
        match Self::new(kind, place, error) {
            Err(error @ MetadataError::CipherNull { .. }) => Err(error),
            Err(error) => {
                let what = within(place, &error.to_string()).into();
                Ok(Self::breaking_rule(kind, what))
            }
            unknown => unknown,
        }
    }
}

/// Returns a text about a field of the object at `place` without the name of the object.
fn within<'a>(place: &FieldPath<'_>, text: &'a str) -> &'a str {
    let within = text.strip_prefix(&place.to_string()).unwrap_or(text);
    within.trim_start_matches(": ")
}
