// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a text of PTX declares.

use std::{collections::HashMap, sync::Arc};

use crate::instruction::{Instruction, Slot};

/// A module: kernels, and the variables that they share.
#[derive(Clone, Debug)]
pub struct Module {
    pub(crate) text: String,
    pub(crate) version: (u32, u32),
    pub(crate) target: String,
    /// In the order of their addresses: see `Segments::address`.
    pub(crate) constants: Vec<Variable>,
    pub(crate) globals: Vec<Variable>,
    pub(crate) kernels: Vec<Arc<Kernel>>,
}

impl Module {
    /// The instructions of `kernel` as they are written, in their order; none if
    /// there is no such kernel.
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

    /// The kernels, in the order of the text.
    pub fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        self.kernels.iter().map(Arc::as_ref)
    }

    /// The kernel of this name.
    #[must_use]
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels().find(|kernel| kernel.name == name)
    }

    /// The same, to be kept.
    pub(crate) fn shared_kernel(&self, name: &str) -> Option<Arc<Kernel>> {
        let mut kernels = self.kernels.iter();
        kernels.find(|kernel| kernel.name == name).cloned()
    }

    /// The PTX version: major, minor.
    #[must_use]
    pub const fn version(&self) -> (u32, u32) {
        self.version
    }

    /// The target, such as `sm_75`.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.target
    }

    /// A line of the text, from 1, without what is around it.
    pub(crate) fn line(&self, number: u32) -> &str {
        let line = self.text.lines().nth(number as usize - 1);
        line.unwrap_or_default().trim()
    }
}

/// A line with an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Its number, from 1.
    pub number: u32,
    /// Its text, without what is around it. Several instructions may stand in it.
    pub text: &'a str,
}

/// A variable in constant or global memory.
#[derive(Clone, Debug)]
pub struct Variable {
    pub name: String,
    /// What it holds before anybody writes to it.
    pub bytes: Vec<u8>,
}

/// A kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub(crate) name: String,
    /// The length of all parameters.
    pub(crate) params: usize,
    /// `.maxntid` or `.reqntid`, in threads of a block.
    pub(crate) threads: Option<Threads>,
    /// The length of shared variables of fixed size, and of local ones.
    pub(crate) shared: usize,
    pub(crate) local: usize,
    pub(crate) code: Vec<Instruction>,
    /// How many values a thread's file has.
    pub(crate) slots: usize,
    /// Those that are the same for all threads.
    pub(crate) fixed: Vec<(Slot, u64)>,
    /// Those of special registers, which are each thread's own.
    pub(crate) specials: Vec<(Slot, Special)>,
    /// A bit for each value: whether it is there before the first instruction.
    pub(crate) written: Vec<u64>,
    /// Names of registers, for messages.
    pub(crate) registers: HashMap<Slot, String>,
}

impl Kernel {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The length in bytes of its shared variables, without what a launch adds.
    #[must_use]
    pub const fn shared_len(&self) -> usize {
        self.shared
    }
}

/// How many threads a block may have.
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
