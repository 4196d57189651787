// SPDX-License-Identifier: MIT OR Apache-2.0
//! The formats of volumes as arguments.

use std::{fmt::Display, iter, sync::Arc};

use luxor::{
    FORMATS, PlainVolume, any_format,
    files::bounded,
    format_by_name,
    sector::SectorSize,
    volume::{Encryption, Format},
};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyDict, PyString},
};

use crate::args::arguments;

/// A format: its name, or a `luxor.PlainVolume`.
pub(crate) struct FormatArg(pub(crate) Arc<dyn Format>);

impl FromPyObject<'_, '_> for FormatArg {
    type Error = PyErr;

    fn extract(format: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        if !format.is_instance_of::<PyString>() {
            return Ok(Self(Arc::new(plain_volume(&format)?)));
        }
        let name: String = format.extract()?;
        let found = format_by_name(&name).ok_or_else(|| {
            let names: Vec<_> = named().map(|format| format.name()).collect();
            let (name, names) = (bounded(&name), names.join(", "));
            PyValueError::new_err(format!("format: {name:?} is none of {names}"))
        });
        found.map(Self)
    }
}

arguments! {
    /// The attributes of a `luxor.PlainVolume`.
    struct PlainArgs {
        cipher: String,
        key_size: u32,
        offset: u64,
        size: Option<u64>,
        skip: u64,
        sector_size: u32,
        iv_large_sectors: bool,
    }
}

fn plain_volume(object: &Bound<'_, PyAny>) -> PyResult<PlainVolume> {
    let class = object
        .py()
        .import("luxor._formats")?
        .getattr("PlainVolume")?;
    if !object.is_instance(&class)? {
        let found = object.get_type().name()?;
        let message = format!("expected a name of luxor.formats() or a PlainVolume, not {found}");
        return Err(PyTypeError::new_err(message));
    }
    let args: PlainArgs = object.getattr("__dict__")?.cast::<PyDict>()?.extract()?;
    let wrong = |error: &dyn Display| PyValueError::new_err(error.to_string());
    let encryption = Encryption::ALL
        .into_iter()
        .find(|e| e.name() == args.cipher);
    let encryption = encryption.ok_or_else(|| {
        let names = Encryption::ALL.map(Encryption::name).join(", ");
        wrong(&format!(
            "cipher: {:?} is none of {names}",
            bounded(&args.cipher)
        ))
    })?;
    let sector_size = SectorSize::try_from(args.sector_size);
    let volume = PlainVolume {
        encryption,
        key_bits: args.key_size,
        offset: args.offset,
        size: args.size,
        skip: args.skip,
        sector_size: sector_size.map_err(|error| wrong(&format!("sector_size: {error}")))?,
        iv_large_sectors: args.iv_large_sectors,
    };
    volume.check().map_err(|error| wrong(&error))?;
    Ok(volume)
}

/// Raises `ValueError` unless the values of a `luxor.PlainVolume` agree.
#[pyfunction]
pub(crate) fn check_plain_volume(volume: &Bound<'_, PyAny>) -> PyResult<()> {
    plain_volume(volume).map(|_| ())
}

/// Return the formats of volumes, as names and what they are. "auto" is the format whose signature
/// the file has.
#[pyfunction]
pub(crate) fn formats(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let formats = PyDict::new(py);
    for format in named() {
        formats.set_item(format.name(), format.summary())?;
    }
    Ok(formats)
}

/// Returns the formats that have a name.
fn named() -> impl Iterator<Item = Arc<dyn Format>> {
    let all = FORMATS
        .iter()
        .map(|format| Arc::new(*format) as Arc<dyn Format>);
    iter::once(any_format()).chain(all)
}
