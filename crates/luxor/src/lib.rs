// SPDX-License-Identifier: MIT OR Apache-2.0
//! Luxor as a library: it encrypts, decrypts, opens and changes LUKS volumes and plain dm-crypt
//! volumes in files and on block devices, without root. It alone chooses the AES engine.
//!
//! XTS keeps secrets but does not authenticate: a change of the ciphertext is not detected.
//!
//! | task | use |
//! |---|---|
//! | choose the engine and the number of threads, receive warnings and progress | [`Context`], [`Events`] |
//! | encrypt a file or a stream into a new volume | [`encrypt`], [`encrypt_to`] |
//! | decrypt a volume into a file or a stream | [`decrypt`] |
//! | make an empty volume | [`format`](fn@format) |
//! | change its size | [`resize`](fn@resize) |
//! | change its volume key in place | [`reencrypt`](fn@reencrypt) |
//! | read the metadata of a volume, unlock it, and find its data | [`Volume`], [`Secrets`], [`VolumeKeySecret`] |
//! | use its plaintext as a disk | [`Export`] |
//! | read, write and seek in that disk | [`DiskStream`](luxor_sector::DiskStream) on [`Export::disk`] |
//! | do the same with a plain volume, which has no header | [`PlainVolume`], [`Export::open_plain`], [`decrypt_plaintext`] |
//! | read a secret from a file or a stream | [`KeyFile`], [`read_secret`] |
//! | add, change or remove a passphrase or key | [`Volume::add_key`], [`Volume::change_key`], [`Volume::remove_key`] |
//! | back up, restore or repair a header | [`back_up_header`], [`HeaderRestore`], [`repair_header`] |
//! | check whether a volume is intact | [`Volume::check`] |
//! | convert between LUKS1 and LUKS2 | [`Volume::convert`] |
//! | change anything else in its metadata | [`Volume::change`] |
//! | name what a file is that is not a volume | [`Contents`] |
//! | refuse volumes that do not meet your requirements | [`VolumePolicy`] |
//! | encrypt data units in memory with XTS | [`Xts`] |
//! | encrypt a file or a stream with a bare mode | [`crypt_raw`] |
//! | load keys into the best engine of this machine | [`Engine`] |
//! | list the engines | [`engines::registry`] |
//! | store or read how this machine's devices compare with its CPU | [`Calibration`] |
//!
//! LUKS is in `luxor-luks`, the parts that all formats share in `luxor-volume`, files and devices
//! in `luxor-files`, data units in `luxor-sector`.
//!
//! Encrypts a file and decrypts it again:
//!
//! ```
//! use luxor::{Context, NewFiles, Volume, create_output};
//! use luxor_secret::SecretBytes;
//! use luxor_files::{Input, OutputOptions, Role};
//! use luxor_luks::{LuksVersion, NewVolumeOptions, PbkdfKind, PbkdfOptions, UnlockOptions};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = |name| folder.path().join(name);
//! # std::fs::write(path("photos.tar"), b"some photos")?;
//! let context = Context::default();
//! let secret = SecretBytes::copy_of(b"correct horse");
//! let (plain, volume, again) = (path("photos.tar"), path("photos.luks"), path("again.tar"));
//!
//! // 1000 iterations make a fast example and a weak keyslot; leave out `pbkdf`.
//! let options = NewVolumeOptions {
//!     pbkdf: PbkdfOptions {
//!         kind: PbkdfKind::Pbkdf2,
//!         force_iterations: Some(1000),
//!         ..PbkdfOptions::default()
//!     },
//!     ..NewVolumeOptions::new(LuksVersion::Luks2)
//! };
//! let files = NewFiles {
//!     volume: &volume,
//!     header: None,
//!     force: false,
//!     needed: &[],
//! };
//! let mut input = Input::open(&plain, Role::Data)?;
//! luxor::encrypt(&mut input, &files, &options, || Ok(secret.clone()), &context)?;
//!
//! let volume = Volume::open(Input::open(&volume, Role::Data)?, &context)?;
//! let output = create_output(&again, &OutputOptions::default(), &context)?;
//! luxor::decrypt(volume, &secret, &UnlockOptions::default(), output, &context)?;
//! assert_eq!(std::fs::read(&again)?, b"some photos");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod check;
mod cipher;
mod contents;
mod context;
mod create;
mod decrypt;
pub mod engines;
mod error;
mod export;
mod header;
mod key_file;
mod key_scope;
mod keys;
mod output;
mod plain;
mod policy;
mod raw;
mod reencrypt;
mod resize;
mod secrets;
mod tokens;
mod trailer;
mod volume;
mod volume_error;
mod volume_writer;
mod xts;

pub use check::Findings;
pub use cipher::VolumeCipher;
pub use contents::{Contents, ContentsClass, PartitionContents};
pub use context::{Context, Events, NoEvents, Progress};
pub use create::{NewFiles, NewHeader, encrypt, encrypt_to, format, new_header};
pub use decrypt::{Decrypted, Missing, decrypt, decrypt_plaintext};
pub use engines::{Calibration, Engine};
pub use error::{Error, ErrorClass, Result, raw_os_error};
pub use export::{Export, ExportOptions};
pub use header::{HeaderRestore, back_up_header, repair_header};
pub use key_file::{KeyFile, KeyFileError, read_secret};
pub use key_scope::KeyScope;
pub use keys::{InPlace, KeyOptions};
pub use output::create_output;
pub use plain::PlainVolume;
pub use policy::VolumePolicy;
pub use raw::{RawOptions, crypt_raw};
pub use reencrypt::{
    ReencryptOptions, ReencryptPart, ReencryptionInUse, ZoneProtection, data_beyond,
    encrypt_in_place, encrypt_with_header_in_front, put_header_in_front, reencrypt, reencrypt_data,
    reencrypt_in_use,
};
pub use resize::{Resized, resize};
pub use secrets::{Secrets, VolumeKeySecret};
pub use volume::Volume;
pub use volume_error::VolumeError;
pub use volume_writer::VolumeWriter;
pub use xts::Xts;
