// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel for CPUs that also have the SHA-3 instructions: Arm's Neoverse V1 and V2, Apple's M
//! series. One of these, EOR3, adds three registers: with it the compiler adds tweak and last round
//! key together after the last round.

use super::Quad;
use crate::{
    detect::AesEor3,
    kernel::aes::{kernel, of_size},
};

type Register = Quad<true>;

kernel!(
    AesEor3,
    "aeseor3",
    "CPU, ARMv8 AES and EOR3 in 128-bit registers",
    Register,
    8 chains,
    "neon,aes,sha3"
);
