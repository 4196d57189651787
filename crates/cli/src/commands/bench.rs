// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor bench` and `luxor report` run the program `luxor-bench`. It is a separate package, so
//! that building `luxor` does not build the libraries that it is compared with.

use std::{
    env, io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

use luxor::files::path_name;

use crate::{
    args::{BenchArgs, ReportArgs},
    context::Context,
    error::{Error, Result},
    process::unblocked,
};

const PROGRAM: &str = "luxor-bench";

/// Replaces this process by `luxor-bench`, which then sets the exit code and receives signals
/// itself.
///
/// # Errors
/// Fails when the program cannot be found or started.
pub(crate) fn run(args: &BenchArgs, context: &Context) -> Result<()> {
    become_program(context, |command| {
        if let Some(size) = &args.size {
            command.args(["--size", size]);
        }
        if args.quick {
            command.arg("--quick");
        }
        if let Some(json) = &args.json {
            command.arg("--json").arg(json);
        }
        // `--` may come before its options.
        command.args(args.names.iter().filter(|word| *word != "--"));
    })
}

/// As [`run`], for `luxor report`.
///
/// # Errors
/// Those of [`run`].
pub(crate) fn report(args: &ReportArgs, context: &Context) -> Result<()> {
    become_program(context, |command| {
        command.arg("--report").arg(&args.output);
        if args.quick {
            command.arg("--quick");
        }
        command.args(args.others.iter().filter(|word| *word != "--"));
    })
}

fn become_program(context: &Context, arguments: impl FnOnce(&mut Command)) -> Result<()> {
    let own = env::current_exe().map_err(|e| Error::io("cannot find this program's file", &e))?;
    let program = find(&own).ok_or_else(|| {
        Error::failure(format!(
            "cannot find the program {PROGRAM}, neither beside {} nor on PATH",
            path_name(&own)
        ))
        .hint(
            "In Luxor's source, `cargo build --release --package luxor-bench` builds it, and \
             `cargo xtask bench` builds and runs it together with its rivals OpenSSL and AWS-LC.",
        )
    })?;
    let mut command = Command::new(&program);
    command.arg("--luxor").arg(&own);
    if context.options.engine != "auto" {
        command.args(["--engine", &context.options.engine]);
    }
    if let Some(threads) = context.options.threads {
        command.args(["--threads", &threads.to_string()]);
    }
    arguments(&mut command);
    // `exec` returns only if it fails.
    let error: io::Error = unblocked(|| command.exec());
    Err(Error::io(
        format!("cannot run {}", path_name(&program)),
        &error,
    ))
}

/// Finds the program beside this one, where `cargo` and packages install it, or on `PATH`.
fn find(own: &Path) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    own.parent()
        .map(Path::to_owned)
        .into_iter()
        .chain(env::split_paths(&path))
        // An empty entry of `PATH` would mean the current folder.
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(PROGRAM))
        .find(|file| file.is_file())
}
