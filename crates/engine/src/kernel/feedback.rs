// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages in output feedback on a CPU: which chains run together, and what a message keeps
//! between its pieces.

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::{any::Any, iter, mem};

use zeroize::Zeroize;

use super::{modes::Kernel, vector::Prefetch};
#[cfg(feature = "std")]
use crate::message::Chain;
use crate::{
    backend::CryptErrorKind,
    gf128::mul_alpha,
    key::{ParallelOfbKey, TweakSchedule},
    message::{Chained, Message, Messages, Turn},
    mode::{
        blocks::Pointers,
        ofb::{Form, Lane, Link},
    },
    run::{DataUnitNumber, InOut, Run},
};

/// A kernel that supports output feedback.
pub(super) trait FeedbackKernel: Kernel {
    /// Whether chains under different keys can run together in the time of one.
    const MIXES: bool;
    /// The number of blocks in a register.
    const BLOCKS: usize;
    /// The largest number of registers of chains without tweaks that run together.
    const CHAINS: usize;

    /// The number of AES rounds: 10, 12 or 14.
    fn rounds(key: &Self::Key) -> usize;

    /// Processes `blocks` blocks of each message. If `MIXES` is false, all lanes must have the same
    /// keys; otherwise, keys of one size.
    ///
    /// # Safety
    /// At each lane's `at` at least `blocks` blocks remain.
    unsafe fn feedback(self, form: Form, lanes: &mut [Lane<'_, Self::Key>], blocks: usize);
}

/// A key of output feedback, for runs and for messages.
pub(super) struct FeedbackKey<K: Kernel> {
    kernel: K,
    chains: Arc<Chains<K::Key>>,
}

impl<K: FeedbackKernel> FeedbackKey<K> {
    /// A key of plain output feedback (SP 800-38A).
    pub(super) fn plain(kernel: K, key: K::Key) -> Self {
        Self::new(
            kernel,
            Chains {
                form: Form::PLAIN,
                first: key,
                second: None,
            },
        )
    }

    /// A key with tweaks; `first` and `second` are the expanded keys of `key`.
    pub(super) fn tweaked(kernel: K, key: &ParallelOfbKey, first: K::Key, second: K::Key) -> Self {
        let form = Form {
            tweaked: Some((key.construction(), key.schedule())),
            chains: key.chains(),
        };
        let second = Some(second);
        Self::new(
            kernel,
            Chains {
                form,
                first,
                second,
            },
        )
    }

    fn new(kernel: K, chains: Chains<K::Key>) -> Self {
        let chains = Arc::new(chains);
        Self { kernel, chains }
    }

    /// The key of the first chain.
    pub(super) fn first(&self) -> &K::Key {
        &self.chains.first
    }

    /// Encrypts a run in which each unit is a message.
    pub(super) fn crypt_run(&self, run: &mut Run<'_>) {
        crypt_run(self.kernel, &self.chains, run);
    }
}

impl<K: FeedbackKernel> Messages for FeedbackKey<K> {
    fn begin(&self, iv: DataUnitNumber) -> Message {
        Message(Box::new(Passage::begin(self.kernel, &self.chains, iv)))
    }
}

/// The keys of a message's chains, and their form.
struct Chains<E> {
    form: Form,
    first: E,
    /// Present with tweaks only.
    second: Option<E>,
}

impl<E> Chains<E> {
    /// The keys of both chains. With one chain, the second entry is unused.
    fn keys(&self) -> [&E; 2] {
        [&self.first, self.second.as_ref().unwrap_or(&self.first)]
    }

    /// Replaces the IVs in `lanes` (see [`Lane::with_iv`]) by the first links of the chains.
    fn begin<'a, K: FeedbackKernel<Key = E>>(&'a self, kernel: K, lanes: &mut [Lane<'a, E>]) {
        let Some((_, schedule)) = self.form.tweaked else {
            return;
        };
        // The first tweak is α¹ times the EIV under both schedules, and α as an integer is 2.
        let power = match schedule {
            TweakSchedule::Alpha => 0,
            TweakSchedule::Printed => 2,
        };
        let [first, second] = self.keys();
        for chain in 0..self.form.chains {
            // EIV, the IV encrypted under the other chain's key: made as one block of plain OFB in
            // the place of the first chain.
            for lane in &mut *lanes {
                lane.links.swap(0, chain);
                lane.keys = [[second, first][chain]; 2];
            }
            let mut eivs = next_blocks(kernel, Form::PLAIN, lanes);
            for (lane, eiv) in iter::zip(&mut *lanes, &mut eivs) {
                let block = u128::from_le_bytes(*eiv);
                lane.links[0] = Link {
                    block,
                    tweak: mul_alpha(block),
                    power,
                };
                lane.links.swap(0, chain);
                lane.keys = [first, second];
                eiv.zeroize();
            }
        }
    }
}

/// The largest number of messages that any kernel processes together.
const MOST: usize = 16;

impl<'a, E> Lane<'a, E> {
    /// A message with this IV, which is the first link of its chain if there are no tweaks.
    fn with_iv(keys: [&'a E; 2], iv: u128, at: Pointers) -> Self {
        let link = Link {
            block: iv.swap_bytes(),
            ..Link::default()
        };
        Self {
            keys,
            links: [link; 2],
            at,
        }
    }
}

/// The largest number of messages that are processed together.
fn messages<K: FeedbackKernel>(form: Form) -> usize {
    const { assert!(K::CHAINS * K::BLOCKS <= MOST) };
    let registers = match (form.tweaked, form.chains) {
        (None, _) => K::CHAINS,
        // Tweaks need registers of their own, in addition to those of the chains.
        (Some((_, TweakSchedule::Alpha)), 2) => K::CHAINS.min(2),
        _ => 1,
    };
    registers * K::BLOCKS
}

/// Encrypts a run in which each unit is a message.
fn crypt_run<K: FeedbackKernel>(kernel: K, keys: &Chains<K::Key>, run: &mut Run<'_>) {
    let side_by_side = messages::<K>(keys.form);
    let (first, stride, unit_len) = (run.first(), run.stride(), run.unit_len().get());
    let units = run.units();
    let mut lanes = Vec::with_capacity(side_by_side.min(units));
    let mut at = Pointers::from_run(run, 16, Prefetch::NONE);
    for begin in (0..units).step_by(side_by_side) {
        for unit in begin..units.min(begin + side_by_side) {
            let iv = first.step(unit as u64, stride).get();
            lanes.push(Lane::with_iv(keys.keys(), iv, at));
            // SAFETY: `unit < units`, so the result is inside the run or at its end.
            at = unsafe { at.add(unit_len) };
        }
        keys.begin(kernel, &mut lanes);
        // SAFETY: each lane is at the begin of a unit, which has `unit_len / 16` whole blocks.
        unsafe { kernel.feedback(keys.form, &mut lanes, unit_len / 16) };
        let rest = unit_len % 16;
        if rest > 0 {
            let mut streams = next_blocks(kernel, keys.form, &mut lanes);
            for (lane, stream) in iter::zip(&lanes, &mut streams) {
                // SAFETY: the last `rest` bytes of a unit follow its whole blocks.
                unsafe { lane.at.add(unit_len - rest).add_bytes(&stream[..rest]) };
                stream.zeroize();
            }
        }
        lanes.clear();
    }
}

/// Makes one block of each lane's key stream, by adding it to zeros.
fn next_blocks<K: FeedbackKernel>(
    kernel: K,
    form: Form,
    lanes: &mut [Lane<'_, K::Key>],
) -> [[u8; 16]; MOST] {
    let mut streams = [[0; 16]; MOST];
    let mut ats = [Pointers::in_place(core::ptr::null_mut()); MOST];
    for ((lane, stream), at) in iter::zip(&mut *lanes, &mut streams).zip(&mut ats) {
        *at = mem::replace(&mut lane.at, Pointers::in_place(stream.as_mut_ptr()));
    }
    // SAFETY: each lane's `at` is a block of `streams`.
    unsafe { kernel.feedback(form, lanes, 1) };
    for (lane, at) in iter::zip(lanes, ats) {
        lane.at = at;
    }
    streams
}

/// A message in progress.
struct Passage<K: FeedbackKernel> {
    kernel: K,
    keys: Arc<Chains<K::Key>>,
    links: [Link; 2],
    /// A block of key stream. Its first `used` bytes have been used; 16 if no block is started.
    block: [u8; 16],
    used: usize,
}

impl<K: FeedbackKernel> Passage<K> {
    fn begin(kernel: K, keys: &Arc<Chains<K::Key>>, iv: DataUnitNumber) -> Self {
        let nowhere = Pointers::in_place(core::ptr::null_mut());
        let mut lanes = [Lane::with_iv(keys.keys(), iv.get(), nowhere)];
        keys.begin(kernel, &mut lanes);
        let message = Self {
            kernel,
            keys: Arc::clone(keys),
            links: lanes[0].links,
            block: [0; 16],
            used: 16,
        };
        drop(lanes);
        K::wipe_stack();
        message
    }

    /// Panics in a forked child, where the system has wiped the key.
    fn assert_has_key(&self) {
        let [key, _] = self.keys.keys();
        assert!(!K::is_lost(key), "{}", CryptErrorKind::KeyLostInFork);
    }

    /// Uses the rest of the started block, and returns how many of the `len` bytes it covered.
    ///
    /// # Safety
    /// At least `len` bytes remain at `at`.
    unsafe fn use_block(&mut self, at: Pointers, len: usize) -> usize {
        let stream = &mut self.block[self.used..];
        let len = len.min(stream.len());
        let stream = &mut stream[..len];
        // SAFETY: the caller guarantees it, as `# Safety` requires.
        unsafe { at.add_bytes(stream) };
        stream.zeroize();
        self.used += len;
        len
    }
}

impl<K: FeedbackKernel> Drop for Passage<K> {
    fn drop(&mut self) {
        self.links.zeroize();
        self.block.zeroize();
    }
}

impl<K: FeedbackKernel> Chained for Passage<K> {
    fn crypt(&mut self, mut buf: InOut<'_>) {
        self.assert_has_key();
        let (mut at, mut len) = (Pointers::of_bytes(&mut buf), buf.len());
        // SAFETY: `buf` has `len` bytes, and `used <= len`.
        unsafe {
            let used = Self::use_block(self, at, len);
            at = at.add(used);
            len -= used;
        }
        let mut lanes = [Lane {
            keys: self.keys.keys(),
            links: self.links,
            at,
        }];
        // SAFETY: `len` bytes remain at `at`, so at least `len / 16` blocks.
        unsafe { self.kernel.feedback(self.keys.form, &mut lanes, len / 16) };
        if !len.is_multiple_of(16) {
            self.block = [0; 16];
            self.used = 0;
            lanes[0].at = Pointers::in_place(self.block.as_mut_ptr());
            // SAFETY: `at` is `self.block`, one block.
            unsafe { self.kernel.feedback(self.keys.form, &mut lanes, 1) };
        }
        self.links = lanes[0].links;
        drop(lanes);
        // SAFETY: the last `len % 16` of `len` bytes follow the whole blocks.
        unsafe { Self::use_block(self, at.add(len - len % 16), len % 16) };
        K::wipe_stack();
    }

    fn crypt_with(&mut self, first: &mut InOut<'_>, others: &mut [&mut Turn<'_>]) -> Vec<usize> {
        self.assert_has_key();
        let mut taken = Vec::new();
        let mut parts = alloc::vec![MessagePart {
            at: Pointers::of_bytes(first),
            len: first.len(),
            passage: self,
        }];
        for (i, turn) in others.iter_mut().enumerate() {
            let other: &mut dyn Any = &mut *turn.message.0;
            if let Some(passage) = other.downcast_mut::<Self>() {
                parts.push(MessagePart {
                    at: Pointers::of_bytes(&mut turn.buf),
                    len: turn.buf.len(),
                    passage,
                });
                taken.push(i);
            }
        }
        side_by_side(&mut parts);
        taken
    }

    #[cfg(feature = "std")]
    fn use_block(&mut self, buf: &mut InOut<'_>) -> usize {
        // SAFETY: `buf` has `buf.len()` bytes.
        unsafe { Self::use_block(self, Pointers::of_bytes(buf), buf.len()) }
    }

    #[cfg(feature = "std")]
    fn chains(&mut self) -> Vec<Box<dyn Chain + '_>> {
        self.assert_has_key();
        let (kernel, form, keys) = (self.kernel, self.keys.form, self.keys.keys());
        let alone = |(link, key)| -> Box<dyn Chain + '_> {
            Box::new(Lone {
                kernel,
                form: Form { chains: 1, ..form },
                key,
                link,
            })
        };
        let chains = self.links.iter_mut().zip(keys);
        chains.take(form.chains).map(alone).collect()
    }

    #[cfg(feature = "std")]
    fn together_costs_one(&self) -> bool {
        K::MIXES
    }
}

/// A single chain of a message.
#[cfg(feature = "std")]
struct Lone<'a, K: FeedbackKernel> {
    kernel: K,
    form: Form,
    key: &'a K::Key,
    link: &'a mut Link,
}

#[cfg(feature = "std")]
impl<K: FeedbackKernel> Chain for Lone<'_, K> {
    fn add_to(&mut self, bytes: &mut [u8]) {
        assert!(bytes.len().is_multiple_of(16));
        let mut lanes = [Lane {
            keys: [self.key; 2],
            links: [*self.link; 2],
            at: Pointers::in_place(bytes.as_mut_ptr()),
        }];
        // SAFETY: `bytes` has `bytes.len() / 16` blocks.
        unsafe {
            self.kernel
                .feedback(self.form, &mut lanes, bytes.len() / 16);
        }
        *self.link = lanes[0].links[0];
        drop(lanes);
        K::wipe_stack();
    }
}

/// A message and its next bytes.
struct MessagePart<'a, K: FeedbackKernel> {
    passage: &'a mut Passage<K>,
    at: Pointers,
    len: usize,
}

/// Advances messages of any keys, forms and lengths.
fn side_by_side<K: FeedbackKernel>(parts: &mut [MessagePart<'_, K>]) {
    for part in &mut *parts {
        // SAFETY: `part.len` bytes remain at `part.at`, and `used <= part.len`.
        unsafe {
            let used = part.passage.use_block(part.at, part.len);
            part.at = part.at.add(used);
            part.len -= used;
        }
    }
    // Sort messages that can run together next to each other, the longest first.
    let kind = |part: &MessagePart<'_, K>| {
        let keys = &part.passage.keys;
        let key = if K::MIXES {
            0
        } else {
            Arc::as_ptr(keys).addr()
        };
        (keys.form.order(), K::rounds(&keys.first), key)
    };
    parts.sort_by_key(|part| (kind(part), usize::MAX - part.len));
    for parts in parts.chunk_by_mut(|a, b| kind(a) == kind(b)) {
        whole_blocks(parts);
        // What remains of each message is less than a block.
        let left: Vec<_> = parts.iter().map(|part| (part.at, part.len)).collect();
        for part in &mut *parts {
            part.len = match part.len {
                0 => 0,
                _ => {
                    part.passage.block = [0; 16];
                    part.passage.used = 0;
                    part.at = Pointers::in_place(part.passage.block.as_mut_ptr());
                    16
                }
            };
        }
        whole_blocks(parts);
        for (part, (at, len)) in parts.iter_mut().zip(left) {
            // SAFETY: `len` bytes remain at `at`.
            unsafe { part.passage.use_block(at, len) };
        }
    }
    K::wipe_stack();
}

/// Processes the whole blocks of messages of one kind, the longest first.
fn whole_blocks<K: FeedbackKernel>(parts: &mut [MessagePart<'_, K>]) {
    let Some(part) = parts.first() else { return };
    let (kernel, form) = (part.passage.kernel, part.passage.keys.form);
    let keys: Vec<_> = parts
        .iter()
        .map(|part| Arc::clone(&part.passage.keys))
        .collect();
    // Allocate the final capacity: growing or moving a lane would leave a copy of its links that
    // nothing wipes.
    let mut lanes = Vec::with_capacity(messages::<K>(form).min(parts.len()));
    // For each lane, the index of its message in `parts` and the number of blocks that remain.
    let mut places: Vec<(usize, usize)> = Vec::with_capacity(lanes.capacity());
    let mut next = 0;
    loop {
        while lanes.len() < messages::<K>(form) && next < parts.len() {
            let part = &parts[next];
            if part.len >= 16 {
                lanes.push(Lane {
                    keys: keys[next].keys(),
                    links: part.passage.links,
                    at: part.at,
                });
                places.push((next, part.len / 16));
            }
            next += 1;
        }
        let Some(blocks) = places.iter().map(|&(_, blocks)| blocks).min() else {
            return;
        };
        // SAFETY: `blocks` is the minimum over all lanes.
        unsafe { kernel.feedback(form, &mut lanes, blocks) };
        for i in (0..lanes.len()).rev() {
            let lane = &mut lanes[i];
            // SAFETY: the lane had at least `blocks` blocks.
            lane.at = unsafe { lane.at.add(16 * blocks) };
            places[i].1 -= blocks;
            if places[i].1 == 0 {
                let part = &mut parts[places[i].0];
                part.passage.links = lane.links;
                part.at = lane.at;
                part.len %= 16;
                let last = lanes.len() - 1;
                lanes.swap(i, last);
                lanes.truncate(last);
                places.swap_remove(i);
            }
        }
    }
}
