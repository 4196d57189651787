// SPDX-License-Identifier: MIT OR Apache-2.0
//! How registers and data get to a core and back.

/// A way to a core: a window of registers and two streams, one into the core and one out
/// of it. On a board these are a mapped BAR and two DMA channels; with the Verilated model
/// they are calls into the simulation.
///
/// Data move in packets of whole beats, those of one descriptor. Both streams run on their
/// own, in the order of their packets, and at the same time, whatever the processor does:
/// the core does not take a packet's end before there is room for the answer's beginning.
pub trait Transport: Send {
    /// Reads a register, by its address in bytes.
    ///
    /// # Errors
    /// [`TransportError`], if the device does not answer within some time of the
    /// transport's own, or answers with an error.
    fn read(&mut self, register: u16) -> Result<u32, TransportError>;

    /// Writes a register, after all earlier reads and writes.
    ///
    /// # Errors
    /// As [`Transport::read`].
    fn write(&mut self, register: u16, value: u32) -> Result<(), TransportError>;

    /// Queues a packet of one or more beats for the core, and room for an answer of the
    /// same length. Returns at once: what the bytes were is kept, and wiped when they are
    /// in the core.
    ///
    /// # Errors
    /// [`TransportError`] in the words of the board's driver.
    fn send(&mut self, packet: &[u8]) -> Result<(), TransportError>;

    /// Takes the next answer out of its room as soon as its last beat is there. Returns
    /// its length in bytes without null beats, which may be less or more than `answer`
    /// has: then what fits is there. `None` after `limit` cycles of the core without it.
    ///
    /// # Errors
    /// [`TransportError`] in the words of the board's driver.
    fn receive(&mut self, answer: &mut [u8], limit: u64) -> Result<Option<usize>, TransportError>;

    /// Stops both streams and wipes all packets and answers that are in them. The core
    /// is reset next.
    ///
    /// # Errors
    /// [`TransportError`] in the words of the board's driver.
    fn abort(&mut self) -> Result<(), TransportError>;
}

/// Why a transport failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// Nobody answered a read or a write.
    #[error("register {register:#05x} does not answer")]
    Dead {
        /// Its address in bytes.
        register: u16,
    },
    /// A read or a write was answered with an error.
    #[error("register {register:#05x} answers with a bus error")]
    Bus {
        /// Its address in bytes.
        register: u16,
    },
    /// Something else, in the words of the board's driver.
    #[error("{0}")]
    Other(String),
}
