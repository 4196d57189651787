// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses a text into a module: the directives (the manual, 11).

mod body;
mod cursor;
mod declared;
mod opcode;
mod statement;

use std::{ops::Range, sync::Arc};

use crate::{
    error::{ParseError, ParseFault},
    module::{Kernel, Module, Threads},
    space::Space,
};
use cursor::Cursor;
use declared::{Array, Declared, Named};

impl Module {
    /// Parses a module.
    ///
    /// # Errors
    /// [`ParseError`] for the first line that is not PTX, or that the emulator does not know.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut cursor = Cursor::new(text)?;
        let (version, target) = head(&mut cursor)?;
        let mut module = Declared::default();
        let mut kernels: Vec<Arc<Kernel>> = Vec::new();
        while !cursor.is_at_end() {
            if module.variable(&mut cursor)? {
                continue;
            }
            match cursor.word()? {
                ".visible" | ".extern" | ".weak" => {}
                ".entry" => {
                    let line = cursor.line();
                    let kernel = kernel(&mut cursor, &module)?;
                    if kernels.iter().any(|other| other.name == kernel.name) {
                        let name = kernel.name;
                        return Err(cursor.at(line, ParseFault::Duplicate { name }));
                    }
                    kernels.push(Arc::new(kernel));
                }
                ".pragma" => cursor.pragma()?,
                ".file" | ".loc" => cursor.skip_line(),
                directive => return Err(cursor.unknown_directive(directive)),
            }
        }
        Ok(Self {
            text: text.to_owned(),
            version,
            target,
            constants: module.constants,
            globals: module.globals,
            kernels,
        })
    }

    /// Returns the same module with different text in `line`, counted from 1. For tests that must
    /// fail.
    ///
    /// # Errors
    /// As [`Self::parse`].
    ///
    /// # Panics
    /// If the module has no such line.
    pub fn with_line(&self, line: u32, text: &str) -> Result<Self, ParseError> {
        let mut lines: Vec<&str> = self.text.lines().collect();
        lines[line as usize - 1] = text;
        Self::parse(&lines.join("\n"))
    }
}

/// Reads `.version`, `.target` and `.address_size` (11.1).
fn head(cursor: &mut Cursor<'_>) -> Result<((u32, u32), String), ParseError> {
    cursor.expect_word(".version")?;
    let text = cursor.number_text()?;
    let version = text
        .split_once('.')
        .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)))
        .ok_or_else(|| cursor.bad_number(text, "a version consists of two numbers"))?;
    cursor.expect_word(".target")?;
    let target = cursor.word()?.to_owned();
    cursor.expect_word(".address_size")?;
    match cursor.unsigned()? {
        64 => Ok((version, target)),
        other => Err(cursor.bad_number(&other.to_string(), "only 64-bit addresses are supported")),
    }
}

/// Reads the rest of `.entry`: 11.3 and 11.4.
fn kernel(cursor: &mut Cursor<'_>, module: &Declared) -> Result<Kernel, ParseError> {
    let name = cursor.word()?.to_owned();
    let mut declared = module.clone();
    let mut params: Vec<Range<u64>> = Vec::new();
    if cursor.sign_if('(') && !cursor.sign_if(')') {
        loop {
            cursor.expect_word(".param")?;
            let array = Array::parse(cursor)?;
            let Some(len) = array.len() else {
                return Err(cursor.syntax("a parameter of known length", &array.name));
            };
            let end = params.last().map_or(0, |param| param.end);
            let at = end.next_multiple_of(array.align);
            params.push(at..at + len as u64);
            declared.name(cursor, array.name, Named::Address(Space::Param, at))?;
            if cursor.sign_if(')') {
                break;
            }
            cursor.sign(',')?;
        }
    }
    let mut threads = None;
    loop {
        match cursor.peek_word(0) {
            Some(".maxntid") => {
                cursor.word()?;
                let product = dimensions(cursor)?.into_iter().fold(1, u32::saturating_mul);
                threads = Some(Threads::AtMost(product));
            }
            Some(".reqntid") => {
                cursor.word()?;
                threads = Some(Threads::Exactly(dimensions(cursor)?));
            }
            // Hints on the use of registers.
            Some(".minnctapersm" | ".maxnreg") => {
                cursor.word()?;
                cursor.unsigned()?;
            }
            Some(".pragma") => {
                cursor.word()?;
                cursor.pragma()?;
            }
            Some(directive) => return Err(cursor.unknown_directive(directive)),
            None => break,
        }
    }
    cursor.sign('{')?;
    statement::parse(cursor, declared, name, params, threads)
}

/// Reads one to three numbers. Missing ones are 1.
fn dimensions(cursor: &mut Cursor<'_>) -> Result<[u32; 3], ParseError> {
    let mut dimensions = [1; 3];
    for (i, dimension) in dimensions.iter_mut().enumerate() {
        if i > 0 && !cursor.sign_if(',') {
            break;
        }
        let number = cursor.unsigned()?;
        *dimension = u32::try_from(number)
            .map_err(|_| cursor.bad_number(&number.to_string(), "too large"))?;
    }
    Ok(dimensions)
}
