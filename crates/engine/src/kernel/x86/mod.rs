// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels for x86-64: the instructions of three widths of registers.

mod aesni;
mod registers;
mod vaes256;
mod vaes512;

use self::registers::registers;
use crate::{detect, kernel::vector::Prefetch};

/// What registers of `blocks` blocks prefetch.
fn prefetch_ahead(blocks: usize) -> Prefetch {
    match blocks {
        // Measured on these CPUs alone: docs/kernels.md.
        4 if detect::is_zen5() => Prefetch { l1: 8192, l2: 0 },
        2 if detect::is_zen5() => Prefetch::NONE,
        _ => Prefetch::USUAL,
    }
}
