// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of the pointers that C passes.

use std::{
    ffi::{CStr, c_char, c_void},
    slice,
};

use luxor::{
    engine::{CryptErrorKind, InOut},
    files::OfProcess,
};

use crate::{
    error::{Error, luxor_code},
    handle::{Handle, value},
};

/// Returns the value of a handle that must not be NULL.
///
/// # Safety
/// That of [`value`].
pub(crate) unsafe fn handle<'a, H: Handle>(
    pointer: *const H,
    name: &str,
) -> Result<&'a H::Value, Error> {
    // SAFETY: guaranteed by the caller.
    unsafe { value(pointer) }.ok_or_else(|| Error::is_null(name))
}

/// As [`handle`], unless this process is a fork of the one that made the value.
///
/// # Safety
/// That of [`value`].
pub(crate) unsafe fn here<'a, T: 'a, H: Handle<Value = OfProcess<T>>>(
    pointer: *const H,
    name: &str,
) -> Result<&'a T, Error> {
    // SAFETY: guaranteed by the caller.
    let value = unsafe { handle(pointer, name) }?;
    value.here().ok_or_else(|| {
        let message = CryptErrorKind::KeyLostInFork.to_string();
        Error::new(luxor_code::LUXOR_KEY_LOST_IN_FORK, &message)
    })
}

/// Returns the text at `pointer`.
///
/// # Safety
/// `pointer` is NULL or points to bytes that end with a NUL byte and do not change for `'a`.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a CStr, Error> {
    if pointer.is_null() {
        return Err(Error::is_null(name));
    }
    // SAFETY: `pointer` is not NULL, and the caller guarantees the NUL byte.
    Ok(unsafe { CStr::from_ptr(pointer) })
}

/// Returns the `len` bytes at `pointer`, which may be NULL if `len` is 0.
///
/// # Safety
/// `pointer` is NULL or points to `len` bytes that do not change for `'a`.
pub(crate) unsafe fn bytes<'a>(
    pointer: *const c_void,
    len: usize,
    name: &str,
) -> Result<&'a [u8], Error> {
    if !check_buffer(pointer, len, name)? {
        return Ok(&[]);
    }
    // SAFETY: `check_buffer` found that `pointer` is not NULL and `len` at most `isize::MAX`; the
    // caller guarantees the bytes.
    Ok(unsafe { slice::from_raw_parts(pointer.cast(), len) })
}

/// As [`bytes`], for writing.
///
/// # Safety
/// `pointer` is NULL or points to `len` writable bytes that nothing else uses for `'a`.
pub(crate) unsafe fn bytes_mut<'a>(
    pointer: *mut c_void,
    len: usize,
    name: &str,
) -> Result<&'a mut [u8], Error> {
    if !check_buffer(pointer, len, name)? {
        return Ok(&mut []);
    }
    // SAFETY: as in `bytes`.
    Ok(unsafe { slice::from_raw_parts_mut(pointer.cast(), len) })
}

/// Returns `len` bytes of input and output, which are the same bytes or do not overlap.
///
/// # Safety
/// That of [`bytes`] and [`bytes_mut`].
pub(crate) unsafe fn in_out<'a>(
    input: *const c_void,
    output: *mut c_void,
    len: usize,
) -> Result<InOut<'a>, Error> {
    let distance = input.addr().abs_diff(output.addr());
    // NULL is refused below; empty buffers overlap nothing.
    if (1..len).contains(&distance) && !input.is_null() && !output.is_null() {
        return Err(Error::invalid(format!(
            "input and output overlap: their length is {len}, their distance {distance}; they must \
             be the same buffer or have no byte in common"
        )));
    }
    // SAFETY: the caller guarantees the bytes. Input and output are both borrowed only if they are
    // at least `len` bytes apart.
    unsafe {
        let output = bytes_mut(output, len, "output")?;
        if distance == 0 {
            return Ok(InOut::InPlace(output));
        }
        let input = bytes(input, len, "input")?;
        Ok(InOut::Separate { input, output })
    }
}

/// Whether there are bytes to borrow. Refuses a length that no buffer can have.
fn check_buffer(pointer: *const c_void, len: usize, name: &str) -> Result<bool, Error> {
    if len == 0 {
        return Ok(false);
    }
    if pointer.is_null() {
        return Err(Error::is_null(name));
    }
    if isize::try_from(len).is_err() {
        return Err(Error::invalid(format!(
            "{name} cannot have {len} bytes: that is more than the address space has"
        )));
    }
    Ok(true)
}
