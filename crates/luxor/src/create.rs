// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes new volumes: from a file that is encrypted, or empty.
//!
//! On a block device `encrypt`, and `format` with a size, make a segment of fixed size. Otherwise
//! the segment is `dynamic`, as in volumes of cryptsetup: the exact length of a file could not be
//! checked against the length of the device.

use std::{fs, io, os::unix::fs::FileTypeExt, path::Path};

use luxor_engine::{Direction, Mode};
use luxor_files::{
    Input, Needed, Output, OutputOptions, check_not_needed, open_to_read, path_name,
    suitable_sector_size,
};
use luxor_luks::{LuksVersion, NewVolume, NewVolumeError, NewVolumeOptions, NotInLuks1};
use luxor_secret::SecretBytes;
use luxor_sector::{
    Storage,
    pipeline::{self, Job, Source},
};
use luxor_volume::{TrailerKey, VolumeKey};

use crate::{
    Context, CreateError, Engine, Error, PossibleLen, Result,
    key_scope::warn_of_key_scope,
    output::{begin, copy_error, create_output, warn_of_growth, write_error},
    trailer::WithTrailer,
};

/// Where a new volume is written.
#[derive(Clone, Copy, Debug)]
pub struct NewFiles<'a> {
    /// The volume, or only its data if the header is detached.
    pub volume: &'a Path,
    /// The file for the detached header, if there is one.
    pub header: Option<&'a Path>,
    /// Whether to replace an existing file or overwrite a block device. With a detached header no
    /// existing file is replaced, because two files cannot be replaced at once.
    pub force: bool,
    /// The files that the caller reads. Neither `volume` nor `header` may be one of them.
    pub needed: Needed<'a>,
}

/// Encrypts all of `input` into a new volume. If the length of `input` is unknown and the header
/// must be written first, because the volume is a pipe, a trailer after the data tells it. Calls
/// `secret` for the secret of its keyslot, after the options and files have been checked. `files`
/// and `input` override `detached` and `file_length` of the options. Open `input` with
/// [`Role::Data`](luxor_files::Role::Data).
///
/// # Errors
/// [`CreateError::DoesNotFit`] if LUKS1 cannot represent the length or an option, or a length that
/// is not known when the header is written. Also fails when the options contradict each other, when
/// a file cannot be read or written, and with the error of `secret`. No output file appears then,
/// but a block device may be partly overwritten, and a pipe may have received a part.
pub fn encrypt_files(
    input: &mut Input,
    files: &NewFiles<'_>,
    options: &NewVolumeOptions,
    secret: impl FnOnce() -> Result<SecretBytes>,
    context: &Context,
) -> Result<()> {
    let engine = Engine::select(context, Mode::Xts)?;
    let detached = files.header.is_some();
    let options = options_for(input, &path_name(files.volume), detached, options)?;
    files.check()?;
    let output = files.create_data(&options, Some(input), context)?;
    let header = files.create_header(&options, Some(input), true, context)?;
    encrypt_into(input, output, header, &options, secret, &engine, context)
}

/// As [`encrypt_files`], into an output that is already open.
///
/// # Errors
/// Those of [`encrypt_files`].
pub fn encrypt_to(
    input: &mut Input,
    output: Output,
    options: &NewVolumeOptions,
    secret: impl FnOnce() -> Result<SecretBytes>,
    context: &Context,
) -> Result<()> {
    let engine = Engine::select(context, Mode::Xts)?;
    let options = options_for(input, &output.name(), false, options)?;
    encrypt_into(input, output, None, &options, secret, &engine, context)
}

/// Returns the options of a volume called `output` with the bytes of `input`, and checks them.
fn options_for(
    input: &Input,
    output: &str,
    detached: bool,
    options: &NewVolumeOptions,
) -> Result<NewVolumeOptions> {
    let options = NewVolumeOptions {
        file_length: input.len(),
        detached,
        ..options.clone()
    };
    let checked = options.check();
    checked.map_err(|error| refused(error, &input.name(), output))?;
    Ok(options)
}

fn encrypt_into(
    input: &mut Input,
    mut output: Output,
    mut header: Option<Output>,
    options: &NewVolumeOptions,
    secret: impl FnOnce() -> Result<SecretBytes>,
    engine: &Engine,
    context: &Context,
) -> Result<()> {
    let (len, input_name) = (input.len(), input.name());
    let output_name = output.name();
    let header_first = header.is_none() && !output.is_seekable();
    let mut options = NewVolumeOptions {
        trailer: header_first && len.is_none(),
        ..options.clone()
    };
    // The data of a new file are padded to whole sectors of any size. Those on a device must suit it.
    let choice = output
        .device()
        .zip(output.capacity())
        .and_then(|(device, capacity)| {
            let room = capacity.saturating_sub(options.data_offset());
            choose_sector_size(&mut options, &output_name, Some(device), room)
        });
    let options = &options;
    let checked = options.check();
    checked.map_err(|error| refused(error, &input_name, &output_name))?;

    let too_short = |error| does_not_fit(error, &input_name, &output_name);
    let end = len.and_then(|len| options.data_end(len));
    if let Some(end) = end {
        let checked = options.check_end(end, output.capacity());
        checked.map_err(too_short)?;
        output.check_room(end)?;
    }
    announce(choice, context);
    warn_of_key_scope(&output_name, len.unwrap_or(0), context);

    let mut volume = make(options, secret, engine, context)?;
    let encryption = volume.segment().encryption;
    let key = engine.load_volume_key(volume.volume_key(), encryption)?;
    if header_first {
        begin(&mut output, 0, end, context)?;
        write_header(&volume, &mut output, end)?;
    } else {
        begin(&mut output, options.data_offset(), end, context)?;
    }
    if let Some(header) = &mut header {
        header.begin(0, Some(volume.header_len()))?;
    }

    let job = Job {
        geometry: volume.segment().geometry,
        key: &*key,
        backend: engine.device(),
        threads: engine.threads,
        direction: Direction::Encrypt,
        plaintext_len: len,
        may_be_cut_off: false,
        cancel: &context.cancel,
    };
    let progress = context.events.bytes("Encrypting", output.name(), len);
    let trailer = options.trailer.then(|| trailer_key(&volume));
    let mut with_trailer;
    let source = match &trailer {
        Some(key) => {
            with_trailer = WithTrailer::new(input, key);
            Source::Stream(&mut with_trailer)
        }
        None => input.source(),
    };
    let copied = pipeline::run(&job, source, &mut output, &|done| progress.at(done))
        .map_err(|error| copy_error(error, &input_name, &output, end))?;
    drop(progress);
    warn_of_growth(input, context);
    if len.is_none() {
        warn_of_key_scope(&output_name, copied.read, context);
    }

    if !header_first {
        volume
            .set_data(copied.read, copied.written, output.capacity())
            .map_err(too_short)?;
        // Written last, so that an incomplete volume is never taken for a complete one.
        match &mut header {
            Some(header) => write_header(&volume, header, Some(volume.header_len()))?,
            None => write_header(&volume, &mut output, end)?,
        }
    }
    // Publish the header first: data without a header are lost, a header without data does no harm.
    let outputs = header.into_iter().chain([output]);
    Ok(Output::finish_all(outputs.collect())?)
}

/// Makes an empty volume for `size` bytes of plaintext. The data area is not written: it decrypts
/// to noise. Without a size the volume fills the existing file or device. With a detached header
/// and no size, the data file is not changed. The rest is as in [`encrypt_files`].
///
/// # Errors
/// Those of [`encrypt_files`]. Also fails when the size is 0, too large or not a multiple of the sector
/// size, and with [`CreateError::UnknownSize`] when there is neither a size nor a file. A new file
/// does not appear then.
pub fn format_files(
    files: &NewFiles<'_>,
    size: Option<u64>,
    options: &NewVolumeOptions,
    secret: impl FnOnce() -> Result<SecretBytes>,
    context: &Context,
) -> Result<()> {
    let engine = Engine::select(context, Mode::Xts)?;
    let mut options = NewVolumeOptions {
        detached: files.header.is_some(),
        ..options.clone()
    };
    let name = path_name(files.volume);
    let checked = options.check();
    checked.map_err(|error| refused(error, "the volume", &name))?;
    files.check()?;
    let data_offset = options.data_offset();
    let existing = existing(files.volume)?;
    let plaintext_len = match (size, &existing) {
        (Some(size), _) => size,
        (None, Some((_, len))) => len.saturating_sub(data_offset),
        (None, None) => return Err(CreateError::UnknownSize { name }.into()),
    };
    let mut output = match (files.header, size) {
        (Some(_), None) => None,
        _ => Some(files.create_data(&options, None, context)?),
    };
    if let Some(output) = &output
        && !output.is_seekable()
    {
        let name = output.name();
        return Err(CreateError::NotSeekable { name }.into());
    }
    let mut header = files.create_header(&options, None, output.is_some(), context)?;
    let device = existing.as_ref().and_then(|(device, _)| device.as_ref());
    let choice = choose_sector_size(&mut options, &name, device, plaintext_len);
    let end = data_end(plaintext_len, &options, |sector| {
        let more = plaintext_len.max(1).checked_next_multiple_of(sector);
        match (more, size) {
            (Some(more), None) if device.is_none() => {
                Some(PossibleLen::File(data_offset.saturating_add(more)))
            }
            (_, None) => None,
            (_, Some(_)) => {
                let whole = (plaintext_len / sector * sector).max(sector);
                Some(PossibleLen::Plaintext(whole))
            }
        }
    })?;
    if let Some(output) = &output {
        options
            .check_end(end, output.capacity())
            .map_err(|error| does_not_fit(error, "the volume", &output.name()))?;
        output.check_room(end)?;
    }
    announce(choice, context);
    warn_of_key_scope(&name, plaintext_len, context);

    let mut volume = make(&options, secret, &engine, context)?;
    if let Some(output) = &mut output {
        match output.capacity() {
            Some(_) => {
                output.begin(data_offset, Some(end))?;
                if size.is_some() {
                    volume.set_size(plaintext_len);
                }
            }
            // Begin at the end: no data are written, so the data area of the file is a hole.
            None => output.begin(end, Some(end))?,
        }
    }
    if let Some(header) = &mut header {
        header.begin(0, Some(volume.header_len()))?;
    }
    if let Some(target) = header.as_mut().or(output.as_mut()) {
        write_header(&volume, target, None)?;
    }
    Output::finish_all(header.into_iter().chain(output).collect())?;
    let text = format!("the volume holds {plaintext_len} bytes");
    context.events.note(&text);
    Ok(())
}

/// The header of a new volume whose data the caller writes.
#[derive(Clone, Debug)]
pub struct NewHeader {
    /// The metadata and keyslots: the first bytes of the volume, up to the data.
    pub bytes: Vec<u8>,
    /// The length of the volume in bytes. Its data are whole sectors.
    pub volume_len: u64,
}

/// Makes the header of a volume for `len` bytes of plaintext, for a caller that encrypts them with a
/// [`VolumeCipher`](crate::VolumeCipher). Calls `secret` for the secret of its keyslot, after the
/// options have been checked. `len` overrides `detached` and `file_length` of the options.
///
/// # Errors
/// [`CreateError::DoesNotFit`] if LUKS1 cannot represent the length or an option. Also fails when
/// the options contradict each other, when the length is too large, and with the error of `secret`.
pub fn new_header(
    len: u64,
    options: &NewVolumeOptions,
    secret: impl FnOnce() -> Result<SecretBytes>,
    context: &Context,
) -> Result<NewHeader> {
    const NAME: &str = "the volume";
    let engine = Engine::select(context, Mode::Xts)?;
    let options = NewVolumeOptions {
        file_length: Some(len),
        detached: false,
        ..options.clone()
    };
    let checked = options.check();
    checked.map_err(|error| refused(error, "the plaintext", NAME))?;
    let volume_len = end_of(len, &options)?;
    warn_of_key_scope(NAME, len, context);
    let volume = make(&options, secret, &engine, context)?;
    let mut bytes = Vec::new();
    let written = volume.write_stream(&mut bytes);
    written.map_err(|error| Error::io("cannot make the header".to_owned(), &error))?;
    Ok(NewHeader { bytes, volume_len })
}

/// Makes the detached header `header` for `data`, which exist. `prepare` changes it before it gets its
/// name. Returns the volume key.
///
/// # Errors
/// Fails when the options contradict each other or the header exists, and with the errors of `secret`
/// and `prepare`.
pub(crate) fn new_detached_header(
    data: &Path,
    header: &Path,
    options: &NewVolumeOptions,
    secret: impl FnOnce() -> Result<SecretBytes>,
    engine: &Engine,
    context: &Context,
    prepare: impl FnOnce(&Output, &VolumeKey) -> Result<()>,
) -> Result<VolumeKey> {
    let files = NewFiles {
        volume: data,
        header: Some(header),
        force: false,
        needed: &[],
    };
    files.check()?;
    options.check()?;
    let output = files.create_header(options, None, false, context)?;
    let mut output = output.expect("there is a header");
    let volume = make(options, secret, engine, context)?;
    write_header(&volume, &mut output, None)?;
    prepare(&output, volume.volume_key())?;
    output.finish()?;
    Ok(volume.volume_key().clone())
}

impl<'a> NewFiles<'a> {
    pub(crate) fn check(&self) -> Result<()> {
        if self.header == Some(self.volume) {
            let name = path_name(self.volume);
            return Err(CreateError::SameFile { name }.into());
        }
        // Checked even if only the header is written.
        let needed = self.needed_and("the header", self.header);
        Ok(check_not_needed(self.volume, &needed)?)
    }

    /// Opens the output for the volume, or only for its data if the header is detached.
    pub(crate) fn create_data(
        &self,
        options: &NewVolumeOptions,
        input: Option<&Input>,
        context: &Context,
    ) -> Result<Output> {
        let options = OutputOptions {
            is_one_of_two: self.header.is_some(),
            becomes_luks2: options.version == LuksVersion::Luks2 && self.header.is_none(),
            needed: &self.needed_and("the header", self.header),
            ..self.output_options(input)
        };
        create_output(self.volume, &options, context)
    }

    /// Opens the output for the detached header, if there is one.
    fn create_header(
        &self,
        options: &NewVolumeOptions,
        input: Option<&Input>,
        is_one_of_two: bool,
        context: &Context,
    ) -> Result<Option<Output>> {
        let options = OutputOptions {
            is_one_of_two,
            becomes_luks2: options.version == LuksVersion::Luks2,
            needed: &self.needed_and("the volume", Some(self.volume)),
            ..self.output_options(input)
        };
        let create = |path| create_output(path, &options, context);
        self.header.map(create).transpose()
    }

    fn output_options<'b>(&self, input: Option<&'b Input>) -> OutputOptions<'b> {
        OutputOptions {
            force: self.force,
            known_input: input,
            ..OutputOptions::default()
        }
    }

    /// The files that one of the two outputs must not overwrite: the caller's inputs, and the other
    /// output.
    fn needed_and(
        &self,
        what: &'static str,
        other: Option<&'a Path>,
    ) -> Vec<(&'static str, Option<&'a Path>)> {
        let other = (what, other);
        self.needed.iter().copied().chain([other]).collect()
    }
}

/// Asks for the secret, then makes the metadata and the volume key.
pub(crate) fn make(
    options: &NewVolumeOptions,
    secret: impl FnOnce() -> Result<SecretBytes>,
    engine: &Engine,
    context: &Context,
) -> Result<NewVolume> {
    let secret = secret()?;
    let _step = context.events.step("Making the key");
    let volume = options.create(secret.expose(), &*engine.backend)?;
    context.check_cancelled()?;
    Ok(volume)
}

fn trailer_key(volume: &NewVolume) -> TrailerKey {
    let sector_size = volume.segment().geometry.sector_size;
    TrailerKey::new(volume.volume_key(), &volume.uuid().to_string(), sector_size)
}

/// Writes the metadata at their offsets, or as a stream if `output` is not seekable. On a block
/// device this holds the metadata locks. `total` is the length that the output will have.
pub(crate) fn write_header(
    volume: &NewVolume,
    output: &mut Output,
    total: Option<u64>,
) -> Result<()> {
    let _lock = output.lock_metadata()?;
    let written = match output.as_storage() {
        Some(storage) => volume.write_to(storage),
        None => volume.write_stream(output),
    };
    written.map_err(|error| write_error(&error, output, total).caused_by(error))
}

/// Sets the sector size as cryptsetup does, unless the caller chose it: so that it suits the `file`, or a
/// new file, called `name`, and divides the `data_len` bytes of data. Returns what to [`announce`], if
/// it is not the usual one.
pub(crate) fn choose_sector_size(
    options: &mut NewVolumeOptions,
    name: &str,
    file: Option<&fs::File>,
    data_len: u64,
) -> Option<String> {
    if options.version == LuksVersion::Luks1 || options.sector_size.is_some() {
        return None;
    }
    let usual = options.sector_size();
    let chosen = suitable_sector_size(file, data_len);
    options.sector_size = Some(chosen);
    let text = || format!("{name}: the sector size is {chosen} bytes, which suits it");
    (chosen != usual).then(text)
}

/// Tells the user about a choice, after everything that can be refused.
pub(crate) fn announce(choice: Option<String>, context: &Context) {
    if let Some(text) = choice {
        context.events.choice(&text);
    }
}

/// Returns the byte at which an empty volume for `len` bytes ends. `possible` gets the length of a sector in
/// bytes, and returns a length that divides into sectors.
fn data_end(
    len: u64,
    options: &NewVolumeOptions,
    possible: impl FnOnce(u64) -> Option<PossibleLen>,
) -> Result<u64> {
    let sector_size = options.sector_size();
    let sector = sector_size.bytes() as u64;
    if len == 0 || !len.is_multiple_of(sector) {
        return Err(CreateError::PartSector {
            len,
            sector_size,
            possible: possible(sector),
        }
        .into());
    }
    end_of(len, options)
}

/// Returns the byte at which a volume for `len` bytes ends.
fn end_of(len: u64, options: &NewVolumeOptions) -> Result<u64> {
    let end = options.data_end(len);
    end.filter(|&end| i64::try_from(end).is_ok())
        .ok_or_else(|| CreateError::TooLong { len }.into())
}

/// Returns the length of the file or device, if it exists, and the device.
fn existing(volume: &Path) -> Result<Option<(Option<fs::File>, u64)>> {
    let failed = |error| Error::io(format!("cannot open {}", path_name(volume)), &error);
    let metadata = match fs::metadata(volume) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    if !metadata.file_type().is_block_device() {
        return Ok(Some((None, metadata.len())));
    }
    let device = open_to_read(volume).map_err(failed)?;
    let len = Storage::len(&device).map_err(failed)?;
    Ok(Some((Some(device), len)))
}

/// The error for options that are refused, where the input is called `input` and the volume
/// `output`.
pub(crate) fn refused(error: NewVolumeError, input: &str, output: &str) -> Error {
    match error {
        NewVolumeError::NotInLuks1(source) => does_not_fit(source, input, output),
        error => error.into(),
    }
}

/// The error for an input called `input` that does not fit into a LUKS1 volume called `output`.
pub(crate) fn does_not_fit(source: NotInLuks1, input: &str, output: &str) -> Error {
    let message = match source {
        NotInLuks1::Length { len } => format!("{input} has {len} bytes: {source}"),
        NotInLuks1::End { end, capacity } => format!(
            "the data would end at byte {end} of {output}, which has {capacity} bytes: {source}"
        ),
        _ => source.to_string(),
    };
    CreateError::DoesNotFit { message, source }.into()
}
