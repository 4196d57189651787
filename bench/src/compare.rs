// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares a result with an earlier one. Results of different machines, or of different times on
//! one machine, are compared by ratios: to the limit of the CPU, to `cp`, or to other programs,
//! each measured within the same minutes.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Map, Value};

/// The names of ratios in a result, and whether more is better. `of_rival`, the latencies and
/// `times` may hold several ratios, named for what they compare with.
const RATIOS: [(&str, bool); 14] = [
    ("of_limit", true),
    ("of_ofb", true),
    ("of_one", true),
    ("of_copy", true),
    ("of_4096", true),
    ("of_idle", true),
    ("of_rival", true),
    ("p50_times", false),
    ("p99_times", false),
    ("p99_times_idle", false),
    ("times_cp", false),
    ("times_cryptsetup", false),
    ("times_best", true),
    ("times", true),
];

/// The fields that distinguish rows.
const NAMES: [&str; 24] = [
    "what",
    "engine",
    "name",
    "contestant",
    "resilience",
    "system",
    "form",
    "way",
    "streams",
    "mode",
    "key_bits",
    "direction",
    "access",
    "place",
    "threads",
    "sector_bytes",
    "unit_bytes",
    "block_bytes",
    "call_bytes",
    "array_bytes",
    "request_bytes",
    "depth",
    "connections",
    "load",
];

/// Fields that are left out of names.
const PLAIN: [&str; 5] = ["rows", "throughput", "devices", "engines", "arrays"];

/// Smaller differences are ignored, whatever the spreads are.
const LEAST: f64 = 0.05;

/// An earlier result.
pub(crate) struct Record {
    name: String,
    value: Value,
}

/// Sorted by name, so that the order is always the same.
type Ratios = BTreeMap<String, Ratio>;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Ratio {
    median: f64,
    lower: f64,
    upper: f64,
    more_is_better: bool,
}

impl Record {
    /// Reads a record.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let name = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|e| format!("{name}: {e}"))?;
        let value: Value = serde_json::from_str(&text).map_err(|e| format!("{name}: {e}"))?;
        if ratios(&value).is_empty() {
            return Err(format!("{name} is not a result with ratios"));
        }
        Ok(Self { name, value })
    }

    /// Reports the ratios that have changed, the worst first.
    pub(crate) fn compare(&self, now: &Value) -> String {
        let (then, now) = (ratios(&self.value), ratios(now));
        let both: Vec<_> = now
            .iter()
            .filter_map(|(name, now)| Some((name, then.get(name)?, now)))
            .collect();
        let text = |field: &str| self.value[field].as_str().unwrap_or("?").to_owned();
        let commit = self.value["luxor"]["commit"].as_str().unwrap_or("unknown");
        let cpu = self.value["machine"]["cpu"]
            .as_str()
            .unwrap_or("unknown CPU");
        let mut changed: Vec<_> = both
            .iter()
            .filter(|(_, then, now)| then.differs(now))
            .collect();
        changed.sort_by(|a, b| a.1.gain(a.2).total_cmp(&b.1.gain(b.2)));
        let mut report = format!(
            "\nCompared with {} ({}, commit {commit}, {cpu}): of {} ratios that both have, {} are \
             outside both spreads and differ by at least 5 %\n",
            self.name,
            text("date"),
            both.len(),
            changed.len(),
        );
        for (only, count) in [
            ("the record", then.len() - both.len()),
            ("this result", now.len() - both.len()),
        ] {
            if count > 0 {
                report += &format!("{count} ratios are in {only} only\n");
            }
        }
        for (name, then, now) in changed {
            report += &format!(
                "{:>6}  {name}: {:.3} then, {:.3} now\n",
                if then.gain(now) < 1.0 {
                    "worse"
                } else {
                    "better"
                },
                then.median,
                now.median,
            );
        }
        report
    }
}

impl Ratio {
    fn from_summary(summary: &Value, more_is_better: bool) -> Option<Self> {
        let [median, lower, upper] =
            ["median", "lower", "upper"].map(|field| summary[field].as_f64());
        Some(Self {
            median: median?,
            lower: lower?,
            upper: upper?,
            more_is_better,
        })
    }

    /// Returns by which factor it is better now; below 1 it is worse.
    fn gain(&self, now: &Self) -> f64 {
        if self.more_is_better {
            now.median / self.median
        } else {
            self.median / now.median
        }
    }

    fn differs(&self, now: &Self) -> bool {
        let apart = now.lower > self.upper || now.upper < self.lower;
        apart && (now.median / self.median - 1.0).abs() >= LEAST
    }
}

fn ratios(result: &Value) -> Ratios {
    all(result).into_iter().collect()
}

fn all(result: &Value) -> Vec<(String, Ratio)> {
    let mut found = Vec::new();
    // Names begin with the bench's key.
    for (bench, value) in result.as_object().into_iter().flatten() {
        collect(value, std::slice::from_ref(bench), &mut found);
    }
    found
}

/// Collects the ratios in `value`, which is named by `names`.
fn collect(value: &Value, names: &[String], found: &mut Vec<(String, Ratio)>) {
    match value {
        Value::Array(rows) => {
            for row in rows {
                collect(row, names, found);
            }
        }
        // The rivals' own speed is not compared.
        Value::Object(fields) if !is_rival(fields) => {
            let mut names = names.to_vec();
            let about = fields.get("about").and_then(|about| about.get("name"));
            names.extend(about.map(|name| words("name", name)));
            for name in NAMES {
                let value = fields.get(name).filter(|value| !value.is_array());
                names.extend(value.map(|value| words(name, value)));
            }
            for (ratio, more_is_better) in RATIOS {
                let Some(value) = fields.get(ratio) else {
                    continue;
                };
                let mut keep = |name: String, summary| {
                    if let Some(ratio) = Ratio::from_summary(summary, more_is_better) {
                        found.push((format!("{} {name}", names.join(" ")), ratio));
                    }
                };
                keep(ratio.to_owned(), value);
                for (other, summary) in value.as_object().into_iter().flatten() {
                    keep(format!("{ratio} {other}"), summary);
                }
            }
            for (field, value) in fields {
                let is_ratio = RATIOS.iter().any(|(ratio, _)| ratio == field);
                let is_name = field == "about" || NAMES.contains(&field.as_str());
                if PLAIN.contains(&field.as_str()) {
                    collect(value, &names, found);
                } else if value.is_array() || !is_ratio && !is_name {
                    let inner = [names.as_slice(), std::slice::from_ref(field)].concat();
                    collect(value, &inner, found);
                }
            }
        }
        _ => {}
    }
}

fn is_rival(fields: &Map<String, Value>) -> bool {
    fields.get("rival") == Some(&Value::Bool(true))
        || fields.get("whose").and_then(Value::as_str) == Some("rival")
}

/// Returns a field that distinguishes rows, in words.
fn words(name: &str, value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| words(name, value));
            fields.collect::<Vec<_>>().join(" ")
        }
        Value::Null => format!("no {name}"),
        other => format!("{name} {other}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn summary(median: f64) -> Value {
        json!({ "median": median, "lower": median * 0.98, "upper": median * 1.02 })
    }

    fn result(cpu: [f64; 2], file: f64, served: f64) -> Value {
        let row = |unit: usize, of_limit: f64| json!({ "contestant": "vaes512", "rival": false, "unit_bytes": unit, "of_limit": summary(of_limit) });
        json!({
            "date": "2026-11-21T21:44:48Z",
            "cpu": { "rows": [
                row(512, cpu[0]),
                row(4096, cpu[1]),
                { "contestant": "OpenSSL", "rival": true, "unit_bytes": 512, "of_limit": summary(cpu[0] * 2.0) },
            ] },
            "file": { "rows": [{ "what": "luxor encrypt", "times_cp": summary(file) }] },
            "block": { "throughput": [{
                "load": { "access": "read", "request_bytes": 4096 },
                "rows": [{ "contestant": "luxor", "times": { "qemu": summary(served) } }],
            }] },
        })
    }

    #[test]
    fn changes_are_listed_worst_first() {
        let record = Record {
            name: "old.json".to_owned(),
            value: result([0.9, 0.9], 1.5, 3.0),
        };
        // A better ratio; one unchanged but for noise; a slower one; one that is slower by more.
        let told = record.compare(&result([0.99, 0.91], 1.8, 2.0));
        let lines: Vec<_> = told.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                " worse  block read request_bytes 4096 luxor times qemu: 3.000 then, 2.000 now",
                " worse  file luxor encrypt times_cp: 1.500 then, 1.800 now",
                "better  cpu vaes512 unit_bytes 512 of_limit: 0.900 then, 0.990 now",
            ]
        );
        assert!(told.contains("of 4 ratios that both have, 3 are"), "{told}");
        assert!(!told.contains("only"), "{told}");
        let same = record.compare(&record.value);
        assert!(same.contains("of 4 ratios that both have, 0 are"), "{same}");
        // Missing rows do not count as unchanged.
        let mut less = record.value.clone();
        less["cpu"]["rows"] = json!([]);
        let told = record.compare(&less);
        assert!(told.contains("of 2 ratios that both have"), "{told}");
        assert!(told.contains("2 ratios are in the record only"), "{told}");
    }

    #[test]
    fn records_and_examples_have_ratios_by_names_of_their_own() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut folders = vec![root.join("../docs/examples")];
        for machine in fs::read_dir(root.join("record")).unwrap() {
            folders.push(machine.unwrap().path());
        }
        let mut seen = String::new();
        for file in folders.iter().flat_map(|path| fs::read_dir(path).unwrap()) {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let value: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            let mut names: Vec<_> = all(&value).into_iter().map(|(name, _)| name).collect();
            seen += &names.join("\n");
            names.sort();
            let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
            assert_eq!(twice, None, "{}", path.display());
            if let Ok(record) = Record::read(&path) {
                let same = record.compare(&record.value);
                assert!(same.contains(", 0 are outside"), "{same}");
            }
        }
        for ratio in [
            "of_limit",
            "times_cp",
            "times_cryptsetup",
            "times_best",
            "times qemu",
            "p99_times qemu",
            "of_ofb",
            "of_one",
            "of_copy",
            "of_4096",
            "kernels times",
        ] {
            assert!(seen.contains(ratio), "{ratio}: {seen}");
        }
    }
}
