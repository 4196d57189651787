// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tensors that other modules hand over in the form of `dlpack.h`, versions 0 and 1.

use std::{
    ffi::{CStr, c_int, c_void},
    slice,
};

use pyo3::{
    exceptions::{PyBufferError, PyTypeError, PyValueError},
    ffi,
    prelude::*,
    types::PyDict,
};

use crate::tensor::{Tensor, contiguous};

/// The device types of NVIDIA's GPUs: memory on one, and memory that its driver moves.
const CUDA: [c_int; 2] = [2, 13];
/// Those of the computer's memory: ordinary, and what the drivers of CUDA and `ROCm` have pinned.
const HOST: [c_int; 3] = [1, 3, 11];

/// The name of a capsule with [`Managed`], until someone takes the tensor over.
const NAME: &CStr = c"dltensor";
/// The same for [`Versioned`].
const NAME_WITH_VERSION: &CStr = c"dltensor_versioned";
/// The newest version that this module knows. Others of the same major version have the same form.
const VERSION: (u32, u32) = (1, 0);
/// A flag: nothing may be written to the tensor.
const READ_ONLY: u64 = 1;
/// A flag: the tensor is a copy, so what is written to it is lost.
const IS_COPIED: u64 = 2;

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device_type: c_int,
    device: c_int,
    dimensions: c_int,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

/// The head of `DLManagedTensor`.
#[repr(C)]
struct Managed {
    tensor: DlTensor,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct Versioned {
    version: (u32, u32),
    context: *mut c_void,
    deleter: *const c_void,
    flags: u64,
    tensor: DlTensor,
}

/// Borrows the memory of `object`. `stream` will use it after the commands that the object's module
/// has begun: 1 is the default stream, 2 that of the calling thread.
pub(crate) fn tensor(object: &Bound<'_, PyAny>, stream: usize) -> PyResult<Tensor> {
    let device = object.call_method0("__dlpack_device__")?;
    let (device_type, _): (c_int, c_int) = device.extract()?;
    if !CUDA.contains(&device_type) {
        return Err(PyValueError::new_err(format!(
            "the tensor is not on an NVIDIA GPU, but on a device of DLPack's type {device_type}"
        )));
    }
    let capsule = capsule_of(object, Some(stream))?;
    // SAFETY: the interpreter is attached, and the capsule stays alive in the result.
    unsafe { in_capsule(&capsule) }
}

/// Borrows the memory of `object`, which must be the computer's. The outer result is an exception of
/// the object.
pub(crate) fn host_tensor(object: &Bound<'_, PyAny>) -> PyResult<PyResult<Tensor>> {
    let device = object.call_method0("__dlpack_device__")?;
    let (device_type, _): (c_int, c_int) = device.extract()?;
    if !HOST.contains(&device_type) {
        return Ok(Err(PyValueError::new_err(
            "the tensor is not in the memory of the computer",
        )));
    }
    let capsule = capsule_of(object, None)?;
    // SAFETY: as in `tensor`.
    Ok(unsafe { in_capsule(&capsule) })
}

/// Returns the capsule with the tensor.
fn capsule_of<'py>(
    object: &Bound<'py, PyAny>,
    stream: Option<usize>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    let arguments = PyDict::new(py);
    if let Some(stream) = stream {
        arguments.set_item("stream", stream)?;
    }
    arguments.set_item("max_version", VERSION)?;
    match object.call_method("__dlpack__", (), Some(&arguments)) {
        // Older modules do not know the argument.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            arguments.del_item("max_version")?;
            object.call_method("__dlpack__", (), Some(&arguments))
        }
        capsule => capsule,
    }
}

/// # Safety
/// A capsule of these names has such a tensor, as `dlpack.h` says.
unsafe fn in_capsule(capsule: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let pointer = |name: &CStr| {
        // SAFETY: any object and any name may be passed.
        unsafe {
            (ffi::PyCapsule_IsValid(capsule.as_ptr(), name.as_ptr()) == 1)
                .then(|| ffi::PyCapsule_GetPointer(capsule.as_ptr(), name.as_ptr()))
        }
    };
    let (tensor, is_read_only) = if let Some(managed) = pointer(NAME) {
        // SAFETY: the name says so.
        (unsafe { &(*managed.cast::<Managed>()).tensor }, false)
    } else if let Some(versioned) = pointer(NAME_WITH_VERSION) {
        // SAFETY: the name says so, and the version comes first in every version.
        let (major, minor) = unsafe { *versioned.cast::<(u32, u32)>() };
        if major != VERSION.0 {
            let message = format!("the tensor has version {major}.{minor} of DLPack");
            return Err(PyBufferError::new_err(message));
        }
        // SAFETY: the version has this form.
        let versioned = unsafe { &*versioned.cast::<Versioned>() };
        (
            &versioned.tensor,
            versioned.flags & (READ_ONLY | IS_COPIED) != 0,
        )
    } else {
        let message = "__dlpack__ returned no tensor of DLPack";
        return Err(PyTypeError::new_err(message));
    };
    let bits = usize::from(tensor.bits) * usize::from(tensor.lanes);
    if bits % 8 != 0 {
        // Several elements may share a byte.
        let message = format!("the tensor has elements of {bits} bits: pass whole bytes");
        return Err(PyBufferError::new_err(message));
    }
    let len = tensor
        .contiguous(bits / 8)
        .ok_or_else(|| PyBufferError::new_err("the tensor is not contiguous: copy it first"))?;
    let address = (tensor.data as u64)
        .checked_add(tensor.byte_offset)
        .filter(|_| len == 0 || !tensor.data.is_null());
    let tensor = Tensor {
        _owner: capsule.clone().unbind(),
        device: Some(u32::try_from(tensor.device)?),
        stream: None,
        address: address.unwrap_or(0),
        len,
        is_read_only,
    };
    tensor.checked()
}

impl DlTensor {
    /// Returns the bytes of the tensor, whose elements have `element` bytes, or `None` if they are
    /// not in one piece.
    fn contiguous(&self, element: usize) -> Option<usize> {
        let dimensions = usize::try_from(self.dimensions).ok()?;
        if dimensions != 0 && self.shape.is_null() {
            return None;
        }
        let numbers = |start: *const i64| {
            if dimensions == 0 {
                return &[][..];
            }
            // SAFETY: a tensor has a number of this kind for each dimension, at a `start` that is
            // not null.
            unsafe { slice::from_raw_parts(start, dimensions) }
        };
        let shape = numbers(self.shape);
        // Without strides the last dimension is the innermost.
        let strides = (!self.strides.is_null()).then(|| numbers(self.strides));
        contiguous(shape, strides, 1)?.checked_mul(element)
    }
}
