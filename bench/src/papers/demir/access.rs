// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the accesses of the core's driver cost a processor. The driver's simulated bus has cycles,
//! but nothing between the processor and that bus, and no operating system.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    thread,
    time::Instant,
};

use clap::Args;
use serde::{Deserialize, Serialize};

use super::cycles::Counts;
use crate::stats::Summary;

/// The time from a processor to a register on an FPGA's bus and back, in nanoseconds, for a read and
/// a write. Measured by a user of a Zynq UltraScale+ (forums.xilinx.com, "Strategy for lowest
/// latency to access AXI register", 2020): from its Cortex-R5 through an AXI interconnect of 250 MHz
/// to an AXI4-Lite slave.
const READ: f64 = 304.0;
const WRITE: f64 = 314.0;

/// The register writes that start a DMA engine on a packet and its answer: two addresses and two
/// lengths, in the direct register mode of AMD's AXI DMA (PG021).
pub(super) const DMA_WRITES: f64 = 4.0;

#[derive(Debug, Args)]
#[group(skip)]
pub(super) struct Options {
    /// Time of a register read of demir-2020's driver, in nanoseconds [default: 304, on a Zynq
    /// UltraScale+]
    #[arg(long, value_name = "NS", value_parser = nanoseconds)]
    read_cost: Option<f64>,

    /// Time of a register write of demir-2020's driver, in nanoseconds [default: 314, on a Zynq
    /// UltraScale+]
    #[arg(long, value_name = "NS", value_parser = nanoseconds)]
    write_cost: Option<f64>,

    /// Time of an interrupt of demir-2020's driver, in nanoseconds [default: that of waking a thread
    /// on this machine]
    #[arg(long, value_name = "NS", value_parser = nanoseconds)]
    interrupt_cost: Option<f64>,
}

fn nanoseconds(text: &str) -> Result<f64, String> {
    let found = text.parse().ok();
    let found = found.filter(|ns| (0.0..=1e9).contains(ns));
    found.ok_or_else(|| "expected a number of nanoseconds, up to a second".to_owned())
}

/// The costs in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub(super) struct AccessCosts {
    pub(super) read: f64,
    pub(super) write: f64,
    pub(super) interrupt: f64,
    /// Whether the first two are [`READ`] and [`WRITE`], and the third was measured.
    pub(super) accesses_are_recorded: bool,
    pub(super) interrupt_is_measured: bool,
}

impl AccessCosts {
    pub(super) fn measure(options: &Options) -> Result<Self, String> {
        let Options {
            read_cost,
            write_cost,
            interrupt_cost,
        } = *options;
        let interrupt = match interrupt_cost {
            Some(cost) => cost,
            None => wake_up().map_err(|e| format!("waking a thread: {e}"))?,
        };
        Ok(Self {
            read: read_cost.unwrap_or(READ),
            write: write_cost.unwrap_or(WRITE),
            interrupt,
            accesses_are_recorded: read_cost.is_none() && write_cost.is_none(),
            interrupt_is_measured: interrupt_cost.is_none(),
        })
    }

    /// Says where the parts of a driver's cost come from: they are of different machines.
    pub(super) fn sources(&self) -> String {
        format!(
            "accesses counted in the simulation, at {} register times, with {}",
            if self.accesses_are_recorded {
                "a Zynq UltraScale+'s"
            } else {
                "the given"
            },
            if self.interrupt_is_measured {
                "this machine's time to wake a thread"
            } else {
                "the given time of an interrupt"
            },
        )
    }

    /// Returns the nanoseconds for what a driver does.
    pub(super) fn nanoseconds(&self, counts: &Counts) -> f64 {
        counts.reads * self.read
            + (counts.writes + counts.packets * DMA_WRITES) * self.write
            + counts.interrupts * self.interrupt
    }
}

/// Measures the time in nanoseconds from a write until a thread that waits in `read` goes on. This
/// is what a driver outside the kernel waits for after the kernel has taken an interrupt.
fn wake_up() -> io::Result<f64> {
    const ROUNDS: usize = 1000;
    let (mut here, mut there) = UnixStream::pair()?;
    let echo = thread::spawn(move || {
        let mut byte = [0];
        while there.read(&mut byte)? > 0 {
            there.write_all(&byte)?;
        }
        Ok::<_, io::Error>(())
    });
    let mut samples = Vec::new();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        here.write_all(&[1])?;
        here.read_exact(&mut [0])?;
        // There and back are two.
        samples.push(begun.elapsed().as_secs_f64() * 1e9 / 2.0);
    }
    drop(here);
    match echo.join() {
        Ok(result) => result?,
        Err(panic) => std::panic::resume_unwind(panic),
    }
    let summary = Summary::from_samples(samples).expect("there are samples");
    Ok(summary.median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_costs_its_accesses_transfers_and_interrupts() {
        let costs = AccessCosts {
            read: 100.0,
            write: 10.0,
            interrupt: 5000.0,
            accesses_are_recorded: false,
            interrupt_is_measured: false,
        };
        let counts = Counts {
            cycles: 1e6,
            reads: 2.0,
            writes: 3.0,
            packets: 1.0,
            interrupts: 1.0,
        };
        // Two reads, three writes, four for the DMA, and the interrupt.
        assert_eq!(costs.nanoseconds(&counts), 5270.0);
        let from = "at the given register times, with the given time of an interrupt";
        assert!(costs.sources().ends_with(from), "{}", costs.sources());
    }

    #[test]
    fn waking_a_thread_takes_time() {
        assert!(wake_up().unwrap() > 100.0);
    }
}
