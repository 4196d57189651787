// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor-bench` measures the throughput of Luxor's kernels, and compares it with the machine's own
//! limit and with other libraries. `luxor bench` and `luxor report` run this program, so that a
//! build of `luxor` does not include the rivals.

// Unsafe code: the limit loops (`limit`), and the calls to other libraries (`rivals`) and to
// devices (`devices`).
#![deny(unsafe_code)]

mod args;
mod bench;
#[path = "../../crates/cli/src/bench_names.rs"]
mod bench_names;
mod benches;
mod block;
mod cipher;
mod committed;
mod compare;
mod coprocessor;
mod cpu;
mod devices;
mod disk;
mod disturbance;
mod file;
mod fio;
mod gpu;
mod limit;
mod machine;
mod neighbour;
mod page;
mod papers;
mod plaintext;
mod plot;
mod program;
mod reencrypt;
mod report;
mod results;
mod rivals;
mod section;
mod server;
mod settings;
mod size;
mod stats;
mod summary;
mod terminal;
mod unlock;

use std::{fs, process::ExitCode};

use clap::{ArgMatches, error::ErrorKind};

use crate::{args::Args, bench::Context, compare::Record, disturbance::QuickLook, report::Report};

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    // Internal modes, in which this program starts itself.
    if let [_, mark, rest @ ..] = words.as_slice() {
        match mark.to_str() {
            Some(program::CHILD) => return program::child(rest),
            Some(server::STAY) => return server::stay(rest),
            Some(disk::SERVE) => return disk::serve(rest),
            Some(results::WRITE) => return results::write(rest),
            Some(reencrypt::COPY) => return reencrypt::copy(rest),
            _ => {}
        }
    }
    let (args, matches) = match args::parse(words, benches::ALL) {
        Ok(parsed) => parsed,
        Err(error) => {
            let _ = error.print();
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
                // The same exit code as `luxor`.
                _ => ExitCode::FAILURE,
            };
        }
    };
    match run(&args, &matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("luxor-bench: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args, matches: &ArgMatches) -> Result<(), String> {
    if args.report.is_some() && args.report == args.json_path() {
        return Err(
            "the page's name ends in .json, which is the name of the JSON beside it".to_owned(),
        );
    }
    for path in args.outputs() {
        report::can_be_written(&path)?;
    }
    if let Some(folder) = &args.plots {
        fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    if let Some(path) = &args.from {
        let report = Report::read(path)?;
        if args.report.is_none() && args.plots.is_none() {
            print!("{}{}", report.text(args.verbose), report.summary());
        }
        return show(&report, args);
    }
    measure(args, matches)
}

/// Measures the requested benches, and writes the results where they are wanted.
fn measure(args: &Args, matches: &ArgMatches) -> Result<(), String> {
    let rivals = rivals::all().leak();
    let mut report = Report::begin(rivals);
    if args.record.is_some() {
        report.may_be_recorded()?;
    }
    // Read the record first, so that an error does not cost minutes of measuring.
    let record = args.compare.as_deref().map(Record::read).transpose()?;
    let settings = args.settings.clone();
    let context = Context { settings, rivals };
    let mut benches = Vec::new();
    for bench in benches::ALL.iter().filter(|bench| args.wants(bench)) {
        match (bench.check)(&context, matches) {
            Ok(()) => benches.push(bench),
            Err(reason) if args.report.is_some() => report.is_absent(bench, reason),
            Err(reason) => return Err(reason),
        }
    }
    let quick = (args.settings.quick && args.has_all()).then(QuickLook::begin);
    if let Some(warning) = quick.as_ref().and_then(|_| QuickLook::warning()) {
        eprintln!("luxor-bench: {warning}");
    }
    let mut text = report.head();
    print!("{text}");
    let mut stopped = Vec::new();
    for bench in benches {
        match bench.measure(&context, matches) {
            Ok(outcome) => {
                let said = |verbose| format!("\n{}", terminal::text(&outcome.section, verbose));
                print!("{}", said(args.verbose));
                text += &said(true);
                report.add(bench, outcome);
            }
            // The page shows the other benches, and the error of this one.
            Err(reason) if args.report.is_some() => {
                eprintln!("luxor-bench: {}: {reason}", bench.name);
                report.is_absent(bench, format!("It stopped with an error: {reason}"));
                stopped.push(bench.name);
            }
            Err(reason) => return Err(reason),
        }
    }
    if let Some(path) = args.json_path() {
        report.write(&path)?;
    }
    if let Some(record) = &record {
        let now = serde_json::to_value(&report).map_err(|e| e.to_string())?;
        let compared = record.compare(&now);
        print!("{compared}");
        text += &compared;
    }
    if let Some(records) = &args.record {
        let written = report.record(records, &text)?;
        eprintln!("recorded: {}", written.display());
    }
    show(&report, args)?;
    print!("{}", report.summary());
    if let Some(took) = quick.and_then(|quick| quick.end()) {
        eprintln!("luxor-bench: {took}");
    }
    match stopped.as_slice() {
        [] => Ok(()),
        names => Err(format!("stopped with an error: {}", names.join(", "))),
    }
}

/// Writes the page and the plots, if requested.
fn show(report: &Report, args: &Args) -> Result<(), String> {
    if let Some(path) = &args.report {
        report::write(path, &report.page()?)?;
        eprintln!("written: {}", path.display());
    }
    if let Some(folder) = &args.plots {
        for (name, svg) in report.pictures()? {
            report::write(&folder.join(name), &svg)?;
        }
    }
    Ok(())
}
