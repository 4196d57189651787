// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor decrypt`.

use std::sync::atomic::AtomicBool;

use luxor::{Engine, Place, Volume, load, parts};
use luxor_engine::{Direction, LoadedKey, Mode};
use luxor_files::{Input, Output, OutputOptions, Role, path_name};
use luxor_sector::{
    Geometry,
    pipeline::{self, Job, PipelineError, Region, Source},
};

use crate::{
    args::{DecryptArgs, Sparse},
    commands::{inputs, stream_error},
    contents::warn_of_contents,
    context::Context,
    error::{Error, Result},
    secrets::SecretSource,
    volume::unlock,
};

/// Decrypts a volume into a file.
///
/// # Errors
/// When the volume, the secret or a file is not usable. Nothing is left of the
/// output then.
pub fn run(args: &DecryptArgs, context: &Context) -> Result<()> {
    let engine = Engine::select(&context.library, Mode::Xts)?;
    let input = Input::open(&args.input, Role::Data)?;
    let input_name = input.name();
    let secrets = SecretSource::new(context, &inputs("INPUT", &args.input, context))?;
    let output_options = OutputOptions {
        force: args.force,
        known_input: Some(&input),
        needed: &[
            ("the key file", context.options.key_file.as_deref()),
            ("the header", context.options.header.as_deref()),
        ],
        sparse: args.sparse == Sparse::Auto,
        disable_locks: context.options.disable_locks,
        ..OutputOptions::default()
    };
    let mut output = Output::create(&args.output, &output_options)?;
    warn_of_contents([&output], context.console);
    let (volume, data) = match &context.options.header {
        Some(header) => (
            Volume::open(Input::open(header, Role::Metadata)?, &context.library)?,
            Some(input),
        ),
        None => (Volume::open(input, &context.library)?, None),
    };

    // What is wrong with the data is told before the secret is asked for.
    let file_length = volume.header.file_length();
    let plaintext_len = match volume.payload_len(data.as_ref())? {
        Some(len) => Some(file_length.unwrap_or(len)),
        None => file_length,
    };

    let (unlocked, _) = unlock(&volume, &secrets, &*engine.backend, &args.unlock, context)?;
    let _lock = volume.lock_reencryption()?;
    let mut payload = volume.into_payload(data)?;
    // Somebody may have typed for hours.
    payload.check_unchanged()?;
    output.begin(0, plaintext_len)?;
    let bar = context
        .progress
        .bytes("Decrypting", path_name(&args.input), plaintext_len);
    let output_name = output.name();
    let failed = |error: &PipelineError| stream_error(error, &input_name, &output_name);
    let mut linear = 0;
    match &mut payload.place {
        Place::Stream { stream, segment } => {
            let key = load(&engine, Some(&unlocked.volume_key), segment.encryption)?;
            let job = job(&engine, segment.geometry, &*key, plaintext_len);
            let copied = pipeline::run(&job, Source::Stream(stream), &mut output, &|done| {
                bar.at(done);
            })
            .map_err(|error| failed(&error))?;
            if copied.read == 0 {
                return Err(Error::failure(format!(
                    "{input_name} ends before the data: it was cut off"
                )));
            }
        }
        Place::At { input, extents } => {
            let mut written = 0;
            for (extent, len) in parts(extents, plaintext_len) {
                let region = |len| {
                    Source::At(Region {
                        storage: &*input,
                        offset: extent.offset,
                        len,
                    })
                };
                let progress = |done| bar.at(written + done);
                let copied = match extent.cipher {
                    Some(cipher) => {
                        let key = unlocked.key(cipher.digest);
                        let key = load(&engine, key, cipher.encryption)?;
                        let job = job(&engine, cipher.geometry, &*key, Some(len));
                        let payload = cipher.geometry.sector_size.payload_len(len);
                        let source = region(payload.unwrap_or(u64::MAX));
                        pipeline::run(&job, source, &mut output, &progress)
                    }
                    None => {
                        linear += len;
                        pipeline::pass(
                            engine.threads,
                            region(len),
                            &mut output,
                            &NEVER_CANCELLED,
                            &progress,
                        )
                    }
                };
                written += copied.map_err(|error| failed(&error))?.written;
            }
        }
    }
    drop(bar);
    payload.check_unchanged()?;
    output.finish()?;
    if linear > 0 {
        context.console.warn(format!(
            "{input_name}: {linear} bytes of the data are not encrypted, because a re-encryption is \
             under way: whoever can write there can have changed them"
        ));
    }
    Ok(())
}

/// Signals end the process without asking anybody.
static NEVER_CANCELLED: AtomicBool = AtomicBool::new(false);

fn job<'a>(
    engine: &'a Engine,
    geometry: Geometry,
    key: &'a dyn LoadedKey,
    plaintext_len: Option<u64>,
) -> Job<'a> {
    Job {
        geometry,
        key,
        backend: engine.device(),
        threads: engine.threads,
        direction: Direction::Decrypt,
        plaintext_len,
        cancel: &NEVER_CANCELLED,
    }
}
