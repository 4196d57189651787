// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statistics of a server, for Prometheus.

use std::{
    fmt,
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Weak, atomic::Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use luxor_sector::Disk;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet, text},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::{Registry, Unit},
};

use crate::{
    channel::Timed,
    outage::Outage,
    stats::{Operation, OperationStats, Stats},
};

/// How many clients are served at a time. Others wait.
const THREADS: usize = 4;

/// How long a client may take to send its request and to receive the answer.
const CLIENT_LIMIT: Duration = Duration::from_secs(1);

/// The most bytes of a request. Prometheus sends some hundreds.
const MAX_REQUEST: usize = 8 << 10;

/// Serves a page of metrics at `/metrics` in the `OpenMetrics` text format, on a loopback address
/// only: the page shows how much is read and written, and clients are not authenticated.
///
/// So any user of the machine can send anything to it. The cost of requests is bounded: their
/// length, their time and their number at a time. A request's body is not read. (A general HTTP
/// server would allocate as many bytes as a client announces.)
pub struct Metrics {
    listener: TcpListener,
    page: Registry,
}

impl Metrics {
    /// Listens on `address`, for the statistics `stats` of the server that serves `disk`. Port 0
    /// stands for a free port. Nothing is served before [`Metrics::spawn`].
    ///
    /// # Errors
    /// Returns [`MetricsError`] if `address` is not a loopback address or cannot be used.
    pub fn listen(
        address: SocketAddr,
        stats: Arc<Stats>,
        disk: &Arc<Disk>,
    ) -> Result<Self, MetricsError> {
        if !address.ip().is_loopback() {
            return Err(MetricsError::NotLoopback { address });
        }
        let listener = TcpListener::bind(address)
            .map_err(|source| MetricsError::Listen { address, source })?;
        let mut page = Registry::default();
        let disk = Arc::downgrade(disk);
        page.register_collector(Box::new(StatsCollector { stats, disk }));
        Ok(Self { listener, page })
    }

    /// The address on which it listens, with the real port. `None` if the system does not report
    /// it.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// Serves clients from threads of its own until the process ends.
    ///
    /// # Errors
    /// Fails when a thread cannot be started.
    pub fn spawn(self) -> io::Result<()> {
        let metrics = Arc::new(self);
        for _ in 0..THREADS {
            let metrics = Arc::clone(&metrics);
            thread::Builder::new()
                .name("metrics".into())
                .spawn(move || metrics.serve())?;
        }
        Ok(())
    }

    fn serve(&self) {
        let mut outage = Outage::default();
        loop {
            match self.listener.accept() {
                Ok((client, _)) => {
                    outage.accepted();
                    // Errors of a client, such as a timeout, are ignored.
                    let _ = self.serve_client(&client);
                }
                Err(error) => thread::sleep(outage.failed(&error, Instant::now()).0),
            }
        }
    }

    /// Receives one request and sends the answer.
    fn serve_client(&self, socket: &TcpStream) -> io::Result<()> {
        let mut client = Timed::new(socket, Instant::now() + CLIENT_LIMIT);
        let mut request = [0; MAX_REQUEST];
        let mut len = 0;
        let answer = loop {
            let end = request[..len].windows(4).position(|end| end == b"\r\n\r\n");
            if let Some(end) = end {
                break self.answer(&request[..end]);
            }
            match client.read(&mut request[len..])? {
                0 if len == MAX_REQUEST => {
                    break empty_answer("431 Request Header Fields Too Large");
                }
                0 => return Ok(()),
                received => len += received,
            }
        };
        client.write_all(&answer)?;
        // If unread bytes remained, closing the socket would discard the answer.
        socket.shutdown(Shutdown::Write)?;
        while client.read(&mut request)? > 0 {}
        Ok(())
    }

    /// Answers a request. Only its first line counts (RFC 9112, 3).
    fn answer(&self, head: &[u8]) -> Vec<u8> {
        let line = head.split(|&byte| byte == b'\r').next();
        let words: Vec<_> = line
            .unwrap_or_default()
            .split(|&byte| byte == b' ')
            .collect();
        let [method, target, version] = words[..] else {
            return empty_answer("400 Bad Request");
        };
        if !version.starts_with(b"HTTP/1.") {
            return empty_answer("400 Bad Request");
        }
        if target.split(|&byte| byte == b'?').next() != Some(b"/metrics") {
            let words = "The metrics are at /metrics.\n";
            return answer("404 Not Found", "text/plain", words, method != b"HEAD");
        }
        if method != b"GET" && method != b"HEAD" {
            return empty_answer("405 Method Not Allowed\r\nAllow: GET, HEAD");
        }
        let mut page = String::new();
        if text::encode(&mut page, &self.page).is_err() {
            return empty_answer("500 Internal Server Error");
        }
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        answer("200 OK", kind, &page, method == b"GET")
    }
}

fn answer(status: &str, kind: &str, body: &str, with_body: bool) -> Vec<u8> {
    let len = body.len();
    let shown = if with_body { body } else { "" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\n\
         Connection: close\r\n\r\n{shown}"
    )
    .into_bytes()
}

/// An answer without a body.
fn empty_answer(status: &str) -> Vec<u8> {
    answer(status, "text/plain", "", false)
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics")
            .field("address", &self.address())
            .finish_non_exhaustive()
    }
}

/// Why the metrics cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetricsError {
    /// On this address other machines could read the metrics.
    #[error("{address} is not a loopback address: metrics are served on loopback only")]
    NotLoopback {
        /// The requested address.
        address: SocketAddr,
    },
    /// The address cannot be used.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The requested address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
}

/// The upper bounds of the latency buckets, in seconds.
const BUCKETS: [f64; 14] = [
    1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 5e-2, 0.1, 1.0, 10.0,
];

#[derive(Debug)]
struct StatsCollector {
    stats: Arc<Stats>,
    /// Weak, so that the disk's storage is closed when its other users are done.
    disk: Weak<Disk>,
}

impl Collector for StatsCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let all = self.stats.all();
        type Count = fn(&OperationStats) -> u64;
        type Of = fn(Operation) -> bool;
        let counters: [(&str, &str, Option<&Unit>, Of, Count); 4] = [
            (
                "luxor_requests",
                "Requests that were answered",
                None,
                |_| true,
                |stats| stats.requests,
            ),
            (
                "luxor_errors",
                "Requests that failed",
                None,
                |_| true,
                |stats| stats.errors,
            ),
            (
                "luxor_request",
                "Bytes that were read and written",
                Some(&Unit::Bytes),
                Operation::moves_data,
                |stats| stats.bytes,
            ),
            // A sum over operations must not count these as data.
            (
                "luxor_discarded",
                "Bytes that clients no longer need",
                Some(&Unit::Bytes),
                |operation| operation == Operation::Discard,
                |stats| stats.bytes,
            ),
        ];
        for (name, help, unit, of, count) in counters {
            let mut metric = encoder.encode_descriptor(name, help, unit, MetricType::Counter)?;
            for (operation, stats) in all.iter().filter(|(operation, _)| of(*operation)) {
                let labels = [("operation", operation.name())];
                let family = metric.encode_family(&labels)?;
                ConstCounter::new(count(stats)).encode(family)?;
            }
        }
        let mut metric = encoder.encode_descriptor(
            "luxor_latency",
            "Time from the arrival of a request to the end of its reply",
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?;
        for (operation, stats) in &all {
            let labels = [("operation", operation.name())];
            let mut family = metric.encode_family(&labels)?;
            let (sum, buckets) = histogram(stats);
            family.encode_histogram::<NoLabelSet>(sum, stats.latency.len(), &buckets, None)?;
        }
        let mut gauge = |name, help, unit, value: u64| {
            let metric = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
            ConstGauge::new(value).encode(metric)
        };
        gauge(
            "luxor_clients",
            "Clients that are connected",
            None,
            self.stats.clients(),
        )?;
        if let Some(meter) = self.stats.reencryption() {
            let (done, total) = (meter.done.load(Relaxed), meter.total.load(Relaxed));
            let is_running = meter.is_running.load(Relaxed);
            let bytes = Some(&Unit::Bytes);
            gauge(
                "luxor_reencrypted",
                "Bytes that have the new key of a re-encryption",
                bytes,
                done,
            )?;
            gauge(
                "luxor_reencryption_size",
                "Bytes that the re-encryption changes",
                bytes,
                total,
            )?;
            gauge(
                "luxor_reencryption_running",
                "1 while the re-encryption is under way, 0 when it has ended or failed",
                None,
                is_running.into(),
            )?;
        }
        let engine = self.disk.upgrade().map(|disk| disk.engine_time());
        let engine = engine.unwrap_or_default();
        #[expect(
            clippy::cast_precision_loss,
            reason = "the nanoseconds of days are exact"
        )]
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

/// Returns the sum in seconds, and for each bucket the number of requests that are in no lower one.
fn histogram(stats: &OperationStats) -> (f64, Vec<(f64, u64)>) {
    let latency = &stats.latency;
    let mut counts = [0; BUCKETS.len() + 1];
    let mut sum = 0.0;
    for step in latency.iter_recorded() {
        #[expect(
            clippy::cast_precision_loss,
            reason = "only two digits are significant"
        )]
        let seconds = step.value_iterated_to() as f64 / 1e9;
        let count = step.count_since_last_iteration();
        let bucket = BUCKETS.partition_point(|end| *end < seconds);
        counts[bucket] += count;
        #[expect(
            clippy::cast_precision_loss,
            reason = "only two digits of the factor are significant"
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
    use crate::stats::{Done, ReencryptionMeter};

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
        let end = "Host: localhost\r\nConnection: close\r\n\r\n";
        say(address, &format!("{request} HTTP/1.1\r\n{end}"))
    }

    /// Sends `said` and returns the answer. On a machine so busy that a client exceeds its time
    /// limit, the answer is empty or the connection is cut off. Then this tries again.
    fn say(address: SocketAddr, said: &str) -> String {
        let limit = Some(Duration::from_secs(60));
        let first = Instant::now();
        loop {
            let begun = Instant::now();
            let mut client = TcpStream::connect(address).unwrap();
            client.set_read_timeout(limit).unwrap();
            client.set_write_timeout(limit).unwrap();
            // The server may close the connection before it has read everything.
            let _ = client.write_all(said.as_bytes());
            let mut answer = String::new();
            let taken = client.read_to_string(&mut answer);
            if taken.is_ok() && !answer.is_empty() {
                return answer;
            }
            assert!(
                begun.elapsed() >= CLIENT_LIMIT && Some(first.elapsed()) < limit,
                "{said:.60}: {taken:?}, {answer}"
            );
        }
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

        let discard = Done {
            operation: Operation::Discard,
            bytes: 1 << 20,
            succeeded: true,
        };
        stats.record([discard], Duration::ZERO);
        let clients = [(); 3].map(|()| stats.count_client());
        let page = ask(address, "GET /metrics");
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
        assert!(!page.contains("luxor_reencrypt"), "{page}");
        for operation in ["discard", "flush", "other"] {
            let line = format!("luxor_request_bytes_total{{operation=\"{operation}\"}}");
            assert!(!page.contains(&line), "{page}");
        }
        for line in [
            "luxor_requests_total{operation=\"read\"} 3",
            "luxor_errors_total{operation=\"read\"} 1",
            "luxor_request_bytes_total{operation=\"read\"} 8192",
            "luxor_requests_total{operation=\"flush\"} 0",
            "luxor_requests_total{operation=\"discard\"} 1",
            "luxor_discarded_bytes_total{operation=\"discard\"} 1048576",
            "luxor_clients 3",
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

        drop(clients);
        let meter = Arc::new(ReencryptionMeter::default());
        stats.watch_reencryption(Arc::clone(&meter));
        meter.total.store(8192, Relaxed);
        meter.done.store(4096, Relaxed);
        meter.is_running.store(true, Relaxed);
        let page = ask(address, "GET /metrics");
        for line in [
            "luxor_clients 0",
            "luxor_reencrypted_bytes 4096",
            "luxor_reencryption_size_bytes 8192",
            "luxor_reencryption_running 1",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }

        assert!(ask(address, "GET /").starts_with("HTTP/1.1 404 "));
        assert!(ask(address, "POST /metrics").starts_with("HTTP/1.1 405 "));
        assert!(ask(address, "GET /metrics?name=luxor").starts_with("HTTP/1.1 200 "));
        let head = ask(address, "HEAD /metrics");
        assert!(
            head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"),
            "{head}"
        );
    }

    /// A client can send anything: the process continues, and the page is still served.
    #[test]
    fn malformed_metrics_requests_do_no_harm() {
        let address = "127.0.0.1:0".parse().unwrap();
        let disk = disk();
        let metrics = Metrics::listen(address, Arc::default(), &disk).unwrap();
        let address = metrics.address().unwrap();
        metrics.spawn().unwrap();
        let huge = usize::MAX.to_string();
        for (said, status) in [
            // Announced bodies that never arrive, some of them longer than memory.
            (
                "POST /metrics HTTP/1.1\r\nContent-Length: 2000\r\n\r\n".to_owned(),
                405,
            ),
            (
                "GET /metrics HTTP/1.1\r\nContent-Length: 99999999999999\r\n\r\n".to_owned(),
                200,
            ),
            (
                format!("GET / HTTP/1.1\r\nContent-Length: {huge}\r\n\r\n"),
                404,
            ),
            (
                "GET / HTTP/1.1\r\nConnection: upgrade\r\n\r\n".to_owned(),
                404,
            ),
            // Requests without an end, or malformed.
            ("a".repeat(1 << 20), 431),
            ("GET /metrics\r\n\r\n".to_owned(), 400),
            ("GET  /metrics HTTP/1.1\r\n\r\n".to_owned(), 400),
            ("\r\n\r\n".to_owned(), 400),
        ] {
            let answer = say(address, &said);
            let expected = format!("HTTP/1.1 {status} ");
            assert!(answer.starts_with(&expected), "{said:.60}: {answer}");
        }
        // More clients than are served at a time. They send nothing, or stop in the middle of a
        // request.
        let silent: Vec<_> = (0..3 * THREADS)
            .map(|number| {
                let mut client = TcpStream::connect(address).unwrap();
                client
                    .write_all(&b"GET /metrics HTTP/1.1\r\n"[..number])
                    .unwrap();
                client
            })
            .collect();
        assert!(ask(address, "GET /metrics").starts_with("HTTP/1.1 200 "));
        drop(silent);
    }

    #[test]
    fn metrics_listen_on_loopback_only() {
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
