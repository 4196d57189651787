// SPDX-License-Identifier: MIT OR Apache-2.0
//! The transport over UIO on a double of the core with a bus master. The folders of UIO and the
//! memory are files, which the transport maps. A thread plays the device: it reads descriptors and
//! data from the memory, and writes answers and statuses there.

mod double;

use std::{
    collections::VecDeque,
    fs::{self, File},
    io::{Read, Write},
    os::{
        fd::OwnedFd,
        unix::{fs::FileExt, net::UnixStream},
    },
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use double::{Double, Fault};
use luxor_engine::{
    Backend, CryptErrorKind, DataUnitLen, DataUnitNumber, Direction, KeySpec, Run, XtsKey,
};
use luxor_engine_fpga::{
    Driver, DriverError, FpgaBackend, Transport, TransportError, Waiting,
    driver::{Descriptor, DescriptorError, SlotKey},
    registers as reg,
    uio::{self, Registers, Uio},
};
use luxor_reference as reference;
use tempfile::TempDir;

/// The core's address of map 1, and its length.
const ADDRESS: u64 = 0x1_3f00_0040;
const MEMORY: usize = 4 << 20;

const RING_BYTES: u64 = 32 * 64;

/// The folders of a UIO device.
struct Folders {
    root: TempDir,
    page: u64,
}

impl Folders {
    fn new() -> Self {
        let folders = Self {
            root: TempDir::new().unwrap(),
            page: uio::page_size(),
        };
        folders.put("sys/class/uio/uio3/name", "luxor_xts_dma\n");
        folders.put_map(0, 0x4000_0000, 4096);
        folders.put_map(1, ADDRESS, MEMORY);
        fs::create_dir(folders.root.path().join("dev")).unwrap();
        let device = File::create_new(folders.device()).unwrap();
        device.set_len(folders.page + MEMORY as u64).unwrap();
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

    fn put_map(&self, index: usize, address: u64, len: usize) {
        let folder = format!("sys/class/uio/uio3/maps/map{index}");
        for (name, value) in [("addr", address), ("offset", 0), ("size", len as u64)] {
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

/// The double's core behind a bus master.
struct Master {
    core: Double,
    device: File,
    page: u64,
    ring: [u32; 3],
    tail: u32,
    taken: u32,
    head: u32,
    under_way: VecDeque<Transfer>,
    irq_enable: u32,
    irq_status: u32,
    events: UnixStream,
    /// Whether the interrupt is enabled, and the number of interrupts so far.
    armed: bool,
    interrupts: u32,
    /// Status bits that the next descriptor gets.
    status: u32,
}

struct Transfer {
    number: u32,
    destination: u64,
    len: usize,
}

impl Master {
    fn place(&self, number: u32) -> u64 {
        let ring = u64::from(self.ring[1]) << 32 | u64::from(self.ring[0]);
        ring + 64 * u64::from(number % 32)
    }

    /// Returns where the device has the memory at an address of the core.
    fn place_of(&self, address: u64, len: usize) -> u64 {
        let end = address.checked_add(len as u64).unwrap();
        assert!(address >= ADDRESS && end <= ADDRESS + MEMORY as u64);
        self.page + address - ADDRESS
    }

    /// Reads memory by the core's addresses.
    fn load(&self, address: u64, bytes: &mut [u8]) {
        let at = self.place_of(address, bytes.len());
        self.device.read_exact_at(bytes, at).unwrap();
    }

    fn store(&self, address: u64, bytes: &[u8]) {
        let at = self.place_of(address, bytes.len());
        self.device.write_all_at(bytes, at).unwrap();
    }

    fn fetch(&mut self) {
        let mut bytes = [0; 64];
        self.load(self.place(self.taken), &mut bytes);
        let words = bytes.as_chunks::<4>().0;
        let word = |i: usize| u32::from_le_bytes(words[i]);
        let long = |i: usize| u64::from(word(i + 1)) << 32 | u64::from(word(i));
        assert_eq!(word(15), 0, "the status is 0");
        let core_place = reg::RING + u16::try_from(self.taken % 32).unwrap() * 64;
        for i in 0..reg::DESCRIPTOR_WORDS {
            let value = word(i.into());
            self.core.write(core_place + 4 * i, value).unwrap();
        }
        let mut transfer = Transfer {
            number: self.taken,
            destination: long(12),
            len: 0,
        };
        if word(6) != 0 && word(7) != 0 {
            transfer.len = word(9) as usize;
            let mut source = vec![0; transfer.len];
            self.load(long(10), &mut source);
            self.core.send(&source).unwrap();
        }
        self.under_way.push_back(transfer);
        self.taken += 1;
        self.core.write(reg::TAIL, self.taken).unwrap();
    }

    /// Goes on for a while.
    fn step(&mut self) {
        while self.taken != self.tail {
            self.fetch();
        }
        if let Some(transfer) = self.under_way.front() {
            let mut answer = vec![0; transfer.len];
            let found = match transfer.len {
                0 => Some(0),
                _ => self.core.receive(&mut answer, 1000).unwrap(),
            };
            if let Some(len) = found {
                self.done(&answer[..len]);
            }
        }
        let mut enable = [0; 4];
        if self.events.read(&mut enable).is_ok_and(|len| len == 4) {
            assert_eq!(u32::from_ne_bytes(enable), 1);
            self.armed = true;
        }
        if self.armed && self.irq_status & self.irq_enable != 0 {
            self.armed = false;
            self.interrupts += 1;
            self.events
                .write_all(&self.interrupts.to_ne_bytes())
                .unwrap();
        }
    }

    fn done(&mut self, answer: &[u8]) {
        let transfer = self.under_way.pop_front().unwrap();
        while self.core.read(reg::HEAD).unwrap() == transfer.number {}
        if transfer.len > 0 {
            self.store(transfer.destination, answer);
        }
        let core_place = reg::RING + u16::try_from(transfer.number % 32).unwrap() * 64;
        let status = self.core.read(core_place + 60).unwrap() | self.status;
        self.status = 0;
        self.store(self.place(transfer.number) + 60, &status.to_le_bytes());
        self.head = transfer.number + 1;
        self.irq_status |= reg::IRQ_DONE;
    }

    fn read(&mut self, register: u16) -> u32 {
        let value = self.core.read(register).unwrap();
        match register {
            // With the master, and without a ring.
            reg::CONFIG => value & !(15 << 16) | 1 << 20,
            reg::TAIL => self.tail,
            reg::HEAD => self.head,
            reg::IRQ_STATUS => self.irq_status,
            _ => value,
        }
    }

    fn write(&mut self, register: u16, value: u32) {
        match register {
            reg::TAIL => self.tail = value,
            reg::IRQ_ENABLE => self.irq_enable = value,
            reg::IRQ_STATUS => self.irq_status &= !value,
            reg::RING_LOW => self.ring[0] = value,
            reg::RING_HIGH => self.ring[1] = value,
            reg::RING_LOG2 => self.ring[2] = value,
            reg::CONTROL => {
                if value & reg::CONTROL_RESET != 0 {
                    self.core.abort().unwrap();
                    self.under_way.clear();
                    (self.tail, self.taken, self.head) = (0, 0, 0);
                    (self.irq_enable, self.irq_status) = (0, 0);
                    self.ring = [0; 3];
                }
                if value & reg::CONTROL_ENABLE != 0 {
                    assert_eq!((self.place(0), self.ring[2]), (ADDRESS, 5));
                }
                self.core.write(register, value).unwrap();
            }
            _ => self.core.write(register, value).unwrap(),
        }
    }
}

/// A device that a thread plays until the end of the test.
struct Device {
    _folders: Folders,
    master: Arc<Mutex<Master>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct Bus(Arc<Mutex<Master>>);

impl Registers for Bus {
    fn read(&self, register: u16) -> u32 {
        self.0.lock().unwrap().read(register)
    }

    fn write(&mut self, register: u16, value: u32) {
        self.0.lock().unwrap().write(register, value);
    }
}

impl Device {
    /// Starts the device, and connects to it.
    fn new() -> (Self, Uio) {
        let folders = Folders::new();
        let (here, there) = UnixStream::pair().unwrap();
        there.set_nonblocking(true).unwrap();
        let master = Master {
            core: Double::new(),
            device: File::options()
                .read(true)
                .write(true)
                .open(folders.device())
                .unwrap(),
            page: folders.page,
            ring: [0; 3],
            tail: 0,
            taken: 0,
            head: 0,
            under_way: VecDeque::new(),
            irq_enable: 0,
            irq_status: 0,
            events: there,
            armed: false,
            interrupts: 0,
            status: 0,
        };
        let master = Arc::new(Mutex::new(master));
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let (master, stop) = (Arc::clone(&master), Arc::clone(&stop));
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    master.lock().unwrap().step();
                    thread::yield_now();
                }
            })
        };
        // The thread is slower than any core.
        let cycle = Duration::from_micros(100);
        let events = File::from(OwnedFd::from(here));
        let bus = Box::new(Bus(Arc::clone(&master)));
        let uio = folders.open().unwrap().with_model(bus, events, cycle);
        let device = Self {
            _folders: folders,
            master,
            stop,
            thread: Some(thread),
        };
        (device, uio)
    }

    fn master(&self) -> MutexGuard<'_, Master> {
        self.master.lock().unwrap()
    }

    /// Checks that no data are left in the memory.
    fn assert_clean(&self) {
        assert!(self.master().core.core().is_clean());
        let mut memory = vec![0xff; MEMORY - usize::try_from(RING_BYTES).unwrap()];
        self.master().load(ADDRESS + RING_BYTES, &mut memory);
        assert!(memory.iter().all(|&byte| byte == 0));
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || thread::panicking());
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
        ecb: false,
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

/// Registers are in map 0 and the ring in map 1, which begins at the second page of the device.
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
        (folders.page + 68, [8, 7, 6, 5]),
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
    let cases: [(Break, &str); 6] = [
        (
            |f| f.put_map(1, ADDRESS, (3 << 20) - 8),
            "3145728 bytes are needed",
        ),
        (|f| f.put_map(0, 0, 2048), "4096 and"),
        (
            |f| f.put_map(1, u64::MAX, MEMORY),
            "0xffffffffffffffff is invalid",
        ),
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
    let folders = Folders::new();
    let _first = folders.open().unwrap();
    let error = folders.open().unwrap_err().to_string();
    assert!(error.contains("another program uses it"), "{error}");
}

/// Calls with partial blocks, and with more descriptors than the ring has places, there and back.
#[test]
fn calls_have_the_answers_of_the_reference() {
    for waiting in [Waiting::Polling, Waiting::Interrupts] {
        let (device, uio) = Device::new();
        {
            let backend = FpgaBackend::new(uio, "double", 0).unwrap();
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
        let interrupts = device.master().interrupts;
        assert_eq!(interrupts > 0, waiting == Waiting::Interrupts);
        device.assert_clean();
    }
}

#[test]
fn packets_wrap_around_in_the_memory() {
    let (device, uio) = Device::new();
    let (mut driver, _key) = driver(uio, Waiting::Interrupts);
    // Five packets fit, and the sixth goes to the beginning once the first is done.
    let units = 1500;
    let packet = vec![9; 512 * units as usize];
    let mut answer = vec![0; packet.len()];
    let mut expected = packet.clone();
    for (number, unit) in (7..).zip(expected.chunks_mut(512)) {
        unit.copy_from_slice(&reference::xts_encrypt(&key(), number, unit));
    }
    for _ in 0..5 {
        driver.submit(&descriptor(units), &packet).unwrap();
    }
    for _ in 0..3 {
        driver.complete(&mut answer).unwrap().status.unwrap();
        assert!(answer == expected);
        driver.submit(&descriptor(units), &packet).unwrap();
    }
    let error = driver.submit(&descriptor(units), &packet).unwrap_err();
    let text = "the memory of 4194304 bytes has no room for 768000 more";
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
    driver.settle().unwrap();
}

#[test]
fn errors_of_the_memory_have_names() {
    for (status, expected) in [
        (reg::READ_ERROR, DescriptorError::Read),
        (reg::WRITE_ERROR, DescriptorError::Write),
        (11, DescriptorError::Address),
        (12, DescriptorError::Fetch),
    ] {
        let (device, uio) = Device::new();
        let (mut driver, _key) = driver(uio, Waiting::Interrupts);
        device.master().status = status;
        driver.submit(&descriptor(1), &[0; 512]).unwrap();
        let completion = driver.complete(&mut [0; 512]).unwrap();
        assert_eq!(completion.status, Err(expected));
        driver.reset().unwrap();
        device.assert_clean();
    }
}

/// After an error the units of the call are as they were, and the memory is wiped.
#[test]
fn a_core_that_fails_leaves_no_data() {
    let (device, uio) = Device::new();
    let backend = FpgaBackend::new(uio, "double", 0).unwrap();
    let loaded = backend
        .load_key(&KeySpec::Xts(XtsKey::new(&key()).unwrap()))
        .unwrap();
    let fault = Fault::Status {
        descriptor: 0,
        code: 5,
    };
    device.master().core.break_with(fault);
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
