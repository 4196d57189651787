// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a thread, instruction by instruction, up to a barrier or to its end.

use crate::{
    alu,
    error::Fault,
    instruction::{Address, Compare, Load, Logic, Op, Outcome, Predicate, Slot, Store},
    integer::{Type, truncate},
    memory::{self, Access, Local, Moment, Segment, Segments, Shared},
    module::Kernel,
    space::Space,
};

/// A thread between two barriers.
#[derive(Clone, Debug, Default)]
pub struct Thread {
    /// The index of the next instruction.
    pub at: usize,
    pub stop: Option<Stop>,
    /// The carry that extended-precision instructions read and write (9.7.2).
    carry: Option<bool>,
    steps: u64,
    pub local: Local,
}

/// The reason why a thread stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    Ended,
    /// At the barrier instruction with the index `at`.
    Barrier {
        at: usize,
        number: u64,
        aligned: bool,
    },
}

/// Everything that a thread can access besides its own values.
pub struct World<'a> {
    pub kernel: &'a Kernel,
    pub buffers: &'a mut Segments,
    /// The module's own variables in global memory.
    pub variables: &'a mut Segments,
    pub constants: &'a mut Segments,
    pub shared: &'a mut Shared,
    pub params: &'a [u8],
    pub now: Moment,
    /// The number of threads of the block.
    pub threads: u32,
    /// The most instructions of a thread.
    pub max_steps: u64,
    /// See [`Machine::require_own_banks`](crate::Machine::require_own_banks).
    pub own_banks: bool,
}

impl World<'_> {
    #[inline]
    fn global(&mut self, address: u64, len: usize) -> Result<(&mut Segment, usize), Fault> {
        if address >= Segments::VARIABLES {
            self.variables.find(address, len)
        } else {
            self.buffers.find(address, len)
        }
    }

    /// Checks the bank of an access, if required. Shared memory has 32 banks of consecutive 32-bit
    /// words.
    fn bank(&self, address: u64) -> Result<(), Fault> {
        let (bank, lane) = (address / 4 % 32, u64::from(self.now.thread % 32));
        if self.own_banks && bank != lane {
            return Err(Fault::Bank { address, lane });
        }
        Ok(())
    }
}

impl Thread {
    /// Resets the thread to before its first instruction.
    pub fn start(&mut self, local: usize) {
        self.at = 0;
        self.stop = None;
        self.carry = None;
        self.steps = 0;
        self.local.reset(local);
    }

    /// Runs to the next barrier or to the end. `values` is the thread's file of values; a value is
    /// defined if its bit in `written` is set.
    ///
    /// After an error, `at` is the instruction that caused it.
    pub fn run(
        &mut self,
        world: &mut World<'_>,
        values: &mut [u64],
        written: &mut [u64],
    ) -> Result<Stop, Fault> {
        let code = &world.kernel.code;
        while let Some(instruction) = code.get(self.at) {
            self.steps += 1;
            if self.steps > world.max_steps {
                let steps = world.max_steps;
                return Err(Fault::Endless { steps });
            }
            let mut values = Values {
                values,
                written,
                kernel: world.kernel,
            };
            if let Some(guard) = instruction.guard
                && !values.predicate(guard)?
            {
                self.at += 1;
                continue;
            }
            match &instruction.op {
                Op::Branch { to } => {
                    self.at = *to;
                    continue;
                }
                Op::Return => return Ok(Stop::Ended),
                Op::Barrier {
                    number,
                    threads,
                    aligned,
                } => {
                    let number = values.read(*number)?;
                    let all = u64::from(world.threads);
                    let threads = threads.map_or(Ok(all), |slot| values.read(slot))?;
                    if number > 15 || threads != all {
                        return Err(Fault::BarrierOperands { number, threads });
                    }
                    let (at, aligned) = (self.at, *aligned);
                    self.at += 1;
                    return Ok(Stop::Barrier {
                        at,
                        number,
                        aligned,
                    });
                }
                op => self.step(op, world, &mut values)?,
            }
            self.at += 1;
        }
        self.at = code.len().saturating_sub(1);
        Err(Fault::NoReturn)
    }

    /// Runs an instruction that does not change the control flow.
    #[inline]
    fn step(
        &mut self,
        op: &Op,
        world: &mut World<'_>,
        values: &mut Values<'_>,
    ) -> Result<(), Fault> {
        match op {
            Op::Binary { f, t, d, a, b } => {
                let result = alu::binary(*f, *t, values.read(*a)?, values.read(*b)?);
                values.write(*d, result.ok_or(Fault::DivisionByZero)?);
            }
            Op::Ternary { f, t, d, a, b, c } => {
                let (a, b, c) = (values.read(*a)?, values.read(*b)?, values.read(*c)?);
                values.write(*d, alu::ternary(*f, *t, a, b, c));
            }
            Op::Load(load) => self.load(load, world, values)?,
            Op::Store(store) => self.store(store, world, values)?,
            Op::Mov { d, a } => values.write(*d, values.read(*a)?),
            Op::Convert {
                to,
                from,
                saturate,
                bits,
                d,
                a,
            } => {
                let result = alu::convert(*to, *from, *saturate, *bits, values.read(*a)?);
                values.write(*d, result);
            }
            Op::Unary { f, t, d, a } => values.write(*d, alu::unary(*f, *t, values.read(*a)?)),
            Op::Bfi {
                t,
                d,
                a,
                b,
                at,
                len,
            } => {
                let (a, b) = (values.read(*a)?, values.read(*b)?);
                let result = alu::bfi(*t, a, b, values.read(*at)?, values.read(*len)?);
                values.write(*d, result);
            }
            Op::Carry(carry) => {
                let [a, b, c] = [carry.a, carry.b, carry.c].map(|slot| values.read(slot));
                let carried = if carry.reads {
                    self.carry.ok_or(Fault::CarryUnset)?
                } else {
                    false
                };
                let (result, out) = alu::sum(carry.f, carry.t, a?, b?, c?, carried);
                if carry.writes {
                    self.carry = Some(out);
                }
                values.write(carry.d, result);
            }
            Op::Compare(compare) => values.compare(compare)?,
            Op::Select { d, a, b, p } => {
                let (a, b) = (values.read(*a)?, values.read(*b)?);
                let result = if values.read(*p)? == 1 { a } else { b };
                values.write(*d, result);
            }
            Op::Pack { bits, d, parts } => {
                let mut whole = 0;
                for part in parts.iter().rev() {
                    whole = whole << bits | values.read(*part)?;
                }
                values.write(*d, whole);
            }
            Op::Unpack { bits, parts, a } => {
                let mut whole = values.read(*a)?;
                for part in parts {
                    if let Some(d) = part {
                        values.write(*d, truncate(whole, *bits));
                    }
                    whole >>= bits;
                }
            }
            Op::ConvertAddress {
                space,
                to_space,
                d,
                a,
            } => {
                let (a, window) = (values.read(*a)?, space.window());
                let result = if *to_space {
                    a.wrapping_sub(window)
                } else {
                    a.wrapping_add(window)
                };
                values.write(*d, result);
            }
            // `run` handles these.
            Op::Fence | Op::Branch { .. } | Op::Return | Op::Barrier { .. } => {}
        }
        Ok(())
    }

    #[inline]
    fn load(
        &mut self,
        load: &Load,
        world: &mut World<'_>,
        values: &mut Values<'_>,
    ) -> Result<(), Fault> {
        let (space, address) = values.address(load.space, load.address)?;
        let size = load.t.bytes();
        aligned(space, address, size * load.d.len())?;
        for (i, d) in (0..).zip(&load.d) {
            let address = address + i * size as u64;
            let value = match space {
                Space::Shared => {
                    world.bank(address)?;
                    number(world.shared.read(address, size, world.now.thread)?)
                }
                Space::Const => {
                    let (segment, at) = world.constants.find(address, size)?;
                    number(&segment.bytes[at..at + size])
                }
                Space::Param => {
                    let at = memory::place(space, 0, world.params.len(), address, size)?;
                    number(&world.params[at..at + size])
                }
                Space::Local => self.local.read(address, size)?,
                Space::Global | Space::Generic => {
                    let now = world.now;
                    let (segment, at) = world.global(address, size)?;
                    let constant = load.constant;
                    segment.note(at, size, address, now, Access::Read { constant })?;
                    number(&segment.bytes[at..at + size])
                }
            };
            if let Some((d, bits)) = d {
                let value = sign_extended(load.t, value, *bits);
                values.write(*d, value);
            }
        }
        Ok(())
    }

    #[inline]
    fn store(
        &mut self,
        store: &Store,
        world: &mut World<'_>,
        values: &Values<'_>,
    ) -> Result<(), Fault> {
        let (space, address) = values.address(store.space, store.address)?;
        let size = store.t.bytes();
        aligned(space, address, size * store.a.len())?;
        for (i, a) in (0..).zip(&store.a) {
            let address = address + i * size as u64;
            let bytes = &values.read(*a)?.to_le_bytes()[..size];
            match space {
                Space::Shared => {
                    world.bank(address)?;
                    let to = world.shared.write(address, size, world.now.thread)?;
                    to.copy_from_slice(bytes);
                }
                Space::Local => self.local.write(address, bytes)?,
                Space::Const | Space::Param => return Err(Fault::ReadOnly { space, address }),
                Space::Global | Space::Generic => {
                    let now = world.now;
                    let (segment, at) = world.global(address, size)?;
                    segment.note(at, size, address, now, Access::Write)?;
                    segment.bytes[at..at + size].copy_from_slice(bytes);
                }
            }
        }
        Ok(())
    }
}

/// Returns the value of a register of `bits` bits after a load (9.4.1).
fn sign_extended(t: Type, value: u64, bits: u32) -> u64 {
    if t.signed {
        truncate(t.extend(value), bits)
    } else {
        value
    }
}

fn aligned(space: Space, address: u64, len: usize) -> Result<(), Fault> {
    // `len` is a power of two.
    match address & (len as u64 - 1) {
        0 => Ok(()),
        _ => Err(Fault::Misaligned {
            space,
            address,
            len,
        }),
    }
}

/// Returns the number in up to eight bytes, lowest first.
#[inline]
fn number(bytes: &[u8]) -> u64 {
    if let Ok(four) = bytes.try_into() {
        return u64::from(u32::from_le_bytes(four));
    }
    let mut whole = [0; 8];
    whole[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(whole)
}

/// A thread's file of values.
struct Values<'a> {
    values: &'a mut [u64],
    written: &'a mut [u64],
    kernel: &'a Kernel,
}

impl Values<'_> {
    #[inline]
    fn read(&self, slot: Slot) -> Result<u64, Fault> {
        if self.written[slot as usize / 64] >> (slot % 64) & 1 == 0 {
            return Err(self.unwritten(slot));
        }
        Ok(self.values[slot as usize])
    }

    #[cold]
    fn unwritten(&self, slot: Slot) -> Fault {
        let register = self.kernel.registers.get(&slot).cloned();
        Fault::Unwritten {
            register: register.unwrap_or_default(),
        }
    }

    #[inline]
    fn write(&mut self, slot: Slot, value: u64) {
        self.values[slot as usize] = value;
        self.written[slot as usize / 64] |= 1 << (slot % 64);
    }

    fn predicate(&self, predicate: Predicate) -> Result<bool, Fault> {
        Ok((self.read(predicate.slot)? == 1) != predicate.negated)
    }

    /// Returns the space, never the generic one, and the address in it.
    #[inline]
    fn address(&self, space: Space, address: Address) -> Result<(Space, u64), Fault> {
        let base = self.read(address.base)?;
        let address = base.wrapping_add_signed(address.offset);
        Ok(match space {
            Space::Generic => Space::of_generic(address),
            space => (space, address),
        })
    }

    fn compare(&mut self, compare: &Compare) -> Result<(), Fault> {
        let (a, b) = (self.read(compare.a)?, self.read(compare.b)?);
        let outcome = alu::compare(compare.f, compare.t, a, b);
        // 9.7.5.2: q is the opposite comparison, combined with the same predicate.
        let (p, q) = match compare.with {
            None => (outcome, !outcome),
            Some((logic, predicate)) => {
                let c = self.predicate(predicate)?;
                let join = |x: bool| match logic {
                    Logic::And => x & c,
                    Logic::Or => x | c,
                    Logic::Xor => x ^ c,
                };
                (join(outcome), join(!outcome))
            }
        };
        match compare.to {
            Outcome::Mask(d) => self.write(d, if p { 0xffff_ffff } else { 0 }),
            Outcome::Predicates(d, e) => {
                for (slot, value) in [(d, p), (e, q)] {
                    if let Some(slot) = slot {
                        self.write(slot, u64::from(value));
                    }
                }
            }
        }
        Ok(())
    }
}
