// SPDX-License-Identifier: MIT OR Apache-2.0
//! The section of `luxor report`.

use super::{
    Cycles, Point, Report,
    published::{LATENCY, PUBLIC, Public, TABLE_1, TABLE_2, UNIT},
    table::COMPARABLE,
};
use crate::page::{
    Paper, Row, Section, Table, Whose,
    plot::{self, Bar},
};

const PAPER: Paper = Paper {
    reference: "M. Elmoghany, M. Diab, M. Kassem, M. Khairallah, O. El Shahat and W. Sharkasy: FPGA \
        Implementation of High Speed XTS-AES for Data Storage Devices. ICITST 2011.",
    claim: "An XTS-AES core with one pipelined AES, used first for a data unit's tweak and then for \
        its data, makes a block each clock cycle: 24.42 Gbps on a Virtex-4, 38.08 on a Virtex-5.",
    rebuilt: "Its design as a build of Luxor's core (TWEAK=PAPER), and Luxor's own, which encrypts \
        the tweaks of coming units meanwhile, has AES-256, decryption, ciphertext stealing, key slots \
        and back-pressure.",
};

impl Report {
    /// What stands in the report.
    ///
    /// # Errors
    /// When a plot cannot be drawn.
    pub(crate) fn section(&self) -> Result<Section, String> {
        let mut figures = Vec::new();
        if !self.cycles.is_empty() {
            let bars = |of: fn(&Cycles) -> f64, printed: f64| {
                let paper = Bar {
                    name: "the paper's words".to_owned(),
                    whose: Whose::Paper,
                    value: printed,
                };
                let ours = self.cycles.iter().map(|row| Bar {
                    name: row.name().to_owned(),
                    whose: row.whose(),
                    value: of(row),
                });
                std::iter::once(paper).chain(ours).collect::<Vec<_>>()
            };
            figures.push(plot::bars(
                "Clock cycles for a data unit of 512 bytes",
                "cycles",
                &bars(|row| row.per_unit, UNIT),
            )?);
            figures.push(plot::bars(
                "Clock cycles for a data unit of 4096 bytes",
                "cycles",
                &bars(|row| row.per_long_unit, 256.0 + 2.0 * LATENCY),
            )?);
        }
        Ok(Section {
            name: "elmoghany-2011",
            title: "A pipelined core on an FPGA".to_owned(),
            paper: Some(PAPER),
            about: COMPARABLE.replace('\n', " "),
            conclusion: self.conclusion(),
            figures,
            tables: self.tables(),
            absent: self.absent.clone(),
        })
    }

    fn conclusion(&self) -> Option<String> {
        let point = self.points.iter().find(|point| point.mhz.is_some())?;
        let mhz = point.mhz?;
        let synthesis = format!(
            "Luxor's core is recorded with {mhz} MHz and {} LUTs on an ECP5",
            point.luts
        );
        let of = |name: &str| self.cycles.iter().find(|row| row.design == name);
        Some(match (of("paper"), of("shared")) {
            (Some(paper), Some(shared)) => format!(
                "With data units of 512 bytes the paper's design makes {:.2} blocks a cycle and \
                 Luxor's {:.2}; {synthesis}, {:.1} Gbps with units of 4 KiB.",
                paper.rates()[0],
                shared.rates()[0],
                shared.rates()[1] * mhz * 0.128,
            ),
            _ => format!("{synthesis}."),
        })
    }

    fn tables(&self) -> Vec<Table> {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        let published = TABLE_1.map(|(work, family, [mhz, slices, gbps, ratio])| {
            let numbers = [mhz, slices, gbps, ratio].map(|number| number.to_string());
            Row::new(
                Whose::Paper,
                [work.to_owned(), family.to_owned()]
                    .into_iter()
                    .chain(numbers),
            )
        });
        let [elements, mhz, gbps] = TABLE_2.map(|number| number.to_string());
        let mut tables = vec![
            Table {
                caption: "Table I, the paper's".to_owned(),
                columns: texts(&["Work", "Family", "MHz", "Slices", "Gbps", "Mbps a slice"]),
                rows: published.into(),
            },
            Table {
                caption: "Table II, the paper's".to_owned(),
                columns: texts(&["Work", "Family", "MHz", "Logic elements", "Gbps"]),
                rows: vec![Row::new(
                    Whose::Paper,
                    ["Elmoghany 2011", "Cyclone II", &mhz, &elements, &gbps],
                )],
            },
            Table {
                caption: "Luxor's record, and public cores, by their authors' words".to_owned(),
                columns: texts(&["Core", "Part", "MHz", "LUTs", "Block RAMs", "Registers"]),
                rows: self
                    .points
                    .iter()
                    .map(Point::row)
                    .chain(PUBLIC.iter().map(Public::row))
                    .collect(),
            },
        ];
        if !self.cycles.is_empty() {
            tables.push(Table {
                caption: "Clock cycles, simulated here and now".to_owned(),
                columns: texts(&[
                    "Core",
                    "Unit of 512 B",
                    "Unit of 4 KiB",
                    "Request of 4 KiB, 8 units",
                    "Request of 1 MiB",
                    "Blocks a cycle, 512 B",
                    "Blocks a cycle, 4 KiB",
                ]),
                rows: self.cycles.iter().map(Cycles::row).collect(),
            });
        }
        tables
    }
}

impl Point {
    fn row(&self) -> Row {
        let clock = self
            .mhz
            .map_or_else(|| "none".to_owned(), |mhz| mhz.to_string());
        let numbers = [self.luts, self.block_rams, self.registers].map(|n| n.to_string());
        let whose = if self.name.ends_with("paper") {
            Whose::Rival
        } else {
            Whose::Luxor
        };
        let words = [self.title().to_owned(), self.part.clone(), clock];
        Row::new(whose, words.into_iter().chain(numbers))
    }
}

impl Public {
    fn row(&self) -> Row {
        let block_rams = self.block_rams.map_or("none".to_owned(), |n| n.to_string());
        let cells = [
            self.name.to_owned(),
            self.part.to_owned(),
            format!("{:.0}", self.mhz),
            self.luts.to_string(),
            block_rams,
            self.registers.to_string(),
        ];
        Row::new(Whose::Rival, cells)
    }
}

impl Cycles {
    fn whose(&self) -> Whose {
        if self.design == "paper" {
            Whose::Rival
        } else {
            Whose::Luxor
        }
    }

    fn row(&self) -> Row {
        let [short, long] = self.rates();
        let cycles = [
            self.per_unit,
            self.per_long_unit,
            self.request,
            self.mebibyte,
        ];
        let cycles = cycles.map(|cycles| format!("{cycles:.0}"));
        let rates = [short, long].map(|rate| format!("{rate:.3}"));
        let name = [self.name().to_owned()];
        Row::new(self.whose(), name.into_iter().chain(cycles).chain(rates))
    }
}
