// SPDX-License-Identifier: MIT OR Apache-2.0
//! The client: `fio` with its engine `nbd`. Each of its jobs is a connection. `fio` also verifies files.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::size;

/// The direction of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Access {
    Read,
    Write,
}

/// The load that the clients put on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Load {
    pub(crate) access: Access,
    pub(crate) request_bytes: usize,
    /// Requests in flight on each connection.
    pub(crate) depth: usize,
    pub(crate) connections: usize,
}

/// Requests of up to this many bytes go to random places. Longer ones are sequential, each
/// connection in its own part of the disk.
const RANDOM: usize = 4096;

impl Load {
    /// Returns all loads, those with small requests and few connections first.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for (request_bytes, depth) in [(4 << 10, 32), (64 << 10, 16), (1 << 20, 8)] {
            for connections in [1, 4] {
                for access in [Access::Read, Access::Write] {
                    all.push(Self {
                        access,
                        request_bytes,
                        depth,
                        connections,
                    });
                }
            }
        }
        all
    }

    /// Describes the load in words.
    pub(crate) fn text(&self) -> String {
        format!(
            "{}{} {}s, {} in flight, {} connection{}",
            if self.request_bytes <= RANDOM {
                "random "
            } else {
                ""
            },
            size::text(self.request_bytes),
            self.name(),
            self.depth,
            self.connections,
            if self.connections == 1 { "" } else { "s" }
        )
    }

    fn name(&self) -> &'static str {
        match self.access {
            Access::Read => "read",
            Access::Write => "write",
        }
    }

    fn words(&self, disk_bytes: usize) -> Vec<String> {
        let (way, stretch, apart) = if self.request_bytes <= RANDOM {
            (format!("rand{}", self.name()), disk_bytes, 0)
        } else {
            let stretch = stretch(disk_bytes, self.connections);
            (self.name().to_owned(), stretch, stretch)
        };
        vec![
            format!("--rw={way}"),
            format!("--bs={}", self.request_bytes),
            format!("--iodepth={}", self.depth),
            format!("--numjobs={}", self.connections),
            format!("--size={stretch}"),
            format!("--offset_increment={apart}"),
            // fio need not keep track of the blocks that it has covered.
            "--norandommap".to_owned(),
            "--randrepeat=0".to_owned(),
        ]
    }
}

/// Returns the bytes of a connection's own part of the disk.
fn stretch(disk_bytes: usize, connections: usize) -> usize {
    let share = disk_bytes / connections;
    share - share % (1 << 20)
}

/// The result of a throughput measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Throughput {
    pub(crate) bytes: f64,
    pub(crate) bytes_per_second: f64,
}

/// The time from the submission of a request to its completion, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

/// Runs the load for the time `turn`.
pub(crate) fn throughput(
    uri: &OsStr,
    load: &Load,
    disk_bytes: usize,
    turn: Duration,
) -> Result<Throughput, String> {
    let mut words = load.words(disk_bytes);
    words.extend(timed(turn));
    // Do not time single requests, so that the client is as fast as possible.
    words.push("--gtod_reduce=1".to_owned());
    let job = run(&nbd(uri), &words)?;
    let side = &job[load.name()];
    let number = |name: &str| side[name].as_f64().filter(|&n| n > 0.0);
    number("io_bytes")
        .zip(number("bw_bytes"))
        .map(|(bytes, bytes_per_second)| Throughput {
            bytes,
            bytes_per_second,
        })
        .ok_or_else(|| format!("fio transferred nothing: {side}"))
}

/// Reads 4 KiB at random places, one at a time, for the time `turn`.
pub(crate) fn latency(uri: &OsStr, disk_bytes: usize, turn: Duration) -> Result<Latency, String> {
    let load = Load {
        access: Access::Read,
        request_bytes: 4096,
        depth: 1,
        connections: 1,
    };
    let mut words = load.words(disk_bytes);
    words.extend(timed(turn));
    words.extend(["--lat_percentiles=1", "--percentile_list=50:99"].map(String::from));
    let job = run(&nbd(uri), &words)?;
    let of = &job["read"]["lat_ns"]["percentile"];
    let nanoseconds = |name: &str| of[name].as_f64();
    nanoseconds("50.000000")
        .zip(nanoseconds("99.000000"))
        .map(|(p50, p99)| Latency {
            p50: p50 / 1e9,
            p99: p99 / 1e9,
        })
        .ok_or_else(|| format!("fio reported no latencies: {}", job["read"]))
}

/// Writes requests of 512 bytes to 128 KiB over four connections, with 8 in flight on each, and
/// reads them back. fio verifies their checksums.
pub(crate) fn verify(uri: &OsStr, disk_bytes: usize) -> Result<(), String> {
    let stretch = stretch(disk_bytes, 4);
    let words = [
        "--rw=randwrite".to_owned(),
        "--bsrange=512-128k".to_owned(),
        "--iodepth=8".to_owned(),
        "--numjobs=4".to_owned(),
        format!("--size={}", stretch.min(8 << 20)),
        format!("--offset_increment={stretch}"),
        "--verify=crc32c".to_owned(),
        "--verify_fatal=1".to_owned(),
        "--verify_state_save=0".to_owned(),
    ];
    let job = run(&nbd(uri), &words)?;
    // Otherwise fio has verified nothing.
    match (
        job["write"]["io_bytes"].as_f64(),
        job["read"]["io_bytes"].as_f64(),
    ) {
        (Some(written), Some(read)) if written > 0.0 && read >= written => Ok(()),
        other => Err(format!("fio verified nothing: {other:?}")),
    }
}

/// Gives each 4 KiB of the disk a checksum.
const CHECKSUMS: [&str; 4] = [
    "--verify=crc32c",
    "--verify_interval=4096",
    "--verify_fatal=1",
    "--verify_state_save=0",
];

/// The result of a load that fio verifies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Verified {
    /// Reads and writes together.
    pub(crate) bytes_per_second: f64,
    /// In seconds.
    pub(crate) p99: f64,
}

/// Fills the disk with blocks of 4 KiB that have checksums.
pub(crate) fn fill(uri: &OsStr, disk_bytes: usize) -> Result<(), String> {
    let mut words = CHECKSUMS.map(String::from).to_vec();
    words.extend(["--rw=write", "--bs=1M", "--iodepth=8", "--do_verify=0"].map(String::from));
    words.push(format!("--size={disk_bytes}"));
    run(&nbd(uri), &words).map(drop)
}

/// Writes such blocks at random places over one connection for the time `turn`, and soon reads them back.
/// fio verifies their checksums.
pub(crate) fn verified(
    uri: &OsStr,
    request_bytes: usize,
    depth: usize,
    disk_bytes: usize,
    turn: Duration,
) -> Result<Verified, String> {
    let mut words = CHECKSUMS.map(String::from).to_vec();
    words.extend([
        "--rw=randwrite".to_owned(),
        format!("--bs={request_bytes}"),
        format!("--iodepth={depth}"),
        format!("--size={disk_bytes}"),
        "--randrepeat=0".to_owned(),
        // How many writes come before they are read back.
        "--verify_backlog=64".to_owned(),
        "--unified_rw_reporting=mixed".to_owned(),
        "--lat_percentiles=1".to_owned(),
        "--percentile_list=99".to_owned(),
    ]);
    words.extend(timed(turn));
    let job = run(&nbd(uri), &words)?;
    let both = &job["mixed"];
    let numbers = both["io_bytes"]
        .as_f64()
        .zip(job["job_runtime"].as_f64())
        .zip(both["lat_ns"]["percentile"]["99.000000"].as_f64());
    match numbers {
        Some(((bytes, milliseconds), p99)) if bytes > 0.0 && milliseconds > 0.0 => Ok(Verified {
            bytes_per_second: bytes / milliseconds * 1e3,
            p99: p99 / 1e9,
        }),
        _ => Err(format!("fio transferred nothing: {both}")),
    }
}

/// Verifies the checksums of all blocks of a file.
pub(crate) fn verify_file(file: &Path, bytes: usize) -> Result<(), String> {
    // fio separates files by colons.
    let name = file.to_string_lossy().replace(':', "\\:");
    let engine = [
        "--ioengine=psync".into(),
        format!("--filename={name}").into(),
    ];
    let mut words = CHECKSUMS.map(String::from).to_vec();
    words.extend(["--rw=read".to_owned(), "--bs=1M".to_owned()]);
    words.push(format!("--size={bytes}"));
    let job = run(&engine, &words)?;
    match job["read"]["io_bytes"].as_u64() {
        Some(read) if read == bytes as u64 => Ok(()),
        read => Err(format!("fio verified {read:?} of {bytes} bytes")),
    }
}

/// Returns the version of fio.
pub(crate) fn version() -> Result<String, String> {
    let engine = Command::new("fio").arg("--enghelp=nbd").output();
    if !engine.is_ok_and(|output| output.status.success()) {
        return Err("fio with the engine nbd is not on PATH".to_owned());
    }
    crate::program::first_line("fio", &["--version"])
}

fn timed(turn: Duration) -> [String; 2] {
    let runtime = format!("--runtime={}ms", turn.as_millis());
    ["--time_based".to_owned(), runtime]
}

/// The options for an NBD server.
fn nbd(uri: &OsStr) -> [OsString; 2] {
    let mut of_uri = OsString::from("--uri=");
    of_uri.push(uri);
    ["--ioengine=nbd".into(), of_uri]
}

/// Runs fio and returns its combined report of all jobs.
fn run(engine: &[OsString], words: &[String]) -> Result<Value, String> {
    let common = [
        "--name=load",
        "--thread",
        "--group_reporting",
        "--output-format=json",
    ];
    let output = Command::new("fio")
        .args(common)
        .args(engine)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("fio: {e}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let failed = |what: &str| {
        let errors = String::from_utf8_lossy(&output.stderr);
        format!("`fio {}` {what}: {}", words.join(" "), errors.trim())
    };
    if !output.status.success() {
        return Err(failed("failed"));
    }
    // fio may print notes before the JSON.
    let json = said.find('{').map(|begin| &said[begin..]);
    let json: Option<Value> = json.and_then(|json| serde_json::from_str(json).ok());
    let job = json.as_ref().map(|json| &json["jobs"][0]);
    match job {
        Some(job) if job["error"] == 0 => Ok(job.clone()),
        _ => Err(failed("reported no success")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequential_connections_use_separate_ranges() {
        let load = |request_bytes, connections| Load {
            access: Access::Write,
            request_bytes,
            depth: 8,
            connections,
        };
        let words = load(1 << 20, 4).words(18 << 20);
        assert!(words.contains(&"--rw=write".to_owned()));
        assert!(words.contains(&format!("--size={}", 4 << 20)));
        assert!(words.contains(&format!("--offset_increment={}", 4 << 20)));
        // Random requests of all connections cover the whole disk.
        let words = load(4096, 4).words(18 << 20);
        assert!(words.contains(&"--rw=randwrite".to_owned()));
        assert!(words.contains(&format!("--size={}", 18 << 20)));
        assert!(words.contains(&"--offset_increment=0".to_owned()));
    }
}
