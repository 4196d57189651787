// SPDX-License-Identifier: MIT OR Apache-2.0
//! The section of `luxor report`.

use super::{Report, Row, matrix::Place};
use crate::{
    page::{
        self, Section, Table, Whose, columns,
        plot::{self, Bar},
    },
    size,
};

/// The call and the data units that the page shows, where they were measured.
const CALL: usize = 64 << 10;
const UNITS: [usize; 2] = [512, 4096];

impl Report {
    /// What stands in the report.
    ///
    /// # Errors
    /// When a plot cannot be drawn.
    pub(crate) fn section(&self) -> Result<Section, String> {
        let (mut figures, mut rows) = (Vec::new(), Vec::new());
        for unit in UNITS {
            let shown = self.shown(unit);
            let mut bars: Vec<Bar> = shown.iter().map(|row| row.bar()).collect();
            if bars.is_empty() {
                continue;
            }
            if let Some(limit) = best(&shown).and_then(Row::limit) {
                bars.insert(0, Bar::new("nothing but AES", Whose::Limit, limit));
            }
            let caption = format!("Data units of {unit} bytes");
            figures.push(plot::bars(&caption, "GB/s", &bars)?);
            rows.extend(shown.into_iter().map(Row::row));
        }
        let table = Table {
            caption: "One thread, out of place".to_owned(),
            columns: columns(&["Who", "Data unit", "GB/s", "Of the limit"]),
            rows,
        };
        Ok(Section {
            name: "cpu",
            title: "XTS-AES on the CPU".to_owned(),
            paper: None,
            about: format!(
                "Each kernel beside the machine's limit, a loop of nothing but AES instructions on \
                 registers as wide, and beside other libraries. Shown is encryption with AES-256 in \
                 calls of 64 KiB, where it was measured; all {} rows are in the JSON.",
                self.rows.len()
            ),
            conclusion: self.conclusion(),
            figures,
            tables: vec![table],
            absent: Vec::new(),
        })
    }

    fn shown(&self, unit: usize) -> Vec<&Row> {
        let shown = |row: &&Row| {
            (row.mode, row.key_bits, row.direction) == ("xts", 256, "encrypt")
                && row.place == Place::Out
                && (row.unit_bytes, row.call_bytes, row.threads) == (unit, CALL, 1)
        };
        self.rows.iter().filter(shown).collect()
    }

    fn conclusion(&self) -> Option<String> {
        let said = UNITS.into_iter().filter_map(|unit| {
            let best = best(&self.shown(unit))?;
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
}

/// The fastest kernel.
fn best<'a>(rows: &[&'a Row]) -> Option<&'a Row> {
    let own = rows.iter().copied().filter(|row| !row.rival);
    own.max_by(|a, b| a.gb_per_s.median.total_cmp(&b.gb_per_s.median))
}

impl Row {
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

    fn row(&self) -> page::Row {
        let part = self.of_limit.as_ref();
        let part = part.map_or("none".to_owned(), |part| part.text(3));
        let (name, unit) = (self.contestant.clone(), size::text(self.unit_bytes));
        page::Row::new(
            page::whose(self.rival),
            [name, unit, self.gb_per_s.text(2), part],
        )
    }
}
