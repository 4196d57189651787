// SPDX-License-Identifier: MIT OR Apache-2.0
//! A volume whose plaintext is given out as a disk, as the command line says.

mod plain;
#[cfg(test)]
mod tests;

use luxor::{Engine, Export, ExportOptions};
use luxor_engine::Mode;
use luxor_files::{DataFile, locks::Access};

use crate::{
    args::{AnyLuks, ExportArgs},
    commands::inputs,
    context::Context,
    error::{Error, Result},
    secrets::SecretSource,
    volume::{self, unlock},
};

/// Opens what `args` name. Asks for the secret where one has to be asked for.
///
/// # Errors
/// When the volume or the secret is not usable, when somebody else uses the volume,
/// and when options do not fit together.
pub fn open(args: &ExportArgs, context: &Context) -> Result<Export> {
    match args.kind.luks() {
        Some(kind) => open_luks(kind, args, context),
        None => plain::open(args, context),
    }
}

fn open_luks(kind: AnyLuks, args: &ExportArgs, context: &Context) -> Result<Export> {
    if let Some(option) = args.plain.given() {
        return Err(Error::failure(format!(
            "{option} is for --type plain: of a LUKS volume the header says it"
        )));
    }
    let engine = Engine::select(&context.library, Mode::Xts)?;
    let data = DataFile::open(&args.volume, access(args))?;
    let secrets = SecretSource::new(context, &inputs("VOLUME", &args.volume, context))?;
    let input = data.input()?;
    let volume = volume::open(input, context)?;

    // What is wrong with the volume is told before the secret is asked for.
    let version = volume.header.version();
    if kind.version().is_some_and(|kind| kind.number() != version) {
        return Err(Error::failure(format!(
            "{} is not what --type says: it is a LUKS{version} volume",
            volume.name()
        )));
    }
    let options = options(args);
    Export::check(&volume, &options)?;

    let (unlocked, _) = unlock(&volume, &secrets, &*engine.backend, &args.unlock, context)?;
    Export::of_volume(volume, &unlocked, data, &engine, &options, &context.library)
}

fn access(args: &ExportArgs) -> Access {
    match args.read_only {
        true => Access::Read,
        false => Access::Write,
    }
}

fn options(args: &ExportArgs) -> ExportOptions {
    ExportOptions {
        read_only: args.read_only,
        allow_discards: args.allow_discards,
        direct: args.direct,
    }
}
