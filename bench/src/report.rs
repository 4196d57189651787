// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole result: the measurements, the machine, the date and the programs.

use std::{
    collections::BTreeMap,
    fmt, fs,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use askama::Template;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    bench::{Entry, Outcome},
    benches,
    machine::Machine,
    page::{Fact, Page, Part},
    rivals::{self, About, Rival},
    section::{Section, Table, Verdict},
    summary, terminal,
};

/// The version of the JSON. It changes when a member disappears or changes its meaning.
pub(crate) const SCHEMA: u32 = 3;

/// The JSON that `--json` writes. `docs/examples/bench*.json` are examples.
#[derive(Deserialize, Serialize)]
#[serde(bound(deserialize = "'de: 'static"))]
pub(crate) struct Report {
    schema: u32,
    /// In UTC, as in RFC 3339.
    date: String,
    command: Vec<String>,
    luxor: Luxor,
    machine: Machine,
    rivals: Vec<About>,
    /// By the benches' keys.
    #[serde(flatten)]
    outcomes: Map<String, Value>,
    /// The benches that the page has no measurements of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    absent: Vec<Absent>,
    /// The sections of the measured benches, by name.
    #[serde(skip)]
    sections: BTreeMap<&'static str, Section>,
}

/// A bench that could not run, or that stopped with an error.
#[derive(Debug, Deserialize, Serialize)]
struct Absent {
    bench: String,
    reason: String,
}

#[derive(Debug, Deserialize, Serialize)]
struct Luxor {
    version: &'static str,
    /// `None` if the program was not built by `cargo xtask bench`.
    commit: Option<&'static str>,
    rustc: &'static str,
}

/// A report for the page of all records.
pub(crate) struct Recorded {
    pub(crate) command: String,
    /// In UTC, as in RFC 3339.
    pub(crate) date: String,
    pub(crate) commit: String,
    pub(crate) machine: String,
    pub(crate) sections: Vec<(&'static str, Section)>,
}

impl Report {
    /// Creates a report without measurements.
    pub(crate) fn begin(rivals: &[Box<dyn Rival>]) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            schema: SCHEMA,
            date: rfc_3339(since.map_or(0, |since| since.as_secs())),
            command: std::env::args_os()
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
            luxor: Luxor {
                version: env!("CARGO_PKG_VERSION"),
                commit: option_env!("LUXOR_COMMIT"),
                rustc: env!("LUXOR_RUSTC"),
            },
            machine: Machine::this(),
            rivals: rivals.iter().map(|rival| rival.about().clone()).collect(),
            outcomes: Map::new(),
            absent: Vec::new(),
            sections: BTreeMap::new(),
        }
    }

    /// Reads a report that [`Self::write`] wrote.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let named = |error: &dyn fmt::Display| format!("{}: {error}", path.display());
        let text = fs::read_to_string(path).map_err(|e| named(&e))?;
        // The text is leaked because reports borrow names for `'static`: those of a new report are
        // constants of the program.
        let other = |e: &dyn fmt::Display| named(&format!("is not what --json writes: {e}"));
        let mut report: Self = serde_json::from_str(text.leak()).map_err(|e| other(&e))?;
        if report.schema != SCHEMA {
            let schema = report.schema;
            return Err(named(&format!("has the schema {schema}, not {SCHEMA}")));
        }
        let outcomes = Box::leak(Box::new(report.outcomes.clone()));
        for bench in benches::ALL {
            if let Some(outcome) = bench.read(outcomes).map_err(|e| other(&e))? {
                report.sections.insert(bench.name, outcome.section);
            }
        }
        Ok(report)
    }

    /// Adds the result of a bench.
    pub(crate) fn add(&mut self, bench: &Entry, outcome: Outcome) {
        self.outcomes.insert(bench.key(), outcome.json);
        self.sections.insert(bench.name, outcome.section);
    }

    /// Records that a bench has no result, for the page.
    pub(crate) fn is_absent(&mut self, bench: &Entry, reason: String) {
        let bench = bench.name.to_owned();
        self.absent.push(Absent { bench, reason });
    }

    /// Returns the lines above all tables.
    pub(crate) fn head(&self) -> String {
        let Luxor {
            version,
            commit,
            rustc,
        } = self.luxor;
        let mut text = format!(
            "luxor {version}, commit {}, {rustc}\n{}\n{}\n",
            commit.unwrap_or("unknown (not built by `cargo xtask bench`)"),
            self.machine.text(),
            self.date,
        );
        for About {
            name,
            version,
            path,
            ..
        } in &self.rivals
        {
            text += &format!("{name}: {version}\n  {path}\n");
        }
        if let Some(missing) = rivals::MISSING {
            text += &format!("{missing}\n");
        }
        text
    }

    /// Returns the whole report as text for a terminal.
    pub(crate) fn text(&self, verbose: bool) -> String {
        let sections = self.sections();
        let sections =
            sections.map(|(_, section)| format!("\n{}", terminal::text(&section, verbose)));
        self.head() + &sections.collect::<String>()
    }

    /// Returns the summary as text for a terminal.
    pub(crate) fn summary(&self) -> String {
        let lines = summary::lines(&self.sections().collect::<Vec<_>>());
        let lines = lines.into_iter();
        let lines = lines.map(|(name, line)| format!("{name:<8} {line}\n"));
        let lines = lines.collect::<String>();
        if lines.is_empty() {
            lines
        } else {
            format!("\n{lines}")
        }
    }

    /// Checks that the report may be recorded: a record must be repeatable.
    pub(crate) fn may_be_recorded(&self) -> Result<(), String> {
        let hint = "`cargo xtask bench --record bench/record`, with everything committed";
        match self.luxor.commit {
            None => Err(format!("cannot record without a commit: use {hint}")),
            Some(commit) if commit.ends_with("-dirty") => Err(format!(
                "cannot record {commit}, which has uncommitted changes: use {hint}"
            )),
            Some(_) => Ok(()),
        }
    }

    /// Writes the report and the text into the machine's folder in `records`, and returns the path
    /// of the JSON. Replaces a record of the same day.
    pub(crate) fn record(&self, records: &Path, text: &str) -> Result<PathBuf, String> {
        let folder = records.join(self.machine.folder());
        fs::create_dir_all(&folder)
            .map_err(|e| format!("cannot create {}: {e}", folder.display()))?;
        let day = &self.date[..10];
        let json = folder.join(format!("{day}.json"));
        let table = json.with_extension("txt");
        // Keep the old record of the day until the new one is complete.
        let [new_json, new_table] = ["json.new", "txt.new"].map(|end| json.with_extension(end));
        self.write(&new_json)?;
        write(&new_table, text)?;
        for (new, old) in [(&new_json, &json), (&new_table, &table)] {
            fs::rename(new, old).map_err(|e| format!("cannot write {}: {e}", old.display()))?;
        }
        Ok(json)
    }

    /// Renders the page.
    pub(crate) fn page(&self) -> Result<String, String> {
        let sections: Vec<_> = self.sections().collect();
        let page = Page {
            date: self.date.clone(),
            command: self.line(),
            version: self.luxor.version.to_owned(),
            machine: self.machine.text(),
            facts: self.facts(),
            summary: summary::lines(&sections),
            of_papers: summary::of_papers(&sections),
            verdicts: verdicts(&sections),
            parts: sections
                .into_iter()
                .map(|(name, section)| Part::new(name, section))
                .collect(),
            quick: self.command.iter().any(|word| word == "--quick"),
        };
        page.render().map_err(|e| e.to_string())
    }

    /// Renders the plots of the page as separate pictures, with their file names.
    pub(crate) fn pictures(&self) -> Result<Vec<(String, String)>, String> {
        let plots = self.sections().flat_map(|(name, section)| {
            let numbered = (1..).zip(section.plots);
            numbered
                .map(move |(number, plot)| Ok((format!("{name}-{number}.svg"), plot.picture()?)))
        });
        plots.collect()
    }

    /// Returns what the page of all records shows of this one.
    pub(crate) fn recorded(&self) -> Recorded {
        Recorded {
            command: without_outputs(&self.line()),
            date: self.date.clone(),
            commit: self.luxor.commit.unwrap_or("unknown").to_owned(),
            machine: self.machine.text(),
            sections: self.sections().collect(),
        }
    }

    fn sections(&self) -> impl Iterator<Item = (&'static str, Section)> {
        benches::ALL.iter().filter_map(|bench| {
            let mut absent = self.absent.iter();
            let absent = absent.find(|absent| absent.bench == bench.name);
            let absent = absent.map(|absent| Section::absent(bench.name, absent.reason.clone()));
            let section = absent.or_else(|| self.sections.get(bench.name).cloned());
            Some((bench.name, section?))
        })
    }

    /// Returns the command as typed: that of `luxor` if `luxor` started this program.
    fn line(&self) -> String {
        let mut words: Vec<_> = self.command.iter().skip(1).map(String::as_str).collect();
        let mut program = "luxor-bench";
        if let ["--luxor", _, rest @ ..] = words.as_slice() {
            program = "luxor bench";
            words = rest.to_vec();
            if let Some(at) = words.iter().position(|word| *word == "--report") {
                words.remove(at);
                program = "luxor report";
            }
        }
        words.insert(0, program);
        words.join(" ")
    }

    fn facts(&self) -> Vec<Fact> {
        let commit = self.luxor.commit.unwrap_or("unknown");
        let built = format!("commit {commit}, {}", self.luxor.rustc);
        let rivals = self.rivals.iter();
        let rivals = rivals.map(|rival| (rival.name.clone(), rival.version.clone()));
        // A report that was read may be from another build, which had them.
        let missing = rivals::MISSING.filter(|_| self.rivals.is_empty());
        let missing = missing.map(|missing| ("Not included".to_owned(), missing.to_owned()));
        [
            ("Machine".to_owned(), self.machine.text()),
            ("Built from".to_owned(), built),
        ]
        .into_iter()
        .chain(rivals)
        .chain(missing)
        .map(|(name, value)| Fact { name, value })
        .collect()
    }

    /// Writes the report as JSON.
    pub(crate) fn write(&self, path: &Path) -> Result<(), String> {
        let json = serde_json::to_string_pretty(self).map_err(|e| e.to_string())?;
        write(path, &(json + "\n"))
    }
}

/// Returns the command line without the files that it wrote and the program that it ran.
fn without_outputs(line: &str) -> String {
    let mut words = line.split(' ');
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        if ["--json", "--record", "--luxor"].contains(&word) {
            words.next();
        } else {
            kept.push(word);
        }
    }
    kept.join(" ")
}

/// Checks that a file can be written, without changing its contents.
pub(crate) fn can_be_written(path: &Path) -> Result<(), String> {
    let is_new = fs::symlink_metadata(path).is_err();
    let file = fs::OpenOptions::new().append(true).create(true).open(path);
    file.map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    if is_new {
        // Leave no empty file behind if the run is interrupted.
        let _ = fs::remove_file(path);
    }
    Ok(())
}

pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))
}

/// Formats seconds since 1970 as `2026-11-21T07:00:00Z`.
fn rfc_3339(seconds: u64) -> String {
    let (mut days, rest) = (seconds / 86400, seconds % 86400);
    let leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [
        31,
        28 + u64::from(leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    format!(
        "{year}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        month + 1,
        days + 1,
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

/// Returns the table of the papers' figures; without rows if there are none.
fn verdicts(sections: &[(&str, Section)]) -> Table {
    Verdict::table(sections.iter().flat_map(|(_, section)| {
        let paper = section.paper.iter();
        paper.flat_map(|paper| section.verdicts.iter().map(|verdict| (paper.name, verdict)))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_cannot_be_finished_leaves_the_old_one() {
        let records = std::env::temp_dir().join(format!("luxor-records-{}", std::process::id()));
        let report = Report::begin(&[]);
        let json = report.record(&records, "old").unwrap();
        let table = json.with_extension("txt");
        let old = fs::read(&json).unwrap();
        // A folder in the place of the new table makes writing it fail.
        let new_table = json.with_extension("txt.new");
        fs::create_dir(&new_table).unwrap();
        let mut other = Report::begin(&[]);
        other.schema += 1;
        assert!(other.record(&records, "new").is_err());
        assert_eq!(fs::read(&json).unwrap(), old);
        assert_eq!(fs::read_to_string(&table).unwrap(), "old");
        fs::remove_dir(&new_table).unwrap();
        other.record(&records, "new").unwrap();
        assert_ne!(fs::read(&json).unwrap(), old);
        assert_eq!(fs::read_to_string(&table).unwrap(), "new");
        fs::remove_dir_all(&records).unwrap();
    }

    /// Records with another value in any place are read and shown, or refused. `LUXOR_TEST_LONG` tries
    /// 100,000.
    #[test]
    fn reports_that_others_wrote_are_shown_or_refused() {
        let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("record");
        let folders = fs::read_dir(records)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let files = folders.flat_map(|folder| fs::read_dir(folder).unwrap());
        let mut texts: Vec<_> = files
            .map(|file| file.unwrap().path())
            .filter(|file| file.extension().is_some_and(|end| end == "json"))
            .map(|file| fs::read_to_string(file).unwrap())
            .collect();
        // Reading leaks the text.
        texts.retain(|text| text.len() < 10_000);
        texts.sort();
        let others = [
            "null",
            "true",
            "-1",
            "0",
            "1e308",
            "-1e-308",
            "18446744073709551615",
            "\"\"",
            "\"é<&\"",
            "[]",
            "[[]]",
            "{}",
            "{\"a\":0}",
            "[null, 1]",
            "99999999999999999999999",
        ];
        let others = others.map(|text| serde_json::from_str::<Value>(text).unwrap());
        let folder = std::env::temp_dir().join(format!("luxor-reports-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let file = folder.join("report.json");
        let is_long = std::env::var_os("LUXOR_TEST_LONG").is_some();
        let (mut state, mut counts) = (1_u64, [0; 2]);
        let mut below = |end: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as usize % end
        };
        for _ in 0..if is_long { 100_000 } else { 500 } {
            let mut report: Value = serde_json::from_str(&texts[below(texts.len())]).unwrap();
            for _ in 0..=below(2) {
                let mut place = &mut report;
                loop {
                    let len = match place {
                        Value::Array(all) => all.len(),
                        Value::Object(all) => all.len(),
                        _ => 0,
                    };
                    if len == 0 || below(6) == 0 {
                        break;
                    }
                    let index = below(len);
                    place = match place {
                        Value::Array(all) => &mut all[index],
                        Value::Object(all) => all.iter_mut().nth(index).unwrap().1,
                        _ => unreachable!("it has a length"),
                    };
                }
                *place = others[below(others.len())].clone();
            }
            fs::write(&file, report.to_string()).unwrap();
            let read = Report::read(&file);
            counts[usize::from(read.is_ok())] += 1;
            match read {
                Ok(report) => {
                    report.text(true);
                    report.recorded();
                    let _ = (report.page(), report.pictures());
                }
                Err(error) => assert!(error.starts_with(&*file.to_string_lossy()), "{error}"),
            }
            if let Ok(record) = crate::compare::Record::read(&file) {
                record.compare(&report);
            }
        }
        fs::remove_dir_all(&folder).unwrap();
        assert!(counts.iter().all(|&count| count > 20), "{counts:?}");
    }

    #[test]
    fn a_repeatable_command_names_no_files_of_the_first_run() {
        let line = "luxor-bench cpu --luxor bin/luxor --unit 4K --json a.json --record b";
        assert_eq!(without_outputs(line), "luxor-bench cpu --unit 4K");
    }

    /// The expected values are from `date -u -d @SECONDS`.
    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc_3339(seconds), date);
        }
    }
}
