// SPDX-License-Identifier: MIT OR Apache-2.0
//! One module a command.

use std::path::Path;

use crate::context::Context;

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
