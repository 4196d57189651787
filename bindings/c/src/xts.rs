// SPDX-License-Identifier: MIT OR Apache-2.0
//! XTS over data units in memory.

use std::ffi::c_void;

use luxor::{
    Xts,
    engine::{DataUnitNumber, Direction, InOut},
    files::OfProcess,
};

use crate::{
    error::{call, luxor_code, luxor_error, make},
    handle::{self, Handle},
    options::{luxor_options, options},
    pointers,
};

/// An XTS key, ready for use. Any number of threads may use it at once.
pub struct luxor_xts;

impl Handle for luxor_xts {
    type Value = OfProcess<Xts>;
}

/// The number of a data unit: `low + high * 2^64`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct luxor_number {
    /// The low 64 bits.
    pub low: u64,
    /// The high 64 bits, which are 0 for the sectors of a disk.
    pub high: u64,
}

impl From<luxor_number> for DataUnitNumber {
    fn from(number: luxor_number) -> Self {
        Self::new(u128::from(number.high) << 64 | u128::from(number.low))
    }
}

/// Makes an XTS key of `key_len` bytes: 32 (XTS-AES-128) or 64 (XTS-AES-256), first the data key,
/// then the tweak key. The bytes are copied into memory that is kept out of swap and core dumps, as
/// far as the system permits; wipe your own copy. Fails with `LUXOR_INVALID_ARGUMENT` for another
/// length, and if the two keys are equal. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_xts_new(
    key: *const c_void,
    key_len: usize,
    options: *const luxor_options,
    xts: *mut *mut luxor_xts,
    error: *mut *mut luxor_error,
) -> luxor_code {
    // SAFETY: all pointers keep the caller's contract.
    unsafe {
        make(xts, "xts", error, || {
            let key = pointers::bytes(key, key_len, "key")?;
            let xts = Xts::new(key, &self::options(options).context)?;
            Ok(OfProcess::new(xts))
        })
    }
}

/// Encrypts `len` bytes: whole data units of `unit` bytes. The first data unit has the number
/// `first`, and each following one a number higher by `stride`, modulo 2^128.
///
/// `unit` is 16 to 16777216. If it is not a multiple of 16, ciphertext stealing is used, as IEEE
/// 1619 defines it. LUKS2 and dm-crypt count in units of 512 bytes, so their sectors of 4096 bytes
/// have a stride of 8. `input` and `output` are the same buffer or have no byte in common. They may
/// be NULL if `len` is 0.
///
/// Pass as many data units in one call as you have: a call for each sector costs more than the
/// sector, and long calls use several threads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_xts_encrypt(
    xts: *const luxor_xts,
    input: *const c_void,
    output: *mut c_void,
    len: usize,
    unit: usize,
    first: luxor_number,
    stride: u64,
    error: *mut *mut luxor_error,
) -> luxor_code {
    // SAFETY: all pointers keep the caller's contract.
    unsafe {
        crypt(xts, input, output, len, error, |xts, data| {
            xts.crypt(Direction::Encrypt, unit, first.into(), stride, data)
        })
    }
}

/// Decrypts `len` bytes. The arguments are those of `luxor_xts_encrypt`. XTS does not authenticate:
/// a changed ciphertext or a wrong key is not noticed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_xts_decrypt(
    xts: *const luxor_xts,
    input: *const c_void,
    output: *mut c_void,
    len: usize,
    unit: usize,
    first: luxor_number,
    stride: u64,
    error: *mut *mut luxor_error,
) -> luxor_code {
    // SAFETY: all pointers keep the caller's contract.
    unsafe {
        crypt(xts, input, output, len, error, |xts, data| {
            xts.crypt(Direction::Decrypt, unit, first.into(), stride, data)
        })
    }
}

/// Calls `work` with the key and the data.
///
/// # Safety
/// `xts` and `error` keep the caller's contract, and the data that of [`pointers::in_out`].
unsafe fn crypt(
    xts: *const luxor_xts,
    input: *const c_void,
    output: *mut c_void,
    len: usize,
    error: *mut *mut luxor_error,
    work: impl FnOnce(&Xts, InOut<'_>) -> luxor::Result<()>,
) -> luxor_code {
    // SAFETY: guaranteed by the caller.
    unsafe {
        call(error, || {
            let mut key: &Xts = pointers::handle(xts, "xts")?;
            // The CPU's engines notice a fork themselves, without a system call.
            if key.uses_device() {
                key = pointers::here(xts, "xts")?;
            }
            Ok(work(key, pointers::in_out(input, output, len)?)?)
        })
    }
}

/// Wipes and frees a key. NULL is permitted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_xts_free(xts: *mut luxor_xts) {
    // SAFETY: `xts` is NULL or came from `luxor_xts_new`, and the caller no longer uses it.
    unsafe { handle::free(xts) };
}
