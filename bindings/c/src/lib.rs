// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library for C. `include/luxor.h`, which is generated from this source, documents it for its
//! users, and `docs/c.md` shows how to use it. The functions only convert arguments and errors: the
//! crate `luxor` does the work.
//!
//! The names are those of C, so that a name in the header is found here unchanged.
//!
//! # Safety
//! Every function requires of its caller what the head of the header says: a pointer is NULL or
//! points to as many readable (or writable) bytes as its length says, a text ends with a NUL byte, a
//! handle came from the function that makes it and has not been freed, and nothing writes to memory
//! or frees a handle while a call uses it. The SAFETY comments call this *the caller's contract*.
//! Everything that can be checked is checked, by the functions of `pointers.rs`.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![allow(
    non_camel_case_types,
    reason = "types and constants have their names of C"
)]

mod error;
mod gpu;
mod handle;
mod options;
mod pointers;
mod process;
mod volume;
mod xts;
