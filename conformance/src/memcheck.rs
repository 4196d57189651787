// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests to valgrind's memcheck. It reports each branch and each address that depends on
//! undefined memory, so a program that declares its secrets undefined makes it report what depends
//! on them. Without memcheck the requests do nothing.

#![expect(
    unsafe_code,
    reason = "a request to valgrind is a sequence of instructions"
)]

/// The numbers of the requests (`memcheck.h`).
const MAKE_MEM_UNDEFINED: u64 = 0x4d43_0001;
const MAKE_MEM_DEFINED: u64 = 0x4d43_0002;

/// Declares `bytes` secret.
pub fn hide(bytes: &[u8]) {
    request(MAKE_MEM_UNDEFINED, bytes);
}

/// Declares `bytes` public.
pub fn publish(bytes: &[u8]) {
    request(MAKE_MEM_DEFINED, bytes);
}

fn request(what: u64, bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    {
        let request = [
            what,
            bytes.as_ptr().addr() as u64,
            bytes.len() as u64,
            0,
            0,
            0,
        ];
        // SAFETY: this is valgrind's client request (`valgrind.h`). On the CPU, the rotations of
        // rdi add up to 128 bits and rbx is exchanged with itself, so nothing changes.
        unsafe {
            std::arch::asm!(
                "rol rdi, 3",
                "rol rdi, 13",
                "rol rdi, 61",
                "rol rdi, 51",
                "xchg rbx, rbx",
                in("rax") &raw const request,
                inout("rdx") 0_u64 => _,
                options(nostack),
            );
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (what, bytes);
}
