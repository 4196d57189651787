// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes the result of `sanida-2020`, with the paper's numbers.

use super::{
    OWN, PER_ITEM, Report,
    published::{self, FILES},
};
use crate::{
    devices,
    plot::{self, Bar, Line, Plot, Whose},
    rivals,
    section::{Paper, Row, Section, Table, Verdict, cell},
    size,
    stats::Summary,
};

const PAPER: Paper = Paper {
    name: "Sanida, Sideris and Dasygenis, 2020",
    question: "How fast are CTR and XTS in OpenCL?",
    reference: "Theodora Sanida, Argyrios Sideris and Minas Dasygenis (University of Western \
        Macedonia): Accelerating the AES Algorithm using OpenCL. 2020.",
    claim: "A GTX 1060 encrypts 12.53 Gbps in XTS and 14.71 Gbps in CTR (Table VI, which names no \
        key size), and of 1, 4, 8 and 16 bytes per work-item, 16 are the fastest.",
    rebuilt: "The paper's kernels for CTR and XTS with keys of 128, 192 and 256 bits, in both \
        directions, with 1, 4, 8 and 16 bytes per work-item, on each device of OpenCL and of \
        NVIDIA's driver; also Luxor's kernels on the same devices, and the engine and libraries on \
        one thread.",
};

/// The tables, named as in the paper.
const MODES: [(&str, &str, &published::Table); 2] = [
    ("Table IV, CTR", "ctr", &published::CTR),
    ("Table V, XTS", "xts", &published::XTS),
];

impl Report {
    pub(super) fn section(&self) -> Section {
        let times = MODES.map(|(name, mode, table)| self.table_of_times(name, mode, table));
        let items = self.with_items();
        let items: Vec<_> = items.map(|(who, file)| self.items(who, file)).collect();
        let about = format!(
            "{}In XTS a file is one data unit here. XTS with AES-192, aes-192-xts (non-standard), is \
             in no standard; only the paper's kernels support it. The engine and libraries use one \
             thread and work in memory. Medians of {} rounds.{}",
            published::REMARK,
            self.rounds,
            devices::text(&self.devices)
        );
        let mut rows = self.rows.iter();
        let rivals = rows.any(|row| row.rival && row.cipher.ends_with("xts"));
        let mut absent = devices::absent(&self.devices, &self.absent);
        absent.extend(rivals::absent(rivals));
        Section {
            title: "AES a byte at a time in OpenCL".to_owned(),
            paper: Some(PAPER),
            about,
            conclusion: self.conclusion(),
            on_gpu: self.on_gpu(),
            verdicts: self.verdicts(),
            headline: Some(self.headline()),
            plots: ["xts", "ctr"]
                .map(|mode| self.plot(mode))
                .into_iter()
                .chain(self.gains())
                .collect(),
            digest: std::iter::once(self.table_6())
                .chain(items.iter().cloned())
                .collect(),
            tables: std::iter::once(self.table_6())
                .chain(times)
                .chain(items)
                .collect(),
            notes: vec![published::gains(), published::gains_over_others()],
            absent,
            ..Section::default()
        }
    }

    fn plot(&self, mode: &str) -> Plot {
        let contestants = self.contestants();
        let ours = contestants.iter().filter_map(|who| {
            let row = self.longest(who, mode)?;
            Some(Bar::new(row.name(), row.whose(), row.gbps()))
        });
        let printed = published::THROUGHPUT
            .into_iter()
            .filter(|row| row[3].eq_ignore_ascii_case(mode));
        let printed = printed.filter_map(|[work, device, language, _, gbps]| {
            let name = format!("{work}, {device}, {language}");
            Some(Bar::new(name, Whose::Paper, gbps.parse::<f64>().ok()?))
        });
        let caption = format!("{} with AES-128, encryption", mode.to_uppercase());
        Plot::dots(caption, "Gbps", ours.chain(printed))
    }

    /// Plots the fastest contestants, what the paper prints, and what its times for 8 MB amount to.
    fn headline(&self) -> Plot {
        let ours = self.fastest("xts").into_iter().flatten();
        let ours = ours.map(|row| Bar::new(row.name(), row.whose(), row.gbps()));
        let printed = published::THROUGHPUT.into_iter();
        let printed = printed.filter(|row| row[0] == "the paper" && row[3] == "XTS");
        let printed = printed.filter_map(|row| {
            let name = "the paper's Table VI";
            Some(Bar::new(name, Whose::Paper, row[4].parse::<f64>().ok()?))
        });
        let file = FILES.len() - 1;
        let milliseconds = published::milliseconds(&published::XTS, file, 0);
        let gbps = FILES[file] as f64 * 8e-6 / milliseconds;
        let by_time = Bar::new("computed: the paper's Table V, 8 MB", Whose::Derived, gbps);
        let bars = ours.chain(printed).chain([by_time]);
        Plot::dots("XTS with AES-128, encryption", "Gbps", bars)
    }

    /// Plots Figures 2 and 3: the speed-up of CTR over XTS by the length of the file. The paper does
    /// not print their values, so its lines are computed from its tables.
    fn gains(&self) -> Vec<Plot> {
        let fastest = self.fastest("xts");
        let plots = [("Figure 2", "encryption", 0), ("Figure 3", "decryption", 3)];
        let plots = plots.map(|(figure, what, first)| {
            let printed = [128, 192, 256].into_iter().enumerate();
            let printed = printed.map(|(key, bits)| Line {
                name: format!("computed: the paper's Tables IV, V, {bits} bits"),
                whose: Whose::Derived,
                points: (0..FILES.len())
                    .map(|file| {
                        (
                            FILES[file] as f64,
                            published::gain(file, first + key).into(),
                        )
                    })
                    .collect(),
            });
            let [xts, ctr] = [Column::all("xts"), Column::all("ctr")];
            let [xts, ctr] = [&xts[first], &ctr[first]];
            let ours = fastest.iter().flatten().filter_map(|row| {
                let who = &row.contestant;
                let points = FILES.iter().filter_map(|&file| {
                    let [slow, fast] = [xts, ctr].map(|column| self.find(who, 16, column, file));
                    let times = slow?.milliseconds / fast?.milliseconds;
                    Some((file as f64, times))
                });
                let points: Vec<_> = points.collect();
                (points.len() > 1).then(|| Line {
                    name: format!("{}, 128 bits", row.name()),
                    whose: row.whose(),
                    points,
                })
            });
            let caption = format!("{figure}: speed-up of CTR over XTS, {what}");
            Plot::lines(caption, ["bytes of the file", "times"], printed.chain(ours))
        });
        plots.into()
    }

    /// Returns the fastest of Luxor, of the libraries and of the paper's kernels.
    fn fastest(&self, mode: &str) -> [Option<&super::FileTimes>; 3] {
        [
            self.best(mode, |row| row.whose() == Whose::Luxor),
            self.best(mode, |row| row.rival),
            self.best(mode, |row| row.bytes_per_item.is_some()),
        ]
    }

    /// Returns the fastest of such contestants, in encryption of its longest file with AES-128.
    fn best(
        &self,
        mode: &str,
        is: impl Fn(&super::FileTimes) -> bool,
    ) -> Option<&super::FileTimes> {
        let rows = self.contestants().into_iter();
        let rows = rows.filter_map(|who| self.longest(who, mode));
        let rows = rows.filter(|row| is(row));
        rows.max_by(|a, b| a.gbps().median.total_cmp(&b.gbps().median))
    }

    /// Returns the fastest of Luxor on the CPU and of the libraries in each mode.
    fn conclusion(&self) -> Option<String> {
        let said = MODES.iter().filter_map(|(_, mode, _)| {
            let luxor = self.best(mode, super::FileTimes::is_engine)?;
            let mut text = format!(
                "One thread of {} encrypts {} Gbps in {} with AES-128",
                luxor.contestant,
                plot::value(luxor.gbps()),
                mode.to_uppercase(),
            );
            if let Some(rival) = self.best(mode, |row| row.rival) {
                text += &format!(
                    ", and one of {} {}",
                    rival.contestant,
                    plot::value(rival.gbps())
                );
            }
            Some(text + ".")
        });
        let said: Vec<_> = said.collect();
        (!said.is_empty()).then(|| said.join(" "))
    }

    /// Compares Luxor's kernels with the paper's on a GPU.
    fn on_gpu(&self) -> Option<String> {
        let said = MODES.iter().filter_map(|(_, mode, _)| {
            let [own, theirs] = self.on_best_gpu(mode)?;
            let (mode, printed) = (mode.to_uppercase(), published::throughput(mode)?);
            let mut text = format!(
                "On {}, Luxor's kernels encrypt {} Gbps in {mode} with AES-128. The paper's kernel \
                 reaches {} on {}, and {printed} as printed.",
                devices::name(&self.devices, own.device()),
                plot::value(own.gbps()),
                plot::value(theirs.gbps()),
                theirs.contestant,
            );
            let fastest = self.fastest_items(theirs)?;
            let per_item = fastest.bytes_per_item?;
            if per_item == 16 {
                text += " There 16 bytes a work-item are the fastest, as the paper says.";
            } else {
                let [ms, of_16] = [fastest, theirs].map(|row| row.milliseconds);
                text += &format!(
                    " There {per_item} bytes a work-item are the fastest: {ms:.3} ms, and {of_16:.3} \
                     with 16, against the paper."
                );
            }
            Some(text)
        });
        let said: Vec<_> = said.collect();
        (!said.is_empty()).then(|| said.join(" "))
    }

    /// Returns the fastest row of Luxor's kernels and of the paper's on GPUs, in encryption of the
    /// longest file.
    fn on_best_gpu(&self, mode: &str) -> Option<[&super::FileTimes; 2]> {
        let own = self.best(mode, |row| row.is_own() && !row.is_on_cpu())?;
        let theirs = self.best(mode, |row| row.bytes_per_item.is_some() && !row.is_on_cpu())?;
        Some([own, theirs])
    }

    /// Returns the fastest row with any number of bytes per work-item.
    fn fastest_items(&self, like: &super::FileTimes) -> Option<&super::FileTimes> {
        let rows = self.rows.iter().filter(|row| {
            (&row.contestant, &row.cipher, row.direction, row.file_bytes)
                == (
                    &like.contestant,
                    &like.cipher,
                    like.direction,
                    like.file_bytes,
                )
        });
        rows.max_by(|a, b| a.gbps().median.total_cmp(&b.gbps().median))
    }

    fn verdicts(&self) -> Vec<Verdict> {
        let verdicts = MODES.iter().filter_map(|(_, mode, _)| {
            let [own, theirs] = self.on_best_gpu(mode)?;
            let gbps = |row: &super::FileTimes| plot::value(row.gbps());
            Some(Verdict {
                figure: format!("Table VI: {}, without copies", mode.to_uppercase()),
                printed: format!("{} Gbps", published::throughput(mode)?),
                rebuilt: Some(format!("{} Gbps, {}", gbps(theirs), theirs.contestant)),
                luxor: format!("{} Gbps, {}", gbps(own), own.device()),
                times: own.gbps() / theirs.gbps(),
                why: None,
                record: None,
            })
        });
        verdicts.collect()
    }

    /// Returns the paper's milliseconds and ours, file by file.
    fn table_of_times(&self, name: &str, mode: &str, table: &published::Table) -> Table {
        let all = Column::all(mode);
        let mut rows = Vec::new();
        for (file, figures) in FILES.into_iter().zip(table) {
            let bytes = size::text(file);
            let cells = std::iter::once(bytes.as_str()).chain(figures.iter().copied());
            rows.push(Row::new(Whose::Paper, "the paper", cells));
            for who in self.contestants() {
                let cells = all
                    .each_ref()
                    .map(|column| self.find(who, 16, column, file));
                let Some(first) = cells.iter().flatten().next() else {
                    continue;
                };
                let cells = std::iter::once(bytes.clone()).chain(cells.map(milliseconds));
                rows.push(Row::new(first.whose(), first.name(), cells));
            }
        }
        let caption = format!("{name}: milliseconds without copies, by key bits");
        let heads = std::iter::once("File".to_owned()).chain(all.iter().map(Column::name));
        Table::new(caption, "Implementation", heads, rows)
    }

    /// Returns the times for a device's longest file, by the bytes per work-item.
    fn items(&self, who: &str, file: usize) -> Table {
        let rows = ["ctr", "xts"].into_iter().flat_map(|mode| {
            PER_ITEM.map(|per_item| {
                let cells = Column::all(mode)
                    .map(|column| milliseconds(self.find(who, per_item, &column, file)));
                let name = format!("{}, {per_item}", mode.to_uppercase());
                Row::new(Whose::Rival, name, cells)
            })
        });
        let bytes = size::text(file);
        Table::new(
            format!("{who}, the paper's kernels by bytes per work-item: milliseconds for {bytes}"),
            "Mode, bytes",
            Column::all("xts").map(|column| column.name()),
            rows,
        )
    }

    fn table_6(&self) -> Table {
        let ours = self.contestants().into_iter().flat_map(|who| {
            ["xts", "ctr"].into_iter().filter_map(move |mode| {
                let row = self.longest(who, mode)?;
                let (file, gbps) = (size::text(row.file_bytes), format!("{:.2}", row.gbps()));
                let cells = [file, mode.to_uppercase(), gbps];
                Some(Row::new(row.whose(), row.name(), cells))
            })
        });
        let printed = published::THROUGHPUT.map(|[work, device, language, mode, gbps]| {
            let name = format!("{work}: {device}, {language}");
            Row::new(Whose::Paper, name, ["not given", mode, gbps])
        });
        Table::new(
            "Table VI: Gbps (10^9 bits per second), here for encryption of the longest file with \
             AES-128; the paper names neither the file nor the key size",
            "Implementation",
            ["File", "Mode", "Gbps"],
            ours.chain(printed),
        )
    }

    /// Returns the contestants with rows, in order.
    fn contestants(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for row in &self.rows {
            if !names.contains(&row.contestant.as_str()) {
                names.push(&row.contestant);
            }
        }
        names
    }

    fn find(
        &self,
        who: &str,
        per_item: u32,
        column: &Column<'_>,
        file: usize,
    ) -> Option<&super::FileTimes> {
        self.rows.iter().find(|row| {
            row.contestant == who
                && row.bytes_per_item.is_none_or(|found| found == per_item)
                && row.cipher.starts_with(&column.cipher)
                && row.direction == column.direction
                && row.file_bytes == file
        })
    }

    /// Returns the contestants with work-items, and the longest file of each.
    fn with_items(&self) -> impl Iterator<Item = (&str, usize)> {
        self.contestants().into_iter().filter_map(|who| {
            let items = self.rows.iter().filter(|row| row.contestant == who);
            let items = items.filter(|row| row.bytes_per_item.is_some());
            Some((who, items.map(|row| row.file_bytes).max()?))
        })
    }

    /// Returns the row for encryption of the contestant's longest file with 128 bits.
    fn longest(&self, who: &str, mode: &str) -> Option<&super::FileTimes> {
        let [column, ..] = Column::all(mode);
        let mut rows = FILES.iter().rev();
        rows.find_map(|&file| self.find(who, 16, &column, file))
    }
}

impl super::FileTimes {
    /// The paper's kernels count as rivals.
    fn whose(&self) -> Whose {
        Whose::rival_if(self.rival || self.bytes_per_item.is_some())
    }

    fn is_on_cpu(&self) -> bool {
        self.contestant.contains(devices::CPU)
    }

    /// Returns whether it is Luxor's kernels on a device.
    fn is_own(&self) -> bool {
        self.contestant.ends_with(OWN)
    }

    /// Returns whether it is Luxor on the CPU.
    fn is_engine(&self) -> bool {
        self.whose() == Whose::Luxor && !self.is_own()
    }

    /// Returns the device of Luxor's kernels.
    fn device(&self) -> &str {
        self.contestant.trim_end_matches(OWN)
    }

    fn name(&self) -> String {
        match self.bytes_per_item {
            Some(_) => format!("{}, the paper's kernel", self.contestant),
            None => self.contestant.clone(),
        }
    }

    /// Returns 10⁹ bits per second.
    fn gbps(&self) -> Summary {
        let bits = self.file_bytes as f64 * 8e-6;
        self.milliseconds.inverse().scaled(bits)
    }
}

/// A key size and a direction.
struct Column<'a> {
    cipher: String,
    bits: usize,
    direction: &'a str,
}

impl Column<'_> {
    /// Returns the columns of the paper's tables.
    fn all(mode: &str) -> [Self; 6] {
        let of = |bits, direction| Self {
            cipher: format!("aes-{bits}-{mode}"),
            bits,
            direction,
        };
        let (to, back) = ("encrypt", "decrypt");
        [
            of(128, to),
            of(192, to),
            of(256, to),
            of(128, back),
            of(192, back),
            of(256, back),
        ]
    }

    fn name(&self) -> String {
        format!("{} {}", self.direction, self.bits)
    }
}

fn milliseconds(row: Option<&super::FileTimes>) -> String {
    cell(row, |row| {
        let milliseconds = row.milliseconds;
        let digits = if milliseconds.median < 0.001 { 6 } else { 4 };
        format!("{milliseconds:.digits$}")
    })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::{committed, devices::About, stats::Summary};

    fn row(
        contestant: &str,
        rival: bool,
        per_item: Option<u32>,
        cipher: &str,
    ) -> super::super::FileTimes {
        super::super::FileTimes {
            contestant: contestant.to_owned(),
            rival,
            bytes_per_item: per_item,
            cipher: cipher.to_owned(),
            direction: "encrypt",
            file_bytes: 8192,
            milliseconds: Summary::from_samples(vec![0.008_192]).unwrap(),
        }
    }

    #[test]
    fn a_gpu_on_which_16_bytes_are_not_the_fastest_contradicts_the_paper() {
        let report = &committed::h200()["sanida_2020"];
        let section = Report::deserialize(report).unwrap().section();
        section.assert_whole();
        let said = section.on_gpu.unwrap();
        for part in [
            "On NVIDIA H200 (cuda), Luxor's kernels encrypt 1728 Gbps in XTS with AES-128.",
            "The paper's kernel reaches 251 on opencl, and 12.53 as printed.",
            "There 16 bytes a work-item are the fastest, as the paper says.",
            "There 4 bytes a work-item are the fastest: 0.139 ms, and 0.157 with 16, against the paper.",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert_eq!(section.verdicts.len(), 2);
    }

    #[test]
    fn the_section_has_all_three_tables_and_tells_rivals_by_their_field() {
        let mut report = Report {
            rounds: 1,
            devices: vec![About {
                name: "opencl".into(),
                device: "a CPU".into(),
                is_cpu: true,
            }],
            absent: vec!["cuda: none".into()],
            rows: Vec::new(),
        };
        for cipher in ["aes-128-ctr", "aes-128-xts", "aes-192-xts (non-standard)"] {
            for per_item in PER_ITEM {
                report
                    .rows
                    .push(row("opencl", false, Some(per_item), cipher));
            }
            report.rows.push(row("engine", false, None, cipher));
            report.rows.push(row("a library", true, None, cipher));
        }
        let section = report.section();
        section.assert_whole();
        let said = section.conclusion.unwrap();
        for part in [
            "One thread of engine encrypts 8.00 Gbps in XTS with AES-128, and one of a library 8.00.",
            "in CTR",
        ] {
            assert!(said.contains(part), "{said}");
        }
        let [throughput, ctr, xts, items] = section.tables.as_slice() else {
            panic!("{} tables", section.tables.len())
        };
        let whose = |who: &str| {
            let row = throughput.rows.iter().find(|row| row.cells[0] == who);
            row.unwrap().whose
        };
        assert_eq!(whose("engine"), Whose::Luxor);
        assert_eq!(whose("a library"), Whose::Rival);
        assert_eq!(whose("opencl, the paper's kernel"), Whose::Rival);
        // Nine files of the paper, and three contestants with one file.
        assert_eq!((ctr.rows.len(), xts.rows.len()), (12, 12));
        let of = |table: &Table, who: &str| {
            let rows = table.rows.iter().filter(|row| row.cells[1] == "8 KiB");
            let mut rows = rows.filter(|row| row.cells[0] == who);
            rows.next().unwrap().cells[2..].to_vec()
        };
        assert_eq!(
            of(xts, "the paper"),
            ["0.76", "0.77", "0.80", "0.77", "0.80", "0.82"]
        );
        assert_eq!(of(xts, "engine"), ["0.0082", "0.0082", "-", "-", "-", "-"]);
        assert_eq!(of(ctr, "engine"), ["0.0082", "-", "-", "-", "-", "-"]);
        assert_eq!(items.rows.len(), 8);
        assert!(
            section.absent[0].contains("is a CPU"),
            "{:?}",
            section.absent
        );
    }
}
