// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables for a terminal, with the paper's.

use super::{
    Cycles, Point, Report,
    published::{LATENCY, PUBLIC, TABLE_1, TABLE_2, UNIT},
};

impl Report {
    /// All of it.
    pub(crate) fn text(&self) -> String {
        let mut text = "XTS-AES cores (Elmoghany et al., 2011), AES-128, encryption\n\
            \nTable I, the paper's          family          MHz   slices     Gbps  Mbps/slice\n"
            .to_owned();
        for (work, family, [mhz, slices, gbps, ratio]) in TABLE_1 {
            text += &format!(
                "{work:<29} {family:<10} {mhz:>8.1} {slices:>8} {gbps:>8.2} {ratio:>11.2}\n"
            );
        }
        let [elements, mhz, gbps] = TABLE_2;
        text += &format!(
            "\nTable II, the paper's         family          MHz elements     Gbps\n\
             {:<29} {:<10} {mhz:>8.2} {elements:>8} {gbps:>8.2}   ({:.2} would be a block a cycle)\n",
            "Elmoghany 2011",
            "Cyclone II",
            mhz * 0.128,
        );
        text += "\nHere, as recorded              part                              MHz     LUTs  \
                 block RAMs  registers  Gbps at its pace\n";
        for point in &self.points {
            text += &point.text();
        }
        for core in &PUBLIC {
            text += &format!(
                "{:<30} {:<28} {:>8.0} {:>8} {:>11} {:>10} {:>8.2}\n",
                core.name,
                core.part,
                core.mhz,
                core.luts,
                core.block_rams
                    .map_or("-".to_owned(), |count| count.to_string()),
                core.registers,
                core.gbps(),
            );
        }
        text += COMPARABLE;
        if let Some(point) = self.points.first() {
            text += &format!(
                "Recorded {} at commit {} with {}.\n",
                point.date,
                point.commit.get(..7).unwrap_or(&point.commit),
                point.tools
            );
        }
        text += &self.cycles_text();
        for absent in &self.absent {
            text += &format!("\nNo rows of {absent}.\n");
        }
        text
    }

    fn clock(&self) -> Option<f64> {
        self.points.iter().find_map(|point| point.mhz)
    }

    fn cycles_text(&self) -> String {
        if self.cycles.is_empty() {
            return String::new();
        }
        let clock = self.clock().unwrap_or(f64::NAN);
        let mut text = format!(
            "\nCycles, simulated here and now{:>12} {:>12} {:>15} {:>14} {:>15} {:>20}\n",
            "512 B unit",
            "4 KiB unit",
            "4 KiB request",
            "1 MiB request",
            "blocks a cycle",
            format!("Gbps at {clock} MHz"),
        );
        text += &format!(
            "{:<30}{UNIT:>12.1} {:>12.1} {:>15} {:>14} {:>15} {:>20}\n",
            "the paper's section IV.E",
            256.0 + 2.0 * LATENCY,
            "-",
            "-",
            format!("{:.3}, {:.3}", 32.0 / UNIT, 256.0 / (256.0 + 2.0 * LATENCY)),
            "-",
        );
        for row in &self.cycles {
            text += &row.text(clock);
        }
        text + "A unit is what each further one of a run takes. Requests are from before their \
                descriptor is written to after its end\nis seen, by way of the registers; one of \
                4 KiB is eight units of 512 B. Rates are of units of 512 B and 4 KiB.\n"
    }
}

/// What may be compared.
pub(super) const COMPARABLE: &str = "\
What is comparable: our rows of one part among each other, all of one core with key slots, key\n\
expansion, ciphertext stealing and buffers. What is not: slices of Virtex-4 (2 LUTs of 4 inputs) and\n\
Virtex-5 (4 of 6 inputs), logic elements of Cyclone II and LUTs of other families with one another;\n\
clocks of other families and years; and the paper's Gbps, a block a cycle, with ours, which have a\n\
tweak's cycle in them. For the 7 series there is no clock: nothing here routes it.\n\
AMD's core is C++ that its tools turned into logic, one key and one stream at a time, for a part that\n\
is not named; secworks' is AES alone, a block in 46 cycles. Both have their authors' numbers.\n";

impl Point {
    pub(super) fn title(&self) -> &'static str {
        match self.name.as_str() {
            "xc7-aes128-paper" => "the paper's design, rebuilt",
            _ => "Luxor",
        }
    }

    fn text(&self) -> String {
        let number = |number: Option<f64>, digits: usize| {
            number.map_or_else(|| "-".to_owned(), |number| format!("{number:.digits$}"))
        };
        format!(
            "{:<30} {:<28} {:>8} {:>8} {:>11} {:>10} {:>8}\n",
            self.title(),
            self.part,
            number(self.mhz, 2),
            self.luts,
            self.block_rams,
            self.registers,
            number(self.mhz.map(|mhz| mhz * 0.128), 2),
        )
    }
}

impl Cycles {
    pub(super) fn name(&self) -> &'static str {
        match self.design {
            "paper" => "the paper's design, rebuilt",
            "shared" => "Luxor, one pipeline",
            _ => "Luxor, a unit for tweaks",
        }
    }

    fn text(&self, clock: f64) -> String {
        let rates = self.rates();
        let [short, long] = rates.map(|rate| rate * clock * 0.128);
        format!(
            "{:<30}{:>12.1} {:>12.1} {:>15} {:>14} {:>15} {:>20}\n",
            self.name(),
            self.per_unit,
            self.per_long_unit,
            self.request,
            self.mebibyte,
            format!("{:.3}, {:.3}", rates[0], rates[1]),
            // The clock is that design's: the others' cycles go with other registers.
            if self.design == "shared" {
                format!("{short:.2}, {long:.2}")
            } else {
                "-".to_owned()
            },
        )
    }
}
