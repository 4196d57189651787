// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output feedback (SP 800-38A, 6.4), and its parallel tweakable variant with the constructions XEX
//! and XE (Damjanović and Simić, 2015, Listings 3 and 4).
//!
//! Each block of a chain is the encryption of the one before, so the latency of AES limits a chain,
//! and most of the CPU is idle. Running other chains at the same time helps: a message's second
//! chain, or those of other messages. Each is a *lane*, the position of one block in a register:
//!
//! ```text
//! for each chain of each message, together:
//!     T' = α ⊗ T                          (as printed: αⁱ⁺¹ ⊗ T)
//!     S  = rounds(S), whose last one adds K_last ⊕ K_0 ⊕ T' [⊕ T for XEX]
//!     C  = S ⊕ K_0 ⊕ T'                   (the next F, and the key stream)
//!     T  = T'
//! each message's output = input ⊕ C of its chains
//! ```
//!
//! S = F ⊕ T ⊕ `K_0` is the input of the first round. The single instruction of the last round adds
//! everything that is needed from block to block (XEX's outer tweak, the next tweak, the first
//! round key), so between two blocks there are only ten or fourteen instructions. The tweaks depend
//! on no AES result, and the processor computes them meanwhile.
//!
//! The two chains of one message are in different registers. Adding the second chain's stream then
//! moves nothing inside a register, and all lanes of a register can have one key. As many blocks
//! are made as a register has lanes, and then transposed: from the lanes of one step to the steps
//! of one lane. So memory is read and written by whole registers, with four lanes a cache line.

use core::marker::PhantomData;

use zeroize::Zeroize;

use super::blocks::{Pointers, wipe};
use crate::{
    kernel::vector::Vector,
    key::{Construction, TweakSchedule},
};

/// The form of a message's chains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Form {
    /// The construction and schedule, or `None` without tweaks.
    pub(crate) tweaked: Option<(Construction, TweakSchedule)>,
    /// 1, or 2 with tweaks.
    pub(crate) chains: usize,
}

impl Form {
    /// Plain output feedback (SP 800-38A).
    pub(crate) const PLAIN: Self = Self {
        tweaked: None,
        chains: 1,
    };

    /// A sort key that differs between different forms.
    pub(crate) fn order(self) -> (usize, u8) {
        let tweaked = match self.tweaked {
            None => 0,
            Some((construction, schedule)) => {
                1 + 2 * u8::from(construction == Construction::Xe)
                    + u8::from(schedule == TweakSchedule::Printed)
            }
        };
        (self.chains, tweaked)
    }
}

/// The state that a chain passes from block to block, as little-endian integers.
#[derive(Clone, Copy, Default)]
pub(crate) struct Link {
    /// F, the next block to encrypt.
    pub(crate) block: u128,
    /// The tweak T of that block.
    pub(crate) tweak: u128,
    /// The last power of α, used by the printed schedule.
    pub(crate) power: u128,
}

/// A message in progress. With one chain, the second key and link are unused.
pub(crate) struct Lane<'a, E> {
    pub(crate) keys: [&'a E; 2],
    pub(crate) links: [Link; 2],
    pub(crate) at: Pointers,
}

impl<E> Drop for Lane<'_, E> {
    fn drop(&mut self) {
        self.links.zeroize();
    }
}

impl Zeroize for Link {
    fn zeroize(&mut self) {
        self.block.zeroize();
        self.tweak.zeroize();
        self.power.zeroize();
    }
}

/// AES for `N` registers of lanes.
pub(crate) trait LaneKeys<const N: usize> {
    type V: Vector;

    /// Makes the compiler read the schedules from memory again. If it saw that they never change,
    /// it would read them once and spill them to the stack.
    #[inline(always)]
    fn look_up(&mut self) {}

    /// The first round keys of the lanes in `register`, or 0 if `rounds` adds them.
    fn first(&self, register: usize) -> Self::V;

    /// [`first`](Self::first) ⊕ the last round keys.
    fn between(&self, register: usize) -> Self::V;

    /// Applies all rounds except the last.
    fn rounds(&self, x: &mut [Self::V; N]);

    /// Applies the last round to `x` of `register`, adding `post` instead of the round key.
    fn last_round(&self, register: usize, x: Self::V, post: Self::V) -> Self::V;
}

/// Processes `blocks` blocks of each message. The `N` registers hold `C` chains for each message:
/// the first `N / C` registers the first chains, the next `N / C` the second ones.
///
/// # Safety
/// The CPU has the instructions of `K`, and at each lane's `at` at least `blocks` blocks remain.
#[inline(always)]
pub(crate) unsafe fn crypt<E, K, T, const N: usize, const C: usize>(
    keys: K,
    form: Form,
    lanes: &mut [Lane<'_, E>],
    mut blocks: usize,
) where
    K: LaneKeys<N>,
    T: Tweaks,
{
    assert!(lanes.len() <= N / C * K::V::BLOCKS);
    // SAFETY: the caller guarantees `blocks` blocks at each lane, and `offset` counts those done.
    unsafe {
        let zero = K::V::zero();
        let mut chains = Chains::<K, T, N, C>::take_up(keys, form, lanes);
        let mut offset = 0;
        while blocks > 0 {
            let count = blocks.min(K::V::BLOCKS);
            // Indexed by register, then step. The entries of the second chains' registers stay
            // unused.
            let mut streams = [[zero; 4]; N];
            for step in 0..count {
                chains.step(step, &mut streams);
            }
            let lanes = lanes.chunks(K::V::BLOCKS);
            for (lanes, streams) in lanes.zip(&mut streams) {
                if count == K::V::BLOCKS {
                    let streams = K::V::exchanged(*streams);
                    for (lane, stream) in lanes.iter().zip(streams) {
                        let at = lane.at.add(offset);
                        K::V::load(at.src).xor(stream).store(at.dst);
                    }
                    continue;
                }
                for (step, stream) in streams.iter().enumerate().take(count) {
                    let mut stream = as_blocks(*stream);
                    for (lane, stream) in lanes.iter().zip(stream) {
                        let at = lane.at.add(offset + 16 * step);
                        at.write(at.read() ^ stream);
                    }
                    wipe(&mut stream);
                }
            }
            offset += 16 * count;
            blocks -= count;
        }
        chains.leave(lanes);
    }
}

/// The chains of several messages, in registers.
struct Chains<K: LaneKeys<N>, T, const N: usize, const C: usize> {
    keys: K,
    /// S = F ⊕ tweak ⊕ first round key.
    entered: [K::V; N],
    tweaks: [K::V; N],
    powers: [K::V; N],
    /// All ones for XEX, which also adds the tweak after the encryption; otherwise 0.
    outer: K::V,
    schedule: PhantomData<T>,
}

impl<K, T, const N: usize, const C: usize> Chains<K, T, N, C>
where
    K: LaneKeys<N>,
    T: Tweaks,
{
    /// # Safety
    /// The CPU has the instructions of `K`.
    #[inline(always)]
    unsafe fn take_up<E>(keys: K, form: Form, lanes: &[Lane<'_, E>]) -> Self {
        // SAFETY: the caller guarantees the instructions; each array has the blocks of the widest
        // register.
        unsafe {
            let zero = K::V::zero();
            let mut entered = [zero; N];
            let mut tweaks = [zero; N];
            let mut powers = [zero; N];
            for register in 0..N {
                let (chain, place) = place(register, N, C);
                let [mut block, mut tweak, mut power] = [[0; 4]; 3];
                let lanes = lanes.iter().skip(place * K::V::BLOCKS);
                for (i, lane) in lanes.take(K::V::BLOCKS).enumerate() {
                    let link = lane.links[chain];
                    block[i] = link.block.to_le();
                    tweak[i] = link.tweak.to_le();
                    power[i] = link.power.to_le();
                }
                let fed_back = K::V::load(block.as_ptr().cast());
                tweaks[register] = K::V::load(tweak.as_ptr().cast());
                powers[register] = K::V::load(power.as_ptr().cast());
                entered[register] = fed_back.xor(tweaks[register]).xor(keys.first(register));
                wipe(&mut block);
                wipe(&mut tweak);
            }
            let outer = match form.tweaked {
                Some((Construction::Xex, _)) => [u8::MAX; 16],
                _ => [0; 16],
            };
            Self {
                keys,
                entered,
                tweaks,
                powers,
                outer: K::V::broadcast(outer.as_ptr()),
                schedule: PhantomData,
            }
        }
    }

    /// Makes the next block of each message's key stream, and puts it at `step` in its register's
    /// streams.
    #[inline(always)]
    fn step(&mut self, step: usize, streams: &mut [[K::V; 4]; N]) {
        self.keys.look_up();
        self.keys.rounds(&mut self.entered);
        // The processor can execute this before the rounds are finished. It comes after them in the
        // source because a compiler that sees it earlier needs registers for the results.
        for register in 0..N {
            let mut post = self.keys.between(register);
            if T::TWEAKED {
                let tweak = &mut self.tweaks[register];
                post = post.xor(tweak.and(self.outer));
                T::go_on(tweak, &mut self.powers[register]);
                post = post.xor(*tweak);
            }
            let x = self.entered[register];
            self.entered[register] = self.keys.last_round(register, x, post);
        }
        for (register, streams) in streams.iter_mut().enumerate().take(N / C) {
            let mut stream = self.output(register);
            if C == 2 {
                stream = stream.xor(self.output(register + N / C));
            }
            streams[step] = stream;
        }
    }

    /// C of the last step.
    #[inline(always)]
    fn output(&self, register: usize) -> K::V {
        let fed_back = self.entered[register].xor(self.keys.first(register));
        if T::TWEAKED {
            fed_back.xor(self.tweaks[register])
        } else {
            fed_back
        }
    }

    #[inline(always)]
    fn leave<E>(&self, lanes: &mut [Lane<'_, E>]) {
        for register in 0..N {
            let (chain, place) = place(register, N, C);
            let mut block = as_blocks(self.output(register));
            let mut tweak = as_blocks(self.tweaks[register]);
            let power = as_blocks(self.powers[register]);
            let lanes = lanes.iter_mut().skip(place * K::V::BLOCKS);
            for (i, lane) in lanes.take(K::V::BLOCKS).enumerate() {
                lane.links[chain] = Link {
                    block: block[i],
                    tweak: tweak[i],
                    power: power[i],
                };
            }
            wipe(&mut block);
            wipe(&mut tweak);
        }
    }
}

/// For one of `registers` registers that hold `chains` chains: its chain, and its index within that
/// chain.
#[inline(always)]
pub(crate) fn place(register: usize, registers: usize, chains: usize) -> (usize, usize) {
    let each = registers / chains;
    (register / each, register % each)
}

/// How the tweaks of a register follow from those before.
pub(crate) trait Tweaks {
    /// Whether there are tweaks at all.
    const TWEAKED: bool;

    /// Makes the next tweaks, and the next powers of α if the schedule needs them.
    fn go_on<V: Vector>(tweak: &mut V, power: &mut V);
}

/// No tweaks: plain OFB.
pub(crate) enum Untweaked {}

impl Tweaks for Untweaked {
    const TWEAKED: bool = false;

    #[inline(always)]
    fn go_on<V: Vector>(_: &mut V, _: &mut V) {}
}

/// Each tweak is α times the one before.
pub(crate) enum Alpha {}

impl Tweaks for Alpha {
    const TWEAKED: bool = true;

    #[inline(always)]
    fn go_on<V: Vector>(tweak: &mut V, _: &mut V) {
        *tweak = tweak.mul_alpha_each();
    }
}

/// Tweak i is αⁱ times the one before.
pub(crate) enum Printed {}

impl Tweaks for Printed {
    const TWEAKED: bool = true;

    #[inline(always)]
    fn go_on<V: Vector>(tweak: &mut V, power: &mut V) {
        *power = power.mul_alpha_each();
        *tweak = tweak.mul(*power);
    }
}

/// The blocks of a register as little-endian integers, followed by zeros.
#[inline(always)]
fn as_blocks<V: Vector>(x: V) -> [u128; 4] {
    let mut blocks = [0; 4];
    // SAFETY: `blocks` has room for the widest register, which has four blocks.
    unsafe { x.store(blocks.as_mut_ptr().cast()) };
    blocks.map(u128::from_le)
}
