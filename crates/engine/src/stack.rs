// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stacks of threads that handle keys, and their registers.
//!
//! Where the compiler has more values than registers it puts some on the stack, round keys
//! among them. They stay there until another call needs the place. What is in the vector
//! registers gets onto the stack later, too: the kernel saves all of them there when it calls
//! the handler of a signal, and never wipes that.

use core::{hint::black_box, mem::MaybeUninit};

#[cfg(feature = "std")]
pub use locked::with_key_stack;

/// Overwrites `BYTES` of the stack below its caller, which is where functions that
/// have returned had what was theirs, unless they were inlined.
#[inline(never)]
pub(crate) fn wipe<const BYTES: usize>() {
    let mut dead = MaybeUninit::<[u8; BYTES]>::uninit();
    dead.write([0; BYTES]);
    black_box(&mut dead);
}

#[cfg(feature = "std")]
mod locked {
    #[cfg(target_arch = "x86_64")]
    use core::arch::asm;
    use core::{cell::Cell, hint::black_box, mem::MaybeUninit, ptr};

    use super::wipe;
    use crate::{buffer::PAGE, secret::note_lock};

    /// The kernels and what calls them need less: see `a_call_needs_little_stack`.
    const LOCKED: usize = 64 << 10;

    /// What they leave is not deeper below [`with_key_stack`].
    const WIPED: usize = 24 << 10;

    /// Calls `work`, and then overwrites what it and all that it called have left on the stack,
    /// to a depth of 24 KiB, and on x86-64 in the vector registers.
    ///
    /// The first call on a thread locks 64 KiB of its stack in memory and keeps them out of core
    /// dumps, both as far as the system allows
    /// ([`SecretBytes::was_lock_refused`](crate::SecretBytes::was_lock_refused)).
    pub fn with_key_stack<T>(work: impl FnOnce() -> T) -> T {
        // Not while the thread ends: then it is wiped only.
        let _ = LOCKED_STACK.try_with(|stack| {
            if stack.0.get().is_none() {
                stack.0.set(Some(lock()));
            }
        });
        let _wipe = Wipe;
        called(work)
    }

    /// Has a frame of its own, which lies below the caller's.
    #[inline(never)]
    fn called<T>(work: impl FnOnce() -> T) -> T {
        work()
    }

    /// After a panic too.
    struct Wipe;

    impl Drop for Wipe {
        fn drop(&mut self) {
            // First: a signal after the wipe must find nothing that it could put on the stack.
            #[cfg(target_arch = "x86_64")]
            clear_vector_registers();
            wipe::<WIPED>();
        }
    }

    /// All of those that the CPU has: the kernels fill them with round keys, tweaks and blocks,
    /// and a function that returns leaves them as they are. `cargo xtask guard` knows it by its
    /// name.
    #[cfg(target_arch = "x86_64")]
    #[inline(never)]
    fn clear_vector_registers() {
        use crate::detect::{VectorRegisters, vector_registers};
        // SAFETY: each branch has instructions that the CPU was found to have, changes vector and
        // mask registers only, and the ABI lets a function change all of them.
        unsafe {
            match vector_registers() {
                VectorRegisters::Avx512 => asm!(
                    "vzeroall",
                    "vpxord zmm16, zmm16, zmm16",
                    "vpxord zmm17, zmm17, zmm17",
                    "vpxord zmm18, zmm18, zmm18",
                    "vpxord zmm19, zmm19, zmm19",
                    "vpxord zmm20, zmm20, zmm20",
                    "vpxord zmm21, zmm21, zmm21",
                    "vpxord zmm22, zmm22, zmm22",
                    "vpxord zmm23, zmm23, zmm23",
                    "vpxord zmm24, zmm24, zmm24",
                    "vpxord zmm25, zmm25, zmm25",
                    "vpxord zmm26, zmm26, zmm26",
                    "vpxord zmm27, zmm27, zmm27",
                    "vpxord zmm28, zmm28, zmm28",
                    "vpxord zmm29, zmm29, zmm29",
                    "vpxord zmm30, zmm30, zmm30",
                    "vpxord zmm31, zmm31, zmm31",
                    "kxorw k0, k0, k0",
                    "kxorw k1, k1, k1",
                    "kxorw k2, k2, k2",
                    "kxorw k3, k3, k3",
                    "kxorw k4, k4, k4",
                    "kxorw k5, k5, k5",
                    "kxorw k6, k6, k6",
                    "kxorw k7, k7, k7",
                    clobber_abi("sysv64"),
                    options(nomem, nostack, preserves_flags),
                ),
                VectorRegisters::Avx => asm!(
                    "vzeroall",
                    clobber_abi("sysv64"),
                    options(nomem, nostack, preserves_flags),
                ),
                VectorRegisters::Sse => asm!(
                    "xorps xmm0, xmm0",
                    "xorps xmm1, xmm1",
                    "xorps xmm2, xmm2",
                    "xorps xmm3, xmm3",
                    "xorps xmm4, xmm4",
                    "xorps xmm5, xmm5",
                    "xorps xmm6, xmm6",
                    "xorps xmm7, xmm7",
                    "xorps xmm8, xmm8",
                    "xorps xmm9, xmm9",
                    "xorps xmm10, xmm10",
                    "xorps xmm11, xmm11",
                    "xorps xmm12, xmm12",
                    "xorps xmm13, xmm13",
                    "xorps xmm14, xmm14",
                    "xorps xmm15, xmm15",
                    clobber_abi("sysv64"),
                    options(nomem, nostack, preserves_flags),
                ),
            }
        }
    }

    /// The part of this thread's stack that is locked: from where, and how many bytes.
    struct LockedStack(Cell<Option<(usize, usize)>>);

    std::thread_local! {
        static LOCKED_STACK: LockedStack = const { LockedStack(Cell::new(None)) };
    }

    impl Drop for LockedStack {
        /// The stack may become that of another thread, or ordinary memory.
        fn drop(&mut self) {
            if let Some((begin, len)) = self.0.get() {
                // SAFETY: unlocking changes no memory. So many bytes were mapped there, and still
                // are as long as this thread runs.
                unsafe { libc::munlock(ptr::without_provenance(begin), len) };
            }
        }
    }

    /// Locks from [`LOCKED`] below this frame to the stack's beginning.
    #[inline(never)]
    fn lock() -> (usize, usize) {
        let mut here = 0_u8;
        let here = black_box(&raw mut here).addr();
        let (bottom, top) = bounds().unwrap_or((here, here));
        // The stack of the first thread grows when it is used; those of others are there.
        #[cfg(target_os = "linux")]
        // SAFETY: neither call can fail.
        if unsafe { libc::gettid() == libc::getpid() } {
            wipe::<LOCKED>();
        }
        let begin = here
            .saturating_sub(LOCKED)
            .max(bottom)
            .next_multiple_of(PAGE);
        let len = top.saturating_sub(begin);
        let address: *mut libc::c_void = ptr::without_provenance_mut(begin);
        // SAFETY: both calls change no memory, and are errors where none is mapped.
        #[cfg(target_os = "linux")]
        let is_locked = unsafe {
            libc::madvise(address, len, libc::MADV_DONTDUMP);
            // Pages that are never used need no memory.
            let flags = libc::MLOCK_ONFAULT;
            libc::syscall(libc::SYS_mlock2, address, len, flags) == 0
        };
        #[cfg(not(target_os = "linux"))]
        // SAFETY: as above.
        let is_locked = unsafe { libc::mlock(address, len) == 0 };
        // Of a stack whose bounds are not known nothing is locked, which is no success.
        note_lock(is_locked && len > 0);
        (begin, len)
    }

    /// The lowest address of this thread's stack, and the one behind its highest.
    #[cfg(target_os = "linux")]
    fn bounds() -> Option<(usize, usize)> {
        let mut attributes = MaybeUninit::uninit();
        let (mut bottom, mut size) = (ptr::null_mut(), 0);
        // SAFETY: the thread is this one; the attributes are read when they have been made, and
        // destroyed once.
        unsafe {
            if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
                return None;
            }
            let got =
                libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut bottom, &raw mut size);
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
            (got == 0).then_some((bottom.addr(), bottom.addr() + size))
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn bounds() -> Option<(usize, usize)> {
        None
    }
}
