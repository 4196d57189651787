// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why something is no disk.

use std::io;

use crate::geometry::GeometryError;

/// Why parts of a storage are no disk.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiskError {
    /// The storage does not tell its length.
    #[error("the length cannot be determined: {source}")]
    Length {
        /// What the system said.
        source: io::Error,
    },
    /// The storage ends before a part does.
    #[error("the data end at byte {needed}, and there are {found} bytes: the rest was cut off")]
    Short {
        /// Where the part ends.
        needed: u64,
        /// The storage's length in bytes.
        found: u64,
    },
    /// A part that is not the last ends within a sector.
    #[error("part {number} has {len} bytes, which is not a whole number of sectors")]
    PartSector {
        /// Which one, counted from 0.
        number: usize,
        /// Its length in bytes.
        len: u64,
    },
    /// The numbers of a part's sectors do not begin at one's.
    #[error("part {number}: {source}")]
    Geometry {
        /// Which one, counted from 0.
        number: usize,
        /// What is wrong with them.
        source: GeometryError,
    },
    /// The storage cannot move just these bytes.
    #[error(
        "the data from byte {begin} to byte {end} do not begin and end at multiples of \
         {alignment} bytes, which direct I/O requires"
    )]
    Alignment {
        /// Where the part begins.
        begin: u64,
        /// And where it ends, its last sector included.
        end: u64,
        /// The storage's alignment.
        alignment: usize,
    },
    /// Beyond 2⁶⁴ bytes.
    #[error("{len} bytes at byte {offset} lie beyond the end of any storage")]
    Overflow {
        /// Where the part begins.
        offset: u64,
        /// Its length in bytes.
        len: u64,
    },
}
