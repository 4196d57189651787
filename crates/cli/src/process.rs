// SPDX-License-Identifier: MIT OR Apache-2.0
//! Process-wide settings: no traces of secrets outside the process's memory, and a clean end when a
//! signal arrives.
//!
//! A separate thread waits for signals and ends the process, whatever the other threads are doing:
//! Argon2 and a read from a pipe cannot be interrupted. While a volume is served, the first signal
//! asks the server to stop and the second ends the process. Output files have no name until they
//! are complete, so nothing is left behind. The few files that do have a name are registered with
//! `temporary`. All signals that end a program are handled in this way, except those of faults.

use std::{
    env,
    fs::{self, File},
    io::{self, Write},
    process::{self, Command},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use luxor::{
    files::{open, standard_streams, temporary},
    secret::harden_process,
};
use nix::{
    libc::{
        SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGIO, SIGPIPE, SIGPROF, SIGPWR, SIGQUIT, SIGRTMAX,
        SIGRTMIN, SIGSTKFLT, SIGSTOP, SIGTERM, SIGTSTP, SIGURG, SIGUSR1, SIGUSR2, SIGVTALRM,
        SIGXCPU, SIGXFSZ,
    },
    sys::{
        prctl,
        signal::{self, SigSet, SigmaskHow, Signal},
        termios::{self, FlushArg, LocalFlags, SetArg, Termios},
    },
    unistd::{Pid, getpgrp, getppid, tcgetpgrp},
};
use signal_hook::{iterator::Signals, low_level};

use crate::{
    console::{Console, say},
    error::{Error, INTERRUPTED, Result},
};

/// The name of a process of this program.
pub(crate) const NAME: &str = "luxor";

/// Returns the command that starts this program again, even if another one has its path by now.
pub(crate) fn this_program() -> Command {
    Command::new("/proc/self/exe")
}

/// Whether the parent of this process has started it with the environment variable `name`, whose value
/// begins with the parent's process ID. A process that inherits the variable has another parent.
pub(crate) fn is_started_by_parent(name: &str) -> bool {
    let value = env::var(name).unwrap_or_default();
    let parent = value.split(' ').next().and_then(|id| id.parse().ok());
    parent == Some(getppid().as_raw())
}

/// Gives this process its name in place of `exe`, which it has from the path in [`this_program`]. For the
/// main thread.
pub(crate) fn take_name() {
    // Best effort: programs such as `pgrep` show it.
    let _ = prctl::set_name(c"luxor");
}

/// Protects the process before a secret is read. Best effort: each refusal of the system is noted.
pub(crate) fn harden(console: Console) {
    for refused in harden_process() {
        console.note(refused.to_string());
    }
}

/// Every signal that can be caught and would end the program, except those of faults.
const ENDING: [i32; 14] = [
    SIGHUP, SIGINT, SIGTERM, SIGQUIT, SIGALRM, SIGIO, SIGPROF, SIGPWR, SIGSTKFLT, SIGUSR1, SIGUSR2,
    SIGVTALRM, SIGXCPU, SIGXFSZ,
];

/// Whether SIGUSR1 prints statistics instead of ending the program.
pub(crate) static SIGUSR1_ASKS: AtomicBool = AtomicBool::new(false);

/// Starts the thread that ends the program on a signal of [`ENDING`] or a real-time signal. While a
/// [`StopOnSignal`] lives, SIGINT, SIGTERM and SIGHUP ask for a clean stop instead.
///
/// The thread ends the program whatever the other threads are doing: Argon2 cannot be interrupted,
/// and a read from a pipe may block for ever. Outputs without a name vanish with the process. Those
/// with a name are removed by [`Temporary`](luxor::files::temporary::Temporary).
///
/// A signal that was ignored when the program started stays ignored (`nohup`, background jobs of a
/// script). SIGTSTP (Ctrl-Z) at a prompt gives the terminal back to the shell with its echo, and
/// SIGCONT switches the echo off again and repeats the prompt.
///
/// No other thread receives these signals. To call a handler, the kernel saves all registers of the
/// thread on its stack, and in a thread that handles keys they may contain parts of them. A new
/// thread inherits the set of blocked signals, so this must run before any other thread starts.
/// Programs inherit it too: see [`unblocked`].
///
/// # Errors
/// Fails when the handlers cannot be installed.
pub(crate) fn handle_signals() -> Result<()> {
    let ignored = ignored_signals();
    let wanted = ENDING
        .into_iter()
        .chain([SIGCONT, SIGTSTP])
        .chain(SIGRTMIN()..=SIGRTMAX())
        .filter(|signal| ignored >> (signal - 1) & 1 == 0)
        .chain([JOB_SIGNAL]);
    let failed = |error| Error::io("cannot install the signal handlers", &error);
    // Signals of faults, which Rust handles, are blocked too: a fault of the thread itself still
    // ends the program. SIGTTIN and SIGTTOU stay unblocked. They have no handler, and stop a
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
                    JOB_SIGNAL => {
                        let job = lock(&SIGNALS_JOB).take();
                        job.into_iter().for_each(Job::run);
                    }
                    SIGCONT => continued(),
                    SIGTSTP => stop(),
                    SIGINT | SIGTERM | SIGHUP => {
                        let now = Instant::now();
                        let stop = lock(&STOP).take();
                        if let Some(stop) = stop {
                            stop(signal);
                            asked = Some(Asked { signal, at: now });
                        } else if !asked.is_some_and(|asked| asked.is_meant_by(signal, now)) {
                            interrupted();
                        }
                    }
                    SIGUSR1 if SIGUSR1_ASKS.load(Relaxed) => {}
                    // Ignored: the write that exceeds the file size limit fails instead.
                    SIGXFSZ => {}
                    _ => interrupted(),
                }
            }
        })
        .map_err(failed)?;
    Ok(())
}

/// Wakes the thread that waits for signals, for a job. Nothing else sends it, and without a handler it is
/// ignored.
const JOB_SIGNAL: i32 = SIGURG;

/// A job for a thread that otherwise only waits. `done` is dropped once it is done.
struct Job {
    work: Arc<dyn Fn() + Send + Sync>,
    _done: Sender<()>,
}

impl Job {
    fn run(self) {
        (self.work)();
    }
}

static SIGNALS_JOB: Mutex<Option<Job>> = Mutex::new(None);
static FIRST_THREAD: Mutex<Option<Sender<Job>>> = Mutex::new(None);

/// Has the threads that wait as long as the process lives do `work`, and waits until they have. These are the
/// one for signals and, if another one does everything, the first.
pub(crate) fn on_waiting_threads(work: &Arc<dyn Fn() + Send + Sync>) {
    let (sender, done) = mpsc::channel();
    let job = || Job {
        work: Arc::clone(work),
        _done: sender.clone(),
    };
    *lock(&SIGNALS_JOB) = Some(job());
    let is_woken = signal::kill(Pid::this(), Signal::SIGURG).is_ok();
    if !is_woken {
        *lock(&SIGNALS_JOB) = None;
    }
    if let Some(first) = &*lock(&FIRST_THREAD) {
        let _ = first.send(job());
    }
    drop(sender);
    // It fails when all jobs are done.
    let _ = done.recv();
}

/// The jobs of the first thread, which waits for the thread that does everything.
pub(crate) struct Jobs(Receiver<Job>);

/// Ends the jobs of the first thread when dropped.
pub(crate) struct EndOfJobs(());

/// Prepares jobs for this thread, which does them until the end is dropped.
pub(crate) fn jobs_of_first_thread() -> (Jobs, EndOfJobs) {
    let (sender, jobs) = mpsc::channel();
    *lock(&FIRST_THREAD) = Some(sender);
    (Jobs(jobs), EndOfJobs(()))
}

impl Jobs {
    pub(crate) fn run(self) {
        self.0.into_iter().for_each(Job::run);
    }
}

impl Drop for EndOfJobs {
    fn drop(&mut self) {
        *lock(&FIRST_THREAD) = None;
    }
}

/// A signal that has already been taken as a request to stop.
#[derive(Clone, Copy, Debug)]
struct Asked {
    signal: i32,
    at: Instant,
}

impl Asked {
    /// Whether `signal` is a duplicate of this one: `timeout` sends it to the program and again to
    /// the program's group.
    fn is_meant_by(self, signal: i32, now: Instant) -> bool {
        signal == self.signal && now.duration_since(self.at) < AT_ONCE
    }
}

/// Longer than a program needs to send a signal twice, shorter than a user needs.
const AT_ONCE: Duration = Duration::from_millis(100);

/// The signals that were blocked when the program started.
static MASK_BEFORE: OnceLock<SigSet> = OnceLock::new();

/// Calls `work`, which starts another program, with the signal mask that this program was started
/// with instead of the one of [`handle_signals`].
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

/// Keeps what was passed on to this process, such as the descriptor of a passphrase, from the programs that
/// it starts from now on.
///
/// # Errors
/// Those of the system.
pub(crate) fn keep_descriptors() -> Result<()> {
    let kept = standard_streams::keep_from_children();
    kept.map_err(|error| Error::io("cannot close descriptors for other programs", &error))
}

/// Returns a mask with bit *n* − 1 set when signal *n* is ignored. Without /proc it assumes that no
/// signal is ignored.
fn ignored_signals() -> u64 {
    let Ok(status) = fs::read_to_string("/proc/self/status") else {
        return 0;
    };
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

/// The time limit for the last message: a reader that does not read could delay it for ever.
const LAST_WORDS: Duration = Duration::from_millis(200);

fn interrupted() -> ! {
    let _until_then = hold();
    if let Some(prompt) = lock(&TERMINAL).take() {
        prompt.set(&prompt.before);
    }
    // Held until the process ends, so that no new temporary file appears.
    let _held = temporary::remove_all();
    // The newline ends the line of a prompt or a progress bar.
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
    // `std::process::exit` could wait for a lock that another thread holds.
    low_level::exit(INTERRUPTED.into())
}

/// Ends the program like a filter whose reader has gone: by SIGPIPE, without a message. A shell with
/// `pipefail` sees that the output is not whole.
pub(crate) fn end_by_sigpipe() -> ! {
    let _until_then = hold();
    let _held = temporary::remove_all();
    let _ = low_level::emulate_default_handler(SIGPIPE);
    low_level::exit(128 + SIGPIPE)
}

/// Stops the process, as SIGTSTP does without a handler. Before that a prompt restores the echo, which
/// the shell may not do.
fn stop() {
    if is_orphaned() {
        return;
    }
    if let Some(prompt) = &*lock(&TERMINAL) {
        prompt.set(&prompt.before);
    }
    let _ = low_level::raise(SIGSTOP);
}

/// Whether no shell could continue this process if it stopped. The kernel ignores SIGTSTP in such a
/// process group: one in which no process has a parent in another group of the same session.
fn is_orphaned() -> bool {
    let group = getpgrp().as_raw();
    let Some((_, _, session)) = parent_group_and_session(process::id()) else {
        return false;
    };
    let mut id = process::id();
    while let Some((parent, _, _)) = parent_group_and_session(id) {
        match parent_group_and_session(parent) {
            Some((_, other, _)) if other == group => id = parent,
            Some((_, _, other)) => return other != session,
            None => return true,
        }
    }
    true
}

/// Returns these fields of `/proc/ID/stat` (`proc_pid_stat(5)`).
fn parent_group_and_session(id: u32) -> Option<(u32, i32, i32)> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name of the program, in brackets, may contain anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(1);
    Some((
        fields.next()?.parse().ok()?,
        fields.next()?.parse().ok()?,
        fields.next()?.parse().ok()?,
    ))
}

fn continued() {
    if let Some(prompt) = &*lock(&TERMINAL) {
        prompt.set(&prompt.silent);
        // On a thread of its own, because Ctrl-S may keep the terminal from taking it.
        if let Ok(mut tty) = prompt.tty.try_clone() {
            let question = prompt.question.clone();
            let _ = thread::Builder::new().spawn(move || tty.write_all(question.as_bytes()));
        }
    }
}

/// The terminal of a prompt, with its states before and during the prompt.
struct Prompt {
    tty: File,
    question: String,
    before: Termios,
    silent: Termios,
}

impl Prompt {
    /// Discards typed and unread bytes, so that the shell does not get half a passphrase. Then sets
    /// `state`, without waiting for a blocked terminal.
    ///
    /// Does nothing in the background: the shell has taken the terminal back, and an attempt to
    /// change it would stop the process.
    fn set(&self, state: &Termios) {
        if tcgetpgrp(&self.tty).is_ok_and(|foreground| foreground != getpgrp()) {
            return;
        }
        forget_typed(&self.tty);
        let _ = termios::tcsetattr(&self.tty, SetArg::TCSANOW, state);
    }
}

/// While this lives, the first SIGINT, SIGTERM or SIGHUP asks for a stop. The second one, or any
/// other signal, ends the program at once. The same signal within a tenth of a second counts as
/// one.
#[derive(Debug)]
pub(crate) struct StopOnSignal(());

impl StopOnSignal {
    /// The thread that waits for signals calls `stop` with the number of the signal. It must not block.
    #[must_use]
    pub(crate) fn new(stop: impl FnOnce(i32) + Send + 'static) -> Self {
        *lock(&STOP) = Some(Box::new(stop));
        Self(())
    }
}

impl Drop for StopOnSignal {
    fn drop(&mut self) {
        *lock(&STOP) = None;
    }
}

/// Until the result is dropped, a signal that would end the program waits.
pub(crate) fn hold() -> MutexGuard<'static, ()> {
    lock(&HELD)
}

static HELD: Mutex<()> = Mutex::new(());
static STOP: Mutex<Option<Stop>> = Mutex::new(None);

/// Takes the number of the signal.
type Stop = Box<dyn FnOnce(i32) + Send>;

static TERMINAL: Mutex<Option<Prompt>> = Mutex::new(None);
static LINE_OPEN: Mutex<bool> = Mutex::new(false);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens the controlling terminal.
///
/// # Errors
/// Fails when there is none.
pub(crate) fn terminal() -> io::Result<File> {
    open("/dev/tty", File::options().read(true).write(true))
}

/// Marks that the cursor is behind a prompt or a progress bar.
#[derive(Debug)]
pub(crate) struct OpenLine(());

impl OpenLine {
    /// Sets the mark until dropped.
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

/// Switches the echo of a terminal off, until this is dropped or a signal ends the program.
#[derive(Debug)]
pub(crate) struct EchoOff(());

impl EchoOff {
    /// Switches the echo of `tty` off. The newline at the end is still shown. `question` is written
    /// again after a stop.
    ///
    /// # Errors
    /// Fails when `tty` is not a terminal.
    pub(crate) fn on(tty: &File, question: &str) -> io::Result<Self> {
        // Stops a process in the background. The state of the terminal is then the shell's own, and
        // must not be taken for the one to restore.
        termios::tcdrain(tty)?;
        let before = termios::tcgetattr(tty)?;
        let mut silent = before.clone();
        silent.local_flags.remove(LocalFlags::ECHO);
        silent.local_flags.insert(LocalFlags::ECHONL);
        // The state is stored before it is changed, so that a signal in between restores it.
        *lock(&TERMINAL) = Some(Prompt {
            tty: tty.try_clone()?,
            question: question.to_owned(),
            before,
            silent: silent.clone(),
        });
        let guard = Self(());
        termios::tcsetattr(tty, SetArg::TCSAFLUSH, &silent)?;
        Ok(guard)
    }
}

/// Discards bytes that were typed on `tty` and not read.
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
    fn a_signal_sent_twice_within_100_ms_counts_once() {
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
