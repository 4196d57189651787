// SPDX-License-Identifier: MIT OR Apache-2.0
//! Objects of Python as storage and as streams.

use std::{
    fs,
    io::{self, Read, Write},
    ops::Range,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use luxor::{
    Context, DiskUse, create_output,
    files::{
        DataFile, FileIdentity, Input, InputError, Output, OutputOptions, Role, VolumePart,
        VolumePartError, VolumePlace, open_to_read, path_name,
    },
    sector::Storage,
};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyBytes, PyString},
};

use crate::{
    buffer::Bytes,
    error::{Raised, ends_program, unless_it_fails},
    path::PathArg,
};

/// A path, or an object that stands for a file.
#[derive(Clone)]
pub(crate) enum FileArg {
    Path(PathArg),
    Object(Object),
}

impl FileArg {
    /// Accepts `str`, `bytes`, `os.PathLike`, and objects with the methods of a binary file, whose
    /// position is ignored.
    pub(crate) fn from_start(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::new(object, false)
    }

    /// As [`FileArg::from_start`], but an object is read or written from its position on.
    pub(crate) fn from_position(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::new(object, true)
    }

    fn new(object: &Bound<'_, PyAny>, from_position: bool) -> PyResult<Self> {
        let is_path = object.is_instance_of::<PyString>()
            || object.is_instance_of::<PyBytes>()
            || object.hasattr("__fspath__")?;
        if is_path {
            return Ok(Self::Path(object.extract()?));
        }
        Ok(Self::Object(Object::from_python(object, from_position)?))
    }

    /// The object, if it is one.
    pub(crate) fn object(&self) -> Option<&Object> {
        match self {
            Self::Path(_) => None,
            Self::Object(object) => Some(object),
        }
    }

    /// Whether they are the same object, or at least one is an object and both stand for the same
    /// file. The library compares paths.
    pub(crate) fn is_same(&self, other: &Self, py: Python<'_>) -> PyResult<bool> {
        match (self, other) {
            (Self::Path(_), Self::Path(_)) => return Ok(false),
            (Self::Object(a), Self::Object(b)) if a.shared.is_same(&b.shared, py)? => {
                return Ok(true);
            }
            _ => {}
        }
        let files = (self.identity(py)?, other.identity(py)?);
        Ok(matches!(files, (Some(a), Some(b)) if a.overlaps(b)))
    }

    fn identity(&self, py: Python<'_>) -> PyResult<Option<FileIdentity>> {
        match self {
            Self::Path(path) => Ok(fs::metadata(path.path())
                .ok()
                .as_ref()
                .and_then(FileIdentity::from_metadata)),
            Self::Object(object) => {
                let file = file_below(&object.shared.object(py)?)?;
                Ok(file.map(|(_, identity)| identity))
            }
        }
    }

    /// Refuses an object with bytes after its position: they would follow what is written.
    pub(crate) fn check_ends(&self, py: Python<'_>) -> PyResult<()> {
        let Self::Object(Object {
            shared,
            name,
            is_seekable: true,
            ..
        }) = self
        else {
            return Ok(());
        };
        let object = &shared.object(py)?;
        let end = end(object)?;
        object.call_method1("seek", (shared.base,))?;
        match end.saturating_sub(shared.base) {
            0 => Ok(()),
            left => {
                let name = path_name(name);
                Err(PyValueError::new_err(format!(
                    "{name} has {left} bytes after its position, which would remain there: \
                     truncate it first, or seek to its end"
                )))
            }
        }
    }

    /// Opens it as an input.
    pub(crate) fn input(&self, role: Role) -> luxor::Result<Input> {
        self.input_of(VolumePart::Whole, role)
    }

    /// Opens a part of it as an input.
    pub(crate) fn input_of(&self, part: VolumePart, role: Role) -> luxor::Result<Input> {
        match self {
            Self::Path(path) => {
                let path = path.existing()?;
                Ok(Input::open(VolumePlace { path, part }, role)?)
            }
            Self::Object(object) if part == VolumePart::Whole => object.input(),
            Self::Object(object) => {
                let storage = object.part(part, role == Role::Change)?;
                Ok(Input::of_storage(storage, &object.name)?)
            }
        }
    }

    /// Opens a part of it as the storage of a disk.
    pub(crate) fn data_file(&self, part: VolumePart, options: &DiskUse) -> luxor::Result<DataFile> {
        match self {
            Self::Path(path) => {
                let path = path.existing()?;
                Ok(DataFile::open(
                    VolumePlace { path, part },
                    options.access(),
                )?)
            }
            Self::Object(object) if object.appends && !options.read_only => {
                let name = path_name(&object.name);
                let message = format!("{name} appends all that is written to it");
                Err(luxor::Error::failure(message).hint("Open it in the mode r+b."))
            }
            Self::Object(object) => {
                let storage = object.part(part, !options.read_only)?;
                Ok(DataFile::of_storage(storage, &object.name))
            }
        }
    }

    /// Opens it as an output. An existing file is replaced only with `force`.
    pub(crate) fn output(
        &self,
        force: bool,
        input: &Input,
        sparse: bool,
        context: &Context,
    ) -> luxor::Result<Output> {
        let options = OutputOptions {
            force,
            sparse,
            known_input: Some(input),
            ..OutputOptions::default()
        };
        match self {
            Self::Path(path) => create_output(path.path(), &options, context),
            Self::Object(object) => Ok(object.output()),
        }
    }
}

/// Returns those of the files that are objects.
pub(crate) fn objects<'a>(files: impl IntoIterator<Item = &'a FileArg>) -> Vec<Object> {
    let objects = files.into_iter().filter_map(FileArg::object);
    objects.cloned().collect()
}

/// What ends the program, such as `KeyboardInterrupt`, if a method of an object raises it during one
/// operation.
///
/// The library may be able to go on after an error of a storage: with the other copy of the metadata,
/// say. So the first such exception fails every later call of the operation, whichever object and
/// thread it is for, without calling Python: nothing is written any more. [`Stop::deliver`] raises it.
pub(crate) struct Stop(Mutex<Option<PyErr>>);

impl Stop {
    /// Begins an operation that uses `objects`. It ends with the last reference to the result.
    pub(crate) fn begin(objects: &[Object]) -> Arc<Self> {
        let stop = Arc::new(Self(Mutex::default()));
        for object in objects {
            let mut stops = object.shared.stops();
            stops.retain(|stop| stop.strong_count() > 0);
            stops.push(Arc::downgrade(&stop));
        }
        stop
    }

    /// Returns what ends the program, if it was raised.
    pub(crate) fn exception(&self, py: Python<'_>) -> Option<PyErr> {
        Some(self.lock().as_ref()?.clone_ref(py))
    }

    /// Raises what ends the program, or else returns the result of the operation.
    pub(crate) fn deliver<T>(&self, py: Python<'_>, result: PyResult<T>) -> PyResult<T> {
        self.exception(py).map_or(result, Err)
    }

    fn keep(&self, py: Python<'_>, exception: &PyErr) {
        self.lock().get_or_insert_with(|| exception.clone_ref(py));
    }

    fn lock(&self) -> MutexGuard<'_, Option<PyErr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An object with the methods of a binary file.
#[derive(Clone)]
pub(crate) struct Object {
    shared: Arc<Shared>,
    name: PathBuf,
    is_seekable: bool,
    /// Whether every write goes to its end, whatever its position.
    appends: bool,
}

struct Shared {
    /// `None` once a forked child has given it up. Not locked while a method of the object runs.
    object: Mutex<Option<Py<PyAny>>>,
    /// The position that is byte 0 of the storage.
    base: u64,
    /// Whether the object has `read_at(size, offset)`, which several threads may call.
    has_read_at: bool,
    /// Held while the object's position matters. A thread that has the GIL must not wait for it.
    position: Mutex<()>,
    /// Those of the operations that use the object. Like `object` locked only for a moment, by threads
    /// that are attached to the interpreter, so that a forked child does not find it locked.
    stops: Mutex<Vec<Weak<Stop>>>,
}

impl Object {
    pub(crate) fn from_python(object: &Bound<'_, PyAny>, from_position: bool) -> PyResult<Self> {
        let has_read_at = object.hasattr("read_at")?;
        if !has_read_at && !object.hasattr("read")? && !object.hasattr("write")? {
            let message = format!(
                "expected a path or a binary file, not {}",
                object.get_type().name()?
            );
            return Err(PyTypeError::new_err(message));
        }
        let py = object.py();
        let position = if has_read_at {
            Some(0)
        } else {
            position(object)?
        };
        let name = unless_it_fails(py, object.getattr("name"))?;
        let name = match name {
            Some(name) if name.is_instance_of::<PyString>() => name.extract()?,
            _ => format!("<{}>", object.get_type().name()?).into(),
        };
        Ok(Self {
            shared: Arc::new(Shared {
                object: Mutex::new(Some(object.clone().unbind())),
                base: position.filter(|_| from_position).unwrap_or(0),
                has_read_at,
                position: Mutex::default(),
                stops: Mutex::default(),
            }),
            name,
            is_seekable: position.is_some(),
            appends: appends(object)?,
        })
    }

    /// Drops the reference to the object, in a forked child, in which the storage that has it is not
    /// dropped.
    pub(crate) fn give_up(&self) {
        let object = self.shared.object.lock();
        let object = object.unwrap_or_else(PoisonError::into_inner).take();
        drop(object);
    }

    /// The object as storage, if it can seek.
    fn storage(&self) -> Option<Arc<dyn Storage>> {
        let storage = || Arc::clone(&self.shared) as Arc<dyn Storage>;
        self.is_seekable.then(storage)
    }

    /// A part of the object as storage, which may be written if it is to be changed.
    fn part(&self, part: VolumePart, is_changed: bool) -> luxor::Result<Arc<dyn Storage>> {
        self.find(|storage| part.of_storage(storage, is_changed))
    }

    /// The bytes of a part of the object, to read them.
    pub(crate) fn range(&self, part: VolumePart) -> luxor::Result<Range<u64>> {
        self.find(|storage| part.range_of_storage(&*storage, false))
    }

    fn find<T>(
        &self,
        find: impl FnOnce(Arc<dyn Storage>) -> Result<T, VolumePartError>,
    ) -> luxor::Result<T> {
        let name = path_name(&self.name);
        let Some(storage) = self.storage() else {
            return Err(luxor::Error::failure(format!("{name} cannot seek")));
        };
        find(storage).map_err(|source| {
            let path = self.name.clone();
            InputError::Part { path, source }.into()
        })
    }

    /// The object as an input: as storage, or as a stream if it cannot seek.
    fn input(&self) -> luxor::Result<Input> {
        match self.storage() {
            Some(storage) => Ok(Input::of_storage(storage, &self.name)?),
            None => Ok(Input::of_stream(
                Stream(Arc::clone(&self.shared)),
                &self.name,
            )),
        }
    }

    /// The object as an output: as storage, or as a stream if it cannot seek.
    pub(crate) fn output(&self) -> Output {
        match self.storage().filter(|_| !self.appends) {
            Some(storage) => Output::of_storage(storage, &self.name),
            None => Output::of_stream(Stream(Arc::clone(&self.shared)), &self.name),
        }
    }
}

impl Shared {
    fn object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let object = self.object.lock().unwrap_or_else(PoisonError::into_inner);
        let object = object.as_ref().map(|object| object.bind(py).clone());
        object.ok_or_else(|| PyValueError::new_err("I/O operation on a closed file"))
    }

    fn is_same(&self, other: &Self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.object(py)?.is(&other.object(py)?))
    }

    /// Calls `call` with the GIL. An exception becomes the error of the storage.
    fn attached<T>(&self, call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> io::Result<T> {
        self.attached_or(io::ErrorKind::Other, call)
    }

    fn stops(&self) -> MutexGuard<'_, Vec<Weak<Stop>>> {
        self.stops.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the operations that use the object.
    fn operations(&self) -> Vec<Arc<Stop>> {
        self.stops().iter().filter_map(Weak::upgrade).collect()
    }

    /// As [`Shared::attached`], but what ends the program is an error of the kind `interrupted`.
    fn attached_or<T>(
        &self,
        interrupted: io::ErrorKind,
        call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> io::Result<T> {
        let called = Python::try_attach(|py| {
            let operations = self.operations();
            let called = match operations.iter().find_map(|stop| stop.exception(py)) {
                Some(exception) => Err(exception),
                None => self.object(py).and_then(|object| call(&object)),
            };
            called.map_err(|exception| {
                let kind = if ends_program(py, &exception) {
                    operations.iter().for_each(|stop| stop.keep(py, &exception));
                    interrupted
                } else {
                    io::ErrorKind::Other
                };
                io::Error::new(kind, Raised::new(py, exception))
            })
        });
        called.unwrap_or_else(|| Err(io::Error::other("the Python interpreter has shut down")))
    }

    /// As [`Shared::attached`], for calls that depend on the object's position. Only one of them
    /// runs at a time, also if the object releases the GIL.
    fn positioned<T>(&self, call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> io::Result<T> {
        let _position = self.position.lock().unwrap_or_else(PoisonError::into_inner);
        self.attached(call)
    }
}

/// Returns the position of `object`, or `None` if it cannot seek. That it can is true only if it can go
/// to its end and back: a member of a compressed file that is written says so and cannot. Refuses one
/// that goes on after its end, of which only a part would be read.
fn position(object: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    let py = object.py();
    let tell = || object.call_method0("tell")?.extract::<u64>();
    let is_seekable = || {
        if object.hasattr("seekable")? {
            object.call_method0("seekable")?.is_truthy()
        } else {
            object.hasattr("seek")
        }
    };
    let position = is_seekable().and_then(|is_seekable| is_seekable.then(tell).transpose());
    let Some(position) = unless_it_fails(py, position)?.flatten() else {
        return Ok(None);
    };
    let end = unless_it_fails(py, end(object))?;
    if let Some(end) = end {
        check_end(object, end)?;
    }
    if let Err(exception) = object.call_method1("seek", (position,))
        && (ends_program(py, &exception) || tell()? != position)
    {
        // What lies between would be left out.
        return Err(exception);
    }
    Ok(end.map(|_| position))
}

/// Checks that `object`, which is at byte `at`, ends there. If it cannot be read, it is an output.
fn check_end(object: &Bound<'_, PyAny>, at: u64) -> PyResult<()> {
    let py = object.py();
    let goes_on = || object.call_method1("read", (1,))?.is_truthy();
    // A file to which another program writes has another end now.
    if unless_it_fails(py, goes_on())? != Some(true) || end(object)? > at {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "{} goes on after byte {at}, which its seek and tell say is its end: pass an object without \
         seek, which is read in order",
        object.get_type().name()?
    )))
}

/// Returns the length of `object`. Its position may be another one afterwards.
fn end(object: &Bound<'_, PyAny>) -> PyResult<u64> {
    if object.hasattr("seek")? {
        object.call_method1("seek", (0, 2))?;
        object.call_method0("tell")?.extract()
    } else {
        Ok(object.len()? as u64)
    }
}

/// Returns whether `object` is above a file in which every write goes to the end (`O_APPEND`).
fn appends(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let Some((descriptor, _)) = file_below(object)? else {
        return Ok(false);
    };
    let fcntl = object.py().import("fcntl")?;
    let flags = fcntl.call_method1("fcntl", (descriptor, fcntl.getattr("F_GETFL")?))?;
    let append: i32 = object.py().import("os")?.getattr("O_APPEND")?.extract()?;
    Ok(flags.extract::<i32>()? & append != 0)
}

/// Fills `buf` with what `read` returns for the number of missing and of filled bytes. Returns the
/// number of bytes up to the end of the object.
fn fill<'py>(
    buf: &mut [u8],
    read: impl Fn(usize, usize) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<usize> {
    let mut filled = 0;
    while filled < buf.len() {
        match copy(&read(buf.len() - filled, filled)?, &mut buf[filled..])? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}

/// Copies what a `read` has returned to the beginning of `buf`. Returns the number of bytes.
fn copy(bytes: &Bound<'_, PyAny>, buf: &mut [u8]) -> PyResult<usize> {
    let bytes = Bytes::readable(bytes)?;
    let (found, wanted) = (bytes.len(), buf.len());
    let Some(room) = buf.get_mut(..found) else {
        let message = format!("{found} bytes were read where at most {wanted} were asked for");
        return Err(PyValueError::new_err(message));
    };
    room.copy_from_slice(bytes.as_slice());
    Ok(found)
}

impl Storage for Shared {
    fn len(&self) -> io::Result<u64> {
        Ok(self.positioned(end)?.saturating_sub(self.base))
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let at = self.base + offset;
        let len = buf.len();
        let filled = if self.has_read_at {
            self.attached(|object| {
                fill(buf, |missing, filled| {
                    object.call_method1("read_at", (missing, at + filled as u64))
                })
            })
        } else {
            self.positioned(|object| {
                object.call_method1("seek", (at,))?;
                fill(buf, |missing, _| object.call_method1("read", (missing,)))
            })
        };
        match filled? {
            filled if filled == len => Ok(()),
            filled => {
                let message =
                    format!("it ends after {filled} of {len} bytes from byte {offset} on");
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, message))
            }
        }
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.positioned(|object| {
            object.call_method1("seek", (self.base + offset,))?;
            write_all(object, buf)
        })
    }

    fn free(&self) -> Option<u64> {
        let found = self.attached(|object| {
            let below = file_below(object)?;
            // Opening it again is as good as its own descriptor, which Python may close meanwhile.
            Ok(below.and_then(|(descriptor, _)| open_to_read(of_descriptor(descriptor)).ok()))
        });
        found.ok()??.free()
    }

    fn sync(&self) -> io::Result<()> {
        // After Ctrl-C the object still has the data, and a later call may make them durable.
        self.attached_or(io::ErrorKind::Interrupted, sync)
    }
}

/// Makes what was written to `object` durable, if it has the method `sync` or is above a file.
fn sync(object: &Bound<'_, PyAny>) -> PyResult<()> {
    if object.hasattr("sync")? {
        object.call_method0("sync")?;
        return Ok(());
    }
    flush(object)?;
    if let Some((descriptor, _)) = file_below(object)? {
        let os = object.py().import("os")?;
        os.call_method1("fsync", (descriptor,))?;
    }
    Ok(())
}

fn flush(object: &Bound<'_, PyAny>) -> PyResult<()> {
    if object.hasattr("flush")? {
        object.call_method0("flush")?;
    }
    Ok(())
}

/// Returns the descriptor and the identity of the file or block device to which `object` passes its
/// bytes on, if there is one.
fn file_below(object: &Bound<'_, PyAny>) -> PyResult<Option<(i32, FileIdentity)>> {
    let descriptor = object.call_method0("fileno");
    let descriptor = descriptor.and_then(|number| number.extract::<i32>());
    let Some(descriptor) = unless_it_fails(object.py(), descriptor)? else {
        return Ok(None);
    };
    let metadata = fs::metadata(of_descriptor(descriptor));
    let identity = metadata.ok().as_ref().and_then(FileIdentity::from_metadata);
    Ok(identity.map(|identity| (descriptor, identity)))
}

/// Returns a path of what this process has open under a number.
fn of_descriptor(descriptor: i32) -> PathBuf {
    format!("/proc/self/fd/{descriptor}").into()
}

/// Writes all of `buf` at the object's position.
fn write_all(object: &Bound<'_, PyAny>, mut buf: &[u8]) -> PyResult<()> {
    while !buf.is_empty() {
        let written = object.call_method1("write", (PyBytes::new(object.py(), buf),))?;
        // A file that would have to wait returns None.
        let count = written.extract::<Option<usize>>()?.unwrap_or(0);
        buf = match buf.get(count..) {
            Some(rest) if count > 0 => rest,
            _ => {
                let message = format!("{count} of {} bytes were written", buf.len());
                return Err(PyValueError::new_err(message));
            }
        };
    }
    Ok(())
}

/// An object that is read or written in order.
struct Stream(Arc<Shared>);

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0
            .positioned(|object| copy(&object.call_method1("read", (buf.len(),))?, buf))
    }
}

impl Write for Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.positioned(|object| write_all(object, buf))?;
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.attached(flush)
    }
}
