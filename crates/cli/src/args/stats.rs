// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `serve` and `mount` for statistics.

use std::net::SocketAddr;

use clap::Args;

/// The statistics to show.
#[derive(Args, Debug)]
pub(crate) struct StatsArgs {
    /// Print a table of operations, bytes and latencies to standard error at the end
    ///
    /// SIGUSR1 prints the table at any time, with or without this option.
    #[arg(long, help_heading = "Statistics")]
    pub stats: bool,

    /// Serve the same figures to Prometheus, by HTTP on a loopback address, at /metrics
    #[arg(long, value_name = "ADDRESS", help_heading = "Statistics")]
    pub metrics_listen: Option<SocketAddr>,
}
