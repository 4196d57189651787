// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables for a terminal, with the paper's.

use super::{Rate, Report, Row, published};
use crate::{size, stats::Summary};

impl Report {
    /// All of it.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "XTS on a GPU (An and Seo, 2022): milliseconds for {} in one data unit under \
             AES-128, medians of {} rounds\nand half the distance between the quartiles. The \
             host makes all tweaks, every 8th or every 128th; the\ndevice fills the gaps and \
             encrypts, in 32 streams.\n",
            size::text(self.file_bytes),
            self.rounds,
        );
        for about in &self.devices {
            text += &format!("{}: {}\n", about.name, about.device);
        }
        for absent in &self.absent {
            text += &format!("no rows of {absent}\n");
        }
        text += &format!(
            "\n{:<44} {:>18} {:>18} {:>18} {:>18}\n",
            "Tables 3 and 4", "powers of alpha", "encryption", "total", "kernels alone"
        );
        for row in &self.tables_3_and_4 {
            text += &row.text(self.file_bytes);
        }
        text += "the paper's\n";
        for (system, [alpha, encryption, total]) in published::SYSTEMS {
            text += &format!("  {system:<42} {alpha:>18} {encryption:>18} {total:>18}\n");
        }
        text += published::REMARK;
        if !self.streams.is_empty() {
            text += "\nGPU alpha^128 by streams: encryption with all copies\n";
        }
        for row in &self.streams {
            let ms = spread(&row.encryption_ms);
            let name = format!("{}, {} streams", row.contestant, row.streams);
            text += &format!("  {name:<42} {ms:>18}\n");
        }
        text += &self.table_5();
        text
    }

    fn table_5(&self) -> String {
        let mut text = format!(
            "\n{:<44} {:>18} {:>18} {:>18}\n",
            "Table 5: GB/s, data units of so many bytes", "GB/s", "kernels alone", "/ OpenSSL"
        );
        for rates in &self.table_5 {
            let paper = published::BLOCKS
                .iter()
                .position(|&b| b == rates.block_bytes);
            let paper = paper.map(|at| published::RATES[at]);
            let column = if rates.key_bits == 128 { 0 } else { 2 };
            text += &format!("{} bytes, AES-{}\n", rates.block_bytes, rates.key_bits);
            for row in &rates.rows {
                text += &row.text();
            }
            let Some(paper) = paper else { continue };
            let (openssl, gpu) = (paper[column], paper[column + 1]);
            text += &format!("  {:<42} {openssl:>18}\n", "the paper's OpenSSL 3.0.1");
            text += &format!("  {:<42} {gpu:>18}\n", "the paper's GPU alpha^128");
        }
        text
    }
}

impl Row {
    fn text(&self, file_bytes: usize) -> String {
        let mut name = format!("{}, {}", self.contestant, self.system);
        if self.system == "naive CPU" {
            self.system.clone_into(&mut name);
        }
        if self.bytes != file_bytes {
            name += &format!(", from {}", size::text(self.bytes));
        }
        let cell = |ms: &Option<Summary>| ms.as_ref().map_or("-".to_owned(), spread);
        format!(
            "  {name:<42} {:>18} {:>18} {:>18} {:>18}\n",
            cell(&self.alpha_ms),
            cell(&self.encryption_ms),
            spread(&self.total_ms),
            cell(&self.kernels_ms),
        )
    }
}

impl Rate {
    fn text(&self) -> String {
        let name = match self.threads {
            1 => format!("{}, {}", self.contestant, self.system),
            n => format!("{}, {}, {n} threads", self.contestant, self.system),
        };
        let cell = |rate: Option<&Summary>| {
            rate.map_or("-".to_owned(), |rate| format!("{:.2}", rate.median))
        };
        format!(
            "  {name:<42} {:>18} {:>18} {:>18}\n",
            cell(Some(&self.gb_per_s)),
            cell(self.kernels_gb_per_s.as_ref()),
            cell(self.of_rival.get("OpenSSL")),
        )
    }
}

/// The median, and half of what lies between the quartiles.
fn spread(summary: &Summary) -> String {
    let half = (summary.upper - summary.lower) / 2.0;
    format!("{:.2} +-{half:.2}", summary.median)
}
