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

use std::process::ExitCode;

use clap::error::ErrorKind;

use crate::{
    args::{Args, Bench},
    compare::Record,
    report::Report,
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
    let rivals = rivals::all();
    let mut report = Report::begin(&rivals);
    if args.record.is_some() {
        report.may_be_recorded()?;
    }
    // Not after minutes of measuring, which would be lost.
    let record = args.compare.as_deref().map(Record::read).transpose()?;
    let mut benches = Vec::new();
    let mut absent = Vec::new();
    for bench in args.benches() {
        match args.check(bench, &rivals) {
            Ok(()) => benches.push(bench),
            Err(reason) if args.report.is_some() => absent.push((bench, reason)),
            Err(reason) => return Err(reason),
        }
    }
    for path in args.outputs() {
        report::can_be_written(&path)?;
    }
    let mut text = report.head();
    print!("{text}");
    for bench in benches {
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
            Bench::Block => {
                let block = block::measure(&args.block()?)?;
                format!("\n{}", report.block.insert(block).text())
            }
            Bench::Demir2020 => {
                let demir = demir::measure(&args.demir()?)?;
                format!("\n{}", report.demir_2020.insert(demir).text())
            }
            Bench::Elmoghany2011 => {
                let elmoghany = elmoghany::measure()?;
                format!("\n{}", report.elmoghany_2011.insert(elmoghany).text())
            }
            Bench::DamjanovicSimic2015 => {
                let damjanovic = damjanovic::measure(&args.damjanovic(&rivals))?;
                let damjanovic = report.damjanovic_simic_2015.insert(damjanovic);
                format!("\n{}", damjanovic.text())
            }
            Bench::AnSeo2022 => {
                let an_seo = an_seo::measure(&args.an_seo(&rivals))?;
                format!("\n{}", report.an_seo_2022.insert(an_seo).text())
            }
            Bench::Sanida2020 => {
                let sanida = sanida::measure(&args.sanida(&rivals))?;
                format!("\n{}", report.sanida_2020.insert(sanida).text())
            }
            Bench::Gpu => {
                let gpu = device::measure(&args.gpu())?;
                format!("\n{}", report.gpu.insert(gpu).text())
            }
        };
        print!("{table}");
        text += &table;
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
    if let Some(path) = &args.report {
        report.write_page(path, &absent, args.quick)?;
    }
    if let Some(records) = &args.record {
        let written = report.record(records, &text)?;
        eprintln!("recorded: {}", written.display());
    }
    Ok(())
}
