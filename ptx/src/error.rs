// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is wrong with a text, a launch or a thread.

use thiserror::Error;

use crate::space::Space;

/// A text that is no PTX, or has something that the emulator does not know.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {what}")]
pub struct ParseError {
    /// The line, from 1.
    pub line: u32,
    /// What is wrong there.
    pub what: ParseFault,
}

/// What is wrong with a line of PTX.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseFault {
    /// An instruction that is not known, or a word that is none.
    #[error("unknown instruction {opcode}")]
    UnknownOpcode {
        /// The word before its first dot.
        opcode: String,
    },
    /// A part of an instruction's name that is not known there.
    #[error("{instruction}: unknown modifier or type .{modifier}")]
    UnknownModifier {
        /// The whole name of the instruction.
        instruction: String,
        /// The part of it, without its dot.
        modifier: String,
    },
    /// An instruction's name that ends too early.
    #[error("{instruction}: {missing} is missing")]
    MissingModifier {
        /// The whole name of the instruction.
        instruction: String,
        /// What should be there.
        missing: &'static str,
    },
    /// A word with a dot before it that is not known there.
    #[error("unknown directive {directive}")]
    UnknownDirective {
        /// The directive, with its dot.
        directive: String,
    },
    /// A special register that the emulator does not have.
    #[error("unknown special register {name}")]
    UnknownSpecial {
        /// The register, with its percent sign.
        name: String,
    },
    /// A name that nothing declares.
    #[error("{name} is not declared")]
    Undeclared {
        /// The name.
        name: String,
    },
    /// A name that is declared twice.
    #[error("{name} is declared twice")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// Something else than the grammar has there.
    #[error("{expected} expected, not {found}")]
    Syntax {
        /// What the grammar has there.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// An operand whose type does not fit the instruction's.
    #[error("{operand} is {is}, where {wanted} is wanted")]
    Type {
        /// The operand.
        operand: String,
        /// What it is.
        is: String,
        /// What the instruction wants.
        wanted: String,
    },
    /// A number that has no place in what it is for.
    #[error("{number} does not fit: {why}")]
    Number {
        /// The number as it is written.
        number: String,
        /// What it is too large for, or not.
        why: &'static str,
    },
}

/// A launch that could not be made, or that failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RunError {
    /// A module that does not fit.
    #[error("the module cannot be loaded: {why}")]
    Module {
        /// Why not.
        why: String,
    },
    /// The module has no such kernel.
    #[error("no kernel is called {name}")]
    NoKernel {
        /// The name.
        name: String,
    },
    /// The module has no such variable.
    #[error("no .const or .global variable is called {name}")]
    NoVariable {
        /// The name.
        name: String,
    },
    /// Parameters of another length than the kernel's.
    #[error("{kernel} has {expected} bytes of parameters, not {found}")]
    Parameters {
        /// The kernel.
        kernel: String,
        /// How many bytes its parameters have.
        expected: usize,
        /// How many there were.
        found: usize,
    },
    /// A grid that no device, or not this kernel, takes.
    #[error("{kernel}: {why}")]
    Grid {
        /// The kernel.
        kernel: String,
        /// What is wrong with it.
        why: String,
    },
    /// The host's own access to device memory, out of bounds.
    #[error("the host: {0}")]
    Host(Fault),
    /// A thread did what it must not.
    #[error("{kernel}, line {line} ({text}), block {block:?}, thread {thread:?}: {fault}")]
    Fault {
        /// The kernel.
        kernel: String,
        /// The line of the instruction, from 1.
        line: u32,
        /// The text of the line.
        text: String,
        /// The block: x, y and z of `%ctaid`.
        block: [u32; 3],
        /// The thread: x, y and z of `%tid`.
        thread: [u32; 3],
        /// What it did.
        fault: Fault,
    },
}

/// What a thread must not do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Fault {
    /// A register read before anything was written to it.
    #[error("{register} is read before it is written")]
    Unwritten {
        /// Its name.
        register: String,
    },
    /// An access that is not wholly inside one buffer, variable or window.
    #[error("{len} bytes at {address:#x} are out of bounds of {space} memory")]
    OutOfBounds {
        /// Which memory.
        space: Space,
        /// The address in that memory.
        address: u64,
        /// How many bytes.
        len: usize,
    },
    /// An address that is no multiple of the access's length.
    #[error("{address:#x} in {space} memory is no multiple of {len}")]
    Misaligned {
        /// Which memory.
        space: Space,
        /// The address in that memory.
        address: u64,
        /// How many bytes.
        len: usize,
    },
    /// Memory read that no thread of the block wrote.
    #[error("{address:#x} in {space} memory is read before it is written")]
    Uninitialised {
        /// Which memory.
        space: Space,
        /// The first such address.
        address: u64,
    },
    /// A store to constant memory or parameters.
    #[error("{address:#x} in {space} memory is written, which is read-only")]
    ReadOnly {
        /// Which memory.
        space: Space,
        /// The address in that memory.
        address: u64,
    },
    /// Memory that one thread writes and another one touches, in no order.
    #[error("{address:#x} in {space} memory is shared with {other}, with no barrier between")]
    Race {
        /// Which memory.
        space: Space,
        /// The address in that memory.
        address: u64,
        /// The other thread, or threads.
        other: String,
    },
    /// Shared memory in another bank than the thread's own, where that is asked for.
    #[error("{address:#x} in shared memory is not in bank {lane}, the thread's lane")]
    Bank {
        /// The address in shared memory.
        address: u64,
        /// The thread's number in its warp.
        lane: u64,
    },
    /// `ld.global.nc` of memory that is written in the same launch.
    #[error("{address:#x} is read by ld.global.nc and written in one launch")]
    NotConstant {
        /// The address in global memory.
        address: u64,
    },
    /// A division, or its rest, by zero.
    #[error("a division by zero")]
    DivisionByZero,
    /// A carry used that no instruction set.
    #[error("the carry is used before it is set")]
    CarryUnset,
    /// A barrier that not all threads of the block reach.
    #[error("the barrier is not reached by thread {other:?}, {instead}")]
    Barrier {
        /// x, y and z of the other thread.
        other: [u32; 3],
        /// Where that one is.
        instead: String,
    },
    /// A barrier's number above 15, or a thread count that is not the block's.
    #[error("barrier {number} of {threads} threads")]
    BarrierOperands {
        /// The barrier's number.
        number: u64,
        /// How many threads it asks for.
        threads: u64,
    },
    /// The last instruction of a kernel that does not return.
    #[error("the end of the kernel is reached without ret or exit")]
    NoReturn,
    /// More instructions than a thread is granted.
    #[error("the thread has not ended after {steps} instructions")]
    Endless {
        /// How many it was granted.
        steps: u64,
    },
}
