// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes how clients fare during a re-encryption, as a part of the section.

use super::{Clients, Report, name};
use crate::{
    plot::{Bar, Plot, Whose},
    section::{Row, Section, Table, cell},
    size,
    stats::{Summary, is_beyond},
};

/// The goals: the least part of the throughput that clients keep, and by how much their latency may grow.
const OF_IDLE: f64 = 0.6;
const P99_TIMES_IDLE: f64 = 3.0;

impl Report {
    /// Adds the results to the section of the re-encryption.
    pub(in super::super) fn add_to(&self, section: &mut Section) {
        section.absent.extend(self.absent.iter().cloned());
        let mut loads: Vec<_> = self.rows.iter().map(Clients::load).collect();
        loads.dedup();
        let (Some(fio), false) = (&self.fio, loads.is_empty()) else {
            return;
        };
        let about = format!(
            "In use, a volume with {} of data is served by luxor serve, in turn with and without \
             --reencrypt. The client, {fio}, writes requests at random places for {} s, and reads them \
             back. It verifies them while it is timed, and in the end all of the decrypted volume. The \
             numbers are medians and quartiles of {} {}, of which only those count in which the \
             re-encryption lasted longer than the client worked. The goals are {OF_IDLE} of the \
             throughput without a re-encryption, and at most {P99_TIMES_IDLE} times the latency.",
            size::text(self.data_bytes),
            self.turn_seconds,
            self.rounds,
            if self.rounds == 1 { "round" } else { "rounds" },
        );
        section.about = [section.about.as_str(), &about].join(" ").trim().to_owned();
        for load in loads {
            let rows = self.rows.iter().filter(|row| row.load() == load);
            let (request, depth) = (size::text(load.0), load.1);
            let caption = format!("In use: requests of {request}, {depth} in flight");
            let bars = rows.clone();
            let bars = bars.map(|row| Bar::new(name(row.resilience), row.whose(), row.mib_per_s));
            section.plots.push(Plot::bars(&caption, "MiB/s", bars));
            section.tables.push(Table::new(
                caption,
                "Server, resilience",
                [
                    "Client, MiB/s",
                    "Of idle",
                    "Goal",
                    "Latency, 99th percentile, microseconds",
                    "Times idle",
                    "Goal",
                    "Re-encrypted, MiB/s",
                    "Rounds",
                ],
                rows.map(Clients::row),
            ));
        }
        let words = self.conclusion();
        section.conclusion = match (section.conclusion.take(), words) {
            (Some(first), Some(second)) => Some(format!("{first} {second}")),
            (first, second) => first.or(second),
        };
    }

    fn conclusion(&self) -> Option<String> {
        let by_median = |a: &Summary, b: &Summary| a.median.total_cmp(&b.median);
        let rows = || self.rows.iter();
        let kept = rows().filter_map(|row| row.of_idle).min_by(by_median)?;
        let longer = rows()
            .filter_map(|row| row.p99_times_idle)
            .max_by(by_median)?;
        if is_beyond(kept.median, 1.0) {
            return Some(
                "The machine was disturbed: during luxor serve --reencrypt a client was faster than \
                 without a re-encryption."
                    .to_owned(),
            );
        }
        Some(format!(
            "During luxor serve --reencrypt, a client keeps at least {kept:.2} of its throughput, and the \
             99th percentile of its latency is at most {longer:.2} times as long."
        ))
    }
}

impl Clients {
    fn load(&self) -> (usize, usize) {
        (self.request_bytes, self.depth)
    }

    fn whose(&self) -> Whose {
        match self.resilience {
            None => Whose::Limit,
            Some(_) => Whose::Luxor,
        }
    }

    fn row(&self) -> Row {
        let goal = |goal: f64| cell(self.resilience, |_| goal.to_string());
        let cells = [
            self.mib_per_s.text(0),
            cell(self.of_idle, |part| part.text_within(1.0, 2)),
            goal(OF_IDLE),
            self.p99_microseconds.text(0),
            cell(self.p99_times_idle, |times| times.text(2)),
            goal(P99_TIMES_IDLE),
            cell(self.reencrypted_mib_per_s, |rate| rate.text(0)),
            self.rounds.to_string(),
        ];
        Row::new(self.whose(), name(self.resilience), cells)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reencrypt::Resilience;

    fn row(request_bytes: usize, resilience: Option<Resilience>, factor: f64) -> Clients {
        let summary = |value| Summary::from_samples(vec![value]).unwrap();
        let ratio = |value| resilience.map(|_| summary(value));
        Clients {
            request_bytes,
            depth: 16,
            resilience,
            mib_per_s: summary(100.0 * factor),
            p99_microseconds: summary(500.0 / factor),
            of_idle: ratio(factor),
            p99_times_idle: ratio(1.0 / factor),
            reencrypted_mib_per_s: ratio(50.0),
            rounds: 7,
        }
    }

    #[test]
    fn the_worst_ratios_are_the_conclusion_and_each_load_has_a_table() {
        let report = Report {
            data_bytes: 1 << 30,
            fio: Some("fio-3".to_owned()),
            rounds: 7,
            turn_seconds: 2.0,
            rows: vec![
                row(4096, None, 1.0),
                row(4096, Some(Resilience::Checksum), 0.5),
                row(65536, None, 1.0),
                row(65536, Some(Resilience::Journal), 0.25),
            ],
            absent: vec!["luxor serve --reencrypt, checksum: why".to_owned()],
        };
        let mut section = Section {
            conclusion: Some("First.".to_owned()),
            ..Section::default()
        };
        report.add_to(&mut section);
        section.assert_whole();
        let said = section.conclusion.unwrap();
        let worst = "at least 0.25 of its throughput, and the 99th percentile of its latency is at most 4.00";
        assert!(
            said.starts_with("First. ") && said.contains(worst),
            "{said}"
        );
        let tables = section.tables.iter().map(|table| table.rows.len());
        assert_eq!(tables.collect::<Vec<_>>(), [2, 2]);
        assert_eq!(section.tables[0].rows[0].cells[3], "-");
        assert_eq!(section.tables[0].rows[1].cells[3], "0.6");
        assert_eq!(section.absent.len(), 1);
    }

    #[test]
    fn without_fio_only_the_reason_is_added() {
        let report = Report {
            data_bytes: 1 << 30,
            fio: None,
            rounds: 7,
            turn_seconds: 2.0,
            rows: Vec::new(),
            absent: vec!["luxor serve: no fio".to_owned()],
        };
        let mut section = Section::default();
        report.add_to(&mut section);
        assert!(section.tables.is_empty() && section.about.is_empty());
        assert_eq!(section.absent, report.absent);
    }
}
