// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes the result of `elmoghany-2011`, with the paper's numbers.

use super::{
    BLOCKS, Cycles, Point, REBUILT, Report, WHOLE,
    published::{self, PUBLIC, Public, TABLE_1, TABLE_2},
};
use crate::{
    plot::{Bar, Plot, Whose},
    section::{NOTHING, Paper, Row, Section, Table, Verdict, cell},
};

const PAPER: Paper = Paper {
    name: "Elmoghany et al., 2011",
    question: "Does one pipelined AES core encrypt a block of XTS in every clock cycle?",
    reference: "M. Elmoghany, M. Diab, M. Kassem, M. Khairallah, O. El Shahat and W. Sharkasy: FPGA \
        Implementation of High Speed XTS-AES for Data Storage Devices. ICITST 2011.",
    claim: "An XTS-AES core with one pipelined AES, which encrypts first a data unit's tweak and \
        then its data, produces a block per clock cycle: 24.42 Gbps on a Virtex-4 and 38.077 on a \
        Virtex-5 by synthesis, and 19.56 on a Cyclone II, on which it was also verified.",
    rebuilt: "The paper's core, written again from its text, with S-boxes in block RAM and round \
        keys computed on the fly; its order of work in Luxor's core (TWEAK=PAPER); and Luxor's own \
        design, which encrypts the tweaks of later units in the meantime, and has AES-256, \
        decryption, ciphertext stealing, key slots and back-pressure.",
};

/// What can be compared, and what cannot.
const COMPARABLE: &str = "\
    Luxor's rows for one part can be compared with each other: all are of one core with key \
    slots, key expansion, ciphertext stealing and buffers. The paper's core, rebuilt, has none of \
    these, so its area is that of the bare pipeline. These cannot be compared: slices of \
    Virtex-4 (2 LUTs of 4 inputs), slices of Virtex-5 (4 of 6 inputs), logic elements of Cyclone \
    II and LUTs of other families; clocks of different families and years; and the paper's Gbps, \
    at one block per cycle, with Luxor's, which include the cycle of each unit's tweak. There is no clock \
    for the 7 series, Virtex-5 and Virtex-4, because no tool here routes them. AMD's core is C++ that its tools turned \
    into logic, with one key and one stream at a time, for a part that is not named. secworks' \
    core is AES alone, with one block in 46 cycles. The areas and clocks of both come from their \
    authors (AMD's clock from its 3.16 ns); their Gbps are computed here.";

/// The name of Luxor's core with `TWEAK=PAPER`.
const ORDER: &str = "the paper's order of work in Luxor's core";

/// A name, and the cycles of each further data unit by its blocks.
type Schedule = (&'static str, fn(f64) -> f64);

/// What follows from the paper's description of one data unit.
const INFERRED: [Schedule; 2] = [
    (
        "inferred: the paper's, empty between units",
        published::cycles,
    ),
    (
        "inferred: the paper's, units follow at once",
        published::cycles_at_once,
    ),
];

const INFERENCE: &str = "\
    The paper's section IV.E describes one data unit: 22 cycles until its tweak is encrypted, then \
    a block per cycle, and 22 cycles until the last block has passed the pipeline. It does not say \
    when the next unit begins, so both numbers for the paper's pipeline are inferred. If it \
    runs empty between units, each further unit takes 22 + n + 22 cycles for n blocks, as in \
    Luxor's core with TWEAK=PAPER. The paper's core, rebuilt, also lets the next number in right \
    behind the last block: 22 + n cycles. The bench of that core asserts both.";

/// What the slices and the Mbps per slice of unrouted cores mean.
const SLICES: &str = "\
    A slice has 4 LUTs of 6 inputs and 4 registers in a Virtex-5, and 2 LUTs of 4 inputs and 2 \
    registers in a Virtex-4. No open tool packs, places and routes these families. So the slices \
    of the rebuilt core and of Luxor's are a lower bound: the LUTs or the registers after \
    synthesis by Yosys, whichever are more, divided by 4 or by 2. It is a bound for the netlist of \
    Yosys, which never puts two small functions into one LUT, with S-boxes in LUTs as in block RAM. \
    Xilinx's tools may need fewer. No clock was measured for them. Their \
    Mbps per slice are what the bound gives with one block per cycle at the paper's own clock: an upper bound, which compares areas and nothing else. The paper \
    does not say how many block RAMs it has, or name its Virtex devices.";

/// Returns the Gbps of one block per cycle.
fn gbps(mhz: f64) -> f64 {
    mhz * 0.128
}

impl Report {
    pub(super) fn section(&self) -> Section {
        let plot = |at: usize, bytes: usize, of: fn(&Cycles) -> f64| {
            let paper = INFERRED.iter();
            let paper = paper.map(|(name, of)| Bar::new(*name, Whose::Derived, of(BLOCKS[at])));
            let ours = self.cycles.iter();
            let ours = ours.map(|row| Bar::new(row.name(), row.whose(), of(row)));
            let caption = format!("Clock cycles per data unit of {bytes} bytes");
            Plot::bars(caption, "cycles", paper.chain(ours))
        };
        let plots = vec![
            plot(0, 512, |row| row.per_unit),
            plot(1, 4096, |row| row.per_long_unit),
        ];
        let recorded = self.points.first().map(|first| {
            let points = self.points.iter();
            let mut when: Vec<_> = points
                .map(|point| {
                    let commit = point.commit.get(..7).unwrap_or(&point.commit);
                    format!("{} at commit {commit}", point.date)
                })
                .collect();
            when.dedup();
            format!("Recorded {} with {}.", when.join(" and "), first.tools)
        });
        let requests = "The cycles are simulated, and the same on every machine. Those of a unit are \
                        those of each further unit in a run. Requests are measured from before their \
                        descriptor is written until their end is seen in the registers; one of 4 KiB \
                        has eight units of 512 B. Rates are given for units of 512 B and of 4 KiB. \
                        The simulated core with a separate unit for tweaks has one register a round, \
                        and that with the recorded clock three.";
        let mut tables = published();
        tables.extend([self.slices(), self.cores(), self.simulated()]);
        let section = Section {
            title: "A pipelined core on an FPGA".to_owned(),
            paper: Some(PAPER),
            about: COMPARABLE.to_owned(),
            conclusion: self.conclusion(),
            verdicts: self.verdicts(),
            headline: Some(self.headline()),
            plots,
            tables,
            notes: [INFERENCE.to_owned(), SLICES.to_owned()]
                .into_iter()
                .chain(recorded)
                .chain([requests.to_owned()])
                .collect(),
            ..Section::default()
        };
        section.without_empty_tables()
    }

    fn headline(&self) -> Plot {
        let most = Bar::new("one block in every cycle", Whose::Limit, 1.0);
        let [short, _] = BLOCKS;
        let paper = INFERRED.iter();
        let paper = paper.map(|(name, of)| Bar::new(*name, Whose::Derived, short / of(short)));
        let ours = self.cycles.iter();
        let ours = ours.map(|row| Bar::new(row.name(), row.whose(), row.rates()[0]));
        let caption = "Blocks per clock cycle, data units of 512 bytes";
        let all = std::iter::once(most).chain(paper).chain(ours);
        Plot::bars(caption, "blocks", all)
    }

    fn conclusion(&self) -> Option<String> {
        let [shared, dedicated] = ["shared", "dedicated"].map(|design| self.blocks_a_cycle(design));
        let [short, _] = BLOCKS;
        let [empty, at_once] = INFERRED.map(|(_, of)| short / of(short));
        let mut text = format!(
            "With data units of 512 bytes, Luxor's core with one pipeline encrypts {:.2} blocks a cycle.",
            shared?
        );
        if let Some(dedicated) = dedicated {
            text += &format!(" With a separate unit for tweaks it encrypts {dedicated:.2}.");
        }
        text += &format!(
            " The paper's own core, as inferred from its text, encrypts {empty:.2} if its pipeline runs \
             empty between units, and {at_once:.2} if they follow at once."
        );
        let routed = [
            (
                self.encrypting(),
                "Luxor's core for AES-128, encryption only, without buses",
            ),
            (
                self.whole(),
                "The whole core, with AES-256, decryption and buses",
            ),
            (self.rebuilt(), "The paper's core, rebuilt"),
        ];
        for (point, what) in routed {
            let clock = point.and_then(|point| Some((point.mhz?, point.gbps?)));
            if let Some((mhz, reached)) = clock {
                let blocks = reached / gbps(mhz);
                text += &format!(
                    " {what}, reaches {reached:.2} Gbps on an ECP5: {mhz} MHz, {blocks:.2} blocks a cycle."
                );
            }
        }
        Some(text + " The paper prints 38.077 Gbps on a Virtex-5, which no open tool routes.")
    }

    fn blocks_a_cycle(&self, design: &str) -> Option<f64> {
        let row = self.cycles.iter().find(|row| row.design == design)?;
        Some(row.rates()[0])
    }

    /// Returns the fastest routed point of this kind.
    fn fastest(&self, is: impl Fn(&Point) -> bool) -> Option<&Point> {
        let points = self
            .points
            .iter()
            .filter(|point| point.gbps.is_some() && is(point));
        points.max_by(|a, b| a.gbps.unwrap_or(0.0).total_cmp(&b.gbps.unwrap_or(0.0)))
    }

    fn encrypting(&self) -> Option<&Point> {
        self.fastest(|point| point.is_luxors() && point.build.starts_with("AES-128, encryption"))
    }

    fn whole(&self) -> Option<&Point> {
        self.fastest(|point| point.name.contains(WHOLE))
    }

    fn rebuilt(&self) -> Option<&Point> {
        self.fastest(|point| !point.is_luxors())
    }

    /// Compares blocks a cycle, Gbps on one FPGA, and slices.
    fn verdicts(&self) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        let [short, _] = BLOCKS;
        let [_, (_, at_once)] = INFERRED;
        let rebuilt = short / at_once(short);
        verdicts.extend(self.blocks_a_cycle("dedicated").map(|blocks| Verdict {
            figure: "Blocks a cycle, units of 512 B".to_owned(),
            printed: "1 within a unit".to_owned(),
            rebuilt: Some(format!("{rebuilt:.2}")),
            luxor: format!("{blocks:.2}, a separate unit for tweaks"),
            times: (blocks / rebuilt).into(),
            why: None,
            record: None,
        }));
        let rebuilt = self.rebuilt().and_then(|point| point.gbps);
        for (point, what) in [
            (self.encrypting(), "AES-128, encryption only"),
            (self.whole(), "the whole core"),
        ] {
            let gbps = point.and_then(|point| Some((point, point.gbps?)));
            let Some(((point, gbps), rebuilt)) = gbps.zip(rebuilt) else {
                continue;
            };
            verdicts.push(Verdict {
                figure: format!("Gbps by synthesis, {what}"),
                printed: "38.077 on a Virtex-5".to_owned(),
                rebuilt: Some(format!("{rebuilt:.2} on an ECP5")),
                luxor: format!("{gbps:.2} on an ECP5: {}", point.build),
                times: (gbps / rebuilt).into(),
                why: Some("no open tool routes a Virtex".to_owned()),
                record: None,
            });
        }
        for family in ["Virtex-4", "Virtex-5"] {
            let slices = |is_luxors| {
                let points = self.points.iter();
                let points = points.filter(|point| point.part == family);
                let points = points.filter(|point| point.is_luxors() == is_luxors);
                let slices = points.filter_map(|point| point.slices);
                slices.min_by(f64::total_cmp)
            };
            let (Some(ours), Some(rebuilt)) = (slices(true), slices(false)) else {
                continue;
            };
            let [_, printed, ..] = published::printed(family).unwrap_or([NOTHING; 4]);
            verdicts.push(Verdict {
                figure: format!("Slices of a {family}"),
                printed: printed.to_owned(),
                rebuilt: Some(format!("\u{2265} {rebuilt}")),
                luxor: format!("\u{2265} {ours}"),
                times: (rebuilt / ours).into(),
                why: Some(
                    "Luxor's has key slots, descriptors, ciphertext stealing and buffers, and both are \
                     lower bounds"
                        .to_owned(),
                ),
                record: None,
            });
        }
        verdicts
    }

    /// The families of the paper, which count slices.
    fn slices(&self) -> Table {
        let rows = ["Virtex-4", "Virtex-5"].iter().flat_map(|family| {
            let [mhz, slices, _, ratio] = published::printed(family).unwrap_or([NOTHING; 4]);
            let cells = [*family, slices, NOTHING, NOTHING, NOTHING, mhz, ratio];
            let paper = Row::new(Whose::Paper, "Elmoghany 2011, as printed", cells);
            let ours = self
                .points
                .iter()
                .filter(move |point| point.part == *family);
            std::iter::once(paper).chain(ours.filter_map(Point::row_of_slices))
        });
        Table::new(
            "Slices and Mbps per slice. \u{2265} and \u{2264} are bounds for the netlist of Yosys, not \
             for that of Xilinx's tools",
            "Core",
            [
                "Family",
                "Slices",
                "LUTs",
                "Registers",
                "Block RAMs",
                "MHz",
                "Mbps per slice",
            ],
            rows.filter(|_| self.points.iter().any(|point| point.slices.is_some())),
        )
    }

    fn cores(&self) -> Table {
        let cores = self.points.iter().filter(|point| point.slices.is_none());
        let cores = cores.map(Point::row);
        Table::new(
            "Luxor's record, and public cores by their authors' areas and clocks. Gbps are computed \
             here: MHz x 0.128 x blocks per cycle, Luxor's in data units of 4 KiB",
            "Core",
            [
                "Part",
                "MHz",
                "LUTs",
                "Block RAMs",
                "Registers",
                "Gbps, computed",
                "Mbps per slice",
            ],
            cores.chain(PUBLIC.iter().map(Public::row)),
        )
    }

    /// Returns the clock of the routed build of a simulated design.
    fn clock(&self, cycles: &Cycles) -> Option<f64> {
        match cycles.design {
            // The simulated core has one lane.
            "shared" => {
                self.fastest(|point| point.name.ends_with("aes128-enc"))?
                    .mhz
            }
            "dedicated" => {
                self.fastest(|point| point.name.ends_with("whole-dedicated"))?
                    .mhz
            }
            _ => None,
        }
    }

    fn simulated(&self) -> Table {
        let paper = INFERRED.iter().map(|(name, of)| {
            let [short, long] = BLOCKS.map(|blocks| format!("{:.1}", of(blocks)));
            let [rate, long_rate] = BLOCKS.map(|blocks| format!("{:.3}", blocks / of(blocks)));
            let cells = [&short, &long, NOTHING, NOTHING, &rate, &long_rate, NOTHING];
            Row::new(Whose::Derived, *name, cells)
        });
        let ours = self.cycles.iter().map(|row| row.row(self.clock(row)));
        let all = paper.chain(ours);
        Table::new(
            "Clock cycles: Luxor's core as simulated, the paper's inferred from its text",
            "Core",
            [
                "Unit of 512 B".to_owned(),
                "Unit of 4 KiB".to_owned(),
                "Request of 4 KiB, 8 units".to_owned(),
                "Request of 1 MiB".to_owned(),
                "Blocks per cycle, 512 B".to_owned(),
                "Blocks per cycle, 4 KiB".to_owned(),
                "Gbps at the recorded clock".to_owned(),
            ],
            all.filter(|_| !self.cycles.is_empty()),
        )
    }
}

fn published() -> Vec<Table> {
    let first = TABLE_1.map(|(work, family, numbers)| {
        Row::new(Whose::Paper, work, [family].into_iter().chain(numbers))
    });
    let [elements, mhz, gbps] = TABLE_2;
    let whole = mhz.parse().map_or(NOTHING.to_owned(), |mhz: f64| {
        format!("{:.2}", self::gbps(mhz))
    });
    let cells = ["Cyclone II", mhz, elements, gbps, &whole];
    vec![
        Table::new(
            "The paper's Table I: Xilinx",
            "Work",
            ["Family", "MHz", "Slices", "Gbps", "Mbps per slice"],
            first,
        ),
        Table::new(
            "The paper's Table II: Altera",
            "Work",
            [
                "Family",
                "MHz",
                "Logic elements",
                "Gbps",
                "Gbps of one block per cycle, computed here",
            ],
            [Row::new(Whose::Paper, "Elmoghany 2011", cells)],
        ),
    ]
}

impl Point {
    fn is_luxors(&self) -> bool {
        !self.name.contains(REBUILT)
    }

    fn title(&self) -> (Whose, String) {
        let (whose, who) = match self.name.as_str() {
            "xc7-aes128-paper" => (Whose::Rival, ORDER),
            _ if !self.is_luxors() => (Whose::Rival, "the paper's core, rebuilt"),
            _ => (Whose::Luxor, "Luxor"),
        };
        (whose, format!("{who}: {}", self.build))
    }

    /// The clock is the paper's, because none can be measured.
    fn row_of_slices(&self) -> Option<Row> {
        let slices = self.slices?;
        let [clock, ..] = published::printed(&self.part)?;
        let mhz: f64 = clock.parse().ok()?;
        let (whose, title) = self.title();
        let cells = [
            self.part.clone(),
            format!("\u{2265} {slices}"),
            self.luts.to_string(),
            self.registers.to_string(),
            self.block_rams.to_string(),
            NOTHING.to_owned(),
            format!("\u{2264} {:.2} at {clock} MHz", gbps(mhz) * 1e3 / slices),
        ];
        Some(Row::new(whose, title, cells))
    }

    fn row(&self) -> Row {
        let (whose, title) = self.title();
        let cells = [
            self.part.clone(),
            cell(self.mhz, |mhz| mhz.to_string()),
            self.luts.to_string(),
            self.block_rams.to_string(),
            self.registers.to_string(),
            cell(self.gbps, |gbps| format!("{gbps:.2}")),
            cell(self.mbps_per_slice(), |mbps| format!("{mbps:.2}")),
        ];
        Row::new(whose, title, cells)
    }

    /// At the core's own clock, so only where it was routed, which is on an ECP5: its slices have 2
    /// LUTs and 2 registers, and the tool's counts need at least this many.
    fn mbps_per_slice(&self) -> Option<f64> {
        let slices = (self.luts.max(self.registers) / 2.0).ceil();
        Some(self.gbps? * 1e3 / slices)
    }
}

impl Public {
    fn row(&self) -> Row {
        let cells = [
            self.part.to_owned(),
            format!("{:.0}", self.mhz),
            self.luts.to_string(),
            cell(self.block_rams, |count| count.to_string()),
            self.registers.to_string(),
            format!("{:.2}", gbps(self.mhz) / self.cycles_per_block),
            NOTHING.to_owned(),
        ];
        Row::new(Whose::Rival, self.name, cells)
    }
}

impl Cycles {
    fn whose(&self) -> Whose {
        Whose::rival_if(self.design == "paper")
    }

    fn name(&self) -> &'static str {
        match self.design {
            "paper" => ORDER,
            "shared" => "Luxor, one pipeline",
            _ => "Luxor, separate unit for tweaks",
        }
    }

    fn row(&self, clock: Option<f64>) -> Row {
        let units = [self.per_unit, self.per_long_unit].map(|cycles| format!("{cycles:.1}"));
        let requests = [self.request, self.mebibyte].map(|cycles| cycles.to_string());
        let rates = self.rates().map(|rate| format!("{rate:.3}"));
        let speeds = cell(clock, |mhz| {
            let [short, long] = self.rates().map(|rate| rate * gbps(mhz));
            format!("{short:.2}, {long:.2} at {mhz} MHz")
        });
        let cells = units.into_iter().chain(requests).chain(rates);
        Row::new(self.whose(), self.name(), cells.chain([speeds]))
    }
}
