// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor.XTS`.

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

use luxor::{
    engine::{Direction, InOut, KeySpec, XtsKey},
    engines::{EngineReport, SelfTest, registry},
    files::OfProcess,
};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict, PyList},
};

use crate::{
    args::{Stride, Threads, UnitLen, UnitNumber, Units},
    buffer::{Bytes, new_bytes},
    context::context,
    error::{exception, key_lost_in_fork},
    gpu::{Gpus, stream_of, tensor_of},
    secret::key_bytes,
};

/// Calls with fewer bytes keep the GIL, because releasing it takes as long as encrypting a few
/// kilobytes.
const RELEASE: usize = 4 << 10;

/// Long calls look for signals after about this many bytes at first, and then after twice as many
/// whenever that took less than [`PIECE_TIME`].
const PIECE: usize = 4 << 20;
const PIECE_TIME: Duration = Duration::from_millis(20);

/// An XTS key, for whole data units in memory.
///
/// `key` has 32 bytes (XTS-AES-128) or 64 bytes (XTS-AES-256): the data key, then the tweak key,
/// which must differ, also as a `Secret`. `engine` is a name from `luxor.engines()`; by default the best one is used.
/// `threads` limits the threads of long calls.
///
/// The methods take data units of `unit` bytes, 16 to 2**24. The first one has the number `number`,
/// 0 to 2**128 - 1, and each following one a number higher by `stride`, 0 to 2**64 - 1 (modulo
/// 2**128). Data are any object with the buffer protocol, contiguous, and a multiple of `unit` long.
/// Several threads may use one object at once.
#[pyclass(frozen, name = "XTS", module = "luxor")]
pub(crate) struct Xts(OfProcess<Loaded>);

/// The key on the engine, and on the GPUs.
struct Loaded {
    xts: luxor::Xts,
    /// For the GPUs, which load it at the first call with a tensor.
    key: KeySpec,
    gpus: OnceLock<Gpus>,
}

#[pymethods]
impl Xts {
    #[new]
    #[pyo3(signature = (key, *, engine=None, threads=None))]
    fn new(
        key: &Bound<'_, PyAny>,
        engine: Option<&str>,
        threads: Option<Threads>,
    ) -> PyResult<Self> {
        let key = key_bytes(key)?;
        let context = context(engine, threads.map(|threads| threads.0))?;
        let refused = |error: luxor::Error| exception(&error);
        Ok(Self(OfProcess::new(Loaded {
            xts: luxor::Xts::new(key.expose(), &context).map_err(refused)?,
            key: KeySpec::Xts(XtsKey::new(key.expose()).map_err(|e| refused(e.into()))?),
            gpus: OnceLock::new(),
        })))
    }

    /// Encrypt `data`, and return the result.
    #[pyo3(signature = (data, unit=UnitLen(512), number=UnitNumber(0), stride=Stride(1)), text_signature = "($self, data, unit=512, number=0, stride=1)")]
    fn encrypt<'py>(
        &self,
        data: &Bound<'py, PyAny>,
        unit: UnitLen,
        number: UnitNumber,
        stride: Stride,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let units = Units::new(unit, number, stride);
        self.to_bytes(Direction::Encrypt, data, &units)
    }

    /// Decrypt `data`, and return the result.
    #[pyo3(signature = (data, unit=UnitLen(512), number=UnitNumber(0), stride=Stride(1)), text_signature = "($self, data, unit=512, number=0, stride=1)")]
    fn decrypt<'py>(
        &self,
        data: &Bound<'py, PyAny>,
        unit: UnitLen,
        number: UnitNumber,
        stride: Stride,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let units = Units::new(unit, number, stride);
        self.to_bytes(Direction::Decrypt, data, &units)
    }

    /// Encrypt `data` into `out`, which has the same length. They may be the same memory, but must not
    /// overlap in another way. After Ctrl-C during a call in place, `out` holds what it held before.
    #[pyo3(signature = (data, out, unit=UnitLen(512), number=UnitNumber(0), stride=Stride(1)), text_signature = "($self, data, out, unit=512, number=0, stride=1)")]
    fn encrypt_into(
        &self,
        data: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
        unit: UnitLen,
        number: UnitNumber,
        stride: Stride,
    ) -> PyResult<()> {
        let units = Units::new(unit, number, stride);
        self.to_output(Direction::Encrypt, data, out, &units)
    }

    /// Decrypt `data` into `out`, which has the same length. They may be the same memory, but must not
    /// overlap in another way. After Ctrl-C during a call in place, `out` holds what it held before.
    #[pyo3(signature = (data, out, unit=UnitLen(512), number=UnitNumber(0), stride=Stride(1)), text_signature = "($self, data, out, unit=512, number=0, stride=1)")]
    fn decrypt_into(
        &self,
        data: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
        unit: UnitLen,
        number: UnitNumber,
        stride: Stride,
    ) -> PyResult<()> {
        let units = Units::new(unit, number, stride);
        self.to_output(Direction::Decrypt, data, out, &units)
    }

    /// Encrypt a tensor on an NVIDIA GPU: of torch, `CuPy`, JAX, Numba or any other module that
    /// implements `DLPack` or `__cuda_array_interface__`. The result replaces it, or goes to the
    /// tensor `out`. `unit` and the address must be multiples of 16. The work is done on `stream`: an
    /// object with the method `__cuda_stream__`, or the stream's address as in
    /// `torch.cuda.current_stream().cuda_stream`; by default the default stream. The method returns
    /// without waiting for it, so the tensors must stay allocated until the stream has done it.
    /// `engine` and `threads` have no influence.
    #[pyo3(signature = (tensor, unit=UnitLen(512), number=UnitNumber(0), stride=Stride(1), *, out=None, stream=None), text_signature = "($self, tensor, unit=512, number=0, stride=1, *, out=None, stream=None)")]
    fn encrypt_cuda(
        &self,
        tensor: &Bound<'_, PyAny>,
        unit: UnitLen,
        number: UnitNumber,
        stride: Stride,
        out: Option<&Bound<'_, PyAny>>,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let units = Units::new(unit, number, stride);
        self.on_gpu(Direction::Encrypt, tensor, out, &units, stream)
    }

    /// Decrypt a tensor on an NVIDIA GPU, as `encrypt_cuda` encrypts it.
    #[pyo3(signature = (tensor, unit=UnitLen(512), number=UnitNumber(0), stride=Stride(1), *, out=None, stream=None), text_signature = "($self, tensor, unit=512, number=0, stride=1, *, out=None, stream=None)")]
    fn decrypt_cuda(
        &self,
        tensor: &Bound<'_, PyAny>,
        unit: UnitLen,
        number: UnitNumber,
        stride: Stride,
        out: Option<&Bound<'_, PyAny>>,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let units = Units::new(unit, number, stride);
        self.on_gpu(Direction::Decrypt, tensor, out, &units, stream)
    }

    /// The name of the engine.
    #[getter]
    fn engine(&self) -> &'static str {
        self.0.xts.engine()
    }

    fn __repr__(&self) -> String {
        format!("<luxor.XTS on {}>", self.engine())
    }
}

impl Xts {
    fn to_bytes<'py>(
        &self,
        direction: Direction,
        data: &Bound<'py, PyAny>,
        units: &Units,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let py = data.py();
        let data = Bytes::readable(data)?;
        new_bytes(py, data.len(), |output| {
            let input = data.as_slice();
            self.crypt(py, direction, units, InOut::Separate { input, output })
        })
    }

    fn to_output(
        &self,
        direction: Direction,
        data: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
        units: &Units,
    ) -> PyResult<()> {
        let (data, output) = (Bytes::readable(data)?, Bytes::writable(out)?);
        self.crypt(out.py(), direction, units, data.with_output(&output)?)
    }

    fn on_gpu(
        &self,
        direction: Direction,
        data: &Bound<'_, PyAny>,
        out: Option<&Bound<'_, PyAny>>,
        units: &Units,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let py = data.py();
        let loaded = self.0.here().ok_or_else(key_lost_in_fork)?;
        let gpus = match loaded.gpus.get() {
            Some(gpus) => gpus,
            None => {
                let gpus = Gpus::load(py, &loaded.key)?;
                loaded.gpus.get_or_init(|| gpus)
            }
        };
        let stream = stream.map_or(Ok(1), stream_of)?;
        let tensor = tensor_of(data, stream)?;
        let out = match out {
            None => None,
            Some(out) => Some(tensor_of(out, stream)?.writable()?),
        };
        let tensor = if out.is_none() {
            tensor.writable()?
        } else {
            tensor
        };
        gpus.crypt(py, direction, units, &tensor, out.as_ref(), stream)
    }

    fn crypt(
        &self,
        py: Python<'_>,
        direction: Direction,
        units: &Units,
        mut data: InOut<'_>,
    ) -> PyResult<()> {
        let Units { len, first, stride } = *units;
        let xts = &self.0.xts;
        // The CPU's engines notice a fork themselves, faster.
        if xts.uses_device() && self.0.here().is_none() {
            return Err(key_lost_in_fork());
        }
        let call = |direction, number, data: InOut<'_>| {
            let short = data.len() < RELEASE;
            let crypt = || xts.crypt(direction, len, number, stride, data);
            let done = if short { crypt() } else { py.detach(crypt) };
            done.map_err(|error| exception(&error))
        };
        let total = data.len();
        if total <= PIECE || len == 0 || !total.is_multiple_of(len) {
            return call(direction, first, data);
        }
        let mut piece = (PIECE / len).max(1) * len;
        let mut done = 0;
        while done < total {
            let begun = Instant::now();
            let number = first.step((done / len) as u64, stride);
            let (_, rest) = data.reborrow().split_at(done);
            let (now, _) = rest.split_at(piece.min(total - done));
            let now_len = now.len();
            call(direction, number, now)?;
            done += now_len;
            if begun.elapsed() < PIECE_TIME {
                piece *= 2;
            }
            if let Err(interrupt) = py.check_signals() {
                if let InOut::InPlace(bytes) = data {
                    // Restore the units that are finished, so that the caller knows what it has.
                    let finished = InOut::InPlace(&mut bytes[..done]);
                    call(direction.inverse(), first, finished)?;
                }
                return Err(interrupt);
            }
        }
        Ok(())
    }
}

/// Return what `luxor engines --json` prints of each engine, best first.
#[pyfunction]
pub(crate) fn engines(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let reports = py.detach(|| EngineReport::of_all(&registry()));
    let list = PyList::empty(py);
    for report in reports {
        let engine = PyDict::new(py);
        engine.set_item("name", report.name)?;
        engine.set_item("present", report.present)?;
        engine.set_item("device", report.device)?;
        engine.set_item("modes", report.modes)?;
        engine.set_item("self_test", report.self_test.map(SelfTest::name))?;
        engine.set_item("reason", report.reason)?;
        list.append(engine)?;
    }
    Ok(list)
}
