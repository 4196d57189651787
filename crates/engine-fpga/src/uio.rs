// SPDX-License-Identifier: MIT OR Apache-2.0
//! The core with a bus master (`rtl/rtl/luxor_xts_dma.sv`) as a [`Transport`], over Linux's
//! [UIO](https://docs.kernel.org/driver-api/uio-howto.html).
//!
//! The UIO device is named [`DEVICE`]. Its map 0 is the core's registers, and its map 1 is memory
//! that the core reaches at the address that UIO states. The kernel's driver `uio_pdrv_genirq`
//! makes such a device of the core's registers and a range of reserved memory in a device tree. The
//! kernel maps both without a cache, so what the core writes is seen.
//!
//! Memory that `uio_dmem_genirq` allocates will not do: since Linux 6.9 UIO states where the kernel
//! sees it, and not where the core does.
//!
//! The memory begins with the ring of descriptors, which has the places and words of the ring of
//! `luxor_xts`. [`Driver`](crate::Driver) writes those, and [`Uio`] adds the addresses. The rest of
//! the memory holds the packets. The core replaces a packet by its answer.
//!
//! The core and its bus can read and write all memory that the bus reaches. This program gives it
//! addresses in map 1 only.

use std::{
    collections::VecDeque,
    fmt,
    fs::{self, File, TryLockError},
    hint,
    io::{self, Read, Write},
    os::fd::AsFd,
    path::{Path, PathBuf},
    process,
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};

#[doc(hidden)]
pub use crate::mapped::page_size;
use crate::{
    backend::{FpgaBackend, Shared},
    driver::{DriverError, Waiting},
    mapped::{Window, barrier},
    registers::{self as reg, Config},
    transport::{Transport, TransportError},
};

/// The name that a UIO device for the core has.
pub const DEVICE: &str = "luxor_xts_dma";

/// The longest cycle of a core: limits in cycles become times with it.
const CYCLE: Duration = Duration::from_nanos(20);

/// The most reads of a register until transfers have ended, which take less than a microsecond each.
const POLLS: u32 = 100_000;

/// The most attempts to lock a device, a millisecond apart.
const LOCKS: u32 = 200;

/// The memory that a device needs at least: for what a backend has under way at a time. It must also
/// hold the ring and the longest data unit.
const LEAST_MEMORY: usize = 3 << 20;

/// Bytes of the registers.
const REGISTERS: usize = 4096;

/// Addresses from here on are not addresses on a bus: 64-bit kernels have their own ones here.
const ADDRESS_END: u64 = 1 << 48;

/// Bytes of the ring in memory.
const RING_BYTES: usize = reg::RING_LEN as usize * reg::DESCRIPTOR_BYTES as usize;

/// Words of a descriptor that the bus master needs, beside those that the driver writes.
const LENGTH: usize = 9;
const SOURCE: usize = 10;
const DESTINATION: usize = 12;
const STATUS: usize = reg::DESCRIPTOR_STATUS as usize;

/// The registers of a core: a mapped window, or in tests a model of them.
pub trait Registers: Send {
    /// Reads the register at a byte address.
    fn read(&self, register: u16) -> u32;

    /// Writes the register at a byte address.
    fn write(&mut self, register: u16, value: u32);
}

impl Registers for Window {
    fn read(&self, register: u16) -> u32 {
        Self::read(self, register.into())
    }

    fn write(&mut self, register: u16, value: u32) {
        Self::write(self, register.into(), value);
    }
}

/// The registers and memory of a core, and its interrupt.
pub struct Uio {
    registers: Box<dyn Registers>,
    memory: Window,
    /// Where the core reaches the memory.
    address: u64,
    /// Reading it waits for an interrupt, and writing 1 to it enables the next one. `None` if the
    /// device has no interrupt.
    events: Option<File>,
    /// Descriptors submitted since the reset.
    tail: u32,
    sent: VecDeque<Packet>,
    cycle: Duration,
}

/// A packet in memory, whose answer takes its place.
#[derive(Clone, Copy, Debug)]
struct Packet {
    /// The place of its descriptor.
    descriptor: usize,
    at: usize,
    len: usize,
}

/// Returns the backend on the first UIO device with the name [`DEVICE`] that works; `None` if there
/// is none with the name. It waits for interrupts. All callers in a program share it, and the device
/// is closed when the last one has dropped it and its keys.
///
/// # Errors
/// [`DriverError`] of the first device if none can be used.
pub fn backend() -> Option<Result<FpgaBackend<Uio>, DriverError>> {
    static OPENED: Opened = Opened(Mutex::new(None));

    OPENED.backend(Path::new("/"))
}

/// The core that a process has opened.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Opened(Mutex<Option<(u32, Shared<Uio>)>>);

impl Opened {
    /// As [`backend`], with the folders `sys` and `dev` in `root`.
    pub fn backend(&self, root: &Path) -> Option<Result<FpgaBackend<Uio>, DriverError>> {
        let mut opened = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A forked child has a copy of the driver, but the core is its parent's.
        let process = process::id();
        if let Some((opener, shared)) = &*opened
            && *opener == process
            && let Some(backend) = shared.get()
        {
            return Some(Ok(backend));
        }
        let mut tried = devices(root).into_iter().map(|name| {
            let uio = Uio::open_in(root, &name)?;
            let device = format!("UIO device {name}");
            FpgaBackend::new(uio, &device, 0)?.with_waiting(Waiting::Interrupts)
        });
        let first = tried.next()?;
        let found = first.or_else(|error| tried.find_map(Result::ok).ok_or(error));
        if let Ok(backend) = &found {
            *opened = Some((process, backend.share()));
        }
        Some(found)
    }
}

/// Returns the names of all UIO devices for the core, such as `uio0`, with the folder `sys` in
/// `root`.
#[doc(hidden)]
#[must_use]
pub fn devices(root: &Path) -> Vec<String> {
    let folder = fs::read_dir(root.join("sys/class/uio"));
    let entries = folder.into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| {
            let name = fs::read_to_string(entry.path().join("name"));
            name.is_ok_and(|name| name.trim_end() == DEVICE)
        })
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort_by_key(|name| (name.len(), name.clone()));
    names
}

fn failed(what: &Path, error: &dyn fmt::Display) -> TransportError {
    TransportError::Other(format!("{}: {error}", what.display()))
}

/// Locks a device, and waits a moment in which another thread of this program may close it.
fn lock(device: &File) -> Result<(), TryLockError> {
    for _ in 0..LOCKS {
        match device.try_lock() {
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(1)),
            result => return result,
        }
    }
    Err(TryLockError::WouldBlock)
}

impl Uio {
    /// Opens the UIO device `name`, such as `uio0`.
    ///
    /// # Errors
    /// [`TransportError`] if there is no such device, another program uses it, it lacks a map, or
    /// its core has no bus master.
    pub fn open(name: &str) -> Result<Self, TransportError> {
        Self::open_in(Path::new("/"), name)
    }

    /// As [`Uio::open`], with the folders `sys` and `dev` in `root`.
    #[doc(hidden)]
    pub fn open_in(root: &Path, name: &str) -> Result<Self, TransportError> {
        let path = root.join("dev").join(name);
        let file = File::options().read(true).write(true).open(&path);
        let file = file.map_err(|e| failed(&path, &e))?;
        lock(&file).map_err(|e| match e {
            TryLockError::WouldBlock => failed(&path, &"another program uses it"),
            TryLockError::Error(e) => failed(&path, &e),
        })?;
        // Some drivers of the kernel allocate the memory when the device is opened.
        let maps = root.join("sys/class/uio").join(name).join("maps");
        let registers = Map::read(&maps, 0)?;
        let memory = Map::read(&maps, 1)?;
        let window = |map: &Map| map.window(&file).map_err(|e| failed(&map.folder, &e));
        if registers.len < REGISTERS || memory.len < LEAST_MEMORY {
            let text = format!("maps of at least {REGISTERS} and {LEAST_MEMORY} bytes are needed");
            return Err(failed(&maps, &text));
        }
        let address = memory.bus_address()?;
        let mut uio = Self {
            registers: Box::new(window(&registers)?),
            memory: window(&memory)?,
            address,
            events: None,
            tail: 0,
            sent: VecDeque::new(),
            cycle: CYCLE,
        };
        // The driver checks the ID itself, and has better words for it.
        let config = Config::from_bits(uio.register(reg::CONFIG));
        if uio.register(reg::ID) == reg::ID_VALUE && !config.has_master() {
            return Err(failed(&path, &"this build of the core has no bus master"));
        }
        uio.set_events(file);
        Ok(uio)
    }

    /// Replaces the device by a model: its registers, its interrupts, and how long a cycle of it may
    /// take.
    #[doc(hidden)]
    #[must_use]
    pub fn with_model(
        mut self,
        registers: Box<dyn Registers>,
        events: File,
        cycle: Duration,
    ) -> Self {
        self.registers = registers;
        self.set_events(events);
        self.cycle = cycle;
        self
    }

    /// Takes interrupts from `events`. The kernel refuses to enable them if the device has none. A
    /// regular file has none either.
    fn set_events(&mut self, mut events: File) {
        let regular = events.metadata().is_ok_and(|data| data.is_file());
        let enables = !regular && events.write_all(&1_u32.to_ne_bytes()).is_ok();
        self.events = enables.then_some(events);
    }

    /// Returns the longest time that `cycles` cycles may take.
    fn time(&self, cycles: u64) -> Duration {
        let cycles = u32::try_from(cycles).unwrap_or(u32::MAX);
        self.cycle.saturating_mul(cycles)
    }

    /// Finds `len` bytes of memory behind the newest packet and before the oldest one.
    fn room(&self, len: usize) -> Option<usize> {
        let end = self.memory.len();
        let fits = |at: usize, end: usize| (len <= end.saturating_sub(at)).then_some(at);
        let (Some(oldest), Some(newest)) = (self.sent.front(), self.sent.back()) else {
            return fits(RING_BYTES, end);
        };
        let next = newest.at + newest.len;
        if newest.at < oldest.at {
            return fits(next, oldest.at);
        }
        fits(next, end).or_else(|| fits(RING_BYTES, oldest.at))
    }

    fn register(&self, register: u16) -> u32 {
        self.registers.read(register)
    }

    fn set_register(&mut self, register: u16, value: u32) {
        self.registers.write(register, value);
    }

    /// Waits until the core has ended the transfers that it had begun before a reset.
    fn drain(&self) -> Result<(), TransportError> {
        let drained = (0..POLLS).any(|_| self.register(reg::STATUS) & reg::STATUS_DRAINING == 0);
        if drained {
            return Ok(());
        }
        let text = "the core does not end its transfers";
        Err(TransportError::Other(text.to_owned()))
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "splits an address into 32-bit words"
    )]
    fn set_ring(&mut self) {
        self.set_register(reg::RING_LOW, self.address as u32);
        self.set_register(reg::RING_HIGH, (self.address >> 32) as u32);
        self.set_register(reg::RING_LOG2, reg::RING_LEN.ilog2());
    }

    /// Returns the bytes of the answer in place of a packet. Like the streams of a core without a
    /// master, a descriptor that was refused has an empty answer.
    fn answer_len(&self, packet: &Packet, status: u32) -> usize {
        let word = |word: usize| self.memory.read(packet.descriptor + 4 * word) as usize;
        match status & 15 {
            0 | 9 => packet.len,
            10 => {
                let beat_len = Config::from_bits(self.register(reg::CONFIG)).beat_len();
                word(6)
                    .next_multiple_of(beat_len)
                    .saturating_mul(word(7))
                    .min(packet.len)
            }
            _ => 0,
        }
    }
}

/// Returns the place in the ring of descriptor `number`, counted since the reset.
fn place_of(number: u32) -> usize {
    (number % reg::RING_LEN) as usize * usize::from(reg::DESCRIPTOR_BYTES)
}

impl Transport for Uio {
    /// Reads of the ring are reads of memory.
    fn read(&mut self, register: u16) -> Result<u32, TransportError> {
        if let Some(at) = register.checked_sub(reg::RING) {
            return Ok(self.memory.read(at.into()));
        }
        let value = self.register(register);
        Ok(match register {
            // The driver sees the ring in memory, whose length is this program's choice.
            reg::CONFIG => Config::from_bits(value).with_ring_len(reg::RING_LEN).bits(),
            _ => value,
        })
    }

    fn write(&mut self, register: u16, value: u32) -> Result<(), TransportError> {
        if let Some(at) = register.checked_sub(reg::RING) {
            self.memory.write(at.into(), value);
            return Ok(());
        }
        match register {
            reg::TAIL => {
                while self.tail != value {
                    let descriptor = place_of(self.tail);
                    self.memory.write(descriptor + 4 * STATUS, 0);
                    let newest = self.sent.back().map(|packet| packet.descriptor);
                    if newest != Some(descriptor) {
                        // It has no packet. The place may have the length of an earlier one.
                        self.memory.write(descriptor + 4 * LENGTH, 0);
                    }
                    self.tail = self.tail.wrapping_add(1);
                }
                // The descriptor and its packet come before the doorbell.
                barrier();
            }
            reg::CONTROL if value & reg::CONTROL_RESET != 0 => self.tail = 0,
            reg::CONTROL if value & reg::CONTROL_ENABLE != 0 => {
                self.drain()?;
                self.set_ring();
            }
            _ => {}
        }
        self.set_register(register, value);
        Ok(())
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "splits an address into 32-bit words"
    )]
    fn send(&mut self, packet: &[u8]) -> Result<(), TransportError> {
        let len = u32::try_from(packet.len()).ok();
        let room = len.zip(self.room(packet.len()));
        let (len, at) = room.ok_or_else(|| {
            TransportError::Other(format!(
                "the memory of {} bytes has no room for {} more",
                self.memory.len(),
                packet.len()
            ))
        })?;
        self.memory.copy_in(at, packet);
        let descriptor = place_of(self.tail);
        let address = self.address + at as u64;
        let (low, high) = (address as u32, (address >> 32) as u32);
        for (word, value) in [
            (LENGTH, len),
            (SOURCE, low),
            (SOURCE + 1, high),
            (DESTINATION, low),
            (DESTINATION + 1, high),
        ] {
            self.memory.write(descriptor + 4 * word, value);
        }
        let len = packet.len();
        self.sent.push_back(Packet {
            descriptor,
            at,
            len,
        });
        Ok(())
    }

    fn has_room(&self, len: usize) -> bool {
        self.room(len).is_some()
    }

    fn receive(&mut self, answer: &mut [u8], limit: u64) -> Result<Option<usize>, TransportError> {
        let Some(packet) = self.sent.front().copied() else {
            return Ok(None);
        };
        let end = Instant::now() + self.time(limit);
        let status = loop {
            let status = self.memory.read(packet.descriptor + 4 * STATUS);
            if status & reg::DONE != 0 {
                break status;
            }
            if Instant::now() >= end {
                return Ok(None);
            }
            hint::spin_loop();
        };
        // The core has written the answer before the status.
        barrier();
        let len = self.answer_len(&packet, status);
        let fits = len.min(answer.len());
        self.memory.copy_out(packet.at, &mut answer[..fits]);
        self.memory.wipe(packet.at, packet.len);
        self.sent.pop_front();
        Ok(Some(len))
    }

    /// The kernel disables the interrupt when it comes. It is enabled here, after the caller has
    /// cleared its reason.
    fn wait(&mut self, limit: u64) -> Result<bool, TransportError> {
        let end = Instant::now() + self.time(limit);
        let Some(events) = &mut self.events else {
            return Ok(false);
        };
        let failed = |e: &dyn fmt::Display| TransportError::Other(format!("UIO: {e}"));
        let enable = 1_u32.to_ne_bytes();
        events.write_all(&enable).map_err(|e| failed(&e))?;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            // Rounded up, so that the wait does not spin for its last millisecond.
            let left = left.as_millis().saturating_add(1);
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            let mut fds = [PollFd::new(events.as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, timeout) {
                Ok(0) => return Ok(false),
                Ok(_) => break,
                Err(Errno::EINTR) if Instant::now() < end => {}
                Err(Errno::EINTR) => return Ok(false),
                Err(e) => return Err(failed(&e)),
            }
        }
        // The number of interrupts so far.
        events.read_exact(&mut [0; 4]).map_err(|e| failed(&e))?;
        Ok(true)
    }

    fn abort(&mut self) -> Result<(), TransportError> {
        self.set_register(reg::CONTROL, reg::CONTROL_RESET);
        let drained = self.drain();
        for packet in self.sent.drain(..) {
            self.memory.wipe(packet.at, packet.len);
        }
        drained
    }
}

impl fmt::Debug for Uio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Uio")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Drop for Uio {
    /// Stops the core, since the memory may be freed.
    fn drop(&mut self) {
        if !self.sent.is_empty() {
            let _ = self.abort();
        }
        self.set_register(reg::CONTROL, 0);
    }
}

/// A map of a UIO device, as `/sys` describes it.
struct Map {
    folder: PathBuf,
    index: u64,
    /// The address of the map. Its first `begin` bytes are not the device's.
    address: u64,
    begin: usize,
    len: usize,
}

impl Map {
    fn read(maps: &Path, index: u64) -> Result<Self, TransportError> {
        let folder = maps.join(format!("map{index}"));
        let number = |name: &str| {
            let path = folder.join(name);
            let text = fs::read_to_string(&path).map_err(|e| failed(&path, &e))?;
            let digits = text.trim().trim_start_matches("0x");
            u64::from_str_radix(digits, 16).map_err(|e| failed(&path, &e))
        };
        let [address, begin, size] = ["addr", "offset", "size"].map(number);
        let (address, begin, size) = (address?, begin?, size?);
        let len = size.checked_sub(begin);
        let len = len.ok_or_else(|| failed(&folder, &"the offset is larger than the size"))?;
        let invalid = |_| failed(&folder, &"the map is too large");
        Ok(Self {
            index,
            address,
            begin: usize::try_from(begin).map_err(invalid)?,
            len: usize::try_from(len).map_err(invalid)?,
            folder,
        })
    }

    /// Returns where the core reaches it.
    fn bus_address(&self) -> Result<u64, TransportError> {
        let address = self.address.saturating_add(self.begin as u64);
        let end = address.saturating_add(self.len as u64);
        if address.is_multiple_of(64) && end <= ADDRESS_END {
            return Ok(address);
        }
        let text = format!(
            "{address:#x} cannot be an address on the core's bus: the map must be memory with a \
             fixed physical address, such as reserved memory"
        );
        Err(failed(&self.folder, &text))
    }

    /// Maps it: UIO takes its index, times the page size, as the place in the file.
    fn window(&self, file: &File) -> io::Result<Window> {
        Window::new(file, self.index * page_size(), self.begin, self.len)
    }
}
