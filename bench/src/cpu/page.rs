// SPDX-License-Identifier: MIT OR Apache-2.0
//! The section of `luxor report`.

use super::{LimitRow, Report, Row, matrix::Place};
use crate::{
    page::{
        self, Section, Table, Whose, columns,
        plot::{self, Bar},
    },
    rivals, size,
};

/// The call and the data units that the page shows, where they were measured.
const CALL: usize = 64 << 10;
const UNITS: [usize; 2] = [512, 4096];

/// What rows have in common that may stand side by side.
type Kind = (&'static str, usize, &'static str, Place);

impl Report {
    /// What stands in the report.
    ///
    /// # Errors
    /// When a plot cannot be drawn.
    pub(crate) fn section(&self) -> Result<Section, String> {
        let shown = self.shown();
        let mut figures = Vec::new();
        for unit in units(&shown) {
            let rows: Vec<_> = of_unit(&shown, unit);
            let mut bars: Vec<Bar> = rows.iter().map(|row| row.bar()).collect();
            if let Some(limit) = best(&rows).and_then(Row::limit) {
                bars.insert(0, Bar::new("nothing but AES", Whose::Limit, limit));
            }
            let caption = format!("Data units of {unit} bytes");
            figures.push(plot::bars(&caption, "GB/s", &bars)?);
        }
        let heads = ["Who", "Data unit", "GB/s", "Of the limit"];
        let in_cache = Table {
            caption: "One thread".to_owned(),
            columns: columns(&heads),
            rows: shown.iter().map(|row| row.row()).collect(),
        };
        let over = self.over_memory();
        let over_memory = Table {
            caption: format!("Calls of {}, over memory", size::text(self.large_bytes)),
            columns: columns(&[
                "Who",
                "Data unit",
                "GB/s",
                "Of the limit",
                "Times one thread",
            ]),
            rows: over.iter().map(|row| row.row_of_several()).collect(),
        };
        let limits = Table {
            caption: "The limit: nothing but AES instructions".to_owned(),
            columns: columns(&["Registers", "Instructions a cycle", "GHz"]),
            rows: self.limits.iter().map(LimitRow::row).collect(),
        };
        let mut tables = vec![in_cache, over_memory, limits];
        tables.retain(|table| !table.rows.is_empty());
        Ok(Section {
            name: "cpu",
            title: "XTS-AES on the CPU".to_owned(),
            paper: None,
            about: self.about(&shown),
            conclusion: conclusion(&shown),
            figures,
            tables,
            absent: rivals::absent(shown.iter().any(|row| row.rival))
                .into_iter()
                .collect(),
        })
    }

    fn about(&self, shown: &[&Row]) -> String {
        let mut text = "Each kernel beside the machine's limit, a loop of nothing but AES \
                        instructions on registers as wide, and beside other libraries."
            .to_owned();
        if let Some(row) = shown.first() {
            let place = match row.place {
                Place::In => "in place",
                Place::Out => "out of place",
            };
            text += &format!(
                " Shown is {} AES-{}, {}, {place}, in calls of {}; all {} rows are in the JSON.",
                row.mode.to_uppercase(),
                row.key_bits,
                row.direction,
                size::text(row.call_bytes),
                self.rows.len()
            );
        }
        text
    }

    /// On one thread, in the same calls: what says most, or the first that there is.
    fn shown(&self) -> Vec<&Row> {
        let wanted: (Kind, usize) = (("xts", 256, "encrypt", Place::Out), CALL);
        let of = |row: &Row| (row.kind(), row.call_bytes);
        let all = || self.rows.iter().filter(|row| row.threads == 1);
        let first = all().find(|row| of(row) == wanted).or_else(|| all().next());
        let Some(first) = first.map(of) else {
            return Vec::new();
        };
        let rows: Vec<_> = all().filter(|row| of(row) == first).collect();
        let units = units(&rows);
        let is = |row: &&Row| units.contains(&row.unit_bytes);
        rows.into_iter().filter(is).collect()
    }

    /// The same over memory, on one thread and all; none when that is what is shown.
    fn over_memory(&self) -> Vec<&Row> {
        let shown = self.shown();
        let Some(first) = shown.first() else {
            return Vec::new();
        };
        let is = |row: &&Row| {
            (row.kind(), row.call_bytes) == (first.kind(), self.large_bytes)
                && first.call_bytes != self.large_bytes
                && shown.iter().any(|shown| shown.unit_bytes == row.unit_bytes)
        };
        self.rows.iter().filter(is).collect()
    }
}

fn conclusion(shown: &[&Row]) -> Option<String> {
    let said = units(shown).into_iter().filter_map(|unit| {
        let best = best(&of_unit(shown, unit))?;
        let rate = plot::value(best.gb_per_s.median);
        let mut text = format!(
            "with data units of {unit} bytes {} does {rate} GB/s",
            best.contestant
        );
        if let Some(part) = &best.of_limit {
            text += &format!(", {:.2} of the limit", part.median);
        }
        for (rival, ratio) in &best.of_rival {
            text += &format!(", {:.2} times {rival}'s speed", ratio.median);
        }
        Some(text)
    });
    let said: Vec<_> = said.collect();
    (!said.is_empty()).then(|| format!("On one thread, {}.", said.join("; ")))
}

/// Those of the sectors, or else all that there are.
fn units(rows: &[&Row]) -> Vec<usize> {
    let mut units: Vec<usize> = rows.iter().map(|row| row.unit_bytes).collect();
    units.sort_unstable();
    units.dedup();
    if units.iter().any(|unit| UNITS.contains(unit)) {
        units.retain(|unit| UNITS.contains(unit));
    }
    units
}

fn of_unit<'a>(rows: &[&'a Row], unit: usize) -> Vec<&'a Row> {
    let rows = rows.iter().copied();
    rows.filter(|row| row.unit_bytes == unit).collect()
}

/// The fastest kernel.
fn best<'a>(rows: &[&'a Row]) -> Option<&'a Row> {
    let own = rows.iter().copied().filter(|row| !row.rival);
    own.max_by(|a, b| a.gb_per_s.median.total_cmp(&b.gb_per_s.median))
}

impl LimitRow {
    fn row(&self) -> page::Row {
        let Self {
            registers,
            instructions_per_cycle,
            ghz,
        } = self;
        let numbers = [instructions_per_cycle, ghz].map(|number| format!("{number:.2}"));
        let name = std::iter::once((*registers).to_owned());
        page::Row::new(Whose::Limit, name.chain(numbers))
    }
}

impl Row {
    fn kind(&self) -> Kind {
        (self.mode, self.key_bits, self.direction, self.place)
    }

    fn limit(&self) -> Option<f64> {
        let part = self.of_limit.as_ref()?.median;
        (part > 0.0).then(|| self.gb_per_s.median / part)
    }

    fn bar(&self) -> Bar {
        Bar::new(
            &self.contestant,
            page::whose(self.rival),
            self.gb_per_s.median,
        )
    }

    fn cells(&self) -> [String; 4] {
        let part = self.of_limit.as_ref();
        let part = part.map_or("none".to_owned(), |part| part.text(3));
        let name = match self.threads {
            1 => self.contestant.clone(),
            n => format!("{}, {n} threads", self.contestant),
        };
        [
            name,
            size::text(self.unit_bytes),
            self.gb_per_s.text(2),
            part,
        ]
    }

    fn row(&self) -> page::Row {
        page::Row::new(page::whose(self.rival), self.cells())
    }

    fn row_of_several(&self) -> page::Row {
        let times = self.of_one_thread.as_ref();
        let times = times.map_or("-".to_owned(), |times| times.text(2));
        let cells = self.cells().into_iter().chain([times]);
        page::Row::new(page::whose(self.rival), cells)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::stats::Summary;

    fn row(contestant: &str, rival: bool, unit: usize, call: usize, threads: usize) -> Row {
        let summary = |value| Summary::of(vec![value]);
        Row {
            contestant: contestant.to_owned(),
            rival,
            mode: "xts",
            key_bits: 256,
            direction: "encrypt",
            place: Place::Out,
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

    fn section(rows: Vec<Row>) -> Section {
        let limit = LimitRow {
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
        let section = report.section().unwrap();
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
        let section = section(rows);
        assert_eq!(section.figures.len(), 2);
        let svg = &section.figures[0].svg;
        assert_eq!(svg.matches("var(--limit, ").count(), 1);
        assert!(!svg.contains("var(--paper, "));
        assert!(
            section.figures[0]
                .description
                .contains("nothing but AES: 16.0 GB/s")
        );
        let lengths: Vec<_> = section
            .tables
            .iter()
            .map(|table| table.rows.len())
            .collect();
        assert_eq!(lengths, [4, 4, 1]);
        assert!(section.absent.is_empty());
        let said = section.conclusion.unwrap();
        assert!(
            said.contains("0.50 of the limit, 2.00 times a library's"),
            "{said}"
        );
    }

    #[test]
    fn what_was_asked_for_is_shown_and_no_table_is_empty() {
        let only = section(vec![row("aesni", false, 16, 4096, 1)]);
        assert!(only.about.contains("calls of 4 KiB"), "{}", only.about);
        assert_eq!((only.figures.len(), only.tables.len()), (1, 2));
        assert!(only.absent[0].contains("OpenSSL"));
        let memory = section(vec![
            row("aesni", false, 512, 1 << 20, 1),
            row("aesni", false, 512, 1 << 20, 2),
        ]);
        assert_eq!(memory.tables.len(), 2);
    }
}
