// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every command needs.

use std::{any::Any, num::NonZeroUsize, path::Path, sync::Arc};

use luxor::{
    Events, Progress,
    files::{VolumePart, VolumePlace},
    volume::Remedy,
};

use crate::{advice, args::GlobalArgs, console::Console, process, progress::ProgressStyleArgs};

/// Made once from the general options.
pub(crate) struct Context {
    /// The general options.
    pub options: GlobalArgs,
    /// Prints notes and warnings.
    pub console: Console,
    /// The settings for the library.
    pub library: luxor::Context,
}

impl Context {
    /// Makes the context. `output_is_stdout` is whether the command writes data to standard output.
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
                // Where a signal must not end the process at once, the command sets it.
                cancel: Arc::default(),
                events: Arc::new(Shown { console, progress }),
            },
            options,
        }
    }
}

impl Context {
    /// Where the volume is that a command names: in the part of the file or device that the options
    /// name.
    #[must_use]
    pub(crate) fn place<'a>(&self, volume: &'a Path) -> VolumePlace<'a> {
        let part = match (self.options.volume_offset, self.options.volume_partition) {
            (Some(offset), _) => VolumePart::From(offset),
            (None, Some(number)) => VolumePart::Partition(number),
            (None, None) => VolumePart::Whole,
        };
        VolumePlace { path: volume, part }
    }
}

/// Shows the library's events to the user.
struct Shown {
    console: Console,
    progress: ProgressStyleArgs,
}

impl Events for Shown {
    fn warning(&self, text: &str) {
        self.console.warn(text);
    }

    fn header_warning(&self, text: &str, remedy: Option<Remedy>) {
        self.console.warn(advice::with_remedy(text, remedy));
    }

    fn note(&self, text: &str) {
        self.console.note(text);
    }

    fn choice(&self, text: &str) {
        self.console.tell(text);
    }

    fn step(&self, what: &'static str) -> Box<dyn Any> {
        Box::new(self.progress.step(what))
    }

    fn hold(&self) -> Box<dyn Any> {
        Box::new(process::hold())
    }

    fn bytes(&self, what: &'static str, name: String, total: Option<u64>) -> Box<dyn Progress> {
        Box::new(self.progress.bytes(what, name, total))
    }
}
