// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses variables and parameters (the manual, 5).

use std::collections::HashMap;

use super::cursor::Cursor;
use crate::{
    error::{ParseError, ParseFault},
    integer::Type,
    memory::{Segments, Shared},
    module::Variable,
    space::Space,
};

/// The variables of a module, or of a module and a kernel.
#[derive(Clone, Default)]
pub struct Declared {
    pub constants: Vec<Variable>,
    pub globals: Vec<Variable>,
    pub names: HashMap<String, Named>,
    /// Bytes of the shared variables of fixed size.
    pub shared: u64,
}

/// The meaning of a variable's name.
#[derive(Clone, Copy, Debug)]
pub enum Named {
    /// An address.
    Address(Space, u64),
    /// The shared memory that a launch adds after all other variables, with this alignment.
    Dynamic(u64),
}

impl Declared {
    /// Reads the declaration of a variable, if there is one.
    pub fn variable(&mut self, cursor: &mut Cursor<'_>) -> Result<bool, ParseError> {
        let linked = matches!(cursor.peek_word(0), Some(".visible" | ".extern" | ".weak"));
        let external = cursor.peek_word(0) == Some(".extern");
        let space = match cursor.peek_word(usize::from(linked)) {
            Some(".const") => Space::Const,
            Some(".global") => Space::Global,
            Some(".shared") => Space::Shared,
            _ => return Ok(false),
        };
        if linked {
            cursor.word()?;
        }
        cursor.word()?;
        let array = Array::parse(cursor)?;
        let mut bytes = vec![0; array.len().unwrap_or_default()];
        let initialised = cursor.sign_if('=');
        if initialised && space != Space::Shared {
            initialiser(cursor, &array, &mut bytes)?;
        }
        cursor.sign(';')?;
        let named = match space {
            Space::Shared if external && array.count.is_none() => Named::Dynamic(array.align),
            _ if external || array.count.is_none() => {
                return Err(cursor.syntax("a variable of known length", &array.name));
            }
            Space::Shared => {
                let at = self.shared.next_multiple_of(array.align);
                self.shared = at + bytes.len() as u64;
                Named::Address(space, Shared::BASE + at)
            }
            _ => {
                let name = array.name.clone();
                let (variables, base) = match space {
                    Space::Const => (&mut self.constants, 0),
                    _ => (&mut self.globals, Segments::VARIABLES),
                };
                let address = base + Segments::distance(variables.len());
                variables.push(Variable { name, bytes });
                Named::Address(space, address)
            }
        };
        self.name(cursor, array.name, named)?;
        Ok(true)
    }

    pub fn name(&mut self, cursor: &Cursor<'_>, name: String, is: Named) -> Result<(), ParseError> {
        if self.names.contains_key(&name) {
            return Err(cursor.error(ParseFault::Duplicate { name }));
        }
        self.names.insert(name, is);
        Ok(())
    }
}

/// `.align 4 .b8 name[1024]`, in any state space, including parameters.
pub struct Array {
    pub name: String,
    pub align: u64,
    t: Type,
    /// The number of elements; `None` for `[]`.
    count: Option<u64>,
}

/// Variables must be shorter than this.
const LONGEST: u64 = 1 << 32;

impl Array {
    pub fn parse(cursor: &mut Cursor<'_>) -> Result<Self, ParseError> {
        let mut align = None;
        if cursor.word_if(".align") {
            align = Some(alignment(cursor)?);
        }
        let word = cursor.word()?;
        let t = match word.strip_prefix('.').and_then(Type::from_name) {
            Some(t) if t != Type::PREDICATE => t,
            _ => return Err(cursor.unknown_directive(word)),
        };
        // The target of a pointer is only a hint (11.3): `.ptr .global .align 16`.
        if cursor.word_if(".ptr") {
            while let Some(".global" | ".const" | ".shared" | ".local") = cursor.peek_word(0) {
                cursor.word()?;
            }
            if cursor.word_if(".align") {
                alignment(cursor)?;
            }
        }
        let name = cursor.word()?.to_owned();
        let mut count = Some(1);
        while cursor.sign_if('[') {
            count = if cursor.sign_if(']') {
                None
            } else {
                let dimension = cursor.unsigned()?;
                cursor.sign(']')?;
                count
                    .and_then(|count: u64| count.checked_mul(dimension))
                    .filter(|count| *count <= LONGEST)
            };
        }
        Ok(Self {
            name,
            align: align.unwrap_or(t.bytes() as u64),
            t,
            count,
        })
    }

    /// Returns the length in bytes; `None` for `[]`.
    pub fn len(&self) -> Option<usize> {
        let count = usize::try_from(self.count?).ok()?;
        count.checked_mul(self.t.bytes())
    }
}

fn alignment(cursor: &mut Cursor<'_>) -> Result<u64, ParseError> {
    match cursor.unsigned()? {
        align if align.is_power_of_two() && align <= 1024 => Ok(align),
        other => Err(cursor.bad_number(&other.to_string(), "not a power of two up to 1024")),
    }
}

/// Reads `{1, 2, 3}` or one number (5.4.4). Missing elements are zero.
fn initialiser(cursor: &mut Cursor<'_>, array: &Array, bytes: &mut [u8]) -> Result<(), ParseError> {
    let mut elements = bytes.chunks_exact_mut(array.t.bytes());
    let braces = cursor.sign_if('{');
    loop {
        let value = cursor.literal(array.t.bits)?;
        let Some(element) = elements.next() else {
            return Err(cursor.syntax("no more elements", &array.name));
        };
        element.copy_from_slice(&value.to_le_bytes()[..array.t.bytes()]);
        if !braces {
            return Ok(());
        }
        if cursor.sign_if('}') {
            return Ok(());
        }
        cursor.sign(',')?;
    }
}
