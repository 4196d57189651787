// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every command needs to know.

use std::{any::Any, num::NonZeroUsize, sync::Arc};

use luxor::{Events, Progress};

use crate::{args::GlobalArgs, console::Console, progress::ProgressStyleArgs};

/// Decided once, from the general options.
pub(crate) struct Context {
    /// The general options.
    pub options: GlobalArgs,
    /// Says notes and warnings.
    pub console: Console,
    /// What the library needs to know.
    pub library: luxor::Context,
}

impl Context {
    /// Of these options, for a command that writes data to standard output, or not.
    #[must_use]
    pub(crate) fn new(options: GlobalArgs, output_is_stdout: bool) -> Self {
        let console = Console::new(&options);
        let progress = ProgressStyleArgs::new(&options, console, output_is_stdout);
        Self {
            console,
            library: luxor::Context {
                engine: options.engine.clone(),
                threads: options.threads.and_then(|n| NonZeroUsize::new(n.into())),
                policy: options.policy.policy(),
                disable_locks: options.disable_locks,
                // Signals end the process without asking anybody.
                cancel: Arc::default(),
                events: Arc::new(Shown { console, progress }),
            },
            options,
        }
    }
}

/// What happens in the library, as the user sees it.
struct Shown {
    console: Console,
    progress: ProgressStyleArgs,
}

impl Events for Shown {
    fn warning(&self, text: &str) {
        self.console.warn(text);
    }

    fn note(&self, text: &str) {
        self.console.note(text);
    }

    fn step(&self, what: &'static str) -> Box<dyn Any> {
        Box::new(self.progress.step(what))
    }

    fn bytes(&self, what: &'static str, name: String, total: Option<u64>) -> Box<dyn Progress> {
        Box::new(self.progress.bytes(what, name, total))
    }
}
