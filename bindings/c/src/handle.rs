// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lifetime of handles, and texts for C.

use std::{
    ffi::CString,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// A type of C that only the library can look into. The type itself is empty, so that neither the
/// header nor the debug information, from which `abidiff` reads the types, shows what is behind it.
pub(crate) trait Handle: Sized {
    /// What a pointer to a handle points to.
    type Value;

    /// Makes a handle of a value. [`free`] frees it.
    fn allocate(value: Self::Value) -> *mut Self {
        Box::into_raw(Box::new(value)).cast()
    }
}

/// Returns the value of a handle.
///
/// # Safety
/// `pointer` is NULL or came from [`Handle::allocate`], and nothing frees or changes the value for
/// `'a`.
pub(crate) unsafe fn value<'a, H: Handle>(pointer: *const H) -> Option<&'a H::Value> {
    // SAFETY: guaranteed by the caller.
    unsafe { pointer.cast::<H::Value>().as_ref() }
}

/// Returns `text` for C, with a replacement for NUL characters, which would end it.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{fffd}")).expect("the text has no NUL character")
}

/// Frees a handle.
///
/// # Safety
/// `pointer` is NULL or came from [`Handle::allocate`], and nothing uses it any more.
pub(crate) unsafe fn free<H: Handle>(pointer: *mut H) {
    if pointer.is_null() {
        return;
    }
    // SAFETY: `pointer` is not NULL, and the caller guarantees the rest.
    let value = unsafe { Box::from_raw(pointer.cast::<H::Value>()) };
    // A panic cannot be reported from here.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(value)));
}
