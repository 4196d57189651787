// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options. Each one has a function that sets it. The alternative, a structure that grows and
//! begins with its size, ages worse: a library that does not know a new member would ignore it,
//! while a program that calls an unknown function does not start. The version of the function's
//! symbol then says which library the program needs.

use std::{
    ffi::{OsStr, c_char, c_void},
    num::NonZeroUsize,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use luxor::{Context, Events, OpenOptions, files::VolumePart, volume::UnlockOptions};

use crate::{
    error::{Error, call, luxor_code, luxor_error, make},
    handle::{self, Handle},
    pointers,
};

/// Options for `luxor_xts_new` and `luxor_volume_open`. Both copy what they need, so the options may
/// be changed or freed afterwards.
pub struct luxor_options;

impl Handle for luxor_options {
    type Value = Options;
}

/// What is behind [`luxor_options`].
#[derive(Clone, Default)]
pub(crate) struct Options {
    pub(crate) context: Context,
    pub(crate) header: Option<PathBuf>,
    pub(crate) part: VolumePart,
    pub(crate) unlock: UnlockOptions,
}

impl Options {
    /// Returns the options of a volume.
    pub(crate) fn open_options(&self) -> OpenOptions {
        let options = OpenOptions::new()
            .part(self.part)
            .unlock_options(self.unlock.clone())
            .context(&self.context);
        match &self.header {
            Some(header) => options.header(header),
            None => options,
        }
    }
}

/// Receives a warning: one line in English about something that the user should know, although the
/// operation continues. `message` is valid during the call only. Luxor calls this from any thread
/// that uses the handle, and from threads of its own. It must return normally: it must neither call
/// `longjmp` nor throw an exception.
pub type luxor_warning = Option<unsafe extern "C" fn(data: *mut c_void, message: *const c_char)>;

/// Passes warnings on to C.
struct Warnings {
    receive: unsafe extern "C" fn(*mut c_void, *const c_char),
    data: *mut c_void,
}

// SAFETY: Luxor does not access `data`. The caller's function accepts calls from any thread, as
// `luxor_warning` says.
unsafe impl Send for Warnings {}
// SAFETY: as above.
unsafe impl Sync for Warnings {}

impl Events for Warnings {
    fn warning(&self, text: &str) {
        let text = handle::c_text(text);
        // SAFETY: the caller guarantees that the function and `data` are valid as long as the
        // handles that were made with them. `text` outlives the call.
        unsafe { (self.receive)(self.data, text.as_ptr()) };
    }

    fn note(&self, _: &str) {}
}

/// Returns the options at `pointer`, or the defaults for NULL.
///
/// # Safety
/// `pointer` is NULL or points to live options that do not change during the call.
pub(crate) unsafe fn options(pointer: *const luxor_options) -> Options {
    // SAFETY: guaranteed by the caller.
    unsafe { handle::value(pointer) }
        .cloned()
        .unwrap_or_default()
}

/// Returns a path as the system has it: bytes in any encoding. Also `-` is a path: it does not stand
/// for standard input, as it does for the command.
///
/// # Safety
/// That of [`pointers::text`].
pub(crate) unsafe fn path<'a>(pointer: *const c_char, name: &str) -> Result<&'a Path, Error> {
    // SAFETY: guaranteed by the caller.
    let text = unsafe { pointers::text(pointer, name) }?;
    Ok(Path::new(match text.to_bytes() {
        b"-" => OsStr::new("./-"),
        bytes => OsStr::from_bytes(bytes),
    }))
}

/// Changes the options at `pointer`.
///
/// # Safety
/// `pointer` is NULL or points to live options that nothing else uses during the call, and `error`
/// is NULL or a place for a pointer.
unsafe fn set(
    pointer: *mut luxor_options,
    error: *mut *mut luxor_error,
    change: impl FnOnce(&mut Options) -> Result<(), Error>,
) -> luxor_code {
    // SAFETY: guaranteed by the caller.
    unsafe {
        call(error, || {
            let options = pointer.cast::<Options>().as_mut();
            change(options.ok_or_else(|| Error::is_null("options"))?)
        })
    }
}

/// Makes options with the defaults: the best engine, one thread for each processor, no warnings, a
/// volume in the whole file, with its header, and all keyslots.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_options_new(
    options: *mut *mut luxor_options,
    error: *mut *mut luxor_error,
) -> luxor_code {
    // SAFETY: both are NULL or places for a pointer, by the caller's contract.
    unsafe { make(options, "options", error, || Ok(Options::default())) }
}

/// Sets the engine that does AES, such as "aesni" or "portable", or "auto" for the best one. The
/// command `luxor engines` lists the engines of a machine. An engine that is not available is an
/// error of `luxor_xts_new` and `luxor_volume_unlock`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_options_set_engine(
    options: *mut luxor_options,
    engine: *const c_char,
    error: *mut *mut luxor_error,
) -> luxor_code {
    // SAFETY: `options`, `engine` and `error` keep the caller's contract.
    unsafe {
        set(options, error, |options| {
            let engine = pointers::text(engine, "engine")?.to_string_lossy();
            options.context.engine = engine.into_owned();
            Ok(())
        })
    }
}

/// Sets the number of threads that do AES for one call, the calling thread included: at most 65535.
/// 0, the default, stands for one thread for each processor. The threads start at the first long
/// call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_options_set_threads(
    options: *mut luxor_options,
    threads: usize,
    error: *mut *mut luxor_error,
) -> luxor_code {
    // SAFETY: `options` and `error` keep the caller's contract.
    unsafe {
        set(options, error, |options| {
            if threads > usize::from(u16::MAX) {
                let message = format!("threads cannot be {threads}: at most 65535 are possible");
                return Err(Error::invalid(message));
            }
            options.context.threads = NonZeroUsize::new(threads);
            Ok(())
        })
    }
}

/// Sets the function that receives warnings, with its first argument. Without one, or with NULL,
/// warnings are ignored. `data` must be valid until the options and all handles that were made with
/// them are freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_options_set_warning(
    options: *mut luxor_options,
    warning: luxor_warning,
    data: *mut c_void,
    error: *mut *mut luxor_error,
) -> luxor_code {
    // SAFETY: `options` and `error` keep the caller's contract.
    unsafe {
        set(options, error, |options| {
            options.context.events = match warning {
                Some(receive) => Arc::new(Warnings { receive, data }),
                None => Context::default().events,
            };
            Ok(())
        })
    }
}

/// Sets the file with the detached header of the volume. NULL, the default, means that the volume
/// has its header. "-" is a file of that name, not standard input.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_options_set_header(
    options: *mut luxor_options,
    header: *const c_char,
    error: *mut *mut luxor_error,
) -> luxor_code {
    // SAFETY: `options`, `header` and `error` keep the caller's contract.
    unsafe {
        set(options, error, |options| {
            options.header = if header.is_null() {
                None
            } else {
                Some(path(header, "header")?.to_owned())
            };
            Ok(())
        })
    }
}

/// Sets the byte of the file or device at which the volume begins: a multiple of 512. The volume ends
/// with the file or device. 0, the default, stands for all of it. Replaces a partition that was set.
/// A detached header is always a whole file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_options_set_volume_offset(
    options: *mut luxor_options,
    offset: u64,
    error: *mut *mut luxor_error,
) -> luxor_code {
    // SAFETY: `options` and `error` keep the caller's contract.
    unsafe {
        set(options, error, |options| {
            options.part = match offset {
                0 => VolumePart::Whole,
                offset => VolumePart::From(offset),
            };
            Ok(())
        })
    }
}

/// Sets the partition (GPT or MBR) of the file or device that holds the volume, by its number, which is
/// 1 or more. Nothing outside it is read or written, except the partition table. Replaces an offset
/// that was set. A detached header is always a whole file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_options_set_volume_partition(
    options: *mut luxor_options,
    partition: u32,
    error: *mut *mut luxor_error,
) -> luxor_code {
    // SAFETY: `options` and `error` keep the caller's contract.
    unsafe {
        set(options, error, |options| {
            options.part = VolumePart::Partition(partition);
            Ok(())
        })
    }
}

/// Sets the one keyslot that `luxor_volume_unlock` tries. By default it tries all keyslots except
/// those with the priority "ignore".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_options_set_keyslot(
    options: *mut luxor_options,
    keyslot: u32,
    error: *mut *mut luxor_error,
) -> luxor_code {
    // SAFETY: `options` and `error` keep the caller's contract.
    unsafe {
        set(options, error, |options| {
            options.unlock.keyslots = vec![keyslot];
            Ok(())
        })
    }
}

/// Frees options. NULL is permitted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_options_free(options: *mut luxor_options) {
    // SAFETY: `options` is NULL or came from `luxor_options_new`, and the caller no longer uses it.
    unsafe { handle::free(options) };
}
