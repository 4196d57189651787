// SPDX-License-Identifier: MIT OR Apache-2.0
//! Luxor as a library: it encrypts, decrypts, opens and changes LUKS volumes and plain dm-crypt
//! volumes in files and on block devices, without root. It alone chooses the AES engine.
//!
//! XTS keeps secrets but does not authenticate: a change of the ciphertext is not detected.
//!
//! | task | use | example |
//! |---|---|---|
//! | open a volume, unlock it, and use its plaintext as a disk | [`open`](fn@open), [`OpenOptions`], [`Volume`], [`VolumeDisk`] | `examples/open.rs` |
//! | encrypt a file into a new volume, or make an empty one | [`encrypt`], [`EncryptOptions`] | `examples/encrypt.rs` |
//! | decrypt a volume into a file | [`decrypt`], [`DecryptOptions`] | `examples/encrypt.rs` |
//! | tell errors apart, and decide what to do next | [`Error`], [`ErrorClass`], [`OpenError`], [`UnlockError`](luks::UnlockError) | `examples/errors.rs` |
//! | open a volume in a partition, or at an offset of a larger file | [`OpenOptions::part`], [`VolumePart`](files::VolumePart) | `examples/open.rs` |
//! | use a plain volume, which has no header | [`PlainVolume`] as the format of these options | `examples/formats.rs` |
//! | choose the format by name, list the formats | [`format_by_name`], [`FORMATS`] | `examples/formats.rs` |
//! | choose the engine and the number of threads, receive warnings and progress | [`Context`], [`Events`] | `examples/context.rs` |
//! | read a secret from a file or a stream | [`KeyFile`], [`read_secret`] | `examples/secrets.rs` |
//! | use a volume key, or ask for a passphrase | [`VolumeKeySecret`], [`Secrets`] | `examples/secrets.rs` |
//! | do the same with files and streams that are already open | [`OpenOptions::open_data`], [`encrypt_to`], [`decrypt_to`] | `examples/streams.rs` |
//! | read the metadata of a volume, check whether it is intact | [`VolumeMetadata`], [`LuksMetadata`] | `examples/metadata.rs` |
//! | add, change or remove a passphrase or key | [`LuksVolume::add_key`], [`LuksVolume::change_key`], [`LuksVolume::remove_key`] | `examples/keys.rs` |
//! | convert between LUKS1 and LUKS2 | [`LuksVolume::convert`] | `examples/keys.rs` |
//! | change anything else in the metadata | [`LuksVolume::change`] | `examples/keys.rs` |
//! | change the size of a volume | [`resize`](fn@resize) | `examples/resize.rs` |
//! | change its volume key in place | [`reencrypt`](fn@reencrypt) | `examples/resize.rs` |
//! | back up, restore or repair a header | [`back_up_header`], [`HeaderRestore`], [`repair_header`] | `examples/headers.rs` |
//! | name what a file is that is not a volume | [`Contents`] | `examples/headers.rs` |
//! | refuse volumes that do not meet your requirements | [`VolumePolicy`] | `examples/metadata.rs` |
//! | encrypt the data of a volume in your own storage | [`VolumeCipher`] | `examples/cipher.rs` |
//! | decrypt a volume's data in the memory of a GPU | [`UnlockedVolume::disk_on`], [`DeviceDisk`] | `examples/gpu.rs` |
//! | encrypt data units in memory with XTS | [`Xts`] | `examples/raw.rs` |
//! | encrypt a file or a stream with a bare mode | [`crypt_raw`] | `examples/raw.rs` |
//! | load keys into the best engine of this machine | [`Engine`] | `examples/engines.rs` |
//! | list the engines | [`engines::registry`] | `examples/engines.rs` |
//! | store or read how this machine's devices compare with its CPU | [`Calibration`] | `examples/engines.rs` |
//!
//! The types that these take are in [`luks`] (a new volume: [`NewVolumeOptions`](luks::NewVolumeOptions)
//! and [`PbkdfOptions`](luks::PbkdfOptions)), [`volume`] (what all formats share), [`files`], [`sector`]
//! and [`engine`]. The examples are in the folder `crates/luxor/examples` of the repository;
//! `cargo run -p luxor --example open` runs one.
//!
//! The features `cuda` and `opencl`, which are on by default, add the engines for GPUs. A build with them
//! needs no driver and no library: the program looks for these when it runs.
//!
//! ```
//! use std::io::Read;
//!
//! # let folder = tempfile::tempdir()?;
//! # std::env::set_current_dir(&folder)?;
//! # std::fs::write("photos.tar", b"some photos")?;
//! let secret = luxor::SecretBytes::copy_of(b"correct horse");
//! luxor::encrypt("photos.tar", "photos.luks", &secret)?;
//! luxor::decrypt("photos.luks", "again.tar", &secret)?;
//!
//! let mut disk = luxor::open("photos.luks")?.unlock(&secret)?.disk()?;
//! let mut first = [0; 4];
//! disk.read_exact(&mut first)?;
//! assert_eq!(&first, b"some");
//! # assert_eq!(std::fs::read("again.tar")?, b"some photos");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod check;
mod cipher;
mod contents;
mod context;
mod create;
mod create_error;
mod decrypt;
#[cfg(any(feature = "cuda", feature = "opencl"))]
mod device;
mod disk_part;
mod edit_error;
mod encrypt_options;
pub mod engines;
mod error;
mod formats;
mod header;
mod header_room;
mod key_file;
mod key_scope;
mod keys;
mod luks_volume;
mod metadata;
mod open;
mod open_error;
mod output;
mod policy;
mod raw;
mod reencrypt;
mod resize;
mod secrets;
mod tokens;
mod trailer;
mod volume_disk;
mod volume_writer;
mod xts;

pub use cipher::VolumeCipher;
pub use contents::{Contents, ContentsClass, PartitionContents};
pub use context::{Context, Events, NoEvents, Progress};
pub use create::{NewFiles, NewHeader, encrypt_files, encrypt_to, format_files, new_header};
pub use create_error::{CreateError, PossibleLen};
pub use decrypt::{DecryptOptions, Decrypted, Missing, decrypt, decrypt_to};
#[cfg(any(feature = "cuda", feature = "opencl"))]
pub use device::{DeviceCipher, DeviceCopy, DeviceDisk};
pub use disk_part::DiskPart;
pub use edit_error::EditError;
pub use encrypt_options::{EncryptOptions, encrypt};
pub use engines::{Calibration, Engine};
pub use error::{Error, ErrorClass, Result, raw_os_error};
pub use formats::{AUTO, FORMATS, any_format, format_by_name};
pub use header::{HeaderRestore, back_up_header, repair_header};
pub use key_file::{KeyFile, KeyFileError, read_secret};
pub use key_scope::KeyScope;
pub use keys::{InPlace, KeyOptions};
pub use luks_volume::LuksVolume;
pub use metadata::{LuksMetadata, VolumeMetadata};
pub use open::{OpenOptions, UnlockedVolume, Volume, open};
pub use open_error::OpenError;
pub use output::create_output;
pub use policy::VolumePolicy;
pub use raw::{BareModeError, RawOptions, crypt_raw};
pub use reencrypt::{
    FrontOfData, PartError, ReencryptError, ReencryptOptions, ReencryptPart, ReencryptionInUse,
    ZoneProtection, data_beyond, encrypt_in_place, encrypt_with_header_in_front,
    put_header_in_front, reencrypt, reencrypt_data, reencrypt_in_use,
};
pub use resize::{ResizeError, Resized, resize};
pub use secrets::{Secrets, VolumeKeySecret};
pub use volume_disk::{DiskUse, VolumeDisk};
pub use volume_writer::VolumeWriter;
pub use xts::Xts;

pub use luxor_engine as engine;
#[cfg(feature = "cuda")]
pub use luxor_engine_cuda as engine_cuda;
#[cfg(any(feature = "cuda", feature = "opencl"))]
pub use luxor_engine_gpu as engine_gpu;
pub use luxor_files as files;
pub use luxor_luks as luks;
pub use luxor_plain::{PlainError, PlainVolume};
pub use luxor_secret::{self as secret, SecretBytes};
pub use luxor_sector as sector;
pub use luxor_volume as volume;
