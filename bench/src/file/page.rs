// SPDX-License-Identifier: MIT OR Apache-2.0
//! The section of `luxor report`.

use super::{Report, Row};
use crate::{
    page::{
        self, Section, Table, Whose, columns,
        plot::{self, Bar},
    },
    size,
};

impl Report {
    /// What stands in the report.
    ///
    /// # Errors
    /// When a plot cannot be drawn.
    pub(crate) fn section(&self) -> Result<Section, String> {
        let whole = self.rows.iter().filter(|row| row.gb_per_s.is_some());
        let bars = whole.map(|row| Bar::new(row.what, row.whose(), row.seconds.median));
        let bars: Vec<_> = bars.collect();
        let caption = format!("Seconds for a file of {}", size::text(self.file_bytes));
        let place = if self.in_memory {
            "in memory"
        } else {
            "on a disk, whose speed this is"
        };
        let left_out = self
            .rows
            .iter()
            .all(|row| !row.what.starts_with("qemu-img"));
        let why = self.qemu.clone();
        let why = why.unwrap_or_else(|| "qemu-img: it is not installed".to_owned());
        Ok(Section {
            name: "file",
            title: "Encrypting a file".to_owned(),
            paper: None,
            about: format!("A file {place}, beside cp; what comes back is compared byte by byte."),
            conclusion: self.conclusion(),
            figures: vec![plot::bars(&caption, "seconds", &bars)?],
            tables: vec![Table {
                caption,
                columns: columns(&["What", "Seconds", "GB/s", "Times cp", "Peak, MiB"]),
                rows: self.rows.iter().map(Row::row).collect(),
            }],
            absent: left_out.then_some(why).into_iter().collect(),
        })
    }

    fn conclusion(&self) -> Option<String> {
        let of = |what: &str| {
            let row = self.rows.iter().find(|row| row.what == what)?;
            let seconds = plot::value(row.seconds.median);
            Some(format!(
                "{seconds} s, {:.2} times cp's",
                row.times_cp?.median
            ))
        };
        let (to, from) = (of("luxor encrypt")?, of("luxor decrypt")?);
        let bytes = size::text(self.file_bytes);
        Some(format!(
            "A file of {bytes} is encrypted in {to}, and decrypted in {from}."
        ))
    }
}

impl Row {
    fn whose(&self) -> Whose {
        page::whose(!self.what.starts_with("luxor"))
    }

    fn row(&self) -> page::Row {
        let none = || "none".to_owned();
        let cells = [
            self.what.to_owned(),
            self.seconds.text(3),
            self.gb_per_s.map_or_else(none, |rate| format!("{rate:.2}")),
            self.times_cp.as_ref().map_or_else(none, |all| all.text(2)),
            (self.peak_bytes >> 20).to_string(),
        ];
        page::Row::new(self.whose(), cells)
    }
}
