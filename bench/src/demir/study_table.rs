// SPDX-License-Identifier: MIT OR Apache-2.0
//! The co-processor's tables for a terminal, beside the paper's.

use super::{
    coprocessor::{CONFIGURATIONS, Configuration, Work},
    published,
    study::{Breakdown, Cost, DigestRow, Parts, Served, Study},
    table::paper,
};
use crate::{size, stats::Summary};

/// A row of ours, as in the paper's Tables 1 and 2.
pub(super) type Line = (&'static str, fn(&Parts) -> &Summary);

pub(super) const LINES: [Line; 5] = [
    ("tweaks", |parts| &parts.tweaks),
    ("first XOR", |parts| &parts.first_xor),
    ("second XOR", |parts| &parts.second_xor),
    ("co-processor, with its setting up", |parts| &parts.device),
    ("other", |parts| &parts.other),
];

/// Configurations' columns.
const WIDTH: usize = 17;

impl Study {
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "\nThe co-processor: Luxor's core in its place, AES-128-XTS, sectors of 512 B.\n{}\
             Mixed, the CPU encrypts the data unit numbers too, which the paper's section 3.1 gives to \
             the co-processor.\n\
             Each configuration has read what each wrote: {} pairs. Seconds for {:.1} MB, medians \
             of {} rounds",
            self.cost.text(),
            self.compatible_pairs,
            self.bytes as f64 / 1e6,
            self.rounds,
        );
        if self.measured_bytes < self.bytes {
            let measured = self.measured_bytes as f64 / 1e6;
            text += &format!(
                "\n({measured:.1} MB measured with the co-processor and for MD5, and multiplied)"
            );
        }
        text += ".\n";
        for (direction, title, table) in published::TITLED {
            let rows: Vec<_> = self
                .breakdown
                .iter()
                .filter(|row| row.direction == direction)
                .collect();
            text += &breakdown(title, &rows);
            text += &paper(table);
            text += &gain(&rows, table);
        }
        text += &digest(&self.digest);
        text + &self.served_text()
    }
}

impl Study {
    fn served_text(&self) -> String {
        if self.served.is_empty() {
            return String::new();
        }
        let title = match self.served_rounds {
            None | Some(1) => "Served, MiB/s, Figure 5".to_owned(),
            Some(rounds) => format!("MiB/s of {rounds} rounds, Figure 5"),
        };
        let mut text = heading(&title, CONFIGURATIONS.into_iter());
        for case in self.served.chunks(CONFIGURATIONS.len()) {
            let cells = case.iter();
            let cells = cells.map(|row| format!("{:.0}", row.mib_per_s.median));
            text += &line(&case[0].case(), cells);
        }
        text + "  the paper's is a chart without numbers: with extended requests its mixed \
                configuration is about where its\n  XTS co-processor of 512 B is, slightly slower \
                encrypting and slightly faster decrypting; all others are behind.\n"
    }
}

impl Served {
    /// Of what disk and load it is: the same in a row of configurations.
    pub(super) fn case(&self) -> String {
        let load = self.load.text().replace(", 1 connection", "");
        format!("{}, {load}", size::text(self.disk_bytes))
    }
}

impl Cost {
    fn text(&self) -> String {
        let Self {
            setup_encrypt,
            setup_decrypt,
            clock_mhz,
            cycles,
            ..
        } = self;
        let [ecb, xts] = [cycles.ecb.encrypt, cycles.xts.encrypt];
        format!(
            "To set up a request takes {:.1} us encrypting and {:.1} us decrypting ({}).\n\
             The core's clock: {clock_mhz} MHz ({}). By its simulation a request of 512 B takes \
             {:.0} cycles in ECB and {:.0} in XTS,\neach further data unit {:.1} and {:.1}; of \
             4 KiB that is {:.2} us in XTS.\n",
            setup_encrypt / 1e3,
            setup_decrypt / 1e3,
            if self.setup_is_the_papers {
                "by what the paper's Tables 1 and 2 differ; --setup has another"
            } else {
                "--setup"
            },
            if self.clock_is_recorded {
                "recorded of its synthesis for an ECP5, for encryption; decryption, of a build that \
                 is not\nrouted, is taken to have the same; --clock has another"
            } else {
                "--clock"
            },
            ecb.first,
            xts.first,
            ecb.next,
            xts.next,
            xts.of(8) / clock_mhz,
        )
    }
}

fn heading(title: &str, configurations: impl Iterator<Item = Configuration>) -> String {
    let mut rows = [
        format!("\n{title:<34}"),
        format!("{:<34}", "in requests of"),
    ];
    for Configuration {
        work,
        request_bytes,
    } in configurations
    {
        rows[0] += &format!(" {:>WIDTH$}", work.name());
        rows[1] += &format!(" {:>WIDTH$}", size::text(request_bytes));
    }
    rows.join("\n") + "\n"
}

fn line(what: &str, cells: impl Iterator<Item = String>) -> String {
    let cells: String = cells.map(|cell| format!(" {cell:>WIDTH$}")).collect();
    format!("{what:<34}{cells}\n")
}

fn breakdown(title: &str, rows: &[&Breakdown]) -> String {
    let mut text = heading(title, rows.iter().map(|row| row.configuration));
    text += &line(
        "total",
        rows.iter().map(|row| format!("{:.4}", row.total.median)),
    );
    for (what, part) in LINES {
        let cell = |row: &&Breakdown| match &row.parts {
            None => "-".to_owned(),
            Some(parts) => {
                let (part, total) = (part(parts).median, row.total.median);
                if part > 0.0 {
                    format!("{part:.4} ({:.0}%)", part / total * 100.0)
                } else {
                    "-".to_owned()
                }
            }
        };
        text += &line(what, rows.iter().map(cell));
    }
    for row in rows.iter().filter(|row| row.late > 0.001) {
        text += &format!(
            "{:.1} % of the requests of {}: the CPU was slower than the core whose place it takes\n",
            row.late * 100.0,
            row.configuration.text()
        );
    }
    text
}

/// What extended requests bring, here and there.
fn gain(rows: &[&Breakdown], table: &[published::Row]) -> String {
    let total = |work: Work, bytes: usize| {
        let of = |row: &&&Breakdown| {
            row.configuration.work == work && row.configuration.request_bytes == bytes
        };
        rows.iter()
            .find(of)
            .map_or(f64::NAN, |row| row.total.median)
    };
    let times = |work| total(work, 512) / total(work, 4096);
    let (_, [short, extended], _) = table[0];
    format!(
        "Extended requests make the mixed configuration {:.2} times as fast, on the paper's board \
         {:.2} times, and the core {:.2} times.\n",
        times(Work::Mixed),
        short / extended,
        times(Work::Offloaded),
    )
}

fn digest(rows: &[DigestRow]) -> String {
    let mut text = heading(
        "MD5 of an encrypted file, Figure 4",
        rows.iter().map(|row| row.configuration),
    );
    let cells = |of: fn(&DigestRow) -> &Summary| {
        rows.iter().map(move |row| format!("{:.4}", of(row).median))
    };
    text += &line("total", cells(|row| &row.total));
    text += &line("MD5", cells(|row| &row.md5));
    text += &line("decryption", cells(|row| &row.driver));
    text += &line("reading, and the rest", cells(|row| &row.rest));
    text + "  the paper's is a chart without numbers: MD5 is the same in both and small, decryption \
            most of the time,\n  and reading and the rest is almost halved by extended requests.\n"
}
