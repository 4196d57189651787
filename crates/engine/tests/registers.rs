// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the vector registers contain after a call that handles keys.

#![cfg(all(any(target_arch = "aarch64", target_arch = "x86_64"), feature = "std"))]

use std::arch::asm;

use luxor_secret::with_key_stack;

const SECRET: [u8; 64] = *b"a round key, another round key..and a tweak....and a last block.";

/// The vector registers of one width.
#[cfg(target_arch = "aarch64")]
#[derive(Clone, Copy, Debug)]
struct Registers;

#[cfg(target_arch = "aarch64")]
impl Registers {
    fn of_this_cpu() -> Vec<Self> {
        vec![Self]
    }

    /// The number of registers that a function leaves to its caller as it used them: all but v8 to
    /// v15. It restores the low halves of those, which clears the high halves.
    fn count(self) -> usize {
        24
    }
}

/// The vector registers of one width.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
enum Registers {
    /// 16 registers of 16 bytes.
    Xmm,
    /// 16 registers of 32 bytes.
    Ymm,
    /// 32 registers of 64 bytes, including those that have no xmm or ymm name.
    Zmm,
}

#[cfg(target_arch = "x86_64")]
impl Registers {
    fn of_this_cpu() -> Vec<Self> {
        let mut all = vec![Self::Xmm];
        if is_x86_feature_detected!("avx") {
            all.push(Self::Ymm);
        }
        if is_x86_feature_detected!("avx512f") {
            all.push(Self::Zmm);
        }
        all
    }

    /// The number of registers that a function leaves to its caller as it used them.
    fn count(self) -> usize {
        match self {
            Self::Xmm | Self::Ymm => 16,
            Self::Zmm => 32,
        }
    }
}

/// Space for the bytes of every register.
type Contents = [[u8; 64]; 32];

/// Calls `$with` with the number of each xmm or ymm register.
#[cfg(target_arch = "x86_64")]
macro_rules! for_each_of_16 {
    ($with:ident) => {
        $with!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
}

/// Calls `$with` with the number of each zmm register, or each vector register of `AArch64`.
macro_rules! for_each_of_32 {
    ($with:ident) => {
        $with!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15
               16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31)
    };
}

/// Fills every vector register with the beginning of `SECRET`, and restores v8 to v15.
#[cfg(target_arch = "aarch64")]
#[inline(never)]
fn fill(_: Registers) {
    macro_rules! fill {
        ($($i:literal)*) => {
            asm!(
                $(concat!("ldr q", $i, ", [{secret}]"),)*
                secret = in(reg) SECRET.as_ptr(),
                clobber_abi("C"),
                options(nostack, readonly),
            )
        };
    }
    // SAFETY: `SECRET` has the 16 bytes that each load reads. All registers that change are
    // declared.
    unsafe { for_each_of_32!(fill) }
}

/// Stores every vector register into `copy`.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn held(_: Registers, copy: &mut Contents) {
    macro_rules! store {
        ($($i:literal)*) => {
            asm!(
                $(concat!("str q", $i, ", [{copy}, 64 * ", $i, "]"),)*
                copy = in(reg) copy.as_mut_ptr(),
                options(nostack),
            )
        };
    }
    // SAFETY: `copy` has 64 bytes for each of 32 registers.
    unsafe { for_each_of_32!(store) }
}

/// Fills every one of `registers` with as much of `SECRET` as fits.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn fill(registers: Registers) {
    macro_rules! fill {
        ($load:literal, $name:literal: $($i:literal)*) => {
            asm!(
                $(concat!($load, " ", $name, $i, ", [{secret}]"),)*
                secret = in(reg) SECRET.as_ptr(),
                clobber_abi("sysv64"),
                options(nostack, readonly),
            )
        };
    }
    macro_rules! xmm { ($($i:literal)*) => { fill!("movdqu", "xmm": $($i)*) }; }
    macro_rules! ymm { ($($i:literal)*) => { fill!("vmovdqu", "ymm": $($i)*) }; }
    macro_rules! zmm { ($($i:literal)*) => { fill!("vmovdqu64", "zmm": $($i)*) }; }
    // SAFETY: `SECRET` has the 64 bytes that the widest load reads. `of_this_cpu` has detected the
    // instructions. All registers that change are declared.
    unsafe {
        match registers {
            Registers::Xmm => for_each_of_16!(xmm),
            Registers::Ymm => for_each_of_16!(ymm),
            Registers::Zmm => for_each_of_32!(zmm),
        }
    }
}

/// Stores every one of `registers` into `copy`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn held(registers: Registers, copy: &mut Contents) {
    macro_rules! store {
        ($store:literal, $name:literal: $($i:literal)*) => {
            asm!(
                $(concat!($store, " [{copy} + 64 * ", $i, "], ", $name, $i),)*
                copy = in(reg) copy.as_mut_ptr(),
                options(nostack),
            )
        };
    }
    macro_rules! xmm { ($($i:literal)*) => { store!("movdqu", "xmm": $($i)*) }; }
    macro_rules! ymm { ($($i:literal)*) => { store!("vmovdqu", "ymm": $($i)*) }; }
    macro_rules! zmm { ($($i:literal)*) => { store!("vmovdqu64", "zmm": $($i)*) }; }
    // SAFETY: `copy` has 64 bytes for each of 32 registers. `of_this_cpu` has detected the
    // instructions.
    unsafe {
        match registers {
            Registers::Xmm => for_each_of_16!(xmm),
            Registers::Ymm => for_each_of_16!(ymm),
            Registers::Zmm => for_each_of_32!(zmm),
        }
    }
}

/// Counts the registers in `copy` that contain a 16-byte piece of `SECRET`.
fn with_secret(copy: &Contents) -> usize {
    let secrets = SECRET.as_chunks::<16>().0;
    let has_secret = |register: &&[u8; 64]| {
        let mut pieces = register.as_chunks::<16>().0.iter();
        pieces.any(|piece| secrets.contains(piece))
    };
    copy.iter().filter(has_secret).count()
}

#[test]
fn a_call_with_keys_leaves_nothing_in_vector_registers() {
    for registers in Registers::of_this_cpu() {
        let mut copy = [[0; 64]; 32];
        fill(registers);
        held(registers, &mut copy);
        assert_eq!(with_secret(&copy), registers.count(), "{registers:?}");

        let mut copy = [[0; 64]; 32];
        with_key_stack(|| fill(registers));
        held(registers, &mut copy);
        assert_eq!(with_secret(&copy), 0, "of {registers:?}");
    }
}
