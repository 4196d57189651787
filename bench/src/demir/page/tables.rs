// SPDX-License-Identifier: MIT OR Apache-2.0
//! The section's tables.

use luxor_engine::Direction;

use super::{of_direction, rounds};
use crate::{
    demir::{
        Case, Report,
        breakdown::Row as Software,
        coprocessor::{CONFIGURATIONS, Configuration, Work},
        published,
        study::{Breakdown, Cost, Parts, Served, Study},
        study_table::LINES,
        table::LINES as SOFTWARE_LINES,
    },
    page::{Row, Table, Whose, columns, plot::value},
    size,
    stats::Summary,
};

/// Where there is nothing to say.
pub(super) const NOTHING: &str = "\u{2013}";

impl Report {
    pub(super) fn tables(&self) -> Vec<Table> {
        let mut tables = Vec::new();
        if let Some(study) = &self.study {
            tables.extend([study.cost.table(), study.totals()]);
        }
        for direction in Direction::ALL {
            tables.push(self.breakdown(direction));
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

    /// Table 1 or 2, the paper's beside the same configuration of ours.
    fn breakdown(&self, direction: Direction) -> Table {
        let (name, verb, printed) = of_direction(direction);
        let rows = self.study.iter().flat_map(|study| &study.breakdown);
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
        let late = (!rows.is_empty()).then_some("Late requests");
        let parts = printed.iter().map(|(what, ..)| *what).chain(late);
        let whose = match rows.first() {
            Some(_) => Whose::Luxor,
            None => Whose::Paper,
        };
        let lines = parts.enumerate().map(|(at, what)| {
            let cells = columns.iter().map(|(_, cells)| cells[at].clone());
            Row::new(whose, std::iter::once(what.to_owned()).chain(cells))
        });
        let number = match direction {
            Direction::Encrypt => 1,
            Direction::Decrypt => 2,
        };
        let mut caption = format!("Table {number}: {verb} 50 MB, seconds");
        if !rows.is_empty() {
            caption += ". Setting up a request has DMA's place; late are those that took the CPU \
                        longer than the core";
        }
        let heads = columns.iter().map(|(head, _)| head.clone());
        Table {
            caption,
            columns: std::iter::once("Part".to_owned()).chain(heads).collect(),
            rows: lines.collect(),
        }
    }

    fn software_breakdown(&self, direction: Direction) -> Table {
        let (name, verb, _) = of_direction(direction);
        let rows = self.breakdown.iter().filter(|row| row.direction == name);
        let rows: Vec<&Software> = rows.collect();
        let heads = rows.iter().map(|row| row.requests.text());
        let lines = SOFTWARE_LINES.iter().filter(|_| !rows.is_empty());
        let lines = lines.map(|(what, part)| {
            let cells = rows.iter().map(|row| {
                let (part, whole) = (part(&row.seconds).median, row.seconds.whole.median);
                format!("{} ({:.0} %)", value(part * 1e3), part / whole * 100.0)
            });
            Row::new(
                Whose::Luxor,
                std::iter::once((*what).to_owned()).chain(cells),
            )
        });
        Table {
            caption: format!(
                "{verb} in software, milliseconds for 50 MB in a cache. Each part is a pass of its \
                 own; the engine does them together, so that what is other may be below 0"
            ),
            columns: std::iter::once("Part".to_owned()).chain(heads).collect(),
            rows: lines.collect(),
        }
    }

    /// Requests by loads.
    fn served_tables(&self) -> Vec<Table> {
        let Some(fio) = &self.fio else {
            return Vec::new();
        };
        let place = if self.in_memory { " in memory" } else { "" };
        let how = format!(
            "a disk of {}{place}, {} of {} s, {fio}",
            size::text(self.disk_bytes),
            rounds(self.rounds),
            self.turn_seconds,
        );
        let rate = |row: &super::super::Row| {
            format!(
                "{} ({:.2})",
                value(row.mib_per_s.median),
                row.times_best.median
            )
        };
        let caption = format!(
            "Served in software, MiB/s, and (the ratio to the last row) of the same round: {how}"
        );
        let share = |row: &super::super::Row| format!("{:.2}", row.engine_share.median);
        let shares = "The engine's share of what the server's threads spend on cores".to_owned();
        vec![self.by_load(caption, &rate), self.by_load(shares, &share)]
    }

    fn by_load(&self, caption: String, cell: &dyn Fn(&super::super::Row) -> String) -> Table {
        let rows = super::super::REQUESTS.into_iter().map(|requests| {
            let cells = self.served.iter().map(|case: &Case| {
                let mut rows = case.rows.iter();
                let row = rows.find(|row| row.requests == requests);
                row.map_or_else(|| NOTHING.to_owned(), cell)
            });
            Row::new(Whose::Luxor, std::iter::once(requests.text()).chain(cells))
        });
        let heads = self.served.iter().map(|case| case.load.text());
        Table {
            caption,
            columns: std::iter::once("Requests".to_owned())
                .chain(heads)
                .collect(),
            rows: rows.filter(|_| !self.served.is_empty()).collect(),
        }
    }
}

impl Cost {
    fn table(&self) -> Table {
        let row = |what: &str, [encrypt, decrypt]: [String; 2], from: &str| {
            Row::new(Whose::Luxor, [what, &encrypt, &decrypt, from])
        };
        let setup = [self.setup_encrypt, self.setup_decrypt].map(|ns| format!("{:.1}", ns / 1e3));
        let clock = self.clock_mhz.to_string();
        let mut rows = vec![
            row("Setting up a request, \u{b5}s", setup, self.setup_from()),
            row("Clock, MHz", [clock.clone(), clock], self.clock_from()),
        ];
        let ways = [
            ("ECB", self.cycles.ecb, Work::Mixed),
            ("XTS", self.cycles.xts, Work::Offloaded),
        ];
        for (name, ways, _) in ways {
            let both = [ways.encrypt, ways.decrypt];
            let simulated = "the core's simulation, here and now";
            rows.push(row(
                &format!("{name}, 512 B, cycles"),
                both.map(|cycles| format!("{:.1}", cycles.first)),
                simulated,
            ));
            rows.push(row(
                &format!("{name}, each further 512 B, cycles"),
                both.map(|cycles| format!("{:.1}", cycles.next)),
                simulated,
            ));
        }
        for (name, _, work) in ways {
            let pace = self.pace(work);
            for units in [1, 8] {
                let bytes = size::text(512 * units);
                rows.push(row(
                    &format!("{name}, {bytes}, in all, \u{b5}s"),
                    [pace.encrypt, pace.decrypt].map(|way| value(way.of(units) / 1e3)),
                    "setting up, and cycles at the clock",
                ));
            }
        }
        Table {
            caption: "What a request to the co-processor costs".to_owned(),
            columns: columns(&["Cost", "Encrypting", "Decrypting", "From"]),
            rows,
        }
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
                Some(row.total.median)
            })
        };
        let ours = [Work::Software, Work::Mixed, Work::Offloaded].map(|work| {
            let of = |way| [512, 4096].map(|bytes| self.total(way, work, bytes));
            let [encrypt, decrypt] = Direction::ALL.map(of);
            totals(Whose::Luxor, work.name(), [encrypt, decrypt, digest(work)])
        });
        let [encrypt, decrypt] = Direction::ALL.map(|way| {
            let (.., table) = of_direction(way);
            table[0].1.map(Some)
        });
        let all = [encrypt, decrypt, [None; 2]];
        let printed = totals(Whose::Paper, "the paper's mixed", all);
        let ways = ["encrypting", "decrypting", "MD5 of a file"];
        let heads = ways.into_iter().flat_map(|way| {
            [
                format!("{way}, 512 B"),
                "4 KiB".to_owned(),
                "times as fast".to_owned(),
            ]
        });
        Table {
            caption: "Seconds for 50 MB, and how many times as fast requests of 4 KiB make it"
                .to_owned(),
            columns: std::iter::once("Configuration".to_owned())
                .chain(heads)
                .collect(),
            rows: ours.into_iter().chain([printed]).collect(),
        }
    }

    /// Figure 4.
    fn digests(&self) -> Table {
        let ours = self.digest.iter().map(|row| {
            let cells = [&row.total, &row.md5, &row.driver, &row.rest];
            let cells = cells.map(|part| value(part.median));
            let name = std::iter::once(head(row.configuration));
            Row::new(Whose::Luxor, name.chain(cells))
        });
        let (.., table) = of_direction(Direction::Decrypt);
        let printed = [512, 4096].into_iter().zip(table[0].1);
        let printed = printed.map(|(bytes, seconds)| {
            let name = format!("the paper's mixed, {}", size::text(bytes));
            let decryption = format!("{seconds:.2} (Table 2)");
            Row::new(
                Whose::Paper,
                [&name, NOTHING, NOTHING, &decryption, NOTHING],
            )
        });
        Table {
            caption: "Figure 4: MD5 of an encrypted file, seconds for 50 MB".to_owned(),
            columns: columns(&[
                "Configuration",
                "Total",
                "MD5",
                "Decryption",
                "Reading, and the rest",
            ]),
            rows: ours.chain(printed).collect(),
        }
    }

    /// Figure 5's rows of configurations.
    pub(super) fn cases(&self) -> impl Iterator<Item = &[Served]> {
        self.served.chunks(CONFIGURATIONS.len())
    }

    fn served_table(&self) -> Option<Table> {
        let first = self.cases().next()?;
        let rows = first.iter().enumerate().map(|(at, row)| {
            let cells = self.cases().map(|case| {
                let row = case.get(at);
                row.map_or_else(|| NOTHING.to_owned(), |row| value(row.mib_per_s.median))
            });
            let name = std::iter::once(head(row.configuration));
            Row::new(Whose::Luxor, name.chain(cells))
        });
        let heads = self.cases().map(|case| case[0].case());
        let mut caption = "Figure 5: MiB/s of fio at a server".to_owned();
        if let Some(number) = self.served_rounds {
            caption += &format!(", {}", rounds(number));
        }
        Some(Table {
            caption,
            columns: std::iter::once("Configuration".to_owned())
                .chain(heads)
                .collect(),
            rows: rows.collect(),
        })
    }
}

impl Breakdown {
    /// Its head, and its cells in the paper's order; then the part of late requests.
    fn column(&self) -> (String, Vec<String>) {
        let late = self.parts.as_ref().map_or_else(
            || NOTHING.to_owned(),
            |_| format!("{:.1} %", self.late * 100.0),
        );
        let parts = LINES.iter().map(|(_, part)| self.cell(*part));
        let cells = std::iter::once(value(self.total.median)).chain(parts);
        (head(self.configuration), cells.chain([late]).collect())
    }

    /// A part's seconds and its share; of what the CPU does all at once there are no parts.
    fn cell(&self, part: fn(&Parts) -> &Summary) -> String {
        match &self.parts {
            Some(parts) if part(parts).median > 0.0 => {
                let (part, total) = (part(parts).median, self.total.median);
                format!("{} ({:.0} %)", value(part), part / total * 100.0)
            }
            _ => NOTHING.to_owned(),
        }
    }
}

/// Of requests of 512 bytes and of 4 KiB, and their ratio.
fn totals(whose: Whose, name: &str, all: [[Option<f64>; 2]; 3]) -> Row {
    let text = |number: Option<f64>, text: &dyn Fn(f64) -> String| {
        number.map_or_else(|| NOTHING.to_owned(), text)
    };
    let cells = all.into_iter().flat_map(|[short, extended]| {
        let times = short.zip(extended).map(|(short, long)| short / long);
        [
            text(short, &value),
            text(extended, &value),
            text(times, &|times| format!("{times:.2}")),
        ]
    });
    Row::new(whose, std::iter::once(name.to_owned()).chain(cells))
}

/// As [`Breakdown::column`]; the second one is with extended requests.
fn paper_column(table: &[published::Row; 6], at: usize) -> (String, Vec<String>) {
    let cells = table.iter().map(|(what, seconds, parts)| match *what {
        "Total time" => format!("{:.2}", seconds[at]),
        _ => format!("{:.2} ({:.0} %)", seconds[at], parts[at]),
    });
    let bytes = size::text([512, 4096][at]);
    (
        format!("the paper's mixed, {bytes}"),
        cells.chain([NOTHING.to_owned()]).collect(),
    )
}

pub(super) fn head(configuration: Configuration) -> String {
    let bytes = size::text(configuration.request_bytes);
    format!("{}, {bytes}", configuration.work.name())
}
