// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor-bench`: throughput of the kernels beside the machine's own limit and
//! other libraries. `luxor bench` runs this program.

// Unsafe are the limit loops (`limit`) and the calls into other libraries (`rivals`).
#![deny(unsafe_code)]

mod args;
mod cipher;
mod cpu;
mod file;
mod limit;
mod machine;
mod program;
mod report;
mod rivals;
mod size;
mod stats;
mod unlock;

use std::process::ExitCode;

use clap::error::ErrorKind;

use crate::{
    args::{Args, Bench},
    report::Report,
};

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    if words.get(1).is_some_and(|word| word == program::CHILD) {
        return program::child(&words[2..]);
    }
    let args = match args::parse(words) {
        Ok(args) => args,
        Err(error) => {
            let _ = error.print();
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
                // As `luxor` has it.
                _ => ExitCode::FAILURE,
            };
        }
    };
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("luxor-bench: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    let rivals = rivals::all();
    let mut report = Report::begin(&rivals);
    if args.record.is_some() {
        report.may_be_recorded()?;
    }
    // Not after minutes of measuring, which would be lost.
    if args.benches().contains(&Bench::File) {
        file::check_room(&args.file()?)?;
    }
    if let Some(path) = &args.json {
        report::can_be_written(path)?;
    }
    let mut text = report.head();
    print!("{text}");
    for bench in args.benches() {
        let table = match bench {
            Bench::Cpu => {
                let cpu = cpu::measure(&args.cpu(&rivals))?;
                format!("\n{}", report.cpu.insert(cpu).text())
            }
            Bench::File => {
                let file = file::measure(&args.file()?)?;
                format!("\n{}", report.file.insert(file).text())
            }
            Bench::Unlock => {
                let unlock = unlock::measure(&args.unlock()?)?;
                format!("\n{}", report.unlock.insert(unlock).text())
            }
        };
        print!("{table}");
        text += &table;
    }
    if let Some(path) = &args.json {
        report.write(path)?;
    }
    if let Some(records) = &args.record {
        let written = report.record(records, &text)?;
        eprintln!("recorded: {}", written.display());
    }
    Ok(())
}
