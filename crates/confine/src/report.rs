// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a process was confined by.

use std::fmt;

/// How far each [`Measure`] was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report(pub(crate) Vec<(Measure, Outcome)>);

/// A way of confining a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// No program that the process starts has more rights than the process.
    NoNewPrivileges,
    /// The capabilities of root are given up.
    Capabilities,
    /// Rules for paths, by Landlock.
    Landlock,
    /// A filter of system calls, by seccomp.
    Seccomp,
}

/// How far a measure was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Wholly.
    Taken,
    /// With the exception that the text names.
    Partly(String),
    /// Not at all, for this reason.
    Missing(String),
}

impl Report {
    /// All measures, with how far they were taken.
    #[must_use]
    pub fn measures(&self) -> &[(Measure, Outcome)] {
        &self.0
    }

    /// Whether every measure was taken wholly.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let mut outcomes = self.0.iter().map(|(_, outcome)| outcome);
        outcomes.all(|outcome| *outcome == Outcome::Taken)
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoNewPrivileges => "no_new_privs",
            Self::Capabilities => "capabilities",
            Self::Landlock => "Landlock",
            Self::Seccomp => "seccomp",
        })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken => f.write_str("yes"),
            Self::Partly(but) => write!(f, "in part ({but})"),
            Self::Missing(why) => write!(f, "no ({why})"),
        }
    }
}

/// As `no_new_privs yes, capabilities yes, Landlock no (…), seccomp yes`.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (measure, outcome)) in self.0.iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            write!(f, "{comma}{measure} {outcome}")?;
        }
        Ok(())
    }
}
