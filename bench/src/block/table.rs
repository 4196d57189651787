// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables for a terminal.

use std::collections::BTreeMap;

use super::{Contestant, Report};
use crate::{size, stats::Summary};

impl Report {
    /// All of it.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "A disk of {}{}, at Unix sockets; {} s a turn, {} rounds; {}. Medians, and the \
             quartiles.\n",
            size::text(self.disk_bytes),
            if self.in_memory {
                " in memory"
            } else {
                " NOT in memory: this measures the disk"
            },
            self.turn_seconds,
            self.rounds,
            self.fio,
        );
        for about in &self.contestants {
            text += &format!(
                "{}: {}, {} MiB of memory at most\n  {}\n",
                about.contestant.text(),
                about.version,
                about
                    .peak_bytes
                    .map_or("?".to_owned(), |bytes| (bytes >> 20).to_string()),
                about.command.join(" ")
            );
        }
        for reason in &self.absent {
            text += &format!("without {reason}\n");
        }
        let luxors: Vec<Contestant> = self
            .contestants
            .iter()
            .map(|about| about.contestant)
            .filter(|contestant| contestant.is_luxor())
            .collect();
        for case in &self.throughput {
            text += &format!("\n{}\n{:<31}", case.load.text(), "");
            text += &format!(" {:>20} {:>11}", "MiB/s", "core s/GiB");
            text += &heads(&luxors);
            for row in &case.rows {
                text += &format!(
                    "{:<31} {:>20} {:>11.3}",
                    row.contestant.text(),
                    row.mib_per_s.text(0),
                    row.server_cpu_seconds_per_gib.median,
                );
                text += &columns(&luxors, row.contestant, |luxor| {
                    let of = case.rows.iter().find(|row| row.contestant == luxor)?;
                    Some(&of.times)
                });
            }
        }
        for (what, p99) in [("median", false), ("99th percentile", true)] {
            text += &format!(
                "\nrandom 4 KiB reads, one at a time: {what} of the time for one\n{:<31}",
                ""
            );
            text += &format!(" {:>20} {:>11}", "microseconds", "");
            text += &heads(&luxors);
            for row in &self.latency {
                let of = if p99 {
                    &row.p99_microseconds
                } else {
                    &row.p50_microseconds
                };
                text += &format!(
                    "{:<31} {:>20} {:>11}",
                    row.contestant.text(),
                    of.text(1),
                    ""
                );
                text += &columns(&luxors, row.contestant, |luxor| {
                    let of = self.latency.iter().find(|row| row.contestant == luxor)?;
                    Some(if p99 { &of.p99_times } else { &of.p50_times })
                });
            }
        }
        text
    }
}

/// `luxor / this`, which is what a row's ratios are of.
fn heads(luxors: &[Contestant]) -> String {
    let heads = luxors
        .iter()
        .map(|luxor| format!(" {:>20}", format!("{} / this", luxor.name())));
    heads.collect::<String>() + "\n"
}

fn columns<'a>(
    luxors: &[Contestant],
    this: Contestant,
    times: impl Fn(Contestant) -> Option<&'a BTreeMap<&'static str, Summary>>,
) -> String {
    let columns = luxors.iter().map(|&luxor| {
        let ratio = times(luxor).and_then(|times| times.get(this.name()));
        let ratio = ratio.map_or("-".to_owned(), |ratio| ratio.text(2));
        format!(" {ratio:>20}")
    });
    columns.collect::<String>() + "\n"
}
