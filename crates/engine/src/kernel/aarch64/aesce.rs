// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel for CPUs with the AES instructions of `ARMv8`: nearly all of 64 bits.

use super::Quad;
use crate::{
    detect::AesCe,
    kernel::aes::{kernel, of_size},
};

type Register = Quad<false>;

kernel!(
    AesCe,
    "aesce",
    "CPU, ARMv8 AES in 128-bit registers",
    Register,
    8 chains,
    "neon,aes"
);
