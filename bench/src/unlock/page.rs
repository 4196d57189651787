// SPDX-License-Identifier: MIT OR Apache-2.0
//! The section of `luxor report`.

use super::{Report, Row};
use crate::page::{
    self, Section, Table, Whose, columns,
    plot::{self, Bar},
};

impl Report {
    /// What stands in the report.
    ///
    /// # Errors
    /// When a plot cannot be drawn.
    pub(crate) fn section(&self) -> Result<Section, String> {
        let bars = self.rows.iter().flat_map(|row| {
            let [ours, theirs] = [&row.luxor_seconds, &row.cryptsetup_seconds].map(|s| s.median);
            [
                Bar::new(format!("luxor, {}", row.what), Whose::Luxor, ours),
                Bar::new(format!("cryptsetup, {}", row.what), Whose::Rival, theirs),
            ]
        });
        let bars: Vec<_> = bars.collect();
        let said = self.rows.iter();
        let said = said.map(|row| format!("{:.2} ({})", row.times_cryptsetup.median, row.what));
        let said: Vec<_> = said.collect();
        Ok(Section {
            name: "unlock",
            title: "Opening a keyslot".to_owned(),
            paper: None,
            about: format!(
                "luxor check beside {} with the same volumes.",
                self.cryptsetup
            ),
            conclusion: (!said.is_empty())
                .then(|| format!("Luxor's time over cryptsetup's is {}.", said.join("; "))),
            figures: vec![plot::bars("Seconds to open a keyslot", "seconds", &bars)?],
            tables: vec![Table {
                caption: "Seconds, and the ratio".to_owned(),
                columns: columns(&["Keyslot", "Luxor", "cryptsetup", "Ratio"]),
                rows: self.rows.iter().map(Row::row).collect(),
            }],
            absent: Vec::new(),
        })
    }
}

impl Row {
    fn row(&self) -> page::Row {
        let times = [
            &self.luxor_seconds,
            &self.cryptsetup_seconds,
            &self.times_cryptsetup,
        ];
        let cells = times.map(|summary| summary.text(3));
        page::Row::new(
            Whose::Luxor,
            [self.what.to_owned()].into_iter().chain(cells),
        )
    }
}
