// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of a core, a key or a descriptor.

use crate::{registers as reg, transport::TransportError};

/// An error of the driver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// A register or a stream failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The device is not this core.
    #[error(
        "this is not Luxor's core: its ID is {found:#010x}, not {:#010x}",
        reg::ID_VALUE
    )]
    Id {
        /// The value of the register.
        found: u32,
    },
    /// The core has another register map.
    #[error(
        "the core has version {}.{} of the register map, and this program supports {}.{}",
        found >> 16, found & 0xffff, reg::VERSION_VALUE >> 16, reg::VERSION_VALUE & 0xffff
    )]
    Version {
        /// The value of the register.
        found: u32,
    },
    /// The core reports a configuration that does not exist.
    #[error("the core has the configuration {bits:#010x}, which this program does not support")]
    Config {
        /// The value of the register.
        bits: u32,
    },
    /// The core was built without a feature that is needed.
    #[error("the core was built without {what}")]
    Lacks {
        /// The feature in words.
        what: &'static str,
    },
    /// A register did not reach the expected value after many reads.
    #[error("the core has not finished {what} after {polls} reads of a register")]
    NeverEnds {
        /// What the driver waited for.
        what: &'static str,
        /// The number of reads.
        polls: u32,
    },
    /// A register is not 0 after a reset.
    #[error("after a reset, register {register:#05x} is {found} instead of 0")]
    NotReset {
        /// The register's address in bytes.
        register: u16,
        /// Its value.
        found: u32,
    },
    /// No beat came out for too long.
    #[error("the core hangs: no data came out in {cycles} cycles")]
    Hangs {
        /// The number of clock cycles.
        cycles: u64,
    },
    /// The core reports a descriptor as done, but its answer never came.
    #[error("the core reports a descriptor as done, but its data did not arrive")]
    AnswerLost,
    /// The core returned a wrong number of beats.
    #[error("the core returned {found} beats of data instead of {due}")]
    Babbles {
        /// The beats that came out.
        found: u64,
        /// The beats expected.
        due: u64,
    },
    /// A descriptor succeeded, but its answer does not have the length of its packet.
    #[error("the core returned {found} bytes instead of {expected}")]
    AnswerLen {
        /// Bytes of the packet.
        expected: usize,
        /// Bytes of the answer.
        found: usize,
    },
    /// The core reports more descriptors as done than were submitted, or fewer than before.
    #[error(
        "the core reports {head} descriptors as done, but {completed} were done before and {tail} \
         were submitted"
    )]
    Head {
        /// The value of the register.
        head: u32,
        /// Descriptors that were already completed.
        completed: u32,
        /// Descriptors that were submitted.
        tail: u32,
    },
    /// The core reports a descriptor as done, but its status word does not.
    #[error("the core reports a descriptor as done, but its status is {status:#010x}")]
    NotDone {
        /// The status word in the ring.
        status: u32,
    },
    /// The core refused a key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A key could not be cleared from its slot.
    #[error("a key could not be cleared: {cause}")]
    NotCleared {
        /// The error of the attempt.
        cause: Box<DriverError>,
    },
    /// An earlier error was fatal, and there was no reset since.
    #[error("the core failed earlier and has not been reset")]
    Lost,
}

impl DriverError {
    /// Returns whether the core can be trusted only after a reset.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        !matches!(
            self,
            Self::Key(KeyError::Equal | KeyError::Size | KeyError::InUse)
        )
    }
}

/// The error in a descriptor's status: the core did not process the descriptor, or only in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptorError {
    /// The descriptor has no units, or units of 0 bytes.
    #[error("the descriptor has no data units, or units of 0 bytes")]
    NoData,
    /// The units are shorter than one block.
    #[error("the descriptor's data units are shorter than 16 bytes")]
    TooShort,
    /// The units are longer than 2²⁰ blocks (IEEE 1619-2018, 5.1).
    #[error("the descriptor's data units are longer than 2^20 blocks")]
    TooLong,
    /// The key slot does not exist.
    #[error("the core has no such key slot")]
    NoSlot,
    /// The key slot is empty.
    #[error("the key slot is empty")]
    EmptySlot,
    /// The key for this slot was refused because its halves are equal.
    #[error("the data key and the tweak key in the key slot are equal")]
    EqualKeys,
    /// The core was built for the other direction only.
    #[error("the core was not built for this direction")]
    NoCipher,
    /// The mode is ECB, and the units end with a partial block.
    #[error("ECB needs whole blocks")]
    EcbTail,
    /// The packet was too short.
    #[error("the data ended too early")]
    Cut,
    /// The packet was too long.
    #[error("more data arrived than the descriptor describes")]
    Excess,
    /// An address or the length is not a multiple of a beat.
    #[error("an address or the length in the descriptor is not a multiple of a beat")]
    Address,
    /// The bus master could not read the descriptor.
    #[error("the memory answered the read of the descriptor with an error")]
    Fetch,
    /// The bus master could not read the data.
    #[error("the memory answered a read of the data with an error")]
    Read,
    /// The bus master could not write the answer.
    #[error("the memory answered a write of the answer with an error")]
    Write,
    /// A code that this program does not know.
    #[error("the core returned the unknown status {0}")]
    Unknown(u32),
}

impl DescriptorError {
    /// Converts a descriptor's status.
    ///
    /// # Errors
    /// The error that the status states.
    pub fn of_status(status: u32) -> Result<(), Self> {
        Self::of_code(status & 15)?;
        if status & reg::READ_ERROR != 0 {
            return Err(Self::Read);
        }
        if status & reg::WRITE_ERROR != 0 {
            return Err(Self::Write);
        }
        Ok(())
    }

    /// Converts the code in a descriptor's status. 0 is success.
    ///
    /// # Errors
    /// The error with this code, for all codes but 0.
    pub fn of_code(code: u32) -> Result<(), Self> {
        Err(match code {
            0 => return Ok(()),
            1 => Self::NoData,
            2 => Self::TooShort,
            3 => Self::TooLong,
            4 => Self::NoSlot,
            5 => Self::EmptySlot,
            6 => Self::EqualKeys,
            7 => Self::NoCipher,
            8 => Self::EcbTail,
            9 => Self::Cut,
            10 => Self::Excess,
            11 => Self::Address,
            12 => Self::Fetch,
            code => Self::Unknown(code),
        })
    }
}

/// The error of a key command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The data key and the tweak key are equal.
    #[error("the core refuses keys with equal data and tweak keys")]
    Equal,
    /// The slot does not exist.
    #[error("the core has no such key slot")]
    NoSlot,
    /// Descriptors with this key are under way.
    #[error("the key is in use")]
    InUse,
    /// The core was built without keys of this size.
    #[error("the core does not support keys of this size")]
    Size,
    /// A code that this program does not know.
    #[error("the core returned the unknown result {0} for a key command")]
    Unknown(u32),
}

impl KeyError {
    /// Converts the result of a key command. 0 is success.
    ///
    /// # Errors
    /// The error with this code, for all codes but 0.
    pub fn of_code(code: u32) -> Result<(), Self> {
        Err(match code {
            0 => return Ok(()),
            1 => Self::Equal,
            2 => Self::NoSlot,
            3 => Self::InUse,
            4 => Self::Size,
            code => Self::Unknown(code),
        })
    }
}
