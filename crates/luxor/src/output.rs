// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens outputs, and maps the errors of copies.

use std::{io, path::Path};

use luxor_files::{Input, Output, OutputOptions};
use luxor_sector::pipeline::PipelineError;

use crate::{Context, Error, OpenError, Result, error::Cause};

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

/// Begins to write an output, as [`Output::begin`] does. Warns if a file may not fit.
pub(crate) fn begin(
    output: &mut Output,
    offset: u64,
    total: Option<u64>,
    context: &Context,
) -> Result<()> {
    if let Some(total) = total
        && let Some(free) = output.shortage(total)
    {
        let name = output.name();
        context.events.warning(&format!(
            "{name} will have {total} bytes, and {free} bytes are free in its file system"
        ));
    }
    Ok(output.begin(offset, total)?)
}

/// Warns if the input has become longer while it was read, as a log does.
pub(crate) fn warn_of_growth(input: &Input, context: &Context) {
    if let (Some(len), true) = (input.len(), input.has_grown()) {
        let name = input.name();
        context.events.warning(&format!(
            "{name} became longer while it was read: only the {len} bytes that it had at first were \
             read"
        ));
    }
}

/// The error for an input that must be seekable and is not.
pub(crate) fn no_storage(input: &Input) -> Error {
    let name = input.name();
    OpenError::NotSeekable { name }.into()
}

/// The error for a failed copy from `input`, a name for messages, to `output`, which was to have
/// `total` bytes.
pub(crate) fn copy_error(
    error: PipelineError,
    input: &str,
    output: &Output,
    total: Option<u64>,
) -> Error {
    let message = match &error {
        PipelineError::Read { offset, source } => {
            let what = format!("cannot read {input} at byte {offset} of the data");
            return Error::io(what, source).caused_by(error);
        }
        PipelineError::Write { source, .. } => {
            return write_error(source, output, total).caused_by(error);
        }
        PipelineError::PartSector { .. } | PipelineError::SourceLen { .. } => {
            format!("{input}: {error}: is the file cut off?")
        }
        PipelineError::Crypt { source, .. } => format!("{error}: {source}"),
        _ => error.to_string(),
    };
    error.with_message(message)
}

/// The error for a failed write to `output`, which was to have `total` bytes.
pub(crate) fn write_error(error: &io::Error, output: &Output, total: Option<u64>) -> Error {
    let name = output.name();
    let needed =
        total.filter(|_| error.kind() == io::ErrorKind::StorageFull && output.is_seekable());
    let what = match needed {
        Some(needed) => format!("cannot write {name}, which needs {needed} bytes"),
        None => format!("cannot write {name}"),
    };
    Error::io(what, error).caused_by(io::Error::from(error.kind()))
}
