// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes the result of `gpu`.

use super::{Beside, DeviceRate, OnDevice, PAPER_MARK, Report, SHORT_UNITS_MARK};
use crate::{
    devices::{self, About},
    plot::{self, Bar, Plot, Whose},
    section::{Row, Section, Table, cell},
    size,
};

/// Why a plot shows Luxor and copies only.
const NO_RIVAL: &str =
    "A copy is the bound. The only rival is An and Seo's system, in its own plot.";

impl Report {
    pub(super) fn section(&self) -> Section {
        let devices: Vec<About> = self.devices.iter().map(|on| on.about.clone()).collect();
        let about = format!(
            "Luxor's kernels on each device of OpenCL and of NVIDIA's driver, compared with \
             copies, which also read and write each byte once, and with the best system of An and \
             Seo (an-seo-2022), alpha^128. GB/s are 10^9 bytes encrypted or copied per second, \
             medians of {} rounds. Targets are for an H200: the ratio to the copy as in the table, \
             {SHORT_UNITS_MARK} of the rate of 4096-byte units, and {PAPER_MARK} times the paper's \
             system.{}",
            self.rounds,
            devices::text(&devices)
        );
        let said: Vec<_> = self.devices.iter().filter_map(OnDevice::said).collect();
        let no_papers = self.devices.iter().filter_map(|device| {
            let why = device.no_papers.as_ref()?;
            let name = &device.about.name;
            Some(format!("An and Seo's alpha^128 on {name}: {why}"))
        });
        let absent = devices::absent(&devices, &self.absent);
        let section = Section {
            title: "XTS-AES on devices".to_owned(),
            about,
            brief: self.brief(),
            conclusion: (!said.is_empty()).then(|| format!("{}.", said.join(". "))),
            plots: self.devices.iter().flat_map(OnDevice::plots).collect(),
            tables: self.devices.iter().flat_map(OnDevice::tables).collect(),
            absent: absent.into_iter().chain(no_papers).collect(),
            ..Section::default()
        };
        section.without_empty_tables()
    }
}

impl Report {
    /// Returns the speed of the fastest GPU.
    fn brief(&self) -> Option<String> {
        let gpus = self.devices.iter().filter(|device| !device.about.is_cpu);
        let rows = gpus
            .filter_map(|device| Some((device, device.resident.first()?, device.host.first()?)));
        let rate = |row: &DeviceRate| row.gb_per_s;
        let (device, resident, host) =
            rows.max_by(|a, b| rate(a.1).median.total_cmp(&rate(b.1).median))?;
        let about = std::slice::from_ref(&device.about);
        Some(format!(
            "{} GB/s with data on {}, {} from host to host",
            plot::value(rate(resident)),
            devices::name(about, &device.about.name),
            plot::value(rate(host)),
        ))
    }
}

impl OnDevice {
    /// Returns a sentence without its full stop.
    fn said(&self) -> Option<String> {
        let (on_device, host) = (self.resident.first()?, self.host.first()?);
        let mut text = format!(
            "On {}, {}: {} GB/s with data on the device, {} of a copy's rate, and {} from host to \
             host, {} of the copies'",
            self.about.name,
            on_device.name(),
            plot::value(on_device.gb_per_s),
            plot::value(on_device.of_copy),
            plot::value(host.gb_per_s),
            plot::value(host.of_copy),
        );
        if let Some(beside) = self.papers.first() {
            text += &format!(
                "; its kernels are {} times as fast as An and Seo's",
                plot::value(beside.kernels.times)
            );
        }
        Some(text)
    }

    fn plots(&self) -> Vec<Plot> {
        let name = &self.about.name;
        let resident = self.resident.iter().flat_map(|row| {
            let copy = format!("copy, in turn with {}", row.name());
            [
                Bar::new(row.name(), Whose::Luxor, row.gb_per_s),
                Bar::new(copy, Whose::Limit, row.copy_gb_per_s),
            ]
        });
        let papers = self.papers.iter().flat_map(|beside| {
            let (ours, what) = (&beside.kernels, beside.name());
            let theirs = ours.papers_gb_per_s;
            [
                Bar::new(what.clone(), Whose::Luxor, ours.gb_per_s),
                Bar::new(format!("alpha^128, {what}"), Whose::Rival, theirs),
            ]
        });
        let all: [(_, Vec<Bar>); 2] = [
            ("data on the device", resident.collect()),
            ("kernels, compared with An and Seo's", papers.collect()),
        ];
        let some = all.into_iter().filter(|(_, bars)| !bars.is_empty());
        let plots = some.map(|(what, bars)| Plot::bars(format!("{name}, {what}"), "GB/s", bars));
        let plots = plots.map(|plot| {
            if plot.has_rival() {
                plot
            } else {
                plot.with_remark(NO_RIVAL)
            }
        });
        plots.collect()
    }

    fn tables(&self) -> [Table; 3] {
        let caption = |what: &str, bytes: usize| {
            format!("{}, {what}, {}: GB/s", self.about.name, size::text(bytes))
        };
        let of = |what: &str, bytes: usize, rows: &[DeviceRate]| {
            let heads = [
                "Luxor",
                "Copy",
                "Ratio to copy",
                "Target",
                "Ratio to 4096 B",
            ];
            Table::new(
                caption(what, bytes),
                "Work",
                heads,
                rows.iter().map(DeviceRate::row),
            )
        };
        let papers = Table::new(
            caption("compared with An and Seo's alpha^128", self.host_bytes),
            "Work",
            [
                "Kernels",
                "Theirs",
                "Times theirs",
                "With copies",
                "Theirs with copies",
                "Times theirs with copies",
            ],
            self.papers.iter().map(Beside::row),
        );
        [
            of("on the device", self.resident_bytes, &self.resident),
            of("host to host", self.host_bytes, &self.host),
            papers,
        ]
    }
}

impl DeviceRate {
    fn name(&self) -> String {
        let (bits, direction, unit) = (self.key_bits, self.direction, self.unit_bytes);
        format!("AES-{bits} {direction}, units of {unit}")
    }

    fn row(&self) -> Row {
        let cells = [&self.gb_per_s, &self.copy_gb_per_s, &self.of_copy];
        let cells = cells.map(|summary| summary.shown(number));
        let mark = cell(self.of_copy_mark, |mark| format!("{mark:.2}"));
        let of_4096 = cell(self.of_4096, |of| of.shown(number));
        let cells = cells.into_iter().chain([mark, of_4096]);
        Row::new(Whose::Luxor, self.name(), cells)
    }
}

impl Beside {
    fn name(&self) -> String {
        let (bits, unit) = (self.key_bits, self.unit_bytes);
        format!("AES-{bits} encrypt, units of {unit}")
    }

    fn row(&self) -> Row {
        let cells = [&self.kernels, &self.total].into_iter().flat_map(|rates| {
            let all = [&rates.gb_per_s, &rates.papers_gb_per_s, &rates.times];
            all.map(|summary| summary.shown(number))
        });
        Row::new(Whose::Luxor, self.name(), cells)
    }
}

/// Formats a number with as many digits as differ.
fn number(number: f64) -> String {
    let digits = match number {
        10.0.. => 1,
        0.1.. => 3,
        _ => 4,
    };
    format!("{number:.digits$}")
}
