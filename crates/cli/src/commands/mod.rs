// SPDX-License-Identifier: MIT OR Apache-2.0
//! One module for each command.

use std::path::Path;

use crate::context::Context;

pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod config;
pub(crate) mod convert;
pub(crate) mod decrypt;
pub(crate) mod dump;
pub(crate) mod encrypt;
pub(crate) mod engines;
pub(crate) mod erase;
pub(crate) mod format;
pub(crate) mod generate;
pub(crate) mod header;
pub(crate) mod identify;
pub(crate) mod key;
pub(crate) mod mount;
pub(crate) mod raw;
pub(crate) mod reencrypt;
pub(crate) mod resize;
pub(crate) mod serve;
pub(crate) mod token;

/// Returns the files from which a command reads a volume, for
/// [`SecretSource::new`](crate::secrets::SecretSource::new): `volume`, which messages call `what`,
/// and the detached header.
pub(crate) fn inputs<'a>(
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
