// SPDX-License-Identifier: MIT OR Apache-2.0
//! The results in the documents, which come from the committed records. A test of `luxor-bench`
//! checks that they are up to date.

use crate::process::{self, cargo};

/// Writes `docs/results.md` and the results on the pages of the papers again.
///
/// # Errors
/// Fails when a record cannot be read or a page cannot be written.
pub fn write() -> Result<String, String> {
    let run = "run --locked --quiet --package luxor-bench -- --write-results bench/record docs";
    process::run(cargo(run))
}
