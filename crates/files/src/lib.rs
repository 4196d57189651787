// SPDX-License-Identifier: MIT OR Apache-2.0
//! Access to files, block devices and pipes on Linux, for programs that read and write volumes. In
//! paths `-` stands for standard input or output.
//!
//! | to … | use |
//! |---|---|
//! | read a file, a block device or a pipe | [`Input`] |
//! | write a file that appears whole or not at all, a block device or a pipe | [`Output`] |
//! | refuse an output that is also an input | [`OutputOptions::known_input`], [`check_not_needed`] |
//! | keep a file or block device open as the storage of a disk | [`DataFile`] |
//! | change metadata in place, under the locks that cryptsetup and Luxor share | [`MetadataChange`] |
//! | read a header from a pipe | [`PipedHeader`] |
//! | keep a forked child from using or releasing what its parent has | [`OfProcess`] |
//! | compare two files, or find what uses a device | [`is_same_file`], [`FileIdentity`] |
//! | describe what a file or device contains | [`recognised`] |
//! | detect a standard stream that was closed | [`standard_streams`] |
//! | have files removed when a signal ends the program | [`temporary`] |
//! | show paths, errors and texts on a terminal | [`path_name`], [`io_words`], [`Escaped`] |
//!
//! Data are locked with qemu's locks, metadata with cryptsetup's: [`locks`].
//!
//! ```
//! use std::io::Write;
//!
//! use luxor_files::{Output, OutputOptions};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("new");
//! let mut output = Output::create(&path, &OutputOptions::default())?;
//! output.begin(0, None)?;
//! output.write_all(b"all of it or nothing")?;
//! assert!(!path.exists());
//! output.finish()?;
//! assert_eq!(std::fs::read(&path)?, b"all of it or nothing");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod block_device;
mod contents;
mod data_file;
mod display;
mod error_class;
mod input;
pub mod locks;
mod metadata_change;
mod of_process;
mod opening;
mod output;
mod piped_header;
mod same_file;
mod sector_size;
pub mod standard_streams;
pub mod temporary;
#[cfg(feature = "testing")]
pub mod testing;
mod volume_part;

pub use block_device::FileIdentity;
pub use contents::{begins_with_luks1, recognised};
pub use data_file::{DataFile, DataFileError};
pub use display::{Escaped, bounded, io_words, path_name, quoted, shell_quoted, shell_word};
pub use error_class::FileErrorClass;
pub use input::{Input, InputError, Role};
pub use metadata_change::{MetadataChange, NotLocked, Unusable, lock_to_read};
pub use of_process::OfProcess;
pub use opening::{open, open_at, open_to_read};
pub use output::{Needed, Output, OutputError, OutputOptions, check_not_needed};
pub use piped_header::PipedHeader;
pub use same_file::is_same_file;
pub use sector_size::suitable_sector_size;
pub use volume_part::{VolumePart, VolumePartError, VolumePlace};
