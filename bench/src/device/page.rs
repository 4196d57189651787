// SPDX-License-Identifier: MIT OR Apache-2.0
//! The section of `luxor report`.

use super::{OnDevice, Report};
use crate::{
    page::{
        Row, Section, Table, Whose, columns,
        plot::{self, Bar},
    },
    size,
};

impl Report {
    /// What stands in the report.
    ///
    /// # Errors
    /// When a plot cannot be drawn.
    pub(crate) fn section(&self) -> Result<Section, String> {
        let said = self.devices.iter().filter_map(|device| {
            let row = device.resident.first()?;
            let rate = plot::value(row.gb_per_s.median);
            let of_copy = row.of_copy.median;
            Some(format!(
                "{} does {rate} GB/s, {of_copy:.2} of a copy's rate",
                device.about.device
            ))
        });
        let said: Vec<_> = said.collect();
        let figures = self.devices.iter().map(OnDevice::figure);
        Ok(Section {
            name: "gpu",
            title: "XTS-AES on devices".to_owned(),
            paper: None,
            about:
                "Luxor's kernels on each device of OpenCL and of NVIDIA's driver, beside copies: \
                those, too, read and write each byte once."
                    .to_owned(),
            conclusion: (!said.is_empty())
                .then(|| format!("With data that are on it, {}.", said.join("; "))),
            figures: figures.collect::<Result<_, _>>()?,
            tables: self.devices.iter().flat_map(OnDevice::tables).collect(),
            absent: self.absent.clone(),
        })
    }
}

impl OnDevice {
    fn figure(&self) -> Result<plot::Figure, String> {
        let bars = self.resident.iter().flat_map(|row| {
            let copy = format!("copy, beside {}", row.name());
            [
                Bar::new(row.name(), Whose::Luxor, row.gb_per_s.median),
                Bar::new(copy, Whose::Rival, row.copy_gb_per_s.median),
            ]
        });
        let bars: Vec<_> = bars.collect();
        plot::bars(
            &format!("{}, data on the device", self.about.name),
            "GB/s",
            &bars,
        )
    }

    fn tables(&self) -> [Table; 2] {
        let of = |what: &str, bytes: usize, rows: &[super::Row]| Table {
            caption: format!("{}, {what}, {}", self.about.name, size::text(bytes)),
            columns: columns(&["Work", "GB/s", "The copy", "Of the copy"]),
            rows: rows.iter().map(super::Row::row).collect(),
        };
        [
            of("on the device", self.resident_bytes, &self.resident),
            of("host to host", self.host_bytes, &self.host),
        ]
    }
}

impl super::Row {
    fn name(&self) -> String {
        format!(
            "AES-{} {}, units of {}",
            self.key_bits, self.direction, self.unit_bytes
        )
    }

    fn row(&self) -> Row {
        let cells = [&self.gb_per_s, &self.copy_gb_per_s, &self.of_copy];
        let cells = cells.map(|summary| plot::value(summary.median));
        Row::new(Whose::Luxor, [self.name()].into_iter().chain(cells))
    }
}
