// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor encrypt`.

use std::{
    io::{self, IsTerminal},
    path::Path,
    sync::atomic::AtomicBool,
};

use luxor::Engine;
use luxor_engine::{Direction, Mode};
use luxor_files::{Input, Output, OutputOptions, Role, path_name};
use luxor_luks::LuksVersion;
use luxor_sector::pipeline::{self, Job};

use crate::{
    args::EncryptArgs,
    commands::stream_error,
    contents::warn_of_contents,
    context::Context,
    error::{Error, Result},
    new_volume::{self, does_not_fit, load_key, not_made, write_header},
    secrets::SecretSource,
};

/// Encrypts a file into a volume.
///
/// # Errors
/// When the options do not fit together, and when a file or the secret is not
/// usable. Nothing is left of the output then.
pub fn run(args: &EncryptArgs, context: &Context) -> Result<()> {
    let mut options = new_volume::options(&args.volume, context.options.header.is_some())?;
    let engine = Engine::select(&context.library, Mode::Xts)?;
    let mut input = Input::open(&args.input, Role::Data)?;
    options.file_length = input.len();
    options
        .check()
        .map_err(|error| does_not_fit(error, &input.name(), &path_name(&args.output)))?;
    let secrets = SecretSource::new(context, &[("INPUT", &args.input)])?;

    if args.output == Path::new("-") && io::stdout().is_terminal() {
        return Err(Error::failure(
            "OUTPUT is a terminal, which cannot show ciphertext",
        ));
    }
    let (key_file, header) = (
        context.options.key_file.as_deref(),
        context.options.header.as_deref(),
    );
    if header == Some(&args.output) {
        return Err(Error::failure(
            "OUTPUT and --header must be different files",
        ));
    }
    // Outputs come before the secret is asked for: whoever typed it twice should not hear
    // only then that a file exists.
    let output_options = OutputOptions {
        force: args.force,
        is_one_of_two: header.is_some(),
        known_input: Some(&input),
        needed: &[("the key file", key_file), ("the header", header)],
        disable_locks: context.options.disable_locks,
        becomes_luks2: options.version == LuksVersion::Luks2 && header.is_none(),
        ..OutputOptions::default()
    };
    let header_options = OutputOptions {
        needed: &[("the key file", key_file)],
        becomes_luks2: options.version == LuksVersion::Luks2,
        ..output_options
    };
    let mut output = Output::create(&args.output, &output_options)?;
    let mut header_output = match &context.options.header {
        Some(path) => Some(Output::create(path, &header_options)?),
        None => None,
    };
    warn_of_contents(header_output.iter().chain([&output]), context.console);
    if header_output.is_none() && !output.is_seekable() && input.len().is_none() {
        return Err(Error::failure(format!(
            "the length of {} is not known, and belongs into the header, which comes first in {}",
            input.name(),
            output.name()
        ))
        .hint("Write to a file, or put the header apart: --header FILE."));
    }

    let secret = secrets.new_one(&args.output)?;
    let step = context.progress.step("Making the key");
    let volume = options.create(secret.expose(), &*engine.backend);
    let mut volume = volume.map_err(|error| not_made(&error))?;
    drop((step, secret));

    let key = load_key(&volume, &engine)?;
    let header_first = header_output.is_none() && !output.is_seekable();
    let (input_name, output_name) = (input.name(), output.name());
    let too_short = |error| does_not_fit(error, &input_name, &output_name);
    let total = input.len().and_then(|len| options.data_end(len));
    if let Some(end) = total {
        volume
            .check_end(end, output.capacity())
            .map_err(too_short)?;
    }
    if header_first {
        output.begin(0, total)?;
        write_header(&volume, &mut output)?;
    } else {
        output.begin(options.data_offset(), total)?;
    }
    if let Some(header) = &mut header_output {
        header.begin(0, Some(volume.header_len()))?;
    }

    let job = Job {
        geometry: volume.segment().geometry,
        key: &*key,
        backend: engine.device(),
        threads: engine.threads,
        direction: Direction::Encrypt,
        plaintext_len: input.len(),
        // Signals end the process without asking anybody.
        cancel: &AtomicBool::new(false),
    };
    let bar = context
        .progress
        .bytes("Encrypting", path_name(&args.output), input.len());
    let copied = pipeline::run(&job, input.source(), &mut output, &|done| bar.at(done))
        .map_err(|error| stream_error(&error, &input_name, &output_name))?;
    drop(bar);

    if !header_first {
        volume
            .set_data(copied.read, copied.written, output.capacity())
            .map_err(too_short)?;
        // Last, so that nothing looks like a volume that is none yet.
        let target = header_output.as_mut().unwrap_or(&mut output);
        write_header(&volume, target)?;
    }
    // The header first: data without one are lost, a header without data is nothing.
    let outputs = header_output.into_iter().chain([output]);
    Ok(Output::finish_all(outputs.collect())?)
}
