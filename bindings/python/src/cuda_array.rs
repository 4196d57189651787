// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays that other modules hand over by `__cuda_array_interface__`, versions 0 to 3
//! (<https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html>), and those on the host by
//! `__array_interface__`, which has the same keys.

use pyo3::{
    exceptions::{PyBufferError, PyTypeError},
    prelude::*,
    types::PyDict,
};

use crate::tensor::{Tensor, contiguous};

/// The attribute.
pub(crate) const NAME: &str = "__cuda_array_interface__";

/// Borrows the memory of `object`, which has this `interface`.
pub(crate) fn tensor(object: &Bound<'_, PyAny>, interface: &Bound<'_, PyDict>) -> PyResult<Tensor> {
    let required = |name: &str| {
        let value = interface.get_item(name)?;
        value.ok_or_else(|| PyTypeError::new_err(format!("the array interface has no {name:?}")))
    };
    let optional = |name: &str| {
        let value = interface.get_item(name)?;
        PyResult::Ok(value.filter(|value| !value.is_none()))
    };
    if optional("mask")?.is_some() {
        return Err(PyBufferError::new_err("the array has a mask"));
    }
    let typestr: String = required("typestr")?.extract()?;
    // The order of bytes, the kind, and the bytes of an element.
    // Dates have their unit behind that.
    let element = typestr.get(2..).and_then(|bytes| bytes.split('[').next());
    let element = element.and_then(|bytes| bytes.parse::<u32>().ok());
    // The kinds: bits, characters of 4 bytes, and all others, which are counted in bytes.
    let element = match typestr.get(1..2) {
        Some("t") => None,
        Some("U") => element.and_then(|characters| characters.checked_mul(4)),
        _ => element,
    };
    let element = element.ok_or_else(|| {
        PyBufferError::new_err(format!(
            "elements of the type {typestr:?} have no whole bytes"
        ))
    })?;
    let shape: Vec<i64> = required("shape")?.extract()?;
    let strides: Option<Vec<i64>> = match optional("strides")? {
        Some(strides) => Some(strides.extract()?),
        None => None,
    };
    if strides.as_ref().is_some_and(|s| s.len() != shape.len()) {
        return Err(PyTypeError::new_err("shape and strides differ in length"));
    }
    let count = contiguous(&shape, strides.as_deref(), element.into());
    let len = count.and_then(|count| count.checked_mul(element as usize));
    let len =
        len.ok_or_else(|| PyBufferError::new_err("the array is not contiguous: copy it first"))?;
    let (address, is_read_only): (u64, bool) = required("data")?.extract()?;
    let stream: Option<usize> = match optional("stream")? {
        Some(stream) => Some(stream.extract()?),
        None => None,
    };
    let tensor = Tensor {
        _owner: object.clone().unbind(),
        device: None,
        address,
        len,
        is_read_only,
        stream,
    };
    tensor.checked()
}
