// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tensors that other modules hand over in the form of `dlpack.h`, versions 0 and 1.

use std::{
    any::Any,
    ffi::{CStr, c_int, c_void},
    ptr, slice,
    sync::Arc,
};

use pyo3::{
    exceptions::{PyBufferError, PyTypeError, PyValueError},
    ffi,
    prelude::*,
    types::PyDict,
};

use crate::tensor::{Tensor, contiguous};

/// The device types of NVIDIA's GPUs: memory on one, and memory that its driver moves.
pub(crate) const CUDA: [c_int; 2] = [2, 13];
/// The device of the computer's memory.
pub(crate) const CPU: (c_int, c_int) = (1, 0);
/// Those of the computer's memory: ordinary, and what the drivers of CUDA and `ROCm` have pinned.
const HOST: [c_int; 3] = [CPU.0, 3, 11];

/// The name of a capsule with [`Managed`], until someone takes the tensor over.
const NAME: &CStr = c"dltensor";
/// The same for [`Versioned`].
const NAME_WITH_VERSION: &CStr = c"dltensor_versioned";
/// The newest version that this module knows. Others of the same major version have the same form.
const VERSION: (u32, u32) = (1, 1);
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

/// `DLManagedTensor`.
#[repr(C)]
struct Managed {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct Versioned {
    version: (u32, u32),
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
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

/// A tensor that is handed over.
pub(crate) struct Export {
    pub(crate) address: usize,
    /// The type and the number of the device.
    pub(crate) device: (c_int, c_int),
    /// The code and the bits of the type of the elements.
    pub(crate) dtype: (u8, u8),
    pub(crate) shape: Vec<i64>,
    /// In elements.
    pub(crate) strides: Vec<i64>,
    pub(crate) is_copy: bool,
    /// Dropped by the new owner, on any thread, with or without the interpreter.
    pub(crate) _owner: Arc<dyn Any + Send + Sync>,
}

impl Export {
    /// Returns a capsule for a module that supports versions up to `max_version`, if it says so.
    pub(crate) fn into_capsule(
        self,
        py: Python<'_>,
        max_version: Option<(u32, u32)>,
    ) -> PyResult<Bound<'_, PyAny>> {
        let tensor = DlTensor {
            data: ptr::with_exposed_provenance_mut(self.address),
            device_type: self.device.0,
            device: self.device.1,
            dimensions: self.shape.len().try_into()?,
            code: self.dtype.0,
            bits: self.dtype.1,
            lanes: 1,
            shape: self.shape.as_ptr(),
            strides: self.strides.as_ptr(),
            byte_offset: 0,
        };
        let flags = if self.is_copy { IS_COPIED } else { 0 };
        let context = Box::into_raw(Box::new(self)).cast();
        if max_version.is_some_and(|(major, _)| major >= VERSION.0) {
            let managed = Box::new(Versioned {
                version: VERSION,
                context,
                deleter: Some(Versioned::delete),
                flags,
                tensor,
            });
            new_capsule(py, managed)
        } else {
            let deleter = Some(Managed::delete as _);
            let managed = Box::new(Managed {
                tensor,
                context,
                deleter,
            });
            new_capsule(py, managed)
        }
    }
}

/// What is in a capsule.
trait Managing: Sized {
    const NAME: &'static CStr;

    fn context(&self) -> *mut Export;

    /// Frees the tensor.
    ///
    /// # Safety
    /// `this` was made by [`Export::into_capsule`], and nothing uses it or the tensor any more.
    unsafe extern "C" fn delete(this: *mut Self) {
        // SAFETY: `into_capsule` has made both with `Box::into_raw`.
        unsafe {
            let this = Box::from_raw(this);
            drop(Box::from_raw(this.context()));
        }
    }

    /// Frees a tensor that no module has taken over. The interpreter calls this for its capsule.
    ///
    /// # Safety
    /// `capsule` was made by [`new_capsule`].
    unsafe extern "C" fn abandon(capsule: *mut ffi::PyObject) {
        // SAFETY: the capsule exists. Under its first name it has the tensor of `new_capsule`; a module
        // that has taken it over has given it another name.
        unsafe {
            if ffi::PyCapsule_IsValid(capsule, Self::NAME.as_ptr()) == 1 {
                Self::delete(ffi::PyCapsule_GetPointer(capsule, Self::NAME.as_ptr()).cast());
            }
        }
    }
}

impl Managing for Managed {
    const NAME: &'static CStr = NAME;

    fn context(&self) -> *mut Export {
        self.context.cast()
    }
}

impl Managing for Versioned {
    const NAME: &'static CStr = NAME_WITH_VERSION;

    fn context(&self) -> *mut Export {
        self.context.cast()
    }
}

fn new_capsule<T: Managing>(py: Python<'_>, managed: Box<T>) -> PyResult<Bound<'_, PyAny>> {
    let managed = Box::into_raw(managed);
    // SAFETY: the interpreter is attached, and the name is static. If there is no capsule, nothing else
    // has the tensor.
    unsafe {
        let capsule = ffi::PyCapsule_New(managed.cast(), T::NAME.as_ptr(), Some(T::abandon));
        let capsule = Bound::from_owned_ptr_or_err(py, capsule);
        if capsule.is_err() {
            T::delete(managed);
        }
        capsule
    }
}
