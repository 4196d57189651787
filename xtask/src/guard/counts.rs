// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts instructions per block with callgrind, for the kernels that it can run: those without
//! VAES. It counts executed instructions, so it also covers code outside the main loops: tweaks,
//! borders of data units, calls.

use std::{fs, path::Path, process::Stdio};

use super::{Slack, table, verdict};
use crate::process::{self, command};

/// The function in `conformance/examples/watched.rs` in which instructions are counted.
const COUNTED: &str = "watched::counted";

/// Instructions per block, by bits of the AES key and bytes of a data unit. CTR and OFB are the
/// same in both directions, ECB has no data units, and CBC uses ESSIV. OFB with tweaks uses two
/// chains with AES-128, and one with AES-256.
const LIMITS: &str = "
engine    mode     direction  key  unit  instructions
aesni     xts      encrypt    128  512   31.85
aesni     xts      encrypt    128  520   36.76
aesni     xts      encrypt    128  4096  31.15
aesni     xts      encrypt    256  512   36.27
aesni     xts      encrypt    256  520   41.44
aesni     xts      encrypt    256  4096  35.42
aesni     xts      decrypt    128  512   31.82
aesni     xts      decrypt    128  520   38.07
aesni     xts      decrypt    128  4096  31.15
aesni     xts      decrypt    256  512   36.15
aesni     xts      decrypt    256  520   41.90
aesni     xts      decrypt    256  4096  35.30
aesni     ctr      encrypt    128  512   23.81
aesni     ctr      encrypt    128  4096  23.81
aesni     ctr      encrypt    192  512   26.57
aesni     ctr      encrypt    192  4096  26.57
aesni     ctr      encrypt    256  512   28.19
aesni     ctr      encrypt    256  4096  28.19
aesni     ecb      encrypt    128  512   17.79
aesni     ecb      encrypt    128  4096  17.79
aesni     ecb      encrypt    192  512   20.55
aesni     ecb      encrypt    192  4096  20.55
aesni     ecb      encrypt    256  512   22.29
aesni     ecb      encrypt    256  4096  22.29
aesni     ecb      decrypt    128  512   17.79
aesni     ecb      decrypt    128  4096  17.79
aesni     ecb      decrypt    192  512   20.55
aesni     ecb      decrypt    192  4096  20.55
aesni     ecb      decrypt    256  512   22.29
aesni     ecb      decrypt    256  4096  22.29
aesni     cbc      encrypt    128  512   25.43
aesni     cbc      encrypt    128  4096  24.02
aesni     cbc      encrypt    192  512   27.67
aesni     cbc      encrypt    192  4096  26.28
aesni     cbc      encrypt    256  512   29.93
aesni     cbc      encrypt    256  4096  28.52
aesni     cbc      decrypt    128  512   21.65
aesni     cbc      decrypt    128  4096  20.07
aesni     cbc      decrypt    192  512   24.03
aesni     cbc      decrypt    192  4096  22.45
aesni     cbc      decrypt    256  512   26.15
aesni     cbc      decrypt    256  4096  24.57
aesni     ofb      encrypt    128  512   57.01
aesni     ofb      encrypt    128  4096  47.79
aesni     ofb      encrypt    192  512   58.31
aesni     ofb      encrypt    192  4096  52.20
aesni     ofb      encrypt    256  512   66.61
aesni     ofb      encrypt    256  4096  57.29
aesni     ofb-xex  encrypt    128  512   145.56
aesni     ofb-xex  encrypt    128  4096  99.71
aesni     ofb-xex  encrypt    256  512   86.38
aesni     ofb-xex  encrypt    256  4096  58.44
aesni     ofb-xe   encrypt    128  512   145.65
aesni     ofb-xe   encrypt    128  4096  99.65
aesni     ofb-xe   encrypt    256  512   88.38
aesni     ofb-xe   encrypt    256  4096  60.42
portable  xts      encrypt    128  512   957.16
portable  xts      encrypt    128  520   993.20
portable  xts      encrypt    128  4096  933.17
portable  xts      encrypt    256  512   1292.83
portable  xts      encrypt    256  520   1334.04
portable  xts      encrypt    256  4096  1259.95
portable  xts      decrypt    128  512   1096.69
portable  xts      decrypt    128  520   1168.40
portable  xts      decrypt    128  4096  1074.67
portable  xts      decrypt    256  512   1494.87
portable  xts      decrypt    256  520   1584.87
portable  xts      decrypt    256  4096  1463.94
portable  ctr      encrypt    128  512   901.50
portable  ctr      encrypt    128  4096  901.50
portable  ctr      encrypt    192  512   1080.98
portable  ctr      encrypt    192  4096  1080.98
portable  ctr      encrypt    256  512   1227.00
portable  ctr      encrypt    256  4096  1227.00
portable  ecb      encrypt    128  512   896.57
portable  ecb      encrypt    128  4096  896.57
portable  ecb      encrypt    192  512   1076.05
portable  ecb      encrypt    192  4096  1076.05
portable  ecb      encrypt    256  512   1222.07
portable  ecb      encrypt    256  4096  1222.07
portable  ecb      decrypt    128  512   1036.32
portable  ecb      decrypt    128  4096  1036.32
portable  ecb      decrypt    192  512   1277.93
portable  ecb      decrypt    192  4096  1277.93
portable  ecb      decrypt    256  512   1424.32
portable  ecb      decrypt    256  4096  1424.32
portable  cbc      encrypt    128  512   946.56
portable  cbc      encrypt    128  4096  916.40
portable  cbc      encrypt    192  512   1126.62
portable  cbc      encrypt    192  4096  1096.21
portable  cbc      encrypt    256  512   1272.06
portable  cbc      encrypt    256  4096  1241.90
portable  cbc      decrypt    128  512   1076.94
portable  cbc      decrypt    128  4096  1042.77
portable  cbc      decrypt    192  512   1319.13
portable  cbc      decrypt    192  4096  1284.46
portable  cbc      decrypt    256  512   1464.94
portable  cbc      decrypt    256  4096  1430.77
portable  ofb      encrypt    128  512   935.97
portable  ofb      encrypt    128  4096  931.13
portable  ofb      encrypt    192  512   1117.27
portable  ofb      encrypt    192  4096  1112.36
portable  ofb      encrypt    256  512   1261.54
portable  ofb      encrypt    256  4096  1256.63
portable  ofb-xex  encrypt    128  512   1970.53
portable  ofb-xex  encrypt    128  4096  1897.27
portable  ofb-xex  encrypt    256  512   1328.86
portable  ofb-xex  encrypt    256  4096  1282.16
portable  ofb-xe   encrypt    128  512   1970.53
portable  ofb-xe   encrypt    128  4096  1897.27
portable  ofb-xe   encrypt    256  512   1328.86
portable  ofb-xe   encrypt    256  4096  1282.16
";

const SLACK: Slack = Slack {
    few: 0.0,
    more: 3.0,
};

struct Count<'a> {
    /// The words of a row of [`LIMITS`] except the last one.
    case: [&'a str; 5],
    per_block: f64,
}

/// Counts the instructions of `program` for `engines`, and compares them with the limits.
pub fn check(program: &Path, engines: &[&str]) -> Result<String, String> {
    let report = program.with_extension("callgrind");
    let mut callgrind = command("valgrind");
    callgrind
        .env_remove("VALGRIND_OPTS")
        .args(["--quiet", "--tool=callgrind", "--combine-dumps=yes"])
        .arg(format!("--callgrind-out-file={}", report.display()))
        .args(["before", "after"].map(|when| format!("--dump-{when}={COUNTED}")))
        .arg(program)
        .args(engines)
        .stdout(Stdio::piped());
    // callgrind would append to an old report.
    if report.exists() {
        fs::remove_file(&report).map_err(|e| format!("{}: {e}", report.display()))?;
    }
    eprintln!("$ {}", process::line(&callgrind));
    let cases = process::output(callgrind)?;
    let report = fs::read_to_string(&report).map_err(|e| format!("{}: {e}", report.display()))?;
    let counts = counts(&cases, &report)?;

    let rows: Vec<Vec<String>> = counts.iter().map(Count::row).collect();
    table::print(table::head(LIMITS), &rows);
    let (wrong, lower) = compare(&counts, &table::rows(LIMITS));
    verdict(&format!("{} counts", counts.len()), &wrong, lower, file!())
}

/// Returns the counts of the program's cases, from its output and callgrind's report.
fn counts<'a>(cases: &'a str, report: &str) -> Result<Vec<Count<'a>>, String> {
    let totals = totals(report);
    let cases: Vec<&str> = cases.lines().collect();
    if cases.is_empty() || totals.len() != 2 * cases.len() {
        return Err(format!(
            "callgrind counted {} calls of {COUNTED} instead of two for each of {} cases",
            totals.len(),
            cases.len()
        ));
    }
    cases
        .into_iter()
        .zip(totals.chunks_exact(2))
        .map(|(line, totals)| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (blocks, case) = words.split_last().ok_or("a case without words")?;
            let (Ok(blocks), Ok(case)) = (blocks.parse::<u32>(), case.try_into()) else {
                return Err(format!("this line does not describe a case: \"{line}\""));
            };
            let work = totals[1]
                .checked_sub(totals[0])
                .and_then(|n| u32::try_from(n).ok());
            let work = work.ok_or_else(|| format!("{line}: impossible counts {totals:?}"))?;
            Ok(Count {
                case,
                per_block: f64::from(work) / f64::from(blocks),
            })
        })
        .collect()
}

/// Returns the number of instructions of each call of [`COUNTED`], in order. The report also has
/// parts for the code between two calls.
fn totals(report: &str) -> Vec<u64> {
    let mut inside = false;
    let mut totals = Vec::new();
    for line in report.lines() {
        if let Some(trigger) = line.strip_prefix("desc: Trigger: ") {
            inside = trigger.starts_with("--dump-after=");
        } else if line.starts_with("part:") {
            inside = false;
        } else if let Some(total) = line.strip_prefix("totals: ").filter(|_| inside) {
            totals.extend(total.trim().parse::<u64>());
        }
    }
    totals
}

impl Count<'_> {
    fn row(&self) -> Vec<String> {
        let words = self.case.iter().map(ToString::to_string);
        words.chain([format!("{:.2}", self.per_block)]).collect()
    }
}

/// Returns what is wrong, and how many limits could be lower.
fn compare(counts: &[Count<'_>], limits: &[[&str; 6]]) -> (Vec<String>, usize) {
    let mut wrong = Vec::new();
    let mut lower = 0;
    for count in counts {
        let (case, found) = (count.case.join(" "), count.per_block);
        let limit = limits.iter().find(|row| row[..5] == count.case);
        match limit.map(|row| table::number::<f64>(row[5])) {
            None => wrong.push(format!("{case} has no limit")),
            Some(limit) if SLACK.is_too_much(found, limit) => wrong.push(format!(
                "{case} takes {found:.2} instructions per block, but the limit is {limit} plus {} %",
                SLACK.more
            )),
            Some(limit) => lower += usize::from(SLACK.is_far_below(found, limit)),
        }
    }
    for row in limits {
        if !counts.iter().any(|count| count.case == row[..5]) {
            wrong.push(format!("{} was not counted", row[..5].join(" ")));
        }
    }
    (wrong, lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shortened report of callgrind.
    const REPORT: &str = "\
version: 1
part: 1
desc: Trigger: --dump-before=watched::counted
summary: 500
fn=(1) main
7 500
totals: 500
part: 2
desc: Timerange: Basic block 10 - 20
desc: Trigger: --dump-after=watched::counted
summary: 1100
totals: 1100
part: 3
desc: Trigger: --dump-before=watched::counted
totals: 70
part: 4
desc: Trigger: --dump-after=watched::counted
totals: 2150
part: 5
desc: Trigger: Program termination
totals: 900
";

    const CASE: &str = "aesni xts encrypt 128 512 100\n";

    fn limits(instructions: &str) -> [[&str; 6]; 1] {
        [["aesni", "xts", "encrypt", "128", "512", instructions]]
    }

    #[test]
    fn the_difference_of_two_calls_counts() {
        let counts = counts(CASE, REPORT).unwrap();
        assert_eq!(counts[0].case, ["aesni", "xts", "encrypt", "128", "512"]);
        assert!((counts[0].per_block - 10.5).abs() < 1e-9);
        assert_eq!(counts[0].row()[5], "10.50");
    }

    #[test]
    fn a_report_without_counted_calls_is_an_error() {
        let without = REPORT.replace("--dump-after", "--zero-before");
        assert!(counts(CASE, &without).is_err());
        assert!(counts("", "").is_err());
    }

    #[test]
    fn more_than_the_limit_fails_and_less_is_reported() {
        let counts = counts(CASE, REPORT).unwrap();
        assert_eq!(compare(&counts, &limits("10.50")), (vec![], 0));
        assert_eq!(compare(&counts, &limits("10.20")), (vec![], 0));
        assert_eq!(compare(&counts, &limits("12.10")), (vec![], 1));
        let (wrong, _) = compare(&counts, &limits("10.10"));
        assert_eq!(
            wrong,
            [
                "aesni xts encrypt 128 512 takes 10.50 instructions per block, but the limit is 10.1 plus 3 %"
            ]
        );
    }

    #[test]
    fn cases_and_limits_belong_together() {
        let counts = counts(CASE, REPORT).unwrap();
        assert_eq!(
            compare(&counts, &[]).0,
            ["aesni xts encrypt 128 512 has no limit"]
        );
        let more = [
            limits("10.50")[0],
            ["aesni", "xts", "decrypt", "128", "512", "9"],
        ];
        assert_eq!(
            compare(&counts, &more).0,
            ["aesni xts decrypt 128 512 was not counted"]
        );
    }
}
