// SPDX-License-Identifier: MIT OR Apache-2.0
//! The results of integer instructions.
//!
//! Values are those of [`Type`](crate::integer::Type), both operands and results. Section numbers
//! are the manual's.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the instructions define which bits are cut off and what a sign means"
)]

use crate::{
    instruction::{Binary, Comparison, Permutation, Sum, Ternary, Unary},
    integer::{Type, truncate},
};

pub fn unary(f: Unary, t: Type, a: u64) -> u64 {
    match f {
        Unary::Not => t.truncate(!a),
        Unary::LogicalNot => u64::from(a == 0),
        Unary::Neg => t.truncate(a.wrapping_neg()),
        Unary::Abs => t.truncate(t.extend(a).cast_signed().wrapping_abs() as u64),
        Unary::Popc => u64::from(a.count_ones()),
        Unary::Clz => u64::from(a.leading_zeros() - (64 - t.bits)),
        Unary::Brev => a.reverse_bits() >> (64 - t.bits),
        Unary::Bfind | Unary::BfindShift => {
            // 9.7.1.16: for a negative number, the highest 0.
            let ones = match t.extend(a).cast_signed() {
                negative if t.signed && negative < 0 => t.truncate(!a),
                _ => a,
            };
            match ones.checked_ilog2() {
                None => 0xffff_ffff,
                Some(found) if f == Unary::Bfind => u64::from(found),
                Some(found) => u64::from(t.bits - 1 - found),
            }
        }
    }
}

/// Returns `None` for a division by zero.
pub fn binary(f: Binary, t: Type, a: u64, b: u64) -> Option<u64> {
    Some(match f {
        Binary::Add => t.truncate(a.wrapping_add(b)),
        Binary::Sub => t.truncate(a.wrapping_sub(b)),
        Binary::MulLo => t.truncate(a.wrapping_mul(b)),
        Binary::MulHi => t.truncate((product(t, a, b) >> t.bits) as u64),
        Binary::MulWide => truncate(product(t, a, b) as u64, 2 * t.bits),
        Binary::Div | Binary::Rem if b == 0 => return None,
        Binary::Div => t.truncate((t.number(a) / t.number(b)) as u64),
        Binary::Rem => t.truncate((t.number(a) % t.number(b)) as u64),
        Binary::Min if t.number(a) < t.number(b) => a,
        Binary::Min => b,
        Binary::Max if t.number(a) > t.number(b) => a,
        Binary::Max => b,
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
        // 9.7.7.8, 9.7.7.9: amounts above the width count as the width.
        Binary::Shl if b >= u64::from(t.bits) => 0,
        Binary::Shl => t.truncate(a << b),
        Binary::Shr if t.signed => {
            t.truncate((t.extend(a).cast_signed() >> b.min(u64::from(t.bits - 1))) as u64)
        }
        Binary::Shr if b >= u64::from(t.bits) => 0,
        Binary::Shr => a >> b,
    })
}

/// The full product; for signed numbers in two's complement.
fn product(t: Type, a: u64, b: u64) -> u128 {
    if t.signed {
        let (a, b) = (t.extend(a).cast_signed(), t.extend(b).cast_signed());
        (i128::from(a) * i128::from(b)).cast_unsigned()
    } else {
        u128::from(a) * u128::from(b)
    }
}

pub fn ternary(f: Ternary, t: Type, a: u64, b: u64, c: u64) -> u64 {
    match f {
        Ternary::MadLo => t.truncate(a.wrapping_mul(b).wrapping_add(c)),
        Ternary::MadHi => {
            let high = (product(t, a, b) >> t.bits) as u64;
            t.truncate(high.wrapping_add(c))
        }
        Ternary::MadWide => truncate((product(t, a, b) as u64).wrapping_add(c), 2 * t.bits),
        Ternary::Lop3(table) => u64::from(lop3(table, a as u32, b as u32, c as u32)),
        Ternary::ShfLeft { wrap } => u64::from((funnel(a, b) << shift(c, wrap) >> 32) as u32),
        Ternary::ShfRight { wrap } => u64::from((funnel(a, b) >> shift(c, wrap)) as u32),
        Ternary::Prmt(mode) => u64::from(prmt(mode, a as u32, b as u32, c as u32)),
        Ternary::Bfe => bfe(t, a, b & 0xff, c & 0xff),
    }
}

/// 9.7.7.6: the bits (a, b, c), read as a number, select a bit of the table.
const fn lop3(table: u8, a: u32, b: u32, c: u32) -> u32 {
    let mut result = 0;
    let mut row = 0;
    while row < 8 {
        if table >> row & 1 == 1 {
            result |= (if row & 4 == 4 { a } else { !a })
                & (if row & 2 == 2 { b } else { !b })
                & (if row & 1 == 1 { c } else { !c });
        }
        row += 1;
    }
    result
}

/// 9.7.7.7: `b` is the upper half. 128 bits wide, so that a shift by 32 does not overflow.
const fn funnel(a: u64, b: u64) -> u128 {
    (b << 32 | a) as u128
}

const fn shift(c: u64, wrap: bool) -> u32 {
    let c = c as u32;
    if wrap {
        c & 31
    } else if c < 32 {
        c
    } else {
        32
    }
}

/// The manual, 9.7.8.7.
#[inline]
fn prmt(mode: Permutation, a: u32, b: u32, c: u32) -> u32 {
    let source = u64::from(b) << 32 | u64::from(a);
    let byte = |selection: u32| (source >> (8 * (selection & 7))) as u8;
    let n = c & 3;
    let mut result = [0; 4];
    for (i, to) in (0..).zip(&mut result) {
        *to = match mode {
            Permutation::Generic => {
                let selection = c >> (4 * i) & 15;
                let byte = byte(selection);
                if selection < 8 {
                    byte
                } else {
                    (byte.cast_signed() >> 7).cast_unsigned()
                }
            }
            Permutation::ForwardExtract => byte(n + i),
            Permutation::BackwardExtract => byte(n.wrapping_sub(i)),
            Permutation::Replicate8 => byte(n),
            Permutation::ClampLeft => byte(n.max(i)),
            Permutation::ClampRight => byte(n.min(i)),
            Permutation::Replicate16 => byte((n & 1) * 2 + (i & 1)),
        };
    }
    u32::from_le_bytes(result)
}

/// 9.7.1.19: `len` bits from bit `at` on; the rest is the sign of the field.
fn bfe(t: Type, a: u64, at: u64, len: u64) -> u64 {
    let bit = |i: u64| a >> i & 1;
    let top = u64::from(t.bits) - 1;
    let sign = if !t.signed || len == 0 {
        0
    } else {
        bit((at + len - 1).min(top))
    };
    (0..=top)
        .map(|i| {
            if i < len && at + i <= top {
                bit(at + i) << i
            } else {
                sign << i
            }
        })
        .sum()
}

/// 9.7.1.20: inserts the low `len` bits of `a` into `b` at bit `at`.
pub fn bfi(t: Type, a: u64, b: u64, at: u64, len: u64) -> u64 {
    let (at, len) = ((at & 0xff) as u32, (len & 0xff) as u32);
    if at >= t.bits || len == 0 {
        return b;
    }
    let field = truncate(u64::MAX, len.min(t.bits - at)) << at;
    b & !field | a << at & field
}

/// 9.7.2: the sum and its carry (for a difference, the borrow).
pub fn sum(f: Sum, t: Type, a: u64, b: u64, c: u64, carry: bool) -> (u64, bool) {
    let (x, y) = match f {
        Sum::Add | Sum::Sub => (a, b),
        Sum::MadLo => (t.truncate(product(t, a, b) as u64), c),
        Sum::MadHi => (t.truncate((product(t, a, b) >> t.bits) as u64), c),
    };
    let (x, y, carry) = (u128::from(x), u128::from(y), u128::from(carry));
    let whole = match f {
        Sum::Sub => x.wrapping_sub(y).wrapping_sub(carry),
        _ => x + y + carry,
    };
    (t.truncate(whole as u64), whole >> t.bits & 1 == 1)
}

pub fn compare(f: Comparison, t: Type, a: u64, b: u64) -> bool {
    let (a, b) = if t.signed {
        // Flipping the sign bit maps the order of signed numbers to that of unsigned ones.
        let sign = 1 << (t.bits - 1);
        (a ^ sign, b ^ sign)
    } else {
        (a, b)
    };
    match f {
        Comparison::Eq => a == b,
        Comparison::Ne => a != b,
        Comparison::Lt => a < b,
        Comparison::Le => a <= b,
        Comparison::Gt => a > b,
        Comparison::Ge => a >= b,
    }
}

/// 9.7.8.18, integers only: the low bits, or with `.sat` the nearest number of type `to`, extended
/// to a register of `bits` bits.
pub fn convert(to: Type, from: Type, saturate: bool, bits: u32, a: u64) -> u64 {
    let value = from.extend(from.truncate(a));
    let value = if saturate {
        let (least, most) = if to.signed {
            (-(1 << (to.bits - 1)), (1 << (to.bits - 1)) - 1)
        } else {
            (0, (1 << to.bits) - 1)
        };
        from.number(from.truncate(a)).clamp(least, most) as u64
    } else {
        value
    };
    truncate(to.extend(to.truncate(value)), bits)
}
