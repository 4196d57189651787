// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels with AES instructions: key expansion, the order of the rounds,
//! and multiplication by α, over the three widths of registers.

mod aesni;
mod expanded;
mod lanes;
mod permutation;
mod registers;
mod ties;
mod vaes256;
mod vaes512;

use core::arch::x86_64::_addcarry_u64;

use self::{
    expanded::Expanded,
    permutation::{Dec, Enc},
    registers::registers,
    ties::ties,
};
use super::vector::Vector;

/// As `gf128::mul_alpha`, by addition with carry: the compiler would take a
/// double shift, which competes with AES for its port.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "halves")]
fn mul_alpha(t: u128) -> u128 {
    let (low, high) = (t as u64, (t >> 64) as u64);
    let over = (high.cast_signed() >> 63).cast_unsigned() & 0x87;
    let (mut low2, mut high2) = (0, 0);
    let carry = _addcarry_u64(0, low, low, &mut low2);
    _addcarry_u64(carry, high, high, &mut high2);
    u128::from(high2) << 64 | u128::from(low2 ^ over)
}

/// Registers with AES. As for [`Vector`], a value is proof of the instructions.
trait Registers: Vector {
    fn aesenc(self, key: Self) -> Self;
    fn aesenclast(self, key: Self) -> Self;
    fn aesdec(self, key: Self) -> Self;
    fn aesdeclast(self, key: Self) -> Self;
}

/// For each lane n of eight: 2ⁿ, and the field's reduction (see `gf128`).
#[repr(align(64))]
struct Multipliers([[u64; 2]; 8]);

static MULTIPLIERS: Multipliers = {
    let mut lanes = [[0, 0x87]; 8];
    let mut n = 0;
    while n < 8 {
        lanes[n][0] = 1 << n;
        n += 1;
    }
    Multipliers(lanes)
};
