// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor format`.

use std::path::Path;

use luxor::files::path_name;

use crate::{
    args::FormatArgs,
    confirm::confirm,
    context::Context,
    error::{Error, Result},
    new_volume,
    secrets::SecretSource,
};

/// If the volume exists, asks whether to replace it.
fn is_to_be_replaced(volume: &Path) -> Result<bool> {
    let exists = volume.exists();
    if exists {
        let warning = format!("All data on {} will be lost.", path_name(volume));
        confirm(&warning, "--force")?;
    }
    Ok(exists)
}

/// Makes an empty volume.
///
/// # Errors
/// Fails when the options contradict each other, and with the errors of [`luxor::format_files`].
pub(crate) fn run(args: &FormatArgs, context: &Context) -> Result<()> {
    let options = new_volume::options(&args.new, context)?;
    let secrets = SecretSource::secret_only(context, &[])?;
    if args.volume == Path::new("-") {
        return Err(Error::failure("VOLUME must be a file or a block device"));
    }
    let needed = new_volume::needed(context);
    let force = args.force || (args.ask && is_to_be_replaced(&args.volume)?);
    let files = new_volume::files(&args.volume, force, &needed, context);
    let secret = || secrets.new_one(&args.volume);
    luxor::format_files(&files, args.size, &options, secret, &context.library)
}
