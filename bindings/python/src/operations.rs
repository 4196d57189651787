// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor.encrypt`, `luxor.decrypt` and `luxor.create`.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use luxor::{Context, Events, NewFiles, Progress, Volume};
use luxor_engine::KeySize;
use luxor_files::Role;
use luxor_luks::{LuksVersion, NewVolumeOptions, PbkdfKind, PbkdfOptions, UnlockOptions};
use luxor_sector::SectorSize;
use pyo3::{exceptions::PyValueError, prelude::*, types::PyDict};

use crate::{
    context::{context, opener, secret},
    interrupt::wait_for,
    storage::{FileArg, outcome},
};

/// The value of `total` while the length is unknown.
const UNKNOWN: u64 = u64::MAX;

/// Counts the bytes of an operation, for the callback that the calling thread calls.
#[derive(Default)]
struct Counter {
    done: AtomicU64,
    total: AtomicU64,
}

/// Passes the library's warnings to `inner` and its progress to `counter`.
struct Counted {
    inner: Arc<dyn Events>,
    counter: Arc<Counter>,
}

struct CounterProgress(Arc<Counter>);

impl Events for Counted {
    fn warning(&self, text: &str) {
        self.inner.warning(text);
    }

    fn note(&self, text: &str) {
        self.inner.note(text);
    }

    fn bytes(&self, _: &'static str, _: String, total: Option<u64>) -> Box<dyn Progress> {
        let total = total.unwrap_or(UNKNOWN);
        self.counter.total.store(total, Ordering::Relaxed);
        Box::new(CounterProgress(Arc::clone(&self.counter)))
    }
}

impl Progress for CounterProgress {
    fn at(&self, done: u64) {
        self.0.done.store(done, Ordering::Relaxed);
    }
}

/// Calls `work` on another thread, and `progress(done, total)` with what is done so far.
fn copy(
    py: Python<'_>,
    mut context: Context,
    progress: Option<&Bound<'_, PyAny>>,
    files: [&FileArg; 2],
    work: impl FnOnce(&Context) -> luxor::Result<()> + Send + 'static,
) -> PyResult<()> {
    let counter = Arc::new(Counter::default());
    counter.total.store(UNKNOWN, Ordering::Relaxed);
    context.events = Arc::new(Counted {
        inner: Arc::clone(&context.events),
        counter: Arc::clone(&counter),
    });
    let mut told = None;
    let mut tick = |_: Python<'_>| {
        let done = counter.done.load(Ordering::Relaxed);
        let Some(progress) = progress else {
            return Ok(());
        };
        if told != Some(done) {
            told = Some(done);
            let total = counter.total.load(Ordering::Relaxed);
            progress.call1((done, (total != UNKNOWN).then_some(total)))?;
        }
        Ok(())
    };
    let cancel = Arc::clone(&context.cancel);
    let result = wait_for(py, &cancel, &mut tick, move || work(&context))?;
    outcome(py, result, files)?;
    tick(py)
}

/// The arguments of [`encrypt`] and [`create`] that describe the new volume.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct NewVolumeArgs {
    passphrase: Option<Py<PyAny>>,
    key_file: Option<PathBuf>,
    header: Option<PathBuf>,
    force: bool,
    #[pyo3(item("type"))]
    version: String,
    sector_size: Option<u32>,
    key_size: u32,
    pbkdf: Option<String>,
    pbkdf_memory: Option<u32>,
    pbkdf_parallel: Option<u32>,
    pbkdf_force_iterations: Option<u32>,
    iter_time: f64,
    label: Option<String>,
    uuid: Option<String>,
    engine: Option<String>,
    threads: Option<usize>,
}

impl NewVolumeArgs {
    fn options(&self) -> PyResult<NewVolumeOptions> {
        let wrong = |name: &str, error: &dyn std::fmt::Display| {
            PyValueError::new_err(format!("{name}: {error}"))
        };
        let version = match self.version.as_str() {
            "luks1" => LuksVersion::Luks1,
            "luks2" => LuksVersion::Luks2,
            other => {
                return Err(wrong(
                    "type",
                    &format!("{other:?} is neither luks1 nor luks2"),
                ));
            }
        };
        let key_size = match self.key_size {
            256 => KeySize::Aes128,
            512 => KeySize::Aes256,
            bits => return Err(wrong("key_size", &format!("{bits} is neither 256 nor 512"))),
        };
        let sector_size = self.sector_size.map(SectorSize::try_from).transpose();
        let label = self.label.as_deref().map(str::parse).transpose();
        let uuid = self.uuid.as_deref().map(str::parse).transpose();
        let options = NewVolumeOptions {
            sector_size: sector_size.map_err(|error| wrong("sector_size", &error))?,
            key_size,
            pbkdf: self.pbkdf(version)?,
            label: label.map_err(|error| wrong("label", &error))?,
            uuid: uuid.map_err(|_| wrong("uuid", &"this is not a UUID"))?,
            ..NewVolumeOptions::new(version)
        };
        options
            .check()
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(options)
    }

    fn pbkdf(&self, version: LuksVersion) -> PyResult<PbkdfOptions> {
        pbkdf(
            self.pbkdf.as_deref(),
            version.default_pbkdf(),
            [
                self.pbkdf_memory,
                self.pbkdf_parallel,
                self.pbkdf_force_iterations,
            ],
            self.iter_time,
        )
    }

    fn secret(&self, py: Python<'_>) -> PyResult<luxor_engine::SecretBytes> {
        let passphrase = self.passphrase.as_ref().map(|secret| secret.bind(py));
        let key_file = self.key_file.clone();
        let secret = secret(passphrase, key_file, ["passphrase", "key_file"])?;
        if secret.is_empty() {
            let message = "the passphrase is empty, which protects nothing";
            return Err(PyValueError::new_err(message));
        }
        Ok(secret)
    }
}

/// Returns the costs of a new keyslot. `numbers` are the memory in KiB, the lanes and the
/// iterations; `iter_time` is in seconds.
pub(crate) fn pbkdf(
    name: Option<&str>,
    default: PbkdfKind,
    numbers: [Option<u32>; 3],
    iter_time: f64,
) -> PyResult<PbkdfOptions> {
    let kind = match name {
        None => default,
        Some(name) => PbkdfKind::by_name(name).ok_or_else(|| {
            let names = PbkdfKind::ALL.map(PbkdfKind::name).join(", ");
            PyValueError::new_err(format!("pbkdf: {name:?} is none of {names}"))
        })?,
    };
    let [memory_kib, parallel, force_iterations] = numbers;
    let options = PbkdfOptions {
        kind,
        memory_kib,
        parallel,
        force_iterations,
        iter_time: Duration::try_from_secs_f64(iter_time)
            .map_err(|error| PyValueError::new_err(format!("iter_time: {error}")))?,
    };
    options
        .check()
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(options)
}

/// Encrypts `source` into a new volume in `target`.
#[pyfunction]
pub(crate) fn encrypt(
    source: &Bound<'_, PyAny>,
    target: &Bound<'_, PyAny>,
    args: &Bound<'_, PyDict>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let py = source.py();
    let args: NewVolumeArgs = args.extract()?;
    let (options, secret) = (args.options()?, args.secret(py)?);
    let context = context(args.engine.as_deref(), args.threads)?;
    let (source, target) = (
        FileArg::from_position(source)?,
        FileArg::from_position(target)?,
    );
    let files = [source.clone(), target.clone()];
    copy(py, context, progress, [&source, &target], move |context| {
        let [source, target] = files;
        let mut input = source.input(Role::Data)?;
        let secret = || Ok(secret);
        match &target {
            FileArg::Path(path) => {
                let files = new_files(path, &args);
                luxor::encrypt(&mut input, &files, &options, secret, context)
            }
            FileArg::Object(_) => {
                let output = target.output(false, &input, false, context)?;
                luxor::encrypt_to(&mut input, output, &options, secret, context)
            }
        }
    })
}

fn new_files<'a>(volume: &'a Path, args: &'a NewVolumeArgs) -> NewFiles<'a> {
    NewFiles {
        volume,
        header: args.header.as_deref(),
        force: args.force,
        needed: &[],
    }
}

/// The arguments of [`decrypt`].
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct DecryptArgs {
    passphrase: Option<Py<PyAny>>,
    key_file: Option<PathBuf>,
    volume_key: Option<Py<PyAny>>,
    header: Option<Py<PyAny>>,
    force: bool,
    sparse: bool,
    key_slot: Option<u32>,
    engine: Option<String>,
    threads: Option<usize>,
}

/// Decrypts the volume in `source` into `target`.
#[pyfunction]
pub(crate) fn decrypt(
    source: &Bound<'_, PyAny>,
    target: &Bound<'_, PyAny>,
    args: &Bound<'_, PyDict>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let py = source.py();
    let args: DecryptArgs = args.extract()?;
    let secrets = opener(
        args.passphrase.as_ref().map(|secret| secret.bind(py)),
        args.key_file,
        args.volume_key.as_ref().map(|key| key.bind(py)),
    )?;
    let context = context(args.engine.as_deref(), args.threads)?;
    let (source, target) = (
        FileArg::from_position(source)?,
        FileArg::from_position(target)?,
    );
    let header = args.header.map(|header| FileArg::of(header.bind(py)));
    let header = header.transpose()?;
    let unlock = UnlockOptions {
        keyslots: args.key_slot.into_iter().collect(),
        ..UnlockOptions::default()
    };
    let files = [source.clone(), target.clone()];
    copy(py, context, progress, [&source, &target], move |context| {
        let [source, target] = files;
        let input = source.input(Role::Data)?;
        let output = target.output(args.force, &input, args.sparse, context)?;
        let volume = match header {
            None => Volume::open(input, context)?,
            Some(header) => Volume::open(header.input(Role::Metadata)?, context)?.with_data(input),
        };
        luxor::decrypt(volume, &*secrets, &unlock, output, context)
    })
}

/// Makes an empty volume for `size` bytes in the file `path`.
#[pyfunction]
pub(crate) fn create(
    path: &Bound<'_, PyAny>,
    size: Option<u64>,
    args: &Bound<'_, PyDict>,
) -> PyResult<()> {
    let py = path.py();
    let args: NewVolumeArgs = args.extract()?;
    let (options, secret) = (args.options()?, args.secret(py)?);
    let context = context(args.engine.as_deref(), args.threads)?;
    let file = FileArg::of(path)?;
    let FileArg::Path(path) = file.clone() else {
        return Err(PyValueError::new_err("create needs a path"));
    };
    let cancel = Arc::clone(&context.cancel);
    let made = wait_for(py, &cancel, &mut |_| Ok(()), move || {
        let files = new_files(&path, &args);
        luxor::format(&files, size, &options, || Ok(secret), &context)
    })?;
    outcome(py, made, [&file])
}
