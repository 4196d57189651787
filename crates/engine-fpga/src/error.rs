// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be wrong with a core, a key or a descriptor.

use crate::{registers as reg, transport::TransportError};

/// Why the driver could not do something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// No register or no stream.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// It is something else.
    #[error(
        "this is not Luxor's core: its ID is {found:#010x}, not {:#010x}",
        reg::ID_VALUE
    )]
    Id {
        /// What the register says.
        found: u32,
    },
    /// It has other registers.
    #[error(
        "the core has version {}.{} of the register map, and this program supports {}.{}",
        found >> 16, found & 0xffff, reg::VERSION_VALUE >> 16, reg::VERSION_VALUE & 0xffff
    )]
    Version {
        /// What the register says.
        found: u32,
    },
    /// It says of itself what no core is.
    #[error("the core has the configuration {bits:#010x}, which this program does not support")]
    Config {
        /// What the register says.
        bits: u32,
    },
    /// It was built without something that is needed.
    #[error("the core was built without {what}")]
    Lacks {
        /// In words.
        what: &'static str,
    },
    /// A register that was read so often does not become what it must.
    #[error("the core does not come to {what}: {polls} reads of a register say so")]
    NeverEnds {
        /// What was waited for.
        what: &'static str,
        /// Reads.
        polls: u32,
    },
    /// After a reset there is something left.
    #[error("after a reset, register {register:#05x} is {found} instead of 0")]
    NotReset {
        /// Its address in bytes.
        register: u16,
        /// What it says.
        found: u32,
    },
    /// For so long, no beat came out.
    #[error("the core hangs: nothing came out of it in {cycles} cycles")]
    Hangs {
        /// Clock cycles.
        cycles: u64,
    },
    /// A descriptor is done, and its answer never came.
    #[error("the core reports a descriptor as done, but its data did not arrive")]
    AnswerLost,
    /// Other than what went in came out.
    #[error("the core returned {found} beats of data instead of {due}")]
    Babbles {
        /// Beats.
        found: u64,
        /// Beats.
        due: u64,
    },
    /// A descriptor went well, but its answer is shorter or longer than its packet.
    #[error("the core returned {found} bytes for {expected} bytes")]
    AnswerLen {
        /// Bytes.
        expected: usize,
        /// Bytes.
        found: usize,
    },
    /// More descriptors are done than were submitted, or fewer than before.
    #[error(
        "the core reports {head} descriptors as done, after {completed} before, of {tail} \
         submitted"
    )]
    Head {
        /// What the register says.
        head: u32,
        /// Descriptors that were done before.
        completed: u32,
        /// Descriptors that were submitted.
        tail: u32,
    },
    /// A descriptor that is done has no status.
    #[error("the core reports a descriptor as done with the status {status:#010x}")]
    NotDone {
        /// The word in the ring.
        status: u32,
    },
    /// The core refused a key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A key could not be taken out of its slot.
    #[error("a key could not be cleared: {cause}")]
    NotCleared {
        /// Why.
        cause: Box<DriverError>,
    },
    /// There was an error before, and no reset since.
    #[error("the core failed earlier and has not been reset")]
    Lost,
}

impl DriverError {
    /// Whether the core can be trusted only after a reset.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        !matches!(
            self,
            Self::Key(KeyError::Equal | KeyError::Size | KeyError::InUse)
        )
    }
}

/// Why the core did not process a descriptor, or not as it should be: its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptorError {
    /// It has no units, or units of no bytes.
    #[error("the descriptor has no data units, or units of 0 bytes")]
    NoData,
    /// Its units have less than a block.
    #[error("the descriptor's data units are shorter than 16 bytes")]
    TooShort,
    /// Its units have more than 2²⁰ blocks (IEEE 1619-2018, 5.1).
    #[error("the descriptor's data units are longer than 2^20 blocks")]
    TooLong,
    /// It names a key slot that is not there.
    #[error("the core has no such key slot")]
    NoSlot,
    /// Its key slot is empty.
    #[error("the key slot is empty")]
    EmptySlot,
    /// Its key slot is that of a key that was refused.
    #[error("the data key and the tweak key in the key slot are equal")]
    EqualKeys,
    /// The core was built for the other direction only.
    #[error("the core was not built for this direction")]
    NoCipher,
    /// In ECB, its units have part blocks.
    #[error("ECB needs whole blocks")]
    EcbTail,
    /// Its packet was too short.
    #[error("the data ended too early")]
    Cut,
    /// Its packet was too long.
    #[error("more data arrived than the descriptor describes")]
    Excess,
    /// A code that this program does not know.
    #[error("the core returned the unknown status {0}")]
    Unknown(u32),
}

impl DescriptorError {
    /// From the code in a descriptor's status, where 0 is success.
    ///
    /// # Errors
    /// The error that has this code, for all codes but 0.
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
            code => Self::Unknown(code),
        })
    }
}

/// Why the core did not do what a key command says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The data key and the tweak key are the same.
    #[error("the core refuses keys with equal data and tweak keys")]
    Equal,
    /// There is no such slot.
    #[error("the core has no such key slot")]
    NoSlot,
    /// Descriptors with the slot's key are under way.
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
    /// From the result in the register of key commands, where 0 is success.
    ///
    /// # Errors
    /// The error that has this code, for all codes but 0.
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
