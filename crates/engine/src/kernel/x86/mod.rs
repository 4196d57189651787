// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels with AES instructions: key expansion, the order of the rounds, and multiplication by
//! α, for three widths of registers.

mod aesni;
mod expanded;
mod lanes;
mod permutation;
mod registers;
mod ties;
mod vaes256;
mod vaes512;

use self::{
    expanded::Expanded,
    permutation::{Dec, Enc},
    registers::{Registers, registers},
    ties::ties,
};
