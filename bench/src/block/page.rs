// SPDX-License-Identifier: MIT OR Apache-2.0
//! The section of `luxor report`.

use super::{Case, Contestant, Report};
use crate::{
    page::{
        self, Row, Section, Table, Whose, columns,
        plot::{self, Bar},
    },
    size,
};

/// Plots are of such requests on one connection; the tables have all.
const PLOTTED: usize = 64 << 10;

impl Report {
    /// What stands in the report.
    ///
    /// # Errors
    /// When a plot cannot be drawn.
    pub(crate) fn section(&self) -> Result<Section, String> {
        let plotted = self.throughput.iter().filter(|case| case.is_plotted());
        let latency = self.latency.iter().map(|row| {
            let cells = [&row.p50_microseconds, &row.p99_microseconds].map(|all| all.text(1));
            let name = [row.contestant.text().to_owned()];
            Row::new(row.contestant.whose(), name.into_iter().chain(cells))
        });
        let latency = Table {
            caption: "Microseconds for a read of 4 KiB, one at a time".to_owned(),
            columns: columns(&["Server", "Median", "99th percentile"]),
            rows: latency.collect(),
        };
        let place = if self.in_memory { " in memory" } else { "" };
        Ok(Section {
            name: "block",
            title: "A disk for other programs".to_owned(),
            paper: None,
            about: format!(
                "luxor serve, nbdkit and qemu-nbd with disks of {}{place}, under the same load of \
                 {}.",
                size::text(self.disk_bytes),
                self.fio
            ),
            conclusion: self.conclusion(),
            figures: plotted.map(Case::figure).collect::<Result<_, _>>()?,
            tables: self
                .throughput
                .iter()
                .map(Case::table)
                .chain([latency])
                .collect(),
            absent: self.absent.clone(),
        })
    }

    fn conclusion(&self) -> Option<String> {
        let said = self.throughput.iter().filter_map(|case| {
            let mut rows = case.rows.iter().filter(|_| case.is_plotted());
            let own = rows.find(|row| row.contestant == Contestant::Luxor)?;
            let rate = plot::value(own.mib_per_s.median);
            let mut text = format!("{rate} MiB/s ({})", case.load.text());
            for (name, rival) in [("nbdkit-luks", "nbdkit's"), ("qemu-luks", "qemu-nbd's")] {
                if let Some(ratio) = own.times.get(name) {
                    text += &format!(", {:.2} times {rival} LUKS1", ratio.median);
                }
            }
            Some(text)
        });
        let said: Vec<_> = said.collect();
        (!said.is_empty()).then(|| format!("luxor serve does {}.", said.join("; ")))
    }
}

impl Contestant {
    fn whose(self) -> Whose {
        page::whose(!self.is_luxor())
    }
}

impl Case {
    fn is_plotted(&self) -> bool {
        (self.load.request_bytes, self.load.connections) == (PLOTTED, 1)
    }

    fn figure(&self) -> Result<plot::Figure, String> {
        let bars = self.rows.iter().map(|row| {
            let who = row.contestant;
            Bar::new(who.text(), who.whose(), row.mib_per_s.median)
        });
        plot::bars(&self.load.text(), "MiB/s", &bars.collect::<Vec<_>>())
    }

    fn table(&self) -> Table {
        let rows = self.rows.iter().map(|row| {
            let rate = row.mib_per_s.text(0);
            let cpu = row.server_cpu_seconds_per_gib.text(3);
            Row::new(
                row.contestant.whose(),
                [row.contestant.text().to_owned(), rate, cpu],
            )
        });
        Table {
            caption: self.load.text(),
            columns: columns(&["Server", "MiB/s", "Core seconds for a GiB"]),
            rows: rows.collect(),
        }
    }
}
