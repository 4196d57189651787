// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory of arrays that have no buffer protocol, or not for the type of their elements: `NumPy`'s
//! arrays of bfloat16, float8 and dates, and tensors.

use std::{ffi::c_int, ptr};

use pyo3::{
    exceptions::{PyBufferError, PyValueError},
    ffi,
    prelude::*,
    types::{PyDict, PyMemoryView},
};

use crate::{
    cuda_array, dlpack,
    error::{ends_program, unless_it_fails},
    tensor::Tensor,
};

/// The attribute of arrays in the memory of the computer, with the keys of
/// `__cuda_array_interface__` (<https://numpy.org/doc/stable/reference/arrays.interface.html>).
const INTERFACE: &str = "__array_interface__";

/// Memory of an array, with the buffer protocol, as bytes.
#[pyclass(frozen, module = "luxor._luxor")]
struct Memory(Tensor);

#[pymethods]
impl Memory {
    /// # Safety
    /// `view` is NULL or has room for a view. The interpreter calls this only so.
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let Tensor {
            address,
            len,
            is_read_only,
            ..
        } = slf.get().0;
        let address = ptr::with_exposed_provenance_mut(usize::try_from(address)?);
        let len = ffi::Py_ssize_t::try_from(len)?;
        // SAFETY: the caller ensures what `view` is. The array keeps its bytes as long as `slf` has a
        // reference to it, and the view has one to `slf`.
        let result = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), address, len, is_read_only.into(), flags)
        };
        if result == 0 {
            Ok(())
        } else {
            Err(PyErr::fetch(slf.py()))
        }
    }
}

/// Returns an object with the buffer protocol over the memory of `object`, which has none, or `None`
/// if it exposes its memory in no other way.
pub(crate) fn shared<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = object.py();
    // Tensors of torch return an array over the same memory, but not for every type.
    if object.hasattr("numpy")?
        && let Some(array) = unless_it_fails(py, object.call_method0("numpy"))?
    {
        return match unless_it_fails(py, PyMemoryView::from(&array))? {
            Some(_) => Ok(Some(array)),
            None => by_interface(&array),
        };
    }
    if let Some(memory) = by_interface(object)? {
        return Ok(Some(memory));
    }
    if object.hasattr("__dlpack_device__")?
        && let Some(tensor) = unless_it_fails(py, dlpack::host_tensor(object))?
    {
        return memory(py, tensor?).map(Some);
    }
    match as_bytes_of_torch(object)? {
        Some(bytes) => shared(&bytes),
        None => Ok(None),
    }
}

fn by_interface<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    if !object.hasattr(INTERFACE)? {
        return Ok(None);
    }
    let interface = object.getattr(INTERFACE)?;
    let interface = interface.cast::<PyDict>()?;
    // The elements, or fields of them, are pointers.
    for key in ["typestr", "descr"] {
        if let Some(types) = interface.get_item(key)?
            && types.repr()?.to_str()?.contains("'|O")
        {
            let message = "the array holds Python objects, not numbers";
            return Err(PyBufferError::new_err(message));
        }
    }
    let tensor = cuda_array::tensor(object, interface)?;
    memory(object.py(), tensor).map(Some)
}

fn memory(py: Python<'_>, tensor: Tensor) -> PyResult<Bound<'_, PyAny>> {
    Ok(Bound::new(py, Memory(tensor))?.into_any())
}

/// Returns a tensor of torch as a tensor of bytes over the same memory, without what forbids the
/// conversion: that gradients are wanted, or a type that `NumPy` lacks. `None` if it is already one, or
/// another object.
fn as_bytes_of_torch<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = object.py();
    let modules = py.import("sys")?.getattr("modules")?;
    let Some(torch) = unless_it_fails(py, modules.get_item("torch"))? else {
        return Ok(None);
    };
    if !object.is_instance(&torch.getattr("Tensor")?)? {
        return Ok(None);
    }
    let byte = torch.getattr("uint8")?;
    let requires_grad = object.getattr("requires_grad")?.is_truthy()?;
    if object.getattr("dtype")?.eq(&byte)? && !requires_grad {
        return Ok(None);
    }
    let bytes = object
        .call_method0("detach")?
        .call_method1("view", (byte,))?;
    let address = |of: &Bound<'_, PyAny>| of.call_method0("data_ptr")?.extract::<u64>();
    if address(&bytes)? != address(object)? {
        return Err(PyValueError::new_err(
            "the bytes of the tensor are elsewhere",
        ));
    }
    Ok(Some(bytes))
}

/// Returns a `memoryview` of the bytes of a buffer or an array.
#[pyfunction]
pub(crate) fn view_of<'py>(data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = data.py();
    let view = match PyMemoryView::from(data) {
        Ok(view) => view,
        Err(error) if ends_program(py, &error) => return Err(error),
        Err(error) => match shared(data)? {
            Some(memory) => PyMemoryView::from(&memory)?,
            None => return Err(error),
        },
    };
    if view.getattr("nbytes")?.extract::<usize>()? == 0 {
        // Those with zeros in their shape cannot be cast.
        let nothing = pyo3::types::PyBytes::new(py, b"");
        return Ok(PyMemoryView::from(nothing.as_any())?.into_any());
    }
    view.call_method1("cast", ("B",))
}
