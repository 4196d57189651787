// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decrypts a volume into a file or a stream.

use std::io::Write;

use luxor_engine::{Direction, Mode};
use luxor_files::{Input, Output, path_name};
use luxor_luks::{TrailerKey, UnlockOptions};
use luxor_sector::{
    copy::Copied,
    pipeline::{self, Job, PipelineError},
};
use luxor_volume::Plaintext;

use crate::{
    Context, Engine, Error, Result, Secrets, Volume,
    export::warn_of_linear,
    output::{begin, copy_error, no_storage, warn_of_growth, write_error},
    trailer::{RESTORE_UUID, UntilTrailer},
    volume::{DataSource, SAVES, cut_off},
};

/// What was decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decrypted {
    /// The number of bytes of plaintext.
    pub len: u64,
    /// What is missing, which only [`Volume::accept_cut_off`] permits.
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

/// Decrypts `volume` into `output`, and finishes the output. Asks `secrets` only after the engine
/// and the length of the data have been checked. XTS does not authenticate: changed ciphertext is
/// not detected.
///
/// # Errors
/// Those of [`Volume::payload_len`] and [`Volume::unlock`]. Also fails when the output cannot be
/// written, and when the volume changes meanwhile. No output file appears then, but a device or
/// pipe may have received a part.
pub fn decrypt(
    volume: Volume,
    secrets: &dyn Secrets,
    options: &UnlockOptions,
    mut output: Output,
    context: &Context,
) -> Result<Decrypted> {
    let engine = Engine::select(context, Mode::Xts)?;
    let plaintext_len = volume.plaintext_len()?;
    let ends_in_sector = volume.ends_in_sector();
    let (recorded_len, may_be_cut_off) = (volume.recorded_len(), volume.may_be_cut_off);
    let keys = volume.unlock_data(secrets, &*engine.backend, options, context)?;
    let _lock = volume.lock_reencryption()?;
    let name = volume.data_name();
    let path = path_name(volume.data_path());
    let mut payload = volume.into_payload()?;
    let plaintext = payload.plaintext(keys);
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

/// Decrypts an unlocked volume of any format into `output`, and finishes the output. `input`
/// contains the data at the offsets of the extents of `plaintext`. `engine` supports their modes.
///
/// # Errors
/// Fails when `input` is neither a file nor a block device or does not contain all of the data, and
/// when the engine or the output cannot be used. No output file appears then, but a device or pipe
/// may have received a part.
pub fn decrypt_plaintext(
    input: Input,
    plaintext: &Plaintext,
    engine: &Engine,
    mut output: Output,
    context: &Context,
) -> Result<()> {
    if input.as_storage().is_none() {
        return Err(no_storage(&input));
    }
    let (name, path) = (input.name(), path_name(input.path()));
    let parts = plaintext.parts().into_iter();
    let len = parts.map(|(_, len)| len).try_fold(0, u64::checked_add);
    let len = len.ok_or_else(|| Error::failure(format!("{name}: the data are too long")))?;
    let copy = DataCopy {
        context,
        engine,
        plaintext,
        name: &name,
        may_be_cut_off: false,
        trailer: None,
    };
    copy.run(&mut DataSource::At(input), &mut output, path, Some(len))?;
    output.finish()?;
    warn_of_linear(&name, plaintext, context);
    Ok(())
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
                let message = format!(
                    "{} has no trailer of its key and UUID after the data: it was cut off, its UUID was \
                     changed, or another program re-encrypted it",
                    self.name
                );
                let hint = match place {
                    DataSource::At(_) => format!("{SAVES} {RESTORE_UUID}"),
                    DataSource::Stream(_) => SAVES.to_owned(),
                };
                return Err(Error::failure(message).hint(hint));
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
                let message = format!("{} ends before the data: it was cut off", self.name);
                return Err(Error::failure(message).into());
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
                error @ (PipelineError::PartSector { .. } | PipelineError::SourceLen { .. }),
            ) => cut_off(format!("{input}: {error}")).caused_by(error),
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
