// SPDX-License-Identifier: MIT OR Apache-2.0
//! Follows secrets through the machine code of the kernels that valgrind cannot run, and reports
//! each address, each jump, each division and each comparison of memory that depends on them.
//!
//! ```text
//! value of a register or a place on the stack:
//!     constant      a vector of zeros or from the program itself
//!     arguments     an address in the descriptors that the function's arguments point to
//!     mixed         an address in memory with public integers and secret vectors
//!     stack         an address on the stack, with a known or an unknown offset
//!     public        any other public value
//!     secret
//! at the entry:     registers are addresses in the arguments, and the stack is secret
//! a load            is public from descriptors, from the program itself, and from a place on the
//!                   stack that the function wrote a public value to; everything else is secret
//! an operation      is secret if an operand or the flags that it uses are
//! blocks            are repeated until no value changes; where paths meet, the more secret value
//!                   holds
//! ```
//!
//! The descriptors are all that is public in memory: `Expanded`, whose round keys lie behind a
//! pointer, and `Run` with its lengths, data unit numbers and pointers. The arguments of
//! [`REST`] are on the caller's stack; vectors loaded from there are secret.
//!
//! The scan trusts the compiler in this: what code writes through an address that it computed is not a
//! place of the stack to which other code writes public integers by its name. Such places are
//! spilled registers, which have no address in Rust. Writes through computed addresses therefore
//! change no place.

use std::collections::{BTreeMap, VecDeque};

use super::{
    disassembly::{Function, Instruction},
    flow::Flow,
    main_loops::{REST, entry},
    operands::{MASKS, Memory, Operand, RAX, RBX, RCX, RDI, RDX, REGISTERS, RSI, RSP, VECTORS},
};

/// The kernels for x86-64 that valgrind does not run.
const KERNELS: [&str; 2] = ["vaes256", "vaes512"];

/// Its arguments contain secrets: the last blocks of streams, beside pointers.
const NOT_FOLLOWED: &str = "ofb";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Constant,
    Arguments,
    Mixed,
    /// The frame changes where the stack pointer is aligned.
    Stack {
        frame: usize,
        offset: Option<i64>,
    },
    Public,
    Secret,
}

use Value::{Arguments, Constant, Mixed, Public, Secret, Stack};

impl Value {
    /// The value where two paths meet. A constant beside an address is the null of an `Option`.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            _ if self == other => self,
            (Secret, _) | (_, Secret) => Secret,
            (Constant, other) | (other, Constant) => other,
            (Stack { .. }, Stack { .. }) => Stack {
                frame: 0,
                offset: None,
            },
            _ => Public,
        }
    }

    /// The value of an operation on both.
    fn with(self, other: Self) -> Self {
        match (self, other) {
            (Secret, _) | (_, Secret) => Secret,
            (Constant, Constant) => Constant,
            _ => Public,
        }
    }

    /// The value of an address plus something.
    fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Secret, _) | (_, Secret) => Secret,
            (Stack { frame, .. }, _) | (_, Stack { frame, .. }) => Stack {
                frame,
                offset: None,
            },
            (Arguments, _) | (_, Arguments) => Arguments,
            (Mixed, _) | (_, Mixed) => Mixed,
            (Constant, Constant) => Constant,
            _ => Public,
        }
    }

    fn moved(self, by: i64) -> Self {
        match self {
            Stack { frame, offset } => Stack {
                frame,
                offset: offset.map(|offset| offset.wrapping_add(by)),
            },
            other => other,
        }
    }
}

/// All values at a place in the code.
#[derive(Clone, PartialEq)]
struct State {
    registers: [Value; REGISTERS],
    flags: Value,
    /// The public values on the stack, with their lengths, by frame and offset.
    stack: BTreeMap<(usize, i64), (i64, Value)>,
}

impl State {
    fn at_entry(is_rest: bool) -> Self {
        let mut registers = [Secret; REGISTERS];
        registers[..VECTORS].fill(Arguments);
        registers[RSP] = Stack {
            frame: 0,
            offset: Some(0),
        };
        if is_rest {
            // The place of the result, the permutation, the masks, and the pointers to the data.
            (registers[RDI], registers[RSI], registers[RDX]) = (Public, Mixed, Public);
        }
        Self {
            registers,
            flags: Public,
            stack: BTreeMap::from([]),
        }
    }

    /// Joins the state of another path to the block `block`. Returns whether anything changed.
    fn join(&mut self, other: &Self, block: usize) -> bool {
        let before = self.clone();
        for (number, (value, other)) in self.registers.iter_mut().zip(other.registers).enumerate() {
            if number == RSP && *value != other {
                *value = Stack {
                    frame: block + 1,
                    offset: Some(0),
                };
            } else {
                *value = value.or(other);
            }
        }
        self.flags = self.flags.or(other.flags);
        self.stack.retain(|place, (bytes, value)| {
            let other = other.stack.get(place).filter(|(len, _)| len == bytes);
            *value = other.map_or(Secret, |(_, other)| value.or(*other));
            *value != Secret
        });
        *self != before
    }

    fn load(&self, address: Value, bytes: i64) -> Value {
        let Stack {
            frame,
            offset: Some(offset),
        } = address
        else {
            return Secret;
        };
        let found = self.stack.range(..=(frame, offset)).next_back();
        match found {
            Some((&(at, start), &(len, value))) if at == frame && offset + bytes <= start + len => {
                if start == offset && len == bytes {
                    value
                } else {
                    // A part of a value is no address.
                    value.with(Public)
                }
            }
            // Several values next to each other.
            Some((&(at, start), &(len, value))) if at == frame && offset < start + len => {
                let rest = self.load(
                    address.moved(start + len - offset),
                    offset + bytes - start - len,
                );
                value.with(rest).with(Public)
            }
            _ => Secret,
        }
    }

    fn store(&mut self, address: Value, bytes: i64, value: Value) {
        let Stack {
            frame,
            offset: Some(offset),
        } = address
        else {
            return;
        };
        let overlaps = |start: i64, len: i64| start < offset + bytes && offset < start + len;
        self.stack
            .retain(|&(at, start), &mut (len, _)| at != frame || !overlaps(start, len));
        if value != Secret {
            self.stack.insert((frame, offset), (bytes, value));
        }
    }
}

/// The scan of one function.
struct Scan<'a, 'b> {
    function: &'b Function<'a>,
    /// What depends on secrets, by address.
    found: BTreeMap<u64, String>,
}

/// Scans the functions of the kernels among a program's.
pub fn check(functions: &[Function<'_>]) -> Result<String, String> {
    let mut number = 0;
    let mut found = Vec::new();
    for function in functions {
        match entry(function.name) {
            Some((kernel, name)) if KERNELS.contains(&kernel) && name != NOT_FOLLOWED => {
                found.extend(scan(function, name == REST)?);
                number += 1;
            }
            _ => {}
        }
    }
    for what in &found {
        println!("wrong: {what}");
    }
    match found.first() {
        _ if number == 0 => Err("the program names no function of the kernels".to_owned()),
        None => Ok(format!("{number} functions of {}", KERNELS.join(" and "))),
        Some(first) => Err(format!(
            "{} places depend on secrets, the first: {first}",
            found.len()
        )),
    }
}

/// Returns what depends on secrets in a function.
fn scan(function: &Function<'_>, is_rest: bool) -> Result<Vec<String>, String> {
    let flow = Flow::analyse(function)?;
    let mut scan = Scan {
        function,
        found: BTreeMap::new(),
    };
    let mut states: BTreeMap<usize, State> = BTreeMap::from([(0, State::at_entry(is_rest))]);
    let mut open = VecDeque::from([0]);
    while let Some(block) = open.pop_front() {
        let mut state = states[&block].clone();
        for index in flow.instructions(block) {
            scan.step(index, &mut state)?;
        }
        for &next in flow.next(block) {
            let is_changed = match states.get_mut(&next) {
                Some(known) => known.join(&state, next),
                None => states.insert(next, state.clone()).is_none(),
            };
            if is_changed && !open.contains(&next) {
                open.push_back(next);
            }
        }
    }
    let name = function.name;
    Ok(scan
        .found
        .into_iter()
        .map(|(address, what)| format!("{name} at {address:x}: {what}"))
        .collect())
}

/// Operations on integer registers that set the flags and change their first operand.
const ARITHMETIC: [&str; 26] = [
    "adc", "add", "and", "bsf", "bsr", "btc", "btr", "bts", "dec", "imul", "inc", "lzcnt", "neg",
    "not", "or", "popcnt", "rol", "ror", "sar", "sbb", "shl", "shld", "shr", "shrd", "sub", "xor",
];

/// Whether this instruction with two operands sets the flags and nothing else.
fn is_test(name: &str) -> bool {
    const BEGINNINGS: [&str; 6] = ["vptest", "vtest", "vcomis", "vucomis", "kortest", "ktest"];
    ["cmp", "test", "bt"].contains(&name) || BEGINNINGS.iter().any(|start| name.starts_with(start))
}

/// Adds the registers of a memory operand to `base`.
fn sum(base: Value, memory: &Memory, state: &State) -> Value {
    let mut address = base;
    for (number, register) in memory.registers.iter().enumerate() {
        let value = state.registers[*register];
        // The first register of an unscaled address stays what it is.
        address = if number == 0 && !memory.is_indexed {
            value
        } else {
            address.plus(value)
        };
    }
    address
}

impl Scan<'_, '_> {
    fn report(&mut self, instruction: &Instruction<'_>, why: &str) {
        let text = format!("{} {}", instruction.mnemonic, instruction.operands);
        self.found
            .insert(instruction.address, format!("{why}: {text}"));
    }

    /// Returns the address of a memory operand.
    fn address(&mut self, memory: &Memory, state: &State, instruction: &Instruction<'_>) -> Value {
        let base = if memory.is_in_program {
            Constant
        } else {
            Public
        };
        let address = sum(base, memory, state);
        if address == Secret {
            self.report(instruction, "an address depends on a secret");
        }
        address.moved(memory.displacement)
    }

    fn load(
        &mut self,
        operand: &Operand,
        into_vector: bool,
        state: &State,
        instruction: &Instruction<'_>,
    ) -> Value {
        match operand {
            Operand::Immediate(_) => Constant,
            Operand::Register { number, .. } => state.registers[*number],
            Operand::Memory(memory) => match self.address(memory, state, instruction) {
                Constant if into_vector => Constant,
                Constant => Public,
                Mixed if into_vector => Secret,
                Arguments | Mixed => Public,
                address => state.load(address, memory.bytes),
            },
        }
    }

    fn store(
        &mut self,
        operand: &Operand,
        value: Value,
        state: &mut State,
        instruction: &Instruction<'_>,
    ) {
        match operand {
            Operand::Immediate(_) => {}
            Operand::Register { number, bytes } => {
                // The rest of the register stays. Compilers do not use it after `set`.
                let is_part = *bytes < 4 && !instruction.mnemonic.starts_with("set");
                let value = if is_part {
                    value.with(Public).with(state.registers[*number])
                } else {
                    value
                };
                state.registers[*number] = value;
            }
            Operand::Memory(memory) => {
                let address = self.address(memory, state, instruction);
                if matches!(address, Arguments | Mixed) && value == Secret {
                    self.report(instruction, "a secret is written to a descriptor");
                }
                // A place that begins as zeros may be an array, to which computed addresses lead.
                let is_vector = memory.bytes > 8;
                let value = if value == Constant && is_vector {
                    Secret
                } else {
                    value
                };
                state.store(address, memory.bytes, value);
            }
        }
    }

    fn step(&mut self, index: usize, state: &mut State) -> Result<(), String> {
        let function = self.function;
        let instruction = &function.code[index];
        let name = instruction.mnemonic;
        let nothing = [
            "int3",
            "nop",
            "ret",
            "sfence",
            "ud2",
            "vzeroupper",
            "cs",
            "data16",
        ];
        if nothing.contains(&name) {
            return Ok(());
        }
        let is_compared = |callee: &str| callee.contains("memcmp") || callee.contains("bcmp");
        if instruction.callee.is_some_and(is_compared) {
            self.report(instruction, "memory is compared by a function");
        }
        if instruction.is_jump() {
            if name != "jmp" && state.flags == Secret {
                self.report(instruction, "a jump depends on a secret");
            }
            return Ok(());
        }
        if instruction.is_call() {
            self.call(state, instruction);
            return Ok(());
        }
        let text = instruction
            .operands
            .split([' ', '#'])
            .next()
            .unwrap_or_default();
        // The size of a memory operand is a word of its own.
        let text = if instruction.operands.contains('[') || text.is_empty() {
            instruction
                .operands
                .split('#')
                .next()
                .unwrap_or_default()
                .trim_end()
        } else {
            text
        };
        let parsed = text
            .split(',')
            .filter(|text| !text.is_empty())
            .map(Operand::parse);
        let operands: Vec<Operand> = parsed
            .collect::<Result<_, _>>()
            .map_err(|error| format!("{} at {:x}: {error}", function.name, instruction.address))?;
        self.execute(name, &operands, state, instruction)
    }

    /// Whether this moves a register only if it is zero, because a test of it is just before, or has
    /// only an address calculated in between: the null of an `Option`.
    fn moves_null(&self, instruction: &Instruction<'_>) -> bool {
        let code = &self.function.code;
        let before = code.partition_point(|other| other.address < instruction.address);
        let mut before = code[..before].iter().rev();
        let from = instruction
            .operands
            .split_once(',')
            .map_or("", |(_, from)| from);
        let test = before.find(|other| other.mnemonic != "lea" || other.operands.starts_with(from));
        instruction.mnemonic == "cmove"
            && test.is_some_and(|test| {
                test.mnemonic == "test" && test.operands == format!("{from},{from}")
            })
    }

    fn call(&mut self, state: &mut State, instruction: &Instruction<'_>) {
        let result = state.registers[RDI];
        for register in [RDI, RSI, RDX] {
            if state.registers[register] == Secret {
                self.report(instruction, "an argument of a call is secret");
            }
        }
        for register in [RAX, RCX, RDX, RSI, RDI, 8, 9, 10, 11]
            .into_iter()
            .chain(VECTORS..REGISTERS)
        {
            state.registers[register] = Secret;
        }
        // The functions that copy return their first argument.
        state.registers[RAX] = result;
        state.flags = Secret;
    }

    fn execute(
        &mut self,
        name: &str,
        operands: &[Operand],
        state: &mut State,
        instruction: &Instruction<'_>,
    ) -> Result<(), String> {
        let into_vector = matches!(operands.first(), Some(Operand::Register { number, .. }) if *number >= VECTORS);
        let same = |a: &Operand, b: &Operand| matches!((a, b), (Operand::Register { number: a, .. }, Operand::Register { number: b, .. }) if a == b);
        let is_vector = name.starts_with('v') || name.starts_with('k');
        match (name, operands) {
            ("lea", [to, Operand::Memory(memory)]) => {
                // Its result may be secret: it accesses no memory.
                let address = sum(Public, memory, state);
                self.store(to, address.moved(memory.displacement), state, instruction);
            }
            ("push", [from]) => {
                let value = self.load(from, false, state, instruction);
                state.registers[RSP] = state.registers[RSP].moved(-8);
                state.store(state.registers[RSP], 8, value);
            }
            ("pop", [to]) => {
                let value = state.load(state.registers[RSP], 8);
                state.registers[RSP] = state.registers[RSP].moved(8);
                self.store(to, value, state, instruction);
            }
            ("cpuid" | "xgetbv", []) => {
                for register in [RAX, RBX, RCX, RDX] {
                    state.registers[register] = Public;
                }
            }
            ("xchg", [a, b]) => {
                let (x, y) = (
                    self.load(a, false, state, instruction),
                    self.load(b, false, state, instruction),
                );
                self.store(a, y, state, instruction);
                self.store(b, x, state, instruction);
            }
            ("div" | "idiv" | "mul" | "imul", [by]) => {
                let by = self.load(by, false, state, instruction);
                let value = by.with(state.registers[RAX]).with(Public);
                let value = if name.ends_with("div") {
                    value.with(state.registers[RDX])
                } else {
                    value
                };
                if name.ends_with("div") && value == Secret {
                    self.report(instruction, "a division depends on a secret");
                }
                (state.registers[RAX], state.registers[RDX], state.flags) = (value, value, value);
            }
            (_, [a, b]) if is_test(name) => {
                let value = self.load(a, is_vector, state, instruction);
                state.flags = value
                    .with(self.load(b, is_vector, state, instruction))
                    .with(Public);
            }
            (
                "xor" | "sub" | "vpxor" | "vpxord" | "vpxorq" | "vxorps" | "vxorpd" | "vpcmpeqd",
                [to, rest @ ..],
            ) if rest
                .last()
                .is_some_and(|last| same(last, if is_vector { &rest[0] } else { to })) =>
            {
                self.store(to, Constant, state, instruction);
                if !is_vector {
                    state.flags = Public;
                }
            }
            ("vpternlogd", [to, a, b, Operand::Immediate(0xff)]) if same(to, a) && same(a, b) => {
                self.store(to, Constant, state, instruction);
            }
            _ if name.starts_with("prefetch") => {
                self.load(&operands[0], false, state, instruction);
            }
            (_, [to]) if name.starts_with("set") => self.store(to, state.flags, state, instruction),
            (_, [to, from]) if name.starts_with("cmov") => {
                let value = if self.moves_null(instruction) {
                    Constant
                } else {
                    self.load(from, false, state, instruction)
                };
                let value = value.or(self.load(to, false, state, instruction));
                let value = if state.flags == Secret { Secret } else { value };
                self.store(to, value, state, instruction);
            }
            (_, [to, from])
                if ["mov", "vmov", "kmov"]
                    .iter()
                    .any(|start| name.starts_with(start))
                    && !instruction.operands.contains('{') =>
            {
                let value = self.load(from, into_vector, state, instruction);
                self.store(to, value, state, instruction);
            }
            ("and", [Operand::Register { number: RSP, .. }, _]) => {
                let frame = usize::MAX - usize::try_from(instruction.address).unwrap_or(0);
                state.registers[RSP] = Stack {
                    frame,
                    offset: Some(0),
                };
            }
            ("add" | "sub", [to, Operand::Immediate(by)]) => {
                let by = if name == "add" {
                    *by
                } else {
                    by.wrapping_neg()
                };
                let value = self.load(to, false, state, instruction);
                self.store(to, value.moved(by), state, instruction);
                state.flags = value.with(Public);
            }
            ("add" | "and", [to, from]) => {
                let value = self.load(to, false, state, instruction);
                let value = value.plus(self.load(from, false, state, instruction));
                self.store(to, value, state, instruction);
                state.flags = value.with(Public);
            }
            // Comparisons of strings change further registers.
            (_, [to, rest @ ..])
                if is_vector && !name.contains("str") || ARITHMETIC.contains(&name) =>
            {
                let mut value = Constant;
                for from in rest
                    .iter()
                    .filter(|operand| !matches!(operand, Operand::Immediate(_)))
                {
                    value = value.with(self.load(from, is_vector, state, instruction));
                }
                let changes = ["vpternlog", "vpermt2", "vpermi2"];
                if !is_vector
                    || changes.iter().any(|start| name.starts_with(start))
                    || instruction.operands.contains('{')
                {
                    value = value.with(self.load(to, is_vector, state, instruction));
                }
                if ["adc", "sbb"].contains(&name) {
                    value = value.with(state.flags);
                }
                if let Some((_, mask)) = instruction.operands.split_once("{k") {
                    let mask = mask
                        .split('}')
                        .next()
                        .and_then(|number| number.parse::<usize>().ok());
                    value = value.with(mask.map_or(Secret, |mask| state.registers[MASKS + mask]));
                }
                self.store(to, value, state, instruction);
                if !is_vector {
                    state.flags = value.with(Public);
                }
            }
            _ => {
                let place = format!("{} at {:x}", self.function.name, instruction.address);
                return Err(format!(
                    "{place}: an unknown instruction: {name} {}",
                    instruction.operands
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{super::disassembly::functions, *};

    const NAME: &str = "luxor_engine::kernel::x86::vaes512::entry::encrypt";

    /// Returns what the scan finds in a function of these instructions, each with a length of 4.
    fn found(code: &[&str]) -> Vec<String> {
        let lines = code.iter().enumerate();
        let lines = lines.map(|(i, text)| format!("    {:x}:\t{text}\n", 0x1000 + 4 * i));
        let text = format!("0000000000001000 <{NAME}>:\n{}", lines.collect::<String>());
        scan(&functions(&text, "")[0], false).unwrap()
    }

    /// The data: behind a pointer in the descriptor.
    const DATA: &str = "mov    rsi,QWORD PTR [rdi+0x8]";

    #[test]
    fn secrets_in_addresses_jumps_divisions_and_calls_are_found() {
        let cases: [(&[&str], &str); 9] = [
            // A table of bytes, indexed by a block.
            (
                &[
                    "vmovdqu xmm0,XMMWORD PTR [rsi]",
                    "vpextrq rax,xmm0,0x1",
                    "movzx  ecx,al",
                    "movzx  edx,BYTE PTR [r8+rcx*1]",
                ],
                "an address depends on a secret: movzx edx,BYTE PTR [r8+rcx*1]",
            ),
            (
                &["vpgatherqq zmm1{k1},QWORD PTR [rax+zmm0*8]"],
                "an address depends on a secret: vpgatherqq zmm1{k1},QWORD PTR [rax+zmm0*8]",
            ),
            (
                &[
                    "mov    eax,DWORD PTR [rsi]",
                    "cmp    eax,0x7",
                    "je     1000 <f>",
                ],
                "a jump depends on a secret: je 1000 <f>",
            ),
            // By way of the stack, the flags and a register for masks.
            (
                &[
                    "vmovdqu64 ZMMWORD PTR [rsp-0x80],zmm0",
                    "mov    rax,QWORD PTR [rsp-0x78]",
                    "test   rax,rax",
                    "setne  cl",
                    "test   cl,cl",
                    "jne    1000 <f>",
                ],
                "a jump depends on a secret: jne 1000 <f>",
            ),
            (
                &[
                    "vptestnmq k1,zmm0,zmm0",
                    "kortestb k1,k1",
                    "je     1000 <f>",
                ],
                "a jump depends on a secret: je 1000 <f>",
            ),
            // Zeros that a computed address may overwrite.
            (
                &[
                    "vpxor  xmm1,xmm1,xmm1",
                    "vmovdqu XMMWORD PTR [rsp-0x40],xmm1",
                    "cmp    BYTE PTR [rsp-0x40],0x0",
                    "je     1000 <f>",
                ],
                "a jump depends on a secret: je 1000 <f>",
            ),
            (
                &["mov    ecx,DWORD PTR [rsi]", "div    ecx"],
                "a division depends on a secret: div ecx",
            ),
            (
                &["mov    rax,QWORD PTR [rsi]", "mov    QWORD PTR [rdi],rax"],
                "a secret is written to a descriptor: mov QWORD PTR [rdi],rax",
            ),
            (
                &["call   2000 <memcmp@GLIBC_2.2.5>"],
                "memory is compared by a function: call 2000 <memcmp@GLIBC_2.2.5>",
            ),
        ];
        for (code, what) in cases {
            let found = found(&[&[DATA], code, &["ret"]].concat());
            assert!(
                found.len() == 1 && found[0].ends_with(what),
                "{what}: {found:?}"
            );
        }
    }

    /// A loop over blocks: its counter is spilled, its pointers are in the descriptor.
    #[test]
    fn public_values_may_decide() {
        let code = [
            "push   rbp",
            "mov    rbp,rsp",
            "and    rsp,0xffffffffffffffc0",
            "sub    rsp,0x100",
            "mov    rsi,QWORD PTR [rdi+0x8]",
            "mov    rcx,QWORD PTR [rdi+0x10]",
            "mov    QWORD PTR [rsp+0x40],rcx",
            "xor    eax,eax",
            "vmovdqu64 zmm0,ZMMWORD PTR [rsi+rax*1]",
            "vaesenc zmm0,zmm0,ZMMWORD PTR [r8]",
            "vmovdqu64 ZMMWORD PTR [rsi+rax*1],zmm0",
            "vmovdqa64 ZMMWORD PTR [rsp+0x80],zmm0",
            "add    rax,0x40",
            "dec    QWORD PTR [rsp+0x40]",
            "jne    1020 <f>",
            "lea    rsp,[rbp+0x0]",
            "pop    rbp",
            "ret",
        ];
        assert_eq!(found(&code), [""; 0]);
        let spilled = code.map(|text| text.replace("[rsp+0x80]", "[rsp+0x20]"));
        let spilled: Vec<&str> = spilled.iter().map(String::as_str).collect();
        // The vector now covers the counter.
        assert_eq!(found(&spilled).len(), 1);
    }

    /// A value that is public on one path only.
    #[test]
    fn paths_meet_in_the_more_secret_value() {
        let code = [
            DATA,
            "mov    rax,QWORD PTR [rdi]",
            "test   rax,rax",
            "je     1014 <f>",
            "mov    rax,QWORD PTR [rsi]",
            "test   rax,rax",
            "jne    1000 <f>",
            "ret",
        ];
        assert!(
            found(&code)[0].contains("1018: a jump depends"),
            "{:?}",
            found(&code)
        );
    }
}
