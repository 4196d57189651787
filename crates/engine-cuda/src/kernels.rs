// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels embedded in this program, and the constants with which they were compiled
//! (`kernels/portability.h`).

use std::ffi::CStr;

use luxor_engine_gpu::{AesSize, Tables};

/// The kernels of one key size. Each size is a module of its own, so that the driver compiles only
/// the sizes in use.
pub(crate) struct Kernels {
    /// The PTX, with a terminating zero byte.
    pub(crate) ptx: &'static CStr,
    /// The kernels' names.
    pub(crate) names: [&'static str; 6],
}

macro_rules! kernels {
    ($size:literal) => {
        Kernels {
            ptx: {
                let text = concat!(include_str!(concat!("../ptx/aes", $size, ".ptx")), "\0");
                match CStr::from_bytes_with_nul(text.as_bytes()) {
                    Ok(text) => text,
                    Err(_) => panic!("the PTX contains a zero byte"),
                }
            },
            names: [
                concat!("xts_tweaks_", $size),
                concat!("xts_encrypt_", $size),
                concat!("xts_decrypt_", $size),
                concat!("xts_tails_encrypt_", $size),
                concat!("xts_tails_decrypt_", $size),
                concat!("ctr_", $size),
            ],
        }
    };
}

/// Returns the kernels for keys of `size`.
pub(crate) fn for_size(size: AesSize) -> &'static Kernels {
    static AES_128: Kernels = kernels!("128");
    static AES_192: Kernels = kernels!("192");
    static AES_256: Kernels = kernels!("256");
    match size {
        AesSize::Aes128 => &AES_128,
        AesSize::Aes192 => &AES_192,
        AesSize::Aes256 => &AES_256,
    }
}

/// `THREADS`: threads of a block.
pub const THREADS: u32 = 1024;

/// `TABLES`: the tables that the kernels keep in shared memory.
pub(crate) const TABLES: Tables = Tables::Two;

/// Bytes of dynamic shared memory of a block: two tables of 256 words, with 32 copies of each word.
pub const SHARED: u32 = 2 * 256 * 32 * 4;

/// The compute capability that the PTX targets: the first with [`SHARED`] bytes of shared memory
/// per block.
pub const COMPUTE_CAPABILITY: (u32, u32) = (7, 5);

/// The oldest driver that accepts the PTX, as its CUDA version: 12000 is 12.0, which introduced PTX
/// 8.0.
pub const DRIVER: u32 = 12000;

/// The name of the variable that holds the keys.
pub(crate) const KEYS: &CStr = c"luxor_keys";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::{SLOT, SLOTS};

    #[test]
    fn the_ptx_has_the_expected_version_and_kernels() {
        for size in AesSize::ALL {
            let kernels = for_size(size);
            let text = kernels.ptx.to_str().unwrap();
            let directive = |name: &str| {
                let mut found = text.lines().filter_map(|line| line.strip_prefix(name));
                found.next().unwrap_or_default().trim().to_owned()
            };
            // PTX 8.0 came with CUDA 12.0.
            assert_eq!((directive(".version"), DRIVER), ("8.0".into(), 12000));
            let (major, minor) = COMPUTE_CAPABILITY;
            assert_eq!(directive(".target"), format!("sm_{major}{minor}"));
            assert_eq!(text.matches(".entry ").count(), kernels.names.len());
            for name in kernels.names {
                assert!(text.contains(&format!(".entry {name}(")), "{name}");
            }
            let keys = format!("{}[{}]", KEYS.to_str().unwrap(), SLOTS * SLOT);
            assert!(text.contains(&keys), "{keys}");
            assert!(text.contains(&format!(".maxntid {THREADS}")), "{THREADS}");
        }
    }
}
