// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every frontend can do.

use std::{io, panic::resume_unwind, thread};

/// A way by which other programs use an [`Export`](crate::Export): it is made of the export and of the
/// place where programs find it, and then runs once.
pub trait Frontend: Send {
    /// Returns a function that asks the frontend to stop, from any thread, before it runs or while it
    /// does. After the end it does nothing.
    fn stopper(&self) -> Stopper;

    /// Serves until it is asked to stop, or ends by itself as its options say. Then requests under way
    /// are completed, and everything is made durable. No thread uses the export any more when this
    /// returns.
    ///
    /// # Errors
    /// Returns [`ServeError`] when clients cannot be served, and when data could not be made durable.
    fn run(self: Box<Self>) -> Result<(), ServeError>;
}

/// Asks a frontend to stop. An error means that it goes on; the caller may try again.
pub type Stopper = Box<dyn Fn() -> io::Result<()> + Send + Sync>;

/// Several frontends of one export, as one: it ends when all of them have ended. If one fails, the
/// others are asked to stop.
impl Frontend for Vec<Box<dyn Frontend>> {
    fn stopper(&self) -> Stopper {
        let stoppers: Vec<_> = self.iter().map(|frontend| frontend.stopper()).collect();
        // All of them, also after an error.
        Box::new(move || stoppers.iter().map(|stop| stop()).fold(Ok(()), Result::and))
    }

    fn run(self: Box<Self>) -> Result<(), ServeError> {
        let stop = &self.stopper();
        let stop_others = |_: &ServeError| drop(stop());
        let run = |frontend: Box<dyn Frontend>| frontend.run().inspect_err(stop_others);
        let mut frontends = self.into_iter();
        let first = frontends.next();
        thread::scope(|scope| {
            let others = frontends.map(|frontend| {
                let thread = thread::Builder::new().name("frontend".into());
                let thread = thread.spawn_scoped(scope, move || run(frontend));
                thread
                    .map_err(|source| ServeError::Thread { source })
                    .inspect_err(stop_others)
            });
            let others: Vec<_> = others.collect();
            let ended = first.map_or(Ok(()), run);
            others.into_iter().fold(ended, |ended, thread| {
                let other = thread
                    .and_then(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
                ended.and(other)
            })
        })
    }
}

/// Why a frontend has stopped, or cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The listening sockets cannot be used.
    #[error("cannot accept clients: {source}")]
    Listen {
        /// The system's error.
        source: io::Error,
    },
    /// The system cannot start a thread.
    #[error("a thread cannot be started: {source}")]
    Thread {
        /// The system's error.
        source: io::Error,
    },
    /// The kernel no longer passes requests on.
    #[error("the connection to the kernel has failed: {source}")]
    Kernel {
        /// The system's error.
        source: io::Error,
    },
    /// The last writes may be lost.
    #[error("what was written could not be made durable: {source}")]
    Flush {
        /// The system's error.
        source: io::Error,
    },
}

#[cfg(test)]
mod tests {
    use std::{
        sync::mpsc::{Receiver, SyncSender, sync_channel},
        time::Duration,
    };

    use super::*;

    /// Ends when it is stopped, or at once with an error.
    struct Waiting {
        stop: SyncSender<()>,
        stopped: Receiver<()>,
        fails: bool,
    }

    impl Frontend for Waiting {
        fn stopper(&self) -> Stopper {
            let (stop, fails) = (self.stop.clone(), self.fails);
            Box::new(move || {
                let _ = stop.try_send(());
                if fails {
                    Err(io::ErrorKind::Other.into())
                } else {
                    Ok(())
                }
            })
        }

        fn run(self: Box<Self>) -> Result<(), ServeError> {
            if self.fails {
                let source = io::ErrorKind::Other.into();
                return Err(ServeError::Kernel { source });
            }
            self.stopped.recv_timeout(Duration::from_secs(20)).unwrap();
            Ok(())
        }
    }

    fn together(fail: [bool; 3]) -> Box<dyn Frontend> {
        let all = fail.map(|fails| {
            let (stop, stopped) = sync_channel(1);
            Box::new(Waiting {
                stop,
                stopped,
                fails,
            }) as Box<dyn Frontend>
        });
        Box::new(Vec::from(all))
    }

    #[test]
    fn frontends_run_together_until_all_are_stopped() {
        let all = together([false; 3]);
        let stop = all.stopper();
        let running = thread::spawn(|| all.run());
        stop().unwrap();
        running.join().unwrap().unwrap();
        Box::new(Vec::new()).run().unwrap();
    }

    /// Also if the stopper of the one that failed fails.
    #[test]
    fn the_failure_of_a_frontend_stops_the_others() {
        for at in 0..3 {
            let mut fail = [false; 3];
            fail[at] = true;
            let error = together(fail).run().unwrap_err();
            assert!(matches!(error, ServeError::Kernel { .. }), "{error}");
        }
    }
}
