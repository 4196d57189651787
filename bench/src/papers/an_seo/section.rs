// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes the result of `an-seo-2022`, with the paper's numbers.

use super::{Rate, Report, Streams, Whose, published};
use crate::{
    devices,
    plot::{self, Bar, Plot},
    rivals,
    section::{Paper, Row, Section, Table, cell},
    size,
    stats::Summary,
};

const PAPER: Paper = Paper {
    name: "An and Seo, 2022",
    question: "How much faster is XTS on a GPU that gets only every 128th power of alpha?",
    reference: "Sangwoo An and Seog Chung Seo (Kookmin University): Designing a New XTS-AES Parallel \
        Optimization Implementation Technique for Fast File Encryption. IEEE Access 10, 2022, \
        doi:10.1109/ACCESS.2022.3155810.",
    claim: "With every 128th power of alpha from the host, a GPU encrypts 128 MB in 1.59 ms, 21.96 \
        times as fast as with all powers from the host (34.91 ms in the text, 35.72 in Tables 3 and \
        4), and 240.1 times as fast as the CPU alone (381.76 ms). With AES-128 and a block size of 8192 \
        bytes, in our reading the length of a data unit, the GPU reaches 146.91 GB/s, and OpenSSL \
        12.01.",
    rebuilt: "The four systems. Those with a GPU run on each device of OpenCL and of NVIDIA's \
        driver, with and without copies, in turn with the engine's kernels and with libraries.",
};

/// The paper's system without a GPU.
const NAIVE_CPU: &str = "naive CPU";

/// The length of data units in the plot, dm-crypt's usual one.
const SHOWN: usize = 4096;

impl Report {
    pub(super) fn section(&self) -> Section {
        let about = format!(
            "{}Here the data of Tables 3 and 4 are one unit under AES-128 (the paper names no key size \
             for them); medians of {} rounds. The host computes all tweaks, every 8th or every 128th; \
             the device fills the gaps and encrypts, in 32 streams.{}",
            published::REMARK,
            self.rounds,
            devices::text(&self.devices)
        );
        let rates = [128, 256].into_iter().filter_map(|bits| self.rates(bits));
        let mut rows = self.tables_3_and_4.iter();
        let mut absent = devices::absent(&self.devices, &self.absent);
        absent.extend(rivals::absent(rows.any(|row| row.whose == Whose::Rival)));
        let section = Section {
            title: "XTS on a GPU, powers of alpha from the host".to_owned(),
            paper: Some(PAPER),
            about,
            conclusion: self.conclusion(),
            headline: Some(self.headline()),
            plots: std::iter::once(self.plot())
                .chain(self.plot_of_rates())
                .collect(),
            tables: [self.systems(), self.factors(), self.by_streams()]
                .into_iter()
                .chain(rates)
                .collect(),
            absent,
            ..Section::default()
        };
        section.without_empty_tables()
    }

    fn plot(&self) -> Plot {
        let rows = self.tables_3_and_4.iter();
        let ours = rows.map(|row| Bar::new(row.name(), row.whose.of_row(), row.total_ms.median));
        let printed = published::SYSTEMS.iter();
        let printed = printed.filter_map(printed_bar);
        let caption = format!("Milliseconds for {}", size::text(self.file_bytes));
        Plot::dots(caption, "ms", ours.chain(printed))
    }

    /// Plots the fastest contestant of each kind, and what the paper prints.
    fn headline(&self) -> Plot {
        let kinds = [
            (Whose::Paper, Some(NAIVE_CPU)),
            (Whose::Paper, Some("naive GPU")),
            (Whose::Paper, Some("GPU alpha^128")),
            (Whose::Luxor, None),
            (Whose::Rival, None),
        ];
        let ours = kinds.into_iter().filter_map(|(whose, system)| {
            let rows = self.tables_3_and_4.iter().filter(|row| row.whose == whose);
            let rows = rows.filter(|row| system.is_none_or(|system| row.system == system));
            rows.min_by(|a, b| a.total_ms.median.total_cmp(&b.total_ms.median))
        });
        let ours = ours.map(|row| Bar::new(row.name(), row.whose.of_row(), row.total_ms.median));
        let printed = published::SYSTEMS.iter();
        let printed = printed.filter(|system| system.name != "GPU alpha^8");
        let caption = format!("Milliseconds for {}", size::text(self.file_bytes));
        Plot::dots(caption, "ms", ours.chain(printed.filter_map(printed_bar)))
    }

    /// Plots Table 5 for one length of data units with AES-128.
    fn plot_of_rates(&self) -> Option<Plot> {
        let mut all = self.table_5.iter();
        let found = all.find(|rates| (rates.block_bytes, rates.key_bits) == (SHOWN, 128))?;
        let ours = found.rows.iter();
        let ours = ours.map(|row| Bar::new(row.name(), row.whose.of_row(), row.gb_per_s.median));
        let printed = published::CONTESTANTS.into_iter().take(2).enumerate();
        let printed = printed.filter_map(|(at, who)| {
            let rate = published::rates(SHOWN, 128)?[at].parse().ok()?;
            Some(Bar::new(
                format!("the paper's {who}"),
                plot::Whose::Paper,
                rate,
            ))
        });
        let caption = format!("Data units of {SHOWN} bytes, AES-128");
        Some(Plot::dots(caption, "GB/s", ours.chain(printed)))
    }

    fn systems(&self) -> Table {
        let printed = published::SYSTEMS.into_iter();
        let printed = printed.map(|system| {
            let parts = [system.alpha, system.encryption, system.total]
                .into_iter()
                .flatten();
            let cells = parts.chain(["not given"]);
            Row::new(
                plot::Whose::Paper,
                format!("the paper's {}", system.name),
                cells,
            )
        });
        let ours = self
            .tables_3_and_4
            .iter()
            .map(|row| row.row(self.file_bytes));
        let bytes = size::text(self.file_bytes);
        Table::new(
            format!("Tables 3 and 4: milliseconds for {bytes}, with quartiles"),
            "System",
            [
                "Powers of alpha",
                "Ratio of the powers (%)",
                "Encryption",
                "Ratio of encryption (%)",
                "Total",
                "Ratio of the total (%)",
                "Kernels alone",
            ],
            ours.chain(printed),
        )
    }

    /// Compares the systems with each other, as the paper's text does.
    fn factors(&self) -> Table {
        let mut devices: Vec<&str> = Vec::new();
        for row in &self.tables_3_and_4 {
            if row.whose == Whose::Paper && row.system != NAIVE_CPU {
                devices.push(&row.contestant);
            }
        }
        devices.dedup();
        let rows = published::FACTORS.map(|(fast, slow, printed)| {
            let ours = devices.iter().map(|device| {
                let times = self.times(device, fast, slow);
                cell(times, |times| format!("{times:.2}"))
            });
            let cells = std::iter::once(printed.to_owned()).chain(ours);
            Row::new(plot::Whose::Rival, format!("{fast} over {slow}"), cells)
        });
        let heads = std::iter::once("The paper").chain(devices.iter().copied());
        Table::new(
            "Speed-ups by the totals of Tables 3 and 4",
            "Systems",
            heads,
            rows,
        )
    }

    /// Returns the speed-up of a system with a device over another system.
    fn times(&self, device: &str, fast: &str, slow: &str) -> Option<f64> {
        let of = |system: &str| {
            let mut rows = self.tables_3_and_4.iter();
            let row = rows.find(|row| {
                row.system == system && (row.contestant == device || system == NAIVE_CPU)
            });
            Some(row?.total_ms.median)
        };
        Some(of(slow)? / of(fast)?)
    }

    fn by_streams(&self) -> Table {
        let rows = self.streams.iter().map(|row| {
            let Streams {
                contestant,
                streams,
                encryption_ms,
                ..
            } = row;
            let cells = [streams.to_string(), encryption_ms.text(2)];
            Row::new(plot::Whose::Rival, contestant, cells)
        });
        let bytes = size::text(self.file_bytes);
        Table::new(
            format!(
                "GPU alpha^128 by the number of streams (32 in the paper): milliseconds for {bytes}, \
                 with all copies"
            ),
            "Device",
            ["Streams", "Encryption"],
            rows,
        )
    }

    /// Returns Table 5 for one key size: a row for each contestant, a column for each length of
    /// data units.
    fn rates(&self, bits: usize) -> Option<Table> {
        let all = || self.table_5.iter().filter(|rates| rates.key_bits == bits);
        let mut rows = Vec::new();
        for (at, first) in all().next()?.rows.iter().enumerate() {
            let mut row = |what: &str, number: &dyn Fn(&Rate) -> Option<f64>| {
                let cells = all().map(|rates| {
                    let number = rates.rows.get(at).and_then(number);
                    cell(number, |number| format!("{number:.2}"))
                });
                let name = format!("{}{what}", first.name());
                rows.push(Row::new(first.whose.of_row(), name, cells));
            };
            row("", &|rate| Some(rate.gb_per_s.median));
            if first.kernels_gb_per_s.is_some() {
                row(", kernels alone", &|rate| {
                    Some(rate.kernels_gb_per_s?.median)
                });
            }
            if first.whose == Whose::Rival {
                continue;
            }
            for rival in first.of_rival.keys() {
                row(&format!(", times {rival}'s"), &|rate| {
                    Some(rate.of_rival.get(rival)?.median)
                });
            }
        }
        for (at, who) in published::CONTESTANTS.into_iter().enumerate() {
            let cells = all().map(|rates| {
                let printed = published::rates(rates.block_bytes, bits);
                cell(printed, |printed| printed[at].to_owned())
            });
            rows.push(Row::new(
                plot::Whose::Paper,
                format!("the paper's {who}"),
                cells,
            ));
        }
        let heads = all().map(|rates| format!("{} B", rates.block_bytes));
        let caption = format!(
            "Table 5: GB/s with AES-{bits}, by the length of data units, which is our reading of the \
             paper's block size"
        );
        Some(Table::new(caption, "Implementation", heads, rows))
    }

    fn conclusion(&self) -> Option<String> {
        let all = || self.tables_3_and_4.iter();
        let of = |system: &'static str| all().filter(move |row| row.system == system);
        let naive = plot::value(of(NAIVE_CPU).next()?.total_ms.median);
        let mut text = format!(
            "For {} as one data unit, the paper's CPU system takes {naive} ms on this machine",
            size::text(self.file_bytes)
        );
        let mut no_device = ". No device ran its GPU systems here";
        for row in of("GPU alpha^128") {
            no_device = "";
            let (name, ms) = (&row.contestant, plot::value(row.total_ms.median));
            text += &format!(", its GPU system with alpha^128 on {name} {ms} ms");
            if let Some(times) = self.times(name, "GPU alpha^128", "naive GPU") {
                text += &format!(" ({times:.2} times as fast as its naive GPU system there)");
            }
        }
        let engine = all().find(|row| row.whose == Whose::Luxor)?;
        let ms = plot::value(engine.total_ms.median);
        text += &format!(", and Luxor's {} on one thread {ms} ms", engine.contestant);
        for row in all().filter(|row| row.whose == Whose::Rival) {
            let (name, ms) = (row.name(), plot::value(row.total_ms.median));
            text += &format!(", {name}, {ms} ms");
        }
        Some(format!(
            "{text}{no_device}. The paper prints 381.76 and 1.59 ms, and 21.96 times the naive GPU, \
             from 34.91 ms in its text; its tables have 35.72."
        ))
    }
}

/// Returns the paper's total for a system.
fn printed_bar(system: &published::System) -> Option<Bar> {
    let name = format!("the paper's {}", system.name);
    let total = system.total[0].parse().ok()?;
    Some(Bar::new(name, plot::Whose::Paper, total))
}

impl Whose {
    /// The paper's systems and libraries count as rivals.
    fn of_row(self) -> plot::Whose {
        plot::Whose::rival_if(self != Self::Luxor)
    }
}

impl super::SystemTimes {
    fn name(&self) -> String {
        match self.system {
            NAIVE_CPU => self.system.to_owned(),
            system => format!("{}, {system}", self.contestant),
        }
    }

    fn row(&self, file_bytes: usize) -> Row {
        let mut name = self.name();
        if self.bytes != file_bytes {
            name += &format!(", from {}", size::text(self.bytes));
        }
        let total = Some(self.total_ms);
        let parts = [self.alpha_ms, self.encryption_ms, total].into_iter();
        let parts = parts.flat_map(|ms| {
            let ratio = |ms: Summary| format!("{:.2}", ms.median / self.total_ms.median * 100.0);
            [cell(ms, |ms| ms.text(2)), cell(ms, ratio)]
        });
        let cells = parts.chain([cell(self.kernels_ms, |ms| ms.text(2))]);
        Row::new(self.whose.of_row(), name, cells)
    }
}

impl Rate {
    fn name(&self) -> String {
        let threads = match (self.whose, self.threads) {
            (Whose::Luxor, 1) => ", one thread".to_owned(),
            (Whose::Luxor, n) => format!(", {n} threads"),
            _ => String::new(),
        };
        let system = match self.system {
            "engine" | "library" => String::new(),
            system => format!(", {system}"),
        };
        format!("{}{system}{threads}", self.contestant)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::papers::an_seo::{Rates, SystemTimes};

    fn summary(value: f64) -> Summary {
        Summary::from_samples(vec![value]).unwrap()
    }

    /// A report of a naive CPU, a device, the engine and a library.
    fn report(devices: bool) -> Report {
        let all = [
            ("CPU", Whose::Paper, "naive CPU"),
            ("opencl", Whose::Paper, "naive GPU"),
            ("opencl", Whose::Paper, "GPU alpha^128"),
            ("vaes512", Whose::Luxor, "engine"),
            ("OpenSSL", Whose::Rival, "library"),
        ];
        let taking_part = || {
            all.into_iter()
                .filter(|(name, ..)| devices || *name != "opencl")
        };
        let row = |(contestant, whose, system): (&str, Whose, &'static str)| SystemTimes {
            contestant: contestant.to_owned(),
            whose,
            system,
            bytes: 1 << 20,
            alpha_ms: None,
            encryption_ms: None,
            kernels_ms: None,
            total_ms: summary(if system == "naive GPU" { 10.0 } else { 2.5 }),
        };
        let rate = |(contestant, whose, system): (&str, Whose, &'static str)| Rate {
            contestant: contestant.to_owned(),
            whose,
            system,
            threads: 1,
            bytes: 1 << 20,
            gb_per_s: summary(3.5),
            kernels_gb_per_s: (contestant == "opencl").then(|| summary(4.5)),
            of_rival: BTreeMap::from([("OpenSSL".to_owned(), summary(1.25))]),
        };
        let lengths = published::BLOCKS.into_iter();
        let table_5 = lengths.flat_map(|block_bytes| {
            [128, 256].map(|key_bits| Rates {
                block_bytes,
                key_bits,
                rows: taking_part()
                    .filter(|(.., system)| !system.starts_with("naive"))
                    .map(rate)
                    .collect(),
            })
        });
        let streams = [1, 32].map(|streams| Streams {
            contestant: "opencl".to_owned(),
            streams,
            bytes: 1 << 20,
            encryption_ms: summary(2.0),
        });
        Report {
            file_bytes: 128 << 20,
            rounds: 1,
            devices: Vec::new(),
            absent: vec!["cuda: none".to_owned()],
            tables_3_and_4: taking_part().map(row).collect(),
            streams: streams.into_iter().filter(|_| devices).collect(),
            table_5: table_5.collect(),
        }
    }

    #[test]
    fn the_section_has_streams_and_table_5_beside_the_papers() {
        let section = report(true).section();
        section.assert_whole();
        assert_eq!(section.plots.len(), 2);
        let [_, factors, streams, table_5, with_256] = section.tables.as_slice() else {
            panic!("{} tables", section.tables.len())
        };
        assert_eq!(streams.rows.len(), 2);
        assert_eq!(factors.columns, ["Systems", "The paper", "opencl"]);
        assert_eq!(factors.rows[1].cells[1..], ["21.96", "4.00"]);
        assert_eq!(factors.rows[2].cells[1..], ["240.1", "1.00"]);
        let row = |table: &Table, who: &str| {
            let row = table.rows.iter().find(|row| row.cells[0] == who);
            let row = row.unwrap();
            (row.whose, row.cells[1..].join(" "))
        };
        let fives = |value: &str| [value; 5].join(" ");
        let luxor = (plot::Whose::Luxor, fives("3.50"));
        assert_eq!(row(table_5, "vaes512, one thread"), luxor);
        let times = (plot::Whose::Luxor, fives("1.25"));
        assert_eq!(row(table_5, "vaes512, one thread, times OpenSSL's"), times);
        let kernels = (plot::Whose::Rival, fives("4.50"));
        assert_eq!(
            row(table_5, "opencl, GPU alpha^128, kernels alone"),
            kernels
        );
        let printed = "67.07 91.26 106.15 121.94 131.32".to_owned();
        let printed = (plot::Whose::Paper, printed);
        assert_eq!(row(with_256, "the paper's GPU alpha^128"), printed);
        let said = section.conclusion.unwrap();
        let gain = "alpha^128 on opencl 2.50 ms (4.00 times as fast as its naive GPU system there)";
        assert!(said.contains(gain), "{said}");
        assert!(said.contains("vaes512 on one thread 2.50 ms"), "{said}");
        assert!(said.contains("OpenSSL, library, 2.50 ms"), "{said}");
    }

    #[test]
    fn without_a_device_there_are_no_streams() {
        let section = report(false).section();
        section.assert_whole();
        assert_eq!(section.tables.len(), 4);
        let said = section.conclusion.unwrap();
        assert!(!said.contains("opencl"), "{said}");
        assert!(said.contains("No device ran its GPU systems"), "{said}");
    }
}
