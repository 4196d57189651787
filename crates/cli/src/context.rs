// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every command needs to know.

use std::{num::NonZeroUsize, sync::Arc};

use crate::{args::GlobalArgs, console::Console, progress::ProgressStyleArgs};

/// Decided once, from the general options.
pub struct Context {
    /// The general options.
    pub options: GlobalArgs,
    /// Says notes and warnings.
    pub console: Console,
    /// Shows progress.
    pub progress: ProgressStyleArgs,
    /// What the library needs to know.
    pub library: luxor::Context,
}

impl Context {
    /// Of these options, for a command that writes data to standard output, or not.
    #[must_use]
    pub fn new(options: GlobalArgs, output_is_stdout: bool) -> Self {
        let console = Console::new(&options);
        Self {
            console,
            progress: ProgressStyleArgs::new(&options, console, output_is_stdout),
            library: luxor::Context {
                engine: options.engine.clone(),
                threads: options.threads.and_then(|n| NonZeroUsize::new(n.into())),
                events: Arc::new(console),
            },
            options,
        }
    }
}
