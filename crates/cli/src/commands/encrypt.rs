// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor encrypt`.

use std::{
    io::{self, IsTerminal},
    path::Path,
    sync::atomic::AtomicBool,
};

use luxor_engine::{Direction, KeySize, Mode};
use luxor_luks::{Luks2Options, NewVolume, PbkdfKind, SegmentSize};
use luxor_sector::{
    SectorSize,
    pipeline::{self, Job},
};

use crate::{
    args::{EncryptArgs, GlobalArgs, NewVolumeArgs, VolumeType},
    commands::{check_not_needed, stream_error},
    console::Console,
    engine::Engine,
    error::{Error, Exit, Result, name},
    input::{Input, Role},
    output::{Output, OutputOptions},
    progress::ProgressStyleArgs,
    secrets::SecretSource,
};

/// Encrypts a file into a LUKS2 volume.
///
/// # Errors
/// When the options do not fit together, and when a file or the secret is not
/// usable. Nothing is left of the output then.
pub fn run(args: &EncryptArgs, global: &GlobalArgs, console: Console) -> Result<()> {
    let mut options = options(&args.volume, global)?;
    let engine = Engine::select(global, Mode::Xts, console)?;
    let mut input = Input::open(&args.input, Role::Data)?;
    options.file_length = input.len();
    let secrets = SecretSource::new(global, &[("INPUT", &args.input)], console)?;

    if args.output == Path::new("-") && io::stdout().is_terminal() {
        return Err(Error::failure(
            "OUTPUT is a terminal, which cannot show ciphertext",
        ));
    }
    let (key_file, header) = (global.key_file.as_deref(), global.header.as_deref());
    if header == Some(&args.output) {
        return Err(Error::failure(
            "OUTPUT and --header must be different files",
        ));
    }
    check_not_needed(
        &args.output,
        &[("the key file", key_file), ("the header", header)],
    )?;
    if let Some(header) = header {
        check_not_needed(header, &[("the key file", key_file)])?;
    }
    // Outputs come before the secret is asked for: whoever typed it twice should not hear
    // only then that a file exists.
    let output_options = OutputOptions {
        force: args.force,
        known_input: Some(&input),
        ..OutputOptions::default()
    };
    let mut output = Output::create(&args.output, &output_options)?;
    let mut header_output = match &global.header {
        Some(path) => Some(Output::create(path, &output_options)?),
        None => None,
    };
    if header_output.is_none() && !output.is_seekable() && input.len().is_none() {
        return Err(Error::failure(format!(
            "the length of {} is not known, and belongs into the header, which comes first in {}",
            input.name(),
            output.name()
        ))
        .hint("Write to a file, or put the header apart: --header FILE."));
    }

    let secret = secrets.new_one(&args.output)?;
    let progress = ProgressStyleArgs::new(global, console, args.output == Path::new("-"));
    let step = progress.step("Making the key");
    let mut volume =
        NewVolume::create(&options, secret.expose(), &*engine.backend).map_err(|error| {
            let exit = if error.is_out_of_memory() {
                Exit::OutOfMemory
            } else {
                Exit::Failure
            };
            Error::new(exit, error.to_string())
        })?;
    drop((step, secret));

    let key = volume
        .volume_key()
        .key_spec(volume.segment().encryption)
        .map_err(|error| Error::failure(error.to_string()))?;
    let key = engine.load(&key)?;
    let header_first = header_output.is_none() && !output.is_seekable();
    let data_offset = if header_output.is_some() {
        0
    } else {
        volume.header_len()
    };
    let sector = volume.segment().geometry.sector_size.bytes() as u64;
    let total = input.len().and_then(|len| {
        len.max(1)
            .checked_next_multiple_of(sector)?
            .checked_add(data_offset)
    });
    if header_first {
        output.begin(0, total)?;
        write_header(&volume, &mut output)?;
    } else {
        output.begin(data_offset, total)?;
    }
    if let Some(header) = &mut header_output {
        header.begin(0, Some(volume.header_len()))?;
    }

    let job = Job {
        geometry: volume.segment().geometry,
        key: &*key,
        threads: engine.threads,
        direction: Direction::Encrypt,
        plaintext_len: input.len(),
        // Signals end the process without asking anybody.
        cancel: &AtomicBool::new(false),
    };
    let (input_name, output_name) = (input.name(), output.name());
    let bar = progress.bytes("Encrypting", name(&args.output), input.len());
    let copied = pipeline::run(&job, input.source(), &mut output, &|done| bar.at(done))
        .map_err(|error| stream_error(&error, &input_name, &output_name))?;
    drop(bar);

    if !header_first {
        volume.set_file_length(copied.read);
        // What follows on a device is nobody's.
        if output.capacity().is_some() {
            volume.set_segment_size(SegmentSize::Fixed(copied.written));
        }
        // Last, so that nothing looks like a volume that is none yet.
        let target = header_output.as_mut().unwrap_or(&mut output);
        write_header(&volume, target)?;
    }
    output.finish()?;
    if let Some(header) = header_output {
        header.finish()?;
    }
    Ok(())
}

/// Writes the header where it may be written in any order, or as a stream.
fn write_header(volume: &NewVolume, output: &mut Output) -> Result<()> {
    let name = output.name();
    let written = match output.as_storage() {
        Some(storage) => volume.write_to(storage),
        None => volume.write_stream(output),
    };
    written.map_err(|error| Error::io(format!("cannot write {name}"), &error))
}

/// The volume that the options ask for.
fn options(args: &NewVolumeArgs, global: &GlobalArgs) -> Result<Luks2Options> {
    let VolumeType::Luks2 = args.volume_type;
    let pbkdf = args.pbkdf.options(PbkdfKind::Argon2id)?;
    Ok(Luks2Options {
        sector_size: SectorSize::try_from(args.sector_size)
            .map_err(|error| Error::failure(format!("--sector-size: {error}")))?,
        key_size: match args.key_size {
            256 => KeySize::Aes128,
            512 => KeySize::Aes256,
            bits => {
                return Err(Error::failure(format!(
                    "--key-size is {bits} bits: it must be 256 (AES-128) or 512 (AES-256)"
                )));
            }
        },
        pbkdf,
        label: args
            .label
            .as_deref()
            .map(|label| {
                label
                    .parse()
                    .map_err(|error| Error::failure(format!("--label: {error}")))
            })
            .transpose()?,
        uuid: match &args.uuid {
            // The parser's own words are about its insides.
            Some(text) => Some(text.parse().map_err(|_| {
                Error::failure(format!(
                    "--uuid: {text:?} is no UUID (32 hexadecimal digits: 8-4-4-4-12)"
                ))
            })?),
            None => None,
        },
        detached: global.header.is_some(),
        file_length: None,
    })
}
