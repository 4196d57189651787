// SPDX-License-Identifier: MIT OR Apache-2.0
//! The numbers of keyslots and tokens.

use super::error::ChangeError;

/// There can be 32 keyslots and 32 tokens.
pub(super) const MAX_NUMBERS: u32 = 32;

/// `wanted`, if it is one of the `count` numbers and free, or else the first that is free.
pub(crate) fn free_number(
    what: &'static str,
    wanted: Option<u32>,
    count: u32,
    is_taken: impl Fn(u32) -> bool,
) -> Result<u32, ChangeError> {
    match wanted {
        Some(number) if number >= count => Err(ChangeError::Number {
            what,
            number,
            max: count - 1,
        }),
        Some(number) if is_taken(number) => Err(ChangeError::Taken { what, number }),
        Some(number) => Ok(number),
        None => (0..count)
            .find(|&number| !is_taken(number))
            .ok_or(ChangeError::AllTaken { what, max: count }),
    }
}
