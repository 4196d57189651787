// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a disk may contain after a power cut.

use std::{
    any::Any,
    collections::HashSet,
    env, fmt,
    hash::{BuildHasher, BuildHasherDefault},
    iter,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
};

use super::{Faults, FaultyStorage, ImageHasher, Operation, SyncOutcome};
use crate::MemoryStorage;

/// The number of bytes that a disk writes completely or not at all.
const SECTOR: usize = 512;

/// Up to this many operations, all subsets are tried.
const FEW: usize = 6;

/// The number of random images, and the most pairs of overlapping writes that are swapped.
const RANDOM: usize = 64;

/// A test of what an operation leaves behind if the power is cut.
#[derive(Clone, Copy, Debug)]
pub struct PowerCuts<'a> {
    /// The durable content of the storage before the operation. Empty by default.
    pub image: &'a [u8],
    /// Further faults. None by default.
    pub faults: Faults,
    /// The seed of the random images. By default it is the environment variable `LUXOR_TEST_SEED`
    /// (decimal, or hexadecimal after `0x`), or a constant if that is not set. [`Broken`] names it.
    pub seed: u64,
}

impl Default for PowerCuts<'_> {
    /// # Panics
    /// If `LUXOR_TEST_SEED` is set and not a number as in [`PowerCuts::seed`].
    fn default() -> Self {
        Self {
            image: &[],
            faults: Faults::default(),
            seed: seed(),
        }
    }
}

impl PowerCuts<'_> {
    /// Runs `operation` once on a [`FaultyStorage`], then cuts the power before its first recorded
    /// operation and after each. For every cut, calls `check` with each image that the disk may
    /// contain. Returns the number of images checked, at least one for each cut.
    ///
    /// See [`FaultyStorage::cut_power`] for the images and their cost.
    ///
    /// # Errors
    /// The first image for which `check` returns an error or panics, with everything that is needed
    /// to reproduce it.
    pub fn check<E: fmt::Display>(
        &self,
        operation: impl FnOnce(&FaultyStorage),
        mut check: impl FnMut(MemoryStorage, &Cut<'_>) -> Result<(), E>,
    ) -> Result<usize, Broken> {
        let storage = FaultyStorage::with_faults(self.image.to_vec(), self.faults);
        operation(&storage);
        (0..=storage.operation_count())
            .map(|after| storage.cut_power(after, self.seed, &mut check))
            .sum()
    }
}

impl FaultyStorage {
    /// Cuts the power after the first `after` of the recorded operations, and calls `check` with
    /// each image that the disk may contain. The storage is unchanged. Returns the number of images
    /// checked, at least one and no two equal.
    ///
    /// With up to 6 operations that are not durable, the images are all their subsets. (A write
    /// that grows a file counts as two.) With more operations, they are: none, all, all except each
    /// one, and each one alone, where a growth counts both alone and together with its write.
    /// Further images tear each write (only its first sector is kept, all other sectors, or some),
    /// with all other writes kept, with none, and with all torn. Further images swap two
    /// overlapping writes, for at most 64 pairs. At last come 64 images in which random operations
    /// are kept, lost and torn, in a random order.
    ///
    /// With n operations that are not durable, these are up to 10 n + 128 images, each as long as
    /// the storage.
    ///
    /// # Errors
    /// The first image for which `check` returns an error or panics.
    ///
    /// # Panics
    /// If fewer than `after` operations were recorded.
    pub fn cut_power<E: fmt::Display>(
        &self,
        after: usize,
        seed: u64,
        mut check: impl FnMut(MemoryStorage, &Cut<'_>) -> Result<(), E>,
    ) -> Result<usize, Broken> {
        let operations = self.operations();
        let disk = Disk::at_cut(&self.image, &operations[..after]);
        // Each cut has its own random numbers, so that it can be reproduced without the others.
        let mut random = Random(Random(seed).next() ^ after as u64);
        let hasher = BuildHasherDefault::<ImageHasher>::default();
        let mut seen = HashSet::new();
        for plan in disk.plans(&mut random) {
            let image = disk.image(&plan);
            if !seen.insert(hasher.hash_one(&image)) {
                continue;
            }
            let cut = Cut {
                after,
                of: operations.len(),
                seed,
                operation: after.checked_sub(1).map(|last| &operations[last]),
                disk: &disk,
                plan,
            };
            let check = || check(MemoryStorage::new(image), &cut);
            let error = match catch_unwind(AssertUnwindSafe(check)) {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => error.to_string(),
                Err(panic) => panic_message(&*panic),
            };
            return Err(Broken {
                error,
                cut: cut.to_string(),
            });
        }
        Ok(seen.len())
    }
}

/// A power cut, and what became of the operations that were not durable. Its `Display` text
/// contains everything that is needed to reproduce it.
pub struct Cut<'a> {
    /// The number of [operations](FaultyStorage::operations) before the cut.
    pub after: usize,
    /// The number of operations in total. If it equals `after`, the cut came after everything.
    pub of: usize,
    seed: u64,
    /// The last operation before the cut.
    operation: Option<&'a Operation>,
    disk: &'a Disk<'a>,
    plan: Plan,
}

/// An image that a check rejected: the check's message, and the [`Cut`].
#[derive(thiserror::Error)]
#[error("{error}\n{cut}")]
pub struct Broken {
    error: String,
    cut: String,
}

/// The same as `Display`, for `unwrap`.
impl fmt::Debug for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("the check panicked").to_owned()
}

/// What is known to be on a disk, and what may be on it.
struct Disk<'a> {
    /// The oldest operations, all of them durable, applied in order.
    base: Contents,
    /// The later operations, without syncs.
    items: Vec<Item<'a>>,
    /// The indices in `items` of operations that may be lost.
    uncertain: Vec<usize>,
    /// The number of epochs so far.
    epochs: usize,
}

struct Item<'a> {
    /// The number of the operation, from 1.
    number: usize,
    operation: &'a Operation,
    /// Another number after each sync that was not ignored. Writes of one epoch can reach the disk in
    /// any order.
    epoch: usize,
    durable: bool,
}

/// One possible outcome of a power cut.
struct Plan {
    /// The fate of each item.
    fates: Vec<Fate>,
    /// The indices of the items in the order in which they reach the disk.
    order: Vec<usize>,
}

#[derive(Clone)]
enum Fate {
    Kept,
    Lost,
    /// For each sector of a write, whether it is kept.
    Torn(Vec<bool>),
}

#[derive(Clone)]
struct Contents {
    /// May be longer than `len`.
    bytes: Vec<u8>,
    len: usize,
}

impl<'a> Disk<'a> {
    fn at_cut(image: &[u8], operations: &'a [Operation]) -> Self {
        let mut disk = Self {
            base: Contents {
                bytes: image.to_vec(),
                len: image.len(),
            },
            items: Vec::new(),
            uncertain: Vec::new(),
            epochs: 0,
        };
        // The files have no bytes in common, so their order does not matter.
        let mut files: Vec<_> = operations.iter().filter_map(Operation::file).collect();
        files.sort_unstable_by_key(|file| file.start);
        files.dedup();
        for file in files.iter().map(|file| Some(*file)).chain([None]) {
            let numbered = (1..).zip(operations);
            let concerns = |operation: &Operation| match operation {
                Operation::FileSync { file: synced, .. } => Some(synced) == file,
                Operation::Sync(_) => true,
                Operation::Write { offset, .. } => {
                    let is_in = |file: &&&Range<usize>| file.contains(offset);
                    files.iter().find(is_in).copied() == file
                }
                Operation::Growth { .. } => file.is_none(),
            };
            disk.add_file(numbered.filter(|(_, operation)| concerns(operation)));
        }
        disk
    }

    /// Adds the operations on a file, and their numbers.
    fn add_file(&mut self, operations: impl Iterator<Item = (usize, &'a Operation)>) {
        let operations: Vec<_> = operations.collect();
        let outcome = |(_, operation): &(usize, &Operation)| operation.sync_outcome();
        let ends_epoch = |operation: &_| {
            let outcome = outcome(operation);
            matches!(outcome, Some(SyncOutcome::Durable | SyncOutcome::Failed))
        };
        let others = self.uncertain.len();
        for operations in operations.split_inclusive(ends_epoch) {
            self.epochs += 1;
            let durable = operations.last().and_then(outcome) == Some(SyncOutcome::Durable);
            for &(number, operation) in operations {
                if operation.sync_outcome().is_some() {
                    continue;
                }
                if durable && self.uncertain.len() == others {
                    self.base.apply(operation, &Fate::Kept);
                    continue;
                }
                if !durable {
                    self.uncertain.push(self.items.len());
                }
                self.items.push(Item {
                    number,
                    operation,
                    epoch: self.epochs,
                    durable,
                });
            }
        }
    }

    fn image(&self, plan: &Plan) -> Vec<u8> {
        let mut contents = self.base.clone();
        for &i in &plan.order {
            contents.apply(self.items[i].operation, &plan.fates[i]);
        }
        contents.bytes.resize(contents.len, 0);
        contents.bytes
    }

    fn plans(&self, random: &mut Random) -> Vec<Plan> {
        let uncertain = &self.uncertain;
        // First the outcome that keeps everything, which is the easiest to debug.
        let mut plans = vec![self.all_but(&[])];
        if uncertain.is_empty() {
            return plans;
        }
        plans.push(self.only(&[]));
        if uncertain.len() <= FEW {
            plans.extend((1..(1 << uncertain.len()) - 1).map(|subset: usize| {
                let kept = (0..uncertain.len()).filter(|k| subset >> k & 1 == 1);
                self.only(&kept.map(|k| uncertain[k]).collect::<Vec<_>>())
            }));
        } else {
            for one in uncertain.chunks(1).chain(self.grown()) {
                plans.extend([self.all_but(one), self.only(one)]);
            }
        }
        let patterns: [fn(usize, &mut Random) -> bool; 3] = [
            |sector, _| sector == 0,
            |sector, _| sector != 0,
            |_, random| random.below(2) == 0,
        ];
        for is_kept in patterns {
            let mut all_torn = self.all_but(&[]);
            for &i in uncertain {
                let sectors = self.items[i].sectors();
                if sectors < 2 {
                    continue;
                }
                let torn = Fate::Torn((0..sectors).map(|k| is_kept(k, random)).collect());
                all_torn.fates[i] = torn.clone();
                // A torn write is visible only with the growth that it needs.
                let needed: Vec<_> = self.grown().filter(|both| both.contains(&i)).collect();
                plans.extend([
                    self.all_but(&[]).with(i, torn.clone()),
                    self.only(&needed.concat()).with(i, torn),
                ]);
            }
            plans.push(all_torn);
        }
        let mut pairs = self.overlapping();
        random.shuffle(&mut pairs);
        plans.extend(pairs.iter().take(RANDOM).map(|&(earlier, later)| {
            let mut plan = self.all_but(&[]);
            plan.order[earlier..=later].rotate_left(1);
            plan
        }));
        plans.extend((0..RANDOM).map(|_| self.random(random)));
        plans
    }

    fn only(&self, kept: &[usize]) -> Plan {
        let fates = self.items.iter().enumerate().map(|(i, item)| {
            if item.durable || kept.contains(&i) {
                Fate::Kept
            } else {
                Fate::Lost
            }
        });
        Plan {
            fates: fates.collect(),
            order: (0..self.items.len()).collect(),
        }
    }

    fn all_but(&self, lost: &[usize]) -> Plan {
        let mut plan = self.only(&self.uncertain);
        for &i in lost {
            plan.fates[i] = Fate::Lost;
        }
        plan
    }

    fn random(&self, random: &mut Random) -> Plan {
        let mut plan = self.all_but(&[]);
        for &i in &self.uncertain {
            let sectors = self.items[i].sectors();
            plan.fates[i] = match random.below(if sectors < 2 { 2 } else { 3 }) {
                0 => Fate::Kept,
                1 => Fate::Lost,
                _ => Fate::Torn((0..sectors).map(|_| random.below(2) == 0).collect()),
            };
        }
        if random.below(2) == 0 {
            let epochs = plan
                .order
                .chunk_by_mut(|&a, &b| self.items[a].epoch == self.items[b].epoch);
            for epoch in epochs.filter(|epoch| !self.items[epoch[0]].durable) {
                random.shuffle(epoch);
            }
        }
        plan
    }

    /// Each uncertain growth together with its write.
    fn grown(&self) -> impl Iterator<Item = &[usize]> {
        self.uncertain
            .windows(2)
            .filter(|two| matches!(self.items[two[0]].operation, Operation::Growth { .. }))
    }

    /// The pairs of writes, the earlier one first, that overlap and can reach the disk in either
    /// order.
    fn overlapping(&self) -> Vec<(usize, usize)> {
        let mut pairs = Vec::new();
        for (k, &later) in self.uncertain.iter().enumerate() {
            for &earlier in &self.uncertain[..k] {
                let (a, b) = (&self.items[earlier], &self.items[later]);
                let (x, y) = (a.range(), b.range());
                if a.epoch == b.epoch && x.start.max(y.start) < x.end.min(y.end) {
                    pairs.push((earlier, later));
                }
            }
        }
        pairs
    }
}

impl Operation {
    /// The file that it makes durable, if it is not all of the storage.
    fn file(&self) -> Option<&Range<usize>> {
        match self {
            Self::FileSync { file, .. } => Some(file),
            _ => None,
        }
    }

    fn sync_outcome(&self) -> Option<SyncOutcome> {
        match self {
            Self::Sync(outcome) | Self::FileSync { outcome, .. } => Some(*outcome),
            _ => None,
        }
    }
}

impl Item<'_> {
    /// The range of bytes that it writes.
    fn range(&self) -> Range<usize> {
        match self.operation {
            Operation::Write { offset, bytes } => *offset..offset + bytes.len(),
            _ => 0..0,
        }
    }

    /// The number of sectors that it writes, at least in part.
    fn sectors(&self) -> usize {
        match self.operation {
            Operation::Write { offset, bytes } => sectors(*offset, bytes).count(),
            _ => 0,
        }
    }
}

impl Plan {
    fn with(mut self, i: usize, fate: Fate) -> Self {
        self.fates[i] = fate;
        self
    }
}

impl Contents {
    fn apply(&mut self, operation: &Operation, fate: &Fate) {
        let is_kept = |k: usize| match fate {
            Fate::Kept => true,
            Fate::Lost => false,
            Fate::Torn(kept) => kept[k],
        };
        match operation {
            Operation::Write { offset, bytes } => {
                let kept = sectors(*offset, bytes)
                    .enumerate()
                    .filter(|(k, _)| is_kept(*k));
                for (_, (start, part)) in kept {
                    let end = start + part.len();
                    if self.bytes.len() < end {
                        self.bytes.resize(end, 0);
                    }
                    self.bytes[start..end].copy_from_slice(part);
                }
            }
            Operation::Growth { to, .. } if is_kept(0) => self.len = self.len.max(*to),
            Operation::Growth { .. } | Operation::Sync(_) | Operation::FileSync { .. } => {}
        }
    }
}

/// Splits a write at sector borders. Yields the offset and the bytes of each part.
fn sectors(offset: usize, bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let to_border = SECTOR - offset % SECTOR;
    let (first, rest) = bytes.split_at(to_border.min(bytes.len()));
    let starts = (offset + to_border..).step_by(SECTOR);
    iter::once((offset, first)).chain(starts.zip(rest.chunks(SECTOR)))
}

impl fmt::Display for Cut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { after, of, .. } = self;
        match self.operation {
            None => write!(f, "power cut before operation 1 of {of}")?,
            Some(operation) => {
                write!(f, "power cut after operation {after} of {of} ({operation})")?;
            }
        }
        write!(f, ", LUXOR_TEST_SEED={:#x}", self.seed)?;
        if !self.plan.order.is_sorted() {
            f.write_str("; they reached the disk in this order")?;
        }
        for &i in &self.plan.order {
            let item = &self.disk.items[i];
            write!(f, "\n  {} ({}): ", item.number, item.operation)?;
            match &self.plan.fates[i] {
                Fate::Kept if item.durable => f.write_str("durable")?,
                Fate::Kept => f.write_str("kept")?,
                Fate::Lost => f.write_str("lost")?,
                Fate::Torn(kept) => {
                    f.write_str("torn, its sectors kept (1) and lost (0): ")?;
                    for &kept in kept {
                        f.write_str(if kept { "1" } else { "0" })?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Cut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn seed() -> u64 {
    let Ok(text) = env::var("LUXOR_TEST_SEED") else {
        return 0x1619_2007_0197_2001;
    };
    text.strip_prefix("0x")
        .map_or_else(|| text.parse(), |digits| u64::from_str_radix(digits, 16))
        .unwrap_or_else(|_| panic!("LUXOR_TEST_SEED is {text:?}, not a number"))
}

/// `SplitMix64` (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number
/// Generators", OOPSLA 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    #[expect(clippy::cast_possible_truncation, reason = "less than `bound`")]
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end + 1));
        }
    }
}
