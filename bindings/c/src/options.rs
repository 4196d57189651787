// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options. Each one has a function that sets it. The alternative, a structure that grows and
//! begins with its size, ages worse: a library that does not know a new member would ignore it,
//! while a program that calls an unknown function does not start. The version of the function's
//! symbol then says which library the program needs.

use std::{
    ffi::{OsStr, c_char, c_int, c_void},
    num::NonZeroUsize,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use luxor::{
    Context, Events, FORMATS, OpenOptions, PlainVolume, any_format,
    files::{VolumePart, bounded},
    format_by_name,
    sector::SectorSize,
    volume::{Encryption, Format, UnlockOptions},
};

use crate::{
    error::{Error, call, luxor_code, luxor_error, make},
    gpu::Gpus,
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
    pub(crate) gpus: Option<Gpus>,
    /// The format, if it is not any one that has a signature.
    format: Option<Arc<dyn Format>>,
    /// The values of a plain volume, if that is the format.
    plain: PlainVolume,
}

impl Options {
    /// Returns the options of a volume.
    pub(crate) fn open_options(&self) -> Result<OpenOptions, Error> {
        let format = match &self.format {
            Some(format) if format.name() == self.plain.name() => {
                let checked = self.plain.check();
                checked.map_err(|error| Error::invalid(error.to_string()))?;
                Arc::new(self.plain)
            }
            Some(format) => Arc::clone(format),
            None => any_format(),
        };
        let options = OpenOptions::new()
            .format(format)
            .part(self.part)
            .unlock_options(self.unlock.clone())
            .context(&self.context);
        Ok(match &self.header {
            Some(header) => options.header(header),
            None => options,
        })
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
/// volume in the whole file, with its header, in the format whose signature it has, and all keyslots.
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

/// Sets the byte of the file or device at which the volume begins: a multiple of 512, or
/// `luxor_volume_open` fails. The volume ends with the file or device. 0, the default, stands for all of
/// it. Replaces a partition that was set. A detached header is always a whole file.
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

/// With `gpus` other than 0, `luxor_volume_unlock` loads the keys on the NVIDIA GPUs of this machine too, for
/// `luxor_volume_read_to_gpu` and `luxor_volume_write_from_gpu`. 0 is the default. Without a GPU that Luxor
/// can use, this function fails, and the options stay as they were.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_options_set_gpus(
    options: *mut luxor_options,
    gpus: c_int,
    error: *mut *mut luxor_error,
) -> luxor_code {
    // SAFETY: `options` and `error` keep the caller's contract.
    unsafe {
        set(options, error, |options| {
            options.gpus = (gpus != 0).then(Gpus::open).transpose()?;
            Ok(())
        })
    }
}

/// Sets the format of the volume: "luks", "luks1", "luks2", "plain", which has no header, or "auto", the
/// default, for the one whose signature the file has. A file in another format is an error of
/// `luxor_volume_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_options_set_format(
    options: *mut luxor_options,
    format: *const c_char,
    error: *mut *mut luxor_error,
) -> luxor_code {
    // SAFETY: `options`, `format` and `error` keep the caller's contract.
    unsafe {
        set(options, error, |options| {
            let name = pointers::text(format, "format")?.to_string_lossy();
            let found = format_by_name(&name).ok_or_else(|| {
                let any = any_format();
                let names = FORMATS.iter().map(Format::name);
                let names: Vec<_> = [any.name()].into_iter().chain(names).collect();
                let (name, names) = (bounded(&name), names.join(", "));
                Error::invalid(format!("format cannot be {name:?}: use one of {names}"))
            })?;
            options.format = Some(found);
            Ok(())
        })
    }
}

/// Sets the encryption of a plain volume: "aes-xts-plain64", the default, "aes-xts-plain",
/// "aes-cbc-plain", "aes-cbc-plain64" or "aes-cbc-essiv:sha256", with a key of `key_bits` bits: 256, the
/// default, or 512 for XTS, 128 or 256 for CBC. Like those of the functions below, the values have an
/// effect with the format "plain" only. Values that dm-crypt would refuse together are
/// `LUXOR_INVALID_ARGUMENT` from `luxor_volume_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_options_set_plain_cipher(
    options: *mut luxor_options,
    cipher: *const c_char,
    key_bits: u32,
    error: *mut *mut luxor_error,
) -> luxor_code {
    // SAFETY: `options`, `cipher` and `error` keep the caller's contract.
    unsafe {
        set(options, error, |options| {
            let name = pointers::text(cipher, "cipher")?.to_string_lossy();
            let found = Encryption::ALL.into_iter().find(|e| e.name() == name);
            options.plain.encryption = found.ok_or_else(|| {
                let (name, names) = (bounded(&name), Encryption::ALL.map(Encryption::name));
                let names = names.join(", ");
                Error::invalid(format!("cipher cannot be {name:?}: use one of {names}"))
            })?;
            options.plain.key_bits = key_bits;
            Ok(())
        })
    }
}

/// Sets where the data of a plain volume begin in the file or device, in units of 512 bytes. The
/// default is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_options_set_plain_offset(
    options: *mut luxor_options,
    offset: u64,
    error: *mut *mut luxor_error,
) -> luxor_code {
    // SAFETY: `options` and `error` keep the caller's contract.
    unsafe {
        set(options, error, |options| {
            options.plain.offset = offset;
            Ok(())
        })
    }
}

/// Sets the length of the data of a plain volume, in units of 512 bytes. 0, the default, stands for all
/// that the file or device has from the offset on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_options_set_plain_size(
    options: *mut luxor_options,
    size: u64,
    error: *mut *mut luxor_error,
) -> luxor_code {
    // SAFETY: `options` and `error` keep the caller's contract.
    unsafe {
        set(options, error, |options| {
            options.plain.size = (size != 0).then_some(size);
            Ok(())
        })
    }
}

/// Sets the position from which the IVs of a plain volume are counted, in units of 512 bytes: the first
/// sector of the data has the IV of this position. The default is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_options_set_plain_skip(
    options: *mut luxor_options,
    skip: u64,
    error: *mut *mut luxor_error,
) -> luxor_code {
    // SAFETY: `options` and `error` keep the caller's contract.
    unsafe {
        set(options, error, |options| {
            options.plain.skip = skip;
            Ok(())
        })
    }
}

/// Sets the sector size of a plain volume in bytes: 512, the default, 1024, 2048 or 4096. The IVs count
/// sectors if `iv_large_sectors` is not 0, and otherwise, by default, units of 512 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_options_set_plain_sector_size(
    options: *mut luxor_options,
    sector_size: u32,
    iv_large_sectors: c_int,
    error: *mut *mut luxor_error,
) -> luxor_code {
    // SAFETY: `options` and `error` keep the caller's contract.
    unsafe {
        set(options, error, |options| {
            let found = SectorSize::try_from(sector_size);
            options.plain.sector_size = found.map_err(|error| Error::invalid(error.to_string()))?;
            options.plain.iv_large_sectors = iv_large_sectors != 0;
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
