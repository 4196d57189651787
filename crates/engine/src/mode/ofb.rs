// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output feedback (SP 800-38A, 6.4), and the parallel tweakable kind with its
//! constructions XEX and XE (Damjanović and Simić, 2015, Listings 3 and 4).
//!
//! Each block of a chain is the encryption of the one before, so a chain is bound by
//! the latency of AES, and most of the CPU stands idle. What helps is to have other
//! chains beside it: a message's second one, or those of other messages. Each is a
//! *lane*, a block's place in a register:
//!
//! ```text
//! for each chain of each message, side by side:
//!     T' = α ⊗ T                          (as printed: αⁱ⁺¹ ⊗ T)
//!     S  = rounds(S), whose last one adds K_last ⊕ K_0 ⊕ T' [⊕ T for XEX]
//!     C  = S ⊕ K_0 ⊕ T'                   (the next F, and the key stream)
//!     T  = T'
//! each message's output = input ⊕ C of its chains
//! ```
//!
//! S = F ⊕ T ⊕ `K_0` is what the first round sees. All that has to be added from block to
//! block (XEX's outer tweak, the next tweak, the first round key) is added by the last
//! round's one instruction, and only ten or fourteen of these lie between two blocks. The
//! tweaks wait for nothing, and the processor makes them meanwhile.
//!
//! Chains of one message are in different registers, so that those of its second one are
//! added without moving anything inside a register, and a register's lanes can have one
//! key. As many blocks are made as a register has lanes, which are then exchanged: the
//! lanes of one step for the steps of one lane. So memory is read and written by whole
//! registers; with four lanes that is a cache line.

use core::marker::PhantomData;

use zeroize::Zeroize;

use super::blocks::{Pointers, wipe};
use crate::{
    kernel::vector::Vector,
    key::{Construction, TweakSchedule},
};

/// How the chains of a message go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Form {
    /// `None` without tweaks.
    pub(crate) tweaked: Option<(Construction, TweakSchedule)>,
    /// 1, or 2 where there are tweaks.
    pub(crate) chains: usize,
}

impl Form {
    /// As SP 800-38A has it.
    pub(crate) const PLAIN: Self = Self {
        tweaked: None,
        chains: 1,
    };

    /// Different for different forms.
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

/// What a chain hands on from block to block, as little-endian integers.
#[derive(Clone, Copy, Default)]
pub(crate) struct Link {
    /// F, which is encrypted next.
    pub(crate) block: u128,
    /// The tweak T that belongs to it.
    pub(crate) tweak: u128,
    /// With the printed schedule, the last power of α.
    pub(crate) power: u128,
}

/// A message under way. Without a second chain the second key and link stand idle.
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

    /// Says that the schedules are to be read from memory again. A compiler that sees that
    /// they stay the same would read them once, and store them on the stack.
    #[inline(always)]
    fn look_up(&mut self) {}

    /// The first round keys of a register's lanes.
    fn first(&self, register: usize) -> Self::V;

    /// First round keys ⊕ last ones.
    fn between(&self, register: usize) -> Self::V;

    /// All rounds but the last one.
    fn rounds(&self, x: &mut [Self::V; N]);

    /// The last round, which adds `post` in place of its key.
    fn last_round(x: Self::V, post: Self::V) -> Self::V;
}

/// Goes on with messages, by so many blocks each. Of the `N` registers of chains a `C`-th
/// part is that of the messages' first ones, the next that of their second ones.
///
/// # Safety
/// The CPU has the instructions of `K`. At each lane's place there are so many blocks.
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
    // SAFETY: as the caller says.
    unsafe {
        let zero = K::V::zero();
        let mut chains = Chains::<K, T, N, C>::take_up(keys, form, lanes);
        let mut offset = 0;
        while blocks > 0 {
            let count = blocks.min(K::V::BLOCKS);
            // By registers, then steps; of the second chains nothing is there.
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

/// Chains in registers.
struct Chains<K: LaneKeys<N>, T, const N: usize, const C: usize> {
    keys: K,
    /// S: F ⊕ tweak ⊕ first round key.
    entered: [K::V; N],
    tweaks: [K::V; N],
    powers: [K::V; N],
    /// All ones for XEX, which adds tweaks after the encryption too, else 0.
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
        // SAFETY: as the caller says; there are a register's blocks to load.
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

    /// The next blocks of the messages' key streams, in place `step` of their registers.
    #[inline(always)]
    fn step(&mut self, step: usize, streams: &mut [[K::V; 4]; N]) {
        self.keys.look_up();
        self.keys.rounds(&mut self.entered);
        // The processor does this earlier. A compiler that sees it earlier needs registers
        // for what comes out.
        for register in 0..N {
            let mut post = self.keys.between(register);
            if T::TWEAKED {
                let tweak = &mut self.tweaks[register];
                post = post.xor(tweak.and(self.outer));
                T::go_on(tweak, &mut self.powers[register]);
                post = post.xor(*tweak);
            }
            self.entered[register] = K::last_round(self.entered[register], post);
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

/// Of `registers` for `chains`: to which chain one belongs, and which it is of that.
#[inline(always)]
pub(crate) fn place(register: usize, registers: usize, chains: usize) -> (usize, usize) {
    let each = registers / chains;
    (register / each, register % each)
}

/// How a register's tweaks follow from those before.
pub(crate) trait Tweaks {
    /// Whether there are any.
    const TWEAKED: bool;

    /// Makes the next tweaks, and the next powers of α where they are needed.
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

/// A register's blocks as little-endian integers, and zeros.
#[inline(always)]
fn as_blocks<V: Vector>(x: V) -> [u128; 4] {
    let mut blocks = [0; 4];
    // SAFETY: the array has the blocks of the widest register.
    unsafe { x.store(blocks.as_mut_ptr().cast()) };
    blocks.map(u128::from_le)
}
