// SPDX-License-Identifier: MIT OR Apache-2.0
//! Re-encrypts a volume in a thread while it is exported.

use std::{
    any::Any,
    num::NonZeroU64,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
};

use luxor::{Context, Events, Progress, ReencryptionInUse, volume::Remedy};
use luxor_serve::stats::{ReencryptionMeter, Stats};
use tracing::{debug, error, info, warn};

use crate::{
    advice,
    error::{Error, ErrorClass, Result, hint},
    subject,
};

/// What is left of a re-encryption.
pub(crate) struct Work {
    pub reencryption: ReencryptionInUse,
    /// The volume's name for messages.
    pub name: String,
    /// The most bytes in a second.
    pub rate: Option<NonZeroU64>,
    /// Whether it has begun before.
    pub has_begun: bool,
    /// Stops it.
    pub cancel: Arc<AtomicBool>,
    /// How far it is.
    pub meter: Arc<ReencryptionMeter>,
}

/// The thread that does the work.
pub(crate) struct Background(Option<(Arc<AtomicBool>, JoinHandle<Result<()>>)>);

impl Background {
    /// Starts the thread, if there is anything to do. `stats` tell how far it is.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn begin(work: Option<Work>, stats: &Stats) -> Result<Self> {
        let Some(work) = work else {
            return Ok(Self(None));
        };
        stats.watch_reencryption(Arc::clone(&work.meter));
        let cancel = Arc::clone(&work.cancel);
        let thread = thread::Builder::new().name("reencrypt".into());
        let thread = thread.spawn(move || work.run());
        let thread = thread.map_err(|error| Error::io("cannot start a thread", &error))?;
        Ok(Self(Some((cancel, thread))))
    }

    /// Ends the thread as soon as no zone is half done.
    ///
    /// # Errors
    /// The error for which the work has stopped before.
    pub(crate) fn end(self) -> Result<()> {
        let Some((cancel, thread)) = self.0 else {
            return Ok(());
        };
        cancel.store(true, Relaxed);
        let panicked = |_| Err(Error::failure("the re-encryption has stopped by a defect"));
        thread.join().unwrap_or_else(panicked)
    }
}

impl Work {
    fn run(self) -> Result<()> {
        let name = self.name;
        let begins = if self.has_begun {
            "continues"
        } else {
            "begins"
        };
        info!("the re-encryption of {name} {begins}, and clients can use it meanwhile");
        self.meter.is_running.store(true, Relaxed);
        let ended = self.reencryption.run(self.rate);
        self.meter.is_running.store(false, Relaxed);
        match ended {
            Ok(()) => info!("the re-encryption of {name} is done"),
            Err(error) if error.class() == ErrorClass::Cancelled => {
                info!("the re-encryption of {name} stops, and can be continued");
            }
            Err(error) => {
                let hint = hint(&error).map(|hint| format!(". {}", subject::complete(&hint)));
                error!(
                    "the re-encryption has stopped: {}{}",
                    error.message(),
                    hint.unwrap_or_default()
                );
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Returns a context for the work, with a flag of its own that stops it. What happens goes to the log.
/// `meter` tells how far the work is.
pub(crate) fn context(context: &Context, meter: &Arc<ReencryptionMeter>) -> Context {
    Context {
        cancel: Arc::default(),
        events: Arc::new(Logged {
            others: Arc::clone(&context.events),
            meter: Arc::clone(meter),
        }),
        ..context.clone()
    }
}

struct Logged {
    /// Shows the events that are not logged.
    others: Arc<dyn Events>,
    meter: Arc<ReencryptionMeter>,
}

impl Events for Logged {
    fn warning(&self, text: &str) {
        warn!("{}", subject::complete(text));
    }

    fn header_warning(&self, text: &str, remedy: Option<Remedy>) {
        let text = advice::with_remedy(text, remedy);
        warn!("{}", subject::complete(&text));
    }

    fn note(&self, text: &str) {
        debug!("{text}");
    }

    fn step(&self, what: &'static str) -> Box<dyn Any> {
        self.others.step(what)
    }

    fn hold(&self) -> Box<dyn Any> {
        self.others.hold()
    }

    fn bytes(&self, _: &'static str, name: String, total: Option<u64>) -> Box<dyn Progress> {
        let total = total.unwrap_or(0);
        self.meter.total.store(total, Relaxed);
        Box::new(Tenths {
            name,
            total,
            meter: Arc::clone(&self.meter),
            said: AtomicU64::new(0),
        })
    }
}

/// Logs each tenth of the work.
struct Tenths {
    name: String,
    total: u64,
    meter: Arc<ReencryptionMeter>,
    said: AtomicU64,
}

impl Tenths {
    fn tenths(&self, done: u64) -> u64 {
        done.saturating_mul(10) / self.total.max(1)
    }
}

impl Progress for Tenths {
    fn continue_from(&self, done: u64) {
        self.meter.done.store(done, Relaxed);
        self.said.store(self.tenths(done), Relaxed);
    }

    fn at(&self, done: u64) {
        self.meter.done.store(done, Relaxed);
        let tenths = self.tenths(done);
        if self.said.swap(tenths, Relaxed) < tenths && tenths < 10 {
            info!("{}0 % of {} are re-encrypted", tenths, self.name);
        }
    }
}
