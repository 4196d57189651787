// SPDX-License-Identifier: MIT OR Apache-2.0
//! A volume's label.

use std::{fmt, str::FromStr};

/// A volume's label: at most 47 bytes of UTF-8 without a zero byte, so that it fits the binary
/// header's 48-byte field together with its terminator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Label(String);

impl Label {
    /// The greatest length in bytes.
    pub const MAX_LEN: usize = 47;

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Label {
    type Err = LabelError;

    fn from_str(text: &str) -> Result<Self, LabelError> {
        if text.len() > Self::MAX_LEN {
            return Err(LabelError::Length { found: text.len() });
        }
        if text.contains('\0') {
            return Err(LabelError::ZeroByte);
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a text is not a valid label.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LabelError {
    /// The text is too long.
    #[error("the label has {found} bytes, and at most {} fit", Label::MAX_LEN)]
    Length {
        /// The length of the text in bytes.
        found: usize,
    },
    /// The text contains a zero byte, which would end the label early.
    #[error("the label contains a zero byte")]
    ZeroByte,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_fit_their_field() {
        assert_eq!("x".repeat(47).parse::<Label>().unwrap().as_str().len(), 47);
        assert_eq!(
            "é".repeat(24).parse::<Label>(),
            Err(LabelError::Length { found: 48 })
        );
        assert_eq!("a\0b".parse::<Label>(), Err(LabelError::ZeroByte));
    }
}
