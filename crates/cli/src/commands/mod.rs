// SPDX-License-Identifier: MIT OR Apache-2.0
//! One module a command.

use luxor_sector::pipeline::PipelineError;

use crate::error::Error;

pub mod check;
pub mod decrypt;
pub mod dump;
pub mod encrypt;
pub mod engines;
pub mod generate;
pub mod raw;

/// What went wrong on the way from `input` to `output`, as the user knows them.
fn stream_error(error: &PipelineError, input: &str, output: &str) -> Error {
    match error {
        PipelineError::Read { offset, source } => Error::io(
            format!("cannot read {input} at byte {offset} of the data"),
            source,
        ),
        PipelineError::Write { source, .. } => Error::io(format!("cannot write {output}"), source),
        PipelineError::Thread { source } => Error::io(error, source),
        PipelineError::PartSector { .. } | PipelineError::SourceLen { .. } => {
            Error::failure(format!("{input}: {error}: is the file cut off?"))
        }
        PipelineError::Crypt { source, .. } => Error::failure(format!("{error}: {source}")),
        _ => Error::failure(error.to_string()),
    }
}
