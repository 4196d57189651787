// SPDX-License-Identifier: MIT OR Apache-2.0
//! Integer types and their values.
//!
//! A value is held in 64 bits. The bits above its type's width are zero, for signed types too.

/// An integer type of 8 to 64 bits. `.b` types count as unsigned. A predicate has one bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Type {
    pub bits: u32,
    pub signed: bool,
}

impl Type {
    pub const PREDICATE: Self = Self {
        bits: 1,
        signed: false,
    };

    /// Parses a type's name without the dot, such as `u32`.
    pub fn from_name(name: &str) -> Option<Self> {
        if name == "pred" {
            return Some(Self::PREDICATE);
        }
        let bits = match name.get(1..)? {
            "8" => 8,
            "16" => 16,
            "32" => 32,
            "64" => 64,
            _ => return None,
        };
        match name.as_bytes()[0] {
            b'u' | b'b' => Some(Self {
                bits,
                signed: false,
            }),
            b's' => Some(Self { bits, signed: true }),
            _ => None,
        }
    }

    pub const fn bytes(self) -> usize {
        self.bits as usize / 8
    }

    /// Returns the value's low bits.
    pub const fn truncate(self, value: u64) -> u64 {
        truncate(value, self.bits)
    }

    /// Returns the number that the value represents.
    pub const fn number(self, value: u64) -> i128 {
        if self.signed {
            sign_extend(value, self.bits) as i128
        } else {
            value as i128
        }
    }

    /// Returns the value extended to 64 bits, with its sign or with zeros.
    pub const fn extend(self, value: u64) -> u64 {
        if self.signed {
            sign_extend(value, self.bits).cast_unsigned()
        } else {
            value
        }
    }
}

/// Returns the low `bits` bits, 1 to 64.
pub const fn truncate(value: u64, bits: u32) -> u64 {
    value & (u64::MAX >> (64 - bits))
}

/// Returns the value with its sign extended.
const fn sign_extend(value: u64, bits: u32) -> i64 {
    (value << (64 - bits)) as i64 >> (64 - bits)
}
