// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables of the section.

use luxor_engine::Direction;

use super::{of_direction, rounds};
use crate::{
    coprocessor::{CONFIGURATIONS, Configuration, UNIT, Work},
    papers::demir::{
        self, Case, Report,
        breakdown::{self, SoftwareTimes},
        cycles::{Kind, UNITS, Waiting},
        published,
        study::{self, Breakdown, Cost, Parts, Served, Setup, Study},
    },
    plot::{Whose, precise, value},
    program,
    section::{NOTHING, Row, Table, cell},
    size,
    stats::{Summary, marked},
};

/// The name of a row, and its value.
type SoftwareLine = (&'static str, fn(&breakdown::Parts) -> &Summary);

const SOFTWARE_LINES: [SoftwareLine; 7] = [
    ("the whole", |parts| &parts.whole),
    ("data unit numbers encrypted", |parts| &parts.numbers),
    ("powers of alpha", |parts| &parts.powers),
    ("first XOR", |parts| &parts.first_xor),
    ("second XOR", |parts| &parts.second_xor),
    ("cipher", |parts| &parts.cipher),
    ("added by powers and XORs", |parts| &parts.fused),
];

/// The name of a row in the paper's Tables 1 and 2, and its value.
type Line = (&'static str, fn(&Parts) -> &Summary);

const LINES: [Line; 5] = [
    ("tweaks", |parts| &parts.tweaks),
    ("first XOR", |parts| &parts.first_xor),
    ("second XOR", |parts| &parts.second_xor),
    ("co-processor, with setup", |parts| &parts.device),
    ("other", |parts| &parts.other),
];

/// The columns of Figure 4.
const DIGEST: [&str; 4] = ["Total", "MD5", "Decryption", "Reading and the rest"];

impl Report {
    pub(super) fn tables(&self) -> Vec<Table> {
        let mut tables = Vec::new();
        if let Some(study) = &self.study {
            tables.extend([study.cost.table(), study.cost.accesses(), study.totals()]);
        }
        for setup in Setup::ALL {
            for direction in Direction::ALL {
                tables.push(self.breakdown(direction, setup));
            }
        }
        if let Some(study) = &self.study {
            tables.push(study.digests());
            tables.extend(study.served_table());
        }
        for direction in Direction::ALL {
            tables.push(self.software_breakdown(direction));
        }
        tables.extend(self.served_tables());
        tables.retain(|table| !table.rows.is_empty());
        tables
    }

    /// Returns the tables without the parts of each time.
    pub(super) fn digest(&self) -> Vec<Table> {
        let study = self.study.iter();
        let study =
            study.flat_map(|study| std::iter::once(study.totals()).chain(study.served_table()));
        let served = self.served_tables().into_iter().take(1);
        study.chain(served).collect()
    }

    /// Returns Table 1 or 2, with the paper's columns next to the same configuration of ours. With
    /// the driver's set-up it has no rows if that was not measured.
    fn breakdown(&self, direction: Direction, setup: Setup) -> Table {
        let (name, verb, printed) = of_direction(direction);
        let rows = self.study.iter().flat_map(|study| study.rows(setup));
        let rows: Vec<_> = rows.filter(|row| row.direction == name).collect();
        let ours = |work: Work| {
            let rows = rows.iter();
            let rows = rows.filter(move |row| row.configuration.work == work);
            rows.map(|row| row.column())
        };
        let papers = (0..2).map(|at| paper_column(printed, at));
        let columns: Vec<_> = ours(Work::Mixed)
            .chain(papers)
            .chain(ours(Work::Offloaded))
            .collect();
        let more = ["Tweaks on the co-processor", "Late requests"];
        let more = more.into_iter().filter(|_| !rows.is_empty());
        let parts = printed.iter().map(|(what, ..)| *what).chain(more);
        let parts = parts.filter(|_| setup == Setup::Given || !rows.is_empty());
        let whose = match rows.first() {
            Some(_) => Whose::Luxor,
            None => Whose::Paper,
        };
        let lines = parts.enumerate().map(|(at, what)| {
            let cells = columns.iter().map(|(_, cells)| cells[at].clone());
            Row::new(whose, what, cells)
        });
        let number = match direction {
            Direction::Encrypt => 1,
            Direction::Decrypt => 2,
        };
        let suffix = setup.suffix();
        let mut caption = format!("Table {number}{suffix}: {verb} 50 MB, seconds");
        if !rows.is_empty() {
            caption += ". The time for setting up requests for data counts as DMA, and that for their \
                        numbers as tweaks. Late requests took the CPU longer than the core";
        }
        let heads = columns.iter().map(|(head, _)| head.clone());
        Table::new(caption, "Part", heads, lines)
    }

    fn software_breakdown(&self, direction: Direction) -> Table {
        let (name, verb, _) = of_direction(direction);
        let rows = self.breakdown.iter().filter(|row| row.direction == name);
        let rows: Vec<&SoftwareTimes> = rows.collect();
        let heads = rows.iter().map(|row| row.requests.text());
        let lines = SOFTWARE_LINES.iter().filter(|_| !rows.is_empty());
        let lines = lines.map(|(what, part)| {
            let cells = rows.iter().map(|row| {
                let seconds = part(&row.seconds);
                if seconds.median > 0.0 {
                    precise(seconds.scaled(1e3))
                } else {
                    "none".to_owned()
                }
            });
            Row::new(Whose::Luxor, *what, cells)
        });
        let caption = format!(
            "{verb} in software, milliseconds for {:.1} MB in a cache. Each part was measured as a \
             pass of its own; the engine does them together, so the whole may take less than its parts. The last \
             row is the whole without numbers and cipher",
            self.breakdown_bytes as f64 / 1e6
        );
        Table::new(caption, "Part", heads, lines)
    }

    /// Returns the tables of requests by loads.
    fn served_tables(&self) -> Vec<Table> {
        let Some(fio) = &self.fio else {
            return Vec::new();
        };
        let how = format!(
            "a disk of {}{}, at a Unix socket, {} of {} s, {fio}",
            size::text(self.disk_bytes),
            program::place(self.in_memory),
            rounds(self.rounds),
            self.turn_seconds,
        );
        let rate = |row: &demir::ServedRate| {
            let [rate, times] = [row.mib_per_s, row.times_best];
            let text = format!("{} ({:.2})", value(rate.median), times.median);
            marked(text, rate.is_unsteady() || times.is_unsteady())
        };
        let caption = format!(
            "Served in software: MiB/s (and the ratio to the last row in the same round), {how}"
        );
        let share = |row: &demir::ServedRate| {
            let share = row.engine_share;
            share.map_or("turn too short".to_owned(), |share| format!("{share:.2}"))
        };
        let shares = "The engine's share of the CPU time of the server's threads".to_owned();
        vec![self.by_load(caption, &rate), self.by_load(shares, &share)]
    }

    fn by_load(&self, caption: String, text: &dyn Fn(&demir::ServedRate) -> String) -> Table {
        let rows = demir::REQUESTS.into_iter().map(|requests| {
            let cells = self.served.iter().map(|case| {
                let row = case.rows.iter().find(|row| row.requests == requests);
                cell(row, text)
            });
            Row::new(Whose::Luxor, requests.text(), cells)
        });
        let heads = self.served.iter().map(|case| case.load.text());
        let rows = rows.filter(|_| !self.served.is_empty());
        Table::new(caption, "Requests", heads, rows)
    }
}

impl Case {
    /// Returns the table of all measurements under the load.
    pub(super) fn table(&self) -> Table {
        let rows = self.rows.iter().map(|row| {
            let cells = [
                row.mib_per_s.text(0),
                row.times_best.text(3),
                format!("{:.0}", row.bytes_per_call),
                format!("{:.2}", row.engine_gb_per_s),
                cell(row.engine_share, |share| format!("{share:.2}")),
            ];
            Row::new(Whose::Luxor, row.requests.text(), cells)
        });
        Table::new(
            format!("Served in software: {}", self.load.text()),
            "Requests",
            [
                "MiB/s",
                "Ratio to the last row",
                "Bytes per call",
                "Engine, GB/s",
                "Engine's share",
            ],
            rows,
        )
    }
}

impl Cost {
    fn table(&self) -> Table {
        let row = |what: &str, [encrypt, decrypt]: [String; 2], from: &str| {
            Row::new(Whose::Luxor, what, [&encrypt, &decrypt, from])
        };
        let both = |value: &dyn Fn(Direction) -> String| Direction::ALL.map(value);
        let kinds = [Kind::Numbers, Kind::Ecb, Kind::Xts];
        let kinds = || kinds.into_iter().filter(|&kind| self.has(kind));
        let setups = || {
            Setup::ALL
                .into_iter()
                .filter(|&setup| self.has_setup(setup))
        };
        let mut rows = Vec::new();
        for setup in setups() {
            for kind in kinds() {
                let cost = |direction| {
                    let ns = self.setup(setup, kind, direction).first;
                    format!("{:.1}", ns / 1e3)
                };
                let from = match setup {
                    Setup::Given => self.setup_from(),
                    Setup::Driver => "what the driver does, at the stated costs",
                };
                let what = format!("Set-up of {}{}, \u{b5}s", kind.name(), setup.suffix());
                rows.push(row(&what, both(&cost), from));
            }
        }
        let clock = both(&|direction| self.mhz(direction).to_string());
        rows.push(row("Clock, MHz", clock, self.clock_from()));
        for kind in kinds() {
            let name = kind.name();
            let cycles = |direction| self.cycles.line(kind, direction);
            let simulated = "simulated";
            rows.push(row(
                &format!("{name}, 512 B, cycles"),
                both(&|direction| format!("{:.1}", cycles(direction).first)),
                simulated,
            ));
            rows.push(row(
                &format!("{name}, each further 512 B, cycles"),
                both(&|direction| format!("{:.1}", cycles(direction).next)),
                simulated,
            ));
            rows.push(row(
                &format!("{name}, 4 KiB, cycles alone, \u{b5}s"),
                both(&|direction| value(cycles(direction).at(8) / self.mhz(direction))),
                "cycles at the clock",
            ));
        }
        for setup in setups() {
            for kind in kinds() {
                for units in UNITS {
                    let units = units as usize;
                    let (name, bytes) = (kind.name(), size::text(UNIT * units));
                    let time = |direction| value(self.time(setup, kind, direction).at(units) / 1e3);
                    rows.push(row(
                        &format!("{name}, {bytes}, in all{}, \u{b5}s", setup.suffix()),
                        both(&time),
                        "set-up, and cycles at the clock",
                    ));
                }
            }
        }
        let heads = ["Encrypting", "Decrypting", "From"];
        Table::new(
            "What a request to the co-processor costs",
            "Cost",
            heads,
            rows,
        )
    }

    /// Returns whether requests of this kind were measured.
    fn has(&self, kind: Kind) -> bool {
        kind != Kind::Numbers || !self.requests.is_empty()
    }

    fn has_setup(&self, setup: Setup) -> bool {
        setup == Setup::Given || !self.requests.is_empty()
    }

    /// Returns what the driver does for a request.
    fn accesses(&self) -> Table {
        let (name, ..) = of_direction(Direction::Encrypt);
        let rows = self.requests.iter().filter(|row| row.direction == name);
        let rows = rows.map(|row| {
            let waiting = match row.waiting {
                Waiting::Polling => "polling",
                Waiting::Interrupts => "interrupts",
            };
            let bytes = size::text(UNIT * row.units as usize);
            let counts = row.counts;
            let number = |number: f64| number.to_string();
            let cost = self.access.map(|access| access.nanoseconds(&counts) / 1e3);
            let cells = [
                number(counts.reads),
                number(counts.writes),
                number(counts.packets),
                number(counts.interrupts),
                format!("{:.1}", counts.cycles),
                cell(cost, value),
            ];
            Row::new(
                Whose::Luxor,
                format!("{}, {bytes}, {waiting}", row.kind.name()),
                cells,
            )
        });
        let heads = [
            "Register reads",
            "Writes",
            "Packets",
            "Interrupts",
            "Cycles",
            "Set-up, \u{b5}s",
        ];
        let caption = format!(
            "What the driver of Luxor's core does for a request (encrypting), {}",
            self.access_from()
        );
        Table::new(caption, "Request", heads, rows)
    }
}

impl Study {
    fn totals(&self) -> Table {
        let digest = |work| {
            [512, 4096].map(|request_bytes| {
                let mut rows = self.digest.iter();
                let wanted = Configuration {
                    work,
                    request_bytes,
                };
                let row = rows.find(|row| row.configuration == wanted)?;
                Some(row.total)
            })
        };
        let ours = study::TOTALS.into_iter().filter_map(|(work, setup)| {
            let of = |way| [512, 4096].map(|bytes| self.total(way, work, setup, bytes));
            let [encrypt, decrypt] = Direction::ALL.map(of);
            let digest = match setup {
                Setup::Given => digest(work),
                Setup::Driver => [None; 2],
            };
            let name = format!("{}{}", work.name(), setup.suffix());
            encrypt[0]?;
            Some(totals(Whose::Luxor, &name, [encrypt, decrypt, digest]))
        });
        let [encrypt, decrypt] = Direction::ALL.map(|way| {
            let (.., table) = of_direction(way);
            table[0].1.map(|seconds| Some(seconds.into()))
        });
        let all = [encrypt, decrypt, [None; 2]];
        let printed = totals(Whose::Paper, "the paper's mixed", all);
        let ways = ["encrypting", "decrypting", "MD5 of a file"];
        let heads = ways.into_iter().flat_map(|way| {
            [
                format!("{way}, 512 B"),
                "4 KiB".to_owned(),
                "speed-up".to_owned(),
            ]
        });
        let caption = "Seconds for 50 MB, and the speed-up from requests of 4 KiB, computed here";
        Table::new(caption, "Configuration", heads, ours.chain([printed]))
    }

    /// Returns the table of Figure 4.
    fn digests(&self) -> Table {
        let ours = self.digest.iter().map(|row| {
            let cells = [&row.total, &row.md5, &row.driver, &row.rest];
            let cells = cells.map(|part| value(*part));
            Row::new(Whose::Luxor, head(row.configuration, Setup::Given), cells)
        });
        let (.., table) = of_direction(Direction::Decrypt);
        let printed = [512, 4096].into_iter().zip(table[0].1);
        let printed = printed.map(|(bytes, seconds)| {
            let name = format!("the paper's mixed, {}", size::text(bytes));
            let decryption = format!("{seconds:.2} (Table 2)");
            Row::new(Whose::Paper, name, [NOTHING, NOTHING, &decryption, NOTHING])
        });
        let caption = "Figure 4: MD5 of an encrypted file, seconds for 50 MB";
        Table::new(caption, "Configuration", DIGEST, ours.chain(printed))
    }

    /// Returns the seconds of Tables 1 and 2 and of Figure 4 with more digits.
    pub(super) fn details(&self) -> [Table; 2] {
        let four = |summary: &Summary| format!("{summary:.4}");
        let rows = Setup::ALL.into_iter().flat_map(|setup| {
            let rows = self.rows(setup).iter();
            rows.map(move |row| (row, setup))
        });
        let rows = rows.map(|(row, setup)| {
            let parts = LINES
                .iter()
                .map(|(_, part)| cell(row.parts.as_ref(), |parts| four(part(parts))));
            let name = format!("{}, {}", row.direction, head(row.configuration, setup));
            let cells = std::iter::once(four(&row.total)).chain(parts);
            Row::new(Whose::Luxor, name, cells)
        });
        let heads = LINES.iter().map(|(what, _)| *what);
        let heads = std::iter::once("Total").chain(heads);
        let digests = self.digest.iter().map(|row| {
            let cells = [&row.total, &row.md5, &row.driver, &row.rest].map(four);
            Row::new(Whose::Luxor, head(row.configuration, Setup::Given), cells)
        });
        [
            Table::new("Tables 1 and 2, seconds", "Configuration", heads, rows),
            Table::new("Figure 4, seconds", "Configuration", DIGEST, digests),
        ]
    }

    /// Returns the rows of Figure 5, grouped by disk and load.
    pub(super) fn cases(&self) -> impl Iterator<Item = &[Served]> {
        self.served.chunks(CONFIGURATIONS.len())
    }

    fn served_table(&self) -> Option<Table> {
        let first = self.cases().next()?;
        let rows = first.iter().enumerate().map(|(at, row)| {
            let cells = self
                .cases()
                .map(|case| cell(case.get(at), |row| value(row.mib_per_s)));
            Row::new(Whose::Luxor, head(row.configuration, Setup::Given), cells)
        });
        let heads = self.cases().map(|case| case[0].case());
        let mut caption = "Figure 5: MiB/s that fio reaches".to_owned();
        if let Some(number) = self.served_rounds {
            caption += &format!(", {}", rounds(number));
        }
        Some(Table::new(caption, "Configuration", heads, rows))
    }
}

impl Served {
    /// Returns the disk and the load, which all rows of a group share.
    fn case(&self) -> String {
        let load = self.load.text().replace(", 1 connection", "");
        format!("{}, {load}", size::text(self.disk_bytes))
    }
}

impl Breakdown {
    /// Returns the head of the column and its cells in the paper's order, and last the time for the
    /// data unit numbers and the share of late requests.
    fn column(&self) -> (String, Vec<String>) {
        let late = cell(self.parts.as_ref(), |_| {
            format!("{:.1} %", self.late * 100.0)
        });
        let numbers = self.parts.as_ref().and_then(|parts| parts.numbers);
        let numbers = numbers.filter(|_| self.configuration.work == Work::Mixed);
        let numbers = cell(numbers, value);
        let parts = LINES.iter().map(|(_, part)| self.cell(*part));
        let cells = std::iter::once(value(self.total)).chain(parts);
        let head = head(self.configuration, Setup::Given);
        (head, cells.chain([numbers, late]).collect())
    }

    /// Returns a part's seconds and its share of the total; nothing if the CPU does everything at
    /// once.
    fn cell(&self, part: fn(&Parts) -> &Summary) -> String {
        match &self.parts {
            Some(parts) if part(parts).median > 0.0 => {
                let part = *part(parts);
                let share = (part / self.total).scaled(100.0);
                share.shown(|share| format!("{} ({share:.2} %)", value(part.median)))
            }
            _ => NOTHING.to_owned(),
        }
    }
}

/// Returns the seconds for requests of 512 bytes and of 4 KiB, and their ratio.
fn totals(whose: Whose, name: &str, all: [[Option<Summary>; 2]; 3]) -> Row {
    let cells = all.into_iter().flat_map(|[short, extended]| {
        let times = short.zip(extended).map(|(short, long)| short / long);
        [
            cell(short, value),
            cell(extended, value),
            cell(times, |times| format!("{times:.2}")),
        ]
    });
    Row::new(whose, name, cells)
}

/// As [`Breakdown::column`], for the paper's column `at`, with its digits. The second column has
/// extended requests.
fn paper_column(table: &[published::PrintedTimes; 6], at: usize) -> (String, Vec<String>) {
    let cells = table
        .iter()
        .map(|(_, seconds, parts)| format!("{:.2} ({:.2} %)", seconds[at], parts[at]));
    let bytes = size::text([512, 4096][at]);
    (
        format!("the paper's mixed, {bytes}"),
        cells.chain([NOTHING, NOTHING].map(str::to_owned)).collect(),
    )
}

pub(super) fn head(configuration: Configuration, setup: Setup) -> String {
    let bytes = size::text(configuration.request_bytes);
    format!("{}{}, {bytes}", configuration.work.name(), setup.suffix())
}
