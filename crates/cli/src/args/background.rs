// SPDX-License-Identifier: MIT OR Apache-2.0
//! The option to go on in the background.

use clap::Args;

/// Whether the command goes on in the background.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct BackgroundArgs {
    /// Return as soon as programs can use it, and go on in the background
    ///
    /// luxor reads the secret and reports errors before that. Later messages go to standard error
    /// if that is a file or the journal, and nowhere otherwise: `2>>luxor.log` keeps them.
    #[arg(long, help_heading = "Background")]
    pub background: bool,
}
