// SPDX-License-Identifier: MIT OR Apache-2.0
//! Notices another thread on the same physical core, which belongs to another program or machine.
//!
//! Such a thread leaves a loop of nothing but AES instructions almost alone, because that loop waits for
//! the AES unit and for nothing else. It takes from a kernel whatever the kernel needs besides: on an AMD
//! EPYC (family 25, model 17) the kernels on 256-bit registers fell from 0.87 of the limit to 0.68 while
//! the loop lost 3 %. So measuring the two close together is not enough: both must run alone.
//!
//! The number of instructions that the core begins in a cycle shows whether it works for one thread. An
//! instruction that does nothing needs nothing else, and a thread beside takes up to half of them. The
//! length of a cycle is that of a chain of additions, which leaves most of the core to others.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use crate::limit;

/// What is known about the core when it works for one thread.
pub(crate) struct Neighbour {
    /// The most instructions per cycle seen so far.
    most: Cell<f64>,
}

/// A core that begins less than this part of its most instructions works for another thread too.
const ALONE: f64 = 0.87;

impl Neighbour {
    /// Watches the core for a while.
    pub(crate) fn watch() -> Self {
        let neighbour = Self {
            most: Cell::new(0.0),
        };
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(20) {
            neighbour.is_absent();
        }
        neighbour
    }

    /// Returns whether this thread has the core for itself, which takes some microseconds.
    pub(crate) fn is_absent(&self) -> bool {
        self.judge(per_cycle())
    }

    fn judge(&self, per_cycle: f64) -> bool {
        self.most.set(self.most.get().max(per_cycle));
        per_cycle >= ALONE * self.most.get()
    }
}

/// Measures the instructions that the core begins per cycle.
fn per_cycle() -> f64 {
    const STEPS: u32 = 4000;
    const LOOPS: u32 = 800;
    const NOTHINGS: u32 = 100;
    let before = limit::cycle_of_chain(STEPS);
    let begun = Instant::now();
    for _ in 0..LOOPS {
        do_nothing_100_times();
    }
    let took = begun.elapsed().as_secs_f64();
    // Other programs can only make a cycle seem longer, so take the shorter measurement.
    let cycle = before.min(limit::cycle_of_chain(STEPS));
    f64::from(LOOPS * NOTHINGS) * cycle / took
}

#[inline(always)]
#[allow(unsafe_code)]
fn do_nothing_100_times() {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    // SAFETY: the instructions do nothing.
    unsafe {
        std::arch::asm!(
            ".rept 100",
            "nop",
            ".endr",
            options(nomem, nostack, preserves_flags)
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    std::hint::black_box(());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_instructions_are_a_neighbour() {
        let neighbour = Neighbour {
            most: Cell::new(0.0),
        };
        let judged = [3.0, 6.0, 5.5, 3.1, 6.1].map(|per_cycle| neighbour.judge(per_cycle));
        assert_eq!(judged, [true, true, true, false, true]);
        assert_eq!(neighbour.most.get(), 6.1);
    }

    /// Every core begins more than one instruction per cycle at times, or it would not help to watch.
    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn a_core_begins_several_instructions_per_cycle() {
        let most = Neighbour::watch().most.get();
        assert!((1.0..40.0).contains(&most), "{most}");
    }
}
