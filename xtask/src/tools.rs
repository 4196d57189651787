// SPDX-License-Identifier: MIT OR Apache-2.0
//! The programs and folders of which a chore and `setup` must have the same names.

use std::path::Path;

/// The version is part of the name, because another one has other models.
pub const LLVM_MCA: &str = "llvm-mca-19";

/// The C compiler that links programs for `AArch64`.
pub const AARCH64_LINKER: &str = "aarch64-linux-gnu-gcc";

/// The disassembler of these programs.
pub const AARCH64_OBJDUMP: &str = "aarch64-linux-gnu-objdump";

/// Where Debian's package of the C library for `AArch64` lies.
pub const AARCH64_SYSROOT: &str = "/usr/aarch64-linux-gnu";

/// Whether the loader of the C library for `AArch64` is installed.
pub fn has_aarch64_libc() -> bool {
    Path::new(AARCH64_SYSROOT)
        .join("lib/ld-linux-aarch64.so.1")
        .is_file()
}
