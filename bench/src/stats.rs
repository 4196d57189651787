// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics of a series of samples.

use std::{fmt, ops::Div};

use serde::{Deserialize, Serialize};

/// The median, with the two quartiles as the spread.
///
/// A measured number stays a `Summary` until it is shown, since only its own texts say that the rounds
/// disagree: [`fmt::Display`] and [`plot::value`](crate::plot::value) for the median alone,
/// [`Self::text`] with the quartiles.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    /// A quarter of the samples is below this value.
    pub(crate) lower: f64,
    /// A quarter of the samples is above this value.
    pub(crate) upper: f64,
}

impl Summary {
    /// Summarises `samples`; `None` if there are none.
    pub(crate) fn from_samples(mut samples: Vec<f64>) -> Option<Self> {
        samples.sort_by(f64::total_cmp);
        Some(Self {
            median: quantile(&samples, 0.5)?,
            lower: quantile(&samples, 0.25)?,
            upper: quantile(&samples, 0.75)?,
        })
    }

    /// Returns whether the rounds disagree so much that the median means little.
    pub(crate) fn is_unsteady(&self) -> bool {
        self.upper > 2.0 * self.lower
    }

    /// Formats the median with `number`, and says if the rounds disagree.
    pub(crate) fn shown(&self, number: impl Fn(f64) -> String) -> String {
        marked(number(self.median), self.is_unsteady())
    }

    /// Formats the summary as `median (lower - upper)`, and says if the rounds disagree. One sample has
    /// no quartiles.
    pub(crate) fn text(&self, digits: usize) -> String {
        let [median, lower, upper] =
            [self.median, self.lower, self.upper].map(|n| format!("{n:.digits$}"));
        if self.lower == self.upper {
            return median;
        }
        let unsteady = if self.is_unsteady() {
            format!("{UNSTEADY}: ")
        } else {
            String::new()
        };
        format!("{median} ({unsteady}{lower} - {upper})")
    }

    /// As [`Self::text`], for a ratio that cannot exceed `bound`.
    pub(crate) fn text_within(&self, bound: f64, digits: usize) -> String {
        if is_beyond(self.median, bound) {
            return beyond(bound, digits);
        }
        self.text(digits)
    }

    /// Returns the summary of the reciprocals.
    pub(crate) fn inverse(self) -> Self {
        Self {
            median: 1.0 / self.median,
            lower: 1.0 / self.upper,
            upper: 1.0 / self.lower,
        }
    }

    /// Returns the rates that belong to these times; that of the median is `rate`.
    pub(crate) fn as_rate(self, rate: f64) -> Self {
        self.inverse().scaled(rate * self.median)
    }

    /// Scales the summary by `factor`, which must be positive.
    pub(crate) fn scaled(self, factor: f64) -> Self {
        Self {
            median: self.median * factor,
            lower: self.lower * factor,
            upper: self.upper * factor,
        }
    }
}

/// The median with the given precision.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision();
        let number =
            |n: f64| digits.map_or_else(|| n.to_string(), |digits| format!("{n:.digits$}"));
        f.write_str(&self.shown(number))
    }
}

/// A number without rounds: printed in a paper, counted, or simulated.
impl From<f64> for Summary {
    fn from(number: f64) -> Self {
        Self {
            median: number,
            lower: number,
            upper: number,
        }
    }
}

/// The ratio of two summaries whose rounds are not the same.
impl Div for Summary {
    type Output = Self;

    fn div(self, other: Self) -> Self {
        Self {
            median: self.median / other.median,
            lower: self.lower / other.upper,
            upper: self.upper / other.lower,
        }
    }
}

/// The mark of a number whose rounds disagree.
pub(crate) const UNSTEADY: &str = "unsteady";

/// Marks a text with one or more numbers if the rounds of one of them disagree.
pub(crate) fn marked(text: String, is_unsteady: bool) -> String {
    if is_unsteady {
        format!("{text} ({UNSTEADY})")
    } else {
        text
    }
}

/// Whether a ratio that cannot exceed `bound` does, by more than its own error: the machine was disturbed
/// between the two measurements.
pub(crate) fn is_beyond(ratio: f64, bound: f64) -> bool {
    ratio > 1.01 * bound
}

/// The text in place of such a ratio, which is no result.
pub(crate) fn beyond(bound: f64, digits: usize) -> String {
    format!("disturbed: above {bound:.digits$}")
}

/// Returns the median; `None` without samples.
pub(crate) fn median(samples: Vec<f64>) -> Option<f64> {
    Some(Summary::from_samples(samples)?.median)
}

/// Interpolates linearly between the two nearest samples.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an index into the samples"
)]
fn quantile(sorted: &[f64], part: f64) -> Option<f64> {
    let place = sorted.len().checked_sub(1)? as f64 * part;
    let (below, rest) = (place.floor() as usize, place.fract());
    let above = (below + 1).min(sorted.len() - 1);
    Some(sorted[below] + (sorted[above] - sorted[below]) * rest)
}

/// Returns the order of turns of `count` contestants: each has one turn in every round, and each
/// round begins with another one.
pub(crate) fn turns(rounds: usize, count: usize) -> impl Iterator<Item = usize> {
    (0..rounds).flat_map(move |round| (0..count).map(move |at| (round + at) % count))
}

/// Summarises `a / b`, sample by sample, so that only samples of the same round are compared.
pub(crate) fn ratios(a: &[Option<f64>], b: &[Option<f64>]) -> Option<Summary> {
    let ratios = a.iter().zip(b).filter_map(|(a, b)| Some((*a)? / (*b)?));
    Summary::from_samples(ratios.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_contestant_changes_each_round() {
        let turns: Vec<usize> = turns(4, 3).collect();
        assert_eq!(turns, [0, 1, 2, 1, 2, 0, 2, 0, 1, 0, 1, 2]);
    }

    #[test]
    fn the_median_is_between_the_middle_ones() {
        let summary = |samples: &[f64]| Summary::from_samples(samples.to_vec());
        assert_eq!(summary(&[]), None);
        assert_eq!(summary(&[7.0]).unwrap().median, 7.0);
        assert_eq!(summary(&[7.0]).unwrap().text(1), "7.0");
        assert_eq!(summary(&[9.0, 1.0, 2.0]).unwrap().median, 2.0);
        assert_eq!(summary(&[9.0, 1.0, 2.0, 4.0]).unwrap().median, 3.0);
        let five = summary(&[5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert_eq!((five.lower, five.upper), (2.0, 4.0));
        assert_eq!(five.text(1), "3.0 (2.0 - 4.0)");
        let disturbed = summary(&[0.3, 0.3, 8.0]).unwrap();
        assert_eq!(disturbed.text(1), "0.3 (unsteady: 0.3 - 4.2)");
        assert_eq!(
            format!("{disturbed:.2}, {five:.2}"),
            "0.30 (unsteady), 3.00"
        );
        let fast = summary(&[1.2, 1.3]).unwrap();
        assert_eq!(fast.text_within(1.0, 2), "disturbed: above 1.00");
        assert_eq!(fast.text_within(1.25, 1), "1.2 (1.2 - 1.3)");
    }

    #[test]
    fn the_ratio_to_an_unsteady_number_is_unsteady() {
        let unsteady = Summary::from_samples(vec![1.0, 2.0, 8.0]).unwrap();
        for ratio in [unsteady / 4.0.into(), Summary::from(4.0) / unsteady] {
            assert!(ratio.is_unsteady(), "{ratio:?}");
        }
        assert_eq!(Summary::from(3.0) / 2.0.into(), 1.5.into());
    }

    #[test]
    fn ratios_are_formed_round_by_round() {
        // The machine runs at half speed in the second round; `a` has no sample of the third.
        let a = [Some(2.0), Some(4.0), None, Some(6.0)];
        let b = [Some(1.0), Some(2.0), Some(9.0), Some(3.0)];
        assert_eq!(ratios(&a, &b).unwrap().median, 2.0);
        assert_eq!(ratios(&[None], &[Some(1.0)]), None);
    }
}
