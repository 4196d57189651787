// SPDX-License-Identifier: MIT OR Apache-2.0
//! The errors of making a disk.

use std::io;

use crate::geometry::GeometryError;

/// Why parts of a storage do not make a disk.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiskError {
    /// The storage does not report its length.
    #[error("the length cannot be determined: {source}")]
    Length {
        /// The system's error.
        source: io::Error,
    },
    /// The storage ends before a part does.
    #[error("the data end at byte {needed}, and there are {found} bytes: the rest was cut off")]
    Short {
        /// The end of the part.
        needed: u64,
        /// The storage's length in bytes.
        found: u64,
    },
    /// A part other than the last ends within a sector.
    #[error("part {number} has {len} bytes, which is not a whole number of sectors")]
    PartSector {
        /// The part's index, from 0.
        number: usize,
        /// Its length in bytes.
        len: u64,
    },
    /// The sectors of the part cannot be numbered.
    #[error("part {number}: {source}")]
    Geometry {
        /// The part's index, from 0.
        number: usize,
        /// What is wrong with the numbering.
        source: GeometryError,
    },
    /// The part does not begin and end at multiples of the storage's alignment.
    #[error(
        "the data from byte {begin} to byte {end} do not begin and end at multiples of \
         {alignment} bytes, which direct I/O requires"
    )]
    Alignment {
        /// The start of the part.
        begin: u64,
        /// The end of the part, its whole last sector included.
        end: u64,
        /// The storage's alignment.
        alignment: usize,
    },
    /// The part ends beyond 2⁶⁴ bytes.
    #[error("{len} bytes at byte {offset} lie beyond the end of any storage")]
    Overflow {
        /// The start of the part.
        offset: u64,
        /// Its length in bytes.
        len: u64,
    },
}
