// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the vector registers hold after a call with keys.

#![cfg(all(target_arch = "x86_64", feature = "std"))]

use std::arch::asm;

use luxor_engine::with_key_stack;

const SECRET: [u8; 32] = *b"a round key, another round key..";

/// Calls `$with` with the number of each register.
macro_rules! for_each_register {
    ($with:ident) => {
        $with!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
}

/// Puts `SECRET` into all xmm or ymm registers.
#[inline(never)]
fn fill(wide: bool) {
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
    macro_rules! narrow { ($($i:literal)*) => { fill!("movdqu", "xmm": $($i)*) }; }
    macro_rules! wide { ($($i:literal)*) => { fill!("vmovdqu", "ymm": $($i)*) }; }
    // SAFETY: `SECRET` has the 32 bytes that are read; `wide` says that there is AVX; all
    // registers that change are declared.
    unsafe {
        if wide {
            for_each_register!(wide);
        } else {
            for_each_register!(narrow);
        }
    }
}

/// What all xmm or ymm registers hold, in 16 bytes each.
#[inline(always)]
fn held(wide: bool, copy: &mut [[u8; 32]; 16]) {
    macro_rules! store {
        ($store:literal, $name:literal: $($i:literal)*) => {
            asm!(
                $(concat!($store, " [{copy} + 32 * ", $i, "], ", $name, $i),)*
                copy = in(reg) copy.as_mut_ptr(),
                options(nostack),
            )
        };
    }
    macro_rules! narrow { ($($i:literal)*) => { store!("movdqu", "xmm": $($i)*) }; }
    macro_rules! wide { ($($i:literal)*) => { store!("vmovdqu", "ymm": $($i)*) }; }
    // SAFETY: `copy` has 32 bytes for each of the 16 registers; `wide` says that there is AVX.
    unsafe {
        if wide {
            for_each_register!(wide);
        } else {
            for_each_register!(narrow);
        }
    }
}

#[test]
fn a_call_with_keys_leaves_nothing_in_vector_registers() {
    let has_avx = is_x86_feature_detected!("avx");
    for wide in [false, true] {
        if wide && !has_avx {
            continue;
        }
        let halves = |copy: &[[u8; 32]; 16]| {
            let pieces = copy.as_flattened().as_chunks::<16>().0.iter();
            let secrets = SECRET.as_chunks::<16>().0;
            pieces.filter(|piece| secrets.contains(piece)).count()
        };
        let mut copy = [[0; 32]; 16];
        fill(wide);
        held(wide, &mut copy);
        assert!(halves(&copy) > 0, "the test sees the registers");

        let mut copy = [[0; 32]; 16];
        with_key_stack(|| fill(wide));
        held(wide, &mut copy);
        assert_eq!(
            halves(&copy),
            0,
            "of {:?}",
            if wide { "ymm" } else { "xmm" }
        );
    }
}
