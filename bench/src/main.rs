// SPDX-License-Identifier: MIT OR Apache-2.0
//! Throughput of the kernels, beside the machine's own limit in the same run.
//!
//! The machines this runs on are noisy, so a kernel and the limit are timed in
//! alternation, and what counts is the median of their ratios. Answers are
//! compared with the portable kernel's before anything is timed.

// The limit loops are the only unsafe code; see `limit`.
#![deny(unsafe_code)]

mod cpu;
mod limit;

use std::{fs, path::PathBuf, process::ExitCode};

use clap::Parser;

/// Measures the CPU's kernels: GB/s in the L2 cache and over 256 MiB, and the
/// ratio to what the AES instructions of the machine could do.
#[derive(Parser)]
struct Args {
    /// Only these kernels (all that are present, if none is named).
    kernels: Vec<String>,
    /// Fewer repetitions: a look, not a result.
    #[arg(long)]
    quick: bool,
    /// Also write the results to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("luxor-bench: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    let report = cpu::measure(&args.kernels, args.quick)?;
    report.print();
    if let Some(path) = &args.json {
        let json = serde_json::to_string_pretty(&report).map_err(|e| e.to_string())?;
        fs::write(path, json + "\n").map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}
