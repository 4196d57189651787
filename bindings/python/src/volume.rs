// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor.Volume`: the metadata and keys of a volume.

use luxor::{
    Context, Engine, HeaderRestore, KeyOptions, LuksMetadata, LuksVolume, SecretBytes,
    VolumeMetadata, back_up_header,
    engine::Mode,
    files::{Input, Role, VolumePlace},
    luks::{LuksVersion, VolumeHeader, usual_numbers},
    volume::UnlockOptions,
};
use pyo3::{prelude::*, types::PyDict};

use crate::{
    args::{EngineArgs, NewSecretArgs, PartArgs, PbkdfArgs, UnlockArgs, argument},
    context::{context, operate},
    path::PathArg,
    storage::{FileArg, objects},
    unlocked::Unlocked,
    volume_arg::VolumeArg,
};

/// A volume or a detached header. Every call reads the metadata anew, so that changes of other
/// programs are seen.
#[pyclass(frozen, module = "luxor._luxor")]
pub(crate) struct Volume(VolumeArg);

impl Volume {
    /// Calls `work` on another thread.
    fn operate<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&VolumeArg, &Context) -> luxor::Result<T> + Send + 'static,
    ) -> PyResult<T> {
        let volume = self.0.clone();
        let (context, objects) = (context(None, None)?, objects(volume.files()));
        operate(py, context, &objects, &mut |_| Ok(()), move |context| {
            work(&volume, context)
        })
    }

    /// Calls `work` with the metadata.
    fn with<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(VolumeMetadata) -> luxor::Result<T> + Send + 'static,
    ) -> PyResult<T> {
        self.operate(py, |volume, context| {
            work(volume.metadata(Role::Metadata, context)?)
        })
    }

    /// Calls `work` with the metadata of a LUKS volume.
    fn with_luks<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(LuksMetadata, &Context) -> luxor::Result<T> + Send + 'static,
    ) -> PyResult<T> {
        self.operate(py, |volume, context| work(volume.luks(context)?, context))
    }

    /// Calls `work` with a LUKS volume that is open for changes.
    fn change<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(LuksVolume, &Context) -> luxor::Result<T> + Send + 'static,
    ) -> PyResult<T> {
        self.operate(py, |volume, context| work(volume.change(context)?, context))
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

    /// Returns what `get` finds in the metadata of a LUKS volume.
    fn read<T: Send + 'static>(
        &self,
        py: Python<'_>,
        get: impl FnOnce(&VolumeHeader) -> T + Send + 'static,
    ) -> PyResult<T> {
        self.with_luks(py, |volume, _| Ok(get(&volume.header)))
    }
}

#[pymethods]
impl Volume {
    #[new]
    fn new(file: &Bound<'_, PyAny>, args: &Bound<'_, PyDict>) -> PyResult<Self> {
        let volume = Self(VolumeArg::new(FileArg::from_start(file)?, args)?);
        volume.with(file.py(), |_| Ok(()))?;
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
    fn format(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.with(py, |volume| Ok(volume.describe().format))
    }

    #[getter]
    fn uuid(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |volume| Ok(volume.describe().uuid))
    }

    #[getter]
    fn label(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |volume| {
            let label = volume.luks().map(VolumeHeader::label);
            Ok(label.unwrap_or_default().to_owned())
        })
    }

    #[getter]
    fn keyslots(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        self.with(py, |volume| {
            let keyslots = volume.luks().map(VolumeHeader::keyslot_numbers);
            Ok(keyslots.unwrap_or_default())
        })
    }

    #[getter]
    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |volume| {
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
        self.with(py, |volume| {
            let found = volume.check();
            Ok((found.good, found.damage))
        })
    }

    /// Locks the data, and finds their keys.
    fn unlock(
        &self,
        py: Python<'_>,
        writable: bool,
        args: &Bound<'_, PyDict>,
    ) -> PyResult<Unlocked> {
        let unlock: UnlockArgs = args.extract()?;
        let context = args.extract::<EngineArgs>()?.context()?;
        let (secrets, unlock) = (unlock.secrets(py)?, unlock.options());
        let (volume, objects) = (self.0.clone(), objects(self.0.files()));
        let unlocked = operate(py, context, &objects, &mut |_| Ok(()), move |context| {
            volume.unlock(&*secrets, &unlock, writable, context)
        })?;
        Ok(Unlocked::new(unlocked, objects))
    }

    /// Returns the number of the keyslot that the secret opens.
    fn test_key(&self, py: Python<'_>, args: &Bound<'_, PyDict>) -> PyResult<u32> {
        let args: UnlockArgs = args.extract()?;
        let (secret, unlock) = (args.secret(py)?, args.options());
        self.with_luks(py, move |volume, context| {
            let engine = Engine::select(context, Mode::Xts)?;
            let (unlocked, _) = volume.test(&secret, &*engine.backend, &unlock, context)?;
            Ok(unlocked.keyslot)
        })
    }

    /// Adds a keyslot with this number, or the first free one. Returns its number.
    fn add_key(&self, py: Python<'_>, args: &Bound<'_, PyDict>) -> PyResult<u32> {
        let number: Option<u32> = argument(args, "number")?;
        let (secret, new, options) = self.for_new_keyslot(args)?;
        self.change(py, move |mut volume, context| {
            volume.add_key(number, &secret, || Ok(new), &options, context)
        })
    }

    /// Replaces the secret of the keyslot that opens. Returns its number.
    fn change_key(&self, py: Python<'_>, args: &Bound<'_, PyDict>) -> PyResult<u32> {
        let (secret, new, options) = self.for_new_keyslot(args)?;
        self.change(py, move |mut volume, context| {
            volume.change_key(&secret, |_| Ok(new), &options, context)
        })
    }

    /// Removes the keyslot that the secret opens. Returns its number.
    fn remove_key(&self, py: Python<'_>, args: &Bound<'_, PyDict>) -> PyResult<u32> {
        let last: bool = argument(args, "last")?;
        let args: UnlockArgs = args.extract()?;
        let (secret, unlock) = (args.secret(py)?, args.options());
        self.change(py, move |mut volume, context| {
            volume.remove_key(&secret, last, &unlock, context)
        })
    }

    /// Removes the keyslot with this number, without a secret.
    fn remove_keyslot(&self, py: Python<'_>, args: &Bound<'_, PyDict>) -> PyResult<()> {
        let (number, last) = (argument(args, "number")?, argument(args, "last")?);
        self.change(py, move |mut volume, context| {
            volume.remove_keyslot(number, None, last, &UnlockOptions::default(), context)
        })
    }

    /// Returns a token as JSON, whose strings need not be UTF-8.
    fn token_json(&self, py: Python<'_>, args: &Bound<'_, PyDict>) -> PyResult<Vec<u8>> {
        let number: u32 = argument(args, "number")?;
        self.with_luks(py, move |volume, _| {
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
        self.change(py, move |mut volume, context| {
            volume.add_token(&json, number, false, false, context)
        })
    }

    fn remove_token(&self, py: Python<'_>, args: &Bound<'_, PyDict>) -> PyResult<()> {
        let (number, force): (u32, bool) = (argument(args, "number")?, argument(args, "force")?);
        self.change(py, move |mut volume, context| {
            volume.remove_token(number, force, context)
        })
    }

    /// Copies the header into a new file. Returns its length in bytes.
    fn back_up_header(&self, py: Python<'_>, args: &Bound<'_, PyDict>) -> PyResult<u64> {
        let (file, force): (PathArg, bool) = (argument(args, "file")?, argument(args, "force")?);
        self.operate(py, move |volume, context| {
            let input = volume.luks_input(Role::Metadata, context)?;
            back_up_header(&input, file.path(), force, &[], context)
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
