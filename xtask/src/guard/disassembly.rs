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
    pub fn of(program: &Path) -> Result<Self, String> {
        let code =
            "--disassemble --demangle --no-show-raw-insn --wide --disassembler-options=intel";
        let objdump = |options: &str| {
            process::output(command("objdump").args(options.split(' ')).arg(program))
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
    /// In Intel's order, with the destination first.
    pub operands: &'a str,
    /// The function that a call or jump goes to, or the function whose address is loaded for a
    /// later call.
    pub callee: Option<&'a str>,
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
    /// `  1cf689:\tcall   QWORD PTR [rip+0xfe699]        # 2cdd28 <memset@GLIBC_2.2.5>`.
    fn parse(line: &'a str) -> Option<Self> {
        // Linkers use the first and the last of these as padding when they replace a call through a
        // pointer by a direct call.
        const PREFIXES: [&str; 11] = [
            "addr32", "bnd", "cs", "data16", "ds", "lock", "notrack", "rep", "repnz", "repz",
            "rex.W",
        ];
        let (address, mut rest) = line.trim_start().split_once(":\t")?;
        let address = hexadecimal(address)?;
        let (mnemonic, operands) = loop {
            let (word, more) = rest.split_once(' ').unwrap_or((rest, ""));
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
        let is_branch = mnemonic == "call" || mnemonic.starts_with('j');
        let callee = name.filter(|name| is_branch || name.contains("@GLIBC"));
        Some(Self {
            address,
            mnemonic,
            operands,
            callee,
        })
    }

    /// Returns the address of the pointer that is read or called through, if it is known.
    fn pointer(&self) -> Option<u64> {
        let (_, comment) = self.operands.split_once("# ")?;
        hexadecimal(comment.split(' ').next()?)
    }

    /// Returns the target of a jump, if it is known.
    pub fn target(&self) -> Option<u64> {
        hexadecimal(self.operands.split(' ').next()?)
    }

    pub fn is_call(&self) -> bool {
        self.mnemonic == "call"
    }

    pub fn is_jump(&self) -> bool {
        self.mnemonic.starts_with('j')
    }

    /// Whether the next instruction can be reached only by a jump.
    pub fn ends_path(&self) -> bool {
        matches!(self.mnemonic, "jmp" | "ret" | "ud2" | "int3" | "hlt")
            || self.is_call() && self.callee.is_some_and(is_panic)
    }

    /// Whether this is a round of AES, including the last one.
    pub fn is_aes(&self) -> bool {
        let name = self.mnemonic.trim_start_matches('v');
        name.starts_with("aesenc") || name.starts_with("aesdec")
    }

    pub fn is_last_round(&self) -> bool {
        self.is_aes() && self.mnemonic.ends_with("last")
    }

    pub fn is_carryless(&self) -> bool {
        self.mnemonic.trim_start_matches('v').starts_with("pclmul")
    }

    /// Returns the size in bytes of the widest vector register among the operands.
    pub fn register_bytes(&self) -> Option<u32> {
        [("zmm", 64), ("ymm", 32), ("xmm", 16)]
            .into_iter()
            .find(|(name, _)| self.operands.contains(name))
            .map(|(_, bytes)| bytes)
    }

    /// Returns the address in a memory operand, between the brackets.
    fn memory(&self) -> Option<&'a str> {
        let is_access = !matches!(self.mnemonic, "lea" | "nop") && !self.is_prefetch();
        let (_, rest) = self.operands.split_once('[').filter(|_| is_access)?;
        Some(rest.split_once(']')?.0)
    }

    fn is_prefetch(&self) -> bool {
        self.mnemonic.starts_with("prefetch")
    }

    /// Whether it writes to memory named by an operand.
    pub fn is_store(&self) -> bool {
        const READ_ONLY: [&str; 9] = [
            "bt", "call", "cmp", "div", "idiv", "imul", "mul", "push", "test",
        ];
        let first = self.operands.split(',').next().unwrap_or_default();
        self.memory().is_some()
            && first.contains('[')
            && !self.is_jump()
            && !READ_ONLY.contains(&self.mnemonic)
    }

    /// Whether it reads memory named by an operand.
    pub fn is_load(&self) -> bool {
        self.memory().is_some() && (!self.is_store() || !self.mnemonic.contains("mov"))
    }

    /// Whether it accesses the stack: through `rsp`, or through `rbp` if that is the frame pointer.
    pub fn is_on_stack(&self, rbp_is_frame: bool) -> bool {
        self.mnemonic == "push"
            || self.memory().is_some_and(|address| {
                address.contains("rsp") || rbp_is_frame && address.contains("rbp")
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
}
