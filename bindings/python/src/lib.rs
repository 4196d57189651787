// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Python module `luxor`: the part that is written in Rust. `python/luxor` adds what is simpler
//! in Python: the exceptions, and files as `io` knows them.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod advice;
mod allocation;
mod args;
mod buffer;
mod cipher;
mod context;
mod cuda_array;
mod devices;
mod disk;
mod dlpack;
mod error;
mod formats;
mod gpu;
mod interrupt;
mod key_cache;
mod loader;
mod memory;
mod operations;
mod path;
mod secret;
mod storage;
mod tensor;
mod unlocked;
mod volume;
mod volume_arg;
mod xts;

#[pyo3::pymodule(gil_used = false)]
mod _luxor {
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "the name is Python's")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_export]
    use crate::{
        allocation::{Tensor, tensor_types},
        cipher::Cipher,
        disk::{Disk, open},
        formats::{check_plain_volume, formats},
        key_cache::KeyCache,
        loader::{Loader, store},
        memory::view_of,
        operations::{create, decrypt, encrypt, new_header, open_new, part_of},
        secret::{Secret, hidden},
        unlocked::Unlocked,
        volume::{Volume, restore_header},
        xts::{Xts, engines},
    };
}
