// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decrypts a volume into a file or a stream.

use std::{io::Write, path::Path};

use luxor_engine::Direction;
use luxor_files::{Output, OutputOptions, path_name};
use luxor_sector::{
    copy::Copied,
    pipeline::{self, Job, PipelineError},
};
use luxor_volume::{Header, Plaintext, TrailerKey, UnlockOptions};

use crate::{
    Context, Engine, Error, OpenError, OpenOptions, Result, Secrets, VolumeMetadata, create_output,
    metadata::DataSource,
    output::{begin, copy_error, warn_of_growth, write_error},
    trailer::UntilTrailer,
    volume_disk::warn_of_linear,
};

/// What was decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decrypted {
    /// The number of bytes of plaintext.
    pub len: u64,
    /// What is missing, which only [`VolumeMetadata::accept_cut_off`] permits.
    pub missing: Option<Missing>,
}

/// How much of the plaintext is missing at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// This many bytes.
    Bytes(u64),
    /// A part of the next sector, and whatever followed: the metadata record no length.
    Unknown,
    /// The trailer that ends the file, and whatever came before it and is not there.
    Trailer,
}

/// Decrypts the volume at one path into a new file at another. [`DecryptOptions`] has more choices.
///
/// # Errors
/// Those of [`DecryptOptions::decrypt`].
pub fn decrypt(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
    secrets: &dyn Secrets,
) -> Result<Decrypted> {
    DecryptOptions::new().decrypt(from, to, secrets)
}

/// How a volume is decrypted into a file. The default replaces no file.
#[derive(Clone, Debug, Default)]
pub struct DecryptOptions {
    volume: OpenOptions,
    force: bool,
    may_be_cut_off: bool,
}

impl DecryptOptions {
    /// The default.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The format, header and part of the volume, its unlocking, and the context. How it would be used
    /// as a disk does not matter.
    #[must_use]
    pub fn volume(mut self, volume: OpenOptions) -> Self {
        self.volume = volume;
        self
    }

    /// Whether to replace an existing file or overwrite a block device.
    #[must_use]
    pub fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Accepts data whose end was cut off: [`Decrypted::missing`] tells.
    #[must_use]
    pub fn accept_cut_off(mut self, accept: bool) -> Self {
        self.may_be_cut_off = accept;
        self
    }

    /// Decrypts the volume at one path into a new file at another, which appears whole or not at all.
    /// `-` is standard input or output.
    ///
    /// # Errors
    /// Fails when a file cannot be opened, and with the errors of [`decrypt_to`].
    pub fn decrypt(
        &self,
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        secrets: &dyn Secrets,
    ) -> Result<Decrypted> {
        let mut volume = self.volume.read(from.as_ref())?;
        if self.may_be_cut_off {
            volume.accept_cut_off();
        }
        let (header, context) = (self.volume.header.as_deref(), &self.volume.context);
        let options = OutputOptions {
            force: self.force,
            needed: &[("the volume", Some(from.as_ref())), ("the header", header)],
            ..OutputOptions::default()
        };
        let output = create_output(to.as_ref(), &options, context)?;
        decrypt_to(volume, secrets, &self.volume.unlock, output, context)
    }
}

/// Decrypts `volume` into `output`, and finishes the output. Asks `secrets` only after the engine
/// and the length of the data have been checked. XTS does not authenticate: changed ciphertext is
/// not detected.
///
/// # Errors
/// Those of [`VolumeMetadata::payload_len`] and [`VolumeMetadata::unlock_data`]. Also fails when the
/// output cannot be written, and when the volume changes meanwhile. No output file appears then, but a device or
/// pipe may have received a part.
pub fn decrypt_to<H: Header + ?Sized>(
    volume: VolumeMetadata<H>,
    secrets: &dyn Secrets,
    options: &UnlockOptions,
    mut output: Output,
    context: &Context,
) -> Result<Decrypted> {
    let engine = Engine::select(context, volume.describe().mode)?;
    let plaintext_len = volume.plaintext_len()?;
    let ends_in_sector = volume.ends_in_sector();
    let (recorded_len, may_be_cut_off) = (volume.recorded_len(), volume.may_be_cut_off);
    let unlocked = volume.unlock_data(secrets, &*engine.backend, options, context)?;
    let _lock = volume.lock_reencryption()?;
    let name = volume.data_name();
    let path = path_name(volume.data_path());
    let mut payload = volume.into_payload()?;
    let plaintext = payload.plaintext(unlocked.keys);
    // The volume may have changed while the user typed the passphrase.
    payload.check_unchanged(context)?;
    let copy = DataCopy {
        context,
        engine: &engine,
        plaintext: &plaintext,
        name: &name,
        may_be_cut_off,
        trailer: match payload.trailer_key(&plaintext) {
            Err(_) if may_be_cut_off => None,
            trailer => trailer?,
        },
    };
    let lost_trailer = payload.has_trailer() && copy.trailer.is_none();
    let copied = copy.run(&mut payload.place, &mut output, path, plaintext_len)?;
    payload.check_unchanged(context)?;
    if let (DataSource::At(input), None) = (&payload.place, recorded_len) {
        warn_of_growth(input, context);
    }
    output.finish()?;
    warn_of_linear(&name, &plaintext, context);
    let missing = match (recorded_len, copied.end) {
        (Some(recorded), _) if recorded > copied.len => Some(Missing::Bytes(recorded - copied.len)),
        (None, End::NoTrailer) => Some(Missing::Trailer),
        (None, End::OfStorage) if lost_trailer => Some(Missing::Trailer),
        (None, End::InSector) => Some(Missing::Unknown),
        (None, End::OfStorage) if ends_in_sector => Some(Missing::Unknown),
        _ => None,
    };
    Ok(Decrypted {
        len: copied.len,
        missing,
    })
}

/// What was copied.
struct DataCopied {
    len: u64,
    end: End,
}

/// What ended a copy.
enum End {
    /// The end of the data in the storage.
    OfStorage,
    /// The trailer of the file.
    Trailer,
    /// The end of a pipe within a sector.
    InSector,
    /// The end of the data in the storage, before the trailer.
    NoTrailer,
}

/// Copies the plaintext of the volume called `name`.
struct DataCopy<'a> {
    context: &'a Context,
    engine: &'a Engine,
    plaintext: &'a Plaintext,
    name: &'a str,
    /// Whether a pipe may end before the data do.
    may_be_cut_off: bool,
    /// What recognises the trailer that ends the file, if it has one.
    trailer: Option<TrailerKey>,
}

impl DataCopy<'_> {
    /// Copies `total` bytes from `place`. Progress is shown under the name `path`.
    fn run(
        &self,
        place: &mut DataSource,
        output: &mut Output,
        path: String,
        total: Option<u64>,
    ) -> Result<DataCopied> {
        let Some(key) = &self.trailer else {
            begin(output, 0, total, self.context)?;
            let copied = self.copy(place, output, path, total);
            let copied = copied.map_err(|error| error.shown(self.name, output, total))?;
            let is_whole = copied.read <= copied.written || self.plaintext.len.is_some();
            return Ok(DataCopied {
                len: copied.written,
                end: if is_whole {
                    End::OfStorage
                } else {
                    End::InSector
                },
            });
        };
        begin(output, 0, None, self.context)?;
        let mut file = UntilTrailer::new(output, key);
        let copied = self.copy(place, &mut file, path, total);
        // The copy fails at the end of the file, so that nothing after it is read.
        let (len, end) = match (file.length(), copied) {
            (Some(length), _) => (length, End::Trailer),
            (None, Ok(_)) if self.may_be_cut_off => {
                let given_up = file.give_up();
                let len =
                    given_up.map_err(|error| write_error(&error, output, None).caused_by(error))?;
                (len, End::NoTrailer)
            }
            (None, Ok(_)) => {
                let name = self.name.to_owned();
                let is_stream = matches!(place, DataSource::Stream(_));
                return Err(OpenError::NoTrailer { name, is_stream }.into());
            }
            (None, Err(error)) => return Err(error.shown(self.name, output, None)),
        };
        Ok(DataCopied { len, end })
    }

    fn copy(
        &self,
        place: &mut DataSource,
        output: &mut (dyn Write + Send),
        path: String,
        total: Option<u64>,
    ) -> Result<Copied, CopyFailure> {
        let shown = self.context.events.bytes("Decrypting", path, total);
        let (mut read, mut written) = (0, 0);
        for (extent, len) in self.plaintext.parts() {
            let progress = |done| shown.at(written + done);
            let copied = match extent.cipher {
                Some(cipher) => {
                    let key = self.engine.load_part_key(self.plaintext, cipher)?;
                    let job = Job {
                        geometry: cipher.geometry,
                        key: &*key,
                        backend: self.engine.device(),
                        threads: self.engine.threads,
                        direction: Direction::Decrypt,
                        // `u64::MAX` means that the length is not known, as for some pipes.
                        plaintext_len: (len != u64::MAX).then_some(len),
                        may_be_cut_off: self.may_be_cut_off || self.trailer.is_some(),
                        cancel: &self.context.cancel,
                    };
                    let payload_len = cipher.geometry.sector_size.payload_len(len);
                    let source = place.source(extent.offset, payload_len.unwrap_or(u64::MAX));
                    pipeline::run(&job, source, output, &progress)
                }
                None => {
                    let source = place.source(extent.offset, len);
                    let cancel = &self.context.cancel;
                    pipeline::pass(self.engine.threads, source, output, cancel, &progress)
                }
            }?;
            let sector = extent
                .cipher
                .map_or(1, |cipher| cipher.geometry.sector_size.bytes());
            if matches!(place, DataSource::Stream(_)) && copied.read < sector as u64 {
                let name = self.name.to_owned();
                return Err(Error::from(OpenError::NoData { name }).into());
            }
            read += copied.read;
            written += copied.written;
        }
        Ok(Copied { read, written })
    }
}

/// Why a copy failed.
enum CopyFailure {
    Copy(PipelineError),
    Other(Error),
}

impl CopyFailure {
    /// Returns the error for a copy from `input`, a name, to `output`, which was to have `total`
    /// bytes.
    fn shown(self, input: &str, output: &Output, total: Option<u64>) -> Error {
        match self {
            Self::Copy(
                source @ (PipelineError::PartSector { .. } | PipelineError::SourceLen { .. }),
            ) => {
                let name = input.to_owned();
                OpenError::EndsEarly { name, source }.into()
            }
            Self::Copy(error) => copy_error(error, input, output, total),
            Self::Other(error) => error,
        }
    }
}

impl From<PipelineError> for CopyFailure {
    fn from(error: PipelineError) -> Self {
        Self::Copy(error)
    }
}

impl From<Error> for CopyFailure {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}
