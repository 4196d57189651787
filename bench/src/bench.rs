// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an experiment is to the program: a [`Bench`], and its [`Entry`] in the table of all
//! ([`crate::benches`]), by which the command line, the JSON and the page find it.

use clap::{ArgMatches, Args, Command, FromArgMatches};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{rivals::Rival, section::Section, settings::Settings};

/// What is to be measured by an experiment.
pub(crate) trait Bench: Sized {
    /// As on the command line; in the JSON with `_` for `-`.
    const NAME: &'static str;
    /// What it is, for `--help`.
    const HELP: &'static str;
    /// What `--size` is to it, with its defaults.
    const SIZE: Option<&'static str> = None;
    /// The options that it alone has.
    type Options: Args;
    /// What comes out: a member of the JSON, and all that the section is made of.
    type Report: Serialize + Deserialize<'static>;

    /// By the options.
    fn new(context: &Context, options: Self::Options) -> Result<Self, String>;

    /// Sees to it that nothing is missing here.
    fn check(&self) -> Result<(), String>;

    /// Measures.
    fn measure(&self) -> Result<Self::Report, String>;

    /// What is said about it.
    fn section(report: &Self::Report) -> Section;
}

/// What all experiments are given.
pub(crate) struct Context {
    pub(crate) settings: Settings,
    /// All that this program was built with.
    pub(crate) rivals: &'static [Box<dyn Rival>],
}

// The options of a bench that has none of its own: clap would show a comment for users.
#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct NoOptions {}

/// A bench in the table.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) size: Option<&'static str>,
    /// Adds its own options.
    pub(crate) options: fn(Command) -> Command,
    /// [`Bench::check`].
    pub(crate) check: fn(&Context, &ArgMatches) -> Result<(), String>,
    /// [`Bench::measure`].
    pub(crate) measure: fn(&Context, &ArgMatches) -> Result<Outcome, String>,
    /// What an earlier run measured, by its JSON.
    pub(crate) read: fn(&'static Value) -> Result<Outcome, String>,
}

/// What was measured.
pub(crate) struct Outcome {
    pub(crate) json: Value,
    pub(crate) section: Section,
}

impl Entry {
    /// That of `B`.
    pub(crate) const fn of<B: Bench>() -> Self {
        Self {
            name: B::NAME,
            help: B::HELP,
            size: B::SIZE,
            options: B::Options::augment_args,
            check: |context, matches| bench::<B>(context, matches)?.check(),
            measure: |context, matches| Outcome::of::<B>(&bench::<B>(context, matches)?.measure()?),
            read: |json| {
                let report = B::Report::deserialize(json).map_err(|e| e.to_string())?;
                Outcome::of::<B>(&report)
            },
        }
    }

    /// Its member in the JSON.
    pub(crate) fn key(&self) -> String {
        self.name.replace('-', "_")
    }
}

fn bench<B: Bench>(context: &Context, matches: &ArgMatches) -> Result<B, String> {
    let options = B::Options::from_arg_matches(matches).map_err(|e| e.to_string())?;
    B::new(context, options)
}

impl Outcome {
    fn of<B: Bench>(report: &B::Report) -> Result<Self, String> {
        Ok(Self {
            json: serde_json::to_value(report).map_err(|e| e.to_string())?,
            section: B::section(report),
        })
    }
}
