// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lengths in bytes, as people write and read them.

/// Parses a number of bytes. K, M and G (or KiB, MiB and GiB) are powers of 1024.
pub(crate) fn parse(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        _ => return Err("a length is a number, optionally followed by K, M or G".into()),
    };
    // `parse` would accept a sign.
    let number: usize = match digits.parse() {
        Ok(number) if digits.starts_with(|c: char| c.is_ascii_digit()) => number,
        _ => return Err("a length is a number, optionally followed by K, M or G".into()),
    };
    number
        .checked_mul(1 << shift)
        .filter(|&bytes| bytes > 0 && isize::try_from(bytes).is_ok())
        .ok_or_else(|| "a length is at least 1 byte and below 8 EiB".into())
}

/// Formats `bytes` in the largest unit that divides it: `4 KiB`, `513 B`.
pub(crate) fn text(bytes: usize) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
            return format!("{} {unit}", bytes >> shift);
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_and_written() {
        for (given, bytes, written) in [
            ("16", 16, "16 B"),
            ("4K", 4096, "4 KiB"),
            ("64kib", 65536, "64 KiB"),
            ("1m", 1 << 20, "1 MiB"),
            ("1024M", 1 << 30, "1 GiB"),
            ("4G", 4 << 30, "4 GiB"),
            ("1000", 1000, "1000 B"),
        ] {
            assert_eq!(parse(given), Ok(bytes), "{given}");
            assert_eq!(text(bytes), written);
        }
        for bad in [
            "",
            "K",
            "-1",
            "+1",
            "1.5G",
            "1T",
            "0",
            "0K",
            "9999999999G",
            "1 K",
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
