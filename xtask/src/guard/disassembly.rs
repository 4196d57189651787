// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a program's functions and instructions from the output of `objdump`.

use std::{collections::HashMap, path::Path};

use crate::process::{self, command};

/// The output of `objdump` for a program.
pub struct Listing {
    code: String,
    relocations: String,
}

impl Listing {
    /// `objdump` is the program for the architecture of `program`, with the options for its syntax.
    pub fn disassemble(program: &Path, objdump: &str) -> Result<Self, String> {
        let code = "--disassemble --demangle --no-show-raw-insn --wide";
        let objdump = |options: &str| {
            let mut words = objdump.split(' ').chain(options.split(' '));
            let name = words.next().unwrap_or_default();
            process::output(command(name).args(words).arg(program))
        };
        Ok(Self {
            code: objdump(code)?,
            relocations: objdump("--dynamic-reloc")?,
        })
    }

    /// Returns all functions in the order of their addresses.
    pub fn functions(&self) -> Vec<Function<'_>> {
        functions(&self.code, &self.relocations)
    }
}

pub struct Function<'a> {
    /// The demangled name, without type parameters.
    pub name: &'a str,
    pub code: Vec<Instruction<'a>>,
}

pub struct Instruction<'a> {
    pub address: u64,
    pub mnemonic: &'a str,
    /// On x86-64 in Intel's order. The destination comes first, except in stores on `AArch64`.
    pub operands: &'a str,
    /// The function that a call or jump goes to, or the function whose address is loaded for a
    /// later call.
    pub callee: Option<&'a str>,
    /// Whether this is a round of AES on `AArch64`, and the next instruction mixes the columns of its
    /// result. CPUs execute the two as one.
    is_mixed_next: bool,
}

/// Parses the output of `objdump --disassemble` and `objdump --dynamic-reloc`.
pub(super) fn functions<'a>(code: &'a str, relocations: &str) -> Vec<Function<'a>> {
    let mut functions: Vec<Function<'_>> = Vec::new();
    let mut names = HashMap::new();
    for line in code.lines() {
        if let Some((address, name)) = head(line) {
            names.insert(address, name);
            functions.push(Function {
                name,
                code: Vec::new(),
            });
        } else if let (Some(function), Some(instruction)) =
            (functions.last_mut(), Instruction::parse(line))
        {
            function.code.push(instruction);
        }
    }
    for function in &mut functions {
        for i in 1..function.code.len() {
            let [round, mix] = [&function.code[i - 1], &function.code[i]];
            let mut registers = mix.operands.split(", ").chain(round.operands.split(", "));
            let register = registers.next();
            let is_one = registers.take(2).all(|other| Some(other) == register);
            function.code[i - 1].is_mixed_next = round.is_aes() && mix.mixes_columns() && is_one;
        }
    }
    // Most calls to other crates go through pointers that the loader fills in.
    let pointers: HashMap<u64, &str> = relocations
        .lines()
        .filter_map(relative)
        .filter_map(|(place, address)| Some((place, *names.get(&address)?)))
        .collect();
    for instruction in functions.iter_mut().flat_map(|f| &mut f.code) {
        // If the linker knew the function, the code loads its address directly.
        let known = match instruction.mnemonic {
            "lea" => &names,
            _ => &pointers,
        };
        if let Some(name) = instruction.pointer().and_then(|place| known.get(&place)) {
            instruction.callee = Some(name);
        }
    }
    functions
}

/// Parses a line such as `00000000001cf2d0 <name>:`.
fn head(line: &str) -> Option<(u64, &str)> {
    let (address, name) = line.strip_suffix(">:")?.split_once(" <")?;
    Some((hexadecimal(address)?, name))
}

/// Parses a line such as `00000000002c39b8 R_X86_64_RELATIVE  *ABS*+0x0000000000087dd0`.
fn relative(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split_whitespace();
    let place = hexadecimal(words.next()?)?;
    words.next().filter(|kind| *kind == "R_X86_64_RELATIVE")?;
    let address = words.next()?.strip_prefix("*ABS*+0x")?;
    Some((place, hexadecimal(address)?))
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

impl<'a> Instruction<'a> {
    /// Parses a line such as
    /// `  1cf689:\tcall   QWORD PTR [rip+0xfe699]        # 2cdd28 <memset@GLIBC_2.2.5>` or
    /// `  1cf68c:\tmov\tw8, #0x87                  \t// #135`.
    fn parse(line: &'a str) -> Option<Self> {
        // Linkers use the first and the last of these as padding when they replace a call through a
        // pointer by a direct call.
        const PREFIXES: [&str; 11] = [
            "addr32", "bnd", "cs", "data16", "ds", "lock", "notrack", "rep", "repnz", "repz",
            "rex.W",
        ];
        let (address, mut rest) = line.trim_start().split_once(":\t")?;
        let address = hexadecimal(address)?;
        rest = rest.split("//").next().unwrap_or_default().trim_end();
        let (mnemonic, operands) = loop {
            let (word, more) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
            rest = more.trim();
            if !PREFIXES.contains(&word) || rest.is_empty() {
                break (word, rest);
            }
        };
        // In a direct call or jump the name ends the operand. In any other it ends the comment, and
        // names the function or the pointer. The loader fills in pointers to other libraries.
        let name = operands
            .split_once('<')
            .and_then(|(_, name)| name.strip_suffix('>'))
            .map(|name| name.rsplit_once("+0x").map_or(name, |(name, _)| name));
        let mut instruction = Self {
            address,
            mnemonic,
            operands,
            callee: None,
            is_mixed_next: false,
        };
        let is_branch = instruction.is_call() || instruction.is_jump();
        instruction.callee = name.filter(|name| is_branch || name.contains("@GLIBC"));
        Some(instruction)
    }

    /// Returns the address of the pointer that is read or called through, if it is known.
    fn pointer(&self) -> Option<u64> {
        let (_, comment) = self.operands.split_once("# ")?;
        hexadecimal(comment.split(' ').next()?)
    }

    /// Returns the target of a jump, if it is known.
    pub fn target(&self) -> Option<u64> {
        hexadecimal(self.jump_operands().1)
    }

    /// Returns the operands of a jump: the registers that it tests, on `AArch64`, and the target.
    pub fn jump_operands(&self) -> (&'a str, &'a str) {
        let operands = self.operands.split(" <").next().unwrap_or_default();
        operands
            .rfind(", ")
            .map_or(("", operands), |comma| operands.split_at(comma + 2))
    }

    pub fn is_call(&self) -> bool {
        matches!(self.mnemonic, "call" | "bl" | "blr")
    }

    pub fn is_jump(&self) -> bool {
        const OF_AARCH64: [&str; 6] = ["b", "br", "cbz", "cbnz", "tbz", "tbnz"];
        self.mnemonic.starts_with('j')
            || self.mnemonic.starts_with("b.")
            || OF_AARCH64.contains(&self.mnemonic)
    }

    /// Whether the next instruction can be reached only by a jump.
    pub fn ends_path(&self) -> bool {
        const ENDS: [&str; 9] = ["jmp", "ret", "ud2", "int3", "hlt", "b", "br", "brk", "udf"];
        ENDS.contains(&self.mnemonic) || self.is_call() && self.callee.is_some_and(is_panic)
    }

    /// Whether this is a round of AES, including the last one. On `AArch64` a round is the
    /// instruction without [the one that mixes the columns](Self::mixes_columns).
    pub fn is_aes(&self) -> bool {
        let name = self.mnemonic.trim_start_matches('v');
        name.starts_with("aesenc") || name.starts_with("aesdec") || self.is_aes_of_aarch64()
    }

    fn is_aes_of_aarch64(&self) -> bool {
        matches!(self.mnemonic, "aese" | "aesd")
    }

    /// Whether this is the part of a round that is an instruction of its own on `AArch64`.
    pub fn mixes_columns(&self) -> bool {
        matches!(self.mnemonic, "aesmc" | "aesimc")
    }

    pub fn is_last_round(&self) -> bool {
        if self.is_aes_of_aarch64() {
            !self.is_mixed_next
        } else {
            self.is_aes() && self.mnemonic.ends_with("last")
        }
    }

    pub fn is_carryless(&self) -> bool {
        let name = self.mnemonic.trim_start_matches('v');
        name.starts_with("pclmul") || name.starts_with("pmull")
    }

    /// Whether this is the shift across two integer registers of `AArch64`, of which doubling a tweak
    /// needs one.
    pub fn doubles(&self) -> bool {
        self.mnemonic == "extr"
    }

    /// Returns the size in bytes of the widest vector register among the operands.
    pub fn register_bytes(&self) -> Option<u32> {
        [("zmm", 64), ("ymm", 32), ("xmm", 16)]
            .into_iter()
            .find(|(name, _)| self.operands.contains(name))
            .map(|(_, bytes)| bytes)
            .or_else(|| self.has_vector_of_aarch64().then_some(16))
    }

    /// Whether an operand is a vector register of `AArch64`, such as `v0.16b` and `q0`.
    fn has_vector_of_aarch64(&self) -> bool {
        self.operands.split(", ").any(|operand| {
            let number = operand.trim_start_matches('{').strip_prefix(['q', 'v']);
            number.is_some_and(|n| n.starts_with(|digit: char| digit.is_ascii_digit()))
        })
    }

    /// Returns the number of bytes that a store of whole blocks writes: from a vector register, or
    /// from two registers of any kind.
    pub fn stored_bytes(&self) -> u32 {
        if self.mnemonic == "stp" {
            2 * self.register_bytes().unwrap_or(8)
        } else {
            self.register_bytes().unwrap_or(0)
        }
    }

    /// Returns the address in a memory operand, between the brackets.
    fn memory(&self) -> Option<&'a str> {
        let is_access = !matches!(self.mnemonic, "lea" | "nop") && !self.is_prefetch();
        let (_, rest) = self.operands.split_once('[').filter(|_| is_access)?;
        Some(rest.split_once(']')?.0)
    }

    fn is_prefetch(&self) -> bool {
        self.mnemonic.starts_with("prefetch") || self.mnemonic == "prfm"
    }

    /// Whether it writes to memory named by an operand.
    pub fn is_store(&self) -> bool {
        const READ_ONLY: [&str; 9] = [
            "bt", "call", "cmp", "div", "idiv", "imul", "mul", "push", "test",
        ];
        let first = self.operands.split(',').next().unwrap_or_default();
        self.memory().is_some()
            && (first.contains('[') || self.is_store_of_aarch64())
            && !self.is_jump()
            && !READ_ONLY.contains(&self.mnemonic)
    }

    fn is_store_of_aarch64(&self) -> bool {
        ["str", "stp", "stur"].contains(&self.mnemonic)
    }

    /// Whether it reads memory named by an operand.
    pub fn is_load(&self) -> bool {
        let only_stores = self.mnemonic.contains("mov") || self.is_store_of_aarch64();
        self.memory().is_some() && !(self.is_store() && only_stores)
    }

    /// Whether it accesses the stack: through `rsp`, or through `rbp` if that is the frame pointer.
    /// On `AArch64` through `sp`, or through `x29`, which is the frame pointer.
    pub fn is_on_stack(&self, rbp_is_frame: bool) -> bool {
        self.mnemonic == "push"
            || self.memory().is_some_and(|address| {
                ["sp", "x29"].iter().any(|name| address.contains(name))
                    || rbp_is_frame && address.contains("rbp")
            })
    }
}

impl Function<'_> {
    /// Whether `rbp` is used as the frame pointer.
    pub fn rbp_is_frame(&self) -> bool {
        self.code
            .iter()
            .take(4)
            .any(|i| i.mnemonic == "mov" && i.operands == "rbp,rsp")
    }
}

/// Whether the function does not return.
pub fn is_panic(name: &str) -> bool {
    name.starts_with("core::panicking::")
        || name.starts_with("core::slice::index::") && name.ends_with("_fail")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "
target/release/luxor:     file format elf64-x86-64

Disassembly of section .text:

0000000000001000 <a::f>:
    1000:\tpush   rbp
    1001:\tmov    rbp,rsp
    1002:\tcall   QWORD PTR [rip+0xfe699]        # 5000 <memset@GLIBC_2.2.5>
    1008:\tmov    r13,QWORD PTR [rip+0xfe690]        # 5008 <_DYNAMIC+0x280>
    100c:\tcall   2000 <<a::G as a::H>::g>
    1010:\tdata16 cs nop WORD PTR [rax+rax*1+0x0]
    1014:\tjne    1002 <a::f+0x2>
    1018:\tlea    rax,[rip+0x1234]        # 6000 <anon.0>
    1020:\tlea    r13,[rip+0xfd9]        # 2000 <<a::G as a::H>::g>

0000000000002000 <<a::G as a::H>::g>:
    2000:\tret
";

    const RELOCATIONS: &str = "
OFFSET           TYPE              VALUE
0000000000005000 R_X86_64_GLOB_DAT  memset@GLIBC_2.2.5
0000000000005008 R_X86_64_RELATIVE  *ABS*+0x0000000000002000
";

    #[test]
    fn functions_and_their_callees() {
        let functions = functions(CODE, RELOCATIONS);
        let names: Vec<_> = functions.iter().map(|f| f.name).collect();
        assert_eq!(names, ["a::f", "<a::G as a::H>::g"]);
        let code = &functions[0].code;
        let callees: Vec<_> = code.iter().map(|i| i.callee).collect();
        let g = Some("<a::G as a::H>::g");
        let memset = Some("memset@GLIBC_2.2.5");
        assert_eq!(
            callees,
            [None, None, memset, g, g, None, Some("a::f"), None, g]
        );
        assert_eq!((code[5].mnemonic, code[5].address), ("nop", 0x1010));
        assert_eq!(code[6].target(), Some(0x1002));
        assert!(functions[0].rbp_is_frame() && !functions[1].rbp_is_frame());
    }

    /// The second round is a last one because another instruction separates it from its mixing, the
    /// third because the mixing changes another register.
    #[test]
    fn rounds_of_aarch64_are_pairs() {
        let code = "\
0000000000001000 <f>:
    1000:\taese\tv0.16b, v1.16b
    1004:\taesmc\tv0.16b, v0.16b
    1008:\taesd\tv0.16b, v1.16b
    100c:\tadd\tx0, x0, #0x10
    1010:\taesimc\tv0.16b, v0.16b
    1014:\taese\tv2.16b, v1.16b
    1018:\taesmc\tv0.16b, v2.16b
    101c:\ttbnz\tw9, #0, 1000 <f>
    1020:\tb.ne\t1008 <f+0x8>  // b.any
    1024:\tbl\t2000 <core::panicking::panic>
";
        let functions = functions(code, "");
        let code = &functions[0].code;
        let of = |is: &dyn Fn(&Instruction<'_>) -> bool| -> Vec<_> {
            let found = code.iter().filter(|i| is(i));
            found.map(|i| i.address).collect()
        };
        assert_eq!(of(&|i| i.is_aes()), [0x1000, 0x1008, 0x1014]);
        assert_eq!(of(&|i| i.is_last_round()), [0x1008, 0x1014]);
        assert_eq!(of(&|i| i.mixes_columns()), [0x1004, 0x1010, 0x1018]);
        assert_eq!(of(&|i| i.is_jump()), [0x101c, 0x1020]);
        assert_eq!(code[7].target(), Some(0x1000));
        assert_eq!(code[8].target(), Some(0x1008));
        assert_eq!(of(&|i| i.ends_path()), [0x1024]);
    }

    /// Each line with the expected results: is AES, bytes of the register, load, store, on the
    /// stack.
    #[test]
    fn instructions_are_classified() {
        let cases = [
            ("vaesenc zmm1,zmm1,zmm2", (true, 64, false, false, false)),
            (
                "aesdeclast xmm1,XMMWORD PTR [rsp+0x10]",
                (true, 16, true, false, true),
            ),
            (
                "vpxorq zmm1,zmm1,ZMMWORD PTR [rsi+0x40]",
                (false, 64, true, false, false),
            ),
            (
                "vmovdqu64 ZMMWORD PTR [rdi+0x40],zmm1",
                (false, 64, false, true, false),
            ),
            (
                "vmovntdq YMMWORD PTR [rbp+0x0],ymm1",
                (false, 32, false, true, true),
            ),
            (
                "vmovdqa ymm1,YMMWORD PTR [rbp-0x40]",
                (false, 32, true, false, true),
            ),
            (
                "mov    QWORD PTR [rsp+0x8],rax",
                (false, 0, false, true, true),
            ),
            (
                "add    QWORD PTR [rsp+0x8],rax",
                (false, 0, true, true, true),
            ),
            (
                "cmp    QWORD PTR [rsp+0x8],rax",
                (false, 0, true, false, true),
            ),
            ("lea    rax,[rsp+0x8]", (false, 0, false, false, false)),
            (
                "prefetcht0 BYTE PTR [rsi+0x1000]",
                (false, 0, false, false, false),
            ),
            (
                "aeskeygenassist xmm0,xmm0,0x0",
                (false, 16, false, false, false),
            ),
            ("aese\tv0.16b, v1.16b", (true, 16, false, false, false)),
            ("ldr\tq0, [x1], #16", (false, 16, true, false, false)),
            ("stp\tq0, q1, [x29, #-176]", (false, 16, false, true, true)),
            ("stp\tx0, x1, [sp, #16]", (false, 0, false, true, true)),
            ("prfm\tpldl1keep, [x10]", (false, 0, false, false, false)),
        ];
        for (text, expected) in cases {
            let line = format!("  10:\t{text}");
            let i = Instruction::parse(&line).unwrap();
            let bytes = i.register_bytes().unwrap_or(0);
            let found = (
                i.is_aes(),
                bytes,
                i.is_load(),
                i.is_store(),
                i.is_on_stack(true),
            );
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn stored_blocks_are_counted() {
        for (text, bytes) in [
            ("vmovdqu64 ZMMWORD PTR [rdi+0x40],zmm1", 64),
            ("str\tq0, [x1]", 16),
            ("stp\tq0, q1, [x1, #32]", 32),
            ("stp\tx0, x1, [x2]", 16),
            ("mov    QWORD PTR [rdi],rax", 0),
        ] {
            let line = format!("  10:\t{text}");
            let stored = Instruction::parse(&line).unwrap().stored_bytes();
            assert_eq!(stored, bytes, "{text}");
        }
    }
}
