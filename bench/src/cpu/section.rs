// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes the result of `cpu`.

use super::{KernelRate, LimitPace, Report, matrix::ResultPlace};
use crate::{
    plot::{self, Bar, Plot, Whose},
    rivals,
    section::{Row, Section, Table, cell},
    size,
    stats::{Summary, beyond, is_beyond, marked},
};

/// The call and the data units that the page shows, if they were measured.
const CALL: usize = 64 << 10;
const UNITS: [usize; 2] = [512, 4096];

/// What rows must have in common to be shown together.
type Kind = (&'static str, usize, &'static str, ResultPlace);

impl Report {
    pub(super) fn section(&self) -> Section {
        let shown = self.shown();
        let plot = |unit: usize| {
            let rows = of_unit(&shown, unit);
            let limit = best(&rows).and_then(KernelRate::limit);
            let limit = limit.map(|limit| Bar::new("nothing but AES", Whose::Limit, limit));
            let caption = format!("Data units of {unit} bytes");
            let bars = limit.into_iter().chain(rows.iter().map(|row| row.bar()));
            Plot::bars(caption, "GB/s", bars)
        };
        let heads = ["Data unit", "GB/s", "Of the limit", "Times one thread"];
        let in_cache = shown.iter().map(|row| row.row(false));
        let over_memory = self.over_memory();
        let memory = format!("Calls of {} over memory", size::text(self.large_bytes));
        let limits = Table::new(
            "The limit: nothing but AES instructions",
            "Registers",
            ["Instructions per cycle", "GHz"],
            self.limits.iter().map(LimitPace::row),
        );
        let tables = vec![
            Table::new(
                "One thread",
                "Implementation",
                heads.into_iter().take(3),
                in_cache,
            ),
            Table::new(
                memory,
                "Implementation",
                heads,
                over_memory.iter().map(|row| row.row(true)),
            ),
            Table::new(
                "Calls of one data unit, one thread",
                "Implementation",
                ["Data unit", "Nanoseconds a call", "GB/s", "Of the limit"],
                self.calls_of_one_unit().map(KernelRate::row_of_call),
            ),
            limits,
        ];
        let with_rivals = shown.iter().any(|row| row.rival);
        let section = Section {
            title: "XTS-AES on the CPU".to_owned(),
            about: self.about(&shown),
            conclusion: conclusion(&shown),
            brief: brief(&shown),
            plots: units(&shown).into_iter().map(plot).collect(),
            tables,
            details: self.all_rows(),
            digest: vec![self.ranges(false), self.ranges(true)],
            absent: rivals::absent(with_rivals).into_iter().collect(),
            ..Section::default()
        };
        section.without_empty_tables()
    }

    fn about(&self, shown: &[&KernelRate]) -> String {
        let mut text = format!(
            "Each kernel compared with the machine's limit, a loop of nothing but AES instructions \
             on registers of the same width, and with other libraries. GB/s are 10^9 bytes per \
             second. Calls of {} go through memory, shorter ones through a buffer that fits an L2 \
             cache of 2 MiB.",
            size::text(self.large_bytes)
        );
        if let Some(row) = shown.first() {
            text += &format!(
                " The tables show {}, in calls of {}; the JSON has all {} rows.",
                row.kind_text(),
                size::text(row.call_bytes),
                self.rows.len()
            );
        }
        text
    }

    /// Returns a table for each kind of work, with a row for each pair of lengths and a column for
    /// each contestant.
    fn all_rows(&self) -> Vec<Table> {
        let mut kinds: Vec<_> = self.rows.iter().map(KernelRate::kind).collect();
        kinds.dedup();
        let tables = [false, true].into_iter().flat_map(|several| {
            let rows = kinds.iter().map(move |kind| {
                let is = |row: &&KernelRate| row.kind() == *kind && (row.threads > 1) == several;
                self.rows.iter().filter(is).collect::<Vec<_>>()
            });
            rows.filter(|rows| !rows.is_empty())
        });
        tables.map(|rows| table(&rows)).collect()
    }

    /// Returns the rows to show: one thread, and the most informative kind of call, or the first
    /// one measured.
    fn shown(&self) -> Vec<&KernelRate> {
        let wanted: (Kind, usize) = (("xts", 256, "encrypt", ResultPlace::Out), CALL);
        let of = |row: &KernelRate| (row.kind(), row.call_bytes);
        let all = || self.rows.iter().filter(|row| row.threads == 1);
        let first = all().find(|row| of(row) == wanted);
        let first = first.or_else(|| all().find(|row| row.call_bytes == CALL));
        let first = first.or_else(|| all().next());
        let Some(first) = first.map(of) else {
            return Vec::new();
        };
        let rows: Vec<_> = all().filter(|row| of(row) == first).collect();
        let units = units(&rows);
        let is = |row: &&KernelRate| units.contains(&row.unit_bytes);
        rows.into_iter().filter(is).collect()
    }

    /// Returns the calls of one unit of a sector's size: what a database or a file system asks for.
    fn calls_of_one_unit(&self) -> impl Iterator<Item = &KernelRate> {
        let kind = self.shown().first().map(|row| row.kind());
        let is = move |row: &&KernelRate| {
            let is_sector = UNITS.contains(&row.unit_bytes) && row.unit_bytes == row.call_bytes;
            is_sector && row.threads == 1 && Some(row.kind()) == kind
        };
        self.rows.iter().filter(is)
    }

    /// Returns the same cases over memory, on one and on all threads; none if these are already
    /// shown.
    fn over_memory(&self) -> Vec<&KernelRate> {
        let shown = self.shown();
        let Some(first) = shown.first() else {
            return Vec::new();
        };
        let is = |row: &&KernelRate| {
            (row.kind(), row.call_bytes) == (first.kind(), self.large_bytes)
                && first.call_bytes != self.large_bytes
                && shown.iter().any(|shown| shown.unit_bytes == row.unit_bytes)
        };
        self.rows.iter().filter(is).collect()
    }
}

impl Report {
    /// Returns the range of the medians over both directions, in place and out of place: GB/s, and
    /// the ratios to the limit or, of several threads, to one thread.
    fn ranges(&self, several: bool) -> Table {
        let rows = || self.rows.iter().filter(|row| (row.threads > 1) == several);
        // Other units than these only fill the table, unless they alone were measured.
        let is_usual = |row: &&KernelRate| (UNITS[0]..=CALL).contains(&row.unit_bytes);
        let any = rows().any(|row| is_usual(&row));
        let rows = rows().filter(|row| !any || is_usual(row));
        let mut names: Vec<&str> = Vec::new();
        let mut cases: Vec<(_, Vec<&KernelRate>)> = Vec::new();
        for row in rows {
            let name = row.contestant.as_str();
            if !names.contains(&name) {
                names.push(name);
            }
            let case = (row.mode, row.key_bits, row.call_bytes, row.unit_bytes);
            match cases.iter_mut().find(|(of, _)| *of == case) {
                Some((_, rows)) => rows.push(row),
                None => cases.push((case, vec![row])),
            }
        }
        let lines = cases.iter().map(|((mode, bits, call, unit), rows)| {
            let of = |name: &str| {
                let rows = rows.iter().filter(|row| row.contestant == name);
                rows.map(|row| row.digits()).reduce(Digits::with)
            };
            let cells = names.iter().map(|name| cell(of(name), Digits::text));
            let lengths = [*call, *unit].map(size::text).into_iter();
            let mode = format!("{} AES-{bits}", mode.to_uppercase());
            Row::new(Whose::Luxor, mode, lengths.chain(cells))
        });
        let caption = if several {
            format!("{} threads: GB/s, times one thread", self.threads)
        } else {
            "One thread: GB/s, part of the limit".to_owned()
        };
        let heads = ["Call", "Data unit"]
            .into_iter()
            .chain(names.iter().copied());
        Table::new(caption, "Mode", heads, lines)
    }
}

/// The lowest and the highest GB/s of some rows, and the ratio that belongs to them.
#[derive(Clone, Copy)]
struct Digits {
    rate: [f64; 2],
    ratio: Option<[f64; 2]>,
    several: bool,
    unsteady: bool,
}

impl Digits {
    fn with(self, other: Self) -> Self {
        let wider = |[a, b]: [f64; 2], [c, d]: [f64; 2]| [a.min(c), b.max(d)];
        Self {
            rate: wider(self.rate, other.rate),
            ratio: self.ratio.zip(other.ratio).map(|(a, b)| wider(a, b)),
            unsteady: self.unsteady || other.unsteady,
            ..self
        }
    }

    fn text(self) -> String {
        let range = |ends: [f64; 2], digits: &dyn Fn(f64) -> usize| {
            let [low, high] = ends.map(|end| format!("{end:.*}", digits(end)));
            if low == high {
                low
            } else {
                format!("{low} - {high}")
            }
        };
        let mut text = range(self.rate, &decimals);
        if let Some(ends) = self.ratio {
            text += ", ";
            text += &if !self.several && is_beyond(ends[1], 1.0) {
                beyond(1.0, 0)
            } else {
                range(ends, &|_| if self.several { 2 } else { 3 })
            };
        }
        marked(text, self.unsteady)
    }
}

/// Returns the digits behind the point of GB/s with three digits.
fn decimals(rate: f64) -> usize {
    match rate {
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    }
}

/// Returns the table of rows of one kind.
fn table(rows: &[&KernelRate]) -> Table {
    let mut names: Vec<&str> = Vec::new();
    let mut lengths = Vec::new();
    for row in rows {
        if !names.contains(&row.contestant.as_str()) {
            names.push(&row.contestant);
        }
        if !lengths.contains(&(row.call_bytes, row.unit_bytes)) {
            lengths.push((row.call_bytes, row.unit_bytes));
        }
    }
    let lines = lengths.iter().map(|&(call, unit)| {
        let cells = names.iter().map(|name| {
            let is = |row: &&&KernelRate| {
                (row.call_bytes, row.unit_bytes, row.contestant.as_str()) == (call, unit, *name)
            };
            cell(rows.iter().find(is), |row| row.rate_and_ratio())
        });
        let unit = size::text(unit);
        let cells = std::iter::once(unit).chain(cells);
        Row::new(Whose::Luxor, size::text(call), cells)
    });
    let threads = match rows[0].threads {
        1 => "one thread: GB/s, and the ratio to the limit of the same registers".to_owned(),
        n => format!("{n} threads: GB/s, and the ratio to one thread"),
    };
    let caption = format!("{}, {threads}", rows[0].kind_text());
    let heads = std::iter::once("Data unit").chain(names.iter().copied());
    Table::new(caption, "Call", heads, lines)
}

fn conclusion(shown: &[&KernelRate]) -> Option<String> {
    let said = units(shown).into_iter().filter_map(|unit| {
        let best = best(&of_unit(shown, unit))?;
        let rate = plot::value(best.gb_per_s);
        let mut text = format!(
            "with data units of {unit} bytes, {} reaches {rate} GB/s",
            best.contestant
        );
        if let Some(part) = best.of_limit {
            text += &if is_beyond(part.median, 1.0) {
                ", which is above the limit, so the machine was disturbed".to_owned()
            } else {
                format!(", {part:.2} of the limit")
            };
        }
        for (rival, ratio) in &best.of_rival {
            text += &format!(", {ratio:.2} times {rival}'s speed");
        }
        Some(text)
    });
    let said: Vec<_> = said.collect();
    let call = size::text(shown.first()?.call_bytes);
    Some(format!(
        "On one thread, in calls of {call}, {}.",
        said.join("; ")
    ))
}

fn brief(shown: &[&KernelRate]) -> Option<String> {
    let unit = *units(shown).first()?;
    let best = best(&of_unit(shown, unit))?;
    let rate = plot::value(best.gb_per_s);
    let rivals = best.of_rival.iter();
    let rivals = rivals.map(|(rival, ratio)| format!(", {ratio:.2} times {rival}"));
    Some(format!(
        "{rate} GB/s by {} on one thread, units of {unit} B{}",
        best.contestant,
        rivals.collect::<String>()
    ))
}

/// Returns the sector sizes among the rows' units, or all units if there are none.
fn units(rows: &[&KernelRate]) -> Vec<usize> {
    let mut units: Vec<usize> = rows.iter().map(|row| row.unit_bytes).collect();
    units.sort_unstable();
    units.dedup();
    if units.iter().any(|unit| UNITS.contains(unit)) {
        units.retain(|unit| UNITS.contains(unit));
    }
    units
}

fn of_unit<'a>(rows: &[&'a KernelRate], unit: usize) -> Vec<&'a KernelRate> {
    let rows = rows.iter().copied();
    rows.filter(|row| row.unit_bytes == unit).collect()
}

/// Returns the fastest kernel.
fn best<'a>(rows: &[&'a KernelRate]) -> Option<&'a KernelRate> {
    let own = rows.iter().copied().filter(|row| !row.rival);
    own.max_by(|a, b| a.gb_per_s.median.total_cmp(&b.gb_per_s.median))
}

impl LimitPace {
    fn row(&self) -> Row {
        let numbers = [self.instructions_per_cycle, self.ghz];
        let numbers = numbers.map(|number| format!("{number:.2}"));
        Row::new(Whose::Limit, self.registers, numbers)
    }
}

impl KernelRate {
    fn kind(&self) -> Kind {
        (self.mode, self.key_bits, self.direction, self.place)
    }

    fn kind_text(&self) -> String {
        let place = match self.place {
            ResultPlace::In => "in place",
            ResultPlace::Out => "out of place",
        };
        let (mode, bits, direction) = (self.mode.to_uppercase(), self.key_bits, self.direction);
        format!("{mode} AES-{bits}, {direction}, {place}")
    }

    fn limit(&self) -> Option<Summary> {
        let part = self.of_limit?;
        let is_possible = part.median > 0.0 && !is_beyond(part.median, 1.0);
        is_possible.then(|| self.gb_per_s / part)
    }

    fn bar(&self) -> Bar {
        let whose = Whose::rival_if(self.rival);
        Bar::new(&self.contestant, whose, self.gb_per_s)
    }

    /// Returns the table row; `several` adds the ratio to one thread.
    fn row(&self, several: bool) -> Row {
        let name = match self.threads {
            1 => self.contestant.clone(),
            n => format!("{}, {n} threads", self.contestant),
        };
        let times = several.then(|| cell(self.of_one_thread, |times| times.text(2)));
        let cells = [
            size::text(self.unit_bytes),
            self.gb_per_s.text(2),
            cell(self.of_limit, |part| part.text_within(1.0, 3)),
        ];
        Row::new(
            Whose::rival_if(self.rival),
            name,
            cells.into_iter().chain(times),
        )
    }

    /// Returns the table row of calls that take so long each.
    fn row_of_call(&self) -> Row {
        let nanoseconds = self.gb_per_s.inverse().scaled(self.call_bytes as f64);
        let cells = [
            size::text(self.unit_bytes),
            format!("{nanoseconds:.0}"),
            self.gb_per_s.text(2),
            cell(self.of_limit, |part| part.text_within(1.0, 3)),
        ];
        Row::new(Whose::rival_if(self.rival), &self.contestant, cells)
    }

    fn is_unsteady(&self) -> bool {
        let [limit, one] = [self.of_limit, self.of_one_thread];
        let all = [Some(self.gb_per_s), limit, one];
        all.iter().flatten().any(Summary::is_unsteady)
    }

    fn digits(&self) -> Digits {
        let several = self.threads > 1;
        let ratio = if several {
            self.of_one_thread
        } else {
            self.of_limit
        };
        Digits {
            rate: [self.gb_per_s.median; 2],
            ratio: ratio.map(|all| [all.median; 2]),
            several,
            unsteady: self.is_unsteady(),
        }
    }

    /// Formats GB/s with three digits, and the ratio that belongs to it.
    fn rate_and_ratio(&self) -> String {
        let rate = self.gb_per_s;
        let decimals = decimals(rate.median);
        let ratio = if self.threads > 1 {
            self.of_one_thread.map(|all| format!("{all:.2}"))
        } else {
            self.of_limit.map(|all| match all.median {
                ratio if is_beyond(ratio, 1.0) => beyond(1.0, 0),
                _ => format!("{all:.3}"),
            })
        };
        format!("{rate:.decimals$} {:>5}", ratio.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::stats::Summary;

    fn row(contestant: &str, rival: bool, unit: usize, call: usize, threads: usize) -> KernelRate {
        let summary = |value| Summary::from_samples(vec![value]);
        KernelRate {
            contestant: contestant.to_owned(),
            rival,
            mode: "xts",
            key_bits: 256,
            direction: "encrypt",
            place: ResultPlace::Out,
            unit_bytes: unit,
            call_bytes: call,
            buffer_bytes: call,
            threads,
            samples: 1,
            gb_per_s: summary(8.0).unwrap(),
            of_limit: summary(0.5),
            of_one_thread: summary(1.5).filter(|_| threads > 1),
            of_rival: BTreeMap::from([("a library".to_owned(), summary(2.0).unwrap())]),
        }
    }

    fn section(rows: Vec<KernelRate>) -> Section {
        let limit = LimitPace {
            registers: "zmm",
            instructions_per_cycle: 2.0,
            ghz: 3.9,
        };
        let report = Report {
            large_bytes: 1 << 20,
            threads: 2,
            limits: vec![limit],
            rows,
        };
        let section = report.section();
        section.assert_whole();
        section
    }

    #[test]
    fn the_section_has_the_limit_in_a_colour_of_its_own() {
        let mut rows = Vec::new();
        for unit in [16, 512, 4096] {
            rows.push(row("vaes512", false, unit, CALL, 1));
            rows.push(row("a library", true, unit, CALL, 1));
            rows.push(row("vaes512", false, unit, 1 << 20, 1));
            rows.push(row("vaes512", false, unit, 1 << 20, 2));
        }
        for contestant in ["vaes512", "a library"] {
            rows.push(row(contestant, contestant != "vaes512", 512, 512, 1));
        }
        let section = section(rows);
        assert_eq!(section.plots.len(), 2);
        let svg = section.plots[0].svg().unwrap();
        assert_eq!(svg.matches("var(--limit, ").count(), 1);
        assert!(!svg.contains("var(--paper, "));
        assert!(
            section.plots[0]
                .description()
                .contains("nothing but AES: 16.0 GB/s")
        );
        let lengths: Vec<_> = section
            .tables
            .iter()
            .map(|table| table.rows.len())
            .collect();
        assert_eq!(lengths, [4, 4, 2, 1]);
        // One thread: two sectors in each of two calls, and calls of 512 bytes. Two: two sectors.
        let lengths = section.digest.iter().map(|table| table.rows.len());
        assert_eq!(lengths.collect::<Vec<_>>(), [5, 2]);
        // 512 bytes at 8 GB/s.
        assert_eq!(section.tables[2].rows[0].cells[2], "64");
        assert!(section.absent.is_empty());
        let said = section.conclusion.unwrap();
        assert!(
            said.contains("0.50 of the limit, 2.00 times a library's"),
            "{said}"
        );
    }

    #[test]
    fn the_digest_has_the_range_of_all_directions_and_places() {
        let mut other = row("vaes512", false, 512, CALL, 1);
        other.place = ResultPlace::In;
        other.gb_per_s = other.gb_per_s.scaled(2.0);
        let rows = vec![row("vaes512", false, 512, CALL, 1), other];
        let section = section(rows);
        let cells = &section.digest[0].rows[0].cells;
        assert_eq!(
            cells[..],
            ["XTS AES-256", "64 KiB", "512 B", "8.00 - 16.0, 0.500"]
        );
    }

    #[test]
    fn the_selected_cases_are_shown_without_empty_tables() {
        let only = section(vec![row("aesni", false, 16, 4096, 1)]);
        assert!(only.about.contains("calls of 4 KiB"), "{}", only.about);
        assert_eq!((only.plots.len(), only.tables.len()), (1, 2));
        assert!(only.absent[0].contains("OpenSSL"));
        let memory = section(vec![
            row("aesni", false, 512, 1 << 20, 1),
            row("aesni", false, 512, 1 << 20, 2),
        ]);
        assert_eq!(memory.tables.len(), 2);
    }
}
