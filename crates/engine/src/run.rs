// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs of data units, the unit of work of one call. [`DataUnitLen`] and [`Run`] check all rules
//! about lengths once, when they are made.

use core::fmt;

/// The number of a data unit: the value *i* of IEEE 1619-2007, 5.1, a
/// non-negative 128-bit integer.
///
/// XTS encodes it as 16 little-endian bytes. So does CBC, which uses the result as the IV or
/// encrypts it to the IV. For CTR it is the initial counter block, for OFB and its variants the IV,
/// both as a big-endian integer. ECB ignores it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataUnitNumber(u128);

impl DataUnitNumber {
    /// The number `i`.
    #[must_use]
    pub const fn new(i: u128) -> Self {
        Self(i)
    }

    /// The number as an integer.
    #[must_use]
    pub const fn get(self) -> u128 {
        self.0
    }

    /// The low 64 bits.
    #[expect(clippy::cast_possible_truncation, reason = "the low half")]
    pub(crate) const fn low(self) -> u64 {
        self.0 as u64
    }

    /// Returns the number that is `units` units further on, in steps of `stride`, modulo 2¹²⁸.
    #[must_use]
    pub const fn step(self, units: u64, stride: u64) -> Self {
        // The product of two 64-bit integers fits in 128 bits.
        Self(self.0.wrapping_add(units as u128 * stride as u128))
    }
}

impl From<u64> for DataUnitNumber {
    fn from(i: u64) -> Self {
        Self(i.into())
    }
}

impl From<u128> for DataUnitNumber {
    fn from(i: u128) -> Self {
        Self(i)
    }
}

impl fmt::Display for DataUnitNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The length of a data unit in bytes, from 1 byte to 16 MiB (2²⁰ blocks, the limit of IEEE
/// 1619-2007, 5.1 and SP 800-38E, section 4).
///
/// Each mode accepts only some of these
/// ([`Mode::accepts_unit_len`](crate::Mode::accepts_unit_len)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataUnitLen(u32);

impl DataUnitLen {
    /// 16 MiB.
    pub const MAX: Self = Self(1 << 24);

    /// Makes a length of `bytes` bytes.
    ///
    /// # Errors
    /// [`RunError::UnitLen`] for 0 and for more than [`DataUnitLen::MAX`].
    pub const fn new(bytes: usize) -> Result<Self, RunError> {
        if bytes == 0 || bytes > Self::MAX.get() {
            return Err(RunError::UnitLen { found: bytes });
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most 2²⁴")]
        Ok(Self(bytes as u32))
    }

    /// Makes a length that may exceed [`DataUnitLen::MAX`], which the standards forbid: the
    /// security of XTS falls with the square of the number of blocks under one tweak. It is for the
    /// benchmark of a paper that encrypts one data unit of 128 MiB, and only CPU kernels support
    /// it.
    ///
    /// # Errors
    /// [`RunError::UnitLen`] for 0, and for 4 GiB and more.
    #[doc(hidden)]
    pub const fn beyond_the_standard(bytes: usize) -> Result<Self, RunError> {
        if bytes == 0 || bytes > u32::MAX as usize {
            return Err(RunError::UnitLen { found: bytes });
        }
        #[expect(clippy::cast_possible_truncation, reason = "checked above")]
        Ok(Self(bytes as u32))
    }

    /// The length in bytes.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

/// The bytes to read and where to write the result.
///
/// `Debug` shows the length only, since the bytes may be plaintext.
pub enum InOut<'a> {
    /// The result replaces the input.
    InPlace(&'a mut [u8]),
    /// The result goes to `output`, and `input` stays unchanged. Both have the same length.
    Separate {
        /// The bytes to read.
        input: &'a [u8],
        /// The bytes to write.
        output: &'a mut [u8],
    },
}

impl fmt::Debug for InOut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::InPlace(_) => "InPlace",
            Self::Separate { .. } => "Separate",
        };
        write!(f, "{name}({} bytes)", self.len())
    }
}

impl<'a> InOut<'a> {
    /// The number of bytes.
    ///
    /// For [`InOut::Separate`] this is the length of the input; [`Run::new`] checks that the output
    /// has the same length.
    #[must_use]
    pub fn len(&self) -> usize {
        self.input().len()
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes to process. With [`InOut::InPlace`] these are the results once the run is
    /// finished.
    #[must_use]
    pub fn input(&self) -> &[u8] {
        match self {
            Self::InPlace(buf) => buf,
            Self::Separate { input, .. } => input,
        }
    }

    /// The bytes that the results overwrite.
    pub fn output(&mut self) -> &mut [u8] {
        match self {
            Self::InPlace(buf) => buf,
            Self::Separate { output, .. } => output,
        }
    }

    /// Checks the lengths of an `InOut` that is not part of a [`Run`]; [`Run::new`] has checked the
    /// others.
    ///
    /// # Panics
    /// If input and output differ in length.
    pub(crate) fn assert_one_length(&self) {
        if let Self::Separate { input, output } = self {
            assert_eq!(
                input.len(),
                output.len(),
                "input and output differ in length"
            );
        }
    }

    /// Splits into the parts before byte `mid` and from byte `mid` on.
    ///
    /// # Panics
    /// If `mid` is greater than the length.
    #[must_use]
    pub fn split_at(self, mid: usize) -> (Self, Self) {
        match self {
            Self::InPlace(buf) => {
                let (a, b) = buf.split_at_mut(mid);
                (Self::InPlace(a), Self::InPlace(b))
            }
            Self::Separate { input, output } => {
                let (a, b) = input.split_at(mid);
                let (c, d) = output.split_at_mut(mid);
                (
                    Self::Separate {
                        input: a,
                        output: c,
                    },
                    Self::Separate {
                        input: b,
                        output: d,
                    },
                )
            }
        }
    }

    /// Borrows the same bytes for a shorter lifetime.
    pub fn reborrow(&mut self) -> InOut<'_> {
        match self {
            Self::InPlace(buf) => InOut::InPlace(buf),
            Self::Separate { input, output } => InOut::Separate { input, output },
        }
    }
}

impl<'a> From<&'a mut [u8]> for InOut<'a> {
    fn from(buf: &'a mut [u8]) -> Self {
        Self::InPlace(buf)
    }
}

/// Consecutive data units under one key.
///
/// Unit *k* of the run has the number `first + k · stride` (modulo 2¹²⁸). All units have one
/// length; a shorter last unit needs a run of its own. Ciphertext stealing happens exactly when the
/// unit length is not a multiple of 16.
///
/// In CTR the number of a unit is its initial counter block, so one long message cut into units of
/// `n` blocks needs a stride of `n`. In OFB each unit is a message with its number as the IV. In
/// CBC each unit is a chain with the IV made from its number ([`CbcKey`](crate::CbcKey)). In ECB
/// the numbers have no effect.
///
/// ```
/// use luxor_engine::{DataUnitLen, DataUnitNumber, Run};
///
/// // Eight 512-byte sectors of a disk, the first of which is sector 40.
/// let mut sectors = vec![0; 8 * 512];
/// let run = Run::new(DataUnitNumber::from(40_u64), 1, DataUnitLen::new(512)?, sectors.as_mut_slice())?;
/// assert_eq!(run.units(), 8);
/// # Ok::<(), luxor_engine::RunError>(())
/// ```
#[derive(Debug)]
pub struct Run<'a> {
    first: DataUnitNumber,
    stride: u64,
    unit_len: DataUnitLen,
    buf: InOut<'a>,
    /// For a part of a unit, see [`Run::unit_offset`].
    part_offset: Option<usize>,
}

impl<'a> Run<'a> {
    /// Makes a run over `buf`. Its units of `unit_len` bytes are numbered from `first` in steps of
    /// `stride`. An empty `buf` is a run of zero units.
    ///
    /// # Errors
    /// [`RunError::PartUnit`] if the length of `buf` is not a multiple of `unit_len`,
    /// [`RunError::OutputLen`] if input and output differ in length.
    pub fn new(
        first: DataUnitNumber,
        stride: u64,
        unit_len: DataUnitLen,
        buf: impl Into<InOut<'a>>,
    ) -> Result<Self, RunError> {
        let buf = buf.into();
        if let InOut::Separate { input, output } = &buf
            && input.len() != output.len()
        {
            return Err(RunError::OutputLen {
                input: input.len(),
                output: output.len(),
            });
        }
        if !buf.len().is_multiple_of(unit_len.get()) {
            return Err(RunError::PartUnit {
                len: buf.len(),
                unit_len: unit_len.get(),
            });
        }
        Ok(Self {
            first,
            stride,
            unit_len,
            buf,
            part_offset: None,
        })
    }

    /// The number of the first unit.
    #[must_use]
    pub fn first(&self) -> DataUnitNumber {
        self.first
    }

    /// The difference between the numbers of two neighbouring units.
    #[must_use]
    pub fn stride(&self) -> u64 {
        self.stride
    }

    /// The length of each unit.
    #[must_use]
    pub fn unit_len(&self) -> DataUnitLen {
        self.unit_len
    }

    /// The number of bytes of the data unit that come before the run, a multiple of 16. It is 0, except for a
    /// part of a long unit, whose length counts as the unit's. [`Executor`](crate::Executor) makes such parts
    /// for a key that [takes them](crate::LoadedKey::takes_parts_of_units).
    #[must_use]
    pub fn unit_offset(&self) -> usize {
        self.part_offset.unwrap_or(0)
    }

    /// Whether the run is a part of a unit, which may be its first.
    #[cfg(feature = "std")]
    pub(crate) fn is_part(&self) -> bool {
        self.part_offset.is_some()
    }

    /// The number of units.
    #[must_use]
    pub fn units(&self) -> usize {
        self.buf.len() / self.unit_len.get()
    }

    /// The number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buf.len()
    }

    /// Whether there are no units.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buf.is_empty()
    }

    /// The bytes, for reading.
    #[must_use]
    pub fn buf(&self) -> &InOut<'a> {
        &self.buf
    }

    /// The bytes, for a backend to read and write.
    ///
    /// Returns them by value, not as `&mut InOut`: kernels rely on the lengths that [`Run::new`]
    /// checked, so a caller must not be able to replace the buffers.
    ///
    /// ```compile_fail,E0614
    /// # use luxor_engine::{DataUnitLen, DataUnitNumber, InOut, Run};
    /// # let (mut bytes, mut short) = ([0; 512], [0; 16]);
    /// # let unit = DataUnitLen::new(512).unwrap();
    /// let mut run = Run::new(DataUnitNumber::new(0), 1, unit, bytes.as_mut_slice()).unwrap();
    /// *run.io() = InOut::Separate { input: &[0; 512], output: &mut short };
    /// ```
    pub fn io(&mut self) -> InOut<'_> {
        self.buf.reborrow()
    }

    /// The bytes that the results overwrite.
    pub fn output(&mut self) -> &mut [u8] {
        self.buf.output()
    }

    /// Splits into the first `units` units and the rest.
    ///
    /// # Panics
    /// If the run has fewer than `units` units.
    #[must_use]
    pub fn split_at(self, units: usize) -> (Self, Self) {
        // Checked before `units * unit_len`, which could wrap.
        assert!(
            units <= self.units(),
            "{units} of {} data units",
            self.units()
        );
        let Self {
            first,
            stride,
            unit_len,
            buf,
            part_offset,
        } = self;
        let (a, b) = buf.split_at(units * unit_len.get());
        let second = first.step(units as u64, stride);
        (
            Self {
                first,
                stride,
                unit_len,
                buf: a,
                part_offset,
            },
            Self {
                first: second,
                stride,
                unit_len,
                buf: b,
                part_offset,
            },
        )
    }

    /// Splits a run of one unit within this unit: into its first `len` bytes, a multiple of 16, and the rest.
    ///
    /// # Panics
    /// If there is not one unit, or a part is empty.
    #[cfg(feature = "std")]
    pub(crate) fn split_unit(self, len: usize) -> (Self, Self) {
        assert!(self.units() == 1 && len.is_multiple_of(16));
        let offset = self.unit_offset();
        let part = |buf: InOut<'a>, begin| Self {
            unit_len: DataUnitLen::beyond_the_standard(buf.len()).expect("it is shorter"),
            part_offset: Some(offset + begin),
            buf,
            ..self
        };
        let (a, b) = self.buf.split_at(len);
        (part(a, 0), part(b, len))
    }

    /// As [`Run::reborrow`], with another number of the first unit, and as whole units.
    pub(crate) fn numbered_from(&mut self, first: DataUnitNumber) -> Run<'_> {
        Run {
            first,
            part_offset: None,
            ..self.reborrow()
        }
    }

    /// Borrows the same run for a shorter lifetime.
    pub fn reborrow(&mut self) -> Run<'_> {
        Run {
            first: self.first,
            stride: self.stride,
            unit_len: self.unit_len,
            part_offset: self.part_offset,
            buf: self.buf.reborrow(),
        }
    }
}

/// Why a run or a unit length was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A data unit of zero bytes, or of more than 2²⁰ blocks.
    #[error(
        "a data unit cannot have {found} bytes: it must have 1 to 16777216 (2^20 blocks, the \
         limit of IEEE 1619 and SP 800-38E)"
    )]
    UnitLen {
        /// Bytes asked for.
        found: usize,
    },
    /// The length of the run is not a multiple of the unit length.
    #[error("{len} bytes are not a whole number of data units of {unit_len} bytes")]
    PartUnit {
        /// Bytes in the run.
        len: usize,
        /// Bytes in a unit.
        unit_len: usize,
    },
    /// Input and output differ in length.
    #[error("the input has {input} bytes, the output {output}")]
    OutputLen {
        /// Bytes of input.
        input: usize,
        /// Bytes of output.
        output: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_step_across_every_carry() {
        for (first, stride, units, expected) in [
            (0, 8, 3, 24),
            (u128::from(u32::MAX), 1, 1, 1 << 32),
            (u128::from(u64::MAX), 1, 1, 1 << 64),
            (u128::MAX, 1, 1, 0),
            (u128::MAX, u64::MAX, 2, 2 * u128::from(u64::MAX) - 1),
        ] {
            assert_eq!(
                DataUnitNumber::new(first).step(units, stride).get(),
                expected
            );
        }
    }

    #[test]
    fn a_run_has_whole_units_of_a_lawful_length() {
        assert!(DataUnitLen::new(0).is_err());
        assert!(DataUnitLen::new(1).is_ok());
        assert!(DataUnitLen::new(1 << 24).is_ok());
        assert!(DataUnitLen::new((1 << 24) + 1).is_err());

        let unit = DataUnitLen::new(17).unwrap();
        for len in 0..=100 {
            let mut bytes = [0; 100];
            let run = Run::new(DataUnitNumber::new(0), 1, unit, &mut bytes[..len]);
            match run {
                Ok(run) => assert_eq!(run.units() * 17, len),
                Err(e) => {
                    assert_ne!(len % 17, 0);
                    assert_eq!(e, RunError::PartUnit { len, unit_len: 17 });
                }
            }
        }
        let mut output = [0; 16];
        let buf = InOut::Separate {
            input: &[0; 17],
            output: &mut output,
        };
        let error = Run::new(DataUnitNumber::new(0), 1, unit, buf).unwrap_err();
        assert_eq!(
            error,
            RunError::OutputLen {
                input: 17,
                output: 16
            }
        );
    }

    /// The bytes with the values `begin` to `end - 1`.
    fn is_range(buf: &InOut<'_>, begin: usize, end: usize) -> bool {
        buf.input()
            .iter()
            .map(|&byte| usize::from(byte))
            .eq(begin..end)
    }

    #[test]
    fn splitting_keeps_numbers_and_bytes() {
        for (unit_len, units) in (1..=17).flat_map(|len| (0..=4).map(move |units| (len, units))) {
            let mut bytes: [u8; 68] = core::array::from_fn(|i| u8::try_from(i).unwrap());
            let unit = DataUnitLen::new(unit_len).unwrap();
            let first = DataUnitNumber::new(u128::MAX - 8);
            for mid in 0..=units {
                let buf = &mut bytes[..units * unit_len];
                let (a, b) = Run::new(first, 8, unit, buf).unwrap().split_at(mid);
                assert_eq!((a.first(), b.stride(), b.unit_len()), (first, 8, unit));
                let numbers = [u128::MAX - 8, u128::MAX, 7, 15, 23];
                assert_eq!(b.first().get(), numbers[mid]);
                assert!(is_range(a.buf(), 0, mid * unit_len));
                assert_eq!((a.units(), b.units()), (mid, units - mid));
                let begin = mid * unit_len;
                assert!(is_range(b.buf(), begin, units * unit_len));
            }
        }
    }

    #[cfg(feature = "std")]
    #[test]
    fn parts_of_a_unit_keep_its_number_and_know_their_place() {
        for len in 17..=80 {
            for (first, second) in (16..len).step_by(16).flat_map(|first| {
                let seconds = (16..len - first).step_by(16);
                seconds.map(move |second| (first, second))
            }) {
                let mut bytes: [u8; 80] = core::array::from_fn(|i| u8::try_from(i).unwrap());
                let unit = DataUnitLen::new(len).unwrap();
                let run = Run::new(DataUnitNumber::new(5), 3, unit, &mut bytes[..len]).unwrap();
                assert!(!run.is_part());
                let (a, rest) = run.split_unit(first);
                let (b, c) = rest.split_unit(second);
                let places = [
                    (0, first),
                    (first, second),
                    (first + second, len - first - second),
                ];
                for (part, (offset, len)) in [a, b, c].iter().zip(places) {
                    assert!(part.is_part());
                    assert_eq!((part.unit_offset(), part.unit_len().get()), (offset, len));
                    assert_eq!((part.units(), part.first().get(), part.stride()), (1, 5, 3));
                    assert!(is_range(part.buf(), offset, offset + len));
                }
            }
        }
    }

    #[test]
    fn splitting_stops_at_the_end() {
        let unit = DataUnitLen::new(16).unwrap();
        let split = |units| {
            let mut bytes = [0; 80];
            let run = Run::new(DataUnitNumber::new(0), 1, unit, bytes.as_mut_slice()).unwrap();
            let (a, b) = run.split_at(units);
            (a.units(), b.units())
        };
        assert_eq!(split(5), (5, 0));
        // For the last two, the product in bytes is 0 and 16 modulo 2⁶⁴.
        for units in [6, usize::MAX, 1 << 60, (1 << 60) + 1] {
            assert!(
                std::panic::catch_unwind(|| split(units)).is_err(),
                "{units}"
            );
        }
    }

    #[test]
    fn borrowed_buffers_still_belong_to_the_run() {
        let mut bytes = [0; 32];
        let unit = DataUnitLen::new(16).unwrap();
        let mut run = Run::new(DataUnitNumber::new(0), 1, unit, bytes.as_mut_slice()).unwrap();
        let (_, tail) = run.io().split_at(16);
        assert_eq!(tail.len(), 16);
        run.output()[31] = 7;
        assert_eq!((run.len(), run.units()), (32, 2));
        assert_eq!(bytes[31], 7);
    }

    #[test]
    fn debug_shows_no_bytes() {
        let mut bytes = [0xab_u8; 32];
        let unit = DataUnitLen::new(16).unwrap();
        let run = Run::new(DataUnitNumber::new(5), 1, unit, &mut bytes[..]).unwrap();
        let shown = alloc::format!("{run:?}");
        assert!(shown.contains("InPlace(32 bytes)"), "{shown}");
        assert!(!shown.contains("171"), "{shown}");
    }
}
