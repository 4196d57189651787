// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process itself: no traces of secrets outside its memory, and an end that
//! leaves nothing half-done when a signal comes.
//!
//! A thread of its own waits for signals and ends the process, wherever the other threads are:
//! Argon2 and a read from a pipe cannot be interrupted. While a volume is served, the first signal
//! asks the server to stop and the second ends the process. Output files have no name until they
//! are complete, so nothing is left behind; the few files that do have a name are registered with
//! `temporary`. All signals that end a program are handled in this way, except those of faults.

use std::{
    fs::{self, File},
    io,
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use luxor_engine::harden_process;
use luxor_files::temporary;
use nix::{
    libc::{
        SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGPWR, SIGQUIT, SIGRTMAX, SIGRTMIN,
        SIGSTKFLT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU, SIGXFSZ,
    },
    sys::{
        signal::{SigSet, SigmaskHow, Signal},
        termios::{self, FlushArg, LocalFlags, SetArg, Termios},
    },
    unistd::{getpgrp, tcgetpgrp},
};
use signal_hook::{iterator::Signals, low_level};

use crate::{
    console::{Console, say},
    error::{Error, INTERRUPTED, Result},
};

/// To be called before a secret is read. Best effort: what the system refuses gets a note.
pub(crate) fn harden(console: Console) {
    for refused in harden_process() {
        console.note(refused.to_string());
    }
}

/// Every signal that would end the program and can be caught, but for those of faults, which
/// end it where it is.
const ENDING: [i32; 14] = [
    SIGHUP, SIGINT, SIGTERM, SIGQUIT, SIGALRM, SIGIO, SIGPROF, SIGPWR, SIGSTKFLT, SIGUSR1, SIGUSR2,
    SIGVTALRM, SIGXCPU, SIGXFSZ,
];

/// Whether SIGUSR1 asks for something, and does not end the program.
pub(crate) static SIGUSR1_ASKS: AtomicBool = AtomicBool::new(false);

/// Starts the thread that ends the program on a signal of [`ENDING`] or a real-time signal;
/// [`StopOnSignal`] has SIGINT, SIGTERM and SIGHUP ask for a clean end instead.
///
/// It does so by itself, wherever the other threads are: Argon2 cannot be
/// interrupted, and a read from a pipe may block for ever. Outputs without a
/// name vanish with the process; the others are those of [`Temporary`](luxor_files::temporary::Temporary).
///
/// A signal that was ignored when the program started stays ignored (`nohup`,
/// background jobs of a script). After a stop (Ctrl-Z) at a prompt, which gives the
/// terminal back to the shell, the echo is switched off again.
///
/// No other thread takes these signals, wherever they are sent: to call a handler the
/// kernel first puts all registers of the thread on its stack, and those of a thread that handles
/// keys have parts of them. What is blocked here is blocked in the threads that are started later,
/// hence this comes before all others, and in programs: see [`unblocked`].
///
/// # Errors
/// When the handlers cannot be installed.
pub(crate) fn handle_signals() -> Result<()> {
    let ignored = ignored_signals();
    let wanted = ENDING
        .into_iter()
        .chain([SIGCONT])
        .chain(SIGRTMIN()..=SIGRTMAX())
        .filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let failed = |error| Error::io("cannot install the signal handlers", &error);
    // Also the signals of faults, for which Rust has a handler: a fault of the thread itself ends
    // the program although they are blocked. SIGTTIN and SIGTTOU have no handler, and stop a
    // program that uses the terminal from the background.
    let mut blocked = SigSet::all();
    blocked.remove(Signal::SIGTTIN);
    blocked.remove(Signal::SIGTTOU);
    let before = blocked
        .thread_swap_mask(SigmaskHow::SIG_BLOCK)
        .map_err(|error| failed(error.into()))?;
    let _ = MASK_BEFORE.set(before);
    let mut signals = Signals::new(wanted).map_err(failed)?;
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            let _ = before.thread_set_mask();
            let mut asked: Option<Asked> = None;
            for signal in &mut signals {
                match signal {
                    SIGCONT => continued(),
                    SIGINT | SIGTERM | SIGHUP => {
                        let now = Instant::now();
                        let stop = lock(&STOP).take();
                        if let Some(stop) = stop {
                            stop();
                            asked = Some(Asked { signal, at: now });
                        } else if !asked.is_some_and(|asked| asked.is_meant_by(signal, now)) {
                            interrupted();
                        }
                    }
                    SIGUSR1 if SIGUSR1_ASKS.load(Relaxed) => {}
                    // The write that makes a file too large fails.
                    SIGXFSZ => {}
                    _ => interrupted(),
                }
            }
        })
        .map_err(failed)?;
    Ok(())
}

/// A signal that was a request to stop.
#[derive(Clone, Copy, Debug)]
struct Asked {
    signal: i32,
    at: Instant,
}

impl Asked {
    /// Whether `signal` is this one once more: `timeout` sends it to the program and to the group
    /// in which the program is.
    fn is_meant_by(self, signal: i32, now: Instant) -> bool {
        signal == self.signal && now.duration_since(self.at) < AT_ONCE
    }
}

/// Longer than a program takes to send a signal twice, shorter than a user takes.
const AT_ONCE: Duration = Duration::from_millis(100);

/// The signals that were blocked when the program started.
static MASK_BEFORE: OnceLock<SigSet> = OnceLock::new();

/// Calls `work`, which starts another program: with the signals blocked that were when this one
/// started, and not those that [`handle_signals`] has blocked.
pub(crate) fn unblocked<T>(work: impl FnOnce() -> T) -> T {
    let own = MASK_BEFORE
        .get()
        .and_then(|before| before.thread_swap_mask(SigmaskHow::SIG_SETMASK).ok());
    let done = work();
    if let Some(own) = own {
        let _ = own.thread_set_mask();
    }
    done
}

/// Bit *n* − 1 is set when signal *n* is ignored. Nothing is, as far as can be
/// known, where /proc is missing.
fn ignored_signals() -> u64 {
    let Ok(status) = fs::read_to_string("/proc/self/status") else {
        return 0;
    };
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

/// Time for the last words, which a reader that reads no more could hold up.
const LAST_WORDS: Duration = Duration::from_millis(200);

fn interrupted() -> ! {
    if let Some(prompt) = lock(&TERMINAL).take() {
        prompt.set(&prompt.before);
    }
    // Held until the end, so that nothing new appears.
    let _held = temporary::remove_all();
    // The newline ends a prompt or a progress bar.
    let words = if *lock(&LINE_OPEN) {
        "\nluxor: interrupted"
    } else {
        "luxor: interrupted"
    };
    let (said, done) = mpsc::channel();
    let _ = thread::Builder::new().spawn(move || {
        say(words);
        said.send(())
    });
    let _ = done.recv_timeout(LAST_WORDS);
    // Not `std::process::exit`, which could wait for a lock that another thread holds.
    low_level::exit(INTERRUPTED.into())
}

fn continued() {
    if let Some(prompt) = &*lock(&TERMINAL) {
        prompt.set(&prompt.silent);
    }
}

/// A terminal that is being asked on.
struct Prompt {
    tty: File,
    before: Termios,
    silent: Termios,
}

impl Prompt {
    /// Throws away what was typed and not read: half a passphrase is not for the
    /// shell. Then sets `state`, without waiting for a terminal that is held up.
    ///
    /// Nothing in the background: a terminal that the shell has taken back is not
    /// ours to change, and the attempt would stop the process.
    fn set(&self, state: &Termios) {
        if tcgetpgrp(&self.tty).is_ok_and(|foreground| foreground != getpgrp()) {
            return;
        }
        forget_typed(&self.tty);
        let _ = termios::tcsetattr(&self.tty, SetArg::TCSANOW, state);
    }
}

/// While this lives, the first SIGINT, SIGTERM or SIGHUP is a request to stop; the second
/// ends the program at once, as does every other signal. The same one within a tenth of a second
/// is no second one.
#[derive(Debug)]
pub(crate) struct StopOnSignal(());

impl StopOnSignal {
    /// `stop` is called by the thread that waits for signals, which it must not hold up.
    #[must_use]
    pub(crate) fn new(stop: impl FnOnce() + Send + 'static) -> Self {
        *lock(&STOP) = Some(Box::new(stop));
        Self(())
    }
}

impl Drop for StopOnSignal {
    fn drop(&mut self) {
        *lock(&STOP) = None;
    }
}

static STOP: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);
static TERMINAL: Mutex<Option<Prompt>> = Mutex::new(None);
static LINE_OPEN: Mutex<bool> = Mutex::new(false);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The controlling terminal.
///
/// # Errors
/// When there is none.
pub(crate) fn terminal() -> io::Result<File> {
    File::options().read(true).write(true).open("/dev/tty")
}

/// Says that the cursor stands behind a prompt or a progress bar.
#[derive(Debug)]
pub(crate) struct OpenLine(());

impl OpenLine {
    /// From now until dropped.
    #[must_use]
    pub(crate) fn begin() -> Self {
        *lock(&LINE_OPEN) = true;
        Self(())
    }
}

impl Drop for OpenLine {
    fn drop(&mut self) {
        *lock(&LINE_OPEN) = false;
    }
}

/// A terminal that does not show what is typed, until this is dropped or a
/// signal ends the program.
#[derive(Debug)]
pub(crate) struct EchoOff(());

impl EchoOff {
    /// Switches the echo of `tty` off; the newline at the end is still shown.
    ///
    /// # Errors
    /// When `tty` is no terminal.
    pub(crate) fn on(tty: &File) -> io::Result<Self> {
        let before = termios::tcgetattr(tty)?;
        let mut silent = before.clone();
        silent.local_flags.remove(LocalFlags::ECHO);
        silent.local_flags.insert(LocalFlags::ECHONL);
        // First remembered, then changed: a signal in between must find it.
        *lock(&TERMINAL) = Some(Prompt {
            tty: tty.try_clone()?,
            before,
            silent: silent.clone(),
        });
        let guard = Self(());
        termios::tcsetattr(tty, SetArg::TCSAFLUSH, &silent)?;
        Ok(guard)
    }
}

/// Throws away what was typed on `tty` and not read.
pub(crate) fn forget_typed(tty: &File) {
    let _ = termios::tcflush(tty, FlushArg::TCIFLUSH);
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        if let Some(prompt) = lock(&TERMINAL).take() {
            let _ = termios::tcsetattr(&prompt.tty, SetArg::TCSADRAIN, &prompt.before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_is_sent_twice_at_once_is_one() {
        let at = Instant::now();
        let asked = Asked {
            signal: SIGTERM,
            at,
        };
        for (signal, later, is_one) in [
            (SIGTERM, 0, true),
            (SIGTERM, 99, true),
            (SIGTERM, 100, false),
            (SIGINT, 0, false),
        ] {
            let now = at + Duration::from_millis(later);
            assert_eq!(asked.is_meant_by(signal, now), is_one, "{signal} {later}");
        }
    }
}
