// SPDX-License-Identifier: MIT OR Apache-2.0
//! A volume, or a file that is not encrypted, whose plaintext becomes tensors. `luxor.gpu` is built on it.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
};

use luxor::{
    Context, DeviceCopy, DeviceDisk, DiskUse, VolumeDisk,
    engine::Buffer,
    engine_cuda::Cuda,
    engine_gpu::{Device, DeviceError, DeviceRange, StreamDevice},
    files::OfProcess,
};
use nix::errno::Errno;
use pyo3::{
    exceptions::{PyOSError, PyValueError},
    prelude::*,
    types::{PyBytes, PyDict},
};

use crate::{
    allocation::{Allocation, Planned, Tensor},
    args::{EngineArgs, Offset, PartArgs, Size, UnlockArgs},
    context::{context, operate},
    devices::{Devices, Gpu, OfDriver, Place, unusable},
    error::{key_lost_in_fork, transfer_exception},
    gpu::{stream_of, tensor_of},
    storage::{FileArg, Object, objects},
    tensor::Tensor as GpuMemory,
    volume_arg::VolumeArg,
};

/// An open volume, or a file that is not encrypted.
#[pyclass(frozen, module = "luxor._luxor")]
pub(crate) struct Loader {
    /// `None` once it is closed. Locked only for a moment, as in `Disk`.
    disk: Mutex<Option<Arc<KeyedDisk>>>,
    objects: Vec<Object>,
    /// That of the operation that has opened the volume.
    cancel: Arc<AtomicBool>,
}

/// A volume with its keys, on a GPU or not. A file that is not encrypted has none.
enum KeyedDisk {
    Host(OfProcess<VolumeDisk>),
    Gpu(OfDriver<DeviceDisk<Cuda>>, Gpu),
}

impl KeyedDisk {
    fn disk(&self) -> PyResult<&VolumeDisk> {
        match self {
            Self::Host(disk) => disk.here().ok_or_else(key_lost_in_fork),
            Self::Gpu(disk, _) => disk.here().map(DeviceDisk::disk),
        }
    }

    /// Returns the disk on a thread of an operation, which no forked process has.
    fn on_thread(&self) -> &VolumeDisk {
        match self {
            Self::Host(disk) => disk,
            Self::Gpu(disk, _) => disk.on_thread().disk(),
        }
    }

    fn give_up(&self) {
        match self {
            Self::Host(disk) => disk.give_up(),
            Self::Gpu(disk, _) => disk.give_up(),
        }
    }

    /// Reads into new memory. The work on `stream` comes first.
    fn load(
        &self,
        len: usize,
        copies: &[DeviceCopy],
        stream: Option<usize>,
        context: &Context,
    ) -> io::Result<Allocation> {
        match self {
            Self::Host(_) => {
                let mut buffer = host_memory(len)?;
                self.on_thread().read_into(&mut buffer, copies, context)?;
                Ok(Allocation::of_host(buffer))
            }
            Self::Gpu(disk, gpu) => {
                let cuda = gpu.cuda();
                // An address that no other memory has, also without a byte.
                let len = len.max(1);
                let mut memory = cuda.memory(len)?;
                if let Some(stream) = stream {
                    let range = DeviceRange {
                        address: memory.address().0,
                        len,
                    };
                    // SAFETY: that the stream is valid is the promise that every function on a stream
                    // asks for. The memory is new, and what is lent is given back at once.
                    drop(unsafe { cuda.borrow(range, &[stream]) }?);
                }
                disk.on_thread()
                    .read_into(gpu.index(), &mut memory, copies)?;
                Ok(Allocation::of_gpu(gpu, memory))
            }
        }
    }

    /// Writes a caller's memory from byte `offset` on, after the work on the streams `after`, and makes it
    /// durable.
    fn store(&self, data: &GpuMemory, offset: u64, after: &[usize]) -> io::Result<()> {
        let Self::Gpu(disk, gpu) = self else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let range = DeviceRange {
            address: data.address,
            len: data.len,
        };
        // SAFETY: that the streams are valid, and that nothing else writes to the memory meanwhile, is the
        // promise that every function on a stream asks for. `data` has a reference to the memory's owner.
        let memory = unsafe { gpu.cuda().borrow(range, after) }?;
        let copy = DeviceCopy {
            offset,
            len: data.len,
            at: 0,
        };
        let disk = disk.on_thread();
        disk.write_from(gpu.index(), &memory, &[copy])?;
        disk.disk().sync()
    }
}

#[pymethods]
impl Loader {
    /// Opens the volume in `file`, for data in the place called `device`.
    #[new]
    fn new(
        file: &Bound<'_, PyAny>,
        device: Option<&str>,
        args: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let py = file.py();
        let place = Place::by_name(py, device)?;
        Self::open(file, place, false, args)
    }

    /// Opens a file that is not encrypted.
    #[staticmethod]
    fn of_unencrypted(
        file: &Bound<'_, PyAny>,
        device: Option<&str>,
        args: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let py = file.py();
        let place = Place::by_name(py, device)?;
        let part = args.extract::<PartArgs>()?.part()?;
        let file = FileArg::from_start(file)?;
        let opened = objects([&file]);
        Self::opened(py, context(None, None)?, opened, move |context| {
            let options = DiskUse {
                read_only: true,
                direct: matches!(place, Place::Gpu(_)),
                ..DiskUse::default()
            };
            let data = file.data_file(part, &options)?;
            Ok(match place {
                Place::Host => KeyedDisk::Host(
                    VolumeDisk::of_unencrypted(data, &options, context)?.of_process(),
                ),
                Place::Gpu(gpu) => {
                    let make =
                        |backend: &_| DeviceDisk::of_unencrypted(data, &options, backend, context);
                    KeyedDisk::Gpu(gpu.disk(make)?, gpu)
                }
            })
        })
    }

    /// The number of bytes of plaintext.
    #[getter]
    fn size(&self) -> PyResult<u64> {
        Ok(self.here()?.disk()?.len())
    }

    /// Whether that is the length of the file in the volume.
    #[getter]
    fn has_exact_size(&self) -> PyResult<bool> {
        Ok(self.here()?.disk()?.has_exact_len())
    }

    #[getter]
    fn name(&self) -> PyResult<String> {
        Ok(self.here()?.disk()?.name().to_owned())
    }

    /// Returns `size` bytes from `offset` on, which must be within the plaintext.
    fn read_at<'py>(
        &self,
        py: Python<'py>,
        size: Size,
        offset: Offset,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (Size(len), Offset(offset)) = (size, offset);
        let keyed = self.here()?;
        keyed.disk()?;
        let bytes = self.operate(py, move |context| {
            let mut bytes = host_memory(len)?;
            let copy = DeviceCopy { offset, len, at: 0 };
            let disk = keyed.on_thread();
            disk.read_into(&mut bytes, &[copy], context)?;
            Ok(bytes)
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Makes tensors of bytes of the plaintext: each of a byte at which it begins, a type of safetensors, and
    /// a shape. They share one allocation. The work on `stream` comes first.
    fn load(
        &self,
        py: Python<'_>,
        tensors: Vec<(u64, String, Vec<isize>)>,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Tensor>> {
        let stream = stream.map(stream_of).transpose()?;
        let keyed = self.here()?;
        let size = keyed.disk()?.len();
        let mut offsets = Vec::with_capacity(tensors.len());
        let types = tensors.into_iter().map(|(offset, dtype, shape)| {
            offsets.push(offset);
            (dtype, shape)
        });
        let (planned, len) = Planned::place(types)?;
        let mut copies = Vec::with_capacity(planned.len());
        for (tensor, offset) in planned.iter().zip(offsets) {
            let (len, at) = (tensor.len, tensor.at);
            if offset.checked_add(len as u64).is_none_or(|end| end > size) {
                return Err(PyValueError::new_err(format!(
                    "{len} bytes from byte {offset} on are not within the {size} bytes of plaintext"
                )));
            }
            copies.push(DeviceCopy { offset, len, at });
        }
        let memory = self.operate(py, move |context| keyed.load(len, &copies, stream, context))?;
        let memory = Arc::new(memory);
        let tensors = planned.into_iter().map(|tensor| tensor.in_memory(&memory));
        Ok(tensors.collect())
    }

    /// Wipes the keys, and unlocks the data.
    fn close(&self, py: Python<'_>) {
        let disk = self.disk.lock();
        // Not locked while this is dropped, which may run code of Python.
        let disk = disk.unwrap_or_else(PoisonError::into_inner).take();
        if let Some(disk) = disk {
            if disk.disk().is_err() {
                disk.give_up();
                self.objects.iter().for_each(Object::give_up);
            }
            py.detach(|| drop(disk));
        }
    }
}

impl Loader {
    fn open(
        file: &Bound<'_, PyAny>,
        place: Place,
        writable: bool,
        args: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let py = file.py();
        let unlock: UnlockArgs = args.extract()?;
        let context = args.extract::<EngineArgs>()?.context()?;
        let (secrets, unlock) = (unlock.secrets(py)?, unlock.options());
        let volume = VolumeArg::new(FileArg::from_start(file)?, args)?;
        let objects = objects(volume.files());
        Self::opened(py, context, objects, move |context| {
            let volume = volume.open(&unlock, writable, context)?;
            Ok(match place {
                Place::Host => KeyedDisk::Host(volume.unlock(&*secrets)?.disk()?.of_process()),
                Place::Gpu(gpu) => {
                    let unlocked = volume.direct_if_possible().unlock(&*secrets)?;
                    KeyedDisk::Gpu(gpu.disk(|backend| unlocked.disk_on(backend))?, gpu)
                }
            })
        })
    }

    /// Opens a disk, whose data are in `objects` unless they are at paths.
    fn opened(
        py: Python<'_>,
        context: Context,
        objects: Vec<Object>,
        open: impl FnOnce(&Context) -> luxor::Result<KeyedDisk> + Send + 'static,
    ) -> PyResult<Self> {
        let cancel = Arc::clone(&context.cancel);
        let disk = operate(py, context, &objects, &mut |_| Ok(()), open)?;
        Ok(Self {
            disk: Mutex::new(Some(Arc::new(disk))),
            objects,
            cancel,
        })
    }

    fn store(&self, py: Python<'_>, data: GpuMemory, offset: u64, stream: usize) -> PyResult<()> {
        let keyed = self.here()?;
        let size = keyed.disk()?.len();
        let end = offset.checked_add(data.len as u64);
        if end.is_none_or(|end| end > size) {
            let message = format!("the volume ends at byte {size}");
            return Err(PyOSError::new_err((Errno::ENOSPC as i32, message)));
        }
        let after: Vec<usize> = data.stream.into_iter().chain([stream]).collect();
        self.operate(py, move |_| {
            keyed.store(&data, offset, &after)?;
            // Its owner is released by a thread that has the interpreter.
            Ok(data)
        })?;
        Ok(())
    }

    fn here(&self) -> PyResult<Arc<KeyedDisk>> {
        let disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        let closed = || PyValueError::new_err("I/O operation on a closed volume");
        disk.clone().ok_or_else(closed)
    }

    /// Runs `work` as [`operate`] does. An exception cancels it, and a device's copies in the same way.
    fn operate<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Context) -> io::Result<T> + Send + 'static,
    ) -> PyResult<T> {
        let context = Context {
            cancel: Arc::clone(&self.cancel),
            ..context(None, None)?
        };
        let objects = &self.objects;
        let done = operate(py, context, objects, &mut |_| Ok(()), |context| {
            Ok(work(context))
        })?;
        done.map_err(|error| self.exception(py, &error))
    }

    /// Returns the exception, and lets the next call open the GPUs anew if one is lost.
    fn exception(&self, py: Python<'_>, error: &io::Error) -> PyErr {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
        if let Some(DeviceError::Lost { .. }) = inner {
            Devices::forget();
        }
        match self.name() {
            Ok(name) => transfer_exception(py, &name, error),
            Err(error) => error,
        }
    }
}

/// Writes a tensor on a GPU to the volume in `file`, from byte `offset` of its plaintext on.
#[pyfunction]
pub(crate) fn store(
    file: &Bound<'_, PyAny>,
    tensor: &Bound<'_, PyAny>,
    offset: Offset,
    stream: Option<&Bound<'_, PyAny>>,
    args: &Bound<'_, PyDict>,
) -> PyResult<()> {
    let (py, Offset(offset)) = (file.py(), offset);
    let stream = stream.map_or(Ok(1), stream_of)?;
    let data = tensor_of(tensor, stream)?;
    if data.len == 0 {
        // It may have no address, which names the GPU.
        return Ok(());
    }
    let devices = Devices::get(py)?.map_err(unusable)?;
    let gpu = Gpu::of(&devices, &data)?;
    let volume = Loader::open(file, Place::Gpu(gpu), true, args)?;
    let stored = volume.store(py, data, offset, stream);
    volume.close(py);
    stored
}

/// Allocates `len` zero bytes.
fn host_memory(len: usize) -> io::Result<Buffer> {
    let failed = |error| io::Error::new(io::ErrorKind::OutOfMemory, error);
    Buffer::try_zeroed(len).map_err(failed)
}
