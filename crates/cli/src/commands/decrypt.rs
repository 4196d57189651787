// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor decrypt`.

use std::{path::Path, sync::atomic::AtomicBool};

use luxor_engine::{Direction, Mode};
use luxor_sector::pipeline::{self, Job};

use crate::{
    args::{DecryptArgs, GlobalArgs, Sparse},
    commands::{check_not_needed, inputs, stream_error},
    console::Console,
    engine::Engine,
    error::{Error, Result, name},
    input::{Input, Role},
    output::{Output, OutputOptions},
    progress::ProgressStyleArgs,
    secrets::SecretSource,
    volume::Volume,
};

/// Decrypts a volume into a file.
///
/// # Errors
/// When the volume, the secret or a file is not usable. Nothing is left of the
/// output then.
pub fn run(args: &DecryptArgs, global: &GlobalArgs, console: Console) -> Result<()> {
    let engine = Engine::select(global, Mode::Xts, console)?;
    let input = Input::open(&args.input, Role::Data)?;
    let input_name = input.name();
    let secrets = SecretSource::new(global, &inputs("INPUT", &args.input, global), console)?;
    check_not_needed(
        &args.output,
        &[
            ("the key file", global.key_file.as_deref()),
            ("the header", global.header.as_deref()),
        ],
    )?;
    let output_options = OutputOptions {
        force: args.force,
        known_input: Some(&input),
        sparse: args.sparse == Sparse::Auto,
        ..OutputOptions::default()
    };
    let mut output = Output::create(&args.output, &output_options)?;
    let (volume, data) = match &global.header {
        Some(header) => (
            Volume::open(Input::open(header, Role::Metadata)?, global, console)?,
            Some(input),
        ),
        None => (Volume::open(input, global, console)?, None),
    };

    // What is wrong with the data is told before the secret is asked for.
    let file_length = volume.header.file_length();
    let plaintext_len = match volume.payload_len(data.as_ref())? {
        Some(len) => Some(file_length.unwrap_or(len)),
        None => file_length,
    };

    let progress = ProgressStyleArgs::new(global, console, args.output == Path::new("-"));
    let (unlocked, _) =
        volume.unlock(&secrets, &*engine.backend, &args.unlock, progress, console)?;
    let encryption = volume.header.segment().encryption;
    let key = unlocked
        .volume_key
        .key_spec(encryption)
        .map_err(|error| Error::failure(format!("{input_name}: {error}")))?;
    let key = engine.load(&key)?;

    let geometry = volume.header.segment().geometry;
    let mut payload = volume.into_payload(data)?;
    output.begin(0, plaintext_len)?;
    let job = Job {
        geometry,
        key: &*key,
        threads: engine.threads,
        direction: Direction::Decrypt,
        plaintext_len,
        // Signals end the process without asking anybody.
        cancel: &AtomicBool::new(false),
    };
    let bar = progress.bytes("Decrypting", name(&args.input), plaintext_len);
    let copied = pipeline::run(&job, payload.source(), &mut output, &|done| bar.at(done))
        .map_err(|error| stream_error(&error, &input_name, &output.name()))?;
    drop(bar);
    if copied.read == 0 {
        return Err(Error::failure(format!(
            "{input_name} ends before the data: it was cut off"
        )));
    }
    output.finish()?;
    Ok(())
}
