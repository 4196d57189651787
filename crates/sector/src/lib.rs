// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encrypted storage without a format: reads and writes files and block devices at offsets, divides
//! their bytes into numbered data units, and encrypts and decrypts them.
//!
//! The caller knows where a volume's data lie, under which key and in which [`Geometry`]. The
//! crates of the formats find that out.
//!
//! | to do this | use |
//! |---|---|
//! | read and write a file or a block device at offsets | [`Storage`], on [`std::fs::File`] |
//! | the same with direct I/O, many transfers at a time | [`DirectFile`] |
//! | the same in memory | [`MemoryStorage`] |
//! | read and write a volume's plaintext at any byte | [`Disk`] |
//! | the same with the traits of `std::io` | [`DiskStream`] |
//! | change the key of a range while it is in use | [`Disk::hold`] |
//! | encrypt and decrypt a volume's data that the caller reads and writes itself | [`Layout`] |
//! | reuse memory for bulk data | [`Buffers`] |
//! | number the sectors of a volume | [`Geometry::runs`] |
//! | encrypt or decrypt a file or a stream of any length | [`pipeline::run`] |
//! | the same in a bare mode, without a volume | [`RawCipher`] |
//! | change the encryption of data where they are | [`rewrite::Rewrite`] |
//! | copy a file or a stream and change its bytes in any other way | [`copy::Copier`] |
//! | recognise what a storage already contains | [`signatures`], [`PartitionTable`] |
//! | use a part of a storage alone | [`Window`] |
//! | test power cuts and failing disks | the module `faulty`, with the cargo feature of that name |
//!
//! ```
//! use luxor_engine::{Direction, KeySpec, Mode, Registry, XtsKey};
//! use luxor_sector::{Geometry, IvMode, SectorSize};
//!
//! # let random_bytes: [u8; 64] = core::array::from_fn(|i| i as u8);
//! let key = KeySpec::Xts(XtsKey::new(&random_bytes)?);
//! let key = Registry::cpu().best(Mode::Xts)?.load_key(&key)?;
//!
//! // The second MiB of a LUKS2 volume's plaintext.
//! let geometry = Geometry {
//!     sector_size: SectorSize::B4096,
//!     iv_mode: IvMode::Plain64,
//!     iv_offset: 0,
//!     iv_large_sectors: false,
//! };
//! let mut bytes = vec![0; 1 << 20];
//! let mut runs = geometry.runs(1 << 20, bytes.as_mut_slice())?;
//! key.crypt(Direction::Encrypt, &mut runs)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod buffers;
pub mod copy;
mod direct;
mod disk;
mod disk_error;
mod disk_stream;
#[cfg(feature = "faulty")]
pub mod faulty;
mod geometry;
mod layout;
mod memory;
mod partitions;
mod permits;
pub mod pipeline;
mod raw_cipher;
pub mod rewrite;
mod signature;
mod storage;
mod window;

pub use buffers::Buffers;
pub use direct::{DirectError, DirectFile};
pub use disk::{Disk, DiskOptions, EngineTime, Held, Transfer, TransferData};
pub use disk_error::DiskError;
pub use disk_stream::DiskStream;
pub use geometry::{Geometry, GeometryError, IvMode, NumberedUnits, SectorSize, SectorSizeError};
pub use layout::{Layout, Part, StoredRange};
pub use memory::MemoryStorage;
pub use partitions::{
    Partition, PartitionConflict, PartitionTable, PartitionTableError, PartitionTableKind,
};
pub use raw_cipher::{RawCipher, RawError};
pub use signature::{KnownMagic, MagicPlace, SIGNATURES, Signature, foreign_signature, signatures};
pub use storage::{ReadAt, Storage, WriteAt};
pub use window::Window;
