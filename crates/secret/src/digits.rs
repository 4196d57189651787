// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hexadecimal and base64 digits of secrets, by arithmetic alone: no table index and no branch
//! depends on them.

/// Writes each byte of `bytes` as two lower-case hexadecimal digits to `digits`.
///
/// # Panics
/// Panics if `digits` is not twice as long as `bytes`.
// Not inlined, so that there is one machine code, which `cargo xtask guard` watches.
#[inline(never)]
pub fn encode_hex(bytes: &[u8], digits: &mut [u8]) {
    assert_eq!(digits.len(), 2 * bytes.len());
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
        for (digit, nibble) in pair.iter_mut().zip([byte >> 4, byte & 15]) {
            // 1 if the nibble is 10 or more, and its digit a letter.
            let is_letter = 9_u8.wrapping_sub(nibble) >> 7;
            *digit = b'0' + nibble + is_letter * (b'a' - b'0' - 10);
        }
    }
}

/// Decodes pairs of hexadecimal digits of either case to `bytes`. Returns whether all were such
/// digits. Otherwise `bytes` has no meaning.
///
/// # Panics
/// Panics if `digits` is not twice as long as `bytes`.
#[must_use]
#[inline(never)]
pub fn decode_hex(digits: &[u8], bytes: &mut [u8]) -> bool {
    assert_eq!(digits.len(), 2 * bytes.len());
    let mut fault = 0;
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = [hex_value(pair[0]), hex_value(pair[1])];
        fault |= high | low;
        *byte = (high << 4 | low).to_le_bytes()[0];
    }
    fault >= 0
}

/// Returns the six bits that a character of base64 stands for, or -1.
#[must_use]
#[inline(never)]
pub fn base64_value(character: u8) -> i32 {
    let within = |first, last, value| value_within(character, first, last, value);
    let upper_or_lower = within(b'A', b'Z', 0) | within(b'a', b'z', 26);
    let other = within(b'+', b'+', 62) | within(b'/', b'/', 63);
    (upper_or_lower | within(b'0', b'9', 52) | other) - 1
}

fn hex_value(digit: u8) -> i32 {
    let within = |first, last, value| value_within(digit, first, last, value);
    (within(b'0', b'9', 0) | within(b'a', b'f', 10) | within(b'A', b'F', 10)) - 1
}

/// Returns one more than the value of `byte`, where `first` has `value`, or 0 if `byte` is not from
/// `first` to `last`.
fn value_within(byte: u8, first: u8, last: u8, value: i32) -> i32 {
    let byte = i32::from(byte);
    let (above, below) = (byte - i32::from(first), i32::from(last) - byte);
    // All ones if neither difference is negative.
    let mask = !(above | below) >> 31;
    mask & (above + value + 1)
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    #[test]
    fn hexadecimal_digits_are_those_of_format() {
        for byte in 0..=255 {
            let mut digits = [0; 2];
            encode_hex(&[byte], &mut digits);
            assert_eq!(digits, format!("{byte:02x}").as_bytes());
            let mut decoded = [0];
            assert!(decode_hex(&digits, &mut decoded));
            assert!(decode_hex(
                &digits.map(|digit| digit.to_ascii_uppercase()),
                &mut decoded
            ));
            assert_eq!(decoded, [byte]);
        }
    }

    #[test]
    fn other_bytes_are_no_hexadecimal_digits() {
        for byte in 0..=255_u8 {
            for digits in [[byte, b'0'], [b'0', byte]] {
                let is_valid = decode_hex(&digits, &mut [0]);
                assert_eq!(is_valid, byte.is_ascii_hexdigit(), "{byte}");
            }
        }
    }

    #[test]
    fn every_character_of_base64_has_its_value() {
        let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        for byte in 0..=255 {
            let expected = alphabet.bytes().position(|known| known == byte);
            let expected = expected.map_or(-1, |at| i32::try_from(at).unwrap());
            assert_eq!(base64_value(byte), expected, "{byte}");
        }
    }
}
