// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a server has done so far, for Prometheus.

use std::{
    fmt, io,
    net::{SocketAddr, TcpListener},
    sync::{Arc, Weak},
    thread,
};

use luxor_sector::Disk;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet, text},
    metrics::{MetricType, counter::ConstCounter},
    registry::{Registry, Unit},
};
use tiny_http::{Header, Method, Request, Response};

use crate::stats::{OperationStats, Stats};

/// A page of metrics at `/metrics`, on a loopback address: it tells how much is read and
/// written, and asks nobody who they are.
pub struct Metrics {
    http: tiny_http::Server,
    page: Registry,
}

impl Metrics {
    /// Listens on `address`; port 0 is one that is free.
    ///
    /// # Errors
    /// [`MetricsError`].
    pub fn listen(
        address: SocketAddr,
        stats: Arc<Stats>,
        disk: &Arc<Disk>,
    ) -> Result<Self, MetricsError> {
        if !address.ip().is_loopback() {
            return Err(MetricsError::NotLoopback { address });
        }
        let failed = |source| MetricsError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let http = tiny_http::Server::from_listener(listener, None)
            .map_err(|error| failed(io::Error::other(error)))?;
        let mut page = Registry::default();
        let disk = Arc::downgrade(disk);
        page.register_collector(Box::new(Source { stats, disk }));
        Ok(Self { http, page })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.http.server_addr().to_ip()
    }

    /// Answers from a thread of its own, for as long as the process lives.
    ///
    /// # Errors
    /// When there is no thread.
    pub fn spawn(self) -> io::Result<()> {
        thread::Builder::new()
            .name("metrics".into())
            .spawn(move || {
                for request in self.http.incoming_requests() {
                    // A client that has gone.
                    let _ = self.answer(request);
                }
            })?;
        Ok(())
    }

    fn answer(&self, request: Request) -> io::Result<()> {
        if request.url() != "/metrics" {
            let response = Response::from_string("The metrics are at /metrics.\n");
            return request.respond(response.with_status_code(404));
        }
        if !matches!(request.method(), Method::Get | Method::Head) {
            return request.respond(Response::empty(405));
        }
        let mut body = String::new();
        if text::encode(&mut body, &self.page).is_err() {
            return request.respond(Response::empty(500));
        }
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        let header = Header::from_bytes("Content-Type", kind).expect("it is one");
        request.respond(Response::from_string(body).with_header(header))
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics")
            .field("address", &self.address())
            .finish_non_exhaustive()
    }
}

/// Why there are no metrics.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetricsError {
    /// Anybody could read them.
    #[error("metrics are told on a loopback address only, and {address} is none")]
    NotLoopback {
        /// The address asked for.
        address: SocketAddr,
    },
    /// The address cannot be used.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

/// The upper ends of the latency's buckets, in seconds.
const BUCKETS: [f64; 14] = [
    1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 5e-2, 0.1, 1.0, 10.0,
];

#[derive(Debug)]
struct Source {
    stats: Arc<Stats>,
    /// Whose storage is let go when the others are through with it.
    disk: Weak<Disk>,
}

impl Collector for Source {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let all = self.stats.all();
        type Count = fn(&OperationStats) -> u64;
        let counters: [(&str, &str, Option<&Unit>, Count); 3] = [
            (
                "luxor_requests",
                "Requests that were answered",
                None,
                |stats| stats.requests,
            ),
            ("luxor_errors", "Requests that failed", None, |stats| {
                stats.errors
            }),
            (
                "luxor_request",
                "Bytes of requests that succeeded",
                Some(&Unit::Bytes),
                |stats| stats.bytes,
            ),
        ];
        for (name, help, unit, count) in counters {
            let mut metric = encoder.encode_descriptor(name, help, unit, MetricType::Counter)?;
            for (operation, stats) in &all {
                let labels = [("operation", operation.name())];
                let family = metric.encode_family(&labels)?;
                ConstCounter::new(count(stats)).encode(family)?;
            }
        }
        let mut metric = encoder.encode_descriptor(
            "luxor_latency",
            "From when a request had come to when its reply was sent",
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?;
        for (operation, stats) in &all {
            let labels = [("operation", operation.name())];
            let mut family = metric.encode_family(&labels)?;
            let (sum, buckets) = histogram(stats);
            family.encode_histogram::<NoLabelSet>(sum, stats.latency.len(), &buckets, None)?;
        }
        let engine = self.disk.upgrade().map(|disk| disk.engine_time());
        let engine = engine.unwrap_or_default();
        #[expect(clippy::cast_precision_loss, reason = "days of nanoseconds fit")]
        let seconds = engine.nanoseconds as f64 / 1e9;
        let metric = encoder.encode_descriptor(
            "luxor_engine",
            "Time spent encrypting and decrypting, summed over threads",
            Some(&Unit::Seconds),
            MetricType::Counter,
        )?;
        ConstCounter::new(seconds).encode(metric)?;
        let metric = encoder.encode_descriptor(
            "luxor_engine_encrypted",
            "Bytes encrypted and decrypted",
            Some(&Unit::Bytes),
            MetricType::Counter,
        )?;
        ConstCounter::new(engine.bytes).encode(metric)
    }
}

/// The sum in seconds, and how many requests lie in each bucket and no earlier one.
fn histogram(stats: &OperationStats) -> (f64, Vec<(f64, u64)>) {
    let latency = &stats.latency;
    let mut counts = [0; BUCKETS.len() + 1];
    let mut sum = 0.0;
    for step in latency.iter_recorded() {
        #[expect(clippy::cast_precision_loss, reason = "two digits of it are right")]
        let seconds = step.value_iterated_to() as f64 / 1e9;
        let count = step.count_since_last_iteration();
        let bucket = BUCKETS.partition_point(|end| *end < seconds);
        counts[bucket] += count;
        #[expect(
            clippy::cast_precision_loss,
            reason = "two digits of the factor are right"
        )]
        let total = seconds * count as f64;
        sum += total;
    }
    let ends = BUCKETS.into_iter().chain([f64::INFINITY]);
    (sum, ends.zip(counts).collect())
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpStream,
        time::Duration,
    };

    use luxor_sector::{DiskOptions, MemoryStorage, Part};

    use super::*;
    use crate::stats::{Done, Operation};

    fn disk() -> Arc<Disk> {
        let part = Part {
            offset: 0,
            len: 512,
            crypt: None,
        };
        let storage = Arc::new(MemoryStorage::new(vec![0; 512]));
        Arc::new(Disk::new(storage, vec![part], DiskOptions::default()).unwrap())
    }

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut client = TcpStream::connect(address).unwrap();
        client
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let end = "Host: localhost\r\nConnection: close\r\n\r\n";
        client
            .write_all(format!("{request} HTTP/1.1\r\n{end}").as_bytes())
            .unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_page_for_prometheus() {
        let stats = Arc::new(Stats::default());
        let address = "127.0.0.1:0".parse().unwrap();
        let disk = disk();
        let metrics = Metrics::listen(address, Arc::clone(&stats), &disk).unwrap();
        let address = metrics.address().unwrap();
        metrics.spawn().unwrap();
        let read = |succeeded| Done {
            operation: Operation::Read,
            bytes: 4096,
            succeeded,
        };
        stats.record([read(true), read(true)], Duration::from_micros(40));
        stats.record([read(false)], Duration::from_secs(100));

        let page = ask(address, "GET /metrics");
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
        for line in [
            "luxor_requests_total{operation=\"read\"} 3",
            "luxor_errors_total{operation=\"read\"} 1",
            "luxor_request_bytes_total{operation=\"read\"} 8192",
            "luxor_requests_total{operation=\"flush\"} 0",
            "luxor_latency_seconds_bucket{le=\"0.000025\",operation=\"read\"} 0",
            "luxor_latency_seconds_bucket{le=\"0.00005\",operation=\"read\"} 2",
            "luxor_latency_seconds_bucket{le=\"10.0\",operation=\"read\"} 2",
            "luxor_latency_seconds_bucket{le=\"+Inf\",operation=\"read\"} 3",
            "luxor_latency_seconds_count{operation=\"read\"} 3",
            "luxor_engine_seconds_total 0.0",
            "luxor_engine_encrypted_bytes_total 0",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
        assert!(page.trim_end().ends_with("# EOF"), "{page}");

        assert!(ask(address, "GET /").starts_with("HTTP/1.1 404 "));
        assert!(ask(address, "POST /metrics").starts_with("HTTP/1.1 405 "));
    }

    #[test]
    fn only_this_machine_is_told() {
        for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:9000"] {
            let address = address.parse().unwrap();
            let error = Metrics::listen(address, Arc::default(), &disk()).unwrap_err();
            assert!(matches!(error, MetricsError::NotLoopback { .. }), "{error}");
        }
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let error = Metrics::listen(address, Arc::default(), &disk()).unwrap_err();
        assert!(matches!(error, MetricsError::Listen { .. }), "{error}");
    }
}
