// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernels with AES instructions share: key expansion, the order of the rounds, products
//! in the field of XTS, and the functions that enable the instructions. A kernel supplies the
//! instructions for its registers, which are [`Registers`].

mod entries;
pub(super) mod expanded;
mod lanes;
mod permutation;
mod products;
mod ties;

pub(super) use self::{
    entries::{kernel, of_size},
    expanded::Expanded,
    lanes::{Mixed, Schedules},
    permutation::{Dec, Enc, Slots, Stored},
    products::{mul, mul_alpha_bytes, mul_alpha_each, spread},
    ties::ties,
};
use super::vector::Vector;

/// Registers with instructions for AES and carry-less products. As for [`Vector`], a value proves
/// that the CPU has them.
///
/// The AES instructions of x86-64 add their round key after the steps of the round, and the last
/// one adds any other value instead. Those of `AArch64` add it before the steps, so the first round
/// key needs no instruction of its own, and what is added after the last round does.
pub(super) trait Registers: Vector {
    /// The index of the round key that the instructions of the first round add: 0 if they add it
    /// before the steps of the round, otherwise 1.
    const FIRST_KEY: usize;

    /// The form in which a long loop uses a schedule.
    type InLoop<'a>: Slots<Self> + From<Stored<'a, Self>>;

    /// `SubWord` (FIPS 197, 5.2).
    ///
    /// # Safety
    /// The CPU has the instructions.
    unsafe fn sub_word(word: u32) -> u32;

    /// `InvMixColumns` (FIPS 197, 5.3.3) of a round key as a little-endian integer.
    ///
    /// # Safety
    /// The CPU has the instructions.
    unsafe fn inv_mix_columns(key: u128) -> u128;

    /// Adds the first round key, unless the first round does it.
    fn enter(self, first: Self) -> Self;

    /// Applies a round and adds `key`, before or after it.
    fn encrypt(self, key: Self) -> Self;

    /// Applies the last round and adds `post` after it; before it, adds `key` if `FIRST_KEY` is 0.
    fn encrypt_last(self, key: Self, post: Self) -> Self;

    /// As [`encrypt`](Self::encrypt), for the equivalent inverse cipher.
    fn decrypt(self, key: Self) -> Self;

    /// As [`encrypt_last`](Self::encrypt_last), for the equivalent inverse cipher.
    fn decrypt_last(self, key: Self, post: Self) -> Self;

    /// The carry-less product of a half of each block and a half of the corresponding block of
    /// `other`. The low digit of `HALVES` (in hexadecimal) is 1 for the high half of `self`, the
    /// high digit for that of `other`.
    fn clmul<const HALVES: i32>(self, other: Self) -> Self;

    /// Moves the bytes of each block `BYTES` places up.
    fn shl<const BYTES: i32>(self) -> Self;

    /// Moves the bytes of each block `BYTES` places down.
    fn shr<const BYTES: i32>(self) -> Self;
}
