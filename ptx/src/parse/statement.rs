// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses the body of a kernel: registers, variables, labels and instructions.

use std::{collections::HashMap, ops::Range};

use super::{
    body::Body,
    cursor::Cursor,
    declared::{Array, Declared, Named},
    opcode,
};
use crate::{
    error::ParseError,
    instruction::{Instruction, Predicate},
    integer::Type,
    memory::Local,
    module::{Kernel, Threads},
    space::Space,
};

/// Parses a kernel after its opening brace.
pub fn parse(
    cursor: &mut Cursor<'_>,
    declared: Declared,
    name: String,
    params: Vec<Range<u64>>,
    threads: Option<Threads>,
) -> Result<Kernel, ParseError> {
    let mut body = Body::new(cursor, declared);
    while !body.scopes.is_empty() {
        body.statement()?;
    }
    body.kernel(name, params, threads)
}

impl Body<'_, '_> {
    fn statement(&mut self) -> Result<(), ParseError> {
        if self.cursor.sign_if('{') {
            self.scopes.push(HashMap::new());
            return Ok(());
        }
        if self.cursor.sign_if('}') {
            self.scopes.pop();
            return Ok(());
        }
        // Of all variables, only shared and local ones may be declared in a kernel (5.1).
        if self.cursor.peek_word(0) == Some(".shared") && self.declared.variable(self.cursor)? {
            return Ok(());
        }
        if self.cursor.sign_if('@') {
            let guard = self.predicate()?;
            return self.instruction(Some(guard));
        }
        match self.cursor.peek_word(0) {
            Some(".reg") => {
                self.cursor.word()?;
                self.registers()
            }
            Some(".local") => {
                self.cursor.word()?;
                self.local_variable()
            }
            Some(".pragma") => {
                self.cursor.word()?;
                self.cursor.pragma()
            }
            Some(".loc") => {
                self.cursor.word()?;
                self.cursor.skip_line();
                Ok(())
            }
            Some(directive) if directive.starts_with('.') => {
                Err(self.cursor.unknown_directive(directive))
            }
            Some(label) if self.cursor.peek_sign(1, ':') => {
                self.cursor.word()?;
                self.cursor.sign(':')?;
                match self.labels.insert(label, self.code.len()) {
                    None => Ok(()),
                    Some(_) => Err(self.duplicate(label)),
                }
            }
            Some(_) => self.instruction(None),
            None => Err(self.cursor.unexpected("an instruction")),
        }
    }

    /// Reads `.reg .b32 %r<7>, %x;` (5.1.1, 5.4.2).
    fn registers(&mut self) -> Result<(), ParseError> {
        let word = self.cursor.word()?;
        let bits = match word.strip_prefix('.').and_then(Type::from_name) {
            // Only ld, st and cvt take 8 bits, and they accept wider registers.
            Some(t) if t.bits != 8 => t.bits,
            _ => return Err(self.cursor.unknown_directive(word)),
        };
        loop {
            let name = self.cursor.word()?;
            if self.cursor.sign_if('<') {
                let count = self.cursor.unsigned()?;
                if count > 1 << 20 {
                    let count = count.to_string();
                    return Err(self.cursor.bad_number(&count, "more than 2^20 registers"));
                }
                self.cursor.sign('>')?;
                for i in 0..count {
                    self.register(&format!("{name}{i}"), bits)?;
                }
            } else {
                self.register(name, bits)?;
            }
            if self.cursor.sign_if(';') {
                return Ok(());
            }
            self.cursor.sign(',')?;
        }
    }

    fn local_variable(&mut self) -> Result<(), ParseError> {
        let array = Array::parse(self.cursor)?;
        self.cursor.sign(';')?;
        let Some(len) = array.len() else {
            return Err(self
                .cursor
                .syntax("a variable of known length", &array.name));
        };
        let at = self.local.next_multiple_of(array.align);
        self.local = at + len as u64;
        let named = Named::Address(Space::Local, Local::BASE + at);
        self.declared.name(self.cursor, array.name, named)
    }

    fn instruction(&mut self, guard: Option<Predicate>) -> Result<(), ParseError> {
        let name = self.cursor.word()?;
        let line = self.cursor.line();
        let op = opcode::parse(self, name)?;
        self.cursor.sign(';')?;
        self.code.push(Instruction { line, guard, op });
        Ok(())
    }
}
