// SPDX-License-Identifier: MIT OR Apache-2.0
//! Instructions with everything looked up: names have become places.

use crate::{integer::Type, space::Space};

/// A place in a thread's file of values. Beside its registers the file holds the
/// constants and special registers that its instructions name, so that every
/// operand is read alike.
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

/// A predicate, or with `!` its opposite.
#[derive(Clone, Copy, Debug)]
pub struct Predicate {
    pub slot: Slot,
    pub negated: bool,
}

/// An address: a base and an offset. Without a register the base is a constant.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    pub base: Slot,
    pub offset: i64,
}

/// What an instruction does. `d` and `q` are destinations.
#[derive(Clone, Debug)]
pub enum Op {
    Mov {
        d: Slot,
        a: Slot,
    },
    /// `mov.b64 d, {a, b}`: the parts, of `bits` each, the lowest first.
    Pack {
        bits: u32,
        d: Slot,
        parts: Vec<Slot>,
    },
    /// `mov.b64 {d, e}, a`; None is the sink `_`.
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
    /// The field `a` of `len` bits into `b` from bit `at`.
    Bfi {
        t: Type,
        d: Slot,
        a: Slot,
        b: Slot,
        at: Slot,
        len: Slot,
    },
    /// `a + b`, `a - b`, with the carry.
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
        /// The width of the destination's register.
        bits: u32,
        d: Slot,
        a: Slot,
    },
    /// `cvta`: an address of `space` to a generic one, or back.
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
        /// All threads must wait at one and the same instruction.
        aligned: bool,
    },
    /// `membar`, `fence`: threads run one after the other here.
    Fence,
}

/// `ld`.
#[derive(Clone, Debug)]
pub struct Load {
    pub space: Space,
    /// `.nc`: the memory is not written in this launch.
    pub constant: bool,
    pub t: Type,
    /// One, two or four registers and their widths; None is the sink `_`.
    pub d: Vec<Option<(Slot, u32)>>,
    pub address: Address,
}

/// `st`.
#[derive(Clone, Debug)]
pub struct Store {
    pub space: Space,
    pub t: Type,
    /// One, two or four.
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
    /// What is added to the product; `a` where there is none.
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
    /// `.and`, `.or`, `.xor` with a predicate.
    pub with: Option<(Logic, Predicate)>,
    pub to: Outcome,
}

/// Where a comparison's outcome goes.
#[derive(Clone, Copy, Debug)]
pub enum Outcome {
    /// `p|q`: the outcome, and that of the opposite comparison; None is the sink `_`.
    Predicates(Option<Slot>, Option<Slot>),
    /// All ones, or zero.
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
    /// `cnot`: 1 of 0, else 0.
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

/// `prmt`'s modes (the manual, 9.7.8.7).
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
