// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--background`: the command returns as soon as programs can use what it serves.
//!
//! A process with threads and keys cannot go on in a fork of itself. So the command starts this program
//! again, with the same command line, which users see in messages and lists of processes, and waits.
//! The new process stays in the terminal's foreground while it asks for the secret and can fail. Once it
//! serves, it leaves the terminal and says so through its standard output, to which these commands write
//! nothing.

use std::{
    env,
    fs::File,
    io::{self, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{
            net::UnixStream,
            process::{CommandExt, ExitStatusExt},
        },
    },
    process::{Child, ExitStatus, exit},
    sync::{Mutex, PoisonError},
};

use luxor::files::open;
use nix::{
    errno::Errno,
    sys::{
        signal::{Signal, kill},
        stat::{SFlag, fstat},
    },
    unistd::{Pid, dup2_stderr, dup2_stdin, dup2_stdout, setsid},
};

use crate::{
    args::BackgroundArgs,
    error::{self, Error, INTERRUPTED, Result},
    log,
    process::{self, StopOnSignal, unblocked},
};

/// The environment variable with the process ID of the process that waits for this one. A child of this
/// process may inherit it, but has another parent.
const WAITING_PROCESS: &str = "LUXOR_WAITING_PROCESS";

/// The connection to the process that waits for this one.
static WAITING: Mutex<Option<Waiting>> = Mutex::new(None);

struct Waiting {
    connection: UnixStream,
    /// `/dev/null`, which a confined process cannot open.
    null: File,
}

/// Remembers who waits for this process, if [`start`] has started it.
///
/// # Errors
/// Those of the system.
pub(crate) fn take_connection() -> io::Result<()> {
    if !process::is_started_by_parent(WAITING_PROCESS) {
        return Ok(());
    }
    let waiting = io::stdout().as_fd().try_clone_to_owned()?;
    let null = open("/dev/null", File::options().read(true).write(true))?;
    // So that no program that this one starts holds the connection.
    dup2_stdout(&null)?;
    *waiting_process() = Some(Waiting {
        connection: UnixStream::from(waiting),
        null,
    });
    Ok(())
}

/// Does `work` in this process, or with `--background` in another one, and returns once
/// [`ready`] is called there.
///
/// # Errors
/// Those of `work`. With `--background` the other process has reported them, and its exit code is the
/// one of this process.
pub(crate) fn run(args: &BackgroundArgs, work: impl FnOnce() -> Result<()>) -> Result<()> {
    if args.background && waiting_process().is_none() {
        start()
    } else {
        work()
    }
}

/// Says that programs can use what this process serves. If another process waits for that, this one
/// leaves the terminal.
///
/// # Errors
/// Fails when the process that waits has ended, for example by a signal.
pub(crate) fn ready() -> Result<()> {
    let Some(mut waiting) = waiting_process().take() else {
        return Ok(());
    };
    let mut leave = || {
        // Fails only for the leader of a process group, which already has left the others.
        let _ = setsid();
        dup2_stdin(&waiting.null)?;
        if !is_log(io::stderr())? {
            dup2_stderr(&waiting.null)?;
        }
        waiting.connection.write_all(&[0])
    };
    leave().map_err(|error| Error::io("cannot go on in the background", &error))
}

/// Whether messages for `stream` are for later: a pipe or a terminal is for the command that is typed now.
fn is_log(stream: impl AsFd) -> io::Result<bool> {
    let kind = SFlag::from_bits_truncate(fstat(&stream)?.st_mode) & SFlag::S_IFMT;
    Ok(kind == SFlag::S_IFREG || log::is_journal(&stream))
}

fn waiting_process() -> std::sync::MutexGuard<'static, Option<Waiting>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start() -> Result<()> {
    let failed = |error: io::Error| Error::io("cannot start a process", &error);
    let (mut ours, theirs) = UnixStream::pair().map_err(failed)?;
    let mut child = spawn(theirs).map_err(failed)?;
    let id = child.id();
    // Ctrl-C reaches both processes. The child takes the second of two equal signals for the first.
    let _signals = StopOnSignal::new(move |signal| {
        let id = id.try_into().map(Pid::from_raw);
        if let (Ok(id), Ok(signal)) = (id, Signal::try_from(signal)) {
            let _ = kill(id, signal);
        }
    });
    if ours.read_exact(&mut [0]).is_ok() {
        return Ok(());
    }
    match child.wait() {
        // It has reported its error.
        Ok(status) => exit(code(status).into()),
        // The kernel discards the exit status if this program was started with SIGCHLD ignored.
        Err(error) if error.raw_os_error() == Some(Errno::ECHILD as i32) => Err(error::silent()),
        Err(error) => Err(failed(error)),
    }
}

/// Starts this program again, with the connection `waiting` as its standard output.
fn spawn(waiting: UnixStream) -> io::Result<Child> {
    let mut line = env::args_os();
    let mut program = process::this_program();
    program.arg0(line.next().unwrap_or_else(|| process::NAME.into()));
    program.args(line).stdout(OwnedFd::from(waiting));
    program.env(WAITING_PROCESS, std::process::id().to_string());
    unblocked(|| program.spawn())
}

/// The exit code for a process that has ended before it could be used.
fn code(status: ExitStatus) -> u8 {
    match status.code() {
        // A signal stopped it cleanly.
        Some(0) => INTERRUPTED,
        Some(code) => u8::try_from(code).unwrap_or(1),
        None => u8::try_from(128 + status.signal().unwrap_or(0)).unwrap_or(1),
    }
}
