// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes the result of `block`.

use std::collections::BTreeMap;

use super::{About, Case, Contestant, Report, ServerLatency};
use crate::{
    plot::{self, Bar, Plot, Whose},
    program,
    section::{Row, Section, Table, cell},
    size,
    stats::Summary,
};

/// The plots show requests of this length on one connection; the tables show all.
const PLOTTED: usize = 64 << 10;

impl Report {
    pub(super) fn section(&self) -> Section {
        let plotted = self.throughput.iter().filter(|case| case.is_plotted());
        let luxors = self.contestants.iter().map(|about| about.contestant);
        let luxors: Vec<_> = luxors.filter(|contestant| contestant.is_luxor()).collect();
        let throughput = self.throughput.iter().map(|case| case.table(&luxors));
        Section {
            title: "A disk for other programs".to_owned(),
            about: format!(
                "luxor serve, nbdkit and qemu-nbd serve disks of {}{} at Unix sockets, under the \
                 same load from {}: {} s per turn, {} rounds; medians and quartiles.",
                size::text(self.disk_bytes),
                program::place(self.in_memory),
                self.fio,
                self.turn_seconds,
                self.rounds,
            ),
            conclusion: self.conclusion(),
            brief: self.brief(),
            plots: plotted.map(Case::plot).collect(),
            tables: throughput.chain([self.latency(&luxors)]).collect(),
            digest: vec![self.digest(), self.latency_digest()],
            notes: self.contestants.iter().map(About::text).collect(),
            absent: self.absent.clone(),
            ..Section::default()
        }
    }

    fn brief(&self) -> Option<String> {
        let mut cases = self.throughput.iter().filter(|case| case.is_plotted());
        let case = cases.next()?;
        let mut rows = case.rows.iter();
        let own = rows.find(|row| row.contestant == Contestant::Luxor)?;
        let rate = plot::value(own.mib_per_s);
        let load = case.load.text();
        Some(format!("serve {rate} MiB/s ({load})"))
    }

    fn conclusion(&self) -> Option<String> {
        let said = self.throughput.iter().filter_map(|case| {
            let mut rows = case.rows.iter().filter(|_| case.is_plotted());
            let own = rows.find(|row| row.contestant == Contestant::Luxor)?;
            let rate = plot::value(own.mib_per_s);
            let mut text = format!("{rate} MiB/s ({})", case.load.text());
            for (name, rival) in [("nbdkit-luks", "nbdkit's"), ("qemu-luks", "qemu-nbd's")] {
                if let Some(ratio) = own.times.get(name) {
                    text += &format!(", {ratio:.2} times {rival} with LUKS1");
                }
            }
            Some(text)
        });
        let said: Vec<_> = said.collect();
        (!said.is_empty()).then(|| format!("luxor serve reaches {}.", said.join("; ")))
    }

    /// Returns one row for each load: the speed of Luxor's server, and its ratios to the others.
    fn digest(&self) -> Table {
        let others: Vec<Contestant> = self.others().collect();
        let rows = self.throughput.iter().filter_map(|case| {
            let own = case
                .rows
                .iter()
                .find(|row| row.contestant == Contestant::Luxor)?;
            let times = |other: &Contestant| cell(own.times.get(other.name()), |all| all.text(2));
            let cells = others.iter().map(times);
            let cells = std::iter::once(own.mib_per_s.text(0)).chain(cells);
            Some(Row::new(Whose::Luxor, case.load.text(), cells))
        });
        let heads = std::iter::once("MiB/s".to_owned()).chain(heads_of_digest(&others));
        let caption = "luxor serve of a volume with 4096-byte sectors, compared with each server";
        Table::new(caption, "Load", heads, rows)
    }

    /// Returns the latency of Luxor's servers, and its ratios to those of the others.
    fn latency_digest(&self) -> Table {
        let others: Vec<Contestant> = self.others().collect();
        let rows = self.latency.iter().flat_map(|row| {
            let percentiles = [
                ("median", row.p50_microseconds, &row.p50_times),
                ("99th percentile", row.p99_microseconds, &row.p99_times),
            ];
            let others = &others;
            percentiles.map(move |(name, microseconds, times)| {
                let times = |other: &Contestant| cell(times.get(other.name()), |all| all.text(2));
                let cells = others.iter().map(times);
                let cells = std::iter::once(microseconds.text(1)).chain(cells);
                let name = format!("{}, {name}", row.contestant.text());
                Row::new(row.contestant.whose(), name, cells)
            })
        });
        let heads = std::iter::once("µs".to_owned()).chain(heads_of_digest(&others));
        Table::new(
            "A read of 4 KiB at a random place, alone",
            "Server",
            heads,
            rows,
        )
    }

    fn others(&self) -> impl Iterator<Item = Contestant> {
        let all = self.contestants.iter().map(|about| about.contestant);
        all.filter(|who| *who != Contestant::Luxor)
    }

    fn latency(&self, luxors: &[Contestant]) -> Table {
        let rows = self.latency.iter().map(|row| {
            let times = |of: fn(&ServerLatency) -> &BTreeMap<&'static str, Summary>| {
                let all = self
                    .latency
                    .iter()
                    .map(move |row| (row.contestant, of(row)));
                times(luxors, row.contestant, all)
            };
            let cells = [&row.p50_microseconds, &row.p99_microseconds].map(|all| all.text(1));
            let cells = cells.into_iter().chain(times(|row| &row.p50_times));
            let cells = cells.chain(times(|row| &row.p99_times));
            Row::new(row.contestant.whose(), row.contestant.text(), cells)
        });
        let heads = ["Median", "99th percentile"].map(str::to_owned).into_iter();
        let ratios = ["median", "99th percentile"].into_iter();
        let ratios = ratios.flat_map(|what| {
            let heads = heads_of(luxors);
            heads.map(move |head| format!("{head}, {what}"))
        });
        Table::new(
            "Microseconds per read of 4 KiB at a random place, one at a time",
            "Server",
            heads.chain(ratios),
            rows,
        )
    }
}

impl About {
    fn text(&self) -> String {
        let peak = self.peak_bytes.map(|bytes| (bytes >> 20).to_string());
        format!(
            "{}: {}, at most {} MiB of memory: `{}`",
            self.contestant.text(),
            self.version,
            peak.as_deref().unwrap_or("?"),
            self.command.join(" ")
        )
    }
}

impl Contestant {
    fn whose(self) -> Whose {
        Whose::rival_if(!self.is_luxor())
    }
}

impl Case {
    fn is_plotted(&self) -> bool {
        (self.load.request_bytes, self.load.connections) == (PLOTTED, 1)
    }

    fn plot(&self) -> Plot {
        let bars = self.rows.iter().map(|row| {
            let who = row.contestant;
            Bar::new(who.text(), who.whose(), row.mib_per_s)
        });
        let plot = Plot::bars(self.load.text(), "MiB/s", bars);
        let surprises = self.rows.iter().filter_map(|row| {
            let plain = row.contestant.without_encryption()?;
            let mut rows = self.rows.iter();
            let plain = rows.find(|row| row.contestant == plain)?;
            let faster = row.mib_per_s.median > plain.mib_per_s.median;
            faster.then_some(row.contestant.text())
        });
        let surprises: Vec<_> = surprises.collect();
        match surprises.as_slice() {
            [] => plot,
            names => plot.with_remark(format!(
                "Faster here than the same server without encryption: {}. The rounds differ by more \
                 than encryption costs; see the quartiles.",
                names.join("; ")
            )),
        }
    }

    fn table(&self, luxors: &[Contestant]) -> Table {
        let rows = self.rows.iter().map(|row| {
            let who = row.contestant;
            let cpu = row.server_cpu_seconds_per_gib.text(3);
            let all = self.rows.iter().map(|row| (row.contestant, &row.times));
            let times = times(luxors, who, all);
            let cells = [row.mib_per_s.text(0), cpu].into_iter().chain(times);
            Row::new(who.whose(), who.text(), cells)
        });
        let heads = ["MiB/s", "CPU seconds per GiB"].map(str::to_owned);
        let heads = heads.into_iter().chain(heads_of(luxors));
        Table::new(self.load.text(), "Server", heads, rows)
    }
}

/// Returns the heads for the ratios to these servers.
fn heads_of_digest(others: &[Contestant]) -> impl Iterator<Item = String> {
    let others = others.iter();
    others.map(|other| format!("Times {}", other.text()))
}

/// Returns the heads `luxor / this` for the ratios of Luxor's servers to the server of the row.
fn heads_of(luxors: &[Contestant]) -> impl Iterator<Item = String> {
    let luxors = luxors.iter();
    luxors.map(|luxor| format!("{} / this", luxor.name()))
}

/// Returns the ratios of Luxor's servers to this server.
fn times<'a>(
    luxors: &[Contestant],
    this: Contestant,
    all: impl Iterator<Item = (Contestant, &'a BTreeMap<&'static str, Summary>)>,
) -> Vec<String> {
    let all: Vec<_> = all.collect();
    let times = luxors.iter().map(|luxor| {
        let times = all.iter().find(|(who, _)| who == luxor);
        cell(
            times.and_then(|(_, times)| times.get(this.name())),
            |ratio| ratio.text(2),
        )
    });
    times.collect()
}
