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
    const IS_TIMED: bool = false;
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

    fn committed() -> Option<Result<Report, String>> {
        Some(measure())
    }
}

/// The result of the bench.
#[derive(Debug, Deserialize, Serialize)]
#[serde(bound(deserialize = "'de: 'static"))]
pub(crate) struct Report {
    /// From `rtl/syn/record.json`.
    points: Vec<Point>,
    cycles: Vec<Cycles>,
}

/// A core after synthesis, or after place and route if it has a clock.
#[derive(Debug, Deserialize, Serialize)]
struct Point {
    name: String,
    /// What the build has: its functions, its S-boxes and its registers.
    build: String,
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
    let cycles = cycles::measure()?;
    Ok(Report { points, cycles })
}

/// What the names of the points of the whole core contain, and of that with a bus master; and the
/// point of a board, which is also a whole core.
const WHOLE: &str = "whole";
const BOARD: &str = "ulx3s";
const DMA: &str = "dma";

/// Describes a build by its parameters, whose meaning is in `docs/rtl.md`.
fn build(name: &str, parameters: &Value) -> Option<String> {
    let boxes = match parameters["SBOX"].as_u64()? {
        0 => "S-boxes in LUTs",
        1 => "S-boxes of gates",
        2 => "S-boxes in block RAM",
        _ => return None,
    };
    if name.contains(REBUILT) {
        return Some(boxes.to_owned());
    }
    let keys = match (
        parameters["KEY128"].as_u64()?,
        parameters["KEY256"].as_u64()?,
    ) {
        (1, 0) => "AES-128",
        (0, 1) => "AES-256",
        _ => "AES-128 and 256",
    };
    let directions = match parameters["CIPHER"].as_u64()? {
        0 => "encryption only",
        1 => "decryption only",
        _ => "both directions",
    };
    let modes = if parameters["CTR"] == 1 {
        ", also counter mode"
    } else {
        ""
    };
    let buses = if name.contains(DMA) {
        "with a bus master"
    } else if name.contains(WHOLE) || name == BOARD {
        "with buses"
    } else {
        "without buses"
    };
    let lanes = match parameters["LANES"].as_u64() {
        None | Some(1) => String::new(),
        Some(lanes) => format!(", {lanes} blocks a cycle"),
    };
    let stages = match parameters["STAGES"].as_u64()? {
        1 => "1 register a round".to_owned(),
        stages => format!("{stages} registers a round"),
    };
    Some(format!(
        "{keys}, {directions}{modes}, {buses}, {boxes}, {stages}{lanes}"
    ))
}

/// Returns the paper's core, Luxor's that only encrypt with AES-128, like the paper's, and all that
/// were routed.
fn points(record: &Value) -> Option<Vec<Point>> {
    let points = record["points"].as_object()?;
    let points = points.iter().filter(|(name, point)| {
        let parameters = &point["parameters"];
        let is_like_the_papers = parameters["KEY256"] == 0 && parameters["CIPHER"] == 0;
        name.contains(REBUILT) || is_like_the_papers || !point["mhz"].is_null()
    });
    points
        .map(|(name, point)| {
            let text = |field: &str| point[field].as_str().map(str::to_owned);
            let tools = point["tools"].as_object()?.iter();
            let tools = tools.map(|(tool, version)| Some(format!("{tool} {}", version.as_str()?)));
            Some(Point {
                name: name.clone(),
                build: build(name, &point["parameters"])?,
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
        let has = |name: &str, what: fn(&Point) -> bool| {
            report
                .points
                .iter()
                .any(|point| point.name.contains(name) && what(point))
        };
        for name in [
            "ecp5-aes128-enc",
            "xc7-aes128-paper",
            "xc5v-elmoghany-luts",
            "xc4v-elmoghany",
        ] {
            assert!(has(name, |_| true), "{name}");
        }
        assert!(has("ecp5-aes128-enc", |point| point.mhz > Some(100.0)));
        // The whole core is slower, and is shown beside the one that only encrypts.
        assert!(has(WHOLE, |point| point.mhz > Some(80.0)));
        for point in &report.points {
            assert!(point.build.contains("S-boxes"), "{point:?}");
            let rounds = point.build.contains("a round");
            assert_eq!(rounds, !point.name.contains(REBUILT), "{point:?}");
        }
        let text = crate::terminal::text(&report.section(), true);
        let build =
            "AES-128, encryption only, without buses, S-boxes of gates, 4 registers a round";
        let row = text
            .lines()
            .find(|line| line.contains("26.16") && line.contains(build));
        assert!(row.is_some() && !text.contains("26.26"), "{text}");
        assert!(text.contains("6128") && text.contains("297.5"), "{text}");
        // The points of the paper's families were recorded later.
        let unwrapped: Vec<_> = text.split_whitespace().collect();
        let unwrapped = unwrapped.join(" ");
        for point in &report.points {
            let date = format!("{} at commit", point.date);
            assert!(unwrapped.contains(&date), "{text}");
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
        let designs: Vec<_> = report.cycles.iter().map(|row| row.design).collect();
        assert_eq!(designs, ["paper", "shared", "dedicated"]);
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
            "one pipeline encrypts 0.50 blocks a cycle",
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
