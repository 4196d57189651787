// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plaintext of a volume at any byte, on which `luxor.VolumeFile` is built.

use std::{
    io,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use luxor::{VolumeDisk, VolumeWriter, files::OfProcess};
use nix::errno::Errno;
use pyo3::{
    exceptions::{PyOSError, PyValueError},
    import_exception,
    prelude::*,
    types::{PyBytes, PyDict},
};

use crate::{
    args::{EngineArgs, Offset, Size, UnlockArgs},
    buffer::{Bytes, new_bytes},
    context::{context, operate},
    error::{disk_exception, key_lost_in_fork, outcome},
    storage::{FileArg, Object, Stop, objects},
    volume_arg::VolumeArg,
};

/// Long transfers look for signals after this many bytes, and new zeros after these.
const PIECE: usize = 16 << 20;
const ZEROS: u64 = 64 << 20;

import_exception!(io, UnsupportedOperation);

/// An open volume.
///
/// `luxor.VolumeFile` takes `readinto`, `readall`, `write`, `truncate` and `seek` from here, without a
/// function of Python around them. Such a function can be interrupted after the transfer and before
/// it returns. The buffer of `io` would then assume that the position had not changed, seek
/// relative to it, and write its data elsewhere.
#[pyclass(frozen, module = "luxor._luxor")]
pub(crate) struct Disk {
    /// `None` once it is closed. Transfers that are under way keep it open until they end.
    ///
    /// The lock is held only while the thread is attached to the interpreter, which does not fork
    /// meanwhile. So a forked child never finds it held by a thread of its parent.
    opened: RwLock<Option<Arc<Opened>>>,
    /// Where `readinto`, `readall` and `write` continue.
    position: AtomicU64,
    sector_size: usize,
    writable: bool,
    name: String,
}

struct Opened {
    plain: Plain,
    /// The objects that hold the volume.
    objects: Vec<Object>,
}

impl Opened {
    /// Reads or writes.
    fn transfer<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&Plain) -> io::Result<T> + Send,
    ) -> PyResult<T> {
        let stop = Stop::begin(&self.objects);
        let done = py.detach(|| call(&self.plain));
        stop.deliver(py, done.map_err(|error| disk_exception(py, &error)))
    }

    /// Fails if a volume that is not new ends before byte `end`.
    fn check_end(&self, end: u64) -> PyResult<()> {
        let len = self.plain.len();
        if matches!(self.plain, Plain::New(_)) || end <= len {
            return Ok(());
        }
        let message = format!("the volume ends at byte {len}");
        Err(PyOSError::new_err((Errno::ENOSPC as i32, message)))
    }

    /// Writes `data` from `offset` on, after zeros if a new volume ends before, and returns their
    /// length.
    fn write(&self, py: Python<'_>, data: &[u8], offset: u64) -> PyResult<usize> {
        if !data.is_empty() && matches!(self.plain, Plain::New(_)) && offset > self.plain.len() {
            self.set_len(py, offset)?;
        }
        for (number, piece) in data.chunks(PIECE).enumerate() {
            let at = offset.saturating_add((number * PIECE) as u64);
            self.transfer(py, |plain| plain.write(piece, at))?;
            py.check_signals()?;
        }
        Ok(data.len())
    }

    /// Makes a new volume shorter, or longer by zeros.
    fn set_len(&self, py: Python<'_>, size: u64) -> PyResult<()> {
        self.transfer(py, |plain| plain.check_len(size))?;
        loop {
            // Zeros are written in pieces, between which Ctrl-C ends this.
            let now = size.min(self.plain.len().saturating_add(ZEROS));
            self.transfer(py, |plain| plain.set_len(now))?;
            py.check_signals()?;
            if now == size {
                return Ok(());
            }
        }
    }

    fn mark_incomplete(&self) {
        if let Plain::New(writer) = &self.plain {
            writer.mark_incomplete();
        }
    }
}

/// The plaintext of a volume.
enum Plain {
    Existing(OfProcess<VolumeDisk>),
    New(Box<OfProcess<VolumeWriter>>),
}

impl Plain {
    fn is_here(&self) -> bool {
        match self {
            Self::Existing(disk) => disk.here().is_some(),
            Self::New(writer) => writer.here().is_some(),
        }
    }

    fn give_up(&self) {
        match self {
            Self::Existing(disk) => disk.give_up(),
            Self::New(writer) => writer.give_up(),
        }
    }

    fn len(&self) -> u64 {
        match self {
            Self::Existing(disk) => disk.len(),
            Self::New(writer) => writer.len(),
        }
    }

    fn read(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            Self::Existing(disk) => disk.read_at(buf, offset),
            Self::New(writer) => writer.read(buf, offset),
        }
    }

    fn write(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        match self {
            Self::Existing(disk) => disk.write_at(buf, offset),
            Self::New(writer) => writer.write(buf, offset),
        }
    }

    /// Makes what was written durable. A new volume is nowhere before it is finished.
    fn flush(&self) -> io::Result<()> {
        match self {
            Self::Existing(disk) => disk.sync(),
            Self::New(_) => Ok(()),
        }
    }

    fn check_len(&self, len: u64) -> io::Result<()> {
        match self {
            Self::Existing(_) => Err(io::ErrorKind::Unsupported.into()),
            Self::New(writer) => writer.check_len(len),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        match self {
            Self::Existing(_) => Err(io::ErrorKind::Unsupported.into()),
            Self::New(writer) => writer.set_len(len),
        }
    }
}

/// Opens the volume in `file`.
#[pyfunction]
pub(crate) fn open(
    file: &Bound<'_, PyAny>,
    writable: bool,
    args: &Bound<'_, PyDict>,
) -> PyResult<Disk> {
    let py = file.py();
    let unlock: UnlockArgs = args.extract()?;
    let context = args.extract::<EngineArgs>()?.context()?;
    let (secrets, unlock) = (unlock.secrets(py)?, unlock.options());
    let volume = VolumeArg::new(FileArg::from_start(file)?, args)?;
    let objects = objects(volume.files());
    let disk = operate(py, context, &objects, &mut |_| Ok(()), move |context| {
        let unlocked = volume.unlock(&*secrets, &unlock, writable, context)?;
        unlocked.disk()
    })?;
    Ok(Disk::of_existing(disk, objects))
}

impl Disk {
    /// An existing volume, which the objects hold.
    pub(crate) fn of_existing(disk: VolumeDisk, objects: Vec<Object>) -> Self {
        Self {
            sector_size: disk.shared().sector_size(),
            writable: !disk.shared().is_read_only(),
            name: disk.name().to_owned(),
            position: AtomicU64::new(0),
            opened: RwLock::new(Some(Arc::new(Opened {
                plain: Plain::Existing(disk.of_process()),
                objects,
            }))),
        }
    }

    /// A new volume, which the objects hold.
    pub(crate) fn of_new(writer: VolumeWriter, objects: Vec<Object>) -> Self {
        Self {
            sector_size: writer.sector_size(),
            writable: true,
            name: writer.name(),
            position: AtomicU64::new(0),
            opened: RwLock::new(Some(Arc::new(Opened {
                plain: Plain::New(Box::new(writer.of_process())),
                objects,
            }))),
        }
    }
}

#[pymethods]
impl Disk {
    /// Fills `buffer` with the bytes from `offset` on, up to the end. Returns their number.
    fn read_into(&self, buffer: &Bound<'_, PyAny>, offset: Offset) -> PyResult<usize> {
        let py = buffer.py();
        let opened = self.usable()?;
        let buffer = Bytes::writable(buffer)?;
        let Offset(offset) = offset;
        let len = len_within(&opened.plain, buffer.len(), offset);
        // SAFETY: `buffer` is writable, and this is the only slice of it.
        let bytes = unsafe { buffer.as_mut_slice() };
        read(py, &opened, &mut bytes[..len], offset)?;
        Ok(len)
    }

    /// Returns `size` bytes from `offset` on, or those up to the end.
    fn read_at<'py>(
        &self,
        py: Python<'py>,
        size: Size,
        offset: Offset,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (Size(size), Offset(offset)) = (size, offset);
        let opened = self.usable()?;
        let len = len_within(&opened.plain, size, offset);
        new_bytes(py, len, |bytes| read(py, &opened, bytes, offset))
    }

    /// Writes `data` from `offset` on, and returns their length. They must end within a volume that
    /// is not new.
    fn write_at(&self, py: Python<'_>, data: &Bound<'_, PyAny>, offset: Offset) -> PyResult<usize> {
        let (Offset(offset), data) = (offset, Bytes::readable(data)?);
        self.changing(|opened| {
            let data = data.as_slice();
            if !data.is_empty() {
                opened.check_end(offset.saturating_add(data.len() as u64))?;
            }
            opened.write(py, data, offset)
        })
    }

    /// Fails if a volume that is not new ends before byte `end`.
    fn check_end(&self, end: Offset) -> PyResult<()> {
        self.open()?.check_end(end.0)
    }

    fn readinto(&self, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let at = self.position();
        let count = self.read_into(buffer, Offset(at))?;
        self.set_position(at + count as u64);
        Ok(count)
    }

    fn readall<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let at = self.position();
        let size = self.size()?.saturating_sub(at);
        let data = self.read_at(py, Size(usize::try_from(size)?), Offset(at))?;
        self.set_position(at + data.as_bytes().len() as u64);
        Ok(data)
    }

    /// Writes `data`, or what fits into a volume that is not new. Returns their length.
    fn write(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<usize> {
        let data = Bytes::readable(data)?;
        self.changing(|opened| {
            let at = self.position();
            let mut data = data.as_slice();
            if let Plain::Existing(_) = opened.plain
                && !data.is_empty()
            {
                opened.check_end(at.saturating_add(1))?;
                data = &data[..len_within(&opened.plain, data.len(), at)];
            }
            let count = opened.write(py, data, at)?;
            self.set_position(at + count as u64);
            Ok(count)
        })
    }

    #[pyo3(signature = (offset, whence = 0, /))]
    fn seek(&self, offset: i64, whence: i32) -> PyResult<u64> {
        let base = match whence {
            0 => 0,
            1 => self.position(),
            2 => self.size()?,
            _ => {
                let message = format!("invalid whence ({whence}, should be 0, 1 or 2)");
                return Err(PyValueError::new_err(message));
            }
        };
        self.open()?;
        let Some(at) = base.checked_add_signed(offset) else {
            let message = "the position would be negative";
            return Err(PyOSError::new_err((Errno::EINVAL as i32, message)));
        };
        self.set_position(at);
        Ok(at)
    }

    /// Returns when everything that was written is durable.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.usable()?.transfer(py, Plain::flush)
    }

    /// Makes a new volume shorter, or longer by zeros: it ends at byte `size`, or at the position.
    #[pyo3(signature = (size = None, /))]
    fn truncate(&self, py: Python<'_>, size: Option<Offset>) -> PyResult<u64> {
        let size = size.map_or_else(|| self.position(), |Offset(size)| size);
        self.changing(|opened| opened.set_len(py, size))?;
        Ok(size)
    }

    /// Lets `finish` of a new volume fail, because it lacks something that was to be written.
    fn mark_incomplete(&self) {
        if let Ok(opened) = self.open() {
            opened.mark_incomplete();
        }
    }

    /// Fails if `finish` would fail for that reason.
    fn check_complete(&self, py: Python<'_>) -> PyResult<()> {
        match &self.open()?.plain {
            Plain::New(writer) => outcome(py, writer.check_complete()),
            Plain::Existing(_) => Ok(()),
        }
    }

    /// Lets a new volume appear, and closes it.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        self.usable()?;
        let opened = self.opened.write();
        let opened = opened.unwrap_or_else(PoisonError::into_inner).take();
        let finished = match opened.and_then(Arc::into_inner) {
            Some(Opened {
                plain: Plain::New(writer),
                objects,
            }) => writer.into_inner().zip(Some(objects)),
            _ => None,
        };
        let Some((writer, objects)) = finished else {
            let message = "the volume is in use by another thread, and is discarded";
            return Err(PyValueError::new_err(message));
        };
        let context = context(None, None)?;
        operate(py, context, &objects, &mut |_| Ok(()), move |context| {
            writer.finish(context)
        })
    }

    /// Closes the volume. Later calls fail, except another `close`. A forked child closes its
    /// descriptors, and drops its references to objects.
    fn close(&self) {
        let opened = self.opened.write();
        // The lock is not held while this is dropped, which may run code of Python.
        let opened = opened.unwrap_or_else(PoisonError::into_inner).take();
        if let Some(opened) = opened
            && !opened.plain.is_here()
        {
            opened.plain.give_up();
            opened.objects.iter().for_each(Object::give_up);
        }
    }

    #[getter]
    fn size(&self) -> PyResult<u64> {
        self.open().map(|opened| opened.plain.len())
    }

    #[getter]
    fn sector_size(&self) -> PyResult<usize> {
        self.open().map(|_| self.sector_size)
    }

    #[getter]
    fn writable(&self) -> PyResult<bool> {
        self.open().map(|_| self.writable)
    }

    #[getter]
    fn name(&self) -> PyResult<String> {
        self.open().map(|_| self.name.clone())
    }

    /// Whether it belongs to the process of which this one is a fork. Then it can only be closed.
    #[getter]
    fn inherited(&self) -> PyResult<bool> {
        Ok(!self.open()?.plain.is_here())
    }
}

impl Disk {
    fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }

    fn set_position(&self, at: u64) {
        self.position.store(at, Ordering::Relaxed);
    }

    /// Runs `change` of a volume that is open for writing. If it fails, a new volume is incomplete.
    fn changing<T>(&self, change: impl FnOnce(&Opened) -> PyResult<T>) -> PyResult<T> {
        let opened = self.open()?;
        if !self.writable {
            let message = "the volume is open for reading only";
            return Err(UnsupportedOperation::new_err(message));
        }
        if !opened.plain.is_here() {
            return Err(key_lost_in_fork());
        }
        change(&opened).inspect_err(|_| opened.mark_incomplete())
    }

    fn open(&self) -> PyResult<Arc<Opened>> {
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        let closed = || PyValueError::new_err("I/O operation on a closed volume");
        opened.clone().ok_or_else(closed)
    }

    /// Returns the volume for a transfer, which needs its keys.
    fn usable(&self) -> PyResult<Arc<Opened>> {
        let opened = self.open()?;
        if !opened.plain.is_here() {
            return Err(key_lost_in_fork());
        }
        Ok(opened)
    }
}

/// Fills `bytes` with those from `offset` on, which must be within the volume.
fn read(py: Python<'_>, opened: &Opened, bytes: &mut [u8], offset: u64) -> PyResult<()> {
    for (number, piece) in bytes.chunks_mut(PIECE).enumerate() {
        let at = offset + (number * PIECE) as u64;
        opened.transfer(py, |plain| plain.read(piece, at))?;
        py.check_signals()?;
    }
    Ok(())
}

/// Returns how many of `len` bytes from `offset` on are within the volume.
fn len_within(plain: &Plain, len: usize, offset: u64) -> usize {
    let left = plain.len().saturating_sub(offset);
    usize::try_from(left).map_or(len, |left| left.min(len))
}
