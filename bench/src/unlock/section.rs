// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes the result of `unlock`.

use super::{Report, UnlockTimes};
use crate::{
    plot::{Bar, Plot, Whose},
    section::{Row, Section, Table},
};

impl Report {
    pub(super) fn section(&self) -> Section {
        let bars = self.rows.iter().flat_map(|row| {
            let [ours, theirs] = [row.luxor_seconds, row.cryptsetup_seconds];
            [
                Bar::new(format!("luxor, {}", row.what), Whose::Luxor, ours),
                Bar::new(format!("cryptsetup, {}", row.what), Whose::Rival, theirs),
            ]
        });
        let said = self.rows.iter();
        let said = said.map(|row| format!("{:.2} ({})", row.times_cryptsetup, row.what));
        let said: Vec<_> = said.collect();
        let most = self.rows.iter().max_by_key(|row| row.luxor_peak_bytes);
        let conclusion = most.map(|most| {
            let peaks = [most.luxor_peak_bytes, most.cryptsetup_peak_bytes];
            let [ours, theirs] = peaks.map(|peak| peak >> 20);
            format!(
                "Luxor's time divided by cryptsetup's is {}; its most memory is {ours} MiB, where \
                 cryptsetup's is {theirs}.",
                said.join("; ")
            )
        });
        let about = format!(
            "luxor check in turn with {} on the same volumes.",
            self.cryptsetup
        );
        Section {
            title: "Opening a keyslot".to_owned(),
            about,
            conclusion,
            brief: self.brief(),
            plots: vec![Plot::bars("Seconds to open a keyslot", "seconds", bars)],
            tables: vec![Table::new(
                "Seconds and their ratio with quartiles, and peak memory",
                "Keyslot",
                [
                    "Luxor, s",
                    "cryptsetup, s",
                    "Ratio",
                    "Luxor, MiB",
                    "cryptsetup, MiB",
                ],
                self.rows.iter().map(UnlockTimes::row),
            )],
            ..Section::default()
        }
    }
}

impl Report {
    fn brief(&self) -> Option<String> {
        let ratios = self.rows.iter().map(|row| row.times_cryptsetup);
        let most = ratios.max_by(|a, b| a.median.total_cmp(&b.median))?;
        Some(format!(
            "a keyslot at most {most:.2} times as long as cryptsetup"
        ))
    }
}

impl UnlockTimes {
    fn row(&self) -> Row {
        let times = [
            &self.luxor_seconds,
            &self.cryptsetup_seconds,
            &self.times_cryptsetup,
        ];
        let times = times.map(|summary| summary.text(3));
        let peaks = [self.luxor_peak_bytes, self.cryptsetup_peak_bytes];
        let peaks = peaks.map(|peak| (peak >> 20).to_string());
        Row::new(Whose::Luxor, &self.what, times.into_iter().chain(peaks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Summary;

    #[test]
    fn the_section_has_times_and_peaks() {
        let summary = |value| Summary::from_samples(vec![value]).unwrap();
        let row = |what: &str, luxor_peak_bytes| UnlockTimes {
            what: what.to_owned(),
            luxor_seconds: summary(1.0),
            cryptsetup_seconds: summary(2.0),
            times_cryptsetup: summary(0.5),
            luxor_peak_bytes,
            cryptsetup_peak_bytes: 65 << 20,
        };
        let report = Report {
            cryptsetup: "cryptsetup 2".to_owned(),
            rows: vec![row("pbkdf2", 7 << 20), row("argon2id", 64 << 20)],
        };
        let section = report.section();
        section.assert_whole();
        let said = section.conclusion.unwrap();
        assert!(said.contains("0.50 (pbkdf2); 0.50 (argon2id)"), "{said}");
        assert!(said.contains("64 MiB, where cryptsetup's is 65"), "{said}");
        let row = &section.tables[0].rows[0];
        assert_eq!(row.cells[4..], ["7", "65"]);
    }
}
