// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel while it is parsed: its names and its operands.

use std::{collections::HashMap, ops::Range};

use super::{
    cursor::Cursor,
    declared::{Declared, Named},
};
use crate::{
    error::{ParseError, ParseFault},
    instruction::{Address, Instruction, Op, Predicate, Slot},
    integer::Type,
    memory::Shared,
    module::{Kernel, Special, Threads},
    space::Space,
};

/// A kernel while it is parsed.
pub struct Body<'c, 'a> {
    pub cursor: &'c mut Cursor<'a>,
    pub declared: Declared,
    /// Bytes of the local variables.
    pub local: u64,
    /// Registers by name, with their widths. The innermost scope is last.
    pub scopes: Vec<HashMap<String, (Slot, u32)>>,
    slots: Vec<SlotKind>,
    /// The slots of values that are not registers.
    fixed: HashMap<Fixed, Slot>,
    /// Labels, with the index of the instruction after each.
    pub labels: HashMap<&'a str, usize>,
    /// Branches, with the labels that they name.
    branches: Vec<(usize, &'a str)>,
    pub code: Vec<Instruction>,
}

enum SlotKind {
    Register(String),
    Fixed(Fixed),
}

/// A value that no instruction changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fixed {
    Number(u64),
    Special(Special),
    /// The shared memory that a launch adds: its alignment, and an offset added to its address.
    Dynamic(u64, u64),
}

impl<'c, 'a> Body<'c, 'a> {
    pub fn new(cursor: &'c mut Cursor<'a>, declared: Declared) -> Self {
        Self {
            cursor,
            declared,
            local: 0,
            scopes: vec![HashMap::new()],
            slots: Vec::new(),
            fixed: HashMap::new(),
            labels: HashMap::new(),
            branches: Vec::new(),
            code: Vec::new(),
        }
    }

    pub fn register(&mut self, name: &str, bits: u32) -> Result<(), ParseError> {
        let slot = self.slot(SlotKind::Register(name.to_owned()));
        let Some(scope) = self.scopes.last_mut() else {
            return Err(self.cursor.syntax("a kernel", name));
        };
        match scope.insert(name.to_owned(), (slot, bits)) {
            None => Ok(()),
            Some(_) => Err(self.duplicate(name)),
        }
    }

    /// Reads a branch to a label, which may come later in the text.
    pub fn branch(&mut self, label: &'a str) -> Op {
        self.branches.push((self.code.len(), label));
        Op::Branch { to: usize::MAX }
    }

    /// Reads a register of `bits` bits that is written to.
    pub fn destination(&mut self, bits: u32) -> Result<Slot, ParseError> {
        let name = self.cursor.word()?;
        match self.find_register(name) {
            Some((slot, width)) if width == bits => Ok(slot),
            Some((_, width)) => Err(self.mismatch(name, width, bits)),
            None => Err(self.undeclared(name)),
        }
    }

    /// Reads a register of at least `bits` bits that is written to. Returns its width too.
    pub fn wide_destination(&mut self, bits: u32) -> Result<(Slot, u32), ParseError> {
        let name = self.cursor.word()?;
        match self.find_register(name) {
            Some((slot, width)) if width >= bits => Ok((slot, width)),
            Some((_, width)) => Err(self.mismatch(name, width, bits)),
            None => Err(self.undeclared(name)),
        }
    }

    /// Reads a source of `bits` bits: a register, a number, a special register or an address.
    pub fn source(&mut self, bits: u32) -> Result<Slot, ParseError> {
        self.any_source(bits, false)
    }

    /// As [`Self::source`], but a register may be wider.
    pub fn wide_source(&mut self, bits: u32) -> Result<Slot, ParseError> {
        self.any_source(bits, true)
    }

    fn any_source(&mut self, bits: u32, wider: bool) -> Result<Slot, ParseError> {
        if self.cursor.is_at_number() {
            let number = self.cursor.literal(bits)?;
            return Ok(self.fixed(Fixed::Number(number)));
        }
        let name = self.cursor.word()?;
        if let Some((slot, width)) = self.find_register(name) {
            return if width == bits || wider && width > bits && bits > 1 {
                Ok(slot)
            } else {
                Err(self.mismatch(name, width, bits))
            };
        }
        if let Some(special) = Special::from_name(name) {
            return match bits {
                32 => Ok(self.fixed(Fixed::Special(special))),
                _ => Err(self.mismatch(name, 32, bits)),
            };
        }
        let Some(named) = self.declared.names.get(name).copied() else {
            return Err(self.undeclared(name));
        };
        if bits != 64 {
            return Err(self.mismatch(name, 64, bits));
        }
        let offset = self.offset()?;
        Ok(self.named(named, offset))
    }

    /// Reads a predicate, with or without `!`.
    pub fn predicate(&mut self) -> Result<Predicate, ParseError> {
        let negated = self.cursor.sign_if('!');
        let slot = self.destination(1)?;
        Ok(Predicate { slot, negated })
    }

    /// Reads `[%rd1+16]`, `[name+4]` or `[1024]`. A name must be in `space`.
    pub fn address(&mut self, space: Space) -> Result<Address, ParseError> {
        self.cursor.sign('[')?;
        let address = if self.cursor.is_at_number() {
            let number = self.cursor.literal(64)?;
            let base = self.fixed(Fixed::Number(number));
            Address { base, offset: 0 }
        } else {
            let name = self.cursor.word()?;
            if let Some((slot, width)) = self.find_register(name) {
                // 6.4.1: a narrower register is zero-extended.
                if width != 64 && width != 32 {
                    return Err(self.mismatch(name, width, 64));
                }
                let offset = self.offset()?.cast_signed();
                Address { base: slot, offset }
            } else {
                let Some(named) = self.declared.names.get(name).copied() else {
                    return Err(self.undeclared(name));
                };
                let is = match named {
                    Named::Address(is, _) => is,
                    Named::Dynamic(_) => Space::Shared,
                };
                if is != space {
                    let wanted = format!("in {space} memory");
                    return Err(self.type_error(name, &format!("in {is} memory"), &wanted));
                }
                let offset = self.offset()?;
                let base = self.named(named, offset);
                Address { base, offset: 0 }
            }
        };
        self.cursor.sign(']')?;
        Ok(address)
    }

    /// Reads `+16`, `+-16`, `-16` or nothing.
    fn offset(&mut self) -> Result<u64, ParseError> {
        if self.cursor.sign_if('+') || self.cursor.peek_sign(0, '-') {
            self.cursor.literal(64)
        } else {
            Ok(0)
        }
    }

    fn named(&mut self, named: Named, offset: u64) -> Slot {
        self.fixed(match named {
            Named::Address(_, address) => Fixed::Number(address.wrapping_add(offset)),
            Named::Dynamic(align) => Fixed::Dynamic(align, offset),
        })
    }

    fn fixed(&mut self, fixed: Fixed) -> Slot {
        match self.fixed.get(&fixed) {
            Some(slot) => *slot,
            None => {
                let slot = self.slot(SlotKind::Fixed(fixed));
                self.fixed.insert(fixed, slot);
                slot
            }
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "no machine has the memory for 2^32 slots"
    )]
    fn slot(&mut self, kind: SlotKind) -> Slot {
        self.slots.push(kind);
        self.slots.len() as u32 - 1
    }

    fn find_register(&self, name: &str) -> Option<(Slot, u32)> {
        let mut scopes = self.scopes.iter().rev();
        scopes.find_map(|scope| scope.get(name).copied())
    }

    fn undeclared(&self, name: &str) -> ParseError {
        let name = name.to_owned();
        self.cursor.error(if name.starts_with('%') {
            ParseFault::UnknownSpecial { name }
        } else {
            ParseFault::Undeclared { name }
        })
    }

    pub fn duplicate(&self, name: &str) -> ParseError {
        let name = name.to_owned();
        self.cursor.error(ParseFault::Duplicate { name })
    }

    fn mismatch(&self, operand: &str, is: u32, wanted: u32) -> ParseError {
        let name = |bits| match bits {
            1 => "a predicate".to_owned(),
            bits => format!("{bits} bits wide"),
        };
        self.type_error(operand, &name(is), &name(wanted))
    }

    fn type_error(&self, operand: &str, is: &str, wanted: &dyn ToString) -> ParseError {
        self.cursor.error(ParseFault::Type {
            operand: operand.to_owned(),
            is: is.to_owned(),
            wanted: wanted.to_string(),
        })
    }

    pub fn kernel(
        mut self,
        name: String,
        params: Vec<Range<u64>>,
        threads: Option<Threads>,
    ) -> Result<Kernel, ParseError> {
        for (from, label) in &self.branches {
            let Some(target) = self.labels.get(label) else {
                let line = self.code[*from].line;
                let name = (*label).to_owned();
                return Err(self.cursor.at(line, ParseFault::Undeclared { name }));
            };
            self.code[*from].op = Op::Branch { to: *target };
        }
        let mut registers = HashMap::new();
        let (mut fixed, mut specials) = (Vec::new(), Vec::new());
        let slots = self.slots.len();
        let mut written = vec![0; slots.div_ceil(64)];
        for (slot, kind) in (0..).zip(self.slots) {
            let value = match kind {
                SlotKind::Register(name) => {
                    registers.insert(slot, name);
                    continue;
                }
                SlotKind::Fixed(Fixed::Special(special)) => {
                    specials.push((slot, special));
                    None
                }
                SlotKind::Fixed(Fixed::Number(number)) => Some(number),
                SlotKind::Fixed(Fixed::Dynamic(align, offset)) => {
                    let at = self.declared.shared.next_multiple_of(align);
                    Some((Shared::BASE + at).wrapping_add(offset))
                }
            };
            fixed.extend(value.map(|value| (slot, value)));
            written[slot as usize / 64] |= 1 << (slot % 64);
        }
        let len = |len: u64, what: &str| {
            let max = 1 << 20;
            match usize::try_from(len) {
                Ok(len) if len <= max => Ok(len),
                _ => Err(self.cursor.syntax(what, &name)),
            }
        };
        let fewer = "fewer parameters";
        Ok(Kernel {
            params: params
                .into_iter()
                .map(|param| Ok(len(param.start, fewer)?..len(param.end, fewer)?))
                .collect::<Result<_, _>>()?,
            shared: len(self.declared.shared, "less shared memory")?,
            local: len(self.local, "less local memory")?,
            name,
            threads,
            code: self.code,
            slots,
            fixed,
            specials,
            written,
            registers,
        })
    }
}

/// The parts of an instruction's name after its first dot, read in order.
pub struct Modifiers<'a> {
    name: &'a str,
    parts: Vec<&'a str>,
    at: usize,
    line: u32,
}

impl<'a> Modifiers<'a> {
    /// Splits a name into the opcode and the rest.
    pub fn split(name: &'a str, line: u32) -> (&'a str, Self) {
        let mut parts: Vec<&str> = name.split('.').collect();
        let opcode = parts.remove(0);
        let at = 0;
        (
            opcode,
            Self {
                name,
                parts,
                at,
                line,
            },
        )
    }

    pub fn take(&mut self, part: &str) -> bool {
        let is = self.parts.get(self.at) == Some(&part);
        self.at += usize::from(is);
        is
    }

    /// Returns the value of the next part if it is one of the choices.
    pub fn choose<T: Copy>(&mut self, choices: &[(&str, T)]) -> Option<T> {
        let part = self.parts.get(self.at)?;
        let (_, value) = choices.iter().find(|(name, _)| name == part)?;
        self.at += 1;
        Some(*value)
    }

    /// As [`Self::choose`], but one of the choices is required.
    pub fn one_of<T: Copy>(
        &mut self,
        missing: &'static str,
        choices: &[(&str, T)],
    ) -> Result<T, ParseError> {
        self.choose(choices).ok_or_else(|| self.unknown(missing))
    }

    /// Reads a type, which must be one of the names in `allowed`, separated by blanks.
    pub fn t(&mut self, allowed: &str) -> Result<Type, ParseError> {
        let part = self.parts.get(self.at).copied().unwrap_or_default();
        match Type::from_name(part) {
            Some(t) if allowed.split(' ').any(|name| name == part) => {
                self.at += 1;
                Ok(t)
            }
            _ => Err(self.unknown("a type")),
        }
    }

    /// Checks that no part is left.
    pub fn end(&self) -> Result<(), ParseError> {
        match self.parts.get(self.at) {
            None => Ok(()),
            Some(_) => Err(self.unknown("")),
        }
    }

    fn unknown(&self, missing: &'static str) -> ParseError {
        let instruction = self.name.to_owned();
        let what = match self.parts.get(self.at) {
            Some(part) => ParseFault::UnknownModifier {
                instruction,
                modifier: (*part).to_owned(),
            },
            None => ParseFault::MissingModifier {
                instruction,
                missing,
            },
        };
        let line = self.line;
        ParseError { line, what }
    }
}
