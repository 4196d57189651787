// SPDX-License-Identifier: MIT OR Apache-2.0
//! Volumes.

use std::{
    ffi::{c_char, c_void},
    io, mem,
    os::fd::RawFd,
    sync::{Mutex, OnceLock, PoisonError},
};

use luxor::{
    DeviceCopy, SecretBytes, Secrets, Volume, VolumeDisk, VolumeKeySecret, files::OfProcess,
};

use crate::{
    error::{Error, call, luxor_code, luxor_error, make},
    gpu::{GpuDisk, Gpus},
    handle::{self, Handle},
    options::{luxor_options, options, path},
    pointers,
};

/// Open a volume for reading only. Other programs may read it at the same time.
pub const LUXOR_READ_ONLY: u32 = 0;
/// Open a volume for reading and writing. No other program may use it at the same time.
pub const LUXOR_READ_WRITE: u32 = 1;

/// A volume. Any number of threads may use it at once.
pub struct luxor_volume;

impl Handle for luxor_volume {
    type Value = OfProcess<State>;
}

/// What is behind a [`luxor_volume`].
pub(crate) struct State {
    /// The volume until it is unlocked. `None` also after an error that leaves nothing to unlock.
    locked: Mutex<Option<Volume>>,
    /// Where its keys are to be loaded.
    gpus: Option<Gpus>,
    /// The volume since it was unlocked.
    unlocked: OnceLock<Unlocked>,
}

enum Unlocked {
    Disk(VolumeDisk),
    OnGpus(GpuDisk),
}

impl Unlocked {
    fn disk(&self) -> &VolumeDisk {
        match self {
            Self::Disk(disk) => disk,
            Self::OnGpus(gpus) => gpus.disk(),
        }
    }
}

impl State {
    /// Returns the descriptors that it holds.
    fn descriptors(&self) -> Vec<RawFd> {
        // A thread of the process of which this one is a fork may hold the lock for ever.
        let locked = self.locked.try_lock().ok();
        let locked = locked.and_then(|locked| locked.as_ref().map(Volume::descriptors));
        let unlocked = self
            .unlocked
            .get()
            .map(|unlocked| unlocked.disk().descriptors());
        locked.into_iter().chain(unlocked).flatten().collect()
    }

    fn disk(&self) -> Result<&VolumeDisk, Error> {
        self.unlocked().map(Unlocked::disk)
    }

    fn unlocked(&self) -> Result<&Unlocked, Error> {
        self.unlocked.get().ok_or_else(|| {
            Error::invalid("the volume is not unlocked: call luxor_volume_unlock first")
        })
    }

    fn on_gpus(&self) -> Result<&GpuDisk, Error> {
        match self.unlocked()? {
            Unlocked::OnGpus(gpus) => Ok(gpus),
            Unlocked::Disk(_) => Err(Error::invalid(
                "the volume was opened without luxor_options_set_gpus",
            )),
        }
    }

    fn unlock(&self, secret: &dyn Secrets) -> Result<(), Error> {
        let mut locked = self.locked.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(volume) = &*locked else {
            return Err(Error::invalid(match self.unlocked.get() {
                Some(_) => "the volume is already unlocked",
                None => "the volume could not be unlocked before: close it and open it again",
            }));
        };
        let (engine, keys) = volume.keys(secret)?;
        if let Some(volume) = mem::take(&mut *locked) {
            let volume = volume.with_keys(engine, keys);
            let unlocked = match &self.gpus {
                Some(gpus) => Unlocked::OnGpus(gpus.disk(volume)?),
                None => Unlocked::Disk(volume.disk()?),
            };
            // The lock is held, so no other call has set it.
            let _ = self.unlocked.set(unlocked);
        }
        Ok(())
    }
}

/// Opens the volume in the file or on the block device at `path`, and reads its metadata: a LUKS
/// volume, or one of the format that `luxor_options_set_format` has set. `path` may be any path: "-"
/// is a file of that name, not standard input. `access` is `LUXOR_READ_ONLY` or `LUXOR_READ_WRITE`.
/// `options` may be NULL.
///
/// The data stay locked until the volume is closed: with the locks of qemu and Luxor, and a block
/// device also against being mounted. Opening the volume a second time is `LUXOR_BUSY`, in this
/// program too, unless both are `LUXOR_READ_ONLY`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_volume_open(
    path: *const c_char,
    access: u32,
    options: *const luxor_options,
    volume: *mut *mut luxor_volume,
    error: *mut *mut luxor_error,
) -> luxor_code {
    let body = || {
        // SAFETY: `path` and `options` keep the caller's contract.
        let (path, options) = unsafe { (self::path(path, "path")?, self::options(options)) };
        let write = match access {
            LUXOR_READ_ONLY => false,
            LUXOR_READ_WRITE => true,
            _ => {
                return Err(Error::invalid(format!(
                    "access cannot be {access}: use LUXOR_READ_ONLY or LUXOR_READ_WRITE"
                )));
            }
        };
        let state = State {
            locked: Mutex::new(Some(options.open_options()?.write(write).open(path)?)),
            gpus: options.gpus,
            unlocked: OnceLock::new(),
        };
        Ok(OfProcess::holding(state, State::descriptors))
    };
    // SAFETY: `volume` and `error` are NULL or places for a pointer, by the caller's contract.
    unsafe { make(volume, "volume", error, body) }
}

/// Unlocks a volume with a secret: the bytes of a passphrase, or all bytes of a key file. A line end
/// is part of the secret if it is among the bytes. The secret of a plain volume is its key: another size
/// is `LUXOR_INVALID_ARGUMENT`, and another key of the same size is not noticed. The secret is copied
/// into memory that is kept out of swap and core dumps, as far as the system permits, and the copy is
/// wiped; wipe your own one.
///
/// Deriving the key takes seconds. A volume is unlocked once: the functions below, except
/// `luxor_volume_close`, are for an unlocked volume, and this one is for one that is not. After
/// `LUXOR_NO_KEY` you can try another secret, and `LUXOR_INVALID_ARGUMENT` leaves the volume as it
/// was. After any other error close the volume and open it again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_volume_unlock(
    volume: *const luxor_volume,
    secret: *const c_void,
    secret_len: usize,
    error: *mut *mut luxor_error,
) -> luxor_code {
    // SAFETY: all pointers keep the caller's contract.
    unsafe {
        call(error, || {
            let state = pointers::here(volume, "volume")?;
            let secret = pointers::bytes(secret, secret_len, "secret")?;
            state.unlock(&SecretBytes::copy_of(secret))
        })
    }
}

/// As `luxor_volume_unlock`, with the volume key in place of a secret: 32 or 64 bytes for XTS. No
/// keyslot is needed. Another key, also one of another size, is `LUXOR_NO_KEY`. For a plain volume this
/// is the same as `luxor_volume_unlock`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_volume_unlock_with_volume_key(
    volume: *const luxor_volume,
    key: *const c_void,
    key_len: usize,
    error: *mut *mut luxor_error,
) -> luxor_code {
    // SAFETY: all pointers keep the caller's contract.
    unsafe {
        call(error, || {
            let state = pointers::here(volume, "volume")?;
            let key = pointers::bytes(key, key_len, "key")?;
            state.unlock(&VolumeKeySecret(SecretBytes::copy_of(key)))
        })
    }
}

/// Sets `*size` to the length of the plaintext in bytes. It never changes. It need not be a multiple
/// of the sector size: the length of an encrypted file is exact.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_volume_size(
    volume: *const luxor_volume,
    size: *mut u64,
    error: *mut *mut luxor_error,
) -> luxor_code {
    // SAFETY: all pointers keep the caller's contract.
    unsafe { tell(volume, size, "size", error, VolumeDisk::len) }
}

/// Sets `*sector_size` to the sector size in bytes. Reads and writes of whole sectors are fastest:
/// a write of a part of a sector first reads the sector.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_volume_sector_size(
    volume: *const luxor_volume,
    sector_size: *mut usize,
    error: *mut *mut luxor_error,
) -> luxor_code {
    let found = |disk: &VolumeDisk| disk.shared().sector_size();
    // SAFETY: all pointers keep the caller's contract.
    unsafe { tell(volume, sector_size, "sector_size", error, found) }
}

/// Sets `*place` to what `ask` returns.
///
/// # Safety
/// `volume` and `error` keep the caller's contract, and `place` is NULL or a place for a `T`.
unsafe fn tell<T: Copy>(
    volume: *const luxor_volume,
    place: *mut T,
    name: &str,
    error: *mut *mut luxor_error,
    ask: impl FnOnce(&VolumeDisk) -> T,
) -> luxor_code {
    // SAFETY: guaranteed by the caller, and `place` is checked before the write.
    unsafe {
        call(error, || {
            let disk = pointers::here(volume, "volume")?.disk()?;
            if place.is_null() {
                return Err(Error::is_null(name));
            }
            place.write(ask(disk));
            Ok(())
        })
    }
}

/// Reads `len` bytes of plaintext from byte `offset` on into `buffer`. It reads all of them or
/// fails, and then the contents of `buffer` are undefined. `buffer` may be NULL if `len` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_volume_read_at(
    volume: *const luxor_volume,
    buffer: *mut c_void,
    len: usize,
    offset: u64,
    error: *mut *mut luxor_error,
) -> luxor_code {
    // SAFETY: all pointers keep the caller's contract.
    unsafe {
        call(error, || {
            let disk = pointers::here(volume, "volume")?.disk()?;
            let buffer = pointers::bytes_mut(buffer, len, "buffer")?;
            check_range(disk, len, offset)?;
            let read = disk.read_at(buffer, offset);
            read.map_err(|error| failed(disk, "read", len, offset, &error))
        })
    }
}

/// Writes `len` bytes of plaintext from `buffer` to byte `offset` on. The bytes are durable after
/// the next `luxor_volume_flush`. After an error some of the bytes may have been written, and the
/// volume can still be used. `buffer` may be NULL if `len` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_volume_write_at(
    volume: *const luxor_volume,
    buffer: *const c_void,
    len: usize,
    offset: u64,
    error: *mut *mut luxor_error,
) -> luxor_code {
    // SAFETY: all pointers keep the caller's contract.
    unsafe {
        call(error, || {
            let disk = pointers::here(volume, "volume")?.disk()?;
            let buffer = pointers::bytes(buffer, len, "buffer")?;
            check_range(disk, len, offset)?;
            check_writable(disk)?;
            let written = disk.write_at(buffer, offset);
            written.map_err(|error| failed(disk, "write", len, offset, &error))
        })
    }
}

/// As `luxor_volume_read_at`, into the memory of an NVIDIA GPU: `address` is a `CUdeviceptr`. Ciphertext
/// crosses the bus, and the GPU decrypts it. The volume was opened with `luxor_options_set_gpus`.
///
/// Before anything is written, the work that `stream` has now is done: a `CUstream` of the GPU's primary
/// context, or NULL for the default stream. When the function returns, everything is done. A stream or an
/// address that the driver does not know is undefined behaviour.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_volume_read_to_gpu(
    volume: *const luxor_volume,
    address: u64,
    len: usize,
    offset: u64,
    stream: *mut c_void,
    error: *mut *mut luxor_error,
) -> luxor_code {
    // SAFETY: all pointers keep the caller's contract.
    unsafe {
        call(error, || {
            let gpus = pointers::here(volume, "volume")?.on_gpus()?;
            let disk = gpus.disk();
            check_range(disk, len, offset)?;
            if len == 0 {
                return Ok(());
            }
            let copy = DeviceCopy { offset, len, at: 0 };
            let read = gpus.with(address, len, stream.addr(), |disk, device, memory| {
                disk.read_into(device, memory, &[copy])
            })?;
            read.map_err(|error| failed(disk, "read", len, offset, &error))
        })
    }
}

/// As `luxor_volume_write_at`, from the memory of an NVIDIA GPU. `address` and `stream` are as for
/// `luxor_volume_read_to_gpu`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_volume_write_from_gpu(
    volume: *const luxor_volume,
    address: u64,
    len: usize,
    offset: u64,
    stream: *mut c_void,
    error: *mut *mut luxor_error,
) -> luxor_code {
    // SAFETY: all pointers keep the caller's contract.
    unsafe {
        call(error, || {
            let gpus = pointers::here(volume, "volume")?.on_gpus()?;
            let disk = gpus.disk();
            check_range(disk, len, offset)?;
            check_writable(disk)?;
            if len == 0 {
                return Ok(());
            }
            let copy = DeviceCopy { offset, len, at: 0 };
            let written = gpus.with(address, len, stream.addr(), |disk, device, memory| {
                disk.write_from(device, memory, &[copy])
            })?;
            written.map_err(|error| failed(disk, "write", len, offset, &error))
        })
    }
}

/// Makes all writes durable that returned before this call. If it fails, writes since the last
/// successful flush may be lost, and all later flushes fail too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_volume_flush(
    volume: *const luxor_volume,
    error: *mut *mut luxor_error,
) -> luxor_code {
    // SAFETY: all pointers keep the caller's contract.
    unsafe {
        call(error, || {
            let disk = pointers::here(volume, "volume")?.disk()?;
            let flushed = disk.sync();
            flushed.map_err(|error| {
                let what = format!("{}: cannot make the writes durable", disk.name());
                luxor::Error::io(what, &error).into()
            })
        })
    }
}

/// Closes a volume, unlocks its data for other programs, and wipes its keys. Does not flush: call
/// `luxor_volume_flush` first, which can report an error. NULL is permitted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luxor_volume_close(volume: *mut luxor_volume) {
    // SAFETY: `volume` is NULL or came from `luxor_volume_open`, and the caller no longer uses it.
    unsafe { handle::free(volume) };
}

fn check_writable(disk: &VolumeDisk) -> Result<(), Error> {
    if disk.shared().is_read_only() {
        return Err(Error::invalid(format!(
            "{} is open for reading only: open it with LUXOR_READ_WRITE to write",
            disk.name()
        )));
    }
    Ok(())
}

fn check_range(disk: &VolumeDisk, len: usize, offset: u64) -> Result<(), Error> {
    let size = disk.len();
    match offset.checked_add(len as u64) {
        Some(end) if end <= size => Ok(()),
        _ => Err(Error::invalid(format!(
            "{}: a length of {len} at byte {offset} ends beyond the volume, which has {size} bytes",
            disk.name()
        ))),
    }
}

fn failed(disk: &VolumeDisk, what: &str, len: usize, offset: u64, error: &io::Error) -> Error {
    let name = disk.name();
    let what = format!("{name}: cannot {what} {len} bytes at byte {offset}");
    luxor::Error::io(what, error).into()
}
