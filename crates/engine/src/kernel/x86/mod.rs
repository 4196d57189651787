// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels for x86-64: the instructions of three widths of registers.

mod aesni;
mod registers;
mod vaes256;
mod vaes512;

use self::registers::registers;
