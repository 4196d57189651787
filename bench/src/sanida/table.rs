// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables for a terminal, with the paper's.

use super::{
    PER_ITEM, Report, Row,
    published::{self, FILES, Table},
};
use crate::size;

impl Report {
    /// All of it.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "AES a byte at a time on a GPU (Sanida et al., 2020): milliseconds without copies, \
             medians of {} rounds.\nIn XTS a file is one data unit; with 192 bits that is \
             aes-192-xts (non-standard). The engine and\nlibraries: one thread, in memory. Luxor's kernels for devices have no 192 bits here.\n",
            self.rounds,
        );
        for about in &self.devices {
            text += &format!("{}: {}\n", about.name, about.device);
        }
        for absent in &self.absent {
            text += &format!("no rows of {absent}\n");
        }
        for (name, mode, table) in [
            ("Table IV, CTR", "ctr", &published::CTR),
            ("Table V, XTS", "xts", &published::XTS),
        ] {
            text += &self.times(name, mode, table);
        }
        text += published::REMARK;
        text + &self.per_item() + &self.throughput()
    }

    /// Who has rows, in their order; at 16 bytes a work-item where there are such.
    pub(super) fn contestants(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for row in &self.rows {
            if !names.contains(&row.contestant.as_str()) {
                names.push(&row.contestant);
            }
        }
        names
    }

    pub(super) fn find(
        &self,
        who: &str,
        per_item: u32,
        column: &Column<'_>,
        file: usize,
    ) -> Option<&Row> {
        self.rows.iter().find(|row| {
            row.contestant == who
                && row.bytes_per_item.is_none_or(|found| found == per_item)
                && row.cipher.starts_with(&column.cipher)
                && row.direction == column.direction
                && row.file_bytes == file
        })
    }

    fn times(&self, name: &str, mode: &str, table: &Table) -> String {
        let columns = Column::all(mode);
        let mut text = format!("\n{name:<20}");
        for column in &columns {
            text += &format!(" {:>13}", column.name());
        }
        text.push('\n');
        for who in self.contestants() {
            let mut rows = String::new();
            for file in FILES {
                let cells = columns.each_ref().map(|c| self.find(who, 16, c, file));
                if cells.iter().all(Option::is_none) {
                    continue;
                }
                rows += &format!("  {:<18}", size::text(file));
                for cell in cells {
                    rows += &format!(" {:>13}", milliseconds(cell));
                }
                rows.push('\n');
            }
            if !rows.is_empty() {
                text += &format!("{who}\n{rows}");
            }
        }
        text += "the paper's\n";
        for (file, figures) in FILES.into_iter().zip(table) {
            text += &format!("  {:<18}", size::text(file));
            for figure in figures {
                text += &format!(" {figure:>13}");
            }
            text.push('\n');
        }
        text
    }

    /// Who has work-items, and its longest file.
    pub(super) fn with_items(&self) -> impl Iterator<Item = (&str, usize)> {
        self.contestants().into_iter().filter_map(|who| {
            let items = self.rows.iter().filter(|row| row.contestant == who);
            let items = items.filter(|row| row.bytes_per_item.is_some());
            Some((who, items.map(|row| row.file_bytes).max()?))
        })
    }

    fn per_item(&self) -> String {
        let mut text = String::new();
        for (who, file) in self.with_items() {
            for mode in ["ctr", "xts"] {
                let columns = Column::all(mode);
                text += &format!("\n{:<20}", format!("{who}, {mode}, {}", size::text(file)));
                for column in &columns {
                    text += &format!(" {:>13}", column.name());
                }
                text.push('\n');
                for per_item in PER_ITEM {
                    text += &format!("  {:<18}", format!("{per_item} a work-item"));
                    for column in &columns {
                        let cell = self.find(who, per_item, column, file);
                        text += &format!(" {:>13}", milliseconds(cell));
                    }
                    text.push('\n');
                }
            }
        }
        text
    }

    /// Encryption with 128 bits of its longest file.
    pub(super) fn longest(&self, who: &str, mode: &str) -> Option<&Row> {
        let [column, ..] = Column::all(mode);
        let mut rows = FILES.iter().rev();
        rows.find_map(|&file| self.find(who, 16, &column, file))
    }

    fn throughput(&self) -> String {
        let mut text = "\nTable VI: Gbps (10^9 bits), AES-128, encryption\n".to_owned();
        for who in self.contestants() {
            for mode in ["xts", "ctr"] {
                let Some(row) = self.longest(who, mode) else {
                    continue;
                };
                let (file, gbps) = (size::text(row.file_bytes), row.gbps());
                text += &format!("  {who:<28} {file:<8} {mode:<5} {gbps:>8.2}\n");
            }
        }
        for [paper, device, language, mode, gbps] in published::THROUGHPUT {
            let device = format!("{device}, {language}");
            let mode = mode.to_lowercase();
            text += &format!("  {paper:<12} {device:<24} {mode:<5} {gbps:>8}\n");
        }
        text
    }
}

impl Row {
    /// 10⁹ bits a second.
    pub(super) fn gbps(&self) -> f64 {
        self.file_bytes as f64 * 8e-6 / self.milliseconds.median
    }
}

/// A key size and a direction.
pub(super) struct Column<'a> {
    cipher: String,
    bits: usize,
    direction: &'a str,
}

impl Column<'_> {
    /// Those of the paper's tables.
    pub(super) fn all(mode: &str) -> [Self; 6] {
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

    pub(super) fn name(&self) -> String {
        format!("{} {}", self.direction, self.bits)
    }
}

pub(super) fn milliseconds(row: Option<&Row>) -> String {
    row.map_or("-".to_owned(), |row| {
        let median = row.milliseconds.median;
        let digits = if median < 0.001 { 6 } else { 4 };
        format!("{median:.digits$}")
    })
}
