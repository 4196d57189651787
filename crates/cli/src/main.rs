// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor`: encrypts files, images and disks into LUKS volumes, and back.

#![deny(unsafe_code)]

mod args;
mod commands;
mod confirm;
mod console;
mod contents;
mod cryptsetup;
mod error;
mod export;
mod listen;
mod new_volume;
mod pid_file;
mod process;
mod progress;
mod secrets;
mod stats;
mod volume;

use std::{env, process::ExitCode};

use clap::error::ErrorKind;
use luxor_engine::SecretBytes;
use luxor_files::standard_streams;

use crate::{
    args::{Cli, Command},
    console::{Console, say},
    error::{Error, Result},
};

fn main() -> ExitCode {
    if let Err(error) = standard_streams::keep_closed() {
        return failed(&Error::io("cannot keep a closed stream closed", &error));
    }
    let line: Vec<_> = env::args_os().collect();
    let line = match cryptsetup::translate(&line) {
        Ok(translated) => translated.unwrap_or(line),
        Err(error) => return failed(&error),
    };
    let cli = match args::parse(line) {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &Error) -> ExitCode {
    if let Some(lines) = error::lines(error) {
        say(&lines);
    }
    error::exit_code(error).into()
}

fn run(cli: &Cli) -> Result<()> {
    process::handle_signals()?;
    let console = Console::new(&cli.global);
    SecretBytes::at_first_refused_lock(move || {
        console.note("memory for secrets could not be locked (see `ulimit -l`)");
    });
    luxor::engines::check(&cli.global.context(console))?;
    if cli.global.progress_json {
        console::check()?;
    }
    match &cli.command {
        Command::Encrypt(args) => commands::encrypt::run(args, &cli.global, console),
        Command::Decrypt(args) => commands::decrypt::run(args, &cli.global, console),
        Command::Format(args) => commands::format::run(args, &cli.global, console),
        Command::Dump(args) => commands::dump::run(args, &cli.global, console),
        Command::Check(args) => commands::check::run(args, &cli.global, console),
        Command::Header(args) => commands::header::run(args, &cli.global, console),
        Command::Convert(args) => commands::convert::run(args, &cli.global, console),
        Command::Erase(args) => commands::erase::run(args, &cli.global, console),
        Command::Key(args) => commands::key::run(args, &cli.global, console),
        Command::Token(args) => commands::token::run(args, &cli.global, console),
        Command::Config(args) => commands::config::run(args, &cli.global, console),
        Command::Uuid(args) => commands::identify::uuid(args, &cli.global, console),
        Command::IsLuks(args) => commands::identify::is_luks(args, &cli.global, console),
        Command::Mount(args) => commands::mount::run(args, &cli.global, console),
        Command::Serve(args) => commands::serve::run(args, &cli.global, console),
        Command::Raw(args) => commands::raw::run(args, &cli.global, console),
        Command::Engines(args) => commands::engines::run(args, &cli.global, console),
        Command::Bench(args) => commands::bench::run(args, &cli.global),
        Command::Report(args) => commands::bench::report(args, &cli.global),
        Command::Completions(args) => commands::generate::completions(args),
        Command::Man(args) => commands::generate::man(args),
    }
}

/// What the parser has to say: help and version on standard output with exit
/// code 0, everything else on standard error with exit code 1.
fn usage(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Clap's own printing knows about colours.
            match console::print_with(|_| error.print()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => failed(&error),
            }
        }
        _ => {
            let text = error.render().to_string();
            say(match text.strip_prefix("error: ") {
                Some(_) => text.replacen("error: ", "luxor: ", 1),
                None => text,
            }
            .trim_end());
            ExitCode::FAILURE
        }
    }
}
