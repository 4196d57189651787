// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device double for tests. It performs each launch with tables computed from the reference's
//! S-box and with the key words that the kernels read, on memory with bounds checks. It runs
//! commands either as late as possible (when the queue is waited for) or at once. It can fail or
//! panic at any call.

#![allow(dead_code, reason = "each test program uses only a part of it")]
#![allow(unsafe_code, reason = "the double copies from and to host memory")]

mod kernels;

use std::{
    collections::HashMap,
    ops::{Deref, DerefMut, Range},
    sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError},
};

use luxor_engine::Buffer;
use luxor_engine_gpu::{
    Bounds, Device, DeviceError, DeviceMemory, KeyWords, Launch, Piece, Queue, QueueSizes,
    Resident, Tables,
};

use self::kernels::{Aes, run};

/// The calls that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    LoadKey,
    MakeQueue,
    ResizeTweaks,
    Pin,
    Memory,
    UploadStaging,
    UploadPieces,
    Upload,
    Launch,
    CopyTo,
    CopyFrom,
    DownloadStaging,
    Download,
    Wait,
    Wipe,
}

/// The ways in which a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    OutOfMemory,
    Launch,
    /// Every later call fails too.
    Lost,
    /// The library lacks a function.
    TooOld,
    Panic,
}

/// Fails the `nth` call since the fault was set, counted from 0: of all calls, or of the calls of
/// `op`.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub op: Option<Op>,
    pub nth: usize,
    pub trouble: Trouble,
}

#[derive(Clone, Debug)]
pub struct Options {
    pub tables: Tables,
    /// Whether commands run only when the queue is waited for.
    pub late: bool,
    /// Bytes of memory for all queues together.
    pub memory: usize,
    /// Whether there is pinned memory.
    pub pins: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tables: Tables::Two,
            late: true,
            memory: usize::MAX,
            pins: true,
        }
    }
}

/// The state and the history of a double.
#[derive(Debug, Default)]
pub struct Record {
    pub calls: HashMap<Op, usize>,
    pub launches: Vec<Launch>,
    pub keys: usize,
    pub queues: usize,
    pub most_queues: usize,
    /// Bytes of device memory of all queues.
    pub bytes: usize,
    pub most_bytes: usize,
    /// Queues that were dropped with commands under way.
    pub abandoned: usize,
    /// Queues that were dropped with nonzero staging memory, or with nonzero memory on a device
    /// that could have wiped it.
    pub dirty: usize,
    pinned: Vec<Range<usize>>,
    fault: Option<Fault>,
    pub lost: bool,
    gate: Option<Arc<Barrier>>,
    /// Whether the fault has happened.
    pub failed: bool,
}

impl Record {
    /// Takes memory for a queue.
    fn take(&mut self, options: &Options, bytes: usize) -> Result<(), DeviceError> {
        if bytes > options.memory - self.bytes.min(options.memory) {
            let message = format!("{bytes} bytes");
            return Err(DeviceError::OutOfMemory { message });
        }
        self.bytes += bytes;
        self.most_bytes = self.most_bytes.max(self.bytes);
        Ok(())
    }
}

#[derive(Clone)]
pub struct Double {
    options: Options,
    record: Arc<Mutex<Record>>,
}

impl Double {
    pub fn new() -> Self {
        Self::with(Options::default())
    }

    pub fn with(options: Options) -> Self {
        Self {
            options,
            record: Arc::default(),
        }
    }

    pub fn record(&self) -> MutexGuard<'_, Record> {
        lock(&self.record)
    }

    pub fn break_with(&self, fault: Fault) {
        let mut record = self.record();
        record.fault = Some(fault);
        record.failed = false;
    }

    /// Makes the next wait meet the caller at `gate` twice: when it begins and when it may go on.
    pub fn hold_at_wait(&self, gate: &Arc<Barrier>) {
        self.record().gate = Some(Arc::clone(gate));
    }

    pub fn mend(&self) {
        let mut record = self.record();
        record.fault = None;
        record.lost = false;
    }

    pub fn calls(&self, op: Op) -> usize {
        self.record().calls.get(&op).copied().unwrap_or(0)
    }
}

fn lock(record: &Mutex<Record>) -> MutexGuard<'_, Record> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts a call, and fails it if the fault is due.
fn call(record: &Mutex<Record>, op: Op) -> Result<(), DeviceError> {
    if op == Op::Wait {
        let gate = lock(record).gate.take();
        if let Some(gate) = gate {
            gate.wait();
            gate.wait();
        }
    }
    let mut record = lock(record);
    *record.calls.entry(op).or_default() += 1;
    let message = format!("{op:?}");
    if record.lost {
        return Err(DeviceError::Lost { message });
    }
    let Some(fault) = &mut record.fault else {
        return Ok(());
    };
    if fault.op.is_some_and(|only| only != op) {
        return Ok(());
    }
    if fault.nth > 0 {
        fault.nth -= 1;
        return Ok(());
    }
    let trouble = fault.trouble;
    record.fault = None;
    record.failed = true;
    Err(match trouble {
        Trouble::OutOfMemory => DeviceError::OutOfMemory { message },
        Trouble::Launch => DeviceError::Launch { message },
        Trouble::TooOld => DeviceError::Library { message },
        Trouble::Lost => {
            record.lost = true;
            DeviceError::Lost { message }
        }
        Trouble::Panic => {
            drop(record);
            panic!("the double panics at {op:?}")
        }
    })
}

impl Device for Double {
    type Queue = DoubleQueue;
    type Key = DoubleKey;
    type Memory = DoubleMemory;

    fn name(&self) -> &'static str {
        "opencl"
    }

    fn description(&self) -> String {
        "double".into()
    }

    fn tables(&self) -> Tables {
        self.options.tables
    }

    fn load_key(&self, words: &KeyWords) -> Result<DoubleKey, DeviceError> {
        call(&self.record, Op::LoadKey)?;
        self.record().keys += 1;
        Ok(DoubleKey {
            data: Aes::new(words, [0, 60], self.options.tables),
            tweak: Aes::new(words, [120, 60], self.options.tables),
            record: Arc::clone(&self.record),
        })
    }

    fn queue(&self, sizes: QueueSizes) -> Result<DoubleQueue, DeviceError> {
        call(&self.record, Op::MakeQueue)?;
        assert!(sizes.data.is_multiple_of(16) && sizes.tweaks.is_multiple_of(16));
        assert!(sizes.pieces.is_multiple_of(32) && sizes.pieces > 0);
        let bytes = sizes.data + sizes.tweaks + sizes.pieces;
        let mut record = self.record();
        record.take(&self.options, bytes)?;
        record.queues += 1;
        record.most_queues = record.most_queues.max(record.queues);
        Ok(DoubleQueue {
            options: self.options.clone(),
            bytes,
            staging: vec![0; sizes.data],
            staged_pieces: vec![Piece::default(); sizes.pieces / 32],
            data: vec![0; sizes.data],
            tweaks: vec![0; sizes.tweaks],
            pieces: vec![Piece::default(); sizes.pieces / 32],
            under_way: Vec::new(),
            error: None,
            record: Arc::clone(&self.record),
        })
    }

    fn alloc(&self, len: usize) -> Option<Buffer> {
        if !self.options.pins || call(&self.record, Op::Pin).is_err() {
            return None;
        }
        let bytes = Buffer::zeroed(len);
        let start = bytes.as_ptr().addr();
        let range = start..start + len;
        self.record().pinned.push(range.clone());
        Some(Buffer::from_owner(Pinned {
            bytes,
            range,
            record: Arc::clone(&self.record),
        }))
    }

    fn is_pinned(&self, bytes: &[u8]) -> bool {
        let record = self.record();
        let (start, end) = (bytes.as_ptr().addr(), bytes.as_ptr().addr() + bytes.len());
        let mut pinned = record.pinned.iter();
        pinned.any(|range| range.start <= start && end <= range.end)
    }

    fn memory(&self, len: usize) -> Result<DoubleMemory, DeviceError> {
        call(&self.record, Op::Memory)?;
        Ok(DoubleMemory(Arc::new(Mutex::new(vec![0; len]))))
    }

    fn write(&self, memory: &mut DoubleMemory, at: usize, bytes: &[u8]) -> Result<(), DeviceError> {
        memory.0.lock().unwrap()[at..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn read(&self, memory: &DoubleMemory, at: usize, bytes: &mut [u8]) -> Result<(), DeviceError> {
        bytes.copy_from_slice(&memory.0.lock().unwrap()[at..][..bytes.len()]);
        Ok(())
    }

    fn copy(
        &self,
        from: &DoubleMemory,
        to: &mut DoubleMemory,
        len: usize,
    ) -> Result<(), DeviceError> {
        let bytes = from.0.lock().unwrap()[..len].to_vec();
        self.write(to, 0, &bytes)
    }
}

struct Pinned {
    bytes: Buffer,
    range: Range<usize>,
    record: Arc<Mutex<Record>>,
}

impl Deref for Pinned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Pinned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        lock(&self.record)
            .pinned
            .retain(|range| *range != self.range);
    }
}

pub struct DoubleKey {
    data: Aes,
    tweak: Aes,
    record: Arc<Mutex<Record>>,
}

impl Drop for DoubleKey {
    fn drop(&mut self) {
        lock(&self.record).keys -= 1;
    }
}

/// Shared, because commands that run late use it too.
pub struct DoubleMemory(Shared);

type Shared = Arc<Mutex<Vec<u8>>>;

impl DeviceMemory for DoubleMemory {
    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

enum Command {
    UploadStaging(Range<usize>),
    UploadPieces(usize),
    Upload(Host, usize),
    Launch {
        data: Aes,
        tweak: Aes,
        launch: Launch,
        on: Option<(Shared, Shared)>,
    },
    CopyTo(Range<usize>, Shared, usize),
    CopyFrom(Range<usize>, Shared, usize),
    DownloadStaging(Range<usize>),
    Download(usize, Host),
}

/// Host memory that a command uses until the queue has been waited for.
struct Host(*mut u8, usize);

// SAFETY: the caller of `upload` or `download` promises that the memory stays valid until `wait`,
// on whichever thread the queue is.
unsafe impl Send for Host {}

pub struct DoubleQueue {
    options: Options,
    bytes: usize,
    staging: Vec<u8>,
    staged_pieces: Vec<Piece>,
    data: Vec<u8>,
    tweaks: Vec<u8>,
    pieces: Vec<Piece>,
    under_way: Vec<Command>,
    error: Option<DeviceError>,
    record: Arc<Mutex<Record>>,
}

impl DoubleQueue {
    fn begin(&mut self, op: Op, command: Command) -> Result<(), DeviceError> {
        call(&self.record, op)?;
        if self.options.late {
            self.under_way.push(command);
            Ok(())
        } else {
            self.perform(command)
        }
    }

    fn finish(&mut self) {
        for command in std::mem::take(&mut self.under_way) {
            if let Err(error) = self.perform(command) {
                self.error.get_or_insert(error);
                return;
            }
        }
    }

    fn perform(&mut self, command: Command) -> Result<(), DeviceError> {
        match command {
            Command::UploadStaging(range) => {
                self.data[range.clone()].copy_from_slice(&self.staging[range]);
            }
            Command::UploadPieces(count) => {
                self.pieces[..count].copy_from_slice(&self.staged_pieces[..count]);
            }
            Command::Upload(Host(from, len), at) => {
                // SAFETY: the caller of `upload` promised that `from` is valid for reads of `len`
                // bytes.
                let from = unsafe { std::slice::from_raw_parts(from, len) };
                self.data[at..][..len].copy_from_slice(from);
            }
            Command::Launch {
                data,
                tweak,
                launch,
                on,
            } => {
                let bounds = Bounds {
                    input: self.data.len(),
                    output: self.data.len(),
                    tweaks: self.tweaks.len(),
                    pieces: self.pieces.len() * 32,
                };
                let (pieces, tweaks) = (&self.pieces, &mut self.tweaks);
                let Some((input, output)) = on else {
                    launch.check(bounds)?;
                    let input = self.data.clone();
                    run(
                        &launch,
                        &data,
                        &tweak,
                        pieces,
                        tweaks,
                        &input,
                        &mut self.data,
                    );
                    return Ok(());
                };
                let input = input.lock().unwrap().clone();
                let mut output = output.lock().unwrap();
                launch.check(Bounds {
                    input: input.len(),
                    output: output.len(),
                    ..bounds
                })?;
                run(&launch, &data, &tweak, pieces, tweaks, &input, &mut output);
            }
            Command::CopyTo(range, to, at) => {
                let mut to = to.lock().unwrap();
                to[at..][..range.len()].copy_from_slice(&self.data[range]);
            }
            Command::CopyFrom(range, from, at) => {
                let from = from.lock().unwrap();
                self.data[range.clone()].copy_from_slice(&from[at..][..range.len()]);
            }
            Command::DownloadStaging(range) => {
                self.staging[range.clone()].copy_from_slice(&self.data[range]);
            }
            Command::Download(at, Host(to, len)) => {
                // SAFETY: the caller of `download` promised that `to` is valid for writes of `len`
                // bytes.
                let to = unsafe { std::slice::from_raw_parts_mut(to, len) };
                to.copy_from_slice(&self.data[at..][..len]);
            }
        }
        Ok(())
    }

    fn settled(&mut self) {
        let late = !self.under_way.is_empty();
        self.finish();
        assert!(
            !late,
            "the staging memory was requested with commands under way"
        );
    }
}

impl Queue for DoubleQueue {
    type Key = DoubleKey;
    type Memory = DoubleMemory;

    fn resize_tweaks(&mut self, len: usize) -> Result<(), DeviceError> {
        call(&self.record, Op::ResizeTweaks)?;
        assert!(self.under_way.is_empty() && len.is_multiple_of(16));
        let mut record = lock(&self.record);
        record.take(&self.options, len)?;
        record.bytes -= self.tweaks.len();
        self.bytes += len - self.tweaks.len();
        self.tweaks = vec![0; len];
        Ok(())
    }

    fn staging(&mut self) -> &mut [u8] {
        self.settled();
        &mut self.staging
    }

    fn pieces(&mut self) -> &mut [Piece] {
        self.settled();
        &mut self.staged_pieces
    }

    fn upload_staging(&mut self, range: Range<usize>) -> Result<(), DeviceError> {
        self.begin(Op::UploadStaging, Command::UploadStaging(range))
    }

    fn upload_pieces(&mut self, count: usize) -> Result<(), DeviceError> {
        self.begin(Op::UploadPieces, Command::UploadPieces(count))
    }

    unsafe fn upload(&mut self, from: *const u8, len: usize, at: usize) -> Result<(), DeviceError> {
        self.begin(Op::Upload, Command::Upload(Host(from.cast_mut(), len), at))
    }

    fn launch(&mut self, key: &DoubleKey, launch: &Launch) -> Result<(), DeviceError> {
        lock(&self.record).launches.push(*launch);
        let command = Command::Launch {
            data: key.data.clone(),
            tweak: key.tweak.clone(),
            launch: *launch,
            on: None,
        };
        self.begin(Op::Launch, command)
    }

    fn launch_on(
        &mut self,
        data: &mut Resident<'_, DoubleMemory>,
        key: &DoubleKey,
        launch: &Launch,
    ) -> Result<(), DeviceError> {
        lock(&self.record).launches.push(*launch);
        let input = Arc::clone(&data.input().0);
        let command = Command::Launch {
            data: key.data.clone(),
            tweak: key.tweak.clone(),
            launch: *launch,
            on: Some((input, Arc::clone(&data.output().0))),
        };
        self.begin(Op::Launch, command)
    }

    fn copy_to(
        &mut self,
        range: Range<usize>,
        to: &mut DoubleMemory,
        at: usize,
    ) -> Result<(), DeviceError> {
        assert!(!range.is_empty());
        to.check(at, range.len())?;
        let to = Arc::clone(&to.0);
        self.begin(Op::CopyTo, Command::CopyTo(range, to, at))
    }

    fn copy_from(
        &mut self,
        range: Range<usize>,
        from: &DoubleMemory,
        at: usize,
    ) -> Result<(), DeviceError> {
        assert!(!range.is_empty());
        from.check(at, range.len())?;
        let from = Arc::clone(&from.0);
        self.begin(Op::CopyFrom, Command::CopyFrom(range, from, at))
    }

    fn download_staging(&mut self, range: Range<usize>) -> Result<(), DeviceError> {
        self.begin(Op::DownloadStaging, Command::DownloadStaging(range))
    }

    unsafe fn download(&mut self, at: usize, to: *mut u8, len: usize) -> Result<(), DeviceError> {
        self.begin(Op::Download, Command::Download(at, Host(to, len)))
    }

    fn wait(&mut self) -> Result<(), DeviceError> {
        if let Err(error) = call(&self.record, Op::Wait) {
            // The commands of the first half have run.
            self.under_way.truncate(self.under_way.len() / 2);
            self.finish();
            return Err(error);
        }
        self.finish();
        self.error.take().map_or(Ok(()), Err)
    }

    fn wipe(&mut self, used: QueueSizes) -> Result<(), DeviceError> {
        assert!(self.under_way.is_empty(), "wiped with commands under way");
        self.staging[..used.data].fill(0);
        self.staged_pieces[..used.pieces / 32].fill(Piece::default());
        call(&self.record, Op::Wipe)?;
        self.data[..used.data].fill(0);
        self.tweaks[..used.tweaks].fill(0);
        self.pieces[..used.pieces / 32].fill(Piece::default());
        Ok(())
    }
}

impl Drop for DoubleQueue {
    fn drop(&mut self) {
        let mut record = lock(&self.record);
        record.queues -= 1;
        record.bytes -= self.bytes;
        record.abandoned += usize::from(!self.under_way.is_empty());
        let bytes = [&self.data, &self.tweaks].into_iter().flatten();
        let device =
            bytes.copied().any(|b| b != 0) || self.pieces.iter().any(|p| *p != Piece::default());
        let host = self.staging.iter().any(|&b| b != 0)
            || self.staged_pieces.iter().any(|p| *p != Piece::default());
        let cannot = record.lost || record.failed;
        record.dirty += usize::from(host || (device && !cannot));
    }
}
