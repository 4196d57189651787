// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens outputs, and maps the errors of copies.

use std::path::Path;

use luxor_files::{Input, Output, OutputOptions};
use luxor_sector::pipeline::PipelineError;

use crate::{Context, Error, ErrorClass, Result};

/// Opens an output as [`Output::create`] does, with `disable_locks` and `cancel` from `context` in
/// place of those of `options`. Warns about the contents of a block device that will be overwritten.
///
/// # Errors
/// Those of [`Output::create`].
pub fn create_output(
    path: &Path,
    options: &OutputOptions<'_>,
    context: &Context,
) -> Result<Output> {
    let options = OutputOptions {
        disable_locks: context.disable_locks,
        cancel: Some(&context.cancel),
        ..*options
    };
    let output = Output::create(path, &options)?;
    for what in output.contents() {
        let name = output.name();
        let text = format!("{name} has {what}, which will be overwritten");
        context.events.warning(&text);
    }
    Ok(output)
}

/// The error for an input that must be seekable and is not.
pub(crate) fn no_storage(input: &Input) -> Error {
    Error::failure(format!(
        "{} is neither a file nor a block device",
        input.name()
    ))
}

/// The error for a failed copy from `input` to `output`, which are names for messages.
pub(crate) fn copy_error(error: PipelineError, input: &str, output: &str) -> Error {
    let failed = match &error {
        PipelineError::Read { offset, source } => Error::io(
            format!("cannot read {input} at byte {offset} of the data"),
            source,
        ),
        PipelineError::Write { source, .. } => Error::io(format!("cannot write {output}"), source),
        PipelineError::PartSector { .. } | PipelineError::SourceLen { .. } => {
            Error::failure(format!("{input}: {error}: is the file cut off?"))
        }
        PipelineError::Memory => Error::new(ErrorClass::OutOfMemory, error.to_string()),
        PipelineError::Crypt { source, .. } => Error::failure(format!("{error}: {source}")),
        PipelineError::Cancelled => Error::new(ErrorClass::Cancelled, error.to_string()),
        _ => Error::failure(error.to_string()),
    };
    failed.caused_by(error)
}
