// SPDX-License-Identifier: MIT OR Apache-2.0
//! The declarations of a PTX text.

use std::{collections::HashMap, ops::Range, sync::Arc};

use crate::instruction::{Instruction, Slot};

/// A module: kernels, and the variables that they share.
#[derive(Clone, Debug)]
pub struct Module {
    pub(crate) text: String,
    pub(crate) version: (u32, u32),
    pub(crate) target: String,
    /// In the order of their addresses; see `Segments::distance`.
    pub(crate) constants: Vec<Variable>,
    pub(crate) globals: Vec<Variable>,
    pub(crate) kernels: Vec<Arc<Kernel>>,
}

impl Module {
    /// Returns the instructions of `kernel` as written, in order; none if there is no such kernel.
    pub fn instructions(&self, kernel: &str) -> Vec<Line<'_>> {
        let lines: Vec<&str> = self.text.lines().collect();
        let code = self.kernel(kernel).map_or(&[][..], |kernel| &kernel.code);
        code.iter()
            .map(|instruction| Line {
                number: instruction.line,
                text: lines[instruction.line as usize - 1].trim(),
            })
            .collect()
    }

    /// Returns the kernels in the order of the text.
    pub fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        self.kernels.iter().map(Arc::as_ref)
    }

    /// Returns the kernel with this name.
    #[must_use]
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels().find(|kernel| kernel.name == name)
    }

    /// Returns the kernel with this name, with shared ownership.
    pub(crate) fn shared_kernel(&self, name: &str) -> Option<Arc<Kernel>> {
        let mut kernels = self.kernels.iter();
        kernels.find(|kernel| kernel.name == name).cloned()
    }

    /// Returns the PTX version: major, minor.
    #[must_use]
    pub const fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Returns the target, such as `sm_75`.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Returns a line of the text, counted from 1, without surrounding blanks.
    pub(crate) fn line(&self, number: u32) -> &str {
        let line = self.text.lines().nth(number as usize - 1);
        line.unwrap_or_default().trim()
    }
}

/// A line with an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The line's number, from 1.
    pub number: u32,
    /// The line's text without surrounding blanks. It may contain several instructions.
    pub text: &'a str,
}

/// A variable in constant or global memory.
#[derive(Clone, Debug)]
pub struct Variable {
    pub name: String,
    /// The initial contents.
    pub bytes: Vec<u8>,
}

/// A kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub(crate) name: String,
    /// The bytes of each parameter.
    pub(crate) params: Vec<Range<usize>>,
    /// `.maxntid` or `.reqntid`: the threads of a block.
    pub(crate) threads: Option<Threads>,
    /// Bytes of the shared variables of fixed size, and of the local ones.
    pub(crate) shared: usize,
    pub(crate) local: usize,
    pub(crate) code: Vec<Instruction>,
    /// The number of values in a thread's file.
    pub(crate) slots: usize,
    /// The values that are the same for all threads.
    pub(crate) fixed: Vec<(Slot, u64)>,
    /// The values of special registers, which differ between threads.
    pub(crate) specials: Vec<(Slot, Special)>,
    /// One bit per value: whether it is defined before the first instruction.
    pub(crate) written: Vec<u64>,
    /// The names of registers, for messages.
    pub(crate) registers: HashMap<Slot, String>,
}

impl Kernel {
    /// Returns the kernel's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the place of each parameter in the bytes of all parameters.
    #[must_use]
    pub fn params(&self) -> &[Range<usize>] {
        &self.params
    }

    /// Returns the bytes of all parameters.
    #[must_use]
    pub fn params_len(&self) -> usize {
        self.params.last().map_or(0, |param| param.end)
    }

    /// Returns the bytes of its shared variables, without those that a launch adds.
    #[must_use]
    pub const fn shared_len(&self) -> usize {
        self.shared
    }
}

/// The threads that a block may have.
#[derive(Clone, Copy, Debug)]
pub enum Threads {
    AtMost(u32),
    Exactly([u32; 3]),
}

/// A special register (the manual, chapter 10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Special {
    Tid(usize),
    Ntid(usize),
    Ctaid(usize),
    Nctaid(usize),
    LaneId,
    WarpId,
    WarpCount,
}

impl Special {
    pub fn from_name(name: &str) -> Option<Self> {
        let (register, axis) = name.split_once('.').unwrap_or((name, ""));
        let axis = match axis {
            "x" => Some(0),
            "y" => Some(1),
            "z" => Some(2),
            "" => None,
            _ => return None,
        };
        Some(match (register, axis) {
            ("%tid", Some(axis)) => Self::Tid(axis),
            ("%ntid", Some(axis)) => Self::Ntid(axis),
            ("%ctaid", Some(axis)) => Self::Ctaid(axis),
            ("%nctaid", Some(axis)) => Self::Nctaid(axis),
            ("%laneid", None) => Self::LaneId,
            ("%warpid", None) => Self::WarpId,
            ("%nwarpid", None) => Self::WarpCount,
            _ => return None,
        })
    }
}
