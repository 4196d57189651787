// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor format`.

use std::{fs, os::unix::fs::FileTypeExt, path::Path};

use luxor::Engine;
use luxor_engine::Mode;
use luxor_files::{Needed, Output, OutputOptions, check_not_needed, path_name};
use luxor_luks::LuksVersion;
use luxor_sector::Storage;

use crate::{
    args::FormatArgs,
    contents::warn_of_contents,
    context::Context,
    error::{Error, ErrorClass, Result},
    new_volume::{self, does_not_fit, not_made, write_header},
    secrets::SecretSource,
};

/// Makes an empty volume.
///
/// # Errors
/// When the options do not fit together, and when a file or the secret is not usable.
/// A new file does not appear then.
pub fn run(args: &FormatArgs, context: &Context) -> Result<()> {
    let options = new_volume::options(&args.new, context.options.header.is_some())?;
    let engine = Engine::select(&context.library, Mode::Xts)?;
    let secrets = SecretSource::new(context, &[])?;
    let (key_file, header) = (
        context.options.key_file.as_deref(),
        context.options.header.as_deref(),
    );
    if args.volume == Path::new("-") {
        return Err(Error::failure("VOLUME must be a file or a block device"));
    }
    if header == Some(&args.volume) {
        return Err(Error::failure(
            "VOLUME and --header must be different files",
        ));
    }
    let needed: Needed<'_> = &[("the key file", key_file), ("the header", header)];
    // Also where the volume itself is not written.
    check_not_needed(&args.volume, needed)?;

    let room = match args.size {
        Some(_) => None,
        None => Some(room(&args.volume)?),
    };
    let output_options = OutputOptions {
        force: args.force,
        needed,
        disable_locks: context.options.disable_locks,
        becomes_luks2: options.version == LuksVersion::Luks2 && header.is_none(),
        is_one_of_two: header.is_some() && args.size.is_some(),
        ..OutputOptions::default()
    };
    let header_options = OutputOptions {
        needed: &[("the key file", key_file)],
        becomes_luks2: options.version == LuksVersion::Luks2,
        ..output_options
    };
    // With the header elsewhere, data that are there already are none of its business.
    let mut output = match (header, args.size) {
        (Some(_), None) => None,
        _ => Some(Output::create(&args.volume, &output_options)?),
    };
    if let Some(output) = &output
        && !output.is_seekable()
    {
        return Err(Error::failure(format!(
            "{} must be a file or a block device",
            output.name()
        )));
    }
    let mut header_output = match header {
        Some(path) => Some(Output::create(path, &header_options)?),
        None => None,
    };
    warn_of_contents(header_output.iter().chain(&output), context.console);
    let sector = options.sector_size().bytes() as u64;
    let data_offset = options.data_offset();
    let size = match (args.size, room) {
        (Some(size), _) => size,
        (None, Some(room)) => room.saturating_sub(data_offset),
        (None, None) => unreachable!("one of them is known"),
    };
    if size == 0 || !size.is_multiple_of(sector) {
        return Err(Error::failure(format!(
            "the volume would hold {size} bytes, which is no multiple of the sector size \
             ({sector}), or none"
        )));
    }
    let total = size
        .checked_add(data_offset)
        .filter(|&total| i64::try_from(total).is_ok())
        .ok_or_else(|| Error::failure(format!("{size} bytes are too many")))?;

    let secret = secrets.new_one(&args.volume)?;
    let step = context.progress.step("Making the key");
    let volume = options.create(secret.expose(), &*engine.backend);
    let mut volume = volume.map_err(|error| not_made(&error))?;
    drop((step, secret));

    if let Some(output) = &mut output {
        match output.capacity() {
            Some(_) => {
                volume
                    .check_end(total, output.capacity())
                    .map_err(|error| does_not_fit(error, "the volume", &output.name()))?;
                output.begin(data_offset, Some(total))?;
                if args.size.is_some() {
                    volume.set_size(size);
                }
            }
            // All of the file is behind what will be written: a hole.
            None => output.begin(total, Some(total))?,
        }
    }
    if let Some(header) = &mut header_output {
        header.begin(0, Some(volume.header_len()))?;
    }
    let target = header_output.as_mut().or(output.as_mut());
    write_header(&volume, target.expect("there is one of them at least"))?;
    let outputs = header_output.into_iter().chain(output);
    Output::finish_all(outputs.collect())?;
    context
        .console
        .note(format!("the volume holds {size} bytes"));
    Ok(())
}

/// The length of the file or device that exists.
fn room(volume: &Path) -> Result<u64> {
    let failed = |error| Error::io(format!("cannot open {}", path_name(volume)), &error);
    let metadata = match fs::metadata(volume) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Error::new(
                ErrorClass::Missing,
                format!("{} does not exist", path_name(volume)),
            )
            .hint("To make a new file: --size SIZE."));
        }
        Err(error) => return Err(failed(error)),
    };
    if metadata.file_type().is_block_device() {
        let device = fs::File::open(volume).map_err(failed)?;
        return Storage::len(&device).map_err(failed);
    }
    Ok(metadata.len())
}
