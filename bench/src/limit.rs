// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the machine could do at best: a loop of nothing but AES instructions
//! between registers, of each width that it has.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

/// The AES instructions of one width of registers.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    /// The registers' name.
    pub(crate) width: &'static str,
    run: fn(u64) -> Duration,
    blocks_per_instruction: u64,
    /// What no CPU of this make exceeds: more than this means that the compiler
    /// took the loop apart.
    max_per_cycle: f64,
}

/// What a run of the loop showed.
pub(crate) struct Pace {
    /// Instructions per cycle of the core.
    pub(crate) per_cycle: f64,
    /// The core's clock meanwhile, in GHz.
    pub(crate) ghz: f64,
}

impl Limit {
    /// Those of this machine, the widest first.
    pub(crate) fn all() -> Vec<Self> {
        ["vaes512", "vaes256", "aesni"]
            .into_iter()
            .filter(|name| luxor_engine::Registry::cpu().get(name).is_ok())
            .filter_map(Self::of)
            .collect()
    }

    /// The limit for a kernel of this machine; none for `portable`, which uses no
    /// AES instruction.
    pub(crate) fn of(kernel: &str) -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        return Some(match kernel {
            "aesni" => Self {
                width: "xmm",
                run: x86::xmm,
                blocks_per_instruction: 1,
                max_per_cycle: 2.0,
            },
            "vaes256" => Self {
                width: "ymm",
                run: x86::ymm,
                blocks_per_instruction: 2,
                max_per_cycle: 2.0,
            },
            "vaes512" => Self {
                width: "zmm",
                run: x86::zmm,
                blocks_per_instruction: 4,
                max_per_cycle: x86::zmm_per_cycle(),
            },
            _ => return None,
        });
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = kernel;
            None
        }
    }

    /// Runs the loop for `bytes` of AES in `rounds` rounds, and nothing else.
    pub(crate) fn run(self, bytes: u64, rounds: u64) -> Duration {
        (self.run)(black_box(self.passes(bytes, rounds)))
    }

    fn passes(self, bytes: u64, rounds: u64) -> u64 {
        let instructions = bytes / 16 * rounds / self.blocks_per_instruction;
        (instructions / IN_FLIGHT as u64).max(1)
    }

    /// As [`Limit::run`], with the clock looked at.
    ///
    /// # Errors
    /// If the loop ran faster than any CPU can.
    pub(crate) fn time(self, bytes: u64, rounds: u64) -> Result<Pace, String> {
        let passes = self.passes(bytes, rounds);
        let before = cycle();
        let elapsed = self.run(bytes, rounds);
        // The clock may change meanwhile; its faster state is the benefit of doubt.
        let cycle = before.min(cycle());
        let per_cycle = (passes * IN_FLIGHT as u64) as f64 * cycle / elapsed.as_secs_f64();
        if per_cycle > 1.25 * self.max_per_cycle {
            return Err(format!(
                "the limit loop ran {per_cycle:.2} AES instructions on {} a cycle, more than any \
                 CPU's {:.0}: it was not compiled as written, and no ratio would mean anything",
                self.width, self.max_per_cycle
            ));
        }
        Ok(Pace {
            per_cycle,
            ghz: 1e-9 / cycle,
        })
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
        let (mut x, step) = black_box((1_u64, 3_u64));
        for _ in 0..STEPS / 10 {
            for _ in 0..10 {
                x = add(x, step);
            }
        }
        black_box(x);
        start.elapsed().as_secs_f64() / f64::from(STEPS)
    };
    (0..5).map(|_| once()).fold(f64::INFINITY, f64::min)
}

/// One instruction of one cycle, which the compiler cannot fold; nor can the CPU:
/// Intel's since Alder Lake add small constants while they rename registers, in no
/// time at all.
#[inline(always)]
#[allow(unsafe_code)]
fn add(mut x: u64, step: u64) -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: it adds registers.
    unsafe {
        std::arch::asm!(
            "add {x}, {step}",
            x = inout(reg) x,
            step = in(reg) step,
            options(nomem, nostack, pure)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        x = x.wrapping_add(step);
    }
    x
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod x86 {
    use std::{
        arch::x86_64::*,
        hint::black_box,
        time::{Duration, Instant},
    };

    use super::IN_FLIGHT;

    /// One on Intel's CPUs (Ice Lake to Granite Rapids) and AMD's Zen 4, which have
    /// 512 bits of AES in all; two narrower ones take the same ports. Two where the
    /// ports are twice as wide: AMD's Zen 5, family 1Ah (uops.info, `VAESENC`).
    pub(super) fn zmm_per_cycle() -> f64 {
        let amd = __cpuid(0).ebx == u32::from_le_bytes(*b"Auth");
        let signature = __cpuid(1).eax;
        let family = (signature >> 8 & 0xf) + (signature >> 20 & 0xff);
        if amd && family >= 0x1a { 2.0 } else { 1.0 }
    }

    /// Blocks of no pattern. With equal ones the same bits would stand still in all
    /// lanes, which takes less power, and CPUs turn power into clock.
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

    macro_rules! limit {
        ($name:ident, $features:literal, $load:ident, $enc:ident) => {
            pub(super) fn $name(passes: u64) -> Duration {
                #[target_feature(enable = $features)]
                fn run(passes: u64) -> Duration {
                    let states = black_box(&STATES);
                    // SAFETY: a state has 64 bytes, no register has more.
                    let load = |i: usize| unsafe { $load(states[i].as_ptr().cast()) };
                    let key = load(IN_FLIGHT);
                    let mut x = [key; IN_FLIGHT];
                    for (i, x) in x.iter_mut().enumerate() {
                        *x = load(i);
                    }
                    let start = Instant::now();
                    for _ in 0..passes {
                        for x in &mut x {
                            *x = $enc(*x, key);
                        }
                    }
                    black_box(x);
                    start.elapsed()
                }
                // SAFETY: the kernel of this width is present on this machine.
                unsafe { run(passes) }
            }
        };
    }

    limit!(xmm, "aes,avx", _mm_loadu_si128, _mm_aesenc_si128);
    limit!(ymm, "vaes,avx2", _mm256_loadu_si256, _mm256_aesenc_epi128);
    limit!(
        zmm,
        "vaes,avx512f",
        _mm512_loadu_si512,
        _mm512_aesenc_epi128
    );
}
