// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plans how the keyslot areas of a LUKS1 volume make room for LUKS2's headers, which cover its
//! first 32 KiB, so that no key is lost at any instant.
//!
//! The plans, in the order in which they are tried:
//!
//! ```text
//! shift      if 28 KiB are free after the last area: all areas move up by 28 KiB, the last
//!            one first. cryptsetup does the same, and so can shift them back. An area
//!            cannot be copied over itself, so its key first moves to an empty keyslot
//! stay       if no keyslot is empty: areas after the headers stay, and the others are
//!            copied to free places
//! move       if no place is free: a key with an area in the way moves to an empty keyslot
//! ```
//!
//! After `shift` and `stay` there is room for eight keyslots in LUKS2, so that Luxor or cryptsetup
//! can convert the volume back to LUKS1.

use super::{layout::AREA_ALIGNMENT, phdr::KEYSLOTS};

/// The steps of a relocation, in order, and their result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RelocationPlan {
    pub steps: Vec<RelocationStep>,
    pub end: KeyslotAreas,
    /// For each keyslot that is used at the end: the number that its key had before.
    pub numbers: [usize; KEYSLOTS],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RelocationStep {
    /// Moves the keyslot's area to `offset`. The old and the new range may overlap only if the
    /// keyslot is empty.
    Place { slot: usize, offset: u64 },
    /// Moves the key of keyslot `from` to keyslot `to`, which is empty.
    Move { from: usize, to: usize },
}

/// The offsets of the areas, and which of them are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyslotAreas {
    pub offsets: [u64; KEYSLOTS],
    pub used: [bool; KEYSLOTS],
    /// The length of each area.
    pub len: u64,
    /// The offset at which all areas must have ended.
    pub limit: u64,
}

/// Plans a relocation after which all used areas begin at byte `begin` or later. Returns `None` if
/// there is no room.
pub(super) fn plan(areas: &KeyslotAreas, begin: u64) -> Option<RelocationPlan> {
    shift(areas, begin)
        .or_else(|| stay(areas, begin))
        .or_else(|| move_only(areas, begin))
}

fn stay(areas: &KeyslotAreas, begin: u64) -> Option<RelocationPlan> {
    let mut plan = RelocationPlan::new(areas);
    for slot in plan.covered(begin) {
        let all = plan.end.offsets;
        let offset = places(all.to_vec(), areas.len, begin, areas.limit).next()?;
        plan.take(RelocationStep::Place { slot, offset });
    }
    let used: Vec<u64> = plan
        .end
        .keyslots(true)
        .map(|slot| plan.end.offsets[slot])
        .collect();
    let free = KEYSLOTS - used.len();
    let fits = places(used, areas.len, begin, areas.limit)
        .take(free)
        .count()
        == free;
    fits.then_some(plan)
}

fn shift(areas: &KeyslotAreas, begin: u64) -> Option<RelocationPlan> {
    let lowest = areas.offsets.iter().min()?;
    let highest = areas.offsets.iter().max()?;
    let by = begin.checked_sub(*lowest)?.next_multiple_of(AREA_ALIGNMENT);
    if highest + areas.len + by > areas.limit {
        return None;
    }
    let mut plan = RelocationPlan::new(areas);
    let mut slots: Vec<usize> = (0..KEYSLOTS).collect();
    slots.sort_by_key(|&slot| areas.offsets[slot]);
    for &slot in slots.iter().rev() {
        if plan.end.used[slot] {
            // Prefer the highest empty area: those that are shifted already come last in `slots`,
            // and a key that moves there need not move again.
            let to = slots.iter().rev().find(|&&to| !plan.end.used[to])?;
            plan.take(RelocationStep::Move {
                from: slot,
                to: *to,
            });
        }
        let offset = plan.end.offsets[slot] + by;
        plan.take(RelocationStep::Place { slot, offset });
    }
    Some(plan)
}

fn move_only(areas: &KeyslotAreas, begin: u64) -> Option<RelocationPlan> {
    let mut plan = RelocationPlan::new(areas);
    for from in plan.covered(begin) {
        let to = plan
            .end
            .keyslots(false)
            .find(|&slot| plan.end.offsets[slot] >= begin)?;
        plan.take(RelocationStep::Move { from, to });
    }
    Some(plan)
}

/// Plans a relocation after which the first area begins right after the header, as cryptsetup
/// requires before it converts the volume to LUKS2. Keys keep their numbers. Returns `None` if
/// there is neither an empty keyslot that could hold a key in the meantime nor room after the
/// areas.
///
/// If there is room, the area of an empty keyslot moves there. Otherwise all areas move down by the
/// same distance, the first one first.
pub(super) fn settle(areas: &KeyslotAreas) -> Option<RelocationPlan> {
    let mut plan = RelocationPlan::new(areas);
    let lowest = *areas.offsets.iter().min()?;
    let highest = *areas.offsets.iter().max()?;
    let Some(by) = lowest.checked_sub(AREA_ALIGNMENT).filter(|&by| by > 0) else {
        return Some(plan);
    };
    if by >= areas.len
        && let Some(slot) = areas.keyslots(false).last()
    {
        plan.take(RelocationStep::Place {
            slot,
            offset: AREA_ALIGNMENT,
        });
        return Some(plan);
    }
    let mut slots: Vec<usize> = (0..KEYSLOTS).collect();
    slots.sort_by_key(|&slot| areas.offsets[slot]);
    for slot in slots {
        let offset = plan.end.offsets[slot] - by;
        if plan.end.used[slot] {
            let Some(to) = areas.keyslots(false).next() else {
                let behind = (highest + areas.len).next_multiple_of(AREA_ALIGNMENT);
                if behind + areas.len > areas.limit {
                    return None;
                }
                plan.take(RelocationStep::Place {
                    slot,
                    offset: behind,
                });
                plan.take(RelocationStep::Place { slot, offset });
                continue;
            };
            plan.take(RelocationStep::Move { from: slot, to });
            plan.take(RelocationStep::Place { slot, offset });
            plan.take(RelocationStep::Move { from: to, to: slot });
        } else {
            plan.take(RelocationStep::Place { slot, offset });
        }
    }
    Some(plan)
}

impl RelocationPlan {
    fn new(areas: &KeyslotAreas) -> Self {
        Self {
            steps: Vec::new(),
            end: *areas,
            numbers: std::array::from_fn(|slot| slot),
        }
    }

    /// The used keyslots with areas that begin before byte `begin`.
    fn covered(&self, begin: u64) -> Vec<usize> {
        let is_covered = |&slot: &usize| self.end.offsets[slot] < begin;
        self.end.keyslots(true).filter(is_covered).collect()
    }

    fn take(&mut self, step: RelocationStep) {
        match step {
            RelocationStep::Place { slot, offset } => self.end.offsets[slot] = offset,
            RelocationStep::Move { from, to } => {
                self.end.used.swap(from, to);
                self.numbers.swap(from, to);
            }
        }
        self.steps.push(step);
    }
}

impl KeyslotAreas {
    /// The used keyslots, or the empty ones.
    pub(super) fn keyslots(&self, used: bool) -> impl Iterator<Item = usize> {
        let all = self.used;
        (0..KEYSLOTS).filter(move |&slot| all[slot] == used)
    }
}

/// Returns the free places for areas of `len` bytes between `begin` and `limit`, in ascending
/// order. They overlap neither one another nor the areas at `taken`, which also have `len` bytes.
pub(super) fn places(
    mut taken: Vec<u64>,
    len: u64,
    begin: u64,
    limit: u64,
) -> impl Iterator<Item = u64> {
    taken.sort_unstable();
    let mut taken = taken.into_iter().peekable();
    let mut at = begin;
    std::iter::from_fn(move || {
        while let Some(next) = taken.next_if(|&next| next < at + len) {
            at = at.max((next + len).next_multiple_of(AREA_ALIGNMENT));
        }
        let place = at;
        at += len.next_multiple_of(AREA_ALIGNMENT);
        (place + len <= limit).then_some(place)
    })
}

#[cfg(test)]
mod tests {
    use super::{super::layout, *};

    const BEGIN: u64 = 32 << 10;

    /// Returns the areas as cryptsetup places them, with each non-empty set of used keyslots.
    fn every(key_len: u32, limit: u64) -> impl Iterator<Item = KeyslotAreas> {
        (1_u32..256).map(move |set| KeyslotAreas {
            offsets: std::array::from_fn(|slot| layout::area_offset(key_len, slot)),
            used: std::array::from_fn(|slot| set >> slot & 1 == 1),
            len: layout::area_len(key_len),
            limit,
        })
    }

    fn disjoint(mut offsets: Vec<u64>, len: u64) -> bool {
        offsets.sort_unstable();
        offsets.windows(2).all(|pair| pair[0] + len <= pair[1])
    }

    /// Checks that each header on the way is valid, that no key is overwritten, and that at the end
    /// each key is after the headers under its old number.
    fn check(areas: &KeyslotAreas, plan: &RelocationPlan, begin: u64) {
        let mut now = *areas;
        // The former number of the key in each keyslot.
        let mut keys: [Option<usize>; KEYSLOTS] =
            std::array::from_fn(|slot| areas.used[slot].then_some(slot));
        for step in &plan.steps {
            match *step {
                RelocationStep::Place { slot, offset } => {
                    if now.used[slot] {
                        let taken = [now.offsets.to_vec(), vec![offset]].concat();
                        assert!(disjoint(taken, now.len), "{step:?}");
                    }
                    now.offsets[slot] = offset;
                }
                RelocationStep::Move { from, to } => {
                    assert!(now.used[from] && !now.used[to], "{step:?}");
                    now.used.swap(from, to);
                    keys.swap(from, to);
                }
            }
            assert!(disjoint(now.offsets.to_vec(), now.len), "{step:?}");
            assert!(
                now.offsets
                    .iter()
                    .all(|offset| offset + now.len <= now.limit)
            );
        }
        assert_eq!(now, plan.end);
        for (slot, key) in keys.iter().enumerate() {
            if let Some(key) = key {
                assert!(now.offsets[slot] >= begin);
                assert_eq!(plan.numbers[slot], *key);
            }
        }
    }

    /// With the room that cryptsetup leaves after the areas.
    #[test]
    fn seven_keyslots_always_fit_and_eight_with_short_keys() {
        for key_len in [16, 32, 64] {
            for areas in every(key_len, layout::data_offset(key_len)) {
                let count = areas.keyslots(true).count();
                let Some(plan) = plan(&areas, BEGIN) else {
                    assert!(count == 8 && key_len == 64, "{key_len}: {areas:?}");
                    continue;
                };
                check(&areas, &plan, BEGIN);
                let used = plan
                    .end
                    .keyslots(true)
                    .map(|slot| plan.end.offsets[slot])
                    .collect();
                let free = places(used, areas.len, BEGIN, areas.limit).count();
                assert!(count + free >= KEYSLOTS, "no way back: {areas:?}");
            }
        }
    }

    #[test]
    fn without_free_space_an_empty_keyslot_makes_room() {
        for areas in every(64, layout::areas_end(64)) {
            match plan(&areas, BEGIN) {
                Some(plan) => {
                    check(&areas, &plan, BEGIN);
                    assert_eq!(plan.steps.len(), usize::from(areas.used[0]));
                }
                None => assert!(areas.keyslots(false).count() == 0),
            }
        }
    }

    #[test]
    fn keyslots_that_move_down_keep_their_number() {
        for key_len in [16, 32, 64] {
            let end = layout::areas_end(key_len).next_multiple_of(AREA_ALIGNMENT);
            let len = layout::area_len(key_len);
            for (up, room) in [(0, 0), (28 << 10, 0), (28 << 10, len), (1 << 20, len)] {
                for mut areas in every(key_len, end + up + room) {
                    areas.offsets.iter_mut().for_each(|offset| *offset += up);
                    let Some(plan) = settle(&areas) else {
                        assert!(up > 0 && room == 0 && areas.keyslots(false).count() == 0);
                        continue;
                    };
                    check(&areas, &plan, 0);
                    let lowest = plan.end.offsets.iter().min();
                    assert_eq!(lowest, Some(&AREA_ALIGNMENT));
                    assert_eq!(plan.end.used, areas.used);
                    assert!(areas.keyslots(true).all(|slot| plan.numbers[slot] == slot));
                }
            }
        }
    }

    #[test]
    fn places_are_the_gaps() {
        let found = |taken: &[u64], limit| places(taken.to_vec(), 5000, 4096, limit);
        assert!(found(&[], 4096 + 3 * 8192).eq([4096, 12288, 20480]));
        assert!(found(&[], 4096 + 2 * 8192 + 5000).eq([4096, 12288, 20480]));
        assert!(found(&[], 4096 + 2 * 8192 + 4999).eq([4096, 12288]));
        // Unaligned, unsorted, or before `begin`.
        assert!(found(&[20000, 0, 9096], 40000).eq([28672]));
        assert!(found(&[20000, 0, 9097], 40000).eq([28672]));
        assert!(found(&[20000, 13384], 40000).eq([4096, 28672]));
        assert!(found(&[4096], 12287).eq([0; 0]));
    }
}
