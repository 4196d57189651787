// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of each state space: bounds, alignment, and who touched what.

use std::fmt;

use crate::{error::Fault, space::Space};

/// Bytes in pieces that lie so far apart that no wrong index reaches the next.
#[derive(Clone, Debug)]
pub struct Segments {
    space: Space,
    base: u64,
    segments: Vec<Option<Segment>>,
}

/// A buffer or variable.
#[derive(Clone, Debug)]
pub struct Segment {
    pub bytes: Vec<u8>,
    /// Who touched each word of 4 bytes; empty until a launch touches any.
    touches: Vec<Touches>,
}

/// Between the first bytes of two segments: 64 GiB.
const SPACING: u32 = 36;

impl Segments {
    /// The first address of a module's own variables in global memory. Below are buffers.
    pub const VARIABLES: u64 = 1 << 59;

    /// With addresses behind `base`.
    pub const fn new(space: Space, base: u64) -> Self {
        Self {
            space,
            base,
            segments: Vec::new(),
        }
    }

    /// How far behind the base the segment is that is added as number `index`.
    pub const fn distance(index: usize) -> u64 {
        (index as u64 + 1) << SPACING
    }

    /// Adds a segment and tells its address. Addresses are never used again.
    pub fn add(&mut self, bytes: Vec<u8>) -> u64 {
        self.segments.push(Some(Segment {
            bytes,
            touches: Vec::new(),
        }));
        self.base + Self::distance(self.segments.len() - 1)
    }

    pub fn remove(&mut self, address: u64) -> Option<Segment> {
        let (index, 0) = self.split(address)? else {
            return None;
        };
        self.segments.get_mut(index)?.take()
    }

    /// The segment in which all `len` bytes lie, and where.
    pub fn find(&mut self, address: u64, len: usize) -> Result<(&mut Segment, usize), Fault> {
        self.split(address)
            .and_then(|(index, at)| Some((self.segments.get_mut(index)?.as_mut()?, at)))
            .filter(|(segment, at)| len <= segment.bytes.len().saturating_sub(*at))
            .ok_or(Fault::OutOfBounds {
                space: self.space,
                address,
                len,
            })
    }

    /// The segment's index, and the offset in it.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a usize has 64 bits wherever there is memory for this"
    )]
    const fn split(&self, address: u64) -> Option<(usize, usize)> {
        let Some(distance) = address.checked_sub(self.base) else {
            return None;
        };
        match (distance >> SPACING).checked_sub(1) {
            None => None,
            Some(index) => Some((index as usize, (distance & ((1 << SPACING) - 1)) as usize)),
        }
    }
}

/// A thread at a moment: what orders accesses to memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The launch, from 1.
    pub launch: u32,
    /// The block's number in its launch.
    pub block: u32,
    /// How many barriers the block has passed.
    pub phase: u32,
    /// The thread's number in its block.
    pub thread: u32,
}

/// In place of a number: several.
const SEVERAL: u32 = u32::MAX;

impl Moment {
    /// Whether something at this moment and something at a later `now` may as well
    /// happen the other way round.
    fn is_unordered(self, now: Self) -> bool {
        self.launch == now.launch
            && (self.block != now.block || self.phase == now.phase && self.thread != now.thread)
    }

    /// Both of them, as far as that can be told.
    fn joined(self, other: Self) -> Self {
        if self.launch != other.launch || self == other {
            return other;
        }
        let same = |a: u32, b: u32| if a == b { a } else { SEVERAL };
        Self {
            launch: other.launch,
            block: same(self.block, other.block),
            // What was before a barrier that `other` is behind no longer matters.
            phase: other.phase,
            thread: if self.phase == other.phase || self.block != other.block {
                same(self.thread, other.thread)
            } else {
                other.thread
            },
        }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.block, self.thread) {
            (SEVERAL, _) => f.write_str("threads of several blocks"),
            (block, SEVERAL) => write!(f, "several threads of block {block}"),
            (block, thread) => write!(f, "thread {thread} of block {block}"),
        }
    }
}

/// Who touched a word last.
#[derive(Clone, Copy, Debug, Default)]
struct Touches {
    written: Moment,
    read: Moment,
    /// The launch in which `ld.global.nc` read it.
    constant: u32,
}

impl Touches {
    /// Notes an access, or tells with whom it races.
    fn note(&mut self, now: Moment, access: Access) -> Result<(), Clash> {
        if self.written.is_unordered(now) {
            return Err(Clash::Race(self.written));
        }
        match access {
            Access::Read { constant } => {
                if constant {
                    if self.written.launch == now.launch {
                        return Err(Clash::Constant);
                    }
                    self.constant = now.launch;
                }
                self.read = self.read.joined(now);
            }
            Access::Write => {
                if self.read.is_unordered(now) {
                    return Err(Clash::Race(self.read));
                }
                if self.constant == now.launch {
                    return Err(Clash::Constant);
                }
                self.written = now;
            }
        }
        Ok(())
    }
}

enum Clash {
    Race(Moment),
    Constant,
}

/// How memory is accessed.
#[derive(Clone, Copy, Debug)]
pub enum Access {
    /// `constant`: by `ld.global.nc`.
    Read {
        constant: bool,
    },
    Write,
}

impl Segment {
    /// Notes an access by a thread to `len` bytes at `at`, whose global address is `address`.
    pub fn note(
        &mut self,
        at: usize,
        len: usize,
        address: u64,
        now: Moment,
        access: Access,
    ) -> Result<(), Fault> {
        if self.touches.is_empty() {
            self.touches = vec![Touches::default(); self.bytes.len().div_ceil(4)];
        }
        for touches in &mut self.touches[at / 4..(at + len).div_ceil(4)] {
            touches.note(now, access).map_err(|clash| match clash {
                Clash::Race(other) => Fault::Race {
                    space: Space::Global,
                    address,
                    other: other.to_string(),
                },
                Clash::Constant => Fault::NotConstant { address },
            })?;
        }
        Ok(())
    }
}

/// The shared memory of one block.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    bytes: Vec<u8>,
    shadow: Vec<Shadow>,
}

/// Who touched a byte since the last barrier: a thread's number + 1, or 0.
#[derive(Clone, Copy, Debug, Default)]
struct Shadow {
    writer: u16,
    reader: u16,
    /// Written at all in this block.
    initialised: bool,
}

/// In place of a thread: several.
const MANY: u16 = u16::MAX;

impl Shared {
    /// Where shared variables begin: not at 0, as on compute capability 9.0, where
    /// the first KiB is the system's. A kernel must not count on 0.
    pub const BASE: u64 = 1024;

    /// Makes it `len` bytes that nobody has written.
    pub fn reset(&mut self, len: usize) {
        self.bytes.clear();
        self.bytes.resize(len, 0);
        self.shadow.clear();
        self.shadow.resize(len, Shadow::default());
    }

    /// All threads have reached a barrier.
    pub fn barrier(&mut self) {
        for shadow in &mut self.shadow {
            shadow.writer = 0;
            shadow.reader = 0;
        }
    }

    pub fn read(&mut self, address: u64, len: usize, thread: u32) -> Result<&[u8], Fault> {
        let at = self.place(address, len)?;
        let me = tag(thread);
        for (i, shadow) in self.shadow[at..at + len].iter_mut().enumerate() {
            if !shadow.initialised {
                return Err(Fault::Uninitialised {
                    space: Space::Shared,
                    address: address + i as u64,
                });
            }
            if shadow.writer != 0 && shadow.writer != me {
                return Err(race(address, shadow.writer));
            }
            if shadow.reader != me {
                shadow.reader = if shadow.reader == 0 { me } else { MANY };
            }
        }
        Ok(&self.bytes[at..at + len])
    }

    pub fn write(&mut self, address: u64, len: usize, thread: u32) -> Result<&mut [u8], Fault> {
        let at = self.place(address, len)?;
        let me = tag(thread);
        for shadow in &mut self.shadow[at..at + len] {
            for other in [shadow.writer, shadow.reader] {
                if other != 0 && other != me {
                    return Err(race(address, other));
                }
            }
            shadow.writer = me;
            shadow.initialised = true;
        }
        Ok(&mut self.bytes[at..at + len])
    }

    fn place(&self, address: u64, len: usize) -> Result<usize, Fault> {
        place(Space::Shared, Self::BASE, self.bytes.len(), address, len)
    }
}

/// The local memory of one thread.
#[derive(Clone, Debug, Default)]
pub struct Local {
    bytes: Vec<Option<u8>>,
}

impl Local {
    /// Where local variables begin: an address of 0 would be a null pointer.
    pub const BASE: u64 = 1024;

    /// Makes it `len` bytes that nobody has written.
    pub fn reset(&mut self, len: usize) {
        self.bytes.clear();
        self.bytes.resize(len, None);
    }

    pub fn read(&self, address: u64, len: usize) -> Result<u64, Fault> {
        let at = self.place(address, len)?;
        let mut value = 0;
        for (i, byte) in self.bytes[at..at + len].iter().enumerate() {
            let byte = byte.ok_or(Fault::Uninitialised {
                space: Space::Local,
                address: address + i as u64,
            })?;
            value |= u64::from(byte) << (8 * i);
        }
        Ok(value)
    }

    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        let at = self.place(address, bytes.len())?;
        for (to, from) in self.bytes[at..].iter_mut().zip(bytes) {
            *to = Some(*from);
        }
        Ok(())
    }

    fn place(&self, address: u64, len: usize) -> Result<usize, Fault> {
        place(Space::Local, Self::BASE, self.bytes.len(), address, len)
    }
}

/// The offset of `len` bytes at `address` in a memory of `size` bytes from `base`.
pub fn place(
    space: Space,
    base: u64,
    size: usize,
    address: u64,
    len: usize,
) -> Result<usize, Fault> {
    address
        .checked_sub(base)
        .and_then(|at| usize::try_from(at).ok())
        .filter(|at| len <= size.saturating_sub(*at))
        .ok_or(Fault::OutOfBounds {
            space,
            address,
            len,
        })
}

/// A block has at most 1024 threads.
fn tag(thread: u32) -> u16 {
    u16::try_from(thread + 1).unwrap_or(MANY)
}

fn race(address: u64, other: u16) -> Fault {
    Fault::Race {
        space: Space::Shared,
        address,
        other: match other {
            MANY => "several threads".to_owned(),
            tag => format!("thread {}", tag - 1),
        },
    }
}
