// SPDX-License-Identifier: MIT OR Apache-2.0
//! `elmoghany-2011`: the XTS-AES core of a paper, compared with Luxor's.
//!
//! Elmoghany et al., "FPGA Implementation of High Speed XTS-AES for Data Storage Devices", ICITST
//! 2011, give area, clock and throughput of a pipelined core with AES-128 that encrypts the tweak
//! before the data of each unit. Here are the results of synthesis for that design, written again
//! from the paper, and for Luxor's, from the committed record, and clock cycles from simulations.

mod cycles;
mod published;
mod section;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bench::{Bench, Context, NoOptions};

/// The bench has no options.
pub(crate) struct Plan;

impl Bench for Plan {
    const HELP: &'static str =
        "XTS-AES cores on FPGAs: area, clock, and cycles by simulation (Elmoghany et al., 2011)";
    type Options = NoOptions;
    type Report = Report;

    fn new(_: &Context, _: NoOptions) -> Result<Self, String> {
        Ok(Self)
    }

    fn measure(&self) -> Result<Report, String> {
        measure()
    }

    fn section(report: &Report) -> crate::section::Section {
        report.section()
    }
}

/// The result of the bench.
#[derive(Debug, Deserialize, Serialize)]
#[serde(bound(deserialize = "'de: 'static"))]
pub(crate) struct Report {
    /// From `rtl/syn/record.json`.
    points: Vec<Point>,
    /// Empty without simulations of the cores.
    cycles: Vec<Cycles>,
    /// The parts that could not be measured, and why.
    absent: Vec<String>,
}

/// A core after synthesis, or after place and route if it has a clock.
#[derive(Debug, Deserialize, Serialize)]
struct Point {
    name: String,
    part: String,
    date: String,
    commit: String,
    tools: String,
    luts: f64,
    registers: f64,
    block_rams: f64,
    /// The least number of slices, for the families that the paper names.
    slices: Option<f64>,
    mhz: Option<f64>,
    /// At this clock with data units of 4 KiB, so with the cycle of each unit's tweak.
    gbps: Option<f64>,
}

/// Clock cycles of a simulated core. Data units have 512 bytes unless stated otherwise.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
struct Cycles {
    design: &'static str,
    /// The mean for each further data unit in a run.
    per_unit: f64,
    /// The same for data units of 4096 bytes.
    per_long_unit: f64,
    /// One request of 4 KiB (eight data units), including all register accesses.
    request: f64,
    /// One request of 1 MiB.
    mebibyte: f64,
}

/// What the names of the points of the paper's own core contain.
const REBUILT: &str = "elmoghany";

/// AES blocks in data units of the two lengths.
const BLOCKS: [f64; 2] = [32.0, 256.0];

impl Cycles {
    /// Returns the blocks per cycle in the long run.
    fn rates(&self) -> [f64; 2] {
        [BLOCKS[0] / self.per_unit, BLOCKS[1] / self.per_long_unit]
    }
}

/// Runs the bench.
pub(crate) fn measure() -> Result<Report, String> {
    let record = include_str!("../../../rtl/syn/record.json");
    let record = serde_json::from_str(record).map_err(|e| e.to_string())?;
    let points =
        points(&record).ok_or("the record of the core's synthesis has an unknown format")?;
    let (cycles, absent) = match cycles::MISSING {
        None => (cycles::measure()?, Vec::new()),
        Some(reason) => (Vec::new(), vec![format!("cycles: {reason}")]),
    };
    Ok(Report {
        points,
        cycles,
        absent,
    })
}

/// Returns the paper's core, and Luxor's that only encrypt with AES-128, like the paper's.
fn points(record: &Value) -> Option<Vec<Point>> {
    let points = record["points"].as_object()?;
    let points = points.iter().filter(|(name, point)| {
        let parameters = &point["parameters"];
        name.contains(REBUILT) || (parameters["KEY256"] == 0 && parameters["CIPHER"] == 0)
    });
    points
        .map(|(name, point)| {
            let text = |field: &str| point[field].as_str().map(str::to_owned);
            let tools = point["tools"].as_object()?.iter();
            let tools = tools.map(|(tool, version)| Some(format!("{tool} {}", version.as_str()?)));
            Some(Point {
                name: name.clone(),
                part: text("part")?,
                date: text("date")?,
                commit: text("commit")?,
                tools: tools.collect::<Option<Vec<_>>>()?.join(", "),
                luts: point["luts"].as_f64()?,
                registers: point["registers"].as_f64()?,
                block_rams: point["block_rams"].as_f64()?,
                slices: point["slices"].as_f64(),
                mhz: point["mhz"].as_f64(),
                gbps: point["gbps"].as_f64(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::Whose;

    #[test]
    fn the_record_contains_both_designs_and_a_clock() {
        let report = measure().unwrap();
        let names: Vec<_> = report
            .points
            .iter()
            .map(|point| point.name.as_str())
            .collect();
        assert_eq!(
            names,
            [
                "ecp5-aes128-enc",
                "xc7-aes128-enc",
                "xc7-aes128-paper",
                "ecp5-elmoghany",
                "xc5v-aes128-enc",
                "xc5v-elmoghany",
                "xc5v-elmoghany-luts",
                "xc4v-aes128-enc",
                "xc4v-elmoghany"
            ]
        );
        assert!(report.points[0].mhz.is_some_and(|mhz| mhz > 100.0));
        let text = crate::terminal::text(&report.section());
        assert!(text.contains("26.16") && !text.contains("26.26"), "{text}");
        assert!(text.contains("6128") && text.contains("297.5"), "{text}");
        // The points of the paper's families were recorded later.
        for point in &report.points {
            let date = format!("{} at commit", point.date);
            assert!(text.contains(&date), "{text}");
        }
        for point in &report.points {
            let room = match point.part.as_str() {
                "Virtex-5" => 4.0,
                "Virtex-4" => 2.0,
                _ => {
                    assert_eq!(point.slices, None, "{}", point.name);
                    continue;
                }
            };
            let slices = (point.luts.max(point.registers) / room).ceil();
            assert_eq!(point.slices, Some(slices), "{}", point.name);
            // No tool here routes these families, so they have no clock.
            assert_eq!(point.mhz, None, "{}", point.name);
            assert!(text.contains(&format!("\u{2265} {slices}")), "{text}");
        }
        // 297.5 MHz x 128 bits / 1127 slices, and 190.8 x 128 / 2383.
        for ratio in ["33.79 at 297.5 MHz", "10.25 at 190.8 MHz"] {
            assert!(text.contains(ratio), "{text}");
        }
        assert_eq!(report.absent.is_empty(), cfg!(feature = "fpga"));
        assert_eq!(
            report.cycles.len(),
            if cfg!(feature = "fpga") { 3 } else { 0 }
        );
    }

    #[test]
    fn numbers_for_the_papers_own_pipeline_are_shown_as_inferred() {
        let cycles = ["paper", "shared"].map(|design| Cycles {
            design,
            per_unit: 64.0,
            per_long_unit: 512.0,
            request: 1.0,
            mebibyte: 1.0,
        });
        let report = Report {
            cycles: cycles.into(),
            ..measure().unwrap()
        };
        let section = report.section();
        section.assert_whole();
        let said = section.conclusion.unwrap();
        for part in [
            "0.50 blocks per cycle in the paper's order",
            "inferred from its text, encrypts 0.42 if its pipeline runs empty",
            "0.59 if they follow at once",
        ] {
            assert!(said.contains(part), "{said}");
        }
        let rows = section.tables.iter().flat_map(|table| &table.rows);
        let inferred = rows.filter(|row| row.cells[0].starts_with("inferred"));
        let whose: Vec<_> = inferred.map(|row| row.whose).collect();
        assert_eq!(whose, [Whose::Derived; 2]);
    }
}
