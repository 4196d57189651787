// SPDX-License-Identifier: MIT OR Apache-2.0
//! The section of `luxor report`.

use super::{Report, published};
use crate::{
    page::{
        self, Paper, Row, Section, Table, Whose, columns,
        plot::{self, Bar},
    },
    size,
    stats::Summary,
};

const PAPER: Paper = Paper {
    reference: "S. An and S. C. Seo: Designing a New XTS-AES Parallel Optimization Implementation \
        Technique for Fast File Encryption. IEEE Access 10, 2022.",
    claim: "With every 128th power of alpha from the host, a GPU encrypts 128 MB in 1.59 ms; with \
        all of them from there in 35.72 ms, and the CPU alone in 381.76 ms.",
    rebuilt: "The four systems on each device of OpenCL and of NVIDIA's driver, with copies and \
        without, beside the engine's kernels and libraries.",
};

impl Report {
    /// What stands in the report.
    ///
    /// # Errors
    /// When a plot cannot be drawn.
    pub(crate) fn section(&self) -> Result<Section, String> {
        let bytes = size::text(self.file_bytes);
        let rows = &self.tables_3_and_4;
        let ours = rows
            .iter()
            .map(|row| Bar::new(row.name(), row.whose(), row.total_ms.median));
        let printed = published::SYSTEMS
            .into_iter()
            .filter_map(|(system, [.., total])| {
                let name = format!("the paper's {system}");
                Some(Bar::new(name, Whose::Paper, total.parse().ok()?))
            });
        let bars: Vec<_> = ours.chain(printed).collect();
        let printed = published::SYSTEMS
            .into_iter()
            .map(|(system, [alpha, encryption, total])| {
                let name = format!("the paper's {system}");
                Row::new(
                    Whose::Paper,
                    [name.as_str(), alpha, encryption, total, "none"],
                )
            });
        let systems = Table {
            caption: format!("Tables 3 and 4: milliseconds for {bytes}"),
            columns: columns(&[
                "System",
                "Powers of alpha",
                "Encryption",
                "Total",
                "Kernels alone",
            ]),
            rows: rows.iter().map(super::Row::row).chain(printed).collect(),
        };
        Ok(Section {
            name: "an-seo-2022",
            title: "XTS on a GPU, powers of alpha from the host".to_owned(),
            paper: Some(PAPER),
            about: published::REMARK.trim().replace('\n', " "),
            conclusion: self.conclusion(),
            figures: vec![plot::bars(
                &format!("Milliseconds for {bytes}"),
                "ms",
                &bars,
            )?],
            tables: vec![systems, self.rates()],
            absent: self.absent.clone(),
        })
    }

    fn rates(&self) -> Table {
        let ours = self.table_5.iter().flat_map(|rates| {
            rates.rows.iter().map(|rate| {
                let own = matches!(rate.system, "engine" | "Luxor's kernels");
                let threads = rate.threads;
                let name = format!("{}, {}, threads: {threads}", rate.contestant, rate.system);
                let (bits, unit) = (rates.key_bits.to_string(), rates.block_bytes.to_string());
                Row::new(page::whose(!own), [name, bits, unit, rate.gb_per_s.text(2)])
            })
        });
        let printed = published::BLOCKS.into_iter().zip(published::RATES);
        let printed = printed.flat_map(|(unit, rates)| {
            let heads = [
                ("OpenSSL", "128"),
                ("GPU", "128"),
                ("OpenSSL", "256"),
                ("GPU", "256"),
            ];
            heads
                .into_iter()
                .zip(rates)
                .map(move |((who, bits), rate)| {
                    let (name, unit) = (format!("the paper's {who}"), unit.to_string());
                    Row::new(Whose::Paper, [name.as_str(), bits, &unit, rate])
                })
        });
        Table {
            caption: "Table 5: GB/s".to_owned(),
            columns: columns(&["Who", "AES", "Data unit, bytes", "GB/s"]),
            rows: ours.chain(printed).collect(),
        }
    }

    fn conclusion(&self) -> Option<String> {
        let of = |system: &str| self.tables_3_and_4.iter().find(|row| row.system == system);
        let (naive, engine) = (of("naive CPU")?, of("one data unit")?);
        let [naive, own] = [naive, engine].map(|row| plot::value(row.total_ms.median));
        Some(format!(
            "The paper's CPU system takes {naive} ms for {} here, and Luxor's {} takes {own} ms on \
             one thread.",
            size::text(self.file_bytes),
            engine.contestant
        ))
    }
}

impl super::Row {
    fn name(&self) -> String {
        format!("{}, {}", self.contestant, self.system)
    }

    /// The paper's systems and libraries are others.
    fn whose(&self) -> Whose {
        page::whose(self.system != "one data unit")
    }

    fn row(&self) -> Row {
        let cell = |ms: Option<&Summary>| ms.map_or("none".to_owned(), |ms| ms.text(2));
        let cells = [
            self.name(),
            cell(self.alpha_ms.as_ref()),
            cell(self.encryption_ms.as_ref()),
            cell(Some(&self.total_ms)),
            cell(self.kernels_ms.as_ref()),
        ];
        Row::new(self.whose(), cells)
    }
}
