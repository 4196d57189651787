// SPDX-License-Identifier: MIT OR Apache-2.0
//! The encrypted data of a volume, as they are read from beginning to end.

use std::{collections::BTreeMap, io::Read, path::PathBuf, time::SystemTime};

use luxor_files::{Input, lock_to_read};
use luxor_luks::{TrailerKey, VolumeHeader};
use luxor_sector::pipeline::{Region, Source};
use luxor_volume::{Extent, Plaintext, VolumeKey};

use super::{Metadata, Volume, cut_off, read_header, shown, stream_extent};
use crate::{
    Context, Engine, Error, Result,
    trailer::{length_at_end, trailer_key},
};

/// The encrypted data, with the metadata that describe them.
pub(crate) struct Payload {
    header: VolumeHeader,
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
    Detached(Input),
    /// Nowhere: the metadata or the data came through a pipe.
    Never,
}

/// Where the encrypted data are.
pub(crate) enum DataSource {
    /// In a file or on a device.
    At(Input),
    /// In a pipe that is positioned at their first byte.
    Stream(Box<dyn Read + Send>),
}

impl DataSource {
    /// Returns `len` bytes at `offset`, or, from a pipe, the bytes that come next.
    pub(crate) fn source(&mut self, offset: u64, len: u64) -> Source<'_> {
        match self {
            Self::At(input) => Source::At(Region {
                storage: input,
                offset,
                len,
            }),
            Self::Stream(stream) => Source::Stream(stream),
        }
    }
}

impl Payload {
    /// Sets the length of the plaintext to that of a file whose trailer is the last sector of the
    /// data. Returns whether the length is known: without the trailer it is that of all sectors.
    ///
    /// # Errors
    /// Fails when the last sector cannot be read.
    pub(crate) fn find_end(&self, plaintext: &mut Plaintext, engine: &Engine) -> Result<bool> {
        let (true, DataSource::At(input)) = (self.header.has_trailer(), &self.place) else {
            return Ok(true);
        };
        if plaintext.extents.len() > 1 {
            // A re-encryption has moved or changed the trailer.
            return Ok(false);
        }
        let length = length_at_end(input, plaintext, engine, self.header.uuid())?;
        plaintext.len = length.or(plaintext.len);
        Ok(length.is_some())
    }

    /// Whether a trailer ends the file in the volume.
    pub(crate) fn has_trailer(&self) -> bool {
        self.header.has_trailer()
    }

    /// Returns what recognises the trailer of a file, if the volume has one.
    ///
    /// # Errors
    /// Fails during a re-encryption, which has moved or changed the trailer.
    pub(crate) fn trailer_key(&self, plaintext: &Plaintext) -> Result<Option<TrailerKey>> {
        if !self.header.has_trailer() {
            return Ok(None);
        }
        match trailer_key(plaintext, self.header.uuid()) {
            Some(key) if plaintext.extents.len() == 1 => Ok(Some(key)),
            _ => {
                let name = shown(&self.path);
                let message =
                    format!("{name}: the trailer that ends the file is being re-encrypted");
                Err(cut_off(message))
            }
        }
    }

    /// Returns the plaintext with the keys of its extents.
    pub(crate) fn plaintext(&self, keys: BTreeMap<u32, VolumeKey>) -> Plaintext {
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
        let refuse = |what: &str| {
            let message = format!(
                "{}: {what} while the data were being read, so the data may have been moved or \
                 re-encrypted",
                shown(&self.path)
            );
            let hint = "Run the command again when no other program changes the volume.";
            Err(Error::failure(message).hint(hint))
        };
        let input = match (&self.again, &self.place) {
            (Again::Detached(input), _) | (Again::WithData, DataSource::At(input)) => Some(input),
            _ => None,
        };
        if let Some(input) = input {
            let _lock = lock_to_read(input, &context.cancel)?;
            if !read_header(input, &self.path)?.has_same_data(&self.header) {
                return refuse("the metadata changed");
            }
        }
        if let (Some(changed), DataSource::At(input)) = (self.changed, &self.place)
            && last_change(input) != Some(changed)
        {
            return refuse("the data changed");
        }
        Ok(())
    }
}

impl Volume {
    /// Returns the encrypted data, positioned at their first byte.
    ///
    /// # Errors
    /// Those of [`Volume::payload_len`]. Also fails when seeking to the data fails.
    pub(crate) fn into_payload(self) -> Result<Payload> {
        let plaintext_len = self.plaintext_len()?;
        let extents = self.extents()?;
        let name = self.data_name();
        let is_storage = match (&self.data, &self.metadata) {
            (Some(input), _) | (None, Metadata::Seekable(input)) => input.as_storage().is_some(),
            (None, Metadata::Stream(_)) => false,
        };
        let Self {
            header,
            path,
            metadata,
            data,
            ..
        } = self;
        if let (Some(extents), true) = (&extents, is_storage) {
            let (input, again) = match (data, metadata) {
                (Some(input), metadata) => (input, metadata.again()),
                (None, Metadata::Seekable(input)) => (input, Again::WithData),
                (None, Metadata::Stream(_)) => unreachable!("`is_storage` is false for a pipe"),
            };
            let changed = match header.requirements() {
                [] => None,
                _ => last_change(&input),
            };
            return Ok(Payload {
                header,
                path,
                again,
                changed,
                place: DataSource::At(input),
                extents: extents.clone(),
                plaintext_len,
            });
        }

        let extent = stream_extent(&header, &name)?;
        let offset = extent.offset;
        let failed = |error| {
            let what = format!("{name}: cannot seek to the data at byte {offset}");
            Error::io(what, &error).caused_by(error)
        };
        let len = match extents {
            Some(extents) => extents.iter().map(|extent| extent.len).sum(),
            None => u64::MAX,
        };
        let (stream, again): (Box<dyn Read + Send>, _) = match (data, metadata) {
            (None, Metadata::Stream(prefix)) => {
                let stream = prefix.into_stream_at(offset).map_err(failed)?;
                (Box::new(stream.take(len)), Again::Never)
            }
            (Some(mut input), metadata) => {
                input.skip_to(offset).map_err(failed)?;
                (Box::new(input.take(len)), metadata.again())
            }
            (None, Metadata::Seekable(mut input)) => {
                input.skip_to(offset).map_err(failed)?;
                (Box::new(input.take(len)), Again::Never)
            }
        };
        Ok(Payload {
            header,
            path,
            again,
            changed: None,
            place: DataSource::Stream(stream),
            extents: vec![Extent { len, ..extent }],
            plaintext_len,
        })
    }
}

impl Metadata {
    /// Where metadata that are not in the data's file can be read a second time.
    fn again(self) -> Again {
        match self {
            Self::Seekable(input) => Again::Detached(input),
            Self::Stream(_) => Again::Never,
        }
    }
}

/// Returns when a file was last written to. For a device the time is not known.
fn last_change(input: &Input) -> Option<SystemTime> {
    let metadata = input.file()?.metadata().ok()?;
    metadata.is_file().then(|| metadata.modified().ok())?
}
