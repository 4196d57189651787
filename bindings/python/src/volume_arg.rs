// SPDX-License-Identifier: MIT OR Apache-2.0
//! A volume as an argument, and the steps from it to a disk.

use std::{
    iter,
    os::fd::RawFd,
    sync::{Arc, Mutex, PoisonError},
};

use luxor::{
    Context, DiskUse, Engine, LuksMetadata, LuksVolume, Secrets, VolumeDisk, VolumeMetadata,
    any_format,
    files::{DataFile, Input, OfProcess, Role, VolumePart},
    volume::{Format, UnlockOptions},
};
use pyo3::{exceptions::PyValueError, prelude::*, types::PyDict};

use crate::{
    args::{PartArgs, arguments},
    context::{context, operate},
    disk::Disk,
    error::key_lost_in_fork,
    formats::FormatArg,
    storage::{FileArg, Object},
};

arguments! {
    struct VolumeArgs {
        header: Option<Py<PyAny>>,
        format: Option<FormatArg>,
    }
}

/// An existing volume: the part of a file with the data, and the format and place of the metadata.
#[derive(Clone)]
pub(crate) struct VolumeArg {
    file: FileArg,
    part: VolumePart,
    header: Option<FileArg>,
    format: Arc<dyn Format>,
}

impl VolumeArg {
    pub(crate) fn new(file: FileArg, args: &Bound<'_, PyDict>) -> PyResult<Self> {
        let (py, part) = (args.py(), args.extract::<PartArgs>()?.part()?);
        let args = args.extract::<VolumeArgs>()?;
        let header = args.header.map(|header| FileArg::of(header.bind(py)));
        Ok(Self {
            file,
            part,
            header: header.transpose()?,
            format: args
                .format
                .map_or_else(any_format, |FormatArg(format)| format),
        })
    }

    /// The file with the data, and the one with a detached header.
    pub(crate) fn files(&self) -> impl Iterator<Item = &FileArg> {
        iter::once(&self.file).chain(&self.header)
    }

    /// Opens the file with the data.
    pub(crate) fn input(&self, role: Role) -> luxor::Result<Input> {
        self.file.input_of(self.part, role)
    }

    /// Reads the metadata, and opens the data for `role`.
    pub(crate) fn metadata(&self, role: Role, context: &Context) -> luxor::Result<VolumeMetadata> {
        self.metadata_of(self.input(role)?, context)
    }

    /// Reads the metadata of a volume whose data are in `input`.
    pub(crate) fn metadata_of(
        &self,
        input: Input,
        context: &Context,
    ) -> luxor::Result<VolumeMetadata> {
        let header = self.header.as_ref();
        let header = header.map(|header| header.input(Role::Metadata));
        let format = Arc::clone(&self.format);
        VolumeMetadata::open(input, header.transpose()?, format, context)
    }

    /// Reads the metadata of a LUKS volume.
    pub(crate) fn luks(&self, context: &Context) -> luxor::Result<LuksMetadata> {
        let volume = self.metadata(Role::Metadata, context)?;
        let (name, format) = (volume.name(), volume.describe().format);
        volume.into_luks().ok_or_else(|| not_luks(&name, format))
    }

    /// Opens the file with the metadata of a LUKS volume, to read or change them.
    pub(crate) fn luks_input(&self, role: Role, context: &Context) -> luxor::Result<Input> {
        if !self.format.has_signature() {
            // The data of another format could be taken for metadata of LUKS.
            self.luks(context)?;
        }
        match &self.header {
            Some(header) => header.input(role),
            None => self.input(role),
        }
    }

    /// Opens the metadata of a LUKS volume for changes.
    pub(crate) fn change(&self, context: &Context) -> luxor::Result<LuksVolume> {
        let input = self.luks_input(Role::Change, context)?;
        let volume = LuksVolume::of_input(input, context)?;
        Ok(match &self.header {
            Some(_) => volume.with_data(self.input(Role::Metadata)?),
            None => volume,
        })
    }

    /// Locks the data, and finds their keys.
    pub(crate) fn unlock(
        &self,
        secrets: &dyn Secrets,
        unlock: &UnlockOptions,
        writable: bool,
        context: &Context,
    ) -> luxor::Result<UnlockedVolume> {
        let disk_use = DiskUse {
            read_only: !writable,
            ..DiskUse::default()
        };
        let data = self.file.data_file(self.part, &disk_use)?;
        let metadata = self.metadata_of(data.input()?, context)?;
        VolumeDisk::check(&metadata, &data, &disk_use)?;
        let engine = Engine::select(context, metadata.describe().mode)?;
        let unlocked = metadata.unlock_data(secrets, &*engine.backend, unlock, context)?;
        Ok(UnlockedVolume {
            metadata,
            data,
            engine,
            unlocked,
            disk_use,
        })
    }
}

/// A volume with its keys. Each step of it is an operation of its own, which has its own context.
pub(crate) struct UnlockedVolume {
    metadata: VolumeMetadata,
    data: DataFile,
    engine: Engine,
    unlocked: luxor::volume::Unlocked,
    disk_use: DiskUse,
}

impl UnlockedVolume {
    /// Makes a disk of the plaintext.
    pub(crate) fn disk(self, context: &Context) -> luxor::Result<VolumeDisk> {
        let Self {
            metadata,
            data,
            engine,
            unlocked,
            disk_use,
        } = self;
        VolumeDisk::of_unlocked(metadata, data, unlocked, &engine, &disk_use, context)
    }

    /// The descriptors that it holds.
    fn descriptors(&self) -> Vec<RawFd> {
        let (metadata, data) = (self.metadata.descriptors(), self.data.descriptors());
        [metadata, data].concat()
    }
}

/// What `luxor.Volume.unlock` returns: a volume with its keys, until it becomes a disk.
#[pyclass(frozen, module = "luxor._luxor")]
pub(crate) struct Unlocked {
    /// `None` once it is a disk or closed. As in `Disk`, the lock is held only while the thread is
    /// attached to the interpreter.
    volume: Mutex<Option<(OfProcess<UnlockedVolume>, Vec<Object>)>>,
    keyslots: Vec<u32>,
}

impl Unlocked {
    /// A volume that the objects hold.
    pub(crate) fn new(volume: UnlockedVolume, objects: Vec<Object>) -> Self {
        let opened = volume.unlocked.keyslots.iter();
        let keyslots = opened.map(|opened| opened.keyslot).collect();
        let volume = OfProcess::holding(volume, UnlockedVolume::descriptors);
        Self {
            volume: Mutex::new(Some((volume, objects))),
            keyslots,
        }
    }

    fn take(&self) -> Option<(OfProcess<UnlockedVolume>, Vec<Object>)> {
        let volume = self.volume.lock();
        volume.unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[pymethods]
impl Unlocked {
    #[getter]
    fn keyslots(&self) -> Vec<u32> {
        self.keyslots.clone()
    }

    /// Makes a disk of the plaintext.
    fn disk(&self, py: Python<'_>) -> PyResult<Disk> {
        let taken = self.take().ok_or_else(|| {
            PyValueError::new_err("the volume is closed, or a disk already: unlock it again")
        });
        let (volume, objects) = taken?;
        let Some(volume) = volume.into_inner() else {
            objects.iter().for_each(Object::give_up);
            return Err(key_lost_in_fork());
        };
        let context = context(None, None)?;
        let disk = operate(py, context, &objects, &mut |_| Ok(()), move |context| {
            volume.disk(context)
        })?;
        Ok(Disk::of_existing(disk, objects))
    }

    /// Wipes the keys, and unlocks the data for other programs. Has no effect on a disk.
    fn close(&self) {
        // The lock is not held while this is dropped, which may run code of Python.
        if let Some((volume, objects)) = self.take()
            && volume.here().is_none()
        {
            objects.iter().for_each(Object::give_up);
        }
    }
}

/// The error for an operation that only LUKS has.
fn not_luks(name: &str, format: &str) -> luxor::Error {
    luxor::Error::failure(format!("{name} is a {format} volume: only LUKS has this"))
}
