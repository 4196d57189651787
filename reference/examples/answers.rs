// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reference for programs in other languages. Each line of standard input is a request, and
//! each line of standard output the resulting bytes.
//!
//! ```text
//! xts|ecb|ctr encrypt|decrypt KEY NUMBER STRIDE UNIT_LEN DATA
//! ```
//!
//! KEY and DATA are hexadecimal, the numbers decimal. DATA is cut into data units of `UNIT_LEN`
//! bytes. The first unit has the number NUMBER (unsigned, 128 bits), and each further unit STRIDE
//! more, modulo 2¹²⁸. ECB ignores the numbers, and in CTR they
//! are the first counters. A malformed request ends the program with an error.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use luxor_reference::{ctr, ecb_decrypt, ecb_encrypt, xts_decrypt, xts_encrypt};

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lines() {
        let line = line?;
        let answer = answer(&line).ok_or_else(|| {
            let short: String = line.chars().take(200).collect();
            io::Error::new(io::ErrorKind::InvalidInput, short)
        })?;
        for byte in answer {
            write!(out, "{byte:02x}")?;
        }
        writeln!(out)?;
    }
    out.flush()
}

/// Returns `None` for a malformed request.
fn answer(line: &str) -> Option<Vec<u8>> {
    let words: Vec<&str> = line.split(' ').collect();
    let &[mode, direction, key, number, stride, unit_len, data] = words.as_slice() else {
        return None;
    };
    let (key, data) = (bytes(key)?, bytes(data)?);
    let mut number: u128 = number.parse().ok()?;
    let stride: u64 = stride.parse().ok()?;
    let unit_len: usize = unit_len.parse().ok().filter(|len| *len > 0)?;
    let mut made = Vec::with_capacity(data.len());
    for unit in data.chunks(unit_len) {
        made.extend(match (mode, direction) {
            ("xts", "encrypt") => xts_encrypt(&key, number, unit),
            ("xts", "decrypt") => xts_decrypt(&key, number, unit),
            ("ecb", "encrypt") => ecb_encrypt(&key, unit),
            ("ecb", "decrypt") => ecb_decrypt(&key, unit),
            ("ctr", "encrypt" | "decrypt") => ctr(&key, number, unit),
            _ => return None,
        });
        number = number.wrapping_add(stride.into());
    }
    Some(made)
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok())
        .collect()
}
