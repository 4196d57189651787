// SPDX-License-Identifier: MIT OR Apache-2.0
//! Round keys for chains that run together under one key or several.

use core::{marker::PhantomData, ptr};

use super::{
    Expanded, Registers,
    expanded::{ACROSS, SLOTS},
};
use luxor_secret::SecretBytes;

use crate::mode::ofb::{Lane, LaneKeys, place};

/// AES with `ROUNDS` rounds for lanes, with a separate schedule for each register.
pub(in crate::kernel) struct Schedules<'a, V, const ROUNDS: usize, const N: usize> {
    slots: [*const u8; N],
    registers: PhantomData<(V, &'a Expanded)>,
}

impl<'a, V: Registers, const ROUNDS: usize, const N: usize> Schedules<'a, V, ROUNDS, N> {
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    pub(in crate::kernel) unsafe fn from_lanes(
        lanes: &[Lane<'a, Expanded>],
        chains: usize,
        mixed: &'a Mixed,
    ) -> Self {
        let len = SLOTS * 16 * V::BLOCKS;
        let mut slots = [ptr::null(); N];
        for (register, slots) in slots.iter_mut().enumerate() {
            let (chain, place) = place(register, N, chains);
            // Registers without lanes use the schedule of the first lane.
            let lane = lanes.get(place * V::BLOCKS).unwrap_or(&lanes[0]);
            let alone = lane.keys[chain].schedules.expose();
            let schedule = mixed.schedule(chain, place).unwrap_or(alone);
            *slots = schedule[..len].as_ptr();
        }
        Self {
            slots,
            registers: PhantomData,
        }
    }

    #[inline(always)]
    fn slot(&self, register: usize, i: usize) -> V {
        assert!(i < SLOTS);
        // SAFETY: `i < SLOTS`, and `of` took `SLOTS` registers' bytes from each schedule. The
        // caller of `of` guarantees the instructions.
        unsafe { V::load(self.slots[register].add(16 * V::BLOCKS * i)) }
    }
}

impl<V: Registers, const ROUNDS: usize, const N: usize> LaneKeys<N>
    for Schedules<'_, V, ROUNDS, N>
{
    type V = V;

    #[inline(always)]
    #[expect(
        clippy::pointers_in_nomem_asm_block,
        reason = "the block has no instruction and accesses no memory"
    )]
    fn look_up(&mut self) {
        // Miri runs no assembly.
        if cfg!(miri) {
            return;
        }
        for slots in &mut self.slots {
            // SAFETY: the block contains only a comment. It declares `slots` as changed.
            unsafe {
                core::arch::asm!(
                    "/* {0} */",
                    inout(reg) * slots,
                    options(nomem, nostack, preserves_flags)
                );
            }
        }
    }

    #[inline(always)]
    fn first(&self, register: usize) -> V {
        // SAFETY: the caller of `of` guarantees the instructions.
        unsafe { V::zero() }.enter(self.slot(register, 0))
    }

    #[inline(always)]
    fn between(&self, register: usize) -> V {
        self.slot(register, if V::FIRST_KEY == 1 { ACROSS } else { ROUNDS })
    }

    #[inline(always)]
    fn rounds(&self, x: &mut [V; N]) {
        const { assert!(ROUNDS == 10 || ROUNDS == 12 || ROUNDS == 14) };
        for round in 1..ROUNDS {
            for register in 0..N {
                let key = self.slot(register, round - 1 + V::FIRST_KEY);
                x[register] = x[register].encrypt(key);
                if register > 0 {
                    // Fixes this order. A compiler that emitted all rounds of one register before
                    // those of the next would rely on the processor to look that far ahead.
                    let (mut earlier, mut later) = (x[register - 1], x[register]);
                    earlier.before(&mut later);
                    (x[register - 1], x[register]) = (earlier, later);
                }
            }
        }
    }

    #[inline(always)]
    fn last_round(&self, register: usize, x: V, post: V) -> V {
        x.encrypt_last(self.slot(register, ROUNDS - 1 + V::FIRST_KEY), post)
    }
}

/// The schedules of registers in which lanes have different keys.
pub(in crate::kernel) struct Mixed {
    /// For each chain and register, its index in `schedules` if its lanes have different keys.
    places: [[Option<usize>; 8]; 2],
    /// Each has the layout of the first half of [`Expanded::schedules`]. It is allocated only if
    /// needed, because memory for secrets takes system calls.
    schedules: Option<SecretBytes>,
    /// The length in bytes of one schedule.
    len: usize,
}

impl Mixed {
    pub(in crate::kernel) fn from_lanes(
        lanes: &[Lane<'_, Expanded>],
        chains: usize,
        blocks: usize,
    ) -> Self {
        let mut places = [[None; 8]; 2];
        let mut count = 0;
        for (chain, places) in places.iter_mut().enumerate().take(chains) {
            for (lanes, place) in lanes.chunks(blocks).zip(places) {
                let differ = |lane: &Lane<'_, _>| {
                    !ptr::eq::<Expanded>(lane.keys[chain], lanes[0].keys[chain])
                };
                if lanes.iter().any(differ) {
                    *place = Some(count);
                    count += 1;
                }
            }
        }
        let len = SLOTS * 16 * blocks;
        let mut schedules = (count > 0).then(|| SecretBytes::zeroed(count * len));
        if let Some(schedules) = &mut schedules {
            for (chain, places) in places.iter().enumerate() {
                for (lanes, place) in lanes.chunks(blocks).zip(places) {
                    let Some(place) = place else { continue };
                    let schedule = &mut schedules.expose_mut()[place * len..][..len];
                    for (i, lane) in lanes.iter().enumerate() {
                        let own = lane.keys[chain].schedules.expose();
                        for slot in (0..len).step_by(16 * blocks) {
                            let block = slot + 16 * i..slot + 16 * (i + 1);
                            schedule[block.clone()].copy_from_slice(&own[block]);
                        }
                    }
                }
            }
        }
        Self {
            places,
            schedules,
            len,
        }
    }

    // Inlined, because the loops of the kernels must not call anything: see `cargo xtask guard`.
    #[inline(always)]
    fn schedule(&self, chain: usize, register: usize) -> Option<&[u8]> {
        let place = self.places[chain][register]?;
        let schedules = self.schedules.as_ref()?;
        Some(&schedules.expose()[place * self.len..][..self.len])
    }
}
