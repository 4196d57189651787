// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory of each state space: bounds, alignment, and the order of accesses.

use std::fmt;

use crate::{error::Fault, space::Space};

/// Bytes in segments that lie so far apart that a wrong index never reaches the next one.
#[derive(Clone, Debug)]
pub struct Segments {
    space: Space,
    base: u64,
    segments: Vec<Option<Segment>>,
}

/// A buffer or a variable.
#[derive(Clone, Debug)]
pub struct Segment {
    pub bytes: Vec<u8>,
    /// The last accesses to each word of 4 bytes; empty until the first access of a launch.
    touches: Vec<Touches>,
}

/// The distance between the beginnings of two segments: 64 GiB.
const SPACING: u32 = 36;

impl Segments {
    /// The first address of a module's own variables in global memory. Buffers are below it.
    pub const VARIABLES: u64 = 1 << 59;

    /// Creates an empty list of segments with addresses from `base` on.
    pub const fn new(space: Space, base: u64) -> Self {
        Self {
            space,
            base,
            segments: Vec::new(),
        }
    }

    /// Returns the offset from the base of the segment number `index`.
    pub const fn distance(index: usize) -> u64 {
        (index as u64 + 1) << SPACING
    }

    /// Adds a segment and returns its address. Addresses are never reused.
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

    /// Returns the segment that contains all `len` bytes, and their offset in it.
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

    /// Splits an address into the segment's index and the offset in it.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a usize has 64 bits on every machine with memory for this"
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

/// A thread at a moment, which determines the order of accesses to memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The launch, from 1.
    pub launch: u32,
    /// The block's number in its launch.
    pub block: u32,
    /// The number of barriers that the block has passed.
    pub phase: u32,
    /// The thread's number in its block.
    pub thread: u32,
}

/// Stands for several numbers.
const SEVERAL: u32 = u32::MAX;

impl Moment {
    /// Returns whether this access and one at the later moment `now` could also happen in the other
    /// order.
    fn is_unordered(self, now: Self) -> bool {
        self.launch == now.launch
            && (self.block != now.block || self.phase == now.phase && self.thread != now.thread)
    }

    /// Combines two moments, as far as that is possible.
    fn joined(self, other: Self) -> Self {
        if self.launch != other.launch || self == other {
            return other;
        }
        let same = |a: u32, b: u32| if a == b { a } else { SEVERAL };
        Self {
            launch: other.launch,
            block: same(self.block, other.block),
            // Accesses before a barrier that `other` has passed no longer matter.
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

/// The last accesses to a word.
#[derive(Clone, Copy, Debug, Default)]
struct Touches {
    written: Moment,
    read: Moment,
    /// The launch in which `ld.global.nc` read the word.
    constant: u32,
}

impl Touches {
    /// Records an access, or returns the one with which it conflicts.
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

/// The kind of an access to memory.
#[derive(Clone, Copy, Debug)]
pub enum Access {
    /// `constant`: by `ld.global.nc`.
    Read {
        constant: bool,
    },
    Write,
}

impl Segment {
    /// Records an access by a thread to `len` bytes at `at`, which has the global address
    /// `address`.
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

/// The threads that accessed a byte since the last barrier: a thread's number + 1, or 0.
#[derive(Clone, Copy, Debug, Default)]
struct Shadow {
    writer: u16,
    reader: u16,
    /// Whether the byte has been written in this block.
    initialised: bool,
}

/// Stands for several threads.
const MANY: u16 = u16::MAX;

impl Shared {
    /// The address of the first shared variable. Not 0, so that a kernel cannot rely on it: on
    /// compute capability 9.0 the system uses the first KiB.
    pub const BASE: u64 = 1024;

    /// Makes it `len` unwritten bytes.
    pub fn reset(&mut self, len: usize) {
        self.bytes.clear();
        self.bytes.resize(len, 0);
        self.shadow.clear();
        self.shadow.resize(len, Shadow::default());
    }

    /// Records that all threads have reached a barrier.
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
    /// The address of the first local variable. Address 0 would be a null pointer.
    pub const BASE: u64 = 1024;

    /// Makes it `len` unwritten bytes.
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

/// Returns the offset of `len` bytes at `address` in a memory of `size` bytes from `base` on.
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

/// Returns a thread's number + 1. A block has at most 1024 threads, so it fits.
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
