// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encryption of data that are already on an NVIDIA GPU.

use std::sync::Arc;

use luxor::engine::{DataUnitLen, Direction, KeySpec, RunError};
use luxor_engine_cuda::{Cuda, Library, keeping_context};
use luxor_engine_gpu::{CallersStream, DeviceRange, GpuBackend, GpuKey, ResidentRun};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::PyDict,
};

use crate::{args::Units, buffer::is_in_place, cuda_array, dlpack, error::Error, tensor::Tensor};

/// Kernels read and write whole blocks at such addresses.
const ALIGNMENT: usize = 16;

/// Borrows the memory of `object` for commands on `stream`.
pub(crate) fn tensor_of(object: &Bound<'_, PyAny>, stream: usize) -> PyResult<Tensor> {
    // DLPack first: it names the GPU.
    if object.hasattr("__dlpack_device__")? {
        return dlpack::tensor(object, stream);
    }
    if object.hasattr(cuda_array::NAME)? {
        let interface = object.getattr(cuda_array::NAME)?;
        return cuda_array::tensor(object, interface.cast::<PyDict>()?);
    }
    let message = "a tensor on a GPU has the methods __dlpack__ and __dlpack_device__, or the \
                   attribute __cuda_array_interface__";
    Err(PyTypeError::new_err(message))
}

/// A key on the GPUs of this machine.
pub(crate) struct Gpus {
    driver: Arc<Library>,
    /// `None` only while this is dropped.
    loaded: Option<(GpuBackend<Cuda>, GpuKey<Cuda>)>,
}

impl Drop for Gpus {
    fn drop(&mut self) {
        let mut unload = || keeping_context(&*self.driver, || self.loaded = None);
        // A key waits for the work that uses it, which may itself wait for a function of Python.
        if Python::try_attach(|py| py.detach(&mut unload)).is_none() {
            unload();
        }
    }
}

impl Gpus {
    pub(crate) fn load(key: &KeySpec) -> PyResult<Self> {
        let driver = Library::open().map_err(failed)?;
        keeping_context(&*driver, || {
            let backend = luxor_engine_cuda::backend().map_err(failed)?;
            let key = backend.load(key).map_err(failed)?;
            Ok(Self {
                driver: Arc::clone(&driver),
                loaded: Some((backend, key)),
            })
        })
    }

    /// Encrypts or decrypts `data` on `stream`, to `output` or in place, and returns without waiting.
    pub(crate) fn crypt(
        &self,
        py: Python<'_>,
        direction: Direction,
        units: &Units,
        data: &Tensor,
        output: Option<&Tensor>,
        stream: usize,
    ) -> PyResult<()> {
        let value_error = |message: String| Err(PyValueError::new_err(message));
        let refused = |error: RunError| PyValueError::new_err(error.to_string());
        let (len, unit_len) = (data.len, units.len);
        let unit = DataUnitLen::new(unit_len).map_err(refused)?;
        if !unit_len.is_multiple_of(ALIGNMENT) {
            return value_error(format!(
                "on a GPU, unit must be a multiple of {ALIGNMENT}, not {unit_len}"
            ));
        }
        if !len.is_multiple_of(unit_len) {
            return Err(refused(RunError::PartUnit { len, unit_len }));
        }
        let to = output.unwrap_or(data);
        is_in_place((data.address, len), (to.address, to.len))?;
        for address in [data.address, to.address] {
            if !address.is_multiple_of(ALIGNMENT as u64) {
                return value_error(format!(
                    "the tensor begins at {address:#x}, but must begin at a multiple of {ALIGNMENT}"
                ));
            }
        }
        if len == 0 {
            return Ok(());
        }
        let (backend, key) = self.loaded.as_ref().expect("only `drop` unloads");
        let devices = backend.devices();
        let index = self.device_of(devices, data)?;
        if output.is_some() && self.device_of(devices, to)? != index {
            return value_error("the output is on another GPU than the input".to_owned());
        }
        let run = ResidentRun {
            first: units.first,
            stride: units.stride,
            unit_len: unit,
            units: len / unit_len,
            input_at: 0,
            output_at: 0,
        };
        let range = |of: &Tensor| DeviceRange {
            address: of.address,
            len,
        };
        let after: Vec<usize> = [data.stream, to.stream].into_iter().flatten().collect();
        let on = CallersStream {
            stream,
            after: &after,
        };
        // SAFETY: that the streams and the memory are valid until the work is done, and that nothing
        // else uses them meanwhile, is the promise that every function on a stream asks for.
        let crypt = || unsafe {
            let memories = (range(data), range(to));
            key.crypt_on_stream(index, direction, &[run], memories, on)
        };
        py.detach(|| keeping_context(&*self.driver, crypt))
            .map_err(failed)
    }

    /// Returns the position in `devices` of a tensor's GPU.
    fn device_of(&self, devices: &[Cuda], tensor: &Tensor) -> PyResult<usize> {
        let address = tensor.address;
        let (index, name) = match tensor.device {
            Some(number) => (
                devices.iter().position(|d| d.number() == number),
                format!("Luxor cannot use GPU {number}"),
            ),
            None => (
                keeping_context(&*self.driver, || Cuda::of_address(devices, address))
                    .map_err(failed)?,
                format!("the array at {address:#x} is on no GPU that Luxor can use"),
            ),
        };
        index.ok_or_else(|| PyValueError::new_err(name))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "passed to `map_err`")]
fn failed(error: impl ToString) -> PyErr {
    Error::new_err((error.to_string(), None::<String>))
}
