// SPDX-License-Identifier: MIT OR Apache-2.0
//! A volume as an argument, and its unlocking.

use std::{iter, sync::Arc};

use luxor::{
    Context, DiskUse, LuksMetadata, LuksVolume, OpenOptions, Secrets, UnlockedVolume,
    VolumeMetadata, any_format,
    files::{Input, Role, VolumePart},
    volume::{Format, UnlockOptions},
};
use pyo3::{prelude::*, types::PyDict};

use crate::{
    args::{PartArgs, arguments},
    formats::FormatArg,
    storage::FileArg,
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
        let header = args
            .header
            .map(|header| FileArg::from_start(header.bind(py)));
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
        let format = Arc::clone(&self.format);
        VolumeMetadata::open(input, self.header_input()?, format, context)
    }

    fn header_input(&self) -> luxor::Result<Option<Input>> {
        let header = self.header.as_ref();
        let header = header.map(|header| header.input(Role::Metadata));
        header.transpose()
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
        self.open(unlock, writable, context)?.unlock(secrets)
    }

    /// Locks the data, and reads the metadata.
    pub(crate) fn open(
        &self,
        unlock: &UnlockOptions,
        writable: bool,
        context: &Context,
    ) -> luxor::Result<luxor::Volume> {
        let disk_use = DiskUse {
            read_only: !writable,
            ..DiskUse::default()
        };
        let options = OpenOptions::new()
            .format(Arc::clone(&self.format))
            .disk_use(disk_use)
            .unlock_options(unlock.clone())
            .context(context);
        let data = self.file.data_file(self.part, &disk_use)?;
        options.open_data(data, self.header_input()?)
    }
}

/// The error for an operation that only LUKS has.
fn not_luks(name: &str, format: &str) -> luxor::Error {
    luxor::Error::failure(format!("{name} is a {format} volume: only LUKS has this"))
}
