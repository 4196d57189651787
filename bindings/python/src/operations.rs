// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor.encrypt`, `luxor.decrypt` and `luxor.create`.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use luxor::{
    Context, Engine, Events, LuksMetadata, NewFiles, Progress, SecretBytes, VolumeWriter,
    engine::{KeySize, Mode},
    files::{Role, bounded},
    luks::{LuksVersion, NewVolumeOptions},
    sector::SectorSize,
    volume::{PbkdfOptions, UnlockOptions},
};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyBytes, PyDict},
};

use crate::{
    args::{EngineArgs, PartArgs, PbkdfArgs, UnlockArgs, argument, arguments},
    context::{context, operate},
    disk::Disk,
    key_cache::KeyCache,
    path::PathArg,
    storage::{FileArg, Object, objects},
    volume_arg::VolumeArg,
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
    objects: &[Object],
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Context) -> luxor::Result<()> + Send + 'static,
) -> PyResult<()> {
    if progress.is_some_and(|progress| !progress.is_callable()) {
        return Err(PyTypeError::new_err("progress is not callable"));
    }
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
    operate(py, context, objects, &mut tick, work)?;
    tick(py)
}

arguments! {
    /// Where a new volume is written.
    struct NewFilesArgs {
        header: Option<PathArg>,
        force: bool,
    }
}

arguments! {
    /// What a new volume is like.
    struct NewVolumeArgs {
        r#type: String,
        sector_size: Option<u32>,
        key_size: u32,
        label: Option<String>,
        uuid: Option<String>,
        luks2_metadata_size: Option<u64>,
        luks2_keyslots_size: Option<u64>,
    }
}

impl NewVolumeArgs {
    fn options(&self, pbkdf: &PbkdfArgs) -> PyResult<NewVolumeOptions> {
        let wrong = |name: &str, error: &dyn std::fmt::Display| {
            PyValueError::new_err(format!("{name}: {error}"))
        };
        let version = match self.r#type.as_str() {
            "luks1" => LuksVersion::Luks1,
            "luks2" => LuksVersion::Luks2,
            other => {
                return Err(wrong(
                    "type",
                    &format!("{:?} is neither luks1 nor luks2", bounded(other)),
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
        let mut options = NewVolumeOptions {
            sector_size: sector_size.map_err(|error| wrong("sector_size", &error))?,
            key_size,
            pbkdf: pbkdf.options(version.default_pbkdf())?,
            label: label.map_err(|error| wrong("label", &error))?,
            uuid: uuid.map_err(|_| wrong("uuid", &"this is not a UUID"))?,
            ..NewVolumeOptions::new(version)
        };
        options
            .set_layout(self.luks2_metadata_size, self.luks2_keyslots_size, None)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        options
            .check()
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(options)
    }
}

/// Everything that describes a new volume.
struct NewVolume {
    options: NewVolumeOptions,
    secret: SecretBytes,
    context: Context,
}

impl NewVolume {
    fn from_args(args: &Bound<'_, PyDict>) -> PyResult<Self> {
        let options = args.extract::<NewVolumeArgs>()?.options(&args.extract()?)?;
        let secret = args.extract::<UnlockArgs>()?.new_secret(args.py())?;
        let context = args.extract::<EngineArgs>()?.context()?;
        Ok(Self {
            options,
            secret,
            context,
        })
    }
}

/// Encrypts `source` into a new volume in `target`.
#[pyfunction]
pub(crate) fn encrypt(
    source: &Bound<'_, PyAny>,
    target: &Bound<'_, PyAny>,
    args: &Bound<'_, PyDict>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let files: NewFilesArgs = args.extract()?;
    let NewVolume {
        options,
        secret,
        context,
    } = NewVolume::from_args(args)?;
    let py = source.py();
    let [source, target] = source_and_target(source, target)?;
    if matches!(target, FileArg::Object(_)) && files.header.is_some() {
        let message = "a detached header needs a path as the target";
        return Err(PyValueError::new_err(message));
    }
    let objects = objects([&source, &target]);
    copy(py, context, &objects, progress, move |context| {
        let mut input = source.input(Role::Data)?;
        let secret = || Ok(secret);
        match &target {
            FileArg::Path(path) => {
                let files = new_files(path.path(), &files);
                luxor::encrypt_files(&mut input, &files, &options, secret, context)
            }
            FileArg::Object(_) => {
                let output = target.output(false, &input, false, context)?;
                luxor::encrypt_to(&mut input, output, &options, secret, context)
            }
        }
    })
}

/// Begins a new volume in `target`, which the caller fills.
#[pyfunction]
pub(crate) fn open_new(target: &Bound<'_, PyAny>, args: &Bound<'_, PyDict>) -> PyResult<Disk> {
    let py = target.py();
    let files: NewFilesArgs = args.extract()?;
    let NewVolume {
        options,
        secret,
        context,
    } = NewVolume::from_args(args)?;
    let target = FileArg::from_position(target)?;
    target.check_ends(py)?;
    let objects = objects([&target]);
    let begun = operate(py, context, &objects, &mut |_| Ok(()), move |context| {
        let secret = || Ok(secret);
        match &target {
            FileArg::Path(path) => {
                let files = new_files(path.path(), &files);
                VolumeWriter::create(&files, &options, secret, context)
            }
            FileArg::Object(object) => {
                VolumeWriter::create_in(object.output(), &options, secret, context)
            }
        }
    })?;
    Ok(Disk::of_new(begun, objects))
}

/// Returns both files of a copy, which begins at the positions of objects. Refuses those to which
/// nothing can be copied.
fn source_and_target(
    source: &Bound<'_, PyAny>,
    target: &Bound<'_, PyAny>,
) -> PyResult<[FileArg; 2]> {
    let py = source.py();
    let source = FileArg::from_position(source)?;
    let target = FileArg::from_position(target)?;
    if source.is_same(&target, py)? {
        let message = "the source and the target are the same file";
        return Err(PyValueError::new_err(message));
    }
    target.check_ends(py)?;
    Ok([source, target])
}

fn new_files<'a>(volume: &'a Path, args: &'a NewFilesArgs) -> NewFiles<'a> {
    NewFiles {
        volume,
        header: args.header.as_ref().map(PathArg::path),
        force: args.force,
        needed: &[],
    }
}

arguments! {
    /// The arguments of [`decrypt`] alone.
    struct DecryptArgs {
        force: bool,
        sparse: bool,
    }
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
    let unlock: UnlockArgs = args.extract()?;
    let context = args.extract::<EngineArgs>()?.context()?;
    let DecryptArgs { force, sparse } = args.extract()?;
    let (secrets, unlock) = (unlock.secrets(py)?, unlock.options());
    let [source, target] = source_and_target(source, target)?;
    let volume = VolumeArg::new(source, args)?;
    let objects = objects(volume.files().chain([&target]));
    copy(py, context, &objects, progress, move |context| {
        let input = volume.input(Role::Data)?;
        let output = target.output(force, &input, sparse, context)?;
        let volume = volume.metadata_of(input, context)?;
        luxor::decrypt_to(volume, &*secrets, &unlock, output, context).map(|_| ())
    })
}

/// Makes an empty volume for `size` bytes in the file `path`.
#[pyfunction]
pub(crate) fn create(args: &Bound<'_, PyDict>) -> PyResult<()> {
    let py = args.py();
    let path: PathArg = argument(args, "path")?;
    let size: Option<u64> = argument(args, "size")?;
    let files: NewFilesArgs = args.extract()?;
    let NewVolume {
        options,
        secret,
        context,
    } = NewVolume::from_args(args)?;
    operate(py, context, &[], &mut |_| Ok(()), move |context| {
        let files = new_files(path.path(), &files);
        luxor::format_files(&files, size, &options, || Ok(secret), context)
    })
}

/// Makes the header of a volume for `size` bytes. Returns its bytes, and the length of the volume.
#[pyfunction]
pub(crate) fn new_header<'py>(args: &Bound<'py, PyDict>) -> PyResult<(Bound<'py, PyBytes>, u64)> {
    let py = args.py();
    let size: u64 = argument(args, "size")?;
    let NewVolume {
        mut options,
        secret,
        context,
    } = NewVolume::from_args(args)?;
    let like = argument::<Option<Bound<'_, PyAny>>>(args, "like")?;
    let like = like.as_ref().map(FileArg::from_start).transpose()?;
    let key_cache: Option<Py<KeyCache>> = argument(args, "key_cache")?;
    options.pbkdf.cache = key_cache.map(|cache| cache.get().shared());
    let objects = objects(&like);
    let made = operate(py, context, &objects, &mut |_| Ok(()), move |context| {
        if let Some(like) = like {
            let like = LuksMetadata::open_input(like.input(Role::Metadata)?, None, context)?;
            let engine = Engine::select(context, Mode::Xts)?;
            let unlock = UnlockOptions {
                cache: options.pbkdf.cache.clone(),
                ..UnlockOptions::default()
            };
            // A keyslot that the secret opens was made with the secret. Others could have any costs.
            let (unlocked, _) = like.test(&secret, &*engine.backend, &unlock, context)?;
            let keyslot = &like.header.keyslots()[&unlocked.keyslot];
            options.pbkdf = PbkdfOptions {
                cache: options.pbkdf.cache,
                ..PbkdfOptions::like(keyslot.kdf.clone())
            };
        }
        luxor::new_header(size, &options, || Ok(secret), context)
    })?;
    Ok((PyBytes::new(py, &made.bytes), made.volume_len))
}

/// Returns the bytes of a part of `file`, an object: where it begins and ends.
#[pyfunction]
pub(crate) fn part_of(file: &Bound<'_, PyAny>, args: &Bound<'_, PyDict>) -> PyResult<(u64, u64)> {
    let py = file.py();
    let part = args.extract::<PartArgs>()?.part()?;
    let object = Object::from_python(file, false)?;
    let objects = [object.clone()];
    operate(
        py,
        context(None, None)?,
        &objects,
        &mut |_| Ok(()),
        move |_| {
            let range = object.range(part)?;
            Ok((range.start, range.end))
        },
    )
}
