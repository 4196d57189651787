// SPDX-License-Identifier: MIT OR Apache-2.0
//! Long work that Ctrl-C ends, as Python expects it.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use pyo3::{exceptions::PyRuntimeError, prelude::*};

/// How often a waiting call looks for signals.
const POLL: Duration = Duration::from_millis(40);

/// How long an interrupted call waits for its work to end. A copy ends sooner. A key derivation
/// cannot be ended; it changes nothing, and what would follow it is left out.
const PATIENCE: Duration = Duration::from_millis(50);

/// Runs `work` on a thread of its own without the GIL, while the calling thread handles signals and
/// calls `tick` several times a second.
///
/// If a signal handler or `tick` raises an exception, `cancel` is set, and the exception is raised.
pub(crate) fn wait_for<T: Send + 'static>(
    py: Python<'_>,
    cancel: &Arc<AtomicBool>,
    tick: &mut dyn FnMut(Python<'_>) -> PyResult<()>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let receiver = Mutex::new(receiver);
    let receive = |timeout| {
        let receiver = receiver.lock().unwrap_or_else(PoisonError::into_inner);
        receiver.recv_timeout(timeout)
    };
    thread::Builder::new()
        .name("luxor-python".into())
        .spawn(move || {
            // The receiver is gone if the caller was interrupted.
            let _ = sender.send(work());
        })?;
    loop {
        match py.detach(|| receive(POLL)) {
            Ok(done) => return Ok(done),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let message = "luxor: internal error: a thread panicked";
                return Err(PyRuntimeError::new_err(message));
            }
        }
        if let Err(exception) = py.check_signals().and_then(|()| tick(py)) {
            cancel.store(true, Ordering::Relaxed);
            let _ = py.detach(|| receive(PATIENCE));
            return Err(exception);
        }
    }
}
