// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor`: encrypts files, images and disks into LUKS volumes, and decrypts them.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![warn(unreachable_pub)]

mod advice;
mod args;
mod background;
mod bench_names;
mod commands;
mod confinement;
mod confirm;
mod console;
mod context;
mod cryptsetup;
mod error;
mod export;
mod frontend;
mod keyring;
mod listen;
mod log;
mod mount_error;
mod mounted_files;
mod mounts;
mod new_volume;
mod notify;
mod pid_file;
mod private_folder;
mod process;
mod progress;
mod secrets;
mod stats;
mod subject;
mod unmounting;
mod volume;

use std::{
    borrow::Cow,
    env,
    io::{self, IsTerminal},
    process::ExitCode,
    thread,
};

use clap::error::ErrorKind;
use luxor::{
    files::{bounded, standard_streams},
    secret::{SecretBytes, set_default_stack},
};
use nix::sys::resource::{Resource, getrlimit};

use crate::{
    commands::Cli,
    console::{complain, say},
    context::Context,
    cryptsetup::Form,
    error::{Error, Result},
};

/// A stack on which everything runs, in bytes: the usual limit. The parser alone needs more than 100 kB.
const STACK: usize = 8 << 20;

fn main() -> ExitCode {
    if let Err(error) = standard_streams::keep_closed() {
        return failed(&Error::io("cannot keep a closed stream closed", &error));
    }
    process::take_name();
    let helped = unmounting::run_if_started().or_else(mounted_files::run_helper_if_started);
    if let Some(code) = helped {
        return code;
    }
    // Before there is another thread, which inherits the blocked signals.
    if let Err(error) = process::handle_signals() {
        return failed(&error);
    }
    // `ulimit -s` may be less. Otherwise a second thread would only take address space.
    let is_short = getrlimit(Resource::RLIMIT_STACK).is_ok_and(|(soft, _)| soft < STACK as u64);
    if !is_short {
        return work();
    }
    // A driver's threads have their stacks from the limit too. Without this they work as far as they did.
    let _ = set_default_stack(STACK);
    let thread = thread::Builder::new().name("main".into());
    let (jobs, end_of_jobs) = process::jobs_of_first_thread();
    let work = move || {
        let _end = end_of_jobs;
        work()
    };
    match thread.stack_size(STACK).spawn(work) {
        Ok(thread) => {
            jobs.run();
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        }
        Err(error) => failed(&Error::io("cannot start a thread", &error)),
    }
}

fn work() -> ExitCode {
    let line: Vec<_> = env::args_os().collect();
    if let Err(error) = background::take_connection() {
        return failed(&Error::io("cannot go on in the background", &error));
    }
    let has_terminal = io::stdin().is_terminal();
    let translated = match cryptsetup::translate(&line, has_terminal) {
        Ok(translated) => translated,
        Err(error) => return failed(&error),
    };
    let form = translated.as_ref().map(|translated| Form {
        line: &line,
        translated,
        has_terminal,
    });
    let cli = match commands::parse(translated.as_ref().unwrap_or(&line)) {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let output_is_stdout = cli.command.output_is_stdout();
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if output_is_stdout && error::is_broken_pipe(&error) => {
            process::end_by_sigpipe()
        }
        Err(error) => {
            let form = form.and_then(|form| form.own_for(&error::hint(&error)?));
            failed_with(&error, form)
        }
    }
}

fn failed(error: &Error) -> ExitCode {
    failed_with(error, None)
}

/// As [`failed`], with another line.
fn failed_with(error: &Error, more: Option<String>) -> ExitCode {
    if let Some(lines) = error::lines(error) {
        let more = more.map_or_else(String::new, |more| format!("\n  {more}"));
        complain(&(lines + &more));
    }
    error::exit_code(error).into()
}

fn run(Cli { global, command }: Cli) -> Result<()> {
    let context = &Context::new(global, command.output_is_stdout());
    let console = context.console;
    SecretBytes::at_first_refused_lock(move || {
        console.note("memory for secrets could not be locked (see `ulimit -l`)");
    });
    luxor::engines::check(&context.library)?;
    if context.options.progress_json {
        console::check()?;
    }
    command.run(context)
}

/// What the standard library says about values that are not numbers, in plain words.
const NUMBERS: [(&str, &str); 3] = [
    ("invalid digit found in string", "not a whole number"),
    (
        "number too large to fit in target type",
        "the number is too large",
    ),
    (
        "cannot parse integer from empty string",
        "the number is missing",
    ),
];

/// Prints the parser's message: help and version on standard output with exit code 0, everything
/// else on standard error with exit code 1.
fn usage(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Clap's own printing supports colours.
            match console::print_with(|_| error.print()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => failed(&error),
            }
        }
        _ => {
            let mut text = error.render().ansi().to_string();
            for (standard, plain) in NUMBERS {
                text = text.replace(standard, plain);
            }
            for argument in env::args_os() {
                // Perhaps the contents of a file instead of its name.
                let argument = argument.to_string_lossy();
                let value = argument
                    .split_once('=')
                    .map_or(&*argument, |(_, value)| value);
                if let Cow::Owned(short) = bounded(value) {
                    text = text.replace(value, &short);
                }
            }
            match text.trim_end().split_once(' ') {
                // Clap's messages begin with this word, in colour.
                Some((word, message)) if word.contains("error:") => complain(message),
                _ => say(text.trim_end()),
            }
            ExitCode::FAILURE
        }
    }
}
