// SPDX-License-Identifier: MIT OR Apache-2.0
//! The limit of the machine: loops of nothing but AES instructions between registers, for each
//! width that the machine has.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use luxor_engine::{CPU_KERNELS, Registry};

/// The AES instructions of one register width.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    /// The name of the registers.
    pub(crate) width: &'static str,
    run: fn(u64) -> Duration,
    blocks_per_instruction: u64,
}

/// The result of a run of the loop.
pub(crate) struct Pace {
    /// Instructions per cycle of the core.
    pub(crate) per_cycle: f64,
    /// The clock of the core during the run, in GHz.
    pub(crate) ghz: f64,
}

impl Limit {
    /// Returns the limits of this machine, the widest registers first.
    pub(crate) fn all() -> Vec<Self> {
        let registry = Registry::cpu();
        let names = CPU_KERNELS.iter().map(|kernel| kernel.name);
        let names = names.filter(|name| registry.get(name).is_ok());
        let mut limits: Vec<Self> = names.filter_map(Self::for_kernel).collect();
        limits.dedup_by_key(|limit| limit.width);
        limits
    }

    /// Returns the limit for a kernel of this machine, or `None` for `portable`, which uses no AES
    /// instructions.
    pub(crate) fn for_kernel(kernel: &str) -> Option<Self> {
        let kernel = CPU_KERNELS.iter().find(|listed| listed.name == kernel)?;
        #[cfg(target_arch = "x86_64")]
        let (width, run): (_, fn(u64) -> Duration) = match (kernel.architecture, kernel.blocks) {
            ("x86_64", 1) => ("xmm", x86::xmm),
            ("x86_64", 2) => ("ymm", x86::ymm),
            ("x86_64", 4) => ("zmm", x86::zmm),
            _ => return None,
        };
        #[cfg(target_arch = "x86_64")]
        return Some(Self {
            width,
            run,
            blocks_per_instruction: kernel.blocks.into(),
        });
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = kernel;
            None
        }
    }

    /// Runs the loop for as many AES instructions as `bytes` bytes with `rounds` rounds need.
    pub(crate) fn run(self, bytes: u64, rounds: u64) -> Duration {
        (self.run)(black_box(self.passes(bytes, rounds)))
    }

    fn passes(self, bytes: u64, rounds: u64) -> u64 {
        let instructions = bytes / 16 * rounds / self.blocks_per_instruction;
        (instructions / IN_FLIGHT as u64).max(1)
    }

    /// As [`Limit::run`], and measures the clock before and after.
    pub(crate) fn time(self, bytes: u64, rounds: u64) -> Pace {
        let passes = self.passes(bytes, rounds);
        let before = cycle();
        let elapsed = self.run(bytes, rounds);
        // Other programs can only make a cycle seem longer, so take the shorter measurement.
        let cycle = before.min(cycle());
        Pace {
            per_cycle: (passes * IN_FLIGHT as u64) as f64 * cycle / elapsed.as_secs_f64(),
            ghz: 1e-9 / cycle,
        }
    }
}

/// Independent instructions in the loops: enough to hide their latency, and few enough for the 16
/// registers of the narrowest width.
const IN_FLIGHT: usize = 12;

/// Measures the seconds of a cycle of the core, with a chain of additions of one cycle each. It
/// takes the least of several measurements, since another program may interrupt.
fn cycle() -> f64 {
    let all = (0..5).map(|_| cycle_of_chain(10_000));
    all.fold(f64::INFINITY, f64::min)
}

/// As [`cycle`], with one chain of `steps` additions, a multiple of 10.
pub(crate) fn cycle_of_chain(steps: u32) -> f64 {
    let start = Instant::now();
    let (mut x, step) = black_box((1_u64, 3_u64));
    for _ in 0..steps / 10 {
        for _ in 0..10 {
            x = add(x, step);
        }
    }
    black_box(x);
    start.elapsed().as_secs_f64() / f64::from(steps)
}

/// Adds in one instruction of one cycle, which neither the compiler nor the CPU can fold. Intel
/// CPUs since Alder Lake add small constants for free while renaming registers, so `step` is in a
/// register.
#[inline(always)]
#[allow(unsafe_code)]
fn add(mut x: u64, step: u64) -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction only adds registers.
    unsafe {
        std::arch::asm!(
            "add {x}, {step}",
            x = inout(reg) x,
            step = in(reg) step,
            options(nomem, nostack, pure)
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the instruction only adds registers.
    unsafe {
        std::arch::asm!(
            "add {x}, {x}, {step}",
            x = inout(reg) x,
            step = in(reg) step,
            options(nomem, nostack, pure)
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        x = x.wrapping_add(step);
    }
    x
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod x86 {
    use std::{
        arch::{asm, x86_64::*},
        hint::black_box,
        time::{Duration, Instant},
    };

    use super::IN_FLIGHT;

    /// Blocks without a pattern. With equal blocks, the same bits would stay unchanged in all
    /// lanes; that needs less power, and CPUs convert spare power into a faster clock.
    static STATES: [[u8; 64]; IN_FLIGHT + 1] = states();

    const fn states() -> [[u8; 64]; IN_FLIGHT + 1] {
        let mut states = [[0; 64]; IN_FLIGHT + 1];
        let mut x = 0x9e37_79b9_7f4a_7c15_u64;
        let mut i = 0;
        while i < 64 * states.len() {
            // Marsaglia's xorshift.
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            states[i / 64][i % 64] = x.to_le_bytes()[7];
            i += 1;
        }
        states
    }

    /// The loop is assembly, so that it is compiled exactly as written. A check of its speed would
    /// fail whenever another program loads the machine.
    macro_rules! limit {
        ($name:ident, $features:literal, $load:ident, $register:ident) => {
            pub(super) fn $name(passes: u64) -> Duration {
                #[target_feature(enable = $features)]
                fn run(passes: u64) -> Duration {
                    let states = black_box(&STATES);
                    // SAFETY: each state has 64 bytes, and no register is wider.
                    let load = |i: usize| unsafe { $load(states[i].as_ptr().cast()) };
                    let start = Instant::now();
                    // SAFETY: the loop changes only the registers that it names.
                    unsafe {
                        asm!(
                            "2:",
                            "vaesenc {0}, {0}, {key}",
                            "vaesenc {1}, {1}, {key}",
                            "vaesenc {2}, {2}, {key}",
                            "vaesenc {3}, {3}, {key}",
                            "vaesenc {4}, {4}, {key}",
                            "vaesenc {5}, {5}, {key}",
                            "vaesenc {6}, {6}, {key}",
                            "vaesenc {7}, {7}, {key}",
                            "vaesenc {8}, {8}, {key}",
                            "vaesenc {9}, {9}, {key}",
                            "vaesenc {10}, {10}, {key}",
                            "vaesenc {11}, {11}, {key}",
                            "dec {passes}",
                            "jnz 2b",
                            inout($register) load(0) => _,
                            inout($register) load(1) => _,
                            inout($register) load(2) => _,
                            inout($register) load(3) => _,
                            inout($register) load(4) => _,
                            inout($register) load(5) => _,
                            inout($register) load(6) => _,
                            inout($register) load(7) => _,
                            inout($register) load(8) => _,
                            inout($register) load(9) => _,
                            inout($register) load(10) => _,
                            inout($register) load(11) => _,
                            key = in($register) load(IN_FLIGHT),
                            passes = inout(reg) passes => _,
                            options(nomem, nostack),
                        );
                    }
                    start.elapsed()
                }
                assert!(passes > 0, "the loop counts down to zero");
                // SAFETY: `Limit::for_kernel` offers this width only if the CPU has its features.
                unsafe { run(passes) }
            }
        };
    }

    limit!(xmm, "aes,avx", _mm_loadu_si128, xmm_reg);
    limit!(ymm, "vaes,avx2", _mm256_loadu_si256, ymm_reg);
    limit!(zmm, "vaes,avx512f", _mm512_loadu_si512, zmm_reg);
}
