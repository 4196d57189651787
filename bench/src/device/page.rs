// SPDX-License-Identifier: MIT OR Apache-2.0
//! The section of `luxor report`.

use super::{Beside, OnDevice, Report};
use crate::{
    gpu::{self, About},
    page::{
        Row, Section, Table, Whose, columns,
        plot::{self, Bar, Figure},
    },
    size,
};

impl Report {
    /// What stands in the report.
    ///
    /// # Errors
    /// When a plot cannot be drawn.
    pub(crate) fn section(&self) -> Result<Section, String> {
        let devices: Vec<About> = self.devices.iter().map(|on| on.about.clone()).collect();
        let about = "Luxor's kernels on each device of OpenCL and of NVIDIA's driver, beside copies, \
                     which read and write each byte once, too, and beside the best system of An and \
                     Seo (an-seo-2022), alpha^128.";
        let said: Vec<_> = self.devices.iter().filter_map(OnDevice::said).collect();
        let mut figures = Vec::new();
        for device in &self.devices {
            figures.extend(device.figures()?);
        }
        let mut absent = gpu::absent(&devices, &self.absent);
        absent.extend(self.devices.iter().filter_map(|device| {
            let why = device.no_papers.as_ref()?;
            Some(format!(
                "An and Seo's alpha^128 on {}: {why}",
                device.about.name
            ))
        }));
        Ok(Section {
            name: "gpu",
            title: "XTS-AES on devices".to_owned(),
            paper: None,
            about: about.to_owned() + &gpu::text(&devices),
            conclusion: (!said.is_empty()).then(|| format!("{}.", said.join(". "))),
            figures,
            tables: self.devices.iter().flat_map(OnDevice::tables).collect(),
            absent,
        })
    }
}

impl OnDevice {
    /// A part of a sentence.
    fn said(&self) -> Option<String> {
        let (on_device, host) = (self.resident.first()?, self.host.first()?);
        let mut text = format!(
            "On {}, {}: {} GB/s with data that are there, {} of a copy's rate, and {} from host to \
             host, {} of the copies'",
            self.about.name,
            on_device.name(),
            plot::value(on_device.gb_per_s.median),
            plot::value(on_device.of_copy.median),
            plot::value(host.gb_per_s.median),
            plot::value(host.of_copy.median),
        );
        if let Some(beside) = self.papers.first() {
            text += &format!(
                "; its kernels are {} times as fast as An and Seo's",
                plot::value(beside.kernels.times.median)
            );
        }
        Some(text)
    }

    fn figures(&self) -> Result<Vec<Figure>, String> {
        let name = &self.about.name;
        let resident = self.resident.iter().flat_map(|row| {
            let copy = format!("copy, beside {}", row.name());
            [
                Bar::new(row.name(), Whose::Luxor, row.gb_per_s.median),
                Bar::new(copy, Whose::Limit, row.copy_gb_per_s.median),
            ]
        });
        let papers = self.papers.iter().flat_map(|beside| {
            let (ours, what) = (&beside.kernels, beside.name());
            let theirs = ours.papers_gb_per_s.median;
            [
                Bar::new(what.clone(), Whose::Luxor, ours.gb_per_s.median),
                Bar::new(format!("alpha^128, {what}"), Whose::Rival, theirs),
            ]
        });
        let all: [(_, Vec<Bar>); 2] = [
            ("data on the device", resident.collect()),
            ("kernels beside An and Seo's", papers.collect()),
        ];
        all.into_iter()
            .filter(|(_, bars)| !bars.is_empty())
            .map(|(what, bars)| plot::bars(&format!("{name}, {what}"), "GB/s", &bars))
            .collect()
    }

    fn tables(&self) -> Vec<Table> {
        let name = &self.about.name;
        let of = |what: &str, bytes: usize, rows: &[super::Row]| Table {
            caption: format!("{name}, {what}, {}: GB/s", size::text(bytes)),
            columns: columns(&["Work", "Luxor", "The copy", "Of the copy", "Of 4096 B"]),
            rows: rows.iter().map(super::Row::row).collect(),
        };
        let papers = Table {
            caption: format!(
                "{name}, beside An and Seo's alpha^128, {}: GB/s",
                size::text(self.host_bytes)
            ),
            columns: columns(&[
                "Work",
                "Kernels",
                "Theirs",
                "Times theirs",
                "With copies",
                "Theirs with copies",
                "Times theirs with copies",
            ]),
            rows: self.papers.iter().map(Beside::row).collect(),
        };
        let tables = [
            of("on the device", self.resident_bytes, &self.resident),
            of("host to host", self.host_bytes, &self.host),
            papers,
        ];
        let some = |table: &Table| !table.rows.is_empty();
        tables.into_iter().filter(some).collect()
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
        let of_4096 = self.of_4096.as_ref();
        let of_4096 = of_4096.map_or("-".to_owned(), |of| plot::value(of.median));
        let name = std::iter::once(self.name());
        Row::new(Whose::Luxor, name.chain(cells).chain([of_4096]))
    }
}

impl Beside {
    fn name(&self) -> String {
        format!(
            "AES-{} encrypt, units of {}",
            self.key_bits, self.unit_bytes
        )
    }

    fn row(&self) -> Row {
        let cells = [&self.kernels, &self.total].into_iter().flat_map(|rates| {
            let all = [&rates.gb_per_s, &rates.papers_gb_per_s, &rates.times];
            all.map(|summary| plot::value(summary.median))
        });
        Row::new(Whose::Luxor, std::iter::once(self.name()).chain(cells))
    }
}
