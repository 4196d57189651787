// SPDX-License-Identifier: MIT OR Apache-2.0
//! Removes keys from the stacks and vector registers of the threads that handle them.
//!
//! Where the compiler needs more values than it has registers, it spills some to the stack, round
//! keys among them. They stay there until another call reuses that stack memory. The contents of
//! the vector registers can reach the stack later: the kernel saves all of them there when it calls
//! a signal handler, and never wipes that copy.

use core::{hint::black_box, mem::MaybeUninit};

#[cfg(feature = "std")]
pub use locked::with_key_stack;

/// Overwrites `BYTES` bytes of the stack below the caller's frame, where the frames of functions
/// that have returned were. Inlined functions have no frame of their own there.
#[inline(never)]
pub fn wipe<const BYTES: usize>() {
    let mut dead = MaybeUninit::<[u8; BYTES]>::uninit();
    dead.write([0; BYTES]);
    black_box(&mut dead);
}

#[cfg(feature = "std")]
mod locked {
    #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
    use core::arch::asm;
    use core::{cell::Cell, hint::black_box, mem::MaybeUninit, ptr};

    use super::wipe;
    use crate::secret_bytes::note_lock;

    const PAGE: usize = 4096;

    /// Bytes of stack to lock. The kernels and their callers need less: see
    /// `a_call_needs_little_stack`.
    const LOCKED: usize = 64 << 10;

    /// Bytes of stack to wipe: the kernels and their callers reach no deeper below
    /// [`with_key_stack`].
    const WIPED: usize = 24 << 10;

    /// Calls `work`, then wipes what `work` and its callees left on the stack, to a depth of 24
    /// KiB, and on x86-64 and `AArch64` also what they left in the vector registers.
    ///
    /// Call it around the functions of `luxor-engine` that load and use a key, which do not call it
    /// themselves. One call around several of them is enough. An `Executor` wipes the stacks of its own
    /// threads, but not that of the caller.
    ///
    /// The first call on a thread locks 64 KiB of its stack in memory and excludes them from core
    /// dumps, as far as the system allows
    /// ([`SecretBytes::was_lock_refused`](crate::SecretBytes::was_lock_refused)).
    pub fn with_key_stack<T>(work: impl FnOnce() -> T) -> T {
        // Miri has neither registers nor pages. The threads of a model have short stacks.
        if cfg!(any(miri, model)) {
            return work();
        }
        // While the thread exits, the thread-local is gone: the stack is then wiped but not locked.
        let _ = LOCKED_STACK.try_with(|stack| {
            if stack.0.get().is_none() {
                stack.0.set(Some(lock()));
            }
        });
        let _wipe = Wipe;
        called(work)
    }

    /// Gives `work` a frame of its own, below the frame of [`with_key_stack`].
    #[inline(never)]
    fn called<T>(work: impl FnOnce() -> T) -> T {
        work()
    }

    /// Wipes when dropped, so also after a panic.
    struct Wipe;

    impl Drop for Wipe {
        fn drop(&mut self) {
            // The registers come first: a signal after the wipe would otherwise save them to the
            // stack.
            #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
            clear_vector_registers();
            wipe::<WIPED>();
        }
    }

    /// The vector registers that a CPU has.
    #[cfg(target_arch = "x86_64")]
    enum VectorRegisters {
        /// xmm0 to xmm15.
        Sse,
        /// ymm0 to ymm15.
        Avx,
        /// zmm0 to zmm31, and k0 to k7.
        Avx512,
    }

    #[cfg(target_arch = "x86_64")]
    impl VectorRegisters {
        fn of_this_cpu() -> Self {
            if std::arch::is_x86_feature_detected!("avx512f") {
                Self::Avx512
            } else if std::arch::is_x86_feature_detected!("avx") {
                Self::Avx
            } else {
                Self::Sse
            }
        }
    }

    /// Clears all vector registers of the CPU. The kernels fill them with round keys, tweaks and
    /// blocks, and returning from a function does not clear them. `cargo xtask guard` looks for
    /// this function by name.
    #[cfg(target_arch = "x86_64")]
    #[inline(never)]
    fn clear_vector_registers() {
        // SAFETY: each branch uses only instructions that `of_this_cpu` detected. They change
        // vector and mask registers only, all of which `clobber_abi("sysv64")` declares.
        unsafe {
            match VectorRegisters::of_this_cpu() {
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

    /// As on x86-64. Clearing a register also clears the part that only the instructions of SVE
    /// reach. The low halves of v8 to v15 belong to the caller, who gets them back.
    #[cfg(target_arch = "aarch64")]
    #[inline(never)]
    fn clear_vector_registers() {
        // SAFETY: the instructions change vector registers only, all of which `clobber_abi("C")`
        // declares.
        unsafe {
            asm!(
                "movi v0.2d, #0",
                "movi v1.2d, #0",
                "movi v2.2d, #0",
                "movi v3.2d, #0",
                "movi v4.2d, #0",
                "movi v5.2d, #0",
                "movi v6.2d, #0",
                "movi v7.2d, #0",
                "movi v8.2d, #0",
                "movi v9.2d, #0",
                "movi v10.2d, #0",
                "movi v11.2d, #0",
                "movi v12.2d, #0",
                "movi v13.2d, #0",
                "movi v14.2d, #0",
                "movi v15.2d, #0",
                "movi v16.2d, #0",
                "movi v17.2d, #0",
                "movi v18.2d, #0",
                "movi v19.2d, #0",
                "movi v20.2d, #0",
                "movi v21.2d, #0",
                "movi v22.2d, #0",
                "movi v23.2d, #0",
                "movi v24.2d, #0",
                "movi v25.2d, #0",
                "movi v26.2d, #0",
                "movi v27.2d, #0",
                "movi v28.2d, #0",
                "movi v29.2d, #0",
                "movi v30.2d, #0",
                "movi v31.2d, #0",
                clobber_abi("C"),
                options(nomem, nostack, preserves_flags),
            );
        }
    }

    /// The locked part of this thread's stack: its lowest address and its length in bytes.
    struct LockedStack(Cell<Option<(usize, usize)>>);

    std::thread_local! {
        static LOCKED_STACK: LockedStack = const { LockedStack(Cell::new(None)) };
    }

    impl Drop for LockedStack {
        /// Unlocks it, since the memory may become another thread's stack or ordinary memory.
        fn drop(&mut self) {
            if let Some((begin, len)) = self.0.get() {
                // SAFETY: munlock changes no memory. `begin` and `len` lie within this thread's
                // stack, which stays mapped while the thread runs.
                unsafe { libc::munlock(ptr::without_provenance(begin), len) };
            }
        }
    }

    /// Locks from [`LOCKED`] bytes below this frame to the start of the stack.
    #[inline(never)]
    fn lock() -> (usize, usize) {
        let mut here = 0_u8;
        let here = black_box(&raw mut here).addr();
        let (bottom, top) = bounds().unwrap_or((here, here));
        // The kernel grows the first thread's stack on use, so it must be touched before it can be
        // locked; the stacks of other threads are mapped in full.
        #[cfg(target_os = "linux")]
        // SAFETY: both calls take no arguments and cannot fail.
        if unsafe { libc::gettid() == libc::getpid() } {
            wipe::<LOCKED>();
        }
        let begin = here
            .saturating_sub(LOCKED)
            .max(bottom)
            .next_multiple_of(PAGE);
        let len = top.saturating_sub(begin);
        let address: *mut libc::c_void = ptr::without_provenance_mut(begin);
        // SAFETY: neither call changes memory, and both return an error if a page is not mapped.
        #[cfg(target_os = "linux")]
        let is_locked = unsafe {
            libc::madvise(address, len, libc::MADV_DONTDUMP);
            // With this flag, pages that are never used take no memory.
            let flags = libc::MLOCK_ONFAULT;
            libc::syscall(libc::SYS_mlock2, address, len, flags) == 0
        };
        #[cfg(not(target_os = "linux"))]
        // SAFETY: mlock changes no memory, and returns an error if a page is not mapped.
        let is_locked = unsafe { libc::mlock(address, len) == 0 };
        // If the bounds of the stack are unknown, `len` is 0 and nothing was locked.
        note_lock(is_locked && len > 0);
        (begin, len)
    }

    /// The lowest address of this thread's stack, and the address just past its highest byte.
    #[cfg(target_os = "linux")]
    fn bounds() -> Option<(usize, usize)> {
        let mut attributes = MaybeUninit::uninit();
        let (mut bottom, mut size) = (ptr::null_mut(), 0);
        // SAFETY: pthread_self is this running thread. `attributes` is read only after
        // pthread_getattr_np has initialised it, and destroyed once.
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
