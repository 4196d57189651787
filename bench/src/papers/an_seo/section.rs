// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes the result of `an-seo-2022`, with the paper's numbers.

use super::{
    OWN, OWN_COMPUTED, OWN_RATES, Rate, Rates, Report, Streams, SystemTimes, Whose, published,
};
use crate::{
    devices,
    plot::{self, Bar, Plot},
    rivals,
    section::{NOTHING, Paper, Row, Section, Table, Verdict, cell},
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

/// The paper's system with the fewest powers from the host.
const BEST: &str = "GPU alpha^128";

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
            on_gpu: self.on_gpu(),
            verdicts: self.verdicts(),
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
        let ours = self.tables_3_and_4.iter().flat_map(SystemTimes::bars);
        let printed = published::SYSTEMS.iter();
        let printed = printed.filter_map(printed_bar);
        let caption = format!("Milliseconds for {}", size::text(self.file_bytes));
        Plot::dots(caption, "ms", ours.chain(printed))
    }

    /// Plots the fastest contestant of each kind, and what the paper prints.
    fn headline(&self) -> Plot {
        let gpu = self.best_gpu();
        let own = gpu.map_or_else(|| self.fastest(SystemTimes::is_own), |[own, _]| Some(own));
        let best = gpu.map_or_else(
            || self.fastest(|row| row.system == BEST),
            |[_, best]| Some(best),
        );
        let ours = [
            self.fastest(|row| row.system == NAIVE_CPU),
            self.fastest(|row| row.system == "naive GPU"),
            best,
            own,
            self.fastest(SystemTimes::is_engine),
            self.fastest(|row| row.whose == Whose::Rival),
        ];
        let ours = ours.into_iter().flatten();
        let ours = ours.flat_map(SystemTimes::bars);
        let printed = published::SYSTEMS.iter();
        let printed = printed.filter(|system| system.name != "GPU alpha^8");
        let caption = format!("Milliseconds for {}", size::text(self.file_bytes));
        Plot::dots(caption, "ms", ours.chain(printed.filter_map(printed_bar)))
    }

    /// Plots Table 5 for one length of data units with AES-128.
    fn plot_of_rates(&self) -> Option<Plot> {
        let mut all = self.table_5.iter();
        let found = all.find(|rates| (rates.block_bytes, rates.key_bits) == (SHOWN, 128))?;
        let ours = found.rows.iter().flat_map(|row| {
            let bar = |name, rate: Summary| Bar::new(name, row.whose.of_row(), rate);
            let alone = row.kernels_gb_per_s;
            let alone = alone.map(|rate| bar(format!("{}, kernels alone", row.name()), rate));
            std::iter::once(bar(row.name(), row.gb_per_s)).chain(alone)
        });
        let printed = published::CONTESTANTS.into_iter().take(2).enumerate();
        let printed = printed.filter_map(|(at, who)| {
            let rate = published::rates(SHOWN, 128)?[at].parse::<f64>().ok()?;
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
        let mut caption = format!("Tables 3 and 4: milliseconds for {bytes}, with quartiles");
        if self.tables_3_and_4.iter().any(|row| row.is_computed) {
            caption += "; Luxor's kernels are computed: with all copies from their rates in Table 5, and \
                        alone from those of the bench gpu in this record, for 4 GiB on the device";
        }
        Table::new(
            caption,
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
        for row in self.tables_3_and_4.iter().filter(|row| row.system == BEST) {
            if !row.is_on_cpu() {
                devices.push(&row.contestant);
            }
        }
        let row = |whose, name: String, printed: &str, of: &dyn Fn(&str) -> Option<Summary>| {
            let ours = devices
                .iter()
                .map(|device| cell(of(device), |times| format!("{times:.2}")));
            Row::new(whose, name, std::iter::once(printed.to_owned()).chain(ours))
        };
        let paper = published::FACTORS.iter().map(|(fast, slow, printed)| {
            let name = format!("{fast} over {slow}");
            row(plot::Whose::Rival, name, printed, &|device| {
                self.times(device, fast, slow)
            })
        });
        let luxor = [NAIVE_CPU, BEST].map(|slow| {
            let name = format!("Luxor's kernels over {slow}");
            row(plot::Whose::Luxor, name, NOTHING, &|device| {
                Some(self.row_of(device, slow)?.total_ms / self.own(device)?.total_ms)
            })
        });
        let alone = row(
            plot::Whose::Luxor,
            format!("Luxor's kernels alone over those of {BEST}"),
            NOTHING,
            &|device| {
                let [slow, fast] =
                    [self.row_of(device, BEST)?, self.own(device)?].map(|row| row.kernels_ms);
                Some(slow? / fast?)
            },
        );
        let has_own = devices.iter().any(|device| self.own(device).is_some());
        let luxor = luxor.into_iter().chain([alone]).filter(|_| has_own);
        let rows: Vec<_> = paper.chain(luxor).collect();
        let heads = std::iter::once("The paper").chain(devices.iter().copied());
        Table::new(
            "Speed-ups by the totals of Tables 3 and 4",
            "Systems",
            heads,
            rows,
        )
    }

    /// Returns the speed-up of a system with a device over another system.
    fn times(&self, device: &str, fast: &str, slow: &str) -> Option<Summary> {
        let of = |system| Some(self.row_of(device, system)?.total_ms);
        Some(of(slow)? / of(fast)?)
    }

    /// Returns the row of one of the paper's systems.
    fn row_of(&self, device: &str, system: &str) -> Option<&SystemTimes> {
        let mut rows = self.tables_3_and_4.iter();
        rows.find(|row| row.system == system && (row.contestant == device || system == NAIVE_CPU))
    }

    /// Returns the row of Luxor's kernels.
    fn own(&self, device: &str) -> Option<&SystemTimes> {
        let mut rows = self.tables_3_and_4.iter();
        rows.find(|row| row.is_own() && row.contestant == device)
    }

    /// Returns the row of such contestants with the least total time.
    fn fastest(&self, is: impl Fn(&SystemTimes) -> bool) -> Option<&SystemTimes> {
        let rows = self.tables_3_and_4.iter().filter(|row| is(row));
        rows.min_by(|a, b| a.total_ms.median.total_cmp(&b.total_ms.median))
    }

    /// Returns the row of the GPU whose kernels are Luxor's fastest, and its row of [`BEST`].
    fn best_gpu(&self) -> Option<[&SystemTimes; 2]> {
        let kernels = |row: &SystemTimes| row.kernels_ms.map_or(f64::INFINITY, |ms| ms.median);
        let rows = self.tables_3_and_4.iter();
        let rows = rows.filter(|row| row.is_own() && !row.is_on_cpu());
        let own = rows.min_by(|a, b| kernels(a).total_cmp(&kernels(b)))?;
        Some([own, self.row_of(&own.contestant, BEST)?])
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
                "The paper's alpha^128 by the number of streams (32 in the paper): milliseconds for {bytes}, \
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
            let mut row = |what: &str, number: &dyn Fn(&Rates, &Rate) -> Option<Summary>| {
                let cells = all().map(|rates| {
                    let number = rates.rows.get(at).and_then(|rate| number(rates, rate));
                    cell(number, |number| format!("{number:.2}"))
                });
                let name = format!("{}{what}", first.name());
                rows.push(Row::new(first.whose.of_row(), name, cells));
            };
            row("", &|_, rate| Some(rate.gb_per_s));
            if first.kernels_gb_per_s.is_some() {
                let is_own = first.system == OWN_RATES;
                let alone = if is_own { ", alone" } else { ", kernels alone" };
                row(alone, &|_, rate| rate.kernels_gb_per_s);
                // Of the medians: rounds are compared with copies only.
                for rival in first.of_rival.keys().filter(|_| is_own) {
                    row(&format!("{alone}, times {rival}'s"), &|rates, rate| {
                        let mut rows = rates.rows.iter();
                        let rival = rows.find(|row| row.contestant == *rival)?;
                        Some(rate.kernels_gb_per_s? / rival.gb_per_s)
                    });
                }
            }
            if first.whose == Whose::Rival {
                continue;
            }
            for rival in first.of_rival.keys() {
                row(&format!(", times {rival}'s"), &|_, rate| {
                    rate.of_rival.get(rival).copied()
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
        let mut caption = format!(
            "Table 5: GB/s with AES-{bits}, by the length of data units, which is our reading of the \
             paper's block size"
        );
        let mut own = all().flat_map(|rates| &rates.rows);
        if own.any(|row| row.is_from_gpu) {
            caption += "; Luxor's kernels alone are from the bench gpu in this record, which has units of \
                        512 and 4096 bytes only";
        }
        Some(Table::new(caption, "Implementation", heads, rows))
    }

    fn conclusion(&self) -> Option<String> {
        let naive = self.fastest(|row| row.system == NAIVE_CPU)?.total_ms;
        let engine = self.fastest(SystemTimes::is_engine)?;
        let (bytes, ms) = (size::text(self.file_bytes), engine.total_ms);
        let mut text = format!(
            "One thread of Luxor's {} encrypts {bytes} in {} ms, {} Gbps. The paper's CPU system takes \
             {} ms here, and 381.76 ms as printed.",
            engine.contestant,
            plot::value(ms),
            plot::value(self.gbps(ms)),
            plot::value(naive),
        );
        if let Some(rival) = self.fastest(|row| row.whose == Whose::Rival) {
            let ms = plot::value(rival.total_ms);
            text += &format!(" With {} it takes {ms} ms.", rival.contestant);
        }
        Some(text)
    }

    fn on_gpu(&self) -> Option<String> {
        let [own, best] = self.best_gpu()?;
        let [ms, theirs] = [own.kernels_ms?, best.kernels_ms?];
        let computed = if own.is_computed {
            ", computed from their rate"
        } else {
            ""
        };
        let mut text = format!(
            "On {}, Luxor's kernels encrypt {} in {} ms, {} Gbps{computed}. The kernels of the paper's \
             alpha^128 take {} ms there. With all copies these are {} and {} ms, and the paper prints \
             1.59.",
            devices::name(&self.devices, &own.contestant),
            size::text(self.file_bytes),
            plot::value(ms),
            plot::value(self.gbps(ms)),
            plot::value(theirs),
            plot::value(own.total_ms),
            plot::value(best.total_ms),
        );
        if let Some(times) = self.times(&own.contestant, BEST, "naive GPU") {
            text += &format!(
                " There alpha^128 is {times:.2} times as fast as the naive GPU system, and 21.96 times \
                 as printed."
            );
        }
        Some(text)
    }

    /// Returns the rate of the whole data in milliseconds.
    fn gbps(&self, milliseconds: Summary) -> Summary {
        milliseconds.inverse().scaled(self.file_bytes as f64 * 8e-6)
    }

    /// Compares the best GPU with the paper's figures; empty without a GPU.
    fn verdicts(&self) -> Vec<Verdict> {
        const BUS: &str = "the printed figure exceeds PCIe 4.0, so it cannot include the copies";
        let Some([own, best]) = self.best_gpu() else {
            return Vec::new();
        };
        let device = &own.contestant;
        let computed = if own.is_computed { ", computed" } else { "" };
        let times =
            |what: &str, printed: &str, [ours, theirs]: [Summary; 2], luxor: &str, why| Verdict {
                figure: format!("Tables 3 and 4: 128 MB with {what}"),
                printed: printed.to_owned(),
                rebuilt: Some(format!("{} ms", plot::value(theirs))),
                luxor: format!("{} ms, {device}{luxor}", plot::value(ours)),
                times: theirs / ours,
                why,
                record: None,
            };
        let mut verdicts = Vec::new();
        let alone = own.kernels_ms.zip(best.kernels_ms);
        verdicts.extend(alone.map(|(ours, theirs)| {
            times(
                "alpha^128, kernels alone",
                "not given",
                [ours, theirs],
                computed,
                None,
            )
        }));
        let totals = [own.total_ms, best.total_ms];
        let why = Some(BUS.to_owned());
        verdicts.push(times("alpha^128, with copies", "1.59 ms", totals, "", why));
        verdicts.extend(
            published::FACTORS
                .iter()
                .filter_map(|(fast, slow, printed)| {
                    if (*fast, *slow) != (BEST, NAIVE_CPU) {
                        return None;
                    }
                    let naive = self.row_of(device, slow)?.total_ms;
                    let [ours, copied] = [own.kernels_ms?, own.total_ms].map(|ms| naive / ms);
                    let rebuilt = self.times(device, fast, slow)?;
                    Some(Verdict {
                        figure: format!("Speed-up over the {slow}"),
                        printed: (*printed).to_owned(),
                        rebuilt: Some(plot::value(rebuilt)),
                        luxor: format!("{}, {device}, kernels alone{computed}", plot::value(ours)),
                        times: ours / rebuilt,
                        why: Some(format!("with all copies {} times", plot::value(copied))),
                        record: None,
                    })
                }),
        );
        for rates in self
            .table_5
            .iter()
            .filter(|rates| rates.block_bytes == SHOWN)
        {
            let of = |system| {
                let mut rows = rates.rows.iter();
                rows.find(|row| row.system == system && row.contestant == *device)
            };
            let Some((ours, theirs)) = of(OWN_RATES).zip(of(BEST)) else {
                continue;
            };
            let Some([_, printed, _]) = published::rates(rates.block_bytes, rates.key_bits) else {
                continue;
            };
            let alone = ours.kernels_gb_per_s.zip(theirs.kernels_gb_per_s);
            let alone = alone.map(|rates| ("kernels alone", rates, None));
            let copied = (ours.gb_per_s, theirs.gb_per_s);
            let copied = ("with copies", copied, Some(BUS.to_owned()));
            verdicts.extend(alone.into_iter().chain([copied]).map(|(what, both, why)| {
                let (ours, theirs) = both;
                Verdict {
                    figure: format!("Table 5: AES-{}, {SHOWN} B, {what}", rates.key_bits),
                    printed: format!("{printed} GB/s"),
                    rebuilt: Some(format!("{} GB/s", plot::value(theirs))),
                    luxor: format!("{} GB/s, {device}", plot::value(ours)),
                    times: ours / theirs,
                    why,
                    record: None,
                }
            }));
        }
        verdicts
    }
}

/// Returns the paper's total for a system.
fn printed_bar(system: &published::System) -> Option<Bar> {
    let name = format!("the paper's {}", system.name);
    let total = system.total[0].parse::<f64>().ok()?;
    Some(Bar::new(name, plot::Whose::Paper, total))
}

/// Returns the name of a system on a device, which is not called a GPU if it is a CPU.
fn system_on(device: &str, system: &str) -> String {
    match system {
        "naive GPU" if device.ends_with(devices::CPU) => "naive system".to_owned(),
        _ if device.ends_with(devices::CPU) => system.replace("GPU ", ""),
        _ => system.to_owned(),
    }
}

impl Whose {
    /// The paper's systems and libraries count as rivals.
    fn of_row(self) -> plot::Whose {
        plot::Whose::rival_if(self != Self::Luxor)
    }
}

impl SystemTimes {
    fn is_on_cpu(&self) -> bool {
        self.contestant.ends_with(devices::CPU)
    }

    /// Returns whether it is Luxor's kernels on a device.
    fn is_own(&self) -> bool {
        [OWN, OWN_COMPUTED].contains(&self.system)
    }

    /// Returns whether it is Luxor on the CPU.
    fn is_engine(&self) -> bool {
        self.whose == Whose::Luxor && !self.is_own()
    }

    fn name(&self) -> String {
        match self.system {
            NAIVE_CPU => self.system.to_owned(),
            system => format!(
                "{}, {}",
                self.contestant,
                system_on(&self.contestant, system)
            ),
        }
    }

    /// Returns the bars of the total, and of Luxor's kernels alone.
    fn bars(&self) -> impl Iterator<Item = Bar> {
        let bar = |name, ms: Summary| Bar::new(name, self.whose.of_row(), ms);
        let alone = self
            .kernels_ms
            .filter(|_| self.is_own() || self.system == BEST);
        let computed = if self.is_computed { ", computed" } else { "" };
        let alone = alone.map(|ms| bar(format!("{}, alone{computed}", self.name()), ms));
        let total = bar(self.name(), self.total_ms);
        std::iter::once(total).chain(alone)
    }

    fn row(&self, file_bytes: usize) -> Row {
        let mut name = self.name();
        if self.bytes != file_bytes {
            name += &format!(", from {}", size::text(self.bytes));
        }
        if self.is_computed {
            name += ", computed";
        }
        let total = Some(self.total_ms);
        let parts = [self.alpha_ms, self.encryption_ms, total].into_iter();
        let parts = parts.flat_map(|ms| {
            let ratio = |ms: Summary| format!("{:.2}", (ms / self.total_ms).scaled(100.0));
            [cell(ms, |ms| ms.text(2)), cell(ms, ratio)]
        });
        let cells = parts.chain([cell(self.kernels_ms, |ms| ms.text(2))]);
        Row::new(self.whose.of_row(), name, cells)
    }
}

impl Rate {
    fn name(&self) -> String {
        let what = match (self.system, self.threads) {
            ("library", _) => String::new(),
            ("engine", 1) => ", one thread".to_owned(),
            ("engine", n) => format!(", {n} threads"),
            (system, _) => format!(", {}", system_on(&self.contestant, system)),
        };
        format!("{}{what}", self.contestant)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;
    use crate::{bench::Bench, benches, committed, papers::an_seo::Plan};

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
            is_computed: false,
        };
        let rate = |(contestant, whose, system): (&str, Whose, &'static str)| Rate {
            contestant: contestant.to_owned(),
            whose,
            system,
            threads: 1,
            bytes: 1 << 20,
            gb_per_s: summary(3.5),
            kernels_gb_per_s: (contestant == "opencl").then(|| summary(4.5)),
            is_from_gpu: false,
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
        let engine = "One thread of Luxor's vaes512 encrypts 128 MiB in 2.50 ms, 429 Gbps.";
        assert!(said.contains(engine), "{said}");
        assert!(said.contains("With OpenSSL it takes 2.50 ms."), "{said}");
    }

    /// The record is from before Luxor's kernels were measured here.
    #[test]
    fn luxors_kernels_are_computed_from_an_older_record() {
        let all = committed::h200();
        let mut report = Report::deserialize(&all["an_seo_2022"]).unwrap();
        <Plan<'_> as Bench>::complete(&mut report, all).unwrap();
        let section = report.section();
        section.assert_whole();
        let cells = |table: usize, who: &str| {
            let mut rows = section.tables[table].rows.iter();
            let row = rows.find(|row| row.cells[0] == who);
            row.unwrap_or_else(|| panic!("{who}")).cells[1..].to_vec()
        };
        let own = cells(0, "cuda, Luxor's kernels, data units of 4 KiB, computed");
        // 2^27 bytes at 723.1 GB/s, and at 41.78 with copies.
        assert!(
            own[4].starts_with("3.21 ") && own[6].starts_with("0.19 "),
            "{own:?}"
        );
        assert_eq!(cells(3, "cuda, Luxor's kernels, alone")[0], "661.02");
        assert_eq!(cells(3, "cuda, Luxor's kernels, alone")[3], "723.12");
        // 723.12 / 4.46.
        assert_eq!(
            cells(3, "cuda, Luxor's kernels, alone, times OpenSSL's")[3],
            "162.10"
        );
        let alone = cells(1, "Luxor's kernels alone over those of GPU alpha^128");
        assert_eq!(alone[2], "3.76");
        assert!(section.verdicts.iter().all(Verdict::is_ahead));
        let said = section.on_gpu.unwrap();
        assert!(
            said.contains("On NVIDIA H200 (cuda), Luxor's kernels encrypt 128 MiB in 0.19 ms"),
            "{said}"
        );
        assert!(said.contains("computed"), "{said}");
    }

    #[test]
    fn without_a_device_there_are_no_streams() {
        let section = report(false).section();
        section.assert_whole();
        assert_eq!(section.tables.len(), 4);
        let said = section.conclusion.unwrap();
        assert!(!said.contains("opencl"), "{said}");
        assert!(section.on_gpu.is_none() && section.verdicts.is_empty());
    }

    /// A CPU behind OpenCL is not called a GPU, and the committed record answers for GPUs.
    #[test]
    fn without_a_gpu_the_record_is_shown_by_name() {
        let mut all = report(true);
        for row in all
            .tables_3_and_4
            .iter_mut()
            .filter(|row| row.contestant == "opencl")
        {
            row.contestant += devices::CPU;
        }
        all.devices.push(devices::About {
            name: format!("opencl{}", devices::CPU),
            device: "PoCL".to_owned(),
            is_cpu: true,
        });
        let own = all.section();
        for row in own.tables.iter().flat_map(|table| &table.rows) {
            let name = &row.cells[0];
            assert!(!name.contains("(CPU)") || !name.contains("GPU"), "{name}");
        }
        assert!(own.verdicts.is_empty());
        let json = serde_json::json!({"an_seo_2022": serde_json::to_value(&all).unwrap()});
        let json: &'static serde_json::Value = Box::leak(Box::new(json));
        let mut benches = benches::ALL.iter();
        let bench = benches.find(|bench| bench.name == "an-seo-2022").unwrap();
        let outcome = bench.read(json.as_object().unwrap()).unwrap().unwrap();
        let shown = outcome.section;
        shown.assert_whole();
        let answer = shown.answer().unwrap();
        assert!(
            answer.contains(&format!(
                "this is from the {}. On NVIDIA H200",
                committed::H200
            )),
            "{answer}"
        );
        assert!(shown.tables.len() > own.tables.len());
        let records = shown
            .verdicts
            .iter()
            .map(|verdict| verdict.record.as_deref());
        assert!(
            !shown.verdicts.is_empty()
                && records.eq(shown.verdicts.iter().map(|_| Some(committed::H200)))
        );
    }
}
