// SPDX-License-Identifier: MIT OR Apache-2.0
//! The transport over UIO on the Verilated core with its bus master. The folders of UIO and the memory
//! are files, which the transport maps. A thread runs the core, whose bus reads and writes the same
//! file, and plays the kernel's part in interrupts.

use std::{
    fs::{self, File},
    io::{Read, Write},
    os::{
        fd::OwnedFd,
        unix::{
            fs::{FileExt, symlink},
            net::UnixStream,
        },
    },
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use luxor_engine::{
    Backend, CryptErrorKind, DataUnitLen, DataUnitNumber, Direction, KeySpec, Run, XtsKey,
};
use luxor_engine_fpga::{
    Driver, DriverError, FpgaBackend, Transport, TransportError, Waiting,
    driver::{CoreMode, Descriptor, DescriptorError, SlotKey},
    model::{Master, Memory},
    registers as reg,
    uio::{self, Opened, Registers, Uio},
};
use luxor_reference as reference;
use tempfile::TempDir;

/// The core's address of the memory, in the middle of a page, and its length, the least one.
const ADDRESS: u64 = 0x1_3f00_0040;
const MEMORY: usize = 3 << 20;

const RING_BYTES: u64 = 32 * 64;

/// A map begins at a multiple of this.
const PAGE: u64 = 4096;

/// Cycles that the thread runs the core at a time.
const CYCLES: u64 = 100;

/// The folders of a UIO device.
struct Folders {
    root: TempDir,
    /// The place of the memory in the device: map 1 begins at its second page.
    memory: u64,
}

impl Folders {
    fn new() -> Self {
        let folders = Self {
            root: TempDir::new().unwrap(),
            memory: uio::page_size() + ADDRESS % PAGE,
        };
        folders.put("sys/class/uio/uio3/name", "luxor_xts_dma\n");
        folders.put_map(0, 0x4000_0000, 4096);
        folders.put_map(1, ADDRESS, MEMORY);
        fs::create_dir(folders.root.path().join("dev")).unwrap();
        let device = File::create_new(folders.device()).unwrap();
        device.set_len(folders.memory + MEMORY as u64).unwrap();
        let registers = [
            (reg::ID, reg::ID_VALUE),
            (reg::VERSION, reg::VERSION_VALUE),
            (reg::CONFIG, 0x1d10_22f1),
        ];
        for (register, value) in registers {
            device
                .write_all_at(&value.to_le_bytes(), register.into())
                .unwrap();
        }
        folders
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Describes `len` bytes at `address`, as the kernel's driver `uio_pdrv_genirq` does.
    fn put_map(&self, index: usize, address: u64, len: usize) {
        let folder = format!("sys/class/uio/uio3/maps/map{index}");
        let offset = address % PAGE;
        for (name, value) in [
            ("addr", address - offset),
            ("offset", offset),
            ("size", len as u64 + offset),
        ] {
            self.put(&format!("{folder}/{name}"), &format!("{value:#x}\n"));
        }
    }

    fn device(&self) -> std::path::PathBuf {
        self.root.path().join("dev/uio3")
    }

    fn open(&self) -> Result<Uio, TransportError> {
        Uio::open_in(self.root.path(), "uio3")
    }
}

/// What the memory refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Fetch,
    Read,
    Write,
}

/// Map 1 as the bus sees it.
struct Map {
    device: File,
    /// The place of the memory in `device`.
    memory: u64,
    fault: Mutex<Option<Fault>>,
    /// An access outside the memory, or a write that is neither of data nor of a status.
    stray: AtomicBool,
    /// Beats written.
    writes: AtomicU64,
}

impl Map {
    /// Returns the place in the file of `len` bytes at an address of the core.
    fn place(&self, address: u64, len: usize) -> Option<u64> {
        let at = address.checked_sub(ADDRESS)?;
        let found = at.checked_add(len as u64)? <= MEMORY as u64;
        found.then_some(self.memory + at)
    }

    fn refuses(&self, fault: Fault) -> bool {
        *self.fault.lock().unwrap() == Some(fault)
    }
}

struct Bus(Arc<Map>);

impl Memory for Bus {
    fn load(&mut self, address: u64, beat: &mut [u8]) -> bool {
        let of_ring = address < ADDRESS + RING_BYTES;
        let fault = if of_ring { Fault::Fetch } else { Fault::Read };
        let place = self.0.place(address, beat.len());
        self.0.stray.fetch_or(place.is_none(), Ordering::Relaxed);
        let read = place.is_some_and(|at| self.0.device.read_exact_at(beat, at).is_ok());
        read && !self.0.refuses(fault)
    }

    fn store(&mut self, address: u64, beat: &[u8], strobes: u64) -> bool {
        let of_ring = address < ADDRESS + RING_BYTES;
        let place = self.0.place(address, beat.len());
        let is_status = address % 64 == 48 && strobes == 0xf000;
        let first = strobes.trailing_zeros() as usize;
        let len = (strobes >> first).trailing_ones() as usize;
        // The bytes of a unit come first in a beat, and those of a status last.
        let is_expected = if of_ring { is_status } else { first == 0 };
        let stray = place.is_none() || !is_expected || len != strobes.count_ones() as usize;
        self.0.stray.fetch_or(stray, Ordering::Relaxed);
        let Some(at) = place.filter(|_| of_ring || !self.0.refuses(Fault::Write)) else {
            return false;
        };
        self.0.writes.fetch_add(1, Ordering::Relaxed);
        let bytes = &beat[first..first + len];
        let device = &self.0.device;
        device.write_all_at(bytes, at + first as u64).is_ok()
    }
}

/// The core, and the kernel's part in its interrupts.
struct Board {
    core: Master,
    events: UnixStream,
    /// Whether the interrupt is enabled, and the number of interrupts so far.
    armed: bool,
    interrupts: u32,
}

impl Board {
    /// Goes on for a while.
    fn step(&mut self) {
        let irq = self.core.run(CYCLES).unwrap();
        let mut enable = [0; 4];
        if self.events.read(&mut enable).is_ok_and(|len| len == 4) {
            assert_eq!(u32::from_ne_bytes(enable), 1);
            self.armed = true;
        }
        if self.armed && irq {
            self.armed = false;
            self.interrupts += 1;
            let count = self.interrupts.to_ne_bytes();
            self.events.write_all(&count).unwrap();
        }
    }
}

/// A device that a thread runs until the end of the test.
struct Device {
    _folders: Folders,
    board: Arc<Mutex<Board>>,
    map: Arc<Map>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct Window(Arc<Mutex<Board>>);

impl Registers for Window {
    fn read(&self, register: u16) -> u32 {
        self.0.lock().unwrap().core.read(register).unwrap()
    }

    fn write(&mut self, register: u16, value: u32) {
        let mut board = self.0.lock().unwrap();
        board.core.write(register, value).unwrap();
    }
}

impl Device {
    /// Starts the device, and connects to it.
    fn new() -> (Self, Uio) {
        Self::with_stalls(0)
    }

    fn with_stalls(seed: u64) -> (Self, Uio) {
        let folders = Folders::new();
        let (here, there) = UnixStream::pair().unwrap();
        there.set_nonblocking(true).unwrap();
        let file = File::options()
            .read(true)
            .write(true)
            .open(folders.device());
        let map = Arc::new(Map {
            device: file.unwrap(),
            memory: folders.memory,
            fault: Mutex::new(None),
            stray: AtomicBool::new(false),
            writes: AtomicU64::new(0),
        });
        let board = Arc::new(Mutex::new(Board {
            core: Master::new(Box::new(Bus(Arc::clone(&map))), seed),
            events: there,
            armed: false,
            interrupts: 0,
        }));
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let (board, stop) = (Arc::clone(&board), Arc::clone(&stop));
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    board.lock().unwrap().step();
                    thread::yield_now();
                }
            })
        };
        // The simulation is slower than any core.
        let cycle = Duration::from_micros(100);
        let events = File::from(OwnedFd::from(here));
        let window = Box::new(Window(Arc::clone(&board)));
        let uio = folders.open().unwrap().with_model(window, events, cycle);
        let device = Self {
            _folders: folders,
            board,
            map,
            stop,
            thread: Some(thread),
        };
        (device, uio)
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap()
    }

    fn break_with(&self, fault: Option<Fault>) {
        *self.map.fault.lock().unwrap() = fault;
    }

    /// Checks that no keys are left in the core and no data in the memory.
    fn assert_clean(&self) {
        assert_eq!(self.board().core.read(reg::SLOT_STATE), Ok(0));
        let mut memory = vec![0xff; MEMORY - usize::try_from(RING_BYTES).unwrap()];
        let at = self.map.memory + RING_BYTES;
        self.map.device.read_exact_at(&mut memory, at).unwrap();
        assert!(memory.iter().all(|&byte| byte == 0));
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().unwrap().join();
        let stray = self.map.stray.load(Ordering::Relaxed);
        assert!((ended.is_ok() && !stray) || thread::panicking());
    }
}

fn key() -> Vec<u8> {
    (0..32).collect()
}

/// A driver with [`key`] in slot 0.
fn driver(uio: Uio, waiting: Waiting) -> (Driver<Uio>, SlotKey) {
    let mut driver = Driver::new(uio).unwrap();
    driver.set_waiting(waiting).unwrap();
    let key = SlotKey::xts(&XtsKey::new(&key()).unwrap());
    assert_eq!(driver.seat(&key).unwrap(), Some(0));
    (driver, key)
}

fn descriptor(units: u32) -> Descriptor {
    Descriptor {
        first: DataUnitNumber::new(7),
        stride: 1,
        unit_len: 512,
        units,
        slot: 0,
        direction: Direction::Encrypt,
        mode: CoreMode::Xts,
    }
}

#[test]
fn devices_are_found_by_their_name() {
    let folders = Folders::new();
    folders.put("sys/class/uio/uio0/name", "another\n");
    folders.put("sys/class/uio/uio10/name", "luxor_xts_dma\n");
    assert_eq!(uio::devices(folders.root.path()), ["uio3", "uio10"]);
    assert!(uio::devices(Path::new("/nonexistent")).is_empty());
}

/// Registers are in map 0 and the ring in map 1.
#[test]
fn both_maps_are_mapped() {
    let folders = Folders::new();
    let mut uio = folders.open().unwrap();
    assert_eq!(uio.read(reg::ID), Ok(reg::ID_VALUE));
    uio.write(reg::IRQ_ENABLE, 0x0102_0304).unwrap();
    uio.write(reg::RING + 68, 0x0506_0708).unwrap();
    let device = File::open(folders.device()).unwrap();
    for (at, expected) in [
        (reg::IRQ_ENABLE.into(), [4, 3, 2, 1]),
        (folders.memory + 68, [8, 7, 6, 5]),
    ] {
        let mut found = [0; 4];
        device.read_exact_at(&mut found, at).unwrap();
        assert_eq!(found, expected, "{at}");
    }
    assert_eq!(uio.wait(1000), Ok(false), "a file has no interrupts");
}

#[test]
fn devices_that_cannot_be_used_are_refused() {
    type Break = fn(&Folders);
    let cases: [(Break, &str); 8] = [
        (
            |f| f.put_map(1, ADDRESS, (3 << 20) - 8),
            "3145728 bytes are needed",
        ),
        (|f| f.put_map(0, 0, 2048), "4096 and"),
        (
            |f| f.put_map(1, u64::MAX, MEMORY),
            "0xffffffffffffffff cannot be an address on the core's bus",
        ),
        // A kernel's own address.
        (
            |f| f.put_map(1, 0xffff_8000_1234_5000, MEMORY),
            "0xffff800012345000 cannot be an address on the core's bus",
        ),
        (|f| f.put_map(1, ADDRESS + 8, MEMORY), "0x13f000048 cannot"),
        (
            |f| f.put("sys/class/uio/uio3/maps/map1/size", "four"),
            "map1/size",
        ),
        (
            |f| {
                let maps = f.root.path().join("sys/class/uio/uio3/maps/map1");
                fs::remove_dir_all(maps).unwrap();
            },
            "map1/",
        ),
        (
            |f| {
                let device = File::options().write(true).open(f.device()).unwrap();
                let config = 0x1d05_22f1_u32.to_le_bytes();
                device.write_all_at(&config, reg::CONFIG.into()).unwrap();
            },
            "no bus master",
        ),
    ];
    for (change, expected) in cases {
        let folders = Folders::new();
        change(&folders);
        let error = folders.open().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// Links to the device, as another device: the files of UIO, and its own file.
fn add_free_device(folders: &Folders) {
    let path = |path: &str| folders.root.path().join(path);
    symlink("uio3", path("sys/class/uio/uio10")).unwrap();
    fs::copy(path("dev/uio3"), path("dev/uio10")).unwrap();
}

/// The first device that works is opened. A program shares it, and no other one can have it.
#[test]
fn a_program_shares_the_device_that_it_has_opened() {
    let folders = Folders::new();
    let root = folders.root.path();
    let opened = || {
        let opened = Opened::default();
        move || {
            let backend = opened.backend(root).unwrap();
            backend.map_err(|error| error.to_string())
        }
    };
    let (ours, others) = (opened(), opened());
    let first = ours().unwrap();
    let second = ours().unwrap();
    assert!(first.info().device.starts_with("UIO device uio3: "));
    assert_eq!(second.info().device, first.info().device);
    drop(first);
    // A key keeps the device open too.
    let key = KeySpec::Xts(XtsKey::new(&key()).unwrap());
    let loaded = second.load_key(&key).unwrap();
    drop(second);
    let third = ours().unwrap();
    drop(loaded);
    let error = others().unwrap_err();
    assert!(error.ends_with("uio3: another program uses it"), "{error}");

    add_free_device(&folders);
    let other = others().unwrap();
    assert!(other.info().device.starts_with("UIO device uio10: "));
    drop(other);
    drop(third);
    let other = others().unwrap();
    assert!(other.info().device.starts_with("UIO device uio3: "));
    drop(other);

    fs::remove_dir_all(root.join("sys")).unwrap();
    assert!(Opened::default().backend(root).is_none());
}

/// A thread that opens the device while another one closes it waits for that.
#[test]
fn a_device_that_is_closed_soon_is_waited_for() {
    let folders = Folders::new();
    let mut uio = folders.open().unwrap();
    for _ in 0..50 {
        let closing = thread::spawn(move || drop(uio));
        uio = folders.open().unwrap();
        closing.join().unwrap();
    }
}

/// Calls with partial blocks, and with more descriptors than the ring has places, there and back.
#[test]
fn calls_have_the_answers_of_the_reference() {
    for waiting in [Waiting::Polling, Waiting::Interrupts] {
        let (device, uio) = Device::new();
        {
            let backend = FpgaBackend::new(uio, "simulation", 0).unwrap();
            let backend = backend.with_waiting(waiting).unwrap();
            let loaded = backend
                .load_key(&KeySpec::Xts(XtsKey::new(&key()).unwrap()))
                .unwrap();
            for (unit_len, units, of_run) in [(16, 1, 1), (20, 6, 3), (512, 150, 3), (4096, 9, 9)] {
                let plain: Vec<u8> = (0..=255).cycle().take(unit_len * units).collect();
                let mut data = plain.clone();
                let mut crypt = |direction| {
                    let runs = (0..).zip(data.chunks_mut(unit_len * of_run));
                    let unit_len = DataUnitLen::new(unit_len).unwrap();
                    let mut runs: Vec<_> = runs
                        .map(|(i, bytes)| {
                            let first = DataUnitNumber::from(i * of_run as u64);
                            Run::new(first, 1, unit_len, bytes).unwrap()
                        })
                        .collect();
                    loaded.crypt(direction, &mut runs).unwrap();
                    data.clone()
                };
                let found = crypt(Direction::Encrypt);
                let units = (0..).zip(plain.chunks(unit_len));
                let expected: Vec<u8> = units
                    .flat_map(|(number, unit)| reference::xts_encrypt(&key(), number, unit))
                    .collect();
                assert!(found == expected, "{unit_len}, {waiting:?}");
                assert!(
                    crypt(Direction::Decrypt) == plain,
                    "{unit_len}, {waiting:?}"
                );
            }
        }
        let interrupts = device.board().interrupts;
        assert_eq!(interrupts > 0, waiting == Waiting::Interrupts);
        device.assert_clean();
    }
}

/// A unit of 1 MiB after 2 MiB less 512 bytes: together with the ring more than the memory.
#[test]
fn a_packet_waits_for_room_in_the_memory() {
    let (device, uio) = Device::new();
    {
        let backend = FpgaBackend::new(uio, "simulation", 0).unwrap();
        let key = KeySpec::Xts(XtsKey::new(&key()).unwrap());
        let loaded = backend.load_key(&key).unwrap();
        let mut runs = [((2 << 20) - 512, 512), (1 << 20, 1 << 20)].map(|(len, unit_len)| {
            let data: Vec<u8> = (0..=255).cycle().take(len).collect();
            (data, unit_len)
        });
        let expected = runs.clone().map(|(data, unit_len)| {
            let units = (0..).zip(data.chunks(unit_len));
            let units =
                units.flat_map(|(number, unit)| reference::xts_encrypt(&self::key(), number, unit));
            (units.collect(), unit_len)
        });
        let mut parts = runs.each_mut().map(|(data, unit_len)| {
            let unit_len = DataUnitLen::new(*unit_len).unwrap();
            Run::new(DataUnitNumber::new(0), 1, unit_len, data.as_mut_slice()).unwrap()
        });
        loaded.crypt(Direction::Encrypt, &mut parts).unwrap();
        assert!(runs == expected);
    }
    device.assert_clean();
}

#[test]
fn packets_wrap_around_in_the_memory() {
    let (device, uio) = Device::new();
    let (mut driver, _key) = driver(uio, Waiting::Interrupts);
    // Six packets fit, and the seventh goes to the beginning once the first is done.
    let units = 1000;
    let packet = vec![9; 512 * units as usize];
    let mut answer = vec![0; packet.len()];
    let mut expected = packet.clone();
    for (number, unit) in (7..).zip(expected.chunks_mut(512)) {
        unit.copy_from_slice(&reference::xts_encrypt(&key(), number, unit));
    }
    for _ in 0..6 {
        driver.submit(&descriptor(units), &packet).unwrap();
    }
    for _ in 0..3 {
        driver.complete(&mut answer).unwrap().status.unwrap();
        assert!(answer == expected);
        driver.submit(&descriptor(units), &packet).unwrap();
    }
    let error = driver.submit(&descriptor(units), &packet).unwrap_err();
    let text = "the memory of 3145728 bytes has no room for 512000 more";
    assert_eq!(error.to_string(), text);
    // What was under way is wiped.
    driver.reset().unwrap();
    device.assert_clean();
}

#[test]
fn refused_descriptors_have_an_empty_answer() {
    let (_device, uio) = Device::new();
    let (mut driver, _key) = driver(uio, Waiting::Interrupts);
    for (change, error) in [
        (
            Descriptor {
                slot: 9,
                ..descriptor(1)
            },
            DescriptorError::NoSlot,
        ),
        (
            Descriptor {
                slot: 2,
                ..descriptor(1)
            },
            DescriptorError::EmptySlot,
        ),
        (
            Descriptor {
                units: 0,
                ..descriptor(1)
            },
            DescriptorError::NoData,
        ),
    ] {
        let packet = vec![0; 512 * change.units as usize];
        driver.submit(&change, &packet).unwrap();
        let completion = driver.complete(&mut [0; 512]).unwrap();
        assert_eq!((completion.status, completion.len), (Err(error), 0));
    }
    // The bus master accepts whole beats only.
    driver.submit(&descriptor(1), &[0; 520]).unwrap();
    let completion = driver.complete(&mut [0; 520]).unwrap();
    assert_eq!(completion.status, Err(DescriptorError::Address));
    driver.settle().unwrap();
}

/// A place of the ring has the length and addresses of the packet that it had before.
#[test]
fn an_empty_packet_is_refused_in_a_used_place_too() {
    let (device, uio) = Device::new();
    let (mut driver, _key) = driver(uio, Waiting::Interrupts);
    for _ in 0..reg::RING_LEN {
        driver.submit(&descriptor(1), &[9; 512]).unwrap();
        driver.complete(&mut [0; 512]).unwrap().status.unwrap();
    }
    driver.submit(&descriptor(1), &[]).unwrap();
    let completion = driver.complete(&mut []).unwrap();
    assert_eq!(completion.status, Err(DescriptorError::Address));
    driver.settle().unwrap();
    driver.reset().unwrap();
    device.assert_clean();
}

#[test]
fn errors_of_the_memory_have_names() {
    for (fault, expected) in [
        (Fault::Read, DescriptorError::Read),
        (Fault::Write, DescriptorError::Write),
        (Fault::Fetch, DescriptorError::Fetch),
    ] {
        let (device, uio) = Device::new();
        let (mut driver, _key) = driver(uio, Waiting::Interrupts);
        device.break_with(Some(fault));
        driver.submit(&descriptor(1), &[9; 512]).unwrap();
        let completion = driver.complete(&mut [0; 512]).unwrap();
        assert_eq!(completion.status, Err(expected));
        // The next descriptor is not affected.
        device.break_with(None);
        driver.submit(&descriptor(1), &[9; 512]).unwrap();
        let mut answer = [0; 512];
        driver.complete(&mut answer).unwrap().status.unwrap();
        assert_eq!(answer[..], reference::xts_encrypt(&key(), 7, &[9; 512]));
        driver.reset().unwrap();
        device.assert_clean();
    }
}

/// After an error the units of the call are as they were, and the memory is wiped.
#[test]
fn a_core_that_fails_leaves_no_data() {
    let (device, uio) = Device::new();
    let backend = FpgaBackend::new(uio, "simulation", 0).unwrap();
    let loaded = backend
        .load_key(&KeySpec::Xts(XtsKey::new(&key()).unwrap()))
        .unwrap();
    device.break_with(Some(Fault::Write));
    let mut data = vec![7; 4096];
    let unit = DataUnitLen::new(512).unwrap();
    let run = Run::new(DataUnitNumber::new(0), 1, unit, data.as_mut_slice()).unwrap();
    let error = loaded.crypt(Direction::Encrypt, &mut [run]).unwrap_err();
    assert!(
        matches!(error.kind, CryptErrorKind::Device { .. }),
        "{error}"
    );
    assert_eq!((error.done, data), (0, vec![7; 4096]));
    device.assert_clean();
}

/// Whatever is under way at a reset, the memory is wiped and stays so, and the next call is right.
#[test]
fn a_reset_in_the_middle_leaves_no_data() {
    let (device, uio) = Device::with_stalls(1619);
    let (mut driver, key) = driver(uio, Waiting::Polling);
    let packet = vec![9; 512 * 1000];
    let writes = || device.map.writes.load(Ordering::Relaxed);
    for beats in [0, 1, 10, 100, 1000, 33_000] {
        assert_eq!(driver.seat(&key).unwrap(), Some(0));
        let before = writes();
        for _ in 0..4 {
            driver.submit(&descriptor(1000), &packet).unwrap();
        }
        while writes() < before + beats {
            thread::yield_now();
        }
        driver.reset().unwrap();
        let after = writes();
        device.board().core.run(5000).unwrap();
        assert_eq!(writes(), after, "{beats}");
        device.assert_clean();

        assert_eq!(driver.seat(&key).unwrap(), Some(0));
        driver.submit(&descriptor(1), &packet[..512]).unwrap();
        let mut answer = [0; 512];
        driver.complete(&mut answer).unwrap().status.unwrap();
        let expected = reference::xts_encrypt(&self::key(), 7, &packet[..512]);
        assert_eq!(answer[..], expected, "{beats}");
        driver.settle().unwrap();
    }
}

#[test]
fn transfers_that_do_not_end_are_noticed() {
    /// Registers that all read as the same value.
    struct Constant(u32);

    impl Registers for Constant {
        fn read(&self, _: u16) -> u32 {
            self.0
        }

        fn write(&mut self, _: u16, _: u32) {}
    }

    let folders = Folders::new();
    let device = File::open(folders.device()).unwrap();
    let registers = Box::new(Constant(u32::MAX));
    let mut uio = folders
        .open()
        .unwrap()
        .with_model(registers, device, Duration::ZERO);
    let text = "the core does not end its transfers";
    assert_eq!(uio.abort().unwrap_err().to_string(), text);
    let error = Driver::new(uio).err();
    assert_eq!(error, Some(DriverError::Id { found: u32::MAX }));
}
