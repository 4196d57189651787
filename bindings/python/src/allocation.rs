// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor.gpu.Tensor`, and the memory that tensors share.

use std::{
    ffi::{CStr, c_int},
    ptr, slice,
    sync::Arc,
};

use luxor::{engine::Buffer, engine_cuda::CudaMemory};
use pyo3::{
    exceptions::{PyAttributeError, PyBufferError, PyTypeError, PyValueError},
    ffi,
    prelude::*,
    types::{PyDict, PyTuple},
};

use crate::{
    devices::{Gpu, OfDriver},
    dlpack::{self, Export},
    error::{Error, OutOfMemory},
};

/// Each tensor of an allocation begins at a multiple of this many bytes, as memory of its own does.
const ALIGNMENT: usize = 256;

/// A type of elements.
#[derive(Debug)]
pub(crate) struct Dtype {
    /// The name in files of safetensors.
    stored: &'static str,
    /// The name that `NumPy`, torch and `ml_dtypes` have in common.
    name: &'static str,
    /// The code of `DLPack`.
    pub(crate) code: u8,
    pub(crate) bytes: u8,
    /// The type of the array interface and that of the buffer protocol, which do not know all types.
    array: Option<(&'static str, &'static CStr)>,
}

macro_rules! dtypes {
    ($($stored:literal $name:literal $code:literal $bytes:literal $($typestr:literal $format:literal)?;)*) => {
        const DTYPES: &[Dtype] = &[$(Dtype {
            stored: $stored,
            name: $name,
            code: $code,
            bytes: $bytes,
            array: dtypes!(@ $($typestr $format)?),
        },)*];
    };
    (@) => { None };
    (@ $typestr:literal $format:literal) => { Some(($typestr, $format)) };
}

dtypes! {
    "BOOL" "bool" 6 1 "|b1" c"?";
    "U8" "uint8" 1 1 "|u1" c"B";
    "I8" "int8" 0 1 "|i1" c"b";
    "U16" "uint16" 1 2 "<u2" c"H";
    "I16" "int16" 0 2 "<i2" c"h";
    "U32" "uint32" 1 4 "<u4" c"I";
    "I32" "int32" 0 4 "<i4" c"i";
    "U64" "uint64" 1 8 "<u8" c"Q";
    "I64" "int64" 0 8 "<i8" c"q";
    "F16" "float16" 2 2 "<f2" c"e";
    "BF16" "bfloat16" 4 2;
    "F32" "float32" 2 4 "<f4" c"f";
    "F64" "float64" 2 8 "<f8" c"d";
    "C64" "complex64" 5 8 "<c8" c"Zf";
    "F8_E4M3" "float8_e4m3fn" 10 1;
    "F8_E5M2" "float8_e5m2" 12 1;
    "F8_E8M0" "float8_e8m0fnu" 14 1;
}

impl Dtype {
    fn by_stored_name(name: &str) -> Option<&'static Self> {
        DTYPES.iter().find(|dtype| dtype.stored == name)
    }

    pub(crate) fn bits(&self) -> u8 {
        self.bytes * 8
    }
}

/// The types of safetensors that a tensor can have, with the bytes of an element.
#[pyfunction]
pub(crate) fn tensor_types(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let types = PyDict::new(py);
    for dtype in DTYPES {
        types.set_item(dtype.stored, dtype.bytes)?;
    }
    Ok(types)
}

/// Memory that tensors share. It is wiped and freed with the last of them.
pub(crate) struct Allocation {
    memory: Memory,
    /// Of the first byte.
    address: usize,
}

enum Memory {
    /// Consumers use it by its address, so no reference to its bytes is made until it is dropped.
    Host { _buffer: Buffer },
    Gpu {
        memory: OfDriver<CudaMemory>,
        gpu: Gpu,
        number: u32,
    },
}

impl Allocation {
    pub(crate) fn of_host(mut buffer: Buffer) -> Self {
        Self {
            address: buffer.as_mut_ptr().expose_provenance(),
            memory: Memory::Host { _buffer: buffer },
        }
    }

    pub(crate) fn of_gpu(gpu: &Gpu, memory: CudaMemory) -> Self {
        let address = usize::try_from(memory.address().0);
        Self {
            address: address.expect("an address has as many bits on a GPU"),
            memory: Memory::Gpu {
                number: gpu.number(),
                gpu: gpu.clone(),
                memory: gpu.owned(memory),
            },
        }
    }

    /// The type and the number of the device, as `DLPack` has them.
    pub(crate) fn device(&self) -> (c_int, c_int) {
        match self.memory {
            Memory::Host { .. } => dlpack::CPU,
            Memory::Gpu { number, .. } => {
                (dlpack::CUDA[0], number.try_into().unwrap_or(c_int::MAX))
            }
        }
    }

    /// Fails if the memory cannot be used in this process.
    fn check(&self) -> PyResult<()> {
        match &self.memory {
            Memory::Host { .. } => Ok(()),
            Memory::Gpu { memory, .. } => memory.here().map(drop),
        }
    }

    /// Copies bytes to the memory of the computer.
    fn to_host(&self, py: Python<'_>, at: usize, len: usize) -> PyResult<Self> {
        let mut copy = Buffer::try_zeroed(len).map_err(|_| no_memory(len))?;
        match &self.memory {
            Memory::Host { .. } => {
                let from = ptr::with_exposed_provenance(self.address + at);
                // SAFETY: a tensor has `len` bytes from byte `at` on. That no thread writes to them
                // meanwhile is up to the caller, as with any array.
                copy.copy_from_slice(unsafe { slice::from_raw_parts(from, len) });
            }
            Memory::Gpu { memory, gpu, .. } => {
                let memory = memory.here()?;
                let done = py.detach(|| gpu.read(memory, at, &mut copy));
                done.map_err(|error| Error::new_err((error.to_string(), None::<String>)))?;
            }
        }
        Ok(Self::of_host(copy))
    }
}

fn no_memory(len: usize) -> PyErr {
    let message = format!("there is no memory for {len} bytes");
    OutOfMemory::new_err((message, None::<String>))
}

/// A tensor that is to be made: its type and shape, and its first byte in the memory.
pub(crate) struct Planned {
    dtype: &'static Dtype,
    shape: Vec<isize>,
    pub(crate) len: usize,
    pub(crate) at: usize,
}

impl Planned {
    /// Places tensors of these types and shapes one after the other. Returns them and the length of
    /// their memory.
    pub(crate) fn place(
        tensors: impl Iterator<Item = (String, Vec<isize>)>,
    ) -> PyResult<(Vec<Self>, usize)> {
        let mut end = 0_usize;
        let mut planned = Vec::new();
        for (name, shape) in tensors {
            let too_long =
                || PyValueError::new_err(format!("a tensor of the shape {shape:?} is too long"));
            let dtype = Dtype::by_stored_name(&name)
                .ok_or_else(|| PyValueError::new_err(format!("there is no type {name:?}")))?;
            let mut len = usize::from(dtype.bytes);
            // Strides are products without regard to zeros.
            let mut extent = len;
            for &size in &shape {
                let size = usize::try_from(size).map_err(|_| too_long())?;
                len = len.saturating_mul(size);
                extent = extent.saturating_mul(size.max(1));
            }
            if isize::try_from(extent).is_err() {
                return Err(too_long());
            }
            let at = end.checked_next_multiple_of(ALIGNMENT);
            let at = at.ok_or_else(too_long)?;
            end = at.checked_add(len).ok_or_else(too_long)?;
            planned.push(Self {
                dtype,
                shape,
                len,
                at,
            });
        }
        Ok((planned, end))
    }

    pub(crate) fn in_memory(self, memory: &Arc<Allocation>) -> Tensor {
        let Self {
            dtype,
            shape,
            len,
            at,
        } = self;
        let mut stride = isize::from(dtype.bytes);
        let mut strides: Vec<_> = shape
            .iter()
            .rev()
            .map(|&size| {
                let this = stride;
                stride *= size.max(1);
                this
            })
            .collect();
        strides.reverse();
        Tensor {
            memory: Some(Arc::clone(memory)),
            dtype,
            shape,
            strides,
            len,
            at,
        }
    }
}

/// Data in the memory of a GPU or of the computer. Tensors of one call share their memory, which is
/// wiped and freed with the last of them and of the arrays and tensors of other modules over it.
#[pyclass(frozen, module = "luxor.gpu")]
pub(crate) struct Tensor {
    /// `None` only while this is dropped.
    memory: Option<Arc<Allocation>>,
    dtype: &'static Dtype,
    shape: Vec<isize>,
    /// In bytes.
    strides: Vec<isize>,
    len: usize,
    at: usize,
}

impl Drop for Tensor {
    fn drop(&mut self) {
        // Freeing memory of a GPU waits for the work on it, which may itself wait for a function of
        // Python.
        if let Some(memory) = self.memory.take().and_then(Arc::into_inner) {
            let mut memory = Some(memory);
            let mut free = || drop(memory.take());
            if Python::try_attach(|py| py.detach(&mut free)).is_none() {
                free();
            }
        }
    }
}

impl Tensor {
    fn memory(&self) -> &Arc<Allocation> {
        self.memory.as_ref().expect("only `drop` takes it")
    }

    fn address(&self) -> usize {
        self.memory().address + self.at
    }

    /// Returns the array interface, if this is on a GPU or not, as `on_gpu` says.
    fn interface<'py>(&self, py: Python<'py>, on_gpu: bool) -> PyResult<Bound<'py, PyDict>> {
        if matches!(self.memory().memory, Memory::Gpu { .. }) != on_gpu {
            let message = format!("the tensor is on {}", self.device());
            return Err(PyAttributeError::new_err(message));
        }
        let Some((typestr, _)) = self.dtype.array else {
            let message = format!("the array interface has no type {}", self.dtype.name);
            return Err(PyAttributeError::new_err(message));
        };
        self.memory().check()?;
        let interface = PyDict::new(py);
        interface.set_item("shape", self.shape(py)?)?;
        interface.set_item("typestr", typestr)?;
        interface.set_item("data", (self.address(), false))?;
        interface.set_item("version", 3)?;
        Ok(interface)
    }
}

#[pymethods]
impl Tensor {
    /// The name of the type of the elements, such as "float32".
    #[getter]
    fn dtype(&self) -> &'static str {
        self.dtype.name
    }

    /// The sizes of the dimensions.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// The number of bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.len
    }

    /// Where it is: "cpu", or "cuda:0" with the number of the GPU.
    #[getter]
    fn device(&self) -> String {
        match self.memory().memory {
            Memory::Host { .. } => "cpu".to_owned(),
            Memory::Gpu { number, .. } => format!("cuda:{number}"),
        }
    }

    fn __len__(&self) -> PyResult<usize> {
        match self.shape.first() {
            Some(size) => Ok(size.unsigned_abs()),
            None => Err(PyTypeError::new_err(
                "a tensor without dimensions has no length",
            )),
        }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (name, shape, device) = (self.dtype.name, self.shape(py)?.repr()?, self.device());
        Ok(format!("<luxor.gpu.Tensor {name} {shape} on {device}>"))
    }

    fn __dlpack_device__(&self) -> (c_int, c_int) {
        self.memory().device()
    }

    /// Return a capsule with the tensor, for other modules. `stream` has no effect: all work on the
    /// tensor is done.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(c_int, c_int)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = stream;
        let here = self.memory().device();
        let to = dl_device.unwrap_or(here);
        let is_copy = copy.unwrap_or(to != here);
        if is_copy && to != dlpack::CPU {
            let message = "Luxor copies tensors only to the memory of the computer";
            return Err(PyBufferError::new_err(message));
        }
        if !is_copy && to != here {
            let message = format!("the tensor is on {}, and must not be copied", self.device());
            return Err(PyBufferError::new_err(message));
        }
        let (memory, at) = if is_copy {
            (Arc::new(self.memory().to_host(py, self.at, self.len)?), 0)
        } else {
            self.memory().check()?;
            (Arc::clone(self.memory()), self.at)
        };
        let element = isize::from(self.dtype.bytes);
        let export = Export {
            address: memory.address + at,
            device: memory.device(),
            dtype: (self.dtype.code, self.dtype.bits()),
            shape: self.shape.iter().map(|&size| size as i64).collect(),
            strides: self
                .strides
                .iter()
                .map(|&bytes| (bytes / element) as i64)
                .collect(),
            is_copy,
            _owner: memory,
        };
        export.into_capsule(py, max_version)
    }

    #[getter(__cuda_array_interface__)]
    fn cuda_array_interface<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.interface(py, true)
    }

    #[getter(__array_interface__)]
    fn array_interface<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.interface(py, false)
    }

    /// # Safety
    /// `view` is NULL or has room for a view. The interpreter calls this only so.
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        if let Memory::Gpu { .. } = this.memory().memory {
            let message = format!("the tensor is on {}: copy it first", this.device());
            return Err(PyBufferError::new_err(message));
        }
        let address = ptr::with_exposed_provenance_mut(this.address());
        // SAFETY: the caller ensures what `view` is. The bytes exist as long as `slf`, to which the view
        // gets a reference.
        let filled = unsafe {
            let len = this.len.try_into()?;
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), address, len, 0, flags)
        };
        if filled != 0 {
            return Err(PyErr::fetch(slf.py()));
        }
        // Types that the protocol does not know remain bytes.
        let Some((_, format)) = this.dtype.array else {
            return Ok(());
        };
        // SAFETY: the call has filled `view`. The shape and the strides exist as long as `slf`, and
        // nothing writes to them: consumers must not.
        let view = unsafe { &mut *view };
        view.itemsize = this.dtype.bytes.into();
        if flags & ffi::PyBUF_FORMAT == ffi::PyBUF_FORMAT {
            view.format = format.as_ptr().cast_mut();
        }
        if flags & ffi::PyBUF_ND == ffi::PyBUF_ND {
            view.ndim = this.shape.len().try_into()?;
            view.shape = this.shape.as_ptr().cast_mut();
        }
        if flags & ffi::PyBUF_STRIDES == ffi::PyBUF_STRIDES {
            view.strides = this.strides.as_ptr().cast_mut();
        }
        Ok(())
    }
}
