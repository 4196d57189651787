// SPDX-License-Identifier: MIT OR Apache-2.0
//! The encrypted data of a volume, as they are read from beginning to end.

use std::{collections::BTreeMap, io::Read, path::PathBuf, sync::Arc, time::SystemTime};

use luxor_files::{Input, lock_to_read};
use luxor_sector::pipeline::{self, Region};
use luxor_volume::{DataKey, Extent, Format, Header, Plaintext, Reencryption, TrailerKey};

use super::{Source, VolumeMetadata, shown, stream_extent, unreadable};
use crate::{
    Context, Engine, Error, OpenError, Result,
    error::Cause,
    trailer::{length_at_end, trailer_key},
};

/// The encrypted data, with the metadata that describe them.
pub(crate) struct Payload<H: ?Sized> {
    header: Box<H>,
    format: Arc<dyn Format>,
    /// The file with the metadata, for messages.
    path: PathBuf,
    again: Again,
    /// When the data were last written. Known only where a re-encryption may write to them without
    /// a trace in the metadata: one without resilience does so, and its lock may be out of reach
    /// for this user.
    changed: Option<SystemTime>,
    /// Where the data are.
    pub(crate) place: DataSource,
    /// The extents of the data within `place`.
    extents: Vec<Extent>,
    plaintext_len: Option<u64>,
}

/// Where the metadata can be read a second time.
enum Again {
    /// In the file that contains the data.
    WithData,
    /// In a file of their own.
    Detached(Arc<Input>),
    /// Nowhere: the metadata or the data came through a pipe.
    Never,
}

/// Where the encrypted data are.
pub(crate) enum DataSource {
    /// In a file or on a device.
    At(Arc<Input>),
    /// In a pipe that is positioned at their first byte.
    Stream(Box<dyn Read + Send>),
}

impl DataSource {
    /// Returns `len` bytes at `offset`, or, from a pipe, the bytes that come next.
    pub(crate) fn source(&mut self, offset: u64, len: u64) -> pipeline::Source<'_> {
        match self {
            Self::At(input) => pipeline::Source::At(Region {
                storage: &**input,
                offset,
                len,
            }),
            Self::Stream(stream) => pipeline::Source::Stream(stream),
        }
    }
}

impl<H: Header + ?Sized> Payload<H> {
    /// Sets the length of the plaintext to that of a file whose trailer is the last sector of the
    /// data. Returns whether the length is known: without the trailer it is that of all sectors.
    ///
    /// # Errors
    /// Fails when the last sector cannot be read.
    pub(crate) fn find_end(&self, plaintext: &mut Plaintext, engine: &Engine) -> Result<bool> {
        let found = self.header.describe();
        let (true, DataSource::At(input)) = (found.has_trailer(), &self.place) else {
            return Ok(true);
        };
        if plaintext.extents.len() > 1 {
            // A re-encryption has moved or changed the trailer.
            return Ok(false);
        }
        let length = length_at_end(&**input, plaintext, engine, &found.uuid)?;
        plaintext.len = length.or(plaintext.len);
        Ok(length.is_some())
    }

    /// Whether a trailer ends the file in the volume.
    pub(crate) fn has_trailer(&self) -> bool {
        self.header.describe().has_trailer()
    }

    /// Returns what recognises the trailer of a file, if the volume has one.
    ///
    /// # Errors
    /// Fails during a re-encryption, which has moved or changed the trailer.
    pub(crate) fn trailer_key(&self, plaintext: &Plaintext) -> Result<Option<TrailerKey>> {
        let found = self.header.describe();
        if !found.has_trailer() {
            return Ok(None);
        }
        match trailer_key(plaintext, &found.uuid) {
            Some(key) if plaintext.extents.len() == 1 => Ok(Some(key)),
            _ => Err(OpenError::TrailerInReencryption.about(&shown(&self.path))),
        }
    }

    /// Returns the plaintext with the keys of its extents.
    pub(crate) fn plaintext(&self, keys: BTreeMap<u32, DataKey>) -> Plaintext {
        Plaintext {
            extents: self.extents.clone(),
            len: self.plaintext_len,
            keys,
        }
    }

    /// Reads the metadata again, and fails if they no longer describe the same data: a
    /// re-encryption or another program has changed the volume meanwhile. After a pipe there is
    /// nothing to check.
    ///
    /// # Errors
    /// Fails when the metadata or the data have changed, and when the metadata can no longer be
    /// read.
    pub(crate) fn check_unchanged(&self, context: &Context) -> Result<()> {
        let refuse = |what| Err(OpenError::Changed { what }.about(&shown(&self.path)));
        let input = match (&self.again, &self.place) {
            (Again::Detached(input), _) | (Again::WithData, DataSource::At(input)) => Some(input),
            _ => None,
        };
        if let Some(input) = input {
            let _lock = lock_to_read(input, &context.cancel)?;
            let now = self.format.read(&**input);
            let now = now.map_err(|error| {
                unreadable(error, &**input, input.part_begin(), &shown(&self.path))
            })?;
            if !self.header.has_same_data(&*now) {
                return refuse("the metadata");
            }
        }
        if let (Some(changed), DataSource::At(input)) = (self.changed, &self.place)
            && last_change(input) != Some(changed)
        {
            return refuse("the data");
        }
        Ok(())
    }
}

impl<H: Header + ?Sized> VolumeMetadata<H> {
    /// Returns the encrypted data, positioned at their first byte.
    ///
    /// # Errors
    /// Those of [`VolumeMetadata::payload_len`]. Also fails when seeking to the data fails.
    pub(crate) fn into_payload(self) -> Result<Payload<H>> {
        let plaintext_len = self.plaintext_len()?;
        let extents = self.extents()?;
        let name = self.data_name();
        let found = self.header.describe();
        let Self {
            header,
            format,
            path,
            source,
            data,
            ..
        } = self;
        let failed = |offset| {
            let what = format!("{name}: cannot seek to the data at byte {offset}");
            move |error| Error::io(what, &error).caused_by(error)
        };
        let (again, place, extents) = match (data, source, extents) {
            (Some(input), source, Some(extents)) if input.as_storage().is_some() => {
                let again = source.into_input().map_or(Again::Never, Again::Detached);
                (again, DataSource::At(Arc::new(input)), extents)
            }
            (None, Source::Seekable(input), Some(extents)) => {
                (Again::WithData, DataSource::At(input), extents)
            }
            (data, source, extents) => {
                let extent = stream_extent(&*header, &name)?;
                let len = match extents {
                    Some(extents) => extents.iter().map(|extent| extent.len).sum(),
                    None => u64::MAX,
                };
                let offset = extent.offset;
                let (stream, again): (Box<dyn Read + Send>, _) = match (data, source) {
                    (Some(mut input), source) => {
                        input.skip_to(offset).map_err(failed(offset))?;
                        let again = source.into_input().map_or(Again::Never, Again::Detached);
                        (Box::new(input.take(len)), again)
                    }
                    (None, Source::Stream(prefix)) => {
                        let stream = prefix.into_stream_at(offset).map_err(failed(offset))?;
                        (Box::new(stream.take(len)), Again::Never)
                    }
                    // The length of a file is known.
                    (None, Source::Seekable(_)) => return Err(OpenError::NoLength { name }.into()),
                };
                let extents = vec![Extent { len, ..extent }];
                (again, DataSource::Stream(stream), extents)
            }
        };
        let changed = match &place {
            DataSource::At(input) if found.reencryption == Reencryption::UnderWay => {
                last_change(input)
            }
            _ => None,
        };
        Ok(Payload {
            header,
            format,
            path,
            again,
            changed,
            place,
            extents,
            plaintext_len,
        })
    }
}

/// Returns when a file was last written to. For a device the time is not known.
fn last_change(input: &Input) -> Option<SystemTime> {
    let metadata = input.file()?.metadata().ok()?;
    metadata.is_file().then(|| metadata.modified().ok())?
}
