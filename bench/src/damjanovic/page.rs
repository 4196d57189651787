// SPDX-License-Identifier: MIT OR Apache-2.0
//! The section of `luxor report`.

use luxor_engine::Construction;

use super::{ARRAYS, Array, Engine, Report, lane::Way, published};
use crate::page::{
    self, Paper, Row, Section, Table, Whose, columns,
    plot::{self, Line},
};

const PAPER: Paper = Paper {
    reference: "B. Damjanović and D. Simić: Tweakable parallel OFB mode of operation with delayed \
        thread synchronization. Security and Communication Networks, 2015.",
    claim: "Two chains of AES-128, a thread each, are faster than serial AES-256-OFB where input \
        arrays are long: up to 1.10 times (XEX) and 1.19 times (XE).",
    rebuilt: "The modes in both forms, in the paper's way and with both chains side by side on one \
        thread, beside serial OFB, one chain alone and CTR.",
};

impl Report {
    /// What stands in the report.
    ///
    /// # Errors
    /// When a plot cannot be drawn.
    pub(crate) fn section(&self) -> Result<Section, String> {
        let figures = self.engines.iter().take(1).filter_map(Engine::figure);
        let printed = published::XEX.iter().chain(&published::XE).map(|table| {
            let rows = table.rows.iter();
            let rows =
                rows.map(|(name, all)| Row::new(Whose::Paper, [*name].into_iter().chain(*all)));
            Table {
                caption: format!("The paper's Table {}, {}", table.name, table.machine),
                columns: heads(ARRAYS),
                rows: rows.collect(),
            }
        });
        let ours = self.engines.iter().filter_map(Engine::table);
        Ok(Section {
            name: "damjanovic-simic-2015",
            title: "Parallel tweakable OFB".to_owned(),
            paper: Some(PAPER),
            about: "Milliseconds for 128 MB, by the bytes of the input array.".to_owned(),
            conclusion: self.conclusion(),
            figures: figures.collect::<Result<_, _>>()?,
            tables: ours.chain(printed).collect(),
            absent: Vec::new(),
        })
    }

    fn conclusion(&self) -> Option<String> {
        let said = self.engines.iter().filter_map(|engine| {
            let array = engine.arrays.iter().max_by_key(|array| array.array_bytes)?;
            let ratio = array.best(Construction::Xex)?.of_ofb?.median;
            Some(format!("{ratio:.2} times ({})", engine.engine))
        });
        let said: Vec<_> = said.collect();
        (!said.is_empty()).then(|| {
            format!(
                "Both chains of XEX on one thread do {} what serial AES-256-OFB does; the paper's \
                 best with two threads is 1.10 times.",
                said.join(", ")
            )
        })
    }
}

impl Engine {
    /// Of the paper's lengths, which have the same rows.
    fn of_paper(&self) -> Vec<&Array> {
        let is = |array: &&Array| ARRAYS.contains(&array.array_bytes);
        self.arrays.iter().filter(is).collect()
    }

    /// None with less than two lengths.
    fn figure(&self) -> Option<Result<plot::Figure, String>> {
        let mut arrays = self.of_paper();
        arrays.sort_by_key(|array| array.array_bytes);
        let [first, _, ..] = arrays.as_slice() else {
            return None;
        };
        let shown = first.rows.iter().enumerate().filter(|(_, row)| {
            row.contestant == self.engine
                && (row.form.name() == "1x 256 OFB"
                    || row.form.name() == "2x 128 XEX" && row.way != Way::Auto)
        });
        let lines = shown.map(|(at, row)| Line {
            name: self.name_of(row),
            whose: page::whose(row.form.name() == "1x 256 OFB"),
            points: arrays
                .iter()
                .map(|array| (array.array_bytes as f64, array.rows[at].milliseconds.median))
                .collect(),
        });
        let lines: Vec<_> = lines.collect();
        let caption = format!("{}: milliseconds for 128 MB", self.engine);
        Some(plot::lines(
            &caption,
            ["bytes of the input array", "ms"],
            &lines,
        ))
    }

    fn table(&self) -> Option<Table> {
        let arrays = self.of_paper();
        let rows = arrays.first()?.rows.iter().enumerate().map(|(at, row)| {
            let cells = arrays
                .iter()
                .map(|array| plot::value(array.rows[at].milliseconds.median));
            let whose = page::whose(row.contestant != self.engine);
            Row::new(whose, std::iter::once(self.name_of(row)).chain(cells))
        });
        Some(Table {
            caption: format!("{}, milliseconds for 128 MB", self.engine),
            columns: heads(arrays.iter().map(|array| array.array_bytes)),
            rows: rows.collect(),
        })
    }
}

fn heads(arrays: impl IntoIterator<Item = usize>) -> Vec<String> {
    let arrays = arrays.into_iter().map(|bytes| format!("{bytes} B"));
    columns(&["Mode"]).into_iter().chain(arrays).collect()
}
