// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a caller decides once for all operations, and the events that it receives.

use std::{
    any::Any,
    fmt,
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use luxor_volume::Remedy;

use crate::{Error, ErrorClass, Result, VolumePolicy};

/// The settings that every operation needs. By default the best engine is used with one thread for
/// each processor, and events are ignored.
#[derive(Clone)]
pub struct Context {
    /// The name of an engine of [`engines::registry`](crate::engines::registry), or
    /// [`Context::AUTO`]: the CPU's best engine, and for long XTS calls a device that this
    /// machine's [`Calibration`](crate::Calibration) has found to be faster.
    pub engine: String,
    /// The number of threads that do AES; `None` means one for each processor.
    pub threads: Option<NonZeroUsize>,
    /// Requirements on the headers of volumes. A volume that does not meet them is refused as soon
    /// as its metadata have been read.
    pub policy: VolumePolicy,
    /// Whether to change metadata, or overwrite a block device, even if their locks cannot be
    /// acquired. The locks on the data are always required.
    pub disable_locks: bool,
    /// When a thread sets this flag, [`encrypt`](fn@crate::encrypt) and
    /// [`decrypt`](fn@crate::decrypt) soon end with an error of the class
    /// [`Cancelled`](crate::ErrorClass::Cancelled), and their output file does not appear.
    /// [`format_files`](crate::format_files) and the changes of metadata look at it after they have derived a
    /// key, while they wait for a lock and when they have it; they then change nothing. A
    /// [`DeviceDisk`](crate::DeviceDisk) looks at it between ranges of some megabytes. The library
    /// never clears the flag. [`crypt_raw`](crate::crypt_raw) does not read it.
    pub cancel: Arc<AtomicBool>,
    /// Receives warnings, notes and progress.
    pub events: Arc<dyn Events>,
}

impl Context {
    /// The engine name that stands for the best engine.
    pub const AUTO: &str = "auto";

    /// Returns the number of threads that do AES: [`Context::threads`], or one for each processor.
    #[must_use]
    pub fn thread_count(&self) -> NonZeroUsize {
        self.threads
            .or_else(|| thread::available_parallelism().ok())
            .unwrap_or(NonZeroUsize::MIN)
    }

    /// Fails if [`Context::cancel`] is set.
    pub(crate) fn check_cancelled(&self) -> Result<()> {
        if self.cancel.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorClass::Cancelled, "interrupted"));
        }
        Ok(())
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

/// Receives what happens during an operation. Luxor may call the methods from any thread.
pub trait Events: Send + Sync {
    /// Something that the user should know, although the operation continues.
    fn warning(&self, text: &str);

    /// A defect of a volume's metadata, and what helps. By default it is a [warning](Events::warning).
    fn header_warning(&self, text: &str, remedy: Option<Remedy>) {
        let _ = remedy;
        self.warning(text);
    }

    /// A detail, such as the engine that is used.
    fn note(&self, text: &str);

    /// A choice that Luxor made because the caller did not, and that differs from the usual one. By
    /// default it is a [note](Events::note).
    fn choice(&self, text: &str) {
        self.note(text);
    }

    /// A step of unknown length begins, such as "Opening the volume". Luxor drops the returned
    /// value when the step ends.
    fn step(&self, _what: &'static str) -> Box<dyn Any> {
        Box::new(())
    }

    /// Data are in a state in which they would be lost if the program ended. Until Luxor drops the
    /// returned value, a program that handles signals must not end for one.
    fn hold(&self) -> Box<dyn Any> {
        Box::new(())
    }

    /// An operation on the file called `name` begins. `what` is a word such as "Encrypting",
    /// `total` the number of bytes of plaintext (of input for [`crypt_raw`](crate::crypt_raw)), if
    /// it is known. Luxor drops the returned value when the operation ends or fails.
    fn bytes(&self, _what: &'static str, _name: String, _total: Option<u64>) -> Box<dyn Progress> {
        Box::new(())
    }
}

/// Receives the progress of an operation. Luxor may call [`Progress::at`] from any thread, but one
/// call at a time.
pub trait Progress: Sync {
    /// An earlier operation has done the first `done` bytes. Called before [`Progress::at`].
    fn continue_from(&self, done: u64) {
        self.at(done);
    }

    /// `done` bytes have been written since the beginning, without a header. `done` grows from call
    /// to call. Encryption also counts the padding of the last sector, so `done` can exceed the
    /// total.
    fn at(&self, done: u64);
}

/// Ignores all progress.
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
