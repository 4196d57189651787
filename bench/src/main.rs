// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor-bench`: throughput of the kernels beside the machine's own limit and
//! other libraries. `luxor bench` runs this program.

// Unsafe are the limit loops (`limit`) and the calls into other libraries (`rivals`, `gpu`).
#![deny(unsafe_code)]

mod an_seo;
mod args;
mod block;
mod cipher;
mod compare;
mod cpu;
mod damjanovic;
mod demir;
mod device;
mod disk;
mod elmoghany;
mod file;
mod fio;
mod gpu;
mod limit;
mod machine;
mod page;
mod plaintext;
mod program;
mod report;
mod rivals;
mod sanida;
mod server;
mod size;
mod stats;
mod table_aes;
mod unlock;

use std::{fs, process::ExitCode};

use clap::error::ErrorKind;

use crate::{
    args::{Args, Bench},
    compare::Record,
    report::Report,
    rivals::Rival,
};

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    // What this program is besides, for its own use.
    if let [_, mark, rest @ ..] = words.as_slice() {
        match mark.to_str() {
            Some(program::CHILD) => return program::child(rest),
            Some(server::STAY) => return server::stay(rest),
            Some(disk::SERVE) => return disk::serve(rest),
            _ => {}
        }
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
    if args.report.is_some() && args.report == args.json_path() {
        return Err("the page's name ends in .json, which the JSON beside it has".to_owned());
    }
    for path in args.outputs() {
        report::can_be_written(&path)?;
    }
    if let Some(folder) = &args.plots {
        fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    if let Some(path) = &args.from {
        return show(&Report::read(path)?, args);
    }
    let rivals = rivals::all();
    let mut report = Report::begin(&rivals);
    if args.record.is_some() {
        report.may_be_recorded()?;
    }
    // Not after minutes of measuring, which would be lost.
    let record = args.compare.as_deref().map(Record::read).transpose()?;
    let mut benches = Vec::new();
    for bench in args.benches() {
        match args.check(bench, &rivals) {
            Ok(()) => benches.push(bench),
            Err(reason) if args.report.is_some() => report.is_absent(bench, reason),
            Err(reason) => return Err(reason),
        }
    }
    let mut text = report.head();
    print!("{text}");
    let mut stopped = Vec::new();
    for bench in benches {
        match measure(bench, args, &rivals, &mut report) {
            Ok(table) => {
                print!("\n{table}");
                text += "\n";
                text += &table;
            }
            // The others are not lost, and the page says what happened.
            Err(reason) if args.report.is_some() => {
                let name = bench.name();
                eprintln!("luxor-bench: {name}: {reason}");
                report.is_absent(bench, format!("It stopped with an error: {reason}"));
                stopped.push(name);
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
    match stopped.as_slice() {
        [] => Ok(()),
        names => Err(format!("stopped with an error: {}", names.join(", "))),
    }
}

/// Measures, and gives what is printed about it.
///
/// # Errors
/// When that cannot be done, or answers are wrong.
fn measure(
    bench: Bench,
    args: &Args,
    rivals: &[Box<dyn Rival>],
    report: &mut Report,
) -> Result<String, String> {
    Ok(match bench {
        Bench::Cpu => report.cpu.insert(cpu::measure(&args.cpu(rivals))?).text(),
        Bench::File => report.file.insert(file::measure(&args.file()?)?).text(),
        Bench::Unlock => {
            let unlock = unlock::measure(&args.unlock()?)?;
            report.unlock.insert(unlock).text()
        }
        Bench::Block => report.block.insert(block::measure(&args.block()?)?).text(),
        Bench::Demir2020 => {
            let demir = demir::measure(&args.demir()?)?;
            report.demir_2020.insert(demir).text()
        }
        Bench::Elmoghany2011 => {
            let elmoghany = elmoghany::measure()?;
            report.elmoghany_2011.insert(elmoghany).text()
        }
        Bench::DamjanovicSimic2015 => {
            let damjanovic = damjanovic::measure(&args.damjanovic(rivals))?;
            report.damjanovic_simic_2015.insert(damjanovic).text()
        }
        Bench::AnSeo2022 => {
            let an_seo = an_seo::measure(&args.an_seo(rivals))?;
            report.an_seo_2022.insert(an_seo).text()
        }
        Bench::Sanida2020 => {
            let sanida = sanida::measure(&args.sanida(rivals))?;
            report.sanida_2020.insert(sanida).text()
        }
        Bench::Gpu => report.gpu.insert(device::measure(&args.gpu())?).text(),
    })
}

/// Writes the page and the pictures that are asked for.
///
/// # Errors
/// When they cannot be drawn or written.
fn show(report: &Report, args: &Args) -> Result<(), String> {
    if let Some(path) = &args.report {
        report::write(path, &report.page()?)?;
        eprintln!("written: {}", path.display());
    }
    if let Some(folder) = &args.plots {
        for (name, svg) in report.pictures() {
            report::write(&folder.join(name), &svg)?;
        }
    }
    Ok(())
}
