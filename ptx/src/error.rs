// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors in a text, in a launch or in a thread.

use thiserror::Error;

use crate::space::Space;

/// An error in a text: it is not PTX, or the emulator does not know a part of it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {what}")]
pub struct ParseError {
    /// The line, from 1.
    pub line: u32,
    /// What is wrong there.
    pub what: ParseFault,
}

/// An error in a line of PTX.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseFault {
    /// An unknown instruction.
    #[error("unknown instruction {opcode}")]
    UnknownOpcode {
        /// The word before its first dot.
        opcode: String,
    },
    /// A part of an instruction's name that is not known in this place.
    #[error("{instruction}: unknown modifier or type .{modifier}")]
    UnknownModifier {
        /// The whole name of the instruction.
        instruction: String,
        /// The part of it, without its dot.
        modifier: String,
    },
    /// An instruction's name ends too early.
    #[error("{instruction}: {missing} is missing")]
    MissingModifier {
        /// The whole name of the instruction.
        instruction: String,
        /// The missing part.
        missing: &'static str,
    },
    /// A word with a leading dot that is not known in this place.
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
    /// A name that is not declared.
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
    /// Text that the grammar does not allow in this place.
    #[error("expected {expected}, found {found}")]
    Syntax {
        /// What the grammar allows.
        expected: String,
        /// The text in its place.
        found: String,
    },
    /// An operand with a type that does not fit the instruction.
    #[error("{operand} is {is}, but must be {wanted}")]
    Type {
        /// The operand.
        operand: String,
        /// The type of the operand.
        is: String,
        /// The type that the instruction needs.
        wanted: String,
    },
    /// A number that is not valid in this place.
    #[error("{number} is invalid: {why}")]
    Number {
        /// The number as written.
        number: String,
        /// The reason.
        why: &'static str,
    },
}

/// An error of a launch.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RunError {
    /// A module that cannot be loaded.
    #[error("the module cannot be loaded: {why}")]
    Module {
        /// The reason.
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
    /// The parameters do not have the length of the kernel's.
    #[error("{kernel} takes {expected} bytes of parameters, but got {found}")]
    Parameters {
        /// The kernel.
        kernel: String,
        /// The bytes of the kernel's parameters.
        expected: usize,
        /// The bytes that were given.
        found: usize,
    },
    /// A grid that no device accepts, at least for this kernel.
    #[error("{kernel}: {why}")]
    Grid {
        /// The kernel.
        kernel: String,
        /// The reason.
        why: String,
    },
    /// The host's own access to device memory is out of bounds.
    #[error("access by the host: {0}")]
    Host(Fault),
    /// A thread did something forbidden.
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
        /// What the thread did.
        fault: Fault,
    },
}

/// A forbidden action of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Fault {
    /// A register is read before it is written.
    #[error("{register} is read before it is written")]
    Unwritten {
        /// The register's name.
        register: String,
    },
    /// An access that is not entirely in one buffer, variable or window.
    #[error("{len} bytes at {address:#x} are out of bounds of {space} memory")]
    OutOfBounds {
        /// The memory.
        space: Space,
        /// The address in that memory.
        address: u64,
        /// The length in bytes.
        len: usize,
    },
    /// An address that is not a multiple of the access's length.
    #[error("{address:#x} in {space} memory is not a multiple of {len}")]
    Misaligned {
        /// The memory.
        space: Space,
        /// The address in that memory.
        address: u64,
        /// The length in bytes.
        len: usize,
    },
    /// Memory is read that no thread of the block has written.
    #[error("{address:#x} in {space} memory is read before it is written")]
    Uninitialised {
        /// The memory.
        space: Space,
        /// The first such address.
        address: u64,
    },
    /// A store to constant memory or to parameters.
    #[error("write to {address:#x} in {space} memory, which is read-only")]
    ReadOnly {
        /// The memory.
        space: Space,
        /// The address in that memory.
        address: u64,
    },
    /// Memory that one thread writes and another accesses, without an order between them.
    #[error("{address:#x} in {space} memory is also accessed by {other}, with no barrier between")]
    Race {
        /// The memory.
        space: Space,
        /// The address in that memory.
        address: u64,
        /// The other thread, or threads.
        other: String,
    },
    /// An access to shared memory in a bank that is not the thread's own, if the machine requires
    /// own banks.
    #[error("{address:#x} in shared memory is not in bank {lane}, the thread's lane")]
    Bank {
        /// The address in shared memory.
        address: u64,
        /// The thread's number in its warp.
        lane: u64,
    },
    /// `ld.global.nc` reads memory that the same launch writes.
    #[error("{address:#x} is read by ld.global.nc and written in the same launch")]
    NotConstant {
        /// The address in global memory.
        address: u64,
    },
    /// A division or a remainder by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// A carry is used that no instruction has set.
    #[error("the carry is used before it is set")]
    CarryUnset,
    /// Not all threads of the block reach a barrier.
    #[error("thread {other:?}, {instead}, does not reach the barrier")]
    Barrier {
        /// x, y and z of the other thread.
        other: [u32; 3],
        /// Where the other thread is.
        instead: String,
    },
    /// A barrier with a number above 15, or with a thread count other than the block's.
    #[error("invalid barrier {number} of {threads} threads")]
    BarrierOperands {
        /// The barrier's number.
        number: u64,
        /// The number of threads that it asks for.
        threads: u64,
    },
    /// The end of a kernel is reached without a return.
    #[error("the kernel ends without ret or exit")]
    NoReturn,
    /// A thread runs more instructions than allowed.
    #[error("the thread has not ended after {steps} instructions")]
    Endless {
        /// The number of instructions allowed.
        steps: u64,
    },
}
