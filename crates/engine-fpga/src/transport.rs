// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connection to a core, for registers and data.

/// A connection to a core: a window of registers, a data stream in each direction, and an
/// interrupt. On a board these are a mapped BAR, two DMA channels and a line to the interrupt
/// controller; with the Verilated model they are calls into the simulation.
///
/// Data move in packets of whole beats, one packet for each descriptor. Both streams run by
/// themselves, in the order of their packets and at the same time, whatever the processor does: the
/// core may accept the end of a packet only after it can output the beginning of the answer.
pub trait Transport: Send {
    /// Reads the register at a byte address.
    ///
    /// # Errors
    /// [`TransportError`] if the device does not answer within a time that the transport sets, or
    /// answers with an error.
    fn read(&mut self, register: u16) -> Result<u32, TransportError>;

    /// Writes a register, after all earlier reads and writes.
    ///
    /// # Errors
    /// As [`Transport::read`].
    fn write(&mut self, register: u16, value: u32) -> Result<(), TransportError>;

    /// Queues a packet of one or more beats for the core, and reserves room for an answer of the
    /// same length. Returns at once. The transport keeps a copy of the packet and wipes it when the
    /// core has it.
    ///
    /// # Errors
    /// [`TransportError`] if the board's driver reports an error.
    fn send(&mut self, packet: &[u8]) -> Result<(), TransportError>;

    /// Returns whether [`Transport::send`] has room for a packet of `len` bytes now. Answers that are
    /// received make room.
    fn has_room(&self, len: usize) -> bool {
        let _ = len;
        true
    }

    /// Waits for the last beat of the next answer, and copies the answer. Returns its length in
    /// bytes without null beats. The length may differ from that of `answer`; if it is greater,
    /// only the bytes that fit are copied. Returns `None` if the answer has not come after `limit`
    /// cycles of the core.
    ///
    /// # Errors
    /// [`TransportError`] if the board's driver reports an error.
    fn receive(&mut self, answer: &mut [u8], limit: u64) -> Result<Option<usize>, TransportError>;

    /// Waits until the core's interrupt line is 1, for at most `limit` cycles of the core. Returns
    /// whether it is, or whether it was since the last call: an interrupt that comes between two
    /// calls ends the second one. A transport without interrupts returns `false` at once.
    ///
    /// The line stays at 1 until the caller has cleared the reason in
    /// [`IRQ_STATUS`](crate::registers::IRQ_STATUS), which it does before the next call.
    ///
    /// # Errors
    /// [`TransportError`] if the board's driver reports an error.
    fn wait(&mut self, limit: u64) -> Result<bool, TransportError>;

    /// Stops both streams, and wipes all packets and answers in them. The caller resets the core
    /// next.
    ///
    /// # Errors
    /// [`TransportError`] if the board's driver reports an error.
    fn abort(&mut self) -> Result<(), TransportError>;
}

/// An error of a transport.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// A read or a write was not answered.
    #[error("register {register:#05x} does not answer")]
    Dead {
        /// The register's address in bytes.
        register: u16,
    },
    /// A read or a write was answered with an error.
    #[error("register {register:#05x} answers with a bus error")]
    Bus {
        /// The register's address in bytes.
        register: u16,
    },
    /// Another error, in the words of the board's driver.
    #[error("{0}")]
    Other(String),
}
