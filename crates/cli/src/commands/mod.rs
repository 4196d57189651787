// SPDX-License-Identifier: MIT OR Apache-2.0
//! One module a command.

use std::path::Path;

use luxor_sector::pipeline::PipelineError;

use crate::{
    context::Context,
    error::{Error, ErrorClass},
};

pub mod bench;
pub mod check;
pub mod config;
pub mod convert;
pub mod decrypt;
pub mod dump;
pub mod encrypt;
pub mod engines;
pub mod erase;
pub mod format;
pub mod generate;
pub mod header;
pub mod identify;
pub mod key;
pub mod mount;
pub mod raw;
pub mod serve;
pub mod token;

/// What went wrong on the way from `input` to `output`, as the user knows them.
fn stream_error(error: &PipelineError, input: &str, output: &str) -> Error {
    match error {
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
        _ => Error::failure(error.to_string()),
    }
}

/// The files that a command reads a volume from, as
/// [`SecretSource::new`](crate::secrets::SecretSource::new) wants them: `volume`,
/// which is called `what`, and a detached header.
pub fn inputs<'a>(
    what: &'a str,
    volume: &'a Path,
    context: &'a Context,
) -> Vec<(&'a str, &'a Path)> {
    let header = context
        .options
        .header
        .as_deref()
        .map(|header| ("--header", header));
    [(what, volume)].into_iter().chain(header).collect()
}
