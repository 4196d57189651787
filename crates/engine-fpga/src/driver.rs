// SPDX-License-Identifier: MIT OR Apache-2.0
//! The core's driver: key slots, the ring of descriptors, and data in beats.
//!
//! One thread at a time uses the driver. It keeps the ring full: it submits descriptors while
//! earlier ones are under way, so that the core goes from one to the next without a pause.
//!
//! The driver waits for the end of a descriptor in one of two ways ([`Waiting`]). Resets and key
//! commands are always polled, because they take less time than an interrupt.
//!
//! An interrupt only ends a wait early. What it means is always read from HEAD, and a wait without
//! an interrupt ends too, after which the driver polls. So an interrupt for several descriptors,
//! one for none, one that is lost and a line that never falls cost time, but no answer.
//!
//! After a wrong or missing answer, the driver trusts nothing that the core reports until
//! [`Driver::reset`], which zeroises the core's keys and ends its packets.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicU64, Ordering},
};

use luxor_engine::{AesKey, AesSize, DataUnitNumber, Direction, XtsKey};
use zeroize::Zeroizing;

pub use crate::error::{DescriptorError, DriverError, KeyError};
use crate::{
    registers::{self as reg, Config},
    transport::Transport,
};

/// The core counts as hanging if no beat leaves it for this many cycles while the driver waits for
/// one: 5 ms at 200 MHz.
const PATIENCE: u64 = 1_000_000;

/// The core also counts as hanging if a register has not reached its expected value after this many
/// reads. Everything that is polled takes less than a thousand cycles, and a read takes at least
/// one.
const POLLS: u32 = 100_000;

/// How a driver waits for the end of a descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waiting {
    /// By waiting for the answer and then reading HEAD. The default: while the ring is full there is
    /// little to wait for, and nothing is faster.
    #[default]
    Polling,
    /// By [`Transport::wait`], so that a board's processor is free for other work until the core
    /// is done. It pays if descriptors take longer than an interrupt.
    Interrupts,
}

/// A core and the work under way in it.
///
/// The order of calls for a descriptor is [`Driver::seat`], [`Driver::submit`] and
/// [`Driver::complete`]; after the last one, [`Driver::settle`]. The answers of all descriptors can
/// be trusted only once `settle` has succeeded. After a fatal error ([`DriverError::is_fatal`]) the
/// core is lost until [`Driver::reset`].
#[derive(Debug)]
pub struct Driver<T: Transport> {
    transport: T,
    config: Config,
    waiting: Waiting,
    /// Whether the core's state is unknown.
    lost: bool,
    slots: [Slot; reg::SLOTS],
    /// Counts uses of slots, so that the least recently used slot can be found.
    now: u64,
    /// The known contents of the core's ring. Words that do not change are not written again: they
    /// are the majority, and a write takes as long as several beats.
    ring: [Option<[u32; WORDS]>; reg::RING_LEN as usize],
    under_way: VecDeque<UnderWay>,
    /// The number of descriptors submitted since the reset, of those completed, and of those that
    /// the core last reported as done.
    tail: u32,
    completed: u32,
    head: u32,
    /// The most beats that can have left the core since the reset, and the beats of completed
    /// descriptors.
    beats_due: u64,
    beats_seen: u64,
    blocks: u64,
    /// The counts before the last reset.
    before: Counters,
}

const WORDS: usize = reg::DESCRIPTOR_WORDS as usize;

/// The driver's view of a key slot.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    key: Option<KeyId>,
    used: u64,
    under_way: u32,
}

#[derive(Clone, Copy, Debug)]
struct UnderWay {
    slot: u8,
    /// Bytes of the packet.
    len: usize,
    blocks: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeyId(u64);

/// A key in the form that a slot takes. Its owner must call [`Driver::forget`] before dropping it.
#[derive(Debug)]
pub struct SlotKey {
    id: KeyId,
    data: AesKey,
    tweak: AesKey,
}

impl SlotKey {
    /// Creates a key for XTS.
    #[must_use]
    pub fn xts(key: &XtsKey) -> Self {
        Self::new(key.data_key().clone(), key.tweak_key().clone())
    }

    /// Creates a key for ECB and CTR. The core demands a tweak key that differs from the data key, so the
    /// slot also gets the complement of `key`, which has no effect.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn aes(key: &AesKey) -> Self {
        // A slot always holds a tweak key too, which must differ from the data key.
        let other: Zeroizing<Vec<u8>> = Zeroizing::new(key.expose().iter().map(|b| !b).collect());
        Self::new(
            key.clone(),
            AesKey::new(&other).expect("it has the length of `key`, which is valid"),
        )
    }

    fn new(data: AesKey, tweak: AesKey) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);

        Self {
            id: KeyId(NEXT.fetch_add(1, Ordering::Relaxed)),
            data,
            tweak,
        }
    }

    fn size(&self) -> AesSize {
        self.data.size()
    }
}

/// The mode of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreMode {
    /// XTS.
    Xts,
    /// ECB.
    Ecb,
    /// Counter mode: SP 800-38A, 6.5, with a counter of 128 bits, big-endian. Only a core with
    /// [`Config::has_ctr`] has it. The number of a unit is its first counter, and both directions are
    /// the same.
    Ctr,
}

/// The work of the core on a packet of `units` data units of `unit_len` bytes. Each unit begins on
/// a beat of its own ([`crate::beats`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The first unit's number. Has no effect in ECB, like the stride.
    pub first: DataUnitNumber,
    /// The step from one unit's number to the next.
    pub stride: u64,
    /// Bytes of a unit: 16 to 2²⁴ in XTS, a multiple of 16 of them in ECB, 1 to 2²⁴ in CTR.
    pub unit_len: u32,
    /// Number of units, at least 1.
    pub units: u32,
    /// The key's slot, from [`Driver::seat`].
    pub slot: u8,
    /// Encryption or decryption.
    pub direction: Direction,
    /// The mode.
    pub mode: CoreMode,
}

impl Descriptor {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "splits numbers into 32-bit words"
    )]
    fn words(&self) -> [u32; WORDS] {
        let first = self.first.get();
        let mut flags = u32::from(self.slot);
        if self.direction == Direction::Decrypt {
            flags |= reg::FLAG_DECRYPT;
        }
        flags |= match self.mode {
            CoreMode::Xts => reg::MODE_XTS,
            CoreMode::Ecb => reg::MODE_ECB,
            CoreMode::Ctr => reg::MODE_CTR,
        };
        [
            first as u32,
            (first >> 32) as u32,
            (first >> 64) as u32,
            (first >> 96) as u32,
            self.stride as u32,
            (self.stride >> 32) as u32,
            self.unit_len,
            self.units,
            flags,
        ]
    }
}

/// The result of a descriptor.
#[derive(Debug)]
pub struct Completion {
    /// The status that the core reports.
    pub status: Result<(), DescriptorError>,
    /// Bytes of the answer: those of the packet if the descriptor succeeded.
    pub len: usize,
}

/// What a core has done since its driver was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Clock cycles.
    pub cycles: u64,
    /// Beats that left the core.
    pub beats: u64,
    /// Blocks of the data units that were completed without an error, including partial blocks.
    pub blocks: u64,
}

impl<T: Transport> Driver<T> {
    /// Identifies the core and resets it.
    ///
    /// # Errors
    /// [`DriverError`] if there is no such core, if it has another register map, or if it does not
    /// answer.
    pub fn new(mut transport: T) -> Result<Self, DriverError> {
        check_id(&mut transport)?;
        let found = transport.read(reg::VERSION)?;
        // A higher minor version only adds registers.
        if found >> 16 != reg::VERSION_VALUE >> 16 {
            return Err(DriverError::Version { found });
        }
        let bits = transport.read(reg::CONFIG)?;
        let config = Config::from_bits(bits);
        if !matches!(config.lanes(), 1 | 2 | 4) || config.ring_len() != reg::RING_LEN {
            return Err(DriverError::Config { bits });
        }
        let mut driver = Self {
            transport,
            config,
            waiting: Waiting::default(),
            lost: true,
            slots: Default::default(),
            now: 0,
            ring: Default::default(),
            under_way: VecDeque::new(),
            tail: 0,
            completed: 0,
            head: 0,
            beats_due: 0,
            beats_seen: 0,
            blocks: 0,
            before: Counters::default(),
        };
        driver.restart()?;
        Ok(driver)
    }

    /// Returns how the core was built.
    #[must_use]
    pub fn config(&self) -> Config {
        self.config
    }

    /// Returns the connection to the core.
    pub fn transport(&mut self) -> &mut T {
        &mut self.transport
    }

    /// Sets how the driver waits for the ends of descriptors from now on.
    ///
    /// # Errors
    /// [`DriverError`], always fatal.
    pub fn set_waiting(&mut self, waiting: Waiting) -> Result<(), DriverError> {
        self.waiting = waiting;
        self.watched(Self::enable_interrupts)
    }

    fn enable_interrupts(&mut self) -> Result<(), DriverError> {
        let enabled = match self.waiting {
            Waiting::Polling => 0,
            Waiting::Interrupts => reg::IRQ_DONE,
        };
        Ok(self.transport.write(reg::IRQ_ENABLE, enabled)?)
    }

    /// Returns whether an error has occurred after which only [`Driver::reset`] helps.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// Resets the core: it discards the work under way and zeroises its keys.
    ///
    /// # Errors
    /// [`DriverError`] if the reset fails. The core is then lost.
    pub fn reset(&mut self) -> Result<(), DriverError> {
        self.lost = true;
        // A board that has left its bus reads as all ones.
        check_id(&mut self.transport)?;
        if let Ok(counters) = self.all_counters() {
            self.before = counters;
            self.blocks = 0;
        }
        self.restart()
    }

    fn restart(&mut self) -> Result<(), DriverError> {
        self.lost = true;
        self.slots = Default::default();
        self.ring = Default::default();
        self.under_way.clear();
        (self.tail, self.completed, self.head) = (0, 0, 0);
        (self.beats_due, self.beats_seen) = (0, 0);

        // Stop the streams first: the rest of a packet must not be taken for the beginning of the
        // next one.
        self.transport.abort()?;
        self.transport.write(reg::CONTROL, reg::CONTROL_RESET)?;
        let busy = reg::STATUS_BUSY | reg::STATUS_KEY_BUSY | reg::STATUS_ZEROISING;
        self.poll(reg::STATUS, "a reset", |status| status & busy == 0)?;
        for register in [reg::TAIL, reg::HEAD] {
            let found = self.transport.read(register)?;
            if found != 0 {
                return Err(DriverError::NotReset { register, found });
            }
        }
        if self.waiting == Waiting::Interrupts {
            self.enable_interrupts()?;
        }
        self.transport.write(reg::CONTROL, reg::CONTROL_ENABLE)?;
        self.lost = false;
        Ok(())
    }

    /// Returns the slot of `key`, loading the key if necessary. It then replaces the key of the
    /// least recently used slot without descriptors under way. Returns `None` if all slots have
    /// descriptors under way; the caller must then complete some.
    ///
    /// # Errors
    /// [`DriverError::Key`] if the core refuses the key. All other errors are fatal.
    pub fn seat(&mut self, key: &SlotKey) -> Result<Option<u8>, DriverError> {
        self.watched(|driver| {
            driver.now += 1;
            let found = driver.slot_of(key).or_else(|| {
                // Empty slots have the time 0, so they come first.
                let free = (0..).zip(&driver.slots);
                let free = free.filter(|(_, slot)| slot.under_way == 0);
                free.min_by_key(|(_, slot)| slot.used).map(|(i, _)| i)
            });
            let Some(index) = found else {
                return Ok(None);
            };
            let slot = &mut driver.slots[usize::from(index)];
            if slot.key != Some(key.id) {
                *slot = Slot::default();
                driver.load(key, index)?;
            }
            let slot = &mut driver.slots[usize::from(index)];
            (slot.key, slot.used) = (Some(key.id), driver.now);
            Ok(Some(index))
        })
    }

    fn slot_of(&self, key: &SlotKey) -> Option<u8> {
        let mut slots = (0..).zip(&self.slots);
        slots
            .find(|(_, slot)| slot.key == Some(key.id))
            .map(|(i, _)| i)
    }

    fn load(&mut self, key: &SlotKey, slot: u8) -> Result<(), DriverError> {
        if !self.config.has_key_size(key.size()) {
            return Err(KeyError::Size.into());
        }
        for (register, key) in [(reg::KEY_DATA, &key.data), (reg::KEY_TWEAK, &key.tweak)] {
            let words = key.expose().chunks_exact(4);
            for (register, word) in (register..).step_by(4).zip(words) {
                let word = u32::from_le_bytes(word.try_into().expect("chunks have four bytes"));
                self.transport.write(register, word)?;
            }
        }
        let size = match key.size() {
            AesSize::Aes256 => reg::KEY_LONG,
            _ => 0,
        };
        self.command(reg::KEY_LOAD | size, slot)
    }

    fn command(&mut self, command: u32, slot: u8) -> Result<(), DriverError> {
        let command = command | u32::from(slot) << 8;
        self.transport.write(reg::KEY_COMMAND, command)?;
        let status = self.poll(reg::KEY_STATUS, "a key command", |status| {
            status & reg::KEY_STATUS_BUSY == 0
        })?;
        Ok(KeyError::of_code(status >> 4 & 15)?)
    }

    /// Zeroises the slot of `key`, if it has one. A lost core is reset instead.
    ///
    /// # Errors
    /// [`KeyError::InUse`] if descriptors with this key are under way. After any other error the
    /// core is lost, and the key may still be in it.
    pub fn forget(&mut self, key: &SlotKey) -> Result<(), DriverError> {
        if self.lost {
            return self.reset();
        }
        self.watched(|driver| {
            let Some(index) = driver.slot_of(key) else {
                return Ok(());
            };
            let slot = &mut driver.slots[usize::from(index)];
            if slot.under_way > 0 {
                return Err(KeyError::InUse.into());
            }
            *slot = Slot::default();
            // Any failure is fatal here: unlike a refused key, a key that stays is not acceptable.
            driver
                .command(reg::KEY_CLEAR, index)
                .map_err(|error| DriverError::NotCleared {
                    cause: Box::new(error),
                })
        })
    }

    /// Returns how many descriptors can be submitted now.
    #[must_use]
    pub fn room(&self) -> usize {
        reg::RING_LEN as usize - self.under_way.len()
    }

    /// Returns how many descriptors are under way.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Submits a descriptor and its packet without waiting for the result. The packet consists of
    /// whole beats ([`beats::pack`](crate::beats::pack)). An empty packet is not sent, as for a
    /// descriptor without units.
    ///
    /// # Errors
    /// [`DriverError`], always fatal. Errors that the core finds in a descriptor are in its
    /// [`Completion`].
    ///
    /// # Panics
    /// If [`Driver::room`] is 0. Some transports also panic if the packet does not consist of whole
    /// beats.
    pub fn submit(&mut self, descriptor: &Descriptor, packet: &[u8]) -> Result<(), DriverError> {
        assert!(self.room() > 0, "the ring is full");
        self.watched(|driver| {
            let place = driver.tail % reg::RING_LEN;
            let words = descriptor.words();
            let known = driver.ring[place as usize].take();
            for (i, word) in (0..).zip(words) {
                if known.is_none_or(|known| known[usize::from(i)] != word) {
                    driver.transport.write(ring_word(place, i), word)?;
                }
            }
            driver.ring[place as usize] = Some(words);
            if !packet.is_empty() {
                driver.transport.send(packet)?;
                // Plus the null beat that an answer may end with after an error.
                driver.beats_due += (packet.len() / driver.config.beat_len()) as u64 + 1;
            }
            let blocks = u64::from(descriptor.unit_len.div_ceil(16)) * u64::from(descriptor.units);
            driver.under_way.push_back(UnderWay {
                slot: descriptor.slot,
                len: packet.len(),
                blocks,
            });
            if let Some(slot) = driver.slots.get_mut(usize::from(descriptor.slot)) {
                slot.under_way += 1;
            }
            driver.tail = driver.tail.wrapping_add(1);
            Ok(driver.transport.write(reg::TAIL, driver.tail)?)
        })
    }

    /// Waits for the oldest descriptor under way, and writes its answer to the first bytes of
    /// `answer`. `answer` must have room for as many bytes as the packet had.
    ///
    /// # Errors
    /// [`DriverError`], always fatal: the core hangs or contradicts itself.
    ///
    /// # Panics
    /// If no descriptor is under way, or `answer` is too short.
    pub fn complete(&mut self, answer: &mut [u8]) -> Result<Completion, DriverError> {
        let next = *self.under_way.front().expect("a descriptor is under way");
        let answer = &mut answer[..next.len];
        self.watched(|driver| {
            if driver.waiting == Waiting::Interrupts && driver.head == driver.completed {
                driver.sleep()?;
            }
            let len = match next.len {
                0 => 0,
                _ => driver.receive(answer)?,
            };
            if driver.head == driver.completed {
                let completed = driver.completed;
                let head = driver.poll(reg::HEAD, "a descriptor", |head| head != completed)?;
                driver.believe_head(head)?;
            }
            let place = driver.completed % reg::RING_LEN;
            let status = driver
                .transport
                .read(ring_word(place, reg::DESCRIPTOR_STATUS))?;
            if status & reg::DONE == 0 {
                return Err(DriverError::NotDone { status });
            }
            let status = DescriptorError::of_status(status);
            if status.is_ok() && len != next.len {
                let expected = next.len;
                return Err(DriverError::AnswerLen {
                    expected,
                    found: len,
                });
            }
            driver.beats_seen += (len / driver.config.beat_len()) as u64;
            driver.beats_seen += u64::from(ends_with_null_beat(status) && next.len > 0);
            driver.completed = driver.completed.wrapping_add(1);
            driver.under_way.pop_front();
            if let Some(slot) = driver.slots.get_mut(usize::from(next.slot)) {
                slot.under_way -= 1;
            }
            if status.is_ok() {
                driver.blocks += next.blocks;
            }
            Ok(Completion { status, len })
        })
    }

    /// Checks that the core is idle, and that no beats came out except those of the answers. Until
    /// this succeeds, an answer may belong to another descriptor.
    ///
    /// # Errors
    /// [`DriverError::Babbles`] if the number of beats is wrong; all errors are fatal.
    ///
    /// # Panics
    /// If a descriptor is under way.
    pub fn settle(&mut self) -> Result<(), DriverError> {
        assert!(self.under_way.is_empty(), "a descriptor is under way");
        self.watched(|driver| {
            let head = driver.transport.read(reg::HEAD)?;
            driver.believe_head(head)?;
            let (found, due) = (driver.read_long(reg::BEATS_OUT)?, driver.beats_seen);
            if found != due {
                return Err(DriverError::Babbles { found, due });
            }
            Ok(())
        })
    }

    /// Waits for an interrupt with which HEAD moves. Returns without one if no beats come out any
    /// more, or after [`POLLS`] interrupts that mean nothing.
    ///
    /// The interrupt is cleared before HEAD is read, so a descriptor that ends after this reading
    /// has raised it again: none is missed between two calls.
    fn sleep(&mut self) -> Result<(), DriverError> {
        let mut last = None;
        for _ in 0..POLLS {
            let interrupted = self.transport.wait(PATIENCE)?;
            self.transport.write(reg::IRQ_STATUS, reg::IRQ_DONE)?;
            let head = self.transport.read(reg::HEAD)?;
            self.believe_head(head)?;
            if self.head != self.completed {
                break;
            }
            if !interrupted && !self.progresses(&mut last)? {
                break;
            }
        }
        Ok(())
    }

    fn receive(&mut self, answer: &mut [u8]) -> Result<usize, DriverError> {
        let mut last = None;
        loop {
            if let Some(len) = self.transport.receive(answer, PATIENCE)? {
                return Ok(len);
            }
            // A long packet may take longer than `PATIENCE`, so go on while beats come out.
            if !self.progresses(&mut last)? {
                let head = self.transport.read(reg::HEAD)?;
                self.believe_head(head)?;
                return Err(if self.head == self.completed {
                    DriverError::Hangs { cycles: PATIENCE }
                } else {
                    DriverError::AnswerLost
                });
            }
        }
    }

    /// Returns whether beats have come out since the last call with this `last`, which is `None` at
    /// first.
    fn progresses(&mut self, last: &mut Option<u64>) -> Result<bool, DriverError> {
        let (found, due) = (self.read_long(reg::BEATS_OUT)?, self.beats_due);
        if found > due {
            return Err(DriverError::Babbles { found, due });
        }
        Ok(last.replace(found).is_none_or(|last| found > last))
    }

    /// Checks that `head` is between the descriptors completed and those submitted.
    fn believe_head(&mut self, head: u32) -> Result<(), DriverError> {
        let done = head.wrapping_sub(self.completed);
        if done > self.tail.wrapping_sub(self.completed) {
            let (tail, completed) = (self.tail, self.completed);
            return Err(DriverError::Head {
                head,
                completed,
                tail,
            });
        }
        self.head = head;
        Ok(())
    }

    /// Returns what the core has done since the driver was created.
    ///
    /// # Errors
    /// [`DriverError`], always fatal.
    pub fn counters(&mut self) -> Result<Counters, DriverError> {
        self.watched(Self::all_counters)
    }

    fn all_counters(&mut self) -> Result<Counters, DriverError> {
        Ok(Counters {
            cycles: self
                .read_long(reg::CYCLES)?
                .wrapping_add(self.before.cycles),
            beats: self
                .read_long(reg::BEATS_OUT)?
                .wrapping_add(self.before.beats),
            blocks: self.blocks + self.before.blocks,
        })
    }

    fn read_long(&mut self, register: u16) -> Result<u64, DriverError> {
        let low = self.transport.read(register)?;
        let high = self.transport.read(register + 4)?;
        Ok(u64::from(high) << 32 | u64::from(low))
    }

    /// Reads a register until `is_so` holds for its value, and returns that value.
    fn poll(
        &mut self,
        register: u16,
        what: &'static str,
        is_so: impl Fn(u32) -> bool,
    ) -> Result<u32, DriverError> {
        for _ in 0..POLLS {
            let value = self.transport.read(register)?;
            if is_so(value) {
                return Ok(value);
            }
        }
        Err(DriverError::NeverEnds { what, polls: POLLS })
    }

    /// Runs `work` unless the core is lost, and marks the core as lost after a fatal error.
    fn watched<R>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<R, DriverError>,
    ) -> Result<R, DriverError> {
        if self.lost {
            return Err(DriverError::Lost);
        }
        let result = work(self);
        self.lost = matches!(&result, Err(error) if error.is_fatal());
        result
    }
}

impl<T: Transport> Drop for Driver<T> {
    /// Resets the core unless it is idle and holds no key.
    fn drop(&mut self) {
        let holds = self.slots.iter().any(|slot| slot.key.is_some());
        if self.lost || holds || !self.under_way.is_empty() {
            let _ = self.reset();
        }
    }
}

/// Returns whether the answer ends with a null beat: if the packet was too short, or the core refused
/// the descriptor. A bus master's own errors do not reach the core.
fn ends_with_null_beat(status: Result<(), DescriptorError>) -> bool {
    use DescriptorError as Error;
    !matches!(
        status,
        Ok(()) | Err(Error::Excess | Error::Address | Error::Fetch | Error::Read | Error::Write)
    )
}

fn check_id(transport: &mut impl Transport) -> Result<(), DriverError> {
    match transport.read(reg::ID)? {
        reg::ID_VALUE => Ok(()),
        found => Err(DriverError::Id { found }),
    }
}

fn ring_word(place: u32, word: u16) -> u16 {
    let place = u16::try_from(place).expect("the ring has 32 places");
    reg::RING + place * reg::DESCRIPTOR_BYTES + 4 * word
}
