// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maps the bytes of a segment to numbered data units.

use std::fmt;

use luxor_engine::{DataUnitLen, InOut, Run, RunError};

/// The unit in bytes in which volumes count IVs and offsets, whatever the sector size.
const IV_UNIT: u64 = 512;

/// The sector size of a volume: the length of its data units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SectorSize {
    /// 512 bytes.
    B512,
    /// 1024 bytes.
    B1024,
    /// 2048 bytes.
    B2048,
    /// 4096 bytes.
    B4096,
}

impl SectorSize {
    /// All four, for tests and tables.
    pub const ALL: [Self; 4] = [Self::B512, Self::B1024, Self::B2048, Self::B4096];

    /// The number of bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::B512 => 512,
            Self::B1024 => 1024,
            Self::B2048 => 2048,
            Self::B4096 => 4096,
        }
    }

    /// The sector size in 512-byte units: 1, 2, 4 or 8.
    #[must_use]
    pub const fn units(self) -> u64 {
        self.bytes() as u64 / IV_UNIT
    }

    /// The length in bytes of the encrypted data of a file of `len` bytes: `len` rounded up to
    /// whole sectors, and one sector for an empty file. `None` if the result is 2⁶⁴ or more.
    #[must_use]
    pub fn payload_len(self, len: u64) -> Option<u64> {
        len.max(1).checked_next_multiple_of(self.bytes() as u64)
    }
}

impl From<SectorSize> for DataUnitLen {
    fn from(size: SectorSize) -> Self {
        Self::new(size.bytes()).expect("the standard allows all four")
    }
}

impl TryFrom<u32> for SectorSize {
    type Error = SectorSizeError;

    fn try_from(bytes: u32) -> Result<Self, SectorSizeError> {
        match bytes {
            512 => Ok(Self::B512),
            1024 => Ok(Self::B1024),
            2048 => Ok(Self::B2048),
            4096 => Ok(Self::B4096),
            found => Err(SectorSizeError { found }),
        }
    }
}

impl fmt::Display for SectorSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes().fmt(f)
    }
}

/// The error for a sector size that volumes do not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sector size cannot be {found} bytes: it must be 512, 1024, 2048 or 4096")]
pub struct SectorSizeError {
    /// The requested number of bytes.
    pub found: u32,
}

/// How a sector's position in the volume determines its data unit number. The names are dm-crypt's
/// (`Documentation/admin-guide/device-mapper/dm-crypt.rst` of Linux).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IvMode {
    /// The number of 512-byte units as a 64-bit integer, little-endian in the first eight bytes of
    /// the tweak (dm-crypt's `plain64`). After 2⁶⁴ − 1 comes 0.
    #[default]
    Plain64,
    /// The same number truncated to 32 bits (dm-crypt's `plain`). After 2³² − 1 comes 0, so units 2
    /// TiB apart have the same number.
    Plain,
}

impl IvMode {
    /// The greatest number, after which it restarts at 0.
    const fn max(self) -> u64 {
        match self {
            Self::Plain64 => u64::MAX,
            Self::Plain => u32::MAX as u64,
        }
    }
}

impl fmt::Display for IvMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain64 => "plain64",
            Self::Plain => "plain",
        })
    }
}

/// How the bytes of a segment are divided into data units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The length of each data unit.
    pub sector_size: SectorSize,
    /// How the units are numbered.
    pub iv_mode: IvMode,
    /// The position, in 512-byte units, from which the segment's first data unit is numbered:
    /// LUKS2's `iv_tweak`, dm-crypt's `iv_offset`.
    pub iv_offset: u64,
    /// Whether numbers count sectors instead of 512-byte units (dm-crypt's `iv_large_sectors`).
    /// Only plain dm-crypt volumes can have this, never LUKS.
    pub iv_large_sectors: bool,
}

impl Geometry {
    /// The difference between the numbers of two neighbouring sectors. It is the sector size in
    /// 512-byte units (1, 2, 4 or 8), or 1 if numbers count sectors.
    #[must_use]
    pub const fn stride(&self) -> u64 {
        if self.iv_large_sectors {
            1
        } else {
            self.sector_size.units()
        }
    }

    /// How many 512-byte units one step of the number covers.
    const fn iv_unit(&self) -> u64 {
        self.sector_size.units() / self.stride()
    }

    /// The greatest number, after which comes 0. It is one less than a power of two.
    ///
    /// The count of 512-byte units wraps at 2⁶⁴ before it is divided.
    fn max_number(&self) -> u64 {
        self.iv_mode.max().min(u64::MAX / self.iv_unit())
    }

    /// Divides `buf` into runs that [`LoadedKey::crypt`](luxor_engine::LoadedKey::crypt) accepts.
    /// `buf` is whole sectors that begin at byte `offset` of the segment. Returns one run, or more
    /// if the number restarts at 0, and none if `buf` is empty.
    ///
    /// # Errors
    /// [`GeometryError`] if `offset` or the length of `buf` is not a multiple of the sector size,
    /// if `buf` ends beyond 2⁶⁴ bytes, if input and output differ in length, or if numbers count
    /// sectors and [`Geometry::iv_offset`] is not a whole number of sectors.
    pub fn runs<'a>(
        &self,
        offset: u64,
        buf: impl Into<InOut<'a>>,
    ) -> Result<Vec<Run<'a>>, GeometryError> {
        let buf = buf.into();
        // Checked before the buffer is split, which would panic.
        if let InOut::Separate { input, output } = &buf
            && input.len() != output.len()
        {
            return Err(RunError::OutputLen {
                input: input.len(),
                output: output.len(),
            }
            .into());
        }
        let unit_len = DataUnitLen::from(self.sector_size);
        let stride = self.stride();
        let mut rest = buf;
        let mut runs = Vec::with_capacity(1);
        for NumberedUnits { first, units } in self.numbered(offset, rest.len())? {
            let (head, tail) = rest.split_at(units * unit_len.get());
            runs.push(Run::new(first.into(), stride, unit_len, head)?);
            rest = tail;
        }
        Ok(runs)
    }

    /// Numbers the data units in `len` bytes that begin at byte `offset` of the segment. The numbers of
    /// each element are [`Geometry::stride`] apart. Returns one element, or more if the number restarts
    /// at 0, and none without bytes.
    ///
    /// # Errors
    /// As [`Geometry::runs`].
    pub fn numbered(&self, offset: u64, len: usize) -> Result<Vec<NumberedUnits>, GeometryError> {
        let sector_size = self.sector_size;
        if !offset.is_multiple_of(sector_size.bytes() as u64) {
            return Err(GeometryError::Offset {
                offset,
                sector_size,
            });
        }
        if !len.is_multiple_of(sector_size.bytes()) {
            return Err(GeometryError::Length { len, sector_size });
        }
        if offset.checked_add(len as u64).is_none() {
            return Err(GeometryError::Overflow { offset, len });
        }

        if !self.iv_offset.is_multiple_of(self.iv_unit()) {
            return Err(GeometryError::IvOffset {
                iv_offset: self.iv_offset,
                sector_size,
            });
        }

        let (stride, max) = (self.stride(), self.max_number());
        let mut first = (self.iv_offset.wrapping_add(offset / IV_UNIT) / self.iv_unit()) & max;
        let mut left = len / sector_size.bytes();
        let mut numbered = Vec::with_capacity(1);
        while left > 0 {
            // The number of units up to number `max`. It fits in a usize, as it is at most `left`.
            let fitting = ((max - first) / stride).saturating_add(1);
            let units = usize::try_from(fitting).map_or(left, |fitting| fitting.min(left));
            numbered.push(NumberedUnits { first, units });
            first = first.wrapping_add((units as u64).wrapping_mul(stride)) & max;
            left -= units;
        }
        Ok(numbered)
    }
}

/// Consecutive data units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberedUnits {
    /// The number of the first one.
    pub first: u64,
    /// How many there are.
    pub units: usize,
}

/// Why bytes are not data units of a segment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GeometryError {
    /// The first byte is not the start of a sector.
    #[error("byte {offset} is not the beginning of a sector of {sector_size} bytes")]
    Offset {
        /// The first byte.
        offset: u64,
        /// The segment's sector size.
        sector_size: SectorSize,
    },
    /// The last byte is not the end of a sector.
    #[error("{len} bytes are not a whole number of sectors of {sector_size} bytes")]
    Length {
        /// The number of bytes.
        len: usize,
        /// The segment's sector size.
        sector_size: SectorSize,
    },
    /// The bytes end beyond 2⁶⁴.
    #[error("{len} bytes at byte {offset} lie beyond the end of any volume")]
    Overflow {
        /// The first byte.
        offset: u64,
        /// The number of bytes.
        len: usize,
    },
    /// Numbers count sectors, but the IV offset is not a whole number of sectors.
    #[error(
        "an IV offset of {iv_offset} units of 512 bytes is not a whole number of sectors of \
         {sector_size} bytes"
    )]
    IvOffset {
        /// The offset, in 512-byte units.
        iv_offset: u64,
        /// The segment's sector size.
        sector_size: SectorSize,
    },
    /// The engine refuses the run.
    #[error(transparent)]
    Run(#[from] RunError),
}

#[cfg(test)]
mod tests {
    use luxor_engine::{Direction, KeySpec, Mode, Registry, XtsKey};

    use super::*;

    fn geometry(sector_size: SectorSize, iv_offset: u64) -> Geometry {
        Geometry {
            sector_size,
            iv_mode: IvMode::Plain64,
            iv_offset,
            iv_large_sectors: false,
        }
    }

    /// The numbers of all units, in order.
    fn numbers(geometry: &Geometry, offset: u64, units: usize) -> Vec<u128> {
        let mut bytes = vec![0; units * geometry.sector_size.bytes()];
        let runs = geometry.runs(offset, bytes.as_mut_slice()).unwrap();
        assert!(
            runs.iter()
                .all(|run| run.unit_len().get() == geometry.sector_size.bytes())
        );
        runs.iter()
            .flat_map(|run| {
                (0..run.units() as u64).map(|k| run.first().step(k, run.stride()).get())
            })
            .collect()
    }

    #[test]
    fn sizes_are_those_of_luks() {
        for size in SectorSize::ALL {
            let bytes = u32::try_from(size.bytes()).unwrap();
            assert_eq!(SectorSize::try_from(bytes), Ok(size));
            assert_eq!(size.to_string(), bytes.to_string());
            assert!(SectorSize::try_from(bytes + 1).is_err());
        }
        assert_eq!(SectorSize::ALL.map(SectorSize::units), [1, 2, 4, 8]);
        for found in [0, 256, 8192, u32::MAX] {
            assert_eq!(SectorSize::try_from(found), Err(SectorSizeError { found }));
        }
    }

    #[test]
    fn numbers_count_512_bytes_whatever_the_sector_size() {
        for size in SectorSize::ALL {
            let geometry = geometry(size, 7);
            let sector = size.bytes() as u64;
            let expected: Vec<u128> = (10..15).map(|k| u128::from(7 + k * sector / 512)).collect();
            assert_eq!(numbers(&geometry, 10 * sector, 5), expected);
            assert_eq!(
                geometry
                    .runs(10 * sector, vec![0; 5 * size.bytes()].as_mut_slice())
                    .unwrap()
                    .len(),
                1
            );
        }
    }

    /// The numbers by definition: a count of 512-byte units, truncated to the mode's width.
    const MODES: [(IvMode, u64); 2] = [(IvMode::Plain64, u64::MAX), (IvMode::Plain, 0xffff_ffff)];

    #[test]
    fn numbers_start_again_at_0_after_the_greatest() {
        for (iv_mode, max) in MODES {
            for size in SectorSize::ALL {
                let stride = size.units();
                // The wrap at every position within five units, and every remainder of the numbers
                // modulo the stride.
                for before in 0..=5 * stride {
                    let first = 0_u64.wrapping_sub(before) & max;
                    let expected: Vec<u128> = (0..5)
                        .map(|k| u128::from(first.wrapping_add(k * stride) & max))
                        .collect();
                    for (iv_offset, offset) in [
                        (first, 0),
                        (first.wrapping_sub(stride), size.bytes() as u64),
                        // LUKS1 has no IV offset, so there only `offset` can be that large.
                        (0, first.wrapping_mul(512)),
                    ] {
                        if offset / 512 != first.wrapping_sub(iv_offset) & max
                            || !offset.is_multiple_of(size.bytes() as u64)
                        {
                            continue; // no volume has this byte
                        }
                        let geometry = Geometry {
                            iv_mode,
                            ..geometry(size, iv_offset)
                        };
                        let words = format!("{iv_mode}, sectors of {size}, {before} before 0");
                        assert_eq!(numbers(&geometry, offset, 5), expected, "{words}");
                        let mut bytes = vec![0; 5 * size.bytes()];
                        let runs = geometry.runs(offset, bytes.as_mut_slice()).unwrap();
                        let wraps = before > 0 && before <= 4 * stride;
                        assert_eq!(runs.len(), 1 + usize::from(wraps), "{words}");
                    }
                }
            }
        }
    }

    /// Four sectors around byte 2 TiB of a volume, where the two modes begin to differ.
    #[test]
    fn ciphertext_around_the_wrap_agrees_with_the_reference() {
        let key: Vec<u8> = (0..64).collect();
        let loaded = Registry::cpu()
            .best(Mode::Xts)
            .unwrap()
            .load_key(&KeySpec::Xts(XtsKey::new(&key).unwrap()))
            .unwrap();
        let plain: Vec<u8> = (0..4 * 512_u32).map(|i| i.to_le_bytes()[0]).collect();
        for (iv_mode, expected) in [
            (
                IvMode::Plain64,
                [0xffff_fffe, 0xffff_ffff, 0x1_0000_0000, 0x1_0000_0001],
            ),
            (IvMode::Plain, [0xffff_fffe, 0xffff_ffff, 0, 1]),
        ] {
            let geometry = Geometry {
                iv_mode,
                ..geometry(SectorSize::B512, 0)
            };
            let mut bytes = plain.clone();
            let mut runs = geometry
                .runs((2 << 40) - 2 * 512, bytes.as_mut_slice())
                .unwrap();
            loaded.crypt(Direction::Encrypt, &mut runs).unwrap();
            drop(runs);
            let expected: Vec<u8> = expected
                .into_iter()
                .zip(plain.chunks(512))
                .flat_map(|(number, sector)| luxor_reference::xts_encrypt(&key, number, sector))
                .collect();
            assert!(bytes == expected, "{iv_mode}");
        }
    }

    /// As dm-crypt does it: the 64-bit count of 512-byte units is shifted, then truncated to the
    /// mode's width.
    #[test]
    fn large_sectors_are_counted_one_by_one() {
        for (iv_mode, width) in MODES {
            for size in SectorSize::ALL {
                let units = size.units();
                let last = (u64::MAX / units).min(width);
                for before in 0..=6 {
                    // The volume's first byte lies `before` sectors before number 0.
                    let iv_offset = 0_u64.wrapping_sub(before * units);
                    let geometry = Geometry {
                        iv_mode,
                        iv_large_sectors: true,
                        ..geometry(size, iv_offset)
                    };
                    assert_eq!(geometry.stride(), 1);
                    let expected: Vec<u128> = (0..5)
                        .map(|k| {
                            let place = iv_offset.wrapping_add((k + 1) * units);
                            u128::from((place / units) & width)
                        })
                        .collect();
                    let words = format!("{iv_mode}, sectors of {size}, {before} before 0");
                    let found = numbers(&geometry, size.bytes() as u64, 5);
                    assert_eq!(found, expected, "{words}");
                    assert_eq!(before > 1, expected.contains(&last.into()), "{words}");
                }
                // Where a 32-bit number wraps and a 64-bit number does not.
                let geometry = Geometry {
                    iv_mode,
                    iv_large_sectors: true,
                    ..geometry(size, 3 * units)
                };
                let offset = ((1_u64 << 32) - 5) * size.bytes() as u64;
                let first = 0xffff_fffe_u128;
                let expected = [first, first + 1, first + 2, first + 3];
                let expected = expected.map(|number| number & u128::from(width));
                assert_eq!(numbers(&geometry, offset, 4), expected);
            }
        }
    }

    #[test]
    fn large_sectors_are_counted_from_the_beginning_of_one() {
        for size in SectorSize::ALL {
            for iv_offset in 0..=2 * size.units() {
                let geometry = Geometry {
                    iv_large_sectors: true,
                    ..geometry(size, iv_offset)
                };
                let mut buf = vec![0; size.bytes()];
                let runs = geometry.runs(0, buf.as_mut_slice());
                match iv_offset % size.units() {
                    0 => {
                        let number = runs.unwrap()[0].first().get();
                        assert_eq!(number, u128::from(iv_offset / size.units()));
                    }
                    _ => assert_eq!(
                        runs.unwrap_err(),
                        GeometryError::IvOffset {
                            iv_offset,
                            sector_size: size
                        }
                    ),
                }
            }
        }
    }

    #[test]
    fn ciphertext_of_large_sectors_agrees_with_the_reference() {
        let key: Vec<u8> = (0..64).collect();
        let loaded = Registry::cpu()
            .best(Mode::Xts)
            .unwrap()
            .load_key(&KeySpec::Xts(XtsKey::new(&key).unwrap()))
            .unwrap();
        let plain: Vec<u8> = (0..4 * 4096_u32).map(|i| i.to_le_bytes()[1]).collect();
        let offset = (1 << 32) * 4096 - 2 * 4096;
        for (iv_mode, expected) in [
            (
                IvMode::Plain64,
                [0xffff_ffff, 0x1_0000_0000, 0x1_0000_0001, 0x1_0000_0002],
            ),
            (IvMode::Plain, [0xffff_ffff, 0, 1, 2]),
        ] {
            let geometry = Geometry {
                iv_mode,
                iv_large_sectors: true,
                ..geometry(SectorSize::B4096, 8)
            };
            let mut bytes = plain.clone();
            let mut runs = geometry.runs(offset, bytes.as_mut_slice()).unwrap();
            loaded.crypt(Direction::Encrypt, &mut runs).unwrap();
            drop(runs);
            let expected: Vec<u8> = expected
                .into_iter()
                .zip(plain.chunks(4096))
                .flat_map(|(number, sector)| luxor_reference::xts_encrypt(&key, number, sector))
                .collect();
            assert!(bytes == expected, "{iv_mode}");
        }
    }

    #[test]
    fn split_runs_cover_the_bytes_in_order() {
        let geometry = geometry(SectorSize::B512, u64::MAX - 1);
        let input = [[0; 512], [1; 512], [2; 512], [3; 512]].concat();
        let mut output = vec![0; input.len()];
        let buf = InOut::Separate {
            input: &input,
            output: &mut output,
        };
        let mut runs = geometry.runs(0, buf).unwrap();
        assert_eq!(runs.iter().map(Run::units).collect::<Vec<_>>(), [2, 2]);
        for run in &mut runs {
            let bytes = run.buf().input().to_vec();
            run.output().copy_from_slice(&bytes);
        }
        drop(runs);
        assert_eq!(output, input);
    }

    #[test]
    fn no_bytes_give_no_runs() {
        for iv_offset in [0, u64::MAX] {
            let geometry = geometry(SectorSize::B4096, iv_offset);
            assert!(geometry.runs(4096, [].as_mut_slice()).unwrap().is_empty());
        }
    }

    #[test]
    fn unaligned_offsets_and_lengths_are_named() {
        for size in SectorSize::ALL {
            let geometry = geometry(size, 0);
            let bytes = size.bytes();
            let mut buf = vec![0; bytes + 1];
            for (offset, len, expected) in [
                (
                    1,
                    bytes,
                    GeometryError::Offset {
                        offset: 1,
                        sector_size: size,
                    },
                ),
                (
                    bytes as u64 - 1,
                    0,
                    GeometryError::Offset {
                        offset: bytes as u64 - 1,
                        sector_size: size,
                    },
                ),
                (
                    0,
                    bytes - 1,
                    GeometryError::Length {
                        len: bytes - 1,
                        sector_size: size,
                    },
                ),
                (
                    0,
                    bytes + 1,
                    GeometryError::Length {
                        len: bytes + 1,
                        sector_size: size,
                    },
                ),
                (
                    0_u64.wrapping_sub(bytes as u64),
                    bytes,
                    GeometryError::Overflow {
                        offset: 0_u64.wrapping_sub(bytes as u64),
                        len: bytes,
                    },
                ),
            ] {
                assert_eq!(
                    geometry.runs(offset, &mut buf[..len]).unwrap_err(),
                    expected
                );
            }
        }
        let buf = InOut::Separate {
            input: &[0; 512],
            output: &mut [0; 1024],
        };
        let error = geometry(SectorSize::B512, 0).runs(0, buf).unwrap_err();
        assert!(
            matches!(
                error,
                GeometryError::Run(RunError::OutputLen {
                    input: 512,
                    output: 1024
                })
            ),
            "{error}"
        );
    }
}
