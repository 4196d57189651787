// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encryption of data that are already on an NVIDIA GPU.

use std::sync::Arc;

use luxor_engine::{DataUnitLen, Direction, KeySpec, RunError};
use luxor_engine_cuda::{Cuda, CudaMemory, Library, keeping_context};
use luxor_engine_gpu::{GpuBackend, GpuKey, Resident, ResidentRun};
use pyo3::{exceptions::PyValueError, prelude::*};

use crate::{buffer::is_in_place, dlpack::Tensor, error::Error, xts::Units};

/// Kernels read and write whole blocks at such addresses.
const ALIGNMENT: usize = 16;

/// A key on the GPUs of this machine.
pub(crate) struct Gpus {
    driver: Arc<Library>,
    /// `None` only while this is dropped.
    loaded: Option<(GpuBackend<Cuda>, GpuKey<Cuda>)>,
}

impl Drop for Gpus {
    fn drop(&mut self) {
        keeping_context(&*self.driver, || self.loaded = None);
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

    /// Encrypts or decrypts `data` after all commands that `stream` has now, to `output` or in
    /// place, and returns when the result is there.
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
        if to.device != data.device {
            return value_error("the output is on another GPU than the input".to_owned());
        }
        let is_in_place = is_in_place((data.address, len), (to.address, to.len))?;
        for address in [data.address, to.address] {
            if !address.is_multiple_of(ALIGNMENT as u64) {
                return value_error(format!(
                    "the tensor begins at {address:#x}, but must begin at a multiple of {ALIGNMENT}"
                ));
            }
        }
        let (backend, key) = self.loaded.as_ref().expect("only `drop` unloads");
        let devices = backend.devices();
        let Some(index) = devices.iter().position(|d| d.number() == data.device) else {
            return value_error(format!("Luxor cannot use GPU {}", data.device));
        };
        if len == 0 {
            return Ok(());
        }
        let device = &devices[index];
        let run = ResidentRun {
            first: units.first,
            stride: units.stride,
            unit_len: unit,
            units: len / unit_len,
            input_at: 0,
            output_at: 0,
        };
        // SAFETY: the tensors own the memory and outlive the call. That no other command uses it
        // during the call is the promise that every function on a stream asks for.
        let memory =
            |at: &Tensor| unsafe { CudaMemory::of_caller(device, at.address, len, stream) };
        let (input, mut output) = (memory(data), memory(to));
        let resident = if is_in_place {
            Resident::InPlace(&mut output)
        } else {
            Resident::Separate {
                input: &input,
                output: &mut output,
            }
        };
        let crypt = || key.crypt_resident(index, direction, &[run], resident);
        py.detach(|| keeping_context(&*self.driver, crypt))
            .map_err(failed)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "passed to `map_err`")]
fn failed(error: impl ToString) -> PyErr {
    Error::new_err((error.to_string(), None::<String>))
}
