// SPDX-License-Identifier: MIT OR Apache-2.0
//! Instructions with all names resolved to slots.

use crate::{integer::Type, space::Space};

/// An index into a thread's file of values. Besides registers, the file holds the constants and
/// special registers that the instructions name, so that all operands are read in the same way.
pub type Slot = u32;

/// An instruction.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// The line in the text, from 1.
    pub line: u32,
    /// `@p` or `@!p`.
    pub guard: Option<Predicate>,
    pub op: Op,
}

/// A predicate; `!` negates it.
#[derive(Clone, Copy, Debug)]
pub struct Predicate {
    pub slot: Slot,
    pub negated: bool,
}

/// An address: a base and an offset. Without a register, the base is a constant.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    pub base: Slot,
    pub offset: i64,
}

/// The operation of an instruction. `d` and `q` are destinations.
#[derive(Clone, Debug)]
pub enum Op {
    Mov {
        d: Slot,
        a: Slot,
    },
    /// `mov.b64 d, {a, b}`: the parts have `bits` bits each, lowest first.
    Pack {
        bits: u32,
        d: Slot,
        parts: Vec<Slot>,
    },
    /// `mov.b64 {d, e}, a`; `None` is the sink `_`.
    Unpack {
        bits: u32,
        parts: Vec<Option<Slot>>,
        a: Slot,
    },
    Load(Box<Load>),
    Store(Box<Store>),
    Unary {
        f: Unary,
        t: Type,
        d: Slot,
        a: Slot,
    },
    Binary {
        f: Binary,
        t: Type,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Ternary {
        f: Ternary,
        t: Type,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    /// Inserts `len` bits of `a` into `b` at bit `at`.
    Bfi {
        t: Type,
        d: Slot,
        a: Slot,
        b: Slot,
        at: Slot,
        len: Slot,
    },
    /// `a + b` or `a - b`, with the carry.
    Carry(Box<Carry>),
    Compare(Box<Compare>),
    Select {
        d: Slot,
        a: Slot,
        b: Slot,
        p: Slot,
    },
    Convert {
        to: Type,
        from: Type,
        saturate: bool,
        /// The width of the destination register.
        bits: u32,
        d: Slot,
        a: Slot,
    },
    /// `cvta`: converts an address of `space` to a generic one, or back.
    ConvertAddress {
        space: Space,
        to_space: bool,
        d: Slot,
        a: Slot,
    },
    Branch {
        /// The index of the next instruction.
        to: usize,
    },
    Return,
    Barrier {
        number: Slot,
        threads: Option<Slot>,
        /// Whether all threads must wait at the same instruction.
        aligned: bool,
    },
    /// `membar`, `fence`: no effect, since threads run one after the other here.
    Fence,
}

/// `ld`.
#[derive(Clone, Debug)]
pub struct Load {
    pub space: Space,
    /// `.nc`: this launch must not write the memory.
    pub constant: bool,
    pub t: Type,
    /// One, two or four registers and their widths; `None` is the sink `_`.
    pub d: Vec<Option<(Slot, u32)>>,
    pub address: Address,
}

/// `st`.
#[derive(Clone, Debug)]
pub struct Store {
    pub space: Space,
    pub t: Type,
    /// One, two or four sources.
    pub a: Vec<Slot>,
    pub address: Address,
}

/// `add.cc`, `addc`, `sub.cc`, `subc`, `mad.cc`, `madc`.
#[derive(Clone, Copy, Debug)]
pub struct Carry {
    pub f: Sum,
    pub t: Type,
    pub reads: bool,
    pub writes: bool,
    pub d: Slot,
    pub a: Slot,
    pub b: Slot,
    /// The addend of the product; equal to `a` if there is none.
    pub c: Slot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    Add,
    Sub,
    MadLo,
    MadHi,
}

/// `setp`, `set`.
#[derive(Clone, Copy, Debug)]
pub struct Compare {
    pub f: Comparison,
    pub t: Type,
    pub a: Slot,
    pub b: Slot,
    /// `.and`, `.or` or `.xor` with a predicate.
    pub with: Option<(Logic, Predicate)>,
    pub to: Outcome,
}

/// The destination of a comparison's result.
#[derive(Clone, Copy, Debug)]
pub enum Outcome {
    /// `p|q`: the result, and that of the opposite comparison; `None` is the sink `_`.
    Predicates(Option<Slot>, Option<Slot>),
    /// All ones or zero.
    Mask(Slot),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logic {
    And,
    Or,
    Xor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    Not,
    /// `cnot`: 1 if the operand is 0, else 0.
    LogicalNot,
    Neg,
    Abs,
    Popc,
    Clz,
    Brev,
    Bfind,
    /// `bfind.shiftamt`.
    BfindShift,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    Add,
    Sub,
    MulLo,
    MulHi,
    MulWide,
    Div,
    Rem,
    Min,
    Max,
    And,
    Or,
    Xor,
    Shl,
    Shr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ternary {
    MadLo,
    MadHi,
    MadWide,
    /// With its table.
    Lop3(u8),
    ShfLeft {
        wrap: bool,
    },
    ShfRight {
        wrap: bool,
    },
    Prmt(Permutation),
    Bfe,
}

/// The modes of `prmt` (the manual, 9.7.8.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permutation {
    Generic,
    ForwardExtract,
    BackwardExtract,
    Replicate8,
    ClampLeft,
    ClampRight,
    Replicate16,
}
