// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface of an experiment: a [`Bench`], and its [`Entry`] in the table [`crate::benches`],
//! through which the command line, the JSON and the page find it.

use std::time::{Duration, Instant};

use clap::{ArgMatches, Args, Command, FromArgMatches};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    committed,
    disturbance::{Disturbance, Watch},
    rivals::Rival,
    section::Section,
    settings::Settings,
};

/// An experiment with its options.
pub(crate) trait Bench: Sized {
    /// The description for `--help`.
    const HELP: &'static str;
    /// The description for `--help` with this bench alone: what is measured, beside what, and what it needs.
    const ABOUT: &'static str = Self::HELP;
    /// The meaning of `--size` for this bench, with its defaults.
    const SIZE: Option<&'static str> = None;
    /// Whether other programs can disturb the bench: it measures times.
    const IS_TIMED: bool = true;
    /// The options that only this bench has.
    type Options: Args;
    /// The result: a member of the JSON, from which the section is made.
    type Report: Serialize + Deserialize<'static>;

    /// Creates the experiment from the options.
    fn new(context: &Context, options: Self::Options) -> Result<Self, String>;

    /// Checks that everything the bench needs is available.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Runs the experiment.
    fn measure(&self) -> Result<Self::Report, String>;

    /// Adds to a result that was read what its record has from other benches.
    fn complete(_: &mut Self::Report, _: &'static Map<String, Value>) -> Result<(), String> {
        Ok(())
    }

    /// Describes the result.
    fn section(report: &Self::Report) -> Section;

    /// Returns the result from committed measurements, for a bench that measures nothing here.
    fn committed() -> Option<Result<Self::Report, String>> {
        None
    }

    /// Returns whether the bench is about GPUs and had none. A committed record is then shown too.
    fn lacks_gpu(_: &Self::Report) -> bool {
        false
    }
}

/// The input of all experiments.
pub(crate) struct Context {
    pub(crate) settings: Settings,
    /// All rivals that this program was built with.
    pub(crate) rivals: &'static [Box<dyn Rival>],
}

// The options of a bench that has none of its own: clap would show a comment for users.
#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct NoOptions {}

/// A bench in the table.
pub(crate) struct Entry {
    /// The name on the command line. The JSON uses `_` instead of `-`.
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) about: &'static str,
    pub(crate) size: Option<&'static str>,
    /// [`Bench::IS_TIMED`].
    is_timed: bool,
    /// Adds the bench's own options.
    pub(crate) options: fn(Command) -> Command,
    /// [`Bench::check`].
    pub(crate) check: fn(&Context, &ArgMatches) -> Result<(), String>,
    /// [`Bench::measure`].
    run: fn(&Context, &ArgMatches) -> Result<Outcome, String>,
    /// [`Bench::committed`].
    pub(crate) committed: fn() -> Option<Result<Outcome, String>>,
    /// Reads the bench's member of the JSON of an earlier run, and all members.
    parse: fn(&'static Value, &'static Map<String, Value>) -> Result<Outcome, String>,
}

/// The result of a bench.
pub(crate) struct Outcome {
    pub(crate) json: Value,
    pub(crate) section: Section,
    lacks_gpu: bool,
}

impl Entry {
    /// The entry of `B`.
    pub(crate) const fn new<B: Bench>(name: &'static str) -> Self {
        Self {
            name,
            help: B::HELP,
            about: B::ABOUT,
            size: B::SIZE,
            is_timed: B::IS_TIMED,
            options: B::Options::augment_args,
            check: |context, matches| bench::<B>(context, matches)?.check(),
            run: |context, matches| {
                Outcome::from_report::<B>(&bench::<B>(context, matches)?.measure()?)
            },
            committed: || {
                let report = B::committed()?;
                Some(report.and_then(|report| Outcome::from_report::<B>(&report)))
            },
            parse: |json, all| {
                let mut report = B::Report::deserialize(json).map_err(|e| e.to_string())?;
                B::complete(&mut report, all)?;
                Outcome::from_report::<B>(&report)
            },
        }
    }

    /// Runs the experiment, and again if it was disturbed and is short, but not for a quick look. The
    /// calmest run counts.
    pub(crate) fn measure(
        &self,
        context: &Context,
        matches: &ArgMatches,
    ) -> Result<Outcome, String> {
        let begun = Instant::now();
        let run = || {
            let watch = Watch::begin();
            let outcome = (self.run)(context, matches)?;
            Ok::<_, String>((outcome, watch.end()))
        };
        let (mut outcome, mut disturbance) = run()?;
        let most = if context.settings.quick || !self.is_timed {
            0
        } else {
            MOST_REPEATS
        };
        for _ in 0..most {
            if !disturbance.is_large() || begun.elapsed() > LAST_REPEAT {
                break;
            }
            let (name, text) = (self.name, disturbance.text());
            eprintln!("luxor-bench: {name}: {text}; measuring again");
            let (again, others) = run()?;
            if others.total() < disturbance.total() {
                (outcome, disturbance) = (again, others);
            }
        }
        let about = serde_json::to_value(disturbance).map_err(|e| e.to_string())?;
        if let Some(fields) = outcome.json.as_object_mut() {
            fields.insert(DISTURBANCE.to_owned(), about);
        }
        self.beside_record(self.marked(outcome, disturbance))
    }

    /// Reads the result from the JSON of an earlier run; `None` if it has none.
    pub(crate) fn read(&self, all: &'static Map<String, Value>) -> Result<Option<Outcome>, String> {
        let outcome = self.parsed(all)?;
        outcome
            .map(|outcome| self.beside_record(outcome))
            .transpose()
    }

    fn parsed(&self, all: &'static Map<String, Value>) -> Result<Option<Outcome>, String> {
        let Some(json) = all.get(&self.key()) else {
            return Ok(None);
        };
        let outcome = (self.parse)(json, all)?;
        // Older results do not have it.
        let disturbance = json.get(DISTURBANCE).map(Disturbance::deserialize);
        let disturbance = disturbance.transpose().map_err(|e| e.to_string())?;
        Ok(Some(self.marked(outcome, disturbance.unwrap_or_default())))
    }

    /// Says that the bench was disturbed, if it was.
    fn marked(&self, outcome: Outcome, disturbance: Disturbance) -> Outcome {
        if !self.is_timed || !disturbance.is_large() {
            return outcome;
        }
        let section = outcome.section.disturbed(&disturbance.text());
        Outcome { section, ..outcome }
    }

    /// Shows the committed record of a GPU beside a result without one.
    fn beside_record(&self, outcome: Outcome) -> Result<Outcome, String> {
        if !outcome.lacks_gpu {
            return Ok(outcome);
        }
        let Some(record) = self.parsed(committed::h200())? else {
            return Ok(outcome);
        };
        let section = outcome
            .section
            .beside_record(record.section, committed::H200);
        Ok(Outcome { section, ..outcome })
    }

    /// Returns the name of its member in the JSON.
    pub(crate) fn key(&self) -> String {
        self.name.replace('-', "_")
    }
}

fn bench<B: Bench>(context: &Context, matches: &ArgMatches) -> Result<B, String> {
    let options = B::Options::from_arg_matches(matches).map_err(|e| e.to_string())?;
    B::new(context, options)
}

/// A bench that was disturbed is run again at most so often, and not after so long a time.
const MOST_REPEATS: usize = 2;
const LAST_REPEAT: Duration = Duration::from_secs(20);

/// The member of a bench's JSON with its [`Disturbance`].
const DISTURBANCE: &str = "disturbance";

impl Outcome {
    fn from_report<B: Bench>(report: &B::Report) -> Result<Self, String> {
        Ok(Self {
            json: serde_json::to_value(report).map_err(|e| e.to_string())?,
            section: B::section(report),
            lacks_gpu: B::lacks_gpu(report),
        })
    }
}

#[cfg(test)]
mod tests;
