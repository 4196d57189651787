// SPDX-License-Identifier: MIT OR Apache-2.0
//! A call's runs become batches, each of which fits a queue's memory.
//!
//! Units of one length lie together in a batch, whatever runs they are from: a queue of
//! single sectors from all over a disk is one launch.

use std::{collections::HashMap, ops::Range, slice};

use luxor_engine::{DataUnitLen, Run};

use crate::device::{BLOCK, Piece, QueueSizes, STRETCH};

/// How a unit lies in a device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnitLayout {
    /// Its bytes.
    pub(crate) len: usize,
    /// Its blocks, a part of one counted.
    pub(crate) blocks: usize,
    /// Its stretches.
    pub(crate) stretches: usize,
}

impl UnitLayout {
    pub(crate) fn new(len: DataUnitLen) -> Self {
        let blocks = len.get().div_ceil(BLOCK);
        Self {
            len: len.get(),
            blocks,
            stretches: blocks.div_ceil(STRETCH),
        }
    }

    /// Its bytes with what fills the last block.
    pub(crate) fn padded(self) -> usize {
        self.blocks * BLOCK
    }

    /// Whether units follow on one another with nothing between.
    pub(crate) fn is_whole(self) -> bool {
        self.len == self.padded()
    }
}

/// What is still to do of a call.
pub(crate) struct Plan<'c, 'r> {
    runs: slice::IterMut<'c, Run<'r>>,
    rest: Option<Run<'c>>,
    /// Whether units need tweaks.
    tweaks: bool,
}

/// Some units, in a queue's memory.
pub(crate) struct Batch<'c> {
    /// In the order of `at`.
    pub(crate) parts: Vec<Part<'c>>,
    pub(crate) groups: Vec<Group>,
    /// All units.
    pub(crate) units: usize,
    /// The memory.
    pub(crate) uses: QueueSizes,
}

/// Units of one run in a batch.
pub(crate) struct Part<'c> {
    pub(crate) run: Run<'c>,
    pub(crate) group: usize,
    /// The first unit's index in the group.
    pub(crate) start: usize,
    /// Its place in the data.
    pub(crate) at: usize,
    /// Whether the input is copied to the device from where it is.
    pub(crate) goes: bool,
    /// Whether the output is copied from the device to where it belongs.
    pub(crate) comes: bool,
}

impl Part<'_> {
    /// Its place in the data.
    pub(crate) fn range(&self) -> Range<usize> {
        let unit = UnitLayout::new(self.run.unit_len());
        self.at..self.at + self.run.units() * unit.padded()
    }
}

/// Units of one length in a batch: one set of launches.
pub(crate) struct Group {
    pub(crate) unit: UnitLayout,
    pub(crate) units: usize,
    pub(crate) pieces: usize,
    pub(crate) data_at: usize,
    pub(crate) tweaks_at: usize,
    pub(crate) pieces_at: usize,
}

impl<'c, 'r> Plan<'c, 'r> {
    pub(crate) fn new(runs: &'c mut [Run<'r>], tweaks: bool) -> Self {
        Self {
            runs: runs.iter_mut(),
            rest: None,
            tweaks,
        }
    }

    /// The next unit, if there is one: a queue has to have room for it.
    pub(crate) fn next_unit(&mut self) -> Option<UnitLayout> {
        loop {
            match &self.rest {
                Some(run) if !run.is_empty() => return Some(UnitLayout::new(run.unit_len())),
                _ => self.rest = Some(self.runs.next()?.reborrow()),
            }
        }
    }

    /// As many units as fit `sizes` and have `target` bytes or fewer, but one at least.
    pub(crate) fn next_batch(&mut self, sizes: QueueSizes, target: usize) -> Batch<'c> {
        let mut batch = Batch {
            parts: Vec::new(),
            groups: Vec::new(),
            units: 0,
            uses: QueueSizes::default(),
        };
        let mut by_len = HashMap::new();
        while let Some(unit) = self.next_unit() {
            let fit = self.fit(&batch, unit, sizes, target);
            if fit == 0 {
                break;
            }
            let run = self.rest.take().expect("the next unit is its first");
            let units = fit.min(run.units());
            let (run, rest) = run.split_at(units);
            self.rest = Some(rest);

            let groups = &mut batch.groups;
            let group = *by_len.entry(unit.len).or_insert_with(|| {
                groups.push(Group::new(unit));
                groups.len() - 1
            });
            let start = groups[group].units;
            groups[group].units += units;
            groups[group].pieces += 1;
            batch.parts.push(Part {
                run,
                group,
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

    /// How many units of the run that is next go into the batch.
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

    /// The memory of some units of a run.
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

impl Group {
    fn new(unit: UnitLayout) -> Self {
        Self {
            unit,
            units: 0,
            pieces: 0,
            data_at: 0,
            tweaks_at: 0,
            pieces_at: 0,
        }
    }
}

impl Batch<'_> {
    fn lay_out(&mut self, tweaks: bool) {
        let mut at = QueueSizes::default();
        for group in &mut self.groups {
            group.data_at = at.data;
            group.tweaks_at = at.tweaks;
            group.pieces_at = at.pieces;
            at.data += group.units * group.unit.padded();
            at.tweaks += usize::from(tweaks) * group.units * group.unit.stretches * BLOCK;
            at.pieces += group.pieces * size_of::<Piece>();
        }
        // A batch is committed whole, so its order is no matter.
        self.parts.sort_by_key(|part| part.group);
        for part in &mut self.parts {
            let group = &self.groups[part.group];
            part.at = group.data_at + part.start * group.unit.padded();
        }
    }
}

#[cfg(test)]
mod tests {
    use luxor_engine::InOut;

    use super::*;

    const SIZES: QueueSizes = QueueSizes {
        data: 4096,
        tweaks: 1024,
        pieces: 8 * 32,
    };

    /// The batches of runs with these unit lengths and counts, each as its parts: run,
    /// first unit, units, place.
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
    fn units_of_one_length_lie_together() {
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
        // Data.
        let by_data = plan(&[(512, 20)], SIZES, 1 << 20);
        assert_eq!(by_data.len(), 3);
        assert_eq!(by_data[2], [[0, 16, 4, 0]]);
        // What is asked for.
        assert_eq!(plan(&[(512, 20)], SIZES, 2048).len(), 5);
        // Tweaks: 64.
        let by_tweaks = plan(&[(16, 200)], SIZES, 4096);
        assert_eq!(by_tweaks[0], [[0, 0, 64, 0]]);
        assert_eq!(by_tweaks[3], [[0, 192, 8, 0]]);
        // Pieces: 8.
        let by_pieces = plan(&[(16, 1); 20], SIZES, 4096);
        let lens: Vec<_> = by_pieces.iter().map(Vec::len).collect();
        assert_eq!(lens, [8, 8, 4]);
        // A unit is longer than what is asked for, but never than the queue.
        let long = plan(&[(4000, 2), (16, 3)], SIZES, 1024);
        assert_eq!(
            long,
            [vec![[0, 0, 1, 0]], vec![[0, 1, 1, 0]], vec![[1, 0, 3, 0]]]
        );
    }

    #[test]
    fn a_part_of_a_block_is_a_block() {
        let unit = |len| UnitLayout::new(DataUnitLen::new(len).unwrap());
        assert_eq!((unit(16).blocks, unit(17).blocks), (1, 2));
        assert_eq!((unit(4096).stretches, unit(4097).stretches), (1, 2));
        assert_eq!((unit(17).padded(), unit(4096).padded()), (32, 4096));
        assert!(unit(512).is_whole() && !unit(520).is_whole());
    }
}
