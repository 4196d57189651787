// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables for a terminal.

use super::{Beside, OnDevice, PAPER_MARK, Report, Row, SHORT_UNITS_MARK};
use crate::{size, stats::Summary};

impl Report {
    /// All of it.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "AES-XTS on devices: GB/s (10^9 bytes encrypted or copied a second), medians of {} \
             rounds. A mark is what\nis wanted of an H200: of the copy's rate; of 4096-byte \
             units' {SHORT_UNITS_MARK}; of the paper's {PAPER_MARK}.\n",
            self.rounds,
        );
        for device in &self.devices {
            text += &device.text();
        }
        for absent in &self.absent {
            text += &format!("no rows of {absent}\n");
        }
        text
    }
}

impl OnDevice {
    fn text(&self) -> String {
        let mut text = format!("\n{}: {}\n", self.about.name, self.about.device);
        for (what, bytes, rows) in [
            (
                "on the device, beside a copy there",
                self.resident_bytes,
                &self.resident,
            ),
            (
                "host to host, beside copies up and down",
                self.host_bytes,
                &self.host,
            ),
        ] {
            let what = format!("{what}, {}", size::text(bytes));
            text += &format!(
                "{what:<52} {:>9} {:>9} {:>7} {:>6} {:>8}\n",
                "GB/s", "the copy", "/ copy", "mark", "/ 4096 B"
            );
            text.extend(rows.iter().map(Row::text));
        }
        if let Some(why) = &self.no_papers {
            return text + &format!("no rows of An and Seo's alpha^128: {why}\n");
        }
        let what = format!(
            "beside An and Seo's alpha^128, {}",
            size::text(self.host_bytes)
        );
        text += &format!(
            "{what:<42} {:>14} {:>8} {:>5} {:>14} {:>8} {:>5}\n",
            "kernels, GB/s", "theirs", "times", "in all, GB/s", "theirs", "times"
        );
        text.extend(self.papers.iter().map(Beside::text));
        text
    }
}

impl Row {
    fn text(&self) -> String {
        let name = format!(
            "AES-{} {}, units of {} bytes",
            self.key_bits, self.direction, self.unit_bytes
        );
        let mark = self
            .of_copy_mark
            .map_or("-".into(), |mark| format!("{mark:.2}"));
        let of_4096 = self.of_4096.as_ref().map_or("-".into(), ratio);
        format!(
            "  {name:<50} {:>9} {:>9} {:>7} {mark:>6} {of_4096:>8}\n",
            rate(&self.gb_per_s),
            rate(&self.copy_gb_per_s),
            ratio(&self.of_copy),
        )
    }
}

impl Beside {
    fn text(&self) -> String {
        let name = format!(
            "AES-{} encrypt, units of {} bytes",
            self.key_bits, self.unit_bytes
        );
        let [kernels, total] = [&self.kernels, &self.total].map(|rates| {
            let own = rate(&rates.gb_per_s);
            let (papers, times) = (rate(&rates.papers_gb_per_s), rates.times.median);
            format!("{own:>14} {papers:>8} {times:>5.1}")
        });
        format!("  {name:<40} {kernels} {total}\n")
    }
}

fn rate(summary: &Summary) -> String {
    match summary.median {
        median if median >= 10.0 => format!("{median:.1}"),
        median => format!("{median:.3}"),
    }
}

fn ratio(summary: &Summary) -> String {
    format!("{:.3}", summary.median)
}
