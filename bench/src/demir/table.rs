// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables for a terminal, beside the paper's.

use super::{
    Report,
    breakdown::{Parts, Row},
    published,
};
use crate::{size, stats::Summary};

/// A row of ours, and the paper's that it stands beside.
pub(super) type Line = (&'static str, fn(&Parts) -> &Summary);

pub(super) const LINES: [Line; 8] = [
    ("the whole", |parts| &parts.whole),
    ("data unit numbers encrypted", |parts| &parts.numbers),
    ("powers of alpha", |parts| &parts.powers),
    ("first XOR", |parts| &parts.first_xor),
    ("second XOR", |parts| &parts.second_xor),
    ("cipher", |parts| &parts.cipher),
    ("other: the whole less its parts", |parts| &parts.other),
    ("powers and XORs, in the whole", |parts| &parts.fused),
];

impl Report {
    /// All of it.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "Extended requests (Demir et al., 2020) in software: {}, AES-256-XTS, one thread.\n\
             The parts of XTS apart, milliseconds for {:.1} MB in a cache and % of the whole, \
             medians. Each is a pass of\nits own, since the engine does them together: what that \
             saves makes `other` negative.\n",
            self.engine,
            self.breakdown_bytes as f64 / 1e6,
        );
        for (direction, title, table) in published::TITLED {
            let rows: Vec<&Row> = self
                .breakdown
                .iter()
                .filter(|row| row.direction == direction)
                .collect();
            text += &format!("\n{title}\n{:<32}", "sectors of, in calls of");
            for row in &rows {
                let calls = row.requests.request_bytes;
                let calls = calls.map_or("not capped".to_owned(), |bytes| format!("{bytes} B"));
                text += &format!(
                    " {:>17}",
                    format!("{} B, {calls}", row.requests.sector_bytes)
                );
            }
            text.push('\n');
            for (what, part) in LINES {
                text += &format!("{what:<32}");
                for row in &rows {
                    let (part, whole) = (part(&row.seconds).median, row.seconds.whole.median);
                    text += &format!(
                        " {:>17}",
                        format!("{:.2} ({:.0}%)", part * 1e3, part / whole * 100.0)
                    );
                }
                text.push('\n');
            }
            text += &paper(table);
        }
        text += &self.served_text();
        if let Some(study) = &self.study {
            text += &study.text();
        }
        for absent in &self.absent {
            text += &format!("\nNo rows of {absent}.\n");
        }
        text
    }

    fn served_text(&self) -> String {
        let Some(fio) = &self.fio else {
            return String::new();
        };
        let mut text = format!(
            "\nServed: a disk of {}{}, at a Unix socket; {} s a turn, {} rounds; {}. \
             Medians, and the quartiles.\nThe engine's time is the disk's own count; two reads of \
             the clock around a call, {:.0} ns, are in it.\n",
            size::text(self.disk_bytes),
            if self.in_memory {
                " in memory"
            } else {
                " NOT in memory: this measures the disk"
            },
            self.turn_seconds,
            self.rounds,
            fio,
            self.clock_nanoseconds,
        );
        for case in &self.served {
            text += &format!(
                "\n{}\n{:<36} {:>20} {:>20} {:>11} {:>12} {:>16}\n",
                case.load.text(),
                "",
                "MiB/s",
                "/ the last row",
                "bytes/call",
                "engine GB/s",
                "engine's share"
            );
            for row in &case.rows {
                text += &format!(
                    "{:<36} {:>20} {:>20} {:>11.0} {:>12.2} {:>16.2}\n",
                    row.requests.text(),
                    row.mib_per_s.text(0),
                    row.times_best.text(3),
                    row.bytes_per_call.median,
                    row.engine_gb_per_s.median,
                    row.engine_share.median,
                );
            }
            let batched = case.rows.iter().find(|row| {
                row.requests.sector_bytes == 512 && row.requests.request_bytes.is_none()
            });
            if let Some(row) = batched {
                text += &format!(
                    "expected: 512-byte sectors, not capped, at 0.95 of 4096-byte ones; found {:.3}\n",
                    row.times_best.median
                );
            }
        }
        text
    }
}

/// A table of the paper's, as it stands below ours.
pub(super) fn paper(table: &[published::Row]) -> String {
    let mut text = format!(
        "  the paper, seconds for 50 MB on a SAMA5D3 with its co-processor for ECB-AES-128:\n\
         \x20 {:<30} {:>17} {:>17}\n",
        "", "512 B", "512 B, 4096 B"
    );
    for (what, seconds, parts) in table {
        text += &format!("  {what:<30}");
        for (seconds, part) in seconds.iter().zip(parts) {
            text += &format!(" {:>17}", format!("{seconds:.2} ({part:.0}%)"));
        }
        text.push('\n');
    }
    text
}
