// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plaintext of a volume as a file.

use std::io::Read;

use luxor_engine::{Direction, LoadedKey, Mode};
use luxor_files::{Input, Output, path_name};
use luxor_luks::{Extent, Segment, UnlockOptions, Unlocked};
use luxor_sector::{
    Geometry,
    pipeline::{self, Job, PipelineError, Region, Source},
};

use crate::{
    Context, Engine, Error, Place, Progress, Result, Secrets, Volume,
    create::NEVER_CANCELLED,
    output::copy_error,
    volume::{load, parts, warn_of_linear},
};

/// Decrypts `volume` into `output`. A secret is asked for when nothing else is wrong with the
/// volume.
///
/// # Errors
/// When the volume, the secret or the output is not usable, and when the volume is changed
/// meanwhile. Nothing is left of the output then.
pub fn decrypt(
    volume: Volume,
    secrets: &dyn Secrets,
    options: &UnlockOptions,
    mut output: Output,
    context: &Context,
) -> Result<()> {
    let engine = Engine::select(context, Mode::Xts)?;
    let plaintext_len = volume.plaintext_len()?;
    let (unlocked, _) = volume.unlock(secrets, &*engine.backend, options, context)?;
    let _lock = volume.lock_reencryption()?;
    let name = volume.data_name();
    let path = path_name(volume.data_path());
    let mut payload = volume.into_payload()?;
    // Somebody may have typed for hours.
    payload.check_unchanged()?;
    output.begin(0, plaintext_len)?;
    let progress = context.events.bytes("Decrypting", path, plaintext_len);
    let mut copy = Copy {
        engine: &engine,
        unlocked: &unlocked,
        plaintext_len,
        name: &name,
        output: &mut output,
        progress: &*progress,
    };
    match &mut payload.place {
        Place::Stream { stream, segment } => copy.stream(stream, segment)?,
        Place::At { input, extents } => copy.extents(input, extents)?,
    }
    drop(progress);
    payload.check_unchanged()?;
    output.finish()?;
    if let Place::At { extents, .. } = &payload.place {
        warn_of_linear(&name, extents, plaintext_len, context);
    }
    Ok(())
}

/// A copy of the plaintext of the volume called `name`.
struct Copy<'a> {
    engine: &'a Engine,
    unlocked: &'a Unlocked,
    plaintext_len: Option<u64>,
    name: &'a str,
    output: &'a mut Output,
    progress: &'a dyn Progress,
}

impl Copy<'_> {
    fn stream(&mut self, stream: &mut (dyn Read + Send), segment: &Segment) -> Result<()> {
        let key = Some(&self.unlocked.volume_key);
        let key = load(self.engine, key, segment.encryption)?;
        let job = job(self.engine, segment.geometry, &*key, self.plaintext_len);
        let progress = |done| self.progress.at(done);
        let copied = pipeline::run(&job, Source::Stream(stream), self.output, &progress);
        let copied = copied.map_err(|error| self.failed(&error))?;
        if copied.read == 0 {
            let message = format!("{} ends before the data: it was cut off", self.name);
            return Err(Error::failure(message));
        }
        Ok(())
    }

    fn extents(&mut self, input: &Input, extents: &[Extent]) -> Result<()> {
        let mut written = 0;
        for (extent, len) in parts(extents, self.plaintext_len) {
            let region = |len| {
                Source::At(Region {
                    storage: input,
                    offset: extent.offset,
                    len,
                })
            };
            let progress = |done| self.progress.at(written + done);
            let threads = self.engine.threads;
            let copied = match extent.cipher {
                Some(cipher) => {
                    let key = self.unlocked.key(cipher.digest);
                    let key = load(self.engine, key, cipher.encryption)?;
                    let job = job(self.engine, cipher.geometry, &*key, Some(len));
                    let payload = cipher.geometry.sector_size.payload_len(len);
                    let source = region(payload.unwrap_or(u64::MAX));
                    pipeline::run(&job, source, self.output, &progress)
                }
                None => {
                    let (source, cancel) = (region(len), &NEVER_CANCELLED);
                    pipeline::pass(threads, source, self.output, cancel, &progress)
                }
            };
            written += copied.map_err(|error| self.failed(&error))?.written;
        }
        Ok(())
    }

    fn failed(&self, error: &PipelineError) -> Error {
        copy_error(error, self.name, &self.output.name())
    }
}

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
