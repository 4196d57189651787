// SPDX-License-Identifier: MIT OR Apache-2.0
//! The section of `luxor report`.

use super::{Report, published};
use crate::{
    page::{
        self, Paper, Row, Section, Table, Whose, columns,
        plot::{self, Bar},
    },
    size,
};

const PAPER: Paper = Paper {
    reference: "T. Sanida, A. Sideris and M. Dasygenis: Accelerating the AES Algorithm using OpenCL. 2020.",
    claim: "A GTX 1060 encrypts 12.53 Gbps in XTS and 14.71 Gbps in CTR, 16 bytes a work-item.",
    rebuilt: "Its kernel for CTR and XTS, with 1, 4, 8 and 16 bytes a work-item.",
};

impl Report {
    /// What stands in the report.
    ///
    /// # Errors
    /// When a plot cannot be drawn.
    pub(crate) fn section(&self) -> Result<Section, String> {
        let rows = self.longest();
        let ours = rows
            .iter()
            .map(|row| Bar::new(row.name(), row.whose(), row.gbps()));
        let printed = published::THROUGHPUT
            .into_iter()
            .filter(|row| row[3] == "XTS");
        let printed = printed.filter_map(|[work, device, _, _, gbps]| {
            Some(Bar::new(
                format!("{work}, {device}"),
                Whose::Paper,
                gbps.parse().ok()?,
            ))
        });
        let bars: Vec<_> = ours.chain(printed).collect();
        let printed = published::THROUGHPUT.map(|[work, device, language, mode, gbps]| {
            let name = format!("{work}: {device}, {language}, {mode}");
            Row::new(Whose::Paper, [name.as_str(), "none", gbps])
        });
        let best = rows.iter().max_by(|a, b| a.gbps().total_cmp(&b.gbps()));
        Ok(Section {
            name: "sanida-2020",
            title: "AES a byte at a time in OpenCL".to_owned(),
            paper: Some(PAPER),
            about: published::REMARK.trim().replace('\n', " "),
            conclusion: best.map(|row| {
                let gbps = plot::value(row.gbps());
                format!(
                    "The fastest here in XTS-AES-128 is {} with {gbps} Gbps; the paper has 12.53.",
                    row.name()
                )
            }),
            figures: vec![plot::bars("XTS-AES-128, encryption", "Gbps", &bars)?],
            tables: vec![Table {
                caption: "Table VI: AES-128, encryption of the longest file".to_owned(),
                columns: columns(&["Who", "File", "Gbps"]),
                rows: rows.iter().map(|row| row.row()).chain(printed).collect(),
            }],
            absent: self.absent.clone(),
        })
    }

    /// Each one's longest file.
    fn longest(&self) -> Vec<&super::Row> {
        let is = |row: &&super::Row| {
            (row.cipher.as_str(), row.direction) == ("aes-128-xts", "encrypt")
                && row.bytes_per_item.is_none_or(|bytes| bytes == 16)
        };
        let all = || self.rows.iter().filter(is);
        all()
            .filter(|row| {
                let mut same = all().filter(|other| other.contestant == row.contestant);
                same.all(|other| other.file_bytes <= row.file_bytes)
            })
            .collect()
    }
}

impl super::Row {
    fn gbps(&self) -> f64 {
        self.file_bytes as f64 * 8e-6 / self.milliseconds.median
    }

    fn whose(&self) -> Whose {
        let library = matches!(self.contestant.as_str(), "OpenSSL" | "AWS-LC");
        page::whose(self.bytes_per_item.is_some() || library)
    }

    fn name(&self) -> String {
        match self.bytes_per_item {
            Some(_) => format!("{}, the paper's kernel", self.contestant),
            None => self.contestant.clone(),
        }
    }

    fn row(&self) -> Row {
        let (file, gbps) = (size::text(self.file_bytes), plot::value(self.gbps()));
        Row::new(self.whose(), [self.name(), file, gbps])
    }
}
