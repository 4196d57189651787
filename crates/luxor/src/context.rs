// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a caller decides once, and what it hears of the work.

use std::{
    any::Any,
    fmt,
    num::NonZeroUsize,
    sync::{Arc, atomic::AtomicBool},
    thread,
};

use crate::VolumePolicy;

/// What every operation needs to know. The default is the best engine with a thread for
/// each processor, and no events.
#[derive(Clone)]
pub struct Context {
    /// The name of an engine, or `auto`: the best one of the CPU, and a device for long calls
    /// where a [`Calibration`](crate::Calibration) has found it faster.
    pub engine: String,
    /// How many threads do AES; one for each processor if `None`.
    pub threads: Option<NonZeroUsize>,
    /// What the headers of volumes must be.
    pub policy: VolumePolicy,
    /// Whether a volume is changed also where its locks cannot be had.
    pub disable_locks: bool,
    /// Set from any thread, this ends a copy soon, as an error. Nothing is left of its output.
    pub cancel: Arc<AtomicBool>,
    /// Hears of warnings and notes.
    pub events: Arc<dyn Events>,
}

impl Context {
    /// The name of the engine that stands for the best one.
    pub const AUTO: &str = "auto";

    /// How many threads do AES: as many as [`Context::threads`] says, or one for each
    /// processor.
    #[must_use]
    pub fn thread_count(&self) -> NonZeroUsize {
        self.threads
            .or_else(|| thread::available_parallelism().ok())
            .unwrap_or(NonZeroUsize::MIN)
    }
}

impl Default for Context {
    fn default() -> Self {
        Self {
            engine: Self::AUTO.to_owned(),
            threads: None,
            policy: VolumePolicy::default(),
            disable_locks: false,
            cancel: Arc::default(),
            events: Arc::new(NoEvents),
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("engine", &self.engine)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

/// Hears what happens during an operation, on any thread.
pub trait Events: Send + Sync {
    /// Something that the user should know, although the operation goes on.
    fn warning(&self, text: &str);

    /// A detail, such as the engine that is used.
    fn note(&self, text: &str);

    /// A step begins whose end is not known, such as "Opening the volume". It has ended when what
    /// is returned is dropped.
    fn step(&self, _what: &'static str) -> Box<dyn Any> {
        Box::new(())
    }

    /// A file called `name` begins to be read or written, for which `what` is a word such as
    /// "Encrypting". It has `total` bytes, where that is known, and has ended when what is
    /// returned is dropped.
    fn bytes(&self, _what: &'static str, _name: String, _total: Option<u64>) -> Box<dyn Progress> {
        Box::new(())
    }
}

/// Hears how far an operation is, on any thread.
pub trait Progress: Sync {
    /// So many bytes are done, counted from the beginning. What pads the last sector counts too.
    fn at(&self, done: u64);
}

/// Ignores it.
impl Progress for () {
    fn at(&self, _: u64) {}
}

/// Ignores all events.
#[derive(Clone, Copy, Debug)]
pub struct NoEvents;

impl Events for NoEvents {
    fn warning(&self, _: &str) {}

    fn note(&self, _: &str) {}
}
