// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor resize`.

use std::error::Error as _;

use luxor::{
    Resized,
    files::{DataFileError, path_name},
};

use crate::{
    args::ResizeArgs,
    context::Context,
    error::{Error, Result},
};

/// Changes the size of a volume.
///
/// # Errors
/// Those of [`luxor::resize`].
pub(crate) fn run(args: &ResizeArgs, context: &Context) -> Result<()> {
    let header = context.options.header.as_deref();
    let resized = luxor::resize(
        context.place(&args.volume),
        header,
        args.size,
        args.shrink,
        &context.library,
    );
    let Resized { before, after } = resized.map_err(with_hint)?;
    let volume = path_name(&args.volume);
    context
        .console
        .tell(format!("{volume} holds {after} bytes now, {before} before"));
    Ok(())
}

/// Adds what to do when the volume cannot be opened for a change. The general hints name the option
/// `--read-only`, which this command does not have.
fn with_hint(error: Error) -> Error {
    let source = error.source();
    let hint = match source.and_then(|source| source.downcast_ref()) {
        Some(DataFileError::InUse { .. } | DataFileError::Locked { .. }) => {
            "Run the command again when nothing else uses the volume."
        }
        Some(DataFileError::Open { .. }) => "A new size needs permission to write.",
        _ => return error,
    };
    error.hint(hint)
}
