// SPDX-License-Identifier: MIT OR Apache-2.0
//! The results in the documents, which come from the committed records. A test of `luxor-bench`
//! checks that they are up to date.

use crate::{
    plots,
    process::{self, cargo},
};

/// Writes `docs/results.md`, the results on the pages of the papers, and the plots again.
///
/// # Errors
/// Fails when a record cannot be read, or a page or plot cannot be written.
pub fn write() -> Result<String, String> {
    let run = "run --locked --quiet --package luxor-bench -- --write-results bench/record docs";
    process::run(cargo(run))?;
    plots::draw()
}
