// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads, creates and changes LUKS volumes: their metadata, keyslots and keys, as in the LUKS1
//! On-Disk Format Specification 1.2.3 and the LUKS2 On-Disk Format Specification 1.1. This crate
//! yields [`Extent`]s and their keys; `luxor_sector` and `luxor_engine` encrypt and decrypt the
//! data.
//!
//! This crate takes no locks. Before a change, and while metadata that others may change are read,
//! the caller holds the lock on the metadata, which `luxor_files` provides.
//!
//! | to do this | use |
//! |---|---|
//! | create a volume, either version | [`NewVolumeOptions::create`], then [`NewVolume::write_to`] |
//! | write it to an output that cannot seek | [`NewVolume::write_stream`] |
//! | create a volume of one version | [`NewLuks2Volume::create`], [`NewLuks1Volume::create`] |
//! | read the metadata of a volume of either version | [`VolumeHeader::read`] |
//! | do that behind the seam of all formats | [`Luks`] |
//! | read the metadata of one version | [`Luks2Header::read`], [`Luks1Header::read`] |
//! | get the metadata as typed values | [`Luks2Header::describe`], [`Luks1Header::describe`] |
//! | print the metadata as cryptsetup does | [`Luks2Header::metadata_json`] |
//! | find out where the data are | [`VolumeHeader::extents`] |
//! | get the volume key | [`VolumeHeader::unlock`] |
//! | get the plaintext's length | [`Luks2Header::plaintext_len`], [`Luks1Header::plaintext_len`] |
//! | choose a key derivation and its costs | [`PbkdfOptions`] |
//! | back up and restore the metadata and keyslots | [`HeaderBackup`] |
//! | state what the metadata of an untrusted volume must be | [`HeaderPolicy`] |
//! | limit the costs of opening an untrusted volume | [`UnlockOptions`] |
//! | add a keyslot, or change its secret or its costs | [`VolumeHeader::new_keyslot`], then [`VolumeHeader::add_keyslot`], [`VolumeHeader::replace_keyslot`] |
//! | remove keyslots | [`VolumeHeader::remove_keyslot`], [`VolumeHeader::erase`] |
//! | change tokens | [`VolumeHeader::add_token`], [`VolumeHeader::replace_token`], [`VolumeHeader::remove_token`] |
//! | change names and flags | [`VolumeHeader::set_label`], [`VolumeHeader::set_uuid`], [`VolumeHeader::set_flags`] and others |
//! | convert a volume to the other version | [`VolumeHeader::convert`] |
//! | repair damaged metadata | [`HeaderRepair::plan`] |
//!
//! Metadata are read once, treated as hostile, and parsed into typed values; an error names the
//! rule that is broken and where. Types that this version does not know are described but not
//! opened. A volume in the middle of an online re-encryption can be read, each part with its own
//! key. Reading never writes.
//!
//! ```
//! use luxor_engine::{Mode, Registry};
//! use luxor_luks::{Luks2Header, Luks2Options, NewLuks2Volume, PbkdfKind, PbkdfOptions, UnlockOptions};
//! use luxor_sector::MemoryStorage;
//!
//! let backend = Registry::cpu().best(Mode::Xts)?;
//! let storage = MemoryStorage::default();
//!
//! // 1000 iterations make the example fast and the keyslot weak; leave out `pbkdf` in real use.
//! let pbkdf = PbkdfOptions {
//!     kind: PbkdfKind::Pbkdf2,
//!     force_iterations: Some(1000),
//!     ..PbkdfOptions::default()
//! };
//! let options = Luks2Options { pbkdf, label: Some("backup".parse()?), ..Luks2Options::default() };
//! let volume = NewLuks2Volume::create(&options, b"correct horse", &*backend)?;
//! volume.write_to(&storage)?;
//!
//! let header = Luks2Header::read(&storage)?;
//! assert_eq!(header.describe().label, "backup");
//! assert!(header.warnings().is_empty());
//! let unlocked =
//!     header.unlock(&storage, b"correct horse", &*backend, &UnlockOptions::default())?;
//! assert_eq!(unlocked.keyslot, 0);
//! assert_eq!(header.segment(), Some(volume.segment()));
//!
//! let error = header.unlock(&storage, b"battery", &*backend, &UnlockOptions::default());
//! assert!(error.unwrap_err().is_wrong_secret());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod af;
mod area;
mod backup;
mod header_digest;
mod luks1;
mod luks1_error;
mod luks2;
mod policy;
mod version;
mod volume;
mod zeros;

pub use area::AreaError;
pub use backup::{BackupError, HeaderBackup, Misfit, RestoreError};
pub use header_digest::{HeaderDigest, HeaderDigestError};
pub use luks1::{
    ByForce, ConvertError, Luks1Description, Luks1Header, Luks1Options, Luks1Repair,
    Luks1RepairError, Luks1Restored, NewLuks1Volume,
};
pub use luks1_error::{FieldDamage, KeyslotDamage, Luks1Error};
pub use luks2::binary_header::{BinaryHeaderError, CopyKind};
pub use luks2::config::{ActivationFlag, Config, UnknownFlag};
pub use luks2::copy::{CopyError, CopyFacts, CopyStatus};
pub use luks2::create::{CreateError, Luks2Options, NewLuks2Volume};
pub use luks2::digest::Digest;
pub use luks2::edit::{ChangeError, NewVolumeKey, Overwrite, token_with_keyslot};
pub use luks2::foreign::Foreign;
pub use luks2::header::{Description, Luks2Header, PlaintextError, ReadError, Warning};
pub use luks2::header_sizes::{Luks2HeaderSizes, Luks2HeaderSizesError};
pub use luks2::keyslot::{Keyslot, KeyslotArea, Priority};
pub use luks2::label::{Label, LabelError};
pub use luks2::metadata_error::MetadataError;
pub use luks2::new_keyslot::{NewKeyslot, NewKeyslotError};
pub use luks2::reencrypt::{
    CarriedKeyslot, DataEnd, InPlace, InPlacePlan, PartState, ReencryptionError, ReencryptionPlan,
    ReencryptionProgress, ReencryptionState, StoredData,
};
pub use luks2::reencrypt_keyslot::{
    ReencryptDirection, ReencryptKeyslot, ReencryptMode, Resilience,
};
pub use luks2::segment::{
    Segment, SegmentEntry, SegmentError, SegmentKind, SegmentRole, SegmentSize,
};
pub use luks2::token::{
    FileEnd, FileLengthError, Token, TokenKeyslot, check_file_length, keyring_token,
    readable_token, usual_numbers,
};
pub use luks2::unlock::{ConfirmedKey, KeyslotError, OpenedKey, Skipped, UnlockError, Unlocked};
pub use luxor_volume::{
    Argon2Kind, CostError, DEFAULT_ARGON2_WORK_KIB, DEFAULT_ITERATIONS_LIMIT,
    DEFAULT_MEMORY_LIMIT_KIB, DeriveError, Encryption, Extent, ExtentCipher, HashAlgorithm, Kdf,
    KeyCache, MemoryBound, PbkdfKind, PbkdfOptions, PbkdfOptionsError, TrailerKey, UnlockOptions,
    Uuid, VolumeKey,
};
pub use policy::{HeaderPolicy, PolicyError};
pub use version::LuksVersion;
pub use volume::create::{NewVolume, NewVolumeError, NewVolumeOptions, NotInLuks1};
pub use volume::format::{Luks, OtherVersion};
pub use volume::repair::{HeaderRepair, HeaderRepairError, Repaired};
pub use volume::{VolumeHeader, VolumeReadError};
