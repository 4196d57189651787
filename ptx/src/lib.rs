// SPDX-License-Identifier: MIT OR Apache-2.0
//! An emulator of PTX, the assembly language of CUDA's compiler. It runs the exact text that ships,
//! on any machine, and checks more than a GPU does.
//!
//! | to do this | use |
//! |---|---|
//! | read PTX | [`Module::parse`] |
//! | hold device memory and constants, and launch kernels | [`Machine`] |
//! | lay out a kernel's parameters | [`Parameters`] |
//! | change an instruction, to check that a test fails | [`Module::instructions`], [`Module::with_line`] |
//!
//! The emulator supports the instructions that NVRTC 12.0 generates from integer code for
//! `compute_75`, as described in the manual ("Parallel Thread Execution ISA Version 8.0", below the
//! *manual*). Anything unknown is an error with its name and line; nothing is ignored. Each
//! instruction has a test written from the manual's text (`tests/opcodes_*.rs`).
//!
//! A launch runs one block after the other, and within a block one thread after the other, each up
//! to the next barrier or to its end. A correct kernel cannot notice this. An incorrect one ends
//! with an error ([`Fault`]):
//!
//! - an access outside a buffer (buffers lie far apart), or a misaligned access;
//! - a register, or shared or local memory, read before it is written;
//! - a barrier that not all threads of a block reach;
//! - shared or global memory that one thread writes and another accesses without a barrier in
//!   between;
//! - `ld.global.nc` of memory that the same launch writes;
//! - a division by zero, an unset carry, a thread that does not end.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use luxor_ptx::{Grid, Machine, Module, Parameters};
//!
//! let module = Module::parse(
//!     ".version 8.0
//!      .target sm_75
//!      .address_size 64
//!      .visible .entry twice(.param .u64 words)
//!      {
//!          .reg .b32 %r<3>;
//!          .reg .b64 %rd<4>;
//!          ld.param.u64 %rd1, [words];
//!          cvta.to.global.u64 %rd1, %rd1;
//!          mov.u32 %r1, %tid.x;
//!          mul.wide.u32 %rd2, %r1, 4;
//!          add.s64 %rd3, %rd1, %rd2;
//!          ld.global.u32 %r2, [%rd3];
//!          shl.b32 %r2, %r2, 1;
//!          st.global.u32 [%rd3], %r2;
//!          ret;
//!      }",
//! )?;
//! let mut machine = Machine::new(&module)?;
//! let words = machine.alloc(8);
//! machine.write(words, &[21, 0, 0, 0, 4, 0, 0, 0])?;
//! machine.launch("twice", Grid::new(1, 2), Parameters::new().u64(words).bytes())?;
//! assert_eq!(machine.read(words, 8)?, [42, 0, 0, 0, 8, 0, 0, 0]);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod alu;
mod error;
mod instruction;
mod integer;
mod lex;
mod machine;
mod memory;
mod module;
mod parse;
mod space;
mod thread;

pub use error::{Fault, ParseError, ParseFault, RunError};
pub use machine::{Grid, Machine, Parameters};
pub use module::{Kernel, Line, Module};
pub use space::Space;
