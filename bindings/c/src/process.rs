// SPDX-License-Identifier: MIT OR Apache-2.0
//! What concerns the whole process.

use std::ffi::c_char;

use luxor::secret::harden_process;

use crate::error::{Error, call, luxor_code, luxor_error};

/// The version of the library that runs, such as "0.1.0". The text is valid for ever.
#[unsafe(no_mangle)]
pub extern "C" fn luxor_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Disables core dumps for this process and denies other processes of the same user access to its
/// memory. Call it before you read a secret. Both settings apply to the whole process, and the
/// limit on core dumps cannot be raised again, so no other function of Luxor calls this one.
///
/// Fails with `LUXOR_FAILURE` if the system refuses one of the two settings; the other is then made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_harden_process(error: *mut *mut luxor_error) -> luxor_code {
    let body = || {
        let refused = harden_process();
        if refused.is_empty() {
            return Ok(());
        }
        let refused: Vec<_> = refused.iter().map(ToString::to_string).collect();
        let code = luxor_code::LUXOR_FAILURE;
        Err(Error::new(code, &refused.join("; ")))
    };
    // SAFETY: `error` is NULL or a place for a pointer, by the caller's contract.
    unsafe { call(error, body) }
}
