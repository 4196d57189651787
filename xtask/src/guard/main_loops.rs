// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the main loops of the kernels in a disassembled program.
//!
//! A *pass* is one path through the body of a loop, without its inner loops. The inner loops of a
//! main loop must be main loops too. A loop is a main loop if every pass takes the same number of
//! blocks through AES, at least [`DEPTH`] registers of them, and calls no function: a loop that
//! calls functions is taken for a loop around main loops.

use std::fmt;

use super::{
    disassembly::{Function, Instruction},
    flow::{Flow, Span},
};
use crate::catalogue::CPU_KERNELS;

/// The prefix of the entry functions' names. The architecture, `::`, the kernel's name, `::entry::`
/// and the function's name follow.
pub const KERNELS: &str = "luxor_engine::kernel::";

/// The number of registers that go through AES side by side, the same as in the engine.
const DEPTH: u32 = 8;

/// A main loop, as the compiler built it.
pub struct MainLoop<'name, 'code> {
    pub kind: Kind<'name>,
    pass: [Span; KINDS],
    /// The instructions of its shortest pass.
    pub shortest: Vec<&'code Instruction<'code>>,
}

impl MainLoop<'_, '_> {
    /// Returns how often this occurs in a pass.
    pub fn number_of(&self, what: What) -> Span {
        self.pass[what as usize]
    }
}

/// What a main loop does. Several loops of a function may do the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind<'a> {
    pub kernel: &'a str,
    pub function: &'a str,
    pub rounds: u32,
    pub stored: u32,
    pub multiply: u32,
}

/// What is counted in a pass.
#[derive(Clone, Copy)]
pub enum What {
    Aes,
    /// Carry-less multiplications, and on `AArch64` doublings of integers.
    Multiply,
    /// Other instructions on vector registers.
    Vector,
    /// Instructions on no vector register.
    Scalar,
    /// Blocks that complete AES.
    Blocks,
    /// Blocks that vector registers store, not counting the stack. On `AArch64` also those that two
    /// integer registers store.
    Stored,
    BitShifts,
    Spills,
    /// The spills of vector registers.
    VectorSpills,
    Reloads,
    Calls,
}

const KINDS: usize = What::Calls as usize + 1;

fn count(instruction: &Instruction<'_>, rbp_is_frame: bool) -> [u32; KINDS] {
    let i = instruction;
    let blocks = i.register_bytes().unwrap_or(0) / 16;
    let on_stack = i.is_on_stack(rbp_is_frame);
    let mut counts = [0; KINDS];
    let mut add = |what: What, number: u32| counts[what as usize] += number;
    let kind = match blocks {
        _ if i.is_carryless() || i.doubles() => What::Multiply,
        0 => What::Scalar,
        _ if i.is_aes() => What::Aes,
        _ => What::Vector,
    };
    add(kind, 1);
    let ends = |condition: bool| if condition { blocks } else { 0 };
    add(What::Blocks, ends(i.is_last_round()));
    let stores = i.is_store() && !on_stack;
    add(What::Stored, if stores { i.stored_bytes() / 16 } else { 0 });
    add(What::BitShifts, u32::from(is_bit_shift(i.mnemonic)));
    let is_spill = i.is_store() && on_stack;
    add(What::Spills, u32::from(is_spill));
    add(What::VectorSpills, u32::from(is_spill && blocks > 0));
    add(What::Reloads, u32::from(i.is_load() && on_stack));
    add(What::Calls, u32::from(i.is_call()));
    counts
}
/// Whether this shifts or rotates a vector by bits, or can replace such an instruction. Shifts by
/// bytes end in `dq`.
fn is_bit_shift(mnemonic: &str) -> bool {
    const BEGINNINGS: [&str; 8] = [
        "vpsll", "vpsrl", "vpsra", "vprol", "vpror", "vpshld", "vpshrd", "vgf2p8",
    ];
    BEGINNINGS.iter().any(|start| mnemonic.starts_with(start))
        && !matches!(mnemonic, "vpslldq" | "vpsrldq")
}

/// Returns the size of a kernel's registers in blocks.
fn lanes(kernel: &str) -> Result<u32, String> {
    let listed = CPU_KERNELS.iter().find(|listed| listed.name == kernel);
    let listed = listed.ok_or_else(|| format!("the kernel {kernel} is not in the catalogue"))?;
    Ok(listed.blocks)
}

/// Returns the kernel and the function of an entry function's name.
pub fn entry(name: &str) -> Option<(&str, &str)> {
    let (_, kernel) = name.strip_prefix(KERNELS)?.split_once("::")?;
    kernel.split_once("::entry::")
}
/// A separate function for the end of a run. No main loop calls it.
pub const REST: &str = "masked_rest";

/// Whether this function of a kernel has main loops. OFB waits for each block, so it has none. CBC
/// encryption waits too: its passes process many data units at once, and use the stack. The blocks
/// that do not fill a pass are processed without a loop.
pub fn has_some(function: &str) -> bool {
    !matches!(function, "ofb" | "cbc_encrypt" | REST)
}

/// Returns the main loops of a function, after all checks that need no limits.
pub fn find<'name, 'code>(
    function: &'code Function<'_>,
    kernel: &'name str,
    name: &'name str,
) -> Result<Vec<MainLoop<'name, 'code>>, String> {
    let lanes = lanes(kernel)?;
    let flow = Flow::analyse(function)?;
    let rbp_is_frame = function.rbp_is_frame();
    let is_main = |pass: &[Span; KINDS]| {
        let blocks = pass[What::Blocks as usize];
        blocks.least >= DEPTH * lanes
            && blocks.least == blocks.most
            && pass[What::Calls as usize].is(0)
    };
    let loops = flow.loops().into_iter().map(|body| {
        let pass = flow.extremes(&body, |i| count(&function.code[i], rbp_is_frame));
        (body, pass)
    });
    let (main, others): (Vec<_>, Vec<_>) = loops.partition(|(_, pass)| is_main(pass));
    let mut found: Vec<MainLoop<'_, '_>> = Vec::new();
    for (body, pass) in main {
        let of = |what: What| pass[what as usize];
        let at = function.code[flow.start(&body)].address;
        if others
            .iter()
            .any(|(other, _)| Flow::is_inside(other, &body))
        {
            return Err(format!(
                "{kernel} {name}, the main loop at {at:x}: it contains a loop that is not a main loop"
            ));
        }
        let kind = Kind {
            kernel,
            function: name,
            rounds: rounds_of(&pass, lanes)
                .map_err(|e| format!("{kernel} {name}, the main loop at {at:x}: {e}"))?,
            stored: of(What::Stored).most,
            multiply: of(What::Multiply).most,
        };
        let shortest = flow.shortest(&body).into_iter();
        found.push(MainLoop {
            kind,
            pass,
            shortest: shortest.map(|i| &function.code[i]).collect(),
        });
    }
    if found
        .iter()
        .any(|one| one.kind.rounds != found[0].kind.rounds)
    {
        return Err(format!(
            "{kernel} {name} has loops of different numbers of rounds"
        ));
    }
    if found.is_empty() {
        return Err(format!(
            "{kernel} {name} at {:x} has no main loop with passes of {} blocks",
            function.code.first().map_or(0, |i| i.address),
            DEPTH * lanes
        ));
    }
    Ok(found)
}

/// Returns the number of AES rounds in a pass, or what is wrong with it regardless of the limits.
fn rounds_of(pass: &[Span; KINDS], lanes: u32) -> Result<u32, String> {
    let of = |what: What| pass[what as usize];
    let (blocks, stored, aes) = (of(What::Blocks), of(What::Stored), of(What::Aes));
    if stored.least < blocks.least {
        return Err(format!("a pass takes {blocks} blocks and stores {stored}"));
    }
    let registers = blocks.least / lanes;
    let rounds = aes.least / registers;
    if !matches!(rounds, 10 | 12 | 14) || !aes.is(rounds * registers) {
        return Err(format!(
            "{aes} AES instructions for {blocks} blocks instead of {}, {} or {}",
            10 * registers,
            12 * registers,
            14 * registers
        ));
    }
    if lanes == 4 && !of(What::VectorSpills).is(0) {
        let spills = of(What::VectorSpills);
        return Err(format!("vector registers stored to the stack: {spills}"));
    }
    if lanes == 4 && !of(What::BitShifts).is(0) {
        let shifts = of(What::BitShifts);
        return Err(format!(
            "bit shifts or GF2P8 instructions, which use the port of AES: {shifts}"
        ));
    }
    Ok(rounds)
}

impl Kind<'_> {
    /// Returns the words of its columns in a table.
    pub fn words(&self) -> [String; 5] {
        let numbers = [self.rounds, self.stored, self.multiply].map(|number| number.to_string());
        let [rounds, stored, multiply] = numbers;
        let [kernel, function] = [self.kernel, self.function].map(str::to_owned);
        [kernel, function, rounds, stored, multiply]
    }
}

impl fmt::Display for Kind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}, {} rounds, loops with {} blocks stored and {} multiplications",
            self.kernel, self.function, self.rounds, self.stored, self.multiply
        )
    }
}
