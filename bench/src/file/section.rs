// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes the result of `file`.

use super::{FileTimes, Report};
use crate::{
    plot::{Bar, Plot, Whose},
    program,
    section::{Row, Section, Table, cell},
    size,
};

impl Report {
    pub(super) fn section(&self) -> Section {
        let whole = self.rows.iter().filter(|row| row.gb_per_s.is_some());
        let bars = whole.map(|row| Bar::new(row.what, row.whose(), row.seconds));
        let bytes = size::text(self.file_bytes);
        let caption = format!("Seconds for a file of {bytes}");
        let mut rows = self.rows.iter();
        let with_qemu = rows.any(|row| row.what.starts_with("qemu-img"));
        let qemu = self.qemu.as_deref().filter(|_| with_qemu);
        let missing = self.qemu.as_deref().unwrap_or("qemu-img: not installed");
        Section {
            title: "Encrypting a file".to_owned(),
            about: format!(
                "A file of {bytes}{}, compared with cp{}. The decrypted file is checked byte by \
                 byte. The numbers are medians and quartiles.",
                program::place(self.in_memory),
                qemu.map_or(String::new(), |version| format!(" and {version}")),
            ),
            conclusion: self.conclusion(),
            brief: self.brief(),
            plots: vec![Plot::bars(&caption, "seconds", bars)],
            tables: vec![Table::new(
                caption,
                "Command",
                ["Seconds", "GB/s", "Times cp", "Peak, MiB"],
                self.rows.iter().map(FileTimes::row),
            )],
            absent: (!with_qemu)
                .then(|| missing.replacen(" is left out", "", 1))
                .into_iter()
                .collect(),
            ..Section::default()
        }
    }

    fn brief(&self) -> Option<String> {
        let of = |what: &str| {
            let row = self.rows.iter().find(|row| row.what == what)?;
            Some(format!("{:.2}", row.times_cp?))
        };
        let (to, from) = (of("luxor encrypt")?, of("luxor decrypt")?);
        Some(format!(
            "encrypt {to} and decrypt {from} times as long as cp"
        ))
    }

    fn conclusion(&self) -> Option<String> {
        let of = |what: &str| {
            let row = self.rows.iter().find(|row| row.what == what)?;
            let seconds = crate::plot::value(row.seconds);
            let times = row.times_cp?;
            Some(format!("{seconds} s ({times:.2} times as long as cp)"))
        };
        let (to, from) = (of("luxor encrypt")?, of("luxor decrypt")?);
        let bytes = size::text(self.file_bytes);
        Some(format!(
            "Encrypting a file of {bytes} takes {to}, and decrypting it {from}."
        ))
    }
}

impl FileTimes {
    fn whose(&self) -> Whose {
        Whose::rival_if(!self.what.starts_with("luxor"))
    }

    fn row(&self) -> Row {
        let cells = [
            self.seconds.text(4),
            cell(self.gb_per_s, |rate| {
                format!("{:.2}", self.seconds.as_rate(rate))
            }),
            cell(self.times_cp, |all| all.text(2)),
            format!("{:.1}", self.peak_bytes as f64 / f64::from(1 << 20)),
        ];
        Row::new(self.whose(), self.what, cells)
    }
}
