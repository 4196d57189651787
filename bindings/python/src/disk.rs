// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plaintext of a volume at any byte, on which `luxor.VolumeFile` is built.

use std::{
    iter,
    sync::{Arc, PoisonError, RwLock},
};

use luxor::{Export, ExportOptions, Volume};
use luxor_files::{OfProcess, Role};
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    types::{PyBytes, PyDict},
};

use crate::{
    args::{EngineArgs, Offset, Size, UnlockArgs},
    buffer::{Bytes, new_bytes},
    context::operate,
    error::{disk_exception, key_lost_in_fork, outcome},
    storage::{FileArg, Object},
};

/// Long transfers look for signals after this many bytes.
const PIECE: usize = 16 << 20;

/// An open volume.
#[pyclass(frozen, module = "luxor._luxor")]
pub(crate) struct Disk {
    /// `None` once it is closed. Transfers that are under way keep it open until they end.
    ///
    /// The lock is held only while the thread is attached to the interpreter, which does not fork
    /// meanwhile. So a forked child never finds it held by a thread of its parent.
    opened: RwLock<Option<Arc<Opened>>>,
    size: u64,
    sector_size: usize,
    writable: bool,
    name: String,
}

struct Opened {
    export: OfProcess<Export>,
    /// The objects that hold the volume.
    objects: Vec<Object>,
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
    let secrets = unlock.secrets(py)?;
    let (file, header) = (FileArg::of(file)?, unlock.header(py)?);
    let objects = iter::once(&file).chain(&header);
    let objects = objects.filter_map(FileArg::object).cloned().collect();
    let options = ExportOptions {
        read_only: !writable,
        ..ExportOptions::default()
    };
    let unlock = unlock.options();
    let opened = operate(py, context, &mut |_| Ok(()), move |context| {
        let data = file.data_file(&options)?;
        let input = data.input()?;
        let header = header.map(|header| header.input(Role::Metadata));
        let volume = Volume::open_with_header(input, header.transpose()?, context)?;
        Export::open(volume, data, &*secrets, &unlock, &options, context)
    })?;
    let export = outcome(py, opened)?;
    let disk = &export.disk;
    Ok(Disk {
        size: disk.len(),
        sector_size: disk.sector_size(),
        writable: !disk.is_read_only(),
        name: export.name.clone(),
        opened: RwLock::new(Some(Arc::new(Opened {
            export: export.of_process(),
            objects,
        }))),
    })
}

#[pymethods]
impl Disk {
    /// Fills `buffer` with the bytes from `offset` on, up to the end. Returns their number.
    fn read_into(&self, buffer: &Bound<'_, PyAny>, offset: Offset) -> PyResult<usize> {
        let py = buffer.py();
        let export = &self.usable()?.export;
        let buffer = Bytes::writable(buffer)?;
        let Offset(offset) = offset;
        let len = len_within(export, buffer.len(), offset);
        // SAFETY: `buffer` is writable, and this is the only slice of it.
        let bytes = unsafe { buffer.as_mut_slice() };
        read(py, export, &mut bytes[..len], offset)?;
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
        let export = &self.usable()?.export;
        let len = len_within(export, size, offset);
        new_bytes(py, len, |bytes| read(py, export, bytes, offset))
    }

    /// Writes `data` from `offset` on. They must end within the volume.
    fn write_at(&self, py: Python<'_>, data: &Bound<'_, PyAny>, offset: Offset) -> PyResult<()> {
        let Offset(offset) = offset;
        let export = &self.usable()?.export;
        let data = Bytes::readable(data)?;
        for (number, piece) in data.as_slice().chunks(PIECE).enumerate() {
            let at = offset.saturating_add((number * PIECE) as u64);
            let written = py.detach(|| export.disk.write(piece, at));
            written.map_err(|error| disk_exception(py, &error))?;
            py.check_signals()?;
        }
        Ok(())
    }

    /// Returns when everything that was written is durable.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        let export = &self.usable()?.export;
        py.detach(|| export.disk.flush())
            .map_err(|error| disk_exception(py, &error))
    }

    /// Closes the volume. Later calls fail, except another `close`. A forked child closes its
    /// descriptors, and drops its references to objects.
    fn close(&self) {
        let opened = self.opened.write();
        // The lock is not held while this is dropped, which may run code of Python.
        let opened = opened.unwrap_or_else(PoisonError::into_inner).take();
        if let Some(opened) = opened
            && opened.export.here().is_none()
        {
            opened.export.give_up();
            opened.objects.iter().for_each(Object::give_up);
        }
    }

    #[getter]
    fn size(&self) -> PyResult<u64> {
        self.open().map(|_| self.size)
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
        Ok(self.open()?.export.here().is_none())
    }
}

impl Disk {
    fn open(&self) -> PyResult<Arc<Opened>> {
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        let closed = || PyValueError::new_err("I/O operation on a closed volume");
        opened.clone().ok_or_else(closed)
    }

    /// Returns the volume for a transfer, which needs its keys.
    fn usable(&self) -> PyResult<Arc<Opened>> {
        let opened = self.open()?;
        if opened.export.here().is_none() {
            return Err(key_lost_in_fork());
        }
        Ok(opened)
    }
}

/// Fills `bytes` with those from `offset` on, which must be within the volume.
fn read(py: Python<'_>, export: &Export, bytes: &mut [u8], offset: u64) -> PyResult<()> {
    for (number, piece) in bytes.chunks_mut(PIECE).enumerate() {
        let at = offset + (number * PIECE) as u64;
        let read = py.detach(|| export.disk.read(piece, at));
        read.map_err(|error| disk_exception(py, &error))?;
        py.check_signals()?;
    }
    Ok(())
}

/// Returns how many of `len` bytes from `offset` on are within the volume.
fn len_within(export: &Export, len: usize, offset: u64) -> usize {
    let left = export.disk.len().saturating_sub(offset);
    usize::try_from(left).map_or(len, |left| left.min(len))
}
