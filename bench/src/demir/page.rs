// SPDX-License-Identifier: MIT OR Apache-2.0
//! The section of `luxor report`.

use super::{Report, published};
use crate::page::{
    Paper, Row, Section, Table, Whose, columns,
    plot::{self, Bar},
};

const PAPER: Paper = Paper {
    reference: "L. Demir et al.: Optimizing dm-crypt for XTS-AES. SECRYPT 2020.",
    claim: "With requests of 4 KiB instead of 512 bytes a co-processor for ECB encrypts 50 MB in \
        5.23 s instead of 9.09 s.",
    rebuilt: "Its configurations with Luxor's simulated core, and extended requests in software.",
};

impl Report {
    /// What stands in the report.
    ///
    /// # Errors
    /// When a plot cannot be drawn.
    pub(crate) fn section(&self) -> Result<Section, String> {
        let rows = self.study.iter().flat_map(|study| &study.breakdown);
        let rows = rows.filter(|row| row.direction == "encrypt");
        let ours =
            rows.map(|row| Bar::new(row.configuration.text(), Whose::Luxor, row.total.median));
        let [short, extended] = published::TABLE_1[0].1;
        let printed = [("512 B", short), ("4 KiB", extended)];
        let printed = printed
            .map(|(name, s)| Bar::new(format!("the paper's mixed, {name}"), Whose::Paper, s));
        let bars: Vec<_> = ours.chain(printed).collect();
        let software = self.breakdown.iter().map(|row| {
            let cells = [
                format!("{}, {}", row.direction, row.requests.text()),
                row.seconds.whole.scaled(1e3).text(2),
            ];
            Row::new(Whose::Luxor, cells)
        });
        let mut tables = vec![Table {
            caption: "Software, milliseconds for 50 MB".to_owned(),
            columns: columns(&["Requests", "Milliseconds"]),
            rows: software.collect(),
        }];
        for (name, table) in [("1", &published::TABLE_1), ("2", &published::TABLE_2)] {
            let rows = table.iter().map(|(what, seconds)| {
                let cells = seconds.map(|s| format!("{s:.2}"));
                Row::new(Whose::Paper, [(*what).to_owned()].into_iter().chain(cells))
            });
            tables.push(Table {
                caption: format!("The paper's Table {name}, seconds for 50 MB"),
                columns: columns(&["Part", "512 B", "4 KiB"]),
                rows: rows.collect(),
            });
        }
        let whole = |bytes| {
            let mut rows = self.breakdown.iter();
            let row = rows.find(|row| row.requests.request_bytes == Some(bytes))?;
            Some(row.seconds.whole.median)
        };
        let ratio = whole(512)
            .zip(whole(4096))
            .map(|(short, long)| short / long);
        Ok(Section {
            name: "demir-2020",
            title: "Extended requests to a co-processor".to_owned(),
            paper: Some(PAPER),
            about: "Data units have 512 bytes where nothing else is said.".to_owned(),
            conclusion: ratio.map(|ratio| {
                format!("In software, requests of 512 bytes take {ratio:.2} times as long as of 4 KiB; in the paper 1.74 times.")
            }),
            figures: vec![plot::bars("Encryption of 50 MB", "seconds", &bars)?],
            tables,
            absent: self.absent.clone(),
        })
    }
}
