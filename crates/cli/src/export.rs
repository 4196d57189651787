// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exports a volume as a disk, with the options of the command line.

mod background;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use luxor::{
    DiskUse, Engine, OpenError, OpenOptions, ReencryptOptions, VolumeDisk, VolumeMetadata,
    files::{DataFile, is_same_file},
    luks::VolumeHeader,
    volume::Unlocked,
};

use crate::{
    args::{ExportArgs, ReencryptWhen},
    commands::inputs,
    context::Context,
    error::Result,
    log,
    secrets::SecretSource,
    volume::{self, Asking, unlock_options},
};

pub(crate) use self::background::Background;

/// A volume that is exported, and what is left of its re-encryption with `--reencrypt`.
pub(crate) type Opened = (VolumeDisk, Option<background::Work>);

/// Decides by the plaintext of a volume, which is open read-only, whether to write to it.
pub(crate) type WillWrite<'a> = &'a dyn Fn(&VolumeDisk) -> Result<bool>;

/// Opens the volume that `args` name, and asks for its secret if necessary. With `will_write`, the volume is
/// open for writing only if that says so. Otherwise other programs may read it too.
///
/// # Errors
/// Fails when the volume or the secret cannot be used, when another program uses the volume, and
/// when options contradict each other.
pub(crate) fn open(
    args: &ExportArgs,
    will_write: Option<WillWrite<'_>>,
    context: &Context,
) -> Result<Opened> {
    let format = args.format.format()?;
    volume::check_no_header(&*format, &args.unlock, context)?;
    if let (Some(_), false) = (args.reencrypt, format.has_signature()) {
        return Err(volume::no_header("--reencrypt", &*format));
    }
    let options = options(args);
    let will_write = will_write.filter(|_| !options.read_only && args.reencrypt.is_none());
    let first = DiskUse {
        read_only: options.read_only || will_write.is_some(),
        ..options
    };
    let data = DataFile::open(context.place(&args.volume), first.access())?;
    let inputs = inputs("VOLUME", &args.volume, context);
    let secrets = SecretSource::for_format(context, &*format, &inputs)?;
    if let Some(when) = args.reencrypt {
        let (header, library) = (volume::header(context)?, &context.library);
        let metadata = VolumeMetadata::read(data.input()?, header, format.clone(), library)?;
        let luks = metadata.luks();
        if when == ReencryptWhen::Always || luks.is_some_and(VolumeHeader::is_reencrypting) {
            return open_to_reencrypt(data, &secrets, &options, args, context);
        }
    }
    let open = OpenOptions::new()
        .format(format)
        .disk_use(first)
        .unlock_options(unlock_options(&args.unlock))
        .context(&context.library);
    let volume = open.open_data(data, volume::header(context)?)?;
    let (path, luks) = (volume.metadata().path(), volume.luks());
    let secrets = Asking::new(&secrets, &args.unlock, path, luks);
    let (engine, unlocked) = volume.keys(&secrets)?;
    let Some(will_write) = will_write else {
        return Ok((volume.with_keys(engine, unlocked).disk()?, None));
    };
    let (keys, keyslots) = (unlocked.keys.clone(), unlocked.keyslots.clone());
    let digest = volume.luks().map(VolumeHeader::digest);
    let disk = volume.with_keys(engine, unlocked).disk()?;
    if !will_write(&disk)? {
        return Ok((disk, None));
    }
    // Its shared lock would exclude the other one.
    drop(disk);
    let data = DataFile::open(context.place(&args.volume), options.access())?;
    // The first time it has warned of the header.
    let silent = luxor::Context {
        events: luxor::Context::default().events,
        ..context.library.clone()
    };
    let open = open.disk_use(options).context(&silent);
    let volume = open.open_data(data, volume::header(context)?)?;
    // The keys are for the volume as it was.
    if volume.luks().map(VolumeHeader::digest) != digest {
        let what = "the header";
        return Err(OpenError::Changed { what }.into());
    }
    let engine = Engine::select(&context.library, volume.describe().mode)?;
    let volume = volume.with_keys(engine, Unlocked { keys, keyslots });
    Ok((volume.with_context(&context.library).disk()?, None))
}

fn open_to_reencrypt(
    data: DataFile,
    secrets: &SecretSource,
    options: &DiskUse,
    args: &ExportArgs,
    context: &Context,
) -> Result<Opened> {
    let mut volume = volume::open_to_change(&args.volume, context)?;
    let header = context.options.header.as_deref();
    if header.is_some_and(|header| !is_same_file(header, &args.volume)) {
        volume = volume.with_data(data.input()?);
    }
    let secrets = Asking::new(secrets, &args.unlock, volume.path(), Some(&volume.header));
    log::begin(&context.options);
    let new = ReencryptOptions {
        zone: args.hotzone_size,
        unlock: unlock_options(&args.unlock),
        ..ReencryptOptions::default()
    };
    let has_begun = volume.header.is_reencrypting();
    let meter = Arc::default();
    let context = background::context(&context.library, &meter);
    let (disk, reencryption) =
        luxor::reencrypt_in_use(volume, data, &secrets, &new, options, &context)?;
    let work = background::Work {
        reencryption,
        name: disk.name().to_owned(),
        rate: args.reencrypt_rate,
        has_begun,
        meter,
        cancel: context.cancel,
    };
    Ok((disk, Some(work)))
}

fn options(args: &ExportArgs) -> DiskUse {
    DiskUse {
        read_only: args.read_only,
        allow_discards: args.allow_discards,
        direct: args.direct,
    }
}
