// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the machine could do at best: a loop of nothing but AES instructions
//! between registers, of the width that a kernel uses.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

/// A kernel's width of registers.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    run: fn(u64),
    blocks_per_instruction: u64,
    /// What no CPU exceeds: more than this means that the compiler took the
    /// loop apart.
    max_per_cycle: f64,
}

impl Limit {
    /// The limit for a kernel; none for `portable`, which has no AES instruction.
    pub(crate) fn of(kernel: &str) -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        return Some(match kernel {
            "aesni" => Self {
                run: x86::xmm,
                blocks_per_instruction: 1,
                max_per_cycle: 2.0,
            },
            "vaes256" => Self {
                run: x86::ymm,
                blocks_per_instruction: 2,
                max_per_cycle: 2.0,
            },
            "vaes512" => Self {
                run: x86::zmm,
                blocks_per_instruction: 4,
                max_per_cycle: 1.0,
            },
            _ => return None,
        });
        #[cfg(not(target_arch = "x86_64"))]
        return None;
    }

    /// The time that `bytes` of AES in `rounds` rounds take at the limit, and
    /// the instructions a cycle.
    ///
    /// # Errors
    /// If the loop ran faster than any CPU can.
    pub(crate) fn time(self, bytes: u64, rounds: u64) -> Result<Duration, String> {
        let instructions = bytes / 16 * rounds / self.blocks_per_instruction;
        let passes = instructions / IN_FLIGHT as u64;
        let cycle = cycle();
        let start = Instant::now();
        (self.run)(black_box(passes));
        let elapsed = start.elapsed();
        let cycles = elapsed.as_secs_f64() / cycle;
        let per_cycle = (passes * IN_FLIGHT as u64) as f64 / cycles;
        // The clock may change between the two loops.
        if per_cycle > 1.25 * self.max_per_cycle {
            return Err(format!(
                "the limit loop ran {per_cycle:.2} AES instructions a cycle, more than any CPU's \
                 {:.0}: it was not compiled as written",
                self.max_per_cycle
            ));
        }
        Ok(elapsed)
    }
}

/// Independent instructions in the loops: enough to cover their latency, and few
/// enough for the 16 registers of the narrowest.
const IN_FLIGHT: usize = 12;

/// The seconds of a core's cycle now, by a chain of additions of one cycle
/// each; the least of a few, since another program may take the core away.
fn cycle() -> f64 {
    const STEPS: u32 = 10_000;
    let once = || {
        let start = Instant::now();
        let mut x = black_box(1_u64);
        for _ in 0..STEPS / 10 {
            for _ in 0..10 {
                x = add(x);
            }
        }
        black_box(x);
        start.elapsed().as_secs_f64() / f64::from(STEPS)
    };
    (0..5).map(|_| once()).fold(f64::INFINITY, f64::min)
}

/// One instruction of one cycle, which the compiler cannot fold.
#[inline(always)]
#[allow(unsafe_code)]
fn add(mut x: u64) -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: it adds to a register.
    unsafe {
        std::arch::asm!("add {x}, 3", x = inout(reg) x, options(nomem, nostack, pure));
    }
    x
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod x86 {
    use std::{arch::x86_64::*, hint::black_box};

    use super::IN_FLIGHT;

    macro_rules! limit {
        ($name:ident, $features:literal, $zero:ident, $enc:ident) => {
            pub(super) fn $name(passes: u64) {
                #[target_feature(enable = $features)]
                fn run(passes: u64) {
                    let key = black_box($zero());
                    let mut x = black_box([key; IN_FLIGHT]);
                    for _ in 0..passes {
                        for x in &mut x {
                            *x = $enc(*x, key);
                        }
                    }
                    black_box(x);
                }
                // SAFETY: the kernel of this width is present on this machine.
                unsafe { run(passes) }
            }
        };
    }

    limit!(xmm, "aes,avx", _mm_setzero_si128, _mm_aesenc_si128);
    limit!(ymm, "vaes,avx2", _mm256_setzero_si256, _mm256_aesenc_epi128);
    limit!(
        zmm,
        "vaes,avx512f",
        _mm512_setzero_si512,
        _mm512_aesenc_epi128
    );
}
