// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables for a terminal, with the paper's.

use luxor_engine::{Construction, TweakSchedule};

use super::{
    ARRAYS, Array, Engine, Report, Row,
    lane::{Form, Way},
    published::{self, Published},
    streams,
};
use crate::{size, stats::Summary};

impl Report {
    /// All of it.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "Parallel tweakable OFB (Damjanovic and Simic, 2015): milliseconds for {} MB \
             (10^6 bytes), from memory to\nmemory, in input arrays of so many bytes: medians of \
             {} rounds, and half the distance between the quartiles.\n\
             speed-up and %: over the 1x 256 OFB above, in the same round. One thread, but for \
             `a thread each` (merged\narray by array) and 2x 256 CTR (a thread for each half of \
             the message, which wait for nobody). Tweaks are\nmultiplied by alpha each block; \
             `printed` is alpha^i, as in the paper's listings.\n",
            self.file_bytes as f64 / 1e6,
            self.rounds,
        );
        let measured = |array: usize| {
            let arrays = self.engines.iter().flat_map(|engine| &engine.arrays);
            arrays
                .map(|found| found.array_bytes)
                .any(|found| found == array)
        };
        let columns: Vec<usize> = (0..ARRAYS.len())
            .filter(|&column| measured(ARRAYS[column]))
            .collect();
        for (construction, name, tables) in [
            (Construction::Xex, "XEX, Tables B1 and B2", published::XEX),
            (Construction::Xe, "XE, Tables B3 and B4", published::XE),
        ] {
            if columns.is_empty() {
                continue;
            }
            text += &format!("\n{name:<34}");
            for &column in &columns {
                text += &format!(" {:>13}", ARRAYS[column]);
            }
            text.push('\n');
            for engine in &self.engines {
                text += &engine.rows(construction, self.file_bytes);
            }
            for table in &tables {
                text += &table.text(&columns);
            }
        }
        for engine in &self.engines {
            text += &engine.ratios();
            text += &engine.streams();
        }
        text
    }
}

impl Engine {
    /// The forms of one construction, and what they are compared with.
    fn rows(&self, construction: Construction, file_bytes: usize) -> String {
        let mut text = self.engine.to_owned();
        if self.bytes != file_bytes {
            text += &format!(", from {:.3} MB", self.bytes as f64 / 1e6);
        }
        text.push('\n');
        let Some(first) = self.arrays.first() else {
            return text;
        };
        for (at, row) in first.rows.iter().enumerate() {
            if !row.form.is_of(construction) {
                continue;
            }
            // All lengths of the paper have the same rows.
            let of_paper = |array: &&Array| ARRAYS.contains(&array.array_bytes);
            let rows: Vec<&Row> = self
                .arrays
                .iter()
                .filter(of_paper)
                .filter_map(|array| array.rows.get(at))
                .collect();
            let mut line = |what: &str, cell: &dyn Fn(&Row) -> String| {
                text += &format!("  {what:<32}");
                for row in &rows {
                    text += &format!(" {:>13}", cell(row));
                }
                text.push('\n');
            };
            line(&self.name_of(row), &|row| spread(&row.milliseconds));
            if let (Form::Two(..), Some(_)) = (row.form, row.of_ofb) {
                let of_ofb = |row: &Row| row.of_ofb.map_or(f64::NAN, |times| times.median);
                line("  speed-up", &|row| format!("{:.3}", of_ofb(row)));
                line("  %", &|row| format!("{:.2}", of_ofb(row) * 100.0 - 100.0));
            }
        }
        text
    }

    pub(super) fn name_of(&self, row: &Row) -> String {
        let name = row.form.name();
        match row.way {
            _ if row.contestant != self.engine => format!("{name}, {}", row.contestant),
            Way::Serial | Way::Halves => name.to_owned(),
            Way::Apart => format!("{name}, a thread each"),
            Way::Together => format!("{name}, one thread"),
            Way::Auto => format!("{name}, auto"),
        }
    }

    /// Two chains on one thread over one chain of AES-256.
    fn ratios(&self) -> String {
        let mut text = format!(
            "\n{}: the speed of 2x 128 on one thread over 1x 256 OFB, in the same round, and \
             quartiles\n{:<10}",
            self.engine, "array"
        );
        let rivals: Vec<&String> = self
            .arrays
            .iter()
            .take(1)
            .flat_map(|array| array.rows.iter().take(1))
            .flat_map(|row| row.of_rival.keys())
            .collect();
        for other in std::iter::once("its own").chain(rivals.iter().map(|name| name.as_str())) {
            for construction in ["XEX", "XE"] {
                text += &format!(" {:>21}", format!("{construction}, {other}"));
            }
        }
        text.push('\n');
        for array in &self.arrays {
            text += &format!("{:<10}", array.array_bytes);
            let [xex, xe] = [Construction::Xex, Construction::Xe].map(|form| array.best(form));
            let own = |row: Option<&Row>| row?.of_ofb;
            let mut cells = vec![own(xex), own(xe)];
            for &rival in &rivals {
                let of = |row: Option<&Row>| row?.of_rival.get(rival).copied();
                cells.extend([of(xex), of(xe)]);
            }
            for cell in cells {
                let cell = cell.map_or("-".to_owned(), |times| times.text(3));
                text += &format!(" {cell:>21}");
            }
            text.push('\n');
        }
        text
    }

    fn streams(&self) -> String {
        let mut text = format!(
            "\n{}: streams side by side on one thread, {} a turn each, over themselves\n\
             {:<26} {:>20} {:>24}\n",
            self.engine,
            size::text(self.turn_bytes),
            "",
            "GB/s",
            "/ one of its form",
        );
        for streams::Row {
            form,
            streams,
            gb_per_s,
            of_one,
        } in &self.streams
        {
            text += &format!(
                "{:<26} {:>20} {:>24}\n",
                format!("{streams} of {}", form.name()),
                gb_per_s.text(2),
                of_one.text(2),
            );
        }
        text
    }
}

impl Array {
    /// Two chains on one thread.
    pub(super) fn best(&self, construction: Construction) -> Option<&Row> {
        let form = Form::Two(construction, TweakSchedule::Alpha);
        let is = |row: &&Row| row.form == form && row.way == Way::Together;
        self.rows.iter().find(is)
    }
}

impl Published {
    fn text(&self, columns: &[usize]) -> String {
        let mut text = format!("the paper's Table {}, {}\n", self.name, self.machine);
        for (what, figures) in self.rows {
            text += &format!("  {what:<32}");
            for &column in columns {
                text += &format!(" {:>13}", figures[column]);
            }
            text.push('\n');
        }
        text
    }
}

/// The median, and half of what lies between the quartiles.
fn spread(summary: &Summary) -> String {
    let digits = usize::from(summary.median < 1000.0);
    let half = (summary.upper - summary.lower) / 2.0;
    format!("{:.digits$} +-{half:.digits$}", summary.median)
}
