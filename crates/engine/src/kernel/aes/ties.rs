// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fixes the order of instructions where the compiler would choose another.

/// Implements [`Vector::before`] and [`Vector::integer_before`]: an empty asm block takes both
/// values, so the compiler must have computed `first` before it goes on with `later`. Miri runs no
/// assembly.
macro_rules! ties {
    ($raw:ty, $class:ident $modifier:literal, $feature:literal) => {
        #[target_feature(enable = $feature)]
        #[inline]
        fn before(first: &mut $raw, later: &mut $raw) {
            if cfg!(miri) {
                return;
            }
            // SAFETY: the block contains only a comment.
            unsafe {
                core::arch::asm!(
                    concat!("/* {0", $modifier, "} {1", $modifier, "} */"),
                    inout($class) * first,
                    inout($class) * later,
                    options(pure, nomem, nostack, preserves_flags)
                );
            }
        }

        #[target_feature(enable = $feature)]
        #[inline]
        fn integer_before(first: &mut u64, later: &mut $raw) {
            if cfg!(miri) {
                return;
            }
            // SAFETY: the block contains only a comment.
            unsafe {
                core::arch::asm!(
                    concat!("/* {0} {1", $modifier, "} */"),
                    inout(reg) * first,
                    inout($class) * later,
                    options(pure, nomem, nostack, preserves_flags)
                );
            }
        }
    };
}
pub(in crate::kernel) use ties;
