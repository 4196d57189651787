// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory on a GPU, which other modules hand over by `DLPack` or by `__cuda_array_interface__`.

use pyo3::{
    exceptions::{PyBufferError, PyValueError},
    prelude::*,
};

/// The memory of a contiguous tensor on an NVIDIA GPU.
pub(crate) struct Tensor {
    /// An owner of the memory. What is in a capsule is not taken over, so dropping it gives the
    /// tensor back.
    pub(crate) _owner: Py<PyAny>,
    /// The driver's number of the GPU, if the module says it.
    pub(crate) device: Option<u32>,
    pub(crate) address: u64,
    pub(crate) len: usize,
    pub(crate) is_read_only: bool,
    /// The stream whose commands come first, unless the module has seen to that itself.
    pub(crate) stream: Option<usize>,
}

impl Tensor {
    /// Refuses what is no memory: an array says itself where it is, and how long.
    pub(crate) fn checked(self) -> PyResult<Self> {
        let end = self.address.checked_add(self.len as u64);
        if isize::try_from(self.len).is_err() || end.is_none() {
            return Err(PyValueError::new_err(format!(
                "the array says that it has {} bytes, which no memory has",
                self.len
            )));
        }
        if self.address == 0 && self.len != 0 {
            return Err(no_address(self.len));
        }
        Ok(self)
    }

    /// Refuses a tensor that must not be written to.
    pub(crate) fn writable(self) -> PyResult<Self> {
        if self.is_read_only {
            return Err(PyBufferError::new_err("the output is read-only"));
        }
        Ok(self)
    }
}

/// The error for `len` bytes at the address 0.
pub(crate) fn no_address(len: usize) -> PyErr {
    PyValueError::new_err(format!(
        "the array says that its {len} bytes have no address"
    ))
}

/// Returns the number of elements in an array, whose strides are multiples of `step`, or `None` if
/// they are not in one piece in the order of C.
pub(crate) fn contiguous(shape: &[i64], strides: Option<&[i64]>, step: i64) -> Option<usize> {
    let count = shape.iter().try_fold(1_usize, |count, &size| {
        count.checked_mul(usize::try_from(size).ok()?)
    })?;
    if let Some(strides) = strides
        && count != 0
    {
        let mut expected = step;
        for (&size, &stride) in shape.iter().zip(strides).rev() {
            if size != 1 && stride != expected {
                return None;
            }
            expected = expected.checked_mul(size)?;
        }
    }
    Some(count)
}
