// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses instructions by name (the manual, 9.7). Names that are not here are unknown.

use super::body::{Body, Modifiers};
use crate::{
    error::{ParseError, ParseFault},
    instruction::{
        Binary, Carry, Compare, Comparison, Load, Logic, Op, Outcome, Permutation, Slot, Store,
        Sum, Ternary, Unary,
    },
    integer::Type,
    space::Space,
};

const INTEGERS: &str = "u16 u32 u64 s16 s32 s64";
const WIDE: &str = "u32 u64 s32 s64";
const BITS: &str = "b16 b32 b64";
const ANY: &str = "b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64";
const PREDICATE: u32 = Type::PREDICATE.bits;

/// Reads the operands of the instruction `name`, which has already been read.
pub fn parse<'a>(body: &mut Body<'_, 'a>, name: &'a str) -> Result<Op, ParseError> {
    let (opcode, mods) = Modifiers::split(name, body.cursor.line());
    let mut parser = Parser { body, mods };
    match opcode {
        "mov" => parser.mov(),
        "ld" => parser.load(),
        "st" => parser.store(),
        "cvt" => parser.convert(),
        "cvta" => parser.convert_address(),

        "add" => parser.add(Sum::Add, Binary::Add),
        "sub" => parser.add(Sum::Sub, Binary::Sub),
        "addc" => parser.carried(Sum::Add),
        "subc" => parser.carried(Sum::Sub),
        "mul" => parser.multiply(),
        "mad" | "madc" => parser.multiply_add(opcode == "madc"),
        "div" => parser.binary(Binary::Div, INTEGERS),
        "rem" => parser.binary(Binary::Rem, INTEGERS),
        "min" => parser.binary(Binary::Min, INTEGERS),
        "max" => parser.binary(Binary::Max, INTEGERS),
        "abs" => parser.unary(Unary::Abs, "s16 s32 s64"),
        "neg" => parser.unary(Unary::Neg, "s16 s32 s64"),
        "popc" => parser.count(Unary::Popc, "b32 b64"),
        "clz" => parser.count(Unary::Clz, "b32 b64"),
        "brev" => parser.unary(Unary::Brev, "b32 b64"),
        "bfind" => {
            let shift = parser.mods.take("shiftamt");
            let f = if shift {
                Unary::BfindShift
            } else {
                Unary::Bfind
            };
            parser.count(f, WIDE)
        }
        "bfe" => parser.bit_field_extract(),
        "bfi" => parser.bit_field_insert(),

        "and" => parser.binary(Binary::And, "pred b16 b32 b64"),
        "or" => parser.binary(Binary::Or, "pred b16 b32 b64"),
        "xor" => parser.binary(Binary::Xor, "pred b16 b32 b64"),
        "not" => parser.unary(Unary::Not, "pred b16 b32 b64"),
        "cnot" => parser.unary(Unary::LogicalNot, BITS),
        "lop3" => parser.lop3(),
        "shf" => parser.funnel_shift(),
        "shl" => parser.shift(Binary::Shl, BITS),
        "shr" => parser.shift(Binary::Shr, "b16 b32 b64 u16 u32 u64 s16 s32 s64"),
        "prmt" => parser.permute(),

        "setp" => parser.compare(true),
        "set" => parser.compare(false),
        "selp" => parser.select(),

        "bra" => parser.branch(),
        "ret" => {
            parser.mods.take("uni");
            parser.mods.end()?;
            Ok(Op::Return)
        }
        "exit" => {
            parser.mods.end()?;
            Ok(Op::Return)
        }
        "bar" => {
            parser.mods.take("cta");
            parser.barrier(true)
        }
        "barrier" => {
            parser.mods.take("cta");
            parser.barrier(false)
        }
        "membar" => {
            let levels = [("cta", ()), ("gl", ()), ("sys", ())];
            parser.mods.one_of("a level", &levels)?;
            parser.mods.end()?;
            Ok(Op::Fence)
        }
        "fence" => parser.fence(),
        _ => {
            let opcode = opcode.to_owned();
            Err(parser
                .body
                .cursor
                .error(ParseFault::UnknownOpcode { opcode }))
        }
    }
}

struct Parser<'b, 'c, 'a> {
    body: &'b mut Body<'c, 'a>,
    mods: Modifiers<'a>,
}

impl<'a> Parser<'_, '_, 'a> {
    /// Reads the type that ends the name.
    fn last_type(&mut self, allowed: &str) -> Result<Type, ParseError> {
        let t = self.mods.t(allowed)?;
        self.mods.end()?;
        Ok(t)
    }

    fn comma(&mut self) -> Result<(), ParseError> {
        self.body.cursor.sign(',')
    }

    fn next_source(&mut self, bits: u32) -> Result<Slot, ParseError> {
        self.comma()?;
        self.body.source(bits)
    }

    fn unary(&mut self, f: Unary, types: &str) -> Result<Op, ParseError> {
        let t = self.last_type(types)?;
        let d = self.body.destination(t.bits)?;
        let a = self.next_source(t.bits)?;
        Ok(Op::Unary { f, t, d, a })
    }

    /// Reads an instruction with a 32-bit result, whatever the width of its operand.
    fn count(&mut self, f: Unary, types: &str) -> Result<Op, ParseError> {
        let t = self.last_type(types)?;
        let d = self.body.destination(32)?;
        let a = self.next_source(t.bits)?;
        Ok(Op::Unary { f, t, d, a })
    }

    fn binary(&mut self, f: Binary, types: &str) -> Result<Op, ParseError> {
        let t = self.last_type(types)?;
        let d = self.body.destination(t.bits)?;
        let a = self.next_source(t.bits)?;
        let b = self.next_source(t.bits)?;
        Ok(Op::Binary { f, t, d, a, b })
    }

    /// Reads a shift. The amount has 32 bits, whatever the width of the operand.
    fn shift(&mut self, f: Binary, types: &str) -> Result<Op, ParseError> {
        let t = self.last_type(types)?;
        let d = self.body.destination(t.bits)?;
        let a = self.next_source(t.bits)?;
        let b = self.next_source(32)?;
        Ok(Op::Binary { f, t, d, a, b })
    }

    fn ternary(&mut self, f: Ternary, t: Type) -> Result<Op, ParseError> {
        self.mods.end()?;
        let d = self.body.destination(t.bits)?;
        let a = self.next_source(t.bits)?;
        let b = self.next_source(t.bits)?;
        let c = self.next_source(t.bits)?;
        Ok(Op::Ternary { f, t, d, a, b, c })
    }

    /// Reads `add`, `add.cc`, `sub` or `sub.cc`.
    fn add(&mut self, sum: Sum, plain: Binary) -> Result<Op, ParseError> {
        if self.mods.take("cc") {
            self.carry(sum, false, true)
        } else {
            self.binary(plain, INTEGERS)
        }
    }

    /// Reads `addc` or `subc`.
    fn carried(&mut self, f: Sum) -> Result<Op, ParseError> {
        let writes = self.mods.take("cc");
        self.carry(f, true, writes)
    }

    fn carry(&mut self, f: Sum, reads: bool, writes: bool) -> Result<Op, ParseError> {
        let t = self.last_type(WIDE)?;
        let d = self.body.destination(t.bits)?;
        let a = self.next_source(t.bits)?;
        let b = self.next_source(t.bits)?;
        let c = match f {
            Sum::Add | Sum::Sub => a,
            Sum::MadLo | Sum::MadHi => self.next_source(t.bits)?,
        };
        Ok(Op::Carry(Box::new(Carry {
            f,
            t,
            reads,
            writes,
            d,
            a,
            b,
            c,
        })))
    }

    fn multiply(&mut self) -> Result<Op, ParseError> {
        let f = self.mods.one_of(
            ".lo, .hi or .wide",
            &[
                ("lo", Binary::MulLo),
                ("hi", Binary::MulHi),
                ("wide", Binary::MulWide),
            ],
        )?;
        if f != Binary::MulWide {
            return self.binary(f, INTEGERS);
        }
        let t = self.last_type("u16 u32 s16 s32")?;
        let d = self.body.destination(2 * t.bits)?;
        let a = self.next_source(t.bits)?;
        let b = self.next_source(t.bits)?;
        Ok(Op::Binary { f, t, d, a, b })
    }

    fn multiply_add(&mut self, reads: bool) -> Result<Op, ParseError> {
        let f = self.mods.one_of(
            ".lo, .hi or .wide",
            &[
                ("lo", Ternary::MadLo),
                ("hi", Ternary::MadHi),
                ("wide", Ternary::MadWide),
            ],
        )?;
        if f == Ternary::MadWide && !reads {
            let t = self.last_type("u16 u32 s16 s32")?;
            let d = self.body.destination(2 * t.bits)?;
            let a = self.next_source(t.bits)?;
            let b = self.next_source(t.bits)?;
            let c = self.next_source(2 * t.bits)?;
            return Ok(Op::Ternary { f, t, d, a, b, c });
        }
        let writes = self.mods.take("cc");
        if reads || writes {
            let sum = match f {
                Ternary::MadLo => Sum::MadLo,
                _ => Sum::MadHi,
            };
            return self.carry(sum, reads, writes);
        }
        let t = self.mods.t(INTEGERS)?;
        self.ternary(f, t)
    }

    fn bit_field_extract(&mut self) -> Result<Op, ParseError> {
        let t = self.last_type(WIDE)?;
        let f = Ternary::Bfe;
        let d = self.body.destination(t.bits)?;
        let a = self.next_source(t.bits)?;
        let b = self.next_source(32)?;
        let c = self.next_source(32)?;
        Ok(Op::Ternary { f, t, d, a, b, c })
    }

    fn bit_field_insert(&mut self) -> Result<Op, ParseError> {
        let t = self.last_type("b32 b64")?;
        let d = self.body.destination(t.bits)?;
        let a = self.next_source(t.bits)?;
        let b = self.next_source(t.bits)?;
        let at = self.next_source(32)?;
        let len = self.next_source(32)?;
        Ok(Op::Bfi {
            t,
            d,
            a,
            b,
            at,
            len,
        })
    }

    fn lop3(&mut self) -> Result<Op, ParseError> {
        let t = self.mods.t("b32")?;
        let mut op = self.ternary(Ternary::Lop3(0), t)?;
        self.comma()?;
        let table = self.body.cursor.literal(8)?;
        if let Op::Ternary { f, .. } = &mut op {
            *f = Ternary::Lop3(table.to_le_bytes()[0]);
        }
        Ok(op)
    }

    fn funnel_shift(&mut self) -> Result<Op, ParseError> {
        let left = self.mods.one_of("a side", &[("l", true), ("r", false)])?;
        let modes = [("wrap", true), ("clamp", false)];
        let wrap = self.mods.one_of("a mode", &modes)?;
        let t = self.mods.t("b32")?;
        let f = if left {
            Ternary::ShfLeft { wrap }
        } else {
            Ternary::ShfRight { wrap }
        };
        self.ternary(f, t)
    }

    fn permute(&mut self) -> Result<Op, ParseError> {
        let t = self.mods.t("b32")?;
        let mode = self.mods.choose(&[
            ("f4e", Permutation::ForwardExtract),
            ("b4e", Permutation::BackwardExtract),
            ("rc8", Permutation::Replicate8),
            ("ecl", Permutation::ClampLeft),
            ("ecr", Permutation::ClampRight),
            ("rc16", Permutation::Replicate16),
        ]);
        self.ternary(Ternary::Prmt(mode.unwrap_or(Permutation::Generic)), t)
    }

    /// Reads `setp.lt.and.u32 p|q, a, b, !r` or `set.lt.u32.s32 d, a, b`.
    fn compare(&mut self, predicates: bool) -> Result<Op, ParseError> {
        let (f, order) = self.mods.one_of(
            "a comparison",
            &[
                ("eq", (Comparison::Eq, "")),
                ("ne", (Comparison::Ne, "")),
                ("lt", (Comparison::Lt, INTEGERS)),
                ("le", (Comparison::Le, INTEGERS)),
                ("gt", (Comparison::Gt, INTEGERS)),
                ("ge", (Comparison::Ge, INTEGERS)),
                ("lo", (Comparison::Lt, "u16 u32 u64")),
                ("ls", (Comparison::Le, "u16 u32 u64")),
                ("hi", (Comparison::Gt, "u16 u32 u64")),
                ("hs", (Comparison::Ge, "u16 u32 u64")),
            ],
        )?;
        let logic =
            self.mods
                .choose(&[("and", Logic::And), ("or", Logic::Or), ("xor", Logic::Xor)]);
        if !predicates {
            self.mods.t("u32 s32")?;
        }
        let all = "b16 b32 b64 u16 u32 u64 s16 s32 s64";
        let t = self.last_type(if order.is_empty() { all } else { order })?;
        let to = if predicates {
            let p = self.predicate_or_sink()?;
            let q = if self.body.cursor.sign_if('|') {
                self.predicate_or_sink()?
            } else {
                None
            };
            Outcome::Predicates(p, q)
        } else {
            Outcome::Mask(self.body.destination(32)?)
        };
        let a = self.next_source(t.bits)?;
        let b = self.next_source(t.bits)?;
        let with = match logic {
            None => None,
            Some(logic) => {
                self.comma()?;
                Some((logic, self.body.predicate()?))
            }
        };
        Ok(Op::Compare(Box::new(Compare {
            f,
            t,
            a,
            b,
            with,
            to,
        })))
    }

    fn predicate_or_sink(&mut self) -> Result<Option<Slot>, ParseError> {
        if self.body.cursor.word_if("_") {
            return Ok(None);
        }
        self.body.destination(PREDICATE).map(Some)
    }

    fn select(&mut self) -> Result<Op, ParseError> {
        let t = self.last_type("b16 b32 b64 u16 u32 u64 s16 s32 s64")?;
        let d = self.body.destination(t.bits)?;
        let a = self.next_source(t.bits)?;
        let b = self.next_source(t.bits)?;
        self.comma()?;
        let p = self.body.destination(PREDICATE)?;
        Ok(Op::Select { d, a, b, p })
    }

    fn mov(&mut self) -> Result<Op, ParseError> {
        let t = self.last_type("pred b16 b32 b64 u16 u32 u64 s16 s32 s64")?;
        if self.body.cursor.peek_sign(0, '{') {
            let bits = self.bits_of_parts(t)?;
            let parts = self.vector(|body| {
                if body.cursor.word_if("_") {
                    Ok(None)
                } else {
                    body.destination(bits).map(Some)
                }
            })?;
            let a = self.next_source(t.bits)?;
            return Ok(Op::Unpack { bits, parts, a });
        }
        let d = self.body.destination(t.bits)?;
        self.comma()?;
        if self.body.cursor.peek_sign(0, '{') {
            let bits = self.bits_of_parts(t)?;
            let parts = self.vector(|body| body.source(bits))?;
            return Ok(Op::Pack { bits, d, parts });
        }
        let a = self.body.source(t.bits)?;
        Ok(Op::Mov { d, a })
    }

    /// Returns the width of each part of a value of type `t`, by the number of parts in the braces
    /// that follow.
    fn bits_of_parts(&self, t: Type) -> Result<u32, ParseError> {
        match (t.bits, self.body.cursor.commas_before('}') + 1) {
            (32, 2) | (64, 4) => Ok(16),
            (64, 2) => Ok(32),
            _ => Err(self.body.cursor.unexpected("two or four parts of the type")),
        }
    }

    /// Reads `{a, b}`, each element with `element`.
    fn vector<T>(
        &mut self,
        mut element: impl FnMut(&mut Body<'_, 'a>) -> Result<T, ParseError>,
    ) -> Result<Vec<T>, ParseError> {
        let mut elements = Vec::new();
        self.body.cursor.sign('{')?;
        loop {
            elements.push(element(self.body)?);
            if self.body.cursor.sign_if('}') {
                return Ok(elements);
            }
            self.comma()?;
        }
    }

    fn space(&mut self, writable: bool) -> Space {
        const SPACES: [(&str, Space); 5] = [
            ("global", Space::Global),
            ("shared", Space::Shared),
            ("local", Space::Local),
            ("const", Space::Const),
            ("param", Space::Param),
        ];
        let known = if writable { &SPACES[..3] } else { &SPACES[..] };
        self.mods.choose(known).unwrap_or(Space::Generic)
    }

    /// Reads the ordering of an access (8.4). It has no effect, because threads never overlap here.
    fn ordering(&mut self) -> Result<(), ParseError> {
        if self.mods.take("volatile") || self.mods.take("weak") {
            return Ok(());
        }
        if self.mods.take("relaxed") {
            let scopes = [("cta", ()), ("gpu", ()), ("sys", ())];
            self.mods.one_of("a scope", &scopes)?;
        }
        Ok(())
    }

    fn load(&mut self) -> Result<Op, ParseError> {
        self.ordering()?;
        let space = self.space(false);
        // The cache operators (9.7.8.1) only affect speed.
        let caches = [("ca", ()), ("cg", ()), ("cs", ()), ("lu", ()), ("cv", ())];
        self.mods.choose(&caches);
        let constant = space == Space::Global && self.mods.take("nc");
        let count = self.count_of_vector();
        let t = self.last_type(ANY)?;
        let d = self.elements(count, |body| {
            if body.cursor.word_if("_") {
                Ok(None)
            } else {
                body.wide_destination(t.bits).map(Some)
            }
        })?;
        self.comma()?;
        let address = self.body.address(space)?;
        Ok(Op::Load(Box::new(Load {
            space,
            constant,
            t,
            d,
            address,
        })))
    }

    fn store(&mut self) -> Result<Op, ParseError> {
        self.ordering()?;
        let space = self.space(true);
        let caches = [("wb", ()), ("cg", ()), ("cs", ()), ("wt", ())];
        self.mods.choose(&caches);
        let count = self.count_of_vector();
        let t = self.last_type(ANY)?;
        let address = self.body.address(space)?;
        self.comma()?;
        let a = self.elements(count, |body| body.wide_source(t.bits))?;
        Ok(Op::Store(Box::new(Store {
            space,
            t,
            a,
            address,
        })))
    }

    fn count_of_vector(&mut self) -> usize {
        self.mods.choose(&[("v2", 2), ("v4", 4)]).unwrap_or(1)
    }

    /// Reads one element, or `count` elements in braces.
    fn elements<T>(
        &mut self,
        count: usize,
        mut element: impl FnMut(&mut Body<'_, 'a>) -> Result<T, ParseError>,
    ) -> Result<Vec<T>, ParseError> {
        if count == 1 {
            return Ok(vec![element(self.body)?]);
        }
        let elements = self.vector(element)?;
        if elements.len() == count {
            Ok(elements)
        } else {
            Err(self
                .body
                .cursor
                .syntax(&format!("{count} elements"), "another number"))
        }
    }

    fn convert(&mut self) -> Result<Op, ParseError> {
        let integers = "u8 u16 u32 u64 s8 s16 s32 s64";
        let saturate = self.mods.take("sat");
        let to = self.mods.t(integers)?;
        let from = self.last_type(integers)?;
        let (d, bits) = self.body.wide_destination(to.bits)?;
        self.comma()?;
        let a = self.body.wide_source(from.bits)?;
        Ok(Op::Convert {
            to,
            from,
            saturate,
            bits,
            d,
            a,
        })
    }

    /// Reads `cvta.shared.u64` or `cvta.to.shared.u64`.
    fn convert_address(&mut self) -> Result<Op, ParseError> {
        let to_space = self.mods.take("to");
        let spaces = [
            ("global", Space::Global),
            ("shared", Space::Shared),
            ("local", Space::Local),
            ("const", Space::Const),
            ("param", Space::Param),
        ];
        let space = self.mods.one_of("a state space", &spaces)?;
        let t = self.last_type("u64")?;
        let d = self.body.destination(t.bits)?;
        let a = self.next_source(t.bits)?;
        Ok(Op::ConvertAddress {
            space,
            to_space,
            d,
            a,
        })
    }

    fn branch(&mut self) -> Result<Op, ParseError> {
        // `.uni` promises that no warp diverges here.
        self.mods.take("uni");
        self.mods.end()?;
        let label = self.body.cursor.word()?;
        Ok(self.body.branch(label))
    }

    fn barrier(&mut self, aligned: bool) -> Result<Op, ParseError> {
        self.mods.one_of("what it does", &[("sync", ())])?;
        let aligned = aligned || self.mods.take("aligned");
        self.mods.end()?;
        let number = self.body.source(32)?;
        let threads = if self.body.cursor.peek_sign(0, ',') {
            Some(self.next_source(32)?)
        } else {
            None
        };
        Ok(Op::Barrier {
            number,
            threads,
            aligned,
        })
    }

    fn fence(&mut self) -> Result<Op, ParseError> {
        self.mods.choose(&[("sc", ()), ("acq_rel", ())]);
        let scopes = [("cta", ()), ("gpu", ()), ("sys", ())];
        self.mods.one_of("a scope", &scopes)?;
        self.mods.end()?;
        Ok(Op::Fence)
    }
}
