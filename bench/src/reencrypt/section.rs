// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes the result of `reencrypt`.

use super::{Contestant, Report, Resilience, Times, name};
use crate::{
    plot::{Bar, Plot, Whose},
    program,
    section::{Row, Section, Table, cell},
    size,
};

/// The goals: how many times as fast as cryptsetup, with every resilience, and as the copy, without
/// any.
const OF_CRYPTSETUP: f64 = 3.0;
const OF_COPY: f64 = 0.7;

impl Report {
    pub(super) fn section(&self) -> Section {
        let mut section = if self.rows.is_empty() {
            Section::default()
        } else {
            self.offline()
        };
        section.title = "Re-encryption in place".to_owned();
        if let Some(online) = &self.online {
            online.add_to(&mut section);
        }
        section
    }

    fn offline(&self) -> Section {
        let bytes = size::text(self.data_bytes);
        let caption = format!("Seconds for {bytes} of data");
        let bars = self.rows.iter();
        let bars = bars.map(|row| Bar::new(row.name(), row.whose(), row.seconds));
        let rival = self.cryptsetup.as_ref();
        let rival = rival.map_or(String::new(), |version| format!("{version} and "));
        Section {
            about: format!(
                "luxor reencrypt gives a volume with {bytes} of data{} a new volume key, in turn \
                 with {rival}a copy in place, which reads the data and writes them back with {}. \
                 The passphrase is cheap to check. The plaintext is compared byte by byte. \
                 The numbers are medians and quartiles of {} rounds, and say how many times as fast \
                 Luxor is in the same round. The goals are {OF_CRYPTSETUP} times cryptsetup with \
                 every resilience, and {OF_COPY} of the copy with none.",
                program::place(self.in_memory),
                if self.in_memory {
                    format!("{} threads", self.threads)
                } else {
                    "direct I/O. Before each run the volume leaves the page cache".to_owned()
                },
                self.rounds,
            ),
            conclusion: self.conclusion(),
            brief: self.brief(),
            plots: vec![Plot::bars(&caption, "seconds", bars)],
            tables: vec![Table::new(
                caption,
                "Command, resilience",
                [
                    "Seconds",
                    "GB/s",
                    "Times cryptsetup",
                    "Goal",
                    "Of the copy",
                    "Goal",
                    "Peak, MiB",
                ],
                self.rows.iter().map(Times::row),
            )],
            absent: self
                .absent
                .iter()
                .map(|why| format!("cryptsetup: {why}"))
                .collect(),
            ..Section::default()
        }
    }

    fn brief(&self) -> Option<String> {
        let mut ours = self.rows.iter();
        let row = ours.find(|row| row.contestant == Contestant::Luxor && row.times.is_some())?;
        let (times, resilience) = (row.times?, row.resilience?.name());
        Some(format!(
            "reencrypt {times:.2} times as fast as cryptsetup ({resilience})"
        ))
    }

    fn conclusion(&self) -> Option<String> {
        let ours = self.rows.iter();
        let mut ours = ours.filter(|row| row.contestant == Contestant::Luxor);
        let times = ours.clone().filter_map(|row| {
            let (times, resilience) = (row.times?, row.resilience?.name());
            Some(format!("{times:.2} ({resilience})"))
        });
        let times: Vec<_> = times.collect();
        let copy = ours.find(|row| row.resilience == Some(Resilience::None))?;
        let of_copy = copy.of_copy?;
        let cryptsetup = match times.as_slice() {
            [] => String::new(),
            times => format!("{} times as fast as cryptsetup, and ", times.join(", ")),
        };
        Some(format!(
            "luxor reencrypt is {cryptsetup}{of_copy:.2} times as fast as a copy in place (none)."
        ))
    }
}

impl Times {
    fn name(&self) -> String {
        name(self.contestant, self.resilience)
    }

    fn whose(&self) -> Whose {
        match self.contestant {
            Contestant::Copy => Whose::Limit,
            Contestant::Cryptsetup => Whose::Rival,
            Contestant::Luxor => Whose::Luxor,
        }
    }

    fn row(&self) -> Row {
        let goal = |is_set: bool, goal: f64| cell(is_set.then_some(goal), |goal| goal.to_string());
        let cells = [
            self.seconds.text(3),
            format!("{:.2}", self.seconds.as_rate(self.gb_per_s)),
            cell(self.times, |times| times.text(2)),
            goal(self.times.is_some(), OF_CRYPTSETUP),
            cell(self.of_copy, |part| part.text(2)),
            goal(
                self.of_copy.is_some() && self.resilience == Some(Resilience::None),
                OF_COPY,
            ),
            (self.peak_bytes >> 20).to_string(),
        ];
        Row::new(self.whose(), self.name(), cells)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Summary;

    fn report(cryptsetup: Option<&str>) -> Report {
        let summary = |value| Summary::from_samples(vec![value]).unwrap();
        let row = |contestant, resilience: Option<Resilience>, seconds: f64| {
            let is_luxor = contestant == Contestant::Luxor;
            Times {
                contestant,
                resilience,
                seconds: summary(seconds),
                gb_per_s: 1.0 / seconds,
                times: cryptsetup
                    .filter(|_| is_luxor)
                    .map(|_| summary(2.0 / seconds)),
                of_copy: is_luxor.then(|| summary(0.25 / seconds)),
                peak_bytes: 12 << 20,
            }
        };
        Report {
            data_bytes: 1 << 30,
            in_memory: true,
            rounds: 7,
            threads: 2,
            cryptsetup: cryptsetup.map(str::to_owned),
            rows: vec![
                row(Contestant::Copy, None, 0.25),
                row(Contestant::Luxor, Some(Resilience::Journal), 1.0),
                row(Contestant::Luxor, Some(Resilience::None), 0.5),
            ],
            absent: vec!["not here".to_owned()],
            online: None,
        }
    }

    #[test]
    fn the_section_has_ratios_beside_their_goals() {
        let section = report(Some("cryptsetup 2")).section();
        section.assert_whole();
        let said = section.conclusion.unwrap();
        assert!(said.contains("2.00 (journal), 4.00 (none) times"), "{said}");
        assert!(said.contains("0.50 times as fast as a copy"), "{said}");
        let goals = |row: usize| {
            let cells = &section.tables[0].rows[row].cells;
            [cells[4].clone(), cells[6].clone()]
        };
        assert_eq!([0, 1, 2].map(goals), [["-", "-"], ["3", "-"], ["3", "0.7"]]);
    }

    #[test]
    fn without_cryptsetup_the_section_says_why() {
        let section = report(None).section();
        section.assert_whole();
        assert_eq!(section.absent, ["cryptsetup: not here"]);
        let said = section.conclusion.unwrap();
        assert!(!said.contains("cryptsetup"), "{said}");
    }
}
