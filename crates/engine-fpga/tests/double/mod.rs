// SPDX-License-Identifier: MIT OR Apache-2.0
//! A double of the core behind its registers and streams. It models the promises of `rtl/` by their
//! effect, with the reference's cipher. It can break each of its promises once.

#![allow(dead_code, reason = "each test program uses only a part of it")]

use std::{
    collections::VecDeque,
    mem,
    sync::{Arc, Mutex, MutexGuard},
};

use luxor_conformance::Random;
use luxor_engine_fpga::{Transport, TransportError, registers as reg};
use luxor_reference as reference;

/// A broken promise. Faults with a `descriptor` happen at the descriptor with this number, counted
/// since the double was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The ID is wrong.
    Id,
    /// The major version is wrong.
    Version,
    /// After `after` accesses, every read and write times out.
    Dead { after: u64 },
    /// After `after` accesses, reads return all ones, as from a board that has left its bus.
    AllOnes { after: u64 },
    /// After `after` accesses, one read is answered with an error.
    BusError { after: u64 },
    /// The stream into the core fails once.
    Send { descriptor: u64 },
    /// From the middle of this answer on, no beat leaves the core.
    Stuck { descriptor: u64 },
    /// The descriptor ends with another status.
    Status { descriptor: u64, code: u32 },
    /// The descriptor is done, but there is no answer.
    AnswerLost { descriptor: u64 },
    /// The answer lacks a beat.
    AnswerShort { descriptor: u64 },
    /// The answer has an extra beat.
    AnswerLong { descriptor: u64 },
    /// A null beat precedes the answer.
    NullBeat { descriptor: u64 },
    /// The answer never ends.
    Babble { descriptor: u64 },
    /// The answer comes, but HEAD stays.
    NeverDone { descriptor: u64 },
    /// HEAD is greater than the number of submitted descriptors.
    HeadJumps { descriptor: u64 },
    /// The descriptor's status word stays empty.
    NoStatus { descriptor: u64 },
    /// Key commands never end.
    KeyStuck,
    /// The next key command has this result.
    KeyResult { code: u32 },
    /// The next reset, not counting the first, never ends.
    ResetStuck,
    /// The next reset, not counting the first, leaves HEAD unchanged.
    ResetIgnored,
}

/// The transport to a [`Core`], which tests can inspect.
#[derive(Clone)]
pub struct Double(Arc<Mutex<Core>>);

impl Double {
    pub fn new() -> Self {
        Self::with(&Options::default())
    }

    pub fn with(options: &Options) -> Self {
        Self(Arc::new(Mutex::new(Core::new(options))))
    }

    pub fn core(&self) -> MutexGuard<'_, Core> {
        self.0.lock().unwrap()
    }

    /// Makes the core fail with `fault` from now on.
    pub fn break_with(&self, fault: Fault) {
        self.core().fault = Some(fault);
    }
}

/// How to build a core.
#[derive(Clone, Debug)]
pub struct Options {
    /// Blocks of a beat: 1, 2 or 4.
    pub lanes: u32,
    /// The seed for stalls on every interface, if any.
    pub stalls: Option<u64>,
    /// Cycles from one beat of output to the next.
    pub pace: u64,
    /// Bits 7 to 4 of CONFIG: decryption, encryption, AES-256, AES-128.
    pub has: u32,
    /// Whether it has counter mode.
    pub ctr: bool,
    pub ring_log2: u32,
    pub fault: Option<Fault>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            lanes: 1,
            stalls: None,
            pace: 1,
            has: 15,
            ctr: true,
            ring_log2: 5,
            fault: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySlot {
    Empty,
    /// The data key, then the tweak key.
    Key(Vec<u8>),
    /// A key with equal halves was refused.
    Equal,
}

/// An entry of the queue to the output.
enum Out {
    Beat {
        bytes: Vec<u8>,
        keep: bool,
        last: bool,
    },
    /// The end of a descriptor, after its last beat.
    Done { status: u32 },
}

struct Active {
    /// The descriptor's number since the double was created.
    number: u64,
    unit_len: usize,
    units: u32,
    first: u128,
    stride: u64,
    flags: u32,
    /// The beats of the current unit.
    unit: Vec<u8>,
    unit_index: u32,
    /// If set, the rest of the packet is discarded, and the descriptor ends with this status.
    swallow: Option<Swallow>,
}

struct Swallow {
    status: u32,
    null_beat: bool,
}

pub struct Core {
    config: u32,
    beat_len: usize,
    enable: bool,
    tail: u32,
    head: u32,
    taken: u32,
    key_words: [u32; 16],
    key_status: u32,
    pub slots: [KeySlot; 4],
    slots_in_use: [u32; 4],
    ring: Vec<u32>,
    cycles: u64,
    beats_out: u64,
    latched: u32,
    zeroising: bool,

    input: VecDeque<(Vec<u8>, bool)>,
    rooms: VecDeque<usize>,
    answer: Vec<u8>,
    answers: VecDeque<Vec<u8>>,
    queue: VecDeque<Out>,
    active: Option<Active>,
    /// Descriptors before the last reset.
    before: u64,
    stuck: bool,
    babbles: bool,
    pub irq_enable: u32,
    irq_status: u32,
    /// The level at which the interrupt line is stuck.
    pub irq_stuck: Option<bool>,

    stalls: Option<Random>,
    pace: u64,
    pub fault: Option<Fault>,
    accesses: u64,
    resets: u32,
    /// The number of words written to the ring.
    pub ring_writes: u64,
    /// The number of key commands that load.
    pub loads: u64,
    /// The number of waits for an interrupt.
    pub waits: u64,
}

/// The length of the queue to the output. The core accepts no new unit while the queue is longer.
const QUEUE: usize = 64;

impl Core {
    fn new(options: &Options) -> Self {
        let tweak = 2;
        let (stages, latency) = (2, 29);
        Self {
            config: latency << 24
                | u32::from(options.ctr) << 21
                | options.ring_log2 << 16
                | stages << 12
                | tweak << 8
                | options.has << 4
                | options.lanes,
            beat_len: 16 * options.lanes as usize,
            enable: false,
            tail: 0,
            head: 0,
            taken: 0,
            key_words: [0; 16],
            key_status: 0,
            slots: [const { KeySlot::Empty }; 4],
            slots_in_use: [0; 4],
            ring: vec![0xdead_beef; 32 * 16],
            cycles: 0,
            beats_out: 0,
            latched: 0,
            zeroising: false,
            input: VecDeque::new(),
            rooms: VecDeque::new(),
            answer: Vec::new(),
            answers: VecDeque::new(),
            queue: VecDeque::new(),
            active: None,
            before: 0,
            stuck: false,
            babbles: false,
            irq_enable: 0,
            irq_status: 0,
            irq_stuck: None,
            stalls: options.stalls.map(Random::new),
            pace: options.pace,
            fault: options.fault,
            accesses: 0,
            resets: 0,
            ring_writes: 0,
            loads: 0,
            waits: 0,
        }
    }

    /// Returns whether the core holds neither keys nor data.
    pub fn is_clean(&self) -> bool {
        self.slots.iter().all(|slot| *slot == KeySlot::Empty)
            && self.key_words == [0; 16]
            && self.input.is_empty()
            && self.answers.is_empty()
            && self.answer.is_empty()
            && self.queue.is_empty()
            && self.active.is_none()
    }

    fn reset(&mut self) {
        self.resets += 1;
        let ignored = self.resets > 1 && self.fault == Some(Fault::ResetIgnored);
        let stuck = self.resets > 1 && self.fault == Some(Fault::ResetStuck);
        if ignored || stuck {
            self.fault = None;
        }
        self.before += u64::from(self.taken);
        let options = Options::default();
        let keep = (self.head, self.accesses, self.resets, self.before);
        let counts = (self.ring_writes, self.loads, self.waits);
        let streams = (mem::take(&mut self.input), mem::take(&mut self.rooms));
        *self = Self {
            config: self.config,
            beat_len: self.beat_len,
            stalls: self.stalls.take(),
            pace: self.pace,
            fault: self.fault,
            irq_stuck: self.irq_stuck,
            ..Self::new(&options)
        };
        (self.accesses, self.resets, self.before) = (keep.1, keep.2, keep.3);
        (self.ring_writes, self.loads, self.waits) = counts;
        (self.input, self.rooms) = streams;
        self.zeroising = stuck;
        if ignored {
            self.head = keep.0.max(1);
            self.tail = self.head;
        }
    }

    /// Returns whether an interface stalls in this cycle.
    fn stalls(&mut self, of_eight: usize) -> bool {
        match &mut self.stalls {
            Some(random) => random.below(8) < of_eight,
            None => false,
        }
    }

    fn is_broken(&mut self, fault: Fault) -> bool {
        let broken = self.fault == Some(fault);
        if broken {
            self.fault = None;
        }
        broken
    }

    fn step(&mut self) {
        self.cycles += 1;
        if self.cycles.is_multiple_of(self.pace) && !self.stalls(3) {
            self.step_output();
        }
        if self.active.is_none() && self.enable && self.taken != self.tail {
            self.take_descriptor();
        }
        if self.queue.len() < QUEUE && !self.stalls(3) {
            self.step_input();
        }
    }

    fn step_output(&mut self) {
        if self.stuck
            || (self.rooms.is_empty() && !matches!(self.queue.front(), Some(Out::Done { .. })))
        {
            return;
        }
        if self.babbles {
            self.beats_out += 1;
            return;
        }
        match self.queue.pop_front() {
            None => {}
            Some(Out::Beat { bytes, keep, last }) => {
                self.beats_out += 1;
                if keep {
                    self.answer.extend(bytes);
                }
                if last {
                    self.rooms.pop_front();
                    self.answers.push_back(mem::take(&mut self.answer));
                }
                // The end of a descriptor comes in the same cycle as its last beat.
                if last && matches!(self.queue.front(), Some(Out::Done { .. })) {
                    self.step_output();
                }
            }
            Some(Out::Done { status }) => self.done(status),
        }
    }

    fn done(&mut self, status: u32) {
        let number = self.before + u64::from(self.head);
        let place = (self.head % 32) as usize * 16;
        let slot = (self.ring[place + 8] & 0xff) as usize;
        if let Some(count) = self.slots_in_use.get_mut(slot) {
            *count -= 1;
        }
        let mut word = reg::DONE | status;
        if self.is_broken(Fault::NoStatus { descriptor: number }) {
            word = 0;
        }
        self.ring[place + 15] = word;
        if self.is_broken(Fault::NeverDone { descriptor: number }) {
            self.stuck = true;
            return;
        }
        self.head = self.head.wrapping_add(1);
        self.irq_status |= reg::IRQ_DONE;
        if self.is_broken(Fault::HeadJumps { descriptor: number }) {
            self.head = self.tail.wrapping_add(5);
        }
    }

    fn take_descriptor(&mut self) {
        let place = (self.taken % 32) as usize * 16;
        self.ring[place + 15] = 0;
        let word = |i: usize| self.ring[place + i];
        let long = |i: usize| u64::from(word(i + 1)) << 32 | u64::from(word(i));
        let number = self.before + u64::from(self.taken);
        let (unit_len, units, flags) = (word(6) as usize, word(7), word(8));
        let slot = (flags & 0xff) as usize;
        let mode = flags & reg::MODE_MASK;
        let has_ctr = self.config >> 21 & 1 == 1;
        let direction = if flags & reg::FLAG_DECRYPT != 0 { 8 } else { 4 };
        let mut status = if unit_len == 0 || units == 0 {
            1
        } else if unit_len < 16 && !(has_ctr && mode == reg::MODE_CTR) {
            2
        } else if unit_len > 1 << 24 {
            3
        } else if slot >= 4 {
            4
        } else if self.slots[slot] == KeySlot::Empty {
            5
        } else if self.slots[slot] == KeySlot::Equal {
            6
        } else if match mode {
            reg::MODE_XTS | reg::MODE_ECB => self.config >> 4 & direction == 0,
            reg::MODE_CTR => !has_ctr,
            _ => true,
        } {
            7
        } else if mode == reg::MODE_ECB && unit_len % 16 != 0 {
            8
        } else {
            0
        };
        if let Some(Fault::Status { descriptor, code }) = self.fault
            && descriptor == number
        {
            self.fault = None;
            status = code;
        }
        let active = Active {
            number,
            unit_len,
            units,
            first: u128::from(long(2)) << 64 | u128::from(long(0)),
            stride: long(4),
            flags,
            unit: Vec::new(),
            unit_index: 0,
            swallow: (status != 0).then_some(Swallow {
                status,
                null_beat: true,
            }),
        };
        self.taken = self.taken.wrapping_add(1);
        if let Some(count) = self.slots_in_use.get_mut(slot) {
            *count += 1;
        }
        if unit_len as u64 * u64::from(units) == 0 {
            self.queue.push_back(Out::Done { status });
        } else {
            self.active = Some(active);
        }
    }

    fn step_input(&mut self) {
        let Some(mut active) = self.active.take() else {
            return;
        };
        let Some((beat, last)) = self.input.pop_front() else {
            self.active = Some(active);
            return;
        };
        if let Some(swallow) = &active.swallow {
            if last {
                if swallow.null_beat {
                    self.null_beat();
                }
                let status = swallow.status;
                self.queue.push_back(Out::Done { status });
            } else {
                self.active = Some(active);
            }
            return;
        }
        active.unit.extend(beat);
        if active.unit.len() < active.unit_len {
            if last {
                // The incomplete unit is lost; the core would output a part of it.
                self.null_beat();
                self.queue.push_back(Out::Done { status: 9 });
            } else {
                self.active = Some(active);
            }
            return;
        }
        let padded = self.crypt(&mut active);
        active.unit_index += 1;
        let is_last_unit = active.unit_index == active.units;
        self.push_unit(&padded, is_last_unit, active.number);
        match (is_last_unit, last) {
            (true, true) => self.queue.push_back(Out::Done { status: 0 }),
            (true, false) => {
                active.swallow = Some(Swallow {
                    status: 10,
                    null_beat: false,
                });
                self.active = Some(active);
            }
            (false, true) => {
                self.null_beat();
                self.queue.push_back(Out::Done { status: 9 });
            }
            (false, false) => self.active = Some(active),
        }
    }

    fn null_beat(&mut self) {
        self.queue.push_back(Out::Beat {
            bytes: vec![0; self.beat_len],
            keep: false,
            last: true,
        });
    }

    fn push_unit(&mut self, padded: &[u8], is_last_unit: bool, number: u64) {
        if self.fault == Some(Fault::AnswerLost { descriptor: number }) {
            // As if the answer had never existed.
            if is_last_unit {
                self.fault = None;
                self.rooms.pop_back();
            }
            return;
        }
        if self.is_broken(Fault::NullBeat { descriptor: number }) {
            self.queue.push_back(Out::Beat {
                bytes: vec![0; self.beat_len],
                keep: false,
                last: false,
            });
        }
        let mut beats: Vec<_> = padded.chunks(self.beat_len).map(<[u8]>::to_vec).collect();
        if is_last_unit && self.is_broken(Fault::AnswerShort { descriptor: number }) {
            beats.pop();
            if beats.is_empty() {
                self.null_beat();
                return;
            }
        }
        if is_last_unit && self.is_broken(Fault::AnswerLong { descriptor: number }) {
            beats.push(vec![0; self.beat_len]);
        }
        if is_last_unit && self.is_broken(Fault::Stuck { descriptor: number }) {
            self.stuck = true;
        }
        let babbles = is_last_unit && self.is_broken(Fault::Babble { descriptor: number });
        self.babbles |= babbles;
        let count = beats.len();
        for (i, bytes) in beats.into_iter().enumerate() {
            let last = is_last_unit && !babbles && i + 1 == count;
            self.queue.push_back(Out::Beat {
                bytes,
                keep: true,
                last,
            });
        }
    }

    /// Returns the unit's result, padded to whole beats.
    fn crypt(&mut self, active: &mut Active) -> Vec<u8> {
        let KeySlot::Key(key) = &self.slots[(active.flags & 0xff) as usize] else {
            panic!("a key is never removed while descriptors use it");
        };
        let number = u128::from(active.unit_index).wrapping_mul(active.stride.into());
        let number = active.first.wrapping_add(number);
        active.unit.truncate(active.unit_len);
        let decrypt = active.flags & reg::FLAG_DECRYPT != 0;
        let data_key = &key[..key.len() / 2];
        let mut result = match (active.flags & reg::MODE_MASK, decrypt) {
            (reg::MODE_XTS, false) => reference::xts_encrypt(key, number, &active.unit),
            (reg::MODE_XTS, true) => reference::xts_decrypt(key, number, &active.unit),
            (reg::MODE_ECB, false) => reference::ecb_encrypt(data_key, &active.unit),
            (reg::MODE_ECB, true) => reference::ecb_decrypt(data_key, &active.unit),
            _ => reference::ctr(data_key, number, &active.unit),
        };
        active.unit.clear();
        result.resize(result.len().next_multiple_of(self.beat_len), 0);
        result
    }

    fn key_command(&mut self, value: u32) {
        let slot = (value >> 8 & 0xff) as usize;
        let size = if value & reg::KEY_LONG != 0 { 32 } else { 16 };
        let has_size = self.config >> 4 & if size == 32 { 2 } else { 1 } != 0;
        let words: Vec<u8> = self
            .key_words
            .iter()
            .flat_map(|w| w.to_le_bytes())
            .collect();
        let (data, tweak) = (&words[..size], &words[32..][..size]);
        let load = value & 3 == reg::KEY_LOAD;
        self.loads += u64::from(load);
        if self.is_broken(Fault::KeyStuck) {
            self.key_status = reg::KEY_STATUS_BUSY;
            return;
        }
        if let Some(Fault::KeyResult { code }) = self.fault {
            self.fault = None;
            self.key_status = code << 4;
            return;
        }
        let code = if slot >= 4 {
            2
        } else if self.slots_in_use[slot] > 0 {
            3
        } else if load && !has_size {
            4
        } else if load && data == tweak {
            self.slots[slot] = KeySlot::Equal;
            1
        } else {
            self.slots[slot] = if load {
                KeySlot::Key([data, tweak].concat())
            } else {
                KeySlot::Empty
            };
            0
        };
        self.key_words = [0; 16];
        self.key_status = code << 4;
        self.irq_status |= 2;
    }

    fn irq(&self) -> bool {
        let level = self.irq_status & self.irq_enable != 0;
        self.irq_stuck.unwrap_or(level)
    }

    fn read(&mut self, register: u16) -> u32 {
        match register {
            reg::ID if self.fault == Some(Fault::Id) => 0x1234_5678,
            reg::ID => 0x4c58_5453,
            reg::VERSION if self.fault == Some(Fault::Version) => 0x0002_0000,
            // A higher minor version changes nothing.
            reg::VERSION => 0x0001_0003,
            reg::CONFIG => self.config,
            reg::CONTROL => u32::from(self.enable),
            reg::STATUS => {
                let busy = self.active.is_some() || self.head != self.tail;
                u32::from(busy) | u32::from(self.zeroising) << 2
            }
            reg::IRQ_ENABLE => self.irq_enable,
            reg::IRQ_STATUS => self.irq_status,
            reg::TAIL => self.tail,
            reg::HEAD => self.head,
            reg::KEY_STATUS => self.key_status,
            reg::SLOT_STATE => (0..).zip(&self.slots).fold(0, |states, (i, slot)| {
                let state = match slot {
                    KeySlot::Empty => 0,
                    KeySlot::Key(key) => [1, 2][key.len() / 64],
                    KeySlot::Equal => 3,
                };
                states | state << (2 * i)
            }),
            reg::CYCLES => self.latch(self.cycles),
            reg::BEATS_OUT => self.latch(self.beats_out),
            0x084 | 0x08c => self.latched,
            reg::RING.. => self.ring[usize::from(register - reg::RING) / 4],
            _ => 0,
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "the halves")]
    fn latch(&mut self, value: u64) -> u32 {
        self.latched = (value >> 32) as u32;
        value as u32
    }

    fn write(&mut self, register: u16, value: u32) {
        match register {
            reg::CONTROL => {
                self.enable = value & reg::CONTROL_ENABLE != 0;
                if value & reg::CONTROL_RESET != 0 {
                    self.reset();
                }
            }
            reg::IRQ_ENABLE => self.irq_enable = value & 3,
            reg::IRQ_STATUS => self.irq_status &= !value,
            reg::TAIL => {
                assert!(value.wrapping_sub(self.head) <= 32, "the ring overflows");
                self.tail = value;
            }
            reg::KEY_COMMAND => self.key_command(value),
            0x040..0x080 => self.key_words[usize::from(register - 0x040) / 4] = value,
            reg::RING.. => {
                let at = usize::from(register - reg::RING) / 4;
                assert!(at % 16 < 9, "only the core writes this word");
                self.ring_writes += 1;
                self.ring[at] = value;
            }
            _ => {}
        }
    }

    /// Runs the cycles of an access, and fails it if a fault is due.
    fn access(&mut self, register: u16) -> Result<(), TransportError> {
        self.accesses += 1;
        let cycles = 5 + if self.stalls(4) { 20 } else { 0 };
        for _ in 0..cycles {
            self.step();
        }
        match self.fault {
            Some(Fault::Dead { after }) if self.accesses > after => {
                Err(TransportError::Dead { register })
            }
            Some(Fault::BusError { after }) if self.accesses > after => {
                self.fault = None;
                Err(TransportError::Bus { register })
            }
            _ => Ok(()),
        }
    }
}

impl Transport for Double {
    fn read(&mut self, register: u16) -> Result<u32, TransportError> {
        assert_eq!(register % 4, 0);
        let mut core = self.core();
        core.access(register)?;
        match core.fault {
            Some(Fault::AllOnes { after }) if core.accesses > after => Ok(u32::MAX),
            _ => Ok(core.read(register)),
        }
    }

    fn write(&mut self, register: u16, value: u32) -> Result<(), TransportError> {
        assert_eq!(register % 4, 0);
        let mut core = self.core();
        core.access(register)?;
        core.write(register, value);
        Ok(())
    }

    fn send(&mut self, packet: &[u8]) -> Result<(), TransportError> {
        let mut core = self.core();
        let descriptor = core.before + u64::from(core.tail);
        if core.is_broken(Fault::Send { descriptor }) {
            return Err(TransportError::Other("the cable is out".into()));
        }
        let beat_len = core.beat_len;
        assert!(!packet.is_empty() && packet.len().is_multiple_of(beat_len));
        let count = packet.len() / beat_len;
        for (i, beat) in packet.chunks(beat_len).enumerate() {
            core.input.push_back((beat.to_vec(), i + 1 == count));
        }
        core.rooms.push_back(packet.len());
        Ok(())
    }

    fn receive(&mut self, answer: &mut [u8], limit: u64) -> Result<Option<usize>, TransportError> {
        let mut core = self.core();
        for _ in 0..limit {
            if let Some(found) = core.answers.pop_front() {
                let len = found.len().min(answer.len());
                answer[..len].copy_from_slice(&found[..len]);
                return Ok(Some(found.len()));
            }
            core.step();
        }
        Ok(None)
    }

    fn wait(&mut self, limit: u64) -> Result<bool, TransportError> {
        let mut core = self.core();
        core.waits += 1;
        for _ in 0..limit {
            if core.irq() {
                break;
            }
            core.step();
        }
        Ok(core.irq())
    }

    fn abort(&mut self) -> Result<(), TransportError> {
        let mut core = self.core();
        core.input.clear();
        core.rooms.clear();
        core.answer.clear();
        core.answers.clear();
        Ok(())
    }
}
