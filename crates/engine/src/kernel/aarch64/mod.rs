// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels for `AArch64`: the AES instructions of the `ARMv8` Cryptography Extensions.

mod aesce;
mod aeseor3;
mod held;
mod registers;

use self::registers::Quad;
