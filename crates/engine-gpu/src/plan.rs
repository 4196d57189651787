// SPDX-License-Identifier: MIT OR Apache-2.0
//! Splits the runs of a call into batches that fit a queue's memory.
//!
//! Units of one length are adjacent in a batch, whichever runs they come from. So single sectors
//! from all over a disk become one launch.

use std::{collections::HashMap, ops::Range, slice};

use luxor_engine::Run;

use crate::{
    device::QueueSizes,
    layout::{BLOCK, Piece, UnitLayout},
    span::Span,
};

/// The part of a call that is still to be done.
pub(crate) struct Plan<'c, 'r> {
    runs: slice::IterMut<'c, Run<'r>>,
    rest: Option<Run<'c>>,
    /// Whether units need tweaks.
    tweaks: bool,
}

/// Units that go through a queue's memory together.
pub(crate) struct Batch<'c> {
    /// The parts, ordered by `at`.
    pub(crate) parts: Vec<BatchPart<'c>>,
    /// One span for each unit length.
    pub(crate) spans: Vec<Span>,
    /// The number of units in all parts.
    pub(crate) units: usize,
    /// The memory that the batch uses.
    pub(crate) uses: QueueSizes,
}

/// Units of one run in a batch.
pub(crate) struct BatchPart<'c> {
    pub(crate) run: Run<'c>,
    /// The index of its span in [`Batch::spans`].
    pub(crate) span: usize,
    /// The index of the first unit in the span.
    pub(crate) start: usize,
    /// The offset in the queue's data.
    pub(crate) at: usize,
    /// Whether the input is copied to the device directly, without staging.
    pub(crate) goes: bool,
    /// Whether the output is copied from the device directly, without staging.
    pub(crate) comes: bool,
}

impl BatchPart<'_> {
    /// Returns the part's range in the queue's data.
    pub(crate) fn range(&self) -> Range<usize> {
        let unit = UnitLayout::new(self.run.unit_len());
        self.at..self.at + self.run.units() * unit.padded()
    }
}

impl<'c, 'r> Plan<'c, 'r> {
    pub(crate) fn new(runs: &'c mut [Run<'r>], tweaks: bool) -> Self {
        Self {
            runs: runs.iter_mut(),
            rest: None,
            tweaks,
        }
    }

    /// Returns the layout of the next unit, if one is left. The next queue must have room for it.
    pub(crate) fn next_unit(&mut self) -> Option<UnitLayout> {
        loop {
            match &self.rest {
                Some(run) if !run.is_empty() => return Some(UnitLayout::new(run.unit_len())),
                _ => self.rest = Some(self.runs.next()?.reborrow()),
            }
        }
    }

    /// Takes as many units as fit into `sizes` and `target` bytes, but at least one.
    pub(crate) fn next_batch(&mut self, sizes: QueueSizes, target: usize) -> Batch<'c> {
        let mut batch = Batch {
            parts: Vec::new(),
            spans: Vec::new(),
            units: 0,
            uses: QueueSizes::default(),
        };
        let mut by_len = HashMap::new();
        while let Some(unit) = self.next_unit() {
            let fit = self.fit(&batch, unit, sizes, target);
            if fit == 0 {
                break;
            }
            let run = self
                .rest
                .take()
                .expect("`next_unit` left the run with this unit in `rest`");
            let units = fit.min(run.units());
            let (run, rest) = run.split_at(units);
            self.rest = Some(rest);

            let spans = &mut batch.spans;
            let span = *by_len.entry(unit.len).or_insert_with(|| {
                spans.push(Span::empty(unit));
                spans.len() - 1
            });
            let start = spans[span].units;
            spans[span].units += units;
            spans[span].pieces += 1;
            batch.parts.push(BatchPart {
                run,
                span,
                start,
                at: 0,
                goes: false,
                comes: false,
            });
            batch.units += units;
            batch.uses = batch.uses.and(self.needs(unit, units));
        }
        batch.lay_out(self.tweaks);
        batch
    }

    /// Returns how many units of the next run still fit into the batch.
    fn fit(&self, batch: &Batch<'_>, unit: UnitLayout, sizes: QueueSizes, target: usize) -> usize {
        let (uses, one) = (batch.uses, self.needs(unit, 1));
        if uses.pieces + one.pieces > sizes.pieces {
            return 0;
        }
        let least = if batch.parts.is_empty() { one.data } else { 0 };
        let data = sizes.data.min(target.max(least));
        let by_data = data.saturating_sub(uses.data) / one.data;
        match one.tweaks {
            0 => by_data,
            tweaks => by_data.min((sizes.tweaks - uses.tweaks) / tweaks),
        }
    }

    /// Returns the memory that `units` units of one run need.
    fn needs(&self, unit: UnitLayout, units: usize) -> QueueSizes {
        QueueSizes {
            data: units * unit.padded(),
            tweaks: if self.tweaks {
                units * unit.stretches * BLOCK
            } else {
                0
            },
            pieces: size_of::<Piece>(),
        }
    }
}

impl QueueSizes {
    fn and(self, other: Self) -> Self {
        Self {
            data: self.data + other.data,
            tweaks: self.tweaks + other.tweaks,
            pieces: self.pieces + other.pieces,
        }
    }
}

impl Batch<'_> {
    fn lay_out(&mut self, tweaks: bool) {
        let mut at = QueueSizes::default();
        for span in &mut self.spans {
            (span.input_at, span.output_at) = (at.data, at.data);
            span.tweaks_at = at.tweaks;
            span.pieces_at = at.pieces;
            at.data += span.units * span.unit.padded();
            at.tweaks += usize::from(tweaks) * span.tweaks();
            at.pieces += span.pieces * size_of::<Piece>();
        }
        // A batch is committed whole, so the order of its parts does not matter.
        self.parts.sort_by_key(|part| part.span);
        for part in &mut self.parts {
            let span = &self.spans[part.span];
            part.at = span.input_at + part.start * span.unit.padded();
        }
    }
}

#[cfg(test)]
mod tests {
    use luxor_engine::{DataUnitLen, InOut};

    use super::*;

    const SIZES: QueueSizes = QueueSizes {
        data: 4096,
        tweaks: 1024,
        pieces: 8 * 32,
    };

    /// Plans runs with these unit lengths and counts. Returns the parts of each batch: run, first
    /// unit, number of units, offset in the data.
    fn plan(runs: &[(usize, usize)], sizes: QueueSizes, target: usize) -> Vec<Vec<[usize; 4]>> {
        let mut bytes: Vec<Vec<u8>> = runs
            .iter()
            .map(|(len, units)| vec![0; len * units])
            .collect();
        let mut runs: Vec<_> = (0_u64..)
            .zip(runs.iter().zip(&mut bytes))
            .map(|(i, ((len, _), bytes))| {
                let unit = DataUnitLen::new(*len).unwrap();
                let first = u128::from(i * 1000).into();
                Run::new(first, 1, unit, InOut::InPlace(bytes)).unwrap()
            })
            .collect();
        let mut plan = Plan::new(&mut runs, true);
        let mut batches = Vec::new();
        while plan.next_unit().is_some() {
            let batch = plan.next_batch(sizes, target);
            assert!(batch.uses.data <= sizes.data);
            assert!(batch.uses.tweaks <= sizes.tweaks);
            assert!(batch.uses.pieces <= sizes.pieces);
            let parts = batch.parts.iter().map(|part| {
                let number = usize::try_from(part.run.first().get()).unwrap();
                [number / 1000, number % 1000, part.run.units(), part.at]
            });
            batches.push(parts.collect());
            let units: usize = batch.parts.iter().map(|part| part.run.units()).sum();
            assert_eq!(batch.units, units);
        }
        batches
    }

    #[test]
    fn units_of_one_length_are_adjacent() {
        let runs = [(512, 1), (17, 2), (512, 2), (0x20, 0), (17, 1)];
        let expected = vec![vec![
            [0, 0, 1, 0],
            [2, 0, 2, 512],
            [1, 0, 2, 1536],
            [4, 0, 1, 1600],
        ]];
        assert_eq!(plan(&runs, SIZES, 4096), expected);
    }

    #[test]
    fn a_batch_fits_in_every_way() {
        // Limited by data.
        let by_data = plan(&[(512, 20)], SIZES, 1 << 20);
        assert_eq!(by_data.len(), 3);
        assert_eq!(by_data[2], [[0, 16, 4, 0]]);
        // Limited by `target`.
        assert_eq!(plan(&[(512, 20)], SIZES, 2048).len(), 5);
        // Limited by tweaks: room for 64.
        let by_tweaks = plan(&[(16, 200)], SIZES, 4096);
        assert_eq!(by_tweaks[0], [[0, 0, 64, 0]]);
        assert_eq!(by_tweaks[3], [[0, 192, 8, 0]]);
        // Limited by pieces: room for 8.
        let by_pieces = plan(&[(16, 1); 20], SIZES, 4096);
        let lens: Vec<_> = by_pieces.iter().map(Vec::len).collect();
        assert_eq!(lens, [8, 8, 4]);
        // A unit may be longer than `target`, but not than the queue's data.
        let long = plan(&[(4000, 2), (16, 3)], SIZES, 1024);
        assert_eq!(
            long,
            [vec![[0, 0, 1, 0]], vec![[0, 1, 1, 0]], vec![[1, 0, 3, 0]]]
        );
    }
}
