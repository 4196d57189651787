// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chooses numbers for keyslots and tokens.

use super::error::ChangeError;

/// The greatest number of keyslots, and of tokens.
pub(crate) const MAX_NUMBERS: u32 = 32;

/// Returns `wanted` if it is less than `count` and free. If it is `None`, returns the first free
/// number.
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
