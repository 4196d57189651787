// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operands of x86-64's instructions in Intel's syntax.

/// The numbers of registers: 16 integer registers, 32 vectors, 8 masks.
pub const VECTORS: usize = 16;
pub const MASKS: usize = 48;
pub const REGISTERS: usize = 56;
pub const RAX: usize = 0;
pub const RCX: usize = 1;
pub const RDX: usize = 2;
pub const RBX: usize = 3;
pub const RSP: usize = 4;
pub const RSI: usize = 6;
pub const RDI: usize = 7;

/// Returns the number and the size in bytes of a register.
pub fn register(name: &str) -> Option<(usize, i64)> {
    const WORDS: [&str; 8] = ["ax", "cx", "dx", "bx", "sp", "bp", "si", "di"];
    const BYTES: [&str; 8] = ["al", "cl", "dl", "bl", "spl", "bpl", "sil", "dil"];
    let number = |prefix: &str| name.strip_prefix(prefix)?.parse::<usize>().ok();
    for (prefix, bytes) in [("xmm", 16), ("ymm", 32), ("zmm", 64)] {
        if let Some(number) = number(prefix) {
            return Some((VECTORS + number, bytes));
        }
    }
    if let Some(number) = number("k") {
        return Some((MASKS + number, 8));
    }
    let at = |names: [&str; 8], name| names.iter().position(|known| *known == name);
    for (prefix, bytes) in [("r", 8), ("e", 4), ("", 2)] {
        let found = name.strip_prefix(prefix).and_then(|name| at(WORDS, name));
        if let Some(number) = found {
            return Some((number, bytes));
        }
    }
    if let Some(number) = at(BYTES, name).or(at(["ah", "ch", "dh", "bh", "", "", "", ""], name)) {
        return Some((number, 1));
    }
    let digits = name.strip_prefix('r')?;
    let number = digits.trim_end_matches(['d', 'w', 'b']).parse().ok()?;
    let bytes = match digits.as_bytes().last()? {
        b'd' => 4,
        b'w' => 2,
        b'b' => 1,
        _ => 8,
    };
    Some((number, bytes))
}

#[derive(Clone, Debug)]
pub enum Operand {
    Register { number: usize, bytes: i64 },
    Memory(Memory),
    Immediate(i64),
}

#[derive(Clone, Debug)]
pub struct Memory {
    pub registers: Vec<usize>,
    pub is_indexed: bool,
    pub is_in_program: bool,
    pub displacement: i64,
    pub bytes: i64,
}

fn number(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(u64::cast_signed),
        None => text.parse().ok(),
    }
}

impl Operand {
    /// Parses an operand. The registers of masks are further operands.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.split('{').next().unwrap_or_default();
        if let Some((number, bytes)) = register(text) {
            return Ok(Self::Register { number, bytes });
        }
        if let Some(number) = number(text) {
            return Ok(Self::Immediate(number));
        }
        let unknown = || format!("an unknown operand: {text}");
        let (before, rest) = text.split_once('[').ok_or_else(unknown)?;
        const SIZES: [(&str, i64); 8] = [
            ("XMMWORD", 16),
            ("YMMWORD", 32),
            ("ZMMWORD", 64),
            ("OWORD", 16),
            ("QWORD", 8),
            ("DWORD", 4),
            ("WORD", 2),
            ("BYTE", 1),
        ];
        let size = SIZES.iter().find(|(name, _)| before.contains(name));
        let mut memory = Memory {
            registers: Vec::new(),
            is_indexed: false,
            is_in_program: false,
            displacement: 0,
            bytes: size.map_or(0, |(_, bytes)| *bytes),
        };
        let inside = rest.split(']').next().unwrap_or_default();
        for term in inside.replace('-', "+-").split('+') {
            let (name, scale) = term.split_once('*').map_or((term, "1"), |parts| parts);
            if let Some((register, _)) = register(name) {
                memory.is_indexed |= scale != "1" || !memory.registers.is_empty();
                memory.registers.push(register);
            } else if name == "rip" {
                memory.is_in_program = true;
            } else if let Some(more) = name.strip_prefix('-').and_then(number) {
                memory.displacement -= more;
            } else {
                memory.displacement += number(name).ok_or_else(unknown)?;
            }
        }
        Ok(Self::Memory(memory))
    }
}
