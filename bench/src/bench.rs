// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface of an experiment: a [`Bench`], and its [`Entry`] in the table [`crate::benches`],
//! through which the command line, the JSON and the page find it.

use clap::{ArgMatches, Args, Command, FromArgMatches};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{rivals::Rival, section::Section, settings::Settings};

/// An experiment with its options.
pub(crate) trait Bench: Sized {
    /// The description for `--help`.
    const HELP: &'static str;
    /// The description for `--help` with this bench alone: what is measured, beside what, and what it needs.
    const ABOUT: &'static str = Self::HELP;
    /// The meaning of `--size` for this bench, with its defaults.
    const SIZE: Option<&'static str> = None;
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

    /// Describes the result.
    fn section(report: &Self::Report) -> Section;
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
    /// Adds the bench's own options.
    pub(crate) options: fn(Command) -> Command,
    /// [`Bench::check`].
    pub(crate) check: fn(&Context, &ArgMatches) -> Result<(), String>,
    /// [`Bench::measure`].
    pub(crate) measure: fn(&Context, &ArgMatches) -> Result<Outcome, String>,
    /// Reads the JSON of an earlier run.
    pub(crate) read: fn(&'static Value) -> Result<Outcome, String>,
}

/// The result of a bench.
pub(crate) struct Outcome {
    pub(crate) json: Value,
    pub(crate) section: Section,
}

impl Entry {
    /// The entry of `B`.
    pub(crate) const fn new<B: Bench>(name: &'static str) -> Self {
        Self {
            name,
            help: B::HELP,
            about: B::ABOUT,
            size: B::SIZE,
            options: B::Options::augment_args,
            check: |context, matches| bench::<B>(context, matches)?.check(),
            measure: |context, matches| {
                Outcome::from_report::<B>(&bench::<B>(context, matches)?.measure()?)
            },
            read: |json| {
                let report = B::Report::deserialize(json).map_err(|e| e.to_string())?;
                Outcome::from_report::<B>(&report)
            },
        }
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

impl Outcome {
    fn from_report<B: Bench>(report: &B::Report) -> Result<Self, String> {
        Ok(Self {
            json: serde_json::to_value(report).map_err(|e| e.to_string())?,
            section: B::section(report),
        })
    }
}
