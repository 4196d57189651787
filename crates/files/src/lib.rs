// SPDX-License-Identifier: MIT OR Apache-2.0
//! Access to files, block devices and pipes on Linux, for programs that read and write volumes.
//!
//! | to … | use |
//! |---|---|
//! | read a file, a block device or a pipe | [`Input`] |
//! | write a file that appears whole or not at all, a block device or a pipe | [`Output`] |
//! | keep a file or block device open as the storage of a disk | [`DataFile`] |
//! | change metadata in place, under the locks that cryptsetup and Luxor share | [`MetadataChange`] |
//! | read a header from a pipe | [`PipedHeader`] |
//! | compare two files, or find what uses a device | [`is_same_file`], [`FileIdentity`] |
//! | have files removed when a signal ends the program | [`temporary`] |
//!
//! Data are locked with qemu's locks, metadata with cryptsetup's: [`locks`].

#![deny(unsafe_code)]

mod block_device;
mod contents;
mod data_file;
mod display;
mod error_class;
mod input;
pub mod locks;
mod metadata_change;
mod output;
mod piped_header;
mod same_file;
pub mod standard_streams;
pub mod temporary;
#[cfg(feature = "testing")]
pub mod testing;

pub use block_device::FileIdentity;
pub use contents::{begins_with_luks1, recognised};
pub use data_file::{DataFile, DataFileError};
pub use display::{Escaped, io_words, path_name};
pub use error_class::FileErrorClass;
pub use input::{Input, InputError, Role};
pub use metadata_change::{MetadataChange, NotLocked, Unusable, lock_to_read};
pub use output::{Needed, Output, OutputError, OutputOptions, check_not_needed};
pub use piped_header::PipedHeader;
pub use same_file::is_same_file;
