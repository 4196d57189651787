// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statistics of a served or mounted volume: printed on SIGUSR1 and at the end, and served to
//! Prometheus.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering::Relaxed},
    thread,
};

use luxor_serve::{
    Export,
    metrics::{Metrics, MetricsError},
};
use signal_hook::{consts::SIGUSR1, iterator::Signals};

use crate::{
    args::StatsArgs,
    console::{Console, say},
    error::{Error, Result},
    process::SIGUSR1_ASKS,
};

/// The address for a page of metrics. Nothing is served yet.
pub(crate) struct Page(Option<SocketAddr>);

/// The page of metrics, which listens and is not served yet.
pub(crate) struct ListeningPage(Option<Metrics>);

impl Page {
    /// Checks the address, before a secret is asked for.
    ///
    /// # Errors
    /// Fails when other machines could reach the address.
    pub(crate) fn from_args(args: &StatsArgs) -> Result<Self> {
        match args.metrics_listen {
            Some(address) if !address.ip().is_loopback() => Err(Error::failure(format!(
                "--metrics-listen: {address} can be reached from other machines"
            ))
            .hint("Give a loopback address: 127.0.0.1:9100, [::1]:9100.")),
            address => Ok(Self(address)),
        }
    }

    /// Listens on the address.
    ///
    /// # Errors
    /// Fails when the address cannot be used.
    pub(crate) fn listen(&self, export: &Export) -> Result<ListeningPage> {
        let Some(address) = self.0 else {
            return Ok(ListeningPage(None));
        };
        let metrics = Metrics::listen(address, Arc::clone(export.stats()), export.disk());
        let metrics = metrics.map_err(|error| match error {
            MetricsError::Listen { address, source } => Error::io(
                format!("--metrics-listen: cannot listen on {address}"),
                &source,
            ),
            error => Error::failure(format!("--metrics-listen: {error}")),
        })?;
        Ok(ListeningPage(Some(metrics)))
    }
}

/// Reports statistics while it lives, and with `--stats` once more when dropped.
pub(crate) struct StatsReporter {
    export: Arc<Export>,
    at_end: bool,
    metrics_at: Option<SocketAddr>,
}

impl StatsReporter {
    /// Starts reporting. From now on SIGUSR1 prints the table to standard error, with or without
    /// `--stats`: otherwise SIGUSR1 would end the process.
    ///
    /// # Errors
    /// Fails when a thread cannot be started.
    pub(crate) fn begin(
        args: &StatsArgs,
        page: ListeningPage,
        export: &Arc<Export>,
    ) -> Result<Self> {
        let metrics_at = page.0.as_ref().and_then(Metrics::address);
        if let Some(metrics) = page.0 {
            metrics
                .spawn()
                .map_err(|error| Error::io("cannot start a thread", &error))?;
        }
        let failed = |error| Error::io("cannot install the signal handlers", &error);
        SIGUSR1_ASKS.store(true, Relaxed);
        let mut signals = Signals::new([SIGUSR1]).map_err(failed)?;
        // A weak reference: the disk's file stays locked as long as anything holds the disk.
        let used = Arc::downgrade(export);
        thread::Builder::new()
            .name("stats".into())
            .spawn(move || {
                for _ in &mut signals {
                    if let Some(export) = used.upgrade() {
                        say(&export.stats().report(export.disk()).to_string());
                    }
                }
            })
            .map_err(failed)?;
        Ok(Self {
            export: Arc::clone(export),
            at_end: args.stats,
            metrics_at,
        })
    }
}

impl StatsReporter {
    /// Prints the address of the metrics.
    pub(crate) fn announce(&self, console: Console) {
        if let Some(address) = self.metrics_at {
            console.tell(format!("metrics at http://{address}/metrics"));
        }
    }
}

impl Drop for StatsReporter {
    fn drop(&mut self) {
        if self.at_end {
            say(&self.export.stats().report(self.export.disk()).to_string());
        }
    }
}
