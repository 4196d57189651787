// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics of a server: operations, bytes, errors and latencies.

use std::{
    fmt,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use hdrhistogram::Histogram;
use luxor_sector::{Disk, EngineTime};

/// What clients ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// Makes earlier writes durable.
    Flush,
    /// Bytes are no longer needed.
    Discard,
    /// Zeros are written.
    WriteZeroes,
    /// Anything else, such as hints and queries.
    Other,
}

impl Operation {
    /// All operations, in the order of reports.
    pub const ALL: [Self; 6] = [
        Self::Read,
        Self::Write,
        Self::Flush,
        Self::Discard,
        Self::WriteZeroes,
        Self::Other,
    ];

    /// The name in reports and in the labels of metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
            Self::WriteZeroes => "write_zeroes",
            Self::Other => "other",
        }
    }

    /// Whether its bytes are read or written. The bytes of the others are only those that a request names.
    #[must_use]
    pub const fn moves_data(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::WriteZeroes)
    }
}

/// Counters that any number of threads can update.
#[derive(Debug)]
pub struct Stats {
    operations: Mutex<[OperationStats; Operation::ALL.len()]>,
    clients: AtomicU64,
    reencryption: OnceLock<Arc<ReencryptionMeter>>,
}

/// How far a re-encryption of the disk is.
#[derive(Debug, Default)]
pub struct ReencryptionMeter {
    /// The number of bytes that have the new key.
    pub done: AtomicU64,
    /// The number of bytes that are to have it.
    pub total: AtomicU64,
    /// Whether it is running: it has neither ended nor failed.
    pub is_running: AtomicBool,
}

/// Counts a client until this is dropped.
#[derive(Debug)]
pub(crate) struct CountedClient(Arc<Stats>);

impl Drop for CountedClient {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Relaxed);
    }
}

/// The statistics of one operation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OperationStats {
    /// The number of requests.
    pub requests: u64,
    /// The number of requests that failed or were refused. They count as requests too.
    pub errors: u64,
    /// The bytes that were read, written or discarded. 0 for other operations.
    pub bytes: u64,
    /// The time from the arrival of a request to the sending of its reply, in nanoseconds. It is
    /// exact to two significant digits, and more than an hour counts as an hour.
    pub latency: Histogram<u64>,
}

/// An hour, in nanoseconds.
const LONGEST: u64 = 3_600_000_000_000;

impl OperationStats {
    fn new() -> Self {
        Self {
            requests: 0,
            errors: 0,
            bytes: 0,
            latency: Histogram::new_with_bounds(1, LONGEST, 2).expect("the bounds are valid"),
        }
    }
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            operations: Mutex::new(Operation::ALL.map(|_| OperationStats::new())),
            clients: AtomicU64::new(0),
            reencryption: OnceLock::new(),
        }
    }
}

/// One completed request.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// The operation.
    pub operation: Operation,
    /// The number of bytes that it named.
    pub bytes: u64,
    /// Whether it succeeded.
    pub succeeded: bool,
}

impl Stats {
    /// Records requests that all took the same time, as those of a batch do. The servers of this
    /// crate call it themselves.
    pub fn record(&self, done: impl IntoIterator<Item = Done>, took: Duration) {
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let mut all = self
            .operations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for done in done {
            let stats = &mut all[done.operation as usize];
            stats.requests += 1;
            if !done.succeeded {
                stats.errors += 1;
            } else if done.operation.moves_data() || done.operation == Operation::Discard {
                stats.bytes += done.bytes;
            }
            stats.latency.saturating_record(nanoseconds);
        }
    }

    /// Returns the statistics of each of [`Operation::ALL`].
    #[must_use]
    pub fn all(&self) -> [(Operation, OperationStats); Operation::ALL.len()] {
        let all = self
            .operations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Operation::ALL.map(|operation| (operation, all[operation as usize].clone()))
    }

    /// Whether a request to write bytes, or to make them durable, has failed.
    #[must_use]
    pub fn has_failed_writes(&self) -> bool {
        let writes = [Operation::Write, Operation::WriteZeroes, Operation::Flush];
        let all = self
            .operations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        writes.iter().any(|&write| all[write as usize].errors > 0)
    }

    /// Counts one more client that is connected.
    pub(crate) fn count_client(self: &Arc<Self>) -> CountedClient {
        self.clients.fetch_add(1, Relaxed);
        CountedClient(Arc::clone(self))
    }

    /// The number of clients that are connected and past their handshake.
    #[must_use]
    pub fn clients(&self) -> u64 {
        self.clients.load(Relaxed)
    }

    /// Publishes `meter` from now on. Only the first one counts.
    pub fn watch_reencryption(&self, meter: Arc<ReencryptionMeter>) {
        let _ = self.reencryption.set(meter);
    }

    pub(crate) fn reencryption(&self) -> Option<&ReencryptionMeter> {
        self.reencryption.get().map(|meter| &**meter)
    }

    /// Returns a table to be printed, with the engine's work for `disk`.
    #[must_use]
    pub fn report(&self, disk: &Disk) -> Report {
        Report {
            all: self.all(),
            engine: disk.engine_time(),
        }
    }
}

/// A table of all operations that occurred.
#[derive(Debug)]
pub struct Report {
    all: [(Operation, OperationStats); Operation::ALL.len()],
    engine: EngineTime,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cells = [
            "operation",
            "requests",
            "errors",
            "MiB",
            "p50",
            "p90",
            "p99",
            "p99.9",
            "max",
        ];
        write_row(f, &cells.map(String::from))?;
        for (operation, stats) in &self.all {
            if stats.requests == 0 {
                continue;
            }
            let percentile = |p| microseconds(stats.latency.value_at_percentile(p));
            let cells = [
                operation.name().into(),
                stats.requests.to_string(),
                stats.errors.to_string(),
                mebibytes(stats.bytes),
                percentile(50.0),
                percentile(90.0),
                percentile(99.0),
                percentile(99.9),
                microseconds(stats.latency.max()),
            ];
            write_row(f, &cells)?;
        }
        let EngineTime {
            bytes,
            calls,
            nanoseconds,
            ..
        } = self.engine;
        write!(
            f,
            "engine: {} MiB in {calls} calls, {} ms",
            mebibytes(bytes),
            thousandths(nanoseconds / 1000)
        )
    }
}

fn write_row(f: &mut fmt::Formatter<'_>, cells: &[String; 9]) -> fmt::Result {
    let (name, rest) = cells.split_first().expect("a row has nine cells");
    write!(f, "{name:<12}")?;
    for cell in rest {
        write!(f, " {cell:>11}")?;
    }
    writeln!(f)
}

fn mebibytes(bytes: u64) -> String {
    let tenths = u128::from(bytes) * 10 / (1 << 20);
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn microseconds(nanoseconds: u64) -> String {
    let tenths = nanoseconds / 100;
    format!("{}.{} us", tenths / 10, tenths % 10)
}

fn thousandths(number: u64) -> String {
    format!("{}.{:03}", number / 1000, number % 1000)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use luxor_sector::{DiskOptions, MemoryStorage, Part};

    use super::*;

    fn done(operation: Operation, bytes: u64, succeeded: bool) -> Done {
        Done {
            operation,
            bytes,
            succeeded,
        }
    }

    #[test]
    fn requests_are_counted_where_they_belong() {
        let stats = Stats::default();
        let (read, flush) = (Operation::Read, Operation::Flush);
        stats.record([done(read, 4096, true); 3], Duration::from_micros(7));
        stats.record([done(read, 512, false)], Duration::from_millis(40));
        // Clients may name bytes that no operation reads or writes.
        stats.record([done(flush, 1 << 20, true)], Duration::MAX);
        let discard = done(Operation::Discard, 8192, true);
        stats.record([discard], Duration::ZERO);
        for (operation, found) in stats.all() {
            let expected = match operation {
                Operation::Read => (4, 1, 3 * 4096),
                Operation::Flush => (1, 0, 0),
                Operation::Discard => (1, 0, 8192),
                _ => (0, 0, 0),
            };
            let found = (found.requests, found.errors, found.bytes);
            assert_eq!(found, expected, "{operation:?}");
        }
        let (_, reads) = &stats.all()[0];
        let close = |found: u64, expected: u64| found.abs_diff(expected) <= expected / 100;
        assert!(close(reads.latency.value_at_percentile(50.0), 7_000));
        assert!(close(reads.latency.value_at_percentile(75.0), 7_000));
        assert!(close(reads.latency.value_at_percentile(99.0), 40_000_000));
    }

    #[test]
    fn a_report_lists_what_was_recorded() {
        let part = Part {
            offset: 0,
            len: 512,
            crypt: None,
        };
        let storage = Arc::new(MemoryStorage::new(vec![0; 512]));
        let disk = Disk::new(storage, vec![part], DiskOptions::default()).unwrap();
        let stats = Stats::default();
        let write = done(Operation::Write, 3 << 19, true);
        stats.record([write; 2], Duration::from_nanos(1_500));
        let report = stats.report(&disk).to_string();
        let lines: Vec<_> = report.lines().collect();
        assert_eq!(lines.len(), 3);
        let cells: Vec<_> = lines[1].split_whitespace().collect();
        assert_eq!(cells[..5], ["write", "2", "0", "3.0", "1.5"]);
        assert_eq!(lines[2], "engine: 0.0 MiB in 0 calls, 0.000 ms");
    }
}
