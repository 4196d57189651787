// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients of a volume that is re-encrypted: `luxor serve --reencrypt`, in turn with the same server of
//! the same volume without a re-encryption.
//!
//! `fio` gives each sector a checksum, and verifies what it writes while it is timed. At the end the
//! volume is decrypted, and `fio` verifies every sector of the file.

mod progress;
mod section;

use std::{ffi::OsString, path::PathBuf, thread, time::Duration};

use serde::{Deserialize, Serialize};

use self::progress::Sample;
use super::{CHEAP, Plan, Resilience, volume::Volume};
use crate::{
    fio::{self, Verified},
    program::{Folder, Program},
    server::Server,
    stats::{self, Summary},
};

/// The result.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Report {
    data_bytes: usize,
    /// The version of fio; `None` if nothing was measured.
    fio: Option<String>,
    rounds: usize,
    /// For how long the clients work in each round.
    turn_seconds: f64,
    rows: Vec<Clients>,
    /// What could not be measured, and why.
    absent: Vec<String>,
}

/// How the clients fare.
#[derive(Debug, Deserialize, Serialize)]
struct Clients {
    request_bytes: usize,
    /// Requests in flight.
    depth: usize,
    /// What protects the re-encryption; `None` if there is none.
    resilience: Option<Resilience>,
    /// What is written and read.
    mib_per_s: Summary,
    p99_microseconds: Summary,
    /// Their part of the throughput without a re-encryption in the same round.
    of_idle: Option<Summary>,
    /// The ratio to the latency without a re-encryption in the same round.
    p99_times_idle: Option<Summary>,
    /// How fast the re-encryption is meanwhile.
    reencrypted_mib_per_s: Option<Summary>,
    /// In how many rounds the re-encryption lasted longer than the clients worked. Only these count.
    rounds: usize,
}

/// Requests at random places, and how many are in flight.
const LOADS: [(usize, usize); 2] = [(64 << 10, 16), (4 << 10, 32)];

/// How often the re-encryption is looked at.
const MOMENT: Duration = Duration::from_millis(5);

impl Report {
    /// Measures everything, or says why this is not possible.
    pub(super) fn measure(plan: &Plan) -> Result<Self, String> {
        let mut report = Self {
            data_bytes: plan.online_bytes,
            fio: None,
            rounds: if plan.quick { 1 } else { plan.rounds },
            turn_seconds: plan.turn.as_secs_f64(),
            rows: Vec::new(),
            absent: Vec::new(),
        };
        match fio::version() {
            Ok(version) => report.fio = Some(version),
            Err(why) => {
                report.absent.push(format!("luxor serve: {why}"));
                return Ok(report);
            }
        }
        let folder = Folder::new(&plan.folder)?;
        let [socket, log] = ["socket", "log"].map(|name| folder.path().join(name));
        let session = Session {
            turn: plan.turn,
            volume: Volume::new(plan, plan.online_bytes, folder.path())?,
            socket,
            log,
        };
        session.volume.format()?;
        let server = session.serve(false)?;
        fio::fill(server.uri(), plan.online_bytes)?;
        server.stop()?;
        for load in &LOADS[..if plan.quick { 1 } else { LOADS.len() }] {
            report.measure_load(&session, *load)?;
        }
        session.volume.decrypt()?;
        fio::verify_file(&session.volume.plain, plan.online_bytes)?;
        Ok(report)
    }

    fn measure_load(&mut self, session: &Session<'_>, load: (usize, usize)) -> Result<(), String> {
        let contestants = [None, Some(Resilience::Checksum), Some(Resilience::Journal)];
        let mut lanes = contestants.map(Lane::new);
        for at in stats::turns(self.rounds, lanes.len()) {
            let lane = &mut lanes[at];
            let failed = |why| format!("{}: {why}", name(lane.resilience));
            let (found, rate) = session.run(lane.resilience, load).map_err(failed)?;
            (lane.bytes_per_second).push(found.map(|found| found.bytes_per_second));
            lane.p99.push(found.map(|found| found.p99));
            lane.reencrypted.push(rate);
        }
        for lane in &lanes {
            match Clients::from_lanes(lane, &lanes[0], load) {
                Some(row) => self.rows.push(row),
                None => self.absent.push(format!(
                    "{}: it ended before the clients did; see --size and --turn",
                    name(lane.resilience)
                )),
            }
        }
        Ok(())
    }
}

/// A contestant, which has one turn per round.
struct Lane {
    resilience: Option<Resilience>,
    bytes_per_second: Vec<Option<f64>>,
    p99: Vec<Option<f64>>,
    reencrypted: Vec<Option<f64>>,
}

impl Lane {
    fn new(resilience: Option<Resilience>) -> Self {
        Self {
            resilience,
            bytes_per_second: Vec::new(),
            p99: Vec::new(),
            reencrypted: Vec::new(),
        }
    }
}

impl Clients {
    /// `None` if no round counts.
    fn from_lanes(
        lane: &Lane,
        idle: &Lane,
        (request_bytes, depth): (usize, usize),
    ) -> Option<Self> {
        let summary = |samples: &[Option<f64>]| {
            Summary::from_samples(samples.iter().flatten().copied().collect::<Vec<_>>())
        };
        let of_idle = |ours: &[Option<f64>], idle: &[Option<f64>]| {
            stats::ratios(ours, idle).filter(|_| lane.resilience.is_some())
        };
        let mib = 1.0 / f64::from(1 << 20);
        Some(Self {
            request_bytes,
            depth,
            resilience: lane.resilience,
            mib_per_s: summary(&lane.bytes_per_second)?.scaled(mib),
            p99_microseconds: summary(&lane.p99)?.scaled(1e6),
            of_idle: of_idle(&lane.bytes_per_second, &idle.bytes_per_second),
            p99_times_idle: of_idle(&lane.p99, &idle.p99),
            reencrypted_mib_per_s: summary(&lane.reencrypted).map(|rate| rate.scaled(mib)),
            rounds: lane.bytes_per_second.iter().flatten().count(),
        })
    }
}

/// The volume, and its server.
struct Session<'a> {
    turn: Duration,
    volume: Volume<'a>,
    socket: PathBuf,
    log: PathBuf,
}

impl Session<'_> {
    fn serve(&self, reencrypts: bool) -> Result<Server, String> {
        let mut words = self.volume.server("serve");
        words.extend(["--socket".into(), OsString::from(&self.socket)]);
        words.extend(reencrypts.then(|| "--reencrypt=begun".into()));
        words.push(OsString::from(&self.volume.path));
        Server::start(&words, &self.socket, &self.log)
    }

    fn reencrypt(&self, part: &str, resilience: Resilience) -> Result<(), String> {
        let mut words = self.volume.luxor("reencrypt");
        words.extend(CHEAP.map(OsString::from));
        words.extend([part, "--resilience", resilience.name()].map(OsString::from));
        words.push(OsString::from(&self.volume.path));
        Program::new(words).run(false)
    }

    /// Lets the clients work. Returns how they fared, and how many bytes of the data were re-encrypted in
    /// a second; `None` if the re-encryption ended before them.
    fn run(
        &self,
        resilience: Option<Resilience>,
        (request_bytes, depth): (usize, usize),
    ) -> Result<(Option<Verified>, Option<f64>), String> {
        if let Some(resilience) = resilience {
            self.reencrypt("--init-only", resilience)?;
        }
        let server = self.serve(resilience.is_some())?;
        let mut samples = Vec::new();
        let found = thread::scope(|scope| {
            let clients = scope.spawn(|| {
                let bytes = self.volume.bytes;
                fio::verified(server.uri(), request_bytes, depth, bytes, self.turn)
            });
            while !clients.is_finished() {
                samples.push(Sample::now(&self.volume.path, &server.log()));
                thread::sleep(MOMENT);
            }
            clients.join().map_err(|_| "the client has panicked")
        })?;
        // An error of the server comes before one of the client that it has caused.
        server.stop()?;
        let found = found?;
        if resilience.is_none() {
            return Ok((Some(found), None));
        }
        if progress::done(&self.volume.path).is_none() {
            return Ok((None, None));
        }
        self.reencrypt("--resume-only", Resilience::None)?;
        Ok((Some(found), progress::rate(&samples)))
    }
}

/// Returns the name of a contestant in tables and messages.
fn name(resilience: Option<Resilience>) -> String {
    match resilience {
        None => "luxor serve".to_owned(),
        Some(resilience) => format!("luxor serve --reencrypt, {}", resilience.name()),
    }
}
