// SPDX-License-Identifier: MIT OR Apache-2.0
//! The modes with AES by tables, since the paper's is "without AES-NI set of instructions". **Not
//! constant-time.**
//!
//! The paper hands both chains of each array to threads of Java's `newCachedThreadPool`, and waits
//! until both have ended. Here each message starts a second thread, and hands it one array at a
//! time. As in the engine, a thread that waits polls and yields the core: a thread that sleeps takes
//! longer to wake than a chain takes for a short array.

use std::{
    hint, slice,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use luxor_engine::{Construction, KeySize, TweakSchedule, gf128};
use luxor_engine_gpu::AesSize;

use super::lane::{Division, Form, IV, Lane, halves};
use crate::papers::table_aes::TableAes;

/// The name in the place of an engine's.
pub(super) const NAME: &str = "tables";

const BLOCK: usize = 16;

/// Returns the paper's forms, with two chains in the paper's way and on one thread.
pub(super) fn all() -> Vec<Lane<'static>> {
    use Construction::{Xe, Xex};
    let two = |construction| Form::Two(construction, TweakSchedule::Alpha);
    let kinds = [
        (Form::Ofb, Division::Serial),
        (two(Xex), Division::Apart),
        (two(Xex), Division::Together),
        (Form::One(Xex, KeySize::Aes128), Division::Serial),
        (Form::One(Xex, KeySize::Aes256), Division::Serial),
        (two(Xe), Division::Apart),
        (two(Xe), Division::Together),
        (Form::One(Xe, KeySize::Aes128), Division::Serial),
        (Form::One(Xe, KeySize::Aes256), Division::Serial),
        (Form::Ctr, Division::Halves),
    ];
    let lane = |(form, way)| Lane {
        contestant: NAME.to_owned(),
        rival: false,
        form,
        way,
        pass: match way {
            Division::Halves => {
                let aes = TableAes::new(AesSize::Aes256, &form.key());
                Box::new(move |array, input, output| {
                    halves(array, input, output, |at, input, output| {
                        ctr(&aes, at, input, output);
                        Ok(())
                    })
                })
            }
            _ => {
                let keys = Keys::for_form(form);
                Box::new(move |array, input, output| {
                    match (keys.chains().as_mut_slice(), way) {
                        (&mut [one, two], Division::Apart) => apart(one, two, array, input, output),
                        (chains, _) => together(chains, array, input, output),
                    }
                    Ok(())
                })
            }
        },
    };
    kinds.into_iter().map(lane).collect()
}

/// The expanded keys of a form in output feedback.
struct Keys {
    form: Form,
    data: TableAes,
    /// The key of the tweaks, and of the second chain if there are two.
    other: Option<TableAes>,
}

impl Keys {
    fn for_form(form: Form) -> Self {
        let key = form.key();
        let size = match form {
            Form::Ofb | Form::One(_, KeySize::Aes256) | Form::Ctr => AesSize::Aes256,
            Form::Two(..) | Form::One(_, KeySize::Aes128) => AesSize::Aes128,
        };
        let (data, other) = key.split_at(size.bytes());
        Self {
            form,
            data: TableAes::new(size, data),
            other: (!other.is_empty()).then(|| TableAes::new(size, other)),
        }
    }

    /// Begins a message.
    fn chains(&self) -> Vec<Chain<'_>> {
        let iv = u128::from(IV).swap_bytes();
        let (Form::Two(construction, _) | Form::One(construction, _), Some(other)) =
            (self.form, &self.other)
        else {
            return vec![Chain::plain(&self.data, iv)];
        };
        let outer = construction == Construction::Xex;
        let mut chains = vec![Chain::tweaked(&self.data, other, iv, outer)];
        if matches!(self.form, Form::Two(..)) {
            chains.push(Chain::tweaked(other, &self.data, iv, outer));
        }
        chains
    }
}

/// A chain of blocks in output feedback: C ← AES(C), or with tweaks T ← α ⊗ T, C ← AES(T ⊕ C), and T
/// added again if `outer`.
#[derive(Clone, Copy)]
struct Chain<'a> {
    aes: &'a TableAes,
    tweak: Option<u128>,
    outer: bool,
    last: u128,
}

impl<'a> Chain<'a> {
    fn plain(aes: &'a TableAes, iv: u128) -> Self {
        Self {
            aes,
            tweak: None,
            outer: false,
            last: iv,
        }
    }

    fn tweaked(aes: &'a TableAes, other: &TableAes, iv: u128, outer: bool) -> Self {
        let first = other.encrypt(iv);
        Self {
            aes,
            tweak: Some(first),
            outer,
            last: first,
        }
    }

    fn next(&mut self) -> u128 {
        let Some(tweak) = &mut self.tweak else {
            self.last = self.aes.encrypt(self.last);
            return self.last;
        };
        *tweak = gf128::mul_alpha(*tweak);
        let sum = self.aes.encrypt(*tweak ^ self.last);
        self.last = if self.outer { sum ^ *tweak } else { sum };
        self.last
    }
}

/// Adds the next blocks of all key streams to `bytes`. Only the end of a message may cut a block.
fn add_streams(chains: &mut [Chain<'_>], bytes: &mut [u8]) {
    for block in bytes.chunks_mut(BLOCK) {
        for chain in &mut *chains {
            add(block, &chain.next().to_le_bytes());
        }
    }
}

fn add(bytes: &mut [u8], to_add: &[u8]) {
    for (byte, other) in bytes.iter_mut().zip(to_add) {
        *byte ^= other;
    }
}

/// Advances the chains block by block on the caller's thread.
fn together(chains: &mut [Chain<'_>], array: usize, input: &[u8], output: &mut [u8]) {
    for (input, output) in input.chunks(array).zip(output.chunks_mut(array)) {
        output.copy_from_slice(input);
        add_streams(chains, output);
    }
}

/// Advances each chain on a thread of its own, and merges them when both have finished an array
/// ("delayed synchronization"). Each thread has its chain on its own stack: side by side they would
/// share a cache line, which both threads write for every block.
fn apart(mut own: Chain<'_>, other: Chain<'_>, array: usize, input: &[u8], output: &mut [u8]) {
    let (mut own_stream, others_stream) = (vec![0; array], Mutex::new(vec![0; array]));
    let lock_others = || {
        let locked = others_stream.lock();
        locked.unwrap_or_else(PoisonError::into_inner)
    };
    // The numbers of arrays that were handed over, and that the other thread has finished.
    let (handed, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut other = other;
            for (number, input) in (1..).zip(input.chunks(array)) {
                reach(&handed, number);
                let stream = &mut lock_others()[..input.len()];
                stream.fill(0);
                add_streams(slice::from_mut(&mut other), stream);
                finished.store(number, Ordering::Release);
            }
        });
        let arrays = input.chunks(array).zip(output.chunks_mut(array));
        for (number, (input, output)) in (1..).zip(arrays) {
            handed.store(number, Ordering::Release);
            let stream = &mut own_stream[..input.len()];
            stream.fill(0);
            add_streams(slice::from_mut(&mut own), stream);
            reach(&finished, number);
            output.copy_from_slice(input);
            add(output, stream);
            add(output, &lock_others());
        }
    });
}

/// Waits until `count` has reached `number`.
fn reach(count: &AtomicUsize, number: usize) {
    while count.load(Ordering::Acquire) < number {
        for _ in 0..16 {
            hint::spin_loop();
        }
        thread::yield_now();
    }
}

/// Encrypts the bytes of a message in CTR from byte `at` on, the beginning of a block.
fn ctr(aes: &TableAes, at: usize, input: &[u8], output: &mut [u8]) {
    output.copy_from_slice(input);
    let counters = u128::from(IV) + (at / BLOCK) as u128..;
    for (counter, block) in counters.zip(output.chunks_mut(BLOCK)) {
        add(block, &aes.encrypt(counter.swap_bytes()).to_le_bytes());
    }
}
