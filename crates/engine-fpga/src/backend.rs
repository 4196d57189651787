// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine's backend on a core.
//!
//! A call is split into batches, and a batch into descriptors, of which the core can hold many at a
//! time. The results of a batch are kept apart until the core is idle, every step has succeeded,
//! and exactly the expected number of beats has come out. Only then are they copied to their
//! destination. So after an error every data unit is either finished or unchanged. This holds even
//! if the core loses an answer, after which every later answer would be taken for the one before
//! it.

use std::{
    mem,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use luxor_engine::{
    AesSize, Backend, BackendError, BackendInfo, Buffer, CryptError, CryptErrorKind, Direction,
    KeySpec, LoadedKey, Mode, Run, check_runs,
};
use zeroize::Zeroizing;

use crate::{
    beats,
    driver::{
        CoreMode, Counters, Descriptor, DescriptorError, Driver, DriverError, KeyError, SlotKey,
        Waiting,
    },
    transport::Transport,
};

/// The name under which this engine is selected.
pub const NAME: &str = "fpga";

/// The modes of a core with counter mode. Others have all but the last.
const MODES: &[Mode] = &[Mode::Xts, Mode::Ecb, Mode::Ctr];
const KEY_SIZES: &[AesSize] = &[AesSize::Aes128, AesSize::Aes256];

/// Bytes of a descriptor, unless a data unit is longer.
const PIECE: usize = 256 << 10;

/// Bytes under way at a time, approximately: enough that the core never waits for data.
const WINDOW: usize = 2 << 20;

/// Bytes of a batch, unless a data unit is longer. Between batches the core runs empty, which takes
/// less time than 8 KiB of data, and other threads can use it.
const BATCH: usize = 4 << 20;

/// XTS and ECB on a core, and CTR if the core has it. Calls from several threads take turns.
#[derive(Debug)]
pub struct FpgaBackend<T: Transport> {
    driver: Arc<Mutex<Driver<T>>>,
    info: BackendInfo,
    batch: usize,
}

impl<T: Transport + 'static> FpgaBackend<T> {
    /// Creates a backend for the core behind `transport`. `device` describes what the core runs on.
    /// Calls with fewer than `min_batch` bytes are faster on the CPU.
    ///
    /// # Errors
    /// [`DriverError`] if the core does not answer correctly, or lacks a key size or a direction.
    pub fn new(transport: T, device: &str, min_batch: usize) -> Result<Self, DriverError> {
        let driver = Driver::new(transport)?;
        let config = driver.config();
        for (has, what) in [
            (config.has_key_size(AesSize::Aes128), "AES-128"),
            (config.has_key_size(AesSize::Aes256), "AES-256"),
            (config.encrypts(), "encryption"),
            (config.decrypts(), "decryption"),
        ] {
            if !has {
                return Err(DriverError::Lacks { what });
            }
        }
        let modes = &MODES[..MODES.len() - usize::from(!config.has_ctr())];
        let mut info = BackendInfo::new(NAME, format!("{device}: {config}"), modes);
        info.key_sizes = KEY_SIZES;
        info.min_batch = min_batch;
        Ok(Self {
            driver: Arc::new(Mutex::new(driver)),
            info,
            batch: BATCH,
        })
    }

    /// Uses batches of `bytes` bytes instead of 4 MiB, unless a data unit is longer. The results of
    /// a whole batch are held in memory.
    #[must_use]
    pub fn with_batch(self, bytes: usize) -> Self {
        Self {
            batch: bytes,
            ..self
        }
    }

    /// Waits in this way for the core ([`Waiting`]).
    ///
    /// # Errors
    /// [`DriverError`] if the core does not answer.
    pub fn with_waiting(self, waiting: Waiting) -> Result<Self, DriverError> {
        lock(&self.driver).set_waiting(waiting)?;
        Ok(self)
    }

    /// Returns what it takes to use the same core from elsewhere.
    pub(crate) fn share(&self) -> Shared<T> {
        Shared {
            driver: Arc::downgrade(&self.driver),
            info: self.info.clone(),
            batch: self.batch,
        }
    }

    /// Returns what the core has done so far.
    ///
    /// # Errors
    /// [`DriverError`] if the counters cannot be read.
    pub fn counters(&self) -> Result<Counters, DriverError> {
        lock(&self.driver).counters()
    }
}

/// A backend that others use, while one of them or of their keys is there.
#[derive(Debug)]
pub struct Shared<T: Transport> {
    driver: Weak<Mutex<Driver<T>>>,
    info: BackendInfo,
    batch: usize,
}

impl<T: Transport> Shared<T> {
    pub(crate) fn get(&self) -> Option<FpgaBackend<T>> {
        Some(FpgaBackend {
            driver: self.driver.upgrade()?,
            info: self.info.clone(),
            batch: self.batch,
        })
    }
}

impl<T: Transport + 'static> Backend for FpgaBackend<T> {
    fn info(&self) -> BackendInfo {
        self.info.clone()
    }

    fn load_key(&self, key: &KeySpec) -> Result<Box<dyn LoadedKey>, BackendError> {
        let (mode, size) = (key.mode(), key.size());
        if !self.info.key_sizes.contains(&size) {
            let backend = NAME;
            return Err(BackendError::KeySize { backend, size });
        }
        let (slot_key, core_mode) = match key {
            KeySpec::Xts(key) => (SlotKey::xts(key), CoreMode::Xts),
            KeySpec::Ecb(key) => (SlotKey::aes(key), CoreMode::Ecb),
            KeySpec::Ctr(key) if self.info.modes.contains(&mode) => {
                (SlotKey::aes(key), CoreMode::Ctr)
            }
            _ => {
                return Err(BackendError::Unsupported {
                    backend: NAME,
                    mode,
                });
            }
        };
        let key = FpgaKey {
            driver: Arc::clone(&self.driver),
            mode,
            core_mode,
            batch: self.batch,
            key: slot_key,
        };
        // Load the key now, so that a key that the core refuses is refused here.
        let seated = ready(&mut lock(&self.driver)).and_then(|driver| driver.seat(&key.key));
        match seated {
            Ok(_) => Ok(Box::new(key)),
            Err(DriverError::Key(KeyError::Equal)) => {
                Err(BackendError::EqualHalves { backend: NAME })
            }
            Err(error) => Err(BackendError::Device {
                backend: NAME,
                message: error.to_string(),
            }),
        }
    }

    fn alloc(&self, len: usize) -> Buffer {
        Buffer::zeroed(len)
    }

    fn tally(&self) -> Option<String> {
        let Counters {
            cycles,
            beats,
            blocks,
        } = self.counters().ok()?;
        Some(format!(
            "{blocks} blocks in {beats} beats, {cycles} clock cycles"
        ))
    }
}

/// Locks the driver.
fn lock<T: Transport>(driver: &Mutex<Driver<T>>) -> MutexGuard<'_, Driver<T>> {
    driver.lock().unwrap_or_else(|poisoned: PoisonError<_>| {
        let mut guard: MutexGuard<'_, Driver<T>> = poisoned.into_inner();
        // The thread that panicked may have left work under way.
        if guard.reset().is_ok() {
            driver.clear_poison();
        }
        guard
    })
}

/// Returns the driver, after a reset if it needs one.
fn ready<T: Transport>(driver: &mut Driver<T>) -> Result<&mut Driver<T>, DriverError> {
    if driver.is_lost() {
        driver.reset()?;
    }
    Ok(driver)
}

struct FpgaKey<T: Transport> {
    driver: Arc<Mutex<Driver<T>>>,
    mode: Mode,
    core_mode: CoreMode,
    batch: usize,
    key: SlotKey,
}

impl<T: Transport> Drop for FpgaKey<T> {
    fn drop(&mut self) {
        let mut driver = lock(&self.driver);
        if driver.forget(&self.key).is_err() {
            // If the reset fails too, the next call and the driver's drop try again.
            let _ = driver.reset();
        }
    }
}

impl<T: Transport> LoadedKey for FpgaKey<T> {
    fn crypt(&self, direction: Direction, runs: &mut [Run<'_>]) -> Result<(), CryptError> {
        check_runs(self.mode, runs)?;
        let mut call = Call::new(self, direction, runs);
        loop {
            let batch = call.next_batch();
            if batch.is_empty() {
                return Ok(());
            }
            let mut driver = lock(&self.driver);
            let result = ready(&mut driver).map_err(Failure::Driver);
            if let Err(failure) = result.and_then(|driver| call.crypt(driver, &batch)) {
                // The reset leaves nothing of the call in the core. If it fails, the next call
                // tries again.
                let _ = driver.reset();
                let message = failure.to_string();
                let backend = NAME;
                let kind = CryptErrorKind::Device { backend, message };
                return Err(CryptError::new(call.done, kind));
            }
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Driver(#[from] DriverError),
    #[error(transparent)]
    Descriptor(#[from] DescriptorError),
}

/// A call of [`LoadedKey::crypt`] in progress.
struct Call<'a, 'r, T: Transport> {
    key: &'a FpgaKey<T>,
    direction: Direction,
    runs: &'a mut [Run<'r>],
    /// The first unit not yet in a batch: the index of its run, and its index in the run.
    next: (usize, usize),
    /// The number of finished units.
    done: usize,
    /// A padded packet for the core, and all answers of a batch. Both are allocated at their full
    /// length, because a vector that grows leaves its old memory unwiped.
    packet: Zeroizing<Vec<u8>>,
    answers: Zeroizing<Vec<u8>>,
}

/// Consecutive units of a run: the work of one descriptor.
#[derive(Clone, Debug)]
struct UnitRange {
    run: usize,
    units: Range<usize>,
}

impl<'a, 'r, T: Transport> Call<'a, 'r, T> {
    fn new(key: &'a FpgaKey<T>, direction: Direction, runs: &'a mut [Run<'r>]) -> Self {
        Self {
            key,
            direction,
            runs,
            next: (0, 0),
            done: 0,
            packet: Zeroizing::default(),
            answers: Zeroizing::default(),
        }
    }

    fn next_batch(&mut self) -> Vec<UnitRange> {
        let (mut batch, mut len) = (Vec::new(), 0);
        while len < self.key.batch
            && let Some(piece) = self.next_piece(self.key.batch - len)
        {
            len += self.bytes(&piece).len();
            batch.push(piece);
        }
        batch
    }

    /// Takes at most `most` bytes, but at least one unit.
    fn next_piece(&mut self, most: usize) -> Option<UnitRange> {
        let (run, first) = loop {
            let (run, first) = self.next;
            if first < self.runs.get(run)?.units() {
                break (run, first);
            }
            self.next = (run + 1, 0);
        };
        let fit = PIECE.min(most) / self.runs[run].unit_len().get();
        let end = self.runs[run].units().min(first + fit.max(1));
        self.next = (run, end);
        Some(UnitRange {
            run,
            units: first..end,
        })
    }

    /// Returns the byte range of a piece in its run.
    fn bytes(&self, piece: &UnitRange) -> Range<usize> {
        let unit_len = self.runs[piece.run].unit_len().get();
        piece.units.start * unit_len..piece.units.end * unit_len
    }

    /// Processes the whole batch. After an error, nothing of it is written to the runs.
    fn crypt(&mut self, driver: &mut Driver<T>, batch: &[UnitRange]) -> Result<(), Failure> {
        let beat_len = driver.config().beat_len();
        let packet_len = |piece: &UnitRange| {
            let unit_len = self.runs[piece.run].unit_len().get();
            beats::packet_len(piece.units.len(), unit_len, beat_len)
        };
        let lens: Vec<usize> = batch.iter().map(packet_len).collect();
        reserve(&mut self.packet, lens.iter().copied().max().unwrap_or(0));
        reserve(&mut self.answers, lens.iter().sum());
        let mut answers = mem::take(&mut self.answers);

        let (mut submitted, mut under_way, mut at) = (0, 0, 0);
        for &len in &lens {
            while submitted < batch.len()
                && under_way < WINDOW
                && driver.room() > 0
                && (under_way == 0 || driver.transport().has_room(lens[submitted]))
            {
                self.submit(driver, &batch[submitted])?;
                under_way += lens[submitted];
                submitted += 1;
            }
            driver.complete(&mut answers[at..at + len])?.status?;
            under_way -= len;
            at += len;
        }
        driver.settle()?;

        let mut rest = answers.as_slice();
        for (piece, len) in batch.iter().zip(lens) {
            let (answer, others) = rest.split_at(len);
            rest = others;
            let bytes = self.bytes(piece);
            let run = &mut self.runs[piece.run];
            let unit_len = run.unit_len().get();
            beats::unpack(answer, unit_len, beat_len, &mut run.output()[bytes]);
            self.done += piece.units.len();
        }
        self.answers = answers;
        Ok(())
    }

    fn submit(&mut self, driver: &mut Driver<T>, piece: &UnitRange) -> Result<(), Failure> {
        let slot = driver.seat(&self.key.key)?;
        let slot = slot.expect("all descriptors under way use this key");
        let run = &self.runs[piece.run];
        let (unit_len, stride) = (run.unit_len(), run.stride());
        let descriptor = Descriptor {
            first: run.first().step(piece.units.start as u64, stride),
            stride,
            unit_len: u32::try_from(unit_len.get()).expect("a unit has at most 2²⁴ bytes"),
            units: u32::try_from(piece.units.len()).expect("a piece has at most PIECE units"),
            slot,
            direction: self.direction,
            mode: self.key.core_mode,
        };
        let input = &run.buf().input()[self.bytes(piece)];
        let beat_len = driver.config().beat_len();
        if unit_len.get().is_multiple_of(beat_len) {
            driver.submit(&descriptor, input)?;
        } else {
            beats::pack(input, unit_len.get(), beat_len, &mut self.packet);
            driver.submit(&descriptor, &self.packet)?;
        }
        Ok(())
    }
}

/// Makes `memory` at least `len` bytes long. A replaced buffer is wiped.
fn reserve(memory: &mut Zeroizing<Vec<u8>>, len: usize) {
    if memory.capacity() < len {
        *memory = Zeroizing::new(vec![0; len]);
    }
    let len = len.max(memory.len());
    memory.resize(len, 0);
}
