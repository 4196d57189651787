// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor.Volume`: the metadata and keys of a volume.

use luxor::{Context, Engine, HeaderRestore, KeyOptions, back_up_header};
use luxor_engine::Mode;
use luxor_files::{Input, Role, VolumePart, VolumePlace};
use luxor_luks::{LuksVersion, UnlockOptions, VolumeHeader, usual_numbers};
use luxor_secret::SecretBytes;
use pyo3::{prelude::*, types::PyDict};

use crate::{
    args::{NewSecretArgs, PartArgs, PbkdfArgs, UnlockArgs, argument},
    context::{context, operate},
    path::PathArg,
    storage::{FileArg, objects},
};

/// A volume or a detached header. Every call reads the metadata anew, so that changes of other
/// programs are seen.
#[pyclass(frozen, module = "luxor._luxor")]
pub(crate) struct Volume(FileArg, VolumePart);

impl Volume {
    /// Opens the volume for `role` and calls `work` with it on another thread.
    fn with<T: Send + 'static>(
        &self,
        py: Python<'_>,
        role: Role,
        work: impl FnOnce(luxor::Volume, &Context) -> luxor::Result<T> + Send + 'static,
    ) -> PyResult<T> {
        let (file, part) = (self.0.clone(), self.1);
        let (context, objects) = (context(None, None)?, objects([&self.0]));
        operate(py, context, &objects, &mut |_| Ok(()), move |context| {
            let volume = luxor::Volume::open(file.input_of(part, role)?, context)?;
            work(volume, context)
        })
    }

    /// Returns the secret that opens the volume, that of the new keyslot, and its costs.
    fn for_new_keyslot(
        &self,
        args: &Bound<'_, PyDict>,
    ) -> PyResult<(SecretBytes, SecretBytes, KeyOptions)> {
        let py = args.py();
        let unlock: UnlockArgs = args.extract()?;
        let secret = unlock.secret(py)?;
        let new = args.extract::<NewSecretArgs>()?.secret(py)?;
        let version = self.read(py, VolumeHeader::version)?;
        let pbkdf = args
            .extract::<PbkdfArgs>()?
            .options(version.default_pbkdf())?;
        let options = KeyOptions {
            unlock: unlock.options(),
            pbkdf: Some(pbkdf),
            ..KeyOptions::default()
        };
        Ok((secret, new, options))
    }

    /// Returns what `get` finds in the metadata.
    fn read<T: Send + 'static>(
        &self,
        py: Python<'_>,
        get: impl FnOnce(&VolumeHeader) -> T + Send + 'static,
    ) -> PyResult<T> {
        self.with(py, Role::Metadata, |volume, _| Ok(get(&volume.header)))
    }
}

#[pymethods]
impl Volume {
    #[new]
    fn new(file: &Bound<'_, PyAny>, args: &Bound<'_, PyDict>) -> PyResult<Self> {
        let part = args.extract::<PartArgs>()?.part()?;
        let volume = Self(FileArg::of(file)?, part);
        volume.read(file.py(), |_| ())?;
        Ok(volume)
    }

    #[getter]
    fn version(&self, py: Python<'_>) -> PyResult<u32> {
        let version = self.read(py, VolumeHeader::version)?;
        Ok(match version {
            LuksVersion::Luks1 => 1,
            LuksVersion::Luks2 => 2,
        })
    }

    #[getter]
    fn uuid(&self, py: Python<'_>) -> PyResult<String> {
        self.read(py, |header| header.uuid().to_owned())
    }

    #[getter]
    fn label(&self, py: Python<'_>) -> PyResult<String> {
        self.read(py, |header| header.label().to_owned())
    }

    #[getter]
    fn keyslots(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        self.read(py, VolumeHeader::keyslot_numbers)
    }

    #[getter]
    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, Role::Metadata, |volume, _| {
            volume.plaintext_len()?.ok_or_else(|| {
                let name = volume.name();
                luxor::Error::failure(format!("{name} has no known length"))
            })
        })
    }

    /// Returns the metadata as JSON, whose strings need not be UTF-8.
    fn dump_json(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        self.read(py, |header| {
            let mut json = Vec::new();
            match header {
                VolumeHeader::Luks1(header) => json = header.metadata_json().into_bytes(),
                VolumeHeader::Luks2(header) => header
                    .write_metadata_json(&mut json)
                    .expect("writing to memory does not fail"),
            }
            usual_numbers(&json).unwrap_or(json)
        })
    }

    /// Returns what is intact, and what is damaged.
    fn check(&self, py: Python<'_>) -> PyResult<(Vec<String>, Vec<String>)> {
        self.with(py, Role::Metadata, |volume, _| {
            let found = volume.check();
            Ok((found.good, found.damage))
        })
    }

    /// Returns the number of the keyslot that the secret opens.
    fn test_key(&self, py: Python<'_>, args: &Bound<'_, PyDict>) -> PyResult<u32> {
        let args: UnlockArgs = args.extract()?;
        let (secret, unlock) = (args.secret(py)?, args.options());
        self.with(py, Role::Metadata, move |volume, context| {
            let engine = Engine::select(context, Mode::Xts)?;
            let (unlocked, _) = volume.test(&secret, &*engine.backend, &unlock, context)?;
            Ok(unlocked.keyslot)
        })
    }

    /// Adds a keyslot with this number, or the first free one. Returns its number.
    fn add_key(&self, py: Python<'_>, args: &Bound<'_, PyDict>) -> PyResult<u32> {
        let number: Option<u32> = argument(args, "number")?;
        let (secret, new, options) = self.for_new_keyslot(args)?;
        self.with(py, Role::Change, move |mut volume, context| {
            volume.add_key(number, &secret, || Ok(new), &options, context)
        })
    }

    /// Replaces the secret of the keyslot that opens. Returns its number.
    fn change_key(&self, py: Python<'_>, args: &Bound<'_, PyDict>) -> PyResult<u32> {
        let (secret, new, options) = self.for_new_keyslot(args)?;
        self.with(py, Role::Change, move |mut volume, context| {
            volume.change_key(&secret, |_| Ok(new), &options, context)
        })
    }

    /// Removes the keyslot that the secret opens. Returns its number.
    fn remove_key(&self, py: Python<'_>, args: &Bound<'_, PyDict>) -> PyResult<u32> {
        let last: bool = argument(args, "last")?;
        let args: UnlockArgs = args.extract()?;
        let (secret, unlock) = (args.secret(py)?, args.options());
        self.with(py, Role::Change, move |mut volume, context| {
            volume.remove_key(&secret, last, &unlock, context)
        })
    }

    /// Removes the keyslot with this number, without a secret.
    fn remove_keyslot(&self, py: Python<'_>, args: &Bound<'_, PyDict>) -> PyResult<()> {
        let (number, last) = (argument(args, "number")?, argument(args, "last")?);
        self.with(py, Role::Change, move |mut volume, context| {
            volume.remove_keyslot(number, None, last, &UnlockOptions::default(), context)
        })
    }

    /// Returns a token as JSON, whose strings need not be UTF-8.
    fn token_json(&self, py: Python<'_>, args: &Bound<'_, PyDict>) -> PyResult<Vec<u8>> {
        let number: u32 = argument(args, "number")?;
        self.with(py, Role::Metadata, move |volume, _| {
            let token = volume.header.token_json(number);
            let token = token.map(|json| usual_numbers(&json).unwrap_or(json));
            token.ok_or_else(|| {
                let name = volume.name();
                luxor::Error::failure(format!("{name}: there is no token {number}"))
            })
        })
    }

    /// Adds a token. Returns its number.
    fn add_token(&self, py: Python<'_>, json: Vec<u8>, args: &Bound<'_, PyDict>) -> PyResult<u32> {
        let number: Option<u32> = argument(args, "number")?;
        self.with(py, Role::Change, move |mut volume, context| {
            volume.add_token(&json, number, false, false, context)
        })
    }

    fn remove_token(&self, py: Python<'_>, args: &Bound<'_, PyDict>) -> PyResult<()> {
        let (number, force): (u32, bool) = (argument(args, "number")?, argument(args, "force")?);
        self.with(py, Role::Change, move |mut volume, context| {
            volume.remove_token(number, force, context)
        })
    }

    /// Copies the header into a new file. Returns its length in bytes.
    fn back_up_header(&self, py: Python<'_>, args: &Bound<'_, PyDict>) -> PyResult<u64> {
        let (file, force): (PathArg, bool) = (argument(args, "file")?, argument(args, "force")?);
        let (volume, part) = (self.0.clone(), self.1);
        let (context, objects) = (context(None, None)?, objects([&self.0]));
        operate(py, context, &objects, &mut |_| Ok(()), move |context| {
            back_up_header(
                &volume.input_of(part, Role::Metadata)?,
                file.path(),
                force,
                &[],
                context,
            )
        })
    }
}

/// Writes a header backup to the file or device `target`.
#[pyfunction]
pub(crate) fn restore_header(args: &Bound<'_, PyDict>) -> PyResult<()> {
    let py = args.py();
    let backup: PathArg = argument(args, "backup")?;
    let target: PathArg = argument(args, "target")?;
    let force: bool = argument(args, "force")?;
    let part = args.extract::<PartArgs>()?.part()?;
    let context = context(None, None)?;
    operate(py, context, &[], &mut |_| Ok(()), move |context| {
        let backup = Input::open(backup.existing()?, Role::Metadata)?;
        let path = target.path();
        let place = VolumePlace { path, part };
        HeaderRestore::plan(&backup, place, force, context)?.write(context)
    })
}
