// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encryption of data that are already on an NVIDIA GPU.

use std::sync::Arc;

use luxor::{
    engine::{DataUnitLen, Direction, KeySpec, RunError},
    engine_cuda::Cuda,
    engine_gpu::{CallersStream, DeviceRange, GpuKey, ResidentRun},
};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::PyDict,
};

use crate::{
    args::Units,
    buffer::is_in_place,
    cuda_array,
    devices::{Devices, Gpu, OfDriver, refused, unusable},
    dlpack,
    tensor::Tensor,
};

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

/// Returns the address of a stream: an object with the method `__cuda_stream__`, or the address itself.
/// `DLPack` calls the default stream 1, and does not allow 0.
pub(crate) fn stream_of(stream: &Bound<'_, PyAny>) -> PyResult<usize> {
    let address = if stream.hasattr("__cuda_stream__")? {
        let (_version, address): (u32, usize) =
            stream.call_method0("__cuda_stream__")?.extract()?;
        address
    } else {
        stream.extract()?
    };
    Ok(address.max(1))
}

/// A key on the GPUs of this machine.
pub(crate) struct Gpus {
    devices: Arc<Devices>,
    /// `None` only while this is dropped.
    key: Option<OfDriver<GpuKey<Cuda>>>,
}

impl Drop for Gpus {
    fn drop(&mut self) {
        let mut unload = || self.key = None;
        // A key waits for the work that uses it, which may itself wait for a function of Python.
        if Python::try_attach(|py| py.detach(&mut unload)).is_none() {
            unload();
        }
    }
}

impl Gpus {
    pub(crate) fn load(py: Python<'_>, key: &KeySpec) -> PyResult<Self> {
        let devices = Devices::get(py)?.map_err(unusable)?;
        let key = py.detach(|| devices.load(key))?;
        let key = Some(key.map_err(|error| refused(error.to_string()))?);
        Ok(Self { devices, key })
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
        let bad_unit = |error: RunError| PyValueError::new_err(error.to_string());
        let (len, unit_len) = (data.len, units.len);
        let unit = DataUnitLen::new(unit_len).map_err(bad_unit)?;
        if !unit_len.is_multiple_of(ALIGNMENT) {
            return value_error(format!(
                "on a GPU, unit must be a multiple of {ALIGNMENT}, not {unit_len}"
            ));
        }
        if !len.is_multiple_of(unit_len) {
            return Err(bad_unit(RunError::PartUnit { len, unit_len }));
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
        let gpu = Gpu::of(&self.devices, data)?;
        if output.is_some() && Gpu::of(&self.devices, to)?.index() != gpu.index() {
            return value_error("the output is on another GPU than the input".to_owned());
        }
        let key = self.key.as_ref().expect("only `drop` unloads").here()?;
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
            key.crypt_on_stream(gpu.index(), direction, &[run], memories, on)
        };
        py.detach(|| self.devices.keeping_context(crypt))
            .map_err(|error| refused(error.to_string()))
    }
}
