// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory of Python objects with the buffer protocol.

use std::{
    ffi::{CStr, c_int},
    mem::MaybeUninit,
    ptr, slice,
};

use luxor::engine::InOut;
use pyo3::{
    buffer::PyUntypedBuffer,
    exceptions::{PyBufferError, PyTypeError, PyValueError},
    ffi,
    prelude::*,
    types::PyBytes,
};

use crate::{
    error::{ends_program, unless_it_fails},
    memory::shared,
    tensor::no_address,
};

/// What is asked of an object: elements of any type, all in one piece.
const CONTIGUOUS: c_int = ffi::PyBUF_FORMAT | ffi::PyBUF_ND;

/// The bytes of an object, in one piece. While this exists the object cannot move or shrink them.
///
/// Another thread of Python may write to them at any time, as to those of any function that works
/// without the GIL. The functions here only ever encrypt or copy such bytes: they never decide
/// anything by them.
pub(crate) struct Bytes<'py> {
    /// Not pinned: a moved view keeps all but its shape, which is not used.
    view: ffi::Py_buffer,
    /// Releasing the view needs the interpreter.
    _py: Python<'py>,
}

impl<'py> Bytes<'py> {
    /// Borrows the memory of `object` for reading: by the buffer protocol, or as [`shared`] finds it.
    pub(crate) fn readable(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        let py = object.py();
        let error = match Self::get(object) {
            Ok(bytes) => return Ok(bytes),
            Err(error) if ends_program(py, &error) => return Err(error),
            Err(error) => error,
        };
        match unless_it_fails(py, PyUntypedBuffer::get(object))? {
            Some(buffer) if !buffer.is_c_contiguous() => {
                let message = "the buffer is not contiguous: copy it first";
                Err(PyBufferError::new_err(message))
            }
            Some(_) => Err(error),
            None => match shared(object)? {
                Some(memory) => Self::readable(&memory),
                None => Err(error),
            },
        }
    }

    fn get(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        let py = object.py();
        let mut view = MaybeUninit::uninit();
        // SAFETY: `object` is alive, and `view` has room for the result.
        let result =
            unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), view.as_mut_ptr(), CONTIGUOUS) };
        if result != 0 {
            return Err(PyErr::fetch(py));
        }
        // SAFETY: the call succeeded, so it has filled `view`.
        let view = unsafe { view.assume_init() };
        let bytes = Self { view, _py: py };
        if bytes.view.buf.is_null() && bytes.len() != 0 {
            return Err(no_address(bytes.len()));
        }
        if bytes.holds_objects() {
            return Err(PyTypeError::new_err(
                "the buffer holds Python objects, not numbers",
            ));
        }
        Ok(bytes)
    }

    /// Whether the bytes are pointers to objects, as in an array of numpy with the type `object`.
    fn holds_objects(&self) -> bool {
        if self.view.format.is_null() {
            return false;
        }
        // SAFETY: the format is a C string that lives as long as the view.
        let format = unsafe { CStr::from_ptr(self.view.format) }.to_bytes();
        // Names of fields stand between colons.
        let mut types = format.split(|&byte| byte == b':').step_by(2);
        types.any(|types| types.contains(&b'O'))
    }

    /// Borrows the memory of `object` for reading and writing.
    pub(crate) fn writable(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        let bytes = Self::readable(object)?;
        if bytes.view.readonly != 0 {
            return Err(PyBufferError::new_err("the output is read-only"));
        }
        Ok(bytes)
    }

    pub(crate) fn len(&self) -> usize {
        self.view.len.unsigned_abs()
    }

    fn ptr(&self) -> *mut u8 {
        // An empty buffer may have a null pointer, which no slice may have.
        if self.len() == 0 {
            ptr::dangling_mut()
        } else {
            self.view.buf.cast()
        }
    }

    /// The bytes, for reading.
    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: the buffer protocol keeps `len` contiguous bytes at `ptr` alive until the view
        // is released.
        unsafe { slice::from_raw_parts(self.ptr(), self.len()) }
    }

    /// The bytes, for writing.
    ///
    /// # Safety
    /// `self` was made by [`Bytes::writable`], and no other slice of these bytes is in use.
    #[expect(clippy::mut_from_ref, reason = "the bytes belong to the object")]
    pub(crate) unsafe fn as_mut_slice(&self) -> &mut [u8] {
        // SAFETY: as in `as_slice`, and the caller ensures that this is the only slice.
        unsafe { slice::from_raw_parts_mut(self.ptr(), self.len()) }
    }

    /// Returns `self` as the input and `output`, which was made by [`Bytes::writable`], as the
    /// output of a call. They may be the same memory; other overlaps are refused.
    pub(crate) fn with_output<'a>(&'a self, output: &'a Self) -> PyResult<InOut<'a>> {
        let place = |bytes: &Self| (bytes.ptr() as u64, bytes.len());
        let is_in_place = is_in_place(place(self), place(output))?;
        // SAFETY: `output` is writable. If the memory is the same, the result has this slice alone,
        // otherwise the two slices do not overlap.
        let bytes = unsafe { output.as_mut_slice() };
        Ok(if is_in_place {
            InOut::InPlace(bytes)
        } else {
            InOut::Separate {
                input: self.as_slice(),
                output: bytes,
            }
        })
    }
}

impl Drop for Bytes<'_> {
    fn drop(&mut self) {
        // SAFETY: `get` filled the view, and nothing else releases it.
        unsafe { ffi::PyBuffer_Release(&raw mut self.view) };
    }
}

/// Returns `bytes` of `len` bytes that `fill` writes, all of them unless it fails. As those of a new
/// array of numpy, they have any values before: zeroing them would take as long as decrypting.
pub(crate) fn new_bytes(
    py: Python<'_>,
    len: usize,
    fill: impl FnOnce(&mut [u8]) -> PyResult<()>,
) -> PyResult<Bound<'_, PyBytes>> {
    let size = ffi::Py_ssize_t::try_from(len)?;
    // SAFETY: without a source the object is new. Its `len` bytes are the interpreter's memory, which
    // nothing else reads before `fill` has returned, and which goes back if it fails.
    unsafe {
        let bytes = ffi::PyBytes_FromStringAndSize(ptr::null(), size);
        let bytes = Bound::from_owned_ptr_or_err(py, bytes)?.cast_into_unchecked::<PyBytes>();
        let start = ffi::PyBytes_AsString(bytes.as_ptr());
        let slice = slice::from_raw_parts_mut(start.cast(), len);
        if cfg!(debug_assertions) {
            // Tests see bytes that `fill` leaves out.
            slice.fill(0xa5);
        }
        fill(slice)?;
        Ok(bytes)
    }
}

/// Returns whether an input and an output, each an address and a length in bytes, are the same
/// memory. Refuses different lengths and other overlaps.
pub(crate) fn is_in_place(input: (u64, usize), output: (u64, usize)) -> PyResult<bool> {
    let ((from, len), (to, output_len)) = (input, output);
    if len != output_len {
        return Err(PyValueError::new_err(format!(
            "the input has {len} bytes, the output {output_len}"
        )));
    }
    if from != to && from.abs_diff(to) < len as u64 {
        return Err(PyValueError::new_err(
            "the output overlaps the input without being the same memory",
        ));
    }
    Ok(from == to)
}
