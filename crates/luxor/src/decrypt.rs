// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decrypts a volume into a file or a stream.

use luxor_engine::{Direction, LoadedKey, Mode};
use luxor_files::{Input, Output, path_name};
use luxor_luks::UnlockOptions;
use luxor_sector::{
    Geometry,
    pipeline::{self, Job, PipelineError},
};
use luxor_volume::Plaintext;

use crate::{
    Context, Engine, Error, Result, Secrets, Volume,
    export::warn_of_linear,
    output::{copy_error, no_storage},
    volume::Place,
};

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
) -> Result<()> {
    let engine = Engine::select(context, Mode::Xts)?;
    let plaintext_len = volume.plaintext_len()?;
    let keys = volume.unlock_data(secrets, &*engine.backend, options, context)?;
    let _lock = volume.lock_reencryption()?;
    let name = volume.data_name();
    let path = path_name(volume.data_path());
    let mut payload = volume.into_payload()?;
    let plaintext = payload.plaintext(keys);
    // The volume may have changed while the user typed the passphrase.
    payload.check_unchanged(context)?;
    let mut copy = DataCopy {
        context,
        engine: &engine,
        plaintext: &plaintext,
        name: &name,
        output: &mut output,
    };
    copy.run(&mut payload.place, path, plaintext_len)?;
    payload.check_unchanged(context)?;
    output.finish()?;
    warn_of_linear(&name, &plaintext, context);
    Ok(())
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
    let mut copy = DataCopy {
        context,
        engine,
        plaintext,
        name: &name,
        output: &mut output,
    };
    copy.run(&mut Place::At(input), path, Some(len))?;
    output.finish()?;
    warn_of_linear(&name, plaintext, context);
    Ok(())
}

/// Copies the plaintext of the volume called `name`.
struct DataCopy<'a> {
    context: &'a Context,
    engine: &'a Engine,
    plaintext: &'a Plaintext,
    name: &'a str,
    output: &'a mut Output,
}

impl DataCopy<'_> {
    /// Copies `total` bytes from `place`. Progress is shown under the name `path`.
    fn run(&mut self, place: &mut Place, path: String, total: Option<u64>) -> Result<()> {
        self.output.begin(0, total)?;
        let shown = self.context.events.bytes("Decrypting", path, total);
        let mut written = 0;
        for (extent, len) in self.plaintext.parts() {
            let progress = |done| shown.at(written + done);
            let copied = match extent.cipher {
                Some(cipher) => {
                    let key = self.engine.load_part_key(self.plaintext, cipher)?;
                    let job = job(self.engine, self.context, cipher.geometry, &*key, len);
                    let payload_len = cipher.geometry.sector_size.payload_len(len);
                    let source = place.source(extent.offset, payload_len.unwrap_or(u64::MAX));
                    pipeline::run(&job, source, self.output, &progress)
                }
                None => {
                    let source = place.source(extent.offset, len);
                    let cancel = &self.context.cancel;
                    pipeline::pass(self.engine.threads, source, self.output, cancel, &progress)
                }
            };
            let copied = copied.map_err(|error| self.failed(error))?;
            if matches!(place, Place::Stream(_)) && copied.read == 0 {
                let message = format!("{} ends before the data: it was cut off", self.name);
                return Err(Error::failure(message));
            }
            written += copied.written;
        }
        Ok(())
    }

    fn failed(&self, error: PipelineError) -> Error {
        copy_error(error, self.name, &self.output.name())
    }
}

fn job<'a>(
    engine: &'a Engine,
    context: &'a Context,
    geometry: Geometry,
    key: &'a dyn LoadedKey,
    len: u64,
) -> Job<'a> {
    Job {
        geometry,
        key,
        backend: engine.device(),
        threads: engine.threads,
        direction: Direction::Decrypt,
        // `u64::MAX` means that the length is not known, as for some pipes.
        plaintext_len: (len != u64::MAX).then_some(len),
        cancel: &context.cancel,
    }
}
